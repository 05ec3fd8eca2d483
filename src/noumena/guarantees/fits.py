"""Fits: what is asked of a fitted model before a theorem speaks of its latents.

A theorem counts dependencies, so the model that is certified is exactly sparse
(``noumena.estimators.refit.masked``), and the
premise *explains the data* is made of comparisons: held-out rows are explained better under the structure than by its
dense twin, trained as long, and no better with the dependencies that its residuals want most. A structure that misses
a dependency of the world does not pass; one that has more than the world cannot have a positive gap. The seeds must
agree, and what two of them disagree on is not resolved: rows that cancel up to that count as cancelled.
"""

from __future__ import annotations

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn

from noumena.ambiguity import align
from noumena.derivatives.strength import jacobians, within
from noumena.estimators import Estimator
from noumena.estimators.across_columns import SHORTFALL, TIED
from noumena.guarantees.hypotheses import EXPLAINED, NOISE, SHARED, Hypothesis

BEATS_TWIN = "the sparse refit beats its dense twin"
LACKS_NONE = "no dependency is missing"
AGREE = "the two best seeds agree"
ENOUGH = 0.95
"""A fitted model explains the data when its R² is at least this."""
AGREEMENT = 0.9
"""Share of variance that one seed's latents must explain of another's, matched one by one."""
POINTS = 128
"""Rows at which two seeds' Jacobians are compared."""
UNRESOLVED = 0.05
"""What no fit is taken to resolve of the ratio of a row's entries."""
WIDTH = 2.0
"""Cancelling up to this many times the seeds' disagreement counts as cancelling."""


def explained(r2: float | None, *, unknown: str = "no reconstruction error is known for a bare decoder") -> Hypothesis:
    """Whether a fitted model reconstructs its data; where nobody knows, why."""
    if r2 is None:
        return Hypothesis(EXPLAINED, "unknown", unknown)
    answer = "supported" if r2 >= ENOUGH else "fails"
    return Hypothesis(EXPLAINED, answer, f"held-out R² of the reconstruction {r2:.3f} (wanted {ENOUGH})")


def explained_by(model: Estimator) -> Hypothesis:
    """Whether the best model of a fit reconstructs its data."""
    error = model.terms_.get("reconstruction")  # a model of noise or of directions has none
    if error is None:
        return explained(None, unknown=f"{type(model).__name__} has no reconstruction error")
    if not model.standardise or getattr(model, "normalise", False):  # its error is that of each batch's units
        found = getattr(model, "explained_", None)
        unknown = "the variance that was explained was not kept with this model"
        return explained(None if found is None else found[model.best_], unknown=unknown)
    return explained(1 - float(error[model.best_]) / model.n_features_in_)


def columns_explained(model: Estimator) -> tuple[Hypothesis, ...]:
    """Whether the model predicts columns of held-out rows from the others as well as ridge regression and boosting do,
    and whether its noise is independent; where this was not measured, whether it reconstructs the data."""
    found = model.column_prediction_
    if found is None:
        return (explained_by(model),)
    evidence = (
        f"of what ridge regression and boosting predict of {len(found.columns)} columns from the others the model "
        f"misses {found.shortfall:.3f} ± {found.standard_error:.3f} on {found.rows} held-out rows (wanted {SHORTFALL})"
    )
    if not found.shares_any:
        evidence = f"no column of {found.rows} held-out rows is predicted from the others: nothing is shared"
    answer = {True: "supported", False: "fails", None: "unknown"}[found.explained]
    i, j = (_named(model, k) for k in found.tied)
    noise = (
        f"what is left of {i} and {j} has {abs(found.excess):.3f} of their variance in common beyond what the fit "
        f"makes of it, the most of all pairs (wanted {TIED}, or no more than chance)"
    )
    return (
        Hypothesis(SHARED, answer, evidence),
        Hypothesis(NOISE, "supported" if found.independent else "fails", noise),
    )


def _named(model: Estimator, column: int) -> str:
    names = getattr(model, "feature_names_in_", None)
    return f"x{column + 1}" if names is None else str(names[column])


def beats_dense_twin(model: Estimator) -> Hypothesis:
    """Whether the exactly sparse refit explains held-out rows better than its twin without a structure."""
    refit = model.refit_
    if refit is None:
        why = "this fit has no exactly sparse refit, so entries below a threshold are not zero"
        return Hypothesis(BEATS_TWIN, "unknown", f"{why}; VAE and Autoencoder have one with a penalty on dependencies")
    how = " of columns predicted from the others" if refit.across else ""
    evidence = (
        f"held-out error{how} {refit.error:.4g} with {refit.dependencies} dependencies, {refit.twin:.4g} without a "
        f"structure; difference {refit.excess:+.2g} ± {refit.standard_error:.1g} over {refit.rows} rows"
    )
    return Hypothesis(BEATS_TWIN, "supported" if refit.beats_twin else "fails", evidence)


