"""Worlds whose latents follow a Gaussian mixture, among them the counterexamples of the theorems.

``mixed`` puts any mixture behind a layered mixing; ``non_degenerate`` and ``hidden_variables`` draw one first. A
``Counterexample`` is two worlds with the same observations whose latents differ by a map that a theorem would rule out
if its hypothesis held. ``equal_distances`` breaks one at any size; ``two_bases`` is among the degenerate worlds.

References
----------
Xu et al. (2026), "Identifiability of Potentially Degenerate Gaussian Mixture Models With Piecewise
Affine Mixing", Appendices D.7, E.2 and E.3; Kivva et al. (2022), "Identifiability of deep
generative models without auxiliary information", section 3.

Deviations: Xu et al. do not say how the mixtures of D.7 are drawn, nor what Table 18 extends Example E.2 to; see the
functions. Example E.2 has no competitor with two latents and two observations, for a homeomorphism of the plane keeps
opposite rays of a cross opposite; ``swapped_halves`` therefore has three observations.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, Protocol, runtime_checkable

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn

from noumena import checks, seeds
from noumena.deprecated import renamed
from noumena.mixtures import Mixture
from noumena.worlds.graphs import random_graph
from noumena.worlds.mixings import layered, linear, plane_rotations
from noumena.worlds.world import Decoding, Sample


@runtime_checkable
class ComponentSampler(Protocol):
    """A law that draws latents and the component of each, as ``Mixture`` does."""

    @property
    def n_latents(self) -> int:
        """Number of latents."""
        ...

    def sample(self, n: int, *, random_state: Any = 0) -> tuple[np.ndarray, np.ndarray]:
        """``n`` points and the component of each."""
        ...


@dataclass(frozen=True, eq=False)
class MixtureWorld(Decoding):
    """Latents from a mixture of components, ``x = decoder(z)``.

    Attributes
    ----------
    law : Mixture or another sampler of latents and components
        Law of the latents.
    decoder : callable
        From tensors of latents to observations.
    seed : int
        Seed of the world.
    facts : dict of str
        What the world satisfies.
    """

    law: ComponentSampler
    decoder: Callable[[Tensor], Tensor]
    seed: int
    facts: dict[str, Any]

    @property
    def mixture(self) -> Mixture | None:
        """The exact law of the latents; ``None`` when it is not a Gaussian mixture."""
        return self.law if isinstance(self.law, Mixture) else None

    @property
    def n_latents(self) -> int:
        """Number of latents, d_z."""
        return self.law.n_latents

    @property
    def n_observed(self) -> int:
        """Number of observations, d_x."""
        return int(self.decoder(torch.zeros(1, self.n_latents, dtype=torch.float64)).shape[1])

    @renamed(seed="random_state")
    def sample(self, n: int, *, random_state: Any = 0) -> Sample:
        """Draw ``n`` rows, ``u`` the component of each; the same seed draws the same rows."""
        seed = seeds.seed_of(random_state)
        stream = seeds.seed_of(seeds.numpy_generator(self.seed, "mixture world", seeds.seed_of(seed)))
        z, u = self.law.sample(checks.count(n, "n"), random_state=stream)
        return Sample(x=self.decode(z), z=z, u=u)


# ---- mixtures behind a layered mixing --------------------------------------------------------------------


@renamed(seed="random_state")
def mixed(
    mixture: Any,
    *,
    layers: int = 10,
    mixing: str = "piecewise affine",
    slope: float | None = None,
    facts: dict[str, Any] | None = None,
    random_state: Any = 0,
) -> MixtureWorld:
    """Any Gaussian mixture behind a random layered mixing.

    Parameters
    ----------
    mixture : Mixture or fitted GaussianMixture
        Law of the latents.
    layers, mixing, slope
        Passed to ``layered``.
    facts : dict, optional
        Further facts of the world.
    random_state : int, Generator or None
        Seed of the mixing.

    Returns
    -------
    MixtureWorld

    Examples
    --------
    >>> mixed(Mixture([1.0], [[0, 0]], [np.eye(2)]), layers=1).facts["independent within components"]
    True
    """
    seed = seeds.seed_of(random_state)
    law, seed = Mixture.of(mixture), seeds.seed_of(seed)
    decoder = layered(law.n_latents, layers, kind=mixing, slope=slope, random_state=seed)
    diagonal = np.eye(law.n_latents, dtype=bool)
    measured = {
        "gaussian": True,
        "piecewise affine": mixing in ("piecewise affine", "affine"),
        "non-degenerate": bool((law.ranks() == law.n_latents).all()),
        "independent within components": bool((law.covariances[:, ~diagonal] == 0).all()),
        "components": law.n_components,
    }
    return MixtureWorld(law, decoder, seed, {**measured, **(facts or {})})


@renamed(seed="random_state")
def non_degenerate(
    n: int,
    *,
    components: int | None = None,
    edges: int = 1,
    spread: float = 2.0,
    angle: float = 0.0,
    layers: int = 10,
    mixing: str = "piecewise affine",
    slope: float | None = None,
    random_state: Any = 0,
) -> MixtureWorld:
    """Full-rank components on one ER-``edges`` graph, as in Xu et al. (2026), D.7.

    Each component has its own noise variances from U(0.25, 2) and its own Gaussian mean; weights are equal. With
    ``edges=0`` and no rotation latents are independent within components and variance ratios differ (P2 of Kivva et
    al.).

    Parameters
    ----------
    n : int
        Number of latents.
    components : int, optional
        Number of components; two per latent by default.
    edges : int
        k of the ER-k graph that all components share.
    spread : float
        Standard deviation of the means, in those of the latents.
    angle : float
        Degrees by which all coordinate planes are rotated.
    layers, mixing, slope
        Passed to ``layered``.
    random_state : int, Generator or None
        Seed of the world.

    Returns
    -------
    MixtureWorld

    Examples
    --------
    >>> non_degenerate(3, edges=0).facts["independent within components"], non_degenerate(3).mixture.ranks().tolist()
    (True, [3, 3, 3, 3, 3, 3])
    """
    seed = seeds.seed_of(random_state)
    k = 2 * checks.count(n, "n") if components is None else checks.count(components, "components")
    spread, angle, seed = checks.number(spread, "spread", minimum=0), checks.number(angle, "angle"), seeds.seed_of(seed)
    graph, rng = random_graph(n, edges, random_state=seed), seeds.numpy_generator(seed, "components", n)
    variances = rng.uniform(0.25, 2, size=(k, n))
    covariances = graph.effects.T @ (variances[:, :, None] * graph.effects)
    means = spread * np.sqrt(np.diag(graph.covariance)) * rng.standard_normal((k, n))
    law = Mixture(np.full(k, 1 / k), means, covariances)
    law = law.pushed(plane_rotations(n, angle)) if angle else law
    return mixed(
        law, layers=layers, mixing=mixing, slope=slope, facts={"edges": int(graph.adjacency.sum())}, random_state=seed
    )


@renamed(seed="random_state")
def hidden_variables(
    neighbourhoods: Any,
    *,
    sizes: Sequence[int] | None = None,
    probabilities: Any = None,
    spread: float = 2.0,
    layers: int = 10,
    mixing: str = "piecewise affine",
    slope: float | None = None,
    random_state: Any = 0,
) -> MixtureWorld:
    """Latents that depend on several hidden discrete variables, and are independent Gaussians given these.

    Component ``u`` is the state ``numpy.unravel_index(u, sizes)``. Facts hold sizes, ``P(U)``, and whether no
    neighbourhood lies in another (P3).

    Parameters
    ----------
    neighbourhoods : array of bool of shape (n_variables, n_latents)
        Which variable moves which latent; a latent's mean and variance, from U(0.25, 2), depend on these variables.
    sizes : sequence of int, optional
        Numbers of states of the variables; two by default.
    probabilities : array of shape ``sizes``, optional
        ``P(U)``; random by default.
    spread : float
        Standard deviation of the means.
    layers, mixing, slope
        Passed to ``layered``.
    random_state : int, Generator or None
        Seed of the world.

    Returns
    -------
    MixtureWorld

    Examples
    --------
    >>> world = hidden_variables([[1, 1, 0], [0, 1, 1]], sizes=(2, 3))
    >>> world.mixture.n_components, world.facts["maximal"], len(np.unique(world.mixture.means[:, 0]))
    (6, True, 2)
    """
    seed = seeds.seed_of(random_state)
    graph = checks.table(neighbourhoods, "neighbourhoods") > 0
    shape = (2,) * len(graph) if sizes is None else tuple(checks.count(s, "A size", minimum=2) for s in sizes)
    wanted = f"sizes must have one entry for each of the {len(graph)} hidden variables."
    checks.require(len(shape) == len(graph), wanted, f"{len(shape)}")
    spread, seed = checks.number(spread, "spread", minimum=0), seeds.seed_of(seed)
    rng = seeds.numpy_generator(seed, "states")
    chances = _chances(probabilities, shape, rng)
    means, variances = np.zeros((2, prod(shape), graph.shape[1]))
    for i, neighbours in enumerate(graph.T):
        own = tuple(size if adjacent else 1 for size, adjacent in zip(shape, neighbours, strict=True))
        means[:, i] = np.broadcast_to(spread * rng.standard_normal(own), shape).ravel()
        variances[:, i] = np.broadcast_to(rng.uniform(0.25, 2, size=own), shape).ravel()
    nested = [(i, j) for i, a in enumerate(graph) for j, b in enumerate(graph) if i != j and bool((a <= b).all())]
    facts = {"sizes": shape, "neighbourhoods": graph, "probabilities": chances, "maximal": not nested, "nested": nested}
    law = Mixture(chances.ravel(), means, variances[:, :, None] * np.eye(graph.shape[1]))
    return mixed(law, layers=layers, mixing=mixing, slope=slope, facts=facts, random_state=seed)


def _chances(probabilities: Any, shape: tuple[int, ...], rng: np.random.Generator) -> np.ndarray:
    """``P(U)``: as given, or drawn with no state too rare."""
    if probabilities is None:
        drawn = rng.uniform(0.5, 1.5, size=shape)
        return drawn / drawn.sum()
    given_shape = np.shape(probabilities)
    checks.require(
        given_shape == shape, f"probabilities must have the shape {shape} of the states.", f"shape {given_shape}"
    )
    return np.asarray(probabilities, dtype=np.float64)


# ---- counterexamples -------------------------------------------------------------------------------------


class Fan(nn.Module):
    """The continuous map of the plane that is linear between neighbouring rays and takes each ray to its image.

    ``rays`` go round the plane once, counter-clockwise, less than half a turn apart.

    >>> square = torch.tensor([[1.0, 0], [0, 1], [-1, 0], [0, -1]], dtype=torch.float64)
    >>> Fan(square, 2 * square)(torch.tensor([[3.0, -4.0]], dtype=torch.float64)).tolist()
    [[6.0, -8.0]]
    """

    sectors: Tensor
    rays: Tensor
    images: Tensor

    def __init__(self, rays: Float[Tensor, "ray 2"], images: Float[Tensor, "ray observed"]):
        super().__init__()
        pairs = torch.stack([rays, rays.roll(-1, 0)], dim=1)
        self.register_buffer("sectors", torch.linalg.inv(pairs))
        self.register_buffer("rays", rays)
        self.register_buffer("images", images)

    def forward(self, z: Float[Tensor, "batch 2"]) -> Float[Tensor, "batch observed"]:
        """Every point in coordinates of its sector's rays, then the same coordinates along the images."""
        shares = torch.einsum("ni,kij->nkj", z, self.sectors)
        sector = shares.amin(dim=-1).argmax(dim=-1)
        own = shares[torch.arange(len(z), device=z.device), sector]
        following = (sector + 1) % len(self.images)
        return own[:, :1] * self.images[sector] + own[:, 1:] * self.images[following]

    def inverse(self) -> Fan:
        """The inverse map, of a plane whose images go round once too."""
        return Fan(self.images, self.rays)


