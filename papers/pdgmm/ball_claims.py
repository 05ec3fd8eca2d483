"""Claims of the tables of balls: R² of each ball, and of each coordinate where these freeze alone.

Reference: Xu et al. (2026), Tables 13 to 15 (D.10) and 16 (D.11); the tables call their R² MCC. ``places`` stands for
the published method; the best of ``pca``, ``ica`` and ``pixels`` is what learns no places. **Deviations**: how balls
are numbered there is not said, ours are numbered from behind; the entries of Table 16 that are not a coordinate's own
latent are one claim, their largest, for the order of latents means nothing.
"""

from __future__ import annotations

import numpy as np
from scipy.optimize import linear_sum_assignment

from noumena.charts import Curve, CurveChart, Point
from noumena.studies import rows as tables
from noumena.studies.claims import StudyClaim
from noumena.studies.rows import Row

METHOD = "places"
TRIVIAL = ("pca", "ica", "pixels")
SHOWN = (METHOD, "features", *TRIVIAL)
TOLERANCE = 0.01
"""Of R²: one in the second digit, the last that Table 16 has; spreads between seeds widen it in Tables 13 to 15."""
SEEDS = 5
"""Behind every published mean and deviation."""
PUBLISHED: dict[tuple[int, str], tuple[tuple[float, float], ...]] = {
    (2, "ball"): ((0.958, 0.052), (0.914, 0.148)),
    (4, "ball"): ((0.953, 0.033), (0.853, 0.194), (0.932, 0.041), (0.880, 0.137)),
    (6, "ball"): (
        (0.743, 0.106), (0.105, 0.046), (0.293, 0.229), (0.407, 0.375), (0.474, 0.183), (0.595, 0.241),
    ),
}  # fmt: skip
"""Tables 13, 14 and 15: R² of each ball, mean and deviation over five seeds."""
NUMBERS = {2: 13, 4: 14, 6: 15}
"""The table of each number of balls."""
TABLE16 = ((0.03, 0.00, 0.98, 0.00), (0.95, 0.01, 0.01, 0.00), (0.00, 0.00, 0.00, 0.97), (0.02, 0.99, 0.00, 0.01))
"""R² between every coordinate and every learned latent, frozen one by one; the published MCC is lost."""
COORDINATES = ("x1", "y1", "x2", "y2")
LOST = "the published figure is lost"


def claims(rows: list[Row]) -> list[StudyClaim]:
    """R² ball by ball, then coordinate by coordinate with the largest R² elsewhere, and the MCC that is lost."""
    found = []
    for (n, freeze), figures in PUBLISHED.items():
        here = tables.matching(rows, balls=n, freeze=freeze)
        for number, (mean, spread) in enumerate(figures, start=1):
            where, told = f"Table {NUMBERS[n]}: ball {number}", {"spread": spread, "runs": SEEDS}
            found.append(_claim(where, "R²", mean, here, f"ball {number}", **told))
    here = [{**row, **of_matrix(row)} for row in tables.matching(rows, balls=2, freeze="coordinate")]
    theirs = separated(np.array(TABLE16))
    found += [_claim(f"Table 16: {name}", "R²", theirs[name], here, name) for name in COORDINATES]
    other = {"better": "lower"}
    found.append(_claim("Table 16", "largest other R²", theirs["other"], here, "other", **other))
    return [*found, _claim("Appendix D.11", "MCC", None, here, "mcc", not_comparable=LOST)]


def _claim(where: str, metric: str, figure: float | None, rows: list[Row], column: str, **more: object) -> StudyClaim:
    """A published figure beside the places of these rows, with the best of what learns none."""
    ours = tables.values(tables.matching(rows, method=METHOD), column)
    means = [(arm, tables.values(tables.matching(rows, method=arm), column)) for arm in TRIVIAL]
    best = min if more.get("better") == "lower" else max
    trivial = [(arm, float(np.mean(values))) for arm, values in means if values]
    baseline = best(trivial, key=lambda one: one[1]) if trivial else None
    return StudyClaim(where, metric, figure, ours, TOLERANCE, baseline=baseline, **more)  # pyright: ignore[reportArgumentType]


def separated(matrix: np.ndarray) -> dict[str, float]:
    """R² of every coordinate with a latent of its own, such that the sum is largest, and the largest R² elsewhere.

    >>> separated(np.array([[0.1, 0.9], [0.8, 0.2]]))
    {'x1': 0.9, 'y1': 0.8, 'other': 0.2}
    """
    down, across = linear_sum_assignment(matrix, maximize=True)
    own = {COORDINATES[row]: float(matrix[row, column]) for row, column in zip(down, across, strict=True)}
    rest = matrix.copy()
    rest[down, across] = -np.inf
    return {**own, "other": float(rest.max())}


def of_matrix(row: Row) -> Row:
    """What ``separated`` says of a row's matrix; nothing where the method was refused."""
    if row.get("matrix") is None:
        return {}
    return separated(np.array([[float(entry) for entry in line.split()] for line in row["matrix"].split("; ")]))


def figures(rows: list[Row]) -> list[CurveChart]:
    """R² by ball, a figure for each number of balls."""
    drawings = []
    for (n, freeze), published in PUBLISHED.items():
        here = tables.matching(rows, balls=n, freeze=freeze)
        names = [f"ball {number}" for number in range(1, n + 1)]
        curves = [_curve(arm, tables.matching(here, method=arm), names) for arm in SHOWN]
        theirs = tuple((name, mean, spread) for name, (mean, spread) in zip(names, published, strict=True))
        curves.append(Curve("published", theirs, published=True))
        drawings.append(CurveChart(f"Table {NUMBERS[n]}: {n} balls", "ball", "R² of its place", tuple(curves)))
    return drawings


def _curve(arm: str, rows: list[Row], names: list[str]) -> Curve:
    points: list[Point] = []
    for name in names:
        values = tables.values(rows, name)
        spread = float(np.std(values, ddof=1)) if len(values) > 1 else None
        points += [(name, float(np.mean(values)), spread)] if values else []
    return Curve(arm, tuple(points), baseline=arm in TRIVIAL)
