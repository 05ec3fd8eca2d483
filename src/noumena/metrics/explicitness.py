"""Modularity and explicitness: does a learned latent know one factor only, and can factors be read off all latents?

Modularity: for every latent, one minus the squared information with all other factors, over their number times the
squared information with its best one. Explicitness: for every value of a factor, how well a logistic regression from
all latents ranks the rows of that value above the others, by the area under its curve, 0 for a coin and 1 for no
mistake; the mean over the values of a factor, then over the factors.

Reference: Ridgeway and Mozer (2018), "Learning deep disentangled embeddings with the F-statistic loss".

**Deviations**. Information is estimated by nearest neighbours; ``estimator="bins"`` is the public form, 20 bins of
equal width. Constant latents are left out of the mean, where the public code counts them 0; a latent that varies and
knows nothing counts 0 here too. The paper fits one regression for each value against the rest
(``regression="one-vs-rest"``), which cannot single out a middle value of an ordered factor, so that even the truth
scores about one half; the default fits all values together, as the public code does with scikit-learn of today. The
public code reports the area itself, (1 + explicitness)/2. Latents are whitened rather than standardised before the fit,
so that its penalty forgives every affine map. Values met in the fitted or in the judged rows only have no area and are
left out, where the public code fails. A factor ranked worse than by a coin counts 0. Continuous factors have no values
to tell apart: their explicitness is the R² of a linear regression on the same rows. Constant factors are left out.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple

import numpy as np
from jaxtyping import Bool, Float

from noumena import checks, seeds
from noumena.ambiguity import Ambiguity
from noumena.deprecated import renamed
from noumena.metrics.factors import Factors
from noumena.metrics.gaps import HELD_OUT, ROWS, Estimator, estimator_of, information, sample, standardised
from noumena.metrics.record import Claim, Record, surrounded

REGRESSIONS = ("multinomial", "one-vs-rest")
STEPS = 500
"""Most steps of a logistic regression."""
NEGLIGIBLE = 1e-9
"""Directions of latents below this share of the widest are none."""


class Both(NamedTuple):
    """Modularity and explicitness."""

    modularity: float
    explicitness: float


@dataclass(frozen=True, kw_only=True)
class Modularity(Record):
    """Two scores in [0, 1] and what they are made of.

    ``matrix`` is the mutual information (factor, latent) in nats. ``active`` are the latents that vary, and for each,
    ``per_latent`` is its modularity and ``best`` the factor that it knows best (−1: none). ``factors`` are those that
    vary, and ``per_factor`` the explicitness of each. Modularity forgives any element-wise map (by bins: scaling),
    explicitness any affine one, and the two together permutation and scaling.
    """

    PARTS: ClassVar[Any] = Both

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
    def claims(self) -> tuple[Claim, ...]:
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
            Claim("modularity", "Modularity", (0.0, 1.0), alone, one_factor),
            Claim("explicitness", "Explicitness", (0.0, 1.0), Ambiguity("affine"), readable),
        )

    def __str__(self) -> str:
        k, d = self.matrix.shape
        used = f"{len(self.active)} of {d} latents and {len(self.factors)} of {k} factors vary"
        how = "held-out" if self.held_out else "in-sample"
        return f"{super().__str__()}; {used}, {self.rows} rows, explicitness {how}. {self.kinds}"


@renamed(seed="random_state")
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
    rows: int = ROWS,
    shuffles: int = 1,
    ceiling: bool = False,
    bootstrap: int = 0,
    random_state: Any = 0,
) -> Modularity:
    """Modularity and explicitness of learned latents ``z_hat`` against true factors ``z``, both (batch, dim).

    ``discrete`` says which factors are (by default their values decide); ``estimator`` of information is
    ``neighbours`` or ``bins``; ``regression`` is ``multinomial`` or ``one-vs-rest``, judged on a fifth of the rows that
    it was not fitted on, or in-sample. ``shuffles`` copies of ``z_hat`` with shuffled rows give the chance,
    ``bootstrap`` halves of the rows the uncertainty, ``ceiling=True`` the scores of ``z`` itself. At most ``rows`` rows
    are looked at. Chance of modularity is far from 0, some factor is always the best known, and differs much from one
    shuffle to the next. A constant factor is left out.

    >>> z = np.stack(np.divmod(np.arange(400) % 16, 4), axis=1)
    >>> modularity(z, -2.0 * z[:, ::-1], estimator="bins", shuffles=0).value
    Both(modularity=1.0, explicitness=1.0)
    """
    seed = seeds.seed_of(random_state)
    how, regression = estimator_of(estimator, neighbours, bins), checks.one_of(regression, "regression", REGRESSIONS)
    truth, z_hat = sample(z, z_hat, discrete=discrete, rows=rows, seed=seed)
    settings = {"regression": regression, "held_out": held_out, "kinds": truth.told}

    def measure(z: np.ndarray, z_hat: np.ndarray) -> Modularity:
        here = replace(truth, values=z)
        fields = _modular(here, z_hat, how) | _explicit(here, z_hat, regression, held_out) | settings
        return Modularity(**fields, estimator=how.name, rows=len(z), forgives=Ambiguity("permutation+scaling"))

    return surrounded(measure, truth.values, z_hat, shuffles=shuffles, ceiling=ceiling, bootstrap=bootstrap, seed=seed)


def _modular(truth: Factors, z_hat: np.ndarray, how: Estimator) -> dict[str, Any]:
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
    """1 where a latent knows one factor only, 0 where it knows all alike or none; unchanged by scaling a row and by
    permuting columns.

    >>> one_factor(np.array([[2.0, 0, 0], [1, 1, 1], [0, 0, 0], [2, 1, 1]])).tolist()
    [1.0, 0.0, 0.0, 0.75]
    """
    best, others = known.max(axis=1), max(1, known.shape[1] - 1)
    share = known / np.where(best > 0, best, 1)[:, None]
    return np.where(best > 0, 1 - ((share**2).sum(axis=1) - 1) / others, 0.0)


# ---- explicitness ------------------------------------------------------------------------------------------------


def _explicit(truth: Factors, z_hat: np.ndarray, regression: str, held_out: bool) -> dict[str, Any]:
    """Explicitness with its parts."""
    everyone, held = np.arange(len(z_hat)), max(2, round(HELD_OUT * len(z_hat)))
    fit, judge = (everyone[held:], everyone[:held]) if held_out else (everyone, everyone)
    latents, numbers, read = _whitened(z_hat, fit), standardised(truth.values, fit), []
    for j in truth.varying:
        target = np.unique(truth.values[:, j], return_inverse=True)[1] if truth.discrete[j] else numbers[:, j]
        split = latents[fit], target[fit], latents[judge], target[judge]
        read.append(_ranked(*split, regression) if truth.discrete[j] else _explained(*split))
    return {"explicitness": float(np.mean(read)) if read else 0.0, "per_factor": np.array(read, dtype=np.float64)}


def _whitened(z_hat: np.ndarray, fit: np.ndarray) -> np.ndarray:
    """Latents turned and scaled to covariance 1 over the rows ``fit``; none where all are constant."""
    latents = standardised(z_hat, fit)
    _, scale, turn = np.linalg.svd(latents[fit], full_matrices=False)
    kept = scale > NEGLIGIBLE * max(scale[0], 1.0)
    return latents @ turn[kept].T / scale[kept] * np.sqrt(len(fit))


def _explained(inputs: np.ndarray, target: np.ndarray, unseen: np.ndarray, truth: np.ndarray) -> float:
    """R² of a linear regression of a standardised target from whitened ``inputs``, judged on ``unseen``; below 0 counts
    0."""
    weights = inputs.T @ target / len(inputs)
    left, spread = np.mean((truth - unseen @ weights) ** 2), truth.var()
    return max(0.0, float(1 - left / spread)) if np.ptp(truth) > 0 else 0.0


def _ranked(inputs: np.ndarray, target: np.ndarray, unseen: np.ndarray, truth: np.ndarray, regression: str) -> float:
    """Mean over the values of a factor of (area − ½)·2 by a logistic regression, judged on ``unseen``; below 0 counts
    0."""
    classes = np.unique(target)
    is_class = truth[:, None] == classes
    judged = is_class.any(axis=0) & ~is_class.all(axis=0)
    if len(classes) < 2 or inputs.shape[1] == 0 or not judged.any():
        return 0.0
    evidence = _evidence(inputs, target, unseen, classes, regression)
    return max(0.0, float(np.mean(2 * areas(evidence[:, judged], is_class[:, judged]) - 1)))


def _evidence(
    inputs: np.ndarray, target: np.ndarray, unseen: np.ndarray, classes: np.ndarray, regression: str
) -> np.ndarray:
    """How much speaks for each class in each row."""
    from sklearn.linear_model import LogisticRegression

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a fit that stops at its last step is judged as it is
        if regression == "multinomial":
            return LogisticRegression(max_iter=STEPS).fit(inputs, target).predict_proba(unseen)
        models = [LogisticRegression(max_iter=STEPS).fit(inputs, target == value) for value in classes]
    return np.stack([model.decision_function(unseen) for model in models], axis=1)


def areas(
    evidence: Float[np.ndarray, "batch value"], is_value: Bool[np.ndarray, "batch value"]
) -> Float[np.ndarray, " value"]:
    """Area under the curve of each column: how often a row of the value has more evidence than one that is not, ties
    counted half; ½ for no evidence, unchanged by monotone maps of it.

    >>> areas(np.array([[0.1], [0.2], [0.2], [0.9]]), np.array([[False], [False], [True], [True]])).tolist()
    [0.875]
    """
    from scipy.stats import rankdata

    yes, n = is_value.sum(axis=0), len(is_value)
    above = np.where(is_value, rankdata(evidence, axis=0), 0).sum(axis=0) - yes * (yes + 1) / 2
    return above / (yes * (n - yes))
