"""Sources: where the rows of a fit or of ``transform`` come from, and how they are read.

Numbers in memory (arrays, frames, tensors); a table of bytes, such as flat images, a byte a pixel instead of four,
which lets a data set of images stay on a GPU; a memory map, which stays on disk; images that are read or rendered when
a batch is due. ``source_of`` is the only place that looks at types. A Dask array is read into memory, and an iterator
of batches is refused, for a fit reads rows by their places and more than once; ICA reads both file and Dask array
block by block (``estimators.ica.streams``).
"""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from math import prod
from typing import Any, Protocol, runtime_checkable

import numpy as np
import torch
from torch import Tensor

from noumena import checks

AT_ONCE = 2**25
"""Numbers that are made of bytes, or sent through a network after a fit, at a time."""
PIXEL = 255.0
"""The unit of bytes that are not standardised."""
ON_DISK_AT_ONCE = 2**22
"""Numbers of a table on disk that are read at a time, to take its moments and its fingerprint."""
SIGNED_BY = 16
"""Images that stand for all in a fingerprint."""
Places = slice | np.ndarray | Tensor


class Source(ABC):
    """Rows of observations that are read by their places."""

    unit = 1.0
    """What observations are divided by where they are not standardised."""
    stays = False
    """Whether a fit reads the rows of a batch where they are, instead of holding all of them as numbers."""
    dtype: torch.dtype | None = None
    """The precision of the rows, which results are given in; ``None`` of bytes."""
    device: torch.device | None = None
    """Where results are wanted as a tensor; ``None`` where they are wanted as an array."""

    @abstractmethod
    def __len__(self) -> int: ...

    @property
    @abstractmethod
    def width(self) -> int:
        """Observations in a row."""

    @abstractmethod
    def read(self, places: Places) -> np.ndarray | Tensor:
        """Rows at some places, numbers or bytes, with the axes of the places before their own."""

    @abstractmethod
    def _identity(self) -> Iterator[Any]:
        """Buffers of bytes that tell these rows from others."""

    def limits(self) -> tuple[float, float]:
        """The least and the largest observation that there may be; of bytes in units of 255."""
        return 0.0, 1.0

    def digest(self, beside: np.ndarray | None = None) -> str:
        """A fingerprint of the rows and of what stands beside them.

        >>> one, other = Numbers(np.zeros((2, 1))), Numbers(np.zeros((1, 2)))
        >>> one.digest() == one.digest(), one.digest() == other.digest()
        (True, False)
        """
        sha = hashlib.sha256()
        for buffer in self._identity():
            sha.update(buffer)
        sha.update(b"" if beside is None else np.ascontiguousarray(beside).data)
        return sha.hexdigest()

    def tensor(self, places: Places, like: Tensor) -> Tensor:
        """Rows at some places as numbers beside ``like`` and in its precision."""
        return as_tensor(self.read(places)).to(like.device).to(like.dtype)

    def brought(self, places: np.ndarray, device: torch.device) -> tuple[Source, np.ndarray | None]:
        """What a fit on that device reads the rows at some places from, and at which places of it (``None``: all)."""
        return self, places

    def as_given(self, result: Tensor) -> Any:
        """A result in the kind and precision of the rows."""
        result = result if self.dtype is None else result.to(self.dtype)
        return result.cpu().numpy() if self.device is None else result.to(self.device)


@dataclass(frozen=True)
class Numbers(Source):
    """Numbers in memory: an array, or a tensor on its device."""

    rows: np.ndarray | Tensor
    device: torch.device | None = None

    @property
    def dtype(self) -> torch.dtype | None:  # pyright: ignore[reportIncompatibleVariableOverride]
        """The precision of the rows."""
        return as_tensor(self.rows[:0]).dtype

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def width(self) -> int:
        """Columns of the table."""
        return self.rows.shape[1]

    def read(self, places: Places) -> np.ndarray | Tensor:
        """Rows at some places."""
        rows: Any = self.rows
        return rows[places] if isinstance(rows, Tensor) else np.asarray(rows[places])

    def _identity(self) -> Iterator[Any]:
        yield str(tuple(self.rows.shape)).encode()
        for part in stretches(len(self), max(1, self.width), ON_DISK_AT_ONCE):
            yield np.ascontiguousarray(self.read(part)).data

    def limits(self) -> tuple[float, float]:
        """The least and the largest number, or those that bytes may be in units of 255."""
        return super().limits() if self.dtype is None else (float(self.rows.min()), float(self.rows.max()))


@dataclass(frozen=True)
class OnDisk(Numbers):
    """A memory map of floats, of which only the rows of a batch are ever held."""

    stays = True


@dataclass(frozen=True)
class Bytes(Numbers):
    """A table of bytes, which stays in bytes on the device.

    >>> Bytes(torch.tensor([[0, 7]], dtype=torch.uint8)).limits()
    (0.0, 1.0)
    """

    unit = PIXEL
    stays = True
    dtype = None  # pyright: ignore[reportAssignmentType]

    def brought(self, places: np.ndarray, device: torch.device) -> tuple[Source, np.ndarray | None]:
        """The bytes themselves, on the device."""
        return Bytes(torch.as_tensor(self.rows[places], device=device)), None


