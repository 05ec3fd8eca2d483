"""Grey pictures of 28 × 28 pixels: the footwear of Fashion-MNIST, or, where that is not at hand, the digits of MNIST.

The published strips of Fashion-MNIST show shoes; here the three classes of footwear are taken out of the file by their
labels, which have no other part in a training. Either file may be an ``.npz`` with ``x_train, y_train, x_test,
y_test``; Fashion-MNIST may also be any of its four ``.gz`` files, with the others beside it (*IDX* format: two zero
bytes, the type, the number of axes, the length of each, then the entries).

Reference: Xiao, Rasul and Vollgraf (2017), *Fashion-MNIST*.
"""

from __future__ import annotations

import gzip
import os
import struct
import zlib
from math import prod
from pathlib import Path
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int, UInt8

from noumena import checks
from noumena.checks import InputError

VARIABLES = {"Fashion-MNIST": "NOUMENA_FASHION", "MNIST": "NOUMENA_MNIST"}
FOOTWEAR = {5: "sandal", 7: "sneaker", 9: "ankle boot"}
PARTS = ("train-images-idx3", "train-labels-idx1", "t10k-images-idx3", "t10k-labels-idx1")
ENTRIES = ("x_train", "y_train", "x_test", "y_test")
SIDE = 28
BYTES = 8
"""The number by which an IDX file says that its entries are bytes."""
MEASURES = ("light", "width", "height", "lean")


class Greys(NamedTuple):
    """Flat pictures as bytes to train on and held out, and the class of the latter."""

    name: str
    train: np.ndarray
    test: np.ndarray
    classes: np.ndarray


def greys(fashion: str | Path | None = None, mnist: str | Path | None = None) -> Greys:
    """Footwear where a file of Fashion-MNIST is given, or named by the environment; else digits."""
    paths = {"Fashion-MNIST": fashion, "MNIST": mnist}
    for data, path in paths.items():
        given = path if path is not None else os.environ.get(VARIABLES[data])
        if given is not None:
            x, y, x_test, y_test = _parts(Path(str(given)), data)
            if data == "MNIST":
                return Greys("MNIST", x, x_test, y_test)
            worn, worn_test = (np.isin(labels, list(FOOTWEAR)) for labels in (y, y_test))
            return Greys("footwear", x[worn], x_test[worn_test], y_test[worn_test])
    variables = " or ".join(VARIABLES.values())
    raise InputError(f"Pictures must be named by --fashion, --mnist or the variable {variables}. Got none.")


def _parts(path: Path, data: str) -> list[np.ndarray]:
    """Flat pictures and labels to train on and held out, of either layout."""
    checks.require(path.is_file(), f"The file of {data} must exist.", path.name)
    if path.suffix == ".npz":
        with np.load(path, allow_pickle=False) as file:
            checks.require(set(ENTRIES) <= set(file), f"The file must hold {', '.join(ENTRIES)}.", ", ".join(file))
            found = [file[name] for name in ENTRIES]
    else:
        found = [idx(path.with_name(f"{part}-ubyte.gz"), int(part[-1])) for part in PARTS]
    for x, y in (found[:2], found[2:]):
        fits = x.dtype == np.uint8 and x.shape == (len(y), SIDE, SIDE) and y.ndim == 1
        must = f"{data} must be pictures of {SIDE} × {SIDE} bytes with a label each."
        checks.require(fits, must, f"{x.dtype} {x.shape} and labels {y.shape}")
    return [part.reshape(len(part), -1) if part.ndim == 3 else part.astype(np.int64) for part in found]


def idx(path: Path, axes: int) -> UInt8[np.ndarray, ...]:
    """The entries of a compressed IDX file of bytes."""
    checks.require(path.is_file(), "All four files of Fashion-MNIST must lie in one folder.", f"no {path.name}")
    try:
        content = gzip.decompress(path.read_bytes())
    except (OSError, EOFError, zlib.error) as error:
        raise InputError(f"{path.name} must be a whole gzip file. Got {error}.") from error
    head = 4 + 4 * axes
    right = content[:4] == bytes((0, 0, BYTES, axes)) and len(content) >= head
    checks.require(right, f"{path.name} must be an IDX file of bytes with {axes} axes.", f"it begins {content[:4]!r}")
    sizes = struct.unpack(f">{axes}I", content[4:head])
    must = f"{path.name} must hold the {prod(sizes)} bytes that it announces."
    checks.require(len(content) == head + prod(sizes), must, len(content) - head)
    return np.frombuffer(content, dtype=np.uint8, offset=head).reshape(sizes).copy()


def measures(x: UInt8[np.ndarray, "batch pixel"]) -> Float[np.ndarray, "batch 4"]:
    """What can be measured on grey pictures without labels: mean light, the spread of the light across and down, in
    pixels, and its lean, how far it goes to the right per pixel downwards; all but the first ignore brightness.

    >>> bar = np.zeros((28, 28), dtype=np.uint8)
    >>> bar[10, 10] = bar[14, 14] = 255
    >>> measures(bar.reshape(1, -1))[0, 1:].tolist()
    [2.0, 2.0, 1.0]
    """
    light = x.reshape(len(x), SIDE, SIDE).astype(np.float64) / 255
    mass = light / np.maximum(light.sum(axis=(1, 2), keepdims=True), 1e-9)
    place = np.arange(SIDE) - (SIDE - 1) / 2
    across, down = mass.sum(axis=1), mass.sum(axis=2)
    middle = np.stack([across @ place, down @ place], axis=1)
    wide, tall = across @ place**2 - middle[:, 0] ** 2, down @ place**2 - middle[:, 1] ** 2
    both = np.einsum("bij,i,j->b", mass, place, place) - middle[:, 0] * middle[:, 1]
    spreads = np.sqrt(np.maximum(np.stack([wide, tall], axis=1), 0))
    return np.column_stack([light.mean(axis=(1, 2)), spreads, both / np.maximum(tall, 1e-9)])


def tenths(values: Float[np.ndarray, "batch measure"]) -> Int[np.ndarray, "batch measure"]:
    """In which tenth of its column every value lies, from 0 to 9; unchanged by increasing maps of a column.

    >>> tenths(np.arange(20.0)[:, None])[:, 0].tolist()
    [0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7, 7, 8, 8, 9, 9]
    """
    cuts = np.quantile(values, np.arange(0.1, 1, 0.1), axis=0)
    return (values[:, None, :] > cuts).sum(axis=1)
