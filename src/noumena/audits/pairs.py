"""Pairs: alignment errors between two runs' representations up to each group of maps, beside the chance level.

An error is ``mean_i‖T h_i − g_i‖/Δ`` in the target's space, Δ the target's diameter. ``T`` is fitted on some rows and
measured on others (``held_out=False``: on the same, as in the paper).

References
----------
Nelson et al. (2026), "Statistical and structural identifiability in representation learning", Section 4.2 and A.7.2.

Deviations, beside those of ``guarantees.agreement``: held out, the two sides' ICA see *disjoint halves* of the fitted
rows, so that overfitting to shared rows, which makes even Gaussian runs agree, does not count as axes; ``ICA, same
rows`` lets both see the same half. Least squares with few rows per column is regularised by a ridge. Beyond ``EXACT``
rows the diameter is the largest distance among the outermost rows and along sweeps to the farthest row, a lower bound:
errors may come out slightly too large, never too small. The chance level is the mean over shuffles of one side's rows.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from math import isfinite, nan
from typing import Any

import numpy as np
from jaxtyping import Float

from noumena import checks, seeds
from noumena.ambiguity import Ambiguity
from noumena.audits.folds import AuditFolds, folds_of
from noumena.audits.ridge import careful_map, overfits
from noumena.audits.rule import AMBIGUITIES, smallest_group
from noumena.audits.tables import tables_of
from noumena.estimators.ica import ica as components
from noumena.guarantees.agreement import (
    AFFINE,
    ICA,
    PERMUTATION,
    RIGID,
    Moments,
    component_map,
    component_match,
    distances,
    efficiency,
    merged,
    permutation_map,
    similarity_map,
)
from noumena.guarantees.components import enough
from noumena.guarantees.lipschitz import diameter
from noumena.guarantees.unmixing import Unmixing, covariance_of, unmix
from noumena.metrics.record import plain

SAME_ROWS = "ICA, same rows"
KINDS = (PERMUTATION, RIGID, AFFINE, ICA, SAME_ROWS)
EXACT, OUTERMOST, SWEEPS = 4000, 1000, 8
"""Rows up to which the diameter is exact; beyond, rows compared pairwise, and sweeps over all rows."""
MAX_ITER, TOL = 200, 1e-4
"""Of ICA: the defaults of scikit-learn, which the paper used."""
MOST_BY_CHANCE = 2000
"""Rows on which chance is measured."""


# ---- one side ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class RunMoments:
    """One run, its rows in the order of the folds, with its diameter, moments of every part, and ICA of every fold."""

    name: str
    rows: Float[np.ndarray, "batch latent"]
    diameter: float
    means: tuple[Float[np.ndarray, " latent"], ...]
    """Of each part, like ``covariances``."""
    covariances: tuple[Float[np.ndarray, "latent latent"], ...]
    unmixings: tuple[tuple[Unmixing, Unmixing], ...] = ()
    """For each fold, on two disjoint halves of its fitted rows (in-sample twice on all rows); none without ICA."""


def side_of(name: str, table: Float[np.ndarray, "batch latent"], folds: AuditFolds, *, size: float = nan) -> RunMoments:
    """A run without its ICA; ``size`` is its diameter."""
    rows = np.ascontiguousarray(table[folds.order])
    parts = [rows[folds.part(p)].astype(np.float64) for p in range(len(folds))]
    return RunMoments(name, rows, size, tuple(p.mean(axis=0) for p in parts), tuple(covariance_of(p) for p in parts))


def unmixings_of(
    side: RunMoments, folds: AuditFolds, *, restarts: int, seed: int
) -> tuple[tuple[Unmixing, Unmixing], ...]:
    """ICA of a run in every fold, on both halves of the fitted rows; none when a half has too few rows."""
    unmixings = []
    for k in range(len(folds)):
        halves = folds.halves(k, seed)
        if not all(enough(side.rows[half]) for half in halves):
            return ()
        first = unmix(side.rows[halves[0]], restarts=restarts, seed=seed, rotation=rotation)
        second = (
            unmix(side.rows[halves[1]], restarts=restarts, seed=seed, rotation=rotation) if folds.held_out else first
        )
        unmixings.append((first, second))
    return tuple(unmixings)


def rotation(white: np.ndarray, seed: int, restart: int) -> tuple[np.ndarray, bool]:
    """The rotation of one ICA fit of white rows, on a GPU where there is one, and whether it converged."""
    from sklearn.exceptions import ConvergenceWarning

    if white.shape[1] == 1:
        return np.ones((1, 1)), True
    start = int(seeds.numpy_generator(seed, "start of an audit's ICA", restart).integers(seeds.LARGEST))
    model = components.ICA(whiten=False, max_iter=MAX_ITER, tol=TOL, device="auto", random_state=start)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(white)
    return model.components_, model.converged_


def largest_distance(z: Float[np.ndarray, "batch latent"]) -> float:
    """The diameter, exactly for few rows; beyond ``EXACT`` a lower bound that is nearly always attained.

    >>> largest_distance(np.array([[0.0, 0], [3, 0], [3, 4]]))
    5.0
    """
    if len(z) <= EXACT:
        return diameter(z)
    radius = np.linalg.norm(z - z.mean(axis=0), axis=1)
    best = diameter(z[np.argsort(-radius, kind="stable")[:OUTERMOST]])
    here = int(radius.argmax())
    for _ in range(SWEEPS):
        away = np.linalg.norm(z - z[here], axis=1)
        best, here = max(best, float(away.max())), int(away.argmax())
    return best


# ---- two sides -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class PairComparison:
    """Alignment errors of ``source`` mapped onto ``target`` up to each group, in the target's space and over its
    diameter.

    Attributes
    ----------
    target, source : str
        Names of the two runs.
    diameter : float
        Diameter of the target.
    by_fold : dict of str to tuple of float
        Mean errors of every fold, by group; NaN where there is no such map.
    largest, chance, r2 : dict of str to float
        By group, the error of the worst row, the mean error of shuffled rows, and the share of variance explained.
    correlations : tuple of array
        In every fold, of the target's ICA components with their partners, on held-out rows; 0 without a partner.
    """

    target: str
    source: str
    diameter: float
    by_fold: dict[str, tuple[float, ...]]
    largest: dict[str, float]
    chance: dict[str, float]
    r2: dict[str, float]
    correlations: tuple[np.ndarray, ...] = field(default=(), compare=False)

    @property
    def errors(self) -> dict[str, float]:
        """Mean errors over the folds."""
        return {kind: float(np.mean(values)) for kind, values in self.by_fold.items()}

    @property
    def spread(self) -> dict[str, float]:
        """Standard deviation of the errors over the folds."""
        return {kind: float(np.std(values)) for kind, values in self.by_fold.items()}

    @property
    def efficiency(self) -> float:
        """ICA's share of what a rigid map gains over a signed permutation."""
        return efficiency(self.errors[PERMUTATION], self.errors[RIGID], self.errors[ICA])

    @property
    def group(self) -> str:
        """The smallest group up to which the two agree."""
        return smallest_group(self.by_fold, self.chance)

    @property
    def up_to(self) -> Ambiguity:
        """The same as an ambiguity; any map where they do not agree."""
        return AMBIGUITIES[self.group]

    def __str__(self) -> str:
        errors, spread = self.errors, self.spread
        shown = [
            f"{kind} {errors[kind]:.3f} ± {spread[kind]:.3f} (chance {self.chance[kind]:.3f}, R² {self.r2[kind]:.3f})"
            for kind in errors
            if isfinite(errors[kind])
        ]
        return f"{self.source} onto {self.target}: {', '.join(shown)}"

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers, ready for JSON; what is not finite is ``None``."""
        numbers = {"errors": self.errors, "spread": self.spread, "largest": self.largest}
        numbers |= {"chance": self.chance, "r2": self.r2}
        names = {"target": self.target, "source": self.source, "up_to": self.group}
        return {**names, "efficiency": plain(self.efficiency), **plain(numbers)}


def compare(
    g: RunMoments, h: RunMoments, folds: AuditFolds, *, shuffles: int, seed: int
) -> tuple[PairComparison, PairComparison]:
    """``h`` mapped onto ``g``, and ``g`` onto ``h``."""
    parts = [part_moments(g, h, p, folds) for p in range(len(folds))]
    there, back = [], []
    for k in range(len(folds)):
        fitted = [parts[p] for p in folds.fitted(k)]
        a, b = g.rows[folds.part(k)], h.rows[folds.part(k)]
        there.append(_measure(fitted, (a, b), _unmixings(g, h, k), held_out=folds.held_out))
        back.append(_measure([m.flipped for m in fitted], (b, a), _unmixings(h, g, k), held_out=folds.held_out))
    chance = [_by_chance(g, h, folds, s, seed) for s in range(shuffles)]
    correlations = [_axes(g, h, folds, parts), _axes(h, g, folds, [m.flipped for m in parts])]
    return (
        _pair(g, h, there, [c[0] for c in chance], correlations[0]),
        _pair(h, g, back, [c[1] for c in chance], correlations[1]),
    )


Measured = dict[str, np.ndarray]
"""By group the distance of every measured row to its image; under an empty name that to the fitted rows' mean."""
Rows = tuple[np.ndarray, np.ndarray]
Unmixings = dict[str, tuple[Unmixing, Unmixing]]


