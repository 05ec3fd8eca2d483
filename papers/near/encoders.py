"""Encoders without a decoder, trained so that two views of an image are near and latents stay spread and uncorrelated.

Reference: Bardes, Ponce and LeCun (2022), VICReg; the loss is that of their Section 4 with its weights 25, 25 and 1.
Views are shifted by up to two pixels, darkened, and lack a square: a few random numbers per image. **Deviations**: one
channel, small images, and an encoder as narrow as the autoencoders' it is compared with.
"""

from __future__ import annotations

from math import isqrt
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from noumena import checks
from noumena.checks import InputError
from noumena.estimators.base import Builder, Codec, Estimator, network
from noumena.estimators.loop import Training
from noumena.nets import MLP

INVARIANCE, VARIANCE, COVARIANCE = 25.0, 25.0, 1.0
SHIFT = 2.0
"""Pixels by which a view may be moved in each direction."""
DARKEST, HOLE = 0.5, 0.25
"""The least brightness of a view, and the side of its missing square as a share of the image's."""
DRAWN = 5
"""Random numbers of a view: two of its shift, two of its hole, one of its brightness."""
EXPANDED = 128
"""Columns in which views are compared."""
TINY = 1e-4

Views = Float[Tensor, "batch latent"]
Value = Float[Tensor, ""]


def variance_loss(z: Views) -> Value:
    """``mean_i max(0, 1 − √(var z_i + ε))``: zero iff every column spreads by one or more; shifts change nothing.

    >>> variance_loss(torch.tensor([[-1.0, 0.0], [1.0, 0.0]]))  # spreads √2 and 0: (0 + 1 − √ε)/2
    tensor(0.4950)
    """
    return torch.relu(1 - (z.var(dim=0) + TINY).sqrt()).mean()


def covariance_loss(z: Views) -> Value:
    """``Σ_{i≠j} C_ij²/d``: zero iff no two columns correlate; signed permutations and shifts change nothing.

    >>> covariance_loss(torch.tensor([[-1.0, -1.0], [1.0, 1.0]]))  # all four entries of C are 2
    tensor(4.)
    """
    centred = z - z.mean(dim=0)
    C = centred.T @ centred / (len(z) - 1)
    return (C.square().sum() - C.diagonal().square().sum()) / z.shape[1]


def vicreg(a: Views, b: Views) -> tuple[Value, dict[str, Value]]:
    """Loss of two views' codes and its terms: far from zero as soon as views differ, or columns shrink or correlate.

    >>> one = torch.tensor([[-1.0], [1.0]])
    >>> vicreg(one, one + 2)[0]  # spread enough, one column: 25 · 2² is left
    tensor(100.)
    """
    terms = {
        "invariance": (a - b).square().mean(),
        "variance": variance_loss(a) + variance_loss(b),
        "covariance": covariance_loss(a) + covariance_loss(b),
    }
    loss = INVARIANCE * terms["invariance"] + VARIANCE * terms["variance"] + COVARIANCE * terms["covariance"]
    return loss, terms


def moved(images: Float[Tensor, "batch side side"], by: Float[Tensor, "batch 2"]) -> Float[Tensor, "batch side side"]:
    """Images moved down and right by a number of pixels, linear between whole ones, with nothing moved in.

    >>> moved(torch.tensor([[[1.0, 2.0], [3.0, 4.0]]]), torch.tensor([[1.0, 0.5]]))
    tensor([[[0.0000, 0.0000],
             [0.5000, 1.5000]]])
    """
    place = torch.arange(images.shape[-1]).to(images)
    ahead = place[:, None] - place
    down, right = (torch.relu(1 - (ahead - by[:, axis, None, None]).abs()) for axis in (0, 1))
    return down @ images @ right.transpose(1, 2)


def view(x: Float[Tensor, "batch pixel"], draw: Float[Tensor, "batch drawn"]) -> Float[Tensor, "batch pixel"]:
    """A view of flat square images: moved, with a hole, darkened; ``draw`` is uniform in [0, 1].

    >>> still = torch.tensor([[0.5, 0.5, 9.0, 9.0, 1.0]])  # no shift, the hole elsewhere, half as bright
    >>> view(torch.ones(1, 4), still)
    tensor([[0.5000, 0.5000, 0.5000, 0.5000]])
    """
    side = isqrt(x.shape[1])
    images = moved(x.reshape(-1, side, side), SHIFT * (2 * draw[:, :2] - 1))
    place = torch.arange(side).to(x) + 0.5
    near = ((place - side * draw[:, 2:4, None]).abs() < HOLE * side / 2).to(x)
    seen = 1 - near[:, 0, :, None] * near[:, 1, None, :]
    bright = 1 - (1 - DARKEST) * draw[:, 4, None, None]
    return (images * seen * bright).reshape(x.shape)


class VICRegObjective(Codec):
    """VICReg of the expanded codes of two views of every row."""

    def __init__(self, encoder: nn.Module, expander: nn.Module, mean: Tensor, scale: Tensor):
        super().__init__(encoder, nn.Identity(), mean, scale)
        self.expander = expander

    def decode(self, z: Tensor) -> Tensor:
        """There is no way back."""
        raise InputError("A model must have a decoder to give observations. Got an encoder alone.")

    def draws(self, rows: int, generator: torch.Generator) -> dict[str, Tensor]:
        """Uniform numbers for both views."""
        return {"views": torch.rand(rows, 2 * DRAWN, generator=generator)}

    def forward(self, x: Tensor, draws: dict[str, Tensor], progress: float) -> tuple[Tensor, dict[str, Tensor]]:
        """Loss and terms on a batch of images."""
        a, b = (self.expander(self.encoder(view(x, draw))) for draw in draws["views"].chunk(2, dim=1))
        return vicreg(a, b)


class VICReg(Estimator):
    """A self-supervised encoder of flat square images.

    Parameters: ``n_latents``; ``encoder`` and ``expander`` are builders called with the numbers of inputs and outputs;
    ``n_models`` seeds in one program; ``training``; ``random_state``. Images are taken as they are.
    """

    penalty = None
    standardise = False

    def __init__(
        self, n_latents: int = 10, *, encoder: Builder | None = None, expander: Builder | None = None,
        n_models: int = 1, training: Training | None = None, random_state: Any = None,
    ):  # fmt: skip
        self.n_latents = n_latents
        self.encoder = encoder
        self.expander = expander
        self.n_models = n_models
        self.training = training
        self.random_state = random_state

    def _build(self, n_observed: int, mean: Tensor, scale: Tensor) -> Codec:
        checks.require(isqrt(n_observed) ** 2 == n_observed, "x must be flat square images.", f"{n_observed} columns")
        encoder = network(self.encoder, "encoder", n_observed, self.n_latents)
        expander = network(self.expander or MLP((EXPANDED,)), "expander", self.n_latents, EXPANDED)
        return VICRegObjective(encoder, expander, mean, scale)
