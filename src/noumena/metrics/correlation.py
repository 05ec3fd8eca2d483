"""Mean correlation coefficient (MCC): match learned to true latents by correlation and average.

Pearson forgives permutation and scaling; Spearman forgives any monotone element-wise map. The score averages over the
*true* latents: with fewer learned latents than true ones the unmatched count 0; further learned ones go unused.
A constant column correlates 0 with everything.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.optimize import linear_sum_assignment
from scipy.stats import rankdata

from noumena import checks, seeds
from noumena.ambiguity import Ambiguity

CHANCE_DRAWS = 20


@dataclass(frozen=True)
class Correlation:
    """The score in [0, 1]; per true latent; its partner (−1: none); all |correlations|; the level of chance."""

    score: float
    per_latent: np.ndarray
    permutation: np.ndarray
    matrix: np.ndarray
    chance: float
    forgives: Ambiguity


def mcc(z: Any, z_hat: Any, *, correlation: str = "pearson", seed: int = 0) -> Correlation:
    """Mean correlation coefficient of learned latents ``z_hat`` with the true ``z``, both (batch, latent).

    ``chance`` is the mean score of 20 copies of ``z_hat`` with shuffled rows; it is not 0 when rows are few.

    >>> z = np.array([[0.0, 3], [1, 1], [2, 4], [3, 1], [4, 5]])
    >>> round(mcc(z, -2 * z[:, ::-1]).score, 6)
    1.0
    """
    checks.one_of(correlation, "correlation", ("pearson", "spearman"))
    z, z_hat = checks.table(z, "z", min_rows=3), checks.table(z_hat, "z_hat", min_rows=3)
    checks.same_batch(z, z_hat)
    if correlation == "spearman":
        z, z_hat = rankdata(z, axis=0), rankdata(z_hat, axis=0)
    unit, unit_hat = unit_columns(z), unit_columns(z_hat)
    matrix = np.abs(unit.T @ unit_hat).clip(0, 1)
    per_latent, permutation = _matched(matrix)
    rng = seeds.numpy_generator(seed, "chance of mcc")
    shuffled = [np.abs(unit.T @ unit_hat[rng.permutation(len(z))]) for _ in range(CHANCE_DRAWS)]
    chance = float(np.mean([_matched(m)[0].mean() for m in shuffled]))
    forgives = Ambiguity("permutation+scaling" if correlation == "pearson" else "element-wise")
    return Correlation(float(per_latent.mean()), per_latent, permutation, matrix, chance, forgives)


def unit_columns(columns: np.ndarray) -> np.ndarray:
    """Centred columns of unit length; a constant column becomes zero, whatever its rounding error."""
    columns = columns.astype(np.float64)
    largest = np.abs(columns).max(axis=0)
    columns = columns / np.where(largest > 0, largest, 1)  # any unit of measurement: squares stay in range
    centred = columns - columns.mean(axis=0)
    length = np.linalg.norm(centred, axis=0)
    varies = np.ptp(columns, axis=0) > 0
    return np.where(varies, centred / np.where(varies & (length > 0), length, 1), 0)


def _matched(matrix: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    rows, columns = linear_sum_assignment(-matrix)
    per_latent = np.zeros(len(matrix))
    permutation = np.full(len(matrix), -1)
    per_latent[rows], permutation[rows] = matrix[rows, columns], columns
    return per_latent, permutation
