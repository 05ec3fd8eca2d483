"""Gaps: does one learned latent know a factor, and no second one? MIG asks by information, SAP by prediction.

MIG: for every factor the gap between the two most informative latents, over the factor's entropy. SAP: for every
factor the gap between the two latents that predict it best, one at a time: by R² of a line for a continuous factor, by
the accuracy of a linear support vector machine for a discrete one. Both are means over the factors.

Reference: Chen et al. (2018), "Isolating sources of disentanglement in variational autoencoders"; Kumar et al. (2018),
"Variational inference of disentangled latent concepts from unlabeled observations".

**Deviations**. MIG: information is estimated by nearest neighbours, which needs no bins; ``estimator="bins"`` is the
public form, 20 bins of equal width. A continuous factor has no entropy to divide by: by neighbours it gets the share
1 − exp(−2 I), the squared correlation of Gaussians with as much information; by bins it is cut into as many bins as the
latents. SAP: R² is judged on held-out rows, as the accuracy always was, and latents are standardised before the
classifier, whose penalty falls on its offset too, so that the public form (``published=True``: latents as they are, and
squared correlations of all rows) changes with units and origins of the latents. Both: constant factors, where
the ratio is 0/0 or any prediction right, are left out. Constant latents take no part. Where fewer than two latents vary
the gap is to knowing nothing: no information, or a constant prediction; the public code has no second latent there.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float, Int

from noumena import checks, seeds
from noumena.ambiguity import Ambiguity
from noumena.deprecated import renamed
from noumena.metrics.factors import Factors, factors_of, in_range, pair
from noumena.metrics.neighbours import entropy, information_matrix, shares
from noumena.metrics.record import Claim, Record, surrounded

ESTIMATORS = ("neighbours", "bins")
HELD_OUT = 0.2
LARGEST = 1e6
"""Of latents that a linear classifier gets as they are: beyond, it does not come to rest."""
ROWS = 10_000
SOFTNESS = 0.01
"""Inverse strength of the penalty of the public classifier."""


@dataclass(frozen=True, kw_only=True)
class Gap(Record):
    """A score in [0, 1] and what it is made of.

    ``matrix`` (factor, latent) says how well every latent knows every factor. ``factors`` are those that vary,
    ``active`` the latents that do. For every varying factor, ``per_factor`` is the gap and ``best`` the two latents
    that it lies between (−1: none).
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
class MutualInformationGap(Gap):
    """MIG; ``matrix`` holds information as a share of each factor's, by the ``estimator`` named."""

    estimator: str

    @property
    def claims(self) -> tuple[Claim, ...]:
        """What the score is and supports."""
        supports = (
            "Each factor is known to one learned latent and to no second one; it "
            "does not say that a latent knows one factor only, and a factor held by two latents scores 0."
        )
        return (Claim("score", "MIG", (0.0, 1.0), self.forgives, supports),)


@dataclass(frozen=True, kw_only=True)
class SeparatedAttributePredictability(Gap):
    """SAP; ``matrix`` holds R² for continuous factors and accuracy for discrete ones, ``published`` or not."""

    held_out: bool
    published: bool

    @property
    def claims(self) -> tuple[Claim, ...]:
        """What the score is and supports."""
        supports = (
            "Each factor can be read off one learned latent by a line or by linear "
            "classes, and off no second one; a low value may be the line's fault: see the ceiling, which discrete "
            "factors with ordered values keep far below 1."
        )
        return (Claim("score", "SAP", (0.0, 1.0), self.forgives, supports),)


class Estimator(NamedTuple):
    """How information is estimated: by so many neighbours, or by so many bins."""

    name: str
    neighbours: int
    bins: int


# ---- rows and gaps -----------------------------------------------------------------------------------------------


def sample(z: Any, z_hat: Any, *, discrete: Any, rows: int, seed: int) -> tuple[Factors, np.ndarray]:
    """Factors and learned latents on at most ``rows`` rows, in an order that the seed decides."""
    truth = factors_of(z, discrete)
    values, z_hat = pair(truth, z_hat)
    checks.require(len(truth.varying) > 0, "Some factor must vary.", f"{values.shape[1]} constant columns of z")
    rng = seeds.numpy_generator(checks.count(seed, "seed", minimum=0), "rows of a metric")
    order = rng.permutation(len(values))[: checks.count(rows, "rows", minimum=10)]
    return truth.at(order), z_hat[order]


def two_best(
    known: Float[np.ndarray, "factor latent"],
) -> tuple[Float[np.ndarray, " factor"], Int[np.ndarray, "factor 2"]]:
    """The gap between the two largest of every row, and where they are (the first of equals); 0 when they are equal,
    unchanged by permuting the columns.

    >>> gaps, best = two_best(np.array([[0.25, 1.0, 0.5], [0.5, 0.0, 0.5]]))
    >>> gaps.tolist(), best.tolist()
    ([0.5, 0.0], [[1, 2], [0, 2]])
    """
    best = np.argsort(-known, axis=1, kind="stable")[:, :2]
    top = np.take_along_axis(known, best, axis=1)
    return top[:, 0] - top[:, 1], best


