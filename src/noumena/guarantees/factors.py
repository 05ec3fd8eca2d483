"""Factors: how a decoder's derivatives fall into blocks, and the finest blocks in any basis of the latents.

*Type D* (disjoint supports). In the graph ``G_D`` two columns of ``J @ basis`` are joined when they share a row.
Irreducible factors are the connected components of the row matroid of ``J``; with any independent rows ``P`` as many
as latents, ``basis = (J_P)⁻¹`` shows them: row ``i`` of ``J @ basis`` holds the coefficients of row ``i`` over the rows
``P``, i.e. its fundamental circuit, and circuits through one basis generate the components of a matroid. So no basis
has more components, a change of coordinates ``J → J @ A`` moves nothing, and all costs one factorisation.

*Type H* (vanishing cross derivatives). A family of symmetric forms ``F_m`` (all observations' second derivatives
within a block) splits as ``U ⊕ V`` with ``F_m(U, V) = 0`` iff an idempotent ``X`` other than 0 and 1 has every
``F_m X`` symmetric. Such ``X`` form a linear space; the eigenspaces of a generic member are the split. Derivatives are
exact (nested forward mode); mixed differences need none and see the kinks that derivatives miss.

Reference: Matthes et al. (2026), graph-theoretic characterisation. Deviations: the matroid view and the algorithm for
forms are ours. Several points are read together by stacking their rows: factors common to all points.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import product
from typing import Any, cast

import numpy as np
import torch
from jaxtyping import Float
from scipy import linalg, sparse
from scipy.sparse import csgraph
from torch import Tensor
from torch.func import jvp

from noumena import checks, seeds
from noumena.ambiguity import Blocks
from noumena.derivatives import Map
from noumena.derivatives.fallbacks import stepwise
from noumena.structure import Evidence

RANK_TOLERANCE = 1e-8
"""A Jacobian with unit columns and rows whose pivots fall below this share of the first has no full rank."""
DRAWS = 16
"""Generic members drawn when a family of forms is split: one is enough in theory, more keep eigenvalues apart."""
NODES = 64
"""Gauss-Legendre nodes along a segment."""
DISTINCT = 1e-2
"""Eigenvalues nearer than this are one: those of a defective matrix scatter with the root of the rounding error."""


@dataclass(frozen=True)
class Factors:
    """Irreducible Type-D factors: a basis of the latents and its blocks of columns that share no row."""

    basis: np.ndarray
    """``(latent, latent)``, the inverse of ``rows`` of the Jacobian; its columns are the new latent directions."""
    blocks: Blocks
    """A partition of the columns of ``J @ basis``."""
    observed: Blocks
    """The observations that each factor moves; factors come in this order, whatever the coordinates."""
    rows: tuple[int, ...]
    """The independent rows used; with several points, counted through the stacked rows."""
    margin: float
    """How far the nearest entry of ``J @ basis`` is from the tolerance, as a factor ≥ 1; near 1 means fragile."""

    @property
    def count(self) -> int:
        """Number of factors."""
        return len(self.blocks)


def factors(J: Any, *, tolerance: float = 1e-8) -> Factors:
    """The irreducible Type-D factors of a Jacobian ``(observed, latent)`` or of several, ``(point, observed, latent)``.

    Two latents remixed so that every observation depends on both are still two factors:

    >>> J = np.array([[1.0, 0], [2, 0], [0, 1], [0, 3]]) @ np.array([[1.0, 1], [1, -1]])
    >>> found = factors(J)
    >>> found.count, found.observed
    (2, ((0, 1), (2, 3)))
    """
    J = np.asarray(J.detach().cpu() if hasattr(J, "detach") else J, dtype=np.float64)
    checks.require(J.ndim in (2, 3), "A Jacobian must have axes (observed, latent).", f"shape {J.shape}")
    checks.require(bool(np.isfinite(J).all()), "A Jacobian must be finite.", "NaN or inf entries")
    stacked, n_observed = J.reshape(-1, J.shape[-1]), J.shape[-2]
    unit, rows = _unit_rows(stacked)
    coefficients = np.abs(np.linalg.solve(unit[rows].T, unit.T).T)
    coefficients[rows] = np.eye(len(rows))
    largest = coefficients.max(axis=1, keepdims=True)
    strength = coefficients / np.where(largest > 0, largest, 1)
    support = strength > tolerance
    found = []
    for block in components(dependency_graph(support)):
        moved = np.unique(np.flatnonzero(support[:, list(block)].any(axis=1)) % n_observed)
        found.append((tuple(int(i) for i in moved), block))
    observed, blocks = zip(*sorted(found), strict=True)
    chosen, margin = tuple(int(i) for i in rows), Evidence(strength, tolerance).margin
    return Factors(np.linalg.inv(stacked[rows]), blocks, observed, chosen, margin)


def _unit_rows(J: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The Jacobian with columns and rows of size one, and as many well-conditioned rows as it has columns."""
    columns = np.abs(J).max(axis=0, initial=0)
    unit = J / np.where(columns > 0, columns, 1)
    lengths = np.abs(unit).max(axis=1, keepdims=True, initial=0)
    unit = unit / np.where(lengths > 0, lengths, 1)
    rank, rows = independent_rows(unit, tolerance=RANK_TOLERANCE)
    n = J.shape[1]
    checks.require(rank == n, "A Jacobian must have full column rank.", f"rank {rank} for {n} latents")
    return unit, rows


