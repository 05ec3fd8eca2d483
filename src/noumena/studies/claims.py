"""Claims: a published figure, what our rows say about it, and the verdict under a stated tolerance.

A verdict is one of five. *Reproduced*: the difference is at most the tolerance, or at most twice its standard error
where the published spread is known, which stands for ours where we have one value only (a difference that the seeds do
not settle is none). *Better* and *worse*: beyond that, in the sense of the metric; where no side is the better one,
beyond is worse. *Not comparable*, with the reason: other data, another protocol, a figure that is lost. *Not run*:
there are no rows.

Verdicts are committed beside the rows; a claim is broken when it was reproduced or better and is no longer.
"""

from __future__ import annotations

import csv
import io
import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np

from noumena import checks
from noumena.deprecated import moved
from noumena.studies.rows import lines, replaced, text_table

REPRODUCED, BETTER, WORSE, NOT_COMPARABLE, NOT_RUN = "reproduced", "better", "worse", "not comparable", "not run"
VERDICTS = (BETTER, REPRODUCED, WORSE, NOT_COMPARABLE, NOT_RUN)
HELD = (REPRODUCED, BETTER)
"""Verdicts that a later run must not fall behind."""
ERRORS = 2.0
"""Standard errors within which a difference is none."""
ROUNDING = 1e-9


__getattr__ = moved("noumena.studies.claims", {"Claim": "noumena.studies.claims.StudyClaim"})


@dataclass(frozen=True)
class StudyClaim:
    """A figure of a paper beside the values of our rows.

    ``where`` names the table and its row, ``ours`` has one value per seed or world. ``spread`` and ``runs`` are the
    published deviation and the number of seeds behind it. ``baseline`` is the best value of a readout that learns
    nothing (its name and value). ``not_comparable`` says why the two figures are not of the same thing.
    """

    where: str
    metric: str
    published: float | None
    ours: tuple[float, ...]
    tolerance: float
    spread: float | None = None
    runs: int | None = None
    better: Literal["higher", "lower", "neither"] = "higher"
    baseline: tuple[str, float] | None = None
    not_comparable: str | None = None

    @property
    def mean(self) -> float | None:
        """Of our values."""
        return float(np.mean(self.ours)) if self.ours else None

    @property
    def difference(self) -> float | None:
        """Ours less the published figure."""
        return None if self.mean is None or self.published is None else self.mean - self.published

    @property
    def within(self) -> float:
        """The largest difference that counts as none.

        >>> StudyClaim("Table 1", "MCC", 0.8, (0.7, 0.9), tolerance=0.02, spread=0.1, runs=4).within.__round__(3)
        0.224
        """
        if self.spread is None or self.runs is None or not self.ours:
            return self.tolerance
        own = float(np.var(self.ours, ddof=1)) if len(self.ours) > 1 else self.spread**2
        return max(self.tolerance, ERRORS * math.sqrt(self.spread**2 / self.runs + own / len(self.ours)))

    @property
    def verdict(self) -> str:
        """One of ``VERDICTS``.

        >>> [StudyClaim("", "MCC", 0.8, (v,), tolerance=0.02).verdict for v in (0.81, 0.85, 0.7)]
        ['reproduced', 'better', 'worse']
        """
        if self.not_comparable is not None or self.published is None:
            return NOT_COMPARABLE
        difference = self.difference
        if difference is None:
            return NOT_RUN
        if not abs(difference) > self.within + ROUNDING:
            return REPRODUCED if math.isfinite(difference) else WORSE
        ahead = {"higher": difference > 0, "lower": difference < 0, "neither": False}[self.better]
        return BETTER if ahead else WORSE

    @property
    def trivial(self) -> bool:
        """Whether what learns nothing is as good as ours, to within the tolerance."""
        if self.baseline is None or self.mean is None or self.better == "neither":
            return False
        ahead = self.baseline[1] - self.mean if self.better == "higher" else self.mean - self.baseline[1]
        return ahead >= -self.tolerance


HEADER = ("published in", "metric", "ours", "published", "difference", "within", "trivial", "verdict")


def claims_table(claims: Sequence[StudyClaim]) -> str:
    """Every claim on a line; a trivial baseline that is as good as ours is marked ``=``."""
    return text_table(HEADER, [list(line(claim).values()) for claim in claims])


def line(claim: StudyClaim) -> dict[str, str]:
    """A claim in words, by column.

    >>> line(StudyClaim("Table 3: d = 3", "MCC", 0.8, (0.83, 0.85), 0.02, baseline=("x", 0.84)))["verdict"]
    'better'
    """
    deviation = f" ± {np.std(claim.ours, ddof=1):.3f}" if len(claim.ours) > 1 else ""
    ours = "–" if claim.mean is None else f"{claim.mean:.3f}{deviation} ({len(claim.ours)})"
    spread = "" if claim.spread is None else f" ± {claim.spread:.3f}"
    published = "–" if claim.published is None else f"{claim.published:.3f}{spread}"
    comparable = claim.verdict != NOT_COMPARABLE and claim.difference is not None
    mark = "= " if claim.trivial else ""
    why = claim.not_comparable or "no figure is published"
    return {
        HEADER[0]: claim.where,
        HEADER[1]: claim.metric,
        HEADER[2]: ours,
        HEADER[3]: published,
        HEADER[4]: f"{claim.difference:+.3f}" if comparable else "–",
        HEADER[5]: f"{claim.within:.3f}" if comparable else "–",
        HEADER[6]: "–" if claim.baseline is None else f"{mark}{claim.baseline[0]} {claim.baseline[1]:.3f}",
        HEADER[7]: f"{claim.verdict}: {why}" if claim.verdict == NOT_COMPARABLE else claim.verdict,
    }


def counted(claims: Iterable[StudyClaim]) -> dict[str, int]:
    """How many claims have each verdict."""
    found = Counter(claim.verdict for claim in claims)
    return {verdict: found[verdict] for verdict in VERDICTS}


# ---- the gate ------------------------------------------------------------------------------------------------------


def commit(claims: Sequence[StudyClaim], path: str | Path) -> None:
    """Write the verdicts, to be held from now on."""
    names = [(claim.where, claim.metric) for claim in claims]
    assert len(set(names)) == len(names), "two claims of a study have the same name"
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(("published in", "metric", "verdict"))
    writer.writerows((claim.where, claim.metric, claim.verdict) for claim in claims)
    replaced(Path(path), text.getvalue())


def committed(path: str | Path) -> dict[tuple[str, str], str]:
    """The verdicts that were committed; none where there is no file."""
    found = lines(path)
    whole = all(len(one) == 3 for one in found) and all(one[2] in VERDICTS for one in found[1:])
    must = "A file of verdicts must have a table's row, a metric and a verdict on each line."
    checks.require(whole, must, Path(path).name)
    return {(where, metric): verdict for where, metric, verdict in found[1:]}


def broken(claims: Iterable[StudyClaim], held: dict[tuple[str, str], str]) -> list[str]:
    """A sentence for every committed claim that was reproduced or better and is no longer.

    >>> broken([StudyClaim("Table 3", "MCC", 0.8, (0.5,), 0.02)], {("Table 3", "MCC"): "reproduced"})
    ['Table 3, MCC: was reproduced, is worse.']
    """
    now = {(claim.where, claim.metric): claim.verdict for claim in claims}
    return [
        f"{where}, {metric}: was {before}, is {now.get((where, metric), 'gone')}."
        for (where, metric), before in held.items()
        if before in HELD and now.get((where, metric)) not in HELD
    ]
