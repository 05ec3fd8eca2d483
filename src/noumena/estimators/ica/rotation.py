"""Rotation: the fixed point of symmetric FastICA, found mostly on a few of the rows.

``W ← polar(E[g(Wx)xᵀ] − diag(E g'(Wx))·W)`` on white rows is a Newton step of the contrast on rotations. Most steps are
needed far from the end, where a few rows would do, were it not that a few of many white rows are not white themselves:
the first-order term ``E[g'] W C`` with their covariance ``C ≠ I`` then outweighs what the step is after. Subtracting
``diag(E g') W (C − I)`` takes that error out, and about one row per entry of ``W`` suffices. Stages grow by a factor of
eight; the last one has all rows and alone decides whether the iteration has come to rest.

Reference: Hyvärinen (1999); Ablin, Cardoso and Gramfort (2018), "Faster ICA under orthogonal constraint", for its
reading as a Newton step. **Deviations**: stages and their correction; polar factors by Newton–Schulz, and by a singular
value decomposition where that does not settle; steps are halved while the iteration does not come nearer to rest.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from noumena.estimators.ica.contrasts import ContrastFunction
from noumena.estimators.ica.moments import Rotations, RowMoments

ROWS_PER_COMPONENT, MANY, GROWTH = 64, 128, 8
"""Rows of the first stage per component; with more than so many components each has as many rows as there are of them;
and the factor to the next stage."""
LAST_LEAP = 3
"""A stage with more than all rows divided by this is not worth its steps."""
SCHULZ, POWERS, ORTHOGONAL = 3, 4, {torch.float32: 2e-6, torch.float64: 1e-12}
"""Newton–Schulz steps between two looks, steps of the power method before them, and the departure from orthogonality,
per component, at which they end."""
LOOKS = 10
PATIENCE, SHORTEST = 30, 1 / 16
"""Steps over all rows without coming nearer to rest after which they are halved, and the shortest."""


@dataclass(frozen=True)
class Rotated:
    """Where the iteration ended: one rotation, number of steps and verdict per model, and passes over all rows."""

    W: Rotations
    steps: Int[Tensor, " model"]
    change: Float[Tensor, " model"]
    converged: Bool[Tensor, " model"]
    passes: float


def polar(M: Float[Tensor, "model k k"]) -> Float[Tensor, "model k k"]:
    """The nearest orthogonal matrix; it is blind to a positive factor.

    >>> polar(torch.tensor([[[0.0, -3.0], [2.0, 0.0]]])).round().tolist()
    [[[0.0, -1.0], [1.0, 0.0]]]
    """
    Q, identity = M / _largest(M).clamp_min(torch.finfo(M.dtype).tiny), torch.eye(M.shape[-1]).to(M)
    bound = ORTHOGONAL[M.dtype] * M.shape[-1] ** 0.5
    for _ in range(LOOKS):
        for _ in range(SCHULZ):
            S = Q @ Q.mT
            Q = torch.baddbmm(1.875 * Q, torch.baddbmm(-1.25 * S, S, S, alpha=0.375), Q)
        if bool((Q @ Q.mT - identity).abs().amax() < bound):
            return Q
    U, _, V = torch.linalg.svd(M.double())
    return (U @ V).to(M)


def _largest(M: Float[Tensor, "model k k"]) -> Float[Tensor, "model 1 1"]:
    """The largest singular value from below, by a few steps of the power method; a third too low does no harm."""
    longest = M.square().sum(dim=-1).argmax(dim=-1)[:, None, None].expand(-1, 1, M.shape[-1])
    v = M.gather(1, longest).mT
    for _ in range(POWERS):
        v = M.mT @ (M @ (v / v.norm(dim=1, keepdim=True).clamp_min(torch.finfo(M.dtype).tiny)))
    return v.norm(dim=1, keepdim=True).sqrt()


def stages(rows: int, components: int) -> list[int | None]:
    """Rows of each stage, the last of which has all of them.

    >>> stages(50_000, 100), stages(2_000_000, 512), stages(1000, 100)
    ([6400, None], [262144, None], [None])
    """
    found: list[int | None] = []
    size = components * (ROWS_PER_COMPONENT if components <= MANY else components)
    while size * LAST_LEAP < rows:
        found.append(size)
        size *= GROWTH
    return [*found, None]


def change(new: Rotations, old: Rotations) -> Float[Tensor, " model"]:
    """``max_i 1 − |⟨w_i, w_i'⟩|``, zero when no component has turned; blind to signs, and exact for small turns.

    >>> change(torch.eye(2)[None], -torch.eye(2)[None])
    tensor([0.])
    """
    side = (new * old).sum(dim=-1, keepdim=True).sign()
    return (new - side * old).square().sum(dim=-1).amax(dim=-1) / 2


def matched(correlation: Float[np.ndarray, "component component"]) -> float:
    """The smallest absolute correlation after the best one-to-one matching.

    >>> matched(np.array([[0.1, -0.9], [0.8, 0.0]]))
    0.8
    """
    from scipy.optimize import linear_sum_assignment

    size = np.abs(correlation)
    return float(size[linear_sum_assignment(-size)].min())


def rotate(data: RowMoments, start: Rotations, contrast: ContrastFunction, *, tol: float, max_iter: int) -> Rotated:
    """Iterate from every start until no component turns by more than ``tol``, through all stages."""
    W, k = start, start.shape[-1]
    steps = torch.zeros(len(W), dtype=torch.long)
    passes, plan = 0.0, stages(data.n_rows, k)
    for rows in plan:
        last = rows is None
        limit = tol if last else max(tol, k / (2 * rows))  # no nearer than its rows can tell
        budget = max_iter - int(steps.max()) if last else max_iter // (2 * len(plan))
        stage = _Stage(data, contrast, rows, k, W)
        found = stage.settle(W, limit, budget)
        W, steps = found.W, steps + found.steps
        passes += float(found.passes) * (1.0 if rows is None else rows / data.n_rows)
    return Rotated(W, steps, found.change, found.converged, passes)


class _Stage:
    """Steps on a fixed part of the rows."""

    def __init__(self, data: RowMoments, contrast: ContrastFunction, rows: int | None, k: int, like: Tensor):
        self.data, self.contrast, self.rows = data, contrast, rows
        identity = torch.eye(k).to(like)
        self.white = identity if rows is None else identity + data.excess(rows).to(like)

    def settle(self, W: Rotations, limit: float, budget: int) -> Rotated:
        """Step until all models rest or the budget is spent; a model that rests is left alone."""
        models = len(W)
        steps, done = torch.zeros(models, dtype=torch.long), torch.zeros(models, dtype=torch.bool)
        nearest, waited = torch.full((models,), torch.inf), torch.zeros(models, dtype=torch.long)
        length, turned = torch.ones(models), torch.full((models,), torch.inf)
        taken = 0
        while taken < budget and not bool(done.all()):
            moved = self._step(W, length.to(W))
            found = change(moved, W).float().cpu() / length.square()  # what a whole step would have turned
            W = torch.where(done.to(W.device)[:, None, None], W, moved)
            turned = torch.where(done, turned, found)
            steps += ~done
            taken += 1
            nearer = turned < 0.9 * nearest
            nearest, waited = torch.minimum(nearest, turned), torch.where(nearer, 0, waited + 1)
            stuck = (waited >= PATIENCE) & (self.rows is None)
            length = torch.where(stuck, (length / 2).clamp_min(SHORTEST), length)
            waited = torch.where(stuck, 0, waited)
            done |= turned < limit
        return Rotated(W, steps, turned, done, float(taken))

    def _step(self, W: Rotations, length: Tensor) -> Rotations:
        product, slope = self.data.moments(W, self.contrast, self.rows)
        whole = polar(product - slope[..., None] * (W @ self.white))
        if bool((length == 1).all()):
            return whole
        side = (whole * W).sum(dim=-1, keepdim=True).sign()
        return polar(W + length[:, None, None] * (side * whole - W))
