"""Convolutional networks that pool: max-pooling, and spatial softmax.

A row is an image (channel, height, width) read in that order.

- ``PooledEncoder``, ``PooledDecoder``: the convolutional autoencoder of Xu et al. (2026), Table 12. Convolutions of
  3 × 3 pixels with ReLU and max-pooling of 2 × 2, the last one over all that is left; back by transposed convolutions
  of 2 × 2 at stride 2, the last one wider. With the defaults and 128 features the layers are those of the table.
- ``SpatialSoftmaxEncoder``, ``SpatialSoftmaxDecoder``: a softmax over the pixels of each feature map gives the
expected
  coordinates of what the map responds to; latents are a linear map of these. Back: a linear map to coordinates, a
  Gaussian bump at each, and 1 × 1 convolutions.

References
----------
Xu et al. (2026), "Identifiability of Potentially Degenerate Gaussian Mixture Models With Piecewise
Affine Mixing", Table 12; Finn et al. (2016), "Deep spatial autoencoders for visuomotor learning" (spatial softmax).

Deviations from Table 12: the sigmoid on pixels is left out, for losses are squared errors or on logits; Kaiming
initialisation.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import torch
from jaxtyping import Float
from torch import Tensor, nn

from noumena import checks
from noumena.nets.conv import ImageLayers, Layer, kaiming_normal

BUMP, SHIFT, SCATTER = 0.25, 0.1, 0.5
"""At initialisation: the deviation of a bump, the variance with which latents shift it, and how far from the middle it
may lie; images are two wide."""


def relu(layer: Layer, *after: nn.Module) -> list[nn.Module]:
    """The layer, a ReLU, and what follows."""
    return [kaiming_normal(layer, 0.0), nn.ReLU(), *after]


# ---- max-pooling -------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Pooled(ImageLayers):
    """Base of both builders: every width stands for a halving of the side, and one more pooling for the rest."""

    channels: int = 3
    widths: tuple[int, ...] = (32, 64, 64, 128)

    def __post_init__(self) -> None:
        super().__post_init__()
        self.check_halvings(len(self.widths), "poolings")


class PooledEncoder(Pooled):
    """Builder of a max-pooling encoder: ``PooledEncoder()(12288, 128)`` maps flat images to 128 non-negative features.

    Parameters
    ----------
    channels, size : int
        Channels and side of the images.
    widths : tuple of int
        Channels after every convolution, each followed by max-pooling.

    Examples
    --------
    >>> [tuple(p.shape) for p in PooledEncoder(1, 8, widths=(5, 6))(64, 2).parameters()][::2]
    [(5, 1, 3, 3), (6, 5, 3, 3), (2, 6, 3, 3)]
    """

    def __call__(self, inputs: int, outputs: int) -> nn.Sequential:
        """The network, initialised from torch's global stream."""
        self.pixels(inputs, "inputs")
        checks.count(outputs, "outputs")
        channels = (self.channels, *self.widths, outputs)
        sides = [2] * len(self.widths) + [self.side]
        layers = [
            part
            for (a, b), side in zip(pairwise(channels), sides, strict=True)
            for part in relu(nn.Conv2d(a, b, 3, padding=1), nn.MaxPool2d(side))
        ]
        return nn.Sequential(self.image, *layers, nn.Flatten())


class PooledDecoder(Pooled):
    """Builder of the decoder to ``PooledEncoder``: ``PooledDecoder()(128, 12288)``; its last layer is linear.

    Parameters
    ----------
    channels, size, widths
        As in ``PooledEncoder``.

    Examples
    --------
    >>> [tuple(p.shape) for p in PooledDecoder(1, 12, widths=(5, 6))(2, 144).parameters()][::2]
    [(2, 6, 2, 2), (6, 5, 2, 2), (5, 1, 3, 3)]
    """

    def __call__(self, inputs: int, outputs: int) -> nn.Sequential:
        """The network, initialised from torch's global stream."""
        self.pixels(outputs, "outputs")
        checks.count(inputs, "inputs")
        channels = (inputs, *self.widths[::-1])
        layers = [part for a, b in pairwise(channels) for part in relu(nn.ConvTranspose2d(a, b, 2, 2))]
        pixels = kaiming_normal(nn.ConvTranspose2d(self.widths[0], self.channels, self.side, self.side))
        return nn.Sequential(nn.Unflatten(1, (inputs, 1, 1)), *layers, pixels, nn.Flatten())


# ---- spatial softmax ---------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class SpatialSoftmaxLayers(ImageLayers):
    """Base of both builders."""

    channels: int = 3
    widths: tuple[int, ...] = (32, 32)
    maps: int = 16

    def __post_init__(self) -> None:
        super().__post_init__()
        checks.count(self.maps, "maps")


