"""Surplus: polynomial tests that an Occam gap is positive, for more latents than subsets can be searched.

Let an exchange mix the latents ``T``, ``r`` the heaviest of them and ``Q`` the rest. It touches the rows of ``r`` and
those outside that ``Q`` touches, ``N(Q)``; with generic entries it cancels at most ``|Q|`` of all these. So it costs at
least ``|N(Q)| − |Q|``: if every ``Q`` of latents no heavier than ``r`` has ``|N(Q)| ≥ |Q| + s``, the gap is at least
``s``. By Hall's theorem this is a matching with one member taking ``s + 1`` rows, each member in turn.

``owned_surplus`` never matches: it gives every row to one of its latents and counts what each keeps outside every other
column. If all keep ``s + 1`` rows, ``|N(Q)| ≥ (s + 1)|Q| ≥ |Q| + s``. Time and memory grow with the number of
dependencies and of pairs of latents that share a row.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

SMALL = 100_000
"""Supports with more entries than this are not matched, only counted."""


def hall_surplus(support: Any) -> bool:
    """Whether every set of latents has rows to spare: a sufficient test for a positive generic gap, never yes wrongly.

    >>> hall_surplus(np.array([[1, 0], [1, 0], [1, 1], [0, 1], [0, 1]])), hall_surplus(np.eye(2)[[0, 1, 1]] > 0)
    (True, False)
    """
    return surplus(support) > 0


def surplus(support: Any) -> int:
    """A lower bound on the generic Occam gap if it can be shown positive, else 0.

    >>> surplus(np.kron(np.eye(2), np.ones((4, 1))) > 0)
    3
    """
    S = _counted(support)
    if _pair_without_surplus(S):  # then no row can be given away that would prove one
        return 0
    bound = owned_surplus(S)
    if bound > 0 or S.shape[0] * S.shape[1] > SMALL:
        return bound
    return int(_matched(S.toarray() > 0))


def owned_surplus(support: Any) -> int:
    """The surplus that giving each row to one latent proves; 0 when it proves none."""
    S = _counted(support)
    if S.shape[1] == 1:
        return int(S.sum())
    weight = np.asarray(S.sum(axis=0)).ravel()
    owned = _deal(S)
    kept = np.asarray(owned.sum(axis=0)).ravel()
    lost: Any = sparse.coo_array(owned.T @ S)  # rows of q's own that r touches too
    q, r = lost.coords
    rivals = (q != r) & (weight[q] <= weight[r])
    left = kept[q[rivals]] - lost.data[rivals]
    fewest = kept[_has_a_rival(weight)].min()  # against an r that touches none of them
    return max(0, int(left.min(initial=fewest)) - 1)


def _counted(support: Any) -> Any:
    """The support as a sparse matrix of ones, without stored zeros."""
    S: Any = sparse.csr_array(support).astype(bool).astype(np.int32)
    S.eliminate_zeros()
    return S


def pure_surplus(J: np.ndarray, *, tolerance: float = 1e-9) -> int:
    """A lower bound on the Occam gap of one Jacobian whatever cancels by accident, if positive, else 0.

    Two latents: the rows in which both cancel are those with one ratio of entries, counted exactly. Three or more: a
    row that sees one latent only is never cancelled, so with ``r`` the heaviest and ``p_q`` such rows of ``q`` the
    exchange costs at least the two smallest ``p_q`` less the rows ``r`` shares.

    >>> pure_surplus(np.array([[1.0, 0], [1, 0], [1, 1], [0, 1], [0, 1]]))
    1
    """
    support = J != 0
    d_z = J.shape[1]
    weight, alone = support.sum(axis=0), support.sum(axis=1) == 1
    pure = support[alone].sum(axis=0)
    bound = int(weight[0]) if d_z == 1 else len(J)
    for r in range(d_z if d_z > 2 else 0):
        lighter = np.sort(pure[[q for q in range(d_z) if q != r and weight[q] <= weight[r]]])
        if len(lighter) >= 2:
            bound = min(bound, int(lighter[:2].sum() - (weight[r] - pure[r])))
    counts = support.astype(np.float64)
    shared = (counts.T @ counts).astype(int)
    for a in range(d_z):
        for b in range(a):
            own = int(min(weight[a], weight[b]) - shared[a, b])  # what mixing the two costs, before what it cancels
            if min(bound, own) <= 0:
                return 0
            bound = min(bound, own - _cancelled(J[:, a], J[:, b], tolerance))
    return max(0, bound)


def _cancelled(a: np.ndarray, b: np.ndarray, tolerance: float) -> int:
    """The most rows that one mixture of two columns cancels: those with one ratio of entries."""
    both = (a != 0) & (b != 0)
    ratio = np.sort(a[both] / b[both])
    fresh = np.abs(np.diff(ratio)) > tolerance * np.abs(ratio[1:])
    runs = np.diff(np.flatnonzero(np.concatenate([[True], fresh, [True]]))) if len(ratio) else [0]
    return int(max(runs))


def _deal(S: Any) -> sparse.csr_array:
    """Give every row to the latent that has the fewest so far, short rows first."""
    lengths = np.diff(S.indptr)
    taken = np.zeros(S.shape[1], dtype=np.int64)
    rows, owners = [], []
    for i in np.argsort(lengths, kind="stable"):
        latents = S.indices[S.indptr[i] : S.indptr[i + 1]]
        if len(latents):
            owner = latents[taken[latents].argmin()]
            taken[owner] += 1
            rows.append(i)
            owners.append(owner)
    return sparse.csr_array((np.ones(len(rows), dtype=np.int32), (rows, owners)), shape=S.shape)


def _has_a_rival(weight: np.ndarray) -> np.ndarray:
    """Latents that another is at least as heavy as: all but a single heaviest one."""
    top = weight == weight.max()
    return ~top if top.sum() == 1 else np.ones(len(weight), dtype=bool)


def _pair_without_surplus(S: Any) -> bool:
    """Whether some latent has fewer than two rows outside another that is no lighter."""
    weight = np.asarray(S.sum(axis=0)).ravel()
    if S.shape[1] == 1:
        return False
    if (weight[_has_a_rival(weight)] < 2).any():
        return True
    shared: Any = sparse.coo_array(S.T @ S)
    q, r = shared.coords
    rivals = (q != r) & (weight[q] <= weight[r])
    return bool((weight[q[rivals]] - shared.data[rivals] < 2).any())


def _matched(support: np.ndarray) -> bool:
    """Hall's condition with surplus 1, exactly: for every ``r`` a matching with each lighter latent doubled in turn."""
    weight = support.sum(axis=0)
    for r in range(support.shape[1]):
        outside = np.flatnonzero(~support[:, r])
        others = [q for q in range(support.shape[1]) if q != r and weight[q] <= weight[r]]
        rows = {q: [int(i) for i in outside if support[i, q]] for q in others}
        owner: dict[int, int] = {}
        if not all(_augment(q, rows, owner) for q in others):
            return False
        if not all(_augment(q, rows, dict(owner)) for q in others):
            return False
    return True


def _augment(start: int, rows: dict[int, list[int]], owner: dict[int, int]) -> bool:
    """Give ``start`` one more row along an alternating path, breadth first."""
    asked: dict[int, int] = {}
    given_up: dict[int, int | None] = {start: None}
    frontier = [start]
    for q in frontier:
        for i in rows[q]:
            if i in asked or owner.get(i) == q:
                continue
            asked[i] = q
            holder = owner.get(i)
            if holder is None:
                row: int | None = i
                while row is not None:
                    owner[row] = asked[row]
                    row = given_up[asked[row]]
                return True
            if holder not in given_up:
                given_up[holder] = i
                frontier.append(holder)
    return False
