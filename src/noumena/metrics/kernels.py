"""Kernel ridge regression: exact for thousands of rows, by the Nyström approximation beyond.

``f(x) = mean + Σ_i w_i exp(−γ ‖x − x_i‖²)`` with γ = 1/d on standardised inputs and the weights that minimise
``Σ ‖y − f(x)‖² + α wᵀKw``, α = 1. Targets need no standardisation: the fit is linear in them.

Exact: ``(K + α) w = y`` by a Cholesky factorisation in place, 8·rows² bytes. Nyström: the sum runs over m landmarks,
rows drawn at random, and ``(K_mn K_nm + α K_mm) w = K_mn y`` is summed over chunks of rows, m² numbers in memory.
``K_mm`` is close to singular; 1e-6 is added to its diagonal, far below what α lets through (an eigenvalue μ of
``K_mm``
stands for one of about μ·n/m of ``K``, and those far below α = 1 are lost anyway).

References
----------
Williams and Seeger (2001), "Using the Nyström Method to Speed Up Kernel Machines".

Deviations from scikit-learn's ``KernelRidge``: one kernel matrix in memory, standardised inside, landmarks.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float

from noumena import checks, seeds

ALPHA = 1.0
MOST_EXACT = 10_000
"""Rows up to which the fit is exact: 0.8 GB."""
LANDMARKS = 3000
JITTER = 1e-6
PIECE = 2000
CACHED = 2**17
"""Kernel entries computed at a time, so that they stay in the processor's cache."""


@dataclass(frozen=True, eq=False)
class KernelRidge:
    """A fitted regression: standardised centres (rows or landmarks), their weights, and the method."""

    centres: Float[np.ndarray, "centre source"]
    weights: Float[np.ndarray, "centre target"]
    mean: Float[np.ndarray, " source"]
    spread: Float[np.ndarray, " source"]
    level: Float[np.ndarray, " target"]
    method: str

    def __call__(self, new: Float[np.ndarray, "batch source"]) -> Float[np.ndarray, "batch target"]:
        """Targets at new rows."""
        rows, gamma = (new - self.mean) / self.spread, 1 / self.centres.shape[1]
        predicted = np.empty((len(rows), self.weights.shape[1]))
        for start in range(0, len(rows), PIECE):
            part = slice(start, start + PIECE)
            predicted[part] = rbf(rows[part], self.centres, gamma) @ self.weights
        return predicted + self.level


def kernel_ridge(
    source: Float[np.ndarray, "batch source"],
    target: Float[np.ndarray, "batch target"],
    *,
    most_exact: int = MOST_EXACT,
    landmarks: int = LANDMARKS,
    random_state: Any = 0,
) -> KernelRidge:
    """Fit a kernel ridge regression, exactly up to ``most_exact`` rows, then with ``landmarks``.

    Examples
    --------
    >>> x = np.linspace(-2, 2, 200)[:, None]
    >>> function = kernel_ridge(x, np.sin(x))
    >>> function.method, bool(np.abs(function(x) - np.sin(x)).max() < 0.05)
    ('exact', True)
    """
    seed = seeds.seed_of(random_state)
    most_exact = checks.count(most_exact, "most_exact", minimum=0)
    landmarks = min(checks.count(landmarks, "landmarks"), len(source))
    mean, spread, level = source.mean(axis=0), _spread(source), target.mean(axis=0)
    rows = (source - mean) / spread
    if len(rows) <= most_exact:
        return KernelRidge(rows, _exact(rows, target - level), mean, spread, level, "exact")
    chosen = np.sort(seeds.numpy_generator(seed, "landmarks").permutation(len(rows))[:landmarks])
    weights = _by_landmarks(rows, rows[chosen], target, level)
    return KernelRidge(rows[chosen], weights, mean, spread, level, f"Nyström, {landmarks} landmarks")


def rbf(
    a: Float[np.ndarray, "batch dim"], b: Float[np.ndarray, "centre dim"], gamma: float
) -> Float[np.ndarray, "batch centre"]:
    """``exp(−γ ‖a − b‖²)`` for every pair of rows: 1 where they agree, invariant to a common rigid motion.

    >>> rbf(np.array([[0.0], [3.0]]), np.array([[0.0], [1.0]]), 0.5).round(3).tolist()
    [[1.0, 0.607], [0.011, 0.135]]
    """
    a_size, b_size = (-gamma * (rows**2).sum(axis=1, keepdims=True) for rows in (a, b))
    left = np.hstack([2 * gamma * a, a_size, np.ones_like(a_size)])
    right = np.hstack([b, np.ones_like(b_size), b_size]).T.copy()
    kernel, step = np.empty((len(a), len(b))), max(1, CACHED // len(b))
    for start in range(0, len(a), step):  # while it is in the cache
        part = kernel[start : start + step]
        np.matmul(left[start : start + step], right, out=part)
        np.exp(np.minimum(part, 0, out=part), out=part)
    return kernel


def _exact(rows: np.ndarray, target: np.ndarray) -> np.ndarray:
    kernel = rbf(rows, rows, 1 / rows.shape[1])
    kernel.flat[:: len(rows) + 1] += ALPHA
    return _solved(kernel, target)


def _by_landmarks(rows: np.ndarray, centres: np.ndarray, target: np.ndarray, level: np.ndarray) -> np.ndarray:
    m, gamma = len(centres), 1 / rows.shape[1]
    squares, products = np.zeros((m, m)), np.zeros((m, target.shape[1]))
    for start in range(0, len(rows), PIECE):
        part = slice(start, start + PIECE)
        kernel = rbf(rows[part], centres, gamma)
        squares += kernel.T @ kernel
        products += kernel.T @ (target[part] - level)
    rounding = np.finfo(np.float64).eps * np.trace(squares)
    squares += ALPHA * rbf(centres, centres, gamma)
    squares.flat[:: m + 1] += ALPHA * JITTER + rounding
    return _solved(squares, products)


def _solved(matrix: np.ndarray, right: np.ndarray) -> np.ndarray:
    """``matrix⁻¹ right`` for a symmetric positive matrix, which is overwritten by its Cholesky factor."""
    from scipy.linalg import get_lapack_funcs

    factorise, solve = get_lapack_funcs(("potrf", "potrs"), (matrix,))
    factor, failed = factorise(matrix.T, lower=1, clean=0, overwrite_a=1)  # transposed: the order of LAPACK
    if failed:
        raise np.linalg.LinAlgError("The kernel matrix is not positive definite.")
    return solve(factor, right, lower=1)[0]


def _spread(columns: np.ndarray) -> np.ndarray:
    """Standard deviations; 1 for a constant column, whatever its rounding error."""
    spread, mean = columns.std(axis=0), columns.mean(axis=0)
    return np.where(spread > len(columns) * np.finfo(np.float64).eps * np.abs(mean), spread, 1.0)
