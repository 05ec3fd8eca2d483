"""Mechanisms: which factors a decoder acts through, read off its derivatives and never off the latents' law.

Four ways for blocks of latents to be independent, at a point with Jacobian ``J``: *Type D*, different blocks move
different observations; *Type M*, no column's support contains one of another block; *Type S*, every sparsest basis is
aligned with the blocks (``sparsity_gap``); *Type H_n*, all cross-block derivatives of order ``n`` vanish. Each with its
own irreducibility pins blocks down locally; Thm 1 lifts that to everywhere.

Reference: Matthes et al. (2026), Thm 1–5. Deviations, each because the statement needs it:
*Type D on a box.* If ``∂₁f·∂₂f = 0`` everywhere and ``f`` is continuously differentiable, ``f`` ignores one of the two:
where ``∂₁f ≠ 0`` it stays so along the other axis, and two such lines would cross. So on a box or on ``ℝⁿ`` supports
are compared over all points together. *Irreducible somewhere is enough (D, S).* Blocks ``V`` of the other model are
everywhere direct sums of their parts in the true blocks; "this true block lies in one ``V``" is then open and closed.
*Type M* is read with the theorem of diverse dictionaries: it needs gradients that vary, the order of supports over all
points, and a condition on the pair of models that no data show. Irreducible: joined by comparable supports.
*Type H_n.* Irreducible: no ``U + V`` is the block with ``Dⁿg(U, V, ·) = 0``; for one latent: it is curved (an additive
linear decoder identifies nothing). Separable: a block's own derivatives of order ``n`` are independent of other blocks'
and of all lower ones.
Numbers are in units of spread: latents by their standard deviation over the points, observations by theirs.
"""

from __future__ import annotations

from collections.abc import Iterable
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from noumena import checks, seeds
from noumena.ambiguity import Ambiguity, Blocks
from noumena.checks import InputError
from noumena.derivatives import Map, derivative, jacobian
from noumena.guarantees import factors as fac
from noumena.guarantees.certificate import Certificate
from noumena.guarantees.decoders import outcome
from noumena.guarantees.hypotheses import Hypothesis
from noumena.guarantees.simulation import Simulation
from noumena.guarantees.sparsity_gap import IRREDUCIBLE, SparsityGap, gaps_at, irreducible, partition, sparsest
from noumena.guarantees.theorem import Theorem
from noumena.structure import Structure

POINTS, FEW_POINTS = 64, 16
"""Points at which supports are compared; at which blocks are split and higher derivatives taken."""
MOST_ENTRIES = 20_000_000
RANK_MARGIN = 1e-6
STEP = 0.25
"""Length of local differences, in units of spread."""
MOST_JUMP = 0.05
SPACE = ("gaussian", "unit gaussian", "laplace", "correlated gaussian", "linear sem")
LAWS = {"uniform": "box"} | dict.fromkeys(SPACE, "space")
SEVERAL = "there are two blocks or more"
INJECTIVE = "g is locally injective"
CONNECTED = "the source is simply connected with path-connected slices"
COVERS = "the other model covers its image"
DISJOINT = "supports of different blocks are disjoint"
INCOMPARABLE = "no support contains one of another block"
TOGETHER = "no support contains one of another block over all points together"
SPANNING = "every observation's gradients span its latents"
PAIR = "the other model keeps its zeros wherever J varies"
GENERIC = "entries are generic"
EQUIVALENT = "equivalence: the other model gives the same observations"
ONE_POINT = "never conclude identification from Type M and small L0 at one point: ρ⁻ = 5 < ρ⁺ = 6 happens there"


@dataclass(frozen=True)
class Mechanisms(Certificate):
    """The theorems of Matthes et al. (2026) read on one subject, with what was found on the way."""

    blocks: dict[str, Blocks]
    """The blocks each theorem was read with, by its name."""
    factors: fac.Factors | None
    """Type-D factors in any basis of the latents, common to all points; ``None`` without full rank."""
    gap: SparsityGap | None
    """The smallest sparsity gap over the points."""

    @property
    def hierarchy(self) -> dict[str, bool]:
        """Do the answers respect D ⇒ M, D ⇒ S and D ⇒ H_2 ⇒ H_3? Compared where the blocks agree."""
        chains = [("Type D", "Type M"), ("Type D", "Type S"), ("Type D", "Type H_2"), ("Type H_2", "Type H_3")]
        shared = [(a, b) for a, b in chains if {a, b} <= set(self.blocks) and self.blocks[a] == self.blocks[b]]
        first = {t.name: t.hypotheses[0].answer for t in self.theorems}
        return {f"{a} ⇒ {b}": first[a] in ("fails", "unknown") or first[b] != "fails" for a, b in shared}


