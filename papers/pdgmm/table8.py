"""Table 8: what is left without sparsity.

Reference: Xu et al. (2026), Table 8. *WO* is stage 2 without its constraint, *Oracle* a method that is told every row's
component and its rank (Xu et al. 2024), *VaDE* the mixture autoencoder. Ours without sparsity are the methods that do
not ask for it: x itself, PCA, ICA. Cells are those of Table 1, taken from its file where it lies beside.
**Deviations**: see ``settings``.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from noumena.charts import CurveChart
from noumena.studies import rows as tables
from noumena.studies.claims import StudyClaim
from noumena.studies.rows import Row
from pdgmm import settings, table1

KNOWN = ("table1",)
"""Studies whose finished cells are taken over."""
_BASE = ((0.97, 0.01), (0.57, 0.04), (0.98, 0.00), (0.32, 0.03))
PUBLISHED = (
    ((0.96, 0.01), (0.57, 0.02), (0.91, 0.05), (0.45, 0.05)),
    _BASE,
    ((0.92, 0.05), (0.44, 0.01), (0.96, 0.01), (0.23, 0.15)),
    ((0.94, 0.03), (0.36, 0.01), (0.94, 0.02), (0.25, 0.11)),
    ((0.97, 0.01), (0.56, 0.04), (0.98, 0.01), (0.33, 0.05)),
    _BASE,
    ((0.95, 0.01), (0.54, 0.01), (0.95, 0.04), (0.31, 0.03)),
    ((0.91, 0.04), (0.55, 0.02), (0.95, 0.03), (0.27, 0.03)),
    ((0.96, 0.03), (0.55, 0.01), (0.99, 0.00), (0.33, 0.04)),
    _BASE,
    ((0.93, 0.01), (0.56, 0.02), (0.95, 0.01), (0.35, 0.07)),
    ((0.45, 0.04), (0.42, 0.03), (0.86, 0.04), (0.28, 0.03)),
    _BASE,
    ((0.93, 0.04), (0.56, 0.03), (0.98, 0.01), (0.31, 0.04)),
    _BASE,
    ((0.88, 0.04), (0.54, 0.02), (0.73, 0.16), (0.30, 0.02)),
    ((0.61, 0.04), (0.55, 0.04), (0.41, 0.04), (0.27, 0.03)),
    ((0.49, 0.02), (0.55, 0.03), (0.38, 0.02), (0.28, 0.03)),
    _BASE,
    ((0.83, 0.02), (0.56, 0.03), (0.85, 0.01), (0.32, 0.03)),
    ((0.60, 0.02), (0.58, 0.04), (0.62, 0.02), (0.31, 0.04)),
    ((0.62, 0.01), (0.56, 0.02), (0.63, 0.01), (0.32, 0.03)),
)
"""MCC of the published method, without sparsity, of the oracle and of VaDE, in the order of Table 1."""

WO = "theirs is stage 2 without its constraint, ours x itself"
BUDGET = 60
"""CPU-minutes of all cells; none where those of Table 1 lie beside."""
TOLERANCE = settings.TOLERANCE
"""Of R² and MCC: one in the last printed digit."""

cells, cell, tiny = table1.cells, table1.cell, table1.tiny


def compare(rows: list[Row]) -> str:
    """MCC without and with sparsity, published and ours."""
    lines = []
    for w, (theirs, without, oracle, vade) in zip(table1.WORLDS, PUBLISHED, strict=True):
        here = settings.of_world(rows, w)
        published = [tables.published(f) for f in (without, vade, theirs, oracle)]
        lines.append([*settings.label(w), *published[:2], *settings.spreads(here, "mcc", ("x", "pca", "ica")),
                      *published[2:], *settings.spreads(here, "mcc", ("sparse", "flow"))])  # fmt: skip
    without = ["published WO", "published VaDE", "x", "pca", "ica"]
    return tables.text_table([*settings.LABEL, *without, "published", "published oracle", "sparse", "flow"], lines)


def claims(rows: list[Row]) -> list[StudyClaim]:
    """Three figures of each world; the oracle and VaDE are not run, ``x`` stands beside WO, MCC is that of Table 1."""
    found = []
    lines = settings.once(zip(settings.printed(table1.GROUPS), PUBLISHED, strict=True))
    for (name, w), (_, without, oracle, vade) in lines:
        here, where = settings.of_world(rows, w), f"Table 8: {name}"
        found += [
            settings.claim(where, "MCC without sparsity", without, here, method="x", baseline=None, not_comparable=WO),
            settings.claim(where, "MCC of the oracle", oracle, []),
            settings.claim(where, "MCC of VaDE", vade, []),
        ]
    return found


def figures(rows: list[Row]) -> list[CurveChart]:
    """MCC with and without sparsity by every parameter of the worlds."""
    published: dict[str, Any] = dict(zip(("with sparsity", "WO", "oracle"), zip(*PUBLISHED, strict=True), strict=False))
    return settings.figures("Table 8: MCC", table1.GROUPS, partial(settings.of_world, rows), published)
