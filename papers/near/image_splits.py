"""Images with known factors, the same split into images to train on and to evaluate on every time.

dSprites, a complete sub-grid of it, and Sprites are real files; *rooms* are rendered by this library, with the grid of
factors of 3D Shapes, of which a fixed random part is drawn. They are not 3D Shapes, and named as what they are.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple

import numpy as np

from noumena import checks, seeds
from noumena.data import benchmarks
from noumena.estimators.loop import Training
from noumena.estimators.sources import stretches
from noumena.worlds.rooms import Rooms

VARIABLES = {"dSprites": "NOUMENA_DSPRITES", "Sprites": "NOUMENA_SPRITES"}
LOADERS = {"dSprites": benchmarks.dsprites, "Sprites": benchmarks.sprites}
DATA = (*LOADERS, "rooms")
SIZE = 32
ROOMS = 40_000
"""Images drawn of the 480 000 of the grid of rooms."""
HELD_OUT, EVALUATED = 0.2, 10_000
"""The share and the largest number of images to evaluate on."""


class Split(NamedTuple):
    """Flat images in [0, 1] to train on, images to evaluate on, and the factors of the latter."""

    train: np.ndarray
    test: np.ndarray
    factors: np.ndarray


def split(
    data: str, path: str | Path | None = None, *, size: int = SIZE, device: str = "cpu", n_rooms: int = ROOMS
) -> Split:
    """The images of a data set, of the file given or the one that the environment names; ``n_rooms`` rooms are
    rendered on ``device``."""
    checks.one_of(data, "data", DATA)
    if data == "rooms":
        x, factors = rooms(size, device, n_rooms)
    else:
        images = LOADERS[data](named(data, path))
        x, factors = images.rows(size=size), np.asarray(images.factors)
    order = seeds.numpy_generator(0, "images to evaluate on", len(x)).permutation(len(x))
    held = min(EVALUATED, round(HELD_OUT * len(x)))
    return Split(x[order[held:]], x[order[:held]], factors[order[:held]])


def rooms(size: int, device: str, number: int) -> tuple[np.ndarray, np.ndarray]:
    """Rooms in [0, 1] and the levels of their factors: some of the grid, drawn once and for all."""
    world = Rooms(size, str(Training(device=device).torch_device()))
    chosen = seeds.numpy_generator(0, "rooms of the grid").choice(len(world), number, replace=False)
    parts = [world.pictures(chosen[some]).cpu().numpy() for some in stretches(len(chosen), 3 * size**2)]
    return np.concatenate(parts).astype(np.float32) / 255, world.levels(chosen)


def named(data: str, path: str | Path | None = None) -> Path:
    """The file of a data set: the one given, or the one the environment names."""
    variable = VARIABLES[data]
    given = path if path is not None else os.environ.get(variable)
    checks.require(given is not None, f"{data} must be named by the variable {variable}.", "nothing")
    checks.require(Path(str(given)).is_file(), f"The file of {data} must exist.", Path(str(given)).name)
    return Path(str(given))