def independent_rows(J: np.ndarray, *, tolerance: float) -> tuple[int, np.ndarray]:
    """The rank of a matrix and that many well-conditioned rows, by pivoted QR.

    >>> independent_rows(np.array([[1.0, 0], [2, 0], [0, 1]]), tolerance=1e-8)[1]
    array([1, 2])
    """
    triangle, order = cast(Any, linalg.qr(J.T, mode="r", pivoting=True))
    pivots = np.abs(np.diagonal(triangle))
    rank = int((pivots > tolerance * pivots.max(initial=0)).sum())
    return rank, np.asarray(order[:rank], dtype=int)


def split(J: Any, block: Iterable[int], *, tolerance: float = 1e-8) -> Factors | None:
    """The finer Type-D factors of a block of latents, in a basis of the block; ``None`` when it is irreducible.

    >>> J = np.array([[1.0, 1, 0], [1, -1, 0], [0, 0, 1]])
    >>> split(J, (0, 1)).observed, split(J, (2,))
    (((0,), (1,)), None)
    """
    found = factors(np.asarray(J)[..., list(block)], tolerance=tolerance)
    return found if found.count > 1 else None


def dependency_graph(support: Any) -> sparse.csr_array:
    """``G_D``: an edge between two columns of a Jacobian or a support, dense or sparse, that share a row.

    >>> dependency_graph(np.array([[1, 1, 0], [0, 0, 2]])).toarray().astype(int)
    array([[0, 1, 0],
           [1, 0, 0],
           [0, 0, 0]])
    """
    present: Any = ((support if sparse.issparse(support) else np.asarray(support)) != 0).astype(np.float32)
    shared = sparse.coo_array(present.T @ present)
    t, r = (np.asarray(index)[shared.row != shared.col] for index in (shared.row, shared.col))
    return sparse.csr_array((np.ones(len(t), dtype=bool), (t, r)), shape=shared.shape)


def components(graph: Any) -> Blocks:
    """The connected components of a graph given by its adjacency, each in order, ordered by their first member.

    >>> components(np.array([[0, 0, 1], [0, 0, 0], [1, 0, 0]]))
    ((0, 2), (1,))
    """
    count, label = csgraph.connected_components(sparse.csr_array(graph), directed=False)
    blocks = [tuple(int(j) for j in np.flatnonzero(label == k)) for k in range(count)]
    return tuple(sorted(blocks))


