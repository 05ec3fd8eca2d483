"""Preprocessing that several metrics share: held-out rows, units, whitening, explained variance."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Float

HELD_OUT = 0.2
"""Share of the rows that is held out."""
NEGLIGIBLE = 1e-9
"""Directions with less than this share of the largest singular value are left out of a whitening."""


class RowSplit(NamedTuple):
    """Rows that a predictor is fitted on, and rows that it is scored on."""

    fit: np.ndarray
    judge: np.ndarray


def split_rows(order: np.ndarray, held_out: bool = True) -> RowSplit:
    """The first fifth of rows in random ``order`` is held out; all rows twice with ``held_out=False``.

    >>> split_rows(np.arange(10)).judge.tolist()
    [0, 1]
    """
    held = max(2, round(HELD_OUT * len(order)))
    return RowSplit(order[held:], order[:held]) if held_out else RowSplit(order, order)


def slices(sizes: tuple[int, ...]) -> list[slice]:
    """Consecutive slices of these sizes.

    >>> slices((1, 2))
    [slice(0, 1, None), slice(1, 3, None)]
    """
    ends = np.cumsum(sizes).tolist()
    return [slice(end - size, end) for end, size in zip(ends, sizes, strict=True)]


def in_range(columns: Float[np.ndarray, "batch latent"]) -> Float[np.ndarray, "batch latent"]:
    """Columns divided by powers of two, which is exact, so that neither they nor their squares overflow or underflow.

    >>> in_range(np.array([[3.0, 0], [-5, 0]])).tolist()
    [[0.375, 0.0], [-0.625, 0.0]]
    """
    return np.ldexp(columns, -np.frexp(np.abs(columns).max(axis=0))[1])


def standardised(columns: Float[np.ndarray, "batch latent"], fit: np.ndarray) -> Float[np.ndarray, "batch latent"]:
    """Columns with mean 0 and variance 1 on the rows ``fit``; columns constant there become 0."""
    columns = in_range(columns)
    spread = np.where(np.ptp(columns[fit], axis=0) > 0, columns[fit].std(axis=0), np.inf)
    return (columns - columns[fit].mean(axis=0)) / spread


def whitened(columns: Float[np.ndarray, "batch latent"], fit: np.ndarray) -> Float[np.ndarray, "batch component"]:
    """Standardised columns rotated and scaled to covariance 1 on the rows ``fit``: linear predictors are the same."""
    _, scale, rotation = np.linalg.svd(columns[fit], full_matrices=False)
    spanned = scale > NEGLIGIBLE * max(scale[0], 1.0)
    return columns @ rotation[spanned].T / scale[spanned] * np.sqrt(len(fit))


def variance_explained(
    target: Float[np.ndarray, "batch target"], predicted: Float[np.ndarray, "batch target"]
) -> Float[np.ndarray, " target"]:
    """R² of every column: 1 for perfect predictions, 0 for the mean, below 0 for worse, 0 for a constant target.

    >>> variance_explained(np.array([[0.0, 5], [2, 5]]), np.array([[0.0, 5], [1, 5]])).tolist()
    [0.5, 0.0]
    """
    varies = np.ptp(target, axis=0) > 0
    residual = ((target - predicted) ** 2).mean(axis=0)
    return np.where(varies, 1 - residual / np.where(varies, target.var(axis=0), 1), 0.0)
