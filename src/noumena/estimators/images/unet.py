"""A small U-Net that predicts noise, given how noisy its input is and tokens that say what is seen.

Down: at every width residual blocks and attention, then a convolution at stride 2; a middle; and up again with the maps
of the way down beside. Every attention looks at the tokens; at the narrowest sides the maps look at themselves, too.

Reference: Rombach et al. (2022), *High-resolution image synthesis with latent diffusion models*, and the settings of
Yang et al. (2024), EncDiff (base width 64, multiples 1, 2, 4, 4, two blocks, eight heads, tokens of 16 numbers, scale
and shift by time). **Deviations**: the defaults are a smaller network (64, 128, 256 with one block, four heads); no
dropout; maps look at themselves at sides below the widest only; sides are changed by a convolution alone; the last
layers of blocks start small and not at zero.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from math import gcd, log

import torch
from jaxtyping import Float
from torch import Tensor, nn

from noumena import checks
from noumena.estimators.images.attention import Looking
from noumena.nets.residual import scaled_down

PER_GROUP = 16
"""Channels that are normalised together, where there are as many."""
SLOWEST = 10_000.0
"""The longest wave of the time embedding, in steps."""


def waves(t: Float[Tensor, " batch"], dim: int) -> Float[Tensor, "batch dim"]:
    """Cosines and sines of the time at geometric frequencies from 1 down to 1/10000.

    >>> waves(torch.tensor([0.0]), 4)
    tensor([[1., 1., 0., 0.]])
    """
    half = dim // 2
    rates = torch.exp(torch.arange(half, device=t.device, dtype=t.dtype) * (-log(SLOWEST) / max(1, half - 1)))
    angles = t[:, None] * rates
    return torch.cat([angles.cos(), angles.sin()], dim=-1)


class GroupNorm(nn.GroupNorm):
    """Torch's normalisation by groups of channels, on maps of a single pixel inside ``torch.func.vmap`` too.

    A single pixel looks as if its channels lay together, and torch then asks for a layout that vmap does not know.
    """

    def forward(self, input: Tensor) -> Tensor:
        """The normalised maps."""
        return super().forward(input.flatten(2)).unflatten(2, input.shape[2:])


def normalisation(channels: int) -> GroupNorm:
    """Normalisation of groups of 16 channels or more within a picture.

    >>> normalisation(64).num_groups, normalisation(8).num_groups
    (4, 1)
    """
    return GroupNorm(gcd(channels, max(1, channels // PER_GROUP)), channels)


class TimedBlock(nn.Module):
    """A residual block whose second half is scaled and shifted by the time."""

    def __init__(self, inputs: int, outputs: int, time: int):
        super().__init__()
        self.first = nn.Sequential(normalisation(inputs), nn.SiLU(), nn.Conv2d(inputs, outputs, 3, padding=1))
        self.time = nn.Linear(time, 2 * outputs)
        self.norm = normalisation(outputs)
        self.last = nn.Sequential(nn.SiLU(), scaled_down(nn.Conv2d(outputs, outputs, 3, padding=1)))
        self.skip = nn.Identity() if inputs == outputs else nn.Conv2d(inputs, outputs, 1)

    def forward(self, h: Tensor, time: Tensor) -> Tensor:
        """The changed maps."""
        scale, shift = self.time(time)[..., None, None].chunk(2, dim=1)
        return self.skip(h) + self.last(self.norm(self.first(h)) * (1 + scale) + shift)


class Step(nn.Module):
    """A block and an attention."""

    def __init__(self, inputs: int, outputs: int, time: int, look: Looking):
        super().__init__()
        self.block, self.look = TimedBlock(inputs, outputs, time), look

    def forward(self, h: Tensor, time: Tensor, context: Tensor) -> Tensor:
        """The changed maps."""
        return self.look(self.block(h, time), context)


@dataclass(frozen=True)
class UNet:
    """A builder: ``UNet(3, 16)(768, 768)`` predicts the noise in flat latents of 3 channels of 16 × 16.

    Parameters: ``channels`` and side ``size`` of its input; ``widths``, channels at every side, each half the one
    before; ``blocks`` at every side; ``heads`` of every attention; ``near``, how many of the narrowest sides have maps
    that look at themselves; ``context``, numbers in a token. The network is called ``net(h, t, tokens)``.

    >>> net = UNet(1, 4, widths=(4, 8), heads=2, context=3)(16, 16)
    >>> net(torch.zeros(5, 16), torch.zeros(5), torch.zeros(5, 2, 3)).shape
    torch.Size([5, 16])
    """

    channels: int = 3
    size: int = 16
    widths: tuple[int, ...] = (64, 128, 256)
    blocks: int = 1
    heads: int = 4
    near: int = 2
    context: int = 16

    def __post_init__(self) -> None:
        for name in ("channels", "size", "blocks", "heads", "context"):
            checks.count(getattr(self, name), name)
        checks.count(self.near, "near", minimum=0)
        object.__setattr__(self, "widths", tuple(checks.count(width, "A width") for width in self.widths))
        checks.require(len(self.widths) > 0, "widths must name a side.", "none")
        fold = 2 ** (len(self.widths) - 1)
        checks.require(self.size % fold == 0, f"size must be a multiple of {fold} for these widths.", self.size)
        even = all(width % self.heads == 0 and width % 2 == 0 for width in self.widths)
        must = f"Every width must be even and fall into {self.heads} heads."
        checks.require(even, must, ", ".join(map(str, self.widths)))

    def __call__(self, inputs: int, outputs: int) -> UNetwork:
        """The network, initialised from torch's global stream."""
        wanted = self.channels * self.size**2
        must = f"Inputs and outputs must be the {wanted} numbers of {self.channels} × {self.size} × {self.size}."
        checks.require(inputs == wanted and outputs == wanted, must, f"{inputs} and {outputs}")
        return UNetwork(self)


