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


def read_table(path: str | Path, *, key: str | None = None) -> Table:
    """Read a file; ``key`` chooses the array of an ``.npz`` that holds several."""
    path = Path(path)
    checks.require(path.exists(), "The data file must exist.", f"{path}")
    checks.require(path.is_file(), "The data must be a file.", f"the folder {path}")
    checks.one_of(path.suffix.lower(), f"The ending of {path.name}", ENDINGS)
    try:
        raw, names = _READERS[path.suffix.lower()](path, key)
    except InputError:
        raise
    except _DAMAGE as error:
        first = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise InputError(f"{path.name} must be a complete {path.suffix} file of numbers. Got: {first}.") from error
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
    with path.open(newline="", encoding="utf-8-sig") as file:
        reader = csv.reader(file, strict=True)
        rows = [(reader.line_num, row) for row in reader if row]
    checks.require(len(rows) > 0, f"{path.name} must be a complete .csv file of numbers.", "no rows")
    width = len(rows[0][1])
    for line, row in rows:
        checks.require(
            len(row) == width, f"Every line of {path.name} must have {width} cells.", f"{len(row)} on line {line}"
        )
    named = any(_number(cell) is None for cell in rows[0][1])
    names = tuple(rows[0][1]) if named else None
    return _numbers(rows[1:] if named else rows, width, path.name), names


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
