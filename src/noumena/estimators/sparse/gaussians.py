"""Gaussian mixtures with degenerate components, fitted: by expectation–maximisation, or by the zeros of a sparse code.

``mixture_of_masks`` serves codes in which an inactive latent is zero: rows with the same zeros are one component.
Nothing is iterated, nothing can go wrong but the threshold.

``DegenerateGaussians`` serves everything else. The likelihood of a mixture is unbounded where a component may collapse,
so scikit-learn's expectation–maximisation runs with a floor under the variances that is lowered in steps, each begun
where the last one ended, and from several starts. Then each component's rank is read off the widest gap in its
variances; what lies below the gap is the noise, and the mixture handed back has exactly none of it.

Reference: Xu et al. (2026), Definition 2.2. Renamed: ``λ, μ, Σ`` are ``weights, means, covariances``. Deviations: the
paper fits no mixture; it reads masks off the latents.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Int
from scipy.special import logsumexp
from sklearn.base import BaseEstimator, DensityMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.mixture import GaussianMixture
from sklearn.utils.validation import check_is_fitted, validate_data

from noumena import checks, seeds
from noumena.estimators.parameters import check_parameters, count, must_be, number
from noumena.mixtures import Mixture

THRESHOLD = 1e-3
ACCIDENTS = 3.0
"""A pattern this many times as frequent as accidents would make it is one of its own."""
FLOORS = (1e-1, 1e-2, 1e-3)
"""Floors under the variances, relative to the data's, before the estimator's own."""
STEADY = 1e-12
"""The smallest floor, relative to the largest variance, that a Cholesky factor survives."""


# ---- by zeros --------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class MaskMixture:
    """A mixture with one component per pattern of zeros; accidental and rare patterns have joined others."""

    mixture: Mixture
    masks: Bool[np.ndarray, "component latent"]
    counts: Int[np.ndarray, " component"]
    """Rows of each component, those that joined it included."""
    labels: Int[np.ndarray, " batch"]
    exact: Bool[np.ndarray, " batch"]
    """Rows with zeros wherever their component has them; means and covariances come from these."""


def mixture_of_masks(z_hat: Any, *, threshold: float = THRESHOLD, min_rows: int = 10) -> MaskMixture:
    """The mixture of sparse codes ``z_hat`` (batch, latent): one component per pattern of zeros, largest first.

    An entry counts as zero below ``threshold`` times the root mean square of its latent. An active latent falls there
    by accident in about that share of its rows: a pattern no more frequent than such accidents joins the larger pattern
    they happen in, and one with fewer than ``min_rows`` rows that which differs least. If none has as many, nothing is
    sparse, and one component holds all rows.

    >>> code = np.array([[1.0, 0], [3, 0], [0, 5], [0, 7], [0, 6]])
    >>> found = mixture_of_masks(code, min_rows=2)
    >>> found.masks.astype(int).tolist(), found.counts.tolist(), found.mixture.means.tolist()
    ([[0, 1], [1, 0]], [3, 2], [[0.0, 6.0], [2.0, 0.0]])
    """
    z = checks.table(z_hat, "z_hat", min_rows=2).astype(np.float64)
    threshold = checks.number(threshold, "threshold", minimum=0, maximum=1)
    least = checks.count(min_rows, "min_rows")
    size = np.sqrt((z**2).mean(axis=0))
    patterns, group, rows = np.unique(np.abs(z) > threshold * size, axis=0, return_inverse=True, return_counts=True)
    masks = _kept(patterns, rows, threshold, least)
    lost, idle = _beyond(patterns, masks), _beyond(masks, patterns).T
    residue = _beyond((z / np.where(size > 0, size, 1)) ** 2, masks)  # settles ties: what a mask would call zero
    labels = ((2 * lost + idle)[group.ravel()] + residue / (1 + residue)).argmin(axis=1)
    exact = lost[group.ravel(), labels] == 0
    counts = np.bincount(labels, minlength=len(masks))
    moments = [_moments(z[exact & (labels == j)], mask) for j, mask in enumerate(masks)]
    means, covariances = (np.stack(part) for part in zip(*moments, strict=True))
    return MaskMixture(Mixture(counts / len(z), means, covariances, fitted=True), masks, counts, labels, exact)


def _kept(patterns: np.ndarray, rows: np.ndarray, threshold: float, least: int) -> np.ndarray:
    """The patterns that are components, the most frequent first."""
    kept: list[int] = []
    for s in np.argsort(-rows, kind="stable"):
        if rows[s] < least:
            break
        larger = [m for m in kept if not (patterns[s] & ~patterns[m]).any()]
        missing = (patterns[larger] & ~patterns[s]).sum(axis=1)
        accidents = float((rows[larger] * threshold**missing).sum())
        if not larger or rows[s] > ACCIDENTS * accidents + least:
            kept.append(int(s))
    return patterns[kept] if kept else np.atleast_2d(patterns.any(axis=0))


def _beyond(rows: np.ndarray, masks: np.ndarray) -> np.ndarray:
    """How much each row has outside of each mask."""
    return rows.astype(np.float32) @ (~masks).astype(np.float32).T


def _moments(rows: np.ndarray, mask: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean and covariance of rows, zero outside a mask; too few rows are helped by their covariance's diagonal."""
    rows = np.where(mask, rows, 0)
    mean, few = rows.mean(axis=0), int(mask.sum())
    covariance = (rows - mean).T @ (rows - mean) / len(rows)
    shrink = few / (few + len(rows)) if len(rows) < 2 * few + 2 else 0.0
    return mean, (1 - shrink) * covariance + shrink * np.diag(np.diag(covariance))


