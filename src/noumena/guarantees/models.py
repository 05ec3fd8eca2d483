"""Models: what is read off a world, a fitted model or a decoder before a theorem speaks."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np
import torch
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from noumena import checks
from noumena.adopt.modules import adopt_decoder, require_rowwise, uncompiled
from noumena.derivatives import Map, columns, jacobian
from noumena.derivatives.jacobians import by_row
from noumena.derivatives.strength import jacobians, spread, within
from noumena.estimators import Estimator
from noumena.guarantees import fits, premises
from noumena.guarantees.changes import substitution
from noumena.guarantees.collisions import invertible_at, nudged
from noumena.guarantees.competitors import Competitor, substitutable, tried
from noumena.guarantees.continuity import continuous_by_layers, followed
from noumena.guarantees.decoders import outcome
from noumena.guarantees.diversity import spanning, too_few
from noumena.guarantees.hypotheses import EXPLAINED, Hypothesis
from noumena.guarantees.occam import Gap, consistent_gap, point_gap
from noumena.guarantees.precision import in_order, resolution_of, rounding
from noumena.guarantees.simulation import Simulation
from noumena.guarantees.spread import connected_law, connected_slices, full_dimensional
from noumena.guarantees.structure_certificate import StructureCertificate
from noumena.guarantees.structures import conclude, generic_gap_of, no_denser
from noumena.guarantees.surplus import pure_surplus
from noumena.guarantees.witness import EXACT, Model
from noumena.structure import Structure

SMALLEST, LARGEST = 1e-100, 1e100
"""Sizes of latent points, whose squares are numbers."""
POINTS = 16
"""Latent points at which a Jacobian's gap is computed."""
TOLERANCES, TIED = 4, 3
"""Tolerances, each half of the one before, up to which rows of a fit count as cancelled, and the latents that such an
exchange mixes at most."""
GRADIENTS = 256
"""Latent points at which rows' gradients are compared."""
VANISHING = 4096
"""Latent points at which entries of the support must not vanish."""
FAINT = 1e-7
"""An entry nearly vanishes at a point where it is this share of its typical size over points."""
SELDOM = 1e-3
"""An entry's typical size is its median, or this share of what one point in ten exceeds."""
FAR = 0.03
"""How far, in spreads, a point is moved to tell whether what nearly vanishes there does so around it."""
LATENTS = 4096
"""Latent points of a world that witnesses are built from, and as many to verify them."""
PROBES = 256
GRID = 9
UNDONE = 256
ASKED = 2**23
"""Entries of Jacobians, points × observed × latents, that a premise or a competitor is judged by; it bounds the points
of wide decoders."""
SOLVED = 2**21
"""The same where an equation is solved at every point."""
ROUND_TRIP = 1e-7
"""A change of latents is undone when a round trip ends this near to where it began, relative to the largest latent."""


@dataclass(frozen=True)
class Read:
    """Everything a certificate is concluded from."""

    subject: str
    structure: Structure
    gap: Gap | None
    bound: int | None
    """A lower bound on the gap at points, where it was not enumerated."""
    hypotheses: tuple[Hypothesis, ...]
    smoothness: tuple[Hypothesis, ...]
    """Premises of the paper's theorems that the Occam theorem does not need."""
    independence: Hypothesis
    model: Model
    assumed: tuple[str, ...] = ()
    """Hypotheses that no data can show for such a subject, beside that the other model is no denser."""


def certify_decoder(
    subject: Any, *, at: Any = None, threshold: float | None = None, independent: bool = False
) -> StructureCertificate:
    """The certificate of a world, a fitted model, or a decoder ``at`` points."""
    found = read(subject, at=at, threshold=threshold)
    return conclude(found, independent=independent, available=available(found.model))


