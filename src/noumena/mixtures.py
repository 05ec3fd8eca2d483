"""Gaussian mixtures whose components may be degenerate: densities of latents, their images, marginals and supports.

A component with a singular covariance lives on an affine subspace, its support: the mean plus the span of the
covariance. Components are numbered from 0, as in the labels ``u`` that ``sample`` returns.

References
----------
Xu et al. (2026), "Identifiability of Potentially Degenerate Gaussian Mixture Models With Piecewise
Affine Mixing", Definition 2.2; Kivva et al. (2022), "Identifiability of deep generative models
without auxiliary information", eq. (2). Renamed: ``λ, μ, Σ`` are ``weights, means, covariances``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from noumena import checks, seeds
from noumena.deprecated import renamed

ROUNDING = 1e-8
"""Relative tolerance for asymmetry and negative eigenvalues of a given covariance."""

TOLERANCE = 1e-9
"""Relative size below which a number computed from exact parameters counts as zero."""


@dataclass(frozen=True, eq=False)
class Support:
    """An affine subspace ``point + span(basis)``; the columns of ``basis`` are orthonormal.

    Two lines of the plane meet in a point, a subspace of rank 0:

    >>> across, up = Support(np.zeros(2), np.eye(2)[:, :1]), Support(np.ones(2), np.eye(2)[:, 1:])
    >>> meeting = across.meet(up)
    >>> meeting.point.tolist(), meeting.rank
    ([1.0, 0.0], 0)
    """

    point: np.ndarray
    basis: np.ndarray

    @property
    def rank(self) -> int:
        """Dimension of the subspace."""
        return self.basis.shape[1]

    def beside(self, vectors: np.ndarray) -> np.ndarray:
        """What the columns of ``vectors`` have outside the span."""
        return vectors - self.basis @ (self.basis.T @ vectors)

    def contains(self, other: Support, *, tolerance: float = TOLERANCE) -> bool:
        """Whether the other subspace lies in this one, up to ``tolerance`` in angle and in distance."""
        gap = other.point - self.point
        through_point = np.linalg.norm(self.beside(gap)) <= tolerance * max(1.0, float(np.linalg.norm(gap)))
        return bool(through_point) and bool(np.abs(self.beside(other.basis)).max(initial=0) <= tolerance)

    def meet(self, other: Support, *, tolerance: float = TOLERANCE) -> Support | None:
        """The intersection with another affine subspace; ``None`` when it is empty."""
        outside = other.beside(self.basis)  # its singular values are the sines of the principal angles
        left, sines, right = np.linalg.svd(outside, full_matrices=True)
        crossing = int((sines > tolerance).sum())
        gap = other.beside(other.point - self.point)
        shift = right[:crossing].T @ ((left[:, :crossing].T @ gap) / sines[:crossing])
        missed = float(np.linalg.norm(gap - outside @ shift))
        if missed > tolerance * max(1.0, float(np.linalg.norm(other.point - self.point))):
            return None
        return Support(self.point + self.basis @ shift, self.basis @ right[crossing:].T)


def common_basis(directions: Sequence[np.ndarray], *, tolerance: float = TOLERANCE) -> np.ndarray | None:
    """The columns of a basis of the whole space that contains a basis of every given span; ``None`` if there is none.

    For a set ``T`` of spans, block ``T`` of the basis completes the blocks of larger sets to the intersection ``V_T``.
    A new span ``W`` splits every block into what it adds to ``V_T ∩ W`` and the rest; ``W`` has a basis among them iff
    the first parts add up to its dimension, as any common basis has as many members in each part.

    >>> plane, across, up, diagonal = np.eye(2), np.eye(2)[:, :1], np.eye(2)[:, 1:], np.ones((2, 1)) / np.sqrt(2)
    >>> np.abs(common_basis([plane, across, up])).tolist(), common_basis([across, up, diagonal])
    ([[1.0, 0.0], [0.0, 1.0]], None)
    """
    n = len(directions[0])
    blocks: dict[frozenset[int], np.ndarray] = {frozenset(): np.eye(n)}
    for j, W in enumerate(directions):
        parts: dict[frozenset[int], np.ndarray] = {}
        for T, block in blocks.items():
            above = _span([np.zeros((n, 0)), *(blocks[U] for U in blocks if T < U)], tolerance)
            V = _span([above, block], tolerance)
            inside = _meet(V, W, tolerance)
            parts[T | {j}] = _beyond(inside, _meet(above, W, tolerance))
            parts[T] = _beyond(V, _span([above, inside], tolerance))
        if sum(part.shape[1] for T, part in parts.items() if j in T) != W.shape[1]:
            return None
        blocks = {T: part for T, part in parts.items() if part.shape[1]}
    columns = np.column_stack(list(blocks.values()))
    return columns if columns.shape == (n, n) else None


def _span(columns: Sequence[np.ndarray], tolerance: float) -> np.ndarray:
    """An orthonormal basis of the sum of some spans."""
    left, values, _ = np.linalg.svd(np.column_stack(columns), full_matrices=False)
    return left[:, values > tolerance]


def _meet(V: np.ndarray, W: np.ndarray, tolerance: float) -> np.ndarray:
    """An orthonormal basis of the intersection of two spans."""
    both = Support(np.zeros(len(V)), V).meet(Support(np.zeros(len(W)), W), tolerance=tolerance)
    return np.zeros((len(V), 0)) if both is None else both.basis


def _beyond(V: np.ndarray, U: np.ndarray) -> np.ndarray:
    """An orthonormal basis of the complement, in a span, of a span within it: the singular values are 0 and 1."""
    return _span([Support(np.zeros(len(U)), U).beside(V)], 0.5)


@dataclass(frozen=True, eq=False)
class Mixture:
    """``Σ_j weights[j] · N(means[j], covariances[j])``; a covariance may be singular, a zero one is a point.

    Parameters
    ----------
    weights : array of shape (n_components,)
        Positive, with sum one.
    means : array of shape (n_components, n_latents)
        Means of the components.
    covariances : array of shape (n_components, n_latents, n_latents)
        Symmetric, without negative eigenvalues.
    fitted : bool
        Whether the numbers were estimated from data, so that nothing about them is exact.

    Examples
    --------
    >>> cross = Mixture([0.5, 0.5], [[1, 0], [0, 2]], [[[1, 0], [0, 0]], [[0, 0], [0, 3]]])
    >>> cross, cross.ranks().tolist()
    (Mixture(2 components in 2 dimensions), [1, 1])
    """

    weights: Any
    means: Any
    covariances: Any
    fitted: bool = False

    def __post_init__(self) -> None:
        means = checks.table(self.means, "means").astype(np.float64)
        k, d = means.shape
        weights = _weights(self.weights, k)
        covariances = _covariances(self.covariances, k, d)
        for name, array in (("weights", weights), ("means", means), ("covariances", covariances)):
            array.flags.writeable = False
            object.__setattr__(self, name, array)

    def __repr__(self) -> str:
        return f"Mixture({self.n_components} components in {self.n_latents} dimensions)"

    @classmethod
    def of(cls, subject: Any) -> Mixture:
        """A mixture from a ``Mixture`` or a fitted scikit-learn ``GaussianMixture`` of any covariance type."""
        if isinstance(subject, Mixture):
            return subject
        fitted = all(hasattr(subject, name) for name in ("weights_", "means_", "covariances_", "covariance_type"))
        checks.require(
            fitted, "A mixture must be a Mixture or a fitted GaussianMixture.", f"a {type(subject).__name__}"
        )
        means, covariances = np.asarray(subject.means_), np.asarray(subject.covariances_)
        k, d = means.shape
        full = {
            "full": lambda: covariances,
            "tied": lambda: np.broadcast_to(covariances, (k, d, d)),
            "diag": lambda: covariances[:, :, None] * np.eye(d),
            "spherical": lambda: covariances[:, None, None] * np.eye(d),
        }
        kind = checks.one_of(subject.covariance_type, "covariance_type", tuple(full))
        return cls(subject.weights_, means, full[kind](), fitted=True)

    @property
    def n_components(self) -> int:
        """Number of components."""
        return len(self.weights)

    @property
    def n_latents(self) -> int:
        """Dimension of the space."""
        return self.means.shape[1]

    @property
    def mean(self) -> np.ndarray:
        """Mean of the whole mixture."""
        return self.weights @ self.means

    @property
    def covariance(self) -> np.ndarray:
        """Covariance of the whole mixture: the average within components plus that of the means."""
        centred = self.means - self.mean
        return np.einsum("k,kij->ij", self.weights, self.covariances) + (self.weights[:, None] * centred).T @ centred

    # ---- drawing -----------------------------------------------------------------------------------------

    @renamed(seed="random_state")
    def sample(self, n: int, *, random_state: Any = 0) -> tuple[np.ndarray, np.ndarray]:
        """``n`` points ``z`` and the component ``u`` of each; the same seed draws the same points.

        A coordinate without variance in a component equals its mean there exactly.
        """
        seed = seeds.seed_of(random_state)
        n = checks.count(n, "n")
        random = seeds.numpy_generator(seeds.seed_of(seed), "mixture")
        u = random.choice(self.n_components, size=n, p=self.weights)
        noise = random.standard_normal((n, self.n_latents))
        return self.means[u] + np.einsum("nij,nj->ni", self._factors[u], noise), u

    @cached_property
    def _factors(self) -> np.ndarray:
        """A square root ``F_j F_jᵀ = Σ_j`` of each covariance, with zero rows where the variance is zero."""
        factors = np.zeros_like(self.covariances)
        for factor, covariance in zip(factors, self.covariances, strict=True):
            moving = np.flatnonzero(np.diag(covariance) > 0)
            variances, directions = np.linalg.eigh(covariance[np.ix_(moving, moving)])
            positive = np.where(variances > 1e-14 * variances.max(initial=0), variances, 0)  # the rest is rounding
            factor[np.ix_(moving, moving)] = directions * np.sqrt(positive)
        return factors

    # ---- images ------------------------------------------------------------------------------------------

    def pushed(self, A: Any, b: Any = None) -> Mixture:
        """The mixture of ``A z + b``.

        >>> Mixture([1.0], [[1, 1]], [[[1, 0], [0, 4]]]).pushed([[2, 1]], [3]).covariances.tolist()
        [[[8.0]]]
        """
        A = checks.table(A, "A").astype(np.float64)
        matches = A.shape[1] == self.n_latents
        checks.require(matches, f"A must have {self.n_latents} columns, one per latent.", f"shape {A.shape}")
        b = np.zeros(len(A)) if b is None else np.asarray(b, dtype=np.float64)
        checks.require(b.shape == (len(A),), f"b must have {len(A)} entries, one per row of A.", f"shape {b.shape}")
        return Mixture(self.weights, self.means @ A.T + b, A @ self.covariances @ A.T, self.fitted)

    def marginal(self, indices: Sequence[int]) -> Mixture:
        """The mixture of some of the latents, in the order given."""
        chosen = [int(i) for i in indices]
        known = 0 < len(chosen) == len(set(chosen)) and all(0 <= i < self.n_latents for i in chosen)
        checks.require(known, f"indices must be distinct latents among 0 to {self.n_latents - 1}.", list(indices))
        return Mixture(self.weights, self.means[:, chosen], self.covariances[:, chosen][:, :, chosen], self.fitted)

    def standardised(self) -> Mixture:
        """The mixture with every latent in units of its standard deviation within components; zeros stay zeros.

        A latent that only varies between components is scaled by that, a constant one by its value.

        >>> Mixture([0.5, 0.5], [[0, 6], [9, 6]], [np.diag([9, 0])] * 2).standardised().means.tolist()
        [[0.0, 1.0], [3.0, 1.0]]
        """
        within = np.sqrt(self.weights @ np.diagonal(self.covariances, axis1=1, axis2=2))
        total, size = np.sqrt(np.diag(self.covariance)), np.abs(self.means).max(axis=0)
        still = np.where(size > 0, size, 1)
        unit = np.where(within > ROUNDING * total, within, np.where(total > ROUNDING * size, total, still))
        return self.pushed(np.diag(1 / unit))

    # ---- components --------------------------------------------------------------------------------------

    def ranks(self, *, tolerance: float = TOLERANCE) -> np.ndarray:
        """Rank of each component; a variance below ``tolerance`` times the mixture's largest counts as none."""
        variances = np.linalg.eigvalsh(self.covariances)
        return (variances > tolerance * variances.max()).sum(axis=1)

    def supports(self, *, tolerance: float = TOLERANCE) -> tuple[Support, ...]:
        """The affine subspace that each component fills."""
        directions = np.linalg.eigh(self.covariances).eigenvectors
        ranks = self.ranks(tolerance=tolerance)
        d = self.n_latents
        return tuple(Support(m, v[:, d - int(r) :]) for m, v, r in zip(self.means, directions, ranks, strict=True))

    def distinct(self, *, tolerance: float = TOLERANCE) -> tuple[int, ...]:
        """For each component the first one equal to it; differences are relative to the latents' spreads."""
        unit = self.standardised()
        first: list[int] = []
        for j in range(self.n_components):
            same = (i for i in range(j) if first[i] == i and _difference(unit, i, j) <= tolerance)
            first.append(next(same, j))
        return tuple(first)

    def reduced(self, *, tolerance: float = TOLERANCE) -> Mixture:
        """The same law without repeated components.

        >>> Mixture([0.5, 0.2, 0.3], [[0], [1], [0]], [[[1]], [[1]], [[1]]]).reduced().weights.tolist()
        [0.8, 0.2]
        """
        first = np.array(self.distinct(tolerance=tolerance))
        representatives = np.unique(first)
        weights = np.array([self.weights[first == j].sum() for j in representatives])
        return Mixture(weights, self.means[representatives], self.covariances[representatives], self.fitted)


