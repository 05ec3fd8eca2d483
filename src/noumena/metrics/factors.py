"""Factors: the true latents with their kinds, discrete or continuous, declared or detected by their values.

A factor is discrete when its values are strings, integers that occur twice or more on average, or at most 32 different
numbers that occur ten times or more on average; all others are continuous. Strings become the numbers 0, 1, … in their
sorted order.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from jaxtyping import Float

from noumena import checks

MOST_LEVELS, ROWS_PER_LEVEL = 32, 10
"""Numbers are discrete with at most so many levels, of so many rows on average."""
ROWS_PER_CATEGORY = 10
"""Rows per category of a nominal factor, on average, that one-hot columns need."""


@dataclass(frozen=True, eq=False)
class FactorTable:
    """True latents with their kinds.

    Attributes
    ----------
    values : array of shape (n_samples, n_factors)
        The factors; categories as the numbers 0, 1, ….
    discrete : tuple of bool
        Which factors are discrete.
    names : tuple of str
        What they are called.
    declared : bool
        Whether the kinds were declared or detected.
    nominal : tuple of int
        Columns that hold categories, whose numbers have no order.
    """

    values: Float[np.ndarray, "batch factor"]
    discrete: tuple[bool, ...]
    names: tuple[str, ...]
    declared: bool = False
    nominal: tuple[int, ...] = ()

    def __len__(self) -> int:
        return len(self.values)

    def __str__(self) -> str:
        how = "declared" if self.declared else "detected by their values"
        kinds = {"discrete": np.flatnonzero(self.discrete), "continuous": np.flatnonzero(~np.array(self.discrete))}
        listed = [
            f"{kind} {checks.listed([self.names[j] for j in which])}" for kind, which in kinds.items() if len(which)
        ]
        return f"Factors ({how}): {'; '.join(listed)}"

    def at(self, rows: np.ndarray) -> FactorTable:
        """The same factors on some of the rows."""
        return replace(self, values=self.values[rows])

    @property
    def description(self) -> str:
        """The kinds, and the factors that are left out because they are constant."""
        constant = [name for j, name in enumerate(self.names) if j not in self.varying]
        return str(self) + (f"; constant and left out {checks.listed(constant)}" if constant else "")

    @property
    def one_hot(self) -> tuple[int, ...]:
        """Nominal factors with rows enough for one-hot columns, ``ROWS_PER_CATEGORY`` on average."""
        levels = {j: len(np.unique(self.values[:, j])) for j in self.nominal}
        return tuple(j for j, categories in levels.items() if categories * ROWS_PER_CATEGORY <= len(self.values))

    @property
    def indicators(self) -> Float[np.ndarray, "batch name"]:
        """One-hot columns of the nominal factors ``one_hot``; none where there are none.

        >>> factors_of([["cube", 0.5], ["ball", 0.1]] * 10).indicators[:2].tolist()
        [[0.0, 1.0], [1.0, 0.0]]
        """
        columns = [self.values[:, [j]] == np.unique(self.values[:, j]) for j in self.one_hot]
        return np.hstack([np.zeros((len(self.values), 0)), *columns])

    @property
    def varying(self) -> np.ndarray:
        """Which factors take two values or more."""
        return np.flatnonzero(np.ptp(self.values, axis=0) > 0)


def factors_of(z: Any, discrete: Any = None, *, min_rows: int = 10) -> FactorTable:
    """Factors with their kinds from a table that may hold strings; a ``FactorTable`` is returned as it is.

    Parameters
    ----------
    z : array, tensor or DataFrame of shape (n_samples, n_factors)
        The true latents.
    discrete : bool, list of bool, list of int or list of str, optional
        Which factors are discrete: all or none, one bool each, or their columns; detected by default.
    min_rows : int
        Fewer rows are refused.

    Returns
    -------
    FactorTable

    Examples
    --------
    >>> print(factors_of([[k % 3, k / 7] for k in range(20)]))
    Factors (detected by their values): discrete z1; continuous z2
    >>> factors_of([["cube", 0.5], ["ball", 0.1]] * 5).values[:2].tolist()
    [[1.0, 0.5], [0.0, 0.1]]
    """
    if isinstance(z, FactorTable):
        checks.require(discrete is None, "discrete must be left out where z has its kinds already.", repr(discrete))
        return z
    columns = getattr(z, "columns", None)
    values, named = _numbers(z, min_rows)
    k = values.shape[1]
    names = tuple(f"z{j + 1}" for j in range(k)) if columns is None else tuple(map(str, columns))
    if discrete is None:
        kinds = tuple(j in named or _repeats(column) for j, column in enumerate(values.T))
        return FactorTable(values, kinds, names, nominal=named)
    numbered = columns is None or all(isinstance(label, str) for label in columns) or list(columns) == list(range(k))
    kinds = _declared(discrete, names, numbered=numbered)
    for j, column in enumerate(values.T):
        checks.require(kinds[j] or j not in named, f"Factor {names[j]} must be discrete.", "names that are no numbers")
        levels = len(np.unique(column))
        must = f"Discrete factor {names[j]} must repeat its values."
        checks.require(not kinds[j] or levels < len(values), must, f"{levels} values in {len(values)} rows")
    return FactorTable(values, kinds, names, declared=True, nominal=named)


def pair(z: Any, z_hat: Any, *, min_rows: int = 10) -> tuple[np.ndarray, np.ndarray]:
    """True and learned latents as float64 tables of one batch; ``z`` may be ``FactorTable``."""
    z = z.values if isinstance(z, FactorTable) else checks.table(z, "z", min_rows=min_rows)
    z_hat = checks.table(z_hat, "z_hat", min_rows=min_rows)
    checks.same_batch(z, z_hat)
    return z.astype(np.float64, copy=False), z_hat.astype(np.float64, copy=False)


def _numbers(z: Any, min_rows: int) -> tuple[np.ndarray, tuple[int, ...]]:
    """Factors as numbers, and the columns that were names."""
    array = _words(z)
    if array is None:
        return checks.table(z, "z", min_rows=min_rows).astype(np.float64), ()
    coded, named = [], []
    for j, column in enumerate(array.T):
        try:
            if any(isinstance(entry, str) and "_" in entry for entry in column):  # 1_2 is a name and not twelve
                raise ValueError("a name")
            coded.append(column.astype(np.float64))
        except (TypeError, ValueError):
            missing = sum(map(_missing, column))
            checks.require(missing == 0, f"Names in column {j} of z must not be missing.", f"{missing} without a name")
            names, codes = np.unique([str(entry) for entry in column], return_inverse=True)
            repeats = len(names) < len(column) or len(column) < min_rows
            checks.require(repeats, f"Names in column {j} of z must repeat.", f"{len(names)} different ones")
            coded.append(codes.astype(np.float64))
            named.append(j)
    return checks.table(np.stack(coded, axis=1), "z", min_rows=min_rows), tuple(named)


def _missing(entry: Any) -> bool:
    """Whether a category is None, NaN or pandas' NA, which has no truth value."""
    try:
        return entry is None or bool(entry != entry)
    except TypeError:
        return True


