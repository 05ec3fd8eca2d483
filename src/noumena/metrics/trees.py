"""Boosted trees: feature importances and predictions of gradient boosting with one model per factor.

A model adds 100 rounds of trees of depth 3 with learning rate 0.1: one tree per round for numbers or two classes, one
for each of more classes. A latent's importance is its share of the squared error that all splits remove.

References
----------
Friedman (2001), "Greedy function approximation: a gradient boosting machine", with scikit-learn's default settings
(``trees="reference"`` is scikit-learn itself). ``trees="fast"`` grows the same trees with LightGBM: splits on plain
residuals, one Newton step per leaf as its value.

Deviations of the fast trees from scikit-learn's: LightGBM's own classifiers weight rows by their Hessian, which moves
the importances of classes by several hundredths; here it is given residuals of weight one and finds scikit-learn's
splits. Latents enter by their ranks, so that increasing maps of a latent change nothing at all, in at most 254 bins
that get narrow towards both ends and begin where classes change, as equal-frequency bins would hide which of two
latents separates classes better. Ties between latents are broken by an order that is drawn every other round and
reversed in the next; scikit-learn draws it at every node. The reference sees latents in single precision.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float, Int

from noumena import seeds
from noumena.metrics.preprocessing import RowSplit

TREES = ("fast", "reference")
ROUNDS, DEPTH, RATE = 100, 3, 0.1
BORDERS, ENDS, CHANGES = 253, 95, 63
"""Borders between the bins of a latent: all, those that get dense towards the ends, and those where classes change."""
BESIDE = 16
"""Rows on either side of a change of class by which its purity is measured."""
NUDGE = 1e-8
"""Relative difference of gains below which latents tie."""
FLAT = 1e-150
"""Hessian below which a leaf is left as it is."""


class TreeFit(NamedTuple):
    """Importances (latent, factor), each column with sum 1 or 0, and predictions on the judged rows."""

    importance: Float[np.ndarray, "latent factor"]
    predicted: Float[np.ndarray, "judged factor"]


class Binned(NamedTuple):
    """The bins of all rows (batch, latent), and those of the fitted rows as LightGBM keeps them."""

    codes: np.ndarray
    table: Any


def fit_trees(
    latents: Float[np.ndarray, "batch latent"],
    factors: Float[np.ndarray, "batch factor"],
    discrete: tuple[bool, ...],
    rows: RowSplit,
    *,
    trees: str = "fast",
    seed: int = 0,
) -> TreeFit:
    """Importance of every latent for every factor, and each factor predicted from all latents.

    >>> z = np.arange(60.0).reshape(-1, 1) % 7
    >>> rows = RowSplit(np.arange(40), np.arange(40, 60))
    >>> found = fit_trees(np.hstack([0 * z, z]), z, (True,), rows)
    >>> found.importance.tolist(), bool((found.predicted == z[40:]).all())
    ([[0.0], [1.0]], True)
    """
    alive = np.flatnonzero(np.ptp(latents[rows.fit], axis=0) > 0)
    importance = np.zeros((latents.shape[1], factors.shape[1]))
    predicted = np.zeros((len(rows.judge), factors.shape[1]))
    model = {"fast": Fast, "reference": Reference}[trees](latents[:, alive], rows, seed) if len(alive) else None
    for j, values in enumerate(factors.T):
        if model is None or np.ptp(values[rows.fit]) == 0:
            predicted[:, j] = _constant_prediction(values[rows.fit], discrete[j])
            continue
        gains, predicted[:, j] = model.of_classes(values) if discrete[j] else model.of_numbers(values)
        importance[alive, j] = gains / (gains.sum() or 1)
    return TreeFit(importance, predicted)


def _constant_prediction(values: np.ndarray, discrete: bool) -> float:
    """The best prediction without features: the commonest class or the mean."""
    if not discrete:
        return float(values.mean())
    levels, counts = np.unique(values, return_counts=True)
    return float(levels[counts.argmax()])


class Reference:
    """Gradient boosting of scikit-learn."""

    def __init__(self, latents: np.ndarray, rows: RowSplit, seed: int) -> None:
        exponents = np.frexp(np.abs(latents).max(axis=0))[1]
        self.latents, self.rows = np.ldexp(latents, -exponents), rows  # in the range of single precision
        self.state = seed % 2**32

    def of_classes(self, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Importances and predictions of a discrete factor."""
        from sklearn.ensemble import GradientBoostingClassifier

        levels, labels = np.unique(values, return_inverse=True)
        gains, predicted = self._fitted(GradientBoostingClassifier, labels)
        return gains, levels[predicted.astype(int)]

    def of_numbers(self, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Importances and predictions of a continuous factor."""
        from sklearn.ensemble import GradientBoostingRegressor

        return self._fitted(GradientBoostingRegressor, values)

    def _fitted(self, kind: Any, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        model = kind(n_estimators=ROUNDS, max_depth=DEPTH, learning_rate=RATE, random_state=self.state)
        model.fit(self.latents[self.rows.fit], values[self.rows.fit])
        return model.feature_importances_, model.predict(self.latents[self.rows.judge])


class Fast:
    """Gradient boosting by LightGBM, which is given the residuals and returns the leaves."""

    def __init__(self, latents: np.ndarray, rows: RowSplit, seed: int) -> None:
        ranks = [np.unique(latent, return_inverse=True)[1] for latent in latents.T]
        self.ranks, self.rows, self.seed = np.stack(ranks, axis=1), rows, seed

    def of_classes(self, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Importances and predictions of a discrete factor."""
        levels, labels = np.unique(values[self.rows.fit], return_inverse=True)
        targets = np.eye(len(levels))[labels]
        start = np.log(targets.mean(axis=0))
        if len(levels) == 2:  # one score tells two classes apart
            targets, start = targets[:, 1:], start[1:] - start[:1]
        gains, scores = self._boosted(self._binned(labels), targets, start, classes=True)
        return gains, levels[scores.argmax(axis=1) if len(levels) > 2 else (scores[:, 0] > 0).astype(int)]

    def of_numbers(self, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Importances and predictions of a continuous factor."""
        largest = np.abs(values).max()
        scaled = values[self.rows.fit, None] / largest
        mean, spread = scaled.mean(), scaled.std()
        gains, scores = self._boosted(self._unlabelled, (scaled - mean) / spread, np.zeros(1), classes=False)
        return gains, (scores[:, 0] * spread + mean) * largest

    @cached_property
    def _unlabelled(self) -> Binned:
        """Bins that serve all continuous factors."""
        return self._binned(None)

    def _binned(self, labels: np.ndarray | None) -> Binned:
        from lightgbm import Dataset

        fit = self.rows.fit
        codes = np.stack([bins(rank, fit, labels) for rank in self.ranks.T], axis=1).astype(np.float64)
        settings = _SETTINGS | {"bin_construct_sample_cnt": len(fit)}
        return Binned(codes, Dataset(codes[fit], params=settings, free_raw_data=False).construct())

    def _boosted(
        self, binned: Binned, targets: np.ndarray, start: np.ndarray, *, classes: bool
    ) -> tuple[np.ndarray, np.ndarray]:
        """Gains of the latents and scores (judged, tree of a round) after all rounds."""
        from lightgbm import Booster

        (codes, table), (fit, judge) = binned, self.rows
        d, k = codes.shape[1], targets.shape[1]
        orders = seeds.numpy_generator(self.seed, "ties of trees")
        booster = Booster(_SETTINGS | {"num_class": k, "bin_construct_sample_cnt": len(fit)}, table)
        scores, targets = (
            np.asfortranarray(np.tile(start, (len(codes), 1))),
            np.asfortranarray(targets),
        )  # long axis inside
        ones, order = np.ones(targets.size, np.float32), np.arange(d)
        for number in range(ROUNDS):
            order = orders.permutation(d) if number % 2 == 0 else d - 1 - order
            booster.reset_parameter({"feature_contri": (1 + NUDGE * order).tolist()})
            seen = scores.T.take(fit, axis=1).T
            guess = probabilities(seen) if classes else seen
            residual = targets - guess
            slopes = -residual.ravel(order="F").astype(np.float32)
            if booster.update(fobj=lambda *_: (slopes, ones)):  # noqa: B023
                break
            leaf_of_row = booster.predict(codes, pred_leaf=True, start_iteration=number, num_iteration=1)
            leaves = np.asarray(leaf_of_row).reshape(len(codes), k).astype(np.int64, order="F") + 2**DEPTH * np.arange(
                k
            )
            curvature = guess * (1 - guess) if classes else np.ones(targets.shape)
            steps = newton_steps(leaves.T.take(fit, axis=1).T, residual, curvature) * ((k - 1) / k if k > 1 else 1)
            scores += (RATE * steps).take(leaves.T).T
        return booster.feature_importance("gain").astype(np.float64), scores[judge]


_SETTINGS: dict[str, Any] = {
    "objective": "none",
    "num_leaves": 2**DEPTH,
    "max_depth": DEPTH,
    "learning_rate": 1.0,
    "min_data_in_leaf": 1,
    "min_sum_hessian_in_leaf": 0.0,
    "max_bin": BORDERS + 2,
    "min_data_in_bin": 1,
    "enable_bundle": False,
    "feature_pre_filter": False,
    "force_col_wise": True,
    "num_threads": 1,
    "deterministic": True,
    "seed": 0,
    "verbosity": -1,
}


def bins(
    rank: Int[np.ndarray, " batch"], fit: np.ndarray, labels: Int[np.ndarray, " fitted"] | None = None
) -> Int[np.ndarray, " batch"]:
    """The bin of every row; the borders come from the fitted rows and their classes. Few values have a bin each.

    >>> bins(np.array([4, 0, 2, 2, 3]), np.array([0, 1, 2, 3])).tolist()
    [2, 0, 1, 1, 1]
    """
    order = np.argsort(rank[fit], kind="stable")
    sorted_ranks = rank[fit][order]
    begins = np.flatnonzero(np.diff(sorted_ranks)) + 1
    if len(begins) > BORDERS:
        wanted = np.searchsorted(begins, end_begins(len(sorted_ranks))).clip(max=len(begins) - 1)
        if labels is not None:
            wanted = np.append(wanted, np.searchsorted(begins, clearest_changes(labels[order], begins)))
        others = np.delete(np.arange(len(begins)), wanted)
        evenly = np.linspace(0, len(others) - 1, BORDERS - len(np.unique(wanted))).astype(int)
        begins = begins[np.union1d(wanted, others[evenly])]
    return np.searchsorted((sorted_ranks[begins] + sorted_ranks[begins - 1]) / 2, rank)


def end_begins(n: int) -> np.ndarray:
    """Bin borders that get dense towards both ends: equal steps of the log odds.

    >>> np.unique(end_begins(1000))[:8].tolist(), int(end_begins(1000).max())
    ([1, 2, 3, 4, 5, 6, 7, 8], 999)
    """
    edge = np.log(2.0 * n)
    places = n / (1 + np.exp(np.linspace(edge, -edge, ENDS)))
    return places.round().astype(int).clip(1, n - 1)


def clearest_changes(labels: Int[np.ndarray, " batch"], begins: Int[np.ndarray, " place"]) -> Int[np.ndarray, " few"]:
    """Of the possible bin borders between different classes the ``CHANGES`` purest, by the classes of rows on either
    side.

    >>> clearest_changes(np.array([0, 0, 0, 1, 1, 1]), np.arange(1, 6)).tolist()
    [3]
    """
    places = begins[labels[begins] != labels[begins - 1]]
    padded = np.concatenate([np.full(BESIDE, -1), labels, np.full(BESIDE, -1)])
    around = np.lib.stride_tricks.sliding_window_view(padded, 2 * BESIDE)[places]
    before, after = labels[places - 1, None], labels[places, None]
    leaning = (around == before).astype(int) - (around == after)
    clear = leaning[:, :BESIDE].sum(axis=1) - leaning[:, BESIDE:].sum(axis=1)
    return places[np.argsort(-clear, kind="stable")[:CHANGES]]


def probabilities(scores: Float[np.ndarray, "batch tree"]) -> Float[np.ndarray, "batch tree"]:
    """Logistic of one score for two classes, softmax of one score each for more.

    >>> probabilities(np.array([[0.0]])).tolist(), probabilities(np.log([[1.0, 1, 2]])).round(6).tolist()
    ([[0.5]], [[0.25, 0.25, 0.5]])
    """
    from scipy.special import expit, softmax

    return expit(scores) if scores.shape[1] == 1 else softmax(scores, axis=1)


def newton_steps(
    leaves: Int[np.ndarray, "batch tree"],
    residual: Float[np.ndarray, "batch tree"],
    curvature: Float[np.ndarray, "batch tree"],
) -> Float[np.ndarray, " leaf"]:
    """Σ residual / Σ curvature in every leaf, numbered through all trees; 0 where a leaf is empty or flat.

    >>> newton_steps(np.array([[0], [0], [2]]), np.array([[1.0], [2], [1]]), np.array([[1.0], [0.5], [0.25]]))[:3]
    array([2., 0., 4.])
    """
    size = 2**DEPTH * leaves.shape[1]
    places = leaves.ravel(order="F")
    up = np.bincount(places, residual.ravel(order="F"), size)
    down = np.bincount(places, curvature.ravel(order="F"), size)
    return np.divide(up, down, out=np.zeros(size), where=down > FLAT)
