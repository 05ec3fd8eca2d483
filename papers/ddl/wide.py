"""Wide worlds: the biases of Table 3 where sparsity can identify, 4·d observations and a positive Occam gap.

No published counterpart: the paper has as many observations as latents, where no gap is positive. All methods for
d = 3, 4, 5, dependency sparsity against none for d = 10 and 20; recipe ``ours``, the model chosen by its objective.
"""

from __future__ import annotations

from typing import Any

from ddl import settings, table3
from noumena.charts import CurveChart
from noumena.studies import rows as tables
from noumena.studies.claims import StudyClaim
from noumena.studies.rows import Row

SEEDS = {d: tuple(range(5)) for d in (3, 4, 5, 10, 20)}
"""World seeds by number of latents."""
STEPS = 3000
ALL_METHODS_UP_TO = 5
BUDGET = 41.0
"""CPU-minutes of all cells on one core."""
TOLERANCE = table3.TOLERANCE
"""That of Table 3; nothing is published that it could judge."""
PUBLISHED: dict[str, tuple[float, float]] = {}


def methods(d: int) -> tuple[str, ...]:
    """The methods trained on worlds of ``d`` latents."""
    return settings.METHODS if d <= ALL_METHODS_UP_TO else (settings.DEPENDENCY, settings.NONE)


def cells() -> list[Row]:
    """One cell per world, the large ones first."""
    return [{"world": "wide", "d": d, "seed": seed, "noise": 0.0} for d in sorted(SEEDS)[::-1] for seed in SEEDS[d]]


def tiny() -> list[Row]:
    """Two small worlds, a few rows and two steps."""
    return [{"world": "wide", "d": 3, "seed": seed, "noise": 0.0, **settings.TINY} for seed in (1, 2)]


def cell(world: str, d: int, seed: int, noise: float = 0.0, **changes: Any) -> list[Row]:
    """Build a wide world and train its methods."""
    return table3.cell(world, d, seed, noise, methods=methods(d), recipes=("ours",), **{"steps": STEPS, **changes})


def compare(rows: list[Row]) -> str:
    """MCC and structure by dimension and method, beside what needs no learning."""
    names = ("mcc", "spearman", "f1", "agreement", "r2", *table3.TRIVIAL, "gap at least", "seconds")
    lines = [
        [f"{d}", method, *(tables.spread(tables.matching(rows, d=d, method=method), name) for name in names)]
        for d in SEEDS
        for method in methods(d)
    ]
    header = [
        "d",
        "method",
        "MCC",
        "Spearman",
        "F1",
        "agreement",
        "R²",
        "x itself",
        "PCA",
        "ICA",
        "gap ≥",
        "CPU seconds",
    ]
    return tables.text_table(header, lines)


def claims(rows: list[Row]) -> list[StudyClaim]:
    """None: the paper has no such worlds."""
    return []


def figures(rows: list[Row]) -> list[CurveChart]:
    """MCC over the number of latents, with dependency sparsity and without, and of what learns nothing."""

    def chosen(method: str) -> dict[float | str, list[Row]]:
        return {d: tables.matching(rows, d=d, method=method) for d in SEEDS}

    curves = [settings.curve(method, chosen(method), "mcc") for method in (settings.DEPENDENCY, settings.NONE)]
    for column, name in table3.TRIVIAL.items():
        curves.append(settings.curve(name, chosen(settings.DEPENDENCY), column, baseline=True))
    return [CurveChart("Wide worlds: 4·d observations of d latents", "latents d", "MCC", tuple(curves))]
