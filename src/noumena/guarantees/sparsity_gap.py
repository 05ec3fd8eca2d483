"""The sparsity gap (Type S): how much denser the lightest misaligned basis is than the lightest aligned one.

The weight of a direction ``v`` of the latents is ``‖Jv‖₀``. ``ρ⁺`` is the least total weight of a basis whose every
direction lies in one block, ``ρ⁻`` that of a basis with at least one direction in no block. Type S is ``ρ⁺ < ρ⁻``.

Everything is found among *elementary* directions, those whose ``supp(Jv)`` is minimal: each spans the kernel of rows
one fewer than there are latents, so they can be listed. Every ``Jv`` is a conformal sum ``Σ Ju_k`` of elementary ones:
no cancellation, supports inside ``supp(Jv)``. ``J`` has full column rank throughout.

1. *Lightest bases.* Directions of weight ``≤ w`` span what elementary directions of weight ``≤ w`` span. Bases are
   those of a matroid, hence greedy over elementary directions finds a lightest basis of a block (``ρ⁺``, the union
   ``B`` over blocks with weights ``w_t``) or of everything (``ρ⁰``).
2. *One exchange.* Let ``T(v)`` be the members of ``B`` with a coefficient in ``v``, ``κ(v) = ‖Jv‖₀ − max_T(v) w_t``.
   If ``κ ≥ 0`` for all ``v``, ``B`` is a lightest basis, the lightest basis that contains ``v`` weighs ``ρ⁺ + κ(v)``,
   and so ``ρ⁻ − ρ⁺ = min κ(v)`` over misaligned ``v``. If some ``κ < 0``, then ``ρ⁰ < ρ⁺``, a lightest basis cannot be
   aligned and ``ρ⁻ = ρ⁰``; several exchanges may each save, so ``ρ⁻ − ρ⁺ ≤ min κ``: only the signs agree.
3. *Which v.* The minimum of ``κ`` over misaligned ``v`` is attained at an elementary misaligned ``v``, or is
   ``|col(t) ∪ col(r)| − max(w_t, w_r)`` for two members of ``B`` in different blocks. Take a minimiser ``v``, its
   heaviest member ``t`` and a conformal sum. Some ``u_k`` has ``t ∈ T(u_k)``; if one such is misaligned, then
   ``κ(u_k) ≤ κ(v)``. Else those are aligned, in the block of ``t``, and there is a ``u_l`` outside that block with
   ``t ∉ T(u_l)``. Were their supports to meet, some ``u_k + c·u_l`` would cancel a row of ``supp(Jv)``, still be
   misaligned and still contain ``t``: its ``κ`` is below ``κ(v)``, a contradiction. So they are disjoint, and
   ``κ(v) ≥ ‖Ju_k‖₀ + ‖Ju_l‖₀ − w_t ≥ ‖Ju_l‖₀`` as ``B`` is lightest in its block. A misaligned ``u_l`` has
   ``κ(u_l) < ‖Ju_l‖₀``; an aligned one has ``‖Ju_l‖₀ ≥ w_r`` for ``r ∈ T(u_l)``, and the pair ``t, r`` costs at
   most ``w_r``.
4. *Irreducible.* A direction is part of some lightest basis of its block iff ``κ = 0``; it is then elementary (its
   ``u_k`` with the heaviest member has the same support). The finest blocks that all lightest bases respect are the
   sets of members of ``B`` joined by such directions: ``atoms``.

Beyond ``MOST_DIRECTIONS`` elementary directions a fixed sample of them gives an explicit misaligned basis (``upper``);
``lower`` is proved in ``_lower``. Reference: Matthes et al. (2026), Type S and Thm 4.
Deviations: blocks are blocks of columns; exchange, elementary directions and bounds are ours.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from math import comb, inf
from typing import Any

import numpy as np

from noumena import checks, seeds
from noumena.ambiguity import Blocks
from noumena.checks import InputError
from noumena.guarantees.factors import components, dependency_graph, factors, independent_rows
from noumena.guarantees.hypotheses import Hypothesis

MOST_DIRECTIONS = 200_000
"""Elementary directions are listed up to this many; beyond, the gap is bounded."""
MOST_NUMBERS = 10_000_000
"""Directions times observations stay below this; a sample is a tenth of what may be listed."""
LEAST_SAMPLED = 100
CHUNK = 20_000
RANK_TOLERANCE = 1e-6
"""Rows nearer to dependence than this do not define a direction to the precision that counting zeros needs."""
COEFFICIENT_TOLERANCE = 1e-7
SPARSEST = "every sparsest basis is aligned"
IRREDUCIBLE = "each block is irreducible"


@dataclass(frozen=True)
class SparsityGap:
    """``ρ⁺`` and ``ρ⁻`` of one Jacobian, exactly or as explicit bases with proved bounds on their difference."""

    rho_plus: int
    rho_minus: float
    """``inf`` with a single block: nothing is misaligned. Without ``exact`` it is the lightest found."""
    exact: bool
    lower: float
    """``ρ⁻ − ρ⁺`` is at least this,"""
    upper: float
    """and at most this."""
    direction: np.ndarray | None
    """The cheapest misaligned direction of the latents."""
    basis: np.ndarray
    """The aligned basis that weighs ``rho_plus``; column ``k`` belongs to the block of latent ``k``."""
    atoms: Blocks | None
    """The finest blocks of the basis that all lightest aligned bases respect; ``None`` when not listed."""

    @property
    def value(self) -> float:
        """``ρ⁻ − ρ⁺``, or its upper bound."""
        return self.upper


@dataclass(frozen=True)
class _Directions:
    vectors: np.ndarray
    supports: np.ndarray
    complete: bool

    @property
    def weights(self) -> np.ndarray:
        return self.supports.sum(axis=1)


def sparsity_gap(J: Any, blocks: Any, *, tolerance: float = 1e-9) -> SparsityGap:
    """``ρ⁺`` and ``ρ⁻`` of a Jacobian ``(observed, latent)`` for blocks of its columns.

    Three pixels each, two of them shared with equal entries: the difference of the two is lighter than either.

    >>> found = sparsity_gap(np.array([[1.0, 0], [1, 1], [1, 1], [0, 1]]), [(0,), (1,)])
    >>> found.rho_plus, found.rho_minus
    (6, 5)
    """
    J = np.asarray(J.detach().cpu() if hasattr(J, "detach") else J, dtype=np.float64)
    checks.require(J.ndim == 2, "A Jacobian must have axes (observed, latent).", f"shape {J.shape}")
    checks.require(bool(np.isfinite(J).all()), "A Jacobian must be finite.", "NaN or inf entries")
    chosen = partition(blocks, J.shape[1])
    scale = np.abs(J).max(axis=0, initial=0)
    unit = J / np.where(scale > 0, scale, 1)
    inside = [_elementary(unit[:, block], tolerance) for block in chosen]
    lightest = [_lightest(found) for found in inside]
    basis, supports = _assemble(J.shape, chosen, inside, lightest)
    known = all(found.complete for found in inside)
    everything = _elementary(unit, tolerance)
    cost, direction = _exchange(everything, basis, supports, chosen)
    rho_plus = int(supports.sum())
    rho_minus = rho_plus + cost
    if cost < 0:
        rho_minus = min(rho_minus, _misaligned(everything, chosen))
    exact = known and everything.complete
    return SparsityGap(
        rho_plus=rho_plus,
        rho_minus=rho_minus,
        exact=exact,
        lower=rho_minus - rho_plus if exact else _lower(unit, chosen, inside, rho_plus, tolerance),
        upper=rho_minus - (rho_plus if known else sum(len(b) * _disjoint_bases(unit[:, b]) for b in chosen)),
        direction=None if direction is None else direction / scale,
        basis=basis / scale[:, None],
        atoms=_atoms(inside, lightest, chosen) if known else None,
    )


def partition(blocks: Any, n_latents: int) -> Blocks:
    """Blocks as tuples of integers, which must hold every latent once.

    >>> partition([[0, 2], [1]], 3)
    ((0, 2), (1,))
    """
    try:
        chosen = tuple(tuple(int(j) for j in block) for block in blocks)
    except (TypeError, ValueError) as error:
        raise InputError(f"Blocks must be lists of latents' indices. Got {blocks!r:.60}.") from error
    covered = sorted(j for block in chosen for j in block)
    whole = covered == list(range(n_latents)) and all(chosen)
    checks.require(whole, f"Blocks must partition the latents 0 to {n_latents - 1}.", f"{chosen}")
    return chosen


def generic_slot_gap(support: Any, blocks: Any) -> SparsityGap:
    """The gap of a support with generic entries: normal numbers of a fixed seed, generic with probability one.

    >>> found = generic_slot_gap(np.array([[1, 0], [1, 0], [1, 1], [0, 1], [0, 1]]), [(0,), (1,)])
    >>> found.rho_plus, found.rho_minus
    (6, 7)
    """
    present = np.asarray(support) != 0
    numbers = seeds.numpy_generator(0, "generic entries", *present.shape).normal(size=present.shape)
    return sparsity_gap(np.where(present, numbers, 0), blocks)


# ---- elementary directions -----------------------------------------------------------------------------------


def _elementary(J: np.ndarray, tolerance: float) -> _Directions:
    """Elementary directions with the rows they move, factor by factor: all of them, or a sample that spans."""
    if J.shape[1] == 1 and J.any():
        return _Directions(np.ones((1, 1)), J.T != 0, True)
    found, seen = factors(J), components(dependency_graph(J))
    needless = len(seen) == found.count  # the given columns show the factors, exact zeros and all
    basis, blocks = (np.eye(J.shape[1]), seen) if needless else (found.basis, found.blocks)
    size = np.abs(J @ basis).max(axis=1, keepdims=True)
    moved = _clean(J @ basis / np.where(size > 0, size, 1), tolerance)
    rays = [_rays(moved[:, block]) for block in blocks]
    most = min(MOST_DIRECTIONS, MOST_NUMBERS // len(J))
    complete = sum(comb(len(ray), ray.shape[1] - 1) for ray in rays) <= most
    vectors, supports = [], []
    for block, ray in zip(blocks, rays, strict=True):
        spanning = np.linalg.inv(ray[independent_rows(ray, tolerance=0)[1]]).T
        c = np.vstack([_kernels(ray, None if complete else most // 10), spanning])
        c = _clean(c / np.abs(c).max(axis=1, keepdims=True), tolerance)
        supports.append(np.abs(c @ moved[:, block].T) > tolerance * (np.abs(c) @ np.abs(moved[:, block]).T))
        vectors.append(c @ basis[:, block].T)
    vectors = np.vstack(vectors)
    return _Directions(vectors / np.linalg.norm(vectors, axis=1, keepdims=True), np.vstack(supports), complete)


def _clean(M: np.ndarray, tolerance: float) -> np.ndarray:
    """Rounding errors as the zeros they stand for."""
    return np.where(np.abs(M) > tolerance, M, 0.0)


def _rays(M: np.ndarray) -> np.ndarray:
    """Rows that move something, proportional ones once: they vanish together."""
    M = M[M.any(axis=1)]
    peak = np.take_along_axis(M, np.abs(M).argmax(axis=1)[:, None], axis=1)
    _, first = np.unique(np.round(M / peak, 12) + 0.0, axis=0, return_index=True)
    return M[np.sort(first)] / peak[np.sort(first)]


def _kernels(rays: np.ndarray, sampled: int | None) -> np.ndarray:
    """Unit vectors that ``k − 1`` independent rows of ``(row, k)`` send to zero: all, or those of a fixed sample."""
    m, k = rays.shape
    if k == 1:
        return np.ones((1, 1))
    if sampled is None:
        chosen = np.array(list(combinations(range(m), k - 1)), dtype=int).reshape(-1, k - 1)
    else:
        rng = seeds.numpy_generator(0, "elementary directions", m, k)
        sampled = max(LEAST_SAMPLED, min(sampled, MOST_NUMBERS // k**3))
        chosen = rng.random((sampled, m)).argpartition(k - 2, axis=1)[:, : k - 1]
    found = []
    for start in range(0, len(chosen), CHUNK):
        _, singular, right = np.linalg.svd(rays[chosen[start : start + CHUNK]])
        found.append(right[singular[:, -1] > RANK_TOLERANCE, -1, :])
    return np.vstack([np.empty((0, k)), *found])


def _lightest(found: _Directions) -> np.ndarray:
    """Indices of a lightest basis, greedily."""
    order = np.argsort(found.weights, kind="stable")
    left, chosen = found.vectors[order].copy(), []
    for _ in range(left.shape[1]):
        first = int(np.argmax(np.linalg.norm(left, axis=1) > RANK_TOLERANCE))
        chosen.append(int(order[first]))
        axis = left[first] / np.linalg.norm(left[first])
        left -= np.outer(left @ axis, axis)
    return np.array(chosen)


def _assemble(
    shape: tuple[int, ...], blocks: Blocks, inside: list[_Directions], lightest: list[np.ndarray]
) -> tuple[np.ndarray, np.ndarray]:
    """The aligned basis (as columns) and the rows that each of its members moves."""
    basis, supports = np.zeros((shape[1], shape[1])), np.zeros((shape[1], shape[0]), dtype=bool)
    for block, found, chosen in zip(blocks, inside, lightest, strict=True):
        basis[np.ix_(block, block)] = found.vectors[chosen].T
        supports[list(block)] = found.supports[chosen]
    return basis, supports


# ---- exchanges -----------------------------------------------------------------------------------------------


def _members(vectors: np.ndarray, basis: np.ndarray) -> np.ndarray:
    """Which members of the basis (columns) each direction needs."""
    coefficients = np.abs(np.linalg.solve(basis, vectors.T).T)
    return coefficients > COEFFICIENT_TOLERANCE * coefficients.max(axis=1, keepdims=True)


def _crosses(vectors: np.ndarray, blocks: Blocks) -> np.ndarray:
    """Which directions lie in no block."""
    parts = np.stack([np.abs(vectors[:, list(block)]).max(axis=1) for block in blocks], axis=1)
    return (parts > COEFFICIENT_TOLERANCE).sum(axis=1) > 1


def _exchange(
    everything: _Directions, basis: np.ndarray, supports: np.ndarray, blocks: Blocks
) -> tuple[float, np.ndarray | None]:
    """The least ``κ`` over misaligned directions (point 3 above), and one that attains it."""
    weights = supports.sum(axis=1)
    cost, direction = inf, None
    crossing = np.flatnonzero(_crosses(everything.vectors, blocks))
    if len(crossing):
        members = _members(everything.vectors[crossing], basis)
        costs = everything.weights[crossing] - np.where(members, weights, 0).max(axis=1)
        best = int(costs.argmin())
        cost, direction = int(costs[best]), everything.vectors[crossing[best]]
    owner = {t: k for k, block in enumerate(blocks) for t in block}
    for t, r in combinations(range(len(weights)), 2):
        apart = int((supports[t] | supports[r]).sum() - max(weights[t], weights[r]))
        if owner[t] != owner[r] and apart < cost:
            cost, direction = apart, basis[:, t] + basis[:, r]
    return cost, direction


def _misaligned(everything: _Directions, blocks: Blocks) -> float:
    """The weight of a greedy basis of everything, if it is misaligned."""
    chosen = _lightest(everything)
    return int(everything.weights[chosen].sum()) if _crosses(everything.vectors[chosen], blocks).any() else inf


def _atoms(inside: list[_Directions], lightest: list[np.ndarray], blocks: Blocks) -> Blocks:
    """Members of the aligned basis joined by directions of cost 0 within their block (point 4 above)."""
    atoms = []
    for block, found, chosen in zip(blocks, inside, lightest, strict=True):
        members = _members(found.vectors, found.vectors[chosen].T)
        tight = found.weights == np.where(members, found.weights[chosen], 0).max(axis=1)
        joined = members[tight].astype(int)
        atoms += [tuple(block[j] for j in part) for part in components(joined.T @ joined)]
    return tuple(sorted(atoms))


# ---- bounds --------------------------------------------------------------------------------------------------


def _lower(J: np.ndarray, blocks: Blocks, inside: list[_Directions], rho_plus: int, tolerance: float) -> float:
    """A proved lower bound on ``ρ⁻ − ρ⁺``, the larger of two.

    *Disjoint bases.* A direction is non-zero on every set of rows of full rank, so it weighs at least the number ``β``
    of disjoint such sets, and ``ρ⁻ ≥ n·β``.

    *Private rows.* Let ``p_j`` be the least weight of a direction of block ``j`` on the rows that only ``j`` moves,
    ``o_ij`` the number of rows that ``i`` and ``j`` both move. A misaligned ``v`` whose heaviest member ``t`` is in
    block ``i`` moves what its part in ``i`` moves, less at most ``o_ij`` rows for each other block ``j`` it has a part
    in, and ``p_j`` private rows of each. Its part in ``i`` weighs at least ``w_t``, so ``κ(v) ≥ Σ (p_j − o_ij)``. Where
    this is negative, a lightest basis is matched to ``B`` exchange by exchange: ``ρ⁻ − ρ⁺ ≥ n·min κ``.
    """
    n = J.shape[1]
    by_rank = float(n * _disjoint_bases(J) - rho_plus)
    if not all(found.complete for found in inside):
        return by_rank
    moves = np.stack([(np.abs(J[:, list(block)]) > 0).any(axis=1) for block in blocks])
    private = [_private(J[moves[k] & (moves.sum(axis=0) == 1)][:, b], tolerance) for k, b in enumerate(blocks)]
    shared = moves.astype(int) @ moves.astype(int).T
    least = inf
    for i in range(len(blocks)):
        terms = [private[j] - int(shared[i, j]) for j in range(len(blocks)) if j != i]
        least = min(least, sum(term for term in terms if term < 0) if min(terms) < 0 else min(terms))
    return max(by_rank, least if least >= 0 else n * least)


def _private(J: np.ndarray, tolerance: float) -> int:
    """The least ``‖Jv‖₀`` over ``v ≠ 0``, or a lower bound when there are too many directions to list."""
    if _disjoint_bases(J) == 0:
        return 0
    found = _elementary(J, tolerance)
    return int(found.weights.min()) if found.complete else _disjoint_bases(J)


def _disjoint_bases(J: np.ndarray) -> int:
    """How many disjoint sets of rows of full rank a greedy choice finds."""
    n, count = J.shape[1], 0
    lengths = np.abs(J).max(axis=1, initial=0)
    left = J[lengths > 0] / lengths[lengths > 0, None]
    while len(left) >= n:
        rank, rows = independent_rows(left, tolerance=RANK_TOLERANCE)
        if rank < n:
            break
        count, left = count + 1, np.delete(left, rows, axis=0)
    return count


# ---- at several points ---------------------------------------------------------------------------------------


def gaps_at(J: np.ndarray, blocks: Blocks) -> list[SparsityGap]:
    """Gaps at the first points ``(point, observed, latent)`` of full rank, fewer where directions are many."""
    _, d_x, d_z = J.shape
    wanted, found = 8 if comb(d_x, d_z - 1) <= CHUNK else 2, []
    for point in J:
        if len(found) < wanted:
            try:
                found.append(sparsity_gap(point, blocks))
            except InputError:  # no full rank here
                continue
    return found


def sparsest(gaps: list[SparsityGap], *, known: bool) -> Hypothesis:
    """Is ``ρ⁺ < ρ⁻`` at all points? ``known`` when the numbers are those of a given structure."""
    if not gaps:
        return Hypothesis(SPARSEST, "unknown", "no point has full rank")
    least = min(gaps, key=lambda gap: (gap.upper, gap.lower))
    numbers = f"ρ⁺ = {least.rho_plus}, ρ⁻ = {least.rho_minus:g} at the worst of {len(gaps)} points"
    if least.upper <= 0 and least.direction is not None:
        size = np.abs(least.direction / np.abs(least.basis).max(axis=1))
        mixed = " ".join(f"z{j + 1}" for j in np.flatnonzero(size > COEFFICIENT_TOLERANCE * size.max()))
        return Hypothesis(SPARSEST, "fails", f"{numbers}, by a direction across {mixed}")
    lowest = min(gap.lower for gap in gaps)
    if lowest <= 0:
        return Hypothesis(SPARSEST, "unknown", f"{numbers}; too many directions to list, proved is only ≥ {lowest:g}")
    return Hypothesis(SPARSEST, "holds" if known else "supported", f"{numbers}, a gap of {lowest:g} or more")


def irreducible(gaps: list[SparsityGap], blocks: Blocks, *, known: bool) -> Hypothesis:
    """Is every block one that some point's sparsest bases do not split?"""
    listed = [gap.atoms for gap in gaps if gap.atoms is not None]
    if not listed:
        return Hypothesis(IRREDUCIBLE, "unknown", "too many directions to list, or no full rank")
    for block in blocks:
        sizes = [[len(atom) for atom in atoms if atom[0] in block] for atoms in listed]
        if min(map(len, sizes)) > 1:
            named = " ".join(f"z{j + 1}" for j in block)
            parts = " + ".join(map(str, sizes[0]))
            return Hypothesis(IRREDUCIBLE, "fails", f"all sparsest bases of {named} split it into {parts} directions")
    answer = "holds" if known or all(len(block) == 1 for block in blocks) else "supported"
    return Hypothesis(IRREDUCIBLE, answer, f"sparsest bases join every block, {len(listed)} points")
