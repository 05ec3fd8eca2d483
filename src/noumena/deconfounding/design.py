"""Design: which labels occur in which batches, whether their effects can be separated, and folds of whole batches.

Labels and batches are the two sides of a bipartite graph, a pair joined where rows hold both. Labels in different
connected components are only ever compared across batches, so that a difference between them may be one between
batches: such designs are refused by name.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Int

from noumena import checks, seeds

LEAST = 2
"""Rows of both classes that a batch must hold to be scored."""
CONFOUNDED = 0.2
"""Cramér's V from which a crossed design is noted as partly confounded."""


@dataclass(frozen=True)
class LabelContrast:
    """One question: ``target`` (rows,) is 1 for the rows of ``name``, 0 for those against it, −1 for the others."""

    name: str
    target: np.ndarray


@dataclass(frozen=True)
class Design:
    """Batches and labels as codes with names, the contrasts, and the batches that can be scored."""

    batch: np.ndarray
    batches: tuple[str, ...]
    label: np.ndarray
    levels: tuple[str, ...]
    contrasts: tuple[LabelContrast, ...]
    scorable: tuple[int, ...]
    notes: tuple[str, ...]

    @property
    def counts(self) -> np.ndarray:
        """Rows of every (label, batch)."""
        known = self.label >= 0
        return crossed(self.label[known], self.batch[known], (len(self.levels), len(self.batches)))

    @property
    def used(self) -> np.ndarray:
        """The rows that take part in a contrast."""
        return np.any([contrast.target >= 0 for contrast in self.contrasts], axis=0)

    @property
    def classes(self) -> np.ndarray:
        """The class of every row: of the one contrast, or the label where there are several."""
        return self.contrasts[0].target if len(self.contrasts) == 1 else self.label


def crossed(
    rows: Int[np.ndarray, " row"], columns: Int[np.ndarray, " row"], shape: tuple[int, int]
) -> Int[np.ndarray, "label batch"]:
    """How often every pair of codes occurs.

    >>> crossed(np.array([0, 0, 1]), np.array([0, 1, 1]), (2, 2)).tolist()
    [[1, 1], [0, 1]]
    """
    counts = np.zeros(shape, dtype=int)
    np.add.at(counts, (rows, columns), 1)
    return counts


def association(counts: Int[np.ndarray, "label batch"]) -> float:
    """Cramér's V of a contingency table: 0 for equal shares in every batch, 1 when one determines the other.

    >>> association(np.array([[3, 6], [2, 4]])), association(np.array([[5, 0], [0, 5]]))
    (0.0, 1.0)
    """
    from scipy.stats.contingency import association as scipy_association

    occurring = counts[counts.sum(axis=1) > 0][:, counts.sum(axis=0) > 0]
    return float(scipy_association(occurring, method="cramer")) if min(occurring.shape) > 1 else 0.0


def parts(counts: Int[np.ndarray, "label batch"]) -> list[tuple[list[int], list[int]]]:
    """The labels and batches of every connected part of the graph of a table.

    >>> parts(np.array([[2, 0, 0], [1, 1, 0], [0, 0, 4]]))
    [([0, 1], [0, 1]), ([2], [2])]
    """
    from scipy.sparse.csgraph import connected_components

    levels, batches = counts.shape
    graph = np.zeros((levels + batches, levels + batches))
    graph[:levels, levels:] = counts > 0
    number, part = connected_components(graph, directed=False)
    components = [
        (np.flatnonzero(part[:levels] == k).tolist(), np.flatnonzero(part[levels:] == k).tolist())
        for k in range(number)
    ]
    return [(of, within) for of, within in components if of and within]


