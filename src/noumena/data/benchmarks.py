"""Benchmark images: loaders of published data sets, with the factors behind every image.

dSprites (``.npz``: ``imgs``, ``latents_classes``), Sprites (``.npz``: ``img_idx``, ``palette``, ``factors``,
``factor_names``), 3D Shapes (``3dshapes.h5``: ``images``, ``labels``), MPI3D (``mpi3d_*.npz``: ``images`` in grid
order), Falcor3D and Isaac3D (folders of numbered ``.png`` files); Cars3D and SmallNORB have modules of their own.
Nothing is downloaded and nothing is unpickled. Images stay in their file until rows are indexed.

References
----------
Matthey et al. (2017), dSprites; Li and Mandt (2018), Sprites; Burgess and Kim (2018), 3D Shapes; Gondal et al. (2019),
MPI3D; Nie et al. (2020), "Semi-supervised StyleGAN for disentanglement learning" (Falcor3D, Isaac3D).

Deviations: the constant colour of dSprites is left out; factors are levels 0, 1, …, not values. The description of
Isaac3D names the factors of an image's number in another order than its sizes allow (object scale of 4 levels where 8
fit); the order here is that of the code published with it.
"""

from __future__ import annotations

import os
from math import prod
from pathlib import Path

import numpy as np

from noumena import checks
from noumena.data import archives
from noumena.data.archives import ArchiveMember, HDF5Dataset, existing, require_members
from noumena.data.cars import cars3d
from noumena.data.image_files import ImageFiles, Size
from noumena.data.images import Images, shaped
from noumena.data.norb import smallnorb

__all__ = ["Images", "cars3d", "dsprites", "falcor3d", "isaac3d", "mpi3d", "shapes3d", "smallnorb", "sprites"]

DSPRITES = ("shape", "scale", "orientation", "x", "y")
DSPRITES_GRID = (3, 6, 40, 32, 32)
SHAPES3D = ("floor hue", "wall hue", "object hue", "scale", "shape", "orientation")
SHAPES3D_GRID = (10, 10, 10, 8, 4, 15)
MPI3D = ("object colour", "object shape", "object size", "camera height", "background", "horizontal", "vertical")
MPI3D_GRIDS = ((6, 6, 2, 3, 3, 40, 40), (4, 4, 2, 3, 3, 40, 40))
"""The grid of the toy, realistic and real images, and of the complex ones."""
FALCOR3D = ("lighting intensity", "lighting x", "lighting y", "lighting z", "camera x", "camera y", "camera z")
FALCOR3D_GRID = (5, 6, 6, 6, 6, 6, 6)
ISAAC3D = (
    "object shape", "robot x", "robot y", "camera height", "object scale", "lighting intensity", "lighting y",
    "object colour", "wall colour",
)  # fmt: skip
ISAAC3D_GRID = (3, 8, 5, 4, 4, 4, 6, 4, 4)
TABLES = ("train-rec.labels", "labels.npy")
"""Names of the table of factor values beside the images of Falcor3D and of Isaac3D."""


def dsprites(path: str | Path) -> Images:
    """dSprites, complete or a part: white shapes on black, by shape, scale, orientation and position.

    The published file is compressed: its 3 GB of pixels are decompressed into a temporary file.
    """
    path = existing(path)
    require_members(path, ("imgs", "latents_classes"))
    factors = archives.array(path, "latents_classes")
    if factors.ndim == 2 and factors.shape[1] == len(DSPRITES) + 1:  # the published file begins with one colour
        factors = factors[:, 1:]
    black_white = np.array([[0], [255]], dtype=np.uint8)
    return Images(ArchiveMember(path, "imgs"), _levels(factors), DSPRITES, black_white, grid=DSPRITES_GRID)


def sprites(path: str | Path) -> Images:
    """Sprites: game characters by body, clothes, hair, action, direction and frame, in colours of a palette."""
    path = existing(path)
    require_members(path, ("img_idx", "palette", "factors", "factor_names"))
    palette, factors, named = (archives.array(path, name) for name in ("palette", "factors", "factor_names"))
    return Images(ArchiveMember(path, "img_idx"), _levels(factors), tuple(str(name) for name in named.ravel()), palette)


def shapes3d(path: str | Path) -> Images:
    """3D Shapes, the file ``3dshapes.h5`` or a part of it; levels are the ranks of the values in ``labels``.

    Its compressed pixels are slow to read in random order: ``shapes3d(path).unpacked()`` reads them once.
    """
    path = existing(path)
    archives.require_datasets(path, ("images", "labels"))
    labels, images = HDF5Dataset(path, "labels"), HDF5Dataset(path, "images")
    shaped(len(labels.shape) == 2 and labels.dtype.kind in "fiu", "labels must be a table of numbers.", labels)
    values = labels[...]
    missing = int((~np.isfinite(values)).sum())
    checks.require(missing == 0, "labels must be finite.", f"{missing} entries that are not")
    ranks = [np.unique(column, return_inverse=True)[1] for column in values.T]
    return Images(images, np.stack(ranks, axis=1), SHAPES3D, grid=SHAPES3D_GRID)


