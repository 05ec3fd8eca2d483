"""Potentially degenerate Gaussian mixtures through piecewise affine mixing: the ladder of theorems.

Reference: Xu et al. (2026), Assumptions 3.4, 3.6, 3.8, Theorems 3.5, 3.7, 3.9 and Appendix E. Renamed: ``B_j`` are the
active latents of component ``j``; ``J_i = {j : i ∈ B_j}``.

*3.4.* On the intersection of some supports, which is affine, squared Mahalanobis distances are quadratic polynomials,
and finitely many proper zero sets do not cover it: a point with pairwise different distances exists iff no two of the
polynomials agree. Larger groups have smaller intersections, so the largest groups with a common point decide.

*3.6.* A common basis is built block by block, or shown not to exist; see ``common_basis``.

*Blocks.* Under 3.8a and (4) let ``ẑ = L z``. ``E‖ẑ‖₀ ≥ E rank = E‖z‖₀``, so every support goes onto one spanned by
axes, and as ``L`` is injective on their union, intersections keep their dimensions: after a permutation ``L_ir ≠ 0``
only if ``J_r ⊆ J_i``, and ``L`` is invertible. So ``ẑ_i`` mixes ``z_i`` with the latents that are never active without
it; if there are none, ``z_i`` is found up to scale. Variability (3.8b) says that there are none for any ``i``. Blocks
are latents connected by such inclusions.

Deviations: Theorem 3.7 asks in addition that the affine map is invertible. It need not be: in ℝ³ a piecewise affine
homeomorphism, linear on each axis, takes the three axes to three lines of one plane. It is when two supports together
span what all supports span, for the map is injective on any two.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property, reduce
from itertools import chain, combinations, islice
from typing import Any

import numpy as np
from scipy.sparse.csgraph import connected_components

from noumena import checks
from noumena.ambiguity import Ambiguity, Blocks
from noumena.estimators.sparse.degenerate import ChainedDecoder
from noumena.guarantees.certificate import Certificate
from noumena.guarantees.fitted import checked_rows, weighed
from noumena.guarantees.flat_rows import on_flat_rows
from noumena.guarantees.hypotheses import Hypothesis
from noumena.guarantees.injectivity import read_decoder
from noumena.guarantees.mixtures import answered, named, precision, variance_tolerance
from noumena.guarantees.theorem import ANYTHING, Theorem
from noumena.mixtures import Mixture, Support, common_basis

MIXING = "the mixing is injective, continuous and piecewise affine"
RECONSTRUCTION = "(2) the data are reconstructed"
AGAIN_A_MIXTURE = "(3) the other code is again such a mixture"
SPARSE = "(4) the learned code is no denser than the truth"
GENERIC = "3.4 Mahalanobis distances tell components apart"
COMMON_POINT = "3.6 the supports share a point"
COMMON_BASIS = "3.6 the supports share a basis"
INVERTIBLE = "the affine map is invertible"
STANDARD_BASIS = "3.8a every support is spanned by axes"
VARIABILITY = "3.8b supports vary sufficiently"

ENOUGH = 0.95
"""The data are reconstructed when the R² is at least this."""
MOST_GROUPS = 2000
"""Groups of components with a common point before giving up."""
MOST_PAIRS = 2000
MOST_TRIPLES = 500
SOURCE = "Xu et al. 2026, Theorem"


def degenerate_ladder(
    mixture: Any,
    *,
    decoder: Any = None,
    exact: bool = False,
    tolerance: float | None = None,
    explained: float | None = None,
    sparsity: Any = None,
    rows: Any = None,
) -> Certificate:
    """Theorems 3.5, 3.7 and 3.9, and their block-wise form, read on a mixture of latents.

    ``explained`` is the R² of the reconstruction, ``sparsity`` the pair ``(E‖ẑ‖₀, E‖z‖₀)`` of learned and true active
    latents; ``exact`` says that the mixture is known, not fitted; ``tolerance`` is relative to spreads. A fitted
    mixture is judged on ``rows`` of latents, and without them nothing is concluded (see ``fitted``).

    >>> cross = Mixture([0.5, 0.5], [[1, 0], [0, 2]], [np.diag([1, 0]), np.diag([0, 1])])
    >>> reading = degenerate_ladder(cross, exact=True)
    >>> reading.broken, str(reading.ambiguity(0))
    ((), 'permutation+scaling')
    """
    tolerance = precision(exact, tolerance)
    law = _Law.of(Mixture.of(mixture), exact, tolerance)
    table = None if exact else checked_rows(rows, law.mixture)

    def read(*hypotheses: Hypothesis) -> tuple[Hypothesis, ...]:
        return tuple(weighed(h, exact=exact, rows=table) for h in hypotheses)

    seen = () if exact else on_flat_rows(Mixture.of(mixture), table, tolerance)
    within = (_mixing(decoder, law.mixture.n_latents), _explained(explained), _AGAIN, *read(_generic(law)), *seen[:1])
    affine = (*within, *read(_common_point(law), _common_basis(law), _invertible(law)))
    sparse = (*within, *read(_standard_basis(law)), _sparse(sparsity, tolerance), *seen[1:])
    n = law.mixture.n_latents

    def theorem(name: str, hypotheses: tuple[Hypothesis, ...], conclusion: tuple[Ambiguity, ...]) -> Theorem:
        return Theorem(name, f"{SOURCE} {name.split()[1]}", hypotheses, conclusion, _RESTS_ON)

    theorems = (
        theorem("Theorem 3.5", within, (Ambiguity("affine within components"),) * n),
        theorem("Theorem 3.7", affine, (Ambiguity("affine"),) * n),
        theorem("Theorem 3.9 without variability", sparse, _conclusions(law.active)),
        theorem("Theorem 3.9", (*sparse, *read(_variability(law))), (Ambiguity("permutation+scaling"),) * n),
    )
    unseen = (AGAIN_A_MIXTURE, SPARSE, *((MIXING, RECONSTRUCTION) if decoder is None else ()))
    assumed = frozenset((*unseen, *((RECONSTRUCTION,) if exact else ())))  # of a known law no model was fitted
    return Certificate("degenerate mixture", theorems, assumed=assumed, conditional=exact)


_RESTS_ON = ("the other model's decoder is injective, continuous and piecewise affine too, with as many latents",)
_AGAIN = Hypothesis(AGAIN_A_MIXTURE, "unknown", "samples cannot show that a code is exactly a Gaussian mixture")


@dataclass(frozen=True, eq=False)
class _Law:
    """A mixture in reduced form and in units of its spreads, its supports, and how to answer."""

    mixture: Mixture
    supports: tuple[Support, ...]
    numbers: tuple[int, ...]
    """The components' numbers in the mixture as given."""
    exact: bool
    tolerance: float

    @classmethod
    def of(cls, mixture: Mixture, exact: bool, tolerance: float) -> _Law:
        """Merge equal components, measure latents by their spreads within components."""
        first = mixture.distinct(tolerance=tolerance)
        unit = mixture.reduced(tolerance=tolerance).standardised()
        supports = unit.supports(tolerance=variance_tolerance(tolerance))
        return cls(unit, supports, tuple(sorted(set(first))), exact, tolerance)

    def named(self, components: Iterable[Any]) -> str:
        """Components by the numbers they were given with."""
        return named(self.numbers[j] for j in components)

    def answer(self, name: str, true: bool, evidence: str) -> Hypothesis:
        """A measured hypothesis."""
        return answered(name, true, self.exact, evidence)

    def meet(self, components: Iterable[Any]) -> Support | None:
        """The common part of some supports; ``None`` when it is empty."""
        parts = [self.supports[j] for j in components]

        def both(a: Support | None, b: Support) -> Support | None:
            return None if a is None else a.meet(b, tolerance=self.tolerance)

        return reduce(both, parts[1:], parts[0])

    def fits(self, flat: Support, j: int) -> bool:
        """Whether a support meets an affine subspace."""
        return flat.meet(self.supports[j], tolerance=self.tolerance) is not None

    @cached_property
    def active(self) -> np.ndarray:
        """``active[j, i]``: ``i ∈ B_j``, when component ``j`` is spanned by axes."""
        return np.array([(s.basis**2).sum(axis=1) > 0.5 for s in self.supports])

    @cached_property
    def off_axes(self) -> np.ndarray:
        """For each component how far its directions are from the axes of its active latents, as a sine."""
        tilts = [np.abs(s.basis[~moves]).max(initial=0) for s, moves in zip(self.supports, self.active, strict=True)]
        counted = self.active.sum(axis=1) == [s.rank for s in self.supports]
        return np.where(counted, tilts, 1.0)


