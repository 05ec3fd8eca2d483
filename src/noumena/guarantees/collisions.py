"""Collisions: two latent points with the same observations, which show that a decoder cannot be undone.

Theorems on latents assume an invertible decoder. Of one that somebody brought nobody knows it; here it is put to the
test: its Jacobians must have full rank, and from points whose observations are suspiciously near to those of a point
far away, Newton's steps try to meet them exactly.
"""

from __future__ import annotations

import torch
from torch import Tensor

from noumena import seeds
from noumena.derivatives import Map
from noumena.derivatives.strength import jacobians, spread, within
from noumena.guarantees.hypotheses import INVERTIBLE, Hypothesis

SINGULAR = 1e-8
"""A Jacobian with columns of one length has full rank when its singular values are this much of the largest."""
SINGLY = 1e-8
"""A decoder that resolves no more than this computes in single precision."""
SINGLE = 1e3
"""How much larger the tolerances are for decoders that compute in single precision whatever they are given."""
TINY, ROUGH = 1e-7, 4.0
"""A step, in spreads, over which nothing smooth bends; and how many times what observations scatter over it two may be
apart and still be the same."""
COMPARED = 1024
"""Points whose observations are compared."""
STARTS = 64
"""Pairs that Newton's steps start from, those that are nearest in observations for how far they are in latents."""
STEPS = 20
PATIENCE = 3
"""Steps after which one must halve what is missed for another to follow."""
APART = 0.01
"""How far apart, in spreads, points must be for the same observations to count."""
SAME = 1e-9
"""How near, in spreads, observations must come to be the same;"""
COARSE, COARSELY = 1e-2, 1e-3
"""and how near where a decoder resolves no more than the first number."""
SHORT = 1e-3
"""And how near, beside what the slopes at both points say of the way between them."""
ENTRIES = 2**21
"""Entries of Jacobians at all starts, which bounds the starts of wide decoders."""
NUDGE = 1e-3
"""How far, in spreads, a point is moved to tell whether what vanishes there vanishes around it."""


def nudged(some: Tensor, points: Tensor, *, by: float = NUDGE) -> Tensor:
    """Some of the points a little way off, within the range of all, so that nothing vanishes at them by accident."""
    noise = torch.randn(some.shape, generator=seeds.generator(0, "nudged points"), dtype=some.dtype)
    moved = some + by * points.std(dim=0) * noise.to(some)
    return torch.clamp(moved, points.amin(dim=0), points.amax(dim=0))


def invertible_at(decoder: Map, points: Tensor, *, resolution: float = 1e-9) -> Hypothesis:
    """Whether a decoder can be undone, as far as points show it: ``fails`` with Jacobians that lack rank or with a
    collision, else ``supported``."""
    points = points[:COMPARED]
    single = SINGLE if resolution > SINGLY else 1.0
    with torch.no_grad():
        x = decoder(points.clone())
    (n, d), vary = (x.shape[1], points.shape[1]), int((x.std(dim=0) > 0).sum())
    if vary < d:
        return Hypothesis(INVERTIBLE, "fails", f"{vary} observations vary with {d} latents")
    units = spread(points), spread(x)
    few = points[: within(STARTS, n, d, entries=ENTRIES)]
    margin = _margins(decoder, few, units)
    flat = torch.nonzero(margin <= single * SINGULAR)[:, 0]
    if len(flat):
        margin[flat] = _margins(decoder, nudged(few[flat], points), units)
    lacking = int((margin <= single * SINGULAR).sum())
    if lacking:
        evidence = f"at {lacking} of {len(few)} sampled points, and around them, the Jacobian has rank below {d}"
        return Hypothesis(INVERTIBLE, "fails", evidence)
    same = max(COARSELY if resolution > COARSE else single * SAME, ROUGH * _roughness(decoder, few, units))
    apart = _collision(decoder, points, x, units, same=same)
    if apart is not None:
        evidence = f"two points that are {apart:.2f} spreads apart have the same observations"
        return Hypothesis(INVERTIBLE, "fails", evidence)
    evidence = (
        f"smallest/largest singular value of the Jacobian ≥ {float(margin.min()):.1e} at {len(few)} sampled points, "
        f"and no two of {len(points)} could be moved to the same observations"
    )
    return Hypothesis(INVERTIBLE, "supported", evidence)


