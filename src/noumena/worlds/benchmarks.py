"""Benchmark images: the field's own files, with the factors behind every image.

dSprites (``.npz``: ``imgs``, ``latents_classes``), Sprites (``.npz``: ``img_idx``, ``palette``, ``factors``,
``factor_names``), 3D Shapes (``3dshapes.h5``: ``images``, ``labels``) and MPI3D (``mpi3d_*.npz``: ``images`` in the
order of its grid). Nothing is fetched and nothing is unpickled; other entries of a file, such as ``metadata``, are left
alone. Images stay as small as their file has them, one byte a pixel, until rows are asked for.

Reference: Matthey et al. (2017), dSprites; Li and Mandt (2018), Sprites; Burgess and Kim (2018), 3D Shapes; Gondal et
al. (2019), MPI3D. Deviations: the constant colour of dSprites is left out; factors are levels 0, 1, …, not values.
"""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from noumena import checks, seeds
from noumena.checks import InputError
from noumena.worlds.world import Sample

DSPRITES = ("shape", "scale", "orientation", "x", "y")
SHAPES3D = ("floor hue", "wall hue", "object hue", "scale", "shape", "orientation")
MPI3D = ("object colour", "object shape", "object size", "camera height", "background", "horizontal", "vertical")
MPI3D_GRIDS = ((6, 6, 2, 3, 3, 40, 40), (4, 4, 2, 3, 3, 40, 40))
"""The grid of the toy, realistic and real images, and of the complex ones."""
CHUNK = 512
"""Images turned into rows at a time."""
_DAMAGE = (OSError, ValueError, EOFError, KeyError, NotImplementedError, zipfile.BadZipFile, zlib.error)


