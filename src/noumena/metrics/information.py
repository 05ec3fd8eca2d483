"""InfoMEC: modularity, explicitness and compactness of learned latents, in units of information.

InfoM asks whether a latent knows one source only, InfoC whether a source is known to one latent only, InfoE how much of
a source a linear predictor reads off all latents. The first two come from the normalised mutual information of every
source with every latent, by nearest neighbours (``neighbours.information_matrix``).

Reference: Hsu et al. (2023), "Disentanglement via latent quantization". Its public code has two settings, here by name:
``standalone``, the file offered to other projects (10 neighbours, a latent is active above 1/20 of the largest range),
and ``training``, what its training scripts log (3 neighbours, above 1/8). The later code of Hsu et al. (2024), "Tripod:
three complementary inductive biases for disentangled representation learning" has 10 neighbours and prunes by
interquartile range, above 1/10 of the largest; that one is not offered.

**Deviations**. InfoE is judged on held-out rows, classes are weighted as they occur, the null is their marginal
entropy, and below 0 counts 0; pruned latents take part in it, as published. The public code judges in-sample and stops
its regression on standardised latents after 100 steps, far from the optimum where latents are correlated, so that its
InfoE of a rotation is lower; here latents are whitened first, and rotations score the same (``published=True`` gives
the public form). Ties are counted, not broken up by noise. What knows nothing scores 0, where the ratio is 0/0 (not a
number in the one setting, left out of InfoM in the other); one source alone, or one active latent alone, leaves nothing
to confuse and scores 1. Constant sources are left out. Continuous sources have no entropy to divide by: they get the
share 1 − exp(−2 I), the squared correlation of Gaussians with as much information, and R² as their InfoE.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, NamedTuple

import numpy as np
from jaxtyping import Float

from noumena import checks, seeds
from noumena.ambiguity import Ambiguity
from noumena.deprecated import renamed
from noumena.metrics import factors
from noumena.metrics.neighbours import SLACK, information_matrix, shares
from noumena.metrics.record import Claim, Record, surrounded

HELD_OUT = 0.2
ROWS = 10_000
STEPS, PUBLISHED_STEPS = 500, 100
"""Most steps of a logistic regression, here and in the public code."""
STRENGTH = 1e6
"""Inverse strength of its ridge, so that separable classes have an optimum."""


class Setting(NamedTuple):
    """Neighbours that are looked for, and the share (one over ``prune``) of the largest range above which a latent is
    active."""

    neighbours: int
    prune: float


SETTINGS = {"standalone": Setting(10, 20.0), "training": Setting(3, 8.0)}


class Triple(NamedTuple):
    """InfoM, InfoE and InfoC."""

    modularity: Any
    explicitness: Any
    compactness: Any


@dataclass(frozen=True, kw_only=True)
class InfoMEC(Record):
    """Three scores in [0, 1] and what they are made of.

    ``matrix`` is the normalised mutual information of (source, latent), all of either; ``active`` are the latents
    kept and ``sources`` the sources that vary. ``per_latent`` is the modularity of every active latent,
    ``per_source`` the explicitness and ``per_source_compactness`` the compactness of every varying source; ``kinds``
    says which sources were treated as what. Modularity and compactness forgive any element-wise map, explicitness any
    affine one, and all three together permutation and scaling, as long as no latent is scaled out of the active ones.
    """

    PARTS: ClassVar[Any] = Triple

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
    def claims(self) -> tuple[Claim, ...]:
        """What InfoM, InfoE and InfoC are."""
        told = {
            "InfoM": "Each active latent knows one source only, however bent; it may know little of it, and the source "
            "may lie in other latents too; a latent of small range is not active.",
            "InfoE": "A linear predictor reads every source off all latents together; it may need any mixture of them.",
            "InfoC": "Each source is known to one active latent only, however bent; that latent may know other sources "
            "too; a latent of small range is not active.",
        }
        groups = ("element-wise", "affine", "element-wise")
        return tuple(
            Claim(field, title, (0.0, 1.0), Ambiguity(group), told[title])
            for field, title, group in zip(Triple._fields, told, groups, strict=True)
        )

    def __str__(self) -> str:
        how = "held-out" if self.held_out else "in-sample"
        return (
            f"{', '.join(map(str, self.numbers))}; {len(self.active)} of {self.matrix.shape[1]} latents active, "
            f"{len(self.sources)} sources, {self.rows} rows, InfoE {how}; forgives {self.forgives}"
        )


class _Protocol(NamedTuple):
    """How to score: neighbours, pruning, the form of InfoE, and which sources are discrete, also in words."""

    neighbours: int
    prune: float
    held_out: bool
    published: bool
    discrete: tuple[bool, ...]
    kinds: str


@renamed(seed="random_state")
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
    rows: int = ROWS,
    shuffles: int = 1,
    ceiling: bool = False,
    bootstrap: int = 0,
    random_state: Any = 0,
) -> InfoMEC:
    """InfoM, InfoE and InfoC of learned latents ``z_hat`` against true sources ``z``, both (batch, dim).

    ``discrete`` says which sources are (by default as their values suggest); ``setting`` is one of the two public ones,
    and ``neighbours`` or ``prune`` override it: latents whose range is at most the largest range over ``prune`` are
    inactive (infinity keeps all that vary). At most ``rows`` rows are looked at, drawn at random; ``published`` gives
    InfoE of discrete sources as the public code has it, in-sample and less converged. ``chance`` is the mean over
    ``shuffles`` copies of ``z_hat`` with shuffled rows; for InfoM and InfoC it is far from 0: some source is always the
    best known. ``ceiling`` puts the sources, in units of their ranges, in the place of ``z_hat``. A constant source is
    left out.

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
    order = order[: checks.count(rows, "rows", minimum=10)]
    values, latents = values[order], latents[order]
    span = np.ptp(values, axis=0)
    checks.require(bool(span.any()), "Some source must vary.", f"{values.shape[1]} constant columns of z")
    protocol = _Protocol(neighbours, prune, held_out and not published, published, known.discrete, known.told)
    measure = partial(_scored, protocol=protocol)
    values = values / np.where(span > 0, span, 1)
    return surrounded(measure, values, latents, shuffles=shuffles, ceiling=ceiling, bootstrap=bootstrap, seed=seed)