@dataclass(frozen=True, eq=False)
class Counterexample:
    """Two worlds with the same observations: ``competitor.decoder(map(z)) = world.decoder(z)`` for all their latents.

    Attributes
    ----------
    world, competitor : MixtureWorld
        The two worlds; their facts say which hypothesis fails.
    map : callable
        Takes the law of ``world`` to the law of ``competitor``.
    """

    world: MixtureWorld
    competitor: MixtureWorld
    map: Callable[[Tensor], Tensor]


def three_lines(*, stretch: float = 2.0) -> Counterexample:
    """Three lines through the origin of the plane, and a homeomorphism, affine on each, that is not affine (E.3).

    The lines are ``z_2 = 0``, ``z_1 = z_2`` and ``z_1 = 0``; the map stretches the middle one and keeps the others. The
    means differ from zero, so that 3.4 holds; a common basis (3.6) does not exist, and Theorem 3.7 fails.

    >>> example = three_lines()
    >>> example.map(torch.tensor([[1.0, 0], [1, 1], [0, 1]], dtype=torch.float64)).tolist()
    [[1.0, 0.0], [2.0, 2.0], [0.0, 1.0]]
    """
    stretch = checks.number(stretch, "stretch", minimum=1e-3, maximum=1e3)
    lines = np.array([[1.0, 0], [1, 1], [0, 1]])
    longer = lines * np.array([[1.0], [stretch], [1]])
    rays, images = (torch.as_tensor(np.concatenate([v, -v])) for v in (lines, longer))
    there, facts = Fan(rays, images), {"gaussian": True, "piecewise affine": True, "common basis": False}

    def law(directions: np.ndarray) -> Mixture:
        return Mixture(
            np.full(3, 1 / 3),
            directions * np.array([[1.0], [2], [3]]),
            directions[:, :, None] * directions[:, None, :],
        )

    world = MixtureWorld(law(lines), nn.Identity(), 0, dict(facts))
    return Counterexample(world, MixtureWorld(law(longer), there.inverse(), 0, dict(facts)), there)


