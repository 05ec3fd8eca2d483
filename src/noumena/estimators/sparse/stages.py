"""Stage 1 of a degenerate mixture, and what can be said of a code without the truth.

Stage 1 takes observations to a code that should be an affine image of the latents; stage 2 unmixes the code. In nearly
affine worlds the observations are such a code already, so the identity is a stage 1 like any other, to be beaten.

Reference: Xu et al. (2026), eqs. (2) to (4), Appendix C and Table 2. The criterion ``code_density`` is the smooth
concave sparsity that ``SparseComponents`` minimises, with its barrier, read off a code.

Deviations of ``published_stage1``: rows are those given and not fresh ones; the learning rate runs through one cycle
below the published value; and the term ``½ E‖ẑ‖²`` is left out, for on a code that is standardised over the batch it is
the constant ``n/2``. (The published batch norm has a learned gain, which that term shrinks; both are affine.)
"""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass
from math import log
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float
from scipy.stats import norm
from sklearn.base import BaseEstimator, TransformerMixin, clone
from torch import Tensor, nn

from noumena.estimators.autoencoder import Autoencoder
from noumena.estimators.loop import Training
from noumena.nets import MLP

WIDTH = 0.1
"""Where the concave sparsity bends, in spreads of a latent."""
BARRIER = 0.3
"""Weight of the log-determinant that keeps latents apart."""
FLAT = 1e-6
"""Eigenvalues of a correlation matrix below this count as this."""
FEWEST = 30
"""Rows of a component below which its shape is not judged."""
ENOUGH = 0.95
"""Share of the identity's reconstruction that a nonlinear stage 1 must reach."""


# ---- what can be said of a code without the truth --------------------------------------------------------------


def code_density(z: Float[Tensor, "batch latent"]) -> Float[Tensor, ""]:
    """``mean log(1 + y²/ε²) / log(1 + 1/ε²) − 0.3·log|det W| / n`` for ``y`` the latents at unit spread.

    Near the share of active entries for a sparse code whose latents are uncorrelated, near 0.8 for a dense Gaussian
    one; ``|det W|² = det corr(z)`` punishes copies. Blind to permutations and to scales, but not to offsets: an
    inactive latent must be 0. Heavy tails look sparse.

    >>> spike = torch.tensor([[2.0, 0.0], [0.0, 2.0], [0.0, 0.0], [0.0, 0.0]])
    >>> dense = torch.tensor([[2.0, 2.0], [2.0, -2.0], [-2.0, 2.0], [-2.0, -2.0]])
    >>> code_density(spike).round(decimals=2), code_density(dense).round(decimals=2)
    (tensor(0.3500), tensor(1.))
    """
    spread = z.std(dim=0, correction=0)
    y = z / torch.where(spread > 0, spread, torch.ones_like(spread))
    sparsity = (1 + (y / WIDTH).square()).log().mean() / log(1 + 1 / WIDTH**2)
    centred = y - y.mean(dim=0)
    correlations = centred.T @ centred / len(y)
    return sparsity - BARRIER / 2 * torch.linalg.eigvalsh(correlations).clamp_min(FLAT).log().mean()


def active(z: Float[np.ndarray, "batch latent"], threshold: float) -> Bool[np.ndarray, "batch latent"]:
    """Which entries are not near zero: beyond ``threshold`` times the root mean square of their latent.

    >>> active(np.array([[3.0, 0.01], [0.0, -1.0]]), 0.1).tolist()
    [[True, False], [False, True]]
    """
    return np.abs(z) > threshold * np.sqrt((z**2).mean(axis=0))


def normality(z: Float[np.ndarray, "batch latent"], mask: Bool[np.ndarray, "batch latent"]) -> float:
    """How Gaussian active latents are within components, the rows with one mask: 1 if exactly so, less otherwise.

    The mean squared correlation of sorted values with normal quantiles, over the active latents of every component of
    at least 30 rows and weighted by them; ``nan`` when there is none. Blind to permutations and to scales.

    >>> z = norm.ppf((np.arange(100)[:, None] + 0.5) / 100)
    >>> normality(z, z != 0) > 0.999 > 0.8 > normality(np.exp(3 * z), z != 0)
    True
    """
    patterns, member = np.unique(mask, axis=0, return_inverse=True)
    total, rows = 0.0, 0
    for j, pattern in enumerate(patterns):
        values = np.sort(z[member.ravel() == j][:, pattern], axis=0)
        if len(values) >= FEWEST:
            quantiles = norm.ppf((np.arange(len(values)) + 0.5) / len(values))
            total += float((len(values) * _correlations(values, quantiles) ** 2).sum())
            rows += values.size // max(1, len(values)) * len(values)
    return total / rows if rows else float("nan")


def _correlations(columns: np.ndarray, with_this: np.ndarray) -> np.ndarray:
    columns = columns - columns.mean(axis=0)
    lengths = np.linalg.norm(columns, axis=0) * np.linalg.norm(with_this)
    return with_this @ columns / np.where(lengths > 0, lengths, 1)


