"""An autoencoder under biological constraints: latents that are not negative, and little activity and weight.

Objective (minimised): ``‖x − f(z)‖² + energy·‖z‖² + weight·‖W‖² + negativity·Σ max(−z, 0)``, in the mean over rows;
``W`` are the matrices and kernels of encoder and decoder, without their biases. When factors vary independently, the
cheapest non-negative code of them gives each factor latents of its own.

Reference: Whittington et al. (2023), *Disentanglement with biological constraints*. Renamed: their ``β_activity`` is
``energy``. **Deviations**: non-negativity is a penalty rather than a ReLU (they use either), so that a latent that is
negative at all rows still gets a gradient; latents may therefore be slightly negative. The squared error is summed over
observations and the activity over latents.
"""

from __future__ import annotations

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from noumena import checks
from noumena.estimators.estimator import Builder, Codec, Estimator, network
from noumena.estimators.training import Training


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
    """``reconstruction + energy·‖z‖² + weight·‖W‖² + negativity·Σ max(−z, 0)``."""

    def __init__(
        self, encoder: nn.Module, decoder: nn.Module, mean: Tensor, scale: Tensor, *, prices: dict[str, float]
    ):
        super().__init__(encoder, decoder, mean, scale)
        self.prices = prices

    def forward(self, x: Tensor, draws: dict[str, Tensor], progress: float) -> tuple[Tensor, dict[str, Tensor]]:
        """Loss and terms on a batch of standardised observations."""
        z = self.encoder(x)
        terms = {
            "reconstruction": (self.decoder(z) - x).square().sum(dim=-1).mean(),
            "energy": activity(z).mean(),
            "weight": squared_weights(self.encoder, self.decoder),
            "negativity": negativity(z).mean(),
        }
        return terms["reconstruction"] + sum(price * terms[name] for name, price in self.prices.items()), terms


class BioAE(Estimator):
    """An autoencoder whose latents are not negative and cost energy, a baseline.

    Parameters: ``n_latents``; the prices ``energy`` of the latents' activity, ``weight`` of squared weights and
    ``negativity`` of what is below zero, all against the summed squared error; ``encoder`` and ``decoder`` are builders
    called with the numbers of inputs and outputs; ``standardise`` the observations; ``n_models`` seeds in one program;
    ``training``; ``random_state``. It takes no penalty.
    """

    penalty = None

    def __init__(
        self,
        n_latents: int = 2,
        *,
        energy: float = 0.01,
        weight: float = 0.001,
        negativity: float = 1.0,
        encoder: Builder | None = None,
        decoder: Builder | None = None,
        standardise: bool = True,
        n_models: int = 1,
        training: Training | None = None,
        random_state: Any = None,
    ):
        self.n_latents = n_latents
        self.energy = energy
        self.weight = weight
        self.negativity = negativity
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

    def _build(self, n_observed: int, mean: Tensor, scale: Tensor) -> Codec:
        encoder = network(self.encoder, "encoder", n_observed, self.n_latents)
        decoder = network(self.decoder, "decoder", self.n_latents, n_observed)
        return BioObjective(encoder, decoder, mean, scale, prices=self._prices())
