"""Agreement: how near the representations of two runs are after the best map of each group, on held-out rows.

Errors are ``mean_i‖T h_i − g_i‖/Δ`` with Δ the diameter of the ``g_i``. ``T`` is a signed permutation (Hungarian),
rigid with one scale (Procrustes), affine (least squares), or that of ICA: both runs are whitened and unmixed by
themselves, their components matched by a signed permutation and led back to the first run's representations. Every
such map is affine and is fitted from means and second moments alone.

Reference: Nelson et al. (2026), Section 4.2 and A.7.2. Deviations: fitted on one half of the rows and measured on the
other (the paper's errors are in-sample); every map is between centred representations; shuffled rows say what chance
is. Runs of different widths are compared in the wider space, the narrower one padded with zeros (signed permutation,
rigid); ICA matches as many components as the run with fewer has. A mean over rows and columns says nothing of a small
direction, nor of most rows where a few are huge. So runs agree where every direction of either is explained by the
other, on all rows and with far rows pulled in (``weights``), and their components where each has its like. Runs are
fitted on the same rows and share their accidents: ICA can make even Gaussian runs agree, which is why non-Gaussian
components are a premise and not a matter of agreement.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from math import isnan, nan

import numpy as np
from jaxtyping import Float
from scipy.optimize import linear_sum_assignment

from noumena import checks, seeds
from noumena.guarantees.components import enough, too_few
from noumena.guarantees.hypotheses import Hypothesis
from noumena.guarantees.lipschitz import diameter
from noumena.guarantees.shared_directions import FLAT, ROUNDING, apart, unexplained, weights
from noumena.guarantees.unmixing import Unmixing, covariance_of, halves, unmix

AGREE, AGREE_RIGIDLY = "the runs agree up to an affine map", "the runs agree up to a rigid map with one scale"
AGREE_ONE_BY_ONE = "the runs' components agree one by one"
BETTER_THAN_CHANCE = 0.5
"""Runs agree when their error is below this share of what shuffled rows give."""
UNEXPLAINED = BETTER_THAN_CHANCE**2
"""The same of variances: a direction agrees when less of its variance is left. Shuffled rows leave all of it, noise of
20 % on both runs a tenth;"""
UNEXPLAINED_NEAR = 0.5
"""and when less than this is left with far rows pulled in, where noise counts more: 20 % on both runs leave a tenth
(uniform rows) to a quarter (exponential ones)."""
LEAST_GAIN = 0.01
"""A rigid map gains something over a signed permutation when it removes this share of the error."""
PERMUTATION, RIGID, AFFINE, ICA = "signed permutation", "rigid+scale", "affine", "ICA"

Table = Float[np.ndarray, "batch latent"]


# ---- moments and maps ----------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Moments:
    """Means and centred second moments of two tables of the same rows: all that it takes to fit a map."""

    n: int
    mean_g: Float[np.ndarray, " target"]
    mean_h: Float[np.ndarray, " source"]
    gg: Float[np.ndarray, "target target"]
    hh: Float[np.ndarray, "source source"]
    gh: Float[np.ndarray, "target source"]

    @property
    def flipped(self) -> Moments:
        """The same with target and source exchanged."""
        return Moments(self.n, self.mean_h, self.mean_g, self.hh, self.gg, self.gh.T)


def moments(g: Float[np.ndarray, "batch target"], h: Float[np.ndarray, "batch source"]) -> Moments:
    """The moments of two tables, in double precision.

    >>> float(moments(np.array([[0.0], [2.0]]), np.array([[1.0], [7.0]])).gh[0, 0])  # (−1)(−3)/2 + 1·3/2
    3.0
    """
    g, h = g.astype(np.float64), h.astype(np.float64)
    mean_g, mean_h = g.mean(axis=0), h.mean(axis=0)
    cross = (g - mean_g).T @ (h - mean_h) / len(g)
    return Moments(len(g), mean_g, mean_h, covariance_of(g), covariance_of(h), cross)


def merged(parts: Sequence[Moments]) -> Moments:
    """The moments of all rows from those of disjoint parts.

    >>> g = np.array([[0.0], [1.0], [5.0]])
    >>> float(merged([moments(g[:1], g[:1]), moments(g[1:], g[1:])]).gg[0, 0]), float(moments(g, g).gg[0, 0])
    (4.666..., 4.666...)
    """
    n = sum(part.n for part in parts)
    share = [part.n / n for part in parts]
    mean_g = _weighted(share, [part.mean_g for part in parts])
    mean_h = _weighted(share, [part.mean_h for part in parts])
    about = [moments_about(part, mean_g, mean_h) for part in parts]
    gg, hh, gh = (_weighted(share, [m[k] for m in about]) for k in range(3))
    return Moments(n, mean_g, mean_h, gg, hh, gh)


def _weighted(share: Sequence[float], arrays: Sequence[np.ndarray]) -> np.ndarray:
    """The weighted sum of arrays, one at a time."""
    total = np.zeros_like(arrays[0])
    for weight, array in zip(share, arrays, strict=True):
        total += weight * array
    return total


def moments_about(m: Moments, g: np.ndarray, h: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Second moments ``(gg, hh, gh)`` about other points than the means."""
    off_g, off_h = m.mean_g - g, m.mean_h - h
    return m.gg + np.outer(off_g, off_g), m.hh + np.outer(off_h, off_h), m.gh + np.outer(off_g, off_h)


