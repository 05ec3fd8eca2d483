"""A DisCo model small enough to be trained in a test."""

from __future__ import annotations

from typing import Any

import numpy as np

from noumena.estimators.images.disco import DisCo
from noumena.estimators.images.style_networks import StyleDiscriminator, StyleGenerator
from noumena.estimators.training import Training
from noumena.nets.conv import ConvEncoder

FIRST = Training(steps=2, batch_size=8, learning_rate=2e-3)
SECOND = Training(steps=3, batch_size=8, learning_rate=1e-2)
PARTS: dict[str, Any] = {
    "generator": StyleGenerator(1, 4, widths=(4,), style=5, depth=1),
    "discriminator": StyleDiscriminator(1, 4, widths=(4,)),
    "encoder": ConvEncoder(1, 4, widths=(4,), hidden=6, slope=0.2),
}


def model(**settings: Any) -> DisCo:
    given = {"noise": 4, "queries": 4, "generator_training": FIRST, "training": SECOND, "random_state": 0}
    return DisCo(settings.pop("n_latents", 3), **{**PARTS, **given, **settings})


def pictures(rows: int = 40) -> np.ndarray:
    return np.random.default_rng(0).random((rows, 16)).astype(np.float32)
