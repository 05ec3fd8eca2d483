"""Rows of laws whose components are known to be independent, Gaussian, separable, or not."""

from math import sqrt

import numpy as np

N = 4000


def draw(law, n=N, d=2, seed=0):
    """Rows of a law of unit variances."""
    rng = np.random.default_rng(seed)
    if law == "disc":
        z = rng.normal(size=(n, d))
        return 2 * z / np.linalg.norm(z, axis=1, keepdims=True) * rng.uniform(size=(n, 1)) ** (1 / d)
    if law == "common scale":
        return rng.laplace(size=(n, d)) * np.exp(0.7 * rng.normal(size=(n, 1)))
    if law == "one gaussian":
        return np.c_[rng.normal(size=n), rng.uniform(-1.7, 1.7, size=(n, d - 1))]
    if law == "mixed":
        return np.c_[rng.laplace(size=n) / sqrt(2), rng.uniform(-sqrt(3), sqrt(3), size=(n, d - 1))]
    return {
        "gaussian": lambda: rng.normal(size=(n, d)),
        "laplace": lambda: rng.laplace(size=(n, d)) / sqrt(2),
        "uniform": lambda: rng.uniform(-sqrt(3), sqrt(3), size=(n, d)),
    }[law]()
