"""InfoMEC: modularity, explicitness and compactness of learned latents, in units of information.

InfoM asks whether a latent knows one source only, InfoC whether a source is known to one latent only, InfoE how much of
a source a linear predictor reads off all latents. The first two come from the normalised mutual information of every
source with every latent, by nearest neighbours on the line; where latents have one dimension, sorting finds them.

Reference: Hsu et al. (2023), "Disentanglement via latent quantization"; Ross (2014), "Mutual information between
discrete and continuous data sets"; Kraskov et al. (2004), "Estimating mutual information". Their two public settings
are ``neighbours=10, prune=20`` and ``neighbours=3, prune=8``.

**Deviations**. InfoE is judged on held-out rows, classes are weighted as they occur, the null is their marginal
entropy, and below 0 counts 0; pruned latents take part in it, as published. The public code judges in-sample and stops
its regression on standardised latents after 100 steps, far from the optimum where latents are correlated, so that its
InfoE of a rotation is lower; here latents are whitened first, and rotations score the same (``published=True`` gives
the public form). Equal values are not broken up by noise: balls are closed and counted with their ties, so that on
latents with few levels the estimate becomes, but for a correction of bias, the one from frequencies. What knows nothing
scores 0, where the ratio is 0/0; one source alone, or one active latent alone, leaves nothing to confuse and scores 1.
Constant sources are left out. Continuous sources have no entropy to divide by: they get the share 1 − exp(−2 I), the
squared correlation of Gaussians with as much information, and R² as their InfoE.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float, Int, Shaped

from noumena import checks, seeds
from noumena.ambiguity import Ambiguity

HELD_OUT = 0.2
ROWS = 10_000
STEPS, PUBLISHED_STEPS = 500, 100
"""Most steps of a logistic regression, here and in the public code."""
STRENGTH = 1e6
"""Inverse strength of its ridge, so that separable classes have an optimum."""
SLACK = 1e-9
"""Distances that differ by this share are the same distance."""


class Triple(NamedTuple):
    """InfoM, InfoE and InfoC."""

    modularity: float
    explicitness: float
    compactness: float


@dataclass(frozen=True)
class InfoMEC:
    """Three scores in [0, 1], what they are made of, and their level of chance.

    ``matrix`` is the normalised mutual information of (source, latent), all of either; ``active`` are the latents
    kept and ``sources`` the sources that vary. ``per_latent`` is the modularity of every active latent,
    ``per_source`` the explicitness and ``per_source_compactness`` the compactness of every varying source.
    Modularity and compactness forgive any element-wise map, explicitness any affine one, and all three together
    permutation and scaling, as long as no latent is scaled out of the active ones.
    """

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
    forgives: Ambiguity
    chance: Triple | None = None

    def __str__(self) -> str:
        named = {"InfoM": self.modularity, "InfoE": self.explicitness, "InfoC": self.compactness}
        by_chance = [f" (chance {level:.2f})" for level in self.chance] if self.chance else [""] * 3
        scores = ", ".join(f"{n} {v:.2f}{c}" for (n, v), c in zip(named.items(), by_chance, strict=True))
        how = "held-out" if self.held_out else "in-sample"
        return (
            f"{scores}; {len(self.active)} of {self.matrix.shape[1]} latents active, {len(self.sources)} sources, "
            f"{self.rows} rows, InfoE {how}; forgives {self.forgives}"
        )

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers and lists."""
        arrays = ("matrix", "active", "sources", "per_latent", "per_source", "per_source_compactness")
        return {
            **{name: getattr(self, name) for name in (*Triple._fields, "rows", "held_out")},
            **{name: getattr(self, name).tolist() for name in arrays},
            "forgives": str(self.forgives),
            "chance": None if self.chance is None else self.chance._asdict(),
        }


class _Protocol(NamedTuple):
    """How to score: neighbours, pruning, the rows InfoE is fitted and judged on, and which sources are discrete."""

    neighbours: int
    prune: float | None
    published: bool
    fit: np.ndarray
    judge: np.ndarray
    discrete: tuple[bool, ...]


