"""Structures: the certificate of a support with generic entries, and of what was read off a decoder."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from noumena import checks
from noumena.ambiguity import Ambiguity
from noumena.guarantees.competitors import Competitor, Rivals, left_out, unmatched
from noumena.guarantees.diversity import closure_theorem, independence_theorem, paper_theorem
from noumena.guarantees.hypotheses import (
    CONNECTED,
    CONTINUOUS,
    EXPLAINED,
    GENERIC,
    IN_USE,
    INDEPENDENT,
    INVERTIBLE,
    NO_DENSER,
    NOISE,
    POSITIVE_GAP,
    SHARED,
    ZEROS,
    Hypothesis,
)
from noumena.guarantees.occam import MOST_LATENTS, Gap, generic_gap
from noumena.guarantees.structure_certificate import StructureCertificate
from noumena.guarantees.surplus import surplus
from noumena.guarantees.theorem import Theorem
from noumena.structure import Structure

if TYPE_CHECKING:
    from noumena.guarantees.models import Read
    from noumena.guarantees.witness import Model

RESTS_ON = {
    "structure": (
        "the other model has no more dependencies than this structure",
        "entries are generic: none cancel by accident",
        "g is invertible, and g and its inverse are continuous, of both models",
        "slices of the latents are connected: for every latent and value, the points with that value are one piece",
    ),
    "world": ("the other model has no more dependencies than this world",),
    "decoder": (
        "the data are explained: what is not reconstructed is not certified",
        "Occam: the world is no denser than this model",
    ),
}


def certify_structure(S: Structure, *, independent: bool) -> StructureCertificate:
    """The certificate of a support with generic entries."""
    bare = "a bare structure has no numbers"
    assumed = (
        Hypothesis(GENERIC, "unknown", f"{bare}; accidental cancellation is excluded"),
        *(Hypothesis(name, "unknown", bare) for name in (INVERTIBLE, CONTINUOUS, CONNECTED)),
        no_denser(),
    )
    nonlinear = Hypothesis("sufficient nonlinearity", "unknown", "a bare structure has no gradients")
    law = Hypothesis(INDEPENDENT, "unknown", "a bare structure has no law")
    gap = generic_gap_of(S)
    bound = surplus(S.support) if gap is None else max(0, gap.value)
    names = frozenset(h.name for h in assumed)
    return _certificate("structure", S, (gap, bound), (assumed, names), (nonlinear,), (law, independent), (None, None))


def conclude(read: Read, *, independent: bool, available: Callable[[Competitor], bool]) -> StructureCertificate:
    """The certificate of whatever has a decoder; ``available`` says which competitors can be built on it."""
    bound = read.bound
    if bound is None:
        bound = surplus(read.structure.support) if read.gap is None else max(0, read.gap.value)
    law = (read.independence, independent)
    premises = (read.hypotheses, frozenset((NO_DENSER, *read.assumed)))
    parts = premises, read.smoothness, law
    return _certificate(read.subject, read.structure, (read.gap, bound), *parts, (read.model, available))


def generic_gap_of(S: Structure) -> Gap | None:
    """The gap of a structure with generic entries, where subsets can be searched."""
    return generic_gap(S.dense) if S.n_latents <= MOST_LATENTS else None


def no_denser() -> Hypothesis:
    """The other model has no more dependencies."""
    return Hypothesis(NO_DENSER, "unknown", "this is what the dependency penalty asks for")


def _certificate(
    subject: str,
    S: Structure,
    found: tuple[Gap | None, int],
    premises: tuple[tuple[Hypothesis, ...], frozenset[str]],
    smoothness: tuple[Hypothesis, ...],
    law: tuple[Hypothesis, bool],
    built_on: tuple[Model | None, Callable[[Competitor], bool] | None],
) -> StructureCertificate:
    (gap, bound), (hypotheses, assumed), (independence, independent) = found, premises, law
    model, available = built_on
    positive = Hypothesis(POSITIVE_GAP, "holds" if bound else "fails", _gap_sentence(S, gap, bound))
    shared = (h for h in hypotheses if h.name in (INVERTIBLE, NO_DENSER, EXPLAINED, SHARED, NOISE, ZEROS, IN_USE))
    both = (*smoothness, *shared, _room(S))
    element_wise = (Ambiguity("element-wise"),) * S.n_latents
    demanded = ("the latents of both models are independent",) if independent else ()
    rests = ("equivalence: the other model gives the same observations", *RESTS_ON[subject], *demanded)
    theorems = [
        Theorem("Occam", "the Occam theorem", (positive, *hypotheses), element_wise, rests),
        closure_theorem(S, both),
        *([independence_theorem(S, (*both, independence))] if independent else []),
        paper_theorem(S, both),
    ]
    return StructureCertificate(
        subject,
        tuple(replace(theorem, latents=S.latent) for theorem in theorems),
        assumed=assumed,
        conditional=True,
        structure=S,
        occam=gap,
        bound=bound,
        rivals=Rivals(S, independent, subject == "decoder", _allowed(independence, available)),
        model=model,
        not_searched=left_out(S, independent=independent, decoder=model is not None),
    )


def _room(S: Structure) -> Hypothesis:
    """Whether observations can tell all latents apart: else no decoder with this structure is invertible."""
    name, alone = "every latent has an observation of its own", unmatched(S)
    if not alone:
        return Hypothesis(name, "holds", "latents and observations can be matched one to one")
    return Hypothesis(
        name, "fails", f"none is left for {checks.listed([S.latent[t] for t in alone])}: g cannot be undone"
    )


def _allowed(independence: Hypothesis, available: Callable[[Competitor], bool] | None) -> Callable[[Competitor], bool]:
    """Competitors that keep latents independent need independent ones; the rest is up to the model."""
    broken = independence.answer == "fails"

    def test(competitor: Competitor) -> bool:
        if broken and competitor.kind in ("rotation", "triangular"):
            return False
        return available is None or available(competitor)

    return test


def _gap_sentence(S: Structure, gap: Gap | None, bound: int) -> str:
    if gap is None:
        return f"every set of lighter latents has {bound} rows or more to spare" if bound else "not shown"
    if S.n_latents == 1:
        return f"there is no other latent to exchange {S.latent[0]} with"
    names = ", ".join(S.latent[t] for t in gap.exchange)
    sentence = f"the cheapest exchange mixes {names} and costs {gap.value} dependencies"
    sparser = ": a sparser basis exists, and sparser() builds a model where it can" if gap.value < 0 else ""
    return sentence + sparser
