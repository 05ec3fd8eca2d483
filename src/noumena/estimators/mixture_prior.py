"""Gaussian mixtures as priors of latents: their divergences, responsibilities, and one that is learned.

Reference: Jiang et al. (2017), *Variational deep embedding: an unsupervised and generative approach to clustering*
(VaDE), and Falck et al. (2021), *Multi-facet clustering variational autoencoders* for the best responsibilities.
Renamed: ``γ`` are responsibilities or shares.

**Deviations.** *The mixture has mean 0 and variance 1 in every latent.* Its frame is arbitrary (a decoder undoes any
affine map), and a penalty on derivatives is vacuous where latents may grow. *No cluster is a point*: the variance of a
cluster stays above ``FLOOR`` of the latent's own, by mixing that much of a standard normal's variance into it.
"""

from __future__ import annotations

import warnings
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Float
from sklearn.exceptions import ConvergenceWarning
from sklearn.mixture import GaussianMixture
from torch import Tensor, nn

from noumena.mixtures import Mixture

FLOOR = 1e-3
"""The least variance of a cluster, in units of the latent's own."""
RESTARTS = 5
"""Starts of the fit to codes, the likeliest of which is used."""


class MixtureParameters(NamedTuple):
    """A mixture of Gaussians with independent coordinates, as tensors: what the formulas below are about."""

    log_weights: Float[Tensor, " component"]
    means: Float[Tensor, "component latent"]
    log_variances: Float[Tensor, "component latent"]


# ---- formulas --------------------------------------------------------------------------------------------


def kl_to_components(
    mean: Float[Tensor, "batch latent"], log_variance: Float[Tensor, "batch latent"], law: MixtureParameters
) -> Float[Tensor, "batch component"]:
    """``KL(N(m, v) ‖ N(μ_c, σ²_c))`` of every row to every component; zero iff the two are equal.

    >>> law = MixtureParameters(torch.zeros(1), torch.tensor([[1.0, 0.0]]), torch.zeros(1, 2))
    >>> kl_to_components(torch.tensor([[3.0, 0.0]]), torch.zeros(1, 2), law)
    tensor([[2.]])
    """
    apart = (mean[:, None] - law.means).square() * (-law.log_variances).exp()
    gap = log_variance[:, None] - law.log_variances
    return 0.5 * (apart + gap.exp() - 1 - gap).sum(dim=-1)


def log_responsibilities(z: Float[Tensor, "batch latent"], law: MixtureParameters) -> Float[Tensor, "batch component"]:
    """``log p(c|z)``: whose point ``z`` is, by Bayes' rule; blind to a common factor of the densities.

    Halfway between two equal components it is either one's:

    >>> law = MixtureParameters(torch.tensor([0.5, 0.5]).log(), torch.tensor([[0.0], [2.0]]), torch.zeros(2, 1))
    >>> log_responsibilities(torch.tensor([[1.0]]), law).exp()
    tensor([[0.5000, 0.5000]])
    """
    apart = (z[:, None] - law.means).square() * (-law.log_variances).exp()
    return (law.log_weights - 0.5 * (apart + law.log_variances).sum(dim=-1)).log_softmax(dim=-1)


def best_log_responsibilities(
    kl: Float[Tensor, "batch component"], law: MixtureParameters
) -> Float[Tensor, "batch component"]:
    """The ``log q(c|x)`` for which ``kl_to_mixture`` is least, ``q(c|x) ∝ π_c·exp(−KL_c)``.

    >>> law = MixtureParameters(torch.tensor([0.5, 0.5]).log(), torch.zeros(2, 1), torch.zeros(2, 1))
    >>> best_log_responsibilities(torch.tensor([[0.0, 0.0]]), law).exp()
    tensor([[0.5000, 0.5000]])
    """
    return (law.log_weights - kl).log_softmax(dim=-1)


def kl_to_mixture(
    kl: Float[Tensor, "batch component"], log_shares: Float[Tensor, "batch component"], law: MixtureParameters
) -> Float[Tensor, " batch"]:
    """``KL(q(z|x) q(c|x) ‖ p(z, c)) = Σ_c γ_c·KL_c + KL(γ ‖ π)``: never below the divergence to the mixture itself.

    Equal to it where every row has one component; zero iff that component is the posterior and its weight one.

    >>> law = MixtureParameters(torch.tensor([0.5, 0.5]).log(), torch.zeros(2, 1), torch.zeros(2, 1))
    >>> kl_to_mixture(torch.tensor([[1.0, 3.0]]), law.log_weights[None], law)
    tensor([2.])
    """
    return (log_shares.exp() * (kl + log_shares - law.log_weights)).sum(dim=-1)


# ---- a mixture that is learned ---------------------------------------------------------------------------


class MixturePrior(nn.Module):
    """A learned mixture whose every coordinate has mean 0 and variance 1."""

    def __init__(self, n_latents: int, n_clusters: int):
        super().__init__()
        self.logits = nn.Parameter(torch.zeros(n_clusters))
        self.means = nn.Parameter(torch.randn(n_clusters, n_latents))
        self.log_variances = nn.Parameter(torch.zeros(n_clusters, n_latents))

    def forward(self) -> MixtureParameters:
        """The mixture as it stands."""
        log_weights = self.logits.log_softmax(dim=0)
        weights, variances = log_weights.exp()[:, None], self.log_variances.exp()
        centred = self.means - (weights * self.means).sum(dim=0)
        total = (weights * (variances + centred.square())).sum(dim=0)
        log_variances = (FLOOR + (1 - FLOOR) * variances / total).log()
        return MixtureParameters(log_weights, centred * ((1 - FLOOR) / total).sqrt(), log_variances)

    def start(self, codes: np.ndarray, seed: int) -> None:
        """Begin at a mixture fitted to codes of mean 0 and variance 1; a start, so one that still moves will do.

        Components are put in the order of their first means: restarts that tie differ in nothing but an order.
        """
        found: Any = GaussianMixture(
            len(self.logits), covariance_type="diag", reg_covar=FLOOR, n_init=RESTARTS, random_state=seed, tol=1e-4
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            found.fit(codes)
        order = np.argsort(found.means_[:, 0])
        weights, means, variances = (part[order] for part in (found.weights_, found.means_, found.covariances_))
        spare = ((variances - FLOOR) / (1 - FLOOR)).clip(1e-6)
        given = (np.log(weights), means / np.sqrt(1 - FLOOR), np.log(spare))
        with torch.no_grad():
            for parameter, value in zip((self.logits, self.means, self.log_variances), given, strict=True):
                parameter.copy_(torch.as_tensor(value))

    def mixture(self) -> Mixture:
        """The same in the words of the house."""
        with torch.no_grad():
            law = MixtureParameters(*(part.double().cpu() for part in self()))
        weights = law.log_weights.softmax(dim=0)
        covariances = torch.diag_embed(law.log_variances.exp())
        return Mixture(weights.numpy(), law.means.numpy(), covariances.numpy(), fitted=True)
