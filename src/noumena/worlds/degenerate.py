"""Degenerate mixtures: latents of a linear causal model, most of them frozen in most components, mixed by layers.

A component has a mask: its active latents keep their joint law in the causal model (plus a mean of the component's
own,
where asked for), the others are frozen at ``mean + shift · std``, the same value in every component. The result may be
rotated, and is then mixed.

References
----------
Xu et al. (2026), "Identifiability of Potentially Degenerate Gaussian Mixture Models With Piecewise
Affine Mixing", numerical experiments, Appendices E.1, E.3, E.5. Renamed: ``δ`` is ``shift``, ``θ`` is ``angle`` in
degrees, ``ρ`` is ``active``, ``k`` of ER-k is ``edges``.

All supports hold the point ``shift · std``, so all components of one rank meet, in that point plus the axes active in
all of them. Hence 3.4 asks that the components' distances differ there. They are equal where means and shift are zero,
and mostly in a sparse graph with a shift as well, for masks that differ in latents without causes or effects among the
active: the published worlds violate it.

Deviations: masks are drawn again, all of them, until every latent is active in some component and frozen in another.
Whether the masks vary sufficiently (3.8b) is left to chance as published, and reported. ``means`` is ours; the paper
does not say how the two bases of Table 19 are mixed. Plane rotations are multiplied in the order (1,2), (1,3) …
(n−1,n), the last applied first.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from math import pi, sqrt
from typing import Any

import numpy as np
from torch import Tensor

from noumena import checks, seeds
from noumena.checks import InputError
from noumena.deprecated import renamed
from noumena.mixtures import TOLERANCE, Mixture, Support, common_basis
from noumena.worlds.graphs import Graph, random_graph
from noumena.worlds.mixings import Layers, layered, plane_rotations
from noumena.worlds.priors import MixtureWorld, mixed

NOISES = ("gaussian", "exponential", "gumbel")
ACTIVE = {"one": 0.0, "half": 0.5, "three quarters": 0.75}
"""Shares of active latents; at least one latent is active."""
MASKS = 5
"""Masks drawn per latent, before equal ones are removed."""
MOST_DRAWS = 1000


# ---- the law of the latents ------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class MaskedLaw:
    """Equally likely components of a linear causal model, each with some latents frozen, then rotated.

    >>> masks, zero = np.array([[True, False], [False, True]]), np.zeros((2, 2))
    >>> law = MaskedLaw(Graph([[0, 1], [0, 0]]), masks, zero, np.array([3.0, 4.0]), np.eye(2))
    >>> law.mixture.means.tolist(), law.mixture.covariances.round(6).tolist()
    ([[0.0, 4.0], [3.0, 0.0]], [[[1.0, 0.0], [0.0, 0.0]], [[0.0, 0.0], [0.0, 2.0]]])
    """

    graph: Graph
    masks: np.ndarray
    """``(components, latents)``: which latents are active."""
    means: np.ndarray
    """``(components, latents)``: means of active latents, before the rotation."""
    frozen: np.ndarray
    """``(latents,)``: values of frozen latents, before the rotation; a point that all supports share."""
    rotation: np.ndarray
    noise: str = "gaussian"

    @property
    def n_latents(self) -> int:
        """Number of latents."""
        return self.graph.n

    @renamed(seed="random_state")
    def sample(self, n: int, *, random_state: Any = 0) -> tuple[np.ndarray, np.ndarray]:
        """``n`` points and the component of each; without a rotation a frozen latent has its value exactly."""
        seed = seeds.seed_of(random_state)
        n = checks.count(n, "n")
        rng = seeds.numpy_generator(seeds.seed_of(seed), "masked law")
        u = rng.integers(len(self.masks), size=n)
        z = _noise(self.noise, (n, self.n_latents), rng) @ self.graph.effects
        z = np.where(self.masks[u], z + self.means[u], self.frozen)
        return z if _identity(self.rotation) else z @ self.rotation.T, u

    @cached_property
    def mixture(self) -> Mixture | None:
        """The exact law, ``None`` when the noise is not Gaussian; as large as components × latents²."""
        return _gaussian(self) if self.noise == "gaussian" else None


def _gaussian(law: MaskedLaw) -> Mixture:
    k, both = len(law.masks), law.masks[:, :, None] & law.masks[:, None, :]
    centres = np.where(law.masks, law.means, law.frozen)
    mixture = Mixture(np.full(k, 1 / k), centres, np.where(both, law.graph.covariance, 0.0))
    return mixture if _identity(law.rotation) else mixture.pushed(law.rotation)


def _noise(name: str, shape: tuple[int, int], rng: np.random.Generator) -> np.ndarray:
    """Noise of mean zero and unit variance."""
    if name == "exponential":
        return rng.exponential(size=shape) - 1
    if name == "gumbel":
        return (rng.gumbel(size=shape) - np.euler_gamma) * sqrt(6) / pi
    return rng.standard_normal(shape)


def _identity(rotation: np.ndarray) -> bool:
    return bool((rotation == np.eye(len(rotation))).all())


def _permutes(rotation: np.ndarray) -> bool:
    """Whether axes go to axes."""
    return bool((np.abs(rotation).max(axis=0) >= 1 - TOLERANCE).all())


# ---- masks -----------------------------------------------------------------------------------------------


@renamed(seed="random_state")
def random_masks(sizes: Sequence[int], active: int, *, random_state: Any = 0) -> np.ndarray:
    """Different masks over blocks of latents that are active together, ``active`` blocks in each.

    Five masks per latent are drawn and equal ones removed; all again until every block is active in one and, if not
    all are always active, frozen in another.

    >>> random_masks((1, 2), 1).astype(int).tolist()
    [[0, 1, 1], [1, 0, 0]]
    """
    seed = seeds.seed_of(random_state)
    n, blocks = sum(sizes), len(sizes)
    for draw in range(MOST_DRAWS):
        rng = seeds.numpy_generator(seed, "masks", draw)
        chosen = rng.permuted(np.tile(np.arange(blocks) < active, (MASKS * n, 1)), axis=1)
        masks = np.unique(chosen, axis=0)
        if masks.any(axis=0).all() and (active == blocks or not masks.all(axis=0).any()):
            return np.repeat(masks, sizes, axis=1)
    raise InputError(
        f"Masks that move and freeze every one of {blocks} blocks must be found in {MOST_DRAWS} draws. "
        f"Got none with {active} active."
    )


def inseparable(masks: np.ndarray) -> tuple[tuple[int, int], ...]:
    """Pairs ``(i, r)`` where latent ``r`` is never active without latent ``i``: what violates 3.8b.

    >>> inseparable(np.array([[True, True, False], [True, False, True]]))
    ((0, 1), (0, 2))
    """
    together, alone = masks.T.astype(float) @ masks, masks.sum(axis=0)
    never = (together == alone[None, :]) & ~np.eye(len(alone), dtype=bool)
    return tuple((int(i), int(r)) for i, r in np.argwhere(never))


def _count(active: str | int, n: int) -> int:
    if isinstance(active, str):
        return max(1, int(ACTIVE[checks.one_of(active, "active", tuple(ACTIVE))] * n))
    number = checks.count(active, "active")
    checks.require(number <= n, f"active must be at most {n}, all of the latents or blocks.", f"{active}")
    return number


# ---- worlds ----------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class DegenerateWorld(MixtureWorld):
    """A degenerate mixture and its mixing.

    Attributes
    ----------
    law : MaskedLaw
        The degenerate mixture.
    decoder : Layers
        The mixing.
    seed, facts
        As in ``MixtureWorld``.
    """

    law: MaskedLaw
    decoder: Layers

    @property
    def graph(self) -> Graph:
        """The causal graph of the latents, before masks and rotation."""
        return self.law.graph

    @property
    def masks(self) -> np.ndarray:
        """``(components, latents)``: which latents are active."""
        return self.law.masks

    @property
    def rotation(self) -> np.ndarray:
        """The rotation of the masked latents."""
        return self.law.rotation

    @property
    def mixture(self) -> Mixture | None:
        """The exact law of the latents; ``None`` when the noise is not Gaussian."""
        return self.law.mixture

    def sparse(self, z: Any) -> Any:
        """Latents in the basis where masks freeze them: the rotation undone; numpy in, numpy out."""
        if isinstance(z, Tensor):
            return z @ z.new_tensor(self.rotation)
        return checks.table(z, "z") @ self.rotation

    def hypotheses(self) -> dict[str, bool]:
        """The hypotheses of Theorems 3.5 to 3.9 that are about the world; 3.4 needs Gaussian noise to hold."""
        facts = self.facts
        return {
            "gaussian components": facts["gaussian"],
            "piecewise affine mixing": facts["piecewise affine"],
            "3.4 genericity": facts["gaussian"] and self.genericity > TOLERANCE,
            "3.6 common point": True,
            "3.6 common basis": True,
            "3.8a standard basis": facts["spanned by axes"],
            "3.8b variability": facts["sufficient variability"],
        }

    @cached_property
    def genericity(self) -> float:
        """How far 3.4 is from failing: the least difference of squared distances where components of one rank meet.

        It is relative to the distances, at least one; infinite when no two components have one rank.
        """
        law, ranks = self.law, self.masks.sum(axis=1)
        return min((_closest(law, np.flatnonzero(ranks == r)) for r in np.unique(ranks)), default=np.inf)


def _closest(law: MaskedLaw, members: np.ndarray) -> float:
    """The least difference between the distances of some components, as polynomials on the part they share."""
    shared = np.asarray(law.masks[members].all(axis=0))
    scale = np.sqrt(np.diag(law.graph.covariance))[shared]
    rows = []
    for j in members:
        active = law.masks[j]
        precision = np.linalg.inv(law.graph.covariance[np.ix_(active, active)])
        gap, inner = (law.frozen - law.means[j])[active], shared[active]
        slope = precision @ gap
        quadratic = precision[np.ix_(inner, inner)] * scale[:, None] * scale
        rows.append(np.concatenate([[gap @ slope], 2 * slope[inner] * scale, quadratic.ravel()]))
    polynomials = np.array(rows)
    size = np.maximum(1, np.abs(polynomials).max(axis=1))
    apart = (
        np.abs(polynomials[a] - polynomials[a + 1 :]).max(axis=1) / np.maximum(size[a], size[a + 1 :])
        for a in range(len(polynomials) - 1)
    )
    return float(min((gap.min() for gap in apart), default=np.inf))


@renamed(seed="random_state")
def degenerate(
    n: int,
    *,
    edges: int = 1,
    layers: int = 10,
    active: str | int = "half",
    shift: float = 0.0,
    angle: float = 0.0,
    means: float = 0.0,
    noise: str = "gaussian",
    mixing: str = "piecewise affine",
    slope: float | None = None,
    blocks: int | Sequence[int] | None = None,
    random_state: Any = 0,
) -> DegenerateWorld:
    """A world of a degenerate mixture; the defaults are the base row of Xu et al. (2026), at any ``n``.

    Parameters
    ----------
    n : int
        Number of latents.
    edges : int
        k of the ER-k graph.
    layers, mixing, slope
        Passed to ``layered``.
    active : {"one", "half", "three quarters"} or int
        Number of active latents, or blocks, in a component.
    shift : float
        Distance of frozen values from the mean, in standard deviations.
    angle : float
        Degrees by which all coordinate planes are rotated.
    means : float
        Standard deviation of the components' means of active latents, in standard deviations.
    noise : {"gaussian", "exponential", "gumbel"}
        Noise of the causal model.
    blocks : int or sequence of int, optional
        Number or sizes of consecutive latents that are active together.
    random_state : int, Generator or None
        Seed of the world.

    Returns
    -------
    DegenerateWorld

    Examples
    --------
    >>> world = degenerate(5, layers=3)
    >>> world.masks.sum(axis=1).tolist(), world.facts["zero means"], world.hypotheses()["3.4 genericity"]
    ([2, 2, 2, 2, 2, 2, 2, 2, 2, 2], True, False)
    """
    seed = seeds.seed_of(random_state)
    n, seed = checks.count(n, "n"), seeds.seed_of(seed)
    checks.one_of(noise, "noise", NOISES)
    shift, angle = checks.number(shift, "shift"), checks.number(angle, "angle")
    means = checks.number(means, "means", minimum=0)
    sizes = (1,) * n if blocks is None else checks.slots(blocks, n)
    masks = random_masks(sizes, _count(active, len(sizes)), random_state=seed)
    graph = random_graph(n, edges, random_state=seed)
    std = np.sqrt(np.diag(graph.covariance))
    own = means * seeds.numpy_generator(seed, "component means").standard_normal(masks.shape)
    law = MaskedLaw(graph, masks, np.where(masks, own, 0.0) * std, shift * std, plane_rotations(n, angle), noise)
    decoder = layered(n, layers, kind=mixing, slope=slope, random_state=seed)
    return DegenerateWorld(law=law, decoder=decoder, seed=seed, facts=_facts(law, decoder, mixing))


def _facts(law: MaskedLaw, decoder: Layers, mixing: str) -> dict[str, Any]:
    masks = law.masks.astype(float)
    pairs, slopes = inseparable(law.masks), decoder.slopes or (1.0,)
    return {
        "gaussian": law.noise == "gaussian",
        "piecewise affine": mixing in ("piecewise affine", "affine"),
        "zero means": bool((law.means == 0).all()),
        "frozen at zero": bool((law.frozen == 0).all()),
        "disjoint masks": bool((masks @ masks.T == 0).any()),
        "spanned by axes": _permutes(law.rotation) and bool((law.frozen == 0).all()),
        "sufficient variability": not pairs,
        "inseparable": pairs,
        "components": len(masks),
        "active share": float(law.masks.mean()),
        "smallest slope": min(1.0, *slopes),
        "largest slope": max(1.0, *slopes),
    }


@renamed(seed="random_state")
def two_bases(
    n: int,
    *,
    angle: float = 45.0,
    edges: int = 1,
    layers: int = 10,
    active: str | int = "half",
    shift: float = 0.0,
    means: float = 0.0,
    mixing: str = "piecewise affine",
    slope: float | None = None,
    random_state: Any = 0,
) -> MixtureWorld:
    """A degenerate mixture of which half of the components are rotated, as in Table 19 of Xu et al. (2026): no common
    basis.

    One half is the mixture of ``degenerate``, the other the same one rotated by ``angle`` about the origin, with equal
    weights; facts say whether a common basis and a common point exist after all.

    Parameters
    ----------
    n : int
        Number of latents.
    angle : float
        Degrees by which all coordinate planes are rotated.
    edges, layers, active, shift, means, mixing, slope
        Passed to ``degenerate``.
    random_state : int, Generator or None
        Seed of the world.

    Returns
    -------
    MixtureWorld

    Examples
    --------
    >>> two_bases(2, active="one").facts["common basis"], two_bases(2, active="one", angle=90).facts["common basis"]
    (False, True)
    """
    seed = seeds.seed_of(random_state)
    straight = _gaussian(degenerate(n, edges=edges, active=active, shift=shift, means=means, random_state=seed).law)
    turned = straight.pushed(plane_rotations(n, checks.number(angle, "angle")))
    names = ("weights", "means", "covariances")
    weights, centres, covariances = (np.concatenate([getattr(p, m) for p in (straight, turned)]) for m in names)
    law = Mixture(weights / 2, centres, covariances).reduced()
    supports = law.supports()
    basis = common_basis([s.basis for s in supports])
    facts = {"common basis": basis is not None, "common point": _meet(supports)}
    return mixed(law, layers=layers, mixing=mixing, slope=slope, facts=facts, random_state=seed)


def _meet(supports: Sequence[Support]) -> bool:
    """Whether all supports share a point."""
    shared: Support | None = supports[0]
    for support in supports[1:]:
        shared = shared.meet(support) if shared is not None else None
    return shared is not None
