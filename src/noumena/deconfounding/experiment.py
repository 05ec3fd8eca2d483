"""Experiment: does a label generalise to batches never seen, and do the axes of ICA help it to?

References
----------
Nelson et al. (2026), "Statistical and structural identifiability in representation learning", section 4.4 and appendix
A.7.4. The appendix once says that a model is trained on each plate and evaluated on the others, against the main text:
``scheme="one"``.

Deviations: see ``conditions`` and ``boosting``; AUROC is computed within held-out batches and averaged (the paper:
unsaid), as pooled scores also measure batches; batches without both classes are trained on and never scored; every
condition is repeated as often as there are random rotations, with other seeds of the trees; intervals are widened for
folds that share training rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from joblib import Parallel, delayed, parallel_config

from noumena import checks, seeds
from noumena.deconfounding.boosting import settings_of
from noumena.deconfounding.carriers import Carriers, carriers
from noumena.deconfounding.conditions import CONDITIONS, centred, unmixed, whitening
from noumena.deconfounding.design import Design, Fold, design, folds_of
from noumena.deconfounding.result import (
    CEILING,
    NAMES,
    ConditionDifference,
    ConditionScore,
    Deconfounding,
    Estimate,
    estimate,
)
from noumena.deconfounding.trial import Trial, TrialSettings, trial

HALF, CHANCE = 0.5, 0.5
PAIRS = (("ica", "pca"), ("ica", "random"), ("ica", "base"), ("pca", "base"), ("random", "pca"))


def deconfound(
    X: Any, batch: Any, label: Any, *, positive: Any = None, control: Any = None,
    conditions: Sequence[str] = CONDITIONS, rotations: int = 5, folds: int | str = 5, scheme: str = "folds",
    n_components: int | float | str | None = None, standardise: bool = True, transductive: bool = False,
    centre: bool = False, remove_batch: bool | float = False, top: Sequence[int] = (10,),
    boosting: Mapping[str, Any] | None = None, random_state: Any = 0, jobs: int = 1,
) -> Deconfounding:  # fmt: skip
    """AUROC of a label on held-out batches from base features, whitened PCA, PCA + ICA and PCA + random rotations.

    Parameters
    ----------
    X : array or DataFrame of shape (n_samples, n_features)
        The features.
    batch, label : array of shape (n_samples,)
        Batches, such as plates, and labels, such as treatments.
    positive, control : optional
        The label asked about, and that against it (all others by default); without them two labels against each other,
        more
        each against the others, averaged.
    conditions : sequence of {"base", "pca", "ica", "random"}
        What to compare.
    rotations : int
        Random rotations, and repeats of the other conditions.
    folds : int or "each"
        Folds of whole batches, or each batch alone.
    scheme : {"folds", "one"}
        Hold folds out, or train on one batch at a time.
    n_components : int, float or "all", optional
        Number of components or share of the variance; by default 99 %, at most one for five rows.
    standardise : bool
        Standardise features before PCA.
    transductive : bool
        Find components on all rows, held-out ones too.
    centre : bool
        Centre every batch first, held-out ones too, as is customary.
    remove_batch : bool or float
        Also score without the components of which batch explains more than half, or this share, beyond chance.
    top : sequence of int
        Numbers of top features whose concentration is measured.
    boosting : mapping, optional
        Changed settings of the trees.
    random_state : int, Generator or None
        Seed of everything random.
    jobs : int
        Number of processes.

    Returns
    -------
    Deconfounding
    """
    x, dropped = _features(X)
    layout = design(batch, label, rows=len(x), positive=positive, control=control)
    seed = seeds.seed_of(random_state)
    plan = TrialSettings(
        _conditions(conditions), checks.count(rotations, "rotations"), _number(n_components), standardise, transductive,
        _threshold(remove_batch, scheme), tuple(checks.count(k, "top") for k in top), settings_of(boosting), seed,
    )  # fmt: skip
    table = centred(x, layout.batch) if centre else x
    parts = folds_of(layout, folds, scheme=scheme, seed=seed)
    with parallel_config("loky", inner_max_num_threads=1):
        trials: Any = Parallel(n_jobs=checks.count(jobs, "jobs"))(delayed(trial)(table, layout, p, plan) for p in parts)
    overlap = 0.0 if scheme == "one" else float(np.mean([p.overlap(layout) for p in parts]))
    rows = [row for t in trials for row in t.rows]
    scores = tuple(_score(name, rows, plan, overlap) for name in plan.conditions)
    settings = {"scheme": scheme, "folds": len(parts), "centre": centre, "overlap": overlap}
    return Deconfounding(
        _question(layout, positive, control), layout, tuple(_names(layout, p) for p in parts), scores,
        _differences(rows, plan, overlap), _carriers(table, layout, plan), tuple(rows),
        (*layout.notes, *dropped, *_notes(trials, plan, len(x), centre=centre), *_limits(scores)),
        {**settings, **{name: getattr(plan, name) for name in ("rotations", "standardise", "transductive", "remove")},
         "boosting": dict(plan.boosting), "seed": seed},
    )  # fmt: skip


# ---- what was given ------------------------------------------------------------------------------------------------


def _features(X: Any) -> tuple[np.ndarray, list[str]]:
    """A finite table without its constant columns, and a note on these."""
    checks.unmasked(X, "X")
    raw: Any = X.to_numpy() if hasattr(X, "to_numpy") else X
    raw = checks.table(raw, "X") if hasattr(raw, "toarray") else raw  # which says what to do about sparse ones
    raw = raw.detach().cpu().numpy() if hasattr(raw, "detach") else np.asarray(raw)
    if raw.ndim == 2 and raw.dtype.kind == "f":
        bad = np.flatnonzero(~np.isfinite(raw).all(axis=1))
        checks.require(bad.size == 0, "X must be finite in every row.", f"NaN or inf in rows {checks.listed(bad)}")
    x = checks.table(raw, "X", min_rows=4)
    constant = np.flatnonzero(np.ptp(x, axis=0) == 0)
    checks.require(constant.size < x.shape[1], "X must vary in some feature.", "constant features only")
    names = [str(name) for name in X.columns] if hasattr(X, "columns") else [str(k) for k in range(x.shape[1])]
    notes = [f"Constant features are left out: {checks.listed([names[k] for k in constant])}"] if constant.size else []
    return np.delete(x, constant, axis=1), notes


def _conditions(conditions: Sequence[str]) -> tuple[str, ...]:
    names = (conditions,) if isinstance(conditions, str) else tuple(conditions)
    checks.require(len(names) > 0, f"conditions must name some of {', '.join(CONDITIONS)}.", "none")
    chosen = {checks.one_of(name, "Each condition", CONDITIONS) for name in names}
    return tuple(name for name in CONDITIONS if name in chosen)


def _number(n_components: Any) -> int | float | str | None:
    if n_components is None or (isinstance(n_components, str) and n_components == "all"):
        return n_components
    if isinstance(n_components, float | np.floating):
        return checks.number(n_components, "n_components as a share", minimum=1e-6, maximum=1)
    return checks.count(n_components, 'n_components, unless it is "all" or a share,')


def _threshold(remove_batch: bool | float, scheme: str) -> float | None:
    if remove_batch is False:
        return None
    checks.require(scheme != "one", "remove_batch must have several training batches to compare.", "scheme one")
    return HALF if remove_batch is True else checks.number(remove_batch, "remove_batch", minimum=0, maximum=1)


def _names(layout: Design, fold: Fold) -> tuple[str, ...]:
    return tuple(layout.batches[b] for b in fold.test)


def _question(layout: Design, positive: Any, control: Any) -> str:
    rows = f"{int(layout.used.sum())} rows in {len(layout.batches)} batches"
    if len(layout.contrasts) != 1:
        return f"Each of {len(layout.levels)} labels against the others in the mean, {rows}"
    name = layout.contrasts[0].name
    others = [level for level in layout.levels if level != name]
    against = control if control is not None else checks.listed(others, 3)
    return f"{name} against {against}, {rows}"


# ---- what was found ------------------------------------------------------------------------------------------------


def _by_fold(rows: list[dict[str, Any]], condition: str, name: str) -> list[float]:
    """The mean over repeats in every fold; NaN without a score."""
    folds = sorted({row["fold"] for row in rows})
    return [_mean(rows, name, condition=condition, fold=k) for k in folds]


def _mean(rows: list[dict[str, Any]], name: str, **where: Any) -> float:
    chosen = [row.get(name) for row in rows if all(row[key] == value for key, value in where.items())]
    known = [value for value in chosen if value is not None]
    return float(np.mean(known)) if known else float("nan")


def _score(condition: str, rows: list[dict[str, Any]], plan: TrialSettings, overlap: float) -> ConditionScore:
    own = [row for row in rows if row["condition"] == condition]
    repeats = [_mean(own, "auroc", repeat=r) for r in range(plan.rotations)]
    concentrations = {k: _mean(own, f"concentration {k}") for k in plan.top}
    linear = _mean(own, "linear")
    removal: dict[str, Any] = {}
    if plan.remove is not None:
        gains = [{**row, "gain": _gain(row)} for row in own]
        removal = {
            "removed": _mean(own, "removed"),
            "without": _bounded(estimate(_by_fold(rows, condition, "auroc without"), overlap=overlap)),
            "gain": estimate(_by_fold(gains, condition, "gain"), overlap=overlap),
        }
    return ConditionScore(
        condition, _bounded(estimate(_by_fold(rows, condition, "auroc"), overlap=overlap)),
        float(np.std(repeats, ddof=1)) if plan.rotations > 1 else 0.0, _mean(own, "pooled"),
        _bounded(estimate(_by_fold(rows, condition, "hoyer"), overlap=overlap)),
        {k: value for k, value in concentrations.items() if np.isfinite(value)},
        linear if np.isfinite(linear) else None, _mean(own, "features"), **removal,
    )  # fmt: skip


def _gain(row: dict[str, Any]) -> float | None:
    """What removal adds to a fit; nothing is said of one that has no component left to be scored by.

    >>> _gain({"auroc": 0.75, "auroc without": 0.5}), _gain({"auroc": 0.75, "auroc without": None})
    (-0.25, None)
    """
    before, after = row.get("auroc"), row.get("auroc without")
    return None if before is None or after is None else after - before


def _bounded(interval: Estimate) -> Estimate:
    return Estimate(interval.mean, interval.se, float(np.clip(interval.low, 0, 1)), float(np.clip(interval.high, 0, 1)))


def _differences(rows: list[dict[str, Any]], plan: TrialSettings, overlap: float) -> tuple[ConditionDifference, ...]:
    differences = []
    for one, other in PAIRS:
        if one in plan.conditions and other in plan.conditions:
            a, b = (np.array(_by_fold(rows, name, "auroc")) for name in (one, other))
            differences.append(ConditionDifference(one, other, estimate(a - b, overlap=overlap)))
    return tuple(differences)


def _carriers(x: np.ndarray, layout: Design, plan: TrialSettings) -> tuple[Carriers, ...]:
    """Components that vary with batch or label, found on all rows; no score rests on them."""
    if not {"pca", "ica"} & set(plan.conditions):
        return ()
    everything, used = np.arange(len(x)), layout.used
    white = whitening(x, n_components=plan.n_components, standardise=plan.standardise)(x)
    views = {"pca": lambda: white, "ica": lambda: unmixed(white, everything, plan.seed)[0]}
    return tuple(
        carriers(name, view()[used], layout.batch[used], layout.classes[used], seed=plan.seed)
        for name, view in views.items()
        if name in plan.conditions
    )


def _notes(trials: Sequence[Trial], plan: TrialSettings, rows: int, *, centre: bool) -> list[str]:
    """How the components were found, and what failed."""
    numbers, notes = sorted({t.components for t in trials}), []
    if set(plan.conditions) != {"base"}:
        many = f"{numbers[0]} to {numbers[-1]}" if len(numbers) > 1 else f"{numbers[0]}"
        where = "all rows, held-out ones too" if plan.transductive else "training batches alone"
        form = "standardised" if plan.standardise else "unscaled"
        reasons = "; ".join(sorted({t.reason for t in trials}))
        notes.append(f"Components are found without labels on {where}: {many} of {form} features ({reasons})")
    wide = trials[0].rows[0]["features"] if plan.conditions[0] == "base" else 0
    if wide > rows:
        notes.append(f"There are more features ({wide}) than rows ({rows}): PCA can keep no more than the rank")
    dropped = max(t.constant for t in trials)
    if dropped:
        notes.append(f"Up to {dropped} more features are constant on the training rows of a fold and left out there")
    if not all(t.converged for t in trials):
        notes.append(f"ICA did not converge in {sum(not t.converged for t in trials)} of {len(trials)} folds")
    if centre:
        notes.append("Every batch was moved to mean zero, which presumes like shares of labels in all batches")
    sizes = [row["features"] for row in trials[0].rows]
    if max(sizes) > 2 * min(sizes):
        notes.append(f"Sparsity is of {max(sizes)} base features and of {min(sizes)} components: not to be compared")
    return notes + _unsplit([row for t in trials for row in t.rows], plan)


def _unsplit(rows: list[dict[str, Any]], plan: TrialSettings) -> list[str]:
    none = [row for row in rows if row.get("unsplit")]
    notes = []
    if none:
        notes.append(
            f"In {len(none)} of {len(rows)} fits the trees could not split at all, which scores 0.5: with at least "
            f"{plan.boosting['min_data_in_leaf']} rows in a leaf and the least gain, none; boosting= changes both"
        )
    bare = sum(row.get("auroc without") is None for row in rows)
    if plan.remove is not None and bare:
        notes.append(f"In {bare} of {len(rows)} fits every component carries batch and nothing is left to score")
    return notes


def _limits(scores: tuple[ConditionScore, ...]) -> list[str]:
    """Notes on scores at the ceiling or at chance."""
    if all(score.auroc.mean >= CEILING for score in scores):
        return [f"Every condition is at the ceiling (at least {CEILING}): this label cannot tell them apart"]
    above = [score for score in scores if score.auroc.low > CHANCE]
    if not above:
        return ["No condition differs significantly from chance (0.5) on held-out batches"]
    below = [NAMES[score.condition] for score in scores if score not in above]
    return [f"Not significantly different from chance (0.5): {', '.join(below)}"] if below else []
