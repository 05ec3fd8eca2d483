"""Decoders of separate slots, Jacobians of given supports, and how their mechanisms are read."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from noumena.guarantees.mechanisms import Mechanisms, mechanisms

PAIRS = ((0, 1), (2, 3))
ROWS = 10


def box(n: int, *, rows: int = 24, seed: int = 0) -> Tensor:
    return 2 * torch.rand(rows, n, generator=torch.Generator().manual_seed(seed), dtype=torch.float64) - 1


def normal(*shape: int, seed: int) -> Tensor:
    return torch.as_tensor(np.random.default_rng(seed).normal(size=shape))


def smooth_block(z: Tensor, *, seed: int, rows: int = ROWS) -> Tensor:
    """A generic smooth function of all given latents."""
    hidden = torch.tanh(z @ normal(z.shape[1], 16, seed=seed) + normal(16, seed=seed + 1))
    return hidden @ normal(16, rows, seed=seed + 2)


def pair_decoder(*, overlap: int = 0, first: Callable[[Tensor], Tensor] | None = None) -> Callable[[Tensor], Tensor]:
    """Two blocks of two latents with ten observations each, the last of the one added to the first of the other."""

    def decode(z: Tensor) -> Tensor:
        one = smooth_block(z[:, :2], seed=1) if first is None else first(z[:, :2])
        two = smooth_block(z[:, 2:], seed=5)
        pad = torch.nn.functional.pad
        return pad(one, (0, two.shape[1] - overlap)) + pad(two, (one.shape[1] - overlap, 0))

    return decode


def columns(*rows: Callable[[Tensor], Tensor]) -> Callable[[Tensor], Tensor]:
    """A decoder from one function of all latents (given as columns) per observation."""
    return lambda z: torch.stack([row(z.T) for row in rows], dim=1)


SCALARS = columns(
    lambda z: z[0],
    lambda z: z[0] ** 2,
    lambda z: torch.exp(z[0]),
    lambda z: z[1],
    lambda z: z[1] ** 2,
    lambda z: torch.exp(z[1]),
)
"""Two latents, three observations each: Type D, and curved to the third order."""


def jacobians(support: Any, *, points: int = 8, seed: int = 0) -> np.ndarray:
    present = np.asarray(support, dtype=float)
    return present * np.random.default_rng(seed).normal(size=(points, *present.shape))


def read(subject: Any, **options: Any) -> Mechanisms:
    if callable(subject):
        options = {"at": box(4), "blocks": PAIRS, **options}
    return mechanisms(subject, **{"region": "box", **options})


@pytest.fixture(scope="module")
def good() -> Mechanisms:
    return read(pair_decoder(), order=3)


TWO = {"at": box(2), "blocks": [(0,), (1,)]}


def hypothesis(found: Mechanisms, theorem: str, name: str) -> Any:
    return next(h for h in found.theorem(theorem).hypotheses if h.name == name)
