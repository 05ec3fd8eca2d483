"""Discrete factors, noise, and the three numbers of InfoMEC."""

import numpy as np

from noumena.metrics.information import InfoMEC

SIZES = (3, 4, 6)


def factors(n: int = 1200, sizes: tuple[int, ...] = SIZES, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return np.stack([rng.integers(0, size, n) for size in sizes], axis=1)


def noise(*shape: int, seed: int = 1) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape)


def triple(found: InfoMEC) -> np.ndarray:
    return np.array([found.modularity, found.explicitness, found.compactness])
