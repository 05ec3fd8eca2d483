"""The sparsest basis of white rows: a concave sparsity of unit projections with a log-determinant barrier, annealed.

For rows ``x`` with identity covariance and a square ``W`` with unit rows, minimise

    mean Σ_i log(1 + (w_i·x + b_i)² / ε²) − log|det W|        over W and the offsets b, for ε = 1, .3, .1, …

The first term is smooth, concave in the size of a projection and close to counting what is not zero as ``ε`` falls;
with the barrier of weight one it is the likelihood of independent Cauchy latents of scale ``ε``. All restarts descend
together, each with its own quasi-Newton memory and step, by analytic gradients.

*Differences of neighbours.* An inactive latent sits at an unknown value, which hides it from any symmetric measure of
sparsity: half of the rows at a value two deviations out look almost Gaussian. The difference of two rows that are
inactive in the same latents is zero there, whatever the value. Nearest neighbours mostly are such pairs, so that the
same search on their differences, without offsets, finds the same basis.

Reference: Xu et al. (2026), eqs. (4) and (6). Renamed: ``ẑ = W x + b``.
Deviations: the paper minimises a reconstruction error under a bound on ``E|ẑ|``, by a Lagrangian.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

SCALES = (1.0, 0.3, 0.1, 0.03, 0.01)
"""The scales ``ε`` of the annealing, in units of the white rows."""
MEMORY = 8
STEEP = 1e-4
"""Share of the predicted decrease that a step must reach."""
HALVINGS = 6
LONGEST = 0.5
"""Longest step of a row of ``W``, which has length one."""
LARGEST_TABLE = 2**26
"""Numbers in a table of distances, so that memory stays bounded."""

Batch = Float[Tensor, "restart component column"]


@dataclass(frozen=True)
class BasisObjective:
    """The objective of a batch of bases ``(W | b)`` on rows ``(x | 1)``; differences come with a last column of 0."""

    rows: Float[Tensor, "batch column"]
    scale: float

    def __call__(self, bases: Batch) -> tuple[Float[Tensor, " restart"], Batch]:
        """Values and gradients in the ambient space.

        >>> rows, basis = torch.tensor([[0.0, 1, 1], [3, 0, 1]]), torch.eye(2, 3)[None]
        >>> value, gradient = BasisObjective(rows, 1.0)(basis)
        >>> bool(value.isclose(torch.tensor(10.0).log() / 2 + torch.tensor(2.0).log() / 2).all())
        True
        """
        restarts, components, columns = bases.shape
        y = self.rows @ bases.reshape(-1, columns).T
        size = y.square().add_(self.scale**2)
        sparsity = (size / self.scale**2).log_().mean(dim=0).reshape(restarts, components).sum(dim=1)
        slope = (y.mul_(2).div_(size).T @ self.rows / len(self.rows)).reshape(bases.shape)
        W = bases[..., :-1]
        value = sparsity - torch.linalg.slogdet(W).logabsdet
        slope[..., :-1] -= torch.linalg.inv_ex(W).inverse.mT
        return value, slope


def descend(objective: Callable[[Batch], tuple[Tensor, Batch]], bases: Batch, *, iterations: int, enough: float):
    """Quasi-Newton descent of every restart on its own, all in one batch; ends when none falls by ``enough`` any more.

    Rows of ``W`` stay on the sphere: gradients and directions are projected, points are pulled back. Also the values,
    and how many steps were taken.
    """
    value, slope = _projected(objective, bases)
    memory: list[tuple[Tensor, Tensor, Tensor]] = []
    steps = 0
    while steps < iterations:
        steps += 1
        direction = _direction(bases, slope, memory)
        moved, lower, steeper = _search(objective, bases, value, slope, direction)
        s, y = _tangent(moved, moved - bases), steeper - _tangent(moved, slope)
        curvature = _inner(s, y)
        memory = [*memory[1 - MEMORY :], (s, y, torch.where(curvature > 0, 1 / curvature.clamp_min(1e-30), 0.0))]
        fallen = float((value - lower).max())
        bases, value, slope = moved, lower, steeper
        if fallen < enough:
            break
    return bases, value, steps


def anneal(
    rows: Tensor, bases: Batch, scales: Sequence[float], *, iterations: int, offsets: bool
) -> tuple[list[Batch], int]:
    """The bases after each scale, and the most steps that one took.

    With ``offsets`` every projection is first centred where it is densest.
    """
    path, most = [], 0
    for scale in scales:
        bases = centred(rows, bases, scale) if offsets else bases
        bases, _, steps = descend(BasisObjective(rows, scale), bases, iterations=iterations, enough=1e-4)
        path.append(bases)
        most = max(most, steps)
    return path, most


def centred(rows: Tensor, bases: Batch, scale: float, *, places: int = 41, most: int = 2000) -> Batch:
    """The bases with the offset of each row that is best among the present one and some quantiles of its projection."""
    flat = bases.reshape(-1, bases.shape[-1])
    projections = rows[:most, :-1] @ flat[:, :-1].T
    quantiles = torch.linspace(0.02, 0.98, places, dtype=rows.dtype, device=rows.device)
    candidates = torch.cat([flat[None, :, -1], -torch.quantile(projections, quantiles, dim=0)])
    costs = torch.stack([((projections + b).square() + scale**2).log().mean(dim=0) for b in candidates])
    best = candidates.gather(0, costs.argmin(dim=0)[None])[0]
    return torch.cat([flat[:, :-1], best[:, None]], dim=1).reshape(bases.shape)


def rotations(white: Float[Tensor, "batch column"], start: Batch, *, iterations: int = 60) -> Batch:
    """Bases from orthogonal starts by the fixed point of independent component analysis, log cosh contrast."""
    W = start
    for _ in range(iterations):
        t = torch.tanh(white @ W.reshape(-1, W.shape[-1]).T)
        slope = (t.T @ white / len(white)).reshape(W.shape)
        left, _, right = torch.linalg.svd(slope - (1 - t.square()).mean(dim=0).reshape(W.shape[:2])[..., None] * W)
        moved = left @ right
        settled = float((moved * W).sum(dim=-1).abs().min()) > 1 - 1e-4
        W = moved
        if settled:
            break
    return W


def neighbour_differences(rows: Float[Tensor, "batch column"], *, most: int) -> Float[Tensor, "pair column"]:
    """Differences of up to ``most`` evenly chosen rows to their nearest other row.

    >>> neighbour_differences(torch.tensor([[0.0], [1.0], [5.0]]), most=3).flatten().tolist()
    [-1.0, 1.0, 4.0]
    """
    chosen = torch.arange(0, len(rows), max(1, len(rows) // most), device=rows.device)[:most]
    squares = rows.square().sum(dim=1)
    found = []
    for part in chosen.split(max(1, LARGEST_TABLE // len(rows))):
        distances = squares - 2 * rows[part] @ rows.T
        distances[torch.arange(len(part), device=rows.device), part] = torch.inf
        found.append(rows[part] - rows[distances.argmin(dim=1)])
    return torch.cat(found)


# ---- the descent -------------------------------------------------------------------------------------------------


def _inner(a: Tensor, b: Tensor) -> Tensor:
    return (a * b).sum(dim=(-2, -1))


def _tangent(bases: Batch, vectors: Batch) -> Batch:
    """Vectors without what would change the length of a row of ``W``."""
    W = bases[..., :-1]
    along = (vectors[..., :-1] * W).sum(dim=-1, keepdim=True)
    return torch.cat([vectors[..., :-1] - along * W, vectors[..., -1:]], dim=-1)


def _unit(bases: Batch) -> Batch:
    W = bases[..., :-1]
    return torch.cat([W / W.norm(dim=-1, keepdim=True), bases[..., -1:]], dim=-1)


def _projected(objective: Callable[[Batch], tuple[Tensor, Batch]], bases: Batch) -> tuple[Tensor, Batch]:
    value, slope = objective(bases)
    return torch.where(value.isfinite(), value, torch.inf), _tangent(bases, slope)


def _direction(bases: Batch, slope: Batch, memory: list[tuple[Tensor, Tensor, Tensor]]) -> Batch:
    """The quasi-Newton direction by the two-loop recursion, never uphill, no longer than ``LONGEST`` per row."""
    q, weights = slope, []
    for s, y, r in reversed(memory):
        weights.append(r * _inner(s, q))
        q = q - weights[-1][:, None, None] * y
    if memory:
        s, y, r = memory[-1]
        q = q * torch.where(r > 0, _inner(s, y) / _inner(y, y).clamp_min(1e-30), 0.1)[:, None, None]
    for (s, y, r), a in zip(memory, reversed(weights), strict=True):
        q = q + (a - r * _inner(y, q))[:, None, None] * s
    d = -_tangent(bases, q)
    d = torch.where((_inner(d, slope) < 0)[:, None, None], d, -slope)
    longest = d.norm(dim=-1).amax(dim=-1)
    return d * (LONGEST / longest.clamp_min(1e-30)).clamp(max=1)[:, None, None]


def _search(
    objective: Callable[[Batch], tuple[Tensor, Batch]], bases: Batch, value: Tensor, slope: Batch, direction: Batch
) -> tuple[Batch, Tensor, Batch]:
    """A backtracking step of every restart; one that finds no decrease stays where it is."""
    promised = _inner(direction, slope)
    step = torch.ones_like(value)
    for _ in range(HALVINGS):
        moved = _unit(bases + step[:, None, None] * direction)
        lower, steeper = _projected(objective, moved)
        good = lower <= value + STEEP * step * promised
        if bool(good.all()):
            break
        step = torch.where(good, step, 0.4 * step)
    kept = good[:, None, None]
    return torch.where(kept, moved, bases), torch.where(good, lower, value), torch.where(kept, steeper, slope)
