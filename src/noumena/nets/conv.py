"""Convolutional encoders and decoders of images given as flat rows.

A row is an image (channel, height, width) read in that order. Every width stands for one convolution of 4 × 4 pixels
at
stride 2, which halves the side (in the decoder: doubles it), followed by one hidden linear layer. There is no batch
normalisation, so that every row has a Jacobian of its own; all layers have structured derivatives, and
``torch.func.vmap`` over models turns their convolutions into grouped ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from torch import nn

from noumena import checks

Layer = nn.Conv2d | nn.ConvTranspose2d | nn.Linear
KERNEL = 4, 2, 1
"""Kernel, stride and padding of every convolution."""


@dataclass(frozen=True)
class ImageLayers:
    """Base of the builders of image networks.

    Parameters
    ----------
    channels, size : int
        Channels and side of the images.
    widths : tuple of int
        Channels of the layers, from the pixels on.
    """

    channels: int = 1
    size: int = 64
    widths: tuple[int, ...] = (32, 32, 64, 64)

    def __post_init__(self) -> None:
        for name in ("channels", "size"):
            checks.count(getattr(self, name), name)
        object.__setattr__(self, "widths", tuple(checks.count(width, "A layer's width") for width in self.widths))
        checks.require(len(self.widths) > 0, "widths must name a layer.", "none")

    @property
    def side(self) -> int:
        """The side of the smallest image, where every width halves it."""
        return self.size // 2 ** len(self.widths)

    @property
    def image(self) -> nn.Unflatten:
        """The layer that turns flat rows into images."""
        return nn.Unflatten(1, (self.channels, self.size, self.size))

    def check_halvings(self, number: int, what: str) -> None:
        """Refuse a size that cannot be halved so often."""
        must = f"size must be a multiple of {2**number} for {number} {what} that halve it."
        checks.require(self.size % 2**number == 0, must, self.size)

    def pixels(self, features: int, end: str) -> None:
        """Refuse an end of the network that is not as long as a flat image."""
        wanted = self.channels * self.size**2
        must = f"The {end} must be the {wanted} pixels of {self.channels} channels of {self.size} × {self.size}."
        checks.require(features == wanted, must, features)


@dataclass(frozen=True)
class Convolutional(ImageLayers):
    """Base of ``ConvEncoder`` and ``ConvDecoder``.

    Parameters
    ----------
    channels, size : int
        Channels and side of the images.
    widths : tuple of int
        Channels after every convolution, from the pixels on.
    hidden : int
        Width of the hidden linear layer.
    slope : float
        Negative slope of the leaky ReLUs.
    """

    hidden: int = 256
    slope: float = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        checks.count(self.hidden, "hidden")
        checks.number(self.slope, "slope", minimum=0)
        self.check_halvings(len(self.widths), "convolutions")

    def activated(self, layers: Sequence[Layer]) -> list[nn.Module]:
        """The layers, each followed by an activation."""
        return [part for layer in layers for part in (kaiming_normal(layer, self.slope), nn.LeakyReLU(self.slope))]


def kaiming_normal(layer: Layer, slope: float = 1.0, *, gain: float | None = None) -> Layer:
    """Kaiming initialisation: zero biases, normal weights of variance ``gain``, 2/(1 + slope²), over the fan-in.

    Unlike ``torch.nn.init.kaiming_normal_`` it knows the fan-in of transposed convolutions: of a kernel one pixel in
    stride² reaches an output pixel.

    References
    ----------
    He et al. (2015), "Delving deep into rectifiers".

    >>> layer = kaiming_normal(nn.Linear(400, 300), slope=0.0)
    >>> round(float(layer.weight.detach().std() * 200**0.5), 1)
    1.0
    """
    fan_in = layer.weight[0].numel()
    if isinstance(layer, nn.ConvTranspose2d):
        fan_in = layer.in_channels * (layer.kernel_size[0] // layer.stride[0]) ** 2
    nn.init.normal_(layer.weight, std=((2 / (1 + slope**2) if gain is None else gain) / fan_in) ** 0.5)
    nn.init.zeros_(layer.bias)  # pyright: ignore[reportArgumentType]
    return layer


class ConvEncoder(Convolutional):
    """Builder of a convolutional encoder of flat images: ``ConvEncoder(channels=3, size=32)(3072, 10)``.

    Parameters
    ----------
    channels, size : int
        Channels and side of the images.
    widths : tuple of int
        Channels after every convolution; each halves the side.
    hidden : int
        Width of the hidden linear layer.
    slope : float
        Negative slope of the leaky ReLUs.

    Examples
    --------
    >>> [tuple(p.shape) for p in ConvEncoder(1, 8, widths=(5, 6), hidden=7)(64, 2).parameters()][::2]
    [(5, 1, 4, 4), (6, 5, 4, 4), (7, 24), (2, 7)]
    """

    def __call__(self, inputs: int, outputs: int) -> nn.Sequential:
        """The network, initialised from torch's global stream."""
        self.pixels(inputs, "inputs")
        checks.count(outputs, "outputs")
        convolutions = [nn.Conv2d(a, b, *KERNEL) for a, b in pairwise((self.channels, *self.widths))]
        linear = nn.Linear(self.widths[-1] * self.side**2, self.hidden)
        return nn.Sequential(
            self.image,
            *self.activated(convolutions),
            nn.Flatten(),
            *self.activated([linear]),
            kaiming_normal(nn.Linear(self.hidden, outputs)),
        )


class ConvDecoder(Convolutional):
    """Builder of a convolutional decoder to flat images, the mirror image of ``ConvEncoder``: ``ConvDecoder(3, 32)(10,
    3072)``.

    The last layer is linear: pixels are not squeezed into a range.

    Parameters
    ----------
    channels, size, widths, hidden, slope
        As in ``ConvEncoder``.

    Examples
    --------
    >>> [tuple(p.shape) for p in ConvDecoder(1, 8, widths=(5, 6), hidden=7)(2, 64).parameters()][::2]
    [(7, 2), (24, 7), (6, 5, 4, 4), (5, 1, 4, 4)]
    """

    def __call__(self, inputs: int, outputs: int) -> nn.Sequential:
        """The network, initialised from torch's global stream."""
        self.pixels(outputs, "outputs")
        checks.count(inputs, "inputs")
        last, side = self.widths[-1], self.side
        linear = [nn.Linear(inputs, self.hidden), nn.Linear(self.hidden, last * side**2)]
        *inner, pixels = [nn.ConvTranspose2d(b, a, *KERNEL) for a, b in pairwise((self.channels, *self.widths))][::-1]
        small = nn.Unflatten(1, (last, side, side))
        layers = [*self.activated(linear), small, *self.activated(inner), kaiming_normal(pixels)]
        return nn.Sequential(*layers, nn.Flatten())