def lacks_no_dependency(model: Estimator) -> Hypothesis:
    """Whether the dependencies that the refit's residuals want most explain held-out rows no better, added to it."""
    refit = model.refit_
    if refit is None or refit.lacks_none is None:
        return Hypothesis(LACKS_NONE, "unknown", "no model with more dependencies was compared with this fit")
    evidence = (
        f"with the dependencies that its residuals want most, and as much training, the held-out error changes by "
        f"{refit.gain:+.2g} ± {refit.gain_error:.1g}"
    )
    return Hypothesis(LACKS_NONE, "supported" if refit.lacks_none else "fails", evidence)


class Used(nn.Module):
    """A decoder of those latents alone that observations depend on, the others at their mean.

    >>> Used(nn.Linear(2, 1), torch.tensor([[1.0, 5.0], [3.0, 5.0]]), np.array([0]))(torch.ones(4, 1)).shape
    torch.Size([4, 1])
    """

    centre: Tensor

    def __init__(self, decoder: nn.Module, points: Float[Tensor, "point latent"], used: np.ndarray):
        super().__init__()
        self.decoder, self.used = decoder, used.tolist()
        self.register_buffer("centre", points.mean(dim=0))

    def forward(self, z: Float[Tensor, "batch used"]) -> Tensor:
        """Observations of the latents in use."""
        whole = [self.centre[j].expand(len(z)) for j in range(len(self.centre))]
        for place, j in enumerate(self.used):
            whole[j] = z[:, place]
        return self.decoder(torch.stack(whole, dim=1))


def found_twice(model: Estimator, used: np.ndarray) -> Hypothesis:
    """Whether the two best seeds of a fitted model found the same latents, of those in use: else neither is known to be
    the sparsest explanation."""
    pair = _two_best(model)
    if pair is None:
        return Hypothesis(AGREE, "unknown", "one seed was trained; agreement needs n_models of 2 or more")
    agreement = align(*(model.points_[k][:, used] for k in pair), up_to="permutation+scaling").score
    answer = "supported" if agreement >= AGREEMENT else "fails"
    sentence = f"one explains {agreement:.3f} of the other's variance, up to order and scale (wanted {AGREEMENT})"
    return Hypothesis(AGREE, answer, sentence)


def _two_best(model: Estimator) -> tuple[int, int] | None:
    """The two seeds with the lowest objectives, of those that did not diverge."""
    sound = [int(k) for k in np.argsort(model.objectives_) if not model.diverged_[k]]
    return (sound[0], sound[1]) if len(sound) > 1 else None


def resolution(model: Estimator, used: np.ndarray) -> float:
    """Up to what share of their size a row's entries count as cancelled: ``WIDTH`` times what the two best seeds
    disagree on, in root mean square over points and observations of several latents."""
    pair = _two_best(model)
    if pair is None:
        return UNRESOLVED
    order = align(*(model.points_[k][:, used] for k in pair), up_to="permutation+scaling").permutation
    assert order is not None
    units = [_row_units(model, k)[:, :, used] for k in pair]
    other = units[1][:, :, torch.as_tensor(order)]
    sign = torch.sign((units[0] * other).sum(dim=(0, 1)))  # of each latent, which differs between seeds
    mixed = (units[0] != 0).any(dim=0).sum(dim=1) > 1  # a row with one latent has nothing to cancel
    apart = (units[0] - other * sign)[:, mixed].square().sum(dim=2)
    return max(UNRESOLVED, WIDTH * float(apart.mean().sqrt())) if len(apart.flatten()) else UNRESOLVED


def _row_units(model: Estimator, k: int) -> Float[Tensor, "point observed latent"]:
    """Rows of the Jacobian in units of the latents' spread, each of length one."""
    points = model.points_of(k)
    few = points[: within(POINTS, model.n_features_in_, points.shape[1])]
    J = torch.cat(list(jacobians(model.models_[k].decode, few, model.n_features_in_))).double().cpu()
    J = J * points.std(dim=0).double().cpu()
    return J / J.norm(dim=2, keepdim=True).clamp_min(torch.finfo(J.dtype).tiny)
