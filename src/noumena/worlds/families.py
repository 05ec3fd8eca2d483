"""Families of structures, by name.

``dense``: everything depends on everything. ``banded``: observation ``i`` depends on ``width`` neighbouring latents,
cyclically. ``lack-one``: each observation lacks one latent. ``triangular``: observation ``i`` depends on the first
latents. ``random``: drawn until its generic Occam gap is as asked; every observation depends on two latents or more.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.csgraph import maximum_bipartite_matching

from noumena import checks, seeds
from noumena.checks import InputError
from noumena.deprecated import renamed
from noumena.guarantees.occam import MOST_LATENTS, generic_gap
from noumena.guarantees.surplus import hall_surplus
from noumena.structure import Structure

NAMES = ("dense", "banded", "lack-one", "triangular", "random")
MOST_DRAWS = 20_000


@renamed(seed="random_state")
def family(
    name: str,
    n_latents: int,
    n_observed: int | None = None,
    *,
    width: int | None = None,
    gap: int | None = None,
    density: float | None = None,
    random_state: Any = 0,
) -> Structure:
    """A structure of a family.

    Parameters
    ----------
    name : {"dense", "banded", "lack-one", "triangular", "random"}
        The family.
    n_latents : int
        Number of latents.
    n_observed : int, optional
        Number of observations; ``n_latents`` by default.
    width : int, optional
        Of ``banded``: latents per observation, 2 by default.
    gap : int, optional
        Of ``random``: the generic Occam gap.
    density : float, optional
        Of ``random``: probability of a dependency beyond a row's two; by default drawn from U(0.2, 0.75) each time.
    random_state : int, Generator or None
        Seed of ``random``.

    Returns
    -------
    Structure

    Examples
    --------
    >>> family("banded", 3).dense.astype(int)
    array([[1, 1, 0],
           [0, 1, 1],
           [1, 0, 1]])
    """
    seed = seeds.seed_of(random_state)
    checks.one_of(name, "family", NAMES)
    d_z = checks.count(n_latents, "n_latents")
    d_x = d_z if n_observed is None else checks.count(n_observed, "n_observed")
    checks.require(d_x >= d_z, "There must be at least as many observations as latents.", f"{d_x} and {d_z}")
    for option, value, owner in (("width", width, "banded"), ("gap", gap, "random"), ("density", density, "random")):
        checks.require(value is None or name == owner, f"{option} must be given with the family {owner} only.", name)
    i, j = np.arange(d_x)[:, None], np.arange(d_z)[None, :]
    if name == "dense":
        return Structure(np.ones((d_x, d_z), dtype=bool))
    if name == "banded":
        width = 2 if width is None else width
        valid = isinstance(width, int) and 1 <= width <= d_z
        checks.require(valid, f"width must be between 1 and {d_z}.", f"{width}")
        return Structure((j - i) % d_z < width)
    if name == "lack-one":
        checks.require(d_z > 1, "lack-one needs two latents or more.", f"{d_z}")
        return Structure((i + 1) % d_z != j)
    if name == "triangular":
        return Structure(j <= i % d_z)
    if density is not None:
        checks.number(density, "density", minimum=0, maximum=1)
    return _random(d_x, d_z, gap, density, seed)


def _random(d_x: int, d_z: int, gap: int | None, density: float | None, seed: int) -> Structure:
    rng = seeds.numpy_generator(seed, "random structure", d_x, d_z)
    for _ in range(MOST_DRAWS):
        drawn = rng.random((d_x, d_z))
        if density is None:
            support = drawn < rng.uniform(0.2, 0.75)
        else:
            support = drawn <= np.maximum(density, np.sort(drawn, axis=1)[:, [min(1, d_z - 1)]])
        if _usable(support) and (gap is None or _has_gap(support, gap)):
            return Structure(support)
    raise InputError(
        f"A random structure of {d_x} × {d_z} with Occam gap {gap} must exist and be found in {MOST_DRAWS} draws. "
        "Got none; ask for a smaller gap or more observations."
    )


def _usable(support: np.ndarray) -> bool:
    """Rows of two latents or more, and columns that can be independent: a matching that covers every latent."""
    if (support.sum(axis=1) < min(2, support.shape[1])).any():
        return False
    return bool((maximum_bipartite_matching(csr_array(support.T), perm_type="column") >= 0).all())


def _has_gap(support: np.ndarray, gap: int) -> bool:
    if support.shape[1] > MOST_LATENTS:
        checks.require(gap == 1, f"Above {MOST_LATENTS} latents only gap=1 (at least one) can be asked for.", f"{gap}")
        return hall_surplus(support)
    computed = generic_gap(support)
    return computed is not None and computed.value == gap
