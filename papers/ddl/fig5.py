"""Fig. 5: MCC where sufficient diversity holds (*Ours*) and in the dense world (*Base*), by dimension.

Reference: Zheng et al. (2026), Fig. 5; the numbers are those of Table 4. The cells are those of Table 3 and are taken
from its file where it lies beside: nothing is trained twice. **Deviations**: see ``settings``.
"""

from __future__ import annotations

from dataclasses import replace

from ddl import settings, table3
from noumena.charts import CurveChart
from noumena.studies import rows as tables
from noumena.studies.claims import StudyClaim
from noumena.studies.rows import Row

KNOWN = ("table3",)
"""Studies whose finished cells are taken over."""
PUBLISHED = {world: table3.PUBLISHED[world, settings.DEPENDENCY] for world in ("diverse", "dense")}
"""MCC, mean and deviation, by world, then dimension."""

BUDGET = table3.BUDGET
"""CPU-minutes of all cells on one core; none where the rows of Table 3 lie beside."""
TOLERANCE = table3.TOLERANCE
"""As wide as the published deviations are at the median."""
NAMES = {"diverse": "ours", "dense": "base"}
"""The curves of the figure."""
DRAWN = "the figure is drawn and prints no numbers; those of Table 4 stand here and are judged there"

cells, cell, tiny = table3.cells, table3.cell, table3.tiny


def compare(rows: list[Row]) -> str:
    """MCC of dependency sparsity by dimension in both worlds, and what x itself scores there."""
    lines = []
    for d in table3.DIMENSIONS:
        for world, figures in PUBLISHED.items():
            chosen = tables.matching(rows, world=world, d=d, method=settings.DEPENDENCY, noise=0.0)
            mccs = [tables.spread(tables.matching(chosen, recipe=name), "mcc") for name in settings.RECIPES]
            x = tables.spread(tables.matching(chosen, recipe="ours"), "x")
            lines.append([f"{d}", world, tables.published(figures[d]), *mccs, x])
    names = [f"MCC {name}" for name in settings.RECIPES]
    return tables.text_table(["d", "world", "published", *names, "x itself"], lines)


def claims(rows: list[Row]) -> list[StudyClaim]:
    """The figures of Table 4 that the curves are taken to show, once more and without a second verdict."""
    return [
        replace(
            table3.claim(f"Fig. 5: {NAMES[world]}, d = {d}", by_dimension[d], _chosen(rows, world)[d]),
            better="higher" if world == "diverse" else "neither",
            not_comparable=DRAWN,
        )
        for d in table3.DIMENSIONS
        for world, by_dimension in PUBLISHED.items()
    ]


def figures(rows: list[Row]) -> list[CurveChart]:
    """MCC over the number of latents in both worlds, the published curves, and x itself in both."""
    curves = [settings.curve(f"{world} worlds", _chosen(rows, world), "mcc") for world in PUBLISHED]
    curves += [settings.published_curve(f"{NAMES[world]}, published", PUBLISHED[world]) for world in PUBLISHED]
    curves += [settings.curve(f"x itself, {world}", _chosen(rows, world), "x", baseline=True) for world in PUBLISHED]
    return [CurveChart("Fig. 5: diverse and dense worlds", "latents d", "MCC", tuple(curves))]


def _chosen(rows: list[Row], world: str) -> dict[float | str, list[Row]]:
    return table3.by_dimension(rows, world=world, method=settings.DEPENDENCY, recipe="ours", noise=0.0)
