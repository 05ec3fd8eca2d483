"""Scores of codes of balls: two latents for every ball, and the R² of its place regressed on them.

Every ball gets two latents of the code, none twice, such that the sum over balls is the largest of the R² of the linear
regression from the two latents to the ball's (x, y), mean of both. Reference: Xu et al. (2026), D.10, whose tables call
their R² MCC, and do not say how latents were assigned to balls.
"""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np
from jaxtyping import Float

from noumena import checks
from noumena.metrics import mcc
from noumena.studies.rows import Row


def pair_r2(z: Float[np.ndarray, "batch latent"], code: Float[np.ndarray, "batch learned"]) -> dict[tuple, np.ndarray]:
    """For every two columns of a code, the R² of each ball's (x, y) regressed on them, the mean of both.

    >>> z = np.array([[1.0, 0], [-1, 0], [0, 1], [0, -1]])
    >>> pair_r2(z, np.c_[z[:, 0], z.sum(axis=1), [1, 1, 1, -3]])[0, 1].round(6)
    array([1.])
    """
    true, learned = z - z.mean(axis=0), code - code.mean(axis=0)
    within, across, total = learned.T @ learned, learned.T @ true, (true**2).sum(axis=0)
    found = {}
    for pair in combinations(range(code.shape[1]), 2):
        ours = across[list(pair)]
        explained = (ours * (np.linalg.pinv(within[np.ix_(pair, pair)]) @ ours)).sum(axis=0)
        found[pair] = (explained / np.where(total > 0, total, 1)).reshape(-1, 2).mean(axis=1)
    return found


def matched(table: dict[tuple, np.ndarray], n_balls: int) -> list[tuple[int, int]]:
    """Two columns for every ball, none twice, with the largest sum of R²: exact, over sets of columns in use.

    >>> matched({(0, 1): np.array([0.9, 0.8]), (0, 2): np.array([0.1, 0.0]), (2, 3): np.array([0.8, 0.1])}, 2)
    [(2, 3), (0, 1)]
    """
    best: dict[frozenset, tuple[float, list]] = {frozenset(): (0.0, [])}
    for ball in range(n_balls):
        longer: dict[frozenset, tuple[float, list]] = {}
        for used, (sum_so_far, pairs) in best.items():
            for pair, values in table.items():
                if used.isdisjoint(pair):
                    key, total = used | set(pair), sum_so_far + float(values[ball])
                    if key not in longer or total > longer[key][0]:
                        longer[key] = (total, [*pairs, pair])
        best = longer
    checks.require(bool(best), f"A code must have two latents for each of {n_balls} balls.", "fewer")
    return max(best.values(), key=lambda found: found[0])[1]


def scores(z: np.ndarray, code: np.ndarray) -> Row:
    """A code beside the places: R² ball by ball, of all latents, the MCC, and the matrix of squared correlations."""
    n_balls, z, code = z.shape[1] // 2, np.asarray(z, dtype=float), np.asarray(code, dtype=float)
    table = pair_r2(z, code)
    pairs = matched(table, n_balls)
    found = [float(table[pair][ball]) for ball, pair in enumerate(pairs)]
    own = mcc(z, code)
    rows = np.corrcoef(z.T, code.T)[: z.shape[1], z.shape[1] :] ** 2
    matrix = rows[:, [column for pair in pairs for column in pair]]
    return {
        **{f"ball {k}": value for k, value in enumerate(found, start=1)},
        "mean": float(np.mean(found)),
        "r2": float((1 - (z - _regressed(code, z)).var(axis=0) / z.var(axis=0)).mean()),
        "mcc": own.score,
        "matrix": "; ".join(" ".join(f"{entry:.2f}" for entry in row) for row in matrix),
    }


def recovered(z: Any, code: Any) -> Float[np.ndarray, "batch ball 2"]:
    """Places read off the two latents of each ball by linear regression: for a scatter beside the true ones.

    >>> z = np.random.default_rng(0).normal(size=(50, 4))
    >>> bool(np.abs(recovered(z, z[:, [2, 0, 3, 1]] * 3 + 1) - z.reshape(50, 2, 2)).max() < 1e-9)
    True
    """
    z, code = checks.table(z, "z"), checks.table(code, "code")
    checks.same_batch(z, code, ("z", "code"))
    pairs = matched(pair_r2(z, code), z.shape[1] // 2)
    parts = [_regressed(code[:, list(pair)], z[:, 2 * ball : 2 * ball + 2]) for ball, pair in enumerate(pairs)]
    return np.stack(parts, axis=1)


def _regressed(code: np.ndarray, z: np.ndarray) -> np.ndarray:
    design = np.c_[code, np.ones(len(code))]
    return design @ np.linalg.lstsq(design, z, rcond=None)[0]