# ---- premises about the models ---------------------------------------------------------------------------


def _mixing(decoder: Any, n_latents: int) -> Hypothesis:
    f = read_decoder(decoder.layers() if isinstance(decoder, ChainedDecoder) else decoder, n_latents)
    parts = (f.piecewise_affine, f.continuous, f.injective)
    worst = next((h for a in ("fails", "unknown") for h in parts if h.answer == a), f.injective)
    return Hypothesis(MIXING, worst.answer, worst.evidence)


def _explained(r2: float | None) -> Hypothesis:
    if r2 is None:
        return Hypothesis(RECONSTRUCTION, "unknown", "no reconstruction error was given")
    r2 = checks.number(r2, "explained", maximum=1)
    evidence = f"R² of the reconstruction {r2:.3f} (wanted {ENOUGH})"
    return answered(RECONSTRUCTION, r2 >= ENOUGH, False, evidence)


def _sparse(sparsity: Any, tolerance: float) -> Hypothesis:
    if sparsity is None:
        return Hypothesis(SPARSE, "unknown", "the numbers of active latents were not given; this is what sparsity asks")
    shape = np.shape(sparsity)
    checks.require(shape == (2,), "sparsity must be a pair of numbers, learned and true.", f"shape {shape}")
    learned, true = (checks.number(s, "sparsity", minimum=0) for s in sparsity)
    evidence = f"{learned:.3g} active latents on average, against {true:.3g} in truth"
    return answered(SPARSE, learned <= true * (1 + tolerance), False, evidence)


