"""An autoencoder of images given as flat rows, whose small maps are made of vectors from a book of codes.

The encoder halves the side with every width and ends in maps of few channels; every vector across the channels is
replaced by the nearest code, and the decoder, its mirror image, sees the codes. Gradients pass the replacement
unchanged (straight through). ``encode`` gives the maps before it: smooth, and near the codes where they were trained.

References: van den Oord et al. (2017), *Neural discrete representation learning* (VQ-VAE) and, for the sizes, the
autoencoder of latent diffusion (Rombach et al. 2022) that EncDiff (Yang et al. 2024) uses: 64 × 64 pixels to 16 × 16 ×
3. **Deviations**: no batch or group normalisation and fewer layers; 512 codes and not 2048; the codes start at vectors
of the data, which keeps most of them in use.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor, nn

from noumena import checks
from noumena.nets.conv import KERNEL, Convolutional, kaiming_normal
from noumena.nets.residual import ResidualBlock


class Quantised(NamedTuple):
    """Vectors replaced by codes."""

    code: Float[Tensor, "vector channel"]
    """The nearest code of every vector; gradients reach the codes."""
    usage: Float[Tensor, " code"]
    """The share of vectors that every code stands for."""


def quantised(h: Float[Tensor, "vector channel"], codes: Float[Tensor, "code channel"]) -> Quantised:
    """The nearest code of every vector, and how often each is used; blind to the order of the vectors.

    >>> found = quantised(torch.tensor([[0.9], [0.2], [0.8]]), torch.tensor([[0.0], [1.0]]))
    >>> found.code.T, found.usage
    (tensor([[1., 0., 1.]]), tensor([0.3333, 0.6667]))
    """
    with torch.autocast(h.device.type, enabled=False):
        kept = codes.detach().to(torch.promote_types(codes.dtype, torch.float32))
        far = kept.square().sum(dim=-1) - 2 * h.detach().to(kept) @ kept.mT
        numbers = torch.arange(len(codes), device=h.device)
        chosen = (far.argmin(dim=-1, keepdim=True) == numbers).to(codes)
        return Quantised(chosen @ codes, chosen.mean(dim=0))


@dataclass(frozen=True)
class VectorQuantised:
    """A builder: ``VectorQuantised(3, 64)(12288, 12288)`` is an autoencoder of images by way of 3 × 16 × 16 numbers.

    Parameters: the images' ``channels`` and side ``size``; ``widths``, each of which halves the side; ``blocks``, the
    number of residual blocks at the smallest side; ``depth``, channels of a code; ``codes``, how many there are.

    >>> net = VectorQuantised(1, 8, widths=(4, 4), codes=5)(64, 64)
    >>> net.encode(torch.zeros(2, 64)).shape, net(torch.zeros(2, 64)).shape
    (torch.Size([2, 12]), torch.Size([2, 64]))
    """

    channels: int = 3
    size: int = 64
    widths: tuple[int, ...] = (64, 128)
    blocks: int = 2
    depth: int = 3
    codes: int = 512

    def __post_init__(self) -> None:
        object.__setattr__(self, "widths", self.frame.widths)
        for name in ("depth", "codes"):
            checks.count(getattr(self, name), name)
        checks.count(self.blocks, "blocks", minimum=0)

    @property
    def frame(self) -> Convolutional:
        """The convolutions without what follows."""
        return Convolutional(self.channels, self.size, self.widths)

    @property
    def side(self) -> int:
        """The side of the maps of codes."""
        return self.frame.side

    def __call__(self, inputs: int, outputs: int) -> QuantisedAutoencoder:
        """The network, initialised from torch's global stream."""
        self.frame.pixels(inputs, "inputs")
        self.frame.pixels(outputs, "outputs")
        return QuantisedAutoencoder(self)


class QuantisedAutoencoder(nn.Module):
    """The network that ``VectorQuantised`` builds."""

    def __init__(self, plan: VectorQuantised):
        super().__init__()
        self.shape = (plan.depth, plan.side, plan.side)
        frame, wide = plan.frame, plan.widths[-1]
        inward = [nn.Conv2d(a, b, *KERNEL) for a, b in pairwise((plan.channels, *plan.widths))]
        self.encoder = nn.Sequential(
            nn.Unflatten(1, (plan.channels, plan.size, plan.size)), *frame.activated(inward), *_blocks(plan), nn.ReLU(),
            kaiming_normal(nn.Conv2d(wide, plan.depth, 1)), nn.Flatten(),
        )  # fmt: skip
        *outward, pixels = [nn.ConvTranspose2d(b, a, *KERNEL) for a, b in pairwise((plan.channels, *plan.widths))][::-1]
        self.decoder = nn.Sequential(
            nn.Unflatten(1, self.shape), kaiming_normal(nn.Conv2d(plan.depth, wide, 3, padding=1)),
            *_blocks(plan), nn.ReLU(),
            *frame.activated(outward), kaiming_normal(pixels), nn.Flatten(),
        )  # fmt: skip
        self.codes = nn.Parameter(torch.randn(plan.codes, plan.depth))

    def encode(self, x: Float[Tensor, "batch pixel"]) -> Float[Tensor, "batch dim"]:
        """Flat maps of images, before codes take their place."""
        return self.encoder(x)

    def decode(self, h: Float[Tensor, "batch dim"]) -> Float[Tensor, "batch pixel"]:
        """Images of flat maps, as they are: no code takes their place."""
        return self.decoder(h)

    def quantise(self, h: Float[Tensor, "batch dim"]) -> tuple[Float[Tensor, "batch dim"], Float[Tensor, " code"]]:
        """The flat maps with codes in place of vectors, gradients reaching the codes; and how often each is used."""
        maps = h.unflatten(1, self.shape).movedim(1, -1)
        found = quantised(maps.flatten(0, -2), self.codes)
        return found.code.unflatten(0, maps.shape[:-1]).movedim(-1, 1).flatten(1), found.usage

    def forward(self, x: Float[Tensor, "batch pixel"]) -> Float[Tensor, "batch pixel"]:
        """Images made again by way of codes; gradients pass those straight through."""
        h = self.encode(x)
        return self.decode(straight_through(h, self.quantise(h)[0]))

    def settle_codes(self, x: Float[Tensor, "batch pixel"], generator: torch.Generator) -> None:
        """Put the codes where vectors of these images are, each at one drawn at random."""
        with torch.no_grad():
            vectors = self.encode(x).unflatten(1, self.shape).movedim(1, -1).flatten(0, -2)
            places = torch.randint(len(vectors), (len(self.codes),), generator=generator)
            self.codes.copy_(vectors[places.to(x.device)])


def straight_through(h: Tensor, q: Tensor) -> Tensor:
    """The values of ``q`` with the gradients of ``h``.

    >>> h = torch.tensor(2.0, requires_grad=True)
    >>> y = 3 * straight_through(h, torch.tensor(5.0))
    >>> y.backward()
    >>> float(y.detach()), float(h.grad)
    (15.0, 3.0)
    """
    return h + (q - h).detach()


def _blocks(plan: VectorQuantised) -> list[nn.Module]:
    return [ResidualBlock(plan.widths[-1]) for _ in range(plan.blocks)]
