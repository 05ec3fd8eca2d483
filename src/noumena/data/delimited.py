"""Delimited text: ``.csv`` and ``.tsv`` files, plain or gzipped, as columns of numbers or strings.

Whether the first line is a header is detected from the lines below it, or given; numbers that count from 0 or 1 are a
header where what is below them does not count, as pandas names columns without names.
"""

from __future__ import annotations

import csv
import gzip
import io
import re
import shlex
from pathlib import Path

import numpy as np

from noumena import checks
from noumena.data.columns import DataTable, ReadOptions

MISSING = ("", "na", "nan", "n/a", "null", "none")
UNNAMED = ("", "na", "nan", "n/a", "null")
"""Missing values of a column of strings, where "none" may be a name."""
MOST_BYTES = 2**30
"""Most bytes that a gzipped file may decompress to."""
COUNTED = 8
"""So many consecutive integers are a header over integers too."""
DECIMAL = (".", ",")
MOST_CODES = 3
"""Most different strings in a numeric column that may be codes for missing values."""
Rows = list[tuple[int, list[str]]]
"""Line numbers and cells."""


def read_text(path: Path, asked: ReadOptions) -> DataTable:
    """A table of numbers; of strings where ``asked.words`` and a column has any."""
    written = lines_of(path, asked)
    rows = [(line, plain(row, asked)) for line, row in written]
    headed = _has_header([row for _, row in rows]) if asked.header is None else asked.header
    names = tuple(cell.strip() for cell in written[0][1]) if headed else None
    rows, written = rows[headed:], written[headed:]
    taken, chosen, left_out = asked.taken(names, len(written[0][1] if written else names or ()), path.name)
    columns = [[row[j] for _, row in rows] for j in taken]
    numbers = [numbers_of(cells) for cells in columns]
    words = next((k for k, column in enumerate(numbers) if column is None), None)
    if words is None:
        table = np.stack([column for column in numbers if column is not None], axis=1)
        return DataTable(table, chosen, left_out, coded_among(rows, written, taken) if asked.missing else 0)
    if not asked.words:
        place = next(i for i, cell in enumerate(columns[words]) if number_of(cell) is None)
        line, raw = written[place]
        shown = f"words, such as {raw[taken[words]][:40]!r} on line {line}"
        other = _other(raw[taken[words]].strip(), columns[words], asked)
        raise asked.refusal(int(taken[words]), names, path.name, shown, other=other)
    for cells in columns:
        empty = next((i for i, cell in enumerate(cells) if cell.strip().lower() in UNNAMED), None)
        cell = cells[empty or 0].strip()
        shown = f"{repr(cell) if cell else 'an empty one'} on line {rows[empty or 0][0]}"
        checks.require(empty is None, f"Every cell of {path.name} must be filled.", shown)
    return DataTable(np.array(columns, dtype=object).T, chosen, left_out)


def coded_among(rows: Rows, written: Rows, columns: np.ndarray) -> int:
    """How many cells are codes for missing values: ``plain`` has emptied them."""
    both = zip(rows, written, strict=True)
    return sum(not row[j].strip() and bool(raw[j].strip()) for (_, row), (_, raw) in both for j in columns)


def _other(word: str, cells: list[str], asked: ReadOptions) -> str:
    """Advice on a string in a numeric column: a decimal comma, or a code for missing values."""
    if not asked.options:
        return ""
    if asked.decimal == "." and re.fullmatch(r"[+-]?\d*,\d+", word):
        return ", or read its commas as decimal points with --decimal ','"
    parsed = [(cell, number_of(cell)) for cell in cells]
    words = {cell for cell, number in parsed if number is None}
    numbers = any(number is not None and not np.isnan(number) for _, number in parsed)
    if len(words) > MOST_CODES or not numbers or set(word) & set(",\"'") or len(word) > 20 or not word.isprintable():
        return ""
    return f", or count {word!r} as missing with --missing {shlex.quote(word)}"


# ---- header ------------------------------------------------------------------------------------------------------


def _has_header(rows: list[list[str]]) -> bool:
    """Whether the first line is a header: a string over a column of numbers, strings that occur nowhere below them, or
    consecutive integers."""
    first, *below = rows
    word = [number_of(cell) is None for cell in first]
    if not any(word):
        return _counting_header(first, below)
    if not below:
        return True
    columns = [[row[j] for row in below] for j in range(len(first))]
    over_numbers = any(w and numbers_of(column) is not None for w, column in zip(word, columns, strict=True))
    return over_numbers or all(w and cell not in column for w, cell, column in zip(word, first, columns, strict=True))


def _counting_header(first: list[str], below: list[list[str]]) -> bool:
    """Whether integers in a first line are column names: 0, 1, … or 1, 2, … over non-integers or, if there are many,
    over what is not consecutive; or whatever follows an empty cell over an index."""
    if not below:
        return False
    if not first[0].strip() and len(first) > 1:
        return _counts(first[1:], (0, 1)) or _counts([row[0] for row in below], (0,))
    if len(first) < 2 or not _counts(first, (0, 1)):
        return False
    integral = all(re.fullmatch(r"\s*([+-]?\d+)?\s*", cell) for row in below for cell in row)
    return not integral or (len(first) >= COUNTED and not any(_counts(row) for row in below))