# ---- 3.4 -------------------------------------------------------------------------------------------------


def _generic(law: _Law) -> Hypothesis:
    """Assumption 3.4 over the largest groups of equal rank with a common point."""
    ranks = np.array([s.rank for s in law.supports])
    closest, pair, rank = np.inf, (0, 0), 0
    for r in np.unique(ranks):
        groups = _groups(law, [int(j) for j in np.flatnonzero(ranks == r)])
        if groups is None:
            return Hypothesis(GENERIC, "unknown", f"more than {MOST_GROUPS} groups of components of rank {r} meet")
        for flat, members in groups:
            for a, b, gap in _gaps(law, flat, members):
                if gap < closest:
                    closest, pair, rank = gap, (members[a], members[b]), int(r)
    if np.isinf(closest):
        return law.answer(GENERIC, True, "no two components of equal rank meet")
    if closest > law.tolerance:
        sentence = f"where components of equal rank meet, squared distances differ by {closest:.3g} of their size"
        return law.answer(GENERIC, True, f"{sentence} or more (wanted {law.tolerance:.2g})")
    sentence = f"{law.named(pair)} of rank {rank} have equal distances wherever their group meets"
    return Hypothesis(GENERIC, "fails", f"{sentence}, within {closest:.2g} (wanted {law.tolerance:.2g})")


