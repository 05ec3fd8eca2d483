"""Fixed factors: batches of rows that share the value of one factor, drawn from any labelled sample.

References
----------
Kim and Mnih (2018), "Disentangling by factorising", and its public code, which generates observations from a complete
grid: a factor is picked uniformly, its value is that of a random draw of all factors, and the other factors are drawn
at random. Here a factor is picked uniformly, its value is that of a random row, and the batch is drawn with
replacement
from the rows with that value. On a complete grid the two are the same.

Deviations: the other factors are distributed as they are given the fixed value, so that fixing one of dependent
factors
partly fixes others. Continuous factors are cut into quantile bins, by default as many as hold 64 rows each, from 2 to
20. Values in few rows are never fixed, as a variance among few rows is mostly noise, and factors without any other
value are left out; both are noted. Draws from a group of ``m`` rows show variances that are too small by ``(m −
1)/m``,
but all latents alike: comparisons within a batch are unaffected.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from noumena import checks
from noumena.metrics.factors import FactorTable, factors_of

BIN_ROWS, FEWEST_BINS, MOST_BINS = 64, 2, 20
MIN_GROUP = 16


@dataclass(frozen=True, eq=False)
class FixedFactors:
    """A sampler of batches in which one factor is fixed.

    Attributes
    ----------
    groups : array of shape (n_samples, n_used)
        Group of each row for each factor in use; −1: its value is never fixed.
    used, names : tuple
        The columns of these factors in the sample, and their names.
    complete : bool
        Whether every combination of values occurs equally often.
    notes : tuple of str
        Sentences on bins, small groups and missing combinations.
    """

    groups: Int[np.ndarray, "batch factor"]
    used: tuple[int, ...]
    names: tuple[str, ...]
    complete: bool = False
    notes: tuple[str, ...] = ()

    def __str__(self) -> str:
        return " ".join((f"Batches that fix one of {checks.listed(self.names)}.", *self.notes))

    @property
    def smallest(self) -> int:
        """Rows in the smallest group that is drawn from."""
        return int(self._places[3].min())

    def draw(
        self, batches: int, batch_size: int, rng: np.random.Generator
    ) -> tuple[Int[np.ndarray, " batches"], Int[np.ndarray, "batches rows"]]:
        """Which factor (its index in ``used``) each batch fixes, and its rows, drawn with replacement."""
        order, bounds, first, size = self._places
        factor = rng.choice(np.flatnonzero(np.diff(bounds)), batches)
        lead = bounds[factor] + (rng.random(batches) * np.diff(bounds)[factor]).astype(np.int64)
        steps = (rng.random((batches, batch_size)) * size[lead, None]).astype(np.int64)
        return factor, order[first[lead, None] + steps]

    @cached_property
    def _places(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Rows by factor and group; where factors begin; first row and size of the group of each row."""
        n, k = self.groups.shape
        labels = int(self.groups.max(initial=0)) + 1
        keys = np.where(self.groups < 0, -1, self.groups + labels * np.arange(k)).T.ravel()
        counts = np.bincount(keys[keys >= 0], minlength=labels * k)
        keys[counts[keys] < 2] = -1  # one row has no spread
        order = np.argsort(keys, kind="stable")[np.count_nonzero(keys < 0) :]
        checks.require(len(order) > 0, "A factor must have a value that occurs in 2 rows to be fixed.", "none")
        _, start, size = np.unique(keys[order], return_index=True, return_counts=True)
        bounds = np.searchsorted(keys[order], labels * np.arange(k + 1))
        return order % n, bounds, np.repeat(start, size), np.repeat(size, size)


