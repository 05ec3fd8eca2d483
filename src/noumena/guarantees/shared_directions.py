"""Shared directions: what two tables of the same rows have in common, in every direction and in most rows.

A mean over rows and columns is carried by large columns or a few huge rows, while the rest has nothing in common. Here
the worst direction speaks, and far rows are pulled in.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Float

from noumena.guarantees.unmixing import SINGULAR

ROUNDS = 20
"""Of pulling in far rows; where a tenth of the rows is a thousand times as large as the rest, ten are enough."""
FLAT = 1e-13
"""Of the largest eigenvalue of the correlations: below it a direction carries only rounding errors."""
ROUNDING = 1e-12
"""Of a column's mean: what spreads less is constant."""


def whitening(
    g: Float[np.ndarray, "batch target"], weight: Float[np.ndarray, " batch"]
) -> Float[np.ndarray, "target direction"]:
    """A basis of the directions in which weighted rows vary, each with variance 1.

    >>> whitening(np.array([[0.0, 7], [4, 7]]), np.ones(2))
    array([[0.5],
           [0. ]])
    """
    share = weight / weight.sum()
    centred = g - share @ g
    covariance = (centred * share[:, None]).T @ centred
    spread = np.sqrt(np.diag(covariance))
    scale = np.where(spread > ROUNDING * np.abs(share @ g), spread, np.inf)
    value, vector = np.linalg.eigh(covariance / scale / scale[:, None])
    kept = value > SINGULAR
    return vector[:, kept] / scale[:, None] / np.sqrt(value[kept])


def weights(g: Float[np.ndarray, "batch target"]) -> Float[np.ndarray, " batch"]:
    """Weights that pull far rows in to the median distance, in units in which pulled-in rows vary equally in every
    direction: a few huge rows count no more than others, and no affine map of the rows changes it. Few means less than
    one in twice as many rows as there are columns, in any one direction; more of them are what varies there.

    >>> weights(np.array([[-1.0], [-1.0], [1.0], [1.0], [1e6], [-1e6]])).round(6).tolist()
    [1.0, 1.0, 1.0, 1.0, 0.0, 0.0]
    """
    weight = np.ones(len(g))
    for _ in range(ROUNDS):
        white = (g - np.average(g, axis=0, weights=weight)) @ whitening(g, weight)
        square = np.einsum("ij,ij->i", white, white)
        middle = np.median(square)
        if middle < FLAT:  # most rows are one and the same
            break
        weight = middle / np.maximum(square, middle)
    return weight


def unexplained(
    residual: Float[np.ndarray, "batch target"],
    g: Float[np.ndarray, "batch target"],
    weight: Float[np.ndarray, " batch"],
) -> Float[np.ndarray, " direction"]:
    """The shares of the target's variance that are left in its worst direction, in the worst orthogonal to it, …

    >>> g = np.array([[3.0, 1], [3, -1], [-3, 1], [-3, -1]])
    >>> unexplained(g * [0, 0.5], g, np.ones(4)).round(6)  # nothing of the first column, half of the second: (1/2)²
    array([0.25, 0.  ])
    """
    white = residual @ whitening(g, weight)
    return np.linalg.eigvalsh((white * (weight / weight.sum())[:, None]).T @ white)[::-1]


def apart(
    s: Float[np.ndarray, "batch component"],
    t: Float[np.ndarray, "batch component"],
    weight: Float[np.ndarray, " batch"],
) -> Float[np.ndarray, " component"]:
    """One minus the squared correlation of each component with its partner; 1 where that is constant.

    >>> s = np.array([[1.0, 1], [1, -1], [-1, 1], [-1, -1]])
    >>> apart(s, s[:, [0, 0]] + s[:, [1, 0]], np.ones(4)).round(6)  # (1 1)·(1 0)/√2, and nothing in common
    array([0.5, 1. ])
    """
    share = weight / weight.sum()
    s, t = s - share @ s, t - share @ t
    both, ss, tt = share @ (s * t), share @ s**2, share @ t**2
    known = (ss > FLAT**2) & (tt > FLAT**2)
    return 1 - np.where(known, both**2 / np.where(known, ss * tt, 1), 0)
