"""Modularity and explicitness: does a learned latent know one factor only, and can factors be read off all latents?

Modularity of a latent: one minus the sum of its squared mutual informations with all other factors, over their number
times that with its best one. Explicitness of a discrete factor: the AUROC of a logistic regression from all latents,
one value against the rest, scaled from 0 for chance to 1, averaged over values; of a continuous one the R² of a linear
regression.

References
----------
Ridgeway and Mozer (2018), "Learning deep disentangled embeddings with the F-statistic loss".

Deviations: information is estimated by nearest neighbours; ``estimator="bins"`` is the public form, 20 bins of equal
width. Constant latents are left out of the mean, where the public code counts them 0; a latent that varies and knows
nothing counts 0 here too. The paper fits one regression for each value against the rest (``regression="one-vs-
rest"``),
which cannot single out a middle value of an ordered factor, so that even the truth scores about one half; the default
is multinomial. The public code reports the AUROC itself, (1 + explicitness)/2. Latents are whitened rather than
standardised before the fit, so that its penalty forgives every affine map. Values met in the fitted or in the held-out
rows only are left out, where the public code fails. Below 0 counts 0. Constant factors are left out.
"""

from __future__ import annotations

import warnings
from collections import namedtuple
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from jaxtyping import Float

from noumena import checks, seeds
from noumena.ambiguity import Ambiguity
from noumena.deprecated import renamed
from noumena.metrics.factors import FactorTable
from noumena.metrics.gaps import ROWS, InformationEstimator, information, information_estimator, sample
from noumena.metrics.preprocessing import split_rows, standardised, variance_explained, whitened
from noumena.metrics.record import MetricRecord, ScoreClaim, evaluate

REGRESSIONS = ("multinomial", "one-vs-rest")
MAX_ITER = 500
"""Of a logistic regression."""


ModularityParts = namedtuple("ModularityParts", "modularity explicitness")


@dataclass(frozen=True, kw_only=True)
class Modularity(MetricRecord):
    """Result of ``modularity``.

    Modularity forgives any element-wise map (by bins: scaling), explicitness any affine one, and the two together
    permutation and scaling.

    Attributes
    ----------
    modularity, explicitness : float
        The two scores, in [0, 1].
    per_latent, best : array of shape (n_active,)
        Modularity of every active latent, and the factor that it knows best; −1: none.
    per_factor : array of shape (n_varying,)
        Explicitness of every varying factor.
    matrix : array of shape (n_factors, n_latents)
        Mutual information in nats.
    factors, active : array of int
        Factors and latents that vary.
    estimator, regression, held_out, rows, kinds
        How the scores were computed, and on how many rows.
    """

    PARTS: ClassVar[Any] = ModularityParts

    modularity: float
    explicitness: float
    per_latent: np.ndarray
    best: np.ndarray
    per_factor: np.ndarray
    matrix: np.ndarray
    factors: np.ndarray
    active: np.ndarray
    estimator: str
    regression: str
    held_out: bool
    rows: int
    kinds: str

    @property
    def claims(self) -> tuple[ScoreClaim, ...]:
        """What the two scores are and support."""
        alone = Ambiguity("element-wise" if self.estimator == "neighbours" else "permutation+scaling")
        one_factor = (
            "Far above chance: each learned latent knows one factor only; it does not say "
            "that all factors are known, and latents of noise count as much as others."
        )
        readable = (
            "Every factor can be read off all learned latents together by a linear "
            "predictor; it says nothing about which latent knows what."
        )
        return (
            ScoreClaim("modularity", "Modularity", (0.0, 1.0), alone, one_factor),
            ScoreClaim("explicitness", "Explicitness", (0.0, 1.0), Ambiguity("affine"), readable),
        )

    def __str__(self) -> str:
        k, d = self.matrix.shape
        used = f"{len(self.active)} of {d} latents and {len(self.factors)} of {k} factors vary"
        how = "held-out" if self.held_out else "in-sample"
        return f"{super().__str__()}; {used}, {self.rows} rows, explicitness {how}. {self.kinds}"


@renamed(seed="random_state", bootstrap="subsamples", rows="max_rows")
def modularity(
    z: Any,
    z_hat: Any,
    *,
    discrete: Any = None,
    estimator: str = "neighbours",
    neighbours: int = 10,
    bins: int = 20,
    regression: str = "multinomial",
    held_out: bool = True,
    max_rows: int = ROWS,
    shuffles: int = 1,
    ceiling: bool = False,
    subsamples: int = 0,
    random_state: Any = 0,
) -> Modularity:
    """Modularity and explicitness of learned latents ``z_hat`` against true factors ``z``.

    The chance level of modularity is far from 0, as some factor is always the best known, and varies between shuffles.

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
    regression : {"multinomial", "one-vs-rest"}
        The logistic regression of discrete factors.
    held_out : bool
        Score the regressions on a fifth of the rows that they were not fitted on.
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
    Modularity

    Examples
    --------
    >>> z = np.stack(np.divmod(np.arange(400) % 16, 4), axis=1)
    >>> modularity(z, -2.0 * z[:, ::-1], estimator="bins", shuffles=0).value
    ModularityParts(modularity=1.0, explicitness=1.0)
    """
    seed = seeds.seed_of(random_state)
    how, regression = (
        information_estimator(estimator, neighbours, bins),
        checks.one_of(regression, "regression", REGRESSIONS),
    )
    truth, z_hat = sample(z, z_hat, discrete=discrete, max_rows=max_rows, seed=seed)
    settings = {"regression": regression, "held_out": held_out, "kinds": truth.description}

    def measure(z: np.ndarray, z_hat: np.ndarray) -> Modularity:
        here = replace(truth, values=z)
        fields = _modular(here, z_hat, how) | _explicit(here, z_hat, regression, held_out) | settings
        return Modularity(**fields, estimator=how.name, rows=len(z), forgives=Ambiguity("permutation+scaling"))

    return evaluate(measure, truth.values, z_hat, shuffles=shuffles, ceiling=ceiling, subsamples=subsamples, seed=seed)


