"""Relations over pairs of autoencoders: which pairs count, and how their errors go with a term that should bound them.

Reference: Nelson et al. (2026), Section 4.1 and A.7.1. **Deviations**: the leak that the published filter refers to is
lost in our copy of the text; here it is 1.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float

from noumena import seeds
from noumena.studies import rows as tables
from noumena.studies.rows import Row

REFERENCE = 1.0
"""The leak whose reconstruction errors set the filter."""
PERCENTILE = 95
RESAMPLES, COVERED = 2000, 0.95
Column = Float[np.ndarray, " pair"]


def kept(rows: list[Row]) -> list[Row]:
    """The published filter: pairs whose autoencoders both reconstruct as well as 95 % of those at the reference leak.

    >>> one = {"leak": 1.0, "reconstruction a": 1.0, "reconstruction b": 2.0}
    >>> len(kept([one, one | {"leak": 0.0, "reconstruction b": 1.5}]))  # the 95th percentile is 1.95
    1
    """
    there = [row[f"reconstruction {name}"] for row in tables.matching(rows, leak=REFERENCE) for name in "ab"]
    if not there:
        return []
    most = np.percentile(there, PERCENTILE)
    return [row for row in rows if max(row["reconstruction a"], row["reconstruction b"]) <= most]


@dataclass(frozen=True)
class Relation:
    """How the rigid error of pairs goes with a term that should bound it up to a constant."""

    pairs: int
    infinite: int
    """Pairs whose term is infinite (a decoder without full rank): they count for ranks, not for fits."""
    rank: tuple[float, float, float]
    """Spearman's correlation, and the ends of its bootstrap interval."""
    within: float
    """The same within each leak below 1, in the mean over leaks: what is left when the leak is known."""
    constant: float
    """``c`` of ``error/Δ = c·term``, least squares."""
    constant_in_units: float
    """``c`` of ``error = c·Δ·term``, least squares: the same with pairs weighted by their diameters."""
    intercept: tuple[float, float, float]
    """Of a line with an offset: the error that is left without any bending, and its bootstrap interval."""

    def __str__(self) -> str:
        rank, offset = ("{:.3f} [{:.3f}, {:.3f}]".format(*three) for three in (self.rank, self.intercept))
        return f"rank correlation {rank}; error = {self.constant:.4f}·term; a line leaves {offset} at term 0"


def relation(rows: list[Row], term: str = "term") -> Relation:
    """The relation over rows of pairs, with 95 % intervals by resampling pairs."""
    t, e, size, leak = (np.array([row[name] for row in rows], float) for name in (term, "rigid", "diameter", "leak"))
    finite = np.isfinite(t)
    leaks = [leak == value for value in np.unique(leak[leak < 1])]
    each = [spearman(t[there][None], e[there][None])[0] for there in leaks]
    return Relation(
        len(rows),
        int((~finite).sum()),
        _interval(spearman, t, e),
        float(np.mean(each)) if each else float("nan"),
        proportion(t[finite], e[finite]),
        proportion((t * size)[finite], (e * size)[finite]),
        _interval(offset, t[finite], e[finite]),
    )


def proportion(t: Column, e: Column) -> float:
    """The ``c`` with the smallest ``Σ(e − c·t)²``.

    >>> proportion(np.array([1.0, 2.0]), np.array([1.0, 1.0]))  # (1 + 2)/(1 + 4)
    0.6
    """
    return float(t @ e / (t @ t)) if t.any() else float("nan")


def spearman(t: Float[np.ndarray, "sample pair"], e: Float[np.ndarray, "sample pair"]) -> Float[np.ndarray, " sample"]:
    """Rank correlation in every sample of pairs; blind to increasing maps of either, NaN when one is constant.

    >>> spearman(np.array([[1.0, 2.0, 9.0], [1.0, 2.0, 9.0]]), np.array([[0.1, 0.2, 0.3], [3.0, 2.0, 1.0]]))
    array([ 1., -1.])
    """
    from scipy.stats import rankdata

    a, b = (ranks - ranks.mean(axis=1, keepdims=True) for ranks in (rankdata(t, axis=1), rankdata(e, axis=1)))
    with np.errstate(invalid="ignore"):
        return (a * b).sum(axis=1) / np.sqrt((a**2).sum(axis=1) * (b**2).sum(axis=1))


def offset(t: Float[np.ndarray, "sample pair"], e: Float[np.ndarray, "sample pair"]) -> Float[np.ndarray, " sample"]:
    """Where the least squares line of every sample of pairs meets ``t = 0``; NaN when ``t`` is constant.

    >>> offset(np.array([[1.0, 2.0]]), np.array([[3.0, 4.0]]))
    array([2.])
    """
    centred = t - t.mean(axis=1, keepdims=True)
    with np.errstate(invalid="ignore", divide="ignore"):
        return e.mean(axis=1) - t.mean(axis=1) * (centred * e).sum(axis=1) / (centred**2).sum(axis=1)


def _interval(statistic: Any, t: Column, e: Column) -> tuple[float, float, float]:
    """A statistic of pairs and its percentile interval over resampled pairs; NaN without any pair."""
    if len(t) == 0:
        return float("nan"), float("nan"), float("nan")
    draws = seeds.numpy_generator(0, "resampled pairs", len(t)).integers(len(t), size=(RESAMPLES, len(t)))
    found = statistic(t[draws], e[draws])
    found = found[np.isfinite(found)]
    ends = np.quantile(found, [(1 - COVERED) / 2, (1 + COVERED) / 2]) if len(found) else (np.nan, np.nan)
    return float(statistic(t[None], e[None])[0]), float(ends[0]), float(ends[1])