@dataclass(frozen=True, eq=False)
class Map:
    """An affine map between representations, ``h ↦ (h − start) @ matrix + end``."""

    matrix: Float[np.ndarray, "source image"]
    start: Float[np.ndarray, " source"]
    end: Float[np.ndarray, " image"]

    def __call__(self, h: Float[np.ndarray, "batch source"]) -> Float[np.ndarray, "batch image"]:
        """The images of some rows, in their precision."""
        return (h - self.start.astype(h.dtype)) @ self.matrix.astype(h.dtype) + self.end.astype(h.dtype)


def distances(
    T: Map, g: Float[np.ndarray, "batch target"], h: Float[np.ndarray, "batch source"]
) -> Float[np.ndarray, " batch"]:
    """``‖T h_i − g_i‖`` of every row, a narrower ``g`` padded with zeros; zero where ``T`` leads ``h`` to ``g``.

    >>> T = permutation_map(moments(np.array([[0.0], [2.0]]), np.array([[0.0], [-2.0]])))
    >>> distances(T, np.array([[5.0]]), np.array([[-2.0]]))
    array([3.])
    """
    residual = T(h)
    residual[:, : g.shape[1]] -= g
    return np.sqrt(np.einsum("ij,ij->i", residual, residual)).astype(np.float64)


def permutation_map(m: Moments) -> Map:
    """The best signed permutation and shift, by the Hungarian algorithm on inner products.

    >>> g = np.array([[0.0, 1], [2, 0], [1, 5]])
    >>> np.allclose(permutation_map(moments(g, 3 - g[:, ::-1]))(3 - g[:, ::-1]), g)
    True
    """
    cross = _padded(m.gh)
    matrix = _signed_permutation(cross)[: len(m.mean_h)]
    return Map(matrix, m.mean_h, _longer(m.mean_g, len(cross)))


def _signed_permutation(cross: Float[np.ndarray, "target source"]) -> Float[np.ndarray, "source target"]:
    """The signed matching of sources to targets with the largest sum of inner products."""
    rows, columns = linear_sum_assignment(-np.abs(cross))
    matrix = np.zeros(cross.T.shape)
    matrix[columns, rows] = np.where(cross[rows, columns] < 0, -1.0, 1.0)
    return matrix


def similarity_map(m: Moments) -> Map:
    """The best rigid motion with one scale, by Procrustes.

    >>> g = np.array([[0.0, 1], [2, 0], [1, 5]])
    >>> h = 3 * g @ np.array([[0.6, 0.8], [-0.8, 0.6]])
    >>> np.allclose(similarity_map(moments(g, h))(h), g)
    True
    """
    cross = _padded(m.gh)
    left, shared, right = np.linalg.svd(cross.T)
    power = np.trace(m.hh)
    scale = shared.sum() / power if power > 0 else 1.0
    return Map(scale * (left @ right)[: len(m.mean_h)], m.mean_h, _longer(m.mean_g, len(cross)))


def affine_map(m: Moments, *, ridge: float = 0.0) -> Map:
    """The best affine map, by least squares; ``ridge`` is in units of the source's mean variance.

    >>> h = np.array([[0.0, 1], [2, 0], [1, 5], [1, 1]])
    >>> g = h @ np.array([[1.0, 2], [3, -1]]) + 7
    >>> np.allclose(affine_map(moments(g, h))(h), g)
    True
    """
    spread = np.sqrt(np.diag(m.hh))
    unit = np.ones_like(spread) if ridge > 0 else spread  # rotations of the source leave a ridge as it is
    scale = np.where(spread > ROUNDING * np.abs(m.mean_h), unit, np.inf)  # a constant column has no slope
    value, vector = np.linalg.eigh(m.hh / scale / scale[:, None])
    kept = value > FLAT * value[-1]
    basis = vector[:, kept] / scale[:, None]
    return Map(basis @ ((basis.T @ m.gh.T) / (value[kept] + ridge * value.mean())[:, None]), m.mean_h, m.mean_g)


