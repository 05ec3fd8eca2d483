"""Users' tables: ``.npy``, ``.npz``, ``.csv`` and ``.parquet`` files as a finite ``(batch, dim)`` array with names.
Never unpickles."""

from __future__ import annotations

import zipfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from noumena import checks
from noumena.checks import InputError

ENDINGS = (".npy", ".npz", ".csv", ".parquet")


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
    except (OSError, ValueError, EOFError, KeyError, zipfile.BadZipFile) as error:
        first = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise InputError(f"{path.name} must be a complete {path.suffix} file of numbers. Got: {first}.") from error
    try:
        return Table(checks.table(raw, path.name), names)
    except TypeError as error:
        raise InputError(str(error)) from error


def _npy(path: Path, key: str | None) -> tuple[np.ndarray, None]:
    return np.load(path, allow_pickle=False), None


def _npz(path: Path, key: str | None) -> tuple[np.ndarray, None]:
    with np.load(path, allow_pickle=False) as archive:
        checks.require(
            len(archive.files) == 1 or key in archive.files,
            f"{path.name} must hold one array, or --key must name one.",
            f"arrays {', '.join(archive.files[:8]) or 'none'} and key {key}",
        )
        return archive[key or archive.files[0]], None


def _csv(path: Path, key: str | None) -> tuple[np.ndarray, tuple[str, ...] | None]:
    import pandas as pd

    with path.open() as file:
        first = file.readline().rstrip("\r\n").split(",")
    header = None if all(_is_number(cell) for cell in first) else 0
    _rectangular(path, len(first))
    frame = pd.read_csv(path, header=header)
    return frame.to_numpy(), None if header is None else tuple(str(c) for c in frame.columns)


def _rectangular(path: Path, width: int) -> None:
    import csv

    with path.open(newline="") as file:
        for line, row in enumerate(csv.reader(file), 1):
            checks.require(
                not row or len(row) == width,
                f"Every line of {path.name} must have {width} cells.",
                f"{len(row)} on line {line}",
            )


def _parquet(path: Path, key: str | None) -> tuple[np.ndarray, tuple[str, ...]]:
    import pandas as pd

    frame = pd.read_parquet(path)
    return frame.to_numpy(), tuple(str(c) for c in frame.columns)


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True


_READERS = {".npy": _npy, ".npz": _npz, ".csv": _csv, ".parquet": _parquet}
