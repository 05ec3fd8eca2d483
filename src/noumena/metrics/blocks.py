"""Block R²: which block of true latents each learned latent is a linear function of.

Latents that always move together cannot be told apart, but their block can be told from the others: every learned
latent should then be explained by one block and by no other.

Reference: potentially degenerate Gaussian mixtures (paper 001), section E.5.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from noumena import checks, seeds
from noumena.ambiguity import Ambiguity
from noumena.metrics.regression import HELD_OUT


@dataclass(frozen=True)
class BlockRegression:
    """R² per learned latent (rows) and true block (columns), the best block of each, and how much others explain."""

    score: float
    """Mean over learned latents of the best block's R²."""
    leakage: float
    """Mean over learned latents of the second best block's R²; 0 when there is one block."""
    matrix: np.ndarray
    partner: np.ndarray
    rows: int
    held_out: bool
    forgives: Ambiguity


def block_r2(z: Any, z_hat: Any, blocks: Any, *, held_out: bool = True, seed: int = 0) -> BlockRegression:
    """R² of the linear regression of every learned latent on every block of true latents.

    ``blocks`` are sizes of consecutive blocks, or the number of equal ones. A constant learned latent scores 0.

    >>> z = np.random.default_rng(0).normal(size=(400, 3))
    >>> block_r2(z, np.column_stack([z[:, 2], z[:, 0] - z[:, 1]]), (2, 1)).partner.tolist()
    [1, 0]
    """
    z, z_hat = checks.table(z, "z", min_rows=10), checks.table(z_hat, "z_hat", min_rows=10)
    checks.same_batch(z, z_hat)
    cuts = np.cumsum(checks.slots(blocks, z.shape[1]))[:-1]
    order = seeds.numpy_generator(seed, "rows of block r2").permutation(len(z))
    n = max(2, round(HELD_OUT * len(z)))
    fit, judge = (order[n:], order[:n]) if held_out else (order, order)
    matrix = np.column_stack([_r2(block, z_hat, fit, judge) for block in np.split(z, cuts, axis=1)])
    ranked = np.sort(matrix, axis=1)
    leakage = float(ranked[:, -2].mean()) if matrix.shape[1] > 1 else 0.0
    partner, score = matrix.argmax(axis=1), float(ranked[:, -1].mean())
    return BlockRegression(score, leakage, matrix, partner, len(judge), held_out, Ambiguity("block-wise"))


def _r2(source: np.ndarray, target: np.ndarray, fit: np.ndarray, judge: np.ndarray) -> np.ndarray:
    """R² per target column of one linear regression."""
    centre, level = source[fit].mean(axis=0), target[fit].mean(axis=0)
    slopes = np.linalg.lstsq(source[fit] - centre, target[fit] - level, rcond=None)[0]
    residual = ((target[judge] - level - (source[judge] - centre) @ slopes) ** 2).mean(axis=0)
    varies = np.ptp(target[judge], axis=0) > 0
    return np.where(varies, 1 - residual / np.where(varies, target[judge].var(axis=0), 1), 0.0)