def component_map(m: Moments, unmix_g: Unmixing, unmix_h: Unmixing) -> Map:
    """The map of ICA: both sides' components matched by a signed permutation and led back to the target.

    Of sides with different numbers of components as many are matched as the side with fewer has; others of the target
    stay at their mean.
    """
    match = component_match(m, unmix_g, unmix_h)
    return Map(unmix_h.matrix.T @ match @ unmix_g.mixing.T, m.mean_h, m.mean_g)


def component_match(m: Moments, unmix_g: Unmixing, unmix_h: Unmixing) -> Float[np.ndarray, "component other"]:
    """Which component of the source (row) goes to which of the target (column): 1, −1 or 0."""
    return _signed_permutation(unmix_g.matrix @ m.gh @ unmix_h.matrix.T)


def maps(m: Moments, *, ridge: float = 0.0) -> dict[str, Map]:
    """The best map of each group from source to target, the smallest group first."""
    return {PERMUTATION: permutation_map(m), RIGID: similarity_map(m), AFFINE: affine_map(m, ridge=ridge)}


def _padded(cross: Float[np.ndarray, "target source"]) -> Float[np.ndarray, "wider wider"]:
    wider = max(cross.shape)
    return np.pad(cross, ((0, wider - cross.shape[0]), (0, wider - cross.shape[1])))


def _longer(mean: Float[np.ndarray, " target"], length: int) -> Float[np.ndarray, " image"]:
    return np.pad(mean, (0, length - len(mean)))


# ---- pairs of runs -------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Agreement:
    """Held-out errors of the second run's representations mapped onto the first's, over the first's diameter."""

    runs: tuple[int, int]
    diameter: float
    errors: dict[str, float]
    """By group: ``signed permutation``, ``rigid+scale``, ``affine``, ``ICA``."""
    largest: dict[str, float]
    """The same for the worst row: near-identifiability (Nelson et al. 2026, Definition 1) is about that one."""
    chance: dict[str, float]
    """``errors`` when the rows of one run are shuffled."""
    unexplained: dict[str, tuple[float, ...]]
    """By group, the share of the variance that is left in each direction on held-out rows, the largest first, of the
    run that the other explains less. For ICA, of each matched component."""
    unexplained_near: dict[str, tuple[float, ...]]
    """The same with far rows pulled in."""

    @property
    def efficiency(self) -> float:
        """ICA's share of what a rigid map gains over a signed permutation."""
        return efficiency(self.errors[PERMUTATION], self.errors[RIGID], self.errors[ICA])

    def __str__(self) -> str:
        shown = ", ".join(f"{kind} {error:.3f} (chance {self.chance[kind]:.3f})" for kind, error in self.errors.items())
        gain = "nothing to gain" if isnan(self.efficiency) else f"ICA efficiency {self.efficiency:.0%}"
        return f"runs {self.runs[0] + 1} and {self.runs[1] + 1}: {shown}; {gain}"


def efficiency(permutation: float, rigid: float, ica: float) -> float:
    """``(e_perm − e_ICA)/(e_perm − e_rigid)``: 1 when ICA does what a rigid map does, 0 when it does nothing, above 1
    when runs are related by no rigid map; NaN when a rigid map gains nothing.

    >>> round(efficiency(0.197, 0.109, 0.145), 2)  # a row of the paper's Table 1
    0.59
    """
    gain = permutation - rigid
    return (permutation - ica) / gain if gain > LEAST_GAIN * permutation else nan


def agreements(
    runs: Sequence[Table], *, unmixings: Sequence[Unmixing] = (), restarts: int = 5, seed: int = 0
) -> tuple[Agreement, ...]:
    """The agreement of every pair of runs, tables of the same rows and equally many columns; none if rows are few.

    ``unmixings`` of the runs' fitted halves, where they are known already, save fitting them again.
    """
    if not enough(runs[0]):
        return ()
    fitted, measured = halves(len(runs[0]), seed)
    unmixings = unmixings or [unmix(run[fitted], restarts=restarts, seed=seed) for run in runs]
    shuffled = seeds.numpy_generator(seed, "chance of agreement").permutation(len(runs[0]))
    weight = [weights(run[measured]) for run in runs]
    found = []
    for a, b in combinations(range(len(runs)), 2):
        g, size = runs[a], diameter(runs[a])

        def held_out(h: Table, a: int = a, b: int = b, g: Table = g, size: float = size) -> dict[str, np.ndarray]:
            m = moments(g[fitted], h[fitted])
            found = {**maps(m), ICA: component_map(m, unmixings[a], unmixings[b])}
            return {kind: distances(T, g[measured], h[measured]) / size for kind, T in found.items()}

        rows, by_chance = held_out(runs[b]), held_out(runs[b][shuffled])
        m, both = moments(g[fitted], runs[b][fitted]), (g[measured], runs[b][measured])
        found.append(
            Agreement(
                (a, b),
                size,
                {kind: float(error.mean()) for kind, error in rows.items()},
                {kind: float(error.max()) for kind, error in rows.items()},
                {kind: float(error.mean()) for kind, error in by_chance.items()},
                *_left(m, both, (weight[a], weight[b]), (unmixings[a], unmixings[b])),
            )
        )
    return tuple(found)