class UNetwork(nn.Module):
    """The network that ``UNet`` builds."""

    def __init__(self, plan: UNet):
        super().__init__()
        self.shape = (plan.channels, plan.size, plan.size)
        first, last = plan.widths[0], plan.widths[-1]
        self.waves, time = first, 4 * first
        self.time = nn.Sequential(nn.Linear(first, time), nn.SiLU(), nn.Linear(time, time), nn.SiLU())
        self.start = nn.Conv2d(plan.channels, first, 3, padding=1)

        def step(inputs: int, level: int) -> Step:
            width, near = plan.widths[level], level >= len(plan.widths) - plan.near
            return Step(inputs, width, time, Looking(width, plan.context, plan.heads, near=near))

        levels = range(len(plan.widths))
        self.down = nn.ModuleList(nn.ModuleList(step(plan.widths[k], k) for _ in range(plan.blocks)) for k in levels)
        self.narrow = nn.ModuleList(nn.Conv2d(a, b, 3, stride=2, padding=1) for a, b in pairwise(plan.widths))
        self.middle, self.after = step(last, len(plan.widths) - 1), TimedBlock(last, last, time)
        self.up = nn.ModuleList(nn.ModuleList(step(2 * plan.widths[k], k) for _ in range(plan.blocks)) for k in levels)
        self.widen = nn.ModuleList(nn.Conv2d(b, a, 3, padding=1) for a, b in pairwise(plan.widths))
        self.twice = nn.Upsample(scale_factor=2)
        self.out = nn.Sequential(
            normalisation(first), nn.SiLU(), scaled_down(nn.Conv2d(first, plan.channels, 3, padding=1))
        )

    def forward(
        self, h: Float[Tensor, "batch dim"], t: Float[Tensor, " batch"], context: Float[Tensor, "batch token width"]
    ) -> Float[Tensor, "batch dim"]:
        """The noise in flat maps ``h`` at times ``t``, given tokens."""
        time = self.time(waves(t, self.waves))
        h = self.start(h.unflatten(1, self.shape))
        passed: list[Tensor] = []
        for k, steps in enumerate(self.down):
            h = self.narrow[k - 1](h) if k else h
            for step in steps:  # pyright: ignore[reportGeneralTypeIssues]
                h = step(h, time, context)
                passed.append(h)
        h = self.after(self.middle(h, time, context), time)
        for k in reversed(range(len(self.up))):
            for step in self.up[k]:  # pyright: ignore[reportGeneralTypeIssues]
                h = step(torch.cat([h, passed.pop()], dim=1), time, context)
            h = self.widen[k - 1](self.twice(h)) if k else h
        return self.out(h).flatten(1)
