"""A generator of images from noise, layer by layer told by a style, and the discriminator that judges them.

Noise becomes a style ``w`` by a small network; a learned constant image grows to full size, and every convolution on
the way is modulated: its input channels are scaled by a function of the style and its output is brought back to unit
size. Rows are flat images (channel, height, width), pixels in [0, 1] or near; inside they run from −1 to 1. All weights
are drawn from N(0, 1) and scaled where they are used, so that one learning rate suits all layers.

Reference: Karras et al. (2020), *Analyzing and improving the image quality of StyleGAN*. **Deviations**: no noise is
added to pixels, so that the image is a function of the style; one style serves all layers (no mixing), no path-length
penalty; images are enlarged bilinearly and reduced by means over 2 × 2 pixels, in place of filtered convolutions.
Modulated weights are never formed: scaling a convolution's input and output is the same and runs inside
``torch.func.vmap``, one set of weights for a whole batch.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from math import gcd, sqrt

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from noumena import checks

SLOPE = 0.2
"""Of the leaky ReLUs."""
GAIN = sqrt(2)
"""What follows a leaky ReLU, to keep the size of what passes."""
SMALL = 1e-8
GROUP = 4
"""Rows over which the discriminator compares features, at most."""


def modulated(
    h: Float[Tensor, "batch inputs height width"],
    weight: Float[Tensor, "outputs inputs kernel kernel"],
    s: Float[Tensor, "batch inputs"],
    *,
    demodulate: bool = True,
) -> Float[Tensor, "batch outputs height width"]:
    """Every row's convolution by its own weights ``s_i·W_oi``, with ``demodulate`` divided by their norm over inputs
    and kernel: then zero iff the plain convolution is, and unchanged when all of ``s`` are scaled alike.

    >>> h, weight, s = torch.full((1, 1, 1, 1), 3.0), torch.full((1, 1, 1, 1), 2.0), torch.tensor([[5.0]])
    >>> modulated(h, weight, s, demodulate=False).item(), modulated(h, weight, s).item()
    (30.0, 3.0)
    """
    found = F.conv2d(h * s[:, :, None, None], weight, padding=weight.shape[-1] // 2)
    if not demodulate:
        return found
    squares = s.square() @ weight.square().sum(dim=(2, 3)).mT
    return found * (squares + SMALL).rsqrt().to(found.dtype)[:, :, None, None]


def doubling(side: int, beside: Tensor | None = None) -> Float[Tensor, "double side"]:
    """The matrix that enlarges a line of pixels twofold, bilinearly; every row has sum 1, so constants stay.

    It is of the kind of ``beside`` and made where that is.

    >>> doubling(2)
    tensor([[1.0000, 0.0000],
            [0.7500, 0.2500],
            [0.2500, 0.7500],
            [0.0000, 1.0000]])
    """
    device, dtype = (None, None) if beside is None else (beside.device, beside.dtype)
    place = ((torch.arange(2 * side, device=device) - 0.5) / 2).clamp(0, side - 1)
    return (1 - (place[:, None] - torch.arange(side, device=device)).abs()).clamp_min(0).to(dtype or torch.float32)


def enlarged(h: Float[Tensor, "batch channel side side"]) -> Float[Tensor, "batch channel double double"]:
    """Images of twice the height and width, bilinearly.

    >>> enlarged(torch.tensor([[[[0.0, 4.0], [0.0, 4.0]]]]))[0, 0, 0]
    tensor([0., 1., 3., 4.])
    """
    up = doubling(h.shape[-1], h)
    return up @ (h @ up.mT)


def halved(h: Float[Tensor, "batch channel double double"]) -> Float[Tensor, "batch channel side side"]:
    """Images of half the height and width, by means over 2 × 2 pixels.

    >>> halved(torch.tensor([[[[0.0, 4.0], [2.0, 6.0]]]])).item()
    3.0
    """
    side = h.shape[-1] // 2
    return h.unflatten(-1, (side, 2)).unflatten(-3, (side, 2)).mean(dim=(-1, -3))


def activated(h: Tensor) -> Tensor:
    """A leaky ReLU that keeps the mean square of a symmetric input nearly as it is.

    >>> activated(torch.tensor([1.0, -1.0]))
    tensor([ 1.4142, -0.2828])
    """
    return F.leaky_relu(h, SLOPE) * GAIN


def spread_of_groups(h: Float[Tensor, "batch channel height width"]) -> Float[Tensor, "batch 1 height width"]:
    """The mean standard deviation of features over groups of at most four rows, one number per group; zero (but for
    rounding) iff the rows of a group are alike.

    >>> spread_of_groups(torch.tensor([1.0, 5.0]).reshape(2, 1, 1, 1)).flatten()
    tensor([2., 2.])
    """
    batch, channels, height, width = h.shape
    groups = h.reshape(-1, gcd(batch, GROUP), channels, height, width)
    deviation = (groups.var(dim=1, correction=0) + SMALL).sqrt().mean(dim=(1, 2, 3))
    each = deviation[:, None].expand(-1, groups.shape[1]).reshape(batch, 1, 1, 1)
    return each.expand(-1, -1, height, width)


class EqualLinear(nn.Linear):
    """A linear layer whose weights are N(0, 1) and divided by the root of their number of inputs when used."""

    def __init__(self, inputs: int, outputs: int, *, bias: float = 0.0):
        super().__init__(inputs, outputs)
        nn.init.normal_(self.weight)
        nn.init.constant_(self.bias, bias)

    def forward(self, input: Tensor) -> Tensor:
        """The layer's values."""
        return F.linear(input, self.weight / sqrt(self.in_features), self.bias)


