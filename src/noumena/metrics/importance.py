"""Sparsity and concentration of feature importances.

References
----------
Nelson et al. (2026), "Statistical and structural identifiability in representation learning", section 4.4; Hoyer
(2004), "Non-negative matrix factorization with sparseness constraints".

Neither number compares with a truth: they have no chance level and no ceiling.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from jaxtyping import Shaped
from torch import Tensor

from noumena import checks
from noumena.ambiguity import Ambiguity
from noumena.metrics.record import MetricRecord

Weights = Shaped[np.ndarray, " feature"] | Shaped[Tensor, " feature"]


@dataclass(frozen=True, kw_only=True)
class Sparsity(MetricRecord):
    """Result of ``hoyer``.

    Attributes
    ----------
    score : float
        Hoyer sparsity, in [0, 1].
    shares : array of shape (n_features,)
        Importance of every feature as a share.
    """

    TITLE: ClassVar[str] = "Hoyer sparsity"
    SUPPORTS: ClassVar[str] = (
        "A predictor used few features; it does not say that they are the right ones, "
        "and copies of a feature share its use."
    )

    score: float
    shares: np.ndarray


@dataclass(frozen=True, kw_only=True)
class Concentration(MetricRecord):
    """Result of ``concentration``.

    Attributes
    ----------
    score : float
        Relative gain of the most important features over the others.
    top, rest : float
        Scores of both parts.
    """

    TITLE: ClassVar[str] = "Concentration"
    RANGE: ClassVar[tuple[float, float]] = (-1.0, float("inf"))
    BEST: ClassVar[float] = float("inf")
    SUPPORTS: ClassVar[str] = (
        "Above 0 the most used features alone predict better than all others together; "
        "it does not say what they stand for."
    )

    score: float
    top: float
    rest: float


def hoyer(w: Weights | Sequence[Any]) -> Sparsity:
    """Hoyer sparsity (√d − 1/‖w‖₂)/(√d − 1) of importances ``w``: 0 when all are equal, 1 when one feature has all.

    Invariant to scale and order.

    Parameters
    ----------
    w : array of shape (n_features,)
        Importances such as split counts, at least 0 and not all 0; they are normalised to sum to one.

    Returns
    -------
    Sparsity

    Examples
    --------
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
    """Relative gain (top − rest)/rest of the most important features' score over that of the others; 0 when equal.

    Parameters
    ----------
    top, rest : float
        Scores of a predictor from the most important features, and from all others.

    Returns
    -------
    Concentration

    Examples
    --------
    >>> round(concentration(0.7, 0.5).score, 3)
    0.4
    """
    checks.number(top, "top", minimum=0)
    checks.require(checks.number(rest, "rest", minimum=0) > 0, "rest must be positive.", f"{rest}")
    finite = np.isfinite(float(top) / float(rest))
    checks.require(bool(finite), "The gain of top over rest must be finite.", f"{top} and {rest}")
    return Concentration(score=(top - rest) / rest, top=top, rest=rest, forgives=Ambiguity("permutation"))