def _scored(z: np.ndarray, z_hat: np.ndarray, protocol: _Protocol) -> InfoMEC:
    """The record of some rows, in random order."""
    spread = np.ptp(z_hat, axis=0)
    active, sources = np.flatnonzero(spread > spread.max() / protocol.prune), np.flatnonzero(np.ptp(z, axis=0) > 0)
    matrix = information_matrix(z, z_hat, protocol.discrete, neighbours=protocol.neighbours)
    matrix = shares(matrix, z, protocol.discrete)
    known = matrix[np.ix_(sources, active)]
    per_latent, per_source = exclusiveness(known.T), exclusiveness(known)
    read = _explicitness(z, z_hat, sources, protocol)
    return InfoMEC(
        modularity=_mean(per_latent),
        explicitness=_mean(read),
        compactness=_mean(per_source),
        matrix=matrix,
        active=active,
        sources=sources,
        per_latent=per_latent,
        per_source=read,
        per_source_compactness=per_source,
        rows=len(z),
        held_out=protocol.held_out,
        neighbours=protocol.neighbours,
        prune=protocol.prune,
        kinds=protocol.kinds,
        forgives=Ambiguity("permutation+scaling"),
    )


def _mean(scores: np.ndarray) -> float:
    return float(scores.mean()) if len(scores) else 0.0


def exclusiveness(known: Float[np.ndarray, "row column"]) -> Float[np.ndarray, " row"]:
    """How much of what a row knows lies in one column: 1 for all of it, 0 for equal shares or nothing at all; unchanged
    by scaling a row and by permuting columns.

    >>> exclusiveness(np.array([[2.0, 0, 0], [1, 1, 1], [0, 0, 0], [2, 1, 1]])).tolist()
    [1.0, 0.0, 0.0, 0.25]
    """
    total, k = known.sum(axis=1), known.shape[1]
    if k <= 1:
        return (total > 0).astype(np.float64)
    share = known.max(axis=1) / np.where(total > 0, total, 1)
    return np.where(total > 0, (share - 1 / k) / (1 - 1 / k), 0.0).clip(0, 1)