Shares = dict[str, tuple[float, ...]]


def _left(
    m: Moments, rows: tuple[Table, Table], near: tuple[np.ndarray, np.ndarray], unmixing: tuple[Unmixing, Unmixing]
) -> tuple[Shares, Shares]:
    """What is left of each run by the best map of the other, in every direction, and of their matched components: on
    all rows, and with far rows pulled in."""
    there, back = maps(m), maps(m.flipped)
    s, t = unmixing[0](rows[0]), unmixing[1](rows[1])
    partner = t @ component_match(m, *unmixing)
    alone = np.ones(max(0, t.shape[1] - s.shape[1]))  # components of the second run that have no partner

    def left(weight: tuple[np.ndarray, np.ndarray]) -> Shares:
        """The same with rows weighted, of either run by its own weights; the worse way counts."""
        found = {}
        for kind in there:
            ways = (there[kind], *rows, weight[0]), (back[kind], *rows[::-1], weight[1])
            found[kind] = max((unexplained(T(h)[:, : g.shape[1]] - g, g, w) for T, g, h, w in ways), key=np.max)
        each = np.max([apart(s, partner, w) for w in weight], axis=0)
        found[ICA] = np.sort(np.concatenate([each, alone]))[::-1]
        return {kind: tuple(float(share) for share in shares) for kind, shares in found.items()}

    return left((np.ones(len(s)), np.ones(len(s)))), left(near)


NAMES = {AFFINE: AGREE, RIGID: AGREE_RIGIDLY, ICA: AGREE_ONE_BY_ONE}


def agree(found: Sequence[Agreement], kind: str = AFFINE) -> Hypothesis:
    """Is every pair of runs the same up to an affine map, or a rigid one with one scale, in every direction and in most
    rows? Or (ICA) has each of their components its like in every other run?"""
    if not found:
        return too_few(NAMES[kind])
    worst = max(found, key=lambda a: max(_apart(a, kind)))
    share, near = worst.unexplained[kind], worst.unexplained_near[kind]
    agreeing = min(sum(x < UNEXPLAINED for x in share), sum(x < UNEXPLAINED_NEAR for x in near))
    what = "components" if kind == ICA else "directions"
    evidence = (
        f"runs {worst.runs[0] + 1} and {worst.runs[1] + 1} are worst: {agreeing} of {len(share)} {what} agree; of the "
        f"worst {share[0]:.3f} of the variance is left on held-out rows (wanted less than {UNEXPLAINED:g}), "
        f"{near[0]:.3f} with far rows pulled in ({UNEXPLAINED_NEAR:g})"
    )
    return Hypothesis(NAMES[kind], "supported" if max(_apart(worst, kind)) < 1 else "fails", evidence)


def _apart(a: Agreement, kind: str) -> tuple[float, float]:
    """What is left of the worst direction, over what may be: on all rows, and with far rows pulled in."""
    return a.unexplained[kind][0] / UNEXPLAINED, a.unexplained_near[kind][0] / UNEXPLAINED_NEAR


def runs_of(tables: Sequence) -> list[Table]:
    """Checked representations of the same rows by two runs or more."""
    checks.require(len(tables) >= 2, "nearness must be given two or more representations.", f"{len(tables)}")
    runs = [checks.table(t, f"run {k + 1}", min_rows=2, varying=True).astype(float) for k, t in enumerate(tables)]
    for k, run in enumerate(runs[1:], start=2):
        checks.same_batch(runs[0], run, ("run 1", f"run {k}"))
        checks.require(
            run.shape[1] == runs[0].shape[1],
            f"run 1 and run {k} must have equally many columns.",
            f"{runs[0].shape[1]} and {run.shape[1]}",
        )
    return runs
