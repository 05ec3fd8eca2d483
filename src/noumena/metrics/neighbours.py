"""Mutual information by nearest neighbours, of one-dimensional latents with discrete or continuous factors.

With a discrete factor, the interval around a row reaches its k-th neighbour of the same class, and all rows in it are
counted; with a continuous one, the square around a row in the plane reaches its k-th neighbour, and the rows in its
projections on both axes are counted. On the line sorting finds all neighbours. In the plane the rows are cut into
vertical strips, each sorted, and a row searches a window of its own strip and of the two beside it; the few rows whose
square could reach further query a k-d tree.

References
----------
Ross (2014), "Mutual information between discrete and continuous data sets"; Kraskov et al. (2004), "Estimating mutual
information"; Gao et al. (2017), "Estimating mutual information for discrete-continuous mixtures".

Deviations from scikit-learn's estimates: ties are not broken by noise; intervals are closed and counted with their
ties, so that on latents with few levels the estimate becomes, but for a correction of bias, the one from frequencies.
Without ties the estimates are the same.
"""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int, Shaped

from noumena import checks

SLACK = 1e-9
"""Relative difference below which two distances are equal."""
STRIPS = 1.3
"""Number of strips in units of √(rows / (k + 1)): at one, squares in a uniform density are as wide as a strip."""
CHUNK = 512
"""Rows whose windows are searched together."""


def information_matrix(
    values: Float[np.ndarray, "batch factor"],
    latents: Float[np.ndarray, "batch latent"],
    discrete: tuple[bool, ...],
    *,
    neighbours: int = 10,
) -> Float[np.ndarray, "factor latent"]:
    """Mutual information in nats of every factor with every latent, by nearest neighbours.

    Near 0 when independent, 0 for constants; invariant to shift and scale of a column and to renaming discrete values.

    Parameters
    ----------
    values : array of shape (n_samples, n_factors)
        The factors.
    latents : array of shape (n_samples, n_latents)
        The latents.
    discrete : tuple of bool
        Which factors are discrete.
    neighbours : int
        Number of neighbours, k.

    Returns
    -------
    array of shape (n_factors, n_latents)

    Examples
    --------
    Two classes of two rows each, far apart, with one neighbour: ψ(4) + ψ(1) − ψ(2) − ψ(1) = 1/2 + 1/3.

    >>> values, latents = np.array([[0.0], [0], [1], [1]]), np.array([[0.0, 5], [1, 5], [10, 5], [11, 5]])
    >>> (6 * information_matrix(values, latents, (True,), neighbours=1)).round(9).tolist()
    [[5.0, 0.0]]
    """
    values, latents = checks.table(values, "values"), checks.table(latents, "latents")
    k, kinds = checks.count(neighbours, "neighbours"), np.atleast_1d(np.array(discrete, dtype=bool))
    sizes = f"{len(kinds)} kinds, {values.shape[1]} factors, {len(values)} and {len(latents)} rows"
    fits = len(kinds) == values.shape[1] and len(values) == len(latents)
    checks.require(fits, "Factors must have one kind each and as many rows as latents.", sizes)
    matrix, psi = np.zeros((values.shape[1], latents.shape[1])), _psi(len(latents))
    columns = {int(i): _column(latents[:, i]) for i in np.flatnonzero(np.ptp(latents, axis=0) > 0)}
    for j in np.flatnonzero(np.ptp(values, axis=0) > 0):
        if kinds[j]:
            labels = np.unique(values[:, j], return_inverse=True)[1]
            information = [_with_classes(latent.ordered, labels[latent.order], k, psi) for latent in columns.values()]
        else:
            factor = _column(values[:, j])
            information = [_with_numbers(latent, factor, k, psi) for latent in columns.values()]
        matrix[j, list(columns)] = information
    return matrix


def shares(
    matrix: Float[np.ndarray, "factor latent"], values: Float[np.ndarray, "batch factor"], discrete: tuple[bool, ...]
) -> Float[np.ndarray, "factor latent"]:
    """Normalised mutual information: over a discrete factor's entropy, or 1 − exp(−2 I) for a continuous one, the
    squared correlation of Gaussians with as much information; 0 for a constant factor.

    >>> shares(np.full((2, 1), np.log(2)), np.array([[0.0, 0.1], [0, 0.2], [1, 0.3], [1, 0.7]]), (True, False)).tolist()
    [[1.0], [0.75]]
    """
    normalised = 1 - np.exp(-2 * matrix)
    for j in np.flatnonzero(discrete):
        total = entropy(np.unique(values[:, j], return_inverse=True)[1])
        normalised[j] = matrix[j] / total if total > 0 else 0.0
    return normalised


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
    """Mutual information in nats of a one-dimensional latent with a source, by nearest neighbours.

    Near 0 when independent, never below; invariant to shift and scale of the latent and to renaming discrete values.

    Parameters
    ----------
    latent, source : array of shape (n_samples,)
        The two variables; values of a discrete source must repeat.
    discrete : bool
        Whether the source is discrete.
    neighbours : int
        Number of neighbours, k.

    Returns
    -------
    float

    Examples
    --------
    Two classes of two rows each, far apart, with one neighbour: ψ(4) + ψ(1) − ψ(2) − ψ(1) = 1/2 + 1/3.

    >>> latent, source = np.array([0.0, 1, 10, 11]), np.array([0, 0, 1, 1])
    >>> round(6 * mutual_information(latent, source, neighbours=1), 9)
    5.0
    """
    latent, source = np.asarray(latent, dtype=np.float64), np.asarray(source)
    k = checks.count(neighbours, "neighbours")
    usable = len(latent) > 1 and bool(np.isfinite(latent).all())
    checks.require(usable, "A mutual information must have 2 finite rows or more.", f"{latent[:4]}")
    if discrete:
        source = np.unique(source, return_inverse=True)[1]
        repeats = int(source.max()) + 1 < len(source)
        checks.require(repeats, "A discrete source must repeat its values.", f"{len(source)} different values")
    columns = source.astype(np.float64)[:, None], latent[:, None]
    return float(information_matrix(*columns, (bool(discrete),), neighbours=k)[0, 0])