def part_moments(
    g: RunMoments, h: RunMoments, p: int, folds: AuditFolds, shuffled: np.ndarray | None = None
) -> Moments:
    """The moments of one part of the rows; with ``shuffled`` the rows of ``h`` in that order."""
    a = g.rows[folds.part(p)].astype(np.float64) - g.means[p]
    b = h.rows[folds.part(p)].astype(np.float64) - h.means[p]
    cross = a.T @ (b if shuffled is None else b[shuffled]) / len(a)
    return Moments(len(a), g.means[p], h.means[p], g.covariances[p], h.covariances[p], cross)


def _unmixings(g: RunMoments, h: RunMoments, k: int) -> Unmixings:
    if not g.unmixings or not h.unmixings:
        return {}
    (first, _), (same, other) = g.unmixings[k], h.unmixings[k]
    return {ICA: (first, other)} | ({} if other is same else {SAME_ROWS: (first, same)})


def _measure(fitted: Sequence[Moments], measured: Rows, unmixings: Unmixings, *, held_out: bool) -> Measured:
    """Maps fitted on the moments of some parts, measured on other rows."""
    m, (g, h) = merged(fitted), measured
    maps = {PERMUTATION: permutation_map(m), RIGID: similarity_map(m), AFFINE: careful_map(fitted, held_out=held_out)}
    maps |= {kind: component_map(m, *both) for kind, both in unmixings.items()}
    centre = m.mean_g.astype(g.dtype)
    return {"": np.linalg.norm(g - centre, axis=1), **{kind: distances(T, g, h) for kind, T in maps.items()}}


