"""The Occam gap: how much denser every other basis of the same Jacobian is.

At a point with Jacobian ``J``, write ``w_t`` for the number of non-zeros of column ``t``. Exchanging a latent
for a direction ``c`` with support ``T`` (two latents or more) costs ``κ(c) = ‖Jc‖₀ − max_{t∈T} w_t``. The gap
is the smallest cost. A positive gap means that the given columns are the unique lightest basis: every model
that explains the data with no more dependencies has these latents, up to order and element-wise maps.

``generic_gap`` reads it off a support, assuming entries that do not cancel by accident; ``point_gap`` computes
it from the numbers of one Jacobian; ``noumena.guarantees.surplus`` has the polynomial tests for more latents than that.

Proofs in one line each. *Generic:* rows ``R`` can be cancelled by a ``c`` with full support on ``T`` iff every
``R' ⊆ R`` meets at least ``|R'| + 1`` members of ``T`` (then no coordinate of ``c`` is forced to zero); such sets are
the independent sets of a matroid, so greedy finds the largest. *Point:* every ``Jc`` is a conformal sum of
elementary vectors, so the minimum is attained at an elementary vector or at two columns without cancellation.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations
from math import comb

import numpy as np

MOST_LATENTS = 8
"""Subset search stops here; beyond, only the polynomial test speaks."""

MOST_EXCHANGES = 200_000
MOST_PRODUCTS = 2**26
"""Exchanges × observations of one Jacobian that are enumerated."""
AT_ONCE = 2**22
"""Exchanges × observations that are held at once."""
NEARLY_ALL = 0.9
"""Share of points at which an exchange must cancel a row."""
SAME = 1e-8
"""Rows nearer than this to proportional are one row."""
COARSE = 1e-4
"""Tolerances above this are no rounding: every row is then compared by itself."""
DEPENDENT = 1e-13
"""Rows nearer to dependence than this are dependent, and define no direction;"""
RANK_TOLERANCE = 1e-6
"""those nearer than this define one only roughly: what it cancels is then counted as roughly, for a row that is not
counted would make the gap larger than it is."""
ROUGHLY = 10.0
"""Times ``RANK_TOLERANCE``: up to this share of its size a row counts as cancelled by such a direction."""
ROUNDS = 4
"""Rounds in which rows and columns are brought to one size, whatever the units of latents and observations."""


@dataclass(frozen=True)
class Gap:
    """The cheapest exchange: its cost, the latents it mixes, and every set that costs nothing or less."""

    value: int
    exchange: tuple[int, ...]
    tight: tuple[tuple[int, ...], ...]

    def blocks(self, n_latents: int) -> tuple[tuple[int, ...], ...]:
        """Latents joined by exchanges of cost ≤ 0.

        With ``value ≥ 0`` the given basis is a lightest one, every other lightest basis is made of exchanges
        of cost 0, and so no equivalent model mixes latents of different blocks.

        >>> Gap(0, (0, 1), ((0, 1),)).blocks(3)
        ((0, 1), (2,))
        """
        block = list(range(n_latents))
        for group in self.tight:
            joined = {block[t] for t in group}
            block = [min(joined) if b in joined else b for b in block]
        return tuple(tuple(t for t in range(n_latents) if block[t] == b) for b in sorted(set(block)))


def generic_gap(support: np.ndarray) -> Gap | None:
    """The gap of a support ``(observed, latent)`` with generic entries; ``None`` above 8 latents.

    Two columns with a shared row: the smaller has two rows of its own, one of which pays for cancelling.

    >>> generic_gap(np.array([[1, 0], [1, 0], [1, 1], [0, 1], [0, 1]])).value
    1
    """
    d_z = support.shape[1]
    if d_z == 1:
        return Gap(int(support.sum()), (0,), ())
    if d_z > MOST_LATENTS:
        return None
    rows = Counter(_masks(support).tolist())
    weight = support.sum(axis=0)
    costs = {}
    for size in range(2, d_z + 1):
        for T in combinations(range(d_z), size):
            mask = sum(1 << t for t in T)
            inside = Counter()
            for row, times in rows.items():
                inside[row & mask] += times
            inside.pop(0, None)
            union = sum(inside.values())
            costs[T] = union - _cancelled(inside) - int(max(weight[t] for t in T))
    return _gap(costs)


def _cancelled(rows: Counter) -> int:
    """The most rows one full-support direction can cancel: a greedy basis of the surplus matroid."""
    subsets = [(0, 0)]  # (latents met, size) of every subset of the rows taken so far
    for row, times in rows.items():
        for _ in range(min(times, row.bit_count() - 1)):
            if any((met | row).bit_count() < size + 2 for met, size in subsets):
                break
            subsets += [(met | row, size + 1) for met, size in subsets]
    return len(subsets).bit_length() - 1


def point_gap(J: np.ndarray, *, tolerance: float = 1e-9) -> Gap | None:
    """The gap of one Jacobian ``(observed, latent)``, accidental cancellation included; ``None`` if too large.

    Equal shared entries cancel together, where generic ones cost one each:

    >>> J = np.array([[1.0, 0], [1, 0], [1, 1], [1, 1], [0, 1], [0, 1]])
    >>> point_gap(J).value, generic_gap(J != 0).value
    (0, 1)
    """
    return consistent_gap(J[None], tolerance=tolerance)


def consistent_gap(J: np.ndarray, *, tolerance: float = 1e-9, largest: int | None = None) -> Gap | None:
    """The gap of Jacobians at several points ``(point, observed, latent)``, where a row counts as cancelled by an
    exchange that cancels it up to ``tolerance`` at nearly all points; ``None`` if too large.

    An exchange is defined by the same rows at every point, its direction may turn from one to the next. Rows that are
    proportional at every point cancel together: one of them stands for all. With ``largest`` only exchanges of so many
    latents are tried: the gap is then no more than what is found.

    >>> rows = np.array([[1.0, 0], [1, 0], [1, 1], [1.01, 1], [0, 1], [0, 1]])
    >>> [consistent_gap(np.stack([rows, 2 * rows]), tolerance=t).value for t in (1e-9, 0.1)]
    [1, 0]
    """
    d_z = J.shape[2]
    support = (J != 0).any(axis=0)
    weight = support.sum(axis=0)
    if d_z == 1:
        return Gap(int(weight[0]), (0,), ())
    if d_z > 2 * MOST_LATENTS:
        return None
    unit, times = _parallel(J, tolerance)
    if _too_many((unit != 0).any(axis=0), len(J), largest):
        return None
    costs = {}
    for T in _subsets(d_z, largest):
        heaviest, touched = int(weight[list(T)].max()), int(support[:, T].any(axis=1).sum())
        if len(T) == 2:
            costs[T] = touched - heaviest
        cancelled = _most_cancelled(unit[:, :, T], times, tolerance)
        if cancelled is not None:
            costs[T] = min(costs.get(T, touched), touched - cancelled - heaviest)
    return _gap(costs)


def _parallel(J: np.ndarray, tolerance: float) -> tuple[np.ndarray, np.ndarray]:
    """Rows in the latents' own units and of length one, those that are proportional at every point once, and how many
    each stands for."""
    unit = J
    for _ in range(ROUNDS):
        for axes in ((2,), (0, 1)):
            size = np.abs(unit).max(axis=axes, keepdims=True)
            unit = unit / np.where(size > 0, size, 1)
    length = np.abs(unit).max(axis=2, keepdims=True)
    unit = unit / np.where(length > 0, length, 1)
    first = np.take_along_axis(unit, np.abs(unit).argmax(axis=2)[:, :, None], axis=2)
    rows = np.moveaxis(unit * np.where(first < 0, -1.0, 1.0), 1, 0).reshape(J.shape[1], -1)
    step = max(SAME, tolerance)
    _, kept, times = np.unique(np.round(rows / step), axis=0, return_index=True, return_counts=True)
    if tolerance > COARSE:
        kept, times = np.arange(len(rows)), np.ones(len(rows), dtype=int)
    return unit[:, kept], times


def _subsets(n: int, largest: int | None = None) -> Iterator[tuple[int, ...]]:
    return (T for size in range(2, min(n, largest or n) + 1) for T in combinations(range(n), size))


def _masks(support: np.ndarray) -> np.ndarray:
    """Every row of a support as one number, a bit for each latent."""
    return (support != 0) @ (1 << np.arange(support.shape[1]))


def _too_many(support: np.ndarray, n_points: int = 1, largest: int | None = None) -> bool:
    """Whether there are more exchanges than are enumerated; rows that see the same latents are counted together."""
    masks, times = np.unique(_masks(support), return_counts=True)
    members = (masks[:, None] >> np.arange(support.shape[1])) & 1
    total = 0
    for T in _subsets(support.shape[1], largest):
        total += comb(int(times[members[:, T].sum(axis=1) >= 2].sum()), len(T) - 1) * n_points
        if total > MOST_EXCHANGES or total * len(support) > MOST_PRODUCTS:
            return True
    return False


def _most_cancelled(unit: np.ndarray, times: np.ndarray, tolerance: float) -> int | None:
    """The most rows that an elementary ``c`` with full support cancels; ``None`` when there is none."""
    n_points, n_rows, n = unit.shape
    rows = np.flatnonzero(((unit != 0).any(axis=0)).sum(axis=1) >= 2)
    chosen = np.array(list(combinations(rows, n - 1)), dtype=int).reshape(-1, n - 1)
    if len(chosen) == 0:
        return None
    size = max(1, AT_ONCE // (n_rows * n_points))
    parts = (_cancels(unit, times, chosen[k : k + size], tolerance) for k in range(0, len(chosen), size))
    return max((found for found in parts if found is not None), default=None)


def _cancels(unit: np.ndarray, times: np.ndarray, chosen: np.ndarray, tolerance: float) -> int | None:
    """The most rows that one of these choices of rows cancels together with itself, at nearly all points."""
    scale = np.abs(unit).max(axis=2, keepdims=True)
    unit = unit / np.where(scale > 0, scale, 1)
    _, singular, right = np.linalg.svd(unit[:, chosen])  # (point, choice, row of the choice, latent)
    c = right[:, :, -1, :]
    smallest = singular[:, :, -1]
    rough = smallest <= RANK_TOLERANCE
    up_to = np.where(rough, max(tolerance, ROUGHLY * RANK_TOLERANCE), tolerance)
    defined = (smallest > DEPENDENT) & (np.abs(c).min(axis=2) > tolerance)
    elementary = defined.mean(axis=0) >= NEARLY_ALL
    if not elementary.any():
        return None
    c, up_to, touched = c[:, elementary], up_to[:, elementary, None], (unit != 0).any(axis=(0, 2))
    image, most = np.abs(c @ np.swapaxes(unit, 1, 2)), np.abs(c) @ np.abs(np.swapaxes(unit, 1, 2))
    gone = ((image <= up_to * most).mean(axis=0) >= NEARLY_ALL) & touched
    return int((gone @ times).max())


def _gap(costs: dict[tuple[int, ...], int]) -> Gap:
    value = min(costs.values())
    exchange = min((T for T, cost in costs.items() if cost == value), key=len)
    return Gap(value, exchange, tuple(T for T, cost in costs.items() if cost <= 0))
