"""Importance: how unevenly a predictor uses its features, and how much of what it predicts the most used ones carry.

Reference: Nelson et al. (2026), section 4.4; Hoyer (2004). ``w`` are split fractions. **Deviations**: none. Neither
number compares with a truth, so that they have no chance and no ceiling.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Shaped
from torch import Tensor

from noumena import checks
from noumena.ambiguity import Ambiguity
from noumena.metrics.record import Claim, Record

Weights = Shaped[np.ndarray, " feature"] | Shaped[Tensor, " feature"]


@dataclass(frozen=True, kw_only=True)
class Sparsity(Record):
    """Hoyer sparsity in [0, 1] and the share of use of every feature."""

    score: float
    shares: np.ndarray

    @property
    def claims(self) -> tuple[Claim, ...]:
        """The sparsity of use."""
        supports = (
            "A predictor used few features; it does not say that they are the right ones, "
            "and copies of a feature share its use."
        )
        return (Claim("score", "Hoyer sparsity", (0.0, 1.0), self.forgives, supports),)

    def __float__(self) -> float:
        return self.score


@dataclass(frozen=True, kw_only=True)
class Concentration(Record):
    """The relative gain of the most important features over the others, and the scores of both."""

    score: float
    top: float
    rest: float

    @property
    def claims(self) -> tuple[Claim, ...]:
        """The gain, of any size."""
        supports = (
            "Above 0 the most used features alone predict better than all others together; "
            "it does not say what they stand for."
        )
        whole = (-1.0, float("inf"))
        return (Claim("score", "Concentration", whole, self.forgives, supports, best=float("inf")),)

    def __float__(self) -> float:
        return self.score


def hoyer(w: Weights | Sequence[Any]) -> Sparsity:
    """Hoyer sparsity (√d − 1/‖w‖₂)/(√d − 1) of shares of use: 0 when all are equal, 1 when one feature has all.

    Shares are counted weights, at least zero, made to sum to one; invariant to their scale and order.

    >>> float(hoyer(np.array([2, 2, 2, 2]))), float(hoyer(np.array([0, 7, 0, 0])))
    (0.0, 1.0)
    >>> round(hoyer(np.array([1, 1, 0, 0])).score, 3)  # (2 − √2) / (2 − 1)
    0.586
    """
    counts = checks.table(w[None] if isinstance(w, Tensor | np.ndarray) else [w], "w")[0].astype(np.float64)
    checks.require(counts.size > 1, "Sparsity must be asked of at least two features.", f"{counts.size}")
    usable = bool((counts >= 0).all() and counts.any())
    checks.require(usable, "Weights must be at least zero and not all zero.", f"{counts[:6]}")
    counts = counts / counts.max()
    root, shares = np.sqrt(counts.size), counts / counts.sum()
    score = float(np.clip((root - 1 / np.linalg.norm(shares)) / (root - 1), 0, 1))
    return Sparsity(score=score, shares=shares, forgives=Ambiguity("permutation"))


def concentration(top: float, rest: float) -> Concentration:
    """The gain (top − rest)/rest of the score of the most important features over that of the others; 0 when equal.

    >>> round(concentration(0.7, 0.5).score, 3)
    0.4
    """
    checks.number(top, "top", minimum=0)
    checks.require(checks.number(rest, "rest", minimum=0) > 0, "rest must be positive.", f"{rest}")
    finite = np.isfinite(float(top) / float(rest))
    checks.require(bool(finite), "The gain of top over rest must be finite.", f"{top} and {rest}")
    return Concentration(score=(top - rest) / rest, top=top, rest=rest, forgives=Ambiguity("permutation"))