# ---- explicitness ------------------------------------------------------------------------------------------------


def _explicitness(z: np.ndarray, z_hat: np.ndarray, sources: np.ndarray, protocol: _Protocol) -> np.ndarray:
    """Share of every source's entropy, or variance, that a linear predictor from all latents removes."""
    n, rows = len(z), np.arange(len(z))
    held = max(2, round(HELD_OUT * n))
    fit, judge = (rows[held:], rows[:held]) if protocol.held_out else (rows, rows)
    plain = _standardised(z_hat, fit)
    latents = plain if protocol.published else _whitened(plain, fit)
    read = np.zeros(len(sources))
    for place, j in enumerate(sources):
        if not protocol.discrete[j]:
            read[place] = _variance_read(plain[fit], z[fit, j], plain[judge], z[judge, j])
        elif protocol.published:
            read[place] = _published_read(latents, z[:, j])
        else:
            read[place] = _entropy_read(latents[fit], z[fit, j], latents[judge], z[judge, j])
    return read


def _standardised(z_hat: np.ndarray, fit: np.ndarray) -> np.ndarray:
    """Latents with mean 0 and variance 1 over the rows ``fit``; those constant there are 0."""
    z_hat = factors.in_range(z_hat)
    spread = np.where(np.ptp(z_hat[fit], axis=0) > 0, z_hat[fit].std(axis=0), np.inf)
    return (z_hat - z_hat[fit].mean(axis=0)) / spread


def _whitened(latents: np.ndarray, fit: np.ndarray) -> np.ndarray:
    """Latents turned and scaled to covariance 1 over the rows ``fit``: the same linear predictors, reached sooner."""
    _, scale, turn = np.linalg.svd(latents[fit], full_matrices=False)
    kept = scale > SLACK * max(scale[0], 1.0)
    return latents @ turn[kept].T / scale[kept] * np.sqrt(len(fit))


def _variance_read(inputs: np.ndarray, target: np.ndarray, unseen: np.ndarray, truth: np.ndarray) -> float:
    weights = np.linalg.lstsq(np.c_[inputs, np.ones(len(inputs))], target, rcond=None)[0]
    spread = truth.var()
    left = np.mean((truth - np.c_[unseen, np.ones(len(unseen))] @ weights) ** 2)
    return max(0.0, float(1 - left / spread)) if spread > 0 else 0.0


def _entropy_read(inputs: np.ndarray, target: np.ndarray, unseen: np.ndarray, truth: np.ndarray) -> float:
    """1 − (log-loss of a multinomial logistic regression) / (log-loss of the frequencies), on the rows ``unseen`` of
    classes that the fit has met."""
    classes, labels = np.unique(target, return_inverse=True)
    met = np.isin(truth, classes)
    if len(classes) < 2 or inputs.shape[1] == 0 or not met.any():
        return 0.0
    truth = np.searchsorted(classes, truth[met])
    null = -np.log(np.bincount(labels) / len(labels))[truth].mean()
    loss = _log_loss(inputs, labels, unseen[met], truth, C=STRENGTH, max_iter=STEPS)
    return max(0.0, float(1 - loss / null))


def _published_read(latents: np.ndarray, source: np.ndarray) -> float:
    """The form of the public code: in-sample, balanced classes (which makes the null uniform), 100 steps."""
    classes, labels = np.unique(source, return_inverse=True)
    loss = _log_loss(latents, labels, latents, labels, C=np.inf, max_iter=PUBLISHED_STEPS, class_weight="balanced")
    return max(0.0, float(1 - loss / np.log(len(classes))))


def _log_loss(inputs: np.ndarray, labels: np.ndarray, unseen: np.ndarray, truth: np.ndarray, **settings: Any) -> float:
    from sklearn.linear_model import LogisticRegression

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a fit that stops at its last step is judged as it is
        logs = LogisticRegression(**settings).fit(inputs, labels).predict_log_proba(unseen)
    impossible = np.log(np.finfo(np.float64).tiny)
    return -float(np.maximum(logs[np.arange(len(truth)), truth], impossible).mean())
