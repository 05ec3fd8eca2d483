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

from dataclasses import dataclass, field

import torch
from jaxtyping import Float
from torch import Tensor, nn

from noumena.estimators.base import Codec
from noumena.estimators.encoder_decoder import LikelihoodModel
from noumena.estimators.likelihoods import emitting, misfit, output
from noumena.estimators.parameters import number
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
        likelihood: str = "gaussian",
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


@dataclass(eq=False, repr=False, kw_only=True)
class VAE(LikelihoodModel):
    """A variational autoencoder; with ``0.05 * DependencySparsity()`` one whose latents can be certified.

    Parameters
    ----------
    n_latents : int, default 2
        Number of latents.
    beta : float, default 0.01
        Weight of the KL term against the summed squared error.
    likelihood : {"gaussian", "bernoulli"}
        Squared error, or cross-entropy of rows in [0, 1] with ``standardise=False`` and logits from the decoder.
    encoder, decoder : builder, optional
        Called with the numbers of inputs and outputs; an encoder gives mean and log-variance.
    penalty, standardise, n_models, training, random_state : see ``Estimator``
        As in every ``Estimator``.

    Attributes
    ----------
    models_, best_, objectives_, terms_, explained_, structure_, decoder_, history_ : see ``Estimator``
        As in every ``Estimator``; ``terms_`` has ``reconstruction``, ``kl`` and the number of ``active`` latents.

    References
    ----------
    Kingma and Welling (2014), *Auto-encoding variational Bayes*, https://arxiv.org/abs/1312.6114.

    Examples
    --------
    >>> import noumena as nm
    >>> x = torch.randn(60, 3, generator=torch.Generator().manual_seed(0))
    >>> model = nm.VAE(2, training=nm.Training(steps=3), random_state=0).fit(x)
    >>> model.transform(x).shape, sorted(model.terms_)
    (torch.Size([60, 2]), ['active', 'kl', 'reconstruction'])
    """

    _sparse_refit = True

    n_latents: int = field(default=2, kw_only=False)
    beta: float = number(0.01, minimum=0)

    def _build(self, n_observed: int, mean: Tensor, scale: Tensor) -> Codec:
        networks = self._networks(n_observed, posterior=True)
        objective = VAEObjective(*networks, mean, scale, beta=self.beta, likelihood=self.likelihood)
        objective.penalty, objective.n_latents = self.penalty, self.n_latents
        return objective


@dataclass(eq=False, repr=False, kw_only=True)
class BetaVAE(VAE):
    """A VAE whose bias is a heavy KL term: the β-VAE, a baseline.

    Parameters
    ----------
    beta : float, default 1.0
        Weight of the KL term against the summed squared error.
    n_latents, likelihood, encoder, decoder, penalty, standardise, n_models, training, random_state : see ``VAE``
        As in ``VAE``.

    References
    ----------
    Higgins et al. (2017), *beta-VAE: learning basic visual concepts with a constrained variational framework*,
    https://openreview.net/forum?id=Sy2fzU9gl.

    Examples
    --------
    >>> BetaVAE(3, beta=4.0)
    BetaVAE(beta=4.0, n_latents=3)
    """

    beta: float = number(1.0, minimum=0)
