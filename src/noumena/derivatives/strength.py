"""Strength: by how much a typical move of a latent moves an observation, and at how many points a wide decoder is
asked."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from noumena import checks
from noumena.derivatives.jacobians import jacobian

ENTRIES = 2**24
"""Entries of Jacobians, points × observed × latents, that a wide decoder's structure is read off from."""
GAUSSIAN_MIDDLE = 1.349
"""Deviations of a Gaussian between its quartiles."""
AT_ONCE = 2**20
"""Entries of Jacobians that a wide decoder is differentiated for at once."""


def within(points: int, n_observed: int, n_latents: int, *, entries: int | None = None) -> int:
    """How many of these points a decoder is asked at so that its Jacobians have at most so many entries, ``ENTRIES`` by
    default; at least two.

    >>> within(512, 64, 10), within(512, 12288, 20), within(512, 12288, 20, entries=2**10)
    (512, 68, 2)
    """
    return min(points, max(2, (ENTRIES if entries is None else entries) // (n_observed * n_latents)))


def relative_strength(decoder: Callable, z: Any) -> np.ndarray:
    """``mean_b |∂x_i/∂z_j| · sd(z_j) / sd(x_i)`` of a decoder at points, as an ``(observed, latent)`` array.

    Jacobians of more than half of ``ENTRIES`` are never held together: they are taken a few points at a time.
    """
    points = points_of(z).detach()
    with torch.no_grad():
        x = decoder(points.clone())
    if x.ndim == 2 and x.numel() * points.shape[1] > ENTRIES // 2:
        sizes = (J.abs().sum(dim=0, keepdim=True) for J in jacobians(decoder, points, x.shape[1]))
        size = torch.as_tensor(sum(sizes)) / len(points)
    else:
        size = jacobian(decoder, points).detach()
    return shares(size, points, x).double().cpu().numpy()


def points_of(z: Any) -> Tensor:
    """Points at which a structure is read off, as a tensor."""
    points = z if isinstance(z, Tensor) else torch.as_tensor(checks.table(z, "z", min_rows=2))
    checks.require(len(points) >= 2, "A structure is read off at two points or more.", f"{len(points)}")
    return points


def jacobians(decoder: Callable, z: Tensor, n_observed: int) -> Iterator[Tensor]:
    """The Jacobians (batch, observed, latent) at points, of a wide decoder a few points at a time."""
    for points in z.split(max(1, AT_ONCE // (n_observed * z.shape[1]))):
        yield jacobian(decoder, points).detach()


def spread(v: Float[Tensor, "batch column"]) -> Float[Tensor, " column"]:
    """How far a column typically spreads: its deviation, or that of a Gaussian with its middle half where that is less,
    so that no few rows, however large, make all else small; 1 for a column that never varies.

    >>> v = torch.cat([torch.linspace(-1, 1, 99), torch.tensor([1e9])])[:, None]
    >>> spread(v) < 1
    tensor([True])
    """
    deviation = v.std(dim=0)
    order = v.sort(dim=0).values
    middle = (order[(3 * (len(v) - 1) + 3) // 4] - order[(len(v) - 1) // 4]) / GAUSSIAN_MIDDLE
    least = torch.where((middle > 0) & (middle < deviation), middle, deviation)
    return torch.where(least > 0, least, 1.0)


def shares(
    J: Float[Tensor, "point observed latent"], z: Float[Tensor, "batch latent"], x: Float[Tensor, "batch observed"]
) -> Float[Tensor, "observed latent"]:
    """``mean_b |J_ij| · sd(z_j) / sd(x_i)``: the share of an observation's spread that a latent's typical move makes.

    Zero exactly where no point has a dependency; free of the units of ``z`` and ``x``.

    >>> z = torch.tensor([[0.0], [1.0]])
    >>> shares(torch.full((2, 1, 1), 3.0), z, 3 * z)
    tensor([[1.]])
    """
    spread = x.std(dim=0).clamp_min(torch.finfo(x.dtype).tiny)
    return J.abs().mean(dim=0) * z.std(dim=0)[None, :] / spread[:, None]
