"""SmallNORB: 50 toys of five categories in grey, from 9 elevations and 18 azimuths, in 6 lights, by two cameras.

The published files are ``smallnorb-5x46789x9x18x6x2x96x96-training`` and ``smallnorb-5x01235x9x18x6x2x96x96-testing``,
each with ``-dat.mat`` (image, camera, 96, 96), ``-cat.mat`` (image) and ``-info.mat`` (image, 4: instance, elevation,
azimuth, lighting). They are not MATLAB files but binary matrices: a magic number for the type, the number of axes, at
least three lengths, all little-endian int32, then the entries.

Training images come first. As in disentanglement_lib the first camera's images are taken, resized to 64 × 64 by
Lanczos'
filter; azimuths, published as 0, 2, …, 34, are halved.

References
----------
LeCun, Huang and Bottou (2004), "Learning methods for generic object recognition with invariance to pose and lighting".

Deviations: in disentanglement_lib the instance is drawn at random and pixels are signed; here the instance is a factor
and pixels are 0 to 255.
"""

from __future__ import annotations

from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from noumena import checks
from noumena.data import archives, image_files
from noumena.data.images import Images

NAMES = ("category", "instance", "elevation", "azimuth", "lighting")
GRID = (5, 10, 9, 18, 6)
STEMS = ("smallnorb-5x46789x9x18x6x2x96x96-training", "smallnorb-5x01235x9x18x6x2x96x96-testing")
SHAPE = (24300, 2, 96, 96)
SIZE = 64
MAGIC = {
    0x1E3D4C51: np.dtype("<f4"),
    0x1E3D4C53: np.dtype("<f8"),
    0x1E3D4C54: np.dtype("<i4"),
    0x1E3D4C55: np.dtype("u1"),
    0x1E3D4C56: np.dtype("<i2"),
}
MOST_AXES = 8


def smallnorb(folder: str | Path, *, size: int | None = SIZE, part: bool = False) -> Images:
    """SmallNORB, the folder of its six unpacked files.

    Parameters
    ----------
    folder : str or Path
        The folder.
    size : int or None
        Side that images are resized to; None: 96.
    part : bool
        Whether the training or the testing files may be missing, and hold fewer or smaller images than published.

    Returns
    -------
    Images
    """
    folder = archives.existing_folder(folder, "SmallNORB")
    stems = tuple(stem for stem in STEMS if not part or (folder / f"{stem}-dat.mat").is_file())
    checks.require(len(stems) > 0, f"The folder {folder.name} must hold {STEMS[0]}-dat.mat.", "neither half")
    sources = tuple(_images(folder / f"{stem}-dat.mat", part=part) for stem in stems)
    shapes = sorted({source.shape[1:] for source in sources})
    checks.require(len(shapes) == 1, "Training and testing images must have one shape.", f"{shapes}")
    tables = [_factors(folder, stem, source.shape[0]) for stem, source in zip(stems, sources, strict=True)]
    return Images(NorbImages(sources, size), np.concatenate(tables), NAMES, grid=GRID)


class NorbImages:
    """Images of the first camera from all files, concatenated, resized when they are read."""

    how = archives.MappedArray.how
    dtype = np.dtype(np.uint8)

    def __init__(self, sources: tuple[archives.MappedArray, ...], size: int | None) -> None:
        self.sources, self.size = sources, size
        height, width = sources[0].shape[2:] if size is None else image_files.extent(size)
        self._ends = np.cumsum([source.shape[0] for source in sources])
        self.shape = (int(self._ends[-1]), height, width, 1)

    def __getitem__(self, places: Any) -> np.ndarray:
        chosen = np.arange(self.shape[0])[places]
        out = np.empty((len(chosen), *self.shape[1:]), np.uint8)
        for source, end in zip(self.sources, self._ends, strict=True):
            here = np.flatnonzero((chosen < end) & (chosen >= end - source.shape[0]))
            for row, image in zip(here, source[chosen[here] - end + source.shape[0], 0], strict=True):
                out[row] = image_files.resized(image[:, :, None], self.size)
        return out


def matrix(path: Path) -> archives.MappedArray:
    """A binary matrix, mapped into memory."""
    packed = path.with_name(f"{path.name}.gz").is_file()
    shown = f"no {path.name}" + (", but one packed as .gz" if packed else "")
    checks.require(path.is_file(), f"The folder {path.parent.name} must hold the files of SmallNORB.", shown)
    with path.open("rb") as file:
        start = np.frombuffer(file.read(4 * (2 + MOST_AXES)).ljust(4 * (2 + MOST_AXES), b"\0"), "<i4")
    magic, axes = int(start[0]), int(start[1])
    known = ", ".join(f"0x{number:X} ({dtype})" for number, dtype in MAGIC.items())
    checks.require(magic in MAGIC, f"{path.name} must begin with one of {known}.", f"0x{magic & 0xFFFFFFFF:X}")
    must = f"{path.name} must have 1 to {MOST_AXES} axes, none of them empty."
    checks.require(1 <= axes <= MOST_AXES, must, f"{axes} axes")
    shape = tuple(int(length) for length in start[2 : 2 + axes])
    checks.require(min(shape) > 0, must, f"shape {shape}")
    offset, size = 4 * (2 + max(3, axes)), path.stat().st_size
    expected = offset + prod(shape) * MAGIC[magic].itemsize
    checks.require(size == expected, f"{path.name} must have {expected} bytes for shape {shape}.", f"{size}")
    return archives.MappedArray(path, offset, shape, MAGIC[magic])


def _images(path: Path, *, part: bool) -> archives.MappedArray:
    images = matrix(path)
    shown = f"{images.dtype} of shape {images.shape}"
    if part:
        fits, wanted = len(images.shape) == 4, "(image, camera, height, width)"
    else:
        fits, wanted = images.shape == SHAPE, f"{SHAPE}, unless part=True"
    checks.require(fits and images.dtype == np.uint8, f"{path.name} must be bytes of shape {wanted}.", shown)
    return images


def _factors(folder: Path, stem: str, n: int) -> np.ndarray:
    """Category, instance, elevation, azimuth and lighting, from the two tables beside the images."""
    tables = []
    for kind, shape in (("cat", (n,)), ("info", (n, 4))):
        path = folder / f"{stem}-{kind}.mat"
        table = matrix(path)
        fits = table.shape == shape and table.dtype == np.dtype("<i4")
        shown = f"{table.dtype} of shape {table.shape}"
        checks.require(fits, f"{path.name} must be whole numbers of shape {shape}.", shown)
        tables.append(table[...].reshape(n, -1))
    factors = np.concatenate(tables, axis=1).astype(np.int64)
    odd = factors[factors[:, 3] % 2 != 0, 3]
    checks.require(odd.size == 0, f"Azimuths in {stem}-info.mat must be even.", f"{odd[:1]}")
    factors[:, 3] //= 2
    return factors
