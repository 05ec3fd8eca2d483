"""Factors and latents for modularity and explicitness."""

from __future__ import annotations

import numpy as np
import pytest

KINDS = pytest.mark.parametrize("discrete", [True, False], ids=["discrete", "continuous"])


def noise(*shape: int, seed: int = 1) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape)


def truth(discrete: bool, n: int = 600, seed: int = 0) -> np.ndarray:
    """Three factors: with 2, 4 and 6 values, or with numbers."""
    rng = np.random.default_rng(seed)
    return np.stack([rng.integers(0, k, n) for k in (2, 4, 6)], axis=1) * 1.0 if discrete else rng.normal(size=(n, 3))


def mixed(n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Two discrete factors and a continuous one, and four latents that know some of them."""
    rng = np.random.default_rng(seed)
    z = np.c_[rng.integers(0, 2, n), rng.integers(0, 4, n), rng.normal(size=n)]
    return z, z @ rng.normal(size=(3, 4)) + rng.normal(size=(n, 4))
