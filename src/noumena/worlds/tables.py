"""Users' tables: ``.npy``, ``.npz``, ``.csv`` and ``.parquet`` files as a finite ``(batch, dim)`` array with names.
Never unpickles."""

from __future__ import annotations

import csv
import tokenize
import zipfile
import zlib
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from noumena import checks
from noumena.checks import InputError

MISSING = ("", "na", "nan", "n/a", "null", "none")
ENDINGS = (".npy", ".npz", ".csv", ".parquet")


_DAMAGE = (
    OSError,
    ValueError,
    EOFError,
    KeyError,
    NotImplementedError,
    csv.Error,
    tokenize.TokenError,
    zipfile.BadZipFile,
    zlib.error,
)


@dataclass(frozen=True)
class Table:
    """A file's numbers and, where the file names them, its columns."""

    x: np.ndarray
    names: tuple[str, ...] | None


def read_table(path: str | Path, *, key: str | None = None, words: bool = False) -> Table:
    """Read a file; ``key`` chooses the array of an ``.npz`` that holds several.

    With ``words``, columns of a ``.csv``, ``.parquet`` or array may hold words, and are then kept as they are.
    """
    path = Path(path)
    checks.require(path.exists(), "The data file must exist.", f"{path}")
    checks.require(path.is_file(), "The data must be a file.", f"the folder {path}")
    checks.one_of(path.suffix.lower(), f"The ending of {path.name}", ENDINGS)
    try:
        raw, names = (_READERS | ({".csv": _worded_csv} if words else {}))[path.suffix.lower()](path, key)
    except InputError:
        raise
    except _DAMAGE as error:
        first = str(error).splitlines()[0] if str(error) else type(error).__name__
        content = "numbers and words" if words else "numbers"
        raise InputError(f"{path.name} must be a complete {path.suffix} file of {content}. Got: {first}.") from error
    if words and raw.dtype.kind in "OUS":
        checks.require(raw.ndim == 2, f"{path.name} must have two axes, (batch, dim).", f"shape {raw.shape}")
        return Table(raw, names)
    try:
        return Table(checks.table(raw, path.name), names)
    except TypeError as error:
        raise InputError(str(error)) from error


def _npy(path: Path, key: str | None) -> tuple[np.ndarray, None]:
    return np.load(path, allow_pickle=False), None


def _npz(path: Path, key: str | None) -> tuple[np.ndarray, None]:
    with path.open("rb") as file:
        archive = np.load(file, allow_pickle=False)
        checks.require(hasattr(archive, "files"), f"{path.name} must be an archive of arrays.", "a single array")
        checks.require(
            len(archive.files) == 1 or key in archive.files,
            f"{path.name} must hold one array, or --key must name one.",
            f"arrays {', '.join(archive.files[:8]) or 'none'} and key {key}",
        )
        return archive[key or archive.files[0]], None


def _csv(path: Path, key: str | None) -> tuple[np.ndarray, tuple[str, ...] | None]:
    """Cells as they stand; the first row is a header when one of its cells is neither a number nor missing."""
    rows = _lines(path)
    named = any(_number(cell) is None for cell in rows[0][1])
    names = tuple(rows[0][1]) if named else None
    return _numbers(rows[1:] if named else rows, len(rows[0][1]), path.name), names


def _worded_csv(path: Path, key: str | None) -> tuple[np.ndarray, tuple[str, ...] | None]:
    """Numbers where all cells are, words as they stand in a column with any; no cell may be missing.

    The first row is a header when one of its words stands over numbers only, or all of its cells are words that occur
    nowhere below them.
    """
    rows = _lines(path)
    first, *below = (row for _, row in rows)
    columns = [{row[j] for row in below} for j in range(len(first))]
    numeric = [all(_number(cell) is not None for cell in column) for column in columns]
    word = [_number(cell) is None for cell in first]
    over_numbers = any(w and n and column for w, n, column in zip(word, numeric, columns, strict=True))
    nowhere = all(w and cell not in column for w, cell, column in zip(word, first, columns, strict=True))
    named = bool(below) and (over_numbers or nowhere)
    body = rows[1:] if named else rows
    if all(numeric) and (named or not any(word)):
        return _numbers(body, len(first), path.name), tuple(first) if named else None
    for line, row in body:
        missing = next((j for j, cell in enumerate(row) if cell.strip().lower() in MISSING), None)
        checks.require(missing is None, f"Every cell of {path.name} must be filled.", f"an empty one on line {line}")
    return np.array([row for _, row in body], dtype=object), tuple(first) if named else None


def _lines(path: Path) -> list[tuple[int, list[str]]]:
    """Rows of equally many cells with the number of their line."""
    with path.open(newline="", encoding="utf-8-sig") as file:
        reader = csv.reader(file, strict=True)
        rows = [(reader.line_num, row) for row in reader if row]
    checks.require(len(rows) > 0, f"{path.name} must be a complete .csv file of numbers.", "no rows")
    width = len(rows[0][1])
    for line, row in rows:
        checks.require(
            len(row) == width, f"Every line of {path.name} must have {width} cells.", f"{len(row)} on line {line}"
        )
    return rows


def _numbers(rows: list[tuple[int, list[str]]], width: int, name: str) -> np.ndarray:
    table = np.empty((len(rows), width))
    for i, (line, row) in enumerate(rows):
        for j, cell in enumerate(row):
            value = _number(cell)
            if value is None:
                raise InputError(f"{name} must hold numbers only, below its header. Got {cell[:40]!r} on line {line}.")
            table[i, j] = value
    return table


def _number(cell: str) -> float | None:
    """A cell's number, NaN when it is missing, ``None`` when it is a word."""
    if cell.strip().lower() in MISSING:
        return float("nan")
    try:
        return float(cell)
    except ValueError:
        return None


def _parquet(path: Path, key: str | None) -> tuple[np.ndarray, tuple[str, ...]]:
    import pandas as pd

    frame = pd.read_parquet(path)
    return frame.to_numpy(), tuple(str(c) for c in frame.columns)


_READERS = {".npy": _npy, ".npz": _npz, ".csv": _csv, ".parquet": _parquet}