def mechanisms(
    subject: Any, *, at: Any = None, blocks: Any = None, order: int = 2, region: Any = None, tolerance: float = 1e-6
) -> Mechanisms:
    """Read Types D, M, S and H on a world, a structure, a decoder ``at`` points or Jacobians (point, observed, latent).

    ``blocks`` are lists of latents, or sizes of consecutive ones; by default the slots of a world that has them.
    Otherwise Type D finds its own (the components of ``G_D``) and the others take every latent for a block. ``order`` 3
    adds H_3; ``region`` is ``box`` or ``space`` where the latents fill one; an entry counts as zero below ``tolerance``
    of its observation's largest. A structure and bare Jacobians say nothing about Type H.

    >>> J = np.array([[[1.0, 0], [2, 0], [0, 1], [0, 3]]] * 2)
    >>> print(mechanisms(J, region="box").theorem("Type D").sentence)
    Type D pins the latents down up to element-wise maps, provided that: the other model covers its image.
    """
    checks.require(order in (2, 3), "order must be 2 or 3.", repr(order))
    if region is not None:
        checks.one_of(region, "region", ("box", "space"))
    seen = _look(subject, at, region, checks.number(tolerance, "tolerance", minimum=0, maximum=1))
    n = seen.J.shape[2]
    slots = getattr(subject, "slots", ()) if blocks is None and isinstance(subject, Simulation) else ()
    given = None if blocks is None and not slots else _blocks(slots or blocks, n)
    found = given or fac.components(fac.dependency_graph(seen.compared.reshape(-1, n)))
    chosen = given or tuple((j,) for j in range(n))
    named = "the slots of the world" if slots else "as given"
    said, origin = (named,) * 2 if given else ("each latent a block of its own", "the components of G_D")
    gaps = gaps_at(seen.masked, chosen)
    higher = [_type_h(seen, *seen.curve, chosen, said, m) for m in range(order, 1, -1)] if seen.curve else []
    theorems = [_type_m(seen, chosen, said), *higher, _type_s(seen, chosen, said, gaps), _type_d(seen, found, origin)]
    used = {t.name: found if t.name == "Type D" else chosen for t in theorems}
    theorems.sort(key=lambda t: len(used[t.name]))
    least = min(gaps, key=lambda gap: gap.upper, default=None)
    unseen = frozenset((COVERS, PAIR, GENERIC, *((CONNECTED, SPANNING) if seen.kind == "structure" else ())))
    read = used, _factors(seen.masked), least
    return Mechanisms(seen.kind, tuple(theorems), *read, assumed=unseen, conditional=True)


def _blocks(blocks: Any, n: int) -> Blocks:
    """Lists of latents as they are, or consecutive ones by their sizes."""
    if isinstance(blocks, list | tuple | np.ndarray) and all(isinstance(size, int | np.integer) for size in blocks):
        blocks = np.split(np.arange(n), np.cumsum(checks.slots(tuple(blocks), n))[:-1])
    return partition(blocks, n)


@dataclass(frozen=True)
class _Seen:
    kind: str
    J: np.ndarray
    """Jacobians at points, in units of spread."""
    tolerance: float
    curve: tuple[Map, Tensor] | None
    """The decoder and the points, in units of spread."""
    region: str | None
    structure: Structure | None = None

    @property
    def strength(self) -> np.ndarray:
        """Entries relative to the largest of their observation."""
        largest = np.abs(self.J).max(axis=(0, 2))[None, :, None]
        return np.abs(self.J) / np.where(largest > 0, largest, 1)

    @property
    def supports(self) -> np.ndarray:
        return self.strength > self.tolerance

    @property
    def masked(self) -> np.ndarray:
        return np.where(self.supports, self.J, 0)

    @property
    def together(self) -> np.ndarray:
        """The support over all points: the known structure, or what the points show."""
        return np.asarray(self.supports.any(axis=0) if self.structure is None else self.structure.dense)

    @property
    def compared(self) -> np.ndarray:
        """Supports within which Type D must hold: on a box all points' together, otherwise each point's."""
        return self.together[None] if self.region else self.supports

    def named(self, block: Iterable[int], letter: str = "z") -> str:
        names = [f"{letter}{j + 1}" for j in block]
        return " ".join(names[:6]) + (f" and {len(names) - 6} more" if len(names) > 6 else "")


