"""What whitening and ICA need of representations: rank, non-Gaussian and independent components, separated optima.

Whitening and ICA are fitted on one half of the rows and measured on the other, so that a number is never as good as
it is because ICA looked for it. Components are compared up to order and sign.

Reference: Nelson et al. (2026), Lemmata A.5 to A.8 and Theorems 2 and 3. Renamed: λ ``smallest eigenvalue``, M
``radius``. Deviations: the paper asks that the Hessian of the contrast be bounded below at its optima and that these
differ by order and sign only; here its curvature is measured in every plane of two components, and other starts must
end in the same components. For independent components and the contrast log cosh the curvature is ``|a_i| + |a_j|`` with
``a = E[s·tanh s] − E[1 − tanh² s]``, zero for a Gaussian: what tells it from other components. scikit-learn's FastICA
(symmetric, log cosh) does the work, on data whitened here in double precision.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt
from typing import Any

import numpy as np
from jaxtyping import Float
from scipy.stats import norm

from noumena import checks
from noumena.guarantees.hypotheses import Hypothesis
from noumena.guarantees.unmixing import (
    ITERATIONS,
    LOG_COSH_OF_A_GAUSSIAN,
    SAME,
    SINGULAR,
    Unmixing,
    covariance_of,
    halves,
    log_cosh,
    unmix,
)

RANK = "the covariance has full rank"
GAUSSIAN = "at most one component is Gaussian"
SEPARATED = "the ICA optima are separated"
INDEPENDENT = "the factors are independent"

ROWS_PER_LATENT, LEAST_ROWS = 10, 40
"""Fewer rows than this, per column and in all, say nothing about components."""
GROUPS = 20
SPREAD_OF_A_GAUSSIAN = 0.3534672
"""Standard deviation of ``√n·a`` on n Gaussian rows with their own mean and variance."""
CLEAR = 4.0
"""A component is non-Gaussian when its ``a`` is this many standard errors from 0."""
NEGLIGIBLE = 0.04
"""A component whose ``a`` is surely smaller is Gaussian for our purposes (uniform 0.126, Laplace −0.148)."""
SHARP = 3.0
"""A plane of two components has a curvature when it is this many standard errors from 0,"""
FLAT = 0.25
"""and none when it is surely below this share of what independent components would give it."""
LEVEL = 1e-3
"""How often independent components may be taken for dependent ones, over all pairs together."""
COARSE = 0.25
"""A sampling error of correlations above this shows nothing."""
LEAST_SPREAD = 0.1
"""Of a bounded function: what hardly varies (``tanh²`` of two values) shows no dependence."""


def non_gaussianity(s: Float[np.ndarray, "batch component"]) -> Float[np.ndarray, " component"]:
    """``a = E[s·tanh s] − E[1 − tanh² s]`` of standardised columns: 0 for a Gaussian, negative for heavy tails.

    >>> float(non_gaussianity(np.array([[-1.0], [1.0]]))[0].round(4))  # tanh 1 − 1/cosh² 1
    0.3416
    """
    s = _standard(s)
    return (s * np.tanh(s) - (1 - np.tanh(s) ** 2)).mean(axis=0)


def dependence(s: Float[np.ndarray, "batch component"]) -> Float[np.ndarray, "component component"]:
    """The largest correlation of ``tanh`` or ``tanh²`` between two standardised columns: 0 if independent.

    ``tanh`` sees that one column rises with another, ``tanh²`` that it spreads with another; both are bounded, so that
    under independence each correlation is about normal with variance ``1/n``, or less where a function hardly varies.

    >>> dependence(np.array([[1.0, -1.0], [-1.0, 1.0]]))
    array([[0., 1.],
           [1., 0.]])
    """
    d, bounded = s.shape[1], np.tanh(_standard(s))
    features = np.hstack([bounded, bounded**2])
    features = (features - features.mean(axis=0)) / np.maximum(features.std(axis=0), LEAST_SPREAD)
    blocks = np.abs(features.T @ features / len(s)).reshape(2, d, 2, d).max(axis=(0, 2))
    return np.where(np.eye(d, dtype=bool), 0.0, blocks)


def curvature(s: Float[np.ndarray, "batch component"]) -> Float[np.ndarray, "component component"]:
    """How sharply the contrast falls when two standardised columns are rotated into each other.

    Zero when every rotation is as good, as for two Gaussians or on a disc; ``|a_i| + |a_j|`` if independent.

    >>> s = np.array([[1.0, 1], [1, -1], [-1, 1], [-1, -1]])
    >>> float(curvature(s)[0, 1].round(4))  # 2·(tanh 1 − 1/cosh² 1)
    0.6832
    """
    s = _standard(s)
    side = np.sign(log_cosh(s).mean(axis=0) - LOG_COSH_OF_A_GAUSSIAN)  # heavy tails are minimised
    pull = side * (s * np.tanh(s)).mean(axis=0)
    slope = side[:, None] * ((1 - np.tanh(s) ** 2).T @ s**2) / len(s)
    return pull[:, None] + pull - slope - slope.T


def _jackknife(s: np.ndarray) -> np.ndarray:
    """The standard error of ``curvature``, by leaving out one group of rows at a time."""
    group = np.arange(len(s)) % GROUPS
    without = np.stack([curvature(s[group != g]) for g in range(GROUPS)])
    return np.sqrt((GROUPS - 1) * without.var(axis=0)) + 1e-12


def _standard(s: np.ndarray) -> np.ndarray:
    """Columns of mean 0 and variance 1; a constant one becomes 0."""
    spread = s.std(axis=0)
    return (s - s.mean(axis=0)) / np.where(spread > 0, spread, 1)


def enough(z: np.ndarray) -> bool:
    """Whether there are rows enough to say anything about components."""
    return len(z) >= max(ROWS_PER_LATENT * z.shape[1], LEAST_ROWS)


# ---- measured components -------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Components:
    """Whitening and ICA of one table of representations, and how its components behave on rows it did not see."""

    unmixing: Unmixing
    eigenvalues: Float[np.ndarray, " latent"]
    """Of the covariance, the largest first."""
    smallest_correlation: float
    """The smallest eigenvalue of the correlation matrix: 0 when a column is a combination of others."""
    redundant: tuple[int, ...]
    """Columns that take part in such a combination."""
    radius: float
    """The largest distance of a row from the mean."""
    n_rows: int
    """Rows the components were measured on."""
    non_gaussianity: Float[np.ndarray, " component"]
    dependence: Float[np.ndarray, "component component"]
    curvature: Float[np.ndarray, "component component"]
    curvature_error: Float[np.ndarray, "component component"]

    @property
    def standard_error(self) -> float:
        """Of ``non_gaussianity``, for a Gaussian."""
        return SPREAD_OF_A_GAUSSIAN / sqrt(self.n_rows)

    @property
    def sampling_error(self) -> float:
        """What the largest ``dependence`` of independent components stays below, but for one time in ``1/LEVEL``."""
        d = len(self.dependence)
        return float(norm.isf(LEVEL / max(1, 4 * d * (d - 1)))) / sqrt(self.n_rows)  # four two-sided tests per pair


def components(z: Any, *, restarts: int = 5, seed: int = 0) -> Components | None:
    """Whitening and ICA of a table, fitted on half of its rows; ``None`` when rows are too few to say anything."""
    z = checks.table(z, "z", min_rows=2, varying=True).astype(np.float64)
    if not enough(z):
        return None
    fitted, measured = halves(len(z), seed)
    unmixing = unmix(z[fitted], restarts=checks.count(restarts, "restarts", minimum=2), seed=seed)
    covariance = covariance_of(z)
    scale = np.sqrt(np.diag(covariance))
    value, vector = np.linalg.eigh(covariance / scale / scale[:, None])
    null = np.abs(vector[:, value <= SINGULAR])
    s = unmixing(z[measured])
    return Components(
        unmixing,
        np.linalg.eigvalsh(covariance)[::-1],
        float(value[0]),
        tuple(int(j) for j in np.flatnonzero((null > 0.05).any(axis=1))),
        float(np.linalg.norm(z - z.mean(axis=0), axis=1).max()),
        len(measured),
        non_gaussianity(s),
        dependence(s),
        curvature(s),
        _jackknife(s),
    )


# ---- hypotheses ----------------------------------------------------------------------------------------------------

Measured = Sequence[Components | None]
"""One for each run; ``None`` where rows were too few."""


def full_rank(found: Measured) -> Hypothesis:
    """Does the covariance have full rank, with which smallest eigenvalue?"""
    known = _known(found)
    if known is None:
        return too_few(RANK)
    worst = min(range(len(known)), key=lambda r: known[r].smallest_correlation)
    c = known[worst]
    if c.smallest_correlation <= SINGULAR:
        columns = ", ".join(f"z{j + 1}" for j in c.redundant)
        return Hypothesis(RANK, "fails", f"{columns} are linear combinations of one another{_run(known, worst)}")
    evidence = (
        f"smallest eigenvalue λ = {c.eigenvalues[-1]:.3g} (largest {c.eigenvalues[0]:.3g}), of the correlation matrix "
        f"{c.smallest_correlation:.3g}; rows within M = {c.radius:.3g} of the mean{_run(known, worst)}"
    )
    return Hypothesis(RANK, "supported", evidence)


def non_gaussian(found: Measured) -> Hypothesis:
    """Is at most one component within sampling error of a Gaussian?"""
    known = _known(found)
    if known is None:
        return too_few(GAUSSIAN)
    if all(len(c.non_gaussianity) < 2 for c in known):
        return Hypothesis(GAUSSIAN, "holds", "there is one component")
    # the second least non-Gaussian component decides
    second = [np.sort([*np.abs(c.non_gaussianity), np.inf])[1] / c.standard_error for c in known]
    worst = int(np.argmin(second))
    c = known[worst]
    score, error = np.abs(c.non_gaussianity) / c.standard_error, c.standard_error
    ranking = np.argsort(score, kind="stable")
    shown = ", ".join(f"component {i + 1}: {score[i]:.1f}" for i in ranking[:3])
    evidence = f"standard errors from a Gaussian, least first: {shown} (wanted {CLEAR:g} for all but one)"
    evidence += f", on {c.n_rows} rows{_run(known, worst)}"
    if score[ranking[1]] >= CLEAR:
        return Hypothesis(GAUSSIAN, "supported", evidence)
    surely = bool((np.abs(c.non_gaussianity)[ranking[:2]] + 2 * error < NEGLIGIBLE).all())
    return Hypothesis(GAUSSIAN, "fails" if surely else "unknown", evidence)


def separated(found: Measured, gaussian: Hypothesis) -> Hypothesis:
    """Do other starts lead ICA to the same components, and does the contrast fall between every two of them?"""
    known = _known(found)
    if known is None:
        return too_few(SEPARATED)
    if gaussian.answer == "fails":
        return Hypothesis(SEPARATED, "unknown", "not asked: the contrast is flat between Gaussian components")
    worst = min(range(len(known)), key=lambda r: _sharpness(known[r]))
    c = known[worst]
    i, j = _flattest(c)
    falls, error = float(c.curvature[i, j]), float(c.curvature_error[i, j])
    evidence = f"components of other starts correlate {c.unmixing.agreement:.3f} or more (wanted {SAME:g})"
    if len(c.non_gaussianity) > 1:
        evidence += (
            f"; the contrast is flattest between components {i + 1} and {j + 1}: curvature {falls:.3f} ± {error:.3f}"
        )
    evidence += _run(known, worst)
    if not c.unmixing.converged:
        return Hypothesis(SEPARATED, "unknown", f"ICA did not come to rest in {ITERATIONS} iterations; {evidence}")
    if _sharpness(c) >= 1:
        return Hypothesis(SEPARATED, "supported", evidence)
    if c.unmixing.tie or falls + 2 * error < FLAT * abs(c.non_gaussianity[[i, j]]).sum():
        return Hypothesis(SEPARATED, "fails", f"{evidence}; other components are as good")
    return Hypothesis(SEPARATED, "unknown", f"{evidence}; some starts end in poorer optima, or rows are too few")


def _flattest(c: Components) -> tuple[int, int]:
    """The pair of components between which the contrast falls least, in standard errors."""
    d = len(c.curvature)
    i, j = divmod(int(np.where(np.eye(d, dtype=bool), np.inf, c.curvature / c.curvature_error).argmin()), d)
    return i, j


def _sharpness(c: Components) -> float:
    """At least 1 when other starts agree and every pair of components has a clear curvature."""
    i, j = _flattest(c)
    clear = c.curvature[i, j] / (SHARP * c.curvature_error[i, j]) if len(c.curvature) > 1 else np.inf
    return float(min(c.unmixing.agreement / SAME, clear))


def independent(found: Measured) -> Hypothesis:
    """Are the components independent, as far as tanh and tanh² of pairs can tell?"""
    known = _known(found)
    if known is None:
        return too_few(INDEPENDENT)
    worst = max(range(len(known)), key=lambda r: known[r].dependence.max() / known[r].sampling_error)
    c = known[worst]
    i, j = (int(k) for k in np.unravel_index(c.dependence.argmax(), c.dependence.shape))
    largest, error = float(c.dependence.max()), c.sampling_error
    evidence = (
        f"largest correlation of tanh s or tanh² s between ICA components {largest:.3f} (components {i + 1} and "
        f"{j + 1}); independent ones stay below {error:.3f} on {c.n_rows} rows{_run(known, worst)}"
    )
    if largest > 2 * error:
        return Hypothesis(INDEPENDENT, "fails", evidence)
    return Hypothesis(INDEPENDENT, "supported" if largest <= error <= COARSE else "unknown", evidence)


def _known(found: Measured) -> list[Components] | None:
    known = [c for c in found if c is not None]
    return known if len(known) == len(found) else None


def _run(known: list[Components], worst: int) -> str:
    return f" (run {worst + 1}, the worst)" if len(known) > 1 else ""


def too_few(name: str) -> Hypothesis:
    """What can be said of a premise when rows are few."""
    return Hypothesis(name, "unknown", f"fewer than {ROWS_PER_LATENT} rows per latent, or than {LEAST_ROWS}")
