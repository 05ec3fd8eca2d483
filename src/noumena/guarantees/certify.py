"""``certify``: one door for structures, worlds, fitted models, decoders, mixtures and representations."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from typing import Any

import numpy as np
import torch
from torch import Tensor

from noumena import checks
from noumena.ambiguity import Ambiguity
from noumena.derivatives import jacobian
from noumena.estimators import Estimator
from noumena.guarantees import premises
from noumena.guarantees.certificate import POSITIVE_GAP, Certificate
from noumena.guarantees.competitors import Rivals
from noumena.guarantees.diversity import closure_theorem, independence_theorem, paper_theorem, spanning
from noumena.guarantees.premises import available
from noumena.guarantees.theorem import Hypothesis, Theorem
from noumena.guarantees.witness import EXACT, Model
from noumena.occam import MOST_LATENTS, Gap, generic_gap, point_gap
from noumena.structure import Structure
from noumena.surplus import pure_surplus, surplus
from noumena.worlds import World

POINTS = 16
"""Latent points at which a Jacobian's gap is computed."""
GRADIENTS = 256
"""Latent points at which rows' gradients are compared."""
LATENTS = 4096
"""Latent points of a world that witnesses are built from, and as many to verify them."""


def certify(subject: Any, *, at: Any = None, threshold: float | None = None, independent: bool = False) -> Certificate:
    """What can be trusted about the latents of a structure, a world, a fitted model, or a decoder ``at`` points.

    A structure may be a ``Structure``, a boolean array or a path to its CSV. ``threshold`` fixes the strength above
    which a fitted decoder's entry counts as a dependency; without it the widest gap decides. With ``independent`` the
    latents of both models are demanded to be independent, which leaves fewer competitors.

    A mixture (``worlds.Mixture`` or scikit-learn's) and a list of arrays of representations are read by the theorems
    made for them, and give a ``Reading``.

    >>> certify(Structure([[1, 0], [1, 0], [1, 1], [0, 1], [0, 1]])).answer
    'identified'
    >>> print(certify(Structure([[1, 1], [0, 1], [0, 1]])).verdict("z1", "z2").competitor.kind)
    shear
    """
    if isinstance(subject, World):
        return _certify_world(subject, independent)
    if isinstance(subject, Estimator):
        return _certify_model(subject, threshold, independent)
    if isinstance(subject, Structure):
        return _certify_structure(subject, independent)
    if callable(subject):
        checks.require(at is not None, "certify(decoder) must be given latent points, at=z.", "at=None")
        points = at if isinstance(at, Tensor) else torch.as_tensor(checks.table(at, "at", min_rows=2))
        points = points if isinstance(at, Tensor) else points.to(torch.get_default_dtype())
        structure = Structure.from_decoder(subject, points, threshold=threshold)
        return _certify_decoder(subject, points, structure, premises.explained(None), independent)
    if isinstance(subject, str) or hasattr(subject, "__fspath__"):
        return _certify_structure(Structure.from_csv(subject), independent)
    return _certify_structure(Structure(subject), independent)


def _certify_structure(S: Structure, independent: bool) -> Certificate:
    hypotheses = (premises.generic(), premises.no_denser())
    law = premises.independent_law(None)
    return _conclude("structure", S, generic(S), hypotheses, (None, law, independent))


def generic(S: Structure) -> Gap | None:
    """The gap of a structure with generic entries, where subsets can be searched."""
    return generic_gap(S.dense) if S.n_latents <= MOST_LATENTS else None


def _certify_world(world: World, independent: bool) -> Certificate:
    S = world.structure
    gap, bound, evidence = _gap_at_points(world.jacobian(world.latents(POINTS)).numpy(), S)
    hypotheses = (evidence, premises.invertible(world), premises.no_denser())
    gaussian = world.law.name in ("gaussian", "unit gaussian")
    model = Model(world.decoder, world.latents(2 * LATENTS, seed=1), S, gaussian=gaussian)
    law = premises.independent_law(world)
    return _conclude("world", S, gap, hypotheses, (model, law, independent), bound, (premises.density(world),))


def _certify_model(model: Estimator, threshold: float | None, independent: bool) -> Certificate:
    structure = model.structure_of(model.best_, threshold=threshold)
    points = model.points_of(model.best_)
    error = float(model.terms_["reconstruction"][model.best_]) / model.n_features_in_
    explained = premises.explained(1 - error if model.standardise else None)
    return _certify_decoder(model.decoder_, points, structure, explained, independent)