def _difference(mixture: Mixture, i: int, j: int) -> float:
    """The largest difference between two components' means or covariances."""
    apart = np.abs(mixture.means[i] - mixture.means[j]).max()
    return float(max(apart, np.abs(mixture.covariances[i] - mixture.covariances[j]).max()))


def _shaped(values: Any, name: str, shape: tuple[int, ...]) -> np.ndarray:
    try:
        shape_of_values: Any = tuple(np.shape(values))
    except ValueError:
        shape_of_values = "of unequal rows"
    checks.require(
        shape_of_values == shape, f"{name} must have the shape {shape}, as the means say.", f"shape {shape_of_values}"
    )
    return checks.table(np.reshape(values, (1, -1)), name).astype(np.float64).reshape(shape)


def _weights(values: Any, k: int) -> np.ndarray:
    weights = _shaped(values, "weights", (k,))
    checks.require(bool((weights > 0).all()), "weights must be positive.", f"{weights.min():g}")
    total = float(weights.sum())
    checks.require(abs(total - 1) <= 1e-6, "weights must sum to one.", f"a sum of {total:g}")
    return weights / total


def _covariances(values: Any, k: int, d: int) -> np.ndarray:
    covariances = _shaped(values, "covariances", (k, d, d))
    transposed = covariances.transpose(0, 2, 1)
    size = np.abs(covariances).max(axis=(1, 2))
    skew = np.abs(covariances - transposed).max(axis=(1, 2)) - ROUNDING * size
    worst = int(skew.argmax())
    checks.require(bool(skew[worst] <= 0), "Every covariance must be symmetric.", f"component {worst} that is not")
    covariances = (covariances + transposed) / 2
    lowest = np.linalg.eigvalsh(covariances)[:, 0] + ROUNDING * size
    worst = int(lowest.argmin())
    values = f"{lowest[worst]:g} in component {worst}"
    checks.require(bool(lowest[worst] >= 0), "No covariance must have a negative eigenvalue.", values)
    return covariances
