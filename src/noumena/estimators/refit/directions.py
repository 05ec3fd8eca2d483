"""Sparse directions of a data manifold: candidates for the columns of a structure, from a dense model alone.

At a point of the data the columns of a decoder's Jacobian span the tangent space of the manifold, whatever the latents
are: two models with the same observations have the same tangent spaces, ``Dĝ = J·B``. A latent that few observations
depend on is a direction of the tangent space with many zeros, *the same zeros at every point*. So the columns of the
sparsest structure are looked for where no latents enter: directions ``v(p) = Q(p) c(p)``, one for each point ``p``,
that vanish on a common set of rows. Each is found by iteratively reweighted least squares, with weights of rows that
all points share, from many starts (``d − 1`` rows that are to vanish define ``c``). The lightest independent directions
are a first structure; the Occam theorem says that for a positive gap they are the true one, were tangent spaces known
without error. What is found is a proposal: the held-out loss of an exactly sparse refit decides
(``noumena.estimators.refit.search``).
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from math import comb
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor

from noumena import seeds
from noumena.derivatives import jacobian

POINTS = 192
"""Rows of the data at which tangent spaces are taken; the first ``FIRST`` of them screen the starts."""
FIRST = 24
STARTS, MANY_STARTS = 2000, 16_000
"""Starts, and those where the first ones led to no structure that explains the rows."""
KEPT = 200
"""How many distinct directions go on after the first few rounds."""
SMALL = 0.02
"""Below this share of a row's length a direction counts as zero there in the reweighting."""
SCREENING = ((0.04,) * 4, (0.3, 0.15, 0.08, 0.04))
"""What counts as zero in the first rounds: the rows of a start at once, or all rows at first; each finds what the other
misses."""
ROUNDS = 16
FAINT = 0.09
"""Above this share, in root mean square over points, a row counts as moved by a direction."""
LEAST_ANGLE = 0.2
"""Directions are independent when the smallest singular value of those chosen is at least this at half the points."""


@dataclass(frozen=True, eq=False)
class Directions:
    """Sparse directions, the lightest first."""

    moves: Float[np.ndarray, "direction observed"]
    """By how much each direction moves every observation: root mean square over points of ``|Q_i c| / |Q_i|``."""
    vectors: Float[Tensor, "direction point observed"]
    """The directions themselves, of length 1 at every point."""
    faint: float = FAINT
    """Above this share, in root mean square over points, an observation counts as moved."""

    @property
    def supports(self) -> Bool[np.ndarray, "direction observed"]:
        """Which observations each direction moves."""
        return self.moves > self.faint

    @property
    def weights(self) -> Float[np.ndarray, " direction"]:
        """A count of the observations that a direction moves, in which a faint move counts in part."""
        return soft_count(self.moves, self.faint)

    def basis(self) -> list[int]:
        """The lightest independent directions, chosen greedily; fewer than latents where there are not enough."""
        chosen: list[int] = []
        for k in range(len(self.moves)):
            together = torch.linalg.svdvals(self.vectors[[*chosen, k]].movedim(0, -1))
            if float(together[:, -1].median()) > LEAST_ANGLE:
                chosen.append(k)
        return chosen

    def swaps(self, basis: list[int], most: int) -> list[list[int]]:
        """Bases in which one direction is replaced by another, those that add least to the weight first: tangent spaces
        are estimated, so the lightest directions need not be the true ones."""
        costs = self.weights[None, :] - self.weights[basis][:, None]
        bases: list[list[int]] = []
        for flat in np.argsort(costs, axis=None, kind="stable"):
            place, k = divmod(int(flat), len(self.moves))
            if k in basis:
                continue
            changed = [*basis[:place], k, *basis[place + 1 :]]
            together = torch.linalg.svdvals(self.vectors[changed].movedim(0, -1))
            if float(together[:, -1].median()) > LEAST_ANGLE:
                bases.append(changed)
            if len(bases) == most:
                break
        return bases


def soft_count(moves: Float[np.ndarray, "direction observed"], faint: float = FAINT) -> Float[np.ndarray, " direction"]:
    """``Σ_i min(1, m_i² / τ²)``: an observation that is moved counts 1, one that hardly is counts little.

    >>> soft_count(np.array([[1.0, 0.0, 0.045]])).round(2)
    array([1.25])
    """
    return np.minimum(1.0, (moves / faint) ** 2).sum(axis=1)


