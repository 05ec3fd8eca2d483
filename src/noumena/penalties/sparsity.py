"""Sparsity of dependencies (of the decoder's Jacobian) and of latents.

Reference: diverse dictionary learning, Section 4: ``R = mean_b Σ_ij |∂x_i/∂z_j (z_b)|``, L1 in place of L0.
Deviations: a sharper surrogate is the default. ``log`` counts an entry as ``log(1 + |J|/ε) / log(1 + 1/ε)``, which is
1 at ``|J| = 1`` and bends towards L0 as ``ε → 0``; weight and ``ε`` are annealed over the first part of a fit.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import log1p

from jaxtyping import Float
from torch import Tensor

from noumena import checks
from noumena.derivatives import Map, jacobian
from noumena.penalties.penalty import Draws, Penalty


def dependency_l1(J: Float[Tensor, "batch observed latent"]) -> Float[Tensor, ""]:
    """Mean over points of the sum of absolute Jacobian entries; zero iff the decoder is constant there.

    >>> import torch
    >>> float(dependency_l1(torch.tensor([[[1.0, -2.0], [0.0, 0.5]]])))
    3.5
    """
    return J.abs().sum(dim=(-2, -1)).mean()


def dependency_log(J: Float[Tensor, "batch observed latent"], scale: float) -> Float[Tensor, ""]:
    """Mean over points of ``Σ log(1 + |J|/ε) / log(1 + 1/ε)``; an entry of size 1 counts 1, zero counts 0.

    >>> import torch
    >>> float(dependency_log(torch.eye(3)[None], 0.1).round(decimals=4))
    3.0
    """
    return (J.abs() / scale).log1p().sum(dim=(-2, -1)).mean() / log1p(1 / scale)


@dataclass(frozen=True)
class DependencySparsity(Penalty):
    """Few dependencies: the decoder's Jacobian should have few non-zero entries.

    Parameters: ``surrogate`` is ``"log"`` or ``"l1"``. Over the first ``ramp`` of a fit the weight rises from 0 to 1
    and the log surrogate's ``ε`` falls geometrically from ``start`` to ``scale``. ``points`` caps how many rows of a
    batch the Jacobian is taken at (the mean over rows stays unbiased); ``None`` takes all.

    >>> import torch
    >>> DependencySparsity("l1")(lambda z: 2 * z, torch.zeros(4, 3))
    tensor(6.)
    """

    surrogate: str = "log"
    scale: float = 0.03
    start: float = 10.0
    ramp: float = 0.8
    points: int | None = None

    needs_scale = True

    def __post_init__(self) -> None:
        checks.one_of(self.surrogate, "surrogate", ("log", "l1"))
        checks.number(self.scale, "scale", minimum=1e-12)
        checks.number(self.start, "start", minimum=self.scale)
        checks.number(self.ramp, "ramp", minimum=0, maximum=1)
        if self.points is not None:
            checks.count(self.points, "points")

    def __call__(self, decoder: Map, z: Tensor, progress: float = 1.0, draws: Draws | None = None) -> Tensor:
        """The penalty at points ``z``."""
        J = jacobian(decoder, z[: self.points])
        fraction = 1.0 if progress >= self.ramp else progress / self.ramp
        if self.surrogate == "l1":
            return fraction * dependency_l1(J)
        return fraction * dependency_log(J, self.start * (self.scale / self.start) ** fraction)


@dataclass(frozen=True)
class LatentSparsity(Penalty):
    """Small latents: the mean of ``|ẑ|``; the baseline that acts on codes and not on dependencies.

    >>> import torch
    >>> LatentSparsity()(None, torch.tensor([[1.0, -3.0]]))
    tensor(2.)
    """

    needs_scale = True

    def __call__(self, decoder: Map | None, z: Tensor, progress: float = 1.0, draws: Draws | None = None) -> Tensor:
        """The mean absolute latent; the decoder is not looked at."""
        return z.abs().mean()
