"""Variational autoencoders with a Gaussian posterior, a standard normal prior and an optional bias.

Objective (minimised): ``‖x − f(z)‖² + β·KL + penalty(f, z)``, ``z`` drawn from the posterior, the squared error summed
over standardised observations; for images, ``likelihood="bernoulli"`` puts the cross-entropy in its place and the
penalty on the pixels, after the sigmoid. Reference: Zheng et al. (2026), Section 4, with ``α`` inside the penalty;
Kingma and Welling (2014), *Auto-encoding variational Bayes*, and Higgins et al. (2017), *beta-VAE*, for Bernoulli
pixels, where ``β = 1`` is the evidence bound. Deviations: ``β = 0.01`` (the paper has 0.05), against the *summed*
error, i.e. a decoder noise variance of β/2 per observation: a heavier KL term buys independence with dependencies, and
seeds then disagree on which.
"""

from __future__ import annotations

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from noumena import checks
from noumena.estimators.base import Builder, Codec, Estimator, network
from noumena.estimators.likelihoods import check, check_range, emitting, misfit, output
from noumena.estimators.loop import Training
from noumena.estimators.sources import Source
from noumena.penalties import Penalty

IN_USE = 0.01
"""A latent is in use when the posterior's mean varies by more than this over the rows."""


def kl_to_standard_normal(
    mean: Float[Tensor, "batch latent"], log_variance: Float[Tensor, "batch latent"]
) -> Float[Tensor, " batch"]:
    """``KL(N(m, v) ‖ N(0, 1))`` summed over latents; zero iff mean 0 and variance 1.

    >>> kl_to_standard_normal(torch.tensor([[2.0, 0.0]]), torch.zeros(1, 2))
    tensor([2.])
    """
    return 0.5 * (mean.square() + log_variance.exp() - 1 - log_variance).sum(dim=-1)


class VAEObjective(Codec):
    """``reconstruction + β·KL + penalty``; subclasses add to ``parts`` and ``weigh``.

    Under a Bernoulli likelihood ``decoder`` gives pixels: it ends in a sigmoid, behind the builder's network of logits.
    """

    def __init__(
        self,
        encoder: nn.Module,
        decoder: nn.Module,
        mean: Tensor,
        scale: Tensor,
        *,
        beta: float,
        likelihood: str = "normal",
    ):
        super().__init__(encoder, emitting(decoder, likelihood), mean, scale)
        self.beta, self.likelihood = beta, likelihood
        self.penalty: Penalty | None = None
        self.n_latents = 0

    def code(self, x: Tensor) -> Tensor:
        """The posterior's mean."""
        return self.encoder(x)[..., : self.n_latents]

    def draws(self, rows: int, generator: torch.Generator) -> dict[str, Tensor]:
        """Standard normal noise for the posterior, and the penalty's own draws."""
        noise = {"noise": torch.randn(rows, self.n_latents, generator=generator)}
        return noise | ({} if self.penalty is None else self.penalty.draws(rows, self.n_latents, generator))

    def posterior(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Mean and log-variance of the latents of standardised observations."""
        mean, log_variance = self.encoder(x).to(x.dtype).chunk(2, dim=-1)
        return mean, log_variance

    def draw(self, mean: Tensor, log_variance: Tensor, noise: Tensor) -> Tensor:
        """Latents from the posterior, by standard normal noise."""
        return mean + noise * (log_variance / 2).exp()

    def parts(
        self, x: Tensor, z: Tensor, posterior: tuple[Tensor, Tensor], draws: dict[str, Tensor]
    ) -> dict[str, Tensor]:
        """All terms but the penalty, of observations, latents drawn and the posterior they were drawn from."""
        mean, log_variance = posterior
        return {
            "reconstruction": misfit(output(self.decoder, z, self.likelihood), x, self.likelihood).mean(),
            "kl": kl_to_standard_normal(mean, log_variance).mean(),
            "active": (mean.var(dim=0, correction=0) > IN_USE).to(x).sum(),
        }

    def weigh(self, terms: dict[str, Tensor]) -> Tensor:
        """The loss without the penalty."""
        return terms["reconstruction"] + self.beta * terms["kl"]

    def forward(self, x: Tensor, draws: dict[str, Tensor], progress: float) -> tuple[Tensor, dict[str, Tensor]]:
        """Loss and terms on a batch of standardised observations."""
        posterior = self.posterior(x)
        z = self.draw(*posterior, draws["noise"])
        terms = self.parts(x, z, posterior, draws)
        loss = self.weigh(terms)
        if self.penalty is None:
            return loss, terms
        terms["penalty"] = self.penalty(self.decoder, z, progress, draws)
        return loss + terms["penalty"], terms


class VAE(Estimator):
    """A variational autoencoder; with ``0.05 * DependencySparsity()`` one whose latents can be certified.

    Parameters: ``n_latents``; ``penalty``; ``beta``, the weight of the KL term against the summed squared error;
    ``likelihood``, ``"normal"`` or ``"bernoulli"`` (for observations in [0, 1], such as pixels; needs
    ``standardise=False``, the decoder's outputs are logits, and the cross-entropy replaces the squared error);
    ``encoder`` and ``decoder`` are builders called with the numbers of inputs and outputs (an encoder is asked for
    twice the latents: mean and log-variance); ``standardise`` the observations; ``n_models`` seeds in one program;
    ``training``; ``random_state``.
    """

    _sparse_refit = True

    def __init__(
        self,
        n_latents: int = 2,
        *,
        penalty: Penalty | None = None,
        beta: float = 0.01,
        likelihood: str = "normal",
        encoder: Builder | None = None,
        decoder: Builder | None = None,
        standardise: bool = True,
        n_models: int = 1,
        training: Training | None = None,
        random_state: Any = None,
    ):
        self.n_latents = n_latents
        self.penalty = penalty
        self.beta = beta
        self.likelihood = likelihood
        self.encoder = encoder
        self.decoder = decoder
        self.standardise = standardise
        self.n_models = n_models
        self.training = training
        self.random_state = random_state

    def _check(self) -> None:
        super()._check()
        checks.number(self.beta, "beta", minimum=0)
        check(self.likelihood, self.standardise)

    def _source(self, x: Any) -> Source:
        source = super()._source(x)
        check_range(source, self.likelihood)
        return source

    def _build(self, n_observed: int, mean: Tensor, scale: Tensor) -> Codec:
        encoder = network(self.encoder, "encoder", n_observed, 2 * self.n_latents)
        decoder = network(self.decoder, "decoder", self.n_latents, n_observed)
        objective = VAEObjective(encoder, decoder, mean, scale, beta=self.beta, likelihood=self.likelihood)
        objective.penalty, objective.n_latents = self.penalty, self.n_latents
        return objective


class BetaVAE(VAE):
    """A VAE whose bias is a heavy KL term: the β-VAE, a baseline. Same parameters, ``beta = 1`` by default."""

    def __init__(
        self,
        n_latents: int = 2,
        *,
        penalty: Penalty | None = None,
        beta: float = 1.0,
        likelihood: str = "normal",
        encoder: Builder | None = None,
        decoder: Builder | None = None,
        standardise: bool = True,
        n_models: int = 1,
        training: Training | None = None,
        random_state: Any = None,
    ):
        super().__init__(
            n_latents,
            penalty=penalty,
            beta=beta,
            likelihood=likelihood,
            encoder=encoder,
            decoder=decoder,
            standardise=standardise,
            n_models=n_models,
            training=training,
            random_state=random_state,
        )
