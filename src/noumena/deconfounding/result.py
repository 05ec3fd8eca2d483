"""Result: what was scored under every condition, how sure it is, and what may be said about it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from noumena import charts
from noumena.deconfounding.carriers import Carriers
from noumena.deconfounding.design import Design

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
    def told(self) -> bool:
        """Whether the interval leaves out zero."""
        return self.low > 0 or self.high < 0

    def __str__(self) -> str:
        return f"{self.mean:.3f} [{self.low:.3f}, {self.high:.3f}]".replace("-", "−")

    def to_dict(self) -> dict[str, float]:
        """Plain values, for JSON."""
        return {"mean": self.mean, "se": self.se, "low": self.low, "high": self.high}


def estimate(values: Any, *, overlap: float = 0.0) -> Estimate:
    """The mean of one value per fold, with Student's interval; ``overlap`` widens it where folds share training rows.

    The variance of the mean is that of the values times 1/K + ``overlap``, the scored rows per training row (Nadeau and
    Bengio, 2003); the standard error is the plain one.

    >>> str(estimate([0.6, 0.7, 0.8]))
    '0.700 [0.452, 0.948]'
    """
    from scipy.stats import t

    found = np.array([v for v in values if v is not None and np.isfinite(v)], dtype=np.float64)
    if not found.size:
        return Estimate(*(4 * [float("nan")]))
    mean = float(found.mean())
    if found.size == 1:
        return Estimate(mean, float("nan"), float("-inf"), float("inf"))
    deviation = float(found.std(ddof=1))
    half = float(t.ppf(0.975, found.size - 1)) * deviation * float(np.sqrt(1 / found.size + overlap))
    return Estimate(mean, deviation / float(np.sqrt(found.size)), mean - half, mean + half)


@dataclass(frozen=True)
class Score:
    """One condition: AUROC on held-out batches, and how its trees use the features.

    ``spread`` is the standard deviation over repeats, rotations or boosting seeds, of the mean over folds; ``pooled``
    the AUROC of all held-out rows of a fold together; ``linear`` that of a logistic regression; ``without`` the AUROC
    after the components that carry batch are removed, and ``gain`` what that adds.
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
        told = {name: getattr(self, name) for name in ("auroc", "hoyer", "without", "gain")}
        plain = ("condition", "spread", "pooled", "linear", "features", "removed")
        return {
            **{name: getattr(self, name) for name in plain},
            **{name: None if value is None else value.to_dict() for name, value in told.items()},
            "concentration": {str(k): value for k, value in self.concentration.items()},
        }


@dataclass(frozen=True)
class Difference:
    """What one condition adds to the AUROC of another, fold by fold."""

    condition: str
    over: str
    auroc: Estimate

    def __str__(self) -> str:
        told = "told from zero" if self.auroc.told else "not told from zero"
        return f"{self.auroc} over {NAMES[self.over]} ({told})"


@dataclass(frozen=True)
class Deconfounding:
    """Scores of every condition on held-out batches, their differences, the carriers of batch and label, and notes.

    ``rows`` are the values of every fold, condition and repeat; ``held_out`` names the batches of each fold.
    """

    question: str
    design: Design
    held_out: tuple[tuple[str, ...], ...]
    scores: tuple[Score, ...]
    differences: tuple[Difference, ...]
    carriers: tuple[Carriers, ...]
    rows: tuple[dict[str, Any], ...]
    notes: tuple[str, ...]
    settings: dict[str, Any]

    def score(self, condition: str) -> Score:
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

    def _line(self, score: Score) -> str:
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
        return _plain(
            {
                "question": self.question,
                "headline": self.headline,
                "scores": [score.to_dict() for score in self.scores],
                "differences": [
                    {"condition": d.condition, "over": d.over, **d.auroc.to_dict(), "told from zero": d.auroc.told}
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


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _plain(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(part) for part in value]
    return None if isinstance(value, float) and not np.isfinite(value) else value
