"""Axes: does ICA give components that are found again, in every run and on other rows?

Components are axes one can use when other runs, whose ICA saw other rows, have them too (matched on the fitted rows,
``|correlation| ≥ 0.9`` on the held-out ones); when other starts of ICA end in the same ones; and when they are not
Gaussian. In few dimensions rotations of Gaussian components are often alike by chance, so components that cannot be
told from Gaussian ones, on the rows their ICA did not see, are not counted; a single one is. Likewise rotationally
symmetric rows (a ring, Gaussian rows of a common random scale) have non-Gaussian components, each rotation as much as
any other: a component counts only where rows that ICA did not see prefer it, and each of the others, to rotations of
the two (``rotation_test``).

References
----------
Nelson et al. (2026), "Statistical and structural identifiability in representation learning", Theorem 2.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt
from typing import Any

import numpy as np
from jaxtyping import Bool, Float
from scipy.optimize import linear_sum_assignment

from noumena.audits.folds import AuditFolds
from noumena.audits.pairs import PairComparison, RunMoments
from noumena.audits.rotation_test import preference
from noumena.guarantees.components import CLEAR, SPREAD_OF_A_GAUSSIAN, non_gaussianity
from noumena.guarantees.unmixing import SAME, Unmixing

PREFERRED, PREFERRED_IN_SAMPLE = 1.6, 3.5
"""Least z-score of a component's preference to its rotations with each of the others, as a mean over all fits, and
in-sample, where rows prefer what ICA found in them."""
ROTATED_ROWS = 10_000
"""Rows on which components are compared with rotated ones."""


@dataclass(frozen=True, eq=False)
class Axes:
    """The first run's ICA components, and how far they are found again.

    Attributes
    ----------
    unmixing : Unmixing
        Whitening and ICA of the first run in the first fold: ``axes.unmixing(z)[:, axes.which]`` are the stable axes.
    correlations : array of shape (n_components,)
        Smallest correlation of every component with its partners in the other runs.
    separable : array of bool of shape (n_components,)
        Components that are not Gaussian and that no rotation with another fits as well.
    counts : tuple of int
        Components found again in every run, fold by fold.
    gaussian, components : tuple of int
        Of every run, the number of components that may be Gaussian, and of all.
    restarts : tuple of float
        Of every run, the smallest correlation between components of different starts.
    converged : bool
        Whether every ICA converged.
    """

    unmixing: Unmixing
    correlations: Float[np.ndarray, " component"]
    separable: Bool[np.ndarray, " component"]
    counts: tuple[int, ...]
    gaussian: tuple[int, ...]
    components: tuple[int, ...]
    restarts: tuple[float, ...]
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


def axes_of(
    sides: Sequence[RunMoments], onto_first: Sequence[PairComparison], folds: AuditFolds, *, seed: int
) -> Axes | None:
    """The axes of the first run, from its pairs with all others; ``None`` where ICA was not judged."""
    if not all(side.unmixings for side in sides):
        return None
    smallest = [np.min([pair.correlations[k] for pair in onto_first], axis=0) for k in range(len(folds))]
    least = PREFERRED if folds.held_out else PREFERRED_IN_SAMPLE
    preferred = _preferences(sides[0], folds, seed)
    distinct = [separable(_unseen(sides[0], folds, k, seed), p, least=least) for k, p in enumerate(preferred)]
    firsts = [[first for first, _ in side.unmixings] for side in sides]
    return Axes(
        firsts[0][0],
        smallest[0],
        distinct[0],
        tuple(int(((c >= SAME) & t).sum()) for c, t in zip(smallest, distinct, strict=True)),
        tuple(int(gaussian_columns(_unseen(side, folds, 0, seed)).sum()) for side in sides),
        tuple(len(unmixings[0].matrix) for unmixings in firsts),
        tuple(min(u.agreement for u in unmixings) for unmixings in firsts),
        all(u.converged for unmixings in firsts for u in unmixings),
    )


def _unseen(
    side: RunMoments, folds: AuditFolds, k: int, seed: int, half: int = 0
) -> Float[np.ndarray, "batch component"]:
    """A run's components on the rows that their ICA did not see; in-sample on all rows."""
    rows = np.ones(len(side.rows), dtype=bool)
    if folds.held_out:
        rows[folds.halves(k, seed)[half]] = False
    return side.unmixings[k][half](side.rows[rows].astype(np.float64))


def _preferences(side: RunMoments, folds: AuditFolds, seed: int) -> list[Float[np.ndarray, "component component"]]:
    """For each fold, how clearly rows prefer a run's components to rotated ones: the mean over all its ICAs, each on
    rows it did not see, with components matched to those of the fold."""
    fits = [(k, half) for k in range(len(folds)) for half in ((0, 1) if folds.held_out else (0,))]
    preferences = {fit: preference(_thinned(_unseen(side, folds, fit[0], seed, fit[1]))) for fit in fits}
    covariance, means = np.mean(side.covariances, axis=0), []
    for k in range(len(folds)):
        own = side.unmixings[k][0].matrix
        alike = [(fit, side.unmixings[fit[0]][fit[1]].matrix) for fit in fits]
        orders = [(fit, _partners(own @ covariance @ W.T)) for fit, W in alike if len(W) == len(own)]
        means.append(np.mean([preferences[fit][np.ix_(order, order)] for fit, order in orders], axis=0))
    return means


def _partners(cross: Float[np.ndarray, "component other"]) -> np.ndarray:
    """The other fit's component that belongs to each component."""
    return linear_sum_assignment(-np.abs(cross))[1]


def _thinned(s: Float[np.ndarray, "batch component"]) -> Float[np.ndarray, "row component"]:
    return s[:: max(1, len(s) // ROTATED_ROWS)]


def separable(
    s: Float[np.ndarray, "batch component"],
    preferred: Float[np.ndarray, "component component"] | None = None,
    *,
    least: float = PREFERRED,
) -> Bool[np.ndarray, " component"]:
    """Which columns ICA can tell from one another: those that are not Gaussian, and a single Gaussian one, where they
    are preferred to rotated ones by a z-score of ``least``.

    >>> separable(np.array([[-1.0, -1.0], [1.0, -1.0], [-1.0, 1.0], [1.0, 1.0]] * 25)).tolist()
    [True, True]
    """
    gaussian = gaussian_columns(s)
    distinct = ~gaussian | (gaussian.sum() < 2)
    preferred = preference(_thinned(s)) if preferred is None else preferred
    return distinct & (preferred >= least).all(axis=1)


def gaussian_columns(s: Float[np.ndarray, "batch component"]) -> Bool[np.ndarray, " component"]:
    """Which columns are within sampling error of a Gaussian.

    >>> gaussian_columns(np.array([[-1.0], [1.0]] * 50)).tolist()  # two values, far from a Gaussian
    [False]
    """
    return np.abs(non_gaussianity(s)) < CLEAR * SPREAD_OF_A_GAUSSIAN / sqrt(len(s))
