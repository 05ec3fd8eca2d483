"""Table 10: more dimensions than latents.

Reference: Xu et al. (2026), Appendix D.8, base row. There a network is given n+2 to n+10 latents for n observations. An
affine map of n columns has no more than n independent outputs, so here it is the *observations* that have dimensions to
spare: ``x`` in n+2 to n+10 columns, by a random isometry, with noise of 1 % of their spread, and no method is told n.
``rank`` is the number of latents that ``SparseComponents`` finds. **Deviations**: as said; the published question,
latents to spare without columns to spare, is not this one.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from noumena import seeds
from noumena.charts import CurveChart
from noumena.studies import rows as tables
from noumena.studies.claims import StudyClaim
from noumena.studies.rows import Row
from noumena.worlds import MixtureWorld, Sample, degenerate
from pdgmm import settings

EXTRA = (2, 4, 6, 8, 10)
NOISE = 0.01
"""Deviation of the noise, relative to the mean spread of the observations."""
PUBLISHED = {2: (0.91, 0.96), 4: (0.89, 0.96), 6: (0.88, 0.93), 8: (0.88, 0.96), 10: (0.83, 0.96)}
"""R² and MCC by the number of latents to spare."""
BUDGET = 18
"""CPU-minutes of all cells, from those that have run."""
TOLERANCE = settings.TOLERANCE
"""Of R² and MCC: one in the last printed digit."""
SPARE = "there the network has latents to spare, here the observations have columns to spare"


def cells() -> list[Row]:
    """One cell per number of columns to spare and seed, base world."""
    return [{"extra": extra, "seed": seed} for extra in EXTRA for seed in settings.SEEDS]


def cell(*, extra: int, seed: int, rows: int = settings.ROWS, steps: int = settings.STEPS) -> list[Row]:
    """Spread the base world over more columns, and let every method find the number of latents."""
    data = settings.drawn(degenerate(**settings.BASE, random_state=seed), rows)
    noise = NOISE * float(data.learn.x.std(axis=0).mean())
    data = replace(data, learn=widened(data.learn, extra, noise, seed), judge=widened(data.judge, extra, noise, seed))
    return settings.all_scored(data, seed, judge=with_rank, steps=steps, count_known=False)


def with_rank(truth: MixtureWorld, z: np.ndarray, z_hat: np.ndarray) -> Row:
    """A code beside the truth, and how many latents it has."""
    return {**settings.scores(truth, z, z_hat), "rank": z_hat.shape[1]}


def widened(sample: Sample, extra: int, noise: float, seed: int) -> Sample:
    """A sample whose observations lie in more columns, by one isometry per seed, with noise on all of them."""
    n = sample.x.shape[1]
    isometry = np.linalg.qr(seeds.numpy_generator(seed, "isometry", extra).standard_normal((n + extra, n)))[0]
    shaken = seeds.numpy_generator(seed, "noise", len(sample.x)).standard_normal((len(sample.x), n + extra))
    return replace(sample, x=sample.x @ isometry.T + noise * shaken)


def compare(rows: list[Row]) -> str:
    """R², MCC and the rank found, by dimensions to spare."""
    lines: list[list[Any]] = []
    for extra, (r2, mcc) in PUBLISHED.items():
        here = tables.matching(rows, extra=extra)
        sparse = tables.matching(here, method="sparse")
        r2s, mccs = settings.spreads(here, "r2", ("sparse", "flow")), settings.spreads(here, "mcc")
        lines.append([f"n+{extra}", f"{r2}", *r2s, f"{mcc}", *mccs, tables.spread(sparse, "rank")])
    header = ["dimensions", "published R²", "R² sparse", "R² flow", "published MCC", *settings.METHODS, "rank found"]
    return tables.text_table(header, lines)


def claims(rows: list[Row]) -> list[StudyClaim]:
    """R² and MCC by dimensions to spare, which are not the same dimensions."""
    found = []
    for extra, (r2, mcc) in PUBLISHED.items():
        here, where = tables.matching(rows, extra=extra), f"Table 10: n+{extra}"
        found.append(settings.claim(where, "R²", r2, here, column="r2", not_comparable=SPARE))
        found.append(settings.claim(where, "MCC", mcc, here, not_comparable=SPARE))
    return found


def figures(rows: list[Row]) -> list[CurveChart]:
    """R² and MCC by dimensions to spare."""
    drawings = []
    for number, (column, up) in enumerate((("r2", "R²"), ("mcc", "MCC"))):
        found = [(float(extra), tables.matching(rows, extra=extra)) for extra in EXTRA]
        curves = [
            settings.curve(m, [(x, tables.matching(here, method=m)) for x, here in found], column)
            for m in settings.METHODS
        ]
        theirs = [figures[number] for figures in PUBLISHED.values()]
        curves.append(settings.published_curve("published", [float(extra) for extra in EXTRA], theirs))
        drawings.append(CurveChart(f"Table 10: {up}", "dimensions to spare", up, tuple(curves)))
    return drawings


def tiny() -> list[Row]:
    """Two and ten columns to spare, a few hundred rows."""
    return [{"extra": extra, "seed": 0, **settings.TINY} for extra in (2, 10)]
