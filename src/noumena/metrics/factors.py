"""Factors: the true latents with their kinds, as declared or as their values suggest, and a sentence that says which.

A factor is discrete when its values are names, whole numbers that occur twice or more on average, or at most 32
different numbers that occur ten times or more on average; all others are continuous. Names become the numbers
0, 1, … in their sorted order.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from jaxtyping import Float

from noumena import checks

FEW_VALUES, OFTEN = 32, 10


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
    kinds = _declared(discrete, names)
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


def _numbers(z: Any, min_rows: int) -> tuple[np.ndarray, tuple[int, ...]]:
    """Factors as numbers, and the columns that were names."""
    array = _words(z)
    if array is None:
        return checks.table(z, "z", min_rows=min_rows).astype(np.float64), ()
    coded, named = [], []
    for j, column in enumerate(array.T):
        try:
            coded.append(column.astype(np.float64))
        except (TypeError, ValueError):
            missing = int(sum(entry is None or entry != entry for entry in column))
            checks.require(missing == 0, f"Names in column {j} of z must not be missing.", f"{missing} without a name")
            coded.append(np.unique(column.astype(str), return_inverse=True)[1].astype(np.float64))
            named.append(j)
    return checks.table(np.stack(coded, axis=1), "z", min_rows=min_rows), tuple(named)


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


def _declared(discrete: Any, names: tuple[str, ...]) -> tuple[bool, ...]:
    """Kinds from True or False, one of them for each factor, or the numbers or names of the discrete ones."""
    k = len(names)
    told = [discrete] if isinstance(discrete, str | int | np.integer) and not isinstance(discrete, bool) else discrete
    flags = np.asarray(told)
    if flags.dtype == bool and flags.shape in ((), (k,)):
        return tuple(np.broadcast_to(flags, k).tolist())
    known: dict[Any, int] = {name: j for j, name in enumerate(names)} | {j: j for j in range(k)}
    wanted = list(told) if isinstance(told, Sequence | np.ndarray) and flags.ndim == 1 and flags.dtype != bool else []
    listed = bool(wanted) and all(isinstance(w, str | int | np.integer) and w in known for w in wanted)
    must = f"discrete must be True or False, one of them for each of {k} factors, or numbers or names of columns."
    checks.require(listed, must, repr(discrete))
    chosen = {known[w] for w in wanted}
    return tuple(j in chosen for j in range(k))
