"""``certify``: one door for structures, worlds, fitted models and decoders."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from typing import Any

import numpy as np
import torch

from noumena import checks
from noumena.derivatives import jacobian
from noumena.estimators import Estimator
from noumena.guarantees.certificate import POSITIVE_GAP, Certificate
from noumena.guarantees.theorem import Hypothesis
from noumena.guarantees.witness import Competitor, competitors
from noumena.occam import Gap, generic_gap, hall_surplus, point_gap
from noumena.structure import Structure
from noumena.worlds import World

POINTS = 16
"""Latent points at which a Jacobian's gap is computed."""
ENOUGH = 0.95
"""A fitted model explains the data when its R² is at least this."""


def certify(subject: Any, *, at: Any = None, threshold: float | None = None) -> Certificate:
    """What can be trusted about the latents of a structure, a world, a fitted model, or a decoder ``at`` points.

    A structure may be a ``Structure``, a boolean array or a path to its CSV. ``threshold`` fixes the strength above
    which a fitted decoder's entry counts as a dependency; without it the widest gap decides.

    >>> certify(Structure([[1, 0], [1, 0], [1, 1], [0, 1], [0, 1]])).answer
    'identified'
    >>> print(certify(Structure([[1, 1], [0, 1], [0, 1]])).verdict("z1", "z2").competitor.kind)
    shear
    """
    if isinstance(subject, World):
        return _certify_world(subject)
    if isinstance(subject, Estimator):
        return _certify_model(subject, threshold)
    if isinstance(subject, Structure):
        return _certify_structure(subject)
    if callable(subject):
        checks.require(at is not None, "certify(decoder) must be given latent points, at=z.", "at=None")
        points = at if isinstance(at, torch.Tensor) else torch.as_tensor(checks.table(at, "at", min_rows=2))
        points = points if isinstance(at, torch.Tensor) else points.to(torch.get_default_dtype())
        structure = Structure.from_decoder(subject, points, threshold=threshold)
        return _certify_decoder(subject, points, structure, _explained(None))
    if isinstance(subject, str) or hasattr(subject, "__fspath__"):
        return _certify_structure(Structure.from_csv(subject))
    return _certify_structure(Structure(subject))


def _certify_structure(S: Structure) -> Certificate:
    generic = Hypothesis(
        "generic entries", "unknown", "a bare structure has no numbers; accidental cancellation is excluded"
    )
    return _conclude("structure", S, generic_gap(S.dense), (generic,), competitors(S))


def _certify_world(world: World) -> Certificate:
    z = world.latents(POINTS)
    gap, evidence = _gap_at_points(world.jacobian(z).numpy(), world.structure)
    facts = _invertible(world)
    same_size = Hypothesis("the other model is no denser", "unknown", "this is what the dependency penalty asks for")
    return _conclude("world", world.structure, gap, (evidence, facts, same_size), competitors(world.structure))


def _certify_model(model: Estimator, threshold: float | None) -> Certificate:
    structure = model.structure_of(model.best_, threshold=threshold)
    points = model.points_of(model.best_)
    error = float(model.terms_["reconstruction"][model.best_]) / model.n_features_in_
    explained = 1 - error if model.standardise else None
    return _certify_decoder(model.decoder_, points, structure, _explained(explained))


def _certify_decoder(decoder: Callable, points: torch.Tensor, S: Structure, explained: Hypothesis) -> Certificate:
    J = _precise_jacobian(decoder, points[:POINTS].detach())
    gap, at_points = _gap_at_points(J * S.dense, S)
    known = (explained, _support_is_clear(S), _all_in_use(S), at_points, _more_observations(S))
    rivals = _square(S) if S.n_observed == S.n_latents else competitors(S)
    return _conclude("decoder", S, gap, known, rivals)


def _precise_jacobian(decoder: Callable, points: torch.Tensor) -> np.ndarray:
    """The Jacobian in double precision, for counting what cancels; a module is copied, never changed."""
    if isinstance(decoder, torch.nn.Module):
        decoder, points = deepcopy(decoder).double(), points.double()
    return jacobian(decoder, points).detach().double().cpu().numpy()


def _conclude(
    subject: str, S: Structure, gap: Gap | None, hypotheses: tuple[Hypothesis, ...], rivals: tuple[Competitor, ...]
) -> Certificate:
    separates = gap.value > 0 if gap is not None else hall_surplus(S.dense)
    positive = Hypothesis(POSITIVE_GAP, "holds" if separates else "fails", _gap_sentence(S, gap, separates))
    premises = {
        "structure": ("the other model has no more dependencies than this structure",),
        "world": ("the other model has no more dependencies than this world",),
        "decoder": (
            "the data are explained: what is not reconstructed is not certified",
            "Occam: the world is no denser than this model",
        ),
    }
    rests_on = ("equivalence: the other model gives the same observations", *premises[subject])
    return Certificate(subject, S, gap, separates, (positive, *hypotheses), rests_on, rivals)