def _look(subject: Any, at: Any, region: str | None, tolerance: float) -> _Seen:
    if isinstance(subject, Structure):
        rng = seeds.numpy_generator(0, "generic entries", *subject.dense.shape)
        J = np.where(subject.dense, rng.normal(size=(2, *subject.dense.shape)), 0)
        return _Seen("structure", J, 0.0, None, region, structure=subject)
    if isinstance(subject, Simulation):
        where, points = region or LAWS.get(subject.law.name), subject.latents(POINTS) if at is None else at
        return _Seen("world", *_look_through(subject.decoder, points, tolerance), where, structure=subject.structure)
    if callable(subject):
        checks.require(at is not None, "mechanisms(decoder) must be given latent points, at=z.", "at=None")
        return _Seen("decoder", *_look_through(subject, at, tolerance), region)
    J = np.asarray(subject.detach().cpu() if hasattr(subject, "detach") else subject)
    real = J.ndim == 3 and J.dtype.kind in "fiu" and min(J.shape) > 0
    checks.require(real, "Jacobians must have three axes, (point, observed, latent).", f"shape {J.shape}")
    checks.require(len(J) >= 2, "Mechanisms are read off at two points or more.", f"{len(J)}")
    checks.require(bool(np.isfinite(J).all()), "Jacobians must be finite.", "NaN or inf entries")
    return _Seen("Jacobian", J[:POINTS].astype(np.float64), tolerance, None, region)


def _look_through(f: Any, at: Any, tolerance: float) -> tuple[np.ndarray, float, tuple[Map, Tensor]]:
    """Jacobians of a decoder at points, both in units of spread; a module is copied to double precision."""
    checked = torch.as_tensor(checks.table(at, "at", min_rows=2), dtype=torch.float64)
    z = (at.detach() if isinstance(at, Tensor) and at.is_floating_point() else checked)[:POINTS]
    if isinstance(f, torch.nn.Module):
        f = deepcopy(f).double().eval().requires_grad_(False)
        z = next((z.to(p) for p in f.parameters()), z.double())
    x = outcome(lambda: f(z), tuple(z.shape))
    shape = tuple(x.shape) if isinstance(x, Tensor) else type(x).__name__
    table = isinstance(x, Tensor) and x.ndim == 2 and len(x) == len(z)
    checks.require(table, f"A decoder must send {tuple(z.shape)} to (batch, observed) of the same batch.", shape)
    checks.require(bool(torch.isfinite(x).all()), "A decoder must be finite at the points.", "NaN or inf observations")
    standard, y = fac.standardised(f, z, x)
    J = outcome(lambda: jacobian(standard, y), tuple(z.shape)).detach().double().cpu().numpy()
    for j in np.flatnonzero(~J.any(axis=(0, 1))):
        moved = y + 1e-3 * (torch.arange(y.shape[1], device=y.device) == j)
        acts = bool(((standard(moved) - standard(y)).abs().amax(dim=1) > 0).double().mean() > 0.5)
        given = f"a zero derivative for z{j + 1}, which moves observations"
        checks.require(not acts, "A decoder must be differentiable by torch.", given)
    floor = 1e4 * float(torch.finfo(x.dtype).eps)
    return J, max(tolerance, floor), (standard, y)


def _factors(J: np.ndarray) -> fac.Factors | None:
    try:
        return fac.factors(J)
    except InputError:  # no full rank
        return None


# ---- theorems ------------------------------------------------------------------------------------------------