def tangents(models: list[Any], x: Float[Tensor, "batch observed"]) -> Float[Tensor, "point observed latent"]:
    """Orthonormal bases of the tangent spaces at rows of standardised data, averaged over models.

    Spaces are averaged as projections, which depend on no model's latents.
    """
    total: Any = 0.0
    d = 0
    for model in models:
        z = model.code(x.to(model.mean)).detach()
        Q = torch.linalg.qr(jacobian(model.decoder, z).detach().double().cpu())[0]
        total, d = total + Q @ Q.mT, Q.shape[2]
    return torch.linalg.eigh(total)[1][:, :, -d:].flip(-1)


def sparse_directions(
    Q: Float[Tensor, "point observed latent"], *, starts: int = STARTS, seed: int = 0, faint: float = FAINT
) -> Directions:
    """Directions of the tangent spaces ``Q`` that vanish on common rows, the lightest first.

    >>> Q = torch.linalg.qr(torch.randn(40, 5, 2, generator=torch.Generator().manual_seed(0), dtype=torch.float64))[0]
    >>> mixed = torch.zeros(40, 5, 2, dtype=torch.float64)
    >>> mixed[:, :3, 0], mixed[:, 2:, 1] = Q[:, :3, 0], Q[:, 2:, 1]
    >>> found = sparse_directions(torch.linalg.qr(mixed @ torch.tensor([[1.0, 2], [3, 4]], dtype=torch.float64))[0])
    >>> found.supports[:2].sum(axis=1)
    array([3, 3])
    """
    d = Q.shape[2]
    length = Q.norm(dim=2, keepdim=True)
    unit = torch.where(length > 1e-9, Q / length.clamp_min(1e-9), 0.0)
    first, small = _starts(Q.shape[1], d, starts, seed).to(Q), SMALL * faint / FAINT
    screened = [_reweighted(unit[:FIRST], part, smalls)[:2] for smalls in SCREENING for part in first.split(STARTS)]
    weights, moves = (torch.cat(parts) for parts in zip(*screened, strict=True))
    _, moves, c = _reweighted(unit, weights[_distinct(moves, KEPT, faint)], (small,) * ROUNDS)
    order = _distinct(moves, KEPT, faint)
    vectors = torch.einsum("pid,kpd->kpi", Q, c[order])
    return Directions(moves[order].cpu().numpy(), vectors / vectors.norm(dim=2, keepdim=True).clamp_min(1e-12), faint)


def _starts(n_observed: int, n_latents: int, most: int, seed: int) -> Float[Tensor, "start observed"]:
    """Weights of rows, large on ``d − 1`` rows of each start: all choices of them, or a sample."""
    k = n_latents - 1
    if comb(n_observed, k) <= most:
        chosen = np.array(list(combinations(range(n_observed), k)), dtype=int).reshape(-1, k)
    else:
        rng = seeds.numpy_generator(seed, "starts of sparse directions", n_observed, k)
        chosen = rng.random((most, n_observed)).argpartition(k, axis=1)[:, :k]
    weights = torch.full((len(chosen), n_observed), 1e-2, dtype=torch.float64)
    return weights.scatter_(1, torch.as_tensor(chosen), 1.0)


def _reweighted(
    unit: Float[Tensor, "point observed latent"], weights: Float[Tensor, "start observed"], smalls: tuple[float, ...]
) -> tuple[Tensor, Tensor, Tensor]:
    """Rounds of ``c(p) = argmin Σ_i w_i (u_i·c)²`` and ``w_i = 1 / (mean_p (u_i·c)² + ε²)``; weights, moves, ``c``."""
    P, n, d = unit.shape
    squares = (unit[:, :, :, None] * unit[:, :, None, :]).reshape(P, n, d * d)
    c = unit.new_zeros(len(weights), P, d)
    mean = unit.new_zeros(len(weights), n)
    for small in smalls:
        total = torch.einsum("kn,pne->kpe", weights, squares).reshape(-1, P, d, d)
        c = torch.linalg.eigh(total)[1][..., 0]
        mean = torch.einsum("pnd,kpd->kpn", unit, c).square().mean(dim=1)
        weights = 1 / (mean + small**2)
        weights = weights / weights.amax(dim=1, keepdim=True)
    return weights, mean.sqrt(), c


def _distinct(moves: Float[Tensor, "direction observed"], most: int, faint: float) -> Tensor:
    """The lightest directions of each support, lightest first."""
    values = moves.cpu().numpy()
    order = np.argsort(soft_count(values, faint), kind="stable")
    _, first = np.unique(values[order] > faint, axis=0, return_index=True)
    return torch.as_tensor(order[np.sort(first)][:most])
