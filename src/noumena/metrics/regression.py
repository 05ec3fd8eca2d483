"""R²: how much of the true latents a function of the learned ones explains, on rows it was not fitted on.

``linear`` forgives an affine map, ``kernel`` (RBF ridge, α = 1, γ = 1/d, standardised) any smooth one. The direction is
from the learned latents to the true ones unless stated otherwise; it matters.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from noumena import checks, seeds
from noumena.ambiguity import Ambiguity, align, kernel_map

HELD_OUT = 0.2


@dataclass(frozen=True)
class Regression:
    """The score (1 is perfect, 0 no better than the mean) averaged over targets; per target; rows scored on."""

    score: float
    per_target: np.ndarray
    rows: int
    held_out: bool
    forgives: Ambiguity


def r2(
    z: Any,
    z_hat: Any,
    *,
    regressor: str = "linear",
    direction: str = "learned to true",
    held_out: bool = True,
    seed: int = 0,
) -> Regression:
    """R² of a regression between learned latents ``z_hat`` and true latents ``z``, both (batch, latent).

    >>> z = np.random.default_rng(0).normal(size=(100, 2))
    >>> round(r2(z, z @ np.array([[1.0, 2], [3, 4]]) + 1).score, 6)
    1.0
    """
    checks.one_of(regressor, "regressor", ("linear", "kernel"))
    checks.one_of(direction, "direction", ("learned to true", "true to learned"))
    z, z_hat = checks.table(z, "z", min_rows=10), checks.table(z_hat, "z_hat", min_rows=10)
    checks.same_batch(z, z_hat)
    source, target = (z_hat, z) if direction == "learned to true" else (z, z_hat)
    order = seeds.numpy_generator(seed, "rows of r2").permutation(len(z))
    n = max(2, round(HELD_OUT * len(z)))
    fit, judge = (order[n:], order[:n]) if held_out else (order, order)
    if regressor == "linear":
        function = align(target[fit], source[fit], up_to="affine").transform
    else:
        function = kernel_map(source[fit], target[fit])
    residual = ((target[judge] - function(source[judge])) ** 2).mean(axis=0)
    varies = np.ptp(target[judge], axis=0) > 0
    spread = np.where(varies, target[judge].var(axis=0), 1)
    per_target = np.where(varies, 1 - residual / spread, 0.0)
    forgives = Ambiguity("affine" if regressor == "linear" else "any")
    return Regression(float(per_target.mean()), per_target, len(judge), held_out, forgives)