def read(subject: Any, *, at: Any = None, threshold: float | None = None) -> Read:
    """Read a world, a fitted model, or a decoder ``at`` points."""
    if isinstance(subject, Simulation):
        return _world(subject)
    if isinstance(subject, Estimator):
        return _fitted(subject, threshold)
    checks.require(callable(subject), "A subject must be a decoder that can be called.", type(subject).__name__)
    checks.require(at is not None, "certify(decoder) must be given latent points, at=z.", "at=None")
    subject = uncompiled(subject)
    kept = isinstance(at, Tensor) and at.is_floating_point()
    points = at if kept else torch.as_tensor(checks.table(at, "at", min_rows=2)).to(torch.get_default_dtype())
    _require_points(points)
    by_row(subject, points)
    decoder, points = outcome(lambda: adopt_decoder(subject, points), tuple(points.shape))
    _require_derivatives(decoder, points)
    shape = tuple(points.shape)
    structure = outcome(lambda: Structure.from_decoder(decoder, points, threshold=threshold), shape)
    found = outcome(lambda: _decoder(subject, points, structure, (fits.explained(None),)), shape)
    return replace(found, assumed=(EXPLAINED,))


def _require_points(points: Tensor) -> None:
    checks.require(points.ndim == 2, "at must have two axes, (batch, latent).", f"shape {tuple(points.shape)}")
    checks.require(len(points) >= 2, "A decoder must be given two latent points or more.", f"{len(points)}")
    checks.require(points.layout == torch.strided, "Latent points must be a dense tensor.", f"layout {points.layout}")
    checks.require(not points.is_meta, "Latent points must hold numbers.", "points on the device meta")
    checks.require(bool(torch.isfinite(points).all()), "Latent points must be finite.", "NaN or inf")
    largest = float(points.abs().max())
    must = f"Latent points must have sizes between {SMALLEST:g} and {LARGEST:g}, or be zero."
    checks.require(largest == 0 or SMALLEST <= largest <= LARGEST, must, f"{largest:.3g} at most")


def _require_derivatives(decoder: Map, points: Tensor) -> None:
    """One sentence about a decoder that has no derivatives, mixes rows, or cannot be called with these points."""
    x = outcome(lambda: require_rowwise(decoder, points), tuple(points.shape))
    few = points[: within(len(points), max(1, x.shape[1]), points.shape[1], entries=ASKED)]
    J = outcome(lambda: jacobian(decoder, few), tuple(few.shape))
    finite = bool(torch.isfinite(x).all() and torch.isfinite(J).all())
    checks.require(finite, "A decoder must have finite observations and derivatives.", "NaN or inf at these points")
    flat = bool(((J == 0).all(dim=2).all(dim=0) & (x[: len(few)] != x[:1]).any(dim=0)).any())
    checks.require(
        not flat,
        "A decoder must be differentiable.",
        "an output that changes while its derivatives are zero, as after detach() or rounding",
    )


def _world(world: Simulation) -> Read:
    S, d_x, d_z = world.structure, world.n_observed, world.n_latents
    z = world.latents(within(VANISHING, d_x, d_z, entries=ASKED))
    gaussian = world.law.name in ("gaussian", "unit gaussian")
    model = Model(world.decoder, world.latents(2 * LATENTS, random_state=1), S, gaussian=gaussian)
    resolution = resolution_of(world.decoder, z)
    J = _jacobian(world.decoder, z, d_x).cpu().numpy()
    continuous, met = followed(world.decoder, model.known, resolution=resolution)
    gap, bound, evidence = _gap_at_points(world.decoder, z, J, S, resolution)
    return Read(
        "world",
        S,
        gap,
        bound,
        (
            premises.exact_zeros(_largest(world.decoder, z, J, met), S, rounding(resolution), known=True),
            evidence,
            premises.invertible(world, resolution),
            continuous,
            connected_law(world),
            no_denser(),
        ),
        (_spanning(model, exact=True), premises.density(world)),
        premises.independent_law(world),
        model,
    )


