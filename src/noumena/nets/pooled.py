"""Convolutional networks that pool: by their largest values, or by the places where they respond.

A row is an image (channel, height, width) read in that order. Three builders, called with inputs and outputs:

- ``PooledEncoder``, ``PooledDecoder``: the convolutional autoencoder of Xu et al. (2026), Table 12. Convolutions of
  3 × 3 pixels with ReLU and max-pooling of 2 × 2, the last one over all that is left; back by transposed convolutions
  of 2 × 2 at stride 2, the last one wider. With the defaults and 128 features the layers are exactly those of the
  table.
- ``PlaceEncoder``, ``PlaceDecoder``: convolutions make maps, a softmax over the pixels of each map makes weights, and
  the weighted mean of the pixels' coordinates is the map's place; latents are a linear map of the places, so that they
  are affine in where things are, whichever things a map responds to. Back: a linear map to places, a bump at each,
  and 1 × 1 convolutions.

Reference: Xu et al. (2026), Table 12; spatial softmax: Finn et al. (2016), Deep spatial autoencoders. **Deviations**
from Table 12: the sigmoid on pixels is left out, for losses are squared errors or on logits; weights start at a size
that keeps that of what they pass.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import torch
from jaxtyping import Float
from torch import Tensor, nn

from noumena import checks

Layer = nn.Conv2d | nn.ConvTranspose2d | nn.Linear
WIDTHS = (32, 64, 64, 128)
BUMP, SHIFT, SCATTER = 0.25, 0.1, 0.5
"""At the start: the deviation of a bump, the variance with which latents shift it, and how far from the middle it may
lie; pictures are two wide."""


@dataclass(frozen=True)
class Picture:
    """The images' ``channels`` and side ``size``, and the ``widths``: channels of the layers, from the pixels on."""

    channels: int = 3
    size: int = 64
    widths: tuple[int, ...] = WIDTHS

    def __post_init__(self) -> None:
        for name in ("channels", "size"):
            checks.count(getattr(self, name), name)
        object.__setattr__(self, "widths", tuple(checks.count(width, "A layer's width") for width in self.widths))
        checks.require(len(self.widths) > 0, "widths must name a layer.", "none")

    def pixels(self, given: int, end: str) -> None:
        """Refuse an end of the network that is not as long as a flat image."""
        wanted = self.channels * self.size**2
        must = f"The {end} must be the {wanted} pixels of {self.channels} channels of {self.size} × {self.size}."
        checks.require(given == wanted, must, given)


def sized(layer: Layer, gain: float = 2.0) -> Layer:
    """The layer with weights drawn anew such that it and a ReLU keep the size of what they pass; biases are zero.

    Transposed convolutions here do not overlap: one pixel of the kernel reaches an output.

    >>> round(float(sized(nn.ConvTranspose2d(200, 300, 2, 2)).weight.detach().std() * 10), 2)
    1.0
    """
    across = isinstance(layer, nn.ConvTranspose2d)
    inputs = layer.in_channels if across else layer.weight[0].numel()
    nn.init.normal_(layer.weight, std=(gain / inputs) ** 0.5)
    nn.init.zeros_(layer.bias)  # pyright: ignore[reportArgumentType]
    return layer


def bent(layer: Layer, *after: nn.Module) -> list[nn.Module]:
    """The layer, a ReLU, and what follows."""
    return [sized(layer), nn.ReLU(), *after]


# ---- pooled by largest values ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Pooled(Picture):
    """What both builders share; every width stands for a halving of the side, and one more pooling for the rest."""

    def __post_init__(self) -> None:
        super().__post_init__()
        fold = 2 ** len(self.widths)
        must = f"size must be a multiple of {fold} for {len(self.widths)} poolings that halve it."
        checks.require(self.size % fold == 0, must, self.size)

    @property
    def side(self) -> int:
        """The side of the smallest image: what is pooled last, and what is painted last."""
        return self.size // 2 ** len(self.widths)


class PooledEncoder(Pooled):
    """A builder: ``PooledEncoder()(12288, 128)`` sends flat images to 128 features, none of them negative.

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
            for part in bent(nn.Conv2d(a, b, 3, padding=1), nn.MaxPool2d(side))
        ]
        return nn.Sequential(nn.Unflatten(1, (self.channels, self.size, self.size)), *layers, nn.Flatten())


class PooledDecoder(Pooled):
    """A builder, the way back: ``PooledDecoder()(128, 12288)`` sends features to flat images; its last layer is linear.

    >>> [tuple(p.shape) for p in PooledDecoder(1, 12, widths=(5, 6))(2, 144).parameters()][::2]
    [(2, 6, 2, 2), (6, 5, 2, 2), (5, 1, 3, 3)]
    """

    def __call__(self, inputs: int, outputs: int) -> nn.Sequential:
        """The network, initialised from torch's global stream."""
        self.pixels(outputs, "outputs")
        checks.count(inputs, "inputs")
        channels = (inputs, *self.widths[::-1])
        layers = [part for a, b in pairwise(channels) for part in bent(nn.ConvTranspose2d(a, b, 2, 2))]
        pixels = sized(nn.ConvTranspose2d(self.widths[0], self.channels, self.side, self.side), gain=1.0)
        return nn.Sequential(nn.Unflatten(1, (inputs, 1, 1)), *layers, pixels, nn.Flatten())


