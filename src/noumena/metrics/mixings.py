"""Amari distance: how far a matrix is from inverting a linear mixing, whatever the order and scale of its rows.

References
----------
Amari, Cichocki and Yang (1996), "A new learning algorithm for blind signal separation".

Deviations: divided by its largest value, 2d(d − 1), so that it lies in [0, 1]; every source is given its share, half
from its column and half from its row, matched by Hungarian. Zero forgives every scale of the rows; other values, as
defined, depend on their relative scales. The chance level is the mean distance of random rotations, what is left to
find once the data are white.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from jaxtyping import Float

from noumena import checks, seeds
from noumena.ambiguity import Ambiguity
from noumena.deprecated import renamed
from noumena.metrics.record import MetricRecord

ROTATIONS = 20
FAR = 1e100

Square = Float[np.ndarray, "source source"]


@dataclass(frozen=True, kw_only=True)
class AmariDistance(MetricRecord):
    """Result of ``amari_distance``.

    Attributes
    ----------
    score : float
        The distance in [0, 1]; 0 is best.
    per_source, matching : array of shape (n_sources,)
        The share of every source, and the row matched to it.
    matrix : array of shape (n_sources, n_sources)
        ``unmixing @ mixing``.
    """

    TITLE: ClassVar[str] = "Amari distance"
    BEST: ClassVar[float] = 0.0
    SUPPORTS: ClassVar[str] = (
        "0 says that every row of the unmixing gives one source, whatever the rows' order and scale, "
        "and a low value that little of other sources is mixed in; it assumes that the mixing is linear."
    )

    score: float
    per_source: np.ndarray
    matching: np.ndarray
    matrix: np.ndarray


@renamed(seed="random_state")
def amari_distance(unmixing: Any, mixing: Any, *, shuffles: int = ROTATIONS, random_state: Any = 0) -> AmariDistance:
    """0 iff ``P = unmixing @ mixing`` has one entry per row and column, 1 when all entries of ``P`` are equally large.

    ``(Σ_i (Σ_j |P_ij| / max_j |P_ij| − 1) + Σ_j (Σ_i |P_ij| / max_i |P_ij| − 1)) / (2d(d − 1))``.

    Parameters
    ----------
    unmixing : array of shape (n_sources, n_observed)
        The learned matrix.
    mixing : array of shape (n_observed, n_sources)
        The true one.
    shuffles : int
        Random rotations for the chance level; 0: not measured.
    random_state : int, Generator or None
        Seed of the rotations.

    Returns
    -------
    AmariDistance

    Examples
    --------
    >>> float(amari_distance([[0.0, -2.0], [3.0, 0.0]], np.eye(2))), float(amari_distance(np.ones((2, 2)), np.eye(2)))
    (0.0, 1.0)
    """
    seed = seeds.seed_of(random_state)
    unmixing, mixing = checks.table(unmixing, "unmixing"), checks.table(mixing, "mixing")
    fits = unmixing.shape == mixing.shape[::-1] and len(unmixing) == mixing.shape[1]
    shapes = f"shapes {unmixing.shape} and {mixing.shape}"
    checks.require(fits, "unmixing must be (sources, observed) and mixing (observed, sources).", shapes)
    P = _in_range(unmixing.astype(np.float64)) @ _in_range(mixing.astype(np.float64))
    d = len(P)
    checks.require(d > 1, "There must be two sources or more.", f"{d}")
    full_rank = np.abs(P).max(axis=1).min() > 0 and np.abs(P).max(axis=0).min() > 0
    checks.require(bool(full_rank), "Every row and column of unmixing @ mixing must have an entry.", "one of zeros")
    (rows, columns), matching = _further_entries(P), _matched(P)
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
    """The matrix, in units of its largest entry where products would overflow or underflow."""
    largest = float(np.abs(matrix).max())
    return matrix if largest == 0 or FAR > largest > 1 / FAR else matrix / largest


def _further_entries(P: Square) -> tuple[Float[np.ndarray, " source"], Float[np.ndarray, " source"]]:
    """Weight of further entries in every row and every column: 0 for one entry, 1 when all are equally large."""
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
    matrices = [np.linalg.qr(rng.standard_normal((d, d)))[0] for _ in range(rotations)]
    return float(np.mean([np.mean(_further_entries(Q)) for Q in matrices])) if matrices else None