def _gaps(matrix: np.ndarray, truth: Factors, z_hat: np.ndarray, nothing: np.ndarray) -> dict[str, Any]:
    """The fields of a record; ``nothing`` is the level of knowing nothing of each factor, met where latents are few."""
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


@renamed(seed="random_state")
def mig(
    z: Any,
    z_hat: Any,
    *,
    discrete: Any = None,
    estimator: str = "neighbours",
    neighbours: int = 10,
    bins: int = 20,
    rows: int = ROWS,
    shuffles: int = 1,
    ceiling: bool = False,
    bootstrap: int = 0,
    random_state: Any = 0,
) -> MutualInformationGap:
    """Mutual information gap of learned latents ``z_hat`` against true factors ``z``, both (batch, dim).

    ``discrete`` says which factors are (by default their values decide); ``estimator`` is ``neighbours`` or ``bins``,
    the public form; at most ``rows`` rows are looked at, drawn at random. ``shuffles`` copies of ``z_hat`` with
    shuffled rows give the chance, ``bootstrap`` halves of the rows the uncertainty, ``ceiling=True`` the score of
    ``z`` itself. A constant factor is left out.

    >>> z = np.stack(np.divmod(np.arange(400) % 16, 4), axis=1)
    >>> mig(z, -2.0 * z[:, ::-1], estimator="bins").score, mig(z, z[:, [0, 1, 1]], estimator="bins").per_factor.round(9)
    (1.0, array([1., 0.]))
    """
    seed = seeds.seed_of(random_state)
    how = estimator_of(estimator, neighbours, bins)
    truth, z_hat = sample(z, z_hat, discrete=discrete, rows=rows, seed=seed)
    kinds = truth.told

    def measure(z: np.ndarray, z_hat: np.ndarray) -> MutualInformationGap:
        here = replace(truth, values=z)
        known = np.minimum(_known(here, z_hat, how), 1)
        forgives = Ambiguity("element-wise" if how.name == "neighbours" else "permutation+scaling")
        fields = _gaps(known, here, z_hat, np.zeros(z.shape[1]))
        return MutualInformationGap(**fields, kinds=kinds, estimator=how.name, forgives=forgives)

    return surrounded(measure, truth.values, z_hat, shuffles=shuffles, ceiling=ceiling, bootstrap=bootstrap, seed=seed)


def estimator_of(name: str, neighbours: int, bins: int) -> Estimator:
    """An estimator of information, checked."""
    name = checks.one_of(name, "estimator", ESTIMATORS)
    return Estimator(name, checks.count(neighbours, "neighbours"), checks.count(bins, "bins", minimum=2))


def information(truth: Factors, z_hat: np.ndarray, how: Estimator) -> np.ndarray:
    """Mutual information (factor, latent) in nats by either estimator; 0 for what is constant."""
    if how.name == "neighbours":
        return information_matrix(truth.values, z_hat, truth.discrete, neighbours=how.neighbours)
    latents = [binned(column, how.bins) for column in z_hat.T]
    return np.array([[shared_information(label, x) for x in latents] for label in _labels(truth, how.bins)])


def _known(truth: Factors, z_hat: np.ndarray, how: Estimator) -> np.ndarray:
    """Information as a share of what there is to know."""
    matrix = information(truth, z_hat, how)
    if how.name == "neighbours":
        return shares(matrix, truth.values, truth.discrete)
    whole = np.array([entropy(label) for label in _labels(truth, how.bins)])
    return matrix / np.where(whole > 0, whole, np.inf)[:, None]


def _labels(truth: Factors, bins: int) -> list[np.ndarray]:
    """Every factor as labels 0, 1, …: its values, or bins of a continuous one."""
    kinds = zip(truth.values.T, truth.discrete, strict=True)
    return [np.unique(x, return_inverse=True)[1] if classes else binned(x, bins) for x, classes in kinds]


