"""Unmixing: whitening in double precision, then the best of several ICA fits.

In single precision the smallest eigenvalue of an ill-conditioned covariance turns negative and everything becomes NaN.
Directions without variance are left out.

Reference: Nelson et al. (2026), Lemmata A.5 to A.8. Renamed: λ ``eigenvalue``, M ``radius``. scikit-learn's FastICA
(symmetric, contrast log cosh) finds the rotation.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from math import sqrt
from typing import Any, cast

import numpy as np
from jaxtyping import Float
from scipy.stats import ortho_group

from noumena import checks, seeds
from noumena.estimators.ica.rotation import matched

SINGULAR = 1e-10
"""A correlation matrix with a smaller eigenvalue has no full rank."""
SAME = 0.9
"""Components of two fits are the same when they correlate this much."""
LOG_COSH_OF_A_GAUSSIAN = 0.3745672
ITERATIONS, PRECISION = 500, 1e-6


def whitening_factor(eigenvalue: float, radius: float) -> float:
    """``λ^{-1/2} + M²·λ^{-3/2}``: how much whitening can enlarge the distance of two representations (Lemma A.5).

    >>> whitening_factor(4.0, 2.0)  # 1/2 + 4/8
    1.0
    """
    checks.require(eigenvalue > 0, "The smallest eigenvalue must be positive.", eigenvalue)
    return eigenvalue**-0.5 + radius**2 * eigenvalue**-1.5


def halves(rows: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Which rows are fitted and which are measured; a matter of their number and the seed only."""
    order = seeds.numpy_generator(seed, "halves", rows).permutation(rows)
    return np.sort(order[: rows // 2]), np.sort(order[rows // 2 :])


@dataclass(frozen=True)
class Unmixing:
    """Whitening followed by the best of several ICA fits: ``s = (z − mean) @ matrix.T``."""

    mean: Float[np.ndarray, " latent"]
    matrix: Float[np.ndarray, "component latent"]
    mixing: Float[np.ndarray, "latent component"]
    agreement: float
    """The smallest matched correlation between the components of the best fit and of another start."""
    tie: bool
    """Another start ended elsewhere, with a contrast that the rows cannot tell from the best."""
    converged: bool

    def __call__(self, z: Float[np.ndarray, "batch latent"]) -> Float[np.ndarray, "batch component"]:
        """The components of representations."""
        return (z - self.mean) @ self.matrix.T

    def restore(self, s: Float[np.ndarray, "batch component"]) -> Float[np.ndarray, "batch latent"]:
        """The representations that have these components."""
        return s @ self.mixing.T + self.mean


Rotation = Callable[[np.ndarray, int, int], tuple[np.ndarray, bool]]
"""From white rows, a seed and the number of the restart to a rotation, and whether it came to rest."""


def unmix(
    z: Float[np.ndarray, "batch latent"], *, restarts: int = 5, seed: int = 0, rotation: Rotation | None = None
) -> Unmixing:
    """Whiten in double precision, run ICA from several random rotations and keep the one with the largest contrast.

    ``rotation`` takes the place of scikit-learn's FastICA.
    """
    rotation = rotation or _ica
    z = z.astype(np.float64)
    mean, scale = z.mean(axis=0), np.where(z.std(axis=0) > 0, z.std(axis=0), 1)
    value, vector = np.linalg.eigh(covariance_of((z - mean) / scale))
    kept = value > SINGULAR
    whitening = (vector[:, kept] / np.sqrt(value[kept])).T / scale
    white = (z - mean) @ whitening.T
    fits = [rotation(white, seed, k) for k in range(restarts if white.shape[1] > 1 else 1)]
    gains = [_gain(white @ turn.T) for turn, _ in fits]
    best = int(np.argmax([gain.mean() for gain in gains]))
    agreements = np.array([matched(fits[best][0] @ turn.T) for turn, _ in fits])
    differences = [gains[best] - gain for gain in gains]
    tied = [d.mean() <= 2 * d.std() / sqrt(len(z)) for d in differences]
    return Unmixing(
        mean,
        fits[best][0] @ whitening,
        (scale[:, None] * (vector[:, kept] * np.sqrt(value[kept]))) @ fits[best][0].T,
        float(agreements.min()),
        bool((np.array(tied) & (agreements < SAME)).any()),
        all(converged for _, converged in fits),
    )


def covariance_of(z: np.ndarray) -> np.ndarray:
    """The covariance in double precision, (latent, latent)."""
    centred = z - z.mean(axis=0)
    return centred.T @ centred / len(z)


def _ica(white: np.ndarray, seed: int, restart: int) -> tuple[np.ndarray, bool]:
    """The rotation of one FastICA fit, and whether it came to rest."""
    from sklearn.decomposition import FastICA
    from sklearn.exceptions import ConvergenceWarning

    d = white.shape[1]
    if d == 1:
        return np.ones((1, 1)), True
    start = ortho_group.rvs(d, random_state=seeds.numpy_generator(seed, "start of ICA", restart))
    ica = FastICA(whiten=cast(Any, False), fun="logcosh", max_iter=ITERATIONS, tol=PRECISION, w_init=start)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        ica.fit(white)
    return ica.components_, ica.n_iter_ < ITERATIONS


def _gain(s: np.ndarray) -> np.ndarray:
    """Each row's share of FastICA's contrast ``Σ_i (E log cosh s_i − E log cosh ν)²``, linear around its mean."""
    values = log_cosh(s) - LOG_COSH_OF_A_GAUSSIAN
    means = values.mean(axis=0)
    return (2 * means * values - means**2).sum(axis=1)


def log_cosh(s: np.ndarray) -> np.ndarray:
    """``log cosh s``, without overflow."""
    return np.logaddexp(s, -s) - np.log(2)
