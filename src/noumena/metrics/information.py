"""InfoMEC: modularity, explicitness and compactness of learned latents, in units of information.

InfoM asks whether a latent knows one source only, InfoC whether a source is known to one latent only, InfoE how much
of
a source a linear predictor reads off all latents. The first two come from the normalised mutual information of every
source with every latent, by nearest neighbours (``neighbours.information_matrix``).

References
----------
Hsu et al. (2023), "Disentanglement via latent quantization". Its public code has two settings, here by name:
``standalone``, the file offered to other projects (10 neighbours, a latent is active above 1/20 of the largest range),
and ``training``, what its training scripts log (3 neighbours, above 1/8). Hsu et al. (2024), "Tripod: three
complementary inductive biases for disentangled representation learning", prunes by interquartile range, not offered.

Deviations: InfoE is computed on held-out rows, classes are weighted as they occur, the null model is their marginal,
and below 0 counts 0; pruned latents take part in it, as published. The public code scores in-sample and stops its
regression on standardised latents after 100 steps, far from the optimum where latents are correlated; here latents are
whitened first, and rotations score the same (``published=True`` gives the public form). Ties are counted, not broken
by
noise. What knows nothing scores 0, where the ratio is 0/0; one source alone, or one active latent alone, leaves
nothing
to confuse and scores 1. Constant sources are left out. Continuous sources have no entropy to divide by: they get
1 − exp(−2 I), the squared correlation of Gaussians with as much information, and R² as their InfoE.
"""

from __future__ import annotations

import warnings
from collections import namedtuple
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, NamedTuple

import numpy as np
from jaxtyping import Float

from noumena import checks, seeds
from noumena.ambiguity import Ambiguity
from noumena.deprecated import renamed
from noumena.metrics import factors
from noumena.metrics.neighbours import information_matrix, shares
from noumena.metrics.preprocessing import split_rows, standardised, variance_explained, whitened
from noumena.metrics.record import MetricRecord, ScoreClaim, evaluate

ROWS = 10_000
MAX_ITER, PUBLISHED_MAX_ITER = 500, 100
"""Of a logistic regression, here and in the public code."""
INVERSE_RIDGE = 1e6
"""Its ``C``: finite, so that separable classes have an optimum."""


class InfoMECSetting(NamedTuple):
    """Neighbours of the estimator, and ``prune``: a latent is active above 1/``prune`` of the largest range."""

    neighbours: int
    prune: float


SETTINGS = {"standalone": InfoMECSetting(10, 20.0), "training": InfoMECSetting(3, 8.0)}


InfoMECParts = namedtuple("InfoMECParts", "modularity explicitness compactness")


@dataclass(frozen=True, kw_only=True)
class InfoMEC(MetricRecord):
    """Result of ``infomec``.

    Modularity and compactness forgive any element-wise map, explicitness any affine one, and all three together
    permutation and scaling, as long as no latent is scaled out of the active ones.

    Attributes
    ----------
    modularity, explicitness, compactness : float
        InfoM, InfoE and InfoC, in [0, 1].
    matrix : array of shape (n_sources, n_latents)
        Normalised mutual information.
    active, sources : array of int
        Latents that were not pruned, and sources that vary.
    per_latent : array of shape (n_active,)
        Modularity of every active latent.
    per_source, per_source_compactness : array of shape (n_varying,)
        Explicitness and compactness of every varying source.
    rows, held_out, neighbours, prune, kinds
        How the scores were computed, and on how many rows.
    """

    PARTS: ClassVar[Any] = InfoMECParts

    modularity: float
    explicitness: float
    compactness: float
    matrix: np.ndarray
    active: np.ndarray
    sources: np.ndarray
    per_latent: np.ndarray
    per_source: np.ndarray
    per_source_compactness: np.ndarray
    rows: int
    held_out: bool
    neighbours: int
    prune: float
    kinds: str

    @property
    def claims(self) -> tuple[ScoreClaim, ...]:
        """What InfoM, InfoE and InfoC are."""
        supports = {
            "InfoM": "Each active latent knows one source only, however bent; it may know little of it, and the source "
            "may lie in other latents too; a latent of small range is not active.",
            "InfoE": "A linear predictor reads every source off all latents together; it may need any mixture of them.",
            "InfoC": "Each source is known to one active latent only, however bent; that latent may know other sources "
            "too; a latent of small range is not active.",
        }
        groups = ("element-wise", "affine", "element-wise")
        return tuple(
            ScoreClaim(field, title, (0.0, 1.0), Ambiguity(group), supports[title])
            for field, title, group in zip(InfoMECParts._fields, supports, groups, strict=True)
        )

    def __str__(self) -> str:
        how = "held-out" if self.held_out else "in-sample"
        return (
            f"{', '.join(map(str, self.numbers))}; {len(self.active)} of {self.matrix.shape[1]} latents active, "
            f"{len(self.sources)} sources, {self.rows} rows, InfoE {how}; forgives {self.forgives}"
        )