def infomec(
    z: Any,
    z_hat: Any,
    *,
    discrete: Any = None,
    neighbours: int = 10,
    prune: float | None = 20,
    held_out: bool = True,
    published: bool = False,
    rows: int = ROWS,
    shuffles: int = 1,
    random_state: Any = 0,
) -> InfoMEC:
    """InfoM, InfoE and InfoC of learned latents ``z_hat`` against true sources ``z``, both (batch, dim).

    ``discrete`` says which sources are (by default those of whole numbers that occur twice or more on average);
    latents whose range is at most the largest range over ``prune`` are inactive (``None`` keeps all that vary); at most
    ``rows`` rows are looked at, drawn at random; ``published`` gives InfoE of discrete sources as the public code has
    it, in-sample and less converged; ``chance`` is the mean over ``shuffles`` copies of ``z_hat`` with
    shuffled rows (0: not measured). Chance of InfoM and InfoC is far from 0: some source is always the best known.

    >>> z = np.stack(np.divmod(np.arange(400) % 16, 4), axis=1)
    >>> print(infomec(z, -2.0 * z[:, ::-1], shuffles=0))
    InfoM 1.00, InfoE 1.00, InfoC 1.00; 2 of 2 latents active, 2 sources, 400 rows, InfoE held-out;
    forgives permutation+scaling
    """
    z, z_hat = checks.table(z, "z", min_rows=10), checks.table(z_hat, "z_hat", min_rows=10)
    checks.same_batch(z, z_hat)
    neighbours, shuffles = checks.count(neighbours, "neighbours"), checks.count(shuffles, "shuffles", minimum=0)
    prune = None if prune is None else checks.number(prune, "prune", minimum=1)
    rng = seeds.numpy_generator(seeds.seed_of(random_state), "infomec")
    order = rng.permutation(len(z))[: checks.count(rows, "rows", minimum=10)]
    z, z_hat, n = z[order].astype(np.float64), z_hat[order].astype(np.float64), len(order)
    checks.require(bool(np.ptp(z, axis=0).any()), "Some source must vary.", f"{z.shape[1]} constant columns of z")
    held, held_out = max(2, round(HELD_OUT * n)), held_out and not published
    fit, judge = (np.arange(held, n), np.arange(held)) if held_out else (np.arange(n), np.arange(n))
    protocol = _Protocol(neighbours, prune, published, fit, judge, _kinds(z, discrete))
    found = _scored(z, z_hat, protocol, held_out)
    by_chance = [_scored(z, z_hat[rng.permutation(n)], protocol, held_out) for _ in range(shuffles)]
    if not by_chance:
        return found
    levels = [[shuffled.modularity, shuffled.explicitness, shuffled.compactness] for shuffled in by_chance]
    return replace(found, chance=Triple(*np.mean(levels, axis=0).tolist()))


def _kinds(z: np.ndarray, discrete: Any) -> tuple[bool, ...]:
    """Which sources are discrete, as told or as their values suggest."""
    n, k = z.shape
    levels = [len(np.unique(source)) for source in z.T]
    if discrete is None:
        return tuple(bool(np.all(s == np.round(s))) and 2 * few <= n for s, few in zip(z.T, levels, strict=True))
    told = np.asarray(discrete)
    fits = told.dtype == bool and told.shape in ((), (k,))
    checks.require(fits, f"discrete must be True or False, or one of them for each of {k} sources.", repr(discrete))
    kinds = tuple(np.broadcast_to(told, k).tolist())
    for j in np.flatnonzero(kinds):
        must = f"Discrete source {j} must repeat its values."
        checks.require(levels[j] < n, must, f"{levels[j]} values in {n} rows")
    return kinds


def _scored(z: np.ndarray, z_hat: np.ndarray, protocol: _Protocol, held_out: bool) -> InfoMEC:
    spread = np.ptp(z_hat, axis=0)
    active = np.flatnonzero(spread > (0 if protocol.prune is None else spread.max() / protocol.prune))
    sources = np.flatnonzero(np.ptp(z, axis=0) > 0)
    matrix = _normalised(z, z_hat, protocol)
    known = matrix[np.ix_(sources, active)]
    per_latent, per_source = exclusiveness(known.T), exclusiveness(known)
    read = np.array([_explicitness(z[:, j], z_hat, protocol, protocol.discrete[j]) for j in sources])
    return InfoMEC(
        modularity=float(per_latent.mean()) if len(active) else 0.0,
        explicitness=float(read.mean()),
        compactness=float(per_source.mean()),
        matrix=matrix,
        active=active,
        sources=sources,
        per_latent=per_latent,
        per_source=read,
        per_source_compactness=per_source,
        rows=len(z),
        held_out=held_out,
        forgives=Ambiguity("permutation+scaling"),
    )


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