@runtime_checkable
class ImageReader(Protocol):
    """Images that are read or rendered when asked for: how many, their shape, and those at some places as bytes."""

    @property
    def shape(self) -> tuple[int, int, int]:
        """Channels, height and width of every image."""
        ...

    def __len__(self) -> int: ...

    def pictures(self, index: Any) -> Any:
        """Flat images as bytes, (batch, channel · height · width), an array or a tensor."""
        ...


@dataclass(frozen=True)
class ImageRows(Source):
    """Flat images in bytes that are read or rendered when they are asked for."""

    images: ImageReader
    unit = PIXEL
    stays = True

    def __len__(self) -> int:
        return len(self.images)

    @property
    def width(self) -> int:
        """Pixels of an image, in all its channels."""
        return prod(self.images.shape)

    def read(self, places: Places) -> np.ndarray | Tensor:
        """Images at some places."""
        chosen = np.arange(len(self))[places] if isinstance(places, slice) else np.asarray(places)
        return as_tensor(self.images.pictures(chosen.ravel())).unflatten(0, chosen.shape)

    def _identity(self) -> Iterator[Any]:  # how images describe themselves, and a few of them
        yield str(self.images.shape).encode()
        rows = as_tensor(self.read(np.linspace(0, len(self) - 1, SIGNED_BY).astype(np.int64))).cpu().numpy()
        described = f"{self.images} {len(self)} {self.images.shape}".encode()
        yield hashlib.sha256(described + rows.tobytes()).digest()


def source_of(x: Any, name: str = "x", *, to_fit: bool = False, standardise: bool = False) -> Source:
    """The rows of ``x``, checked; ``to_fit`` asks for two rows or more, and for columns that vary where a fit is to
    ``standardise`` them, and brings a tensor of numbers to the processor.

    >>> source_of(torch.zeros(2, 3, dtype=torch.uint8)).unit, source_of([[0, 1]]).dtype
    (255.0, torch.float64)
    """
    if isinstance(x, ImageReader) and not hasattr(x, "dtype"):
        return _images(x, standardise=standardise)
    device = x.device if isinstance(x, Tensor) else None
    table: Any = x.detach().cpu().numpy() if isinstance(x, Tensor) and x.dtype == torch.uint8 else x
    kind = (table.dtype.name, table.ndim, table.dtype.isnative) if isinstance(table, np.ndarray) else None
    if kind == ("uint8", 2, True) and len(table) >= (2 if to_fit else 1):
        constant = np.flatnonzero(np.ptp(table, axis=0) == 0) if standardise else np.empty(0)
        given = f"constant columns {checks.listed(constant)}"
        checks.require(constant.size == 0, f"{name} must vary in every column.", given)
        return Bytes(np.ascontiguousarray(table) if min(table.strides) < 0 else table, device)
    asked: Any = {"min_rows": 2, "varying": standardise} if to_fit else {}
    if isinstance(x, np.memmap) and kind in (("float32", 2, True), ("float64", 2, True)) and x.size > 0:
        return OnDisk(checks.mapped(x, name, **asked))
    return Numbers(checks.table(x, name, **asked)) if to_fit else numbers_of(x, name)


def numbers_of(x: Any, name: str) -> Numbers:
    """A table of numbers, checked: an array or frame, or a tensor where it lies."""
    if not isinstance(x, Tensor):
        return Numbers(checks.table(x, name))
    checks.tensor(x, name)
    return Numbers(x.detach() if x.dtype == torch.float64 else x.detach().float(), x.device)


def _images(images: ImageReader, *, standardise: bool) -> ImageRows:
    """A source of images, unless they are not flat rows of bytes."""
    checks.require(not standardise, "Pictures must come with standardise=False.", "standardise=True")
    source = ImageRows(images)
    rows = as_tensor(images.pictures(np.arange(min(2, len(images)))))
    fits = rows.dtype == torch.uint8 and rows.ndim == 2 and rows.shape[1] == source.width
    must = f"Pictures must be two rows or more of {source.width} bytes."
    checks.require(len(images) > 1 and fits, must, f"{rows.dtype} {tuple(rows.shape)}")
    return source


def as_tensor(rows: Any) -> Tensor:
    """An array or tensor as a tensor; an array with negative strides or that is read-only is copied, for torch refuses
    the one and warns of the other.

    >>> as_tensor(np.arange(3)[::-1]), as_tensor(np.broadcast_to(7, (2,)))
    (tensor([2, 1, 0]), tensor([7, 7]))
    """
    return torch.as_tensor(np.require(rows, requirements=["C", "W"]) if isinstance(rows, np.ndarray) else rows)


def stretches(count: int, width: int, most: int | None = None) -> Iterator[slice]:
    """Rows that are dealt with at a time, of ``most`` numbers together.

    >>> [part.stop for part in stretches(5000, 2**14)]
    [2048, 4096, 5000]
    """
    step = max(1, (AT_ONCE if most is None else most) // width)
    return (slice(start, min(start + step, count)) for start in range(0, count, step))
