"""Codec: an objective with an encoder and a decoder, in the units of the data on either side."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import torch
from torch import Tensor, nn

from noumena.estimators.loop import Objective


class Codec(Objective):
    """An objective with an encoder and a decoder, and the standardisation of observations around them."""

    mean: Tensor
    scale: Tensor
    _in_double: tuple[Any, Codec] | None = None
    """A copy in double precision, and the state that it is a copy of; it is neither copied nor pickled."""

    def __init__(self, encoder: nn.Module, decoder: nn.Module, mean: Tensor, scale: Tensor):
        super().__init__()
        self.encoder, self.decoder = encoder, decoder
        self.register_buffer("mean", mean)
        self.register_buffer("scale", scale)

    def code(self, x: Tensor) -> Tensor:
        """Latents of standardised observations."""
        return self.encoder(x)

    def encode(self, x: Tensor) -> Tensor:
        """Latents of observations in their own units."""
        return self.code((x - self.mean) / self.scale)

    def decode(self, z: Tensor) -> Tensor:
        """Observations, in their own units, of latents."""
        return self.decoder(z) * self.scale + self.mean

    def settle(self, x: Tensor) -> None:
        """Fix what depends on all (standardised) training rows, once training is over."""

    def in_precision(self, dtype: torch.dtype | None) -> Codec:
        """The codec for rows of that precision: itself, or in double precision a copy, which is made once and anew
        where weights have changed since."""
        state = (*self.parameters(), *self.buffers())
        if dtype != torch.float64 or all(value.dtype == dtype for value in state if value.is_floating_point()):
            return self
        version = [(value.data_ptr(), 0 if value.is_inference() else value._version) for value in state]
        if self._in_double is None or self._in_double[0] != (version, self.training):
            with torch.inference_mode(False):
                self._in_double = (version, self.training), deepcopy(self).double()
        return self._in_double[1]

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "_in_double"}


class Decoder(nn.Module):
    """The decoder of a codec as a module of its own: ``z ↦ x`` in the units of the data."""

    def __init__(self, codec: Codec):
        super().__init__()
        self.codec = codec

    def forward(self, z: Tensor) -> Tensor:
        """Observations of latents."""
        return self.codec.decode(z)


@torch.no_grad()
def explained(model: Any, x: Tensor) -> float:
    """The share of the variance of standardised rows, all columns together, that a model's reconstructions have, R²; 0
    where rows do not vary."""
    x = x.to(model.mean)
    observed = x[:, : len(model.mean)]  # labels may stand beside observations
    missed = observed - (model.decode(model.code(x)) - model.mean) / model.scale
    spread = (observed - observed.mean(dim=0)).square().sum()
    return float(1 - missed.square().sum() / spread) if spread > 0 else 0.0