def design(batch: Any, label: Any, *, rows: int, positive: Any = None, control: Any = None) -> Design:
    """The design of two columns of ``rows`` entries; refused in a sentence where it cannot answer.

    ``positive`` asks about one label against ``control``, or against all others; without it two labels are asked about
    once, the later one in order being positive, and more than two each against the others.
    """
    batch, batches, gone = coded(batch, "batch", rows)
    checks.require(gone.size == 0, "Every row must have a batch.", f"none in rows {checks.listed(gone)}")
    checks.require(len(batches) > 1, "There must be at least two batches, to hold some out.", f"only {batches[0]}")
    label, levels, gone = coded(label, "label", rows)
    checks.require(len(levels) > 1, "label must have at least two levels.", f"{', '.join(levels) or 'none'}")
    notes = [f"{_unlabelled(gone, batch, batches)}; they only help to find the components"] if gone.size else []
    contrasts = _contrasts(label, levels, positive, control)
    classes = contrasts[0].target if len(contrasts) == 1 else label
    names = _class_names(contrasts[0], levels) if len(contrasts) == 1 else levels
    counts = crossed(classes[classes >= 0], batch[classes >= 0], (len(names), len(batches)))
    _refuse_confounded(counts, names, batches)
    scorable = _scorable(contrasts, batch, batches)
    notes += _partial(counts, names, batches, scorable)
    return Design(batch, batches, label, levels, contrasts, scorable, tuple(notes))


def coded(values: Any, name: str, rows: int) -> tuple[np.ndarray, tuple[str, ...], np.ndarray]:
    """Codes (rows,) of a column, −1 where it is missing; the names of the codes in order; the missing rows."""
    checks.unmasked(values, name)
    column = np.asarray(values, dtype=object)
    shapes = f"shapes {column.shape} and ({rows}, …)"
    checks.require(column.shape == (rows,), f"{name} must be a column with one entry for every row of X.", shapes)
    missing = np.array([_is_missing(value) for value in column], dtype=bool)
    texts = np.array(["" if gone else str(value) for value, gone in zip(column, missing, strict=True)])
    names = np.unique(texts[~missing])
    codes = np.where(missing, -1, np.searchsorted(names, texts)).astype(int)
    return codes, tuple(str(n) for n in names), np.flatnonzero(missing)


def _is_missing(value: Any) -> bool:
    return value is None or str(value) in ("", "nan", "NaT", "<NA>")


def _unlabelled(gone: np.ndarray, batch: np.ndarray, batches: tuple[str, ...]) -> str:
    where, counts = np.unique(batch[gone], return_counts=True)
    shown = checks.listed([f"{batches[b]} ({n})" for b, n in zip(where, counts, strict=True)])
    return f"{gone.size} rows have no label, in batches {shown}"


def _contrasts(label: np.ndarray, levels: tuple[str, ...], positive: Any, control: Any) -> tuple[LabelContrast, ...]:
    known = label >= 0
    for name, value in (("positive", positive), ("control", control)):
        there = value is None or str(value) in levels
        checks.require(there, f"{name} must be a level of label: {checks.listed(levels, 12)}.", f"{value}")
    checks.require(control is None or positive is not None, "control must stand against a positive level.", "none")
    same = positive is not None and str(positive) == str(control)
    checks.require(not same, "positive and control must differ.", f"{positive} twice")
    if positive is None and len(levels) > 2:
        return tuple(LabelContrast(name, np.where(known, label == k, -1)) for k, name in enumerate(levels))
    chosen = levels.index(str(positive)) if positive is not None else 1
    against = known if control is None else np.isin(label, (chosen, levels.index(str(control))))
    return (LabelContrast(levels[chosen], np.where(against, label == chosen, -1)),)


def _class_names(contrast: LabelContrast, levels: tuple[str, ...]) -> tuple[str, str]:
    others = [level for level in levels if level != contrast.name]
    return others[0] if len(others) == 1 else f"other than {contrast.name}", contrast.name


def _refuse_confounded(counts: np.ndarray, names: tuple[str, ...], batches: tuple[str, ...]) -> None:
    separate = parts(counts)
    shown = "; ".join(
        f"{checks.listed([names[k] for k in of])} only in {checks.listed([batches[b] for b in within])}"
        for of, within in separate
    )
    must = "label and batch must not be confounded: all labels must be connected through batches they share."
    checks.require(len(separate) == 1, must, shown)