class _ScoringSettings(NamedTuple):
    """Neighbours, pruning, the form of InfoE, and which sources are discrete."""

    neighbours: int
    prune: float
    held_out: bool
    published: bool
    discrete: tuple[bool, ...]
    kinds: str


@renamed(seed="random_state", bootstrap="subsamples", rows="max_rows")
def infomec(
    z: Any,
    z_hat: Any,
    *,
    discrete: Any = None,
    setting: str = "standalone",
    neighbours: int | None = None,
    prune: float | None = None,
    held_out: bool = True,
    published: bool = False,
    max_rows: int = ROWS,
    shuffles: int = 1,
    ceiling: bool = False,
    subsamples: int = 0,
    random_state: Any = 0,
) -> InfoMEC:
    """InfoM, InfoE and InfoC of learned latents ``z_hat`` against true sources ``z``.

    The chance levels of InfoM and InfoC are far from 0: some source is always the best known.

    Parameters
    ----------
    z : array, DataFrame or FactorTable of shape (n_samples, n_sources)
        True sources; constant ones are left out.
    z_hat : array of shape (n_samples, n_latents)
        Learned latents of the same rows.
    discrete : bool, list of bool, list of int or list of str, optional
        Which sources are discrete; detected by default.
    setting : {"standalone", "training"}
        One of the two public settings.
    neighbours : int, optional
        Neighbours of the estimator, instead of those of the setting.
    prune : float, optional
        Latents whose range is at most the largest over ``prune`` are inactive, instead of the setting's; inf: keep
        all.
    held_out : bool
        Score InfoE on a fifth of the rows that its regressions were not fitted on.
    published : bool
        InfoE of discrete sources as in the public code: in-sample and less converged.
    max_rows : int
        Larger tables are subsampled to so many rows.
    shuffles, subsamples : int
        Row shuffles for the chance level and half-samples for the standard error; 0: not measured.
    ceiling : bool
        Also score the sources, in units of their ranges, in place of ``z_hat``.
    random_state : int, Generator or None
        Seed of rows, shuffles and subsamples.

    Returns
    -------
    InfoMEC

    Examples
    --------
    >>> z = np.stack(np.divmod(np.arange(400) % 16, 4), axis=1)
    >>> print(infomec(z, -2.0 * z[:, ::-1], shuffles=0))
    InfoM 1.00, InfoE 1.00, InfoC 1.00; 2 of 2 latents active, 2 sources, 400 rows, InfoE held-out;
    forgives permutation+scaling
    """
    seed = seeds.seed_of(random_state)
    known = factors.factors_of(z, discrete)
    values, latents = factors.pair(known, z_hat)
    chosen = SETTINGS[checks.one_of(setting, "setting", tuple(SETTINGS))]
    neighbours = checks.count(chosen.neighbours if neighbours is None else neighbours, "neighbours")
    prune = chosen.prune if prune is None else prune
    prune = prune if prune == np.inf else checks.number(prune, "prune", minimum=1)
    order = seeds.numpy_generator(seed, "infomec").permutation(len(values))
    order = order[: checks.count(max_rows, "max_rows", minimum=10)]
    values, latents = values[order], latents[order]
    span = np.ptp(values, axis=0)
    checks.require(bool(span.any()), "Some source must vary.", f"{values.shape[1]} constant columns of z")
    settings = _ScoringSettings(
        neighbours, prune, held_out and not published, published, known.discrete, known.description
    )
    measure = partial(_scored, settings=settings)
    values = values / np.where(span > 0, span, 1)
    return evaluate(measure, values, latents, shuffles=shuffles, ceiling=ceiling, subsamples=subsamples, seed=seed)


