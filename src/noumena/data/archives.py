"""Arrays read lazily from files: members of ``.npz`` archives, plain binary arrays and HDF5 datasets.

Each has a ``shape`` and a ``dtype``, is indexed by increasing positions, ``source[places]``, and names its storage,
``how``. An uncompressed member is memory-mapped where it lies in the archive; a compressed one is decompressed once,
into memory or, beyond ``LARGEST`` bytes, into an anonymous temporary file. A pickled source is a path and a name:
another process opens the file anew. Nothing is ever unpickled from a file.

Deviations from ``numpy.load``: the checksum of a mapped member is not verified, since that would read it whole.
"""

from __future__ import annotations

import os
import shutil
import struct
import tempfile
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from noumena import checks
from noumena.checks import InputError
from noumena.data.hdf5_guard import check_hdf5

LARGEST = 2**28
"""Bytes beyond which a new array lies in a temporary file."""
PIECE = 2**24
"""Bytes decompressed at a time."""
_LOCAL = 30
"""Bytes of a member's own header in a zip file, before its name."""
_DAMAGE = (
    OSError, ValueError, EOFError, KeyError, RuntimeError, struct.error, zipfile.BadZipFile,
    zlib.error,
)  # fmt: skip


class MappedArray:
    """A memory-mapped array at an offset of a binary file."""

    how = "memory-mapped"

    def __init__(self, path: Path, offset: int, shape: tuple[int, ...], dtype: Any, order: Any = "C") -> None:
        self._made = path.absolute(), offset, shape, dtype, order
        self.shape, self.dtype = shape, np.dtype(dtype)
        empty = prod(shape) == 0  # which a memory map cannot be
        self._array: np.ndarray = (
            np.zeros(shape, self.dtype) if empty else np.memmap(path, self.dtype, "r", offset, shape, order)
        )

    def __getitem__(self, places: Any) -> np.ndarray:
        return np.asarray(self._array[places])

    def __reduce__(self) -> tuple[Any, ...]:
        return MappedArray, self._made


class ArchiveMember:
    """A named array of an ``.npz`` archive."""

    def __init__(self, path: Path, name: str) -> None:
        self.path, self.name = existing(path).absolute(), name
        require_members(self.path, (name,))
        with reading(self.path, ".npz"), zipfile.ZipFile(self.path) as archive:
            info = archive.getinfo(f"{name}.npy")
            with archive.open(info) as file:
                self.shape, order, self.dtype = _header(file)
                size = prod(self.shape) * self.dtype.itemsize
                if info.file_size - file.tell() != size:
                    raise ValueError(f"{name} has {info.file_size - file.tell()} bytes for shape {self.shape}")
                if info.compress_type == zipfile.ZIP_STORED:
                    start = _start(self.path, info) + file.tell()
                    self._array = MappedArray(self.path, start, self.shape, self.dtype, order)
                    self.how = MappedArray.how
                else:
                    self._array = allocate(self.shape, self.dtype, order)
                    _fill(self._array, file)
                    self.how = storage_of(self._array)

    def __getitem__(self, places: Any) -> np.ndarray:
        return np.asarray(self._array[places])

    def __reduce__(self) -> tuple[Any, ...]:
        return ArchiveMember, (self.path, self.name)


class HDF5Dataset:
    """A dataset of an HDF5 file, which stays open, and is opened again in every other process.

    ``together`` is the number of images in a chunk of the file, which is always read whole.
    """

    how = "read from HDF5"

    def __init__(self, path: Path, name: str) -> None:
        self.path, self.name = existing(path).absolute(), name
        self._open()
        self.shape, self.dtype = tuple(self._data.shape), self._data.dtype

    def _open(self) -> None:
        h5py = _h5py()
        with reading(self.path, ".h5"):
            file = h5py.File(self.path, "r")
            _require_names(self.path, tuple(file), (self.name,))
            checks.require(isinstance(file[self.name], h5py.Dataset), f"{self.name} must be an array.", "a group")
            self._data, self._process = file[self.name], os.getpid()
            self.together = int(self._data.chunks[0]) if self._data.chunks else 1

    def __getitem__(self, places: Any) -> np.ndarray:
        if self._process != os.getpid():
            self._open()
        if not isinstance(places, np.ndarray):
            return np.asarray(self._data[places])
        out = np.empty((len(places), *self.shape[1:]), self.dtype)
        with reading(self.path, ".h5"):
            for piece in _runs(places, self.together):
                low, high = int(places[piece[0]]), int(places[piece[-1]]) + 1
                out[piece] = self._data[low:high][places[piece] - low]
        return out

    def __reduce__(self) -> tuple[Any, ...]:
        return HDF5Dataset, (self.path, self.name)