@dataclass(frozen=True)
class SpatialSoftmaxEncoder(SpatialSoftmaxLayers):
    """Builder of a spatial-softmax encoder: latents are linear in the expected coordinates of feature maps.

    Parameters
    ----------
    channels, size : int
        Channels and side of the images.
    widths : tuple of int
        Channels after every convolution of 3 × 3 pixels.
    maps : int
        Number of feature maps whose coordinates are taken.
    halvings : int
        The first so many convolutions are followed by max-pooling.

    Examples
    --------
    >>> [tuple(p.shape) for p in SpatialSoftmaxEncoder(1, 8, widths=(5,), maps=6)(64, 2).parameters()][::2]
    [(5, 1, 3, 3), (6, 5, 3, 3), (2, 12)]
    """

    halvings: int = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        possible = checks.count(self.halvings, "halvings", minimum=0) <= len(self.widths)
        checks.require(possible, "halvings must be at most the number of widths.", self.halvings)
        self.check_halvings(self.halvings, "poolings")

    def __call__(self, inputs: int, outputs: int) -> nn.Sequential:
        """The network, initialised from torch's global stream."""
        self.pixels(inputs, "inputs")
        checks.count(outputs, "outputs")
        pools = [[nn.MaxPool2d(2)]] * self.halvings + [[]] * (len(self.widths) - self.halvings)
        channels = zip(pairwise((self.channels, *self.widths)), pools, strict=True)
        layers = [part for (a, b), pool in channels for part in relu(nn.Conv2d(a, b, 3, padding=1), *pool)]
        maps = kaiming_normal(nn.Conv2d(self.widths[-1], self.maps, 3, padding=1))
        last = kaiming_normal(nn.Linear(2 * self.maps, outputs))
        return nn.Sequential(self.image, *layers, maps, SpatialSoftmax(self.size >> self.halvings), last)


class SpatialSoftmaxDecoder(SpatialSoftmaxLayers):
    """Builder of the decoder to ``SpatialSoftmaxEncoder``, from coordinates of bumps; its last layer is linear.

    Parameters
    ----------
    channels, size : int
        Channels and side of the images.
    widths : tuple of int
        Channels of the 1 × 1 convolutions, from the pixels on.
    maps : int
        Number of bumps.

    Examples
    --------
    >>> [tuple(p.shape) for p in SpatialSoftmaxDecoder(1, 8, widths=(5,), maps=6)(2, 64).parameters()]
    [(12, 2), (12,), (6,), (5, 6, 1, 1), (5,), (1, 5, 1, 1), (1,)]
    """

    def __call__(self, inputs: int, outputs: int) -> nn.Sequential:
        """The network, initialised from torch's global stream."""
        self.pixels(outputs, "outputs")
        checks.count(inputs, "inputs")
        first = kaiming_normal(nn.Linear(inputs, 2 * self.maps), gain=SHIFT)
        nn.init.uniform_(first.bias, -SCATTER, SCATTER)  # pyright: ignore[reportArgumentType]
        channels = (self.maps, *self.widths[::-1])
        layers = [part for a, b in pairwise(channels) for part in relu(nn.Conv2d(a, b, 1))]
        pixels = kaiming_normal(nn.Conv2d(self.widths[0], self.channels, 1))
        return nn.Sequential(first, GaussianMaps(self.maps, self.size), *layers, pixels, nn.Flatten())


def pixel_line(size: int) -> Float[Tensor, " size"]:
    """Coordinates of pixel centres along a side, from −1 to 1 at its ends.

    >>> pixel_line(4)
    tensor([-0.7500, -0.2500,  0.2500,  0.7500])
    """
    return (torch.arange(size) + 0.5) / size * 2 - 1


class SpatialSoftmax(nn.Module):
    """Expected coordinates of pixels under each map's softmax: x of all maps, then y of all.

    >>> peak = torch.zeros(1, 1, 4, 4)
    >>> peak[0, 0, 0, 3] = 50.0
    >>> SpatialSoftmax(4)(peak)
    tensor([[ 0.7500, -0.7500]])
    """

    line: Tensor

    def __init__(self, size: int):
        super().__init__()
        self.register_buffer("line", pixel_line(size))

    def forward(self, maps: Float[Tensor, "batch map size size"]) -> Float[Tensor, "batch twice"]:
        """Coordinates of every map."""
        weights = maps.flatten(2).softmax(dim=2).unflatten(2, maps.shape[2:])
        x, y = ((weights.sum(dim=axis) * self.line).sum(dim=-1) for axis in (2, 3))
        return torch.cat([x, y], dim=1)


class GaussianMaps(nn.Module):
    """A map for each position, ``exp(−|pixel − position|² / 2s²)`` with a learned ``s``, from x of all maps, then y."""

    line: Tensor

    def __init__(self, maps: int, size: int):
        super().__init__()
        self.register_buffer("line", pixel_line(size))
        self.sharpness = nn.Parameter(torch.full((maps,), 1 / BUMP))

    def forward(self, places: Float[Tensor, "batch twice"]) -> Float[Tensor, "batch map size size"]:
        """One bump in each map."""
        x, y = places.chunk(2, dim=1)
        across, down = ((-((self.line - c[..., None]) * self.sharpness[:, None]).square() / 2).exp() for c in (x, y))
        return down[..., :, None] * across[..., None, :]
