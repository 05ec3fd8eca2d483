"""Importance: how unevenly a predictor uses its features, and how much of what it predicts the most used ones carry.

Reference: near-identifiability (paper 004), section 4.4; Hoyer (2004). ``w`` are split fractions. **Deviations**: none.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Shaped

from noumena import checks


def hoyer(w: Shaped[np.ndarray, " feature"]) -> float:
    """Hoyer sparsity (√d − 1/‖w‖₂)/(√d − 1) of shares of use: 0 when all are equal, 1 when one feature has all.

    Shares are counted weights, at least zero, made to sum to one; invariant to their scale and order.

    >>> hoyer(np.array([2, 2, 2, 2])), hoyer(np.array([0, 7, 0, 0]))
    (0.0, 1.0)
    >>> round(hoyer(np.array([1, 1, 0, 0])), 3)  # (2 − √2) / (2 − 1)
    0.586
    """
    counts = np.asarray(w, dtype=np.float64)
    checks.require(counts.size > 1, "Sparsity must be asked of at least two features.", f"{counts.size}")
    usable = bool(np.isfinite(counts).all() and (counts >= 0).all() and counts.sum() > 0)
    checks.require(usable, "Weights must be at least zero and not all zero.", "others")
    root = np.sqrt(counts.size)
    length = float(np.linalg.norm(counts / counts.sum()))
    return float(np.clip((root - 1 / length) / (root - 1), 0, 1))


def concentration(top: float, rest: float) -> float:
    """The gain (top − rest)/rest of the score of the most important features over that of the others; 0 when equal.

    >>> round(concentration(0.7, 0.5), 3)
    0.4
    """
    checks.number(top, "top", minimum=0)
    checks.require(checks.number(rest, "rest", minimum=0) > 0, "rest must be positive.", f"{rest}")
    return (top - rest) / rest