class EqualConv(nn.Conv2d):
    """A convolution whose weights are N(0, 1) and divided by the root of their number of inputs when used."""

    def __init__(self, inputs: int, outputs: int, kernel: int):
        super().__init__(inputs, outputs, kernel, padding=kernel // 2)
        nn.init.normal_(self.weight)
        nn.init.zeros_(self.bias)  # pyright: ignore[reportArgumentType]
        self.shrink = 1 / sqrt(inputs * kernel**2)

    def forward(self, input: Tensor) -> Tensor:
        """The layer's values."""
        return F.conv2d(input, self.weight * self.shrink, self.bias, padding=self.padding)  # type: ignore[arg-type]


class ModulatedConv(nn.Module):
    """A convolution modulated by a style; ``demodulate=False`` for the one that makes pixels."""

    def __init__(self, inputs: int, outputs: int, style: int, *, kernel: int = 3, demodulate: bool = True):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(outputs, inputs, kernel, kernel))
        self.bias = nn.Parameter(torch.zeros(outputs))
        self.affine = EqualLinear(style, inputs, bias=1.0)
        self.shrink, self.demodulate = 1 / sqrt(inputs * kernel**2), demodulate

    def forward(self, h: Tensor, w: Tensor) -> Tensor:
        """Features of features and styles."""
        found = modulated(h, self.weight * self.shrink, self.affine(w), demodulate=self.demodulate)
        return found + self.bias.to(found.dtype)[:, None, None]


# ---- the generator ---------------------------------------------------------------------------------------------


class Mapping(nn.Module):
    """Noise, scaled to unit mean square, to styles."""

    def __init__(self, noise: int, style: int, depth: int):
        super().__init__()
        self.layers = nn.ModuleList(EqualLinear(a, style) for a in [noise, *[style] * (depth - 1)])

    def forward(self, z: Tensor) -> Tensor:
        """Styles of noise; the length of the noise is of no consequence."""
        w = z * (z.square().mean(dim=-1, keepdim=True) + SMALL).rsqrt()
        for layer in self.layers:
            w = activated(layer(w))
        return w


class Level(nn.Module):
    """One size of the growing image: features, enlarged but at the first level, convolved, and their pixels."""

    def __init__(self, widths: tuple[int, ...], channels: int, style: int):
        super().__init__()
        self.convolutions = nn.ModuleList(ModulatedConv(a, b, style) for a, b in pairwise(widths))
        last = widths[-1]
        self.pixels = ModulatedConv(last, channels, style, kernel=1, demodulate=False)

    def forward(self, h: Tensor, image: Tensor | None, w: Tensor) -> tuple[Tensor, Tensor]:
        """Features and image of this level from those of the level before."""
        h = h if image is None else enlarged(h)
        for convolution in self.convolutions:
            h = activated(convolution(h, w))
        painted = self.pixels(h, w)
        return h, painted if image is None else painted + enlarged(image)


class Synthesis(nn.Module):
    """Styles to flat images: a learned constant, grown level by level; every level adds its pixels."""

    def __init__(self, plan: StyleGenerator):
        super().__init__()
        widths, side = plan.widths, plan.side
        self.constant = nn.Parameter(torch.randn(widths[0], side, side))
        through = [(widths[0], widths[0]), *((a, b, b) for a, b in pairwise(widths))]
        self.levels = nn.ModuleList(Level(some, plan.channels, plan.style) for some in through)

    def forward(self, w: Tensor) -> Tensor:
        """Flat images of styles."""
        h, image = self.constant.expand(len(w), -1, -1, -1), None
        for level in self.levels:
            h, image = level(h, image, w)
        return (image.flatten(1).to(self.constant.dtype) + 1) / 2  # type: ignore[union-attr]


class StyleNetwork(nn.Module):
    """Noise to flat images, in two parts: ``mapping`` to styles, ``synthesis`` of images."""

    def __init__(self, noise: int, plan: StyleGenerator):
        super().__init__()
        self.noise, self.style = noise, plan.style
        self.mapping = Mapping(noise, plan.style, plan.depth)
        self.synthesis = Synthesis(plan)

    def forward(self, z: Tensor) -> Tensor:
        """Images of noise."""
        return self.synthesis(self.mapping(z))


