"""Weak mean correlation coefficient: the correlation that is left when any linear map is forgiven.

Linear canonical correlation analysis (CCA) finds pairs of directions, one among the true latents and one among the
learned ones, on one half of the rows; the score is the mean correlation of these pairs on the other half. ``mcc``
compares single latents and is called strong beside it. Weak ≥ strong is not a theorem: the pairs are uncorrelated with
one another and fitted on other rows, strong matches neither have to be nor are.

Reference: Kivva et al. (2022), section 4, and the metric's source there, "weak" identifiability.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from noumena import seeds
from noumena.ambiguity import Ambiguity
from noumena.deprecated import renamed
from noumena.metrics import factors
from noumena.metrics.correlation import CHANCE_DRAWS, affordable, unit_columns
from noumena.metrics.record import Claim, Record, surrounded

RANK = 1e-8
"""Directions with a relative spread below this are rounding, and left out."""

SUPPORTS = (
    "The true latents can be read off the learned ones by a linear map; single latents may be mixed in any linear way, "
    "and a map that bends lowers the value too."
)


@dataclass(frozen=True, kw_only=True)
class CanonicalCorrelation(Record):
    """The score in [0, 1]; held-out correlation per pair of directions, 0 where there is none; rows scored on;
    shuffles behind the chance."""

    score: float
    per_direction: np.ndarray
    rows: int
    shuffles: int = 0

    @property
    def claims(self) -> tuple[Claim, ...]:
        """What the score is."""
        return (Claim("score", "MCC (weak)", (0.0, 1.0), self.forgives, SUPPORTS),)


@renamed(seed="random_state")
def weak_mcc(
    z: Any,
    z_hat: Any,
    *,
    shuffles: int = CHANCE_DRAWS,
    ceiling: bool = False,
    bootstrap: int = 0,
    random_state: Any = 0,
) -> CanonicalCorrelation:
    """Mean held-out canonical correlation of learned latents ``z_hat`` with the true ``z``, both (batch, latent).

    The mean is over the dimensions that the true latents fill: fewer learned ones leave some without a partner, and a
    constant true latent fills none and is left out.
    ``chance`` is the mean score of copies of ``z_hat`` whose rows are shuffled within each half.

    >>> z = np.random.default_rng(0).normal(size=(100, 2))
    >>> round(weak_mcc(z, z @ np.array([[1.0, 2], [3, 4]]) + 1).score, 6)
    1.0
    """
    seed = seeds.seed_of(random_state)
    z, z_hat = map(factors.in_range, factors.pair(z, z_hat, min_rows=8))
    shuffles = affordable(shuffles, len(z) * z.shape[1] * z_hat.shape[1])

    def measure(a: np.ndarray, b: np.ndarray) -> CanonicalCorrelation:  # chance is that of all rows, not of halves
        return _measured(a, b, shuffles if b is z_hat else 0, seed)

    return surrounded(measure, z, z_hat, ceiling=ceiling, bootstrap=bootstrap, seed=seed)


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
    found = np.einsum("ij,ij->j", unit_columns(judged @ left), unit_columns(judged_hat @ right.T))
    per_direction[: len(found)] = np.abs(found).clip(0, 1)
    return per_direction


def _whitened(columns: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """A matrix that whitens the columns, without directions that have no spread, and the whitened rows."""
    centred = columns - columns.mean(axis=0)
    size = np.abs(centred).max(axis=0)
    size = np.where(size > RANK * np.abs(columns).max(axis=0), size, np.inf)  # a constant, up to rounding
    _, spreads, directions = np.linalg.svd(centred / size, full_matrices=False)
    kept = spreads > RANK * max(float(spreads[0]), np.finfo(np.float64).tiny)
    basis = (directions[kept].T / spreads[kept]) / size[:, None]
    return basis, centred @ basis