def _fitted(model: Estimator, threshold: float | None) -> Read:
    """What is read off a fitted model; latents that nothing depends on are left out."""
    check_is_fitted(model)
    structure = model.structure_of(model.best_, threshold=threshold)
    used = structure.in_use
    asked = (fits.beats_dense_twin, fits.lacks_no_dependency)
    agree = fits.found_twice(model, used)
    evidence = (*fits.columns_explained(model), *(ask(model) for ask in asked), agree)
    points, decoder = model.points_of(model.best_), model.decoder_
    known = continuous_by_layers(decoder)
    if len(used) < structure.n_latents:
        decoder = fits.Used(decoder, points, used)
        points, structure = points[:, used], structure.with_latents(used)
    return _decoder(decoder, points, structure, evidence, resolution=fits.resolution(model, used), known=known)


def _decoder(
    decoder: Callable,
    points: Tensor,
    S: Structure,
    fit: tuple[Hypothesis, ...],
    *,
    resolution: float | None = None,
    known: Hypothesis | None = None,
) -> Read:
    """What is read off a decoder at points; ``resolution`` is the share of a row's size that cancellation is told to,
    by default what the decoder's precision allows; ``known`` what its layers say about continuity, where they are ours.
    """
    decoder, points = adopt_decoder(decoder, points, precise=True)  # for counting what cancels
    points = in_order(points)
    precision = resolution_of(decoder, points)
    z = points[: within(VANISHING, S.n_observed, S.n_latents, entries=ASKED)]
    J = _jacobian(decoder, z, S.n_observed).cpu().numpy()
    continuous, met = (known, None) if known else followed(decoder, points, resolution=precision)
    zeros = premises.exact_zeros(_largest(decoder, z, J, met), S, rounding(precision))
    coarse = max(precision, resolution or 0.0)
    gap, bound, at_points = _gap_at_points(decoder, z, J * S.dense, S, precision, coarse)
    assert S.evidence is not None
    exact = max(rounding(precision), EXACT)
    threshold = max(S.evidence.threshold, EXACT) if zeros.answer == "fails" else exact
    model = Model(decoder, points, S, threshold=threshold)
    latents = points.detach().cpu().numpy()
    return Read(
        "decoder",
        S,
        gap,
        bound,
        (
            *fit,
            zeros,
            premises.all_in_use(S),
            at_points,
            invertible_at(decoder, points, resolution=precision),
            continuous,
            full_dimensional(latents),
            connected_slices(latents, continuous=continuous.answer != "fails"),
            premises.more_observations(S),
        ),
        (_spanning(model, exact=False),),
        premises.independent_points(points),
        model,
    )


def _largest(decoder: Callable, z: Tensor, J: np.ndarray, met: Tensor | None) -> np.ndarray:
    """By how much a spread of each latent moves each observation, in spreads, at the point where that is most, and
    where entries of the Jacobian ``met`` between points are larger."""
    with torch.no_grad():
        x = spread(decoder(z.clone())).cpu().numpy()
    most = np.abs(J).max(axis=0)
    if met is not None:
        most = np.maximum(most, met.cpu().numpy())
    return most * z.std(dim=0).cpu().numpy() / x[:, None]


def _spanning(model: Model, *, exact: bool) -> Hypothesis:
    """Whether gradients span, at points that a wide decoder may have too few of."""
    few, widest = _few(model, GRADIENTS), int(np.diff(model.structure.support.indptr).max())
    if len(few) < widest:
        return too_few(len(few), widest)
    J = _jacobian(model.decoder, few, model.structure.n_observed)
    return spanning(J.cpu().numpy(), model.structure, exact=exact)


def _jacobian(decoder: Callable, z: Tensor, n_observed: int) -> Tensor:
    return torch.cat(list(jacobians(decoder, z, n_observed)))


def _few(model: Model, most: int) -> Tensor:
    """Some of the points that a witness may be built from, fewer of a wide decoder."""
    S = model.structure
    return model.known[: within(most, S.n_observed, S.n_latents, entries=ASKED)]


