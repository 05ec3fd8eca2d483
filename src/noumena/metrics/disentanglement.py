"""DCI: disentanglement, completeness and informativeness of learned latents.

Boosted trees predict every factor from all latents; their feature importances R (latent, factor) say which latents
they
use. A latent is disentangled when its row has one entry, a factor complete when its column has one, and the latents
are
informative when the predictions are right.

References
----------
Eastwood and Williams (2018), "A framework for the quantitative evaluation of disentangled representations"; settings
and weights are those of the public code of Locatello et al. (2019), "Challenging common assumptions in the
unsupervised
learning of disentangled representations".

Deviations: there all factors are classes and informativeness is accuracy; continuous factors get regression trees and
R², at least 0. The public code adds 1e-11 to R instead of counting ``0·log 0`` as 0, takes as important for everything
what is important for nothing, and divides by ``log 1`` for one factor or one latent; here what knows nothing scores 0,
and one factor, or one latent, leaves nothing to confuse and scores 1. Constant factors are left out. A class that
occurs on held-out rows only is predicted wrongly. The public code draws training and test rows anew; here a fifth of
the rows is held out.
"""

from __future__ import annotations

from collections import namedtuple
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from jaxtyping import Float

from noumena import checks, seeds
from noumena.ambiguity import Ambiguity
from noumena.deprecated import renamed
from noumena.metrics.factors import factors_of, pair
from noumena.metrics.preprocessing import split_rows, variance_explained
from noumena.metrics.record import MetricRecord, ScoreClaim, evaluate
from noumena.metrics.trees import TREES, fit_trees

DCIParts = namedtuple("DCIParts", "disentanglement completeness informativeness")


@dataclass(frozen=True, kw_only=True)
class DCI(MetricRecord):
    """Result of ``dci``.

    Attributes
    ----------
    disentanglement, completeness, informativeness : float
        The three scores, in [0, 1]; ``error`` is 1 − informativeness.
    importance : array of shape (n_latents, n_factors)
        R, the importance of every latent for every factor.
    varying : array of int
        Factors that vary; the others were left out.
    per_latent, weights : array of shape (n_latents,)
        Disentanglement of every latent, and its share of all importance.
    per_factor, per_factor_informativeness : array of shape (n_varying,)
        Completeness and informativeness of every varying factor.
    kinds, trees, rows, held_out
        Which factors were discrete, how the trees were fitted, and rows scored on.
    """

    PARTS: ClassVar[Any] = DCIParts

    disentanglement: float
    completeness: float
    informativeness: float
    error: float
    importance: np.ndarray
    varying: np.ndarray
    per_latent: np.ndarray
    weights: np.ndarray
    per_factor: np.ndarray
    per_factor_informativeness: np.ndarray
    kinds: str
    trees: str
    rows: int
    held_out: bool

    @property
    def claims(self) -> tuple[ScoreClaim, ...]:
        """What each of the three numbers is."""
        alone, unit = Ambiguity("element-wise"), (0.0, 1.0)
        return (
            ScoreClaim("disentanglement", "DCI disentanglement", unit, alone, _ONE_FACTOR),
            ScoreClaim("completeness", "DCI completeness", unit, alone, _ONE_LATENT),
            ScoreClaim("informativeness", "DCI informativeness", unit, Ambiguity("any"), _READABLE),
        )


_ONE_FACTOR = (
    "Each latent the trees look at tells of one factor; "
    "whether a factor sits in one latent, or can be read off well, is not tested."
)
_ONE_LATENT = (
    "The trees read each factor off one latent; "
    "whether this latent tells of nothing else, or tells the factor well, is not tested."
)
_READABLE = (
    "All latents together predict the factors on the rows judged; "
    "whether any latent stands for one factor is not tested, since entangled latents predict as well."
)


