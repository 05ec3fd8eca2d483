"""An autoencoder under biological constraints: latents that are not negative, and little activity and weight.

Objective (minimised): ``‖x − f(z)‖² + energy·‖z‖² + weight·‖W‖² + negativity·Σ max(−z, 0) + penalty(f, z)``, in the
mean over rows; ``W`` are the matrices and kernels of encoder and decoder, without their biases. When factors vary
independently, the cheapest non-negative code of them gives each factor latents of its own. For images,
``likelihood="bernoulli"`` puts the cross-entropy in place of the squared error and the penalty on the pixels.

**What fixes the scale under a penalty.** Energy makes growing latents dear, and with them a smaller Jacobian; weights
make shrinking latents dear, and with them a smaller ``|z|``, for the decoder must grow. A penalty ``p/c`` at latents
``c`` times as large and their energy ``a·c²`` are least at ``∝ p^⅔·a^⅓``: rescaling softens the penalty, but less of it
stays better. So a penalty that needs a scale is taken where both prices are above zero, and refused otherwise. Measured
on a table of six observations, ``0.3 * DependencySparsity()`` widens latents sevenfold at the default prices, and
thirtyfold, growing for as long as one trains, without energy.

Reference: Whittington et al. (2023), *Disentanglement with biological constraints*. Renamed: their ``β_activity`` is
``energy``. **Deviations**: non-negativity is a penalty rather than a ReLU (they use either), so that a latent that is
negative at all rows still gets a gradient; latents may therefore be slightly negative. The squared error is summed over
observations and the activity over latents. They have no penalty.
"""

from __future__ import annotations

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from noumena import checks
from noumena.estimators.base import Builder, Codec, Estimator, need_scale, network
from noumena.estimators.likelihoods import check, check_range, emitting, misfit, output
from noumena.estimators.loop import Training
from noumena.estimators.sources import Source
from noumena.penalties import Penalty


def activity(z: Float[Tensor, "batch latent"]) -> Float[Tensor, " batch"]:
    """``‖z‖²`` of every row; zero iff every latent is silent, unchanged by rotations.

    >>> activity(torch.tensor([[3.0, 4.0]]))
    tensor([25.])
    """
    return z.square().sum(dim=-1)


def negativity(z: Float[Tensor, "batch latent"]) -> Float[Tensor, " batch"]:
    """``Σ_j max(−z_j, 0)`` of every row; zero iff no latent is negative, unchanged by permutations.

    >>> negativity(torch.tensor([[3.0, -4.0, -1.0]]))
    tensor([5.])
    """
    return (-z).clamp_min(0).sum(dim=-1)


def squared_weights(*networks: nn.Module) -> Float[Tensor, ""]:
    """``‖W‖²`` over all matrices and kernels of the networks; biases are free, so a constant map costs nothing.

    >>> line = nn.Linear(2, 1)
    >>> with torch.no_grad(): _ = line.weight.copy_(torch.tensor([[3.0, 4.0]]))
    >>> squared_weights(line).item()
    25.0
    """
    return torch.stack([w.square().sum() for net in networks for w in net.parameters() if w.ndim > 1]).sum()


class BioObjective(Codec):
    """``reconstruction + energy·‖z‖² + weight·‖W‖² + negativity·Σ max(−z, 0) + penalty``."""

    def __init__(
        self,
        encoder: nn.Module,
        decoder: nn.Module,
        mean: Tensor,
        scale: Tensor,
        *,
        prices: dict[str, float],
        likelihood: str,
    ):
        super().__init__(encoder, emitting(decoder, likelihood), mean, scale)
        self.prices, self.likelihood = prices, likelihood
        self.penalty: Penalty | None = None
        self.n_latents = 0

    def draws(self, rows: int, generator: torch.Generator) -> dict[str, Tensor]:
        """The penalty's own draws."""
        return {} if self.penalty is None else self.penalty.draws(rows, self.n_latents, generator)

    def forward(self, x: Tensor, draws: dict[str, Tensor], progress: float) -> tuple[Tensor, dict[str, Tensor]]:
        """Loss and terms on a batch of standardised observations."""
        z = self.encoder(x).to(x.dtype)
        terms = {
            "reconstruction": misfit(output(self.decoder, z, self.likelihood), x, self.likelihood).mean(),
            "energy": activity(z).mean(),
            "weight": squared_weights(self.encoder, self.decoder),
            "negativity": negativity(z).mean(),
        }
        loss = terms["reconstruction"] + sum(price * terms[name] for name, price in self.prices.items())
        if self.penalty is None:
            return loss, terms
        terms["penalty"] = self.penalty(self.decoder, z, progress, draws)
        return loss + terms["penalty"], terms


class BioAE(Estimator):
    """An autoencoder whose latents are not negative and cost energy, a baseline.

    Parameters: ``n_latents``; ``penalty`` (most need ``energy`` and ``weight`` above zero, which fix the latents' scale
    between them); the prices ``energy`` of the latents' activity, ``weight`` of squared weights and ``negativity`` of
    what is below zero, all against the summed squared error; ``likelihood``, ``"normal"`` or ``"bernoulli"`` (for
    observations in [0, 1], such as pixels; needs ``standardise=False``, and the decoder's outputs are logits);
    ``encoder`` and ``decoder`` are builders called with the numbers of inputs and outputs; ``standardise`` the
    observations; ``n_models`` seeds in one program; ``training``; ``random_state``.
    """

    def __init__(
        self,
        n_latents: int = 2,
        *,
        penalty: Penalty | None = None,
        energy: float = 0.01,
        weight: float = 0.001,
        negativity: float = 1.0,
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
        self.energy = energy
        self.weight = weight
        self.negativity = negativity
        self.likelihood = likelihood
        self.encoder = encoder
        self.decoder = decoder
        self.standardise = standardise
        self.n_models = n_models
        self.training = training
        self.random_state = random_state

    def _prices(self) -> dict[str, float]:
        return {name: getattr(self, name) for name in ("energy", "weight", "negativity")}

    def _check(self) -> None:
        super()._check()
        for name, price in self._prices().items():
            checks.number(price, name, minimum=0)
        check(self.likelihood, self.standardise)
        need_scale(self.penalty, self.energy > 0 and self.weight > 0, "give both energy and weight a price above 0")

    def _source(self, x: Any) -> Source:
        source = super()._source(x)
        check_range(source, self.likelihood)
        return source

    def _build(self, n_observed: int, mean: Tensor, scale: Tensor) -> Codec:
        encoder = network(self.encoder, "encoder", n_observed, self.n_latents)
        decoder = network(self.decoder, "decoder", self.n_latents, n_observed)
        objective = BioObjective(encoder, decoder, mean, scale, prices=self._prices(), likelihood=self.likelihood)
        objective.penalty, objective.n_latents = self.penalty, self.n_latents
        return objective