class _Column(NamedTuple):
    """A standardised column, its argsort, its ranks, and its sorted values."""

    numbers: np.ndarray
    order: np.ndarray
    place: np.ndarray
    ordered: np.ndarray


def _column(numbers: np.ndarray) -> _Column:
    numbers = (numbers - numbers.mean()) / np.ptp(numbers)  # any unit of measurement: squares stay in range
    numbers = numbers / numbers.std()
    order = np.argsort(numbers, kind="stable")
    place = np.empty(len(order), dtype=np.int64)
    place[order] = np.arange(len(order))
    return _Column(numbers, order, place, numbers[order])


def _psi(n: int) -> np.ndarray:
    """The digamma function at 0, 1, …, n."""
    from scipy.special import digamma

    return digamma(np.arange(n + 1))


# ---- on the line -------------------------------------------------------------------------------------------------


def _with_classes(values: np.ndarray, labels: np.ndarray, k: int, psi: np.ndarray) -> float:
    """Ross's estimator for sorted ``values``; rows alone in their class are left out, small classes use fewer
    neighbours."""
    size = np.bincount(labels)[labels]
    values, labels, size = values[size > 1], labels[size > 1], size[size > 1]
    n = len(values)
    if n == 0:
        return 0.0
    by_class = np.argsort(labels, kind="stable")
    values_, labels_, size_ = values[by_class], labels[by_class], size[by_class]
    reach = _reach(values_, np.searchsorted(labels_, labels_), size_, k)
    low, high = _intervals(values, values_, reach, closed=True)
    places = labels_ * n + by_class  # sorted by class, then by place among all
    own = np.searchsorted(places, labels_ * n + high) - np.searchsorted(places, labels_ * n + low) - 1
    return max(0.0, float(psi[n] + np.mean(psi[own] - psi[size_] - psi[high - low - 1])))


def _reach(values: np.ndarray, start: np.ndarray, size: np.ndarray, k: int) -> np.ndarray:
    """Distance to the k-th neighbour within each class, a sorted run: the least over windows of k + 1 rows."""
    i, k_own = np.arange(len(values)), np.minimum(k, size - 1)
    best = np.full(len(values), np.inf)
    for back in range(int(k_own.max()) + 1):
        first = i - back
        last = first + k_own
        inside = (first >= start) & (last < start + size) & (back <= k_own)
        first, last = np.where(inside, first, i), np.where(inside, last, i)
        across = np.maximum(values - values[first], values[last] - values)
        best = np.where(inside, np.minimum(best, across), best)
    return best


def _intervals(
    ordered: np.ndarray, centres: np.ndarray, radius: np.ndarray, *, closed: bool
) -> tuple[np.ndarray, np.ndarray]:
    """Indices in sorted numbers where intervals around centres begin and end, closed or open whatever the rounding; an
    interval of radius 0 holds its centre."""
    radius = _widened(ordered, radius, closed=closed)
    return np.searchsorted(ordered, centres - radius, "left"), np.searchsorted(ordered, centres + radius, "right")


def _widened(ordered: np.ndarray, radius: np.ndarray, *, closed: bool) -> np.ndarray:
    """A little more than a radius, or less, so that rounding does not decide what lies on the boundary."""
    sign, rounding = 1 if closed else -1, 4 * float(np.finfo(np.float64).eps * np.abs(ordered).max())
    return np.maximum(radius * (1 + sign * SLACK) + sign * rounding, 0)


# ---- in the plane ------------------------------------------------------------------------------------------------


def _with_numbers(latent: _Column, factor: _Column, k: int, psi: np.ndarray) -> float:
    """Kraskov's first estimator. Where several rows lie on the boundary of a square they all count, and those on the
    boundaries of its projections; a row that coincides with k others or more counts those and itself (Gao et al.)."""
    radius, own = _squares(latent, factor, min(k, len(latent.order) - 1))
    information = psi[len(radius)] + psi[own].mean()
    for column in (latent, factor):
        information -= psi[_projection_counts(column.ordered, radius[column.order])].mean()
    return max(0.0, float(information))