# ---- mutual information ------------------------------------------------------------------------------------------


def _normalised(z: np.ndarray, z_hat: np.ndarray, protocol: _Protocol) -> np.ndarray:
    """Mutual information of (source, latent) over the source's entropy, or as a share between 0 and 1."""
    matrix = np.zeros((z.shape[1], z_hat.shape[1]))
    varying = np.flatnonzero(np.ptp(z_hat, axis=0) > 0)
    orders = {int(i): np.argsort(z_hat[:, i], kind="stable") for i in varying}
    for j in np.flatnonzero(np.ptp(z, axis=0) > 0):
        labels = np.unique(z[:, j], return_inverse=True)[1]
        for i, order in orders.items():
            if protocol.discrete[j]:
                found = _with_classes(z_hat[order, i], labels[order], protocol.neighbours)
                matrix[j, i] = found / entropy(labels)
            else:
                found = _with_numbers(z_hat[:, i], z[:, j], protocol.neighbours)
                matrix[j, i] = 1 - np.exp(-2 * found)
    return matrix


def entropy(labels: Int[np.ndarray, " batch"]) -> float:
    """Entropy of labels 0, 1, … by their frequencies, in nats; 0 for one label, unchanged by renaming them.

    >>> round(entropy(np.array([0, 0, 1, 1])), 4)  # log 2
    0.6931
    """
    share = np.bincount(labels) / len(labels)
    return float(-(share[share > 0] * np.log(share[share > 0])).sum())


def mutual_information(
    latent: Shaped[np.ndarray, " batch"],
    source: Shaped[np.ndarray, " batch"],
    *,
    discrete: bool = True,
    neighbours: int = 10,
) -> float:
    """Mutual information in nats of a one-dimensional latent with a discrete (or continuous) source, by nearest
    neighbours; near 0 when independent, never below, unchanged by shifting and scaling the latent and by renaming the
    values of a discrete source, which must repeat.

    Two classes of two rows each, far apart, with one neighbour: ψ(4) + ψ(1) − ψ(2) − ψ(1) = 1/2 + 1/3.

    >>> latent, source = np.array([0.0, 1, 10, 11]), np.array([0, 0, 1, 1])
    >>> round(6 * mutual_information(latent, source, neighbours=1), 9)
    5.0
    """
    latent, source = np.asarray(latent, dtype=np.float64), np.asarray(source)
    k = checks.count(neighbours, "neighbours")
    usable = len(latent) > 1 and bool(np.isfinite(latent).all())
    checks.require(usable, "A mutual information must have 2 finite rows or more.", f"{latent[:4]}")
    if not discrete:
        return _with_numbers(latent, source.astype(np.float64), k)
    labels = np.unique(source, return_inverse=True)[1]
    repeats = int(labels.max()) + 1 < len(labels)
    checks.require(repeats, "A discrete source must repeat its values.", f"{len(labels)} different values")
    order = np.argsort(latent, kind="stable")
    return _with_classes(latent[order], labels[order], k)


def _with_classes(values: np.ndarray, labels: np.ndarray, k: int) -> float:
    """Ross's estimator for sorted ``values``; rows alone in their class are left out, small classes use fewer
    neighbours. A row's ball reaches its k-th neighbour of its own class; all in it are counted, of its class and any.
    """
    from scipy.special import digamma

    size = np.bincount(labels)[labels]
    values, labels, size = values[size > 1], labels[size > 1], size[size > 1]
    n = len(values)
    by_class = np.argsort(labels, kind="stable")
    values_, labels_, size_ = values[by_class], labels[by_class], size[by_class]
    reach = _reach(values_, np.searchsorted(labels_, labels_), size_, k)
    low, high = _balls(values, values_, reach, closed=True)
    places = labels_ * n + by_class  # sorted by class, then by place among all
    own = np.searchsorted(places, labels_ * n + high) - np.searchsorted(places, labels_ * n + low) - 1
    psi = digamma(np.arange(n + 1))
    return max(0.0, float(psi[n] + np.mean(psi[own] - psi[size_] - psi[high - low - 1])))


