"""Rows: what a fit is shown. A table of numbers on the device; bytes there, made numbers as they are asked for; or
pictures that are read or rendered, or rows of a table on disk that are read, when a batch is due.

A byte a pixel instead of four is what lets a data set of images stay on a GPU. Whatever they are, rows come out
standardised, ``(x − mean) / scale``, by whole numbers, slices or tables of whole numbers.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, replace
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
FAR = 1e3
"""Spreads from zero, beyond which float32 has too few digits left for the rows."""
ORDERS = 15
"""Orders of magnitude of a unit, either way, beyond which its square leaves float32."""
NARROWEST, WIDEST = 1e-100, 1e100
"""Spreads of a column that float64 can work with."""
SIGNED_BY = 16
"""Pictures that stand for all in a fingerprint."""


@runtime_checkable
class Pictures(Protocol):
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
class Rows:
    """Data for a fit: rows to train on, rows held out, a fingerprint of settings and data, one of the data alone."""

    train: Any
    held_out: Any
    fingerprint: str
    data: str = ""

    def marked(self, *facts: Any) -> Rows:
        """The same rows with a fingerprint of these facts and the data, for a stage that several fits may share."""
        described = [getattr(fact, "__qualname__", repr(fact)) for fact in facts]
        return replace(self, fingerprint=hashlib.sha256(f"{described} {self.data}".encode()).hexdigest())

    @property
    def whole(self) -> Tensor:
        """All rows to train on where they are numbers; as many as may be made at once where they are pictures."""
        if isinstance(self.train, Tensor):
            return self.train
        return self.train[: max(1, AT_ONCE // self.train.width)]


@torch.no_grad()
def explained(model: Any, x: Tensor) -> float:
    """The share of the variance of standardised rows, all columns together, that a model's reconstructions have, R²; 0
    where rows do not vary."""
    x = x.to(model.mean)
    seen = x[:, : len(model.mean)]  # labels may stand beside observations
    missed = seen - (model.decode(model.code(x)) - model.mean) / model.scale
    spread = (seen - seen.mean(dim=0)).square().sum()
    return float(1 - missed.square().sum() / spread) if spread > 0 else 0.0


@dataclass(frozen=True)
class Bytes:
    """Bytes, (row, column), that come out as standardised numbers beside ``mean``.

    >>> stored = torch.tensor([[0, 255], [51, 102]], dtype=torch.uint8)
    >>> Bytes(stored, torch.zeros(2), torch.full((2,), 255.0))[torch.tensor([[1], [0]])]
    tensor([[[0.2000, 0.4000]],
    <BLANKLINE>
            [[0.0000, 1.0000]]])
    """

    stored: Tensor
    mean: Tensor
    scale: Tensor

    def __len__(self) -> int:
        return len(self.stored)

    @property
    def width(self) -> int:
        """Numbers in a row."""
        return self.stored.shape[1]

    def __getitem__(self, index: Any) -> Tensor:
        return (self.stored[index].to(self.mean) - self.mean) / self.scale


@dataclass(frozen=True)
class Lazy:
    """Pictures of a source at ``places``, that come out as standardised numbers beside ``mean``."""

    source: Pictures
    places: np.ndarray
    mean: Tensor
    scale: Tensor

    def __len__(self) -> int:
        return len(self.places)

    @property
    def width(self) -> int:
        """Numbers in a row."""
        return prod(self.source.shape)

    def __getitem__(self, index: Any) -> Tensor:
        chosen = self.places[index.cpu().numpy() if isinstance(index, Tensor) else index]
        return self._numbers(self._read(chosen.ravel())).unflatten(0, chosen.shape)

    def _read(self, places: np.ndarray) -> Any:
        return self.source.pictures(places)

    def _numbers(self, found: Any) -> Tensor:
        return (as_tensor(found).to(self.mean.device).to(self.mean) - self.mean).div_(self.scale)


@dataclass(frozen=True)
class Mapped(Lazy):
    """Rows at ``places`` of a table of numbers that stays on disk; ``exact`` are mean and scale in float64, where
    ``mean`` would be too short for them.

    >>> x = np.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])
    >>> Mapped(x, np.array([2, 0]), torch.zeros(2), torch.full((2,), 2.0))[:1]
    tensor([[2.5000, 3.0000]])
    """

    source: Any  # not pictures, but an array
    exact: tuple[np.ndarray, np.ndarray] | None = None

    @property
    def width(self) -> int:
        """Numbers in a row."""
        return self.source.shape[1]

    def _read(self, places: np.ndarray) -> Any:
        return np.asarray(self.source[places])

    def _numbers(self, found: Any) -> Tensor:
        if self.exact is None:
            return super()._numbers(found)
        return torch.as_tensor((found - self.exact[0]) / self.exact[1]).to(self.mean)


def are_pictures(x: Any) -> bool:
    """Whether ``x`` gives pictures when asked, and is not a table.

    >>> are_pictures(np.ones((2, 2)))
    False
    """
    return isinstance(x, Pictures) and not hasattr(x, "dtype")


def bytes_of(x: Any) -> np.ndarray | None:
    """The table of bytes that ``x`` is, or ``None`` where it is anything else, or has no rows; a copy where it runs
    backwards.

    >>> bytes_of(torch.zeros(2, 3, dtype=torch.uint8)).dtype, bytes_of([[0, 1]])
    (dtype('uint8'), None)
    """
    array = x.detach().cpu().numpy() if isinstance(x, Tensor) and x.dtype == torch.uint8 else x
    if not (isinstance(array, np.ndarray) and array.dtype == np.uint8 and array.ndim == 2 and len(array) > 0):
        return None
    return np.ascontiguousarray(array) if min(array.strides) < 0 else array


def mapped_of(x: Any) -> np.ndarray | None:
    """The table of floats on disk that ``x`` is, a memory map of numpy's, or ``None`` where it is anything else.

    >>> mapped_of(np.ones((2, 2))) is None
    True
    """
    floats = isinstance(x, np.memmap) and x.dtype.name in ("float32", "float64") and x.dtype.isnative
    return x if floats and x.ndim == 2 and x.size > 0 else None


def as_tensor(found: Any) -> Tensor:
    """An array or tensor as a tensor; an array that runs backwards or may not be written to is copied, for torch
    refuses the one and warns of the other.

    >>> as_tensor(np.arange(3)[::-1]), as_tensor(np.broadcast_to(7, (2,)))
    (tensor([2, 1, 0]), tensor([7, 7]))
    """
    return torch.as_tensor(np.require(found, requirements=["C", "W"]) if isinstance(found, np.ndarray) else found)


def moments(x: Any, places: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean and standard deviation (divisor n) of the columns of rows at some places, a stretch of them at a time; where
    float64 cannot hold its square, the widest difference stands for the deviation.

    >>> moments(np.array([[0, 7], [9, 9], [2, 7]], dtype=np.uint8), np.array([2, 0]))
    (array([1., 7.]), array([1., 0.]))
    """
    places = np.sort(places)  # a disk is read forwards
    near = np.asarray(x[places[0]], dtype=np.float64)  # so that no digits are lost far from zero
    total, squares, widest = np.zeros_like(near), np.zeros_like(near), np.zeros_like(near)
    with np.errstate(over="ignore", invalid="ignore"):
        for some in stretches(len(places), x.shape[1], ON_DISK_AT_ONCE):
            part = x[places[some]] - near
            total, squares = total + part.sum(axis=0), squares + np.square(part).sum(axis=0)
            widest = np.maximum(widest, np.abs(part).max(axis=0))
        mean = total / len(places)
        spread = np.sqrt(np.maximum(squares / len(places) - mean**2, 0))
    return near + mean, np.where(np.isfinite(spread) & ((spread > 0) | (widest == 0)), spread, widest)


