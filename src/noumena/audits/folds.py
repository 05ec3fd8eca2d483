"""Folds: which rows are fitted and which are held out; whole groups stay together, also from a file of labels."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Int

from noumena import checks, seeds
from noumena.checks import InputError

LEAST_ROWS = 20
"""Fewer rows are refused."""


@dataclass(frozen=True, eq=False)
class AuditFolds:
    """Rows in the order of their parts, ``order[bounds[p] : bounds[p + 1]]`` being part ``p``.

    Each part is held out once, of maps fitted on the others. In-sample there is one part, both fitted and measured.
    ``labels`` are the groups of the ordered rows.
    """

    order: Int[np.ndarray, " batch"]
    bounds: tuple[int, ...]
    held_out: bool
    labels: Int[np.ndarray, " batch"] | None

    def __len__(self) -> int:
        return len(self.bounds) - 1

    def part(self, p: int) -> slice:
        """The rows of a part among the ordered rows."""
        return slice(self.bounds[p], self.bounds[p + 1])

    def fitted(self, k: int) -> tuple[int, ...]:
        """The parts that are fitted when part ``k`` is measured."""
        return tuple(p for p in range(len(self)) if p != k) if self.held_out else (0,)

    def halves(self, k: int, seed: int) -> tuple[Int[np.ndarray, " half"], Int[np.ndarray, " other"]]:
        """The fitted rows of fold ``k`` in two disjoint halves, of whole groups; in-sample twice all rows."""
        rows = np.concatenate([np.arange(len(self.order))[self.part(p)] for p in self.fitted(k)])
        if not self.held_out:
            return rows, rows
        labels = None if self.labels is None or len(np.unique(self.labels[rows])) < 2 else self.labels[rows]
        first, second = split(len(rows), 2, labels, seed=seed, purpose=f"halves of fold {k}")
        return rows[first], rows[second]


def folds_of(rows: int, *, folds: int, groups: Any, held_out: bool, seed: int) -> tuple[AuditFolds, tuple[str, ...]]:
    """Folds of whole groups, and notes on them."""
    checks.require(
        rows >= LEAST_ROWS, f"Representations must have at least {LEAST_ROWS} rows to be compared.", f"{rows}"
    )
    labels = None if groups is None else labels_of(groups, rows)
    if not held_out:
        return AuditFolds(np.arange(rows), (0, rows), False, labels), ()
    folds = checks.count(folds, "folds", minimum=2)
    checks.require(folds <= rows // 2, "Every fold must have two rows or more.", f"{folds} folds of {rows} rows")
    notes: tuple[str, ...] = ()
    if labels is not None and (distinct := len(np.unique(labels))) < folds:
        notes = (f"There are {distinct} groups, so {distinct} folds in place of {folds}.",)
        folds = distinct
    parts = split(rows, folds, labels, seed=seed, purpose="folds")
    order = np.concatenate(parts)
    bounds = tuple(int(b) for b in np.cumsum([0, *map(len, parts)]))
    return AuditFolds(order, bounds, True, None if labels is None else labels[order]), notes


def labels_of(groups: Any, rows: int) -> Int[np.ndarray, " batch"]:
    """Each row's group as an integer, from labels of any kind."""
    checks.unmasked(groups, "groups")
    held = groups.detach().cpu() if hasattr(groups, "detach") else groups
    array = np.asarray(held)
    array = array[:, 0] if array.ndim == 2 and array.shape[1] == 1 else array
    checks.require(array.ndim == 1, "groups must be one label per row.", f"shape {array.shape}")
    checks.require(len(array) == rows, "groups must have one label per row.", f"{len(array)} labels for {rows} rows")
    missing = np.array([label is None or label != label for label in array.tolist()], dtype=bool)
    checks.require(
        not missing.any(), "Every row must have a group.", f"{missing.sum()} without, the first row {missing.argmax()}"
    )
    names = array.astype(str) if array.dtype.kind == "O" else array
    distinct, labels = np.unique(names, return_inverse=True)
    checks.require(len(distinct) > 1, "groups must name two groups or more.", f"{distinct[0]} throughout")
    return labels.reshape(-1).astype(np.int64)


def split(
    rows: int, parts: int, labels: Int[np.ndarray, " batch"] | None, *, seed: int, purpose: str
) -> Sequence[np.ndarray]:
    """Parts of nearly equal size, of whole groups where rows have labels; largest groups first.

    >>> [len(part) for part in split(7, 2, None, seed=0, purpose="example")]
    [4, 3]
    """
    rng = seeds.numpy_generator(seed, purpose, rows)
    if labels is None:
        return [np.sort(part) for part in np.array_split(rng.permutation(rows), parts)]
    names, sizes = np.unique(labels, return_counts=True)
    shuffled = rng.permutation(len(names))
    place = np.zeros(len(names), dtype=int)
    filled = np.zeros(parts)
    for k in shuffled[np.argsort(-sizes[shuffled], kind="stable")]:
        place[k] = int(filled.argmin())
        filled[place[k]] += sizes[k]
    own = place[np.searchsorted(names, labels)]
    return [np.flatnonzero(own == p) for p in range(parts)]


# ---- labels in a file ----------------------------------------------------------------------------------------------


UNLABELLED = ("", "na", "nan", "n/a", "null")
"""Cells that are no label."""


def read_labels(path: str | Path, *, rows: int) -> np.ndarray:
    """Labels of so many rows from a ``.csv`` of one column, which may have a header, or a ``.npy``. Never unpickles."""
    path = Path(path)
    checks.require(path.is_file(), "The groups must be a file.", f"{path}")
    checks.one_of(path.suffix.lower(), f"The ending of {path.name}", (".csv", ".npy"))
    try:
        return _csv(path, rows) if path.suffix.lower() == ".csv" else _npy(path)
    except InputError:
        raise
    except Exception as error:  # a damaged file may make its reader raise anything
        must = f"{path.name} must be a complete {path.suffix} file of labels."
        raise InputError(f"{must} Got: {checks.first_line(error)}.") from error


def _npy(path: Path) -> np.ndarray:
    with path.open("rb") as file:
        labels = np.load(file, allow_pickle=False)
    if isinstance(labels, np.ndarray):
        return labels
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
    row_labels = labels[1:] if len(labels) == rows + 1 else labels
    empty = next((k for k, label in enumerate(row_labels) if label.lower() in UNLABELLED), None)
    checks.require(empty is None, f"Every row of {path.name} must have a label.", f"none in row {empty}")
    return np.array(row_labels)
