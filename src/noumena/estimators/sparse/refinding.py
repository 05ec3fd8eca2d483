"""Refinding: are directions that were found in one half of the rows found in the other, and preferred there?

Two bases of the same space are alike by chance, the more so the fewer dimensions there are, and rows without any axes
(a common random scale of Gaussian rows, a ring) have directions that look sparse, each as much as any other. So a
direction counts as found again when (1) the halves' directions nearest to it have high cosines, beyond those of
randomly turned bases, and (2) the rows of each half prefer the *other* half's direction to random ones, by the
likelihood of a spike and slab, paired over rows. Rotation-invariant rows prefer none, whatever their tails: each half
is made white again without letting far rows decide, so that the bulk is as round as it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from noumena import seeds
from noumena.estimators.sparse.spikes import fit_spikes

PREFERRED = 4.0
"""Standard errors by which the other half's rows must prefer a direction to random ones."""
RANDOM = 64
"""Random directions, and random rotations, that say what chance is."""
NEAR = 0.9
"""The share of rows that stay as far out as they are; others are moved in to their distance."""
LEAST_ROWS, ROWS_PER_COMPONENT = 40, 10
"""Of a half, in all and per component: fewer show nothing."""

Basis = Float[Tensor, "component column"]


@dataclass(frozen=True)
class Refound:
    """Per component, how surely it is found again (0 by chance, 1 exactly), and whether other rows prefer it."""

    score: Float[Tensor, " component"]
    preferred: Bool[Tensor, " component"]


def halves(rows: Float[Tensor, "batch column"]) -> tuple[Tensor, Tensor] | None:
    """Two disjoint halves of the rows, the same for the same number of rows; ``None`` where they are too few."""
    n, d = rows.shape
    if n // 2 < max(LEAST_ROWS, ROWS_PER_COMPONENT * d):
        return None
    order = torch.randperm(n, generator=seeds.generator(0, "halves of rows", n)).to(rows.device)
    return rows[order[: n // 2]], rows[order[n // 2 :]]


def refound(W: Basis, parts: Sequence[Tensor], bases: Sequence[Basis]) -> Refound:
    """The components of ``W`` in the bases that were found in two halves of the rows.

    >>> rows = torch.eye(2).double().repeat(100, 1) * torch.linspace(-2, 2, 200).double()[:, None]
    >>> found = refound(torch.eye(2).double(), (rows[::2], rows[1::2]), (torch.eye(2).double(),) * 2)
    >>> found.score.tolist()
    [1.0, 1.0]
    """
    if W.shape[1] == 1:
        return Refound(W.new_ones(len(W)), torch.ones(len(W), dtype=torch.bool, device=W.device))
    W, (A, B) = _unit(W), [_unit(basis) for basis in bases]
    score, nearest = _alike(W, A, B)
    by_chance = torch.stack([_alike(W, A, B @ turn)[0].mean() for turn in _turns(W)]).mean()
    errors = torch.minimum(_preference(parts[1], nearest[0]), _preference(parts[0], nearest[1]))
    return Refound(((score - by_chance) / (1 - by_chance)).clamp(0, 1), errors >= PREFERRED)


def _alike(W: Basis, A: Basis, B: Basis) -> tuple[Float[Tensor, " component"], tuple[Basis, Basis]]:
    """The cosine of the two directions nearest to each component, and these."""
    first, second = (basis[(W @ basis.T).abs().argmax(dim=1)] for basis in (A, B))
    return (first * second).sum(dim=1).abs().clamp(max=1), (first, second)


def _preference(rows: Tensor, directions: Basis) -> Float[Tensor, " component"]:
    """How many standard errors more likely rows are along each direction than along random ones."""
    d = rows.shape[1]
    rows, back = _round(rows)
    drawn = torch.randn(RANDOM, d, generator=seeds.generator(0, "random directions", d)).to(rows)
    y = rows @ torch.cat([_unit(directions @ back), _unit(drawn)]).T
    u = (y - y.mean(dim=0)) / y.std(dim=0).clamp_min(1e-30)
    density = fit_spikes(u).log_density(u)
    gain = density[:, : len(directions)] - density[:, len(directions) :].mean(dim=1, keepdim=True)
    return gain.mean(dim=0) / (gain.std(dim=0) / sqrt(len(rows)) + 1e-12)


def _round(rows: Tensor) -> tuple[Tensor, Tensor]:
    """Rows with far ones moved in along their directions, made white, and the matrix back; the same rows if flat."""
    rows = rows - rows.mean(dim=0)
    distance = rows.norm(dim=1, keepdim=True)
    nearer = (distance.quantile(NEAR) / distance.clamp_min(1e-30)).clamp(max=1)
    value, vector = torch.linalg.eigh((rows * nearer).T @ (rows * nearer) / len(rows))
    if value[0] <= 1e-9 * value[-1]:
        return rows, torch.eye(rows.shape[1]).to(rows)
    root = value.sqrt()
    return rows * nearer @ (vector / root) @ vector.T, (vector * root) @ vector.T


def _turns(like: Basis) -> list[Tensor]:
    d = like.shape[1]
    drawn = [torch.randn(d, d, generator=seeds.generator(0, "random turn", d, k)) for k in range(RANDOM)]
    return [torch.linalg.qr(matrix).Q.to(like) for matrix in drawn]


def _unit(basis: Basis) -> Basis:
    return basis / basis.norm(dim=1, keepdim=True)
