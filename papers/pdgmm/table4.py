"""Table 4: the worlds of Table 1 with independent latents.

Reference: Xu et al. (2026), Table 4. The published rows keep the k of Table 1, and the text says that latents are
independent: we read this as an empty graph in every row, so that the rows of one group that differ in k are one world.
What Table 1 has already computed is taken from its file where it lies beside. **Deviations**: see ``settings``.
"""

from __future__ import annotations

from noumena.charts import CurveChart
from noumena.studies import rows as tables
from noumena.studies.claims import StudyClaim
from noumena.studies.rows import Row
from pdgmm import settings, table1

KNOWN = ("table1",)
"""Studies whose finished cells are taken over."""
WORLDS = tuple({**w, "edges": 0} for w in table1.WORLDS)
PUBLISHED = (
    (0.96, 0.01), (0.97, 0.01), (0.93, 0.05), (0.94, 0.03),
    (0.97, 0.01), (0.97, 0.01), (0.97, 0.01), (0.91, 0.04),
    (0.96, 0.03), (0.97, 0.01), (0.94, 0.02),
    (0.46, 0.04), (0.97, 0.01), (0.93, 0.03),
    (0.97, 0.01), (0.87, 0.04), (0.61, 0.04), (0.49, 0.02),
    (0.96, 0.03), (0.84, 0.01), (0.61, 0.01), (0.63, 0.01),
)  # fmt: skip
"""MCC of stage 2 in the order of Table 1, mean and deviation."""

BUDGET = 55
"""CPU-minutes of all cells, from those that have run."""
TOLERANCE = settings.TOLERANCE
"""Of R² and MCC: one in the last printed digit."""

cell = settings.cell


def cells() -> list[Row]:
    """One cell per world and seed."""
    return settings.cells(WORLDS)


def compare(rows: list[Row]) -> str:
    """MCC with independent latents, beside the published figure here and in Table 1; k as published."""
    lines = []
    for printed, w, independent, dependent in zip(table1.WORLDS, WORLDS, PUBLISHED, table1.PUBLISHED, strict=True):
        here = settings.of_world(rows, w)
        published = [tables.published(independent), tables.published(dependent[table1.MCC2])]
        basis = tables.spread(tables.matching(here, method="flow"), "mcc_sparse")
        theory = settings.words(here, "theory")
        lines.append([*settings.label(printed), *published, *settings.spreads(here, "mcc"), basis, theory])
    header = [*settings.LABEL, "published", "published Table 1", *settings.METHODS, "flow, sparse basis", "theory says"]
    return tables.text_table(header, lines)


def claims(rows: list[Row]) -> list[StudyClaim]:
    """MCC of each row, the base row once; the column repeated from Table 1 is there."""
    names = [name for name, _ in settings.printed(table1.GROUPS)]
    lines = settings.once(zip(zip(names, WORLDS, strict=True), PUBLISHED, strict=True))
    return [
        settings.claim(f"Table 4: {name}", "MCC of stage 2", published, settings.of_world(rows, w))
        for (name, w), published in lines
    ]


def figures(rows: list[Row]) -> list[CurveChart]:
    """MCC by every parameter but k, for all graphs are empty."""
    return settings.figures(
        "Table 4: MCC, independent latents",
        table1.GROUPS,
        lambda w: settings.of_world(rows, {**w, "edges": 0}),
        {"stage 2": PUBLISHED},
    )


def tiny() -> list[Row]:
    """Five independent latents, a few hundred rows."""
    return settings.tiny(WORLDS[0])