def _invertible(world: World) -> Hypothesis:
    rank, secant = world.facts.get("rank margin"), world.facts.get("secant margin")
    if rank is None or secant is None:
        return Hypothesis("g is invertible", "unknown", "the world was built without checking it")
    evidence = (
        f"on samples, smallest/largest singular value of the Jacobian ≥ {rank:.3f} and smallest/largest stretch "
        f"between points ≥ {secant:.3f}"
    )
    return Hypothesis("g is invertible", "supported", evidence)


def _gap_sentence(S: Structure, gap: Gap | None, separates: bool) -> str:
    if gap is None:
        return (
            "every set of lighter latents has rows of its own to spare"
            if separates
            else "not shown by the polynomial test"
        )
    names = ", ".join(S.latent[t] for t in gap.exchange)
    return f"the cheapest exchange mixes {names} and costs {gap.value} dependencies"


def _gap_at_points(J: np.ndarray, S: Structure) -> tuple[Gap | None, Hypothesis]:
    """The smallest gap over points where no entry of the support vanishes; the support's generic gap beyond its
    size."""
    name = "full support and no accidental cancellation"
    full = [point for point in J if bool(((point != 0) == S.dense).all())]
    gaps = [gap for gap in (point_gap(point) for point in full) if gap is not None]
    if not gaps:
        reason = "too many exchanges to enumerate" if full else "no sampled point has full support"
        return generic_gap(S.dense), Hypothesis(name, "unknown", f"{reason}; read off the support with generic entries")
    lowest = min(gaps, key=lambda gap: gap.value)
    generic = generic_gap(S.dense)
    same = generic is not None and lowest.value == generic.value
    evidence = f"at {len(gaps)} of {len(J)} sampled points the gap is {lowest.value} or more"
    return lowest, Hypothesis(name, "supported", evidence + (", as the support alone says" if same else ""))


def _explained(r2: float | None) -> Hypothesis:
    if r2 is None:
        return Hypothesis("the data are explained", "unknown", "no reconstruction error is known for a bare decoder")
    answer = "supported" if r2 >= ENOUGH else "fails"
    return Hypothesis("the data are explained", answer, f"held-out R² of the reconstruction {r2:.3f} (wanted {ENOUGH})")


def _support_is_clear(S: Structure) -> Hypothesis:
    evidence = S.evidence
    assert evidence is not None
    near = evidence.borderline()
    sentence = f"threshold {evidence.threshold:.3f}, nearest entry a factor {evidence.margin:.2f} away"
    if not near:
        return Hypothesis("the structure is read off clearly", "supported", sentence)
    shown = ", ".join(f"{S.observed[i]}–{S.latent[j]}" for i, j in near[:6])
    more = f" and {len(near) - 6} more" if len(near) > 6 else ""
    return Hypothesis("the structure is read off clearly", "unknown", f"{sentence}; could flip: {shown}{more}")


def _all_in_use(S: Structure) -> Hypothesis:
    evidence = S.evidence
    assert evidence is not None
    name, strongest = "every latent is in use", evidence.strength.max(axis=0)
    silent = [S.latent[j] for j in np.flatnonzero(strongest <= evidence.threshold)]
    if silent:
        return Hypothesis(name, "fails", f"nothing depends on {', '.join(silent)}; fit fewer latents")
    return Hypothesis(name, "supported", f"the faintest moves an observation by {strongest.min():.2f} of its spread")


def _more_observations(S: Structure) -> Hypothesis:
    name = "more observations than latents"
    if S.n_observed > S.n_latents:
        return Hypothesis(name, "holds", f"{S.n_observed} and {S.n_latents}")
    return Hypothesis(
        name,
        "fails",
        f"{S.n_observed} and {S.n_latents}: ẑ = x is as sparse as a model can be, whatever the world",
    )


def _square(S: Structure) -> tuple[Competitor, ...]:
    """With as many observations as latents every pair has the same competitor, whatever was fitted."""
    everyone = range(S.n_latents)
    sentence = (
        f"ẑ = x: with as many observations as latents, the {S.n_observed} observations explain the data with "
        f"{S.n_observed} dependencies whatever the world is, so few dependencies are no evidence for these {len(S)}"
    )
    return tuple(
        Competitor(
            "observations",
            t,
            tuple(r for r in everyone if r != t),
            S.n_observed - len(S),
            sentence,
            "g is invertible",
        )
        for t in everyone
    )