def binned(column: Float[np.ndarray, " batch"], bins: int) -> Int[np.ndarray, " batch"]:
    """The bin of each number, 0, 1, …, of so many of equal width from the least to the largest; all 0 for a constant.

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
    """Mutual information in nats of two labels 0, 1, … by their frequencies; 0 when independent, symmetric, unchanged
    by renaming.

    >>> round(shared_information(np.array([0, 0, 1, 1]), np.array([0, 0, 3, 3])), 4)  # log 2
    0.6931
    """
    width = int(second.max()) + 1
    return max(0.0, entropy(first) + entropy(second) - entropy(first * width + second))


# ---- SAP ---------------------------------------------------------------------------------------------------------


@renamed(seed="random_state")
def sap(
    z: Any,
    z_hat: Any,
    *,
    discrete: Any = None,
    held_out: bool = True,
    published: bool = False,
    rows: int = ROWS,
    shuffles: int = 1,
    ceiling: bool = False,
    bootstrap: int = 0,
    random_state: Any = 0,
) -> SeparatedAttributePredictability:
    """Separated attribute predictability of learned latents ``z_hat`` against true factors ``z``, both (batch, dim).

    ``discrete`` says which factors are (by default their values decide); predictions are judged on a fifth of the rows
    that they were not fitted on, or in-sample; ``published`` leaves latents in their units and takes squared
    correlations of all rows. ``shuffles`` copies of ``z_hat`` with shuffled rows give the chance, ``bootstrap`` halves
    of the rows the uncertainty, ``ceiling=True`` the value of ``z``. At most ``rows`` rows are looked at.
    A constant factor is left out.

    >>> z = np.random.default_rng(0).normal(size=(400, 2))
    >>> round(sap(z, -2 * z[:, ::-1]).score, 1), sap(z, z[:, [0, 1, 1]]).per_factor.round(1).tolist()
    (1.0, [1.0, 0.0])
    """
    seed = seeds.seed_of(random_state)
    truth, z_hat = sample(z, z_hat, discrete=discrete, rows=rows, seed=seed)
    kinds = truth.told
    by_units = published and any(truth.discrete)
    large = float(np.abs(z_hat).max())
    checks.require(not by_units or large < LARGEST, "Latents in their units must be below 1e6.", f"{large:.3g}")
    forgives = Ambiguity("signed permutation" if by_units else "permutation+scaling")

    def measure(z: np.ndarray, z_hat: np.ndarray) -> SeparatedAttributePredictability:
        """The score of latents in the place of the learned ones."""
        here, held = replace(truth, values=z), max(2, round(HELD_OUT * len(z)))
        everyone = np.arange(len(z))
        fit, judge = (everyone[held:], everyone[:held]) if held_out else (everyone, everyone)
        matrix, nothing = _predicted(here, z_hat, fit, judge, published)
        fields = _gaps(matrix, here, z_hat, nothing)
        how = {"kinds": kinds, "held_out": held_out, "published": published, "forgives": forgives}
        return SeparatedAttributePredictability(**fields, **how)

    return surrounded(measure, truth.values, z_hat, shuffles=shuffles, ceiling=ceiling, bootstrap=bootstrap, seed=seed)


def _predicted(
    truth: Factors, z_hat: np.ndarray, fit: np.ndarray, judge: np.ndarray, published: bool
) -> tuple[np.ndarray, np.ndarray]:
    """How well each latent predicts each factor (factor, latent), and how well a constant does."""
    everyone = np.arange(len(z_hat))
    lines = (everyone, everyone) if published else (fit, judge)
    matrix = line_fit(standardised(z_hat, lines[0]), standardised(truth.values, lines[0]), *lines)
    nothing, inputs = np.zeros(len(matrix)), z_hat if published else standardised(z_hat, fit)
    varies = np.ptp(inputs[fit], axis=0) > 0
    for j in np.flatnonzero(truth.discrete):
        target = np.unique(truth.values[:, j], return_inverse=True)[1]
        nothing[j] = matrix[j] = _constant_accuracy(target[fit], target[judge])
        matrix[j, varies] = [_accuracy(x[fit], target[fit], x[judge], target[judge]) for x in inputs.T[varies]]
    return matrix, nothing


def standardised(z_hat: Float[np.ndarray, "batch latent"], fit: np.ndarray) -> Float[np.ndarray, "batch latent"]:
    """Latents with mean 0 and variance 1 over the rows ``fit``; those constant there are 0."""
    z_hat = in_range(z_hat)
    spread = np.where(np.ptp(z_hat[fit], axis=0) > 0, z_hat[fit].std(axis=0), np.inf)
    return (z_hat - z_hat[fit].mean(axis=0)) / spread


def line_fit(
    latents: Float[np.ndarray, "batch latent"],
    targets: Float[np.ndarray, "batch factor"],
    fit: Int[np.ndarray, " fitted"],
    judge: Int[np.ndarray, " judged"],
) -> Float[np.ndarray, "factor latent"]:
    """R² on the rows ``judge`` of the line from each latent to each target, both standardised on the rows ``fit``;
    below 0 counts 0. In the same rows it is the squared correlation. Equal latents have equal numbers to the last
    digit, whatever stands beside them.

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
    """``targetsᵀ latents``, one latent at a time: in one product of matrices a column's rounding hangs on its place."""
    columns = np.ascontiguousarray(latents.T)
    return np.stack([targets.T @ column for column in columns], axis=1)


def _constant_accuracy(target: np.ndarray, truth: np.ndarray) -> float:
    values, counts = np.unique(target, return_counts=True)
    return float(np.mean(truth == values[counts.argmax()]))


def _accuracy(latent: np.ndarray, target: np.ndarray, unseen: np.ndarray, truth: np.ndarray) -> float:
    """Accuracy on ``unseen`` of the public classifier: a linear support vector machine for each value against the rest,
    values weighted by their rarity."""
    from sklearn.svm import LinearSVC

    if np.ptp(target) == 0:
        return float(np.mean(truth == target[0]))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a fit that stops at its last step is judged as it is
        machine = LinearSVC(C=SOFTNESS, class_weight="balanced", dual="auto").fit(latent[:, None], target)
    return float(np.mean(machine.predict(unseen[:, None]) == truth))