@dataclass(frozen=True)
class FormFactors:
    """How a family of symmetric forms splits: ``forms(basis_a, basis_b) = 0`` for columns of different blocks."""

    basis: np.ndarray
    blocks: Blocks
    flat: int
    """Dimension of the directions on which every form vanishes; each of them is a block of its own."""

    @property
    def irreducible(self) -> bool:
        """No split and no flat direction."""
        return len(self.blocks) == 1 and self.flat == 0


def form_factors(forms: Any, *, tolerance: float = 1e-6) -> FormFactors:
    """Split symmetric forms ``(form, k, k)`` into blocks that no form couples.

    ``xy`` alone splits (as ``u² − v²``), ``xy`` and ``x² − y²`` together do not:

    >>> xy, difference = np.array([[0.0, 1], [1, 0]]), np.diag([1.0, -1])
    >>> form_factors([xy]).blocks, form_factors([xy, difference]).blocks, form_factors([[[0.0]]]).flat
    (((0,), (1,)), ((0, 1),), 1)
    """
    F = np.asarray(forms, dtype=np.float64)
    square = F.ndim == 3 and F.shape[1] == F.shape[2]
    checks.require(square, "Forms must be square matrices (form, k, k).", f"shape {F.shape}")
    k = F.shape[-1]
    F = np.asarray(np.linalg.qr(F.reshape(-1, k * k), mode="r")).reshape(-1, k, k)  # fewer forms, the same span
    size = np.abs(F).max(initial=0)
    _, singular, right = np.linalg.svd(F.reshape(-1, k) / (size if size > 0 else 1), full_matrices=False)
    strong = int((singular > tolerance * singular.max(initial=0)).sum()) if size > 0 else 0
    if strong < k:
        curved: Blocks = (tuple(range(strong)),) if strong else ()
        return FormFactors(right.T, curved + tuple((j,) for j in range(strong, k)), k - strong)
    rng = seeds.numpy_generator(0, "forms", k)
    selfadjoint = _selfadjoint(F / size, tolerance)
    draws = DRAWS if len(selfadjoint) > 1 else 0
    drawn = (np.tensordot(rng.normal(size=len(selfadjoint)), selfadjoint, 1) for _ in range(draws))
    whole = (np.eye(k), (tuple(range(k)),))
    splits = [found for found in map(_eigenspaces, drawn) if _uncoupled(F / size, *found, tolerance=tolerance**0.5)]
    basis, blocks = max([whole, *splits], key=lambda found: len(found[1]))
    return FormFactors(basis, blocks, 0)


def _selfadjoint(F: np.ndarray, tolerance: float) -> np.ndarray:
    """A basis of the matrices ``X`` with ``F_m X`` symmetric for all forms."""
    k = F.shape[-1]
    units = np.eye(k * k).reshape(-1, k, k)
    products = np.einsum("mij,xjl->xmil", F, units)
    upper = np.triu_indices(k, 1)
    system = (products - np.swapaxes(products, -1, -2))[:, :, *upper].reshape(k * k, -1).T
    _, singular, right = np.linalg.svd(np.vstack([system, np.zeros((k * k, k * k))]), full_matrices=False)
    rank = int((singular > tolerance * max(singular[0], 1)).sum())
    return right[rank:].reshape(-1, k, k)


def _eigenspaces(X: np.ndarray) -> tuple[np.ndarray, Blocks]:
    """A basis of the invariant subspaces of distinct eigenvalues, a conjugate pair counting as one."""
    k = len(X)
    X = X - np.trace(X) / k * np.eye(k)
    size = float(np.linalg.norm(X))
    if size < RANK_TOLERANCE:
        return np.eye(k), (tuple(range(k)),)
    values = np.linalg.eigvals(X / size)
    upper = values.real + 1j * np.abs(values.imag)
    columns, blocks = [], []
    for group in components(np.abs(upper[:, None] - upper[None, :]) < DISTINCT):
        annihilator = np.eye(k, dtype=complex)
        for value in values[list(group)]:
            annihilator = annihilator @ (X / size - value * np.eye(k))
        _, _, right = np.linalg.svd(np.real(annihilator))
        blocks.append(tuple(range(len(columns), len(columns) + len(group))))
        columns += list(right[k - len(group) :])
    return np.array(columns).T, tuple(blocks)


