"""``dist_{Aff,L2}``: how far one Gaussian mixture stays from another after the best affine map.

``min_{A,b} ‖p − (A,b)_# q‖_{L2}`` over invertible ``A``. All integrals are overlaps of Gaussians,
``∫ N(x; a, S) N(x; b, T) dx = N(a − b; 0, S + T)``, so that the distance and its gradient are exact; only the search
over maps is numerical. It runs in coordinates where both mixtures have mean zero and unit covariance, from rotations
and reflections and from the maps that match components with one another.

The distance is zero iff the mixtures are affinely equivalent. It is not symmetric: densities have units, those of
``p``. ``normalised``, the distance over ``‖p‖``, lies in [0, 1] and depends on the units of neither mixture.

References
----------
Kivva et al. (2022), "Identifiability of deep generative models without auxiliary information",
section 4. Renamed: ``p_1, p_2`` are ``p, q``. There are no rows to shuffle and no chance level; the ceiling is 0.
"""

from __future__ import annotations

from collections import namedtuple
from dataclasses import dataclass
from math import log, pi, sqrt
from typing import Any, ClassVar

import numpy as np
import torch
from jaxtyping import Float
from scipy.optimize import linear_sum_assignment, minimize
from scipy.stats import ortho_group
from torch import Tensor

from noumena import checks, seeds
from noumena.ambiguity import Ambiguity
from noumena.deprecated import renamed
from noumena.metrics.record import MetricRecord, ScoreClaim
from noumena.mixtures import Mixture

SINGULAR = 1e-10
"""A component whose smallest variance is this small, beside the mixture's, has no density."""
TRIALS, TURNS, MATCHINGS = 64, 16, 5


Distances = namedtuple("Distances", "distance normalised")


@dataclass(frozen=True, kw_only=True)
class AffineDistance(MetricRecord):
    """Result of ``affine_distance``.

    Attributes
    ----------
    distance, normalised : float
        L2 distance after the best map ``x = A z + b`` of the second mixture, and the same over ``‖p‖``, in [0, 1].
    A, b : array
        That map.
    """

    PARTS: ClassVar[Any] = Distances

    distance: float
    normalised: float
    A: np.ndarray
    b: np.ndarray

    @property
    def claims(self) -> tuple[ScoreClaim, ...]:
        """The distance in the units of p, and without units; less is better."""
        supports = (
            "0 says that the two mixtures are one up to an affine map; the search gives an upper bound, "
            "so that a high value does not prove them different, and rows are not matched."
        )
        any_size, unit = (0.0, float("inf")), (0.0, 1.0)
        return (
            ScoreClaim("distance", "Affine distance", any_size, self.forgives, supports, best=0.0),
            ScoreClaim("normalised", "Affine distance, normalised", unit, self.forgives, supports, best=0.0),
        )


def overlap(
    a: Float[Tensor, "*#batch latent"],
    S: Float[Tensor, "*#batch latent latent"],
    b: Float[Tensor, "*#batch latent"],
    T: Float[Tensor, "*#batch latent latent"],
) -> Tensor:
    """``∫ N(x; a, S) N(x; b, T) dx`` of every pair in a batch; symmetric, positive, largest where the means agree.

    Two standard normal densities overlap by ``1/√(4π)``:

    >>> zero, one = torch.zeros(1), torch.eye(1)
    >>> round(float(overlap(zero, one, zero, one)), 4)
    0.2821
    """
    L = torch.linalg.cholesky(S + T)
    scaled = torch.linalg.solve_triangular(L, (a - b)[..., None], upper=False)[..., 0]
    size = L.diagonal(dim1=-2, dim2=-1).log().sum(dim=-1)
    return (-(scaled**2).sum(dim=-1) / 2 - size - a.shape[-1] * log(2 * pi) / 2).exp()


