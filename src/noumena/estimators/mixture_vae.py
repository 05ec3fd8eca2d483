"""Variational autoencoders whose latents follow a Gaussian mixture: clusters, and a law that can be certified.

Model: cluster ``c ~ π``, ``z | c ~ N(μ_c, diag σ²_c)``, ``x = f(z)`` with noise. Objective (minimised), per row:
``‖x − f(z)‖² + β·(Σ_c γ_c·KL(q(z|x) ‖ N_c) + KL(γ ‖ π)) + penalty(f, z)``, ``γ_c = q(c|x) = p(c|z)`` at the one ``z``
that is drawn from the posterior. First an autoencoder is trained by the same loop, then scikit-learn's
``GaussianMixture`` is fitted to its codes, and from there the whole objective is minimised.

Reference: Jiang et al. (2017), *Variational deep embedding: an unsupervised and generative approach to clustering*
(VaDE); Kivva et al. (2022). Renamed: ``γ`` are ``responsibilities``; ``β/2`` is the noise variance of an observation,
as in ``VAE``.

**Deviations.** The mixture has mean 0 and variance 1 in every latent, and no cluster's variance falls below a floor
(see ``mixture_prior``); with one cluster the model is therefore the ``VAE``. Pre-training keeps the codes at mean 0
and variance 1 over a batch and learns the posterior's variance along, by the ``VAE``'s objective, where the paper has
stacked autoencoders without noise: a variance that was never trained would blur the clusters in the first steps after.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch
from sklearn.utils.validation import check_is_fitted
from torch import Tensor, nn

from noumena import checks, seeds
from noumena.estimators.base import Codec
from noumena.estimators.encoder_decoder import LikelihoodModel
from noumena.estimators.fit_data import FitData
from noumena.estimators.likelihoods import check_range, emitting, misfit, output
from noumena.estimators.loop import Training, train
from noumena.estimators.mixture_prior import (
    MixtureParameters,
    MixturePrior,
    best_log_responsibilities,
    kl_to_components,
    kl_to_mixture,
    log_responsibilities,
)
from noumena.estimators.parameters import count, must_be, number
from noumena.estimators.sources import Numbers, Source
from noumena.estimators.vae import IN_USE, kl_to_standard_normal
from noumena.mixtures import Mixture
from noumena.penalties import Penalty

MOST_ROWS = 20_000
"""Codes that the first mixture is fitted to."""
BETA = 0.01
"""Weight of the KL term where none is given: a noise variance of 0.005; of a Bernoulli likelihood it is 1."""


class MixtureObjective(Codec):
    """``reconstruction + β·KL + penalty``, the latents in consecutive facets, each with a mixture of its own."""

    centre: Tensor
    spread: Tensor
    beta = 0.01
    penalty: Penalty | None = None
    pretraining = False

    def __init__(
        self,
        encoder: nn.Module,
        decoder: nn.Module,
        mean: Tensor,
        scale: Tensor,
        *,
        facets: tuple[tuple[int, int], ...],
        likelihood: str = "gaussian",
    ):
        super().__init__(encoder, emitting(decoder, likelihood), mean, scale)
        self.likelihood = likelihood
        self.sizes = [latents for latents, _ in facets]
        self.n_latents = sum(self.sizes)
        self.priors = nn.ModuleList(MixturePrior(*facet) for facet in facets)
        self.register_buffer("centre", torch.zeros(self.n_latents))
        self.register_buffer("spread", torch.ones(self.n_latents))

    def code(self, x: Tensor) -> Tensor:
        """The posterior's mean."""
        return self.posterior(x)[0]

    def posterior(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Mean and log-variance of the latents of standardised observations."""
        h, log_variance = self.encoder(x).chunk(2, dim=-1)
        if self.pretraining:
            return (h - h.mean(dim=0)) / _spread(h), log_variance
        return (h - self.centre) / self.spread, log_variance

    def log_shares(self, x: Tensor) -> list[Tensor]:
        """``log q(c|x)`` of standardised observations in every facet, by the posterior alone."""
        split = (part.split(self.sizes, dim=-1) for part in self.posterior(x))
        laws = [prior() for prior in self.priors]
        return [
            best_log_responsibilities(kl_to_components(mean, log_variance, law), law)
            for law, mean, log_variance in zip(laws, *split, strict=True)
        ]

    def share(self, x: Tensor) -> Tensor:
        """``q(c|x)`` of observations in their own units, one facet after the other."""
        return torch.cat(self.log_shares((x - self.mean) / self.scale), dim=-1).exp()

    def draws(self, rows: int, generator: torch.Generator) -> dict[str, Tensor]:
        """Standard normal noise for the posterior, and the penalty's own draws."""
        noise = {"noise": torch.randn(rows, self.n_latents, generator=generator)}
        return noise | ({} if self.penalty is None else self.penalty.draws(rows, self.n_latents, generator))

    def responsible(self, kl: Tensor, z: Tensor, law: MixtureParameters) -> Tensor:
        """``log q(c|x)`` that the objective uses: ``log p(c|z)`` at the point drawn."""
        return log_responsibilities(z, law)

    def kl(self, mean: Tensor, log_variance: Tensor, z: Tensor) -> list[Tensor]:
        """Every facet's divergence, a value per row; in pre-training that to a standard normal."""
        split = (part.split(self.sizes, dim=-1) for part in (mean, log_variance, z))
        found = []
        for prior, m, v, drawn in zip(self.priors, *split, strict=True):
            if self.pretraining:
                found.append(kl_to_standard_normal(m, v))
                continue
            law = prior()
            apart = kl_to_components(m, v, law)
            found.append(kl_to_mixture(apart, self.responsible(apart, drawn, law), law))
        return found

    def gates(self, progress: float) -> list[float]:
        """How far every facet is switched on."""
        return [1.0] * len(self.sizes)

    def forward(self, x: Tensor, draws: dict[str, Tensor], progress: float) -> tuple[Tensor, dict[str, Tensor]]:
        """Loss and terms on a batch of standardised observations."""
        mean, log_variance = self.posterior(x)
        z = mean + draws["noise"] * (log_variance / 2).exp()
        gates = self.gates(progress)
        gated = z * torch.cat([z.new_full((n,), g) for n, g in zip(self.sizes, gates, strict=True)])
        kl = self.kl(mean, log_variance, z)
        terms = {
            "reconstruction": misfit(output(self.decoder, gated, self.likelihood), x, self.likelihood).mean(),
            "kl": torch.stack([gate * part.mean() for gate, part in zip(gates, kl, strict=True)]).sum(),
            "active": (mean.var(dim=0, correction=0) > IN_USE).to(x).sum(),
        }
        loss = terms["reconstruction"] + self.beta * terms["kl"]
        if self.penalty is None or self.pretraining:
            return loss, terms
        terms["penalty"] = self.penalty(self.decoder, gated, progress, draws)
        return loss + terms["penalty"], terms

    def begin(self, x: Tensor, seed: int) -> None:
        """After pre-training: fix the unit of the codes, and start every prior at a mixture fitted to them."""
        with torch.no_grad():
            h = self.encoder(x)[..., : self.n_latents]
            self.centre.copy_(h.mean(dim=0))
            self.spread.copy_(_spread(h))
            codes = self.code(x).split(self.sizes, dim=-1)
        for j, (prior, code) in enumerate(zip(self.priors, codes, strict=True)):
            random = seeds.seed_of(seeds.numpy_generator(seed, "mixture", j))
            prior.start(code.double().cpu().numpy(), random)  # type: ignore[operator]


def _spread(h: Tensor) -> Tensor:
    return (h.var(dim=0, correction=0) + 1e-8).sqrt()


# ---- the estimators --------------------------------------------------------------------------------------


@dataclass(eq=False, repr=False, kw_only=True)
class MixtureVAE(LikelihoodModel):
    """What estimators with mixture priors share; subclasses say which facets there are."""

    beta: float | None = number(None, minimum=0)
    pretraining: int = count(1000, minimum=0)

    def _facets(self) -> tuple[tuple[int, int], ...]:
        raise NotImplementedError

    def _objective(self, *parts: Any, **how: Any) -> MixtureObjective:
        return MixtureObjective(*parts, **how)

    def _check(self) -> None:
        super()._check()
        polish = 0 if self.training is None else self.training.polish
        checks.require(polish == 0, "polish must be 0, for its moves mix the coordinates of a cluster.", repr(polish))

    def _source(self, x: Any) -> Source:
        if self.likelihood == "gaussian":
            return super()._source(x)
        source = Numbers(checks.table(x, "x", min_rows=2))  # bytes too are probabilities as they are
        check_range(source, self.likelihood)
        return source

    def _build(self, n_observed: int, mean: Tensor, scale: Tensor) -> Codec:
        networks = self._networks(n_observed, posterior=True)
        objective = self._objective(*networks, mean, scale, facets=self._facets(), likelihood=self.likelihood)
        objective.penalty = self.penalty
        objective.beta = (1.0 if self.likelihood == "bernoulli" else BETA) if self.beta is None else self.beta
        return objective

    def _adopt(self, models: list[Codec], rows: FitData, training: Training, bound: float | None) -> None:
        if self.pretraining > 0:
            self._begin(models, rows, training.changed(suffix="pretraining", steps=self.pretraining))
        super()._adopt(models, rows, training, bound)

    def _begin(self, models: list[Any], rows: FitData, training: Training) -> None:
        """The first stage: autoencoders, and mixtures fitted to their codes."""
        most = max(clusters for _, clusters in self._facets())
        given = f"{len(rows.train)} rows to train on and {most} clusters"
        checks.require(len(rows.train) >= most, "x must have at least as many rows as clusters.", given)
        for model in models:
            model.pretraining = True
        if train(list(models), self.seeds_, rows, training).interrupted:
            raise KeyboardInterrupt
        for model, seed in zip(models, self.seeds_, strict=True):
            model.pretraining = False
            model.begin(rows.train[:MOST_ROWS], seed)


@dataclass(eq=False, repr=False, kw_only=True)
class VaDE(MixtureVAE):
    """A variational autoencoder that clusters: its prior is a Gaussian mixture, learned with it.

    Parameters
    ----------
    n_latents : int, default 2
        Number of latents.
    n_clusters : int, default 3
        Components of the prior; one is the ``VAE``.
    beta : float, optional
        Weight of the KL term; 0.01 against squared errors and 1 against a Bernoulli likelihood by default.
    pretraining : int, default 1000
        Steps as an autoencoder, after which a mixture is fitted to the codes; 0 begins with a random mixture.
    likelihood : {"gaussian", "bernoulli"}
        Squared error, or cross-entropy of rows in [0, 1] with ``standardise=False`` and logits from the decoder.
    encoder, decoder : builder, optional
        Called with the numbers of inputs and outputs; an encoder gives mean and log-variance.
    penalty, standardise, n_models, training, random_state : see ``Estimator``
        As in every ``Estimator``.

    Attributes
    ----------
    mixture_ : Mixture
        Prior of the best model; ``mixture_of(k)`` is that of another.
    models_, best_, objectives_, terms_, explained_, structure_, decoder_, history_ : see ``Estimator``
        As in every ``Estimator``.

    References
    ----------
    Jiang, Zheng, Tan, Tang and Zhou (2017), *Variational deep embedding: an unsupervised and generative approach to
    clustering*, https://arxiv.org/abs/1611.05148.

    Examples
    --------
    >>> import noumena as nm
    >>> x = torch.randn(60, 3, generator=torch.Generator().manual_seed(0))
    >>> model = nm.VaDE(2, 3, pretraining=2, training=nm.Training(steps=3), random_state=0).fit(x)
    >>> model.responsibilities(x).shape, model.mixture_.weights.shape
    (torch.Size([60, 3]), (3,))
    """

    n_latents: int = field(default=2, kw_only=False, metadata=must_be(checks.count))
    n_clusters: int = field(default=3, kw_only=False, metadata=must_be(checks.count))

    def _facets(self) -> tuple[tuple[int, int], ...]:
        return ((self.n_latents, self.n_clusters),)

    @property
    def mixture_(self) -> Mixture:
        """The law of the best model's latents."""
        check_is_fitted(self)
        return self.mixture_of(self.best_)

    def mixture_of(self, k: int) -> Mixture:
        """The law of the k-th model's latents."""
        check_is_fitted(self)
        return self.models_[k].priors[0].mixture()  # type: ignore[index, operator]

    def responsibilities(self, x: Any) -> Any:
        """``q(c|x)`` of the best model, (batch, cluster): how much of every row belongs to every cluster."""
        check_is_fitted(self)
        return self._through(x, "share", self.best_)

    def predict(self, X: Any) -> Any:
        """The cluster of every row."""
        return self.responsibilities(X).argmax(1)