def _uncoupled(F: np.ndarray, basis: np.ndarray, blocks: Blocks, *, tolerance: float) -> bool:
    """Do all forms vanish between blocks, and do the blocks span?"""
    moved = np.abs(basis.T @ F @ basis).max(axis=0)
    for block in blocks:
        moved[np.ix_(block, block)] = 0
    return bool(moved.max() < tolerance and np.linalg.cond(basis) < 1 / tolerance)


# ---- differences ---------------------------------------------------------------------------------------------


def mixed_difference(
    f: Map, z: Float[Tensor, "batch latent"], w: Float[Tensor, "batch latent"], block: Iterable[int], *, order: int = 2
) -> Float[Tensor, "batch observed"]:
    """The alternating sum of ``f`` over steps from ``z`` towards ``w``: one in a block, one off it, others in both.

    Of order 2 it swaps the block between two points, ``f(z) + f(w) − f(z_B, w) − f(w_B, z)``. Zero for all ``z`` and
    ``w`` of a box iff no derivative of that order mixes the block with another latent; order 2: iff ``f`` is additive.

    >>> z, w = torch.zeros(1, 2), torch.tensor([[2.0, 3.0]])
    >>> mixed_difference(lambda z: z[:, :1] * z[:, 1:], z, w, (0,)), mixed_difference(lambda z: z**2, z, w, (0,))
    (tensor([[6.]]), tensor([[0., 0.]]))
    """
    inside = torch.zeros_like(z)
    inside[:, list(block)] = 1
    whole = (w - z) / (order - 1)
    steps = [whole * inside, whole * (1 - inside), *[whole] * (order - 2)]
    total = torch.zeros_like(f(z))
    for taken in product((0, 1), repeat=order):
        moved = z + sum(step for step, used in zip(steps, taken, strict=True) if used)
        total = total + (-1) ** (order - sum(taken)) * f(moved)
    return total


def jump(f: Map, z: Float[Tensor, "batch latent"], w: Float[Tensor, "batch latent"], order: int) -> float:
    """The share of the change of a derivative from ``z`` to ``w`` that its own derivative does not account for.

    The largest over derivatives below ``order``: 0 where ``f`` is smooth, 1 for ``f'`` of a piecewise linear ``f``.

    >>> ends = torch.tensor([[-1.0]]), torch.tensor([[2.0]])
    >>> round(jump(torch.sin, *ends, 2), 4), jump(torch.abs, *ends, 2)
    (0.0, 1.0)
    """
    nodes, weights = np.polynomial.legendre.leggauss(NODES)
    times = torch.as_tensor(np.r_[0, 1, (nodes + 1) / 2]).to(z)
    along = (w - z).repeat(len(times), 1)
    points = z.repeat(len(times), 1) + times.repeat_interleave(len(z))[:, None] * along

    def step(g: Map) -> Map:
        return lambda y: jvp(g, (y,), (along,))[1]  # pyright: ignore[reportReturnType]

    f = stepwise(f)
    before, worst, moved, g = f(points), 0.0, 0.0, f
    for _ in range(order):
        g = step(g)
        after = g(points)
        start, end, _ = before.unflatten(0, (len(times), len(z))).tensor_split((1, 2))
        integral = torch.tensordot(torch.as_tensor(weights / 2).to(after), after.unflatten(0, (len(times), -1))[2:], 1)
        size = max(float((end - start).norm()), float(integral.norm()))
        moved = moved or size
        if size > 100 * float(torch.finfo(z.dtype).eps) * moved:
            worst = max(worst, float((end[0] - start[0] - integral).norm()) / size)
        before = after
    return worst


