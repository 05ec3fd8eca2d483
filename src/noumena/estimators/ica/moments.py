"""Moments: all that ICA asks of its data, so that rows may lie in memory, on a GPU, on a disk or on a cluster.

``white = (x − mean) @ whitening.T`` are the whitened rows and ``y = white @ W.T`` the components of a rotation ``W``;
several rotations (restarts) or several tables (one rotation each) are one batch along a leading axis ``model``.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol, runtime_checkable

import torch
from jaxtyping import Float
from torch import Tensor

from noumena import seeds
from noumena.estimators.ica.contrasts import ContrastFunction

Rotations = Float[Tensor, "model component component"]
BLOCK = {"cpu": 2**18, "cuda": 2**28}
"""Entries of one block of components: a processor's cache, or a bounded part of a GPU's memory."""
EVEN = 1e3
"""Below this condition number of the whitening, centred rows are whitened in single precision."""


@runtime_checkable
class RowMoments(Protocol):
    """Means over rows; ``rows`` asks for that many, always the same and spread over all of them, ``None`` for all."""

    n_rows: int
    n_features: int

    def mean_and_covariance(self) -> tuple[Tensor, Tensor]:
        """Mean (…, observed) and covariance (…, observed, observed) in double precision."""
        ...

    def prepare(self, mean: Tensor, whitening: Tensor) -> None:
        """Fix what whitens: (…, observed) and (…, component, observed) in double precision."""
        ...

    def moments(self, W: Rotations, contrast: ContrastFunction, rows: int | None) -> tuple[Tensor, Tensor]:
        """``E[g(y) whiteᵀ]`` (model, component, component) and ``E[g'(y)]`` (model, component)."""
        ...

    def excess(self, rows: int) -> Tensor:
        """``E[white whiteᵀ]`` of so many rows less that of all rows, (1 or model, component, component)."""
        ...

    def value(self, W: Rotations, contrast: ContrastFunction) -> Tensor:
        """``E[G(y)]`` over all rows, (model, component)."""
        ...


class TableMoments:
    """Rows in memory, (table, rows, observed) on their device; white rows are kept in the precision ``dtype``."""

    def __init__(self, x: Float[Tensor, "table rows observed"], *, dtype: torch.dtype, seed: int):
        self.x, self.dtype, self.seed = x, dtype, seed
        self.n_rows, self.n_features = x.shape[1:]
        self.white = self.all = self.covariance = x.new_empty(0)
        self._parts: dict[int, Tensor] = {}

    def mean_and_covariance(self) -> tuple[Tensor, Tensor]:
        """In two passes: the second around the mean that the first has found."""
        mean = self.x.mean(dim=-2, dtype=torch.float64)
        scatter = mean.new_zeros(*mean.shape, mean.shape[-1])
        for block in self._blocks(self.x):
            centred = block.double() - mean[:, None]
            scatter += centred.mT @ centred
        self.covariance = scatter / self.n_rows
        return mean, self.covariance

    def prepare(self, mean: Tensor, whitening: Tensor) -> None:
        """Whiten all rows, centred in double precision and, where the whitening is uneven, multiplied in it."""
        forth = whitening.to(self.x.device)
        even = bool((torch.linalg.cond(forth) < EVEN).all())
        self.white = self.x.new_empty(len(self.x), self.n_rows, forth.shape[-2], dtype=self.dtype)
        back = forth.mT.to(self.dtype if even else torch.float64)
        for block, white in zip(self._blocks(self.x), self._blocks(self.white, like=self.x), strict=True):
            white.copy_((block.double() - mean[:, None]).to(back) @ back)
        self.all = (forth @ self.covariance @ forth.mT).to(self.dtype)
        self._parts = {}

    def moments(self, W: Rotations, contrast: ContrastFunction, rows: int | None) -> tuple[Tensor, Tensor]:
        """Block by block, so that components stay in the cache between the two products."""
        white = self._part(rows)
        product, slope = torch.zeros_like(W), W.new_zeros(W.shape[:2])
        for block in self._blocks(white, len(W)):
            g, slopes = contrast.parts(block @ W.mT)
            product += g.mT @ block
            slope += slopes
        return product / white.shape[1], slope / white.shape[1]

    def excess(self, rows: int) -> Tensor:
        """One product."""
        white = self._part(rows)
        return white.mT @ white / white.shape[1] - self.all

    def value(self, W: Rotations, contrast: ContrastFunction) -> Tensor:
        """Summed in double precision."""
        total = W.new_zeros(W.shape[:2], dtype=torch.float64)
        for block in self._blocks(self.white, len(W)):
            total += contrast.value(block @ W.mT).sum(dim=-2, dtype=torch.float64)
        return total / self.n_rows

    def _part(self, rows: int | None) -> Tensor:
        if rows is None or rows >= self.n_rows:
            return self.white
        if rows not in self._parts:
            order = torch.randperm(self.n_rows, generator=seeds.generator(self.seed, "rows of a stage", self.n_rows))
            self._parts = {rows: self.white[:, order[:rows].to(self.white.device)]}
        return self._parts[rows]

    def _blocks(self, x: Tensor, models: int = 1, like: Tensor | None = None) -> Iterator[Tensor]:
        tables, _, width = (x if like is None else like).shape
        entries = BLOCK.get(x.device.type, BLOCK["cuda"])
        return iter(x.split(max(1024, entries // (max(models, tables) * width)), dim=-2))
