"""Columns of users' tables: selection, missing values, constant columns.

Nothing is repaired unasked: missing and infinite cells, constant columns and columns without a name are refused by
name; what was asked for is done and noted (``PreparedTable.done``).

Deviations: imputed values are computed from all rows, those held out later among them.
"""

from __future__ import annotations

import csv
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from noumena import checks
from noumena.checks import InputError

IMPUTE = ("mean", "median", "drop-rows", "drop-columns")
CHUNK = 2**22
"""Entries processed together, so that a memory-mapped file is never loaded whole."""
Names = tuple[str, ...] | None


@dataclass(frozen=True)
class PreparedTable:
    """A table that is ready to learn from.

    Attributes
    ----------
    x : array of shape (n_samples, n_features)
        Finite numbers; every column varies.
    names : tuple of str or None
        Names of the columns.
    done : tuple of str
        Sentences on what was done to the file's columns.
    """

    x: np.ndarray
    names: Names
    done: tuple[str, ...]


@dataclass(frozen=True)
class ColumnChoice:
    """Columns to take and columns to drop, by name or by index; ``columns=None`` takes all."""

    columns: Sequence[str | int] | None = None
    drop: Sequence[str | int] = ()

    def of(self, names: Names, width: int, file: str) -> np.ndarray:
        """Indices of the columns taken, in the order asked for, else in the file's.

        >>> ColumnChoice(columns=["c", 0]).of(("a", "b", "c"), 3, "t.csv")
        array([2, 0])
        """
        out = {_place(label, names, width, f"Columns to leave out of {file}") for label in self.drop}
        places = list(range(width))
        if self.columns is not None:
            places = [_place(label, names, width, f"Columns to take from {file}") for label in self.columns]
        twice = sorted({label_of(j, names) for j in places if places.count(j) > 1}) if self.columns else []
        checks.require(not twice, f"Columns to take from {file} must be named once.", f"{checks.listed(twice)} twice")
        taken = [j for j in places if j not in out]
        shown = f"{width} columns, {len(out)} of them left out"
        checks.require(len(taken) > 0, f"Some columns of {file} must be kept.", shown)
        return np.array(taken, dtype=np.int64)


@dataclass(frozen=True)
class DataTable:
    """A table as it was read from a file.

    Attributes
    ----------
    x : array of shape (n_samples, n_columns)
        Its numbers, or strings where they were asked for.
    names : tuple of str or None
        Names of the columns.
    left_out : tuple of str
        The columns that were not taken.
    coded : int
        Cells that were codes for missing values.
    """

    x: np.ndarray
    names: Names
    left_out: tuple[str, ...] = ()
    coded: int = 0


@dataclass(frozen=True)
class ReadOptions:
    """How a file is to be read.

    Attributes
    ----------
    key : str or None
        Which array of a file that holds several.
    choice : ColumnChoice
        Columns to take.
    words, mmap : bool
        Whether strings, and a memory map, are accepted.
    options : bool
        Whether the caller has options for what follows; errors then name them.
    missing : tuple of str
        Codes for missing values.
    header, sep, decimal
        Of text: whether it has a header, its column separator, and its decimal point.
    chooser : str or None
        The command's option that chooses columns, ``--drop`` or one that takes them.
    """

    key: str | None = None
    choice: ColumnChoice = field(default_factory=ColumnChoice)
    words: bool = False
    mmap: bool = False
    options: bool = False
    missing: tuple[str, ...] = ()
    header: bool | None = None
    sep: str | None = None
    decimal: str = "."
    chooser: str | None = None

    def taken(self, names: Names, width: int, file: str) -> tuple[np.ndarray, Names, tuple[str, ...]]:
        """Indices and names of the chosen columns, and names of the others."""
        columns = self.choice.of(names, width, file)
        chosen = None if names is None else tuple(names[j] for j in columns)
        left_out = sorted(set(range(width)) - set(columns.tolist()))
        return columns, chosen, tuple(label_of(j, names) for j in left_out)

    def refusal(self, column: int, names: Names, file: str, content: str, *, other: str = "") -> InputError:
        """The error on a column that is not numeric, with what to do about it."""
        remedy = "" if self.chooser is None else f"; {_way_out(self.chooser, column, names)}{other}"
        return InputError(f"Column {label_of(column, names)} of {file} must hold numbers only. Got {content}{remedy}.")


def parse_columns(text: str | None) -> list[str | int] | None:
    """Names and indices of columns from a comma-separated string; quotation marks protect commas in a name.

    >>> parse_columns('a, "b,c",3')
    ['a', 'b,c', '3']
    """
    if text is None:
        return None
    cells = next(csv.reader([text], skipinitialspace=True), [])
    labels: list[str | int] = [cell.strip() for cell in cells if cell.strip()]
    checks.require(len(labels) > 0, "A list must have names or numbers with commas.", repr(text))
    return labels


def label_of(column: int, names: Names) -> str:
    """A column in an error message: its name, or its index.

    >>> label_of(1, ("a", "b")), label_of(1, None), label_of(0, ("", "b"))
    ("'b'", '1', '0')
    """
    return f"{names[column]!r:.60}" if names and names[column] else str(column)


