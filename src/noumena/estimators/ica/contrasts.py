"""Contrasts: how far a component is from a Gaussian, by the mean of one function of it.

``G`` is even; its derivative ``g`` and second derivative ``g'`` are what a fixed-point iteration needs. A contrast is
``Σ_i (E G(y_i) − E G(ν))²`` with ν standard normal: zero for Gaussian components, blind to their order and signs.

Reference: Hyvärinen (1999), "Fast and robust fixed-point algorithms for independent component analysis".
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import log, sqrt

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import softplus

from noumena import checks

Components = Float[Tensor, "*batch rows component"]


@dataclass(frozen=True)
class ContrastFunction:
    """A function of components: ``parts(y)`` is ``g(y)`` and the sum of ``g'(y)`` over rows; ``value(y)`` is ``G(y)``.

    ``parts`` may overwrite ``y``. ``gaussian`` is the mean of ``G`` over a standard normal.

    >>> g, slope = cube.parts(torch.tensor([[2.0], [-1.0]]))
    >>> g.flatten().tolist(), slope.tolist()  # y³ and Σ 3y²
    ([8.0, -1.0], [15.0])
    """

    name: str
    parts: Callable[[Tensor], tuple[Tensor, Tensor]]
    value: Callable[[Tensor], Tensor]
    gaussian: float


def _log_cosh(y: Components) -> tuple[Components, Tensor]:
    g = y.tanh_()
    return g, y.shape[-2] - g.square().sum(dim=-2)


def _exp(y: Components) -> tuple[Components, Tensor]:
    bell = torch.exp(-y.square() / 2)
    g = y * bell
    return g, (bell - y * g).sum(dim=-2)


def _cube(y: Components) -> tuple[Components, Tensor]:
    square = y.square()
    return square * y, 3 * square.sum(dim=-2)


log_cosh = ContrastFunction("logcosh", _log_cosh, lambda y: 2 * softplus(y, beta=2) - y - log(2), 0.3745672075)
exp = ContrastFunction("exp", _exp, lambda y: -torch.exp(-y.square() / 2), -1 / sqrt(2))
cube = ContrastFunction("cube", _cube, lambda y: y.square().square() / 4, 0.75)

NAMES = ("logcosh", "exp", "cube")


def contrast_called(name: str) -> ContrastFunction:
    """The contrast of this name.

    >>> contrast_called("exp").gaussian ** 2
    0.4999999999999999
    """
    checks.one_of(name, "contrast", NAMES)
    return {"logcosh": log_cosh, "exp": exp, "cube": cube}[name]
