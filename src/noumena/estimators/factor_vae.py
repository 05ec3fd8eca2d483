"""FactorVAE: a variational autoencoder that pays for the total correlation of its latents, as an opponent sees it.

A discriminator learns to tell latents of a batch from latents whose every coordinate comes from another row; where it
cannot, latents are independent. The objective (minimised) is ``reconstruction + β·KL + γ·E[D₀(z) − D₁(z)] + penalty``,
``D₀ − D₁`` being the discriminator's estimate of ``log q(z) − log Π_j q(z_j)``.

Reference: Kim and Mnih (2018), *Disentangling by factorising*. **Deviations**: a batch is halved, the first half for
the autoencoder and the second to be permuted, so that ``batch_size`` is twice theirs; both networks move in one step,
the discriminator by latents of the autoencoder before it; one learning rate for both, on one cycle, by default. The
penalty acts on the decoder at latents of the first half.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.functional import softplus

from noumena import checks
from noumena.estimators.base import Builder, Codec, network
from noumena.estimators.descent import Pace, frozen
from noumena.estimators.parameters import number
from noumena.estimators.vae import VAE, VAEObjective
from noumena.nets import MLP

DISCRIMINATOR = MLP(hidden=(1000,) * 6, slope=0.2)
PACE = Pace(betas=(0.5, 0.9))
"""Of the discriminator."""


def permuted(z: Float[Tensor, "batch latent"], uniform: Float[Tensor, "batch latent"]) -> Float[Tensor, "batch latent"]:
    """Every latent's values in another order of the rows, as uniform numbers say; each column keeps its values.

    >>> permuted(torch.tensor([[1.0, 10.0], [2.0, 20.0]]), torch.tensor([[0.1, 0.9], [0.8, 0.2]]))
    tensor([[ 1., 20.],
            [ 2., 10.]])
    """
    return z.gather(0, uniform.argsort(dim=0))


def log_odds(logits: Float[Tensor, "batch 2"]) -> Float[Tensor, " batch"]:
    """``D₀ − D₁``: the log-odds that a row of latents belongs together; zero where the discriminator cannot tell.

    >>> log_odds(torch.tensor([[3.0, 1.0]]))
    tensor([2.])
    """
    return logits[..., 0] - logits[..., 1]


def mistaken(together: Float[Tensor, " batch"], apart: Float[Tensor, " batch"]) -> Float[Tensor, ""]:
    """The discriminator's cross-entropy in nats, by its log-odds on latents that belong together and on permuted ones;
    ``log 2`` where it cannot tell, near zero where it is right.

    >>> mistaken(torch.zeros(3), torch.zeros(3)), mistaken(torch.full((1,), 999.0), torch.full((1,), -999.0))
    (tensor(0.6931), tensor(0.))
    """
    return 0.5 * (softplus(-together).mean() + softplus(apart).mean())


class FactorVAEObjective(VAEObjective):
    """``reconstruction + β·KL + γ·total correlation + penalty``, and the discriminator's own loss."""

    paces = {"discriminator.": PACE}  # noqa: RUF012  # nothing writes to it
    players = 2

    def __init__(self, *networks: Any, gamma: float, discriminator: nn.Module, **how: Any):
        super().__init__(*networks, **how)
        self.gamma, self.discriminator = gamma, discriminator

    def draws(self, rows: int, generator: torch.Generator) -> dict[str, Tensor]:
        """Noise, uniform numbers to permute by, and the penalty's own draws."""
        order = torch.rand(rows, self.n_latents, generator=generator)
        return super().draws(rows, generator) | {"order": order}

    def forward(self, x: Tensor, draws: dict[str, Tensor], progress: float) -> tuple[Tensor, dict[str, Tensor]]:
        """Loss and terms on a batch of standardised observations, of which one half is permuted."""
        half = max(1, len(x) // 2)
        mean, log_variance = self.posterior(x)
        latents = self.draw(mean, log_variance, draws["noise"])
        z, others = latents[:half], latents[-half:].detach()
        first = {name: value[:half] for name, value in draws.items()}
        terms = self.parts(x[:half], z, (mean[:half], log_variance[:half]), first)
        terms["total correlation"] = log_odds(frozen(self.discriminator, z)).mean()
        apart = permuted(others, draws["order"][-half:])
        terms["adversary"] = mistaken(log_odds(self.discriminator(z.detach())), log_odds(self.discriminator(apart)))
        loss = self.weigh(terms) + self.gamma * terms["total correlation"] + terms["adversary"]
        if self.penalty is None:
            return loss, terms
        terms["penalty"] = self.penalty(self.decoder, z, progress, first)
        return loss + terms["penalty"], terms


@dataclass(eq=False, repr=False, kw_only=True)
class FactorVAE(VAE):
    """A VAE whose latents a discriminator should not tell from independent ones.

    Parameters
    ----------
    gamma : float, default 10.0
        Weight of the total correlation.
    beta : float, default 1.0
        Weight of the KL term.
    discriminator : builder, optional
        Called with the number of latents and 2; six layers of 1000 by default.
    n_latents, likelihood, encoder, decoder, penalty, standardise, n_models, training, random_state : see ``VAE``
        As in ``VAE``; a step's ``batch_size`` rows are halved between autoencoder and discriminator.

    Attributes
    ----------
    terms_ : dict of arrays
        Also ``total correlation``, as estimated, and ``adversary``, the discriminator's loss (log 2 at chance).

    References
    ----------
    Kim and Mnih (2018), *Disentangling by factorising*, https://arxiv.org/abs/1802.05983.

    Examples
    --------
    >>> FactorVAE(3, gamma=35.0)
    FactorVAE(gamma=35.0, n_latents=3)
    """

    beta: float = number(1.0, minimum=0)
    gamma: float = number(10.0, minimum=0)
    discriminator: Builder | None = None

    def _check(self) -> None:
        super()._check()
        within = None if self.training is None else self.training.within
        must = "within must be None where an opponent estimates a part of the loss."
        checks.require(within is None, must, repr(within))

    def _build(self, n_observed: int, mean: Tensor, scale: Tensor) -> Codec:
        networks = self._networks(n_observed, posterior=True)
        builder = DISCRIMINATOR if self.discriminator is None else self.discriminator
        discriminator = network(builder, "discriminator", self.n_latents, 2)
        how = {"beta": self.beta, "likelihood": self.likelihood, "gamma": self.gamma, "discriminator": discriminator}
        objective = FactorVAEObjective(*networks, mean, scale, **how)
        objective.penalty, objective.n_latents = self.penalty, self.n_latents
        return objective
