"""QLAE: an autoencoder whose every latent can take a few values only.

The encoder's output ``h`` is replaced, latent by latent, by the nearest of that latent's own ``n_values`` values:
``z_j = argmin_{v ∈ V_j} |h_j − v|``. So few combinations reach the decoder that a value has to mean the same wherever
it occurs, and, under a strong weight decay, latents come to stand for factors. The gradient of the reconstruction
passes the rounding as if it were the identity (straight through) and so reaches the encoder, never the values; these
follow the encoder by ``quantise·(sg(h) − z)²`` and the encoder keeps to them by ``commit·(h − sg(z))²``. Objective
(minimised): ``misfit + d·(quantise·mean_j(sg(h) − z)² + commit·mean_j(h − sg(z))²) + penalty(f, z)``, ``d`` the number
of observations.

Reference: Hsu et al. (2023), *Disentanglement via latent quantization*, and its public code: 10 values on a grid from
−½ to ½ at the start, both weights 0.01 against the *mean* cross-entropy of pixels (hence ``d`` above: ours is summed),
a weight decay of 0.1 (``Training(weight_decay=0.1)``; none by default), twice as many latents as factors.
**Deviations**: the gradient passes straight through only between a latent's least and largest value, for beyond them
no move of ``h`` changes ``z``: unchecked, ``h`` runs off (on a table of six standardised observations with a fixed grid
to 30 times the grid's width), while here ``commit`` alone brings it back. Their decoder is style-based; ours is any
builder's. Weight decay acts on biases too, and draws the values, which they leave alone, back to the grid they started
from. They have no penalty; ours is taken at the quantised latents (of the pixels, under a Bernoulli likelihood) and,
where it needs a scale, asks for values that stay on the grid, ``learn_values=False``, for values that follow the
encoder grow with it and take the Jacobian down for nothing (sevenfold within 800 steps on such a table).
"""

from __future__ import annotations

from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from noumena import checks
from noumena.estimators.base import Builder, Codec, Estimator, need_scale, network
from noumena.estimators.likelihoods import check, check_range, emitting, misfit, output
from noumena.estimators.loop import Training
from noumena.estimators.sources import Source
from noumena.penalties import Penalty

REACH = 0.5
"""The grid of values runs from minus this to this."""


def nearest(h: Float[Tensor, "batch latent"], values: Float[Tensor, "latent value"]) -> Int[Tensor, "batch latent"]:
    """The index of the value nearest to each latent, the first of equally near ones; unchanged when latents and values
    move, or are scaled up, together.

    >>> nearest(torch.tensor([[0.2, 9.0]]), torch.tensor([[0.0, 1.0], [5.0, 8.0]]))
    tensor([[0, 1]])
    """
    return (h[..., None] - values).abs().argmin(dim=-1)


def quantised(h: Float[Tensor, "batch latent"], values: Float[Tensor, "latent value"]) -> Float[Tensor, "batch latent"]:
    """Each latent's nearest value; the identity iff every latent has one of its values.

    >>> quantised(torch.tensor([[0.2, 9.0]]), torch.tensor([[0.0, 1.0], [5.0, 8.0]]))
    tensor([[0., 8.]])
    """
    chosen = nearest(h, values)[..., None] == torch.arange(values.shape[-1], device=h.device)
    return (chosen * values).sum(dim=-1)  # a sum and no look-up: its gradient has one order of additions


def straight_through(h: Tensor, z: Tensor) -> Tensor:
    """The value of ``z`` with the gradient of ``h``.

    >>> h = torch.tensor(0.2, requires_grad=True)
    >>> z = straight_through(h, h.round())
    >>> z.item(), torch.autograd.grad(3 * z, h)[0].item()
    (0.0, 3.0)
    """
    return h + (z - h).detach()


