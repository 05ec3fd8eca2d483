"""Table 17: latents that are not Gaussian, mixings that are not piecewise affine.

Reference: Xu et al. (2026), Appendix E.1: exponential and Gumbel noise, a smooth leaky ReLU and a sigmoid, in 13 rows
of Table 1. The paper gives no formula for the smooth one; ours is said in ``worlds.mixings``. Layers of sigmoids
contract by 4 and more each: after the first their mixing is almost affine, and tiny, which stops a network trained on a
loss of fixed size and does not touch what standardises its data. **Deviations**: see ``settings``.
"""

from __future__ import annotations

from functools import partial

from noumena.charts import CurveChart
from noumena.studies import rows as tables
from noumena.studies.claims import StudyClaim
from noumena.studies.rows import Row
from pdgmm import settings, table1

KINDS: dict[str, Row] = {
    "exponential": {"noise": "exponential"},
    "Gumbel": {"noise": "gumbel"},
    "smooth": {"mixing": "smooth"},
    "sigmoid": {"mixing": "sigmoid"},
}
GROUPS: settings.Groups = {
    "n": table1.SIZES[:3],
    "k": table1.GRAPHS,
    "M": table1.DEPTHS,
    "ρ": table1.SHARES,
}
PRINTED = tuple(w for worlds in GROUPS.values() for w in worlds)
_BASE = ((0.96, 0.01), (0.97, 0.01), (0.98, 0.01), (0.32, 0.06))
PUBLISHED = (
    ((0.92, 0.06), (0.95, 0.01), (0.97, 0.01), (0.36, 0.02)),
    _BASE,
    ((0.94, 0.02), (0.95, 0.02), (0.94, 0.09), (0.29, 0.04)),
    ((0.95, 0.01), (0.97, 0.01), (0.95, 0.08), (0.37, 0.06)),
    _BASE,
    ((0.93, 0.04), (0.96, 0.02), (0.97, 0.01), (0.29, 0.06)),
    ((0.91, 0.04), (0.91, 0.06), (0.93, 0.03), (0.36, 0.09)),
    ((0.98, 0.01), (0.99, 0.01), (0.99, 0.00), (0.60, 0.03)),
    _BASE,
    ((0.91, 0.04), (0.94, 0.02), (0.97, 0.01), (0.30, 0.08)),
    ((0.66, 0.08), (0.59, 0.07), (0.70, 0.07), (0.36, 0.01)),
    _BASE,
    ((0.92, 0.04), (0.94, 0.04), (0.95, 0.03), (0.32, 0.07)),
)
"""MCC with exponential and Gumbel noise, smooth and sigmoid mixing, in the order of ``PRINTED``."""

BUDGET = 150
"""CPU-minutes of all cells, from those that have run."""
TOLERANCE = settings.TOLERANCE
"""Of R² and MCC: one in the last printed digit."""

cell = settings.cell


def cells() -> list[Row]:
    """One cell per kind, world and seed."""
    return settings.cells({**w, **kind} for kind in KINDS.values() for w in PRINTED)


def compare(rows: list[Row]) -> str:
    """MCC kind by kind, beside the published figure."""
    lines = []
    for number, (name, kind) in enumerate(KINDS.items()):
        for w, published in zip(PRINTED, PUBLISHED, strict=True):
            here = settings.of_world(rows, {**w, **kind})
            columns = [tables.published(published[number]), *settings.spreads(here, "mcc")]
            r2 = tables.spread(tables.matching(here, method="flow"), "r2")
            lines.append([name, *settings.label(w), *columns, r2, settings.words(here, "theory")])
    return tables.text_table(["", *settings.LABEL, "published", *settings.METHODS, "R² flow", "theory says"], lines)


def claims(rows: list[Row]) -> list[StudyClaim]:
    """MCC of every kind in each of the 13 rows."""
    return [
        settings.claim(f"Table 17: {name}", f"MCC, {kind}", published[number], settings.of_world(rows, {**w, **change}))
        for (name, w), published in zip(settings.printed(GROUPS), PUBLISHED, strict=True)
        for number, (kind, change) in enumerate(KINDS.items())
    ]


def figures(rows: list[Row]) -> list[CurveChart]:
    """MCC by every parameter of the worlds, kind by kind."""
    drawings = []
    for number, (kind, change) in enumerate(KINDS.items()):
        here = partial(_of_kind, rows, change)
        published = {"stage 2": [row[number] for row in PUBLISHED]}
        drawings += settings.figures(f"Table 17: MCC, {kind}", GROUPS, here, published)
    return drawings


def _of_kind(rows: list[Row], change: Row, w: Row) -> list[Row]:
    return settings.of_world(rows, {**w, **change})


def tiny() -> list[Row]:
    """Five latents, one other law and one other mixing, a few hundred rows."""
    return [settings.tiny({**PRINTED[0], **KINDS[kind]})[0] for kind in ("exponential", "sigmoid")]