def swapped_halves(*, distance: float = 1.0) -> Counterexample:
    """Two crossing lines with equal distances of the crossing (E.2), whose negative halves can trade places.

    Both components lie on an axis of the plane, with mean ``distance``, unit variance and equal weight: the law does
    not change when the negative half-axes are swapped. The world embeds the plane in space; the competitor embeds it
    as another surface through the same four rays. Genericity (3.4) fails, and so does Theorem 3.5: the map between the
    latents is affine on no component.

    >>> swapped_halves().map(torch.tensor([[-1.0, 0], [2, 0], [0, -3]])).tolist()
    [[0.0, -1.0], [2.0, 0.0], [-3.0, 0.0]]
    """
    distance = checks.number(distance, "distance")
    axes = np.eye(2)
    law = Mixture([0.5, 0.5], distance * axes, axes[:, :, None] * axes[:, None, :])
    rays = torch.tensor([[1, 0], [0, 1], [-1, 1], [-1, 0], [0, -1], [1, -1]], dtype=torch.float64)
    surface = torch.tensor([[1, 0, 0], [0, 1, 0], [0, 0, 1], [0, -1, 0], [-1, 0, 0], [0, 0, -1]], dtype=torch.float64)
    facts = {"gaussian": True, "piecewise affine": True, "generic": False}
    world = MixtureWorld(law, linear(np.eye(3, 2)), 0, dict(facts))
    return Counterexample(world, MixtureWorld(law, Fan(rays, surface), 0, dict(facts)), _swap)


