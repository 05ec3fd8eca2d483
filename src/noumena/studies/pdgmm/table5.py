"""Table 5: how the time to unmix grows with the number of latents.

Reference: potentially degenerate Gaussian mixtures (paper 001), Table 5: epochs until stage 2 converges, and seconds
per 1000 epochs. Ours: the affine stage alone, ``SparseComponents`` of an exactly affine code (a mixing of one layer) on
one core, whole fits from data to latents; n = 100 is where the published stage 2 did not converge. **Deviations**:
the published code comes from a trained stage 1 and is affine only nearly.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from noumena.studies import rows as tables
from noumena.studies.pdgmm import settings
from noumena.studies.rows import Row

SIZES = (5, 10, 20, 40, 50, 100)
METHODS = ("x", "pca", "ica", "sparse")
WORLDS = tuple(settings.world(n=n, layers=1, mixing="affine") for n in SIZES)
PUBLISHED = {5: (2500, 13.4), 10: (20_000, 20.2), 20: (125_000, 45.6), 40: (300_000, 145.4), 50: (800_000, 219.7)}
"""Epochs of stage 2, and seconds per 1000 of them, by n."""


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


if __name__ == "__main__":
    tables.command("noumena.studies.pdgmm.table5")
