"""Subjects: ``certify`` is one door for structures, worlds, fitted models, decoders, mixtures and representations.

A structure is certified here, from its support alone; whatever has a decoder is read in ``noumena.guarantees.models``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

import numpy as np

from noumena import checks
from noumena.ambiguity import Ambiguity
from noumena.guarantees.certificate import CONNECTED, NO_DENSER, POSITIVE_GAP, ZEROS, Certificate
from noumena.guarantees.competitors import Rivals, left_out, unmatched
from noumena.guarantees.diversity import closure_theorem, independence_theorem, paper_theorem
from noumena.guarantees.occam import MOST_LATENTS, Gap, generic_gap
from noumena.guarantees.surplus import surplus
from noumena.guarantees.theorem import Hypothesis, Reading, Theorem
from noumena.structure import Structure

if TYPE_CHECKING:
    from noumena.guarantees.models import Read
    from noumena.mixtures import Mixture

INVERTIBLE = "g is invertible"
EXPLAINED = "the data are explained"
IN_USE = "every latent is in use"
INDEPENDENT = "the latents are independent"
CONTINUOUS = "g and its inverse are continuous"
SPREAD = "the points spread in all directions"
GENERIC = "generic entries"
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


@overload
def certify(subject: Mixture | Sequence[np.ndarray], *, at: Any = None) -> Reading: ...


@overload
def certify(
    subject: Any, *, at: Any = None, threshold: float | None = None, independent: bool = False
) -> Certificate: ...


def certify(subject: Any, *, at: Any = None, threshold: float | None = None, independent: bool = False) -> Any:
    """What can be trusted about the latents of a structure, a world, a fitted model, or a decoder ``at`` points.

    A structure may be a ``Structure``, a boolean array or a path to its CSV. ``threshold`` fixes the strength above
    which a fitted decoder's entry counts as a dependency; without it the widest gap decides. With ``independent`` the
    latents of both models are demanded to be independent, which leaves fewer competitors.

    A mixture (``worlds.Mixture``, or scikit-learn's fitted one), a world or a fitted model whose latents are one
    (``worlds.degenerate``, ``DegenerateMixture``), and two or more arrays of representations of the same rows are read
    by the theorems made for them, ``mixture_ladder``, ``degenerate_ladder`` and ``nearness``. A fitted mixture is
    judged ``at`` rows of latents that its fit did not see, and without them nothing is concluded.

    >>> certify(Structure([[1, 0], [1, 0], [1, 1], [0, 1], [0, 1]])).answer
    'identified'
    >>> print(certify(Structure([[1, 1], [0, 1], [0, 1]])).verdict("z1", "z2").competitor.kind)
    shear
    """
    mixture = hasattr(subject, "covariances") or hasattr(subject, "covariances_")
    if not (hasattr(subject, "structure_of") or callable(subject)):
        name = f"a {type(subject).__name__}"
        judged = mixture and getattr(subject, "fitted", True)
        checks.require(at is None or judged, "Latent points at=z must come with a decoder to be called.", name)
        checks.require(threshold is None, "A threshold must come with a decoder or a fitted model.", name)
    if hasattr(subject, "structure_of"):
        own = "A fitted model has its own latent points; leave at out, or certify its decoder, model.decoder_, at=z."
        checks.require(at is None, own, f"at for a {type(subject).__name__}")
    if isinstance(subject, Structure):
        return certify_structure(subject, independent=independent)
    if mixture:
        return _read_mixture(subject, rows=at)
    if hasattr(subject, "mixture") or (hasattr(subject, "mixture_") and not hasattr(subject, "structure_of")):
        return _read_law(subject)
    if isinstance(subject, list | tuple) and subject and all(len(np.shape(run)) == 2 for run in subject):
        from noumena.guarantees.nearness import nearness

        return nearness(subject)
    if isinstance(subject, str | PathLike):
        folder = Path(subject).is_dir()
        must = (
            "A structure must be a CSV file; what was fitted into a folder is certified by nm.certify(nm.load(folder))."
        )
        checks.require(not folder, must, f"the folder {subject}")
        return certify_structure(Structure.from_csv(Path(subject)), independent=independent)
    if hasattr(subject, "decoder") or hasattr(subject, "structure_of") or callable(subject):
        from noumena.guarantees.models import read  # torch is imported when there is a decoder

        return conclude(read(subject, at=at, threshold=threshold), independent=independent)
    must = (
        "A model without a decoder must be read by what applies to it, see docs/choose.md, or by the structure of its "
        "mixing matrix (observed, latent), as nm.certify(abs(model.mixing_) > 0.1)."
    )
    checks.require(not hasattr(subject, "fit"), must, f"a {type(subject).__name__}")
    return certify_structure(Structure(subject), independent=independent)


def _read_law(subject: Any) -> Reading:
    """A world of mixtures, which is known, or a model fitted as one, with its decoder and what it explains."""
    own = hasattr(subject, "mixture")
    law = subject.mixture if own else subject.mixture_
    kind = type(subject).__name__
    checks.require(law is not None, "A world must have a Gaussian mixture of latents to be certified.", f"a {kind}")
    criteria = getattr(subject, "criteria_", None)
    return _read_mixture(
        law,
        known=own and not getattr(law, "fitted", True),
        decoder=getattr(subject, "decoder" if own else "decoder_", None),
        explained=None if criteria is None else criteria.explained,
        rows=getattr(subject, "points_", None),
    )


def _read_mixture(
    subject: Any, *, known: bool | None = None, decoder: Any = None, explained: float | None = None, rows: Any = None
) -> Reading:
    """A mixture by its ladder; scikit-learn's is fitted, our own is known unless it says that it was fitted."""
    from noumena.guarantees.degenerate import degenerate_ladder
    from noumena.guarantees.mixtures import mixture_ladder, precision, variance_tolerance
    from noumena.mixtures import Mixture

    law = Mixture.of(subject)
    known = not law.fitted if known is None else known
    ranks = law.standardised().ranks(tolerance=variance_tolerance(precision(known, None)))  # as both ladders judge
    if (ranks == law.n_latents).all():
        return mixture_ladder(law, decoder=decoder, exact=known, rows=rows)
    return degenerate_ladder(law, decoder=decoder, exact=known, explained=explained, rows=rows)


def certify_structure(S: Structure, *, independent: bool) -> Certificate:
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
    certificate = _certificate("structure", S, (gap, bound), assumed, (nonlinear,), (law, independent), None)
    return replace(certificate, assumed=tuple(h.name for h in assumed))


def conclude(read: Read, *, independent: bool) -> Certificate:
    """The certificate of whatever has a decoder."""
    bound = read.bound
    if bound is None:
        bound = surplus(read.structure.support) if read.gap is None else max(0, read.gap.value)
    law = (read.independence, independent)
    certificate = _certificate(
        read.subject, read.structure, (read.gap, bound), read.hypotheses, read.smoothness, law, read.model
    )
    return replace(certificate, assumed=(NO_DENSER, *read.assumed))


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
    hypotheses: tuple[Hypothesis, ...],
    smoothness: tuple[Hypothesis, ...],
    law: tuple[Hypothesis, bool],
    model: Any,
) -> Certificate:
    gap, bound = found
    independence, independent = law
    positive = Hypothesis(POSITIVE_GAP, "holds" if bound else "fails", _gap_sentence(S, gap, bound))
    shared = (h for h in hypotheses if h.name in (INVERTIBLE, NO_DENSER, EXPLAINED, ZEROS, IN_USE))
    both = (*smoothness, *shared, _room(S))
    element_wise = (Ambiguity("element-wise"),) * S.n_latents
    theorems = [
        Theorem("Occam", "the Occam theorem", (positive, *hypotheses), element_wise),
        closure_theorem(S, both),
        *([independence_theorem(S, (*both, independence))] if independent else []),
        paper_theorem(S, both),
    ]
    available = True if model is None else _available(model)
    rivals = Rivals(S, independent, subject == "decoder", _allowed(independence, available))
    demanded = ("the latents of both models are independent",) if independent else ()
    rests = ("equivalence: the other model gives the same observations", *RESTS_ON[subject], *demanded)
    untried = left_out(S, independent=independent, decoder=model is not None)
    hypotheses = (positive, *hypotheses)
    named = tuple(replace(theorem, latents=S.latent) for theorem in theorems)
    return Certificate(subject, S, gap, bound, hypotheses, rests, rivals, named, model, untried)


def _room(S: Structure) -> Hypothesis:
    """Whether observations can tell all latents apart: else no decoder with this structure is invertible."""
    name, alone = "every latent has an observation of its own", unmatched(S)
    if not alone:
        return Hypothesis(name, "holds", "latents and observations can be matched one to one")
    return Hypothesis(name, "fails", f"none is left for {checks.few([S.latent[t] for t in alone])}: g cannot be undone")


def _available(model: Any) -> Any:
    from noumena.guarantees.models import available

    return available(model)


def _allowed(independence: Hypothesis, available: Any) -> Any:
    """Competitors that keep latents independent need independent ones; the rest is up to the model."""
    broken = independence.answer == "fails"

    def test(competitor: Any) -> bool:
        if broken and competitor.kind in ("rotation", "triangular"):
            return False
        return available is True or available(competitor)

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
