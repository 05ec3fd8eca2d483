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

from dataclasses import dataclass, field

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from noumena import checks
from noumena.estimators.base import Codec, need_scale
from noumena.estimators.encoder_decoder import LikelihoodModel
from noumena.estimators.likelihoods import emitting, misfit, output
from noumena.estimators.parameters import count, number
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


@dataclass(eq=False, repr=False, kw_only=True)
class QLAE(LikelihoodModel):
    """A quantised-latent autoencoder: each latent takes one of a few values of its own.

    Parameters
    ----------
    n_latents : int, default 2
        Number of latents, which ``transform`` gives quantised.
    n_values : int, default 10
        Values of each latent, at the start on a grid from −½ to ½.
    learn_values : bool, default True
        Whether values follow the encoder; most penalties need ``False``, which fixes the latents' scale.
    quantise, commit : float
        Weights by which values follow the encoder and the encoder keeps to them, against the mean squared error.
    likelihood : {"gaussian", "bernoulli"}
        Squared error, or cross-entropy of rows in [0, 1] with ``standardise=False`` and logits from the decoder.
    encoder, decoder : builder, optional
        Called with the numbers of inputs and outputs, such as ``MLP((64,))``.
    penalty, standardise, n_models, training, random_state : see ``Estimator``
        As in every ``Estimator``.
        Published with ``Training(weight_decay=0.1)``.

    Attributes
    ----------
    models_, best_, objectives_, terms_, explained_, structure_, decoder_, history_ : see ``Estimator``
        As in every ``Estimator``.

    References
    ----------
    Hsu, Dorrell, Whittington, Wu and Finn (2023), *Disentanglement via latent quantization*,
    https://arxiv.org/abs/2305.18378.

    Examples
    --------
    >>> QLAE(3, n_values=4)
    QLAE(n_latents=3, n_values=4)
    """

    n_latents: int = field(default=2, kw_only=False)
    n_values: int = count(10, minimum=2)
    learn_values: bool = True
    quantise: float = number(0.01, minimum=0)
    commit: float = number(0.01, minimum=0)

    def _prices(self) -> dict[str, float]:
        return {"quantise": self.quantise, "commit": self.commit}

    def _check(self) -> None:
        super()._check()
        need_scale(self.penalty, not self.learn_values, "set learn_values=False, or use VAE")
        polish = 0 if self.training is None else self.training.polish
        checks.require(polish == 0, "polish must be 0, for its moves take latents off their values.", repr(polish))

    def _build(self, n_observed: int, mean: Tensor, scale: Tensor) -> Codec:
        objective = QLAEObjective(
            *self._networks(n_observed),
            mean,
            scale,
            grid=torch.linspace(-REACH, REACH, self.n_values).repeat(self.n_latents, 1),
            learn_values=self.learn_values,
            likelihood=self.likelihood,
        )
        objective.penalty, objective.prices = self.penalty, self._prices()
        return objective
