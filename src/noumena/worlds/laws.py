"""Laws of the latents, by name.

``gaussian`` has independent components with variances drawn from U[0.5, 3]; ``unit gaussian``, ``laplace`` and
``uniform`` are independent with unit variance; ``correlated gaussian`` has a random correlation matrix; ``linear sem``
is a random acyclic linear structural equation model with Gaussian noise.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import sqrt
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from noumena import checks, seeds
from noumena.deprecated import renamed

NAMES = ("gaussian", "unit gaussian", "laplace", "uniform", "correlated gaussian", "linear sem")


@dataclass(frozen=True)
class Law:
    """A distribution of latents.

    Attributes
    ----------
    name : str
        What it is called.
    n_latents : int
        Number of latents.
    independent : bool
        Whether its components are independent.
    draw : callable
        ``draw(n, generator)``, a tensor of shape (n, n_latents).
    """

    name: str
    n_latents: int
    independent: bool
    draw: Callable[[int, torch.Generator], Float[Tensor, "batch latent"]]


@renamed(seed="random_state")
def law(name: str, n_latents: int, *, random_state: Any = 0) -> Law:
    """A law by name.

    Parameters
    ----------
    name : {"gaussian", "unit gaussian", "laplace", "uniform", "correlated gaussian", "linear sem"}
        The law.
    n_latents : int
        Number of latents.
    random_state : int, Generator or None
        Seed of its parameters: variances, correlations, edges.

    Returns
    -------
    Law

    Examples
    --------
    >>> law("uniform", 3).draw(4, seeds.generator(0)).shape
    torch.Size([4, 3])
    """
    seed = seeds.seed_of(random_state)
    checks.one_of(name, "law", NAMES)
    checks.count(n_latents, "n_latents")
    generator = seeds.generator(seed, "law", name)

    def linear(mix: Tensor) -> Callable[[int, torch.Generator], Tensor]:
        return lambda n, g: torch.randn(n, n_latents, generator=g, dtype=torch.float64) @ mix.T

    if name == "gaussian":
        variance = 0.5 + 2.5 * torch.rand(n_latents, generator=generator, dtype=torch.float64)
        return Law(name, n_latents, True, linear(torch.diag(variance.sqrt())))
    if name == "unit gaussian":
        return Law(name, n_latents, True, linear(torch.eye(n_latents, dtype=torch.float64)))
    if name == "correlated gaussian":
        return Law(name, n_latents, n_latents == 1, linear(_correlated(n_latents, generator)))
    if name == "linear sem":
        return Law(name, n_latents, n_latents == 1, linear(_acyclic(n_latents, generator)))
    return Law(name, n_latents, True, {"laplace": _laplace, "uniform": _uniform}[name](n_latents))


def law_of(chosen: str | Law, n_latents: int, *, random_state: Any = 0) -> Law:
    """A law by its name, or the user's own, which must have as many latents.

    Examples
    --------
    >>> law_of("laplace", 2).name
    'laplace'
    """
    seed = seeds.seed_of(random_state)
    if isinstance(chosen, str):
        return law(chosen, n_latents, random_state=seed)
    checks.require(chosen.n_latents == n_latents, f"The law must have {n_latents} latents.", f"{chosen.n_latents}")
    return chosen


def _laplace(d: int) -> Callable[[int, torch.Generator], Tensor]:
    def draw(n: int, g: torch.Generator) -> Tensor:
        u = torch.rand(n, d, generator=g, dtype=torch.float64) - 0.5
        return -u.sign() * torch.log1p(-2 * u.abs()) / sqrt(2)

    return draw


def _uniform(d: int) -> Callable[[int, torch.Generator], Tensor]:
    return lambda n, g: sqrt(3) * (2 * torch.rand(n, d, generator=g, dtype=torch.float64) - 1)


def _correlated(d: int, generator: torch.Generator) -> Tensor:
    """A square root of a random correlation matrix (of a Wishart matrix with 2d degrees of freedom)."""
    factor = torch.randn(d, 2 * d, generator=generator, dtype=torch.float64)
    covariance = factor @ factor.T
    scale = covariance.diagonal().rsqrt()
    return torch.linalg.cholesky(scale[:, None] * covariance * scale[None, :])


def _acyclic(d: int, generator: torch.Generator) -> Tensor:
    """``(I − A)⁻¹`` of a random triangular ``A``: half of the edges, weights ±U(0.2, 1)."""
    weight = 0.2 + 0.8 * torch.rand(d, d, generator=generator, dtype=torch.float64)
    sign = torch.randint(0, 2, (d, d), generator=generator) * 2 - 1
    edge = torch.rand(d, d, generator=generator) < 0.5
    A = torch.tril(weight * sign * edge, diagonal=-1)
    return torch.linalg.inv(torch.eye(d, dtype=torch.float64) - A)
