"""Users' folders of images, with a table of factors or with sub-folders as the one factor."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from noumena import checks
from noumena.data import image_files
from noumena.data.archives import existing_folder
from noumena.data.image_files import ImageFiles, Size
from noumena.data.images import Images
from noumena.data.tables import read_table

FOLDER = "folder"
"""The name of the factor that sub-folders are."""
ANIMATED = (".gif", ".tif", ".tiff", ".webp")
"""Formats that may have several frames."""


def folder(path: str | Path, factors: str | Path | None = None, *, size: Size = None) -> Images:
    """All images below a folder, sorted by name, hidden ones left out; grey if all are, else in colour.

    Levels of factors are ranks of values, which are ``Images.levels``. Opening reads only the headers of the images.

    Parameters
    ----------
    path : str or Path
        The folder.
    factors : str or Path, optional
        A ``.csv`` or ``.parquet`` file with a row for every image: a column of file names, with or without sub-
        folders, and
        a column for every factor. By default the sub-folder is the one factor, if there are several.
    size : int or (int, int), optional
        Height and width that images are stretched to.

    Returns
    -------
    Images
    """
    root = existing_folder(path, "images")
    if size is not None:
        image_files.extent(size)
    names = image_names(root)
    shown = f"none in {root.name}"
    checks.require(len(names) > 0, f"A folder must hold images ({', '.join(image_files.ENDINGS)}).", shown)
    grey = _same_shape(root, names, size)
    columns = _folders(names) if factors is None else _columns(Path(factors), names)
    levels, ranks = _ranked(columns)
    table = np.stack(ranks, axis=1) if ranks else np.zeros((len(names), 0), np.int64)
    stored = ImageFiles(root, names, channels=1 if grey else 3, size=size)
    return Images(stored, table, tuple(columns), levels=levels)


def image_names(root: Path) -> list[str]:
    """Relative paths of all images below a folder, sorted; hidden files and folders are left out."""
    names = []
    for below, folders, files in os.walk(root):
        folders[:] = [name for name in folders if not name.startswith(".")]
        shown = [name for name in files if not name.startswith(".")]
        inside = [name for name in shown if name.lower().endswith(image_files.ENDINGS)]
        names += [(Path(below) / name).relative_to(root).as_posix() for name in inside]
    return sorted(names)


def animated(path: str | Path) -> list[str]:
    """Relative paths of the images below a folder that have several frames, of which only the first is taken."""
    root = existing_folder(path, "images")
    candidates = [name for name in image_names(root) if name.lower().endswith(ANIMATED)]
    return [name for name in candidates if _is_animated(root / name)]


def _is_animated(path: Path) -> bool:
    with image_files.opened(path) as image:
        return bool(getattr(image, "is_animated", False))


def _same_shape(root: Path, names: Sequence[str], size: Size) -> bool:
    """Whether all images are grey; refuses those of another shape than the first, unless a size is given."""
    headers = [image_files.header(root / name) for name in names]
    height, width, _ = headers[0]
    for name, (high, wide, _) in zip(names, headers, strict=True):
        must = f"Images must all be {height} × {width} pixels like {names[0]}."
        shown = f"{high} × {wide} in {name}; resize them first, or give a size"
        checks.require(size is not None or (high, wide) == (height, width), must, shown)
    return all(grey for _, _, grey in headers)


def _folders(names: Sequence[str]) -> dict[str, np.ndarray]:
    """The sub-folder of every image, if there are several."""
    parents = np.array([Path(name).parent.as_posix() for name in names])
    return {FOLDER: parents} if len(np.unique(parents)) > 1 else {}


def _columns(path: Path, names: Sequence[str]) -> dict[str, np.ndarray]:
    """Columns of a factor table in the order of the images."""
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
    shown = f"columns {checks.listed(heads)}"
    checks.require(matches[which] > 0, f"{path.name} must have a column of names of the images.", shown)
    checks.require(len(heads) > 1, f"{path.name} must have a factor beside the names of the images.", shown)
    order = _order(path, [str(cell) for cell in table.x[:, which]], places, names)
    return {head: _values(path, head, table.x[order, j]) for j, head in enumerate(heads) if j != which}


def _short(names: Sequence[str]) -> dict[str, int]:
    """Places of images by their names without sub-folders, where no two have the same."""
    short = [Path(name).name for name in names]
    return {name: place for place, name in enumerate(short)} if len(set(short)) == len(short) else {}


def _order(path: Path, cells: Sequence[str], places: dict[str, int], names: Sequence[str]) -> np.ndarray:
    """The row of every image."""
    strange = [cell for cell in cells if cell not in places]
    checks.require(
        not strange, f"Every row of {path.name} must be of an image in the folder.", checks.listed(strange, 3)
    )
    order = [-1] * len(names)
    for row, cell in enumerate(cells):
        checks.require(order[places[cell]] < 0, f"Every image must have one row in {path.name}.", f"{cell} twice")
        order[places[cell]] = row
    without = [name for name, row in zip(names, order, strict=True) if row < 0]
    checks.require(not without, f"Every image must have a row in {path.name}.", f"none for {checks.listed(without, 3)}")
    return np.array(order)


def _values(path: Path, head: str, cells: np.ndarray) -> np.ndarray:
    """Numbers where all cells are numbers, else strings."""
    missing = [cell for cell in cells if cell is None or cell != cell]
    checks.require(not missing, f"Every cell of {head} in {path.name} must be filled.", f"{len(missing)} empty")
    try:
        return cells.astype(np.float64)
    except ValueError:
        return cells.astype(str)


def _ranked(columns: dict[str, np.ndarray]) -> tuple[tuple[tuple[str, ...], ...], list[np.ndarray]]:
    """The sorted values of every factor as strings, and the rank of every image's."""
    pairs: list[Any] = [np.unique(column, return_inverse=True) for column in columns.values()]
    words = tuple(tuple(v if isinstance(v, str) else f"{v:g}" for v in values.tolist()) for values, _ in pairs)
    return words, [ranks.astype(np.int64) for _, ranks in pairs]
