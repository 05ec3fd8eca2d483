"""Spread: what a sample of latent points says about the set that latents live on.

The Occam theorem makes latents equal element-wise near every point. That it does so everywhere needs connected slices:
for every latent ``t`` and value ``v`` the points with ``z_t = v`` form one piece, else a latent may be flipped or
shifted in one piece and not in another. And it needs points that fill the space, in the small too: a line or a
surface shows nothing of what lies beside it.

Slices are windows of a latent. A hole in one is a spacing, along another latent, far wider than those on both sides of
it; or an edge of the minimum spanning tree, with a share of the points on either side, far longer than its other edges.
Pieces that every latent and every window of one runs across, such as diagonal stripes or a ball in a shell, show in the
space as a whole: an edge of its tree is long beside the distances to neighbours at both its ends. A hole that is small
beside the spacing of the points stays unseen: "supported" says that no hole was seen.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
from jaxtyping import Float

from noumena.guarantees.hypotheses import CONNECTED, SPREAD, Hypothesis
from noumena.guarantees.simulation import Simulation

PRODUCT_SHAPED = ("gaussian", "unit gaussian", "laplace", "uniform", "correlated gaussian", "linear sem")
"""Laws with a density that is positive on a box, whose slices are connected."""
FEWEST = 200
"""Points that slices can be told from, at least."""
FEWEST_PER_LATENT = 50
USED = 4096
"""Points that are looked at, at most."""
CONFIRMED = 1000
"""Points that must not speak against a law that is known by its name."""
WINDOW = 50
"""Points of a slice, at least."""
SLICES = (8, 4, 2)
"""Slices of a latent, in the small and in the large."""
BESIDE = 20
"""Spacings on either side that a wide one is compared with."""
LEVEL = 1e-3
"""How seldom a connected sample may be said to have a hole."""
SHARE = 0.1
"""Points that must lie on either side of a hole, of those in its slice."""
LONG = 3.0
"""An edge of the spanning tree of a narrow slice is long beyond this many of the edges' upper quartile."""
GAPS = ((10, 11, 1.25, 0.0), (20, 45, 0.9, 0.004))
"""Of the neighbour whose distance is the measure: its number, points on either side of an edge at least, how many of
its distances make the edge long, and how many more for every latent, as all distances grow alike in many dimensions. In
4056 connected samples of 26 laws (2 to 8 latents, 200 to 4096 points) edges reached 1.09 of the first measure, of the
second 0.82 with 2 latents and 0.87 with 8; with 12, 24, 40 and 80 latents they reached 0.88, 0.93, 0.94 and 0.98."""
PER_LATENT = 10
"""Points for every latent, at least."""
NEIGHBOURS = 10
FULL = 0.5
"""Points fill the space where neighbours spread by more than this share of what they do in Gaussian points."""
LOCAL = 1000
"""Points whose neighbours are looked at."""
THIN = 1e-6
"""Points whose smallest spread is this share of the largest, in units of each latent's own, lie on a plane."""


def connected_law(world: Simulation) -> Hypothesis:
    """Whether slices of a world's law are connected, as a sample of it shows, and by its name: a law may have been
    replaced under the name of another."""
    named = world.law.name in PRODUCT_SHAPED
    found = connected_slices(world.latents(CONFIRMED if named else USED, random_state=2).double().cpu().numpy())
    if found.answer != "fails" and named:
        return Hypothesis(CONNECTED, "holds", f"the law is {world.law.name}, its density positive on a box")
    return found


def connected_slices(z: Float[np.ndarray, "point latent"], *, continuous: bool = True) -> Hypothesis:
    """Whether the slices of a sample are connected, as far as its points show; of latents that a decoder tears apart
    (it is not ``continuous``) they show nothing, as pieces may have been moved onto one another."""
    n, d = z.shape
    z = z[:USED]
    distinct = [len(np.unique(column)) for column in z.T]
    fewest = int(np.argmin(distinct))
    if distinct[fewest] <= len(z) / 2:
        evidence = f"z{fewest + 1} takes {distinct[fewest]} values at {len(z)} points: every value is a piece by itself"
        return Hypothesis(CONNECTED, "fails", evidence)
    wanted = max(FEWEST, FEWEST_PER_LATENT * d)
    if len(z) < wanted:
        return Hypothesis(CONNECTED, "unknown", f"{n} points are too few to tell (wanted {wanted})")
    hole = _hole(z)
    if hole is not None:
        evidence = f"{hole}: latents may differ from piece to piece by more than one element-wise map"
        return Hypothesis(CONNECTED, "fails", evidence)
    if not continuous:
        evidence = "the decoder is not continuous: slices without a hole may be pieces moved onto one another"
        return Hypothesis(CONNECTED, "unknown", evidence)
    return Hypothesis(CONNECTED, "supported", f"no slice of {len(z)} points has a hole")


