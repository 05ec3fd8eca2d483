"""Table 18: distances that do not tell components apart, a violation of 3.4 alone.

Reference: Xu et al. (2026), Example E.2 and Table 18. To what the example is extended is lost; ours is
``worlds.equal_distances``, a component on every axis, at unit distance of the origin. That 3.4 fails allows halves of
axes to trade places, but only by a mixing that bends accordingly; an affine unmixing cannot follow it, and a mixing
that hardly bends is not hard. **Deviations**: as said.
"""

from __future__ import annotations

from noumena.studies import rows as tables
from noumena.studies.claims import StudyClaim
from noumena.studies.rows import Row
from noumena.worlds import equal_distances
from pdgmm import settings

PUBLISHED = {2: (0.87, 0.92), 5: (0.70, 0.63), 10: (0.64, 0.47)}
"""R² of stage 1 and MCC of stage 2 by n."""
BUDGET = 8
"""CPU-minutes of all cells, from those that have run."""
TOLERANCE = settings.TOLERANCE
"""Of R² and MCC: one in the last printed digit."""
LOST = "how the example was extended to n dimensions is lost"


def cells() -> list[Row]:
    """One cell per number of latents and seed."""
    return [{"n": n, "seed": seed} for n in sorted(PUBLISHED, reverse=True) for seed in settings.SEEDS]


def cell(*, n: int, seed: int, rows: int = settings.ROWS, steps: int = settings.STEPS) -> list[Row]:
    """Build a world of equal distances and score every method on it."""
    data = settings.drawn(equal_distances(n, random_state=seed), rows)
    return settings.all_scored(data, seed, steps=steps)


def compare(rows: list[Row]) -> str:
    """R² and MCC of every method, beside the published, and the certificate."""
    lines = []
    for n, (r2, mcc) in PUBLISHED.items():
        here = tables.matching(rows, n=n)
        r2s, mccs = settings.spreads(here, "r2", ("x", "flow")), settings.spreads(here, "mcc")
        lines.append([str(n), f"{r2}", *r2s, f"{mcc}", *mccs, settings.words(here, "certificate")])
    header = ["n", "published R²", "R² x", "R² flow", "published MCC", *settings.METHODS, "certificate"]
    return tables.text_table(header, lines)


def claims(rows: list[Row]) -> list[StudyClaim]:
    """R² and MCC by n."""
    found = []
    for n, (r2, mcc) in PUBLISHED.items():
        here, where = tables.matching(rows, n=n), f"Table 18: n = {n}"
        found.append(settings.claim(where, "R² of stage 1", r2, here, column="r2", not_comparable=LOST))
        found.append(settings.claim(where, "MCC of stage 2", mcc, here, not_comparable=LOST))
    return found


def tiny() -> list[Row]:
    """Two and five latents, a few hundred rows."""
    return [{"n": n, "seed": 0, **settings.TINY} for n in (2, 5)]
