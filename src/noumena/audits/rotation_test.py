"""Rotation test: do rows prefer two axes to rotations of them in their plane, beyond chance?

The contrast of two columns (``log cosh``) is compared with its mean over all rotations of their plane. Chance is
measured on the same rows: without axes every row could be rotated by an angle of its own without being less likely, so
chance is the contrast's standard deviation under such rotations. This keeps the rows' norms: a ring, a disc or a
common
random scale have no axes, whatever their tails. Columns are whitened in their plane first, with far rows clipped, so
``s²`` carries no information; what the contrast shares with it is projected out.
"""

from __future__ import annotations

from functools import cache
from itertools import combinations

import numpy as np
from jaxtyping import Float

from noumena.guarantees.unmixing import LOG_COSH_OF_A_GAUSSIAN, log_cosh

ANGLES, RADII = 64, 1024
"""Of the table of rotations: angles of a half turn, and norms of rows, between which it is interpolated."""
LEAST_SHARE = 0.4
"""A column whose contrast is a smaller share of the other's is ignored."""
FAR = 3.0
"""Rows of a larger norm, in standard deviations of a column, are clipped to it."""
DEPENDENT = 1 - 1e-9
"""Columns that correlate more are one column."""
TINY = 1e-12

Column = Float[np.ndarray, " batch"]


def preference(s: Float[np.ndarray, "batch component"]) -> Float[np.ndarray, "component component"]:
    """z-scores of the contrast of every two columns against their rotations; infinite for a single column.

    >>> angle = 2 * np.pi * np.arange(400) / 400
    >>> bool(abs(preference(np.column_stack([np.cos(angle), np.sin(angle)]))[0, 1]) < 0.01)  # a circle has no axes
    True
    """
    d = s.shape[1]
    preferences = np.full((d, d), np.inf)
    for i, j in combinations(range(d), 2):
        preferences[i, j] = preferences[j, i] = _preference(s[:, i], s[:, j])
    return preferences


def _preference(a: Column, b: Column) -> float:
    """z-score of the contrast of two columns against rotations."""
    if _one_column(a, b):
        return 0.0
    a, b = _white(a, b)
    nearer = FAR / np.maximum(np.hypot(a, b), FAR)
    a, b = _white(a * nearer, b * nearer)
    contrasts, squared = (log_cosh(a), log_cosh(b)), a**2 + b**2
    side_a, side_b = _sides(*(float(c.mean()) - LOG_COSH_OF_A_GAUSSIAN for c in contrasts))
    mean, second, even, odd = _harmonics(np.sqrt(squared))
    shared = float((second * squared).sum() / max((squared**2).sum(), TINY))
    gain = side_a * (contrasts[0] - mean) + side_b * (contrasts[1] - mean) - shared * (side_a - side_b) * (a**2 - b**2)
    chance = (side_a + side_b) ** 2 * even + (side_a - side_b) ** 2 * (odd + (second - shared * squared) ** 2 / 2)
    return float(gain.sum() / max(np.sqrt(chance.sum()), TINY))


def _one_column(a: Column, b: Column) -> bool:
    """Whether there is no plane: one column is constant, or a multiple of the other."""
    spread = float(a.std() * b.std())
    return spread == 0 or abs(float(((a - a.mean()) * (b - b.mean())).mean())) > DEPENDENT * spread


def _white(a: Column, b: Column) -> tuple[Column, Column]:
    """Two columns whitened symmetrically (ZCA)."""
    a, b = ((x - x.mean()) / x.std() for x in (a, b))
    correlation = float((a * b).mean())
    plus, minus = 1 / np.sqrt(1 + correlation), 1 / np.sqrt(1 - correlation)
    keep, take = (plus + minus) / 2, (plus - minus) / 2
    return keep * a + take * b, take * a + keep * b


def _sides(a: float, b: float) -> tuple[float, float]:
    """Whether each column's contrast is above (1) or below (−1) a Gaussian's, 0 for one that is nearly Gaussian."""
    least = LEAST_SHARE * max(abs(a), abs(b))
    return float(np.sign(a) * (abs(a) >= least)), float(np.sign(b) * (abs(b) >= least))


def _harmonics(radius: Column) -> tuple[Column, ...]:
    """Of ``log cosh(r cos φ)`` at every norm r: the mean over φ, the amplitude of ``cos 2φ``, and the variances of the
    further even and odd harmonics of 2φ.
    """
    grid, table = _table(2.0 ** np.ceil(np.log2(max(float(radius.max()), 1.0))))
    return tuple(np.interp(radius, grid, column) for column in table)


@cache
def _table(largest: float) -> tuple[np.ndarray, tuple[np.ndarray, ...]]:
    """Lengths from 0 to the largest, and the four numbers of ``_harmonics`` at each."""
    grid = largest * np.linspace(0, 1, RADII) ** 2
    angles = np.pi * np.arange(ANGLES) / ANGLES
    waves = np.fft.rfft(log_cosh(grid[:, None] * np.cos(angles)), axis=1).real / ANGLES
    power = 2 * waves[:, 1:-1] ** 2  # of cos 2φ, cos 4φ, …
    return grid, (waves[:, 0], 2 * waves[:, 1], power[:, 1::2].sum(axis=1), power[:, 2::2].sum(axis=1))
