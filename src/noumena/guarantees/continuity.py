"""Continuity: the differences of a decoder are the integrals of its Jacobian, or derivatives do not tell what it does.

A decoder that jumps, rounds, or hides a dependence from its derivatives (``detach``) has Jacobians that a theorem can
be read on and latents that it says nothing about. Along segments between points the difference of the observations is
compared with the integral of the Jacobian, by Gauss–Legendre panels that are halved where the two differ: kinks and
steep slopes are resolved, jumps and hidden dependence stay.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn

from noumena import seeds
from noumena.derivatives import Map
from noumena.derivatives.strength import jacobians, spread
from noumena.estimators.codec import Codec, Decoder
from noumena.estimators.refit.masked import MaskedDecoder
from noumena.guarantees.hypotheses import CONTINUOUS, Hypothesis
from noumena.guarantees.injectivity import _kind

CONTINUOUS_KINDS = ("affine", "rectifier", "kinked", "increasing", "curved")
"""Kinds of layers that are continuous, and whose derivatives hide nothing."""
SEGMENTS = 96
"""Segments between points, a third of them between neighbours."""
NODES, WEIGHTS = (torch.as_tensor(v) for v in np.polynomial.legendre.leggauss(5))
PANELS = 4
"""Panels that every segment begins with."""
HALVINGS = 22
PATIENCE = 7
"""Halvings within which what is missed along a segment must fall to half, or it is there to stay."""
MISSED = 2e-4
"""What may be missed along a segment, in spreads of an observation."""
COARSE = 0.06
"""The same of a decoder in half precision; no other may miss as much."""
FOLLOWED = 8
"""Segments that must have been followed to their end, or half of them where there are fewer than twice as many; else
nothing is concluded. Those that miss the most come first, and those given up for their cost are no evidence."""
SETTLED = 0.02
"""Panels are halved while they miss more than this share of it."""
MOST_PANELS = 1024
"""Panels of one step; of a decoder with more kinks than that, the segments that miss the most are followed."""
ENTRIES = 2**22
"""Entries of Jacobians at all nodes of one step, which bounds the segments of wide decoders."""


def continuous_by_layers(decoder: Any) -> Hypothesis | None:
    """That a network is continuous, where each of its layers is one of torch's that is, as it came, without hooks;
    ``None`` where something in it may do anything.

    >>> from torch import nn
    >>> continuous_by_layers(nn.Sequential(nn.Linear(1, 2), nn.LeakyReLU())).answer
    'holds'
    >>> continuous_by_layers(torch.round) is None, continuous_by_layers(nn.Sequential(nn.Hardshrink())) is None
    (True, True)
    """
    layers = _opened(decoder)
    if not layers or any(layer is None for layer in layers):
        return None
    names = ", ".join(sorted({type(layer).__name__ for layer in layers}))
    return Hypothesis(CONTINUOUS, "holds", f"every layer is continuous: {names}")


def _opened(module: Any) -> list[nn.Module | None]:
    """The layers of a network, ``None`` in place of what is not known to be continuous."""
    plain = isinstance(module, nn.Module) and "forward" not in vars(module)
    if not plain or module._forward_hooks or module._forward_pre_hooks:
        return [None]
    if type(module) is Decoder and type(module.codec).decode is Codec.decode:
        return _opened(module.codec.decoder)  # followed by a change of units
    if type(module) is MaskedDecoder:
        return _opened(module.decoder)
    if type(module).forward is nn.Sequential.forward:
        return [layer for child in module.children() for layer in _opened(child)]
    return [module if _kind(module) in CONTINUOUS_KINDS else None]


def followed(
    decoder: Map, points: Float[Tensor, "point latent"], *, resolution: float = 1e-9
) -> tuple[Hypothesis, Tensor | None]:
    """Whether differences of a decoder between points are the integrals of its Jacobian, and the largest entries
    ``(observed, latent)`` of that which were met on the way: a dependence may have been put where no point lies."""
    x = _called(decoder, points[:2])
    n_observed = 1 if x is None else x.shape[1]
    most = max(4, min(SEGMENTS, ENTRIES // (len(NODES) * PANELS * n_observed * points.shape[1])))
    tolerance = max(MISSED, min(30 * resolution, COARSE))
    largest: list[Tensor] = []
    try:
        missed = _missed(decoder, *segments(points, most), points, tolerance, largest)
    except Exception as error:  # whatever a decoder raises away from the points that it was given with
        words = (str(error).strip() or type(error).__name__).splitlines()[0]
        evidence = f"between the points the decoder cannot be differentiated: {words}"
        return Hypothesis(CONTINUOUS, "unknown", evidence), None
    met = largest[0] if largest else None
    whole = torch.isfinite(missed)
    if not bool(whole.any()):
        return Hypothesis(CONTINUOUS, "unknown", "between points the decoder is not a number"), met
    worst, broken = float(missed[whole].max()), int((missed[whole] > tolerance).sum())
    if broken:
        evidence = (
            f"along {broken} of {int(whole.sum())} segments between points its differences are not the integrals of "
            f"its Jacobian, by up to {worst:.2g} spreads: it jumps, or hides a dependence from its derivatives"
        )
        return Hypothesis(CONTINUOUS, "fails", evidence), met
    if int(whole.sum()) < min(FOLLOWED, (len(whole) + 1) // 2):
        evidence = f"only {int(whole.sum())} of {len(whole)} segments between points could be followed to their end"
        return Hypothesis(CONTINUOUS, "unknown", evidence), met
    evidence = (
        f"along {int(whole.sum())} segments between points its differences are the integrals of its Jacobian, "
        f"to {max(worst, 1e-16):.0e} spreads"
    )
    return Hypothesis(CONTINUOUS, "supported", evidence), met


def segments(points: Float[Tensor, "point latent"], most: int) -> tuple[Tensor, Tensor]:
    """Ends of segments: the least and the greatest point of every latent, random pairs, and neighbours."""
    n = len(points)
    generator = seeds.generator(0, "segments between points")
    ends = torch.stack([points.argmin(dim=0), points.argmax(dim=0)], dim=1)[: most // 3].cpu()
    pairs = torch.randint(0, n, (max(1, most - most // 3 - len(ends)), 2), generator=generator)
    some = torch.randint(0, n, (most // 3,), generator=generator)
    size = spread(points)
    apart = torch.cdist(points[some] / size, points / size)
    near = torch.where(apart > 0, apart, torch.inf).argmin(dim=1).cpu()
    chosen = torch.cat([ends, pairs, torch.stack([some, near], dim=1)])
    chosen = chosen[chosen[:, 0] != chosen[:, 1]]
    return points[chosen[:, 0]], points[chosen[:, 1]]


def _called(decoder: Map, z: Tensor) -> Tensor | None:
    try:
        with torch.no_grad():
            return decoder(z.clone())
    except Exception:  # it is told when the decoder is called in earnest
        return None


def _missed(
    decoder: Map, start: Tensor, stop: Tensor, points: Tensor, tolerance: float, largest: list[Tensor]
) -> Tensor:
    """The most that the integral misses along every segment, in spreads of the observations; NaN where it is none.

    ``largest`` is given the largest entries of the Jacobian at the nodes of every step.
    """
    with torch.no_grad():
        x = decoder(points.clone())
    still = x.abs().amax(dim=0).clamp_min(torch.finfo(x.dtype).tiny)
    size = torch.where(x.std(dim=0) > 0, spread(x), still)
    n = len(start)
    edges = torch.linspace(0, 1, PANELS + 1, dtype=start.dtype, device=start.device)
    of = torch.arange(n, device=start.device).repeat_interleave(PANELS)
    low, high = edges[:-1].repeat(n), edges[1:].repeat(n)
    settled = torch.zeros(n, len(size), dtype=start.dtype, device=start.device)
    history: list[Tensor] = []
    most = max(4 * PANELS, min(MOST_PANELS, ENTRIES // (len(NODES) * len(size) * start.shape[1])))
    going_on = torch.ones(n, dtype=torch.bool, device=start.device)
    for _ in range(HALVINGS):
        left = _left(decoder, start, stop, (of, low, high), largest) / size
        total = settled.index_add(0, of, left).abs().amax(dim=1)
        history.append(total)
        going = (total > tolerance) & torch.isfinite(total) & going_on
        if len(history) > PATIENCE + 2:  # a kink may be missed by little once, where it lies well between nodes
            going &= total <= 0.5 * torch.stack(history[-PATIENCE - 3 : -PATIENCE]).amax(dim=0)
        active = going[of] & (left.abs().amax(dim=1) > SETTLED * tolerance)
        if int(active.sum()) > most:
            dropped = going & ~_worst(total, torch.bincount(of[active], minlength=n), most)
            going_on &= ~dropped
            active &= going_on[of]
        if not bool(active.any()):
            break
        settled = settled.index_add(0, of[~active], left[~active])
        middle = (low[active] + high[active]) / 2
        of, low, high = of[active].repeat(2), torch.cat([low[active], middle]), torch.cat([middle, high[active]])
    least = torch.stack(history).nan_to_num(torch.inf).amin(dim=0)
    return least.where(torch.isfinite(history[0]) & (going_on | (least <= tolerance)), torch.nan)


def _worst(total: Tensor, panels: Tensor, most: int) -> Tensor:
    """Which segments are followed on, those that miss the most first, so that they have at most so many panels."""
    order = torch.argsort(total, descending=True)
    kept = panels[order].cumsum(0) <= max(most, int(panels[order[0]]))
    return torch.zeros_like(total, dtype=torch.bool).index_put((order[kept],), torch.tensor(True, device=total.device))


def _left(
    decoder: Map, start: Tensor, stop: Tensor, panels: tuple[Tensor, Tensor, Tensor], largest: list[Tensor]
) -> Tensor:
    """What the difference of the observations over every panel is beyond the integral of the Jacobian."""
    of, low, high = panels
    way, nodes, weights = (stop - start)[of], NODES.to(low), WEIGHTS.to(low)
    at = low[:, None] + (high - low)[:, None] * (nodes + 1) / 2
    z = (start[of][:, None] + at[:, :, None] * way[:, None]).flatten(0, 1)
    with torch.no_grad():
        difference = decoder(start[of] + high[:, None] * way) - decoder(start[of] + low[:, None] * way)
    along = way.repeat_interleave(len(nodes), dim=0)
    parts, done = [], 0
    for J in jacobians(decoder, z, difference.shape[1]):
        parts.append((J @ along[done : done + len(J), :, None])[:, :, 0])
        done += len(J)
        largest[:] = [torch.stack([J.abs().nan_to_num(0.0, 0.0).amax(dim=0), *largest]).amax(dim=0)]
    slopes = torch.cat(parts).unflatten(0, (-1, len(nodes)))
    return difference - (high - low)[:, None] / 2 * torch.einsum("k,pko->po", weights, slopes)