def _way_out(chooser: str, column: int, names: Names) -> str:
    """How to leave out a refused column, quoted for a shell.

    >>> _way_out("--drop", 0, ("x 1",)), _way_out("--drop", 0, None)
    ("leave it out with --drop 'x 1'", 'leave it out with --drop 0')
    """
    if chooser != "--drop":
        return f"take others with {chooser}"
    known = names is not None and names[column].isprintable() and names.count(names[column]) == 1
    name = names[column] if names and known and names[column] else str(column)
    quoted = '"' + name.replace('"', '""') + '"' if "," in name or '"' in name else name
    return f"leave it out with --drop {shlex.quote(quoted)}"


def _place(label: str | int, names: Names, width: int, which: str) -> int:
    """The index of a column; a string is a name first, then an index."""
    known = list(names or ())
    if isinstance(label, str) and label in known:
        twice = known.count(label) > 1
        checks.require(not twice, f"{which} must be told apart; use their numbers.", f"{label!r}, which several have")
        return known.index(label)
    number = int(label) if isinstance(label, int) or label.isdecimal() else -1
    there = f"columns {checks.listed(known, 8)}" if names else f"{width} columns without names"
    must = f"{which} must be names, or numbers from 0 to {width - 1}."
    checks.require(0 <= number < width, must, f"{label!r:.60} where there are {there}")
    return number


# ---- missing, infinite and constant ----------------------------------------------------------------------------


def prepare(
    x: np.ndarray, names: Names, *, file: str = "x", impute: str | None = None, drop_constant: bool = False
) -> PreparedTable:
    """A table that is finite, with columns that vary and unique names; what violates this is refused by name.

    >>> prepare(np.array([[1.0, 5.0], [np.nan, 5.0], [2.0, 5.0]]), ("a", "b"), impute="mean", drop_constant=True)
    PreparedTable(x=array([[1. ],
           [1.5],
           [2. ]]), names=('a',), done=("Filled 1 missing cell with the mean of its column: 'a' (1).",
                                        "Left out 1 constant column: 'b'."))
    """
    require_names(names, file)
    _require_different(names, file)
    refuse_infinite(x, names, file)
    return _varying(filled(PreparedTable(x, names, ()), file, impute), file, drop_constant=drop_constant)


def require_names(names: Names, file: str, *, droppable: bool = True) -> None:
    """Refuse a column without a name, as pandas writes its index, and say what to do."""
    unnamed = next((j for j, name in enumerate(names or ()) if not name.strip()), None)
    by_number = droppable and str(unnamed) not in (names or ())
    way_out = f"leave it out with --drop {unnamed}" if by_number else "write the file without it, by index=False"
    shown = f"none for column {unnamed}, an index perhaps; {way_out}"
    checks.require(unnamed is None, f"Every column of {file} must have a name.", shown)


def _require_different(names: Names, file: str) -> None:
    if names is None:
        return
    twice = next((name for name in names if names.count(name) > 1), "")
    places = [str(j) for j, name in enumerate(names) if name == twice]
    shown = f"{twice!r:.60} for columns {checks.listed(places)}; leave some out by number with --drop"
    checks.require(len(set(names)) == len(names), f"The columns of {file} must have different names.", shown)


def decoded(x: np.ndarray, codes: tuple[str, ...]) -> tuple[np.ndarray, int]:
    """Numbers with NaN in place of codes for missing values, and how many there are.

    >>> decoded(np.array([[1.0, -999.0]]), ("?", "-999"))
    (array([[ 1., nan]]), 1)
    """
    numbers = [float(code) for code in codes if _is_number(code)]
    if not numbers:
        return x, 0
    hit = np.isin(x, np.array(numbers, dtype=x.dtype))
    return np.where(hit, np.array(np.nan, x.dtype), x), int(hit.sum())


def _is_number(text: str) -> bool:
    try:
        return bool(np.isfinite(float(text)))
    except ValueError:
        return False