def _scorable(contrasts: tuple[LabelContrast, ...], batch: np.ndarray, batches: tuple[str, ...]) -> tuple[int, ...]:
    """Batches that hold enough rows of both classes of some contrast; every contrast must have two of them."""
    scorable: set[int] = set()
    for contrast in contrasts:
        known = contrast.target >= 0
        counts = crossed(contrast.target[known], batch[known], (2, len(batches)))
        own = np.flatnonzero((counts >= LEAST).all(axis=0))
        must = f"At least two batches must each hold {LEAST} rows of {contrast.name} and {LEAST} of the others."
        checks.require(own.size > 1, must, f"{own.size}" + (f", {batches[own[0]]}" if own.size else ""))
        scorable |= set(own.tolist())
    return tuple(sorted(scorable))


def _partial(
    counts: np.ndarray, names: tuple[str, ...], batches: tuple[str, ...], scorable: tuple[int, ...]
) -> list[str]:
    """Notes on partial confounding."""
    notes = []
    for k, name in enumerate(names):
        there = np.flatnonzero(counts[k])
        if len(there) < np.count_nonzero(counts.sum(axis=0)):
            notes.append(f"Label {name} occurs only in batches {checks.listed([batches[b] for b in there])}")
    only = [batches[b] for b in range(len(batches)) if b not in scorable]
    if only:
        notes.append(f"Batches {checks.listed(only)} hold fewer than {LEAST} rows of a class: trained on, never scored")
    share = association(counts)
    if share > CONFOUNDED:
        notes.append(f"Label and batch are partly confounded (Cramér's V {share:.2f})")
    return notes


# ---- folds ---------------------------------------------------------------------------------------------------------


SCHEMES = ("folds", "one")


@dataclass(frozen=True)
class Fold:
    """Codes of the batches to train on and of those to score."""

    index: int
    train: tuple[int, ...]
    test: tuple[int, ...]

    def overlap(self, design: Design) -> float:
        """Scored rows per training row, by which the spread over folds that share training rows is too small."""
        rows = np.bincount(design.batch[design.used], minlength=len(design.batches))
        return float(rows[list(self.test)].sum() / rows[list(self.train)].sum())


def folds_of(design: Design, folds: int | str = 5, *, scheme: str = "folds", seed: int = 0) -> tuple[Fold, ...]:
    """Batches in ``folds`` parts with about equally many positive rows, or each alone; one part is held out at a time.

    With fewer batches than folds each is held out alone. The scheme ``one`` trains on one batch and scores the others.
    """
    checks.one_of(scheme, "scheme", SCHEMES)
    scorable = list(design.scorable)
    if scheme == "one":
        return tuple(Fold(k, (b,), tuple(c for c in scorable if c != b)) for k, b in enumerate(scorable))
    if isinstance(folds, str):
        checks.one_of(folds, "folds", ("each",))
        number = len(scorable)
    else:
        number = min(checks.count(folds, "folds", minimum=2), len(scorable))
    held = _stratified(design, number, seed)
    everything = range(len(design.batches))
    return tuple(Fold(k, tuple(b for b in everything if b not in part), tuple(part)) for k, part in enumerate(held))


def _stratified(design: Design, number: int, seed: int) -> list[list[int]]:
    """Batches dealt out from the one with most positive rows, each to a part with fewest batches, then positives."""
    asked = design.contrasts[0].target == 1 if len(design.contrasts) == 1 else design.used
    weight = np.bincount(design.batch[asked], minlength=len(design.batches))
    shuffled = seeds.numpy_generator(seed, "folds").permutation(np.array(design.scorable))
    parts: list[list[int]] = [[] for _ in range(number)]
    for b in sorted(shuffled.tolist(), key=lambda b: -weight[b]):
        chosen = min(range(number), key=lambda k: (len(parts[k]), sum(weight[c] for c in parts[k]), k))
        parts[chosen].append(b)
    return [sorted(part) for part in parts]