def _projection_counts(ordered: np.ndarray, radius: np.ndarray) -> np.ndarray:
    """How many of sorted numbers lie within a radius of each: itself and those inside, or all but itself with those on
    the boundary, if that is more. Few boundaries hold two, and only those are searched."""
    low, high = _intervals(ordered, ordered, radius, closed=False)
    width, padded = _widened(ordered, radius, closed=True), np.pad(ordered, 2, constant_values=(-np.inf, np.inf))
    beneath, beyond = ordered - width, ordered + width
    left, right = padded[low + 1] >= beneath, padded[high + 2] <= beyond
    several = np.flatnonzero((left & right) | (padded[low] >= beneath) | (padded[high + 3] <= beyond))
    counts = high - low
    lowest, highest = _intervals(ordered, ordered[several], radius[several], closed=True)
    counts[several] = np.maximum(counts[several], highest - lowest - 1)
    return counts


def _squares(x: _Column, y: _Column, k: int) -> tuple[np.ndarray, np.ndarray]:
    """Chebyshev distance of every point to its k-th neighbour, and how many points lie within it."""
    from scipy.spatial import KDTree

    n, window = len(x.order), 2 * k + 6
    points = np.stack([x.numbers, y.numbers], axis=1)
    strips = round(STRIPS * np.sqrt(n / (k + 1)))
    radius, beyond, unsure = np.zeros(n), np.full(n, np.inf), np.arange(n)
    if strips >= 3 and n // strips >= window:
        radius, beyond, sure = _in_strips(x, y, k, strips=strips, window=window)
        beyond, unsure = np.minimum(beyond, sure), np.flatnonzero(radius > sure)
    tree = cache(lambda: KDTree(points, balanced_tree=False, compact_nodes=False))  # for few questions, and many ties
    if len(unsure):
        away = np.asarray(tree().query(points[unsure], k=k + 2, p=np.inf)[0])
        radius[unsure], beyond[unsure] = away[:, k], away[:, k + 1]
    wide = radius * (1 + SLACK) + 4 * float(np.finfo(np.float64).eps * np.abs(points).max())
    own, tied = np.full(n, k), np.flatnonzero((beyond <= wide) | (radius == 0))
    if len(tied):
        distinct, first, which = np.unique(points[tied], axis=0, return_index=True, return_inverse=True)
        reach = np.where(radius[tied[first]] > 0, wide[tied[first]], 0.0)
        within = tree().query_ball_point(distinct, reach, p=np.inf, return_length=True)
        own[tied] = (within - (reach > 0))[which.ravel()]
    return radius, own


def _in_strips(x: _Column, y: _Column, k: int, *, strips: int, window: int) -> tuple[np.ndarray, ...]:
    """Distances of every point to its k-th neighbour and to the next within windows of three strips, and a lower bound
    on the distance to any point outside them."""
    n, edges = len(x.order), np.linspace(0, len(x.order), strips + 1).astype(np.int64)
    strip = np.repeat(np.arange(strips), np.diff(edges))
    keys = strip * n + y.place[x.order]
    upwards = np.argsort(keys)
    keys, rows = keys[upwards], x.order[upwards]
    points = np.stack([x.numbers[rows], y.numbers[rows]])
    left, right = np.append(x.ordered[edges[:-1]], np.inf), np.append(x.ordered[edges[1:] - 1], -np.inf)
    first = np.clip(strip - 1, 0, strips - 3)
    trusted = np.minimum(points[0] - right[first - 1], left[first + 3] - points[0])
    starts = np.empty((n, 3), dtype=np.int64)
    for which in range(3):
        there = first + which
        low, high = edges[there], edges[there + 1]
        at = np.clip(np.searchsorted(keys, there * n + keys - strip * n) - window // 2, low, high - window)
        beneath = np.where(at > low, points[1] - points[1][at], np.inf)
        above = np.where(at + window < high, points[1][at + window - 1] - points[1], np.inf)
        sideways = np.maximum(left[there] - points[0], points[0] - right[there])
        trusted = np.minimum(trusted, np.maximum(np.minimum(beneath, above), sideways))
        starts[:, which] = at
    distances = np.empty((3, n))
    distances[:2, rows], distances[2, rows] = _nearest(points, starts, window, k), trusted
    return tuple(distances)


def _nearest(points: np.ndarray, starts: np.ndarray, window: int, k: int) -> np.ndarray:
    """Distances of every point to the k-th nearest but itself among those of its windows, and to the next."""
    n, offsets = points.shape[1], np.arange(window)
    distances = np.empty((2, n))
    for begin in range(0, n, CHUNK):
        rows = slice(begin, begin + CHUNK)
        among = (starts[rows, :, None] + offsets).reshape(-1, 3 * window)
        away, up = np.take(points[0], among), np.take(points[1], among)
        away -= points[0][rows, None]
        up -= points[1][rows, None]
        np.maximum(np.abs(away, out=away), np.abs(up, out=up), out=away)
        away.partition(k, axis=1)
        distances[0, rows], distances[1, rows] = away[:, k], away[:, k + 1 :].min(axis=1)
    return distances
