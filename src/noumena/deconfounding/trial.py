"""One fold under every condition, as rows of plain values."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from noumena import seeds
from noumena.deconfounding.boosting import Trees, auroc, boosted, linear, within_batches
from noumena.deconfounding.carriers import beyond_chance
from noumena.deconfounding.conditions import rotation, unmixed, whitening
from noumena.deconfounding.design import Design, Fold, LabelContrast
from noumena.metrics.importance import concentration, hoyer

Row = dict[str, Any]


@dataclass(frozen=True)
class TrialSettings:
    """Settings of every fold; ``remove`` is the share of batch beyond which a component is left out, if any."""

    conditions: tuple[str, ...]
    rotations: int
    n_components: int | float | str | None
    standardise: bool
    transductive: bool
    remove: float | None
    top: tuple[int, ...]
    boosting: Mapping[str, Any]
    seed: int


@dataclass(frozen=True)
class Trial:
    """The rows of one fold, one per condition and repeat, and how its components were found."""

    rows: list[Row]
    components: int
    reason: str
    constant: int
    converged: bool


def trial(x: np.ndarray, design: Design, fold: Fold, plan: TrialSettings) -> Trial:
    """Fit the views on the training batches, train on them, and score the held-out ones."""
    trained = np.isin(design.batch, fold.train)
    fitted = np.arange(len(x)) if plan.transductive else np.flatnonzero(trained)
    white = whitening(x[fitted], n_components=plan.n_components, standardise=plan.standardise)
    views = Views(x[:, white.kept], white(x), fitted, fold.index, plan)
    rows = []
    for condition in plan.conditions:
        for repeat, view in views.of(condition):
            seed = int(seeds.numpy_generator(plan.seed, "trees", fold.index, repeat).integers(seeds.LARGEST))
            row = _scored(view, design, fold, plan, seed=seed, closer=repeat == 0, condition=condition)
            if plan.remove is not None:
                row |= _without_batch(view, design, fold, plan, seed=seed, before=row["auroc"])
            rows.append({"fold": fold.index, "condition": condition, "repeat": repeat, **row})
    return Trial(rows, white.matrix.shape[1], white.reason, x.shape[1] - len(white.kept), views.converged)


class Views:
    """The table under every condition, and as often as it is to be repeated; only random rotations differ."""

    def __init__(self, base: np.ndarray, white: np.ndarray, fitted: np.ndarray, fold: int, plan: TrialSettings):
        self.base, self.white, self.fitted, self.fold, self.plan = base, white, fitted, fold, plan
        self.converged = True

    def of(self, condition: str) -> Iterator[tuple[int, np.ndarray]]:
        """Every repeat's number and table (rows, features)."""
        once = {"base": self.base, "pca": self.white}.get(condition)
        if condition == "ica":
            once, self.converged = unmixed(self.white, self.fitted, self.plan.seed)
        for repeat in range(self.plan.rotations):
            if once is not None:
                yield repeat, once
            else:
                yield repeat, self.white @ rotation(self.white.shape[1], self.plan.seed, self.fold, repeat)


def _scored(
    view: np.ndarray, design: Design, fold: Fold, plan: TrialSettings, *, seed: int, closer: bool, condition: str = ""
) -> Row:
    """Scores averaged over the contrasts that can be trained and scored; ``closer`` adds what is computed once."""
    rows = []
    for contrast in design.contrasts:
        split = _Split.of(contrast, design, fold)
        if split is None:
            continue
        trees = split.boosted(view, plan.boosting, seed)
        row = split.scores(trees.scores) | _use(trees)
        if closer and trees.splits.any():
            row |= _concentrations(view, split, trees, plan, seed)
        if closer and condition in ("base", "pca"):
            row["linear"] = split.scores(linear(view[split.train], split.y, view[split.test]))["auroc"]
        rows.append(row)
    names = dict.fromkeys(name for row in rows for name in row)
    return {name: _mean([row.get(name) for row in rows]) for name in names} | {"features": view.shape[1]}


@dataclass(frozen=True)
class _Split:
    """Training and held-out rows of one contrast, with their classes."""

    train: np.ndarray
    test: np.ndarray
    y: np.ndarray
    y_test: np.ndarray
    batch_test: np.ndarray

    @staticmethod
    def of(contrast: LabelContrast, design: Design, fold: Fold) -> _Split | None:
        """The split of a fold; none when either side lacks a class."""
        known = contrast.target >= 0
        train = np.flatnonzero(known & np.isin(design.batch, fold.train))
        test = np.flatnonzero(known & np.isin(design.batch, fold.test))
        y, y_test = contrast.target[train], contrast.target[test]
        if any(len(np.unique(classes)) < 2 for classes in (y, y_test)):
            return None
        return _Split(train, test, y, y_test, design.batch[test])

    def boosted(self, view: np.ndarray, settings: Mapping[str, Any], seed: int) -> Trees:
        return boosted(view[self.train], self.y, view[self.test], settings=settings, seed=seed)

    def scores(self, scores: np.ndarray) -> Row:
        """AUROC within the held-out batches, and of all of them together."""
        return {
            "auroc": within_batches(self.y_test, scores, self.batch_test),
            "pooled": auroc(self.y_test, scores),
        }


def _use(trees: Trees) -> Row:
    """How many splits there are and how unevenly features are used."""
    total = int(trees.splits.sum())
    many = total > 0 and trees.splits.size > 1
    return {"splits": total, "hoyer": hoyer(trees.splits).score if many else None, "unsplit": float(total == 0)}


def _concentrations(view: np.ndarray, split: _Split, trees: Trees, plan: TrialSettings, seed: int) -> Row:
    """What the most split-on features score alone, trained anew on the training batches, against all others."""
    row: Row = {}
    for k in plan.top:
        if k < view.shape[1]:
            parts = (trees.order[:k], trees.order[k:])
            best, rest = (
                split.scores(split.boosted(view[:, part], plan.boosting, seed).scores)["auroc"] for part in parts
            )
            row[f"top {k}"], row[f"rest {k}"] = best, rest
            row[f"concentration {k}"] = concentration(best, rest).score if rest > 0 else None
    return row


def _without_batch(
    view: np.ndarray, design: Design, fold: Fold, plan: TrialSettings, *, seed: int, before: float | None
) -> Row:
    """The score without the components of which batch explains too much among training rows; no label takes part."""
    rows = np.isin(design.batch, fold.train)
    unrelated = beyond_chance(view[rows].astype(np.float64), design.batch[rows]) <= (plan.remove or 0.0)
    removed = int((~unrelated).sum())
    if removed in (0, len(unrelated)):
        return {"removed": removed, "auroc without": None if removed else before}
    after = _scored(view[:, unrelated], design, fold, plan, seed=seed, closer=False)
    return {"removed": removed, "auroc without": after["auroc"]}


def _mean(values: list[Any]) -> float | None:
    known = [value for value in values if value is not None and value == value]
    return float(np.mean(known)) if known else None
