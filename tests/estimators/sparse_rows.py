"""Rows of sparse latents, mixed by an affine map, and a first stage that undoes a bent one."""

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.decomposition import FastICA

ICA = FastICA(whiten="unit-variance", random_state=0, max_iter=1000, tol=1e-6)


def sparse_latents(n=3, rows=3000, seed=0):
    """Gaussian latents of which one is silenced in every row, with unequal spreads."""
    random = np.random.default_rng(seed)
    silent = np.arange(n) == random.integers(n, size=rows)[:, None]
    return random.normal(size=(rows, n)) * (1 + np.arange(n)) * ~silent


def affine_world(seed=0, **settings):
    z = sparse_latents(seed=seed, **settings)
    n = z.shape[1]
    return z, z @ np.random.default_rng(seed + 1).normal(size=(n, n)).T + 3


class Unbent(TransformerMixin, BaseEstimator):
    """A stage 1 that knows the mixing ``x = max(h, 0.3 h)``, ``h = A z``; ``wrong`` shifts what it rebuilds."""

    def __init__(self, wrong=0.0):
        self.wrong = wrong

    def fit(self, x, y=None):
        self.rows_ = len(x)
        return self

    def transform(self, x):
        return np.where(x > 0, x, x / 0.3)

    def inverse_transform(self, z):
        return np.where(z > 0, z, 0.3 * z) + self.wrong
