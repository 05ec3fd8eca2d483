"""Averages of rows: curves of a column over a condition, and the best of what learns nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from noumena.charts import Curve, Point

Values = Mapping[str, Sequence[float]] | Mapping[float, Sequence[float]]
"""The values found at every condition."""


def averaged(name: str, found: Values, *, baseline: bool = False) -> Curve:
    """The mean and the deviation at every condition that has values.

    >>> averaged("ours", {0.1: (1.0, 3.0, 5.0), 0.2: (0.8,), 0.3: ()}).points
    ((0.1, 3.0, 2.0), (0.2, 0.8, None))
    """
    points: list[Point] = []
    for at, values in found.items():
        if len(values):
            deviation = float(np.std(values, ddof=1)) if len(values) > 1 else None
            points.append((at, float(np.mean(values)), deviation))
    return Curve(name, tuple(points), baseline=baseline)


def printed(name: str, found: Mapping[str, float] | Mapping[float, float]) -> Curve:
    """Published means by condition.

    >>> printed("theirs", {"ICA": 0.2}).points
    (('ICA', 0.2, None),)
    """
    return Curve(name, tuple((at, value, None) for at, value in found.items()), published=True)


def most(found: Mapping[str, Sequence[float]], *, lowest: bool = False) -> tuple[str, float] | None:
    """The name with the highest mean (or the lowest), and that mean; none where nothing has values.

    >>> most({"x": (0.4, 0.6), "PCA": (0.7,), "ICA": ()})
    ('PCA', 0.7)
    """
    means = {name: float(np.mean(values)) for name, values in found.items() if len(values)}
    if not means:
        return None
    best = (min if lowest else max)(means, key=means.__getitem__)
    return best, means[best]
