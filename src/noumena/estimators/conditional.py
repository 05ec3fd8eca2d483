"""A variational autoencoder that is told a label or other variables ``u`` of every row: the iVAE, a baseline.

Model: ``z | u ~ N(μ(u), diag σ²(u))``, ``x = f(z)`` with noise. Given ``u`` the latents are independent and their law
changes with it, which is what identifies them. Objective (minimised), per row:
``‖x − f(z)‖² + β·KL(q(z|x) ‖ p(z|u)) + penalty(f, z)``, ``z`` drawn from the posterior. Models are trained on the
columns ``[x | u]``, ``u`` as indicators of its labels or standardised.

Reference: Khemakhem et al. (2020), *Variational autoencoders and nonlinear ICA: a unifying framework* (iVAE). Renamed:
``λ(u)`` are the mean and log-variance of the prior; ``β/2`` is the noise variance of an observation, as in ``VAE``.

**Deviations.** The encoder sees ``x`` alone, so that ``transform(x)`` needs no ``u``: where ``f`` is injective and
noise small, ``x`` says all about ``z`` that there is. ``encode_u=True`` is the published encoder, ``q(z|x, u)``, and
makes ``u`` part of ``transform``. The prior's mean depends on ``u`` as well as its variance. Log-variances are bounded
by ``WIDEST`` either way, smoothly. Nothing fixes the scale of the latents, so penalties that need one are refused.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float
from sklearn.utils.validation import check_is_fitted
from torch import Tensor, nn

from noumena import checks, seeds
from noumena.adopt.networks import default_torch_state
from noumena.estimators.base import Builder, Codec, need_scale, network
from noumena.estimators.encoder_decoder import EncoderDecoderModel
from noumena.estimators.parameters import number
from noumena.estimators.vae import IN_USE
from noumena.nets import MLP
from noumena.penalties import Penalty

WIDEST = 8.0
"""Bound of the prior's log-variances, either way."""


def kl_between_normals(
    mean: Float[Tensor, "batch latent"],
    log_variance: Float[Tensor, "batch latent"],
    prior_mean: Float[Tensor, "batch latent"],
    prior_log_variance: Float[Tensor, "batch latent"],
) -> Float[Tensor, " batch"]:
    """``KL(N(m, v) ‖ N(μ, σ²))`` summed over latents; zero iff the two are equal, blind to a common shift.

    >>> kl_between_normals(torch.tensor([[3.0]]), torch.zeros(1, 1), torch.ones(1, 1), torch.zeros(1, 1))
    tensor([2.])
    """
    gap = log_variance - prior_log_variance
    apart = (mean - prior_mean).square() * (-prior_log_variance).exp()
    return 0.5 * (apart + gap.exp() - 1 - gap).sum(dim=-1)


class ConditionalObjective(Codec):
    """``reconstruction + β·KL + penalty`` on rows ``[x | u]``."""

    beta = 0.01
    penalty: Penalty | None = None
    encode_u = False

    def __init__(
        self, encoder: nn.Module, decoder: nn.Module, prior: nn.Module, mean: Tensor, scale: Tensor, *, n_latents: int
    ):
        super().__init__(encoder, decoder, mean, scale)
        self.prior, self.n_latents = prior, n_latents

    def code(self, x: Tensor) -> Tensor:
        """The posterior's mean of standardised rows ``[x | u]``, or of ``x`` alone where the encoder takes no more."""
        return self._encoded(x)[..., : self.n_latents]

    def encode(self, x: Tensor) -> Tensor:
        """The same of rows whose observations are in their own units."""
        return self.code(self.standardised(x))

    def standardised(self, x: Tensor) -> Tensor:
        """Rows ``[x | u]`` with their observations standardised."""
        observed, u = x[..., : len(self.mean)], x[..., len(self.mean) :]
        return torch.cat([(observed - self.mean) / self.scale, u], dim=-1)

    def _encoded(self, x: Tensor) -> Tensor:
        return self.encoder(x if self.encode_u else x[..., : len(self.mean)])

    def draws(self, rows: int, generator: torch.Generator) -> dict[str, Tensor]:
        """Standard normal noise for the posterior, and the penalty's own draws."""
        noise = {"noise": torch.randn(rows, self.n_latents, generator=generator)}
        return noise | ({} if self.penalty is None else self.penalty.draws(rows, self.n_latents, generator))

    def forward(self, x: Tensor, draws: dict[str, Tensor], progress: float) -> tuple[Tensor, dict[str, Tensor]]:
        """Loss and terms on a batch of standardised rows ``[x | u]``."""
        observed, u = x[..., : len(self.mean)], x[..., len(self.mean) :]
        mean, log_variance = self._encoded(x).chunk(2, dim=-1)
        prior_mean, width = self.prior(u).chunk(2, dim=-1)
        z = mean + draws["noise"] * (log_variance / 2).exp()
        terms = {
            "reconstruction": (self.decoder(z) - observed).square().sum(dim=-1).mean(),
            "kl": kl_between_normals(mean, log_variance, prior_mean, WIDEST * (width / WIDEST).tanh()).mean(),
            "active": (mean.var(dim=0, correction=0) > IN_USE * log_variance.exp().mean(dim=0)).to(x).sum(),
        }
        loss = terms["reconstruction"] + self.beta * terms["kl"]
        if self.penalty is not None:
            terms["penalty"] = self.penalty(self.decoder, z, progress, draws)
            loss = loss + terms["penalty"]
        return loss, terms


