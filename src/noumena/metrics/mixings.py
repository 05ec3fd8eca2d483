"""Amari distance: how far an unmixing is from undoing a linear mixture, whatever the order and scale of its rows.

Reference: Amari, Cichocki and Yang (1996), "A new learning algorithm for blind signal separation". **Deviations**:
divided by its largest value, 2d(d − 1), so that it lies in [0, 1]; every source is given its share, half of what its
column holds of further rows and half of what its row, matched by Hungarian, holds of further sources. Zero forgives
every scale of the rows; other values, as defined, know the rows' scales relative to one another. Chance is the mean
distance of random rotations: what is left to find once the data are white.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float

from noumena import checks, seeds
from noumena.ambiguity import Ambiguity
from noumena.deprecated import renamed
from noumena.metrics.record import Claim, Record

ROTATIONS = 20
FAR = 1e100

Square = Float[np.ndarray, "source source"]


@dataclass(frozen=True, kw_only=True)
class AmariDistance(Record):
    """The distance in [0, 1], 0 is best; the share of each source; the row matched to each; ``unmixing @ mixing``."""

    score: float
    per_source: np.ndarray
    matching: np.ndarray
    matrix: np.ndarray

    @property
    def claims(self) -> tuple[Claim, ...]:
        """The distance, for which less is better."""
        supports = (
            "0 says that every row of the unmixing gives one source, whatever the rows' order and scale, "
            "and a low value that little of other sources is mixed in; it assumes that the mixing is linear."
        )
        return (Claim("score", "Amari distance", (0.0, 1.0), self.forgives, supports, best=0.0),)

    def __float__(self) -> float:
        return self.score


@renamed(seed="random_state")
def amari_distance(unmixing: Any, mixing: Any, *, shuffles: int = ROTATIONS, random_state: Any = 0) -> AmariDistance:
    """0 iff ``P = unmixing @ mixing`` has one entry per row and column, 1 when all entries of ``P`` are equally large.

    ``(Σ_i (Σ_j |P_ij| / max_j |P_ij| − 1) + Σ_j (Σ_i |P_ij| / max_i |P_ij| − 1)) / (2d(d − 1))``.
    ``shuffles`` is the number of random rotations for the chance (0: not measured).

    >>> float(amari_distance([[0.0, -2.0], [3.0, 0.0]], np.eye(2))), float(amari_distance(np.ones((2, 2)), np.eye(2)))
    (0.0, 1.0)
    """
    seed = seeds.seed_of(random_state)
    unmixing, mixing = checks.table(unmixing, "unmixing"), checks.table(mixing, "mixing")
    fits = unmixing.shape == mixing.shape[::-1] and len(unmixing) == mixing.shape[1]
    given = f"shapes {unmixing.shape} and {mixing.shape}"
    checks.require(fits, "unmixing must be (sources, observed) and mixing (observed, sources).", given)
    P = _in_range(unmixing.astype(np.float64)) @ _in_range(mixing.astype(np.float64))
    d = len(P)
    checks.require(d > 1, "There must be two sources or more.", f"{d}")
    whole = np.abs(P).max(axis=1).min() > 0 and np.abs(P).max(axis=0).min() > 0
    checks.require(bool(whole), "Every row and column of unmixing @ mixing must have an entry.", "one of zeros")
    (rows, columns), matching = _lacking(P), _matched(P)
    return AmariDistance(
        score=float(rows.sum() + columns.sum()) / (2 * d),
        per_source=(rows[matching] + columns) / 2,
        matching=matching,
        matrix=P,
        forgives=Ambiguity("permutation+scaling"),
        chance=_chance(d, checks.count(shuffles, "shuffles", minimum=0), seed),
        ceiling=0.0,
    )


def _in_range(matrix: np.ndarray) -> np.ndarray:
    """The matrix as it is, or in units of its largest entry where products would leave the numbers."""
    largest = float(np.abs(matrix).max())
    return matrix if largest == 0 or FAR > largest > 1 / FAR else matrix / largest


def _lacking(P: Square) -> tuple[Float[np.ndarray, " source"], Float[np.ndarray, " source"]]:
    """How much of other entries there is in every row and every column: 0 for one entry, 1 when all are as large."""
    P, d = np.abs(P), len(P)
    rows = (P / P.max(axis=1, keepdims=True)).sum(axis=1) - 1
    columns = (P / P.max(axis=0)).sum(axis=0) - 1
    return rows / (d - 1), columns / (d - 1)


def _matched(P: Square) -> np.ndarray:
    """The row of every source."""
    from scipy.optimize import linear_sum_assignment

    return linear_sum_assignment(-(np.abs(P) / np.abs(P).max(axis=1, keepdims=True)).T)[1]


def _chance(d: int, rotations: int, seed: int) -> float | None:
    """The mean distance of random rotations."""
    rng = seeds.numpy_generator(seed, "random rotations")
    turns = [np.linalg.qr(rng.standard_normal((d, d)))[0] for _ in range(rotations)]
    return float(np.mean([np.mean(_lacking(turn)) for turn in turns])) if turns else None