def _theorem(
    seen: _Seen, blocks: Blocks, said: str, title: tuple[str, str], own: tuple[Hypothesis, ...], rests: tuple[str, ...]
) -> Theorem:
    """A type's own hypotheses, those that every type shares, and the conclusion."""
    several = Hypothesis(SEVERAL, "holds" if len(blocks) > 1 else "fails", f"{len(blocks)}, {said}")
    filled = {"box": "the latents fill a box", "space": "the latents fill ℝⁿ"}.get(seen.region or "")
    connected = Hypothesis(CONNECTED, "holds" if filled else "unknown", filled or "no region was named")
    covers = Hypothesis(COVERS, "unknown", "it speaks of a model not seen")
    shared = [several, _injective(seen), connected, covers]
    if seen.kind == "structure":
        shared.append(Hypothesis(GENERIC, "unknown", "a bare structure has no numbers; no accidents are assumed"))
    scalar = all(len(block) == 1 for block in blocks)
    ambiguity = Ambiguity("element-wise") if scalar else Ambiguity("block-wise", blocks)
    source, conclusion = f"Matthes et al. 2026, {title[1]}", (ambiguity,) * seen.J.shape[2]
    return Theorem(title[0], source, (*own, *shared), conclusion, (EQUIVALENT, *rests))


def _injective(seen: _Seen) -> Hypothesis:
    if seen.J.shape[1] < seen.J.shape[2]:
        return Hypothesis(INJECTIVE, "fails", f"{seen.J.shape[1]} observations of {seen.J.shape[2]} latents")
    length = np.linalg.norm(seen.J, axis=1, keepdims=True)
    singular = np.linalg.svd(seen.J / np.where(length > 0, length, 1), compute_uv=False)
    margin = singular[:, -1] / np.maximum(singular[:, 0], np.finfo(float).tiny)
    worst = int(margin.argmin())
    evidence = f"smallest over largest singular value {margin[worst]:.2g} at point {worst} of {len(margin)}, the worst"
    full = "holds" if seen.kind == "structure" else "supported"
    return Hypothesis(INJECTIVE, full if margin[worst] > RANK_MARGIN else "fails", evidence)


def _type_d(seen: _Seen, blocks: Blocks, said: str) -> Theorem:
    rests = ("the other model's blocks are as many and move different observations too",)
    own = (_disjoint(seen, blocks), _irreducible(seen, blocks))
    return _theorem(seen, blocks, said, ("Type D", "Theorem 2"), own, rests)


def _disjoint(seen: _Seen, blocks: Blocks) -> Hypothesis:
    def moved(supports: np.ndarray) -> np.ndarray:
        return np.stack([supports[..., list(block)].max(axis=-1) for block in blocks], axis=-1)

    if seen.structure is not None and (moved(seen.structure.dense).sum(axis=-1) <= 1).all():
        return Hypothesis(DISJOINT, "holds", "no observation of the structure depends on two blocks")
    strength = seen.strength.max(axis=0) if seen.region else seen.strength
    second = np.sort(moved(strength), axis=-1)[..., -2].max() if len(blocks) > 1 else 0.0
    moves = moved(seen.compared)
    clash = np.argwhere(moves.sum(axis=-1) > 1)
    if len(clash):
        both = " and ".join(seen.named(blocks[k]) for k in np.flatnonzero(moves[*clash[0]])[:3])
        several = f"{seen.named(np.unique(clash[:, 1]).tolist(), 'x')} move with several blocks"
        evidence = f"{several}, x{clash[0][1] + 1} with {both}; the second by {second:.2g}"
        return Hypothesis(DISJOINT, "fails", evidence)
    evidence = f"a second block moves an observation by at most {second:.2g} of its largest, at {len(seen.J)} points"
    return Hypothesis(DISJOINT, "supported", f"{evidence}; counted as zero below {seen.tolerance:.2g}")


def _irreducible(seen: _Seen, blocks: Blocks) -> Hypothesis:
    """Is every block irreducible at some point, and if not, how does it split?"""
    least, J = FEW_POINTS, seen.masked[:FEW_POINTS]
    for block in blocks:
        found = [part for part in (_factors(point[:, list(block)]) for point in J) if part is not None]
        whole = sum(part.count == 1 for part in found)
        if not found:
            return Hypothesis(IRREDUCIBLE, "unknown", f"{seen.named(block)} has no full rank at any point")
        if not whole:
            parts = " | ".join(seen.named(rows, "x") for rows in found[0].observed)
            return Hypothesis(IRREDUCIBLE, "fails", f"{seen.named(block)} splits into parts that move {parts}")
        least = min(least, whole)
    kind = "holds" if seen.kind == "structure" or all(len(b) == 1 for b in blocks) else "supported"
    return Hypothesis(IRREDUCIBLE, kind, f"no block splits, at {least} of {len(J)} points or more")


