"""Convolutional encoders and decoders of images given as flat rows.

A row is an image (channel, height, width) read in that order. Every width stands for one convolution of 4 × 4 pixels at
stride 2, which halves the side (in the decoder: doubles it), and one hidden linear layer lies between the pixels' end
and the other. There is no batch normalisation, so that every row has a Jacobian of its own; all layers have structured
derivatives, and ``torch.func.vmap`` over models turns their convolutions into grouped ones.
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
class Convolutional:
    """What both builders share: the images' ``channels`` and side ``size``, the ``widths`` (channels after every
    convolution, from the pixels on), the ``hidden`` linear width, and the ``slope`` of the leaky-ReLU activations."""

    channels: int = 1
    size: int = 64
    widths: tuple[int, ...] = (32, 32, 64, 64)
    hidden: int = 256
    slope: float = 0.0

    def __post_init__(self) -> None:
        for name in ("channels", "size", "hidden"):
            checks.count(getattr(self, name), name)
        object.__setattr__(self, "widths", tuple(checks.count(width, "A convolution's width") for width in self.widths))
        checks.require(len(self.widths) > 0, "widths must name a convolution.", "none")
        checks.number(self.slope, "slope", minimum=0)
        fold = 2 ** len(self.widths)
        must = f"size must be a multiple of {fold} for {len(self.widths)} convolutions that halve it."
        checks.require(self.size % fold == 0, must, self.size)

    @property
    def side(self) -> int:
        """The side of the smallest image, beyond the last convolution."""
        return self.size // 2 ** len(self.widths)

    def pixels(self, given: int, end: str) -> None:
        """Refuse an end of the network that is not as long as a flat image."""
        wanted = self.channels * self.size**2
        must = f"The {end} must be the {wanted} pixels of {self.channels} channels of {self.size} × {self.size}."
        checks.require(given == wanted, must, given)

    def bend(self, layers: Sequence[Layer]) -> list[nn.Module]:
        """The layers, each followed by an activation."""
        return [part for layer in layers for part in (scaled(layer, self.slope), nn.LeakyReLU(self.slope))]


def scaled(layer: Layer, slope: float = 1.0) -> Layer:
    """The layer with weights drawn anew such that it, and an activation of that slope, keep the size of what they
    pass; biases start at zero. Without normalisation, torch's own narrower draw would hush a dozen layers.

    >>> deaf = scaled(nn.Linear(400, 300), slope=0.0)
    >>> round(float(deaf.weight.detach().std() * 200**0.5), 1)
    1.0
    """
    kernel, stride, _ = KERNEL
    across = isinstance(layer, nn.ConvTranspose2d)  # one pixel of its kernel in stride² reaches an output pixel
    inputs = layer.in_channels * (kernel // stride) ** 2 if across else layer.weight[0].numel()
    nn.init.normal_(layer.weight, std=(2 / (1 + slope**2) / inputs) ** 0.5)
    nn.init.zeros_(layer.bias)  # pyright: ignore[reportArgumentType]
    return layer


class ConvEncoder(Convolutional):
    """A builder: ``ConvEncoder(channels=3, size=32)(3072, 10)`` sends flat images (batch, 3072) to (batch, 10).

    >>> [tuple(p.shape) for p in ConvEncoder(1, 8, widths=(5, 6), hidden=7)(64, 2).parameters()][::2]
    [(5, 1, 4, 4), (6, 5, 4, 4), (7, 24), (2, 7)]
    """

    def __call__(self, inputs: int, outputs: int) -> nn.Sequential:
        """The network, initialised from torch's global stream."""
        self.pixels(inputs, "inputs")
        checks.count(outputs, "outputs")
        image = nn.Unflatten(1, (self.channels, self.size, self.size))
        convolutions = [nn.Conv2d(a, b, *KERNEL) for a, b in pairwise((self.channels, *self.widths))]
        linear = nn.Linear(self.widths[-1] * self.side**2, self.hidden)
        return nn.Sequential(
            image, *self.bend(convolutions), nn.Flatten(), *self.bend([linear]), scaled(nn.Linear(self.hidden, outputs))
        )


class ConvDecoder(Convolutional):
    """A builder, the mirror image of ``ConvEncoder``: ``ConvDecoder(3, 32)(10, 3072)`` sends latents to flat images.

    Its last layer is linear: pixels are not squeezed into a range.

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
        return nn.Sequential(*self.bend(linear), small, *self.bend(inner), scaled(pixels), nn.Flatten())
