"""A module as a user would write it, and a short fit of it."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

import noumena as nm
from noumena.estimators.penalised import Penalised, fit_penalised

ROWS = torch.randn(40, 6, generator=torch.Generator().manual_seed(0))
QUICK = nm.Training(steps=4, batch_size=16)
PENALTY = 0.1 * nm.DependencySparsity("l1")


class Theirs(nn.Module):
    def __init__(self, *, seed: int = 0, layer: nn.Module | None = None):
        super().__init__()
        torch.manual_seed(seed)
        self.inner = nn.Sequential(nn.Linear(6, 8), layer or nn.Tanh(), nn.Linear(8, 2))
        self.outer = nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, 6))

    def encode(self, x: Tensor) -> Any:
        return self.inner(x)

    def decode(self, z: Tensor) -> Any:
        return self.outer(z)

    def loss(self, x: Tensor) -> Tensor:
        return 2 * (self.decode(self.encode(x)) - x).square().sum(dim=1).mean()


def fitted(module: Any, rows: Any = ROWS, **settings: Any) -> Penalised:
    return fit_penalised(module, rows, **({"penalty": PENALTY, "training": QUICK, "random_state": 0} | settings))
