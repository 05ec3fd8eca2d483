"""β-TCVAE: a variational autoencoder that pays extra for the total correlation of its latents.

The mean KL term falls into three: what latents tell about the row (mutual information), how far they depend on each
other (total correlation), and how far each alone is from the prior (dimension-wise KL). The objective (minimised) is
``‖x − f(z)‖² + kl·(mutual information + dimension-wise KL) + β·total correlation``.

Reference: Chen et al. (2018), *Isolating sources of disentanglement in VAEs*. Renamed: their ``α = γ`` is ``kl``.
**Deviations**: the aggregate posterior ``q(z)`` is the mean over the batch; minibatch-weighted sampling divides it once
more by the number of rows of the data, a constant that changes no gradient and moves the estimate of the total
correlation by ``(latents − 1)·log(rows)``. The sum of the three terms is the KL term in closed form rather than its
sample, so that ``β = kl`` is the VAE itself. The squared error is summed over observations, as in ``VAE``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from noumena.estimators.base import Codec
from noumena.estimators.parameters import number
from noumena.estimators.vae import VAE, VAEObjective

AT_ONCE = 512
"""Rows that stand for the aggregate posterior at once; a longer batch is taken in parts, for pairs are formed."""


@dataclass(frozen=True)
class Decomposed:
    """The three parts of the KL term at every row; their sum is ``log q(z|x) − log p(z)``."""

    mutual_information: Float[Tensor, " batch"]
    total_correlation: Float[Tensor, " batch"]
    dimension_wise: Float[Tensor, " batch"]


def log_normal(z: Tensor, mean: Tensor, log_variance: Tensor) -> Tensor:
    """``log N(z; m, v)`` entry by entry; highest at ``z = m``, unchanged when both move together.

    >>> log_normal(torch.tensor(3.0), torch.tensor(1.0), torch.tensor(0.0))
    tensor(-2.9189)
    """
    return -0.5 * ((z - mean).square() * (-log_variance).exp() + log_variance + math.log(2 * math.pi))


def decomposed_kl(
    z: Float[Tensor, "batch latent"], mean: Float[Tensor, "batch latent"], log_variance: Float[Tensor, "batch latent"]
) -> Decomposed:
    """The KL term's parts at draws ``z`` from a batch of posteriors, ``q(z)`` being their mean over the batch; in the
    mean over rows the total correlation is zero iff the batch's latents are independent, and keeps under scalings.

    Two rows far apart in both of two latents depend on each other by one bit, ``log 2``; one more bit tells the row:

    >>> ends = torch.tensor([[0.0, 0.0], [99.0, 99.0]])
    >>> found = decomposed_kl(ends, ends, torch.zeros(2, 2))
    >>> found.total_correlation, found.mutual_information
    (tensor([0.6931, 0.6931]), tensor([0.6931, 0.6931]))
    """
    parts = zip(*(t.split(AT_ONCE) for t in (z, mean, log_variance)), strict=True)
    joint, alone = (torch.cat(found) for found in zip(*(_aggregate(*part) for part in parts), strict=True))
    own = log_normal(z, mean, log_variance).sum(dim=-1)
    prior = log_normal(z, torch.zeros_like(z), torch.zeros_like(z)).sum(dim=-1)
    return Decomposed(own - joint, joint - alone, alone - prior)  # eq. (2)


def _aggregate(z: Tensor, mean: Tensor, log_variance: Tensor) -> tuple[Tensor, Tensor]:
    """``log q(z)`` and ``Σ_j log q(z_j)`` at every row."""
    pairs = log_normal(z[:, None], mean[None], log_variance[None])
    rows = math.log(len(z))
    return torch.logsumexp(pairs.sum(dim=-1), dim=1) - rows, (torch.logsumexp(pairs, dim=1) - rows).sum(dim=-1)


class TCVAEObjective(VAEObjective):
    """``reconstruction + kl·KL + (β − kl)·total correlation + penalty``."""

    kl = 0.0

    def parts(
        self, x: Tensor, z: Tensor, posterior: tuple[Tensor, Tensor], draws: dict[str, Tensor]
    ) -> dict[str, Tensor]:
        """The VAE's terms and the three parts of its KL term."""
        found = decomposed_kl(z, *posterior)
        return super().parts(x, z, posterior, draws) | {
            "mutual information": found.mutual_information.mean(),
            "total correlation": found.total_correlation.mean(),
            "dimension-wise kl": found.dimension_wise.mean(),
        }

    def weigh(self, terms: dict[str, Tensor]) -> Tensor:
        """The loss without the penalty."""
        return terms["reconstruction"] + self.kl * terms["kl"] + (self.beta - self.kl) * terms["total correlation"]


@dataclass(eq=False, repr=False, kw_only=True)
class BetaTCVAE(VAE):
    """A β-TCVAE, a baseline: latents are pressed to be independent of each other.

    Parameters
    ----------
    beta : float, default 1.0
        Weight of the total correlation against the summed squared error.
    kl : float, default 0.1
        Weight of the rest of the KL term; the same as ``beta`` is a ``VAE``.
    n_latents, likelihood, encoder, decoder, penalty, standardise, n_models, training, random_state : see ``VAE``
        As in ``VAE``.

    Attributes
    ----------
    terms_ : dict of arrays
        Also the three parts of the KL term: ``mutual information``, ``total correlation``, ``dimension-wise kl``.

    References
    ----------
    Chen, Li, Grosse and Duvenaud (2018), *Isolating sources of disentanglement in variational autoencoders*,
    https://arxiv.org/abs/1802.04942.

    Examples
    --------
    >>> BetaTCVAE(3, beta=6.0)
    BetaTCVAE(beta=6.0, n_latents=3)
    """

    beta: float = number(1.0, minimum=0)
    kl: float = number(0.1, minimum=0)

    def _build(self, n_observed: int, mean: Tensor, scale: Tensor) -> Codec:
        networks = self._networks(n_observed, posterior=True)
        objective = TCVAEObjective(*networks, mean, scale, beta=self.beta, likelihood=self.likelihood)
        objective.penalty, objective.n_latents, objective.kl = self.penalty, self.n_latents, self.kl
        return objective