@renamed(seed="random_state")
def affine_distance(p: Any, q: Any, *, restarts: int = 12, random_state: Any = 0) -> AffineDistance:
    """L2 distance of mixture ``p`` from the nearest affine image of ``q``.

    Equivalent mixtures are found; far from equivalence there are many local minima, and the result is an upper bound
    that
    more ``restarts`` can only lower.

    Parameters
    ----------
    p, q : Mixture or fitted GaussianMixture
        Non-degenerate mixtures of one dimension.
    restarts : int
        Starts of the search.
    random_state : int, Generator or None
        Seed of the starts.

    Returns
    -------
    AffineDistance

    Examples
    --------
    >>> p = Mixture([0.5, 0.5], [[0], [4]], [[[1]], [[1]]])
    >>> found = affine_distance(p, p.pushed([[3]], [1]))  # x ↦ 3x + 1 is undone by x/3 − 1/3, or mirrored
    >>> round(found.distance, 5), round(abs(found.A.item()), 4)
    (0.0, 0.3333)
    """
    seed = seeds.seed_of(random_state)
    restarts = checks.count(restarts, "restarts")
    (p, P, centre_p), (q, Q, centre_q) = _standard(p, "p"), _standard(q, "q")
    same = p.n_latents == q.n_latents
    checks.require(same, "p and q must have as many latents.", f"{p.n_latents} and {q.n_latents}")
    search = _Search(p, q)
    starts = search.starts(restarts, seeds.numpy_generator(seed, "affine distance"))
    excess, A, b = min((search.descend(*start) for start in starts), key=lambda found: found[0])
    norm = sqrt(float(search.norm_p) / abs(np.linalg.det(P)))  # back in the units of p
    normalised = sqrt(min(max(excess, 0.0), 1.0))
    A_out = P @ A @ np.linalg.inv(Q)
    return AffineDistance(
        distance=norm * normalised,
        normalised=normalised,
        A=A_out,
        b=P @ b + centre_p - A_out @ centre_q,
        forgives=Ambiguity("affine"),
        ceiling=Distances(0.0, 0.0),
    )


def _standard(mixture: Any, name: str) -> tuple[Mixture, np.ndarray, np.ndarray]:
    """A mixture with mean zero and unit covariance, and the matrix and shift that lead back."""
    law = Mixture.of(mixture)
    thin = np.linalg.eigvalsh(law.covariances).min()
    solid = thin > SINGULAR * np.linalg.eigvalsh(law.covariance).max()
    checks.require(bool(solid), f"{name} must have non-degenerate components only.", f"a smallest variance of {thin:g}")
    root = np.linalg.cholesky(law.covariance)
    back = np.linalg.inv(root)
    return law.pushed(back, -back @ law.mean), root, law.mean