@dataclass(frozen=True)
class Images:
    """Images and the level of every factor behind them.

    ``stored`` is (image, height, width), the places of colours in a ``palette`` (place, channel), or without one
    (image, height, width, channel); ``factors`` is (image, factor), named by ``names``.

    >>> grey = np.array([[[0, 1], [1, 1]]], dtype=np.uint8)
    >>> one = Images(grey, np.zeros((1, 1), dtype=np.int64), ("shape",), np.array([[0], [255]], dtype=np.uint8))
    >>> one.rows().tolist(), one.rows(size=1).tolist()
    ([[0.0, 1.0, 1.0, 1.0]], [[0.75]])
    """

    stored: np.ndarray
    factors: np.ndarray
    names: tuple[str, ...]
    palette: np.ndarray | None = None

    def __post_init__(self) -> None:
        axes = 4 if self.palette is None else 3
        fits = self.stored.ndim == axes and self.stored.dtype == np.uint8 and len(self.stored) > 0
        _shaped(fits, f"Images must be bytes with {axes} axes.", self.stored)
        whole = self.factors.ndim == 2 and self.factors.dtype.kind in "iu" and self.factors.size > 0
        whole = whole and len(self.factors) == len(self.stored)
        _shaped(whole, f"The factors of {len(self.stored)} images must be a table of whole numbers.", self.factors)
        lowest = int(self.factors.min())
        checks.require(lowest >= 0, "Levels of factors must not be negative.", f"{lowest}")
        given = f"{self.factors.shape[1]} columns"
        checks.require(len(self.names) == self.factors.shape[1], f"There must be {len(self.names)} factors.", given)
        if self.palette is not None:
            colours = self.palette.ndim == 2 and self.palette.dtype == np.uint8
            _shaped(colours, "A palette must be bytes with 2 axes.", self.palette)
            top, last = int(self.stored.max()), len(self.palette) - 1
            checks.require(top <= last, f"Pixels must be places 0 to {last} of the palette.", f"{top}")

    def __len__(self) -> int:
        return len(self.stored)

    def __str__(self) -> str:
        levels = ", ".join(f"{name} {size}" for name, size in zip(self.names, self.sizes, strict=True))
        return f"{len(self)} images of {' × '.join(map(str, self.shape))} (channel, height, width); factors: {levels}"

    @property
    def shape(self) -> tuple[int, int, int]:
        """Channels, height and width of an image."""
        channels = self.stored.shape[3] if self.palette is None else self.palette.shape[1]
        return channels, self.stored.shape[1], self.stored.shape[2]

    @property
    def sizes(self) -> tuple[int, ...]:
        """Levels of every factor: one more than the highest that occurs."""
        return tuple(int(top) + 1 for top in self.factors.max(axis=0))

    @property
    def complete(self) -> bool:
        """Whether every combination of levels occurs exactly once."""
        if prod(self.sizes) != len(self):
            return False
        return len(np.unique(np.ravel_multi_index(tuple(self.factors.T), self.sizes))) == len(self)

    @property
    def pixels(self) -> np.ndarray:
        """All images as bytes, (image, channel, height, width); a palette's are made anew at every call."""
        return self._bytes(slice(None))

    def rows(self, index: Any = None, *, size: int | None = None) -> np.ndarray:
        """Flat images in [0, 1], (image, channel · height · width), single precision; all, or those at ``index``.

        ``size`` shrinks height and width to it, a divisor of both, by averaging.
        """
        chosen = np.arange(len(self)) if index is None else self._places(index)
        channels, height, width = self.shape
        block = self._block(size)
        out = np.empty((len(chosen), channels * (height // block) * (width // block)), dtype=np.float32)
        for start in range(0, len(chosen), CHUNK):
            some = self._bytes(chosen[start : start + CHUNK])
            parts = [some[:, :, i::block, j::block] for i in range(block) for j in range(block)]
            total = sum(parts[1:], start=parts[0].astype(np.float32))
            out[start : start + CHUNK] = total.reshape(len(some), -1)
        out /= 255 * block**2
        return out

    def sample(self, n: int, *, seed: int = 0, size: int | None = None) -> Sample:
        """Draw ``n`` different images, ``z`` the levels of their factors; the same seed draws the same images."""
        n = checks.count(n, "n")
        checks.require(n <= len(self), f"n must be at most the {len(self)} images there are.", f"{n}")
        rng = seeds.numpy_generator(seeds.seed_of(seed), "benchmark images")
        chosen = rng.choice(len(self), n, replace=False)
        return Sample(x=self.rows(chosen, size=size), z=self.factors[chosen].astype(np.int64))

    def _bytes(self, chosen: Any) -> np.ndarray:
        stored = self.stored[chosen]
        if self.palette is None:
            return np.moveaxis(stored, -1, 1)
        return np.stack([np.take(colours, stored) for colours in self.palette.T], axis=1)

    def _places(self, index: Any) -> np.ndarray:
        given = np.asarray(index)
        must = f"index must be whole numbers from {-len(self)} to {len(self) - 1}, or a yes or no for every image."
        if given.dtype == bool:
            checks.require(given.shape == (len(self),), must, f"shape {given.shape}")
            return np.flatnonzero(given)
        whole = given.ndim == 1 and (given.dtype.kind in "iu" or given.size == 0)
        checks.require(whole, must, f"shape {given.shape} and dtype {given.dtype}")
        beyond = given[(given < -len(self)) | (given >= len(self))]
        checks.require(beyond.size == 0, must, f"{beyond[:5].tolist()}")
        return given.astype(np.int64)

    def _block(self, size: int | None) -> int:
        _, height, width = self.shape
        if size is None:
            return 1
        size = checks.count(size, "size")
        fits = height % size == 0 and width % size == 0 and height == width
        checks.require(fits, f"size must divide a square of pixels, here {height} × {width}.", f"{size}")
        return height // size


def _shaped(holds: bool, must: str, array: np.ndarray) -> None:
    checks.require(bool(holds), must, f"shape {array.shape} and dtype {array.dtype}")


# ---- files -------------------------------------------------------------------------------------------------------


def dsprites(path: str | Path) -> Images:
    """dSprites, whole or in part: white shapes on black, by shape, scale, orientation and place."""
    file = _npz(path, ("imgs", "latents_classes"))
    images, factors = file["imgs"], file["latents_classes"]
    if factors.ndim == 2 and factors.shape[1] == len(DSPRITES) + 1:  # the published file begins with one colour
        factors = factors[:, 1:]
    return Images(images, _levels(factors), DSPRITES, np.array([[0], [255]], dtype=np.uint8))


def sprites(path: str | Path) -> Images:
    """Sprites: game characters by body, clothes, hair, action, direction and frame, in colours of a palette."""
    file = _npz(path, ("img_idx", "palette", "factors", "factor_names"))
    names = tuple(str(name) for name in file["factor_names"].ravel())
    return Images(file["img_idx"], _levels(file["factors"]), names, file["palette"])


def shapes3d(path: str | Path) -> Images:
    """3D Shapes, the file ``3dshapes.h5`` or a part of it; levels are the ranks of the values in ``labels``."""
    path = _existing(path)
    try:
        import h5py
    except ImportError as error:
        raise InputError("3D Shapes must have the package h5py; install noumena[data]. Got an ImportError.") from error
    with _reading(path, ".h5"), h5py.File(path, "r") as file:
        _hold(path, tuple(file), ("images", "labels"))
        images, labels = (np.asarray(file[name]) for name in ("images", "labels"))
    _shaped(labels.ndim == 2 and labels.dtype.kind in "fiu", "labels must be a table of numbers.", labels)
    ranks = [np.unique(column, return_inverse=True)[1] for column in labels.T]
    return Images(images, np.stack(ranks, axis=1), SHAPES3D)


def mpi3d(path: str | Path, *, sizes: tuple[int, ...] | None = None) -> Images:
    """MPI3D, a file ``mpi3d_*.npz``, whose images follow its grid, the last factor changing fastest.

    ``sizes`` are the levels of the seven factors where the file holds another grid than the two published ones.
    """
    images = _npz(path, ("images",))["images"]
    n = len(images) if images.ndim else 0
    grids = MPI3D_GRIDS if sizes is None else (tuple(checks.count(s, "A size of a factor") for s in sizes),)
    fitting = [grid for grid in grids if len(grid) == len(MPI3D) and prod(grid) == n]
    wanted = " or ".join(f"{' × '.join(map(str, grid))} = {prod(grid)}" for grid in grids)
    checks.require(bool(fitting), f"Images of MPI3D must be a grid of 7 factors, {wanted}.", f"{n} images")
    return Images(images, np.stack(np.unravel_index(np.arange(n), fitting[0]), axis=1), MPI3D)


def _levels(factors: np.ndarray) -> np.ndarray:
    """Whole numbers as they are, in the type of labels; anything else is refused where images are made."""
    return factors.astype(np.int64) if factors.dtype.kind in "iu" else factors


def _npz(path: str | Path, names: tuple[str, ...]) -> Mapping[str, np.ndarray]:
    """The named arrays of an archive, and no others."""
    path = _existing(path)
    with _reading(path, ".npz"), path.open("rb") as file:
        archive = np.load(file, allow_pickle=False)
        _hold(path, tuple(getattr(archive, "files", ())), names)
        return {name: archive[name] for name in names}


def _existing(path: str | Path) -> Path:
    path = Path(path)
    checks.require(path.is_file(), "The file of images must exist.", f"{path.name}")
    return path


def _hold(path: Path, found: tuple[str, ...], names: tuple[str, ...]) -> None:
    must = f"{path.name} must hold {', '.join(names)}."
    checks.require(set(names) <= set(found), must, ", ".join(found[:8]) or "no named arrays")


@contextmanager
def _reading(path: Path, ending: str) -> Iterator[None]:
    """One sentence for every way in which a file can be damaged or of another kind."""
    try:
        yield
    except InputError:
        raise
    except _DAMAGE as error:
        first = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise InputError(f"{path.name} must be a complete {ending} file of plain arrays. Got: {first}.") from error