def _roughness(decoder: Map, z: Tensor, units: tuple[Tensor, Tensor]) -> float:
    """By how much observations scatter over a step that is too small for anything smooth to bend, in spreads; the
    median over points, and of observations the most."""
    step = TINY * units[0]
    with torch.no_grad():
        bend = decoder(z + step) - 2 * decoder(z.clone()) + decoder(z - step)
    return float((bend.abs().median(dim=0).values / units[1]).nan_to_num(0.0).max())


def _slopes(decoder: Map, z: Tensor, units: tuple[Tensor, Tensor]) -> Tensor:
    """Jacobians in units of spreads; zero where they are not numbers."""
    J = torch.cat(list(jacobians(decoder, z, len(units[1])))) * units[0] / units[1][:, None]
    return torch.where(torch.isfinite(J).all(dim=2, keepdim=True).all(dim=1, keepdim=True), J, 0.0)


def _margins(decoder: Map, z: Tensor, units: tuple[Tensor, Tensor]) -> Tensor:
    """Smallest over largest singular value of the Jacobian with columns of one length, at every point; one where it is
    not a number."""
    J = torch.cat(list(jacobians(decoder, z, len(units[1])))) / units[1][:, None]
    whole = torch.isfinite(J).all(dim=2).all(dim=1)
    size = J.abs().amax(dim=1, keepdim=True)
    J = torch.where(whole[:, None, None] & (size > 0), J / torch.where(size > 0, size, 1.0), 0.0)
    singular = torch.linalg.svdvals(J / J.norm(dim=1, keepdim=True).clamp_min(0.5))
    margin = singular[:, -1] / singular[:, 0].clamp_min(torch.finfo(J.dtype).tiny)
    return torch.where(whole, margin, 1.0)


def _collision(decoder: Map, z: Tensor, x: Tensor, units: tuple[Tensor, Tensor], *, same: float) -> float | None:
    """How far apart two points are that have the same observations, in spreads; ``None`` where none is found."""
    here, there = _suspects(z / units[0], x / units[1], within(STARTS, x.shape[1], z.shape[1], entries=ENTRIES))
    if len(here) == 0:
        return None
    low, high = z.amin(dim=0), z.amax(dim=0)
    wanted, home, moved, before, farthest = x[here], z[here], z[there].clone(), None, 0.0
    for step in range(STEPS):
        with torch.no_grad():
            left = (wanted - decoder(moved.clone())) / units[1]
        missed = left.abs().amax(dim=1)
        apart = ((moved - home) / units[0]).norm(dim=1)
        met = (missed <= same) & (apart >= APART)
        if bool(met.any()):
            met[met.clone()] = missed[met] <= SHORT * _expected(decoder, home[met], moved[met], units)
        farthest = max([farthest, *apart[met].tolist()])
        going = (missed > same) & torch.isfinite(missed)
        if before is not None and step >= PATIENCE:  # where nothing is to be met, steps stop helping
            going &= missed <= 0.5 * before
        if not bool(going.any()):
            break
        wanted, home, moved, left, before = (v[going] for v in (wanted, home, moved, left, missed))
        newton = torch.linalg.lstsq(_slopes(decoder, moved, units), left[:, :, None]).solution[:, :, 0]
        length = newton.norm(dim=1, keepdim=True)
        moved = torch.clamp(moved + units[0] * newton / length.clamp_min(1.0), low, high)
    return farthest or None


def _expected(decoder: Map, here: Tensor, there: Tensor, units: tuple[Tensor, Tensor]) -> Tensor:
    """How far apart the slopes at one point, and at the other, say that the observations of two points are: the less.
    Flat stretches, where near is not the same, have small slopes."""
    way = ((there - here) / units[0])[:, :, None]
    says = [(_slopes(decoder, point, units) @ way).abs().amax(dim=(1, 2)) for point in (here, there)]
    return torch.minimum(*says)


def _suspects(z: Tensor, x: Tensor, most: int) -> tuple[Tensor, Tensor]:
    """Pairs of points that are near in observations for how far they are in latents, at most one of each point."""
    ratio = torch.cdist(x, x) / torch.cdist(z, z)
    ratio[torch.cdist(z, z) < APART] = torch.inf
    nearest, there = ratio.min(dim=1)
    here = torch.argsort(nearest)[:most]
    here = here[torch.isfinite(nearest[here])]
    return here, there[here]