def _counts(cells: list[str], starts: tuple[int, ...] | None = None) -> bool:
    """Whether cells are consecutive integers, from one of some starts.

    >>> _counts(["1", "2"], (0, 1)), _counts(["3", "4"], (0, 1)), _counts(["3", "4"]), _counts(["0", "1.0"])
    (True, False, True, False)
    """
    if not all(cell.strip().isdecimal() for cell in cells):
        return False
    numbers = [int(cell) for cell in cells]
    in_order = numbers == list(range(numbers[0], numbers[0] + len(numbers)))
    return in_order and (starts is None or numbers[0] in starts)


# ---- lines and cells ---------------------------------------------------------------------------------------------


def lines_of(path: Path, asked: ReadOptions) -> Rows:
    """Rows of equally many cells with their line numbers."""
    sign = separator(path, asked)
    with opened(path) as file:
        reader = csv.reader(file, delimiter=sign, strict=True)
        rows = [(reader.line_num, row) for row in reader if row]
    checks.require(len(rows) > 0, f"{path.name} must be a complete {path.suffix} file of numbers.", "no rows")
    if any("\0" in cell for cell in rows[0][1]):
        raise UnicodeError("NUL in text")
    width = len(rows[0][1])
    require_parted(rows[0][1], sign, path, asked)
    for line, row in rows:
        checks.require(
            len(row) == width, f"Every line of {path.name} must have {width} cells.", f"{len(row)} on line {line}"
        )
    return rows


def require_parted(first: list[str], sign: str, path: Path, asked: ReadOptions) -> None:
    """Refuse text whose first line is a single cell that holds another separator, unless one was asked for."""
    if len(first) != 1 or asked.sep is not None:
        return
    other = next((mark for mark in (";", "\t", ",") if mark in first[0]), None)
    must = f"Columns of {path.name} must be separated by {'tabs' if sign == chr(9) else 'commas'}"
    must += ", or as --sep says." if asked.options else "."
    checks.require(other is None, must, f"{'a tab' if other == chr(9) else repr(other)} in the first line")


def separator(path: Path, asked: ReadOptions) -> str:
    """The column separator: that of the file's ending, unless another is asked for."""
    usual = "\t" if path.name.lower().removesuffix(".gz").endswith(".tsv") else ","
    sign = usual if asked.sep is None else {"tab": "\t", "\\t": "\t"}.get(asked.sep, asked.sep)
    fits = len(sign) == 1 and not sign.isalnum() and sign not in '"\r\n.+-'
    checks.require(fits, "--sep must be one character, or tab.", repr(asked.sep))
    fits = asked.decimal in DECIMAL and asked.decimal != sign
    must = "--decimal must be a point or a comma, and not the column separator."
    checks.require(fits, must, repr(asked.decimal))
    return sign


def opened(path: Path) -> io.TextIOBase:
    """A text file, decompressed where it is gzipped."""
    if path.suffix.lower() != ".gz":
        return path.open(newline="", encoding="utf-8-sig")
    with gzip.open(path) as file:
        content = file.read(MOST_BYTES + 1)
    fits = len(content) <= MOST_BYTES
    checks.require(fits, f"{path.name} must unpack to at most {MOST_BYTES} bytes.", "more; unpack it first")
    return io.StringIO(content.decode("utf-8-sig"), newline="")


def plain(row: list[str], asked: ReadOptions) -> list[str]:
    """Cells with decimal points; those that are codes for missing values are emptied."""
    if asked.decimal != ".":
        turned = str.maketrans({asked.decimal: ".", ".": asked.decimal})
        row = [cell.translate(turned) for cell in row]
    if not asked.missing:
        return row
    codes = {number for number in map(number_of, asked.missing) if number is not None}
    return ["" if cell.strip() in asked.missing or number_of(cell) in codes else cell for cell in row]


def numbers_of(cells: list[str]) -> np.ndarray | None:
    """A column's numbers, NaN where missing; ``None`` when it has strings."""
    try:
        if not any("_" in cell for cell in cells):
            return np.array([float(cell) for cell in cells])
    except ValueError:
        pass
    numbers = [number_of(cell) for cell in cells]
    return None if None in numbers else np.array(numbers, dtype=np.float64)


def number_of(cell: str) -> float | None:
    """A cell's number, NaN when it is missing, ``None`` when it is a string, as ``1_2`` is.

    >>> number_of("1e3"), number_of("NA"), number_of("1_2")
    (1000.0, nan, None)
    """
    if cell.strip().lower() in MISSING:
        return np.nan
    try:
        return None if "_" in cell else float(cell)
    except ValueError:
        return None