def array(path: Path, name: str) -> np.ndarray:
    """A named array of an archive."""
    return ArchiveMember(path, name)[...]


def require_members(path: Path, names: tuple[str, ...]) -> None:
    """Refuse an archive without these arrays."""
    with reading(path, ".npz"), path.open("rb") as file:
        single = file.read(6) == b"\x93NUMPY"
        members = () if single else tuple(n.removesuffix(".npy") for n in zipfile.ZipFile(file).namelist())
    _require_names(path, members, names)


def require_datasets(path: Path, names: tuple[str, ...]) -> None:
    """Refuse an HDF5 file without these arrays."""
    h5py = _h5py()
    check_hdf5(path)
    with reading(path, ".h5"), h5py.File(path, "r") as file:
        _require_names(path, tuple(file), names)


def existing(path: str | Path) -> Path:
    """The path, refused unless it is a file."""
    path = Path(path)
    shown = f"a folder, {path.name}" if path.is_dir() else path.name
    checks.require(path.is_file(), "The file of images must exist.", shown)
    return path


def existing_folder(path: str | Path, of: str) -> Path:
    """The path, refused unless it is a folder."""
    path = Path(path)
    shown = f"a file, {path.name}" if path.is_file() else path.name
    checks.require(path.is_dir(), f"The folder of {of} must exist.", shown)
    return path


def allocate(shape: tuple[int, ...], dtype: Any, order: Any = "C") -> np.ndarray:
    """A new array of zeros: in memory, or beyond ``LARGEST`` bytes in an anonymous temporary file.

    >>> allocate((2, 3), np.uint8).tolist()
    [[0, 0, 0], [0, 0, 0]]
    """
    size = prod(shape) * np.dtype(dtype).itemsize
    if size <= LARGEST:
        return np.zeros(shape, dtype, order)
    free = shutil.disk_usage(tempfile.gettempdir()).free
    must = f"The temporary directory must have room for {size / 1e9:.3g} GB of decompressed images."
    checks.require(size < free, must, f"{free / 1e9:.3g} GB; TMPDIR names another")
    with tempfile.TemporaryFile() as file:
        return np.memmap(file, dtype, mode="w+", shape=shape, order=order)


def storage_of(array: np.ndarray) -> str:
    """Where an array that ``allocate`` made is stored."""
    return "in a temporary file" if isinstance(array, np.memmap) else "in memory"


@contextmanager
def reading(path: Path, ending: str) -> Iterator[None]:
    """Whatever a damaged file, or one of another kind, raises becomes one sentence."""
    try:
        yield
    except InputError:
        raise
    except _DAMAGE as error:
        must = f"{path.name} must be a complete {ending} file of plain arrays."
        raise InputError(f"{must} Got: {checks.first_line(error)}.") from error


def _require_names(path: Path, members: tuple[str, ...], names: tuple[str, ...]) -> None:
    must = f"{path.name} must hold {', '.join(names)}."
    checks.require(set(names) <= set(members), must, ", ".join(members[:8]) or "no named arrays")


def _h5py() -> Any:
    return checks.package("h5py", "h5py", "HDF5 files", "data")


def _runs(places: np.ndarray, together: int) -> list[np.ndarray]:
    """Runs of increasing positions that are read as one range: neighbours, and those in one chunk of the file.

    Where every image is a chunk of its own, h5py is some ten times slower over a list of positions.
    """
    far = (np.diff(places) > 1) & (np.diff(places // together) > 0)
    return np.split(np.arange(len(places)), np.flatnonzero(far) + 1) if len(places) else []


def _header(file: Any) -> tuple[tuple[int, ...], str, np.dtype]:
    """Shape, order and type of the array that follows."""
    version = np.lib.format.read_magic(file)
    if version not in ((1, 0), (2, 0)):
        raise ValueError(f"version {version} of the header")
    read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    shape, fortran, dtype = read(file)
    if dtype.hasobject:
        raise ValueError("pickled objects")
    return shape, "F" if fortran else "C", dtype


def _start(path: Path, info: zipfile.ZipInfo) -> int:
    """The offset of a member's data in its archive, behind its local header of variable length."""
    with path.open("rb") as file:
        file.seek(info.header_offset)
        name, extra = struct.unpack("<2H", file.read(_LOCAL)[-4:])
    return info.header_offset + _LOCAL + name + extra


def _fill(array: np.ndarray, file: Any) -> None:
    """Decompress chunk by chunk, in memory order."""
    flat = array.reshape(-1, order="A").view(np.uint8)
    done = 0
    while piece := file.read(PIECE):
        flat[done : done + len(piece)] = np.frombuffer(piece, np.uint8)
        done += len(piece)
