"""PNG files from arrays of bytes, grey or in colour, with nothing but ``zlib``.

Pictures of at most 256 colours are written with a palette where that is smaller. Of the five row filters of the format
every row takes the one whose differences are smallest in sum, the usual rule. Reference: W3C, *Portable Network
Graphics (PNG) Specification*. **Deviations**: eight bits a channel only, no transparency, no interlacing.
"""

from __future__ import annotations

import os
import struct
import zlib
from base64 import b64encode
from pathlib import Path

import numpy as np
from jaxtyping import Int, UInt8
from numpy.typing import ArrayLike

from noumena.checks import require

SIGNATURE = b"\x89PNG\r\n\x1a\n"
GREY, COLOUR, PALETTE = 0, 2, 3
"""Colour types of the format."""
EFFORT = 6


def encode(pixels: ArrayLike) -> bytes:
    """The PNG of bytes (height, width), grey, or (height, width, 3), red, green and blue.

    >>> encode(np.zeros((2, 3), dtype=np.uint8))[:4]
    b'\\x89PNG'
    """
    array = np.asarray(pixels)
    fits = array.dtype == np.uint8 and (array.ndim == 2 or (array.ndim == 3 and array.shape[2] == 3)) and array.size > 0
    must = "A PNG must be of bytes with axes (height, width) or (height, width, 3)."
    require(bool(fits), must, f"dtype {array.dtype} and shape {array.shape}")
    plain = _file(GREY if array.ndim == 2 else COLOUR, array, b"")
    found = None if array.ndim == 2 else _indexed(array)
    if found is None:
        return plain
    return min(plain, _file(PALETTE, found[0], found[1].tobytes()), key=len)


def data_uri(pixels: ArrayLike) -> str:
    """The PNG inside an address, for a page that fetches nothing.

    >>> data_uri(np.zeros((1, 1), dtype=np.uint8))[:30]
    'data:image/png;base64,iVBORw0K'
    """
    return "data:image/png;base64," + b64encode(encode(pixels)).decode("ascii")


def save(pixels: ArrayLike, path: str | Path) -> Path:
    """Write the PNG under a temporary name beside ``path``, then rename; returns the path."""
    path = Path(path)
    content = encode(pixels)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        temporary.write_bytes(content)
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
    return path


def _file(kind: int, pixels: np.ndarray, palette: bytes) -> bytes:
    height, width = pixels.shape[:2]
    header = struct.pack(">IIBBBBB", width, height, 8, kind, 0, 0, 0)
    rows = pixels.reshape(height, -1)
    channels = rows.shape[1] // width
    body = _plain(rows) if kind == PALETTE else filtered(rows, channels)
    colours = _chunk(b"PLTE", palette) if palette else b""
    body = _chunk(b"IDAT", zlib.compress(body.tobytes(), EFFORT))
    return SIGNATURE + _chunk(b"IHDR", header) + colours + body + _chunk(b"IEND", b"")


def _chunk(name: bytes, content: bytes) -> bytes:
    return struct.pack(">I", len(content)) + name + content + struct.pack(">I", zlib.crc32(name + content))


def _plain(rows: np.ndarray) -> np.ndarray:
    """Rows behind the sign of no filter."""
    return np.pad(rows, ((0, 0), (1, 0)))


def filtered(rows: UInt8[np.ndarray, "height across"], channels: int) -> UInt8[np.ndarray, "height one_more"]:
    """Every row behind the number of its filter, as differences to what that filter foretells.

    A row of equal bytes is, after its first, foretold by the byte to the left (filter 1):

    >>> filtered(np.array([[7, 7, 7]], dtype=np.uint8), 1)
    array([[1, 7, 0, 0]], dtype=uint8)
    """
    here = rows.astype(np.int16)
    left = np.pad(here, ((0, 0), (channels, 0)))[:, : here.shape[1]]
    up = np.pad(here, ((1, 0), (0, 0)))[:-1]
    corner = np.pad(left, ((1, 0), (0, 0)))[:-1]
    foretold = np.stack([np.zeros_like(here), left, up, (left + up) // 2, _paeth(left, up, corner)])
    differences = (here - foretold).astype(np.uint8)
    sizes = np.abs(differences.astype(np.int8).astype(np.int32)).sum(axis=2)
    best = sizes.argmin(axis=0)
    chosen = differences[best, np.arange(len(rows))]
    return np.concatenate([best[:, None].astype(np.uint8), chosen], axis=1)


def _paeth(
    left: Int[np.ndarray, "height across"], up: Int[np.ndarray, "height across"], corner: Int[np.ndarray, ...]
) -> np.ndarray:
    """Of the byte to the left, above and between them, the one nearest to left + up − corner."""
    guess = left + up - corner
    to_left, to_up, to_corner = np.abs(guess - left), np.abs(guess - up), np.abs(guess - corner)
    return np.where((to_left <= to_up) & (to_left <= to_corner), left, np.where(to_up <= to_corner, up, corner))


def _indexed(pixels: np.ndarray) -> tuple[np.ndarray, np.ndarray] | None:
    """Places of colours in a palette of at most 256, and the palette; ``None`` where there are more colours."""
    packed = (pixels.astype(np.uint32) << np.array([16, 8, 0], dtype=np.uint32)).sum(axis=2, dtype=np.uint32)
    colours, places = np.unique(packed, return_inverse=True)
    if len(colours) > 256:
        return None
    palette = np.stack([colours >> 16 & 255, colours >> 8 & 255, colours & 255], axis=1).astype(np.uint8)
    return places.reshape(packed.shape).astype(np.uint8), palette