def _by_chance(g: RunMoments, h: RunMoments, folds: AuditFolds, s: int, seed: int) -> tuple[Measured, Measured]:
    """One fold with the rows of one side shuffled within each part."""
    k = s % len(folds)
    orders = {
        p: seeds.numpy_generator(seed, "chance of a pair", s, p).permutation(len(g.rows[folds.part(p)]))
        for p in {*folds.fitted(k), k}
    }
    fitted = [part_moments(g, h, p, folds, orders[p]) for p in folds.fitted(k)]
    a, b = g.rows[folds.part(k)][:MOST_BY_CHANCE], h.rows[folds.part(k)][orders[k][:MOST_BY_CHANCE]]
    there = _measure(fitted, (a, b), _unmixings(g, h, k), held_out=folds.held_out)
    return there, _measure([m.flipped for m in fitted], (b, a), _unmixings(h, g, k), held_out=folds.held_out)


def _axes(g: RunMoments, h: RunMoments, folds: AuditFolds, parts: Sequence[Moments]) -> tuple[np.ndarray, ...]:
    """How strongly each component of the target correlates with its partner on measured rows, fold by fold."""
    correlations = []
    for k in range(len(folds) if g.unmixings and h.unmixings else 0):
        (a, _), (_, b) = g.unmixings[k], h.unmixings[k]
        match = component_match(merged([parts[p] for p in folds.fitted(k)]), a, b)
        partner = match.T @ b.matrix  # the row of h's unmixing that belongs to each component of g
        m = parts[k]
        both = ((a.matrix @ m.gh) * partner).sum(axis=1)
        power = ((a.matrix @ m.gg) * a.matrix).sum(axis=1) * ((partner @ m.hh) * partner).sum(axis=1)
        correlations.append(np.abs(both) / np.sqrt(np.where(power > 0, power, 1)))
    return tuple(correlations)


