"""Amari distance: how far an unmixing is from undoing a linear mixture, whatever the order and scale of its rows."""

from __future__ import annotations

from typing import Any

import numpy as np

from noumena import checks


def amari_distance(unmixing: Any, mixing: Any) -> float:
    """0 iff ``P = unmixing @ mixing`` has one entry per row and column, 1 when all entries of ``P`` are equally large.

    ``(Σ_i (Σ_j |P_ij| / max_j |P_ij| − 1) + Σ_j (Σ_i |P_ij| / max_i |P_ij| − 1)) / (2d(d − 1))``.

    >>> amari_distance(np.array([[0.0, -2.0], [3.0, 0.0]]), np.eye(2)), amari_distance(np.ones((2, 2)), np.eye(2))
    (0.0, 1.0)
    """
    unmixing, mixing = checks.table(unmixing, "unmixing"), checks.table(mixing, "mixing")
    fits = unmixing.shape == mixing.shape[::-1] and len(unmixing) == mixing.shape[1]
    given = f"shapes {unmixing.shape} and {mixing.shape}"
    checks.require(fits, "unmixing must be (sources, observed) and mixing (observed, sources).", given)
    P = np.abs(unmixing @ mixing)
    d = len(P)
    checks.require(d > 1, "There must be two sources or more.", f"{d}")
    whole = P.max(axis=1).min() > 0 and P.max(axis=0).min() > 0
    checks.require(bool(whole), "Every row and column of unmixing @ mixing must have an entry.", "one of zeros")
    rows = (P / P.max(axis=1, keepdims=True)).sum(axis=1) - 1
    columns = (P / P.max(axis=0)).sum(axis=0) - 1
    return float((rows.sum() + columns.sum()) / (2 * d * (d - 1)))
