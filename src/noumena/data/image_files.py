"""Image files, one image each, read and resized by Pillow when they are indexed.

Deviations from what a viewer shows: transparency is dropped, EXIF orientation is ignored, of animations the first
frame
is taken, and images of another size are stretched by Lanczos' filter.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import UInt8

from noumena import checks
from noumena.checks import InputError

ENDINGS = (".png", ".jpg", ".jpeg", ".bmp", ".gif", ".tif", ".tiff", ".webp", ".ppm", ".pgm")
FORMATS = ("PNG", "JPEG", "BMP", "GIF", "TIFF", "WEBP", "PPM")
GREY = ("1", "L", "LA", "La")
COLOUR = ("RGB", "RGBA", "RGBa", "RGBX", "P", "PA", "CMYK", "YCbCr", "HSV", "LAB")
Size = int | Sequence[int] | None
"""Height and width, one number for a square, or None for the original size."""


class ImageFiles:
    """Files of a folder as a uint8 array (image, height, width, channel); each is read when it is indexed."""

    how = "read file by file"
    dtype = np.dtype(np.uint8)

    def __init__(self, root: Path, names: Sequence[str], *, channels: int, size: Size = None) -> None:
        self.root, self.names, self.channels, self.size = root.absolute(), names, channels, size
        first = self._picture(0)
        self.shape = (len(names), *first.shape)

    def __getitem__(self, places: Any) -> np.ndarray:
        chosen = np.arange(len(self.names))[places]
        out = np.empty((len(chosen), *self.shape[1:]), np.uint8)
        for row, place in enumerate(chosen.tolist()):
            image = self._picture(place)
            must = f"Images must all be {self.shape[1]} × {self.shape[2]} pixels, or size must be given."
            shown = f"{image.shape[0]} × {image.shape[1]} in {self.names[place]}"
            checks.require(image.shape == self.shape[1:], must, shown)
            out[row] = image
        return out

    def _picture(self, place: int) -> UInt8[np.ndarray, "height width channel"]:
        with opened(self.root / self.names[place]) as image:
            opaque = image.convert("RGBA") if "transparency" in image.info else image
            pixels = np.asarray(opaque.convert("L" if self.channels == 1 else "RGB"))
        return resized(pixels if pixels.ndim == 3 else pixels[:, :, None], self.size)


def resized(pixels: UInt8[np.ndarray, "height width channel"], size: Size) -> UInt8[np.ndarray, "_ _ channel"]:
    """One image stretched to a size by Lanczos' filter."""
    if size is None or pixels.shape[:2] == extent(size):
        return pixels
    pillow = package()
    height, width = extent(size)
    image = pillow.fromarray(pixels[:, :, 0] if pixels.shape[2] == 1 else pixels)
    small = np.asarray(image.resize((width, height), pillow.Resampling.LANCZOS))
    return small if small.ndim == 3 else small[:, :, None]


def extent(size: int | Sequence[int]) -> tuple[int, int]:
    """Height and width of a size.

    >>> extent(64), extent((48, 64))
    ((64, 64), (48, 64))
    """
    if isinstance(size, Sequence):
        checks.require(len(size) == 2, "size must be one whole number, or a height and a width.", f"{size}")
        return checks.count(size[0], "size"), checks.count(size[1], "size")
    side = checks.count(size, "size")
    return side, side


def header(path: Path) -> tuple[int, int, bool]:
    """Height, width and whether an image is grey, without reading its pixels."""
    with opened(path) as image:
        return image.height, image.width, image.mode in GREY


@contextmanager
def opened(path: Path) -> Iterator[Any]:
    """An image of eight bits a channel; whatever Pillow raises becomes one sentence that names the file."""
    pillow = package()
    damage = (OSError, SyntaxError, ValueError, EOFError, struct.error, zlib.error, pillow.DecompressionBombError)
    try:
        with pillow.open(path, formats=FORMATS) as image:
            checks.require(
                image.mode in GREY + COLOUR,
                "Images must be grey or in colour, with eight bits a channel.",
                f"{path.name} of mode {image.mode}",
            )
            yield image
    except InputError:
        raise
    except damage as error:
        first = checks.first_line(error).replace(str(path), path.name)
        raise InputError(f"{path.name} must be a complete image. Got: {first}.") from error


def package() -> Any:
    """Pillow's ``Image`` module, or an error that names what to install."""
    return checks.package("PIL.Image", "Pillow", "Images", "data")
