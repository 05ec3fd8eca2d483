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

from dataclasses import dataclass, field
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from noumena.estimators.base import Codec, need_scale
from noumena.estimators.encoder_decoder import LikelihoodModel
from noumena.estimators.likelihoods import emitting, misfit, output
from noumena.estimators.parameters import number
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


@dataclass(eq=False, repr=False, kw_only=True)
class BioAE(LikelihoodModel):
    """An autoencoder whose latents are not negative and cost energy, a baseline.

    Parameters
    ----------
    n_latents : int, default 2
        Number of latents.
    energy, weight, negativity : float
        Prices of activity, of squared weights and of what is below zero, against the summed squared error.
    likelihood : {"gaussian", "bernoulli"}
        Squared error, or cross-entropy of rows in [0, 1] with ``standardise=False`` and logits from the decoder.
    encoder, decoder : builder, optional
        Called with the numbers of inputs and outputs, such as ``MLP((64,))``.
    penalty, standardise, n_models, training, random_state : see ``Estimator``
        As in every ``Estimator``.
        Most penalties need ``energy`` and ``weight`` above zero, which fix the latents' scale between them.

    Attributes
    ----------
    models_, best_, objectives_, terms_, explained_, structure_, decoder_, history_ : see ``Estimator``
        As in every ``Estimator``.

    References
    ----------
    Whittington, Dorrell, Ganguli and Behrens (2023), *Disentanglement with biological constraints: a theory of
    functional cell types*, https://arxiv.org/abs/2210.01768.

    Examples
    --------
    >>> BioAE(3, energy=0.1)
    BioAE(energy=0.1, n_latents=3)
    """

    n_latents: int = field(default=2, kw_only=False)
    energy: float = number(0.01, minimum=0)
    weight: float = number(0.001, minimum=0)
    negativity: float = number(1.0, minimum=0)

    def _prices(self) -> dict[str, float]:
        return {name: getattr(self, name) for name in ("energy", "weight", "negativity")}

    def _check(self) -> None:
        super()._check()
        need_scale(self.penalty, self.energy > 0 and self.weight > 0, "give both energy and weight a price above 0")

    def _build(self, n_observed: int, mean: Tensor, scale: Tensor) -> Codec:
        how: dict[str, Any] = {"prices": self._prices(), "likelihood": self.likelihood}
        objective = BioObjective(*self._networks(n_observed), mean, scale, **how)
        objective.penalty, objective.n_latents = self.penalty, self.n_latents
        return objective
