"""Table 4: dependency sparsity with and without noise, and the dense base.

Reference: Zheng et al. (2026), Table 4. The level of noise is lost in the paper; here it is additive Gaussian noise of
a tenth of the observations' mean spread. Cells without noise are those of Table 3 and are taken from its file where it
lies beside. **Deviations**: see ``settings``.
"""

from __future__ import annotations

from typing import Any

from ddl import settings, table3
from noumena.studies import rows as tables
from noumena.studies.claims import StudyClaim
from noumena.studies.rows import Row

NOISE = 0.1
"""Standard deviation of the noise, relative to the mean spread of the observations."""
KNOWN = ("table3",)
"""Studies whose finished cells are taken over."""
BUDGET = 68.0
"""CPU-minutes of all cells on one core, those of Table 3 among them."""
TOLERANCE = table3.TOLERANCE
"""As wide as the published deviations are at the median."""
NAMES = {
    ("diverse", 0.0): "dependency sparsity without noise",
    ("diverse", NOISE): "dependency sparsity with noise",
    ("dense", 0.0): "dense base",
}
"""The columns of the printed table."""
PUBLISHED = {
    ("diverse", 0.0): table3.PUBLISHED["diverse", settings.DEPENDENCY],
    ("diverse", NOISE): {3: (0.8210, 0.0088), 4: (0.8381, 0.0093), 5: (0.7944, 0.0134)},
    ("dense", 0.0): table3.PUBLISHED["dense", settings.DEPENDENCY],
}
"""MCC, mean and deviation, by world and noise, then dimension."""


def cells() -> list[Row]:
    """The cells of Table 3, and the diverse worlds once more with noise."""
    return table3.cells() + [{**c, "noise": NOISE} for c in table3.cells() if c["world"] == "diverse"]


def tiny() -> list[Row]:
    """The tiny cells of Table 3, and the diverse world once more with noise."""
    return table3.tiny() + [{**c, "noise": NOISE} for c in table3.tiny() if c["world"] == "diverse"]


def cell(world: str, d: int, seed: int, noise: float = 0.0, **changes: Any) -> list[Row]:
    """Train on a world: every method of Table 3 without noise, dependency sparsity with noise."""
    return table3.cell(world, d, seed, noise, methods=(settings.DEPENDENCY,) if noise else None, **changes)


def compare(rows: list[Row]) -> str:
    """MCC by dimension, world and noise, beside the published figure."""
    lines = []
    for d in table3.DIMENSIONS:
        for (world, noise), figures in PUBLISHED.items():
            chosen = tables.matching(rows, world=world, noise=noise, d=d, method=settings.DEPENDENCY)
            ours, paper = tables.matching(chosen, recipe="ours"), tables.matching(chosen, recipe="paper")
            columns = [tables.spread(ours, name) for name in ("mcc", "spearman", "agreement", "r2", *table3.TRIVIAL)]
            mcc_paper = tables.spread(paper, "mcc")
            lines.append([f"{d}", world, f"{noise:g}", tables.published(figures[d]), mcc_paper, *columns])
    header = ["d", "world", "noise", "published", "MCC paper's recipe", "MCC ours", "Spearman", "agreement", "R²"]
    return tables.text_table([*header, "x itself", "PCA", "ICA"], lines)


def claims(rows: list[Row]) -> list[StudyClaim]:
    """The nine printed figures beside recipe ``ours``; of the dense base neither side is better, for it is to fail."""
    chosen = tables.matching(rows, method=settings.DEPENDENCY, recipe="ours")
    return [
        table3.claim(
            f"Table 4: {NAMES[world, noise]}, d = {d}",
            figures[d],
            tables.matching(chosen, world=world, noise=noise, d=d),
            better="neither" if world == "dense" else "higher",
        )
        for d in table3.DIMENSIONS
        for (world, noise), figures in PUBLISHED.items()
    ]
