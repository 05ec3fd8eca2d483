"""Residual convolutions of images given as flat rows, and an encoder that ends in them.

References
----------
Yang et al. (2024), "Diffusion model with cross attention as an inductive bias for disentanglement" (EncDiff), whose
encoder has four convolutions of 4 × 4 pixels at stride 2, two residual blocks and one linear layer.

Deviations: no batch normalisation, so that every row has a code of its own; Kaiming initialisation.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import Tensor, nn

from noumena import checks
from noumena.nets.conv import KERNEL, Convolutional, kaiming_normal

START = 0.1
"""Factor on the initial weights of the last layer of a residual block."""


def scaled_down(layer: nn.Module) -> nn.Module:
    """The layer with its weights kaiming_normal by ``START``, so that a residual block starts near the identity.

    >>> layer = nn.Conv2d(2, 2, 1)
    >>> before = layer.weight.detach().clone()
    >>> bool(torch.allclose(scaled_down(layer).weight, START * before))
    True
    """
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.mul_(START)
    return layer


def fitting(widths: tuple[int, ...], size: int) -> tuple[int, ...]:
    """The first of the widths, as many as halve a side evenly.

    >>> fitting((32, 32, 64, 64), 28), fitting((32, 32, 64, 64), 64)
    ((32, 32), (32, 32, 64, 64))
    """
    return tuple(width for k, width in enumerate(widths, start=1) if size % 2**k == 0)


class ResidualBlock(nn.Module):
    """``h + W₂ relu(W₁ relu(h))``: a convolution of 3 × 3 pixels, then one of a single pixel.

    >>> ResidualBlock(4)(torch.ones(2, 4, 3, 3)).shape
    torch.Size([2, 4, 3, 3])
    """

    def __init__(self, channels: int):
        super().__init__()
        self.inner = kaiming_normal(nn.Conv2d(channels, channels, 3, padding=1), slope=0.0)
        self.outer = scaled_down(kaiming_normal(nn.Conv2d(channels, channels, 1)))

    def forward(self, h: Tensor) -> Tensor:
        """The changed maps."""
        return h + self.outer(self.inner(h.relu()).relu())


@dataclass(frozen=True)
class ResidualEncoder:
    """Builder of a residual encoder of flat images: ``ResidualEncoder(3, 64)(12288, 20)``.

    Parameters
    ----------
    channels, size : int
        Channels and side of the images.
    widths : tuple of int
        Channels after every convolution; each halves the side.
    blocks : int
        Number of residual blocks.

    Examples
    --------
    >>> [tuple(p.shape) for p in ResidualEncoder(1, 8, widths=(5, 6), blocks=1)(64, 2).parameters()][::2]
    [(5, 1, 4, 4), (6, 5, 4, 4), (6, 6, 3, 3), (6, 6, 1, 1), (2, 24)]
    """

    channels: int = 3
    size: int = 64
    widths: tuple[int, ...] = (128, 128, 128, 128)
    blocks: int = 2

    def __post_init__(self) -> None:
        object.__setattr__(self, "widths", self.frame.widths)
        checks.count(self.blocks, "blocks", minimum=0)

    @property
    def frame(self) -> Convolutional:
        """The convolutions without what follows."""
        return Convolutional(self.channels, self.size, self.widths)

    def __call__(self, inputs: int, outputs: int) -> nn.Sequential:
        """The network, initialised from torch's global stream."""
        frame = self.frame
        frame.pixels(inputs, "inputs")
        checks.count(outputs, "outputs")
        convolutions = [nn.Conv2d(a, b, *KERNEL) for a, b in pairwise((self.channels, *self.widths))]
        residual = [ResidualBlock(self.widths[-1]) for _ in range(self.blocks)]
        linear = kaiming_normal(nn.Linear(self.widths[-1] * frame.side**2, outputs))
        return nn.Sequential(frame.image, *frame.activated(convolutions), *residual, nn.Flatten(), linear)
