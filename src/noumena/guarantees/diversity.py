"""Diversity: what the set algebra of observations says about latents, as the paper reads it and as it can be proved.

Reference: Zheng et al. (2026), Definition 5, Proposition 1, Assumptions 1–2, Theorems 1–3.

Its Assumption 1 is a condition on the *pair* of models: it excludes shears, substitutions and every other competitor by
assumption. Under it the support of the other model is this one up to order, and ``z_t`` is a function of the latents of
``cl(t) = {r : col(t) ⊆ col(r)}`` alone. That is what is certified here, and nothing beyond it:

* intersections (Definition 5 i, Proposition 1 i and iii) follow, they say exactly ``r ∉ cl(t)``;
* symmetric differences (Definition 5 ii, Proposition 1 ii) do not, for a pair with ``col(t) ⊊ col(r)``: the shear
  ``ẑ_t = z_t + s(z_r)`` keeps the support. So not every atom is identified, nor every latent under clauses 1 or 2.

Clauses without subset search. A group ``A`` may as well be as large as its clause allows. Clause 3 is ``cl(i) = {i}``.
Clause 1: rows without ``i`` cover all latents but ``{r : col(r) ⊆ col(i)}``, so it says that this is ``{i}``: no column
lies inside column ``i``. Clause 2: a row without ``i`` contains ``cl(i)∖i`` and every latent that never acts together
with ``i``.
"""

from __future__ import annotations

import numpy as np

from noumena.ambiguity import Ambiguity
from noumena.guarantees.hypotheses import Hypothesis
from noumena.guarantees.theorem import Theorem
from noumena.structure import LatentSet, Structure

SPAN_MARGIN = 1e-3
"""Gradients of a row span its support when the smallest singular value is this share of the largest."""
TOGETHER = 1024
"""Rows whose gradients are decomposed at once."""
PAPER = "Zheng et al. 2026"
NONLINEAR = "sufficient nonlinearity"
PAIR = "the other model's rows see what this one's gradients reach (Assumption 1)"


def clauses(structure: Structure) -> np.ndarray:
    """For every latent, whether it satisfies clause 1, 2 and 3 of sufficient diversity; boolean ``(latent, 3)``.

    >>> clauses(Structure([[1, 1], [0, 1]])).astype(int)
    array([[1, 1, 0],
           [0, 0, 1]])
    """
    S = structure
    above = np.diff(S.order.indptr)  # |cl(i)|
    below = np.bincount(S.order.indices, minlength=S.n_latents)
    longest = int(np.diff(S.support.indptr).max())
    together = np.diff(S.shared.indptr)
    second = [S.n_latents - together[i] <= longest and _clause_2(S, i) for i in range(S.n_latents)]
    return np.stack([below == 1, np.array(second), above == 1], axis=1)


def _clause_2(S: Structure, i: int) -> bool:
    met = set(S.shared.indices[S.shared.indptr[i] : S.shared.indptr[i + 1]].tolist())
    wanted = (set(S.closure(i)) - {i}) | (set(range(S.n_latents)) - met)
    mine = S.observations_of(i)
    if not wanted:
        return len(mine) < S.n_observed
    return bool(frozenset.intersection(*(S.observations_of(r) for r in wanted)) - mine)


def claims(structure: Structure, t: int, r: int) -> tuple[str, ...]:
    """The paper's conditions by which ``z_t`` would not be a function of the other model's ``r``, over all groups of
    observations.

    >>> claims(Structure([[1, 1], [0, 1]]), 0, 1)
    ('Definition 5 (ii)', 'Proposition 1 (ii)')
    """
    mine, theirs = structure.observations_of(t), structure.observations_of(r)
    shared = ("Definition 5 (i)", "Proposition 1 (i)", "Proposition 1 (iii)") if mine - theirs else ()
    unique = ("Definition 5 (ii)", "Proposition 1 (ii)") if theirs - mine else ()
    both = ("Definition 5 (iii)",) if mine - theirs and theirs - mine else ()
    return tuple(sorted(shared + unique + both))


def overclaimed(structure: Structure) -> tuple[tuple[int, int], ...]:
    """Pairs ``(t, r)`` that the paper's conditions separate and Assumption 1 does not: ``col(t)`` strictly inside
    ``col(r)``.

    >>> overclaimed(Structure([[1, 1], [0, 1]]))
    ((0, 1),)
    """
    order, weight = structure.order, structure.weights
    t = np.repeat(np.arange(structure.n_latents), np.diff(order.indptr))
    strict = weight[t] < weight[order.indices]
    return tuple((int(a), int(b)) for a, b in zip(t[strict], order.indices[strict], strict=True))


def closure_of(latents: LatentSet, structure: Structure) -> LatentSet:
    """The smallest set that contains these latents and whatever acts wherever one of them acts."""
    closed = latents
    for t in latents:
        closed = closed | structure.closure(t)
    return closed


# ---- hypotheses ------------------------------------------------------------------------------------------------