def _words(z: Any) -> np.ndarray | None:
    """The table if its entries may be names, else None."""
    if hasattr(z, "detach") or hasattr(z, "toarray"):
        return None
    try:
        array = np.asarray(z)
    except ValueError:  # rows of unequal length
        return None
    if array.ndim != 2 or not array.shape[1] or array.dtype.kind not in "OUS":
        return None
    return np.asarray(z, dtype=object) if array.dtype.kind == "U" else array  # a missing name is not the word "nan"


def _repeats(column: np.ndarray) -> bool:
    levels, n = len(np.unique(column)), len(column)
    integral = bool(np.all(column == np.round(column)))
    return (integral and 2 * levels <= n) or (levels <= MOST_LEVELS and ROWS_PER_LEVEL * levels <= n)


def _declared(discrete: Any, names: tuple[str, ...], *, numbered: bool) -> tuple[bool, ...]:
    """Kinds from True or False, one of them for each factor, or the numbers or names of the discrete ones.

    Numbers count columns from 0; where columns are called by other numbers (not ``numbered``) only names will do.
    """
    k = len(names)
    plain: Any = getattr(discrete, "tolist", lambda: discrete)()  # arrays, tensors and their scalars
    single = isinstance(plain, str | Mapping) or not isinstance(plain, Iterable)
    entries: list[Any] = [plain] if single else [getattr(entry, "item", lambda entry=entry: entry)() for entry in plain]
    if entries and all(isinstance(entry, bool) for entry in entries) and (single or len(entries) == k):
        return (entries[0],) * k if single else tuple(entries)
    known: dict[Any, int] = {name: j for j, name in enumerate(names) if names.count(name) == 1}
    known |= {j: j for j in range(k)} if numbered else {}
    must = f"discrete must be True or False, one of them for each of {k} factors, or numbers or names of columns."
    named = all(isinstance(entry, str | int) and not isinstance(entry, bool) and entry in known for entry in entries)
    checks.require(named, must, " ".join(repr(discrete).split())[:60])
    chosen = {known[entry] for entry in entries}
    return tuple(j in chosen for j in range(k))
