"""With a search of structures: the worlds of Table 3 and the wide ones, fitted with the library's defaults.

No published counterpart. Everything is as in ``table3`` and ``wide`` under recipe ``ours``, whose rows are the same
fits before their search; only ``refit`` is on. ``fit is`` says what the certificate of the fit claims, which the truth
then judges: on square worlds, where no gap is positive, nothing may be called identified.
"""

from __future__ import annotations

from typing import Any

from ddl import settings, table3, wide
from noumena.charts import CurveChart
from noumena.estimators.refit.search import MOST_LATENTS
from noumena.studies import rows as tables
from noumena.studies.claims import StudyClaim
from noumena.studies.rows import Row

KINDS = ("diverse", "dense", "wide")
DENSE_SEEDS = table3.PUBLISHED_SEEDS
BUDGET = 60.0
"""CPU-minutes of all cells on one core."""
TOLERANCE = table3.TOLERANCE
"""That of Table 3; nothing is published that it could judge."""
PUBLISHED: dict[str, tuple[float, float]] = {}


def cells() -> list[Row]:
    """The worlds of Table 3, three dense ones of each size, and the wide ones whose structure is searched."""
    square = [c for c in table3.cells() if c["world"] == "diverse" or c["seed"] in DENSE_SEEDS]
    searched = [c for c in wide.cells() if c["d"] <= MOST_LATENTS]
    return square + searched[::-1]


def tiny() -> list[Row]:
    """A world of each kind, a few rows and two steps."""
    return table3.tiny() + wide.tiny()[:1]


def cell(world: str, d: int, seed: int, noise: float = 0.0, **changes: Any) -> list[Row]:
    """Build a world, fit it with dependency sparsity and a search of its structure."""
    steps = {"steps": wide.STEPS} if world == "wide" else {}
    methods = (settings.DEPENDENCY,)
    return table3.cell(world, d, seed, noise, methods=methods, recipes=("ours",), refit=True, **{**steps, **changes})


def compare(rows: list[Row]) -> str:
    """MCC and structure by world and dimension beside what needs no learning, and what the fits are called."""
    lines = []
    for world in KINDS:
        for d in sorted({r["d"] for r in tables.matching(rows, world=world)}):
            found = tables.matching(rows, world=world, d=d)
            called = sum(r["fit is"] == "identified" for r in found)
            wrong = sum(r["fit is"] == "identified" and r["mcc"] < 0.95 for r in found)
            figures = [tables.spread(found, name) for name in ("mcc", "f1", "agreement", *table3.TRIVIAL, "seconds")]
            lines.append([world, f"{d}", f"{len(found)}", f"{called}", f"{wrong}", *figures])
    header = ["world", "d", "worlds", "identified", "of these MCC < .95", "MCC", "F1", "agreement"]
    return tables.text_table([*header, "x itself", "PCA", "ICA", "CPU seconds"], lines)


def claims(rows: list[Row]) -> list[StudyClaim]:
    """None: the paper has no search."""
    return []


def figures(rows: list[Row]) -> list[CurveChart]:
    """MCC over the number of latents by kind of world, beside x itself."""
    curves = []
    for world in KINDS:
        found: dict[float | str, list[Row]] = {d: tables.matching(rows, world=world, d=d) for d in wide.SEEDS}
        curves.append(settings.curve(world, found, "mcc"))
        curves.append(settings.curve(f"{world}: x itself", found, "x", baseline=True))
    return [CurveChart("With a search of structures", "latents d", "MCC", tuple(curves))]
