"""Weak mean correlation coefficient: mean canonical correlation, which forgives any linear map.

Linear canonical correlation analysis (CCA) on one half of the rows finds pairs of directions, one among the true
latents and one among the learned ones; the score is their mean correlation on the other half. Weak ≥ strong (``mcc``)
is not a theorem: canonical pairs are uncorrelated with one another and fitted on other rows.

References
----------
Kivva et al. (2022), "Identifiability of deep generative models without auxiliary information",
section 4.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from noumena import seeds
from noumena.ambiguity import Ambiguity
from noumena.deprecated import renamed
from noumena.metrics import factors
from noumena.metrics.correlation import CHANCE_DRAWS, affordable, unit_columns
from noumena.metrics.preprocessing import in_range
from noumena.metrics.record import MetricRecord, evaluate

RANK = 1e-8
"""Directions with a relative spread below this are rounding, and left out."""


@dataclass(frozen=True, kw_only=True)
class CanonicalCorrelation(MetricRecord):
    """Result of ``weak_mcc``.

    Attributes
    ----------
    score : float
        Mean canonical correlation, in [0, 1].
    per_direction : array of shape (n_directions,)
        Held-out correlation of every pair of directions, 0 where there is none.
    rows, shuffles : int
        Rows scored on, and shuffles behind the chance level.
    """

    TITLE: ClassVar[str] = "MCC (weak)"
    SUPPORTS: ClassVar[str] = (
        "The true latents can be read off the learned ones by a linear map; single latents may be mixed in any linear "
        "way, and a map that bends lowers the value too."
    )

    score: float
    per_direction: np.ndarray
    rows: int
    shuffles: int = 0


@renamed(seed="random_state", bootstrap="subsamples")
def weak_mcc(
    z: Any,
    z_hat: Any,
    *,
    shuffles: int = CHANCE_DRAWS,
    ceiling: bool = False,
    subsamples: int = 0,
    random_state: Any = 0,
) -> CanonicalCorrelation:
    """Mean held-out canonical correlation of learned latents ``z_hat`` with the true ``z``.

    The mean is over the dimensions that the true latents span: with fewer learned ones some have no partner and count
    0; a constant true latent spans none.

    Parameters
    ----------
    z, z_hat : array of shape (n_samples, n_latents)
        True and learned latents of the same rows; their numbers of columns may differ.
    shuffles, subsamples : int
        Row shuffles for the chance level and half-samples for the standard error; 0: not measured.
    ceiling : bool
        Also score ``z`` in place of ``z_hat``.
    random_state : int, Generator or None
        Seed of halves, shuffles and subsamples.

    Returns
    -------
    CanonicalCorrelation

    Examples
    --------
    >>> z = np.random.default_rng(0).normal(size=(100, 2))
    >>> round(weak_mcc(z, z @ np.array([[1.0, 2], [3, 4]]) + 1).score, 6)
    1.0
    """
    seed = seeds.seed_of(random_state)
    z, z_hat = map(in_range, factors.pair(z, z_hat, min_rows=8))
    shuffles = affordable(shuffles, len(z) * z.shape[1] * z_hat.shape[1])

    def measure(a: np.ndarray, b: np.ndarray) -> CanonicalCorrelation:  # chance is that of all rows, not of halves
        return _measured(a, b, shuffles if b is z_hat else 0, seed)

    return evaluate(measure, z, z_hat, ceiling=ceiling, subsamples=subsamples, seed=seed)


def _measured(z: np.ndarray, z_hat: np.ndarray, shuffles: int, seed: int) -> CanonicalCorrelation:
    order = seeds.numpy_generator(seed, "rows of weak mcc").permutation(len(z))
    fit, judge = order[: len(z) // 2], order[len(z) // 2 :]
    (basis, white), (basis_hat, white_hat) = _whitened(z[fit]), _whitened(z_hat[fit])
    judged, judged_hat = z[judge] @ basis, z_hat[judge] @ basis_hat
    per_direction = _paired(white, white_hat, judged, judged_hat)
    rng, levels = seeds.numpy_generator(seed, "chance of weak mcc"), []
    for _ in range(shuffles):
        mixed, mixed_hat = (rows[rng.permutation(len(rows))] for rows in (white_hat, judged_hat))
        levels.append(_paired(white, mixed, judged, mixed_hat).mean())
    return CanonicalCorrelation(
        score=float(per_direction.mean()),
        per_direction=per_direction,
        rows=len(judge),
        shuffles=shuffles,
        chance=float(np.mean(levels)) if shuffles else None,
        forgives=Ambiguity("affine"),
    )


def _paired(white: np.ndarray, white_hat: np.ndarray, judged: np.ndarray, judged_hat: np.ndarray) -> np.ndarray:
    """Correlations on judged rows of the pairs of directions that correlate most on the whitened rows of the fit."""
    left, _, right = np.linalg.svd(white.T @ white_hat, full_matrices=False)
    per_direction = np.zeros(max(white.shape[1], 1))
    correlations = np.einsum("ij,ij->j", unit_columns(judged @ left), unit_columns(judged_hat @ right.T))
    per_direction[: len(correlations)] = np.abs(correlations).clip(0, 1)
    return per_direction


def _whitened(columns: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """A matrix that whitens the columns, without directions that have no spread, and the whitened rows."""
    centred = columns - columns.mean(axis=0)
    size = np.abs(centred).max(axis=0)
    size = np.where(size > RANK * np.abs(columns).max(axis=0), size, np.inf)  # a constant, up to rounding
    _, spreads, directions = np.linalg.svd(centred / size, full_matrices=False)
    spanned = spreads > RANK * max(float(spreads[0]), np.finfo(np.float64).tiny)
    basis = (directions[spanned].T / spreads[spanned]) / size[:, None]
    return basis, centred @ basis