def _groups(law: _Law, components: list[int]) -> list[tuple[Support, list[int]]] | None:
    """Groups with a common point that include every largest one, each with its intersection; ``None``: too many."""
    found: list[tuple[Support, list[int]]] = []
    pending: list[tuple[Support | None, list[int], list[int]]] = [(None, [], components)]
    visited = 0
    while pending:
        flat, members, candidates = pending.pop()
        visited += 1
        if visited > MOST_GROUPS:
            return None
        start, joined = flat, list(members)
        for j in candidates:
            support = law.supports[j]
            smaller = support if flat is None else flat.meet(support, tolerance=law.tolerance)
            if smaller is None:  # j does not fit with those before it: groups without j, and groups with j
                pending.append((start, members, [c for c in candidates if c != j]))
                within = support if start is None else start.meet(support, tolerance=law.tolerance)
                if within is not None:
                    fitting = [c for c in candidates if c != j and law.fits(within, c)]
                    pending.append((within, [*members, j], fitting))
                break
            flat, joined = smaller, [*joined, j]
        else:
            if flat is not None and len(joined) > 1:
                found.append((flat, joined))
    return found


def _gaps(law: _Law, flat: Support, members: list[int]) -> list[tuple[int, int, float]]:
    """Relative differences between the members' squared Mahalanobis distances, as polynomials on an intersection.

    Coefficients are taken in the average metric of the members around the point nearest to them all, so that they
    do not depend on units.
    """
    means = law.mixture.means[members]
    precisions = np.stack([_pseudo_inverse(law, j) for j in members])
    N = flat.basis
    values, directions = np.linalg.eigh(N.T @ precisions.mean(axis=0) @ N)
    N = N @ (directions / np.sqrt(values))
    pull = N.T @ np.einsum("kab,kb->a", precisions, flat.point - means) / len(members)
    centred = flat.point - N @ pull - means
    gradient = np.einsum("kab,kb->ka", precisions, centred)
    quadratic = (N.T @ precisions @ N).reshape(len(members), -1)
    polynomials = np.column_stack([(centred * gradient).sum(axis=1), 2 * gradient @ N, quadratic])
    size = np.maximum(1, np.abs(polynomials).max(axis=1))
    pairs = combinations(range(len(members)), 2)
    return [(a, b, float(np.abs(polynomials[a] - polynomials[b]).max() / max(size[a], size[b]))) for a, b in pairs]


def _pseudo_inverse(law: _Law, j: int) -> np.ndarray:
    Q = law.supports[j].basis
    return Q @ np.linalg.solve(Q.T @ law.mixture.covariances[j] @ Q, Q.T)


# ---- 3.6 -------------------------------------------------------------------------------------------------


def _common_point(law: _Law) -> Hypothesis:
    everyone = range(len(law.supports))
    meeting = law.meet(everyone)
    if meeting is not None:
        missed = max(float(np.linalg.norm(s.beside(meeting.point - s.point))) for s in law.supports)
        return law.answer(COMMON_POINT, True, f"a point is within {missed:.2g} spreads of all {len(everyone)}")
    apart = next((p for p in combinations(everyone, 2) if law.meet(p) is None), tuple(everyone))
    return Hypothesis(COMMON_POINT, "fails", f"{law.named(apart)} have no common point")


def _common_basis(law: _Law) -> Hypothesis:
    off = float(law.off_axes.max())
    if off <= law.tolerance:
        return law.answer(COMMON_BASIS, True, f"the axes, within {off:.2g}")
    directions = [s.basis for s in law.supports]
    basis = common_basis(directions, tolerance=law.tolerance)
    if basis is not None:
        margin = float(np.linalg.svd(basis, compute_uv=False).min())
        return law.answer(COMMON_BASIS, True, f"one was built, with singular values of at least {margin:.3g}")
    triples = islice(combinations(range(len(directions)), 3), MOST_TRIPLES)
    alone = (t for t in triples if common_basis([directions[j] for j in t], tolerance=law.tolerance) is None)
    culprits = next(alone, range(len(directions)))
    return Hypothesis(COMMON_BASIS, "fails", f"the directions of {law.named(culprits)} have no common basis")