def _pair(
    g: RunMoments,
    h: RunMoments,
    folds: Sequence[Measured],
    chance: Sequence[Measured],
    correlations: tuple[np.ndarray, ...],
) -> PairComparison:
    size = g.diameter
    total = sum(float((fold[""] ** 2).sum()) for fold in folds)
    known = [kind for kind in KINDS if kind in folds[0]]
    absent = {kind: nan for kind in (ICA,) if kind not in known}
    return PairComparison(
        g.name,
        h.name,
        size,
        {kind: tuple(float(fold[kind].mean()) / size for fold in folds) for kind in known}
        | {kind: (nan,) * len(folds) for kind in absent},
        {kind: max(float(fold[kind].max()) for fold in folds) / size for kind in known} | absent,
        {kind: float(np.mean([c[kind].mean() for c in chance])) / size for kind in known} | absent,
        {kind: 1 - sum(float((f[kind] ** 2).sum()) for f in folds) / total for kind in known} | absent,
        correlations,
    )


def alignment_errors(
    g: Any,
    h: Any,
    *,
    groups: Any = None,
    held_out: bool = True,
    folds: int = 5,
    shuffles: int = 3,
    ica: bool = True,
    restarts: int = 2,
    seed: int = 0,
) -> PairComparison:
    """Alignment errors of representations ``h`` mapped onto ``g``, tables of the same rows, up to each group.

    Parameters
    ----------
    g, h : array of shape (n_samples, n_latents)
        Target and source.
    groups, held_out, folds, shuffles, ica, restarts
        As in ``audit``.
    seed : int
        Seed of everything random.

    Returns
    -------
    PairComparison

    Examples
    --------
    >>> z = np.random.default_rng(0).laplace(size=(500, 2))
    >>> pair = alignment_errors(z, z @ np.array([[0.6, 0.8], [-0.8, 0.6]]))
    >>> pair.group, round(pair.errors["rigid+scale"], 6)
    ('rigid+scale', 0.0)
    """
    both = tables_of([g, h])
    split, _ = folds_of(len(both.tables[0]), folds=folds, groups=groups, held_out=held_out, seed=seed)
    sides, _ = sides_of(both.names, both.tables, split, ica=ica, restarts=restarts, seed=seed)
    return compare(sides[0], sides[1], split, shuffles=checks.count(shuffles, "shuffles"), seed=seed)[0]


def sides_of(
    names: Sequence[str],
    tables: Sequence[np.ndarray],
    folds: AuditFolds,
    *,
    ica: bool,
    restarts: int,
    seed: int,
    progress: Callable[[str], None] | None = None,
) -> tuple[list[RunMoments], tuple[str, ...]]:
    """Every run with its diameter and its ICA, and notes on them."""
    restarts = checks.count(restarts, "restarts", minimum=2)
    fitted = min(sum(len(folds.order[folds.part(p)]) for p in folds.fitted(k)) for k in range(len(folds)))
    widest = max(table.shape[1] for table in tables)
    checks.require(
        folds.held_out or fitted > widest + 1,
        f"In-sample errors must come from more than {widest + 1} rows, as an affine map of {widest} columns fits fewer "
        "exactly; held-out errors need none of it.",
        f"{fitted}",
    )
    sides, notes = [], []
    for name, table in zip(names, tables, strict=True):
        if progress is not None:
            progress(name)
        side = side_of(name, table, folds, size=largest_distance(table))
        unmixings = unmixings_of(side, folds, restarts=restarts, seed=seed) if ica else ()
        sides.append(RunMoments(name, side.rows, side.diameter, side.means, side.covariances, unmixings))
        if ica and not unmixings:
            need = f"10 rows per column, here {10 * table.shape[1]} in each half of the fitted rows"
            notes.append(f"{name}: ICA is not judged, as it needs {need}.")
    if folds.held_out and overfits(fitted, widest):
        notes.append(f"Affine maps are regularised by a ridge: {fitted} fitted rows for {widest} columns.")
    return sides, tuple(notes)
