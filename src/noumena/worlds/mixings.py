"""Layered mixings: orthogonal matrices with increasing activations between them, no bias, and their exact inverse.

Of ``M`` layers the first ``M − 1`` are followed by ``max(a_l h, h)`` with ``a_l ~ U(0.5, 1.5)``, or one slope for all
of
them. ``max(a h, h)`` has slope ``min(a, 1)`` below zero and ``max(a, 1)`` above, for ``a > 1`` too. It is built as
``max(a, 1) · LeakyReLU(min(a, 1/a))`` with the factor in the next matrix: a plain sequence of linear and leaky layers.

References
----------
Xu et al. (2026), "Identifiability of Potentially Degenerate Gaussian Mixture Models With Piecewise
Affine Mixing", numerical experiments and Appendix E.1.

Deviations: the paper names "smooth Leaky-ReLU" and no formula; ours is ``min(a, 1)·h + |1 − a|·softplus(h)``, with the
same two slopes far from zero. ``sigmoid`` has no slope; its layers contract by four or more each.
"""

from __future__ import annotations

from itertools import combinations
from math import cos, radians, sin
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from noumena import checks, seeds
from noumena.deprecated import renamed

KINDS = ("piecewise affine", "smooth", "sigmoid", "affine")
SLOPES = (0.5, 1.5)
NEWTON = 100
"""Most Newton steps for the inverse of a smooth activation."""


class SmoothLeaky(nn.Module):
    """``min(a, 1)·h + |1 − a|·softplus(h)``: increasing, with the slopes of ``max(a h, h)`` far from zero.

    >>> smooth = SmoothLeaky(0.5)
    >>> h = torch.tensor([-1.0, 0.0, 3.0], dtype=torch.float64)
    >>> bool(torch.allclose(smooth.inverse(smooth(h)), h))
    True
    """

    def __init__(self, a: float):
        super().__init__()
        self.below, self.bend = min(a, 1.0), abs(1 - a)

    def forward(self, h: Tensor) -> Tensor:
        """The activation."""
        return self.below * h + self.bend * torch.logaddexp(h, torch.zeros_like(h))

    def inverse(self, y: Tensor) -> Tensor:
        """The inverse by Newton's method, which converges monotonically as the activation is convex."""
        h = y / (self.below + self.bend)
        for _ in range(NEWTON):
            step = (self(h) - y) / (self.below + self.bend * torch.sigmoid(h))
            h = h - step
            if bool((step.abs() <= 1e-15 * (1 + h.abs())).all()):
                break
        return h


class Layers(nn.Sequential):
    """A mixing ``z ↦ x`` of as many observations as latents.

    Parameters
    ----------
    *layers : torch.nn.Module
        Linear layers and increasing activations.
    slopes : tuple of float
        The activations' ``a_l``.
    """

    def __init__(self, *layers: nn.Module, slopes: tuple[float, ...] = ()):
        super().__init__(*layers)
        self.slopes = slopes

    def inverse(self, x: Float[Tensor, "batch observed"]) -> Float[Tensor, "batch latent"]:
        """The latents behind observations, exactly: transposed matrices and inverted activations.

        Observations that the mixing cannot emit have none: a sigmoid layer answers them with NaN.
        """
        h = x
        for layer in reversed(list(self)):
            h = _undone(layer, h)
        return h


def _undone(layer: nn.Module, y: Tensor) -> Tensor:
    """The input of a layer from its output."""
    if isinstance(layer, nn.Linear):  # a multiple of an orthogonal matrix
        return y @ (layer.weight / layer.weight.square().sum(dim=1, keepdim=True))
    if isinstance(layer, nn.LeakyReLU):
        return F.leaky_relu(y, 1 / layer.negative_slope)
    if isinstance(layer, SmoothLeaky):
        return layer.inverse(y)
    return torch.logit(y)


@renamed(seed="random_state")
def layered(
    n: int, layers: int, *, kind: str = "piecewise affine", slope: float | None = None, random_state: Any = 0
) -> Layers:
    """A random layered mixing.

    Parameters
    ----------
    n, layers : int
        Number of latents, and of layers.
    kind : {"piecewise affine", "smooth", "sigmoid", "affine"}
        The activations.
    slope : float, optional
        Every ``a_l``; by default drawn from U(0.5, 1.5).
    random_state : int, Generator or None
        Seed of matrices and slopes.

    Returns
    -------
    Layers

    Examples
    --------
    >>> mixing = layered(3, 10, slope=0.2)
    >>> z = torch.randn(5, 3, dtype=torch.float64)
    >>> len(mixing), bool(torch.allclose(mixing.inverse(mixing(z)), z))
    (19, True)
    """
    seed = seeds.seed_of(random_state)
    n, layers = checks.count(n, "n"), checks.count(layers, "layers")
    checks.one_of(kind, "mixing", KINDS)
    sloped = kind in ("piecewise affine", "smooth")
    if slope is not None:
        checks.require(sloped, "slope must be left out where no activation has one.", f"{slope} for a {kind} mixing")
        slope = checks.number(slope, "slope", minimum=1e-6, maximum=1e6)
    rng = seeds.numpy_generator(seed, "mixing", n)
    drawn = rng.uniform(*SLOPES, size=layers - 1 if sloped else 0)
    slopes = tuple(float(a) if slope is None else slope for a in drawn)
    return Layers(*_built(n, layers, kind, slopes, rng), slopes=slopes)


def _built(n: int, layers: int, kind: str, slopes: tuple[float, ...], rng: np.random.Generator) -> list[nn.Module]:
    built: list[nn.Module] = []
    for level in range(layers):
        factor = max(slopes[level - 1], 1.0) if kind == "piecewise affine" and level else 1.0
        built.append(linear(factor * orthogonal(n, rng)))
        if level == layers - 1 or kind == "affine":
            continue
        if kind == "sigmoid":
            built.append(nn.Sigmoid())
        else:
            a = slopes[level]
            built.append(SmoothLeaky(a) if kind == "smooth" else nn.LeakyReLU(min(a, 1 / a)))
    return built


def linear(matrix: np.ndarray) -> nn.Linear:
    """A fixed linear layer ``z ↦ matrix @ z``.

    >>> linear(np.eye(3, 2))(torch.ones(1, 2, dtype=torch.float64)).tolist()
    [[1.0, 1.0, 0.0]]
    """
    layer = nn.Linear(matrix.shape[1], matrix.shape[0], bias=False, dtype=torch.float64, device="meta")
    layer.weight = nn.Parameter(torch.as_tensor(matrix), requires_grad=False)
    return layer


def orthogonal(n: int, rng: np.random.Generator) -> np.ndarray:
    """An orthogonal matrix drawn uniformly (Haar).

    >>> Q = orthogonal(3, np.random.default_rng(0))
    >>> bool(np.allclose(Q @ Q.T, np.eye(3)))
    True
    """
    Q, R = np.linalg.qr(rng.normal(size=(n, n)))
    return Q * np.sign(np.diag(R))


def plane_rotations(n: int, angle: float) -> np.ndarray:
    """The product of the rotations by ``angle`` degrees of all coordinate planes (1,2), (1,3) … (n−1,n).

    >>> plane_rotations(2, 90).round(6).tolist(), plane_rotations(3, 0).tolist()
    ([[0.0, -1.0], [1.0, 0.0]], [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]])
    """
    rotation, c, s = np.eye(n), cos(radians(angle)), sin(radians(angle))
    for i, j in combinations(range(n), 2) if angle else ():
        rotation[:, [i, j]] = rotation[:, [i, j]] @ np.array([[c, -s], [s, c]])
    return rotation
