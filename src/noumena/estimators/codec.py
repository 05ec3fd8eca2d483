"""Codec: an objective with an encoder and a decoder, in the units of the data on either side."""

from __future__ import annotations

from torch import Tensor, nn

from noumena.estimators.loop import Objective


class Codec(Objective):
    """An objective with an encoder and a decoder, and the standardisation of observations around them."""

    mean: Tensor
    scale: Tensor

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


class Decoder(nn.Module):
    """The decoder of a codec as a module of its own: ``z ↦ x`` in the units of the data."""

    def __init__(self, codec: Codec):
        super().__init__()
        self.codec = codec

    def forward(self, z: Tensor) -> Tensor:
        """Observations of latents."""
        return self.codec.decode(z)