def _scored(z: np.ndarray, z_hat: np.ndarray, settings: _ScoringSettings) -> InfoMEC:
    """The record of some rows, in random order."""
    spread = np.ptp(z_hat, axis=0)
    active, sources = np.flatnonzero(spread > spread.max() / settings.prune), np.flatnonzero(np.ptp(z, axis=0) > 0)
    matrix = information_matrix(z, z_hat, settings.discrete, neighbours=settings.neighbours)
    matrix = shares(matrix, z, settings.discrete)
    known = matrix[np.ix_(sources, active)]
    per_latent, per_source = exclusiveness(known.T), exclusiveness(known)
    explicitness = _explicitness(z, z_hat, sources, settings)
    return InfoMEC(
        modularity=_mean(per_latent),
        explicitness=_mean(explicitness),
        compactness=_mean(per_source),
        matrix=matrix,
        active=active,
        sources=sources,
        per_latent=per_latent,
        per_source=explicitness,
        per_source_compactness=per_source,
        rows=len(z),
        held_out=settings.held_out,
        neighbours=settings.neighbours,
        prune=settings.prune,
        kinds=settings.kinds,
        forgives=Ambiguity("permutation+scaling"),
    )


def _mean(scores: np.ndarray) -> float:
    return float(scores.mean()) if len(scores) else 0.0


def exclusiveness(known: Float[np.ndarray, "row column"]) -> Float[np.ndarray, " row"]:
    """(max share − 1/k)/(1 − 1/k) of every row: 1 for one entry, 0 for equal shares or none; blind to scale and order.

    Examples
    --------
    >>> exclusiveness(np.array([[2.0, 0, 0], [1, 1, 1], [0, 0, 0], [2, 1, 1]])).tolist()
    [1.0, 0.0, 0.0, 0.25]
    """
    total, k = known.sum(axis=1), known.shape[1]
    if k <= 1:
        return (total > 0).astype(np.float64)
    share = known.max(axis=1) / np.where(total > 0, total, 1)
    return np.where(total > 0, (share - 1 / k) / (1 - 1 / k), 0.0).clip(0, 1)


# ---- explicitness ------------------------------------------------------------------------------------------------


def _explicitness(z: np.ndarray, z_hat: np.ndarray, sources: np.ndarray, settings: _ScoringSettings) -> np.ndarray:
    """Share of every source's entropy, or variance, that a linear predictor from all latents removes."""
    fit, judge = split_rows(np.arange(len(z)), settings.held_out)
    plain = standardised(z_hat, fit)
    latents = plain if settings.published else whitened(plain, fit)
    scores = np.zeros(len(sources))
    for place, j in enumerate(sources):
        if not settings.discrete[j]:
            scores[place] = _variance_read(plain[fit], z[fit, j], plain[judge], z[judge, j])
        elif settings.published:
            scores[place] = _published_read(latents, z[:, j])
        else:
            scores[place] = _entropy_read(latents[fit], z[fit, j], latents[judge], z[judge, j])
    return scores


def _variance_read(inputs: np.ndarray, target: np.ndarray, unseen: np.ndarray, truth: np.ndarray) -> float:
    weights = np.linalg.lstsq(np.c_[inputs, np.ones(len(inputs))], target, rcond=None)[0]
    predicted = np.c_[unseen, np.ones(len(unseen))] @ weights
    return max(0.0, float(variance_explained(truth[:, None], predicted[:, None])[0]))


def _entropy_read(inputs: np.ndarray, target: np.ndarray, unseen: np.ndarray, truth: np.ndarray) -> float:
    """1 − (log-loss of a multinomial logistic regression) / (log-loss of the frequencies), on the rows ``unseen`` of
    classes that the fit has met."""
    classes, labels = np.unique(target, return_inverse=True)
    met = np.isin(truth, classes)
    if len(classes) < 2 or inputs.shape[1] == 0 or not met.any():
        return 0.0
    truth = np.searchsorted(classes, truth[met])
    null = -np.log(np.bincount(labels) / len(labels))[truth].mean()
    loss = _log_loss(inputs, labels, unseen[met], truth, C=INVERSE_RIDGE, max_iter=MAX_ITER)
    return max(0.0, float(1 - loss / null))


def _published_read(latents: np.ndarray, source: np.ndarray) -> float:
    """The form of the public code: in-sample, balanced classes (which makes the null uniform), 100 steps."""
    classes, labels = np.unique(source, return_inverse=True)
    loss = _log_loss(latents, labels, latents, labels, C=np.inf, max_iter=PUBLISHED_MAX_ITER, class_weight="balanced")
    return max(0.0, float(1 - loss / np.log(len(classes))))


def _log_loss(inputs: np.ndarray, labels: np.ndarray, unseen: np.ndarray, truth: np.ndarray, **settings: Any) -> float:
    from sklearn.linear_model import LogisticRegression

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a fit that reaches max_iter is scored as it is
        logs = LogisticRegression(**settings).fit(inputs, labels).predict_log_proba(unseen)
    impossible = np.log(np.finfo(np.float64).tiny)
    return -float(np.maximum(logs[np.arange(len(truth)), truth], impossible).mean())
