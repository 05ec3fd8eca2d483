"""R²: how much of the true latents a function of the learned ones explains, on rows it was not fitted on.

``linear`` forgives an affine map, ``kernel`` (RBF ridge, α = 1, γ = 1/d, standardised) any smooth one. The direction is
from the learned latents to the true ones unless stated otherwise; it matters. All rows are used: a kernel regression is
exact up to 10 000 fitted rows and goes by landmarks beyond (``noumena.metrics.kernels``), and the record says which.

Chance comes from shuffled targets, which are further right-hand sides of the same fit. It is below 0 on held-out rows,
as what was fitted to noise is worse than the mean. The ceiling of a kernel regression lies below 1: it smooths.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float

from noumena import checks, seeds
from noumena.ambiguity import Ambiguity
from noumena.deprecated import renamed
from noumena.metrics import factors
from noumena.metrics.correlation import affordable
from noumena.metrics.kernels import LANDMARKS, MOST_EXACT, kernel_ridge
from noumena.metrics.record import Claim, Record, counted_zero, surrounded

HELD_OUT = 0.2
CHANCE_DRAWS = 5
REGRESSORS = ("linear", "kernel")
DIRECTIONS = ("learned to true", "true to learned")
Rows = tuple[np.ndarray, np.ndarray]
"""Rows to fit and rows to judge."""

SUPPORTS = {
    ("linear", "learned to true"): "An affine map of all learned latents gives the true ones: nothing linear is lost; "
    "which learned latent holds which true one, and what else they hold, is not tested.",
    ("linear", "true to learned"): "The learned latents are an affine map of the true ones and hold nothing else; "
    "whether every true latent is there, and where, is not tested.",
    ("kernel", "learned to true"): "A smooth function of all learned latents gives the true ones: the information is "
    "there; nothing is said about single latents, and axes that bend so much that the function is not smooth lower "
    "the value.",
    ("kernel", "true to learned"): "The learned latents are a smooth function of the true ones and hold little else; "
    "whether every true latent is there, and where, is not tested.",
}


@dataclass(frozen=True, kw_only=True)
class Regression(Record):
    """The score (1 is perfect, 0 no better than the mean) averaged over targets; per target; rows scored on; how the
    regression was fitted; shuffles behind the chance; targets that are constant and count 0."""

    score: float
    per_target: np.ndarray
    rows: int
    held_out: bool
    regressor: str
    direction: str
    method: str
    shuffles: int = 0
    constant: tuple[int, ...] = ()

    @property
    def claims(self) -> tuple[Claim, ...]:
        """What the score is."""
        title = f"R² ({self.regressor}, {self.direction}{'' if self.held_out else ', in sample'})"
        return (Claim("score", title, (-np.inf, 1.0), self.forgives, SUPPORTS[self.regressor, self.direction]),)

    def __str__(self) -> str:
        return super().__str__() + counted_zero(self.constant, "z" if self.direction == "learned to true" else "ẑ")


@renamed(seed="random_state")
def r2(
    z: Any,
    z_hat: Any,
    *,
    regressor: str = "linear",
    direction: str = "learned to true",
    held_out: bool = True,
    most_exact: int = MOST_EXACT,
    shuffles: int = CHANCE_DRAWS,
    ceiling: bool = False,
    bootstrap: int = 0,
    random_state: Any = 0,
) -> Regression:
    """R² of a regression between learned latents ``z_hat`` and true latents ``z``, both (batch, latent).

    A fifth of the rows is judged on; ``held_out=False`` fits and judges on all. A kernel regression of more than
    ``most_exact`` rows goes by landmarks. A target that is constant on the rows judged counts 0 in the mean, and the
    printed record names it.

    >>> z = np.random.default_rng(0).normal(size=(100, 2))
    >>> round(r2(z, z @ np.array([[1.0, 2], [3, 4]]) + 1).score, 6)
    1.0
    """
    seed = seeds.seed_of(random_state)
    checks.one_of(regressor, "regressor", REGRESSORS)
    checks.one_of(direction, "direction", DIRECTIONS)
    most_exact = checks.count(most_exact, "most_exact", minimum=0)
    z, z_hat = map(factors.in_range, factors.pair(z, z_hat))
    shuffles = affordable(shuffles, work(z, z_hat, regressor))

    def measure(a: np.ndarray, b: np.ndarray) -> Regression:
        """The score of latents in the place of the learned ones."""
        drawn = shuffles if b is z_hat else 0  # chance is that of all rows, not of their halves
        source, target = (b, a) if direction == "learned to true" else (a, b)
        rows = split(len(a), held_out, seed, "rows of r2")
        copies, method = explained(source, target, rows, regressor, most_exact=most_exact, shuffles=drawn, seed=seed)
        return Regression(
            score=float(copies[0].mean()),
            per_target=copies[0],
            rows=len(rows[1]),
            held_out=held_out,
            regressor=regressor,
            direction=direction,
            method=method,
            shuffles=drawn,
            constant=tuple(np.flatnonzero(np.ptp(target[rows[1]], axis=0) == 0).tolist()),
            chance=float(copies[1:].mean()) if drawn else None,
            forgives=Ambiguity("affine" if regressor == "linear" else "any"),
        )

    return surrounded(measure, z, z_hat, ceiling=ceiling, bootstrap=bootstrap, seed=seed)


def work(z: np.ndarray, z_hat: np.ndarray, regressor: str) -> int:
    """Multiplications that one more copy of the targets costs, about."""
    (n, d), d_hat = z.shape, z_hat.shape[1]
    return n * d * d_hat if regressor == "linear" else n * (n if n <= MOST_EXACT else LANDMARKS) * max(d, d_hat)


def split(n: int, held_out: bool, seed: int, purpose: str) -> Rows:
    """Rows to fit and the fifth of all rows to judge on; the same rows, where none are held out."""
    order = seeds.numpy_generator(seed, purpose).permutation(n)
    held = max(2, round(HELD_OUT * n))
    return (order[held:], order[:held]) if held_out else (order, order)


def explained(
    source: Float[np.ndarray, "batch source"],
    target: Float[np.ndarray, "batch target"],
    rows: Rows,
    regressor: str,
    *,
    most_exact: int = MOST_EXACT,
    shuffles: int = 0,
    seed: int = 0,
) -> tuple[Float[np.ndarray, "copy target"], str]:
    """R² per target, then that of every copy of the targets with shuffled rows, and how the one fit was made."""
    fit, judge = rows
    rng = seeds.numpy_generator(seed, "shuffled targets")
    copies = np.hstack([target, *(target[rng.permutation(len(target))] for _ in range(shuffles))])
    if regressor == "linear":
        predicted, method = _linear(source[fit], copies[fit], source[judge]), "least squares"
    else:
        function = kernel_ridge(source[fit], copies[fit], most_exact=most_exact, random_state=seed)
        predicted, method = function(source[judge]), function.method
    wanted = copies[judge]
    varies = np.ptp(wanted, axis=0) > 0
    residual, spread = ((wanted - predicted) ** 2).mean(axis=0), np.where(varies, wanted.var(axis=0), 1)
    return np.where(varies, 1 - residual / spread, 0.0).reshape(shuffles + 1, -1), method


def _linear(source: np.ndarray, target: np.ndarray, new: np.ndarray) -> np.ndarray:
    """Predictions of least squares with a constant."""
    centre, level = source.mean(axis=0), target.mean(axis=0)
    size = np.abs(source - centre).max(axis=0)
    size = np.where(size > 0, size, 1)  # no unit is too small for the rank
    slopes = np.linalg.lstsq((source - centre) / size, target - level, rcond=None)[0]
    return ((new - centre) / size) @ slopes + level
