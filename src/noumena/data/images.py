"""Images with the factors behind them, wherever their pixels are stored: an array, a memory map, HDF5, files.

Pixels are uint8 and are read when they are indexed; opening reads one image, to see that it can be read.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Any, Protocol, runtime_checkable

import numpy as np
from jaxtyping import UInt8

from noumena import checks, seeds
from noumena.data import archives
from noumena.deprecated import renamed
from noumena.worlds.world import Sample

CHUNK = 512
"""Images converted together."""


@runtime_checkable
class PixelSource(Protocol):
    """An array of pixels, indexed by increasing positions."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Images, height, width and, without a palette, channels."""
        ...

    @property
    def dtype(self) -> Any:
        """Of bytes."""
        ...

    def __getitem__(self, places: Any, /) -> Any: ...


@dataclass(frozen=True)
class Images:
    """Images with the level of every factor behind them.

    Parameters
    ----------
    stored : array-like of uint8
        Of shape (image, height, width, channel), or with a ``palette`` (image, height, width).
    factors : array of int of shape (n_images, n_factors)
        Levels of the factors.
    names : tuple of str
        Names of the factors.
    palette : array of uint8 of shape (n_colours, n_channels), optional
        The colours that pixels index.
    grid : tuple of int, optional
        Numbers of levels of the complete published set.
    levels : tuple of tuple of str, optional
        What the levels stand for.

    Examples
    --------
    >>> grey = np.array([[[0, 1], [1, 1]]], dtype=np.uint8)
    >>> one = Images(grey, np.zeros((1, 1), dtype=np.int64), ("shape",), np.array([[0], [255]], dtype=np.uint8))
    >>> one.pictures([0]).tolist(), one.rows(size=1).tolist()
    ([[0, 255, 255, 255]], [[0.75]])
    """

    stored: PixelSource
    factors: np.ndarray
    names: tuple[str, ...]
    palette: np.ndarray | None = None
    grid: tuple[int, ...] | None = None
    levels: tuple[tuple[str, ...], ...] | None = None

    def __post_init__(self) -> None:
        axes = 4 if self.palette is None else 3
        shape = tuple(self.stored.shape)
        fits = len(shape) == axes and self.stored.dtype == np.uint8 and prod(shape) > 0
        checks.require(fits, f"Images must be bytes with {axes} axes.", f"shape {shape} and dtype {self.stored.dtype}")
        self._check_factors(shape[0])
        if self.palette is not None:
            colours = self.palette.ndim == 2 and self.palette.dtype == np.uint8 and self.palette.size > 0
            shaped(colours, "A palette must be bytes with 2 axes.", self.palette)
        self.pictures([0])

    def _check_factors(self, n: int) -> None:
        integral = self.factors.ndim == 2 and self.factors.dtype.kind in "iu" and len(self.factors) == n
        shaped(integral, f"The factors of {n} images must be a table of whole numbers.", self.factors)
        shown = f"{self.factors.shape[1]} columns"
        checks.require(len(self.names) == self.factors.shape[1], f"There must be {len(self.names)} factors.", shown)
        lowest = int(self.factors.min(initial=0))
        checks.require(lowest >= 0, "Levels of factors must not be negative.", f"{lowest}")
        for name, size, most in zip(self.names, self.sizes, self.grid or self.sizes, strict=True):
            checks.require(size <= most, f"Levels of {name} must be below {most}.", f"{size - 1}")

    def __len__(self) -> int:
        return int(self.stored.shape[0])

    def __str__(self) -> str:
        size = " × ".join(map(str, self.shape))
        part = f", a part of {prod(self.grid)}," if self.grid is not None and prod(self.grid) > len(self) else ""
        levels = ", ".join(f"{name} {size}" for name, size in zip(self.names, self.sizes, strict=True)) or "none"
        how = getattr(self.stored, "how", "")
        return f"{len(self)} images{part} of {size} (channel, height, width); factors: {levels}{how and f'; {how}'}"

    @property
    def shape(self) -> tuple[int, int, int]:
        """Channels, height and width of an image."""
        _, height, width, *rest = self.stored.shape
        return int(rest[0] if self.palette is None else self.palette.shape[1]), int(height), int(width)

    @property
    def sizes(self) -> tuple[int, ...]:
        """Levels of every factor: one more than the highest that occurs."""
        return tuple(int(top) + 1 for top in self.factors.max(axis=0))

    @property
    def complete(self) -> bool:
        """Whether every combination of levels occurs exactly once."""
        if not self.names or prod(self.sizes) != len(self):
            return False
        return len(np.unique(np.ravel_multi_index(tuple(self.factors.T), self.sizes))) == len(self)

    @property
    def pixels(self) -> np.ndarray:
        """All images as uint8, (image, channel, height, width), read at every call."""
        return self._read(np.arange(len(self)))

    def pictures(self, index: Any) -> UInt8[np.ndarray, "batch pixel"]:
        """The images at ``index`` as flat uint8 rows, (image, channel · height · width)."""
        chosen = self._places(index)
        return np.ascontiguousarray(self._read(chosen)).reshape(len(chosen), prod(self.shape))

    def rows(self, index: Any = None, *, size: int | None = None) -> np.ndarray:
        """Flat float32 images in [0, 1], (image, channel · height · width); all, or those at ``index``.

        ``size`` downsamples to it, a divisor of height and width, by averaging.
        """
        chosen = np.arange(len(self)) if index is None else self._places(index)
        channels, height, width = self.shape
        block = self._block(size)
        out = np.empty((len(chosen), channels * (height // block) * (width // block)), dtype=np.float32)
        for start in range(0, len(chosen), CHUNK):
            batch = chosen[start : start + CHUNK]
            out[start : start + CHUNK] = _block_sums(self._read(batch), block).reshape(len(batch), -1)
        out /= 255 * block**2
        return out

    @renamed(seed="random_state")
    def sample(self, n: int, *, random_state: Any = 0, size: int | None = None) -> Sample:
        """Draw ``n`` different images, ``z`` the levels of their factors; the same seed draws the same images."""
        seed = seeds.seed_of(random_state)
        n = checks.count(n, "n")
        checks.require(n <= len(self), f"n must be at most the {len(self)} images there are.", f"{n}")
        rng = seeds.numpy_generator(seeds.seed_of(seed), "benchmark images")
        chosen = rng.choice(len(self), n, replace=False)
        return Sample(x=self.rows(chosen, size=size), z=self.factors[chosen].astype(np.int64))

    def unpacked(self, *, size: int | None = None) -> Images:
        """The same images decoded once, as uint8 in memory or, if many, in a temporary file.

        Worth it before training on what is slow to read in random order: image files, compressed HDF5. ``size`` as for
        ``rows``, rounded to uint8.
        """
        channels, height, width = self.shape
        block = self._block(size)
        out = archives.allocate((len(self), height // block, width // block, channels), np.uint8)
        together = max(CHUNK, getattr(self.stored, "together", 1))
        for start in range(0, len(self), together):
            read = self._read(np.arange(start, min(start + together, len(self))))
            small = np.rint(_block_sums(read, block) / block**2) if block > 1 else read
            out[start : start + together] = np.moveaxis(small, 1, -1)
        return Images(out, self.factors, self.names, grid=self.grid, levels=self.levels)

    def _read(self, places: np.ndarray) -> np.ndarray:
        """Images at positions from 0 on, in any order and number, (image, channel, height, width)."""
        unique, back = np.unique(places, return_inverse=True)
        rising = len(unique) == len(places) and bool((unique == places).all())
        stored = np.asarray(self.stored[unique]) if len(unique) else np.zeros((0, *self.stored.shape[1:]), np.uint8)
        stored = stored if rising else stored[back]
        if self.palette is None:
            return np.moveaxis(stored, -1, 1)
        top, last = int(stored.max(initial=0)), len(self.palette) - 1
        checks.require(top <= last, f"Pixels must be places 0 to {last} of the palette.", f"{top}")
        return np.stack([np.take(colours, stored) for colours in self.palette.T], axis=1)

    def _places(self, index: Any) -> np.ndarray:
        """Positions from 0 on of an index, which may be negative or a boolean mask."""
        numbers = np.asarray(index)
        must = f"index must be integers from {-len(self)} to {len(self) - 1}, or a boolean mask."
        if numbers.dtype == bool:
            checks.require(numbers.shape == (len(self),), must, f"shape {numbers.shape}")
            return np.flatnonzero(numbers)
        integral = numbers.ndim == 1 and (numbers.dtype.kind in "iu" or numbers.size == 0)
        checks.require(integral, must, f"shape {numbers.shape} and dtype {numbers.dtype}")
        beyond = numbers[(numbers < -len(self)) | (numbers >= len(self))]
        checks.require(beyond.size == 0, must, f"{beyond[:5].tolist()}")
        return numbers.astype(np.int64) % len(self)

    def _block(self, size: int | None) -> int:
        _, height, width = self.shape
        if size is None:
            return 1
        size = checks.count(size, "size")
        fits = height % size == 0 and width % size == 0 and height == width
        checks.require(fits, f"size must divide a square of pixels, here {height} × {width}.", f"{size}")
        return height // size


def shaped(holds: bool, must: str, array: Any) -> None:
    """Refuse an array by its shape and type."""
    checks.require(bool(holds), must, f"shape {tuple(array.shape)} and dtype {array.dtype}")


def _block_sums(pixels: np.ndarray, block: int) -> np.ndarray:
    """Sums over blocks of pixels, (image, channel, height / block, width / block)."""
    parts = [pixels[:, :, i::block, j::block] for i in range(block) for j in range(block)]
    return sum(parts[1:], start=parts[0].astype(np.float32))
