"""Fig. 5: MCC where sufficient diversity holds (*Ours*) and in the dense world (*Base*), by dimension.

Reference: diverse dictionary learning, Fig. 5; the numbers are those of Table 4. The cells are those of Table 3 and are
taken from its file where it lies beside: nothing is trained twice. **Deviations**: see ``settings``.
"""

from __future__ import annotations

from noumena.studies import rows as tables
from noumena.studies.ddl import settings, table3
from noumena.studies.rows import Row

KNOWN = ("table3",)
"""Studies whose finished cells are taken over."""
PUBLISHED = {world: table3.PUBLISHED[world, settings.DEPENDENCY] for world in ("diverse", "dense")}
"""MCC, mean and deviation, by world, then dimension."""

cells, cell = table3.cells, table3.cell


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


if __name__ == "__main__":
    tables.command("noumena.studies.ddl.fig5")