def check_spread(spread: np.ndarray) -> None:
    """Refuse columns whose spread or its square float64 cannot hold."""
    wild = np.flatnonzero(~(spread <= WIDEST) | ((spread > 0) & (spread < NARROWEST)))
    must = f"Columns of x must have a spread between {NARROWEST:g} and {WIDEST:g}; change its unit."
    checks.require(
        wild.size == 0, must, f"column {wild[0]} with a spread of {spread[wild[0]]:.3g}" if wild.size else ""
    )


def standardised(x: np.ndarray, places: np.ndarray, mean: np.ndarray, scale: np.ndarray, dtype: torch.dtype) -> Tensor:
    """Rows at some places, made standard in float64 and only then shortened, a stretch of them at a time.

    >>> standardised(np.array([[1e8], [1e8 + 1]]), np.array([1, 0]), np.array([1e8]), np.array([0.5]), torch.float32)
    tensor([[2.],
            [0.]])
    """
    found = torch.empty(len(places), x.shape[1], dtype=dtype)
    for some in stretches(len(places), x.shape[1], ON_DISK_AT_ONCE):
        found[some] = torch.as_tensor((x[places[some]] - mean) / scale)
        lost = np.flatnonzero(~found[some].isfinite().all(dim=0).numpy())
        name = str(dtype).removeprefix("torch.")
        must = f"x must hold numbers that {name} holds; change their unit, or set standardise=True."
        checks.require(lost.size == 0, must, f"column {lost[0]} with larger ones" if lost.size else "")
    return found


