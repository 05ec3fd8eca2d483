"""Table 5: how the time to unmix grows with the number of latents.

Reference: Xu et al. (2026), Table 5: epochs until stage 2 converges, and seconds per 1000 epochs. Ours: the affine
stage alone, ``SparseComponents`` of an exactly affine code (a mixing of one layer) on one core, whole fits from data to
latents; n = 100 is where the published stage 2 did not converge. **Deviations**: the published code comes from a
trained stage 1 and is affine only nearly.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from noumena.charts import Curve, CurveChart
from noumena.studies import rows as tables
from noumena.studies.claims import StudyClaim
from noumena.studies.rows import Row
from pdgmm import settings

SIZES = (5, 10, 20, 40, 50, 100)
METHODS = ("x", "pca", "ica", "sparse")
WORLDS = tuple(settings.world(n=n, layers=1, mixing="affine") for n in SIZES)
PUBLISHED = {5: (2500, 13.4), 10: (20_000, 20.2), 20: (125_000, 45.6), 40: (300_000, 145.4), 50: (800_000, 219.7)}
"""Epochs of stage 2, and seconds per 1000 of them, by n."""
BUDGET = 4
"""CPU-minutes of all cells."""
TOLERANCE = 1.0
"""Of seconds."""
OTHER = "another algorithm on another machine, from the code of a trained stage 1"
NO_EPOCHS = "ours has no epochs"
LOST = "the published figure is lost"


def cells() -> list[Row]:
    """One cell per size and seed, the largest first."""
    return settings.cells(WORLDS)


def cell(*, seed: int, rows: int = settings.ROWS, **w: Any) -> list[Row]:
    """The affine methods on an affine code."""
    return settings.cell(seed=seed, rows=rows, methods=METHODS, **w)


def published_seconds(n: int) -> float | None:
    """Seconds of the published stage 2.

    >>> published_seconds(10)
    404.0
    """
    return PUBLISHED[n][0] / 1000 * PUBLISHED[n][1] if n in PUBLISHED else None


def growth(sizes: list[int], seconds: list[float]) -> float:
    """The power of n by which times grow: the slope of a line through their logarithms.

    >>> round(growth([1, 10, 100], [2.0, 20.0, 200.0]), 6)
    1.0
    """
    return float(np.polyfit(np.log(sizes), np.log(seconds), 1)[0])


def compare(rows: list[Row]) -> str:
    """MCC of the affine methods, seconds published and ours, their ratio; then both growths."""
    lines, ours = [], {}
    for w in WORLDS:
        n, here = w["n"], settings.of_world(rows, w)
        sparse = tables.matching(here, method="sparse")
        theirs, mine = published_seconds(n), settings.mean(sparse, "seconds")
        ours |= {} if mine is None else {n: mine}
        epochs = f"{PUBLISHED[n][0]}" if n in PUBLISHED else "not converged"
        ratio = "–" if mine is None or theirs is None else f"{theirs / mine:.0f}"
        told = ["–" if theirs is None else f"{theirs:.0f}", tables.spread(sparse, "seconds"), ratio]
        lines.append(
            [str(n), *settings.spreads(here, "mcc", METHODS), tables.spread(sparse, "confidence"), epochs, *told]
        )
    header = ["n", *METHODS, "confidence", "published epochs", "published seconds", "seconds sparse", "ratio"]
    table = tables.text_table(header, lines)
    if len(ours) < 2:
        return table
    theirs = growth(list(PUBLISHED), [published_seconds(n) or 0 for n in PUBLISHED])
    mine = growth(list(ours), list(ours.values()))
    return f"{table}\nSeconds grow as n^{mine:.1f}; the published ones as n^{theirs:.1f}."


def claims(rows: list[Row]) -> list[StudyClaim]:
    """Both printed figures of each n and the seconds they make; then the two of the text, for 50 and 100 latents."""
    found = []
    for w in WORLDS[: len(PUBLISHED)]:
        n, here = w["n"], settings.of_world(rows, w)
        epochs, seconds = PUBLISHED[n]
        told = {"tolerance": TOLERANCE, "better": "lower", "baseline": None}
        where, whole = f"Table 5: n = {n}", published_seconds(n) or 0.0
        sparse = {"method": "sparse", "column": "seconds", "not_comparable": OTHER}
        found += [
            settings.claim(where, "epochs", float(epochs), [], not_comparable=NO_EPOCHS, **told),
            settings.claim(where, "seconds per 1000 epochs", seconds, [], not_comparable=NO_EPOCHS, **told),
            settings.claim(where, "seconds", whole, here, **sparse, **told),
        ]
    return [*found, _lost(rows, 50, "MCC", "mcc"), _lost(rows, 100, "R²", "r2")]


def _lost(rows: list[Row], n: int, metric: str, column: str) -> StudyClaim:
    here = settings.of_world(rows, WORLDS[SIZES.index(n)])
    ours = tables.values(tables.matching(here, method="sparse"), column)
    where, trivial = f"Appendix D.4: n = {n}", settings.trivial(here, column)
    return StudyClaim(where, metric, None, ours, settings.TOLERANCE, baseline=trivial, not_comparable=LOST)


def figures(rows: list[Row]) -> list[CurveChart]:
    """Seconds by n."""
    found = [(float(w["n"]), tables.matching(settings.of_world(rows, w), method="sparse")) for w in WORLDS]
    theirs = tuple((float(n), published_seconds(n) or 0.0, None) for n in PUBLISHED)
    curves = (settings.curve("sparse", found, "seconds"), Curve("published stage 2", theirs, published=True))
    return [CurveChart("Table 5: seconds to unmix", "n", "seconds", curves)]


def tiny() -> list[Row]:
    """Five and ten latents, a few hundred rows."""
    return [{**w, "seed": 0, "rows": settings.TINY["rows"]} for w in WORLDS[:2]]