def _type_m(seen: _Seen, blocks: Blocks, said: str) -> Theorem:
    pair = Hypothesis(PAIR, "unknown", "Assumption 1 of diverse dictionaries, on the pair of models; no data show it")
    orders = (_incomparable(seen, blocks, seen.supports), _incomparable(seen, blocks, seen.together[None]))
    own = (*orders, _joined(seen, blocks), _spanning(seen), pair)
    rests = ("the other model has no more dependencies", ONE_POINT)
    return _theorem(seen, blocks, said, ("Type M", "Theorem 3"), own, rests)


def _incomparable(seen: _Seen, blocks: Blocks, supports: np.ndarray) -> Hypothesis:
    name = INCOMPARABLE if len(supports) > 1 else TOGETHER
    label = np.array([next(k for k, b in enumerate(blocks) if j in b) for j in range(supports.shape[-1])])
    compared = (label[:, None] != label[None, :]) & np.asarray(supports.any(axis=1))[:, :, None]
    outside = np.where(compared, fac.outside(supports), supports.shape[1])
    point, t, r = np.unravel_index(outside.argmin(), outside.shape)
    if outside[point, t, r] == 0:
        return Hypothesis(name, "fails", f"z{r + 1} moves all that z{t + 1} moves, at point {point} of {len(supports)}")
    known = seen.kind == "structure" or (seen.structure is not None and name == TOGETHER)
    evidence = f"every latent moves {outside.min()} or more that another block's does not, {len(seen.J)} points"
    return Hypothesis(name, "holds" if known else "supported", evidence)


def _joined(seen: _Seen, blocks: Blocks) -> Hypothesis:
    order = fac.outside(seen.together[None])[0] == 0
    for block in blocks:
        parts = fac.components(order[np.ix_(block, block)])
        if len(parts) > 1:
            shown = " | ".join(seen.named(block[j] for j in part) for part in parts)
            return Hypothesis(IRREDUCIBLE, "fails", f"{seen.named(block)} splits into incomparable {shown}")
    kind = "supported" if seen.structure is None and len(blocks) < len(order) else "holds"
    return Hypothesis(IRREDUCIBLE, kind, f"comparable supports join every block, over {len(seen.J)} points")


def _spanning(seen: _Seen) -> Hypothesis:
    if seen.kind == "structure":
        return Hypothesis(SPANNING, "unknown", "a bare structure has no gradients")
    spans, needed = fac.spans(seen.masked), int(seen.supports.any(axis=0).sum(axis=1).max())
    worst, points = int(spans.argmin()), len(seen.J)
    few = "fails" if points >= needed else "unknown"
    evidence = f"x{worst + 1} the least, smallest over largest singular value {spans[worst]:.2g} over {points} points"
    return Hypothesis(SPANNING, "supported" if spans[worst] > RANK_MARGIN else few, evidence)


def _type_s(seen: _Seen, blocks: Blocks, said: str, gaps: list[SparsityGap]) -> Theorem:
    known = seen.kind == "structure"
    own = (sparsest(gaps, known=known), irreducible(gaps, blocks, known=known))
    rests = ("the other model is at every point as sparse as the sparsest aligned basis, with as many blocks",)
    return _theorem(seen, blocks, said, ("Type S", "Theorem 4"), own, rests)


