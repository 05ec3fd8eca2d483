"""A plain autoencoder: squared reconstruction error, summed over (standardised) observations."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

from noumena.estimators.base import Codec, need_scale
from noumena.estimators.encoder_decoder import EncoderDecoderModel
from noumena.penalties import Penalty


class AutoencoderObjective(Codec):
    """``‖x − f(h(x))‖²`` plus the penalty; latents are standardised over the batch on request."""

    centre: Tensor
    spread: Tensor
    settled = False
    """Whether latents are in the units of all training rows, and no longer in those of a batch."""

    def __init__(self, encoder: nn.Module, decoder: nn.Module, mean: Tensor, scale: Tensor, *, n_latents: int):
        super().__init__(encoder, decoder, mean, scale)
        self.penalty: Penalty | None = None
        self.normalise = False
        self.register_buffer("centre", torch.zeros(n_latents))
        self.register_buffer("spread", torch.ones(n_latents))

    def code(self, x: Tensor) -> Tensor:
        """Latents of standardised observations, by the statistics fixed after training."""
        return (self.encoder(x) - self.centre) / self.spread

    def settle(self, x: Tensor) -> None:
        """Fix the latents' mean and spread over all training rows."""
        if self.normalise:
            h = self.encoder(x)
            self.centre.copy_(h.mean(dim=0))
            self.spread.copy_(spread_of(h))
            self.settled = True

    def draws(self, rows: int, generator: torch.Generator) -> dict[str, Tensor]:
        """The penalty's own draws."""
        return {} if self.penalty is None else self.penalty.draws(rows, len(self.centre), generator)

    def forward(self, x: Tensor, draws: dict[str, Tensor], progress: float) -> tuple[Tensor, dict[str, Tensor]]:
        """Loss and terms on a batch of standardised observations."""
        h = self.encoder(x)
        units = (self.centre, self.spread) if self.settled else (h.mean(dim=0), spread_of(h))
        z = (h - units[0]) / units[1] if self.normalise else h
        reconstruction = (self.decoder(z) - x).square().sum(dim=-1).mean()
        if self.penalty is None:
            return reconstruction, {"reconstruction": reconstruction}
        penalty = self.penalty(self.decoder, z, progress, draws)
        return reconstruction + penalty, {"reconstruction": reconstruction, "penalty": penalty}


def spread_of(h: Tensor) -> Tensor:
    """The standard deviation of every latent over a batch, kept off zero."""
    return (h.var(dim=0, correction=0) + 1e-8).sqrt()


@dataclass(eq=False, repr=False, kw_only=True)
class Autoencoder(EncoderDecoderModel):
    """Encoder and decoder trained to reconstruct; without a penalty its latents mean nothing by themselves.

    Parameters
    ----------
    n_latents : int, default 2
        Number of latents.
    normalise : bool, default False
        Whether latents keep mean 0 and variance 1, as penalties need: otherwise the encoder escapes by rescaling.
    encoder, decoder : builder, optional
        Called with the numbers of inputs and outputs, such as ``MLP((64,))``.
    penalty, standardise, n_models, training, random_state : see ``Estimator``
        As in every ``Estimator``.

    Attributes
    ----------
    models_, best_, objectives_, terms_, explained_, structure_, decoder_, history_ : see ``Estimator``
        As in every ``Estimator``.

    Examples
    --------
    >>> import noumena as nm
    >>> x = torch.randn(60, 3, generator=torch.Generator().manual_seed(0))
    >>> nm.Autoencoder(2, training=nm.Training(steps=3), random_state=0).fit_transform(x).shape
    torch.Size([60, 2])
    """

    _sparse_refit = True

    n_latents: int = field(default=2, kw_only=False)
    normalise: bool = False

    def _check(self) -> None:
        super()._check()
        need_scale(self.penalty, self.normalise, "set normalise=True, or use VAE")

    def _build(self, n_observed: int, mean: Tensor, scale: Tensor) -> Codec:
        objective = AutoencoderObjective(*self._networks(n_observed), mean, scale, n_latents=self.n_latents)
        objective.penalty, objective.normalise = self.penalty, self.normalise
        return objective
