"""Competitors: equivalent models with no more dependencies whose latents differ, read off the structure.

Where the law of the latents is free:

* *shear*, when ``col(t) ⊆ col(r)``: ``ẑ_t = z_t + s(z_r)``. Rows of ``t`` already see ``r``: the support stays, for any
  smooth ``s``.
* *substitution* of an observation: ``ẑ_t = x_i``, ``t ∈ I_i``. Row ``i`` then needs ``ẑ_t`` alone and the other rows of
  ``t`` gain the rest of ``I_i``; the support changes by ``Σ_{r ∈ I_i∖t} (|col(t)∖col(r)| − 1)``, a competitor when that
  is ≤ 0.
* *observations*: ``ẑ = x`` when there are as many observations as latents; it has d_x dependencies, the fewest
  possible.

Where latents must be independent in both models:

* *rotation* of a block with equal columns, made Gaussian one by one, by an angle that may depend on a latent ``r``
  whose column contains theirs;
* *triangular* (Darmois): ``ẑ_k = F(x_k | x_1 … x_{k−1})`` over d_z of the observations. Its support is counted in
  ``triangle``: full below the diagonal except between observations that share no latent with each other, and full in
  the other rows except where the first observations already determine their latents.

Nothing is listed before it is asked for: a large structure pays only for the latents looked at.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cache, cached_property, partial
from typing import Any

import numpy as np
from scipy.sparse import csr_array

from noumena.structure import Structure

MOST_TRIANGULAR = 64
"""Triangular competitors are searched up to this many latents."""
MOST_KINDS = 256
"""They are searched up to this many observations with different latents."""
TRIED = 2**16
"""Observations are tried in the place of a latent, on a decoder, for so many entries of all that it decodes then."""
Met = set[int] | frozenset[int]
Triangles = Callable[[int], tuple[tuple[int, ...], int]]
"""The chain from an observation on, and the dependencies of its triangular competitor."""


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
    rows: tuple[int, ...] = ()
    """The observations it uses: one for a substitution, d_z in order for a triangular one."""
    replaced: tuple[int, ...] = ()
    """The latents that ``rows`` stand for, where there are several."""


@dataclass(frozen=True)
class Rivals:
    """The known competitors of a structure, latent by latent.

    >>> [c.kind for c in Rivals(Structure([[1, 1], [0, 1], [0, 1]]))]
    ['shear', 'substitution']
    >>> [c.kind for c in Rivals(Structure([[1, 1], [1, 1]]), independent=True).of(0)]
    ['rotation', 'triangular', 'triangular']
    """

    structure: Structure
    independent: bool = False
    fitted: bool = False
    """Whether the structure was fitted to data, so that the world behind it may be any."""
    allowed: Callable[[Competitor], bool] = field(default=lambda competitor: True, compare=False)
    """Whether a competitor is available on the subject at hand, beyond what its structure says."""

    def of(self, t: int) -> Iterator[Competitor]:
        """Competitors in which the latent that stands for ``t`` carries others, the simplest kind first."""
        return self.unmet(t, frozenset())

    def simplest(self, t: int) -> Iterator[tuple[int, Competitor]]:
        """Every latent that a competitor of ``t`` carries, with the first of ``of(t)`` that does; those that carry no
        further latent are neither built nor tried.

        >>> [(r, c.kind) for r, c in Rivals(Structure([[1, 1], [0, 1], [0, 1]])).simplest(0)]
        [(1, 'shear')]
        """
        met: set[int] = set()
        for competitor in self.unmet(t, met):
            further = [r for r in competitor.carries if r not in met]
            met.update(further)
            yield from ((r, competitor) for r in further)
            if len(met) == self.structure.n_latents - 1:
                return

    def unmet(self, t: int, met: Met) -> Iterator[Competitor]:
        """Competitors of ``t`` that carry a latent not ``met`` when their turn comes."""
        S = self.structure
        triangular = partial(_triangular, triangles=self._triangles)
        observations = _square if self.fitted else _observations
        kinds = (_rotations, triangular) if self.independent else (_shears, _substitutions, observations)
        candidates = (c for kind in kinds for c in kind(S, t, met))
        return (c for c in candidates if not met.issuperset(c.carries) and self.allowed(c))

    @cached_property
    def _triangles(self) -> Triangles:
        @cache
        def found(i: int) -> tuple[tuple[int, ...], int]:
            rows = chain(self.structure, i)
            return rows, triangle(self.structure, rows) if rows else 0

        return found

    def __iter__(self) -> Iterator[Competitor]:
        return (c for t in range(self.structure.n_latents) for c in self.of(t))


def _shears(S: Structure, t: int, met: Met) -> Iterator[Competitor]:
    for r in S.closure(t):
        if r != t:
            zt, zr = S.latent[t], S.latent[r]
            sentence = (
                f"ẑ = {zt} + s({zr}) in place of {zt}: every observation of {zt} already depends on {zr}, "
                f"so any smooth s gives the same data with the same {len(S)} dependencies"
            )
            yield Competitor("shear", t, (r,), 0, sentence, "nothing further")


def _substitutions(S: Structure, t: int, met: Met) -> Iterator[Competitor]:
    rows, changes = substitutable(S, t)
    for i, change in zip(rows.tolist(), changes.tolist(), strict=True):
        others = tuple(r for r in S.latents_of(i) if r != t)
        if not met.issuperset(others):
            yield _substitution(S, i, t, others, change)


def substitutable(S: Structure, t: int) -> tuple[np.ndarray, np.ndarray]:
    """Observations that can stand for ``t`` at no cost, and the dependencies each of them gains (never above 0).

    >>> [found.tolist() for found in substitutable(Structure([[1, 1], [0, 1], [0, 1]]), 1)]
    [[], []]
    """
    span = slice(S.shared.indptr[t], S.shared.indptr[t + 1])
    partners, own = S.shared.indices[span], S.weights[t] - S.shared.data[span]  # |col(t) \ col(r)|, r shares a row
    if np.sum(own <= 1) <= 1:  # t itself is the only one
        return np.empty(0, dtype=int), np.empty(0, dtype=int)
    cost, order = np.where(partners == t, 0, own - 1), np.argsort(partners)
    rows = S.rows_of(t)
    support = S.support[rows]
    costs = cost[order[np.searchsorted(partners, support.indices, sorter=order)]]
    changes = np.add.reduceat(costs, support.indptr[:-1])
    kept = (np.diff(support.indptr) > 1) & (changes <= 0)
    return rows[kept], changes[kept]


def _substitution(S: Structure, i: int, t: int, others: tuple[int, ...], change: int) -> Competitor:
    x, z = S.observed[i], S.latent[t]
    sentence = (
        f"ẑ = {x} in place of {z}: the observation itself serves as a latent, carries "
        f"{', '.join(S.latent[r] for r in others)} too, and leaves {len(S) + change} dependencies instead of {len(S)}"
    )
    return Competitor("substitution", t, others, change, sentence, f"{x} is invertible in {z}", (i,))


def _observations(S: Structure, t: int, met: Met) -> Iterator[Competitor]:
    """``ẑ = x``: latent ``t`` carries whatever all observations that can stand for it carry."""
    if S.n_observed != S.n_latents or len(S) == S.n_observed:
        return
    standing = {i: _matching(S, range(S.n_observed), i, t) for i in sorted(S.observations_of(t))}
    standing = {i: rows for i, rows in standing.items() if rows}
    carried = set.intersection(*(set(S.of(i)) for i in standing)) - {t} if standing else set()
    if carried:
        names = " or ".join(S.observed[i] for i in standing)
        sentence = (
            f"ẑ = x: the {S.n_observed} observations themselves explain the data with {S.n_observed} dependencies "
            f"instead of {len(S)}; {names} then stands for {S.latent[t]} and carries "
            f"{', '.join(S.latent[r] for r in sorted(carried))} too"
        )
        change, rows = S.n_observed - len(S), next(iter(standing.values()))
        yield Competitor("observations", t, tuple(sorted(carried)), change, sentence, "g is invertible", rows)


def _square(S: Structure, t: int, met: Met) -> Iterator[Competitor]:
    """With as many observations as latents they compete with every fitted model, whatever was fitted: each of those
    that can stand for ``t`` carries its other latents."""
    for i in S.rows_of(t).tolist() if S.n_observed == S.n_latents else ():
        others = tuple(r for r in S.latents_of(i) if r != t)
        rows = () if met.issuperset(others) else _matching(S, range(S.n_observed), i, t)
        if rows:
            sentence = (
                f"ẑ = x, {S.observed[i]} in place of {S.latent[t]}: with as many observations as latents, the "
                f"{S.n_observed} observations explain the data with {S.n_observed} dependencies whatever the world is, "
                f"so few dependencies are no evidence for these {len(S)}"
            )
            yield Competitor("observations", t, others, S.n_observed - len(S), sentence, "g is invertible", rows)


def _rotations(S: Structure, t: int, met: Met) -> Iterator[Competitor]:
    block = [r for r in S.closure(t) if t in S.closure(r)]
    if len(block) < 2:
        return
    partner = S.latent[next(r for r in block if r != t)]
    for r in S.closure(t):
        if r == t:
            continue
        angle = "an angle" if r in block else f"an angle that depends on {S.latent[r]}"
        pair = f"{S.latent[t]} and {S.latent[r] if r in block else partner}"
        sentence = (
            f"{pair} rotated by {angle}, after each is made Gaussian: they act on the same observations, independent "
            f"latents stay independent, and the {len(S)} dependencies stay"
        )
        yield Competitor("rotation", t, (r,), 0, sentence, "the latents are independent")


def _triangular(S: Structure, t: int, met: Met, *, triangles: Triangles) -> Iterator[Competitor]:
    for i in S.rows_of(t).tolist() if searches_triangles(S) else ():
        others = tuple(r for r in S.latents_of(i) if r != t)
        if met.issuperset(others):
            continue
        rows, size = triangles(i)
        if rows and size <= len(S) and _matching(S, rows, i, t):
            sentence = (
                f"ẑ = F({S.observed[i]}) in place of {S.latent[t]}, and the conditional quantiles of "
                f"{', '.join(S.observed[k] for k in rows[1:])} given those before as the others: independent latents "
                f"that explain the data with {size} dependencies instead of {len(S)}"
            )
            names = ", ".join(S.observed[k] for k in rows)
            yield Competitor("triangular", t, others, size - len(S), sentence, f"{names} determine the latents", rows)


def searches_triangles(S: Structure) -> bool:
    """Whether a structure is small enough for its triangular competitors to be searched."""
    return S.n_latents <= MOST_TRIANGULAR and len(S.kinds) <= MOST_KINDS


def tried(S: Structure) -> int:
    """How many observations are tried on a decoder in the place of a latent.

    >>> [tried(Structure(np.ones(shape))) for shape in ((64, 10), (784, 10), (12288, 20))]
    [64, 8, 0]
    """
    return min(S.n_observed, TRIED // (S.n_observed * S.n_latents))


def left_out(S: Structure, *, independent: bool, decoder: bool) -> tuple[str, ...]:
    """Competitors that are not searched for the size of a structure, a sentence each.

    >>> left_out(Structure(np.ones((64, 10))), independent=True, decoder=True)
    ()
    """
    said = []
    if independent and not searches_triangles(S):
        said.append(
            f"triangular competitors, which are searched up to {MOST_TRIANGULAR} latents and {MOST_KINDS} observations "
            f"with different latents, of {S.n_latents} and {len(S.kinds)}"
        )
    elif decoder and tried(S) < S.n_observed:
        some = f", beyond the first {tried(S)} of each latent" if tried(S) else ""
        said.append(f"observations in the place of a latent{some}: each costs decodings of all {S.n_observed}")
    return tuple(said)


def chain(S: Structure, first: int) -> tuple[int, ...]:
    """d_z observations that can determine the latents, from ``first`` on, each adding as few new latents as possible;
    empty when there are none.

    Of observations with the same latents the first that is left stands for all.

    >>> chain(Structure([[1, 1, 1], [1, 0, 0], [0, 1, 0], [0, 1, 1]]), 0)
    (0, 1, 2)
    """
    rows, met = [first], set(S.latents_of(first))
    left = [(set(S.latents_of(kind[0])), [i for i in kind[: S.n_latents + 1] if i != first]) for kind in S.kinds]
    while len(rows) < S.n_latents:
        offered = sorted((len(latents - met), kind[0], latents, kind) for latents, kind in left if kind)
        best = next((kind for *_, kind in offered if _independent(S, [*rows, kind[0]])), None)
        if best is None:
            return ()
        rows.append(best.pop(0))
        met |= set(S.latents_of(rows[-1]))
    return tuple(rows)


def conditions(S: Structure, rows: tuple[int, ...]) -> tuple[tuple[int, ...], ...]:
    """For each observation of a chain, by position, the earlier ones that it is not independent of.

    >>> conditions(Structure([[1, 0, 0], [0, 1, 1], [1, 1, 0]]), (0, 1, 2))
    ((), (), (0, 1))
    """
    latents = [set(S.of(k)) for k in rows]
    prefixes = (_components(latents[: k + 1]) for k in range(len(rows)))
    return tuple(next(tuple(sorted(c - {k})) for c in prefix if k in c) for k, prefix in enumerate(prefixes))


def triangle(S: Structure, rows: tuple[int, ...]) -> int:
    """Dependencies of the triangular model over these observations, counted from above.

    >>> triangle(Structure([[1, 1], [1, 1], [1, 1]]), (0, 1))
    5
    """
    latents = [set(S.of(k)) for k in rows]
    prefixes = [_components(latents[: k + 1]) for k in range(len(rows))]
    solved = [p for k, p in enumerate(prefixes) if len(set().union(*latents[: k + 1])) == k + 1]
    total = sum(len(given) + 1 for given in conditions(S, rows))
    for kind in S.kinds:
        mine, sizes, times = set(S.latents_of(kind[0])), [], len(set(kind) - set(rows))
        if times == 0:
            continue
        for prefix in solved:
            touching = [c for c in prefix if any(latents[k] & mine for k in c)]
            if mine <= set().union(*(latents[k] for c in touching for k in c)):
                sizes.append(sum(len(c) for c in touching))
        total += times * min(sizes)
    return total


def _components(latents: list[set[int]]) -> list[set[int]]:
    """Groups of observations connected by shared latents."""
    groups: list[set[int]] = []
    for k, mine in enumerate(latents):
        joined = [g for g in groups if any(latents[j] & mine for j in g)]
        groups = [g for g in groups if g not in joined] + [{k}.union(*joined)]
    return groups


def _independent(S: Structure, rows: list[int]) -> bool:
    """Whether these observations can each be matched to a latent of their own."""
    return bool((_matched(S.support[rows], "column") >= 0).all())


def unmatched(S: Structure) -> tuple[int, ...]:
    """Latents that are left without an observation where each has one of its own at most.

    >>> unmatched(Structure([[1, 1]])), unmatched(Structure([[1, 1], [0, 1]]))
    ((1,), ())
    """
    return tuple(np.flatnonzero(_matched(S.support, "row") < 0).tolist())


def _matching(S: Structure, rows: range | tuple[int, ...], i: int, t: int) -> tuple[int, ...]:
    """One of these observations for each latent, ``i`` for ``t``; empty when there is no such matching."""
    others = [k for k in rows if k != i]
    rest = np.delete(S.support[others].toarray(), t, axis=1)
    matched = _matched(rest, "row") if rest.size else np.array([], dtype=int)
    if (matched < 0).any():
        return ()
    found = [others[k] for k in matched]
    return (*found[:t], i, *found[t:])


def _matched(support: Any, perm_type: str) -> np.ndarray:
    """For each row (``column``) or column (``row``) its partner, −1 for none; imported when a matching is needed."""
    from scipy.sparse.csgraph import maximum_bipartite_matching

    return maximum_bipartite_matching(csr_array(support), perm_type=perm_type)