# ---- by expectation–maximisation -------------------------------------------------------------------------


@dataclass(eq=False, repr=False, kw_only=True)
class DegenerateGaussians(DensityMixin, BaseEstimator):
    """A Gaussian mixture whose components may be flat: weights, means, covariances and the rank of each.

    Parameters
    ----------
    n_components : int, default 2
        Components of the mixture.
    gap : float, default 30.0
        How many times smaller than the one before it, and than the largest, a variance of noise must be.
    floor : float, default 1e-6
        Least variance, relative to the data's mean variance.
    axes : bool, default False
        Whether every support is the span of the latents that move in it.
    n_restarts, max_iter : int
        Starts, of which the best is kept, and steps of expectation–maximisation of each.
    random_state : int, numpy generator or None
        Seed of the starts.

    Attributes
    ----------
    mixture_, ranks_ : Mixture, array (component,)
        The mixture with exactly singular covariances, and their ranks.
    covariances_, noise_ : arrays
        Covariances with their noise, and the variance per component that was taken for noise.
    converged_, lower_bound_, restart_bounds_ : bool, float, array
        Whether the best start converged, its mean log-density, and that of all.

    Examples
    --------
    >>> x = np.random.default_rng(0).normal(size=(200, 2)) * [1.0, 1e-6]
    >>> DegenerateGaussians(1).fit(x).ranks_.tolist()
    [1]
    """

    __no_type_check__ = True  # parameters are checked by ``fit``, as scikit-learn wants, never by ``__init__``

    n_components: int = field(default=2, kw_only=False, metadata=must_be(checks.count))
    gap: float = number(30.0, minimum=1)
    floor: float = number(1e-6, minimum=STEADY, maximum=1)
    axes: bool = False
    n_restarts: int = count(5)
    max_iter: int = count(300)
    random_state: Any = 0

    def fit(self, X: Any, y: Any = None) -> DegenerateGaussians:
        """Fit the mixture to rows ``X`` (batch, latent); ``y`` is ignored."""
        check_parameters(self)
        k = self.n_components
        X = validate_data(self, X, dtype=np.float64, ensure_min_samples=2)
        checks.require(len(X) > k, f"{k} components must have more rows than that.", f"{len(X)} rows")
        unit = float(np.sqrt(X.var(axis=0).mean()))
        checks.require(unit > 0, "X must vary.", "rows that are all equal")
        seed = seeds.seed_of(self.random_state)
        fits = [self._annealed(X / unit, k, self.floor, seed, i) for i in range(self.n_restarts)]
        self.restart_bounds_ = np.array([model.score(X / unit) for model in fits]) - X.shape[1] * np.log(unit)
        best = fits[int(self.restart_bounds_.argmax())]
        self.converged_, self.lower_bound_ = bool(best.converged_), float(self.restart_bounds_.max())
        self._flatten(best, unit, self.gap)
        return self

    def _annealed(self, X: np.ndarray, k: int, floor: float, seed: int, restart: int) -> GaussianMixture:
        """One fit from one start, the floor lowered in steps."""
        state = int(seeds.numpy_generator(seed, "degenerate gaussians", restart).integers(seeds.LARGEST))
        start: dict[str, Any] = {"init_params": "k-means++" if restart else "kmeans"}
        for level in (*(f for f in FLOORS if f > floor), floor):
            model = GaussianMixture(k, reg_covar=level, max_iter=self.max_iter, tol=1e-6, random_state=state, **start)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ConvergenceWarning)  # told by converged_
                model.fit(X)
            start = {"weights_init": model.weights_, "means_init": model.means_, "precisions_init": model.precisions_}
        return model

    def _flatten(self, model: Any, unit: float, gap: float) -> None:
        """The mixture without noise, and its ranks."""
        covariances = model.covariances_ * unit**2
        flat = [_flat(covariance, gap, self.axes) for covariance in covariances]
        without_noise = np.stack([part[0] for part in flat])
        self.mixture_ = Mixture(model.weights_, model.means_ * unit, without_noise, fitted=True)
        self.ranks_ = np.array([part[1] for part in flat])
        self.noise_ = np.array([part[2] for part in flat])
        self.covariances_ = covariances

    def score_samples(self, X: Any) -> Float[np.ndarray, " batch"]:
        """Log-density of each row, noise included: without it flat components have none."""
        return np.asarray(logsumexp(self._joint(X), axis=1))

    def score(self, X: Any, y: Any = None) -> float:
        """Mean log-density."""
        return float(self.score_samples(X).mean())

    def predict_proba(self, X: Any) -> Float[np.ndarray, "batch component"]:
        """Probability of each component, given a row."""
        joint = self._joint(X)
        return np.exp(joint - logsumexp(joint, axis=1, keepdims=True))

    def predict(self, X: Any) -> Int[np.ndarray, " batch"]:
        """The likeliest component of each row."""
        return self._joint(X).argmax(axis=1)

    def _joint(self, X: Any) -> np.ndarray:
        check_is_fitted(self)
        X = np.asarray(validate_data(self, X, dtype=np.float64, reset=False))
        law, columns = self.mixture_, []
        for weight, mean, covariance in zip(law.weights, law.means, self.covariances_, strict=True):
            root = np.linalg.cholesky(covariance)
            scaled = np.linalg.solve(root, (X - mean).T)
            size = np.log(np.diag(root)).sum() + law.n_latents * np.log(2 * np.pi) / 2
            columns.append(np.log(weight) - (scaled**2).sum(axis=0) / 2 - size)
        return np.column_stack(columns)


