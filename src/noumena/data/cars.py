"""Cars3D: 183 cars seen from 24 azimuths and 4 elevations, rendered in colour at 128 × 128.

The published folder ``cars`` has ``list.txt``, the names of the cars in order, and for each of them a MATLAB file with
``im``, uint8 of shape (128, 128, 3, 24, 4). Images are ordered by elevation, azimuth, car, the car changing fastest,
and resized to 64 × 64 by Lanczos' filter, as in disentanglement_lib.

References
----------
Reed, Zhang, Zhang and Lee (2015), "Deep visual analogy-making".

Deviations: cars are numbered as in ``list.txt``, there as the file system lists them; pixels stay uint8. A car's file
is
read when one of its images is first indexed, and its images are then cached.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from noumena import checks
from noumena.data import archives, image_files
from noumena.data.images import Images

NAMES = ("elevation", "azimuth", "car")
GRID = (4, 24, 183)
SIDE = 128
SIZE = 64


def cars3d(folder: str | Path, *, size: int | None = SIZE, part: bool = False) -> Images:
    """Cars3D, the folder ``cars``.

    Parameters
    ----------
    folder : str or Path
        The folder.
    size : int or None
        Side that images are resized to; None: as published.
    part : bool
        Whether there may be fewer cars, and images smaller than published.

    Returns
    -------
    Images
    """
    folder = archives.existing_folder(folder, "cars")
    listed = folder / "list.txt"
    checks.require(listed.is_file(), f"The folder {folder.name} must hold list.txt, the names of the cars.", "none")
    with archives.reading(listed, ".txt"):
        names = tuple(listed.read_text(encoding="utf-8").split())
    wanted = f"between 1 and {GRID[2]}" if part else f"the {GRID[2]} published ones"
    fitting = 1 <= len(names) <= GRID[2] and (part or len(names) == GRID[2])
    checks.require(fitting, f"Cars in list.txt must be {wanted}; part=True takes fewer.", f"{len(names)} cars")
    checks.require(len(set(names)) == len(names), "Cars in list.txt must have different names.", "a name twice")
    stored = CarImages(folder, names, _side(folder, names, part=part), size)
    factors = np.stack(np.unravel_index(np.arange(stored.shape[0]), (*GRID[:2], len(names))), axis=1)
    return Images(stored, factors, NAMES, grid=GRID)


class CarImages:
    """Images of all cars as a uint8 array; the file of a car is read once, when it is first needed."""

    dtype = np.dtype(np.uint8)

    def __init__(self, folder: Path, names: tuple[str, ...], side: int, size: int | None) -> None:
        self.folder, self.names, self.side, self.size = folder.absolute(), names, side, size
        height, width = image_files.extent(side if size is None else size)
        self.shape = (GRID[0] * GRID[1] * len(names), height, width, 3)
        self._kept = archives.allocate(self.shape, np.uint8)
        self._done = np.zeros(len(names), bool)
        self.how = f"kept {archives.storage_of(self._kept)} once read"

    def __getitem__(self, places: Any) -> np.ndarray:
        cars = np.unique(np.arange(self.shape[0])[places] % len(self.names))
        for car in cars[~self._done[cars]]:
            self._kept[car :: len(self.names)] = self._read(self.names[car])
            self._done[car] = True
        return self._kept[places]

    def _read(self, name: str) -> np.ndarray:
        """All images of a car, elevation by elevation."""
        from scipy.io import loadmat

        path = _file(self.folder, name)
        images = np.asarray(_of_file(path, lambda: loadmat(path, variable_names=["im"])["im"]))
        _require_shape(path, images.shape, str(images.dtype), self.side)
        turned = images.transpose(4, 3, 0, 1, 2).reshape(-1, self.side, self.side, 3)
        return np.stack([image_files.resized(np.ascontiguousarray(image), self.size) for image in turned])

    def __reduce__(self) -> tuple[Any, ...]:
        return CarImages, (self.folder, self.names, self.side, self.size)


def _side(folder: Path, names: tuple[str, ...], *, part: bool) -> int:
    """Height and width of the images, from the headers of all files."""
    from scipy.io import whosmat

    side = None if part else SIDE
    for name in names:
        path = _file(folder, name)
        checks.require(path.is_file(), "Every car of list.txt must have its file.", f"no {path.name}")
        variables = {
            variable: (shape, kind) for variable, shape, kind in _of_file(path, lambda path=path: whosmat(path))
        }
        checks.require("im" in variables, f"{path.name} must hold im.", checks.listed(list(variables)) or "nothing")
        shape, kind = variables["im"]
        side = shape[0] if side is None else side
        _require_shape(path, shape, kind, side)
    return int(side or 0)


def _of_file(path: Path, read: Callable[[], Any]) -> Any:
    """Read by scipy, whose errors over damaged files are of more kinds."""
    from scipy.io.matlab import MatReadError

    with archives.reading(path, ".mat"):
        try:
            return read()
        except (MatReadError, TypeError, IndexError, MemoryError) as error:
            raise ValueError(str(error)) from error


def _file(folder: Path, name: str) -> Path:
    return folder / f"{name.removesuffix('.mat')}.mat"


def _require_shape(path: Path, shape: tuple[int, ...], kind: str, side: int) -> None:
    wanted = (side, side, 3, GRID[1], GRID[0])
    fits = tuple(shape) == wanted and kind == "uint8"
    checks.require(fits, f"im in {path.name} must be bytes of shape {wanted}.", f"{kind} of shape {tuple(shape)}")