# ---- pooled by place ---------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Places(Picture):
    """What both builders share: the ``widths`` of layers, and the number of ``maps`` that have a place."""

    widths: tuple[int, ...] = (32, 32)
    maps: int = 16

    def __post_init__(self) -> None:
        super().__post_init__()
        checks.count(self.maps, "maps")


@dataclass(frozen=True)
class PlaceEncoder(Places):
    """A builder: ``PlaceEncoder()(12288, 4)`` sends flat images to four linear combinations of places of its maps.

    Every width stands for a convolution of 3 × 3 pixels; the first ``halvings`` of them are followed by max-pooling.

    >>> [tuple(p.shape) for p in PlaceEncoder(1, 8, widths=(5,), maps=6)(64, 2).parameters()][::2]
    [(5, 1, 3, 3), (6, 5, 3, 3), (2, 12)]
    """

    halvings: int = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        possible = checks.count(self.halvings, "halvings", minimum=0) <= len(self.widths)
        checks.require(possible, "halvings must be at most the number of widths.", self.halvings)
        must = f"size must be a multiple of {2**self.halvings} for {self.halvings} poolings that halve it."
        checks.require(self.size % 2**self.halvings == 0, must, self.size)

    def __call__(self, inputs: int, outputs: int) -> nn.Sequential:
        """The network, initialised from torch's global stream."""
        self.pixels(inputs, "inputs")
        checks.count(outputs, "outputs")
        pools = [[nn.MaxPool2d(2)]] * self.halvings + [[]] * (len(self.widths) - self.halvings)
        channels = zip(pairwise((self.channels, *self.widths)), pools, strict=True)
        layers = [part for (a, b), pool in channels for part in bent(nn.Conv2d(a, b, 3, padding=1), *pool)]
        maps = sized(nn.Conv2d(self.widths[-1], self.maps, 3, padding=1), gain=1.0)
        last = sized(nn.Linear(2 * self.maps, outputs), gain=1.0)
        image = nn.Unflatten(1, (self.channels, self.size, self.size))
        return nn.Sequential(image, *layers, maps, ExpectedPlaces(self.size >> self.halvings), last)


class PlaceDecoder(Places):
    """A builder, the way back: ``PlaceDecoder()(4, 12288)`` sends latents to flat images; its last layer is linear.

    >>> [tuple(p.shape) for p in PlaceDecoder(1, 8, widths=(5,), maps=6)(2, 64).parameters()]
    [(12, 2), (12,), (6,), (5, 6, 1, 1), (5,), (1, 5, 1, 1), (1,)]
    """

    def __call__(self, inputs: int, outputs: int) -> nn.Sequential:
        """The network, initialised from torch's global stream."""
        self.pixels(outputs, "outputs")
        checks.count(inputs, "inputs")
        first = sized(nn.Linear(inputs, 2 * self.maps), gain=SHIFT)
        nn.init.uniform_(first.bias, -SCATTER, SCATTER)  # pyright: ignore[reportArgumentType]
        channels = (self.maps, *self.widths[::-1])
        layers = [part for a, b in pairwise(channels) for part in bent(nn.Conv2d(a, b, 1))]
        pixels = sized(nn.Conv2d(self.widths[0], self.channels, 1), gain=1.0)
        return nn.Sequential(first, Bumps(self.maps, self.size), *layers, pixels, nn.Flatten())


def pixel_line(size: int) -> Float[Tensor, " size"]:
    """Coordinates of pixel centres along a side, from −1 to 1 at its ends.

    >>> pixel_line(4)
    tensor([-0.7500, -0.2500,  0.2500,  0.7500])
    """
    return (torch.arange(size) + 0.5) / size * 2 - 1


class ExpectedPlaces(nn.Module):
    """Each map's softmax over pixels, and under it the mean of their coordinates: x of all maps, then y of all.

    >>> peak = torch.zeros(1, 1, 4, 4)
    >>> peak[0, 0, 0, 3] = 50.0
    >>> ExpectedPlaces(4)(peak)
    tensor([[ 0.7500, -0.7500]])
    """

    line: Tensor

    def __init__(self, size: int):
        super().__init__()
        self.register_buffer("line", pixel_line(size))

    def forward(self, maps: Float[Tensor, "batch map size size"]) -> Float[Tensor, "batch twice"]:
        """Places of every map."""
        weights = maps.flatten(2).softmax(dim=2).unflatten(2, maps.shape[2:])
        x, y = ((weights.sum(dim=axis) * self.line).sum(dim=-1) for axis in (2, 3))
        return torch.cat([x, y], dim=1)


class Bumps(nn.Module):
    """A map for each place, ``exp(−|pixel − place|² / 2s²)`` with a learned ``s``; given are x of all maps, then y."""

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