def _flat(covariance: np.ndarray, gap: float, axes: bool) -> tuple[np.ndarray, int, float]:
    """A covariance without its noise, its rank, and the noise: what lies below the widest gap in its variances.

    >>> _flat(np.diag([4.0, 1e-6, 1.0]), 30.0, axes=False)[1:]
    (2, 1e-06)
    """
    if axes:
        variances = np.diag(covariance)
        moving = variances > _cut(np.sort(variances)[::-1], gap)
        noise = float(variances[~moving].mean()) if not moving.all() else 0.0
        return covariance * np.outer(moving, moving), int(moving.sum()), noise
    variances, directions = np.linalg.eigh(covariance)
    kept = variances > _cut(variances[::-1], gap)
    noise = float(variances[~kept].mean()) if not kept.all() else 0.0
    return (directions * np.where(kept, variances - noise, 0)) @ directions.T, int(kept.sum()), noise


def _cut(variances: np.ndarray, gap: float) -> float:
    """The largest of descending variances that is noise; −1 when there is no gap as wide as that."""
    if len(variances) < 2:
        return -1.0
    before, after = variances[:-1], np.maximum(variances[1:], np.finfo(float).tiny)
    ratios = before / after
    widest = int(ratios.argmax())
    return float(variances[widest + 1]) if ratios[widest] >= gap else -1.0