def _modular(truth: FactorTable, z_hat: np.ndarray, how: InformationEstimator) -> dict[str, Any]:
    """Modularity with its parts."""
    factors, active = truth.varying, np.flatnonzero(np.ptp(z_hat, axis=0) > 0)
    matrix = information(truth, z_hat, how)
    if not len(factors) or not len(active):
        none = {"modularity": 0.0, "per_latent": np.zeros(len(active)), "best": np.full(len(active), -1)}
        return none | {"matrix": matrix, "factors": factors, "active": active}
    known = matrix[np.ix_(factors, active)].T
    per_latent = one_factor(known)
    return {
        "modularity": float(per_latent.mean()),
        "per_latent": per_latent,
        "best": np.where(known.max(axis=1) > 0, factors[known.argmax(axis=1)], -1),
        "matrix": matrix,
        "factors": factors,
        "active": active,
    }


def one_factor(known: Float[np.ndarray, "latent factor"]) -> Float[np.ndarray, " latent"]:
    """1 where a latent knows one factor only, 0 where it knows all alike or none; invariant to scale and order.

    >>> one_factor(np.array([[2.0, 0, 0], [1, 1, 1], [0, 0, 0], [2, 1, 1]])).tolist()
    [1.0, 0.0, 0.0, 0.75]
    """
    best, others = known.max(axis=1), max(1, known.shape[1] - 1)
    share = known / np.where(best > 0, best, 1)[:, None]
    return np.where(best > 0, 1 - ((share**2).sum(axis=1) - 1) / others, 0.0)


# ---- explicitness ------------------------------------------------------------------------------------------------


def _explicit(truth: FactorTable, z_hat: np.ndarray, regression: str, held_out: bool) -> dict[str, Any]:
    """Explicitness with its parts."""
    fit, judge = split_rows(np.arange(len(z_hat)), held_out)
    latents, numbers = whitened(standardised(z_hat, fit), fit), standardised(truth.values, fit)
    scores = []
    for j in truth.varying:
        target = np.unique(truth.values[:, j], return_inverse=True)[1] if truth.discrete[j] else numbers[:, j]
        split = latents[fit], target[fit], latents[judge], target[judge]
        scores.append(_auroc(*split, regression) if truth.discrete[j] else _r2(*split))
    return {"explicitness": float(np.mean(scores)) if scores else 0.0, "per_factor": np.array(scores, dtype=np.float64)}


def _r2(inputs: np.ndarray, target: np.ndarray, unseen: np.ndarray, truth: np.ndarray) -> float:
    """R² of a linear regression of a standardised target from whitened ``inputs``; below 0 counts 0."""
    predicted = unseen @ (inputs.T @ target / len(inputs))
    return max(0.0, float(variance_explained(truth[:, None], predicted[:, None])[0]))


def _auroc(inputs: np.ndarray, target: np.ndarray, unseen: np.ndarray, truth: np.ndarray, regression: str) -> float:
    """Mean of 2·AUROC − 1 over the values of a factor, each against the rest; below 0 counts 0."""
    from sklearn.metrics import roc_auc_score

    classes = np.unique(target)
    is_class = truth[:, None] == classes
    judged = is_class.any(axis=0) & ~is_class.all(axis=0)
    if len(classes) < 2 or inputs.shape[1] == 0 or not judged.any():
        return 0.0
    scores = _class_scores(inputs, target, unseen, classes, regression)
    each: Any = {"average": None}
    areas = roc_auc_score(is_class[:, judged], scores[:, judged], **each)
    return max(0.0, float(np.mean(2 * np.asarray(areas) - 1)))


def _class_scores(
    inputs: np.ndarray, target: np.ndarray, unseen: np.ndarray, classes: np.ndarray, regression: str
) -> np.ndarray:
    """Probability or decision value of every class on the rows ``unseen``."""
    from sklearn.linear_model import LogisticRegression

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a fit that reaches max_iter is scored as it is
        if regression == "multinomial":
            return LogisticRegression(max_iter=MAX_ITER).fit(inputs, target).predict_proba(unseen)
        models = [LogisticRegression(max_iter=MAX_ITER).fit(inputs, target == value) for value in classes]
    return np.stack([model.decision_function(unseen) for model in models], axis=1)
