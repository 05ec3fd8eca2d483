"""Images for ``noumena fit``: files of images as flat rows, and convolutional networks for their size."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from noumena.checks import InputError, first_line, listed, require

if TYPE_CHECKING:
    import numpy as np

    from noumena.report.pictures import Shape

IN_MEMORY = 2**31
"""Bytes of a folder's images that are kept in memory as uint8; beyond, each is read when a batch needs it."""
SIDE = 4
"""Side at which convolutions stop halving the image."""
WIDTHS = (32, 32, 64)
"""Channels after every convolution, the last for all that follow."""


def read_images(path: Path, *, key: str | None = None) -> tuple[Any, Shape]:
    """Rows for ``fit``, uint8 or numbers in [0, 1] or a folder's images, and their (channels, height, width)."""
    if path.is_dir():
        require(key is None, "--key must come with a .npz file.", f"{path.name}")
        return _folder(path)
    images = channels_first(_array(path, key))
    shape = (int(images.shape[1]), int(images.shape[2]), int(images.shape[3]))
    return images.reshape(len(images), -1), shape


def reading_notes(path: Path, number: int, shape: Shape) -> list[str]:
    """What was read of a file or a folder, and what was left out."""
    channels, height, width = shape
    kind = "grey pictures" if channels == 1 else "pictures in colour"
    sentences = [f"Read {number} {kind} of {height} × {width} pixels."]
    if path.is_dir():
        from noumena.data.folders import animated

        names = animated(path)
        files = f"{len(names)} file{'' if len(names) == 1 else 's'}"
        sentences += [f"Left out all but the first frame of {files}: {listed(names)}."] if names else []
    return sentences


def conv_nets(shape: Shape) -> dict[str, Any]:
    """Builders of an encoder and a decoder that halve images down to a side of four, or an odd one.

    >>> conv_nets((3, 64, 64))["encoder"].widths, conv_nets((1, 28, 28))["encoder"].widths
    ((32, 32, 64, 64), (32, 32))
    """
    from noumena.nets import ConvDecoder, ConvEncoder

    channels, height, width = shape
    even = height == width and height % 2 == 0 and height > SIDE
    require(even, f"Images must be squares with an even side above {SIDE}.", f"{height} × {width} pixels")
    widths, side = [], height
    while side % 2 == 0 and side > SIDE:
        widths.append(WIDTHS[min(len(widths), len(WIDTHS) - 1)])
        side //= 2
    fields = channels, height, tuple(widths)
    return {"encoder": ConvEncoder(*fields), "decoder": ConvDecoder(*fields)}


def channels_first(images: np.ndarray) -> np.ndarray:
    """Images as (image, channel, height, width), from that order, from channels last, or grey.

    >>> import numpy as np
    >>> [channels_first(np.zeros(s, np.uint8)).shape for s in ((2, 3, 8, 8), (2, 8, 8, 3), (2, 8, 8))]
    [(2, 3, 8, 8), (2, 3, 8, 8), (2, 1, 8, 8)]
    """
    import numpy as np

    grey = images[:, None] if images.ndim == 3 else images
    first, last = (grey.ndim == 4 and grey.shape[axis] in (1, 3) for axis in (1, 3))
    must = "Images must have axes (image, channel, height, width) or (image, height, width, channel), 1 or 3 channels."
    require(first or last, must, f"shape {images.shape}")
    ordered = grey if first else np.moveaxis(grey, 3, 1)
    if ordered.dtype == np.uint8:
        return np.ascontiguousarray(ordered)
    must = "Images must be bytes, or numbers in [0, 1]."
    real = ordered.dtype.kind == "f" and ordered.size > 0
    require(real, must, f"dtype {images.dtype}")
    low, high = float(ordered.min()), float(ordered.max())
    require(low >= 0 and high <= 1, must, f"numbers from {low:g} to {high:g}")
    return np.ascontiguousarray(ordered, dtype=np.float32)


def _array(path: Path, key: str | None) -> np.ndarray:
    """An array of a ``.npy`` or ``.npz`` file; never unpickles."""
    import numpy as np

    require(path.is_file(), "The images must be a file or a folder that exists.", f"{path}")
    require(path.suffix.lower() in (".npy", ".npz"), "Images must be a .npy or .npz file, or a folder.", path.name)
    try:
        with path.open("rb") as file:
            loaded = np.load(file, allow_pickle=False)
            if isinstance(loaded, np.ndarray):
                require(key is None, "--key must come with a .npz file.", path.name)
                return loaded
            must = f"{path.name} must hold one array, or --key must name one."
            shown = f"arrays {', '.join(loaded.files[:8]) or 'none'} and key {key}"
            require(len(loaded.files) == 1 or key in loaded.files, must, shown)
            return loaded[key or loaded.files[0]]
    except InputError:
        raise
    except Exception as error:  # a damaged file may make its reader raise anything
        first = first_line(error)
        first = "something else, or Python's objects, which are never unpickled" if "allow_pickle" in first else first
        raise InputError(f"{path.name} must be a complete {path.suffix} file of images. Got: {first}.") from error


def _folder(path: Path) -> tuple[Any, Shape]:
    import numpy as np

    from noumena.data.folders import folder

    images = folder(path)
    channels, height, width = images.shape
    if len(images) * channels * height * width > IN_MEMORY:
        return images, (channels, height, width)
    return np.asarray(images.pictures(np.arange(len(images)))), (channels, height, width)
