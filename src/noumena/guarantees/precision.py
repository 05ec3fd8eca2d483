"""Precision: how finely a decoder computes, whatever precision it is given and answers in, and points in one order."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from noumena import seeds
from noumena.derivatives import Map
from noumena.derivatives.strength import jacobians, within

STEPS = ((1e-9, 1e-9), (1e-4, 1e-5), (0.0, 3e-2))
"""A decoder whose slopes over a step of so many spreads are its slopes in the large resolves the second number."""
LARGE = 1e-2
"""The step, in spreads, of slopes in the large; that they may not be the derivatives is what continuity asks."""
OFF = 0.1
"""How far slopes over two steps may be apart, as a share of them."""
PROBES = 32
ENTRIES = 2**21
EXACT = {1e-9: 1e-6, 1e-5: 1e-4, 3e-2: 1e-2}
"""Beside what is resolved, the strength below which an entry is zero up to rounding."""


def resolution_of(decoder: Map, points: Tensor) -> float:
    """What a decoder resolves: 1e-9 in double precision, 1e-5 where it computes in single precision, 0.03 in half.

    >>> z = torch.linspace(1, 2, 40, dtype=torch.float64)[:, None]
    >>> resolution_of(torch.sin, z), resolution_of(lambda z: z.float().sin().double(), z)
    (1e-09, 1e-05)
    """
    with torch.no_grad():
        x = decoder(points[:2].clone())
    z = points[: within(PROBES, x.shape[1], points.shape[1], entries=ENTRIES)]
    signs = torch.randint(0, 2, z.shape, generator=seeds.generator(0, "precision")).to(z) * 2 - 1
    way = signs * torch.where(points.std(dim=0) > 0, points.std(dim=0), 1.0)
    J = torch.cat(list(jacobians(decoder, z, x.shape[1])))
    large = _slopes(decoder, z, way, LARGE)
    for step, resolved in STEPS[:-1]:
        fine = _slopes(decoder, z, way, step)
        references = ((J @ way[:, :, None])[:, :, 0], large, *(_slopes(decoder, z, way, k * step) for k in (10, 1000)))
        alike = torch.stack([_alike(fine, reference) for reference in references]).any(dim=0)
        if bool((alike & _seen(fine, large)).all()):
            return resolved
    return STEPS[-1][1]


def _slopes(decoder: Map, z: Tensor, way: Tensor, step: float) -> Tensor:
    """Differences of the observations over a step, by its length."""
    with torch.no_grad():
        return (decoder(z + step * way) - decoder(z.clone())) / step


def _alike(fine: Tensor, reference: Tensor) -> Tensor:
    """Observations whose slopes are those of a reference at most points."""
    return (fine - reference).abs().median(dim=0).values <= OFF * reference.abs().mean(dim=0)


def _seen(fine: Tensor, large: Tensor) -> Tensor:
    """Observations that a small step moves about as often as a large one: rounding swallows most small steps."""
    return 2 * (fine != 0).sum(dim=0) >= (large != 0).sum(dim=0)


def rounding(resolution: float) -> float:
    """The relative strength below which an entry is zero up to rounding, for what a decoder resolves."""
    return EXACT[min(EXACT, key=lambda known: abs(np.log(known / resolution)))]


def in_order(points: Tensor) -> Tensor:
    """Points shuffled in a way that does not depend on the order, or the units, that they came in."""
    order = np.lexsort(points.detach().cpu().numpy().T[::-1])
    shuffled = torch.randperm(len(points), generator=seeds.generator(0, "rows of points"))
    return points[torch.as_tensor(order.copy(), device=points.device)][shuffled]
