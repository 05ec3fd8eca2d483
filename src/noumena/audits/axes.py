"""Axes: does ICA give components that are found again, in every run and on other rows?

Reference: statistical and structural near-identifiability (paper 004), Theorem 2. Components are axes one can use when
other runs, whose ICA saw other rows, have them too (matched on the fitted rows, ``|correlation| ≥ 0.9`` on the measured
ones); when other starts of ICA end in the same ones; and when they are not Gaussian, for between Gaussian components
every rotation is as good. In few dimensions two such rotations are often alike by chance, so components that cannot be
told from Gaussian ones, on the rows their ICA did not see, are not counted; a single one is, as it is what the others
leave. Likewise rows without axes (a ring, Gaussian rows of a common random scale) have components that are far from
Gaussian, each rotation as much as any other: a component counts only where the contrast, on rows that ICA did not see,
falls when it is turned into any other one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt
from typing import Any

import numpy as np
from jaxtyping import Bool, Float

from noumena.audits.folds import Folds
from noumena.audits.pairs import Pair, Side
from noumena.guarantees.components import (
    CLEAR,
    SPREAD_OF_A_GAUSSIAN,
    curvature,
    curvature_error,
    non_gaussianity,
)
from noumena.guarantees.unmixing import SAME, Unmixing

FALLS = 2.5
"""Standard errors by which the contrast must fall when a component is turned; being found again guards it too."""
TURNED = 20_000
"""Rows on which components are compared with turned ones."""


@dataclass(frozen=True, eq=False)
class Axes:
    """The first run's components, and in how far they are found again."""

    unmixing: Unmixing
    """Whitening and ICA of the first run in the first fold: ``axes.unmixing(z)[:, axes.which]`` are the stable axes."""
    correlations: Float[np.ndarray, " component"]
    """Of these components with their partners, the smallest over the other runs."""
    separable: Bool[np.ndarray, " component"]
    """Which of these components ICA can tell from one another: of two or more that may be Gaussian, none; nor one that
    may be turned into another at no cost."""
    counts: tuple[int, ...]
    """How many components are found again in every run, fold by fold."""
    gaussian: tuple[int, ...]
    """Of every run, how many components cannot be told from Gaussian ones on rows that ICA did not see."""
    components: tuple[int, ...]
    """Of every run, how many there are."""
    restarts: tuple[float, ...]
    """Of every run, the smallest correlation between components of different starts."""
    converged: bool

    @property
    def found(self) -> int:
        """The median over folds of how many components are found again in every run."""
        return int(np.median(self.counts))

    @property
    def which(self) -> tuple[int, ...]:
        """Which components of ``unmixing`` are found again in every run."""
        return tuple(int(i) for i in np.flatnonzero((self.correlations >= SAME) & self.separable))

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers."""
        return {
            "components": list(self.components),
            "found again": self.found,
            "by fold": list(self.counts),
            "which": list(self.which),
            "correlations": [round(float(c), 6) for c in self.correlations],
            "gaussian": list(self.gaussian),
            "restarts agree": [float(r) for r in self.restarts],
            "converged": self.converged,
        }


def axes_of(sides: Sequence[Side], onto_first: Sequence[Pair], folds: Folds, *, seed: int) -> Axes | None:
    """The axes of the first run, from its pairs with all others; ``None`` where ICA was not judged."""
    if not all(side.unmixings for side in sides):
        return None
    smallest = [np.min([pair.correlations[k] for pair in onto_first], axis=0) for k in range(len(folds))]
    told = [separable(_unseen(sides[0], folds, k, seed)) for k in range(len(folds))]
    firsts = [[first for first, _ in side.unmixings] for side in sides]
    return Axes(
        firsts[0][0],
        smallest[0],
        told[0],
        tuple(int(((c >= SAME) & t).sum()) for c, t in zip(smallest, told, strict=True)),
        tuple(int(gaussian_columns(_unseen(side, folds, 0, seed)).sum()) for side in sides),
        tuple(len(found[0].matrix) for found in firsts),
        tuple(min(u.agreement for u in found) for found in firsts),
        all(u.converged for found in firsts for u in found),
    )


def _unseen(side: Side, folds: Folds, k: int, seed: int) -> Float[np.ndarray, "batch component"]:
    """A run's components on the rows that their ICA did not see; in-sample on all rows."""
    rows = np.ones(len(side.rows), dtype=bool)
    if folds.held_out:
        rows[folds.halves(k, seed)[0]] = False
    return side.unmixings[k][0](side.rows[rows].astype(np.float64))


def separable(s: Float[np.ndarray, "batch component"]) -> Bool[np.ndarray, " component"]:
    """Which columns ICA can tell from one another: those that are not Gaussian, and a Gaussian one that is alone, and
    that the contrast prefers to turned ones.

    >>> separable(np.array([[-1.0, -1.0], [1.0, -1.0], [-1.0, 1.0], [1.0, 1.0]] * 25)).tolist()
    [True, True]
    """
    gaussian = gaussian_columns(s)
    return (~gaussian | (gaussian.sum() < 2)) & preferred(s[:: max(1, len(s) // TURNED)])


def preferred(s: Float[np.ndarray, "batch component"]) -> Bool[np.ndarray, " component"]:
    """Which columns the contrast prefers to their rotations with any other one, by ``FALLS`` standard errors.

    >>> angle = 2 * np.pi * np.arange(400) / 400
    >>> preferred(np.column_stack([np.cos(angle), np.sin(angle)])).tolist()  # a circle has no axes
    [False, False]
    """
    falls = curvature(s) >= FALLS * curvature_error(s)
    return np.where(np.eye(len(falls), dtype=bool), True, falls).all(axis=1)


def gaussian_columns(s: Float[np.ndarray, "batch component"]) -> Bool[np.ndarray, " component"]:
    """Which columns are within sampling error of a Gaussian.

    >>> gaussian_columns(np.array([[-1.0], [1.0]] * 50)).tolist()  # two values, far from a Gaussian
    [False]
    """
    return np.abs(non_gaussianity(s)) < CLEAR * SPREAD_OF_A_GAUSSIAN / sqrt(len(s))
