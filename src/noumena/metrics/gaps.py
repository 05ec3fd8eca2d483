"""MIG and SAP: is a factor known to one learned latent, and to no second one?

Mutual information gap: for every factor the gap between the two most informative latents, over the factor's entropy.
Separated attribute predictability: for every factor the gap between the two latents that predict it best, one at a
time: by R² of a linear regression for a continuous factor, by the accuracy of a linear support vector machine for a
discrete one. Both are means over the factors.

References
----------
Chen et al. (2018), "Isolating sources of disentanglement in variational autoencoders"; Kumar et al. (2018),
"Variational inference of disentangled latent concepts from unlabeled observations".

Deviations. MIG: information is estimated by nearest neighbours, which needs no bins; ``estimator="bins"`` is the
public
form, 20 bins of equal width. A continuous factor has no entropy to divide by: by neighbours it gets 1 − exp(−2 I), the
squared correlation of Gaussians with as much information; by bins it is cut into as many bins as the latents. SAP: R²
is computed on held-out rows, as the accuracy always was, and latents are standardised before the classifier, whose
penalty falls on its intercept too, so that the public form (``published=True``: latents as they are, squared
correlations of all rows) changes with units and origins of the latents. Both: constant factors, where the ratio is 0/0
or any prediction right, and constant latents are left out. Where fewer than two latents vary the second is replaced by
no information, or a constant prediction; the public code fails there.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple

import numpy as np
from jaxtyping import Float, Int

from noumena import checks, seeds
from noumena.ambiguity import Ambiguity
from noumena.deprecated import renamed
from noumena.metrics.factors import FactorTable, factors_of, pair
from noumena.metrics.neighbours import entropy, information_matrix, shares
from noumena.metrics.preprocessing import in_range, split_rows, standardised
from noumena.metrics.record import MetricRecord, evaluate

ESTIMATORS = ("neighbours", "bins")
LARGEST = 1e6
"""Of latents in their own units: beyond, the linear classifier does not converge."""
ROWS = 10_000
PUBLISHED_C = 0.01
"""Inverse regularisation of the public classifier."""


@dataclass(frozen=True, kw_only=True)
class TopTwoGap(MetricRecord):
    """Result of ``mig`` or ``sap``.

    Attributes
    ----------
    score : float
        Mean gap over the varying factors, in [0, 1].
    per_factor : array of shape (n_varying,)
        The gap of every varying factor.
    best : array of shape (n_varying, 2)
        The two latents that it lies between; −1: none.
    matrix : array of shape (n_factors, n_latents)
        How well every latent knows every factor.
    factors, active : array of int
        Factors and latents that vary.
    rows, kinds
        Rows looked at, and which factors were discrete.
    """

    score: float
    per_factor: np.ndarray
    best: np.ndarray
    matrix: np.ndarray
    factors: np.ndarray
    active: np.ndarray
    rows: int
    kinds: str

    def __str__(self) -> str:
        k, d = self.matrix.shape
        used = f"{len(self.active)} of {d} latents and {len(self.factors)} of {k} factors vary"
        return f"{super().__str__()}; {used}, {self.rows} rows. {self.kinds}"


@dataclass(frozen=True, kw_only=True)
class MutualInformationGap(TopTwoGap):
    """Result of ``mig``.

    Attributes
    ----------
    score, per_factor, best, matrix, factors, active, rows, kinds
        As in ``TopTwoGap``; ``matrix`` is mutual information over each factor's entropy.
    estimator : str
        How mutual information was estimated.
    """

    TITLE: ClassVar[str] = "MIG"
    SUPPORTS: ClassVar[str] = (
        "Each factor is known to one learned latent and to no second one; it "
        "does not say that a latent knows one factor only, and a factor held by two latents scores 0."
    )

    estimator: str


@dataclass(frozen=True, kw_only=True)
class SeparatedAttributePredictability(TopTwoGap):
    """Result of ``sap``.

    Attributes
    ----------
    score, per_factor, best, matrix, factors, active, rows, kinds
        As in ``TopTwoGap``; ``matrix`` is R² of continuous factors and accuracy of discrete ones.
    held_out, published : bool
        How the predictors were scored.
    """

    TITLE: ClassVar[str] = "SAP"
    SUPPORTS: ClassVar[str] = (
        "Each factor can be read off one learned latent by a line or by linear "
        "classes, and off no second one; a low value may be the line's fault: see the ceiling, which discrete "
        "factors with ordered values keep far below 1."
    )

    held_out: bool
    published: bool


class InformationEstimator(NamedTuple):
    """How mutual information is estimated: by so many neighbours, or by so many bins."""

    name: str
    neighbours: int
    bins: int


# ---- rows and gaps -----------------------------------------------------------------------------------------------


def sample(z: Any, z_hat: Any, *, discrete: Any, max_rows: int, seed: int) -> tuple[FactorTable, np.ndarray]:
    """Factors and learned latents on at most ``max_rows`` rows, in random order."""
    truth = factors_of(z, discrete)
    values, z_hat = pair(truth, z_hat)
    checks.require(len(truth.varying) > 0, "Some factor must vary.", f"{values.shape[1]} constant columns of z")
    rng = seeds.numpy_generator(checks.count(seed, "seed", minimum=0), "rows of a metric")
    order = rng.permutation(len(values))[: checks.count(max_rows, "max_rows", minimum=10)]
    return truth.at(order), z_hat[order]


def two_best(
    known: Float[np.ndarray, "factor latent"],
) -> tuple[Float[np.ndarray, " factor"], Int[np.ndarray, "factor 2"]]:
    """The gap between the two largest of every row, and their columns (the first of equals); 0 when they are equal.

    >>> gaps, best = two_best(np.array([[0.25, 1.0, 0.5], [0.5, 0.0, 0.5]]))
    >>> gaps.tolist(), best.tolist()
    ([0.5, 0.0], [[1, 2], [0, 2]])
    """
    best = np.argsort(-known, axis=1, kind="stable")[:, :2]
    top = np.take_along_axis(known, best, axis=1)
    return top[:, 0] - top[:, 1], best


def _gaps(matrix: np.ndarray, truth: FactorTable, z_hat: np.ndarray, nothing: np.ndarray) -> dict[str, Any]:
    """The fields of a record; ``nothing`` is what each factor scores without a latent."""
    factors, active = truth.varying, np.flatnonzero(np.ptp(z_hat, axis=0) > 0)
    missing = max(0, 2 - len(active))
    padded = np.c_[matrix[:, active], np.repeat(nothing[:, None], missing, axis=1)]
    per_factor, best = two_best(padded[factors])
    return {
        "score": float(per_factor.mean()) if len(factors) else 0.0,
        "per_factor": per_factor,
        "best": np.append(active, [-1] * missing).astype(int)[best],
        "matrix": matrix,
        "factors": factors,
        "active": active,
        "rows": len(z_hat),
    }


# ---- MIG ---------------------------------------------------------------------------------------------------------


@renamed(seed="random_state", bootstrap="subsamples", rows="max_rows")
def mig(
    z: Any,
    z_hat: Any,
    *,
    discrete: Any = None,
    estimator: str = "neighbours",
    neighbours: int = 10,
    bins: int = 20,
    max_rows: int = ROWS,
    shuffles: int = 1,
    ceiling: bool = False,
    subsamples: int = 0,
    random_state: Any = 0,
) -> MutualInformationGap:
    """Mutual information gap of learned latents ``z_hat`` against true factors ``z``.

    Parameters
    ----------
    z : array, DataFrame or FactorTable of shape (n_samples, n_factors)
        True factors; constant ones are left out.
    z_hat : array of shape (n_samples, n_latents)
        Learned latents of the same rows.
    discrete : bool, list of bool, list of int or list of str, optional
        Which factors are discrete; detected by default.
    estimator : {"neighbours", "bins"}
        How mutual information is estimated.
    neighbours, bins : int
        Number of neighbours, or of bins of equal width.
    max_rows : int
        Larger tables are subsampled to so many rows.
    shuffles, subsamples : int
        Row shuffles for the chance level and half-samples for the standard error; 0: not measured.
    ceiling : bool
        Also score ``z`` in place of ``z_hat``.
    random_state : int, Generator or None
        Seed of rows, shuffles and subsamples.

    Returns
    -------
    MutualInformationGap

    Examples
    --------
    >>> z = np.stack(np.divmod(np.arange(400) % 16, 4), axis=1)
    >>> mig(z, -2.0 * z[:, ::-1], estimator="bins").score, mig(z, z[:, [0, 1, 1]], estimator="bins").per_factor.round(9)
    (1.0, array([1., 0.]))
    """
    seed = seeds.seed_of(random_state)
    how = information_estimator(estimator, neighbours, bins)
    truth, z_hat = sample(z, z_hat, discrete=discrete, max_rows=max_rows, seed=seed)
    kinds = truth.description

    def measure(z: np.ndarray, z_hat: np.ndarray) -> MutualInformationGap:
        here = replace(truth, values=z)
        known = np.minimum(_known(here, z_hat, how), 1)
        forgives = Ambiguity("element-wise" if how.name == "neighbours" else "permutation+scaling")
        fields = _gaps(known, here, z_hat, np.zeros(z.shape[1]))
        return MutualInformationGap(**fields, kinds=kinds, estimator=how.name, forgives=forgives)

    return evaluate(measure, truth.values, z_hat, shuffles=shuffles, ceiling=ceiling, subsamples=subsamples, seed=seed)


def information_estimator(name: str, neighbours: int, bins: int) -> InformationEstimator:
    """The estimator of this name, with its parameters checked."""
    name = checks.one_of(name, "estimator", ESTIMATORS)
    return InformationEstimator(name, checks.count(neighbours, "neighbours"), checks.count(bins, "bins", minimum=2))


def information(truth: FactorTable, z_hat: np.ndarray, how: InformationEstimator) -> np.ndarray:
    """Mutual information (factor, latent) in nats by either estimator; 0 for what is constant."""
    if how.name == "neighbours":
        return information_matrix(truth.values, z_hat, truth.discrete, neighbours=how.neighbours)
    latents = [binned(column, how.bins) for column in z_hat.T]
    return np.array([[shared_information(label, x) for x in latents] for label in _labels(truth, how.bins)])


def _known(truth: FactorTable, z_hat: np.ndarray, how: InformationEstimator) -> np.ndarray:
    """Normalised mutual information (factor, latent)."""
    matrix = information(truth, z_hat, how)
    if how.name == "neighbours":
        return shares(matrix, truth.values, truth.discrete)
    entropies = np.array([entropy(label) for label in _labels(truth, how.bins)])
    return matrix / np.where(entropies > 0, entropies, np.inf)[:, None]


def _labels(truth: FactorTable, bins: int) -> list[np.ndarray]:
    """Every factor as labels 0, 1, …: its values, or bins of a continuous one."""
    kinds = zip(truth.values.T, truth.discrete, strict=True)
    return [np.unique(x, return_inverse=True)[1] if classes else binned(x, bins) for x, classes in kinds]


def binned(column: Float[np.ndarray, " batch"], bins: int) -> Int[np.ndarray, " batch"]:
    """Equal-width bin of each number, 0, 1, …; all 0 for a constant.

    Examples
    --------
    >>> binned(np.array([0.0, 0.9, 1.0, 3.9, 4.0]), 4).tolist()
    [0, 0, 1, 3, 3]
    """
    if np.ptp(column) == 0:
        return np.zeros(len(column), dtype=np.int64)
    scaled = in_range(column[:, None])[:, 0]
    if np.ptp(scaled) < bins * np.spacing(np.abs(scaled).max()):  # too few numbers in between for bins
        return np.unique(scaled, return_inverse=True)[1]
    return np.digitize(scaled, np.histogram_bin_edges(scaled, bins)[:-1]) - 1


def shared_information(first: Int[np.ndarray, " batch"], second: Int[np.ndarray, " batch"]) -> float:
    """Mutual information in nats of two labellings by their frequencies; 0 when independent, symmetric, blind to
    renaming.

    Examples
    --------
    >>> round(shared_information(np.array([0, 0, 1, 1]), np.array([0, 0, 3, 3])), 4)  # log 2
    0.6931
    """
    width = int(second.max()) + 1
    return max(0.0, entropy(first) + entropy(second) - entropy(first * width + second))


# ---- SAP ---------------------------------------------------------------------------------------------------------


@renamed(seed="random_state", bootstrap="subsamples", rows="max_rows")
def sap(
    z: Any,
    z_hat: Any,
    *,
    discrete: Any = None,
    held_out: bool = True,
    published: bool = False,
    max_rows: int = ROWS,
    shuffles: int = 1,
    ceiling: bool = False,
    subsamples: int = 0,
    random_state: Any = 0,
) -> SeparatedAttributePredictability:
    """Separated attribute predictability of learned latents ``z_hat`` against true factors ``z``.

    Parameters
    ----------
    z : array, DataFrame or FactorTable of shape (n_samples, n_factors)
        True factors; constant ones are left out.
    z_hat : array of shape (n_samples, n_latents)
        Learned latents of the same rows.
    discrete : bool, list of bool, list of int or list of str, optional
        Which factors are discrete; detected by default.
    held_out : bool
        Score on a fifth of the rows that the predictors were not fitted on.
    published : bool
        The public form: latents in their own units, squared correlations of all rows.
    max_rows : int
        Larger tables are subsampled to so many rows.
    shuffles, subsamples : int
        Row shuffles for the chance level and half-samples for the standard error; 0: not measured.
    ceiling : bool
        Also score ``z`` in place of ``z_hat``.
    random_state : int, Generator or None
        Seed of rows, shuffles and subsamples.

    Returns
    -------
    SeparatedAttributePredictability

    Examples
    --------
    >>> z = np.random.default_rng(0).normal(size=(400, 2))
    >>> round(sap(z, -2 * z[:, ::-1]).score, 1), sap(z, z[:, [0, 1, 1]]).per_factor.round(1).tolist()
    (1.0, [1.0, 0.0])
    """
    seed = seeds.seed_of(random_state)
    truth, z_hat = sample(z, z_hat, discrete=discrete, max_rows=max_rows, seed=seed)
    kinds = truth.description
    by_units = published and any(truth.discrete)
    large = float(np.abs(z_hat).max())
    checks.require(not by_units or large < LARGEST, "Latents in their units must be below 1e6.", f"{large:.3g}")
    forgives = Ambiguity("signed permutation" if by_units else "permutation+scaling")

    def measure(z: np.ndarray, z_hat: np.ndarray) -> SeparatedAttributePredictability:
        """The score of latents in the place of the learned ones."""
        here = replace(truth, values=z)
        matrix, nothing = _predicted(here, z_hat, *split_rows(np.arange(len(z)), held_out), published)
        fields = _gaps(matrix, here, z_hat, nothing)
        how = {"kinds": kinds, "held_out": held_out, "published": published, "forgives": forgives}
        return SeparatedAttributePredictability(**fields, **how)

    return evaluate(measure, truth.values, z_hat, shuffles=shuffles, ceiling=ceiling, subsamples=subsamples, seed=seed)


def _predicted(
    truth: FactorTable, z_hat: np.ndarray, fit: np.ndarray, judge: np.ndarray, published: bool
) -> tuple[np.ndarray, np.ndarray]:
    """How well each latent predicts each factor (factor, latent), and how well a constant does."""
    everyone = np.arange(len(z_hat))
    lines = (everyone, everyone) if published else (fit, judge)
    matrix = line_fit(standardised(z_hat, lines[0]), standardised(truth.values, lines[0]), *lines)
    nothing, inputs = np.zeros(len(matrix)), z_hat if published else standardised(z_hat, fit)
    varies = np.ptp(inputs[fit], axis=0) > 0
    for j in np.flatnonzero(truth.discrete):
        target = np.unique(truth.values[:, j], return_inverse=True)[1]
        nothing[j] = matrix[j] = np.mean(target[judge] == np.bincount(target[fit]).argmax())
        matrix[j, varies] = [_accuracy(x[fit], target[fit], x[judge], target[judge]) for x in inputs.T[varies]]
    return matrix, nothing


def line_fit(
    latents: Float[np.ndarray, "batch latent"],
    targets: Float[np.ndarray, "batch factor"],
    fit: Int[np.ndarray, " fitted"],
    judge: Int[np.ndarray, " judged"],
) -> Float[np.ndarray, "factor latent"]:
    """R² on the rows ``judge`` of the regression of each target on each latent, both standardised on the rows ``fit``;
    below 0 counts 0, and in-sample it is the squared correlation. Equal latents score bit-identically.

    >>> latents, rows = np.array([[-1.0, -1], [-1, 1], [1, -1], [1, 1]]), np.arange(4)
    >>> line_fit(latents, latents @ [[0.8], [0.6]], rows, rows).round(2).tolist()
    [[0.64, 0.36]]
    """
    slope = _products(targets[fit], latents[fit]) / len(fit)
    x, y = latents[judge], targets[judge]
    left = (y**2).mean(axis=0)[:, None] - 2 * slope * _products(y, x) / len(judge) + slope**2 * (x**2).mean(axis=0)
    varies = np.ptp(y, axis=0) > 0
    spread = np.where(varies, y.var(axis=0), np.inf)[:, None]
    return np.where(varies[:, None], 1 - left / spread, 0).clip(0, 1)


def _products(
    targets: Float[np.ndarray, "batch factor"], latents: Float[np.ndarray, "batch latent"]
) -> Float[np.ndarray, "factor latent"]:
    """``targetsᵀ latents``, one latent at a time: in one matrix product a column's rounding depends on its position."""
    columns = np.ascontiguousarray(latents.T)
    return np.stack([targets.T @ column for column in columns], axis=1)


def _accuracy(latent: np.ndarray, target: np.ndarray, unseen: np.ndarray, truth: np.ndarray) -> float:
    """Accuracy on ``unseen`` of the public classifier, a class-balanced one-vs-rest linear support vector machine."""
    from sklearn.svm import LinearSVC

    if np.ptp(target) == 0:
        return float(np.mean(truth == target[0]))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a fit that reaches max_iter is scored as it is
        classifier = LinearSVC(C=PUBLISHED_C, class_weight="balanced", dual="auto").fit(latent[:, None], target)
    return float(np.mean(classifier.predict(unseen[:, None]) == truth))
