"""Tables of Appendix E.5: latents that are always active together are found as blocks.

Reference: Xu et al. (2026), Appendix E.5: R² of the linear regression from every block of true latents to every learned
one, three block structures, base row. Whether the graph is empty is lost; its published matrices have .00 to .05 off
the blocks, which dependent latents cannot have (see ``floor``, the same figure for z itself), so both graphs are run.
**Deviations**: half of the *blocks*, rounded down, are active at a time.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from noumena.metrics import block_r2
from noumena.studies import rows as tables
from noumena.studies.claims import StudyClaim
from noumena.studies.rows import Row
from noumena.worlds import degenerate
from pdgmm import settings

BLOCKS = {"2+2+2+2+2": (2, 2, 2, 2, 2), "1+1+1+3+4": (1, 1, 1, 3, 4), "1+1+2+6": (1, 1, 2, 6)}
GRAPHS = (0, 1)
PUBLISHED: dict[str, tuple[tuple[float, ...], float]] = {
    "2+2+2+2+2": ((0.95, 0.90, 0.84, 0.84, 0.91, 0.91, 0.86, 0.96, 0.91, 0.88), 0.02),
    "1+1+1+3+4": ((0.95, 0.89, 0.92, 0.91, 0.94, 0.92, 0.89, 0.96, 0.92, 0.93), 0.03),
    "1+1+2+6": ((0.92, 0.89, 0.91, 0.88, 0.94, 0.91, 0.92, 0.88, 0.92, 0.82), 0.05),
}
"""R² of every learned latent on its own block, and the largest R² on another one."""
BUDGET = 19
"""CPU-minutes of all cells, from those that have run."""
TOLERANCE = settings.TOLERANCE
"""Of R²: one in the last printed digit."""


def cells() -> list[Row]:
    """One cell per block structure, graph and seed."""
    return [{"blocks": b, "edges": k, "seed": seed} for b in BLOCKS for k in GRAPHS for seed in settings.SEEDS]


def cell(*, blocks: str, edges: int, seed: int, rows: int = settings.ROWS, steps: int = settings.STEPS) -> list[Row]:
    """Build a world of blocks; score the block structure of every method's code, and of z itself."""
    sizes = BLOCKS[blocks]
    truth = degenerate(**settings.world(edges=edges), blocks=sizes, random_state=seed)
    data = settings.drawn(truth, rows)
    floor = block_scores(data.judge.z, data.judge.z, sizes)["leak"]
    found = settings.all_scored(data, seed, judge=lambda _, z, z_hat: block_scores(z, z_hat, sizes), steps=steps)
    return [{**row, "floor": floor} for row in found]


def block_scores(z: np.ndarray, z_hat: np.ndarray, sizes: tuple[int, ...]) -> Row:
    """Own-block and other-block R² of a code, whether every block got its share of latents, and the whole matrix."""
    result = block_r2(z, z_hat, sizes)
    matrix = result.matrix[np.argsort(result.partner, kind="stable")]
    counts = np.bincount(result.partner, minlength=len(sizes))
    return {
        "own": result.score,
        "leak": result.leakage,
        "largest leak": float(np.sort(result.matrix, axis=1)[:, -2].max()),
        "blocks found": bool((counts == np.array(sizes)).all()),
        "matrix": "; ".join(" ".join(f"{entry:.2f}" for entry in row) for row in matrix),
    }


def compare(rows: list[Row]) -> str:
    """Own and other R² by structure, graph and method; then the matrix of the flow for the first seed."""
    lines, matrices = [], []
    for name, (own, worst) in PUBLISHED.items():
        for k in GRAPHS:
            here = tables.matching(rows, blocks=name, edges=k)
            lines += [_line(name, k, method, tables.matching(here, method=method)) for method in settings.METHODS]
            matrices += _printed(f"{name}, k = {k}", tables.matching(here, method="flow", seed=settings.SEEDS[0]))
        lines.append([name, "", "published", f"{np.mean(own):.3f}", "", f"{worst}", "", "", ""])
    header = ["blocks", "k", "method", "own R²", "other R²", "largest other", "floor", "blocks found", "theory says"]
    return "\n".join([tables.text_table(header, lines), *matrices])


def _line(name: str, k: int, method: str, rows: list[Row]) -> list[Any]:
    own, leak, largest, floor = (tables.spread(rows, c) for c in ("own", "leak", "largest leak", "floor"))
    found = f"{sum(bool(r.get('blocks found')) for r in rows)} of {len(rows)}"
    return [name, str(k), method, own, leak, largest, floor, found, settings.words(rows, "theory")]


def _printed(title: str, rows: list[Row]) -> list[str]:
    """The matrix of one row as in the paper: learned latents below one another, blocks side by side."""
    heading = f"{title}, flow, R² of every learned latent on every block"
    return [line for row in rows if row.get("matrix") for line in ("", heading, *row["matrix"].split("; "))]


def claims(rows: list[Row]) -> list[StudyClaim]:
    """R² of the learned latents on their own block, block by block, and the largest on another one.

    Latents of a block have no order, so the mean of a block is compared. Ours have the graph of the base row, for the
    text says basic setup.
    """
    found = []
    for name, (own, worst) in PUBLISHED.items():
        here = [
            blockwise(row, BLOCKS[name]) for row in tables.matching(rows, blocks=name, edges=settings.BASE["edges"])
        ]
        ends = np.cumsum(BLOCKS[name])
        for number, (size, end) in enumerate(zip(BLOCKS[name], ends, strict=True), start=1):
            where, theirs = f"Table 20: {name}, block {number}", round(float(np.mean(own[end - size : end])), 4)
            found.append(settings.claim(where, "own R²", theirs, here, column=f"block {number}"))
        least = settings.trivial(here, "largest leak", lowest=True)
        told = {"column": "largest leak", "better": "lower", "baseline": least}
        found.append(settings.claim(f"Table 20: {name}", "largest other R²", worst, here, **told))
    return found


def blockwise(row: Row, sizes: tuple[int, ...]) -> Row:
    """A row with the mean R² of each block over as many learned latents as it has, those it explains best.

    >>> blockwise({"matrix": "0.90 0.00; 0.10 0.80; 0.00 0.60"}, (1, 2))["block 2"]
    0.7
    """
    if row.get("matrix") is None:
        return row
    matrix = np.sort([[float(entry) for entry in line.split()] for line in row["matrix"].split("; ")], axis=0)[::-1]
    means = {f"block {k + 1}": round(float(matrix[:size, k].mean()), 4) for k, size in enumerate(sizes)}
    return {**row, **means}


def tiny() -> list[Row]:
    """Two structures of blocks, a few hundred rows."""
    return [{"blocks": b, "edges": 1, "seed": 0, **settings.TINY} for b in list(BLOCKS)[:2]]