def _reach(values: np.ndarray, start: np.ndarray, size: np.ndarray, k: int) -> np.ndarray:
    """Distance to the k-th neighbour within each class, a sorted run: the best of the runs of k + 1 around a row."""
    i, few = np.arange(len(values)), np.minimum(k, size - 1)
    best = np.full(len(values), np.inf)
    for back in range(int(few.max()) + 1):
        first = i - back
        last = first + few
        inside = (first >= start) & (last < start + size) & (back <= few)
        first, last = np.where(inside, first, i), np.where(inside, last, i)
        across = np.maximum(values - values[first], values[last] - values)
        best = np.where(inside, np.minimum(best, across), best)
    return best


def _balls(
    ordered: np.ndarray, centres: np.ndarray, radius: np.ndarray, *, closed: bool
) -> tuple[np.ndarray, np.ndarray]:
    """Places in sorted numbers where balls around centres begin and end, with or without their rim, whatever the
    rounding; a ball without radius holds its centre."""
    sign, rounding = 1 if closed else -1, 4 * float(np.finfo(np.float64).eps * np.abs(ordered).max())
    radius = np.maximum(radius * (1 + sign * SLACK) + sign * rounding, 0)
    return np.searchsorted(ordered, centres - radius, "left"), np.searchsorted(ordered, centres + radius, "right")


def _with_numbers(latent: np.ndarray, source: np.ndarray, k: int) -> float:
    """Kraskov's first estimator; rows that coincide with more than k others count those instead (Gao et al., 2017)."""
    from scipy.spatial import KDTree
    from scipy.special import digamma

    if np.ptp(latent) == 0 or np.ptp(source) == 0:
        return 0.0
    n = len(latent)
    x, y = latent / latent.std(), source / source.std()
    pairs = np.stack([x - x.mean(), y - y.mean()], axis=1)
    k = min(k, n - 1)
    radius = np.asarray(KDTree(pairs).query(pairs, k=k + 1, p=np.inf)[0])[:, -1]
    inverse, copies = np.unique(pairs, axis=0, return_inverse=True, return_counts=True)[1:]
    own = np.where(radius > 0, k, copies[inverse.ravel()])
    balls = [_balls(np.sort(column), column, radius, closed=False) for column in pairs.T]
    psi = digamma(np.arange(n + 1))
    return max(0.0, float(psi[n] + np.mean(psi[own] - sum(psi[high - low] for low, high in balls))))


# ---- explicitness ------------------------------------------------------------------------------------------------


def _explicitness(source: np.ndarray, z_hat: np.ndarray, protocol: _Protocol, discrete: bool) -> float:
    """Share of a source's entropy, or variance, that a linear predictor from all latents removes."""
    fit, judge = protocol.fit, protocol.judge
    if not discrete:
        latents = _standardised(z_hat, fit)
        return _variance_read(latents[fit], source[fit], latents[judge], source[judge])
    if protocol.published:
        return _published_read(_standardised(z_hat, fit), source)
    latents = _whitened(z_hat, fit)
    return _entropy_read(latents[fit], source[fit], latents[judge], source[judge])


def _standardised(z_hat: np.ndarray, fit: np.ndarray) -> np.ndarray:
    """Latents with mean 0 and variance 1 over the rows ``fit``; those constant there are 0."""
    spread = np.where(np.ptp(z_hat[fit], axis=0) > 0, z_hat[fit].std(axis=0), np.inf)
    return (z_hat - z_hat[fit].mean(axis=0)) / spread


def _whitened(z_hat: np.ndarray, fit: np.ndarray) -> np.ndarray:
    """Latents turned and scaled to covariance 1 over the rows ``fit``: the same linear predictors, reached sooner."""
    latents = _standardised(z_hat, fit)
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