@renamed(seed="random_state", bootstrap="subsamples")
def dci(
    z: Any,
    z_hat: Any,
    *,
    discrete: Any = None,
    trees: str = "fast",
    held_out: bool = True,
    shuffles: int = 1,
    ceiling: bool = False,
    subsamples: int = 0,
    random_state: Any = 0,
) -> DCI:
    """Disentanglement, completeness and informativeness of learned latents ``z_hat`` for the factors ``z``.

    Parameters
    ----------
    z : array, DataFrame or FactorTable of shape (n_samples, n_factors)
        True factors; constant ones are left out.
    z_hat : array of shape (n_samples, n_latents)
        Learned latents of the same rows.
    discrete : bool, list of bool, list of int or list of str, optional
        Which factors are classes; detected by default.
    trees : {"fast", "reference"}
        LightGBM, or scikit-learn's gradient boosting; see ``noumena.metrics.trees``.
    held_out : bool
        Predict on a fifth of the rows that the trees were not fitted on.
    shuffles, subsamples : int
        Row shuffles for the chance level and half-samples for the standard error; each takes as long as the score.
    ceiling : bool
        Also score ``z`` in place of ``z_hat``.
    random_state : int, Generator or None
        Seed of splits, trees, shuffles and subsamples.

    Returns
    -------
    DCI

    Examples
    --------
    >>> z = np.random.default_rng(0).normal(size=(400, 2))
    >>> print(dci(z, -z[:, ::-1], shuffles=0))
    DCI disentanglement 1.00, DCI completeness 1.00, DCI informativeness 1.00; forgives element-wise
    """
    seed = seeds.seed_of(random_state)
    checks.one_of(trees, "trees", TREES)
    factors = factors_of(z, discrete)
    values, z_hat = pair(factors, z_hat)
    varying = factors.varying
    discrete, kinds = (
        tuple(factors.discrete[j] for j in varying),
        factors.description,
    )  # of all rows, not of their halves

    def measure(z: np.ndarray, z_hat: np.ndarray) -> DCI:
        rows = split_rows(seeds.numpy_generator(seed, "rows of dci").permutation(len(z)), held_out)
        z, importance = z[:, varying], np.zeros((z_hat.shape[1], z.shape[1]))
        fitted = fit_trees(z_hat, z, discrete, rows, trees=trees, seed=seed)
        importance[:, varying] = fitted.importance
        judged = zip(z[rows.judge].T, fitted.predicted.T, discrete, strict=True)
        known = np.array([informed(truth, predicted, discrete=kind) for truth, predicted, kind in judged])
        informativeness = float(known.mean()) if len(known) else 0.0
        return DCI(
            forgives=Ambiguity("element-wise"),
            disentanglement=disentanglement(fitted.importance),
            completeness=completeness(fitted.importance),
            informativeness=informativeness,
            error=1 - informativeness,
            importance=importance,
            varying=varying,
            per_latent=purity(fitted.importance),
            weights=importance.sum(axis=1) / (importance.sum() or 1),
            per_factor=purity(fitted.importance.T),
            per_factor_informativeness=known,
            kinds=kinds,
            trees=trees,
            rows=len(rows.judge),
            held_out=held_out,
        )

    return evaluate(measure, values, z_hat, shuffles=shuffles, ceiling=ceiling, subsamples=subsamples, seed=seed)


def purity(R: Float[np.ndarray, "row column"]) -> Float[np.ndarray, " row"]:
    """1 − H(row)/log(columns) of every row, normalised: 1 for one entry, 0 for equal entries or none; scale-free.

    A row of one column has nothing to confuse: 1 if it is positive.

    >>> purity(np.array([[2.0, 0], [3, 3], [0, 0]])).tolist()
    [1.0, 0.0, 0.0]
    >>> purity(np.array([[0.5], [0]])).tolist()
    [1.0, 0.0]
    """
    total = R.sum(axis=1, keepdims=True)
    share = np.divide(R, total, out=np.zeros(R.shape), where=total > 0)
    entropy = -(share * np.log(np.where(share > 0, share, 1))).sum(axis=1)
    pure = 1 - entropy / np.log(max(R.shape[1], 2))
    return np.where(total[:, 0] > 0, pure.clip(0, 1), 0.0)


def disentanglement(R: Float[np.ndarray, "latent factor"]) -> float:
    """Σ ρᵢ·(1 − H(row i)/log K), ρᵢ the share of latent i in all importance; 0 where nothing is important.

    Forgives permutations of latents and of factors, and latents split in two that keep the shape of their row.

    >>> disentanglement(np.array([[1.0, 0], [0, 1]])), disentanglement(np.array([[1.0, 1], [1, 1]]))
    (1.0, 0.0)
    >>> disentanglement(np.array([[0.5, 0], [0.5, 0], [0, 1]]))
    1.0
    """
    return _weighted(R)


def completeness(R: Float[np.ndarray, "latent factor"]) -> float:
    """Σ ρⱼ·(1 − H(column j)/log d), ρⱼ the share of factor j in all importance; 0 where nothing is important.

    Forgives permutations of latents and of factors, and latents that serve several factors.

    >>> completeness(np.array([[1.0, 1], [0, 0]])), completeness(np.array([[1.0, 1], [1, 1]]))
    (1.0, 0.0)
    >>> completeness(np.array([[1.0, 2], [1, 0]])) == 0.5
    True
    """
    return _weighted(R.T)


def _weighted(R: np.ndarray) -> float:
    total = R.sum()
    return float(purity(R) @ R.sum(axis=1) / total) if total > 0 else 0.0


def informed(values: Float[np.ndarray, " batch"], predicted: Float[np.ndarray, " batch"], *, discrete: bool) -> float:
    """Accuracy for classes, R² for numbers: 1 is perfect, and below 0 counts 0.

    >>> informed(np.array([0.0, 1, 2, 1]), np.array([0.0, 1, 1, 1]), discrete=True)
    0.75
    >>> informed(np.array([0.0, 1, 2, 1]), np.array([0.0, 1, 1, 1]), discrete=False)
    0.5
    """
    if discrete:
        return float(np.mean(values == predicted))
    largest = np.abs(values).max() or 1.0
    return max(0.0, float(variance_explained(values[:, None] / largest, predicted[:, None] / largest)[0]))
