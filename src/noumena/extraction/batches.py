"""Batches: arrays, named arrays, texts and data loaders of any kind as batches for a module."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import length_hint
from typing import Any

import numpy as np
import torch
from torch import Tensor

from noumena import checks

MASK = "attention_mask"


@dataclass(frozen=True)
class Batch:
    """Arguments of one forward pass, positional and named."""

    placed: tuple[Any, ...]
    named: dict[str, Any]

    @property
    def tensors(self) -> list[Tensor]:
        """The arguments that are tensors."""
        return [entry for entry in (*self.placed, *self.named.values()) if isinstance(entry, Tensor)]

    @property
    def rows(self) -> int:
        """How many rows the first tensor has."""
        return len(self.tensors[0])

    @property
    def mask(self) -> Tensor | None:
        """The attention mask, if the batch has one."""
        mask = self.named.get(MASK)
        return None if mask is None else mask.bool()

    def to(self, place: torch.device, dtype: torch.dtype) -> Batch:
        """The batch on a device, floating-point tensors in the given precision."""

        def moved(entry: Any) -> Any:
            if not isinstance(entry, Tensor):
                return entry
            return entry.to(place, dtype) if entry.is_floating_point() else entry.to(place)

        return Batch(tuple(map(moved, self.placed)), {name: moved(entry) for name, entry in self.named.items()})

    def fed_to(self, model: Callable[..., Any], **further: Any) -> Any:
        """What the model gives."""
        return model(*self.placed, **self.named, **further)


@dataclass(frozen=True)
class Batches:
    """Batches of some data, read anew each time; ``once`` marks what can be read a single time only."""

    read: Callable[[], Iterator[Batch]]
    total: int | None
    """How many batches there are, if that is known beforehand."""
    once: bool = False


def batches_of(data: Any, size: int, tokenizer: Callable[..., Any] | None = None) -> Batches:
    """Batches of rows (an array, a tensor, named arrays, a data frame, texts with their tokenizer), or those of an
    iterable: of a tuple or list the first entry, of a mapping the entries by their names."""
    data = data.to_numpy() if hasattr(data, "to_numpy") else data
    data = data.tolist() if _holds_texts(data) else data
    if isinstance(data, np.ndarray | Tensor):
        return _slices(data, size, lambda part: Batch((_tensor(part),), {}))
    if isinstance(data, Mapping):
        return _slices_of_named(dict(data), size)
    must = "data must be an array of rows, a mapping of arrays, texts, or an iterable of batches."
    checks.require(isinstance(data, Iterable) and not isinstance(data, str | bytes), must, f"a {type(data).__name__}")
    if isinstance(data, Sequence) and len(data) and all(isinstance(text, str) for text in data):
        checks.require(tokenizer is not None, "Texts must come with the model's tokenizer.", "tokenizer=None")
        return _slices(data, size, lambda part: _tokenised(part, tokenizer))
    return Batches(lambda: map(_batch, data), length_hint(data) or None, once=isinstance(data, Iterator))


def _slices(data: Any, size: int, batch: Callable[[Any], Batch]) -> Batches:
    checks.require(getattr(data, "ndim", 1) > 0 and len(data) > 0, "data must hold a row.", "none")
    starts = range(0, len(data), size)
    return Batches(lambda: (batch(data[start : start + size]) for start in starts), len(starts))


def _slices_of_named(data: dict[str, Any], size: int) -> Batches:
    lengths = {name: len(column) for name, column in data.items()}
    checks.require(len(set(lengths.values())) == 1, "Named arrays must share their batch axis.", f"lengths {lengths}")
    rows = np.arange(next(iter(lengths.values())))

    def batch(part: np.ndarray) -> Batch:
        return Batch((), {name: _tensor(column[part[0] : part[-1] + 1]) for name, column in data.items()})

    return _slices(rows, size, batch)


def _batch(entry: Any) -> Batch:
    """A batch of an iterable."""
    if isinstance(entry, Mapping):
        batch = Batch((), {name: _tensor(value) if _arraylike(value) else value for name, value in entry.items()})
        checks.require(bool(batch.tensors), "A batch must hold a tensor.", f"entries {', '.join(batch.named)}")
        return batch
    first: Any = entry[0] if isinstance(entry, tuple | list) and len(entry) else entry
    must = "A batch must be an array, a tuple that begins with one, or a mapping."
    checks.require(_arraylike(first) and first.ndim > 0, must, f"a {type(first).__name__}")
    return Batch((_tensor(first),), {})


def _tokenised(texts: Sequence[str], tokenizer: Any) -> Batch:
    return _batch(tokenizer(list(texts), padding=True, truncation=True, return_tensors="pt"))


def _holds_texts(data: Any) -> bool:
    """Whether data are an array of texts, one a row.

    >>> _holds_texts(np.array(["a", "bb"])), _holds_texts(np.array([["a"]])), _holds_texts(np.array(["a", 1], object))
    (True, False, False)
    """
    row = isinstance(data, np.ndarray) and data.ndim == 1 and data.dtype.kind in "UTO"
    return row and len(data) > 0 and all(isinstance(text, str) for text in data)


def _arraylike(value: Any) -> bool:
    return isinstance(value, np.ndarray | Tensor)


def _tensor(array: Any) -> Tensor:
    """A tensor copied from any array, such as a memory map."""
    if isinstance(array, Tensor):
        return array
    array = np.array(array)
    checks.require(array.dtype.kind in "fiub", "data must hold numbers.", f"dtype {array.dtype}")
    return torch.as_tensor(array)