# ---- the discriminator -----------------------------------------------------------------------------------------


class Reduction(nn.Module):
    """Two convolutions and a halving of the side, beside a shortcut."""

    def __init__(self, inputs: int, outputs: int):
        super().__init__()
        self.first, self.second = EqualConv(inputs, inputs, 3), EqualConv(inputs, outputs, 3)
        self.shortcut = EqualConv(inputs, outputs, 1)

    def forward(self, h: Tensor) -> Tensor:
        """Features at half the side."""
        main = halved(activated(self.second(activated(self.first(h)))))
        return (main + self.shortcut(halved(h))) / sqrt(2)


class Judge(nn.Module):
    """Flat images to logits, (batch, 1): how real each looks, beside its group where groups are compared."""

    def __init__(self, plan: StyleDiscriminator):
        super().__init__()
        widths, last = plan.widths, plan.widths[-1]
        self.shape, self.compares = (plan.channels, plan.size, plan.size), plan.compares
        self.first = EqualConv(plan.channels, widths[0], 1)
        self.reductions = nn.Sequential(*(Reduction(a, b) for a, b in pairwise(widths)))
        self.last = EqualConv(last + int(plan.compares), last, 3)
        self.hidden = EqualLinear(last * plan.side**2, last)
        self.logit = EqualLinear(last, 1)

    def forward(self, x: Tensor) -> Tensor:
        """Logits of images."""
        h = self.reductions(activated(self.first((2 * x - 1).unflatten(1, self.shape))))
        h = torch.cat([h, spread_of_groups(h)], dim=1) if self.compares else h
        return self.logit(activated(self.hidden(activated(self.last(h)).flatten(1))))


# ---- builders --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Styled:
    """What both builders share: the images' ``channels`` and side ``size``, and the ``widths``, channels at every
    size, between two of which the side doubles or halves."""

    channels: int = 3
    size: int = 64
    widths: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        checks.count(self.channels, "channels")
        checks.count(self.size, "size")
        object.__setattr__(self, "widths", tuple(checks.count(width, "A level's width") for width in self.widths))
        checks.require(len(self.widths) > 0, "widths must name a level.", "none")
        fold = 2 ** (len(self.widths) - 1)
        must = f"size must be a multiple of {fold} for {len(self.widths)} levels."
        checks.require(self.size % fold == 0, must, self.size)

    @property
    def side(self) -> int:
        """The side of the smallest image."""
        return self.size // 2 ** (len(self.widths) - 1)

    def pixels(self, given: int, end: str) -> None:
        """Refuse an end of the network that is not as long as a flat image."""
        wanted = self.channels * self.size**2
        must = f"The {end} must be the {wanted} pixels of {self.channels} channels of {self.size} × {self.size}."
        checks.require(given == wanted, must, given)


@dataclass(frozen=True)
class StyleGenerator(Styled):
    """A builder: ``StyleGenerator(3, 64)(64, 12288)`` sends noise (batch, 64) to flat images (batch, 12288).

    ``widths`` run from the smallest image to the largest, which doubles the side at every step; ``style`` is the size
    of ``w`` and ``depth`` the number of layers that make it.

    >>> net = StyleGenerator(1, 8, widths=(4, 2), style=5, depth=1)(3, 64)
    >>> net(torch.ones(2, 3)).shape, net.mapping(torch.ones(2, 3)).shape
    (torch.Size([2, 64]), torch.Size([2, 5]))
    """

    widths: tuple[int, ...] = (256, 256, 128, 64, 32)
    style: int = 128
    depth: int = 4

    def __post_init__(self) -> None:
        super().__post_init__()
        checks.count(self.style, "style")
        checks.count(self.depth, "depth")

    def __call__(self, inputs: int, outputs: int) -> StyleNetwork:
        """The network, initialised from torch's global stream."""
        self.pixels(outputs, "outputs")
        return StyleNetwork(checks.count(inputs, "inputs"), self)


@dataclass(frozen=True)
class StyleDiscriminator(Styled):
    """A builder: ``StyleDiscriminator(3, 64)(12288, 1)`` sends flat images (batch, 12288) to logits (batch, 1).

    ``widths`` run from the whole image to the smallest, which halves the side at every step; with ``compares`` it also
    sees how much the images of a group differ (minibatch standard deviation), and rows are then judged together.

    >>> StyleDiscriminator(1, 8, widths=(2, 4))(64, 1)(torch.ones(3, 64)).shape
    torch.Size([3, 1])
    """

    widths: tuple[int, ...] = (32, 64, 128, 256, 256)
    compares: bool = True

    def __call__(self, inputs: int, outputs: int) -> Judge:
        """The network, initialised from torch's global stream."""
        self.pixels(inputs, "inputs")
        checks.require(outputs == 1, "A discriminator must have 1 output.", outputs)
        return Judge(self)
