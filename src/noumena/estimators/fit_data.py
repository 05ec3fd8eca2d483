"""What a fit is shown: rows to train on and rows held out, standardised, ``(x − mean) / scale``.

Mean and scale are taken in float64. Numbers in memory are held standardised; bytes, images and rows on disk are
standardised as they are read, by whole numbers, slices or tables of whole numbers.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from noumena import checks, seeds
from noumena.estimators import sources
from noumena.estimators.sources import Places, Source, stretches

FAR = 1e3
"""Spreads from zero, beyond which float32 has too few digits left for the rows."""
ORDERS = 15
"""Orders of magnitude of a unit, either way, beyond which its square leaves float32."""
NARROWEST, WIDEST = 1e-100, 1e100
"""Spreads of a column that float64 can work with."""


@dataclass(frozen=True)
class Standardised:
    """Rows of a source, or those at ``places`` of it, that are read when asked for and come out standardised, beside
    ``like``; the arithmetic is that of ``mean`` and ``scale``.

    >>> stored = sources.Bytes(torch.tensor([[0, 255], [51, 102]], dtype=torch.uint8))
    >>> rows = Standardised(stored, torch.zeros(2), torch.full((2,), 255.0), like=torch.zeros(0))
    >>> rows[torch.tensor([[1], [0]])]
    tensor([[[0.2000, 0.4000]],
    <BLANKLINE>
            [[0.0000, 1.0000]]])
    """

    source: Source
    mean: Tensor
    scale: Tensor
    like: Tensor
    places: np.ndarray | None = None

    def __len__(self) -> int:
        return len(self.source) if self.places is None else len(self.places)

    def __getitem__(self, index: Any) -> Tensor:
        if self.places is not None:
            index = self.places[index.cpu().numpy() if isinstance(index, Tensor) else index]
        return (self.source.tensor(index, self.mean) - self.mean).div_(self.scale).to(self.like)


@dataclass(frozen=True)
class FitData:
    """Rows to train on, rows held out, a fingerprint of settings and data, one of the data alone."""

    train: Any
    held_out: Any
    fingerprint: str
    data: str = ""

    def marked(self, *facts: Any) -> FitData:
        """The same rows with a fingerprint of these facts and the data, for a stage that several fits may share."""
        described = [getattr(fact, "__qualname__", repr(fact)) for fact in facts]
        return replace(self, fingerprint=hashlib.sha256(f"{described} {self.data}".encode()).hexdigest())

    @property
    def width(self) -> int:
        """Numbers in a row."""
        return self.train.shape[1] if isinstance(self.train, Tensor) else self.train.source.width

    @property
    def in_bytes(self) -> bool:
        """Whether rows are images or other bytes, often wide, that are made numbers as they are read."""
        return isinstance(self.held_out, Standardised) and self.held_out.source.dtype is None

    @property
    def train_at_once(self) -> Tensor:
        """All rows to train on where they are held as numbers, else as many as may be read at once."""
        if isinstance(self.train, Tensor):
            return self.train
        return self.train[: max(1, sources.AT_ONCE // self.train.source.width)]


def split(
    source: Source, held_out: float, *, standardise: bool, beside: np.ndarray | None, like: Tensor
) -> tuple[FitData, np.ndarray, np.ndarray]:
    """Rows to train on and a share held out, beside ``like``, and their mean and scale: zero and a unit where they are
    not to be standardised. Columns ``beside`` them stay as they are, and bring all rows into memory. The split depends
    on the number of rows only, so that all seeds share it."""
    n = len(source)
    order = torch.randperm(n, generator=seeds.generator(0, "held-out rows", n))
    n_held = min(n - 1, max(1, round(held_out * n))) if held_out > 0 else 0
    parts = order[n_held:].numpy(), (order[:n_held] if n_held else order).numpy()
    if standardise:
        mean, spread = moments(source, parts[0])
        check_spread(spread)
        scale = np.where(spread > 0, spread, 1.0)
    else:
        mean, scale = np.zeros(source.width), np.full(source.width, source.unit if beside is None else 1.0)
    data = source.digest(beside)
    if beside is None:
        train, test = (standardised(source, places, mean, scale, like) for places in parts)
        return FitData(train, test, "", data), mean, scale
    rows = (in_memory(source, places, mean, scale, like.dtype) for places in parts)
    columns = (torch.as_tensor(beside[places]).to(like.dtype) for places in parts)
    train, test = (torch.cat(both, dim=1).to(like.device) for both in zip(rows, columns, strict=True))
    return FitData(train, test, "", data), mean, scale


def standardised(
    source: Source, places: np.ndarray, mean: np.ndarray, scale: np.ndarray, like: Tensor
) -> Tensor | Standardised:
    """Rows at some places: standardised numbers beside ``like``, or what reads and standardises them batch by batch."""
    if not source.stays:
        return in_memory(source, places, mean, scale, like.dtype).to(like.device)
    exact, unit = torch.as_tensor(mean), torch.as_tensor(scale)
    if source.dtype is not None:
        return Standardised(source, exact, unit, like, places)
    exact, unit = exact.to(like.device, like.dtype), unit.to(like.device, like.dtype)  # which holds bytes exactly
    source, left = source.brought(places, like.device)
    return Standardised(source, exact, unit, like, left)


def in_memory(source: Source, places: np.ndarray, mean: np.ndarray, scale: np.ndarray, dtype: torch.dtype) -> Tensor:
    """Rows at some places, standardised in float64 and only then shortened, a stretch of them at a time.

    >>> table = sources.Numbers(np.array([[1e8], [1e8 + 1]]))
    >>> in_memory(table, np.array([1, 0]), np.array([1e8]), np.array([0.5]), torch.float32)
    tensor([[2.],
            [0.]])
    """
    rows = torch.empty(len(places), source.width, dtype=dtype)
    for part in stretches(len(places), source.width, sources.ON_DISK_AT_ONCE):
        rows[part] = torch.as_tensor((_array(source, places[part]) - mean) / scale)
        lost = np.flatnonzero(~rows[part].isfinite().all(dim=0).numpy())
        name = str(dtype).removeprefix("torch.")
        must = f"x must hold numbers that {name} holds; change their unit, or set standardise=True."
        checks.require(lost.size == 0, must, f"column {lost[0]} with larger ones" if lost.size else "")
    return rows


def moments(source: Source, places: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean and standard deviation (divisor n) of the columns of rows at some places, a stretch of them at a time; where
    float64 cannot hold its square, the widest difference stands for the deviation.

    >>> moments(sources.Bytes(np.array([[0, 7], [9, 9], [2, 7]], dtype=np.uint8)), np.array([2, 0]))
    (array([1., 7.]), array([1., 0.]))
    """
    places = np.sort(places)  # a disk is read forwards
    origin = _array(source, places[:1])[0].astype(np.float64)  # so that no digits are lost far from zero
    total, squares, widest = np.zeros_like(origin), np.zeros_like(origin), np.zeros_like(origin)
    with np.errstate(over="ignore", invalid="ignore"):
        for part in stretches(len(places), source.width, sources.ON_DISK_AT_ONCE):
            moved = _array(source, places[part]) - origin
            total, squares = total + moved.sum(axis=0), squares + np.square(moved).sum(axis=0)
            widest = np.maximum(widest, np.abs(moved).max(axis=0))
        mean = total / len(places)
        spread = np.sqrt(np.maximum(squares / len(places) - mean**2, 0))
    return origin + mean, np.where(np.isfinite(spread) & ((spread > 0) | (widest == 0)), spread, widest)


def _array(source: Source, places: Places) -> np.ndarray:
    rows = source.read(places)
    return rows.cpu().numpy() if isinstance(rows, Tensor) else rows


def check_spread(spread: np.ndarray) -> None:
    """Refuse columns whose spread or its square float64 cannot hold."""
    wild = np.flatnonzero(~(spread <= WIDEST) | ((spread > 0) & (spread < NARROWEST)))
    must = f"Columns of x must have a spread between {NARROWEST:g} and {WIDEST:g}; change its unit."
    checks.require(
        wild.size == 0, must, f"column {wild[0]} with a spread of {spread[wild[0]]:.3g}" if wild.size else ""
    )


def far(mean: np.ndarray, scale: np.ndarray) -> bool:
    """Whether float32 would lose rows in these units: far from zero for their spread, or near the ends of its range.

    >>> far(np.array([5.0]), np.array([1.0])), far(np.array([1e6]), np.array([1.0]))
    (False, True)
    """
    return bool((np.abs(mean) > FAR * scale).any() or (np.abs(np.log10(scale)) > ORDERS).any())
