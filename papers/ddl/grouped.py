"""Grouped worlds: observations in two groups, latents shared by both or exclusive to one, with or without inclusion.

Reference: Zheng et al. (2026), Section 4.1 (Fig. 4); the paper splits the observations into ``K`` and ``V`` and does
not say how structures are drawn. Here the first half of the observations is ``K``, and

* ``square`` has as many observations as latents (the paper's setting), every observation of two latents or more, every
  latent by a clause of Assumption 2;
* ``apart`` has 4·d observations and a positive Occam gap: no column lies in another;
* ``inclusion`` is the same but for one pair: the column of ``t``, exclusive to ``K``, lies in that of ``r``, shared.
  The shear ``ẑ_t = z_t + s(z_r)`` is then an equivalent model with the same support;
* ``CE1`` is the smallest such world, ``g(z) = (t + r + r³/3, r)``.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from scipy.sparse import csr_array
from scipy.sparse.csgraph import structural_rank
from torch import Tensor

from ddl import settings
from noumena import checks, seeds
from noumena.checks import InputError
from noumena.guarantees.diversity import clauses
from noumena.guarantees.occam import generic_gap
from noumena.structure import Structure
from noumena.worlds import Law, World, law, structured

KINDS = ("square", "apart", "inclusion", "CE1")
PARTS = {2: (1, 1, 0), 3: (1, 1, 1), 4: (2, 1, 1), 5: (1, 2, 2)}
"""Latents shared by both groups, exclusive to K and exclusive to V, in this order, by number of latents."""
DENSITY = 0.6
LEAST_DIFFERENCE = 2
"""Rows by which one column must leave another, both ways, where there is no inclusion."""
MOST_DRAWS = 100_000
STRENGTH = 0.5
"""Of the nonlinear part. With 1, even a decoder of the known support did not explain the data (R² 0.96 in place of
0.999) and its latents were far from the truth: such worlds show the optimiser's failures and not what leaks."""
EQUICORRELATED, RHO = "equicorrelated", 0.6
LAWS = ("unit gaussian", "correlated gaussian", "linear sem", EQUICORRELATED)


@dataclass(frozen=True)
class Groups:
    """Latents by the groups of observations that depend on them, and the pair (t, r) whose columns may be nested."""

    shared: tuple[int, ...]
    only_k: tuple[int, ...]
    only_v: tuple[int, ...]

    @property
    def t(self) -> int:
        """The first latent exclusive to K."""
        return self.only_k[0]

    @property
    def r(self) -> int:
        """The first shared latent."""
        return self.shared[0]


def groups(d: int) -> Groups:
    """The latents of a grouped world.

    >>> groups(4)
    Groups(shared=(0, 1), only_k=(2,), only_v=(3,))
    """
    checks.require(d in PARTS, f"d must be one of {tuple(PARTS)}.", f"{d}")
    shared, only_k, only_v = np.split(np.arange(d), np.cumsum(PARTS[d])[:2])
    return Groups(tuple(shared.tolist()), tuple(only_k.tolist()), tuple(only_v.tolist()))


def structure(kind: str, d: int, seed: int) -> Structure:
    """A random structure of a kind."""
    checks.one_of(kind, "kind", KINDS)
    if kind == "CE1":
        return Structure([[1, 1], [1, 0]])  # r = 0 is shared, t = 1 exclusive to the first observation
    g = groups(d)
    d_x = d if kind == "square" else settings.OBSERVED_PER_LATENT * d
    allowed = np.ones((d_x, d), dtype=bool)
    half = (d_x + 1) // 2
    allowed[half:, list(g.only_k)] = False
    allowed[:half, list(g.only_v)] = False
    rng = seeds.numpy_generator(seed, "grouped", kind, d)
    for _ in range(MOST_DRAWS):
        support = allowed & (rng.random((d_x, d)) < DENSITY)
        if kind == "inclusion":
            support[:, g.r] |= support[:, g.t]
        if _in_groups(support, half, g) and _is(kind, support, g):
            return Structure(support)
    raise InputError(
        f"A grouped structure must be found in {MOST_DRAWS} draws. Got none of kind {kind!r} for {d} latents."
    )


def _in_groups(support: np.ndarray, half: int, g: Groups) -> bool:
    """Shared latents act in both groups, no row is empty, the columns can be independent."""
    shared = support[:, list(g.shared)]
    both = bool(shared[:half].any(axis=0).all()) and bool(shared[half:].any(axis=0).all())
    whole = both and bool(support.any(axis=1).all())
    return whole and bool(structural_rank(csr_array(support)) == support.shape[1])


def _is(kind: str, support: np.ndarray, g: Groups) -> bool:
    if kind == "square":
        return bool((support.sum(axis=1) >= 2).all()) and bool(clauses(Structure(support)).any(axis=1).all())
    leaves = (support[:, :, None] & ~support[:, None, :]).sum(axis=0)  # rows of a outside b
    np.fill_diagonal(leaves, LEAST_DIFFERENCE)
    if kind == "inclusion":
        leaves[g.t, g.r] = LEAST_DIFFERENCE
        return bool((leaves >= LEAST_DIFFERENCE).all())
    gap = generic_gap(support)
    return bool((leaves >= LEAST_DIFFERENCE).all()) and gap is not None and gap.value >= 1


def latents(name: str, d: int, seed: int) -> Law:
    """A law by name; ``equicorrelated`` has unit variances and one correlation, ``RHO``, between all pairs."""
    if name != EQUICORRELATED:
        return law(name, d, random_state=seed)

    def draw(n: int, generator: torch.Generator) -> Tensor:
        own = torch.randn(n, d, generator=generator, dtype=torch.float64)
        common = torch.randn(n, 1, generator=generator, dtype=torch.float64)
        return (1 - RHO) ** 0.5 * own + RHO**0.5 * common

    return Law(name, d, d == 1, draw)


def _ce1(z: Tensor) -> Tensor:
    r, t = z[..., 0], z[..., 1]
    return torch.stack([t + r + r**3 / 3, r], dim=-1)


def world(kind: str, d: int, name: str, seed: int) -> World:
    """A grouped world under a law of latents."""
    chosen = latents(name, d, seed)
    found = structure(kind, d, seed)
    if kind == "CE1":
        return World(found, chosen, _ce1, seed=seed)
    return structured(found, law=chosen, strength=STRENGTH, random_state=seed)
