"""PNG files from arrays of bytes, grey or in colour, written by Pillow as small as it can.

Pictures of at most 256 colours are written with a palette where that is smaller.
"""

from __future__ import annotations

import io
import os
from base64 import b64encode
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from noumena.checks import require

if TYPE_CHECKING:
    from PIL import Image


def encode(pixels: ArrayLike) -> bytes:
    """The PNG of bytes (height, width), grey, or (height, width, 3), red, green and blue.

    >>> encode(np.zeros((2, 3), dtype=np.uint8))[:4]
    b'\\x89PNG'
    """
    from PIL import Image

    array = np.asarray(pixels)
    fits = array.dtype == np.uint8 and (array.ndim == 2 or (array.ndim == 3 and array.shape[2] == 3)) and array.size > 0
    must = "A PNG must be of bytes with axes (height, width) or (height, width, 3)."
    require(bool(fits), must, f"dtype {array.dtype} and shape {array.shape}")
    versions = [Image.fromarray(np.ascontiguousarray(array))]
    colours, places = np.unique(array.reshape(-1, 3), axis=0, return_inverse=True) if array.ndim == 3 else ((), ())
    if 0 < len(colours) <= 256:
        indexed = Image.fromarray(np.asarray(places, dtype=np.uint8).reshape(array.shape[:2]))
        indexed.putpalette(np.asarray(colours).tobytes())
        versions.append(indexed)
    return min((_file(version) for version in versions), key=len)


def _file(image: Image.Image) -> bytes:
    file = io.BytesIO()
    image.save(file, format="PNG", optimize=True)
    return file.getvalue()


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
