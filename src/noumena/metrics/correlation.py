"""Mean correlation coefficient (MCC): match learned to true latents by correlation and average.

Pearson forgives permutation and scaling; Spearman forgives any monotone element-wise map. The score averages over the
*true* latents: unmatched and constant ones count 0.

The published form chooses the matching on the rows it is scored on and forgives every sign. It is the default;
uninformative latents then score far above 0 where rows are few and latents many (.28 for 50 rows and 20 latents), so
the chance level is reported beside. ``held_out=True`` chooses matching and signs on one half of the rows and averages
the signed correlations of the other half: its chance level is 0, its range [−1, 1].

References
----------
Hyvärinen and Morioka (2016), "Unsupervised feature extraction by time-contrastive learning and nonlinear ICA".

Deviations from public code: tied values share their mean rank, true and learned latents may differ in number, and the
chance level is reported.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float
from scipy.optimize import linear_sum_assignment

from noumena import checks, seeds
from noumena.ambiguity import Ambiguity
from noumena.deprecated import renamed
from noumena.metrics import factors
from noumena.metrics.record import MetricRecord, ScoreClaim, counted_zero, evaluate

CHANCE_DRAWS = 20
MOST_PRODUCTS = 2 * 10**10
"""Multiplications that shuffles may cost; large tables, whose chance level varies little, take fewer shuffles."""
PIECE, COLUMNS = 2000, 50
"""Chunk sizes: rows and columns of a large table that are processed together."""
TIED = 12
"""Decimals to which costs are rounded before matching, so that ties do not hang on rounding: the first is taken."""

Half = tuple[np.ndarray, np.ndarray]


@dataclass(frozen=True, kw_only=True)
class Correlation(MetricRecord):
    """Result of ``mcc``.

    Attributes
    ----------
    score : float
        Mean over the true latents.
    per_latent : array of shape (n_latents,)
        Correlation of every true latent with its partner.
    permutation : array of shape (n_latents,)
        The partner, a column of ``z_hat``; −1: none.
    matrix : array of shape (n_latents, n_learned)
        Absolute correlations or, held out, with the signs of the other half.
    correlation : str
        ``"pearson"`` or ``"spearman"``.
    rows, shuffles : int
        Rows scored on, and shuffles behind the chance level.
    held_out : bool
        Whether matching and signs come from other rows.
    constant : tuple of int
        True latents that are constant and count 0.
    """

    score: float
    per_latent: np.ndarray
    permutation: np.ndarray
    matrix: np.ndarray
    correlation: str
    rows: int
    held_out: bool = False
    shuffles: int = 0
    constant: tuple[int, ...] = ()

    @property
    def claims(self) -> tuple[ScoreClaim, ...]:
        """What the score is."""
        supports = {
            "pearson": "Each true latent has its own learned one that is linear in it; a low value may come from a "
            "bent axis as well as from mixed latents, and neither causes nor mechanisms are tested.",
            "spearman": "Each true latent has its own learned one that rises or falls with it; spacing is not tested, "
            "and neither are relations that turn round.",
        }[self.correlation]
        title = f"MCC ({self.correlation.capitalize()}{', held out' if self.held_out else ''})"
        return (ScoreClaim("score", title, (-1.0 if self.held_out else 0.0, 1.0), self.forgives, supports),)

    def __str__(self) -> str:
        return super().__str__() + counted_zero(self.constant, "z")


@renamed(seed="random_state", bootstrap="subsamples")
def mcc(
    z: Any,
    z_hat: Any,
    *,
    correlation: str = "pearson",
    held_out: bool = False,
    shuffles: int = CHANCE_DRAWS,
    ceiling: bool = False,
    subsamples: int = 0,
    random_state: Any = 0,
) -> Correlation:
    """Mean correlation coefficient of learned latents ``z_hat`` with the true ``z``, both (batch, latent).

    Parameters
    ----------
    z, z_hat : array of shape (n_samples, n_latents)
        True and learned latents of the same rows; their numbers of columns may differ.
    correlation : {"pearson", "spearman"}
        Linear correlation, or that of ranks.
    held_out : bool
        Choose matching and signs on one half of the rows and score the other, whose chance level is 0.
    shuffles, subsamples : int
        Row shuffles for the chance level (fewer on large tables) and half-samples for the standard error; 0: none.
    ceiling : bool
        Also score ``z`` in place of ``z_hat``.
    random_state : int, Generator or None
        Seed of halves, shuffles and subsamples.

    Returns
    -------
    Correlation

    Examples
    --------
    >>> z = np.array([[0.0, 3], [1, 1], [2, 4], [3, 1], [4, 5]])
    >>> round(mcc(z, -2 * z[:, ::-1]).score, 6)
    1.0
    """
    seed = seeds.seed_of(random_state)
    checks.one_of(correlation, "correlation", ("pearson", "spearman"))
    z, z_hat = factors.pair(z, z_hat, min_rows=6 if held_out else 3)
    shuffles = affordable(shuffles, len(z) * z.shape[1] * z_hat.shape[1])

    def measure(a: np.ndarray, b: np.ndarray) -> Correlation:  # chance is that of all rows, so not of their halves
        return _measured(a, b, correlation, held_out=held_out, shuffles=shuffles if b is z_hat else 0, seed=seed)

    return evaluate(measure, z, z_hat, ceiling=ceiling, subsamples=subsamples, seed=seed)


def _measured(
    z: np.ndarray, z_hat: np.ndarray, correlation: str, *, held_out: bool, shuffles: int, seed: int
) -> Correlation:
    split = seeds.numpy_generator(seed, "halves of mcc").permutation(len(z)) if held_out else np.arange(len(z))
    rows = np.array_split(split, 2) if held_out else [slice(None)]
    prepare = unit_ranks if correlation == "spearman" else unit_columns
    halves = [(prepare(z[half]), prepare(z_hat[half])) for half in rows]
    matrix, per_latent, permutation = _matched([unit.T @ unit_hat for unit, unit_hat in halves])
    rng = seeds.numpy_generator(seed, "chance of mcc")
    levels = [_matched(_shuffled(halves, rng))[1].mean() for _ in range(shuffles)]
    return Correlation(
        score=float(per_latent.mean()),
        per_latent=per_latent,
        permutation=permutation,
        matrix=matrix,
        correlation=correlation,
        rows=len(halves[-1][0]),
        held_out=held_out,
        shuffles=shuffles,
        constant=tuple(np.flatnonzero(~np.all([unit.any(axis=0) for unit, _ in halves], axis=0)).tolist()),
        chance=float(np.mean(levels)) if shuffles else None,
        forgives=Ambiguity("permutation+scaling" if correlation == "pearson" else "element-wise"),
    )


def _shuffled(halves: list[Half], rng: np.random.Generator) -> list[np.ndarray]:
    """Correlations of shuffled rows, in single precision and chunk by chunk, without copying the tables."""
    correlations = []
    for unit, unit_hat in halves:
        order = rng.permutation(len(unit))
        total = np.zeros((unit.shape[1], unit_hat.shape[1]), dtype=np.float32)
        for start in range(0, len(unit), PIECE):
            part = slice(start, start + PIECE)
            total += unit[part].astype(np.float32).T @ unit_hat[order[part]].astype(np.float32)
        correlations.append(total)
    return correlations


def _matched(correlations: list[np.ndarray]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Correlations with the signs of the first half (of the only one: absolute), those matched there, and partners."""
    chosen, judged = correlations[0], correlations[-1]
    matrix = (np.sign(chosen) * judged).clip(-1, 1)
    rows, columns = linear_sum_assignment(np.abs(chosen).round(TIED), maximize=True)
    per_latent, permutation = np.zeros(len(matrix)), np.full(len(matrix), -1)
    per_latent[rows], permutation[rows] = matrix[rows, columns], columns
    return matrix, per_latent, permutation


