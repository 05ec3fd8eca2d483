"""Weak mean correlation coefficient: the correlation that is left when any linear map is forgiven.

Linear canonical correlation analysis (CCA) finds pairs of directions, one among the true latents and one among the
learned ones, on one half of the rows; the score is the mean correlation of these pairs on the other half. ``mcc``
compares single latents and is called strong beside it. Weak ≥ strong is not a theorem: the pairs are uncorrelated with
one another and fitted on other rows, strong matches neither have to be nor are.

Reference: mixture priors (paper 003), section 4, and the metric's source there, "weak" identifiability.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from noumena import checks, seeds
from noumena.ambiguity import Ambiguity
from noumena.metrics.correlation import unit_columns

RANK = 1e-8
"""Directions with a relative spread below this are rounding, and left out."""


@dataclass(frozen=True)
class CanonicalCorrelation:
    """The score in [0, 1]; held-out correlation per pair of directions, 0 where there is none; rows scored on."""

    score: float
    per_direction: np.ndarray
    rows: int
    forgives: Ambiguity


def weak_mcc(z: Any, z_hat: Any, *, seed: int = 0) -> CanonicalCorrelation:
    """Mean held-out canonical correlation of learned latents ``z_hat`` with the true ``z``, both (batch, latent).

    The mean is over the dimensions that the true latents fill: fewer learned ones leave some without a partner.

    >>> z = np.random.default_rng(0).normal(size=(100, 2))
    >>> round(weak_mcc(z, z @ np.array([[1.0, 2], [3, 4]]) + 1).score, 6)
    1.0
    """
    z, z_hat = checks.table(z, "z", min_rows=8), checks.table(z_hat, "z_hat", min_rows=8)
    checks.same_batch(z, z_hat)
    order = seeds.numpy_generator(seed, "rows of weak mcc").permutation(len(z))
    fit, judge = order[: len(z) // 2], order[len(z) // 2 :]
    (basis, white), (basis_hat, white_hat) = _whitened(z[fit]), _whitened(z_hat[fit])
    left, _, right = np.linalg.svd(white.T @ white_hat, full_matrices=False)
    pairs = unit_columns(z[judge] @ basis @ left) * unit_columns(z_hat[judge] @ basis_hat @ right.T)
    per_direction = np.zeros(max(basis.shape[1], 1))
    found = np.abs(pairs.sum(axis=0)).clip(0, 1)
    per_direction[: len(found)] = found
    return CanonicalCorrelation(float(per_direction.mean()), per_direction, len(judge), Ambiguity("affine"))


def _whitened(columns: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """A matrix that whitens the columns, without directions that have no spread, and the whitened rows."""
    columns = columns.astype(np.float64)
    centred = columns - columns.mean(axis=0)
    size = np.abs(centred).max(axis=0)
    size = np.where(size > RANK * np.abs(columns).max(axis=0), size, np.inf)  # a constant, up to rounding
    _, spreads, directions = np.linalg.svd(centred / size, full_matrices=False)
    kept = spreads > RANK * max(float(spreads[0]), np.finfo(np.float64).tiny)
    basis = (directions[kept].T / spreads[kept]) / size[:, None]
    return basis, centred @ basis
