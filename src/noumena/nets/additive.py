"""Additive decoders: each slot of latents has its own perceptron, and their outputs are summed.

``x = Σ_k f_k(z_slot_k)``; cross-slot second derivatives vanish by construction, while one observation may still depend
on several slots.

References
----------
Lachapelle et al. (2023), "Additive decoders for latent variables identification and Cartesian-product extrapolation".

Deviations: the parts share one bias, for only its sum is visible.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import Tensor, nn

from noumena import checks


@dataclass(frozen=True)
class Additive:
    """Builder of an additive decoder: ``Additive(slots=2, hidden=(8,))(inputs, outputs)``.

    Parameters
    ----------
    slots : int or tuple of int
        Number of equal consecutive slots, or their sizes.
    hidden : tuple of int
        Hidden widths of each slot's own perceptron.
    slope : float
        Negative slope of the leaky ReLUs.

    Examples
    --------
    >>> [tuple(p.shape) for p in Additive(2, hidden=(8, 5))(6, 3).parameters()]
    [(6, 8), (2, 8), (2, 8, 5), (2, 5), (3, 10), (3,)]
    """

    slots: int | tuple[int, ...]
    hidden: tuple[int, ...] = (64, 64)
    slope: float = 0.2

    def __post_init__(self) -> None:
        if not isinstance(self.slots, tuple | list):
            checks.count(self.slots, "slots")
        for width in self.hidden:
            checks.count(width, "A hidden width")
        checks.number(self.slope, "slope", minimum=0)
        object.__setattr__(self, "hidden", tuple(self.hidden))
        object.__setattr__(self, "slots", tuple(self.slots) if isinstance(self.slots, list) else self.slots)

    def __call__(self, inputs: int, outputs: int) -> nn.Sequential:
        """The network, initialised from torch's global stream."""
        sizes = checks.slots(self.slots, inputs)
        if not self.hidden:
            return nn.Sequential(nn.Linear(inputs, outputs))
        layers: list[nn.Module] = [SlotInput(sizes, self.hidden[0]), nn.LeakyReLU(self.slope)]
        for width, following in pairwise(self.hidden):
            layers += [SlotLinear(len(sizes), width, following), nn.LeakyReLU(self.slope)]
        return nn.Sequential(*layers, nn.Flatten(-2), nn.Linear(len(sizes) * self.hidden[-1], outputs))


class SlotInput(nn.Module):
    """Each slot's own affine map of its latents, from (batch, latent) to (batch, slot, width)."""

    member: Tensor

    def __init__(self, sizes: tuple[int, ...], width: int) -> None:
        super().__init__()
        fan = torch.tensor(sizes, dtype=torch.get_default_dtype())
        member = torch.eye(len(sizes)).repeat_interleave(torch.tensor(sizes), dim=0)
        self.register_buffer("member", member, persistent=False)
        bound = fan.rsqrt()[:, None]
        self.weight = nn.Parameter(uniform(sum(sizes), width) * (member @ bound))
        self.bias = nn.Parameter(uniform(len(sizes), width) * bound)

    def forward(self, z: Tensor) -> Tensor:
        """Every slot's pre-activations, by one product with a matrix that is zero between slots."""
        between = (self.member[:, :, None] * self.weight[:, None, :]).flatten(1)
        return (z @ between).unflatten(-1, self.bias.shape) + self.bias


class SlotLinear(nn.Module):
    """Each slot's own affine map of its features, from (batch, slot, width) to (batch, slot, following)."""

    def __init__(self, slots: int, width: int, following: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(uniform(slots, width, following) * width**-0.5)
        self.bias = nn.Parameter(uniform(slots, following) * width**-0.5)

    def forward(self, features: Tensor) -> Tensor:
        """All slots in one batched product."""
        return torch.einsum("...ki,kio->...ko", features, self.weight) + self.bias


def uniform(*shape: int) -> Tensor:
    """Numbers between -1 and 1 from torch's global stream."""
    return 2 * torch.rand(*shape) - 1