def _type_h(seen: _Seen, f: Map, z: Tensor, blocks: Blocks, said: str, order: int) -> Theorem:
    few = max(2, min(FEW_POINTS, MOST_ENTRIES // (seen.J.shape[1] * seen.J.shape[2] ** order)))
    missed = outcome(lambda: fac.jump(f, z[:FEW_POINTS], z[:FEW_POINTS].roll(1, dims=0), order), tuple(z.shape))
    evidence = f"between points, {missed:.2g} of the change of a derivative is not the integral of the next"
    D = [
        outcome(lambda m=m: derivative(f, z[:few], m), tuple(z.shape)).double().cpu().numpy()
        for m in range(1, order + 1)
    ]
    own = (
        _vanishing(seen, f, z, blocks, D[-1]),
        _additive(seen, f, z, blocks, order),
        Hypothesis(f"g is {order} times differentiable", "fails" if missed > MOST_JUMP else "supported", evidence),
        _separable(seen, blocks, D),
        _curved(seen, blocks, D[-1]),
    )
    rests = (f"the other model's cross-block derivatives of order {order} vanish too, with as many blocks",)
    return _theorem(seen, blocks, said, (f"Type H_{order}", "Theorem 5"), own, rests)


def _vanishing(seen: _Seen, f: Map, z: Tensor, blocks: Blocks, D: np.ndarray) -> Hypothesis:
    order, n = D.ndim - 2, D.shape[2]
    steps = STEP * torch.randn(z.shape, generator=seeds.generator(0, "steps"), dtype=torch.float64).sign().to(z)
    left = np.array([float(fac.mixed_difference(f, z, z + steps, b, order=order).abs().max()) for b in blocks])
    terms = np.array([max(1, len(b) * (n - len(b))) for b in blocks]) * n ** (order - 2)  # of one difference
    near, exact = left / terms / (STEP / (order - 1)) ** order, np.array([fac.cross_derivative(D, b) for b in blocks])
    worse = "exact derivatives" if exact.max() >= near.max() else "differences, which see kinks"
    evidence = f"{exact.max():.2g} exactly and {near.max():.2g} by differences, in units of spread; used: {worse}"
    return _none(seen, f"cross-block derivatives of order {order} vanish", blocks, np.maximum(exact, near), evidence)


def _none(seen: _Seen, name: str, blocks: Blocks, sizes: np.ndarray, evidence: str) -> Hypothesis:
    """Nothing above the tolerance for any block, or the worst block named."""
    if sizes.max() <= seen.tolerance:
        return Hypothesis(name, "supported", f"{evidence} (tolerance {seen.tolerance:.2g})")
    return Hypothesis(name, "fails", f"{seen.named(blocks[int(sizes.argmax())])} with the others: {evidence}")


def _additive(seen: _Seen, f: Map, z: Tensor, blocks: Blocks, order: int) -> Hypothesis:
    pairs = [(z, z.roll(k, dims=0)) for k in range(1, min(4, len(z)))]
    sizes = [max(float(fac.mixed_difference(f, *p, b, order=order).abs().max()) for p in pairs) for b in blocks]
    evidence = f"at most {max(sizes):.2g} of the spread is left by swapping coordinates between points"
    name = f"mixed differences of order {order} vanish over the region"
    return _none(seen, name, blocks, np.array(sizes), evidence)


def _separable(seen: _Seen, blocks: Blocks, D: list[np.ndarray]) -> Hypothesis:
    margins = np.array([fac.separability([d[point] for d in D], blocks) for point in range(len(D[0]))])
    point, worst = np.unravel_index(margins.argmin(), margins.shape)
    margin = float(margins.min())
    evidence = f"least sine between {seen.named(blocks[worst])} and the rest {margin:.2g}, at point {point}"
    name = f"derivatives of order {len(D)} are separable"
    return Hypothesis(name, "supported" if margin > RANK_MARGIN else "fails", evidence)


def _curved(seen: _Seen, blocks: Blocks, D: np.ndarray) -> Hypothesis:
    for point, tensor in enumerate(D):
        for block in blocks:
            forms = np.moveaxis(fac.within(tensor, block), (1, 2), (-2, -1)).reshape(-1, len(block), len(block))
            found = fac.form_factors(np.where(np.abs(forms).max() > seen.tolerance, forms, 0))
            if not found.irreducible:
                how = f"is flat in {found.flat} directions" if found.flat else f"splits into {len(found.blocks)}"
                return Hypothesis(IRREDUCIBLE, "fails", f"{seen.named(block)} {how} at point {point}")
    return Hypothesis(IRREDUCIBLE, "supported", f"no block is flat or splits, at {len(D)} points")