def spanning(J: np.ndarray | None, structure: Structure, *, exact: bool) -> Hypothesis:
    """Whether each row has as many points with independent gradients as it has latents, from sampled Jacobians."""
    if J is None:
        return Hypothesis(NONLINEAR, "unknown", "a bare structure has no gradients")
    widest = int(np.diff(structure.support.indptr).max())
    if len(J) < widest:
        return too_few(len(J), widest)
    margins = _margins(J, structure)
    lowest, weak = margins.min(), [structure.observed[i] for i in np.flatnonzero(margins <= SPAN_MARGIN)]
    if weak:
        shown = ", ".join(weak[:5]) + (f" and {len(weak) - 5} more" if len(weak) > 5 else "")
        return Hypothesis(NONLINEAR, "fails", f"at {len(J)} points the gradients of {shown} do not span their latents")
    evidence = (
        f"at {len(J)} points every row's gradients span its latents, smallest/largest singular value {lowest:.3f}"
    )
    return Hypothesis(NONLINEAR, "holds" if exact else "supported", evidence)


def too_few(points: int, latents: int) -> Hypothesis:
    """Nothing is known of gradients at fewer points than a row has latents."""
    return Hypothesis(NONLINEAR, "unknown", f"{points} points cannot span the {latents} latents of a row")


def _margins(J: np.ndarray, structure: Structure) -> np.ndarray:
    """For every row, the smallest singular value of its gradients as a share of the largest; infinite without latents.

    Rows with equally many latents are decomposed together.
    """
    indices, starts = structure.support.indices, structure.support.indptr[:-1]
    sizes, margins = np.diff(structure.support.indptr), np.full(structure.n_observed, np.inf)
    for size in np.unique(sizes[sizes > 0]):
        rows = np.flatnonzero(sizes == size)
        for some in np.split(rows, range(TOGETHER, len(rows), TOGETHER)):
            latents = indices[starts[some][:, None] + np.arange(size)]
            gradients = J[:, some[:, None], latents].transpose(1, 0, 2)
            singular = np.linalg.svd(gradients, compute_uv=False)
            largest = singular[:, 0]
            margins[some] = np.where(largest > 0, singular[:, -1] / np.where(largest > 0, largest, 1), 0.0)
    return margins


def pairing() -> Hypothesis:
    """Assumption 1's condition on the pair of models, which no single model can show."""
    return Hypothesis(PAIR, "unknown", "it is about the other model, and excludes every competitor by assumption")


# ---- theorems --------------------------------------------------------------------------------------------------


def closure_theorem(structure: Structure, hypotheses: tuple[Hypothesis, ...]) -> Theorem:
    """What Assumption 1 proves: a latent is known up to the latents of its closure."""
    known = tuple(_known_up_to(structure.closure(t)) for t in range(structure.n_latents))
    source = f"{PAPER}, Theorem 1 (i) as far as it follows"
    return Theorem("Closure under Assumption 1", source, (*hypotheses, pairing()), known)


def independence_theorem(structure: Structure, hypotheses: tuple[Hypothesis, ...]) -> Theorem:
    """With both laws independent a latent with a column of its own is identified: increasing maps between two laws on a
    line are unique, so nothing above it can enter."""
    single = {t for atom in structure.atoms if len(atom) == 1 for t in atom}
    known = tuple(
        Ambiguity("element-wise") if t in single else _known_up_to(structure.closure(t))
        for t in range(structure.n_latents)
    )
    name = "Closure under Assumption 1, with independence"
    return Theorem(name, f"{PAPER}, Theorem 1 (i)", (*hypotheses, pairing()), known)


def paper_theorem(structure: Structure, hypotheses: tuple[Hypothesis, ...]) -> Theorem:
    """The paper's own Theorem 3, with what is missing from it as a hypothesis of its own."""
    met = clauses(structure)
    without = [structure.latent[t] for t in np.flatnonzero(~met.any(axis=1))]
    diverse = Hypothesis(
        "every latent meets a clause of sufficient diversity",
        "fails" if without else "holds",
        f"no clause holds for {_few(without)}"
        if without
        else f"clause 3 for {int(met[:, 2].sum())} of {len(met)} latents, clause 1 or 2 alone for "
        f"{int((met.any(axis=1) & ~met[:, 2]).sum())}",
    )
    pairs = overclaimed(structure)
    named = [f"{structure.latent[t]} inside {structure.latent[r]}" for t, r in pairs[:5]]
    nested = Hypothesis(
        "no column lies strictly inside another (missing from the paper)",
        "fails" if pairs else "holds",
        f"a shear is not excluded for {_few(named, len(pairs))}" if pairs else "clause 3 and the atoms agree",
    )
    known = (Ambiguity("element-wise"),) * structure.n_latents
    name = "Sufficient diversity (paper's condition)"
    return Theorem(name, f"{PAPER}, Theorem 3", (*hypotheses, pairing(), diverse, nested), known)


def _known_up_to(latents: LatentSet) -> Ambiguity:
    return Ambiguity("element-wise") if len(latents) == 1 else Ambiguity("block-wise", (tuple(latents),))


def _few(names: list[str], total: int | None = None) -> str:
    total = len(names) if total is None else total
    return ", ".join(names[:5]) + (f" and {total - 5} more" if total > 5 else "")
