"""Modes: a module in evaluation mode for as long as it is looked at."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from torch import nn


@contextmanager
def settled(module: Any, *, wanted: bool = True) -> Iterator[None]:
    """Evaluation mode for a block, where it is wanted; every layer's own mode comes back after.

    >>> layer = nn.Dropout()
    >>> with settled(layer):
    ...     print(layer.training)
    False
    >>> layer.training
    True
    """
    modes = [(layer, layer.training) for layer in module.modules()] if wanted and isinstance(module, nn.Module) else []
    for layer, _ in modes:
        layer.training = False
    try:
        yield
    finally:
        for layer, mode in modes:
            layer.training = mode
