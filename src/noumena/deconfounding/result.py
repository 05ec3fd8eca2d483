"""Result of deconfounding: scores of every condition with intervals, their differences, and notes."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from noumena import charts
from noumena.deconfounding.carriers import Carriers
from noumena.deconfounding.design import Design
from noumena.metrics.record import plain

if TYPE_CHECKING:
    from matplotlib.axes import Axes

NAMES = {"base": "the base features", "pca": "PCA", "ica": "ICA", "random": "random rotations"}
CEILING = 0.99


@dataclass(frozen=True)
class Estimate:
    """A mean over folds, its standard error, and a 95 % interval."""

    mean: float
    se: float
    low: float
    high: float

    @property
    def significant(self) -> bool:
        """Whether the interval excludes zero."""
        return self.low > 0 or self.high < 0

    def __str__(self) -> str:
        return f"{self.mean:.3f} [{self.low:.3f}, {self.high:.3f}]".replace("-", "−")

    def to_dict(self) -> dict[str, float]:
        """Plain values, for JSON."""
        return asdict(self)


def estimate(values: Any, *, overlap: float = 0.0) -> Estimate:
    """The mean of one value per fold, with Student's interval; ``overlap`` widens it where folds share training rows.

    The variance of the mean is that of the values times 1/K + ``overlap``, the scored rows per training row (Nadeau and
    Bengio, 2003); the standard error is the plain one.

    >>> str(estimate([0.6, 0.7, 0.8]))
    '0.700 [0.452, 0.948]'
    """
    from scipy.stats import t

    finite = np.array([v for v in values if v is not None and np.isfinite(v)], dtype=np.float64)
    if not finite.size:
        return Estimate(*(4 * [float("nan")]))
    mean = float(finite.mean())
    if finite.size == 1:
        return Estimate(mean, float("nan"), float("-inf"), float("inf"))
    deviation = float(finite.std(ddof=1))
    half = float(t.ppf(0.975, finite.size - 1)) * deviation * float(np.sqrt(1 / finite.size + overlap))
    return Estimate(mean, deviation / float(np.sqrt(finite.size)), mean - half, mean + half)


@dataclass(frozen=True)
class ConditionScore:
    """One condition: AUROC on held-out batches, and how its trees use the features.

    Attributes
    ----------
    condition : str
        The condition.
    auroc : Estimate
        AUROC within held-out batches.
    spread : float
        Standard deviation over repeats (rotations, or boosting seeds) of the mean over folds.
    pooled, linear : float
        AUROC of all held-out rows of a fold together, and of a logistic regression.
    hoyer, concentration, features
        Sparsity of the importances, their concentration in the top features, and the number of features.
    removed, without, gain
        Components that carry batch and were removed, the AUROC without them, and the difference.
    """

    condition: str
    auroc: Estimate
    spread: float
    pooled: float
    hoyer: Estimate
    concentration: dict[int, float]
    linear: float | None
    features: float
    removed: float | None = None
    without: Estimate | None = None
    gain: Estimate | None = None

    @property
    def level(self) -> charts.LevelRow:
        """The AUROC as a line of a chart, with its interval and its spread over repeats."""
        known = bool(np.isfinite(self.auroc.mean))
        return charts.LevelRow(
            self.condition,
            self.auroc.mean,
            interval=(self.auroc.low, self.auroc.high),
            repeats=self.spread,
            note=None if known else "not scored",
            sentence=f"{self.condition}: {self.auroc}",
        )

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        estimates = {name: getattr(self, name) for name in ("auroc", "hoyer", "without", "gain")}
        plain = ("condition", "spread", "pooled", "linear", "features", "removed")
        return {
            **{name: getattr(self, name) for name in plain},
            **{name: None if value is None else value.to_dict() for name, value in estimates.items()},
            "concentration": {str(k): value for k, value in self.concentration.items()},
        }


@dataclass(frozen=True)
class ConditionDifference:
    """What one condition adds to the AUROC of another, fold by fold."""

    condition: str
    over: str
    auroc: Estimate

    def __str__(self) -> str:
        conclusion = "significant" if self.auroc.significant else "not significant"
        return f"{self.auroc} over {NAMES[self.over]} ({conclusion})"


@dataclass(frozen=True)
class Deconfounding:
    """Result of ``deconfound``.

    Attributes
    ----------
    question : str
        The label asked about.
    design : Design
        Labels and batches.
    held_out : tuple of tuple of str
        Batches held out in each fold.
    scores : tuple of ConditionScore
        AUROC of every condition on held-out batches.
    differences : tuple of ConditionDifference
        What one condition adds to another.
    carriers : tuple of Carriers
        Components that vary with batch or label.
    rows : tuple of dict
        Values of every fold, condition and repeat.
    notes, settings
        What to know about the result, and how it was computed.
    """

    question: str
    design: Design
    held_out: tuple[tuple[str, ...], ...]
    scores: tuple[ConditionScore, ...]
    differences: tuple[ConditionDifference, ...]
    carriers: tuple[Carriers, ...]
    rows: tuple[dict[str, Any], ...]
    notes: tuple[str, ...]
    settings: dict[str, Any]

    def score(self, condition: str) -> ConditionScore:
        """The score of one condition."""
        return next(score for score in self.scores if score.condition == condition)

    def plot(self, ax: Axes | None = None) -> Axes:
        """Every condition's AUROC with its interval, beside chance, on ``ax`` or a new figure; returns the axes."""
        return charts.levels([score.level for score in self.scores], x_label="AUROC", chance=0.5, ax=ax)

    @property
    def headline(self) -> str:
        """The honest sentence on what ICA adds."""
        added = [d for d in self.differences if d.condition == "ica" and d.over in ("pca", "random")]
        if not added:
            best = max(self.scores, key=lambda s: s.auroc.mean)
            return f"The highest AUROC on held-out batches is {best.auroc}, of {NAMES[best.condition]}."
        return f"ICA adds an AUROC of {' and '.join(map(str, added))}."

    def __str__(self) -> str:
        lines = [f"{self.question}, {len(self.held_out)} folds of whole batches held out.", self.headline]
        lines += [self._line(score) for score in self.scores]
        lines += [f"{c}." for c in self.carriers]
        return "\n".join([*lines, *(f"{note}." for note in self.notes)])

    def _line(self, score: ConditionScore) -> str:
        parts = [f"{score.condition:<7}AUROC {score.auroc}", f"Hoyer {score.hoyer.mean:.3f}"]
        parts += [f"concentration in the top {k} {value:+.3f}" for k, value in score.concentration.items()]
        if score.linear is not None:
            parts.append(f"logistic {score.linear:.3f}")
        if score.gain is not None and score.removed is not None:
            parts.append(f"without {score.removed:.1f} batch components {score.without}, a gain of {score.gain}")
        return ", ".join(parts).replace("-", "−")

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON; what is not a number is null."""
        counts = self.design.counts
        return plain(
            {
                "question": self.question,
                "headline": self.headline,
                "scores": [score.to_dict() for score in self.scores],
                "differences": [
                    {"condition": d.condition, "over": d.over, **d.auroc.to_dict(), "significant": d.auroc.significant}
                    for d in self.differences
                ],
                "carriers": [c.to_dict() for c in self.carriers],
                "design": {
                    level: dict(zip(self.design.batches, counts[k].tolist(), strict=True))
                    for k, level in enumerate(self.design.levels)
                },
                "held out": [list(names) for names in self.held_out],
                "notes": list(self.notes),
                "settings": self.settings,
                "rows": list(self.rows),
            }
        )