class _Search:
    """The squared distance over ``‖p‖²`` as a function of the map, and where its search begins."""

    def __init__(self, p: Mixture, q: Mixture) -> None:
        self.p, self.q, self.n = p, q, p.n_latents
        (self.w, self.m, self.S), (self.v, self.c, self.T) = (
            [torch.tensor(part) for part in (law.weights, law.means, law.covariances)] for law in (p, q)
        )
        self.norm_p = self.product(self.w, self.m, self.S, self.w, self.m, self.S)
        self.norm_q = self.product(self.v, self.c, self.T, self.v, self.c, self.T)

    @staticmethod
    def product(w: Tensor, m: Tensor, S: Tensor, v: Tensor, c: Tensor, T: Tensor) -> Tensor:
        """``⟨p, q⟩`` of two mixtures; the second may be a batch of images."""
        pairs = overlap(m[:, None], S[:, None], c[..., None, :, :], T[..., None, :, :, :])
        return torch.einsum("...jk,j,k->...", pairs, w, v)

    def excess(self, A: Float[Tensor, "*batch n n"], b: Float[Tensor, "*batch n"]) -> Float[Tensor, "*batch"]:
        """``‖p − (A,b)_# q‖² / ‖p‖²``."""
        images = self.c @ A.mT + b[..., None, :]
        spreads = A[..., None, :, :] @ self.T @ A.mT[..., None, :, :]
        cross = self.product(self.w, self.m, self.S, self.v, images, spreads)
        size = torch.linalg.slogdet(A).logabsdet.exp()
        return 1 + (self.norm_q / size - 2 * cross) / self.norm_p

    def starts(self, restarts: int, random: np.random.Generator) -> list[tuple[np.ndarray, np.ndarray]]:
        """The best among rotations, reflections and maps that match all components, or one with one."""
        n = self.n
        turns = ortho_group.rvs(n, size=TRIALS, random_state=random) if n > 1 else np.array([1.0, -1.0])
        turns = np.concatenate([[np.eye(n), self.signed()], np.reshape(turns, (-1, n, n))])
        turns = np.concatenate([turns, np.array([self.matched(R) for R in turns])])
        A, b = self.onto(turns)
        A, b = np.concatenate([turns, A]), np.concatenate([np.zeros((len(turns), n)), b])
        heights = self.excess(torch.tensor(A), torch.tensor(b)).numpy()
        _, lowest = np.unique(heights.round(6), return_index=True)  # the lowest first, equal ones once
        return [(A[i], b[i]) for i in lowest[:restarts]]

    def onto(self, turns: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Maps that lay one component of ``q`` on one of ``p``, for every pair and several rotations."""
        roots = np.linalg.cholesky(self.p.covariances)
        back = np.linalg.inv(np.linalg.cholesky(self.q.covariances))
        rotations = turns[: max(TURNS, TRIALS // (len(roots) * len(back)))]
        A = np.einsum("iab,tbc,jcd->tijad", roots, rotations, back)
        b = self.p.means[:, None] - np.einsum("tijad,jd->tija", A, self.q.means)
        return A.reshape(-1, self.n, self.n), b.reshape(-1, self.n)

    def signed(self) -> np.ndarray:
        """The rotation between equivalent mixtures: components matched by what no rotation changes, then axes.

        Axes are the eigenvectors of one and the same combination of all components' moments; the means give them signs.
        """
        i, j = linear_sum_assignment(_unlikeness(_invariants(self.p), _invariants(self.q)))
        coefficients = 1 / np.arange(1, len(i) + 1)
        (U, m), (V, c) = (_axes(law, order, coefficients) for law, order in ((self.p, i), (self.q, j)))
        return (U * np.where((m * c).sum(axis=0) < 0, -1, 1)) @ V.T

    def matched(self, R: np.ndarray) -> np.ndarray:
        """A rotation refined by alternating assignment of components and Procrustes rotation."""
        p, q = self.p, self.q
        for _ in range(MATCHINGS):
            means, spreads = q.means @ R.T, R @ q.covariances @ R.T
            cost = ((p.means[:, None] - means) ** 2).sum(-1) + ((p.covariances[:, None] - spreads) ** 2).sum((-1, -2))
            i, j = linear_sum_assignment(cost)
            weight = np.sqrt(p.weights[i] * q.weights[j])[:, None]
            left, _, right = np.linalg.svd((weight * p.means[i]).T @ q.means[j] + 1e-9 * R)
            R = left @ right
        return R

    def descend(self, A: np.ndarray, b: np.ndarray) -> tuple[float, np.ndarray, np.ndarray]:
        """The nearest local minimum of the excess, by L-BFGS with exact gradients."""
        n = self.n

        def value_and_slope(flat: np.ndarray) -> tuple[float, np.ndarray]:
            t = torch.tensor(flat, requires_grad=True)
            value = self.excess(t[: n * n].reshape(n, n), t[n * n :])
            return value.item(), torch.autograd.grad(value, t)[0].numpy()

        start = np.concatenate([A.ravel(), b])
        optimum = minimize(
            value_and_slope, start, jac=True, method="L-BFGS-B", options={"maxiter": 300, "ftol": 1e-15, "gtol": 1e-10}
        )
        return float(optimum.fun), optimum.x[: n * n].reshape(n, n), optimum.x[n * n :]


def _invariants(law: Mixture) -> np.ndarray:
    """What no rotation changes about a component: its weight, variances, and the size and variance of its mean."""
    sizes = (law.means**2).sum(axis=1)
    along = np.einsum("ki,kij,kj->k", law.means, law.covariances, law.means)
    return np.column_stack([law.weights, np.linalg.eigvalsh(law.covariances), sizes, along])


def _unlikeness(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    scale = np.concatenate([a, b]).std(axis=0)
    return (((a[:, None] - b) / np.where(scale > 0, scale, 1)) ** 2).sum(axis=-1)


def _axes(law: Mixture, order: np.ndarray, coefficients: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Eigenvectors of a combination of second moments, and the means in their coordinates."""
    m = law.means[order]
    moments = law.covariances[order] - 0.5 * m[:, :, None] * m[:, None]
    U = np.linalg.eigh(np.einsum("k,kij->ij", coefficients, moments)).eigenvectors
    return U, m @ U
