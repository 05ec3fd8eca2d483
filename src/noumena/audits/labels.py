"""Labels: one word or number per row, from a ``.csv`` of one column or a ``.npy``. Never unpickles."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np

from noumena import checks
from noumena.checks import InputError

UNLABELLED = ("", "na", "nan", "n/a", "null")
"""Cells that are no label."""


def read_labels(path: str | Path, *, rows: int) -> np.ndarray:
    """The labels of so many rows in a file; a ``.csv`` of one line more has a header, which is no label below."""
    path = Path(path)
    checks.require(path.is_file(), "The groups must be a file.", f"{path}")
    checks.one_of(path.suffix.lower(), f"The ending of {path.name}", (".csv", ".npy"))
    try:
        return _csv(path, rows) if path.suffix.lower() == ".csv" else _npy(path)
    except InputError:
        raise
    except Exception as error:  # a damaged file may make its reader raise anything
        first = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise InputError(f"{path.name} must be a complete {path.suffix} file of labels. Got: {first}.") from error


def _npy(path: Path) -> np.ndarray:
    with path.open("rb") as file:
        found = np.load(file, allow_pickle=False)
    if isinstance(found, np.ndarray):
        return found
    raise InputError(f"{path.name} must hold one array of labels. Got an archive.")


def _csv(path: Path, rows: int) -> np.ndarray:
    with path.open(newline="", encoding="utf-8-sig") as file:
        lines = list(csv.reader(file, strict=True))
    while lines and not lines[-1]:
        lines.pop()
    checks.require(len(lines) > 1, f"{path.name} must hold a label for every row.", f"{len(lines)} lines")
    wide = next((k for k, row in enumerate(lines) if len(row) > 1), None)
    checks.require(
        wide is None, f"{path.name} must have one column.", f"{len(lines[wide or 0])} cells in line {(wide or 0) + 1}"
    )
    labels = [row[0].strip() if row else "" for row in lines]
    fits = len(labels) == rows or (len(labels) == rows + 1 and labels[0] not in labels[1:])
    must = f"{path.name} must have a label for each of {rows} rows, and may have a header."
    checks.require(fits, must, f"{len(labels)} lines")
    kept = labels[1:] if len(labels) == rows + 1 else labels
    empty = next((k for k, label in enumerate(kept) if label.lower() in UNLABELLED), None)
    checks.require(empty is None, f"Every row of {path.name} must have a label.", f"none in row {empty}")
    return np.array(kept)