def _hole(z: np.ndarray) -> str | None:
    """The first hole found, in words: along a latent, then in slices of one."""
    n, d = z.shape
    narrow = max(WINDOW, n // SLICES[0])
    tests = d * n * (1 + 2 * len(SLICES) * (d - 1))
    for r in range(d):
        found = _widest(np.sort(z[:, r]), tests)
        if found:
            return f"z{r + 1} has a hole between {found[0]:.3g} and {found[1]:.3g}"
    if d > 1 and _pieces(z) > 1:
        return "the points lie in pieces that are farther apart than neighbours are"
    for t in range(d):
        order = np.argsort(z[:, t], kind="stable")
        for rows in _windows(order):
            where = f"where z{t + 1} is between {z[rows[0], t]:.3g} and {z[rows[-1], t]:.3g}"
            for r in (r for r in range(d) if r != t):
                found = _widest(np.sort(z[rows, r]), tests)
                if found:
                    return f"{where}, z{r + 1} has a hole between {found[0]:.3g} and {found[1]:.3g}"
            if d > 2 and len(rows) <= narrow and _split(np.delete(z[rows], t, axis=1)):
                return f"{where}, the other latents lie in separate pieces"
    return None


def _windows(order: np.ndarray) -> list[np.ndarray]:
    """Overlapping slices of the points in the order of a latent, from narrow to wide."""
    n, windows = len(order), []
    for size in sorted({max(WINDOW, n // slices) for slices in SLICES}):
        starts = np.unique(np.linspace(0, n - size, max(2, 2 * (n // size))).astype(int))
        windows += [order[k : k + size] for k in starts]
    return windows


def _widest(values: np.ndarray, tests: int) -> tuple[float, float] | None:
    """The ends of a spacing of sorted values that is too wide for those on both sides of it."""
    n = len(values)
    beside = min(BESIDE, int(SHARE * n))
    spacings = np.diff(values)
    if beside < 4:
        return None
    sums = np.concatenate([[0.0], np.cumsum(spacings)])
    k = np.arange(beside, len(spacings) - beside)
    left, right = sums[k] - sums[k - beside], sums[k + 1 + beside] - sums[k + 1]
    ratio = spacings[k] * beside / np.maximum(np.maximum(left, right), np.finfo(float).tiny)
    most = beside * ((tests / LEVEL) ** (1 / beside) - 1)  # of exponential spacings with one mean
    worst = int(np.argmax(ratio))
    return (float(values[k[worst]]), float(values[k[worst] + 1])) if ratio[worst] > most else None


def _split(z: np.ndarray) -> bool:
    """Whether the minimum spanning tree has an edge far longer than the others, with a share of points either side."""
    _, _, length, smaller = _spanning_tree(_normal_scores(z))
    return bool((length[smaller >= SHARE * len(z)] > LONG * np.quantile(length, 0.75)).any())


def _pieces(z: np.ndarray) -> float:
    """How far the points are from one piece, above one where they lie in several: their spanning tree has an edge, with
    a number of points on either side, that is long beside the distances to neighbours at both its ends.

    Where points thin out neighbours are far too, so a tail is no piece, and a gap between pieces counts only where it
    is wide beside the spacing of the points at its rims. That takes points: a shell at 0.6 radii of a ball was seen
    from 512 points in 2 dimensions and from 3000 in 3, in a third of the samples of 3000 in 4 and never in 5; stripes
    with gaps of 0.14 in a square of side 4 not below 3000. Ten points or fewer are no piece.
    """
    from scipy.spatial import KDTree

    low, middle, high = np.quantile(z, [0.25, 0.5, 0.75], axis=0)
    z = np.clip((z - middle) / np.maximum(high - low, 1e-200), -1e100, 1e100)  # squares stay finite
    child, parent, length, smaller = _spanning_tree(z)
    neighbours: Any = [k + 1 for k, *_ in GAPS]
    near = np.maximum(KDTree(z).query(z, k=neighbours)[0], np.finfo(float).tiny)
    ratio = length[:, None] / np.maximum(near[child], near[parent])
    return max(
        float(ratio[smaller >= least, j].max(initial=0)) / (long + longer * z.shape[1])
        for j, (_, least, long, longer) in enumerate(GAPS)
    )


def _spanning_tree(z: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """The edges of the minimum spanning tree as it grows from the first point (Prim 1957): the point that is new, the
    one that it hangs on, their distance, and how many points lie on the side of the edge where there are fewer."""
    n, columns = len(z), np.ascontiguousarray(z.T)
    nearest, hangs_on, grown = np.full(n, np.inf), np.zeros(n, dtype=int), np.zeros(n)
    child, length, new = np.zeros(n - 1, dtype=int), np.zeros(n - 1), 0
    for k in range(n - 1):
        grown[new] = np.inf
        apart = columns - columns[:, new : new + 1]
        distance = np.einsum("ij,ij->j", apart, apart) + grown
        closer = distance < nearest
        nearest[closer], hangs_on[closer] = distance[closer], new
        nearest[new] = np.inf
        new = int(nearest.argmin())
        child[k], length[k] = new, np.sqrt(nearest[new])
    parent, beyond = hangs_on[child], np.ones(n, dtype=int)
    for c, p in zip(child[::-1], parent[::-1], strict=True):
        beyond[p] += beyond[c]
    return child, parent, length, np.minimum(beyond[child], n - beyond[child])


# ---- filling the space ---------------------------------------------------------------------------------------


def full_dimensional(z: Float[np.ndarray, "point latent"]) -> Hypothesis:
    """Whether points spread in all directions, in the small too."""
    d = z.shape[1]
    kept = np.unique(z, axis=0)
    if len(kept) < PER_LATENT * d:
        return Hypothesis(SPREAD, "unknown", f"{len(kept)} different points of {d} latents (wanted {PER_LATENT * d})")
    spread = kept.std(axis=0)
    if (spread == 0).any():
        return Hypothesis(SPREAD, "fails", f"z{int(np.argmin(spread)) + 1} never varies")
    centred = (kept - kept.mean(axis=0)) / spread
    singular = np.linalg.svd(centred, compute_uv=False)
    if singular[-1] <= THIN * singular[0]:
        return Hypothesis(SPREAD, "fails", "the points lie on a plane of fewer dimensions than there are latents")
    if d == 1:
        return Hypothesis(SPREAD, "supported", f"{len(kept)} different points of one latent")
    chosen = np.random.default_rng(0).permutation(len(kept))[:LOCAL]
    scores = _normal_scores(kept)
    plain, white = scores[chosen], _whitened(scores)[chosen]
    sentence = f"neighbours spread as in {max(0.0, d - 1 + _filled(white)):.1f} of {d} dimensions"
    if _filled(white) <= FULL:
        return Hypothesis(SPREAD, "fails", sentence)
    thinnest = min(_filled(plain), _thickness(plain) / _thickness_of_gaussian(len(plain), d))
    if thinnest <= FULL:
        thin = f"neighbours spread across by {max(thinnest, 0.0):.2f} of what they would where points fill the space"
        return Hypothesis(SPREAD, "unknown", f"{thin}: a surface, or latents that nearly determine one another")
    return Hypothesis(SPREAD, "supported", sentence)


def _filled(z: np.ndarray) -> float:
    """One where distances to neighbours speak of as many dimensions as there are latents, zero where of one fewer."""
    n, d = z.shape
    full, less = _reference(n, d), _reference(n, d - 1)
    return (_dimension(z) - less) / max(full - less, 1e-9)


def _thickness(z: np.ndarray) -> float:
    """The smallest spread of neighbours as a share of the largest, the median over points."""
    from scipy.spatial import KDTree

    near = z[KDTree(z).query(z, k=min(2 * z.shape[1] + 3, len(z)))[1]]
    singular = np.linalg.svd(near - near.mean(axis=1, keepdims=True), compute_uv=False)
    return float(np.median(singular[:, -1] / np.maximum(singular[:, 0], 1e-300)))


@cache
def _thickness_of_gaussian(n: int, d: int) -> float:
    return _thickness(np.random.default_rng(d).normal(size=(n, d)))


def _normal_scores(z: np.ndarray) -> np.ndarray:
    """Every column made Gaussian by its ranks, which leaves pieces and dimensions what they are."""
    from scipy.special import ndtri
    from scipy.stats import rankdata

    return ndtri((rankdata(z, axis=0) - 0.5) / len(z))


def _whitened(z: np.ndarray) -> np.ndarray:
    """Uncorrelated columns of one spread."""
    centred = z - z.mean(axis=0)
    _, singular, right = np.linalg.svd(centred, full_matrices=False)
    return centred @ right.T / np.maximum(singular, THIN * singular[0])


def _dimension(z: np.ndarray) -> float:
    """The dimension that distances to neighbours speak of (Levina and Bickel 2004), the median over points."""
    from scipy.spatial import KDTree

    k = min(NEIGHBOURS, len(z) - 1)
    distances = np.maximum(KDTree(z).query(z, k=k + 1)[0][:, 1:], 1e-300)
    return float((k - 2) / np.median(np.log(distances[:, -1:] / distances[:, :-1]).sum(axis=1)))


@cache
def _reference(n: int, d: int) -> float:
    """``_dimension`` of so many Gaussian points."""
    return _dimension(np.random.default_rng(d).normal(size=(n, d)))