def far(mean: np.ndarray, scale: np.ndarray) -> bool:
    """Whether float32 would lose rows in these units: far from zero for their spread, or near the ends of its range.

    >>> far(np.array([5.0]), np.array([1.0])), far(np.array([1e6]), np.array([1.0]))
    (False, True)
    """
    return bool((np.abs(mean) > FAR * scale).any() or (np.abs(np.log10(scale)) > ORDERS).any())


def stretches(count: int, width: int, most: int = AT_ONCE) -> Iterator[slice]:
    """Rows that are dealt with at a time, of ``most`` numbers together.

    >>> [some.stop for some in stretches(5000, 2**14)]
    [2048, 4096, 5000]
    """
    step = max(1, most // width)
    return (slice(start, min(start + step, count)) for start in range(0, count, step))


def signature(source: Pictures) -> bytes:
    """What a fingerprint needs to know of pictures: how they describe themselves, and a few of them."""
    places = np.linspace(0, len(source) - 1, SIGNED_BY).astype(np.int64)
    some = as_tensor(source.pictures(places)).cpu().numpy()
    return hashlib.sha256(f"{source} {len(source)} {source.shape}".encode() + some.tobytes()).digest()


def digest(array: Any, beside: np.ndarray | None = None) -> str:
    """A fingerprint of observations and of what stands beside them; of pictures by a few of them.

    >>> digest(np.zeros((2, 1))) == digest(np.zeros((2, 1))), digest(np.zeros((2, 1))) == digest(np.zeros((1, 2)))
    (True, False)
    """
    found = hashlib.sha256(str(array.shape).encode())
    if are_pictures(array):
        found.update(signature(array))
    else:
        for some in stretches(len(array), max(1, array.shape[1]), ON_DISK_AT_ONCE):
            found.update(np.ascontiguousarray(array[some]).data)
    found.update(b"" if beside is None else np.ascontiguousarray(beside).data)
    return found.hexdigest()


def check_pictures(source: Pictures) -> None:
    """Refuse a source whose pictures are not flat rows of bytes."""
    width = prod(source.shape)
    some = as_tensor(source.pictures(np.arange(min(2, len(source)))))
    fits = some.dtype == torch.uint8 and some.ndim == 2 and some.shape[1] == width
    checks.require(
        len(source) > 1 and fits,
        f"Pictures must be two rows or more of {width} bytes.",
        f"{some.dtype} {tuple(some.shape)}",
    )


def left(array: Any, places: np.ndarray, mean: Tensor, scale: Tensor, exact: Any) -> Bytes | Lazy:
    """Bytes at some places, beside ``mean``; pictures and rows on disk are left where they are."""
    if are_pictures(array):
        return Lazy(array, places, mean, scale)
    if mapped_of(array) is not None:
        return Mapped(array, places, mean, scale, exact)
    return Bytes(torch.as_tensor(array[places], device=mean.device), mean, scale)


def floats(rows: Any, some: slice, like: Tensor) -> Tensor:
    """Some rows as numbers beside ``like`` and in its precision."""
    if are_pictures(rows):
        return torch.as_tensor(rows.pictures(np.arange(some.start, some.stop)), device=like.device).to(like)
    return (as_tensor(rows[some]) if isinstance(rows, np.ndarray) else rows[some]).to(like)