def _gap_at_points(
    decoder: Callable, z: Tensor, J: np.ndarray, S: Structure, precision: float, coarse: float = 0.0
) -> tuple[Gap | None, int | None, Hypothesis]:
    """The smallest gap over some points, and over exchanges that are tied at all of them up to ``coarse``; beyond the
    size of enumeration a lower bound, or nothing. Where an entry of the support vanishes at a point and around it,
    latents may be mixed there at no cost."""
    name = "full support and no accidental cancellation"
    lacking, J = _vanishing(decoder, z, J, S)
    generic = generic_gap_of(S)
    if len(lacking):
        i, j = np.argwhere(_faint(J[lacking[:1]], J, S)[0])[0]
        evidence = (
            f"at {len(lacking)} of {len(J)} sampled points, and around them, something in the support vanishes, such "
            f"as {S.observed[i]}–{S.latent[j]}"
        )
        return generic, None, Hypothesis(name, "fails", evidence)
    some = J[:POINTS]
    told = (precision, rounding(precision))  # a tie is told from none no more finely than an entry is told from zero
    gaps = [_lowest(point_gap(point, tolerance=tolerance) for tolerance in told) for point in some]
    tied = _tied(some, coarse) if coarse > precision else None
    if None not in gaps and (coarse <= precision or tied is not None):
        lowest = _lowest((*gaps, tied or gaps[0], generic or gaps[0]))
        assert lowest is not None
        same = ", as the support alone says" if generic is not None and lowest.value == generic.value else ""
        evidence = f"at {len(gaps)} of {len(some)} sampled points the gap is {lowest.value} or more{same}"
        return lowest, None, Hypothesis(name, "supported", evidence)
    bound = 0 if coarse > precision else min(_bound(list(some), tolerance) for tolerance in told)
    if bound > 0:
        evidence = f"at {len(some)} sampled points the gap is at least {bound}, whatever cancels"
        return None, bound, Hypothesis(name, "supported", evidence)
    pairs = (consistent_gap(point[None], tolerance=precision, largest=2) for point in some)
    shown = (gap for gap in map(_not_positive, (generic, *pairs)) if gap is not None)
    known = min(shown, key=lambda gap: gap.value, default=None)
    reason = "too many exchanges to enumerate, and no lower bound on what they cost is positive"
    return known, 0, Hypothesis(name, "unknown", reason)


def _tied(J: np.ndarray, coarse: float) -> Gap | None:
    """The smallest gap over tolerances up to ``coarse``, and exchanges of few latents: the larger a tolerance, the more
    of a direction it hides too."""
    gaps = [consistent_gap(J, tolerance=coarse / 2**k, largest=TIED) for k in range(TOLERANCES)]
    return _lowest(gaps)


def _lowest(gaps: Iterable[Gap | None]) -> Gap | None:
    """The smallest of some gaps, ``None`` if one of them is not known."""
    known = list(gaps)
    return None if None in known else min((gap for gap in known if gap is not None), key=lambda gap: gap.value)


def _not_positive(gap: Gap | None) -> Gap | None:
    """A gap that accidents can only make smaller, where it is known not to be positive."""
    return gap if gap is not None and gap.value <= 0 else None


def _vanishing(decoder: Callable, z: Tensor, J: np.ndarray, S: Structure) -> tuple[np.ndarray, np.ndarray]:
    """The points at which an entry of the support vanishes or nearly does, and around which it does too; and the
    Jacobians, those of points where one vanishes by accident (a square's slope at zero) a little way off."""
    J = J.copy()
    lacking = np.flatnonzero(((J == 0) & S.dense).any(axis=(1, 2)))
    if len(lacking):
        J[lacking] = _jacobian(decoder, nudged(z[lacking], z), S.n_observed).cpu().numpy() * S.dense
        lacking = lacking[((J[lacking] == 0) & S.dense).any(axis=(1, 2))]
    faint = np.flatnonzero(_faint(J, J, S).any(axis=(1, 2)))
    if len(faint):
        around = _jacobian(decoder, nudged(z[faint], z, by=FAR), S.n_observed).cpu().numpy() * S.dense
        faint = faint[_faint(around, J, S).any(axis=(1, 2))]
    return np.union1d(lacking, faint).astype(int), J


