"""R²: how much of the true latents a function of the learned ones explains, on rows it was not fitted on.

``linear`` forgives an affine map, ``kernel`` (RBF kernel ridge, α = 1, γ = 1/d, standardised) any smooth one. By
default the true latents are predicted from the learned ones; the direction matters. A kernel regression is exact up to
10 000 fitted rows and a Nyström approximation beyond (``noumena.metrics.kernels``); the record says which.

The chance level comes from shuffled targets, further right-hand sides of the same fit; it is below 0 on held-out rows.
The ceiling of a kernel regression lies below 1: it smooths.
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
from noumena.metrics.preprocessing import RowSplit, in_range, split_rows, variance_explained
from noumena.metrics.record import MetricRecord, ScoreClaim, counted_zero, evaluate

CHANCE_DRAWS = 5
REGRESSORS = ("linear", "kernel")
DIRECTIONS = ("learned to true", "true to learned")

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
class Regression(MetricRecord):
    """Result of ``r2``.

    Attributes
    ----------
    score : float
        Mean R² over the targets: 1 is perfect, 0 no better than the mean.
    per_target : array of shape (n_targets,)
        R² of every target.
    rows, shuffles : int
        Rows scored on, and shuffles behind the chance level.
    held_out, regressor, direction, method
        How the regression was fitted and scored.
    constant : tuple of int
        Targets that are constant and count 0.
    """

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
    def claims(self) -> tuple[ScoreClaim, ...]:
        """What the score is."""
        title = f"R² ({self.regressor}, {self.direction}{'' if self.held_out else ', in sample'})"
        return (ScoreClaim("score", title, (-np.inf, 1.0), self.forgives, SUPPORTS[self.regressor, self.direction]),)

    def __str__(self) -> str:
        return super().__str__() + counted_zero(self.constant, "z" if self.direction == "learned to true" else "ẑ")


@renamed(seed="random_state", bootstrap="subsamples")
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
    subsamples: int = 0,
    random_state: Any = 0,
) -> Regression:
    """R² of a regression between learned latents ``z_hat`` and true latents ``z``.

    Parameters
    ----------
    z, z_hat : array of shape (n_samples, n_latents)
        True and learned latents of the same rows.
    regressor : {"linear", "kernel"}
        Least squares, or kernel ridge regression.
    direction : {"learned to true", "true to learned"}
        Which latents are predicted from which.
    held_out : bool
        Score on a fifth of the rows that the regression was not fitted on.
    most_exact : int
        Rows up to which a kernel regression is exact.
    shuffles, subsamples : int
        Row shuffles for the chance level and half-samples for the standard error; 0: not measured.
    ceiling : bool
        Also score ``z`` in place of ``z_hat``.
    random_state : int, Generator or None
        Seed of splits, shuffles and subsamples.

    Returns
    -------
    Regression

    Examples
    --------
    >>> z = np.random.default_rng(0).normal(size=(100, 2))
    >>> round(r2(z, z @ np.array([[1.0, 2], [3, 4]]) + 1).score, 6)
    1.0
    """
    seed = seeds.seed_of(random_state)
    checks.one_of(regressor, "regressor", REGRESSORS)
    checks.one_of(direction, "direction", DIRECTIONS)
    most_exact = checks.count(most_exact, "most_exact", minimum=0)
    z, z_hat = map(in_range, factors.pair(z, z_hat))
    shuffles = affordable(shuffles, work(z, z_hat, regressor))

    def measure(a: np.ndarray, b: np.ndarray) -> Regression:
        """The score of latents in the place of the learned ones."""
        drawn = shuffles if b is z_hat else 0  # chance is that of all rows, not of their halves
        source, target = (b, a) if direction == "learned to true" else (a, b)
        rows = split_rows(seeds.numpy_generator(seed, "rows of r2").permutation(len(a)), held_out)
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

    return evaluate(measure, z, z_hat, ceiling=ceiling, subsamples=subsamples, seed=seed)


def work(z: np.ndarray, z_hat: np.ndarray, regressor: str) -> int:
    """About how many multiplications one more copy of the targets costs."""
    (n, d), d_hat = z.shape, z_hat.shape[1]
    return n * d * d_hat if regressor == "linear" else n * (n if n <= MOST_EXACT else LANDMARKS) * max(d, d_hat)


def explained(
    source: Float[np.ndarray, "batch source"],
    target: Float[np.ndarray, "batch target"],
    rows: RowSplit,
    regressor: str,
    *,
    most_exact: int = MOST_EXACT,
    shuffles: int = 0,
    seed: int = 0,
) -> tuple[Float[np.ndarray, "copy target"], str]:
    """R² per target, then that of every copy of the targets with shuffled rows, and how the regression was fitted."""
    fit, judge = rows
    rng = seeds.numpy_generator(seed, "shuffled targets")
    copies = np.hstack([target, *(target[rng.permutation(len(target))] for _ in range(shuffles))])
    if regressor == "linear":
        predicted, method = _linear(source[fit], copies[fit], source[judge]), "least squares"
    else:
        function = kernel_ridge(source[fit], copies[fit], most_exact=most_exact, random_state=seed)
        predicted, method = function(source[judge]), function.method
    return variance_explained(copies[judge], predicted).reshape(shuffles + 1, -1), method


def _linear(source: np.ndarray, target: np.ndarray, new: np.ndarray) -> np.ndarray:
    """Predictions of least squares with a constant."""
    centre, level = source.mean(axis=0), target.mean(axis=0)
    size = np.abs(source - centre).max(axis=0)
    size = np.where(size > 0, size, 1)  # no unit is too small for the rank
    slopes = np.linalg.lstsq((source - centre) / size, target - level, rcond=None)[0]
    return ((new - centre) / size) @ slopes + level
