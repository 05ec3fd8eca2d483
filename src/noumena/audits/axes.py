"""Axes: does ICA give components that are found again, in every run and on other rows?

Reference: Nelson et al. (2026), Theorem 2. Components are axes one can use when other runs, whose ICA saw other rows,
have them too (matched on the fitted rows, ``|correlation| ≥ 0.9`` on the measured ones); when other starts of ICA end
in the same ones; and when they are not Gaussian, for between Gaussian components every rotation is as good. In few
dimensions two such rotations are often alike by chance, so components that cannot be told from Gaussian ones, on the
rows their ICA did not see, are not counted; a single one is, as it is what the others leave. Likewise rows without axes
(a ring, Gaussian rows of a common random scale) have components that are far from Gaussian, each rotation as much as
any other: a component counts only where rows that ICA did not see prefer it, and each of the others, to the two turned
into each other (``turning``).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt
from typing import Any

import numpy as np
from jaxtyping import Bool, Float
from scipy.optimize import linear_sum_assignment

from noumena.audits.folds import Folds
from noumena.audits.pairs import Pair, Side
from noumena.audits.turning import preference
from noumena.guarantees.components import CLEAR, SPREAD_OF_A_GAUSSIAN, non_gaussianity
from noumena.guarantees.unmixing import SAME, Unmixing

PREFERRED, PREFERRED_IN_SAMPLE = 1.6, 3.5
"""Deviations of chance by which a component must be preferred to its rotations with each of the others: a mean over all
fits varies less than one of them, and being found again guards it too. Rows that ICA saw prefer what it found in them,
so in-sample more is asked."""
TURNED = 10_000
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
    least = PREFERRED if folds.held_out else PREFERRED_IN_SAMPLE
    preferred = _preferences(sides[0], folds, seed)
    told = [separable(_unseen(sides[0], folds, k, seed), p, least=least) for k, p in enumerate(preferred)]
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


def _unseen(side: Side, folds: Folds, k: int, seed: int, half: int = 0) -> Float[np.ndarray, "batch component"]:
    """A run's components on the rows that their ICA did not see; in-sample on all rows."""
    rows = np.ones(len(side.rows), dtype=bool)
    if folds.held_out:
        rows[folds.halves(k, seed)[half]] = False
    return side.unmixings[k][half](side.rows[rows].astype(np.float64))


def _preferences(side: Side, folds: Folds, seed: int) -> list[Float[np.ndarray, "component component"]]:
    """For each fold, how clearly rows prefer a run's components to turned ones: the mean over all its ICAs, each on
    rows it did not see, with components matched to those of the fold."""
    fits = [(k, half) for k in range(len(folds)) for half in ((0, 1) if folds.held_out else (0,))]
    found = {fit: preference(_thinned(_unseen(side, folds, fit[0], seed, fit[1]))) for fit in fits}
    covariance, means = np.mean(side.covariances, axis=0), []
    for k in range(len(folds)):
        own = side.unmixings[k][0].matrix
        alike = [(fit, side.unmixings[fit[0]][fit[1]].matrix) for fit in fits]
        orders = [(fit, _partners(own @ covariance @ W.T)) for fit, W in alike if len(W) == len(own)]
        means.append(np.mean([found[fit][np.ix_(order, order)] for fit, order in orders], axis=0))
    return means


def _partners(cross: Float[np.ndarray, "component other"]) -> np.ndarray:
    """The other fit's component that belongs to each component."""
    return linear_sum_assignment(-np.abs(cross))[1]


def _thinned(s: Float[np.ndarray, "batch component"]) -> Float[np.ndarray, "row component"]:
    return s[:: max(1, len(s) // TURNED)]


def separable(
    s: Float[np.ndarray, "batch component"],
    preferred: Float[np.ndarray, "component component"] | None = None,
    *,
    least: float = PREFERRED,
) -> Bool[np.ndarray, " component"]:
    """Which columns ICA can tell from one another: those that are not Gaussian, and a Gaussian one that is alone, where
    they are ``preferred`` to turned ones by ``least`` deviations of chance, or rows themselves say so.

    >>> separable(np.array([[-1.0, -1.0], [1.0, -1.0], [-1.0, 1.0], [1.0, 1.0]] * 25)).tolist()
    [True, True]
    """
    gaussian = gaussian_columns(s)
    told = ~gaussian | (gaussian.sum() < 2)
    preferred = preference(_thinned(s)) if preferred is None else preferred
    return told & (preferred >= least).all(axis=1)


def gaussian_columns(s: Float[np.ndarray, "batch component"]) -> Bool[np.ndarray, " component"]:
    """Which columns are within sampling error of a Gaussian.

    >>> gaussian_columns(np.array([[-1.0], [1.0]] * 50)).tolist()  # two values, far from a Gaussian
    [False]
    """
    return np.abs(non_gaussianity(s)) < CLEAR * SPREAD_OF_A_GAUSSIAN / sqrt(len(s))