def _faint(some: np.ndarray, J: np.ndarray, S: Structure) -> np.ndarray:
    """Where entries of the support are nearly nothing beside their typical size over points."""
    median, high = np.quantile(np.abs(J), [0.5, 0.9], axis=0)
    return (np.abs(some) <= FAINT * np.maximum(median, SELDOM * high)) & S.dense


def _bound(points: list[np.ndarray], tolerance: float = 1e-9) -> int:
    """The smallest lower bound on the gap over Jacobians, none of which is read after the first that proves nothing."""
    lowest = pure_surplus(points[0], tolerance=tolerance) if points else 0
    for point in points[1:]:
        lowest = min(lowest, pure_surplus(point, tolerance=tolerance)) if lowest else 0
    return lowest


def available(model: Model) -> Callable[[Competitor], bool]:
    """Which competitors of a structure can be built on a model: those whose observations can be undone at points that
    were not used to build them. Of a wide decoder only the first few of each latent are tried."""
    S, most = model.structure, tried(model.structure)

    @cache
    def slopes() -> Tensor:
        return _jacobian(model.decoder, _few(model, PROBES), S.n_observed)

    @cache
    def undone(latents: tuple[int, ...], rows: tuple[int, ...]) -> bool:
        points = within(UNDONE, S.n_observed, S.n_latents, entries=SOLVED)
        change, z = substitution(model.decoder, latents, rows, model.known), model.fresh[-points:]
        return bool((change.inverse(change.forward(z)) - z).abs().max() <= ROUND_TRIP * z.abs().max())

    @cache
    def standing(t: int) -> frozenset[int]:
        """Observations that may be tried in the place of ``t``, of those that would cost nothing."""
        rows = substitutable(S, t)[0] if most else np.empty(0, dtype=int)
        if rows.size == 0:
            return frozenset()
        return frozenset(rows[_one_sign(_slopes_along(model, t))[rows]][:most].tolist())

    def test(competitor: Competitor) -> bool:
        """Whether a competitor is a model of these data."""
        if competitor.kind in ("shear", "rotation"):
            return True
        t, i = competitor.latent, competitor.rows[0]
        if competitor.kind == "substitution":
            return i in standing(t) and undone((t,), (i,))
        if competitor.kind == "triangular" and i not in S.rows_of(t)[:most]:
            return False
        volumes = torch.linalg.det(slopes()[:, list(competitor.rows)])
        return bool(_one_sign(volumes[:, None])) and undone(tuple(range(S.n_latents)), competitor.rows)

    return test


def _one_sign(values: Tensor) -> np.ndarray:
    """Whether every column has one sign."""
    return ((values > 0).all(dim=0) | (values < 0).all(dim=0)).cpu().numpy()


def _slopes_along(model: Model, t: int) -> Tensor:
    """``∂x/∂z_t``, (point, observed), at points and along the range of ``z_t`` through each of them."""
    S = model.structure
    through = within(PROBES // 4 * (GRID + 1), S.n_observed, S.n_latents, entries=ASKED) // (GRID + 1)
    z = model.known[: max(1, through)]
    values = torch.linspace(float(model.known[:, t].min()), float(model.known[:, t].max()), GRID, dtype=z.dtype)
    moved = z.repeat(GRID, 1)
    moved[:, t] = values.repeat_interleave(len(z))
    points = torch.cat([z, moved])
    return columns(model.decoder, points, torch.full((len(points), 1), t, device=z.device)).detach()[:, :, 0]
