"""Factors: the true latents with their kinds, as declared or as their values suggest, and a sentence that says which.

A factor is discrete when its values are names, whole numbers that occur twice or more on average, or at most 32
different numbers that occur ten times or more on average; all others are continuous. Names become the numbers
0, 1, … in their sorted order.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from jaxtyping import Float

from noumena import checks

FEW_VALUES, OFTEN = 32, 10


PER_NAME = 10
"""Rows for each name of a factor, on average, that a regression on its names needs."""


@dataclass(frozen=True, eq=False)
class Factors:
    """True latents (batch, factor), which of them are discrete, what they are called, and who said so.

    ``nominal`` are the columns that hold names: their numbers have no order.
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
        told = [f"{kind} {checks.few([self.names[j] for j in which])}" for kind, which in kinds.items() if len(which)]
        return f"Factors ({how}): {'; '.join(told)}"

    def at(self, rows: np.ndarray) -> Factors:
        """The same factors for some of the rows; their kinds stay."""
        return replace(self, values=self.values[rows])

    @property
    def told(self) -> str:
        """The kinds, and the factors that are left out because they are constant."""
        constant = [name for j, name in enumerate(self.names) if j not in self.varying]
        return str(self) + (f"; constant and left out {checks.few(constant)}" if constant else "")

    @property
    def spelled(self) -> tuple[int, ...]:
        """Factors that are names with rows enough for a column of each name, ``PER_NAME`` on average."""
        levels = {j: len(np.unique(self.values[:, j])) for j in self.nominal}
        return tuple(j for j, names in levels.items() if names * PER_NAME <= len(self.values))

    @property
    def indicators(self) -> Float[np.ndarray, "batch name"]:
        """A column of 0 and 1 for each name of the factors that are ``spelled``; none where no factor is.

        >>> factors_of([["cube", 0.5], ["ball", 0.1]] * 10).indicators[:2].tolist()
        [[0.0, 1.0], [1.0, 0.0]]
        """
        columns = [self.values[:, [j]] == np.unique(self.values[:, j]) for j in self.spelled]
        return np.hstack([np.zeros((len(self.values), 0)), *columns])

    @property
    def varying(self) -> np.ndarray:
        """Which factors take two values or more."""
        return np.flatnonzero(np.ptp(self.values, axis=0) > 0)


def factors_of(z: Any, discrete: Any = None, *, min_rows: int = 10) -> Factors:
    """Factors from an array, a tensor or a data frame (batch, factor), which may hold names; ``Factors`` stay as is.

    ``discrete`` says which are: True or False for all, one of them for each, or numbers or names of columns.

    >>> print(factors_of([[k % 3, k / 7] for k in range(20)]))
    Factors (detected by their values): discrete z1; continuous z2
    >>> factors_of([["cube", 0.5], ["ball", 0.1]] * 5).values[:2].tolist()
    [[1.0, 0.5], [0.0, 0.1]]
    """
    if isinstance(z, Factors):
        checks.require(discrete is None, "discrete must be left out where z has its kinds already.", repr(discrete))
        return z
    columns = getattr(z, "columns", None)
    values, named = _numbers(z, min_rows)
    k = values.shape[1]
    names = tuple(f"z{j + 1}" for j in range(k)) if columns is None else tuple(map(str, columns))
    if discrete is None:
        kinds = tuple(j in named or _repeats(column) for j, column in enumerate(values.T))
        return Factors(values, kinds, names, nominal=named)
    numbered = columns is None or all(isinstance(label, str) for label in columns) or list(columns) == list(range(k))
    kinds = _declared(discrete, names, numbered=numbered)
    for j, column in enumerate(values.T):
        checks.require(kinds[j] or j not in named, f"Factor {names[j]} must be discrete.", "names that are no numbers")
        levels = len(np.unique(column))
        must = f"Discrete factor {names[j]} must repeat its values."
        checks.require(not kinds[j] or levels < len(values), must, f"{levels} values in {len(values)} rows")
    return Factors(values, kinds, names, declared=True, nominal=named)


def pair(z: Any, z_hat: Any, *, min_rows: int = 10) -> tuple[np.ndarray, np.ndarray]:
    """True and learned latents as float64 tables of one batch; ``z`` may be ``Factors``."""
    z = z.values if isinstance(z, Factors) else checks.table(z, "z", min_rows=min_rows)
    z_hat = checks.table(z_hat, "z_hat", min_rows=min_rows)
    checks.same_batch(z, z_hat)
    return z.astype(np.float64, copy=False), z_hat.astype(np.float64, copy=False)


def in_range(columns: Float[np.ndarray, "batch latent"]) -> Float[np.ndarray, "batch latent"]:
    """Columns over powers of two, which is exact, so that their largest numbers lie between ½ and 1, and squares in
    range.

    >>> in_range(np.array([[3.0, 0], [-5, 0]])).tolist()
    [[0.375, 0.0], [-0.625, 0.0]]
    """
    return np.ldexp(columns, -np.frexp(np.abs(columns).max(axis=0))[1])


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
    """Whether a name is None, not a number or pandas' NA, which has no truth value."""
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
    whole = bool(np.all(column == np.round(column)))
    return (whole and 2 * levels <= n) or (levels <= FEW_VALUES and OFTEN * levels <= n)


def _declared(discrete: Any, names: tuple[str, ...], *, numbered: bool) -> tuple[bool, ...]:
    """Kinds from True or False, one of them for each factor, or the numbers or names of the discrete ones.

    Numbers count columns from 0; where columns are called by other numbers (not ``numbered``) only names will do.
    """
    k = len(names)
    given: Any = getattr(discrete, "tolist", lambda: discrete)()  # arrays, tensors and their scalars
    alone = isinstance(given, str | Mapping) or not isinstance(given, Iterable)
    told: list[Any] = [given] if alone else [getattr(entry, "item", lambda entry=entry: entry)() for entry in given]
    if told and all(isinstance(entry, bool) for entry in told) and (alone or len(told) == k):
        return (told[0],) * k if alone else tuple(told)
    known: dict[Any, int] = {name: j for j, name in enumerate(names) if names.count(name) == 1}
    known |= {j: j for j in range(k)} if numbered else {}
    must = f"discrete must be True or False, one of them for each of {k} factors, or numbers or names of columns."
    named = all(isinstance(entry, str | int) and not isinstance(entry, bool) and entry in known for entry in told)
    checks.require(named, must, " ".join(repr(discrete).split())[:60])
    chosen = {known[entry] for entry in told}
    return tuple(j in chosen for j in range(k))