def fixed_factors(factors: Any, *, bins: int | None = None, min_group: int = MIN_GROUP) -> FixedFactors:
    """A sampler of batches in which one factor is fixed, from a labelled sample.

    Parameters
    ----------
    factors : array, DataFrame or FactorTable of shape (n_samples, n_factors)
        The factors of every row.
    bins : int, optional
        Quantile bins of continuous factors; by default as many as hold 64 rows each, from 2 to 20.
    min_group : int
        Values in fewer rows are never fixed.

    Returns
    -------
    FixedFactors

    Examples
    --------
    >>> grid = np.stack(np.meshgrid(range(3), range(4), range(5)), axis=-1).reshape(60, 3).astype(float)
    >>> fixed = fixed_factors(FactorTable(grid, (True, True, True), ("shape", "size", "hue")), min_group=15)
    >>> fixed.names, fixed.notes[-1]  # each hue occurs in 12 rows
    (('shape', 'size'), 'Left out, as no value occurs in 15 rows: hue.')
    """
    factors, min_group = factors_of(factors), checks.count(min_group, "min_group", minimum=2)
    wanted = np.clip(len(factors) // BIN_ROWS, FEWEST_BINS, MOST_BINS) if bins is None else bins
    bins = checks.count(wanted, "bins", minimum=FEWEST_BINS)
    kinds = zip(factors.values.T, factors.discrete, strict=True)
    labels = np.stack([_labels(column, None if known else bins) for column, known in kinds], axis=1)
    sizes = [np.bincount(column) for column in labels.T]
    enough = [size >= min_group for size in sizes]
    varying = [len(size) > 1 for size in sizes]
    used = tuple(j for j in range(len(sizes)) if varying[j] and enough[j].any())
    largest = max(int(size.max()) for size in sizes)
    must = f"z must have a factor of two values or more, one of which occurs in {min_group} rows."
    checks.require(bool(used), must, f"{len(sizes)} factors without, in {len(factors)} rows ({largest} at most)")
    complete, grid_note = _grid(factors, labels, sizes)
    notes = (grid_note, _binned(factors, sizes), *_left_out(factors.names, sizes, enough, min_group))
    groups = np.stack([np.where(enough[j][labels[:, j]], labels[:, j], -1) for j in used], axis=1)
    names = tuple(factors.names[j] for j in used)
    return FixedFactors(groups, used, names, complete, tuple(note for note in notes if note))


def _labels(column: Float[np.ndarray, " batch"], bins: int | None) -> Int[np.ndarray, " batch"]:
    """Numbers 0, 1, … of equal values or, with ``bins``, of quantile bins; equal values are never separated.

    A value that fills a bin alone gets one of its own.

    >>> _labels(np.array([3.0, 1, 3, 2]), None).tolist(), _labels(np.arange(6.0), 3).tolist()
    ([2, 0, 2, 1], [0, 0, 1, 1, 2, 2])
    >>> _labels(np.array([0.0, 0, 0, 0, -1, -2, 5, 6]), 2).tolist()
    [1, 1, 1, 1, 0, 0, 2, 2]
    """
    if bins is not None:
        edges = np.unique(np.quantile(column, np.arange(1, bins) / bins))
        heavy = edges[[bins * np.count_nonzero(column == edge) >= len(column) for edge in edges]]
        column = 2 * np.searchsorted(edges, column, side="right") - np.isin(column, heavy)
    return np.unique(column, return_inverse=True)[1]


def _grid(factors: FactorTable, labels: np.ndarray, sizes: list[np.ndarray]) -> tuple[bool, str]:
    """Whether every combination occurs equally often, and the sentence for it; only discrete factors have a grid."""
    if not all(factors.discrete):
        return False, ""
    levels, n = [len(size) for size in sizes], len(labels)
    beside = "the other factors are drawn as they occur beside the fixed one."
    if prod(levels) > n:
        return False, f"{prod(levels)} combinations of values have only {n} rows: {beside}"
    occurs = np.bincount(np.ravel_multi_index(tuple(labels.T), levels), minlength=prod(levels))
    if occurs.min() == occurs.max():
        times = "1 time" if occurs[0] == 1 else f"{occurs[0]} times"
        return True, f"Complete factor grid: every combination of values occurs {times}."
    if (missing := int(np.count_nonzero(occurs == 0))) > 0:
        return False, f"{missing} of {prod(levels)} combinations of values are missing: {beside}"
    return False, f"Combinations of values occur {occurs.min()} to {occurs.max()} times: {beside}"


def _binned(factors: FactorTable, sizes: list[np.ndarray]) -> str:
    """The sentence on continuous factors."""
    cut = [j for j, known in enumerate(factors.discrete) if not known and len(sizes[j]) > 1]
    if not cut:
        return ""
    names, most = checks.listed([factors.names[j] for j in cut]), max(len(sizes[j]) for j in cut)
    rows = int(np.median(np.concatenate([sizes[j] for j in cut])))
    return f"Cut into up to {most} quantile bins of about {rows} rows, in one of which they are fixed: {names}."


def _left_out(names: tuple[str, ...], sizes: list[np.ndarray], enough: list[np.ndarray], min_group: int) -> list[str]:
    """The sentences on constant factors, on those without a large group, and on small groups of the others."""
    constant = [name for name, size in zip(names, sizes, strict=True) if len(size) < 2]
    scarce = [n for n, s, e in zip(names, sizes, enough, strict=True) if len(s) > 1 and not e.any()]
    thin = {n: e for n, e in zip(names, enough, strict=True) if e.any() and not e.all()}
    counts = checks.listed([f"{np.count_nonzero(~e)} of {len(e)} values of {n}" for n, e in thin.items()])
    return [
        f"Left out, as they have one value: {checks.listed(constant)}." if constant else "",
        f"Left out, as no value occurs in {min_group} rows: {checks.listed(scarce)}." if scarce else "",
        f"Never fixed, as they occur in fewer than {min_group} rows: {counts}." if thin else "",
    ]
