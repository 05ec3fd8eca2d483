"""Refits: exactly sparse models trained under one structure, and what held-out rows say of that structure.

Two comparisons, each paired over held-out rows and each with a model trained as long:

- with the *dense twin*, which has no structure: a right structure beats it, for it has less to learn;
- with a *wider* structure, which has the few dependencies more that the residuals want most: a right structure loses
  nothing to it, and one that lacks a dependency does, even where it still beats its twin.

A refit far above the best of its structure is in a local minimum and begins again from other weights.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
from jaxtyping import Float
from torch import Tensor

from noumena.checks import DivergenceError
from noumena.estimators.across_columns import ColumnTask
from noumena.estimators.fit_data import FitData
from noumena.estimators.loop import Trained, train
from noumena.estimators.refit.masked import Support, masked, misfit, row_errors, squared_errors
from noumena.estimators.training import Training

HELD_OUT = 4096
"""Held-out rows that models are compared on, at most."""
NOISY = 0.03
"""Share of the variance that is left over from which on it is taken for noise."""
RESTARTS, FAR = 2, 1_000_003
"""How often models that are stuck begin again, and the distance of their seeds."""
STUCK = 2.5
"""Misfit above the best from which on a model is stuck: without noise, those that only had less training are at most 2
above the best, local minima 10 and more."""


@dataclass(frozen=True)
class ErrorDifference:
    """A mean difference of errors over rows, and its standard error."""

    mean: float
    standard_error: float

    @classmethod
    def of(cls, errors: Float[np.ndarray, " batch"], others: Float[np.ndarray, " batch"]) -> ErrorDifference:
        """``errors − others``, row by row.

        >>> ErrorDifference.of(np.array([1.0, 2.0, 3.0]), np.array([3.0, 4.0, 5.0]))
        ErrorDifference(mean=-2.0, standard_error=0.0)
        """
        apart = errors - others
        return cls(float(apart.mean()), float(apart.std(ddof=1) / np.sqrt(len(apart))) if len(apart) > 1 else np.inf)

    @property
    def below_zero(self) -> bool:
        """Whether it is, by two standard errors."""
        return self.mean < -2 * self.standard_error


@dataclass(frozen=True)
class Refit:
    """How the best exactly sparse refit compares with other models, on held-out rows."""

    dependencies: int
    error: float
    """Mean squared error of a held-out row under the structure, summed over standardised observations, each as it is
    predicted from the others; of two observations, or of few rows, that of the reconstruction."""
    twin: float
    """The same of the twin without a structure, trained as long."""
    excess: float
    """Mean difference of the two over rows."""
    standard_error: float
    rows: int
    gain: float | None = None
    """Mean difference over rows between a model with a few dependencies more, trained as long, and the refit; ``None``
    in runs that were saved before it was measured."""
    gain_error: float | None = None
    """Its standard error."""
    across: bool = False
    """Whether the two are compared by observations that are predicted from the others,"""
    left: float = 0.0
    """and the share of the variance that the twin's reconstruction leaves: noise, where it is more than ``NOISY``."""

    @property
    def beats_twin(self) -> bool:
        """Whether the refit explains held-out rows better than its twin: a right structure does, for it has less to
        learn, and one with as many dependencies in other places at best does not. Without noise it must be better by
        two standard errors; beside noise, which hides the difference, it must be better, and what tells wrong
        structures there is that they lack dependencies."""
        return self.excess < 0 if self.left > NOISY else ErrorDifference(self.excess, self.standard_error).below_zero

    @property
    def lacks_none(self) -> bool | None:
        """Whether held-out rows are explained no better with the dependencies that the residuals want most; ``None``
        where it was not measured."""
        if self.gain is None or self.gain_error is None:
            return None
        return self.gain >= -2 * self.gain_error  # what is not a number says nothing for the refit

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers."""
        return asdict(self)


def held_out(rows: FitData) -> Tensor:
    """The rows that models are compared on."""
    return rows.held_out[:HELD_OUT]


def compared(sparse: Trained, twins: Trained, support: Support, rows: FitData, gain: ErrorDifference) -> Refit:
    """The refit with the lowest held-out error beside the twin with the lowest, row by row; ``gain`` is what a wider
    structure explains better.

    Reconstructions say little of what was learned, of noisy rows above all: a model leaves the noise, whatever else it
    has learned. So the two are compared by observations that are predicted from the others.
    """
    best = [_best(trained, rows) for trained in (sparse, twins)]
    errors, others = (row_errors(model, held_out(rows)) for model in best)
    left = float(others.mean()) / support.shape[0]
    task = ColumnTask.of(rows.train_at_once, held_out(rows))
    if task is not None:
        errors, others = (task.errors_of(model).sum(axis=1) for model in best)
    excess = ErrorDifference.of(errors, others)
    means = (float(errors.mean()), float(others.mean()))
    own = (excess.mean, excess.standard_error, len(errors))
    return Refit(int(support.sum()), *means, *own, gain.mean, gain.standard_error, task is not None, left)


def _best(trained: Trained, rows: FitData) -> Any:
    """The model that explains held-out rows best."""
    sound = [model for model, lost in zip(trained.models, trained.diverged, strict=True) if not lost]
    return min(sound, key=lambda model: row_errors(model, held_out(rows)).mean())


def restarted(
    sparse: Trained,
    fresh: Callable[[int], Any],
    other_seeds: list[int],
    support: Support,
    rows: FitData,
    plan: Training,
    turn: int,
) -> Trained:
    """The refits, those that ended far above the best replaced by fits from other weights where these are better.

    A model in a local minimum is no other explanation of the rows, so that it finds other latents says nothing; one
    that explains them as well as the best is kept, whatever latents it has.
    """
    misfits = [misfit(squared_errors(model, held_out(rows))) for model in sparse.models]
    stuck = [k for k, one in enumerate(misfits) if not one <= min(misfits) + STUCK]
    if sparse.interrupted or not stuck:
        return sparse
    starts = masked([fresh(other_seeds[k]) for k in stuck], [support] * len(stuck))
    try:
        again = train(starts, [other_seeds[k] for k in stuck], rows, plan.changed(suffix=f"restart{turn}"))
    except DivergenceError:
        return sparse
    models, objectives, diverged = list(sparse.models), sparse.objectives.copy(), sparse.diverged.copy()
    terms = {name: values.copy() for name, values in sparse.terms.items()}
    for n, k in enumerate(stuck):
        if not again.diverged[n] and (diverged[k] or again.objectives[n] < objectives[k]):
            models[k], objectives[k], diverged[k] = again.models[n], again.objectives[n], False
            for name, values in again.terms.items():
                terms[name][k] = values[n]
    return replace(
        sparse, models=models, objectives=objectives, terms=terms, diverged=diverged, interrupted=again.interrupted
    )
