"""Residual convolutions of images given as flat rows, and an encoder that ends in them.

Reference: the encoder of Yang et al. (2024), *Diffusion model with cross attention as an inductive bias for
disentanglement* (EncDiff), four convolutions of 4 × 4 pixels at stride 2, two residual blocks and one linear layer.
**Deviations**: no batch normalisation, so that every row has a code of its own; weights start at a size that keeps that
of what they pass.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import Tensor, nn

from noumena import checks
from noumena.nets.conv import KERNEL, Convolutional, scaled

START = 0.1
"""The share of its usual size at which the last layer of a residual block starts."""


def hushed(layer: nn.Module) -> nn.Module:
    """The layer at a small part of its size, so that a residual block starts near the identity.

    >>> layer = nn.Conv2d(2, 2, 1)
    >>> before = layer.weight.detach().clone()
    >>> bool(torch.allclose(hushed(layer).weight, START * before))
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


class Residual(nn.Module):
    """``h + W₂ relu(W₁ relu(h))``: a convolution of 3 × 3 pixels, then one of a single pixel.

    >>> Residual(4)(torch.ones(2, 4, 3, 3)).shape
    torch.Size([2, 4, 3, 3])
    """

    def __init__(self, channels: int):
        super().__init__()
        self.inner = scaled(nn.Conv2d(channels, channels, 3, padding=1), slope=0.0)
        self.outer = hushed(scaled(nn.Conv2d(channels, channels, 1)))

    def forward(self, h: Tensor) -> Tensor:
        """The changed maps."""
        return h + self.outer(self.inner(h.relu()).relu())


@dataclass(frozen=True)
class ResidualEncoder:
    """A builder: ``ResidualEncoder(3, 64)(12288, 20)`` sends flat images to 20 numbers.

    Parameters: the images' ``channels`` and side ``size``; ``widths``, channels after every convolution, each of which
    halves the side; ``blocks``, the number of residual blocks.

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
        image = nn.Unflatten(1, (self.channels, self.size, self.size))
        convolutions = [nn.Conv2d(a, b, *KERNEL) for a, b in pairwise((self.channels, *self.widths))]
        residual = [Residual(self.widths[-1]) for _ in range(self.blocks)]
        linear = scaled(nn.Linear(self.widths[-1] * frame.side**2, outputs))
        return nn.Sequential(image, *frame.bend(convolutions), *residual, nn.Flatten(), linear)