def affordable(shuffles: int, products: int) -> int:
    """The shuffles asked for, or as many as ``MOST_PRODUCTS`` allows where each costs so many products; at least one.

    Examples
    --------
    >>> affordable(20, 10**6), affordable(20, 5 * 10**9), affordable(20, 10**12), affordable(0, 10**12)
    (20, 4, 1, 0)
    """
    asked = checks.count(shuffles, "shuffles", minimum=0)
    return min(asked, max(1, MOST_PRODUCTS // max(products, 1)))


def unit_columns(columns: Float[np.ndarray, "batch latent"]) -> Float[np.ndarray, "batch latent"]:
    """Centred columns of unit length; a constant column becomes zero, whatever its rounding error.

    >>> unit_columns(np.array([[1.0, 5], [2, 5], [3, 5]])).round(3).T.tolist()
    [[-0.707, 0.0, 0.707], [0.0, 0.0, 0.0]]
    """
    low, high = columns.min(axis=0), columns.max(axis=0)
    largest = np.maximum(np.abs(low), np.abs(high)).astype(np.float64)
    unit = columns / np.where(largest > 0, largest, 1)  # any unit of measurement: squares stay in range
    unit -= unit.mean(axis=0)
    length = np.sqrt(np.einsum("ij,ij->j", unit, unit))
    unit /= np.where((low < high) & (length > 0), length, np.inf)
    return unit


def unit_ranks(columns: Float[np.ndarray, "batch latent"]) -> Float[np.ndarray, "batch latent"]:
    """Ranks within columns, centred and of unit length, equal values sharing their mean rank; a constant becomes zero.

    Unchanged by any increasing map of a column.

    >>> unit_ranks(np.array([[0.0, 5], [7, 5], [7, 5], [100, 5]])).round(3).T.tolist()
    [[-0.707, 0.0, 0.0, 0.707], [0.0, 0.0, 0.0, 0.0]]
    """
    n = len(columns)
    unit, places = np.empty(columns.shape[::-1]), np.arange(n) - (n - 1) / 2
    for start in range(0, len(unit), COLUMNS):
        for row, column in zip(
            unit[start : start + COLUMNS], columns[:, start : start + COLUMNS].T.copy(), strict=True
        ):
            order = np.argsort(column)
            ranks = _tied(places, column[order])
            row[order] = ranks / (np.sqrt(ranks @ ranks) or 1)
    return unit.T


def _tied(places: np.ndarray, ordered: np.ndarray) -> np.ndarray:
    """Places in a sorted column, those of equal values replaced by their mean."""
    first = np.flatnonzero(np.r_[True, ordered[1:] != ordered[:-1]])
    if len(first) == len(ordered):
        return places
    ends = np.r_[first[1:], len(ordered)]
    return np.repeat((places[first] + places[ends - 1]) / 2, ends - first)