def mpi3d(path: str | Path, *, sizes: tuple[int, ...] | None = None) -> Images:
    """MPI3D, a file ``mpi3d_*.npz`` whose images follow its grid, the last factor changing fastest.

    Parameters
    ----------
    path : str or Path
        The file.
    sizes : tuple of int, optional
        Levels of the seven factors where the file holds another grid than the two published ones.

    Returns
    -------
    Images
    """
    images = ArchiveMember(existing(path), "images")
    n = images.shape[0] if images.shape else 0
    grids = MPI3D_GRIDS if sizes is None else (tuple(checks.count(s, "A size of a factor") for s in sizes),)
    fitting = [grid for grid in grids if len(grid) == len(MPI3D) and prod(grid) == n]
    wanted = " or ".join(f"{' × '.join(map(str, grid))} = {prod(grid)}" for grid in grids)
    checks.require(bool(fitting), f"Images of MPI3D must be a grid of 7 factors, {wanted}.", f"{n} images")
    return Images(images, np.stack(np.unravel_index(np.arange(n), fitting[0]), axis=1), MPI3D, grid=fitting[0])


def falcor3d(
    folder: str | Path, *, size: Size = None, part: bool = False, sizes: tuple[int, ...] | None = None
) -> Images:
    """Falcor3D, a living room by its light and the camera: a folder with ``images/000000.png`` to ``233279.png``.

    An image's number is its index in the grid, the last factor changing fastest.

    Parameters
    ----------
    folder : str or Path
        The folder.
    size : int or (int, int), optional
        Height and width that images, of 1024 or 128 pixels, are resized to.
    part : bool
        Whether images may be missing.
    sizes : tuple of int, optional
        Levels of the factors of another grid.

    Returns
    -------
    Images
    """
    return _numbered(Path(folder), "Falcor3D", FALCOR3D, FALCOR3D_GRID if sizes is None else sizes, part, size)


def isaac3d(
    folder: str | Path, *, size: Size = None, part: bool = False, sizes: tuple[int, ...] | None = None
) -> Images:
    """Isaac3D, a robot in a kitchen: a folder with ``images/000000.png`` to ``737279.png``, of 512 or 128 pixels.

    Parameters
    ----------
    folder, size, part, sizes
        As in ``falcor3d``.

    Returns
    -------
    Images
    """
    return _numbered(Path(folder), "Isaac3D", ISAAC3D, ISAAC3D_GRID if sizes is None else sizes, part, size)


def _numbered(
    folder: Path, title: str, names: tuple[str, ...], grid: tuple[int, ...], part: bool, size: Size
) -> Images:
    """Images whose number is their index in a grid."""
    grid = tuple(checks.count(s, "A size of a factor") for s in grid)
    checks.require(len(grid) == len(names), f"{title} must have {len(names)} factors.", f"{len(grid)} sizes")
    archives.existing_folder(folder, title)
    root = folder / "images" if (folder / "images").is_dir() else folder
    with os.scandir(root) as entries:
        files = sorted(e.name for e in entries if e.name.endswith(".png") and not e.name.startswith("."))
    wrong = [name for name in files if not (len(name) == 10 and name[:6].isascii() and name[:6].isdigit())]
    checks.require(not wrong, f"Images of {title} must be numbered, 000000.png and so on.", checks.listed(wrong))
    numbers, n = np.array([int(name[:6]) for name in files], dtype=np.int64), prod(grid)
    beyond = numbers[numbers >= n]
    checks.require(beyond.size == 0, f"Images of {title} must be numbered below {n}.", checks.listed(beyond))
    all_there = len(files) == n or (part and len(files) > 0)
    checks.require(all_there, f"Images of {title} must be {n}; part=True takes fewer.", f"{len(files)} images")
    for table in (folder / name for name in TABLES):
        if table.is_file():
            _check_values(table, grid)
    factors = np.stack(np.unravel_index(numbers, grid), axis=1)
    return Images(ImageFiles(root, files, channels=3, size=size), factors, names, grid=grid)


def _check_values(path: Path, grid: tuple[int, ...]) -> None:
    """Refuse a table that is not of this grid: each factor must have one value at each of its levels, no two the same.

    The table is not needed beyond that; an image's levels are those of its number.
    """
    with archives.reading(path, ".npy"), path.open("rb") as file:
        table = np.load(file, allow_pickle=False)
    shaped(table.shape == (prod(grid), len(grid)), f"{path.name} must have shape {(prod(grid), len(grid))}.", table)
    for factor, column in enumerate(table.T):
        values = np.moveaxis(column.reshape(grid), factor, 0).reshape(grid[factor], -1)
        same = bool((values == values[:, :1]).all()) and len(np.unique(values[:, 0])) == grid[factor]
        checks.require(same, f"{path.name} must follow the numbers of the images.", f"column {factor} does not")


def _levels(factors: np.ndarray) -> np.ndarray:
    """Whole numbers as they are, in the type of labels; anything else is refused where images are made."""
    return factors.astype(np.int64) if factors.dtype.kind in "iu" else factors
