"""The pinwheel: Gaussian clusters around a circle, bent into spiral arms.

A point of cluster ``u`` is ``(r, t)`` with ``r ~ N(1, radial²)`` and ``t ~ N(0, tangential²)``, rotated by the
cluster's
own angle ``2πu/K`` and then by ``rate · exp(r)``. The latents ``z`` are the points before the second rotation, a
Gaussian mixture; the observations are ten times the points after it.

References
----------
Johnson et al. (2016), "Composing graphical models with neural networks for structured representations and fast
inference"; used in Kivva et al. (2022), "Identifiability of deep generative models without
auxiliary information", section 5.

Deviations: the second rotation depends on ``r`` of the point's own cluster, so ``x`` is a function of ``z`` and ``u``,
not of ``z`` alone. Clusters have equal sizes, up to one point.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import pi
from typing import Any

import numpy as np

from noumena import checks, seeds
from noumena.deprecated import renamed
from noumena.mixtures import Mixture
from noumena.worlds.world import Sample

SCALE = 10.0
"""Observations are this much larger than latents."""


@dataclass(frozen=True)
class Pinwheel:
    """The pinwheel world; ``pinwheel`` has its usual parameters.

    Attributes
    ----------
    clusters : int
        Number of clusters.
    radial, tangential : float
        Standard deviations along and across an arm.
    rate : float
        How much arms bend; 0 leaves them straight.
    seed : int
        Seed of the world.
    """

    clusters: int
    radial: float
    tangential: float
    rate: float
    seed: int

    n_latents = 2
    n_observed = 2

    @property
    def mixture(self) -> Mixture:
        """The exact law of the latents."""
        turns = _turned(2 * pi * np.arange(self.clusters) / self.clusters)
        spread = np.diag([self.radial**2, self.tangential**2])
        weights = np.full(self.clusters, 1 / self.clusters)
        return Mixture(weights, turns[:, :, 0], turns @ spread @ turns.transpose(0, 2, 1))

    @renamed(seed="random_state")
    def sample(self, n: int, *, random_state: Any = 0) -> Sample:
        """Draw ``n`` rows, ``u`` the cluster of each; the same seed draws the same rows."""
        seed = seeds.seed_of(random_state)
        n = checks.count(n, "n")
        rng = seeds.numpy_generator(self.seed, "pinwheel", seeds.seed_of(seed))
        u = rng.permutation(np.arange(n) % self.clusters)
        z = rng.standard_normal((n, 2)) * [self.radial, self.tangential] + [1.0, 0.0]
        angle, bend = 2 * pi * u / self.clusters, self.rate * np.exp(z[:, 0])
        x = SCALE * np.einsum("nij,nj->ni", _turned(angle + bend), z)
        return Sample(x=x, z=np.einsum("nij,nj->ni", _turned(angle), z), u=u)


def _turned(angle: np.ndarray) -> np.ndarray:
    """Rotation matrices of the plane, clockwise as in the original."""
    c, s = np.cos(angle), np.sin(angle)
    return np.stack([np.stack([c, s], axis=-1), np.stack([-s, c], axis=-1)], axis=-2)


@renamed(seed="random_state")
def pinwheel(
    clusters: int = 3, *, radial: float = 0.3, tangential: float = 0.05, rate: float = 0.25, random_state: Any = 0
) -> Pinwheel:
    """The pinwheel with its usual parameters.

    Parameters
    ----------
    clusters : int
        Number of clusters.
    radial, tangential : float
        Standard deviations along and across an arm.
    rate : float
        How much arms bend.
    random_state : int, Generator or None
        Seed of the world.

    Returns
    -------
    Pinwheel

    Examples
    --------
    >>> straight = pinwheel(2, radial=0.0, tangential=0.0, rate=0.0).sample(2)
    >>> sorted(straight.x.round(6).tolist())
    [[-10.0, -0.0], [10.0, 0.0]]
    """
    seed = seeds.seed_of(random_state)
    return Pinwheel(
        checks.count(clusters, "clusters"),
        checks.number(radial, "radial", minimum=0),
        checks.number(tangential, "tangential", minimum=0),
        checks.number(rate, "rate"),
        seeds.seed_of(seed),
    )
