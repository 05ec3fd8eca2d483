"""Worlds with known latents: latents with a law, a decoder, and the structure between them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor

from noumena import checks, seeds
from noumena.deprecated import renamed
from noumena.derivatives import jacobian
from noumena.structure import Structure
from noumena.worlds.laws import Law


@dataclass(frozen=True)
class Sample:
    """Observations with the latents behind them.

    Attributes
    ----------
    x : array of shape (n_samples, n_observed)
        Observations.
    z : array of shape (n_samples, n_latents)
        Latents.
    u : array of shape (n_samples,), optional
        Auxiliary labels, such as components of a mixture.
    """

    x: np.ndarray
    z: np.ndarray
    u: np.ndarray | None = None


class Decoding:
    """Mixin of worlds with a ``decoder``: observations and Jacobians of latents."""

    decoder: Callable[[Tensor], Tensor]

    def decode(self, z: Any) -> Any:
        """Noise-free observations; numpy in, numpy out."""
        if isinstance(z, Tensor):
            return self.decoder(z)
        return self.decoder(torch.as_tensor(checks.table(z, "z"), dtype=torch.float64)).numpy()

    def jacobian(self, z: Any) -> Any:
        """The Jacobian at each point, (batch, observed, latent); numpy in, numpy out."""
        if isinstance(z, Tensor):
            return jacobian(self.decoder, z)
        return jacobian(self.decoder, torch.as_tensor(checks.table(z, "z"), dtype=torch.float64)).numpy()


@dataclass(frozen=True)
class World(Decoding):
    """A world ``x = decoder(z) + noise`` with ``z`` from a law.

    Attributes
    ----------
    structure : Structure
        Which observation depends on which latent.
    law : Law
        Law of the latents.
    decoder : callable
        From tensors of latents to observations.
    noise : float
        Standard deviation of the observation noise.
    seed : int
        Seed of the world.
    facts : dict of str to float
        What was verified when the world was built, with the measured margins.
    """

    structure: Structure
    law: Law
    decoder: Callable[[Tensor], Tensor]
    noise: float = 0.0
    seed: int = 0
    facts: dict[str, float] = field(default_factory=dict)

    @property
    def n_latents(self) -> int:
        """Number of latents, d_z."""
        return self.structure.n_latents

    @property
    def n_observed(self) -> int:
        """Number of observations, d_x."""
        return self.structure.n_observed

    @renamed(seed="random_state")
    def sample(self, n: int, *, random_state: Any = 0) -> Sample:
        """Draw ``n`` rows; the same seed draws the same rows."""
        seed = seeds.seed_of(random_state)
        n = checks.count(n, "n")
        z = self.latents(n, random_state=seed)
        noise = torch.randn(
            n, self.n_observed, generator=seeds.generator(self.seed, "observation noise", seed), dtype=z.dtype
        )
        return Sample(x=(self.decoder(z) + self.noise * noise).numpy(), z=z.numpy())

    @renamed(seed="random_state")
    def latents(self, n: int, *, random_state: Any = 0) -> Tensor:
        """Draw ``n`` latent points."""
        seed = seeds.seed_of(random_state)
        seed = checks.count(seed, "seed", minimum=0)
        return self.law.draw(n, seeds.generator(self.seed, "latents", seed))
