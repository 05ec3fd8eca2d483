"""A diffusion model small enough to be trained in a test, and pictures of two factors."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from noumena.estimators.images.enc_diff import DiffusionObjective, EncDiff
from noumena.estimators.images.unet import UNet
from noumena.estimators.images.vector_quantised import VectorQuantised
from noumena.estimators.loop import Training
from noumena.nets.residual import ResidualEncoder

PLAN = Training(steps=3, batch_size=8, learning_rate=1e-3, average=0.5)
TINY: dict[str, Any] = {
    "autoencoder": VectorQuantised(1, 16, widths=(4, 4), blocks=1, depth=2, codes=8),
    "encoder": ResidualEncoder(1, 16, widths=(4, 4), blocks=1),
    "unet": UNet(2, 4, widths=(4, 8), heads=2, context=4),
    "first": Training(steps=3, batch_size=8, learning_rate=1e-3),
    "sampling": 3,
    "training": PLAN,
    "random_state": 0,
}


def pictures(rows: int = 30, side: int = 16, seed: int = 0) -> np.ndarray:
    """Grey pictures of two factors: how bright the left and the upper part are."""
    u = np.random.default_rng(seed).random((rows, 2))
    x = np.zeros((rows, side, side))
    x[:, :, : side // 2] += u[:, 0, None, None]
    x[:, : side // 2] += u[:, 1, None, None]
    return (x / 2).reshape(rows, -1).astype(np.float32)


def built(model: EncDiff | None = None, seed: int = 0, n_observed: int = 256) -> DiffusionObjective:
    model = EncDiff(3, **TINY) if model is None else model
    objective: Any = model._model(seed, n_observed, torch.zeros(n_observed), torch.ones(n_observed))
    return objective


def drawn(objective: DiffusionObjective, rows: int, seed: int = 0) -> dict[str, Tensor]:
    return objective.draws(rows, torch.Generator().manual_seed(seed))


def batch(rows: int = 6) -> Tensor:
    return torch.as_tensor(pictures(rows))