@dataclass(frozen=True)
class Criteria:
    """What held-out rows say of a code; nothing here has seen the truth."""

    explained: float
    """R² of the observations rebuilt from the sparse code, column by column; ``nan`` if stage 1 cannot go back."""
    density: float
    """The sparsity objective, see ``code_density``; lower is better."""
    active: float
    """Share of entries that are not near zero."""
    normality: float
    """How Gaussian active latents are within components, see ``normality``."""


@dataclass(frozen=True)
class StageChoice:
    """Which stage 1 was chosen, in a sentence, and the numbers; a stage 1 that was not tried has none."""

    chosen: str
    reason: str
    identity: Criteria | None
    nonlinear: Criteria | None


def choose(identity: Criteria, nonlinear: Criteria, *, margin: float) -> StageChoice:
    """The nonlinear stage 1 if it rebuilds the data and its code is sparser by ``margin``; the identity otherwise.

    >>> print(choose(Criteria(1.0, 0.6, 0.7, 0.9), Criteria(0.9, 0.4, 0.5, 1.0), margin=0.02).reason)
    The identity: the nonlinear stage 1 must explain at least 0.95 of what the identity does, 0.950, and explains 0.900.
    """
    floor, limit = ENOUGH * identity.explained, identity.density - margin
    rebuilds, sparser = nonlinear.explained >= floor, nonlinear.density <= limit
    if not rebuilds:
        reason = (
            f"The identity: the nonlinear stage 1 must explain at least {ENOUGH} of what the identity does, "
            f"{floor:.3f}, and explains {nonlinear.explained:.3f}."
        )
    elif not sparser:
        reason = (
            f"The identity: the nonlinear stage 1 must give a code of density {limit:.3f} or less, {margin:g} "
            f"below the identity's, and gives {nonlinear.density:.3f}."
        )
    else:
        reason = (
            f"The nonlinear stage 1: its code has density {nonlinear.density:.3f}, at least {margin:g} below the "
            f"identity's {identity.density:.3f}, and it explains {nonlinear.explained:.3f} beside "
            f"{identity.explained:.3f}."
        )
    chosen = "nonlinear" if rebuilds and sparser else "identity"
    return StageChoice(chosen, reason, identity, nonlinear)


# ---- stage 1 ---------------------------------------------------------------------------------------------------


class Identity(TransformerMixin, BaseEstimator):
    """The observations as their own code."""

    def fit(self, X: Any, y: Any = None):
        """Learn nothing."""
        return self

    def __sklearn_is_fitted__(self) -> bool:
        return True

    def transform(self, X: Any) -> Any:
        """The code of observations: themselves."""
        return X

    def inverse_transform(self, X: Any) -> Any:
        """The observations of a code: itself."""
        return X

    @property
    def decoder_(self) -> nn.Module:
        """The map from code to observations, as a module."""
        return nn.Identity()


def published_stage1(n_latents: int, *, n_models: int = 1, device: str = "cpu", random_state: Any = 0) -> Autoencoder:
    """The published stage 1: ``50n, 100n, 100n, 50n`` hidden units each way, leaky 0.02, 5000 steps of 6144 rows.

    >>> published_stage1(2).encoder
    MLP(hidden=(100, 200, 200, 100), slope=0.02)
    """
    net = MLP(hidden=tuple(width * n_latents for width in (50, 100, 100, 50)), slope=0.02)
    training = Training(steps=5000, batch_size=6144, learning_rate=1e-4, device=device)
    return Autoencoder(
        n_latents,
        normalise=True,
        encoder=net,
        decoder=net,
        standardise=False,
        n_models=n_models,
        training=training,
        random_state=random_state,
    )


def affordable_stage1(n_latents: int, *, device: str = "cpu") -> Autoencoder:
    """An autoencoder with a standardised code that is trained in seconds."""
    training = Training(steps=1500, batch_size=512, learning_rate=3e-3, device=device)
    return Autoencoder(n_latents, normalise=True, training=training)


def fit_seeds(stage1: Any, x: np.ndarray, n_models: int, seed: int) -> list[Any]:
    """``n_models`` seeds of a stage 1 fitted to the same rows: in one program where it knows how, else one by one."""
    settings = stage1.get_params(deep=False)
    if "n_models" in settings:
        fitted = _fresh(stage1, n_models=n_models, random_state=seed).fit(x)
        if not hasattr(fitted, "transform_all"):
            return [fitted]  # it has chosen among its models
        if fitted.interrupted_:
            raise KeyboardInterrupt
        return [_with_best(fitted, k) for k in range(n_models) if not fitted.diverged_[k]]
    if "random_state" not in settings:
        return [_fresh(stage1).fit(x)]  # every seed is the same
    return [_fresh(stage1, random_state=seed + k).fit(x) for k in range(n_models)]


def _fresh(estimator: Any, **settings: Any) -> Any:
    """An unfitted copy with other settings."""
    copied: Any = clone(estimator)
    return copied.set_params(**settings)


def _with_best(fitted: Any, k: int) -> Any:
    """The same fitted estimator, using its k-th model."""
    view = copy(fitted)
    view.best_ = k
    return view
