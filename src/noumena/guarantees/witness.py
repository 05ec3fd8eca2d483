"""Competitors: equivalent models with no more dependencies whose latents differ.

Each is an explicit change of latents, built from the structure alone; the first two change one latent ``t``:

* *shear*, when ``col(t) ⊆ col(r)``: ``ẑ_t = z_t + s(z_r)``. Rows of ``t`` already see ``r``: the support stays, for any
  smooth ``s``.
* *substitution* of an observation: ``ẑ_t = x_i``, ``t ∈ I_i``. Row ``i`` then needs ``ẑ_t`` alone and the other rows of
  ``t`` gain the rest of ``I_i``; the support changes by ``Σ_{r ∈ I_i∖t} (|col(t)∖col(r)| − 1)``, a competitor when that
  is ≤ 0.
* *observations*: ``ẑ = x`` when there are as many observations as latents; it has d_x dependencies, the fewest
  possible.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.csgraph import maximum_bipartite_matching

from noumena.structure import Structure


@dataclass(frozen=True)
class Competitor:
    """A way to replace latent ``latent`` by one that also carries the latents ``carries``, at no cost in sparsity."""

    kind: str
    latent: int
    carries: tuple[int, ...]
    change: int
    """Dependencies gained (never above 0)."""
    sentence: str
    rests_on: str
    observation: int | None = None


def competitors(structure: Structure) -> tuple[Competitor, ...]:
    """Every shear and substitution of a structure, and ``ẑ = x`` where it is one.

    >>> [c.kind for c in competitors(Structure([[1, 1], [0, 1], [0, 1]]))]
    ['shear', 'substitution']
    """
    return (*_shears(structure), *_substitutions(structure), *_observations(structure))


def _shears(S: Structure) -> list[Competitor]:
    found = []
    for t in range(S.n_latents):
        for r in S.closure(t):
            if r != t:
                zt, zr = S.latent[t], S.latent[r]
                sentence = (
                    f"ẑ = {zt} + s({zr}) in place of {zt}: every observation of {zt} already depends on {zr}, "
                    f"so any smooth s gives the same data with the same {len(S)} dependencies"
                )
                found.append(Competitor("shear", t, (r,), 0, sentence, "nothing further"))
    return found


def _substitutions(S: Structure) -> list[Competitor]:
    dense = S.dense.astype(np.int64)
    own = S.weights[:, None] - dense.T @ dense  # own[t, r] = |col(t) \ col(r)|
    found = []
    for i in range(S.n_observed):
        row = [int(j) for j in np.flatnonzero(dense[i])]
        for t in row:
            others = tuple(r for r in row if r != t)
            change = int(sum(own[t, r] - 1 for r in others))
            if others and change <= 0:
                found.append(_substitution(S, i, t, others, change))
    return found


def _substitution(S: Structure, i: int, t: int, others: tuple[int, ...], change: int) -> Competitor:
    x, z = S.observed[i], S.latent[t]
    sentence = (
        f"ẑ = {x} in place of {z}: the observation itself serves as a latent, carries "
        f"{', '.join(S.latent[r] for r in others)} too, and leaves {len(S) + change} dependencies instead of {len(S)}"
    )
    return Competitor("substitution", t, others, change, sentence, f"{x} is invertible in {z}", i)


def _observations(S: Structure) -> list[Competitor]:
    """``ẑ = x``: latent ``t`` carries whatever all observations that can stand for it carry."""
    if S.n_observed != S.n_latents or len(S) == S.n_observed:
        return []
    found = []
    for t in range(S.n_latents):
        standing = [i for i in sorted(S.observations_of(t)) if _completes(S.dense, i, t)]
        if not standing:
            continue
        carried = set.intersection(*(set(np.flatnonzero(S.dense[i])) for i in standing)) - {t}
        if carried:
            names = " or ".join(S.observed[i] for i in standing)
            sentence = (
                f"ẑ = x: the {S.n_observed} observations themselves explain the data with {S.n_observed} dependencies "
                f"instead of {len(S)}; {names} then stands for {S.latent[t]} and carries "
                f"{', '.join(S.latent[r] for r in sorted(carried))} too"
            )
            change = S.n_observed - len(S)
            carries = tuple(int(r) for r in sorted(carried))
            found.append(Competitor("observations", t, carries, change, sentence, "g is invertible"))
    return found


def _completes(dense: np.ndarray, i: int, t: int) -> bool:
    """Whether matching observation ``i`` to latent ``t`` extends to all latents."""
    rest = np.delete(np.delete(dense, i, axis=0), t, axis=1)
    if rest.size == 0:
        return True
    return bool((maximum_bipartite_matching(csr_array(rest), perm_type="column") >= 0).all())
