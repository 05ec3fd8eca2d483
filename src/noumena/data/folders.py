"""Users' folders of pictures, with a table of factors or with sub-folders as the one factor."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from noumena import checks
from noumena.data import image_files
from noumena.data.archives import existing_folder
from noumena.data.image_files import Pictures, Size
from noumena.data.images import Images
from noumena.data.tables import read_table

FOLDER = "folder"
"""The name of the factor that sub-folders are."""
MOVING = (".gif", ".tif", ".tiff", ".webp")
"""Endings of pictures that may have several frames."""


def folder(path: str | Path, factors: str | Path | None = None, *, size: Size = None) -> Images:
    """All pictures below a folder, in the order of their names, hidden ones left out; grey if all are, else in colour.

    ``factors`` is a ``.csv`` or ``.parquet`` file with one row for every picture: a column of file names, by themselves
    or with their sub-folders, and a column for every factor. Without it the sub-folder a picture lies in is the one
    factor, if there are several. Levels are ranks of values; ``Images.levels`` are the values. ``size``, one number or
    a height and a width, is what pictures are stretched to. Opening reads the header of every picture, and no more.
    """
    root = existing_folder(path, "pictures")
    if size is not None:
        image_files.extent(size)
    names = found(root)
    given = f"none in {root.name}"
    checks.require(len(names) > 0, f"A folder must hold pictures ({', '.join(image_files.ENDINGS)}).", given)
    grey = _same_shape(root, names, size)
    columns = _folders(names) if factors is None else _columns(Path(factors), names)
    levels, ranks = _ranked(columns)
    table = np.stack(ranks, axis=1) if ranks else np.zeros((len(names), 0), np.int64)
    stored = Pictures(root, names, channels=1 if grey else 3, size=size)
    return Images(stored, table, tuple(columns), levels=levels)


def found(root: Path) -> list[str]:
    """Names of all pictures below a folder, with their sub-folders, sorted; hidden files and folders are left out."""
    names = []
    for below, folders, files in os.walk(root):
        folders[:] = [name for name in folders if not name.startswith(".")]
        shown = [name for name in files if not name.startswith(".")]
        inside = [name for name in shown if name.lower().endswith(image_files.ENDINGS)]
        names += [(Path(below) / name).relative_to(root).as_posix() for name in inside]
    return sorted(names)


def moving(path: str | Path) -> list[str]:
    """Names of the pictures below a folder that have further frames, of which only the first is taken."""
    root = existing_folder(path, "pictures")
    may = [name for name in found(root) if name.lower().endswith(MOVING)]
    return [name for name in may if _moves(root / name)]


def _moves(path: Path) -> bool:
    with image_files.opened(path) as image:
        return bool(getattr(image, "is_animated", False))


def _same_shape(root: Path, names: Sequence[str], size: Size) -> bool:
    """Whether all pictures are grey; refuses those of another shape than the first, unless a size is given."""
    headers = [image_files.header(root / name) for name in names]
    height, width, _ = headers[0]
    for name, (high, wide, _) in zip(names, headers, strict=True):
        must = f"Pictures must all be {height} × {width} pixels like {names[0]}."
        given = f"{high} × {wide} in {name}; resize them first, or give a size"
        checks.require(size is not None or (high, wide) == (height, width), must, given)
    return all(grey for _, _, grey in headers)


def _folders(names: Sequence[str]) -> dict[str, np.ndarray]:
    """The sub-folder of every picture, if they lie in several."""
    parents = np.array([Path(name).parent.as_posix() for name in names])
    return {FOLDER: parents} if len(np.unique(parents)) > 1 else {}


def _columns(path: Path, names: Sequence[str]) -> dict[str, np.ndarray]:
    """Columns of a factor table in the order of the pictures."""
    must = f"The table of factors must be .csv or .parquet, here {path.name}."
    checks.require(path.suffix.lower() in (".csv", ".parquet"), must, f"{path.suffix or 'no ending'}")
    table = read_table(path, words=True)
    heads = table.names
    checks.require(heads is not None, f"The columns of {path.name} must have names.", "no header")
    heads = tuple(heads or ())
    checks.require(len(set(heads)) == len(heads), f"The columns of {path.name} must have different names.", f"{heads}")
    places = {name: place for place, name in enumerate(names)} | _short(names)
    matches = [sum(str(cell) in places for cell in column) for column in table.x.T]
    which = int(np.argmax(matches))
    given = f"columns {checks.few(heads)}"
    checks.require(matches[which] > 0, f"{path.name} must have a column of names of the pictures.", given)
    checks.require(len(heads) > 1, f"{path.name} must have a factor beside the names of the pictures.", given)
    order = _order(path, [str(cell) for cell in table.x[:, which]], places, names)
    return {head: _values(path, head, table.x[order, j]) for j, head in enumerate(heads) if j != which}


def _short(names: Sequence[str]) -> dict[str, int]:
    """Places of pictures by their names without sub-folders, where no two have the same."""
    short = [Path(name).name for name in names]
    return {name: place for place, name in enumerate(short)} if len(set(short)) == len(short) else {}


def _order(path: Path, cells: Sequence[str], places: dict[str, int], names: Sequence[str]) -> np.ndarray:
    """The row of every picture."""
    strange = [cell for cell in cells if cell not in places]
    checks.require(not strange, f"Every row of {path.name} must be of a picture in the folder.", checks.few(strange, 3))
    order = [-1] * len(names)
    for row, cell in enumerate(cells):
        checks.require(order[places[cell]] < 0, f"Every picture must have one row in {path.name}.", f"{cell} twice")
        order[places[cell]] = row
    without = [name for name, row in zip(names, order, strict=True) if row < 0]
    checks.require(not without, f"Every picture must have a row in {path.name}.", f"none for {checks.few(without, 3)}")
    return np.array(order)


def _values(path: Path, head: str, cells: np.ndarray) -> np.ndarray:
    """Numbers where all cells are numbers, else words."""
    missing = [cell for cell in cells if cell is None or cell != cell]
    checks.require(not missing, f"Every cell of {head} in {path.name} must be filled.", f"{len(missing)} empty")
    try:
        return cells.astype(np.float64)
    except ValueError:
        return cells.astype(str)


def _ranked(columns: dict[str, np.ndarray]) -> tuple[tuple[tuple[str, ...], ...], list[np.ndarray]]:
    """The values of every factor, as words, and the rank of every picture's."""
    pairs: list[Any] = [np.unique(column, return_inverse=True) for column in columns.values()]
    words = tuple(tuple(v if isinstance(v, str) else f"{v:g}" for v in values.tolist()) for values, _ in pairs)
    return words, [ranks.astype(np.int64) for _, ranks in pairs]