def _swap(z: Float[Tensor, "batch 2"]) -> Float[Tensor, "batch 2"]:
    """The negative half-axes of a cross trade places."""
    return z.clamp(min=0) + z.clamp(max=0).flip(-1)


def equal_distances(
    n: int,
    *,
    distance: float = 1.0,
    layers: int = 10,
    mixing: str = "piecewise affine",
    slope: float | None = None,
    random_state: Any = 0,
) -> MixtureWorld:
    """Example E.2 of Xu et al. (2026) in ``n`` dimensions: one component on every axis, all at the same distance of the
    origin.

    Component ``j`` has mean ``distance · σ_j · e_j`` and variance ``σ_j²`` from U(0.25, 2) along ``e_j``: where the
    lines
    meet, squared Mahalanobis distances are all ``distance²``, so 3.4 fails; all other hypotheses hold.

    Parameters
    ----------
    n : int
        Number of latents.
    distance : float
        The Mahalanobis distance.
    layers, mixing, slope
        Passed to ``layered``.
    random_state : int, Generator or None
        Seed of the world.

    Returns
    -------
    MixtureWorld

    Examples
    --------
    >>> world = equal_distances(3, distance=2.0)
    >>> np.allclose(world.mixture.means.diagonal() ** 2, 4 * np.einsum("jjj->j", world.mixture.covariances))
    True
    """
    seed = seeds.seed_of(random_state)
    n, distance, seed = checks.count(n, "n", minimum=2), checks.number(distance, "distance"), seeds.seed_of(seed)
    variances = seeds.numpy_generator(seed, "axes", n).uniform(0.25, 2, size=n)
    axes = np.eye(n)
    covariances = variances[:, None, None] * axes[:, :, None] * axes[:, None, :]
    law = Mixture(np.full(n, 1 / n), distance * np.diag(np.sqrt(variances)), covariances)
    facts = {"generic": False, "common basis": True, "spanned by axes": True, "sufficient variability": True}
    return mixed(law, layers=layers, mixing=mixing, slope=slope, facts=facts, random_state=seed)