def _invertible(law: _Law) -> Hypothesis:
    """Whether one or two supports span what all span."""
    bases = [s.basis for s in law.supports]
    whole = _rank(bases, law.tolerance)
    ones, twos = ((j,) for j in range(len(bases))), combinations(range(len(bases)), 2)
    large = (pair for pair in chain(ones, twos) if sum(bases[j].shape[1] for j in pair) >= whole)
    for pair in islice(large, MOST_PAIRS):
        if _rank([bases[j] for j in pair], law.tolerance) == whole:
            return law.answer(INVERTIBLE, True, f"all {whole} dimensions are spanned by {law.named(pair)}")
    reason = f"no two supports were found to span the {whole} dimensions of all; it is if the other code spans as many"
    return Hypothesis(INVERTIBLE, "unknown", reason)


def _rank(bases: list[np.ndarray], tolerance: float) -> int:
    return int((np.linalg.svd(np.column_stack(bases), compute_uv=False) > tolerance).sum())


# ---- 3.8 -------------------------------------------------------------------------------------------------


def _standard_basis(law: _Law) -> Hypothesis:
    tilted = np.flatnonzero(law.off_axes > law.tolerance)
    if len(tilted):
        evidence = f"off the axes by up to {law.off_axes.max():.2g}: {law.named(tilted)}"
        return Hypothesis(STANDARD_BASIS, "fails", evidence)
    shift = np.abs(np.where(law.active, 0, law.mixture.means)).max(axis=1)
    shifted = np.flatnonzero(shift > law.tolerance)
    if len(shifted):
        away = f"off the origin by up to {shift.max():.2g} spreads: {law.named(shifted)}"
        evidence = f"{away}; if the supports share a point, subtract it"
        return Hypothesis(STANDARD_BASIS, "fails", evidence)
    worst = max(law.off_axes.max(), shift.max())
    return law.answer(STANDARD_BASIS, True, f"within {worst:.2g} (wanted {law.tolerance:.2g})")


def _variability(law: _Law) -> Hypothesis:
    if law.off_axes.max() > law.tolerance:
        return Hypothesis(VARIABILITY, "unknown", "the supports are not spanned by axes")
    active = law.active
    never = np.flatnonzero(~active.any(axis=0))
    if len(never):
        return Hypothesis(VARIABILITY, "fails", f"{named(never, 'z')} never moves")
    mixed = mixed_with(active)
    broken = [
        f"{named([i], 'z')} is active whenever {named(np.flatnonzero(row), 'z')}"
        for i, row in enumerate(mixed)
        if row.any()
    ]
    if broken:
        return Hypothesis(VARIABILITY, "fails", "; ".join(broken[:6]))
    return law.answer(VARIABILITY, True, f"for every two latents one of {len(active)} components has just the first")


def mixed_with(active: np.ndarray) -> np.ndarray:
    """``[i, r]``: latent ``r`` moves, but never without latent ``i``, so sparsity cannot keep ``z_r`` out of ``ẑ_i``.

    >>> mixed_with(np.array([[True, True, False], [True, False, True]])).astype(int).tolist()
    [[0, 1, 1], [0, 0, 0], [0, 0, 0]]
    """
    without = (~active[:, :, None] & active[:, None, :]).any(axis=0)  # r moves in some component without i
    return ~without & active.any(axis=0) & ~np.eye(active.shape[1], dtype=bool)


def _conclusions(active: np.ndarray) -> tuple[Ambiguity, ...]:
    """What sparsity pins down of each latent: its scale, its block, or nothing if it never moves."""
    mixed, moves = mixed_with(active), np.asarray(active.any(axis=0))
    _, block = connected_components(mixed, directed=False)
    blocks: Blocks = tuple(tuple(int(i) for i in np.flatnonzero(block == b)) for b in np.unique(block))
    alone, among = Ambiguity("permutation+scaling"), Ambiguity("block-wise", blocks)
    return tuple(ANYTHING if not m else among if row.any() else alone for m, row in zip(moves, mixed, strict=True))