@dataclass(eq=False, repr=False, kw_only=True)
class iVAE(EncoderDecoderModel):
    """A variational autoencoder whose prior depends on ``u``: ``fit(x, u)``.

    ``u`` is a vector of labels, numbers or names, or a table (batch, dim) of other variables.

    Parameters
    ----------
    n_latents : int, default 2
        Number of latents.
    encode_u : bool, default False
        Whether the encoder sees ``u`` too (as published), which ``transform(x, u)`` then needs.
    beta : float, default 0.01
        Weight of the KL term against the summed squared error.
    prior : builder, optional
        Mean and log-variance of the latents given ``u``: a table of labels, or an MLP of other variables.
    encoder, decoder : builder, optional
        Called with the numbers of inputs and outputs; an encoder gives mean and log-variance.
    penalty, standardise, n_models, training, random_state : see ``Estimator``
        As in every ``Estimator``.

    Attributes
    ----------
    labels_ : list or None
        Labels in the order of the prior's table.
    auxiliary_ : list or None
        Mean and spread of every other variable.
    models_, best_, objectives_, terms_, explained_, structure_, decoder_, history_ : see ``Estimator``
        As in every ``Estimator``.

    References
    ----------
    Khemakhem, Kingma, Monti and Hyvärinen (2020), *Variational autoencoders and nonlinear ICA: a unifying framework*,
    https://arxiv.org/abs/1907.04809.

    Examples
    --------
    >>> import noumena as nm
    >>> x = np.random.default_rng(0).normal(size=(60, 3))
    >>> model = nm.iVAE(2, training=nm.Training(steps=3), random_state=0).fit(x, x[:, 0] > 0)
    >>> model.transform(x).shape, model.labels_
    ((60, 2), [False, True])
    """

    n_latents: int = field(default=2, kw_only=False)
    encode_u: bool = False
    beta: float = number(0.01, minimum=0)
    prior: Builder | None = None

    labels_: list[Any] | None = field(init=False)
    auxiliary_: list[list[float]] | None = field(init=False)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        return tags

    def fit(self, X: Any, y: Any = None):
        """Train ``n_models`` seeds on ``X`` (batch, observed) and its ``u``, given as ``y``, and keep the best."""
        return super().fit(X, y)

    def transform(self, X: Any, u: Any = None) -> Any:
        """Latents ``ẑ`` of the best model; ``u`` is needed, and used, only with ``encode_u=True``."""
        check_is_fitted(self)
        return self._seen(X, u, self.best_)

    def transform_all(self, x: Any, u: Any = None) -> np.ndarray:
        """Latents of every model, (model, batch, latent)."""
        check_is_fitted(self)
        return np.stack([np.asarray(self._seen(x, u, k)) for k in range(len(self.models_))])

    def fit_transform(self, X: Any, y: Any = None, **fit_params: Any) -> Any:
        """The latents of the rows of a fit, which come with their ``u``."""
        return self.fit(X, y, **fit_params).transform(X, y if self.encode_u else None)

    @default_torch_state()
    def score(self, X: Any, y: Any = None) -> float:
        """Minus the objective of the best model on ``X`` and its ``u``: higher is better."""
        check_is_fitted(self)
        _, rows, model = self._read(X, self.best_)
        rows = self._joined(rows, y)
        draws = {k: v.to(rows) for k, v in model.draws(len(rows), seeds.generator(0, "held-out draws")).items()}
        with torch.no_grad():
            return -float(model(model.standardised(rows), draws, 1.0)[0])  # type: ignore[operator]

    # ---- inside ------------------------------------------------------------------------------------------

    def _check(self) -> None:
        super()._check()
        need_scale(self.penalty, False, "use VAE or VaDE, whose latents have a fixed one")

    def _build(self, n_observed: int, mean: Tensor, scale: Tensor) -> Codec:
        known = self.labels_ if self.auxiliary_ is None else self.auxiliary_
        n_auxiliary, n_outputs = len(known or ()), 2 * self.n_latents
        encoder = network(self.encoder, "encoder", n_observed + n_auxiliary * bool(self.encode_u), n_outputs)
        decoder = network(self.decoder, "decoder", self.n_latents, n_observed)
        default = MLP(hidden=()) if self.auxiliary_ is None else MLP()
        prior = network(self.prior or default, "prior", n_auxiliary, n_outputs)
        objective = ConditionalObjective(encoder, decoder, prior, mean, scale, n_latents=self.n_latents)
        objective.beta, objective.penalty, objective.encode_u = self.beta, self.penalty, bool(self.encode_u)
        return objective

    def _beside(self, y: Any, rows: int) -> np.ndarray:
        """Learn what ``u`` is made of; its columns."""
        u = _plain(y, rows)
        self.labels_ = self.auxiliary_ = None
        if u.ndim == 1:
            labels = np.unique(u)
            few = 2 * len(labels) <= rows
            given = f"{len(labels)} labels in {rows} rows; give a table (batch, 1) for a continuous variable"
            checks.require(few, "A vector u must hold labels that repeat.", given)
            self.labels_ = labels.tolist()
        else:
            checks.table(u, "u", varying=True)
            self.auxiliary_ = np.stack([u.mean(axis=0), u.std(axis=0)], axis=1).tolist()
        return self._columns(u)

    def _columns(self, u: np.ndarray) -> np.ndarray:
        """``u`` as the models see it: indicators of the labels, or standardised variables."""
        if self.auxiliary_ is None:
            checks.require(u.ndim == 1, "u must be a vector of labels, as in fit.", f"shape {u.shape}")
            unknown = sorted(set(u.tolist()) - set(self.labels_ or ()), key=str)
            checks.require(not unknown, f"u must hold labels that fit has seen, {self.labels_}.", f"{unknown}")
            return (u[:, None] == np.array(self.labels_)).astype(np.float64)
        right = u.ndim == 2 and u.shape[1] == len(self.auxiliary_)
        checks.require(right, f"u must be a table of {len(self.auxiliary_)} columns, as in fit.", f"shape {u.shape}")
        mean, spread = np.array(self.auxiliary_).T
        return (u - mean) / spread

    def _joined(self, rows: Tensor, u: Any) -> Tensor:
        """Rows ``[x | u]``."""
        return torch.cat([rows, torch.as_tensor(self._columns(_plain(u, len(rows)))).to(rows)], dim=1)

    def _seen(self, x: Any, u: Any, k: int) -> Any:
        """Latents of the k-th model."""
        source, rows, model = self._read(x, k)
        with torch.no_grad():
            return source.as_given(model.encode(self._joined(rows, u) if self.encode_u else rows))


def _plain(u: Any, rows: int) -> np.ndarray:
    """``u`` as an array of one or two axes with as many rows as the observations."""
    must = "u must come with x here: iVAE requires y to be passed, but the target y is None."
    checks.require(u is not None, must, "x alone")
    array = u.detach().cpu().numpy() if isinstance(u, Tensor) else np.asarray(u)
    axes = array.ndim in (1, 2)
    checks.require(axes, "u must be a vector of labels or a table (batch, dim).", f"shape {array.shape}")
    checks.require(len(array) == rows, f"u must have {rows} rows, as many as x.", f"{len(array)}")
    if array.ndim == 2:
        return checks.table(array, "u")
    must = "Labels u must be finite numbers or names."
    checks.require(array.dtype.kind in "biufUO", must, f"dtype {array.dtype}; turn them into text")
    missing = not np.isfinite(array).all() if array.dtype.kind == "f" else bool(np.asarray(pd.isna(array)).any())
    checks.require(not missing, must, "a missing or infinite entry")
    return array.astype(str) if array.dtype.kind == "O" else array
