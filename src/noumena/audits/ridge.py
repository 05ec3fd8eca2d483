"""Ridge regression between representations, its strength chosen by cross-validation over the fitted parts.

Least squares with few rows per column overfits. The strength is the one with the smallest squared error when each
fitted part is predicted from the other fitted parts, so that whole groups stay together here too; everything is
computed from the parts' moments.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from noumena import checks
from noumena.guarantees.agreement import Map, Moments, affine_map, merged, moments_about

ROWS_PER_COLUMN = 10
"""Least squares with fewer fitted rows per column of the source gets a ridge."""
STRENGTHS = tuple(float(s) for s in np.logspace(-8, 2, 11))
"""In units of the source's mean variance."""
DEFAULT_STRENGTH = 1e-3
"""Where a single part leaves nothing to choose on."""


def overfits(rows: int, columns: int) -> bool:
    """Whether plain least squares would overfit."""
    return rows < ROWS_PER_COLUMN * columns


def careful_map(parts: Sequence[Moments], *, held_out: bool = True) -> Map:
    """Least squares on all parts together, with a ridge where rows are few and errors held out."""
    together = merged(parts)
    if not held_out or not overfits(together.n, len(together.mean_h)):
        return affine_map(together)
    return affine_map(together, ridge=best_strength(parts))


def cautious_map(parts: Sequence[Moments]) -> Map:
    """Ridge regression in any case: columns of an input may vary on the held-out rows only."""
    return affine_map(merged(parts), ridge=best_strength(parts) if len(parts) > 1 else DEFAULT_STRENGTH)


def best_strength(parts: Sequence[Moments]) -> float:
    """The strength with the smallest squared error on parts that were left out in turn."""
    checks.require(
        len(parts) > 1,
        f"folds must be 3 or more where there are fewer than {ROWS_PER_COLUMN} rows per column, to choose a ridge.",
        f"{len(parts) + 1} folds",
    )
    losses = np.zeros(len(STRENGTHS))
    for j, left_out in enumerate(parts):
        fitted = merged([part for p, part in enumerate(parts) if p != j])
        losses += left_out.n * _losses(fitted, left_out)
    return STRENGTHS[int(losses.argmin())]


def _losses(fitted: Moments, measured: Moments) -> np.ndarray:
    """The mean squared error on other rows, for every strength."""
    value, vector = np.linalg.eigh(fitted.hh)
    gg, hh, gh = moments_about(measured, fitted.mean_g, fitted.mean_h)
    hh, gh, cross = vector.T @ hh @ vector, gh @ vector, fitted.gh @ vector
    total, value = float(np.trace(gg)), np.maximum(value, 0)
    losses = []
    for strength in STRENGTHS:
        slope = cross / (value + strength * value.mean())
        losses.append(total - 2 * float((gh * slope).sum()) + float(((slope @ hh) * slope).sum()))
    return np.array(losses)