class QLAEObjective(Codec):
    """``misfit + d·(quantise·mean (sg(h) − z)² + commit·mean (h − sg(z))²) + penalty``."""

    grid: Tensor

    def __init__(
        self,
        encoder: nn.Module,
        decoder: nn.Module,
        mean: Tensor,
        scale: Tensor,
        *,
        grid: Float[Tensor, "latent value"],
        learn_values: bool,
        likelihood: str,
    ):
        super().__init__(encoder, emitting(decoder, likelihood), mean, scale)
        self.likelihood = likelihood
        self.penalty: Penalty | None = None
        self.prices: dict[str, float] = {}
        self.register_buffer("grid", grid)
        self.shift = nn.Parameter(torch.zeros_like(grid)) if learn_values else None

    @property
    def values(self) -> Tensor:
        """Every latent's values, (latent, value)."""
        return self.grid if self.shift is None else self.grid + self.shift

    def code(self, x: Tensor) -> Tensor:
        """Quantised latents of standardised observations."""
        return quantised(self.encoder(x).to(x.dtype), self.values)

    def draws(self, rows: int, generator: torch.Generator) -> dict[str, Tensor]:
        """The penalty's own draws."""
        return {} if self.penalty is None else self.penalty.draws(rows, len(self.grid), generator)

    def forward(self, x: Tensor, draws: dict[str, Tensor], progress: float) -> tuple[Tensor, dict[str, Tensor]]:
        """Loss and terms on a batch of standardised observations."""
        h, values = self.encoder(x).to(x.dtype), self.values
        nearby = quantised(h, values)
        ends = values.detach().amin(dim=-1), values.detach().amax(dim=-1)
        z = straight_through(h.clamp(*ends), nearby)
        terms = {
            "reconstruction": misfit(output(self.decoder, z, self.likelihood), x, self.likelihood).mean(),
            "quantise": (h.detach() - nearby).square().mean(),
            "commit": (h - nearby.detach()).square().mean(),
            "active": (nearby.amax(dim=0) > nearby.amin(dim=0)).to(x).sum(),
        }
        prices = [price * x.shape[-1] * terms[name] for name, price in self.prices.items()]
        loss = terms["reconstruction"] + torch.stack(prices).sum()
        if self.penalty is None:
            return loss, terms
        terms["penalty"] = self.penalty(self.decoder, z, progress, draws)
        return loss + terms["penalty"], terms


class QLAE(Estimator):
    """A quantised-latent autoencoder: each latent takes one of a few values of its own.

    Parameters: ``n_latents``; ``n_values`` of each, on a grid from −½ to ½ at the start, and, with ``learn_values``,
    following the encoder from there; ``penalty`` on the decoder at the quantised latents (most need
    ``learn_values=False``, which fixes their scale); ``quantise``, the weight by which values follow the encoder, and
    ``commit``, by which the encoder keeps to them, both against the mean error of an observation; ``likelihood``,
    ``"normal"`` or ``"bernoulli"`` (for observations in [0, 1], such as pixels; needs ``standardise=False``, and the
    decoder's outputs are logits); ``encoder`` and ``decoder`` are builders called with the numbers of inputs and
    outputs; ``standardise`` the observations; ``n_models`` seeds in one program; ``training``, published with
    ``weight_decay=0.1``; ``random_state``. ``transform`` gives the quantised latents.
    """

    def __init__(
        self,
        n_latents: int = 2,
        *,
        n_values: int = 10,
        learn_values: bool = True,
        penalty: Penalty | None = None,
        quantise: float = 0.01,
        commit: float = 0.01,
        likelihood: str = "normal",
        encoder: Builder | None = None,
        decoder: Builder | None = None,
        standardise: bool = True,
        n_models: int = 1,
        training: Training | None = None,
        random_state: Any = None,
    ):
        self.n_latents = n_latents
        self.n_values = n_values
        self.learn_values = learn_values
        self.penalty = penalty
        self.quantise = quantise
        self.commit = commit
        self.likelihood = likelihood
        self.encoder = encoder
        self.decoder = decoder
        self.standardise = standardise
        self.n_models = n_models
        self.training = training
        self.random_state = random_state

    def _prices(self) -> dict[str, float]:
        return {"quantise": self.quantise, "commit": self.commit}

    def _check(self) -> None:
        super()._check()
        checks.count(self.n_values, "n_values", minimum=2)
        for name, price in self._prices().items():
            checks.number(price, name, minimum=0)
        check(self.likelihood, self.standardise)
        need_scale(self.penalty, not self.learn_values, "set learn_values=False, or use VAE")
        polish = 0 if self.training is None else self.training.polish
        checks.require(polish == 0, "polish must be 0, for its moves take latents off their values.", repr(polish))

    def _source(self, x: Any) -> Source:
        source = super()._source(x)
        check_range(source, self.likelihood)
        return source

    def _build(self, n_observed: int, mean: Tensor, scale: Tensor) -> Codec:
        objective = QLAEObjective(
            network(self.encoder, "encoder", n_observed, self.n_latents),
            network(self.decoder, "decoder", self.n_latents, n_observed),
            mean,
            scale,
            grid=torch.linspace(-REACH, REACH, self.n_values).repeat(self.n_latents, 1),
            learn_values=self.learn_values,
            likelihood=self.likelihood,
        )
        objective.penalty, objective.prices = self.penalty, self._prices()
        return objective