def _certify_decoder(
    decoder: Callable, points: Tensor, S: Structure, explained: Hypothesis, independent: bool
) -> Certificate:
    decoder, points = _precise(decoder, points.detach())
    J = jacobian(decoder, points[:POINTS]).detach().cpu().numpy()
    gap, bound, at_points = _gap_at_points(J * S.dense, S)
    known = (explained, premises.clear(S), premises.all_in_use(S), at_points, premises.more_observations(S))
    assert S.evidence is not None
    model = Model(decoder, points, S, threshold=max(S.evidence.threshold, EXACT))
    law = premises.independent_points(points)
    return _conclude("decoder", S, gap, known, (model, law, independent), bound)


def _precise(decoder: Callable, points: Tensor) -> tuple[Callable, Tensor]:
    """The decoder in double precision, for counting what cancels; a module is copied, never changed, and a function
    that works in single precision alone is called in it."""
    if isinstance(decoder, torch.nn.Module):
        return deepcopy(decoder).double().requires_grad_(False), points.double()
    try:
        decoder(points[:1].double())
    except RuntimeError:
        return (lambda z: decoder(z.to(points.dtype)).double()), points.double()
    return decoder, points.double()


def _gap_at_points(J: np.ndarray, S: Structure) -> tuple[Gap | None, int | None, Hypothesis]:
    """The smallest gap over points where no entry of the support vanishes; beyond the size of enumeration a lower bound
    at the points; beyond that the support's own gap."""
    name = "full support and no accidental cancellation"
    full = [point for point in J if bool(((point != 0) == S.dense).all())]
    gaps = [gap for gap in (point_gap(point) for point in full) if gap is not None]
    if gaps:
        lowest = min(gaps, key=lambda gap: gap.value)
        known = generic(S)
        same = ", as the support alone says" if known is not None and lowest.value == known.value else ""
        evidence = f"at {len(gaps)} of {len(J)} sampled points the gap is {lowest.value} or more{same}"
        return lowest, None, Hypothesis(name, "supported", evidence)
    bound = min((pure_surplus(point) for point in full), default=0)
    if bound > 0:
        evidence = f"at {len(full)} of {len(J)} sampled points the gap is at least {bound}, whatever cancels"
        return None, bound, Hypothesis(name, "supported", evidence)
    reason = "too many exchanges to enumerate" if full else "no sampled point has full support"
    return generic(S), None, Hypothesis(name, "unknown", f"{reason}; read off the support with generic entries")


def _conclude(
    subject: str,
    S: Structure,
    gap: Gap | None,
    hypotheses: tuple[Hypothesis, ...],
    law: tuple[Model | None, Hypothesis, bool],
    bound: int | None = None,
    density: tuple[Hypothesis, ...] = (),
) -> Certificate:
    model, independence, independent = law
    least = max(0, gap.value) if gap is not None else surplus(S.support) if bound is None else bound
    positive = Hypothesis(POSITIVE_GAP, "holds" if least else "fails", _gap_sentence(S, gap, least))
    J = None if model is None else jacobian(model.decoder, model.known[:GRADIENTS]).detach()
    smooth = (spanning(J, S, exact=subject == "world"), *density, *_shared(hypotheses))
    theorems = [_occam(S, (positive, *hypotheses)), closure_theorem(S, smooth), paper_theorem(S, smooth)]
    if independent:
        theorems.append(independence_theorem(S, (*smooth, independence)))
    rivals = Rivals(S, independent, subject == "decoder", available(model, independence))
    rests = ("equivalence: the other model gives the same observations", *_RESTS_ON[subject])
    if independent:
        rests = (*rests, "the latents of both models are independent")
    return Certificate(subject, S, gap, least, (positive, *hypotheses), rests, rivals, tuple(theorems), model)


_RESTS_ON = {
    "structure": ("the other model has no more dependencies than this structure",),
    "world": ("the other model has no more dependencies than this world",),
    "decoder": (
        "the data are explained: what is not reconstructed is not certified",
        "Occam: the world is no denser than this model",
    ),
}


def _occam(S: Structure, hypotheses: tuple[Hypothesis, ...]) -> Theorem:
    return Theorem("Occam", "docs/theory.md", hypotheses, (Ambiguity("element-wise"),) * S.n_latents)


def _shared(hypotheses: tuple[Hypothesis, ...]) -> tuple[Hypothesis, ...]:
    """Premises of the Occam theorem that the paper's theorems need as well."""
    return tuple(h for h in hypotheses if h.name in (premises.INVERTIBLE, premises.NO_DENSER, premises.EXPLAINED))


def _gap_sentence(S: Structure, gap: Gap | None, least: int) -> str:
    if gap is None:
        return f"every set of lighter latents has {least} rows or more to spare" if least else "not shown"
    names = ", ".join(S.latent[t] for t in gap.exchange)
    return f"the cheapest exchange mixes {names} and costs {gap.value} dependencies"