def separation(one: np.ndarray, other: np.ndarray, *, tolerance: float = 1e-6) -> float:
    """How independent two column spaces are: the least singular value of their orthonormal bases side by side.

    1 for orthogonal spaces, 0 when they meet.

    >>> east, north = np.array([[1.0], [0]]), np.array([[0.0], [2]])
    >>> separation(east, north), separation(east, np.hstack([north, east + north]))
    (1.0, 0.0)
    """
    decomposed = [np.linalg.svd(space, full_matrices=False)[:2] for space in (one, other)]
    floor = tolerance * max(float(singular.max(initial=0)) for _, singular in decomposed)
    bases = np.hstack([left[:, singular > floor] for left, singular in decomposed])
    if bases.shape[1] > bases.shape[0]:
        return 0.0
    return float(np.linalg.svd(bases, compute_uv=False).min(initial=1))


def separability(D: list[np.ndarray], blocks: Blocks) -> list[float]:
    """How separate each block's highest derivatives are from lower ones and other blocks'; ``D`` as ``(observed, …)``.

    >>> separability([np.eye(2)[:, :1], np.eye(2)[:, 1:, None]], ((0,),))
    [1.0]
    """
    lower = [d.reshape(len(d), -1) for d in D[:-1]]
    own = [within(D[-1], block).reshape(len(D[-1]), -1) for block in blocks]
    return [separation(own[k], np.hstack([*lower, *own[:k], *own[k + 1 :]])) for k in range(len(blocks))]


def outside(supports: np.ndarray) -> np.ndarray:
    """``[point, t, r]``: how many rows of column ``t`` lie outside column ``r``; 0 when ``r`` contains ``t``.

    >>> outside(np.array([[[1, 1], [0, 1]]]))[0]
    array([[0, 0],
           [1, 0]])
    """
    shared = np.einsum("pit,pir->ptr", supports.astype(int), supports.astype(int))
    return np.einsum("ptt->pt", shared)[:, :, None] - shared


def spans(J: np.ndarray) -> np.ndarray:
    """How well each observation's gradients at points ``(point, observed, latent)`` span the latents it depends on.

    Smallest over largest singular value: 1 for orthogonal gradients of one length, 0 when they do not span.

    >>> spans(np.array([[[1.0, 0], [1, 1]], [[0, 1], [1, 1]]]))
    array([1., 0.])
    """
    found = []
    for i in range(J.shape[1]):
        gradients = J[:, i, (J[:, i] != 0).any(axis=0)]
        singular = np.linalg.svd(gradients, compute_uv=False) if gradients.size else np.ones(1)
        spanned = len(singular) == gradients.shape[1] or not gradients.size
        found.append(float(singular[-1] / singular[0]) if spanned and singular[-1] > 1e-12 * singular[0] else 0.0)
    return np.array(found)


def within(tensor: np.ndarray, block: Iterable[int]) -> np.ndarray:
    """A derivative ``(observed, latent, …, latent)`` with all its latents in a block."""
    chosen = list(block)
    return tensor[np.ix_(range(len(tensor)), *[chosen] * (tensor.ndim - 1))]


def cross_derivative(tensor: np.ndarray, block: Iterable[int]) -> float:
    """The largest entry of a derivative ``(point, observed, latent, …)`` that mixes a block with another latent.

    >>> cross_derivative(np.array([[[[5.0, 1], [1, 7]]]]), (0,))
    1.0
    """
    chosen = list(block)
    left = np.abs(tensor[:, :, chosen])
    axes = [range(size) for size in left.shape[:3]] + [chosen] * (left.ndim - 3)
    left[np.ix_(*axes)] = 0
    return float(left.max(initial=0))


def standardised(f: Map, z: Tensor, x: Tensor) -> tuple[Map, Tensor]:
    """A decoder and points in units of spread: standard deviations over the points, 1 where nothing varies."""

    def spread(values: Tensor) -> Tensor:
        found = values.detach().std(dim=0)
        return torch.where(found > 1e-12 * found.max(), found, torch.ones_like(found))

    centre, width, height = z.mean(dim=0), spread(z), spread(x)
    return (lambda y: f(y * width + centre) / height), (z - centre) / width
