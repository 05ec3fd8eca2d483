"""Factors and latents for MIG and SAP, and the forms of both."""

from __future__ import annotations

import numpy as np
import pytest

from noumena.metrics.gaps import mig, sap

METRICS = [
    pytest.param(lambda *a, **s: mig(*a, **s), id="mig"),
    pytest.param(lambda *a, **s: mig(*a, estimator="bins", **s), id="mig by bins"),
    pytest.param(lambda *a, **s: sap(*a, **s), id="sap"),
]
KINDS = pytest.mark.parametrize("discrete", [True, False], ids=["discrete", "continuous"])
every = pytest.mark.parametrize("metric", METRICS)


def noise(*shape: int, seed: int = 1) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape)


def truth(discrete: bool, n: int = 600, seed: int = 0) -> np.ndarray:
    """Three factors: with 2, 2 and 3 values, or with numbers."""
    rng = np.random.default_rng(seed)
    return np.stack([rng.integers(0, k, n) for k in (2, 2, 3)], axis=1) * 1.0 if discrete else rng.normal(size=(n, 3))


def mixed(n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Two discrete factors and a continuous one, and four latents that know some of them."""
    rng = np.random.default_rng(seed)
    z = np.c_[rng.integers(0, 3, n), rng.integers(0, 5, n), rng.normal(size=n)]
    return z, z @ rng.normal(size=(3, 4)) + rng.normal(size=(n, 4))
