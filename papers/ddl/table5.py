"""Table 5: MCC against the weight λ of dependency sparsity.

Reference: Zheng et al. (2026), Table 5. Both recipes on the diverse worlds of Table 3, three seeds as published.
**Deviations**: see ``settings``.
"""

from __future__ import annotations

from typing import Any

from ddl import settings, table3
from noumena.charts import CurveChart
from noumena.studies import rows as tables
from noumena.studies.claims import StudyClaim
from noumena.studies.rows import Row

WEIGHTS = (0.0, 0.001, 0.005, 0.01, 0.03, 0.05)
SEEDS = table3.PUBLISHED_SEEDS
BUDGET = 18.0
"""CPU-minutes of all cells on one core."""
TOLERANCE = table3.TOLERANCE
"""As wide as the published deviations are at the median."""
COMPARED = "paper"
"""The recipe whose λ is the published one, the weight of L1; that of ``ours`` weighs another surrogate."""
PUBLISHED = {
    0.0: {3: (0.6789, 0.0364), 4: (0.7317, 0.1092), 5: (0.6989, 0.0133)},
    0.001: {3: (0.7313, 0.0242), 4: (0.7294, 0.0147), 5: (0.7513, 0.0007)},
    0.005: {3: (0.7765, 0.0363), 4: (0.7826, 0.0244), 5: (0.7681, 0.0455)},
    0.01: {3: (0.8145, 0.0221), 4: (0.8032, 0.0327), 5: (0.7979, 0.0421)},
    0.03: {3: (0.8268, 0.0268), 4: (0.8232, 0.0187), 5: (0.8101, 0.0112)},
    0.05: {3: (0.8256, 0.0088), 4: (0.8420, 0.0401), 5: (0.8099, 0.0296)},
}
"""MCC, mean and deviation, by weight, then dimension."""


def cells() -> list[Row]:
    """One cell per world and recipe."""
    return [
        {"d": d, "seed": seed, "recipe": recipe}
        for seed in SEEDS
        for d in table3.DIMENSIONS
        for recipe in settings.RECIPES
    ]


def tiny() -> list[Row]:
    """One small world under either recipe."""
    return [{"d": 3, "seed": 4, "recipe": recipe, **settings.TINY} for recipe in settings.RECIPES]


def cell(
    d: int, seed: int, recipe: str, *, weights: tuple[float, ...] = WEIGHTS, rows: int = settings.ROWS, **changes: Any
) -> list[Row]:
    """Build a diverse world and train dependency sparsity on it with every weight."""
    truth, strength = settings.world("diverse", d, seed)
    sample = truth.sample(rows)
    shared = table3.about(truth, sample, strength)
    return [{"weight": weight, **_trained(truth, sample, recipe, weight, **changes), **shared} for weight in weights]


def _trained(truth: Any, sample: Any, recipe: str, weight: float, **changes: Any) -> Row:
    method = settings.DEPENDENCY if weight > 0 else settings.NONE
    return table3.trained(truth, sample, method, recipe, weight=weight, **changes)


def compare(rows: list[Row]) -> str:
    """MCC by weight and dimension, published and ours under both recipes."""
    lines = []
    for d in table3.DIMENSIONS:
        for weight, figures in PUBLISHED.items():
            chosen = {name: tables.matching(rows, d=d, weight=weight, recipe=name) for name in settings.RECIPES}
            mccs = [tables.spread(chosen[name], "mcc") for name in settings.RECIPES]
            columns = [tables.spread(chosen["ours"], name) for name in ("spearman", "agreement", "r2", "found", "x")]
            lines.append([f"{d}", f"{weight:g}", tables.published(figures[d]), *mccs, *columns])
    names = [f"MCC {name}" for name in settings.RECIPES]
    header = ["d", "λ", "published", *names, "Spearman", "agreement", "R²", "dependencies found", "x itself"]
    return tables.text_table(header, lines)


def claims(rows: list[Row]) -> list[StudyClaim]:
    """The eighteen printed figures beside the recipe of the paper; at λ = 0, which is to fail, neither is better."""
    return [
        table3.claim(
            f"Table 5: λ = {weight:g}, d = {d}",
            figure,
            tables.matching(rows, d=d, weight=weight, recipe=COMPARED),
            better="higher" if weight else "neither",
        )
        for weight, by_dimension in PUBLISHED.items()
        for d, figure in by_dimension.items()
    ]


def figures(rows: list[Row]) -> list[CurveChart]:
    """MCC over λ for each number of latents: both recipes, the published curve and x itself."""
    return [
        CurveChart(
            f"Table 5: the weight of dependency sparsity, d = {d}",
            "λ",
            "MCC",
            (
                *(settings.curve(f"recipe {name}", _by_weight(rows, d, name), "mcc") for name in settings.RECIPES),
                settings.published_curve("published", {f"{weight:g}": PUBLISHED[weight][d] for weight in WEIGHTS}),
                settings.curve("x itself", _by_weight(rows, d, COMPARED), "x", baseline=True),
            ),
        )
        for d in table3.DIMENSIONS
    ]


def _by_weight(rows: list[Row], d: int, recipe: str) -> dict[float | str, list[Row]]:
    return {f"{weight:g}": tables.matching(rows, d=d, weight=weight, recipe=recipe) for weight in WEIGHTS}