def _chunks(x: np.ndarray) -> Iterator[np.ndarray]:
    step = max(1, CHUNK // max(1, x.shape[1]))
    return (x[start : start + step] for start in range(0, len(x), step))


def _missing_and_infinite(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """How many cells of every column are missing, and how many are infinite."""
    missing, infinite = np.zeros(x.shape[1], np.int64), np.zeros(x.shape[1], np.int64)
    for part in _chunks(x):
        missing += np.isnan(part).sum(axis=0)
        infinite += np.isinf(part).sum(axis=0)
    return missing, infinite


def _counted(counts: np.ndarray, names: Names) -> str:
    return checks.listed([f"{label_of(int(j), names)} ({counts[j]})" for j in np.flatnonzero(counts)])


def refuse_infinite(x: np.ndarray, names: Names, file: str) -> None:
    """Refuse cells that are infinite, by their columns."""
    infinite = _missing_and_infinite(x)[1]
    if not infinite.any():
        return
    column = int(np.flatnonzero(infinite)[0])
    row = int(np.flatnonzero(np.isinf(x[:, column]))[0])
    raise InputError(
        f"{file} must hold finite numbers. Got {_cells(int(infinite.sum()), 'infinite')} in columns "
        f"{_counted(infinite, names)}, the first at row {row} of column {label_of(column, names)}."
    )


def require_finite(x: np.ndarray, names: Names, file: str) -> None:
    """Refuse features with missing or infinite cells, by name."""
    bad = sum(_missing_and_infinite(x))
    if not np.any(bad):
        return
    column = int(np.flatnonzero(bad)[0])
    row = int(np.flatnonzero(~np.isfinite(x[:, column]))[0])
    raise InputError(
        f"{file} must have no missing or infinite cells in its features. Got {int(np.sum(bad))} in columns "
        f"{_counted(np.asarray(bad), names)}, the first at row {row} of column {label_of(column, names)}; fill "
        "missing ones with --impute, or choose other columns with --features."
    )


def _cells(number: int, kind: str) -> str:
    return f"{number} {kind} cell{'' if number == 1 else 's'}"


def filled(table: PreparedTable, file: str, impute: str | None, *, chooser: str = "--drop") -> PreparedTable:
    """The table with missing cells imputed as asked, or refused with how many there are and where; ``chooser`` is the
    option that chooses columns."""
    x, names, missing = table.x, table.names, _missing_and_infinite(table.x)[0]
    if impute is not None:
        checks.one_of(impute, "--impute", IMPUTE)
    if not missing.any():
        return table if impute is None else PreparedTable(x, names, ("No cell was missing, so none was imputed.",))
    total, where = int(missing.sum()), _counted(missing, names)
    if impute is None:
        column = int(np.flatnonzero(missing)[0])
        row = int(np.flatnonzero(np.isnan(x[:, column]))[0])
        raise InputError(
            f"{file} must have no missing cells, or --impute must say what becomes of them ({', '.join(IMPUTE)}). "
            f"Got {_cells(total, 'missing')} in {int((missing > 0).sum())} of {len(missing)} columns: {where}, the "
            f"first at row {row} of column {label_of(column, names)}."
        )
    if impute == "drop-columns":
        complete = np.flatnonzero(missing == 0)
        must = f"Some columns of {file} must have no missing cells for --impute drop-columns."
        checks.require(complete.size > 0, must, f"missing cells in all {len(missing)}")
        note = f"Left out {len(missing) - complete.size} of {len(missing)} columns for missing cells: {where}."
        return PreparedTable(x[:, complete], _taken(names, complete), (note,))
    if impute == "drop-rows":
        complete_rows = ~np.isnan(x).any(axis=1)
        must = f"Some rows of {file} must have no missing cells for --impute drop-rows."
        checks.require(bool(complete_rows.any()), must, f"missing cells in all {len(x)}, in columns {where}")
        note = f"Left out {int((~complete_rows).sum())} of {len(x)} rows for {_cells(total, 'missing')}: {where}."
        return PreparedTable(x[complete_rows], names, (note,))
    return _imputed(table, missing, file, impute, chooser)


def _imputed(table: PreparedTable, missing: np.ndarray, file: str, impute: str, chooser: str) -> PreparedTable:
    """Missing cells replaced by the mean or the median of what their column has."""
    x, names = np.array(table.x), table.names
    empty = np.flatnonzero(missing == len(x))
    if empty.size:
        column = int(empty[0])
        raise InputError(
            f"Every column of {file} must hold some numbers for --impute {impute}. Got none in column "
            f"{label_of(column, names)}; {_way_out(chooser, column, names)}."
        )
    for j in np.flatnonzero(missing):
        hole = np.isnan(x[:, j])
        there = x[~hole, j].astype(np.float64)
        x[hole, j] = np.median(there) if impute == "median" else there.mean()
    total = int(missing.sum())
    with_what = f"the {impute} of {'its' if total == 1 else 'their'} column"
    return PreparedTable(
        x, names, (f"Filled {_cells(total, 'missing')} with {with_what}: {_counted(missing, names)}.",)
    )


def _varying(table: PreparedTable, file: str, *, drop_constant: bool) -> PreparedTable:
    """The table without constant columns, or refused by their names; a single row is left to the estimator."""
    x, names = table.x, table.names
    if len(x) < 2:
        return table
    low, high = x[0].copy(), x[0].copy()
    for part in _chunks(x):
        low, high = np.minimum(low, part.min(axis=0)), np.maximum(high, part.max(axis=0))
    constant = np.flatnonzero(low == high)
    if constant.size == 0:
        return table
    called = checks.listed([label_of(int(j), names) for j in constant])
    must = f"Every column of {file} must vary, or --drop-constant must leave out those that do not."
    many = f"constant column{'' if constant.size == 1 else 's'}"
    checks.require(drop_constant, must, f"{many} {called}")
    varying = np.flatnonzero(low != high)
    checks.require(varying.size > 0, f"Some columns of {file} must vary.", f"{len(low)} constant columns")
    note = f"Left out {constant.size} {many}: {called}."
    return PreparedTable(x[:, varying], _taken(names, varying), (*table.done, note))


def _taken(names: Names, columns: np.ndarray) -> Names:
    return None if names is None else tuple(names[j] for j in columns)
