"""Spike and slab: a latent that sits at one value while inactive and follows a Gaussian while active.

Every column is fitted by ``π N(c, s²) + (1 − π) N(m, σ²)`` with ``s < σ``, by expectation–maximisation, all columns at
once. The gain in log-likelihood over one Gaussian, per row, says how much sparser than Gaussian the column is; for a
column with an exact atom it grows without bound as the smallest allowed width of the spike falls.

Reference: Xu et al. (2026), Definition 2.2, read on one latent.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

NARROWEST = 1e-3
"""Smallest width of a spike, relative to the column's deviation."""
WIDEST = 0.5
"""A spike wider than this share of its slab is no spike."""


@dataclass(frozen=True)
class Spikes:
    """The spikes and slabs of some columns, and what they gain over a Gaussian, in nats per row."""

    share: Float[Tensor, " column"]
    place: Float[Tensor, " column"]
    width: Float[Tensor, " column"]
    slab_mean: Float[Tensor, " column"]
    slab_width: Float[Tensor, " column"]
    gain: Float[Tensor, " column"]
    rows: int
    """How many rows they were fitted to."""

    def inactive(self, y: Float[Tensor, "batch column"]) -> Float[Tensor, "batch column"]:
        """The probability that a value belongs to the spike."""
        return torch.sigmoid(self._odds(y))

    def _odds(self, y: Tensor) -> Tensor:
        spike = _log_normal(y, self.place, self.width) + self.share.log()
        return spike - _log_normal(y, self.slab_mean, self.slab_width) - (1 - self.share).log()

    def log_density(self, y: Float[Tensor, "batch column"]) -> Float[Tensor, "batch column"]:
        """The logarithm of each column's density."""
        spike = _log_normal(y, self.place, self.width) + self.share.log()
        slab = _log_normal(y, self.slab_mean, self.slab_width) + (1 - self.share).log()
        return torch.logaddexp(spike, slab) - math.log(2 * math.pi) / 2

    def moved(self, shift: Float[Tensor, " column"]) -> Spikes:
        """The same of columns to which something is added, on the CPU."""
        parts = (self.share, self.place + shift, self.width, self.slab_mean + shift, self.slab_width, self.gain)
        return Spikes(*(part.cpu() for part in parts), rows=self.rows)

    def chosen(self, which: Int[Tensor, " some"]) -> Spikes:
        """Those of some columns."""
        parts = (self.share, self.place, self.width, self.slab_mean, self.slab_width, self.gain)
        return Spikes(*(part[which] for part in parts), rows=self.rows)

    def certainty(self, y: Float[Tensor, "batch column"]) -> Float[Tensor, " column"]:
        """How surely values are told inactive or active: the mean of ``|2p − 1|``, 1 when there is no doubt."""
        return (2 * self.inactive(y) - 1).abs().mean(dim=0)

    def sparse(self, columns: int) -> Bool[Tensor, " column"]:
        """Whether a column of so many has a spike: narrow, and worth twice the price of its parameters."""
        real = (self.gain > needed_gain(self.rows, columns)) & (self.share < 1 - 1 / self.rows)
        return real & (self.width < WIDEST * self.slab_width)


def needed_gain(rows: int, columns: int) -> float:
    """The gain that a direction fitted to Gaussian rows stays below: twice the usual price of its parameters.

    >>> round(needed_gain(1000, 7), 3)
    0.069
    """
    return (columns + 3) * math.log(rows) / rows


def fit_spikes(y: Float[Tensor, "batch column"], *, iterations: int = 40, narrowest: float = NARROWEST) -> Spikes:
    """Fit spike and slab to every column.

    >>> y = torch.cat([torch.zeros(50), torch.linspace(-2, 2, 50)])[:, None]
    >>> spikes = fit_spikes(y)
    >>> bool(spikes.gain > 1), round(float(spikes.share), 1), bool(spikes.sparse(1))
    (True, 0.5, True)
    """
    mean, deviation = y.mean(dim=0), y.std(dim=0).clamp_min(1e-30)
    u = (y - mean) / deviation
    place = _densest(u)
    width = (u - place).abs().quantile(0.25, dim=0).clamp_min(narrowest)
    share, slab_mean, slab_width = torch.full_like(place, 0.5), torch.zeros_like(place), torch.ones_like(place)
    for _ in range(iterations):
        p = Spikes(share, place, width, slab_mean, slab_width, share, len(u)).inactive(u)
        total = p.sum(dim=0).clamp_min(1e-6)
        rest = (1 - p).sum(dim=0).clamp_min(1e-6)
        share = (total / len(u)).clamp(1 / len(u), 1 - 1 / len(u))
        place, slab_mean = (p * u).sum(dim=0) / total, ((1 - p) * u).sum(dim=0) / rest
        width = ((p * (u - place).square()).sum(dim=0) / total).sqrt().clamp_min(narrowest)
        slab_width = (((1 - p) * (u - slab_mean).square()).sum(dim=0) / rest).sqrt().clamp_min(narrowest)
    unit = Spikes(share, place, width, slab_mean, slab_width, share, len(u))
    gain = unit.log_density(u).mean(dim=0) + (u.square().mean(dim=0) + math.log(2 * math.pi)) / 2
    place, slab_mean = mean + place * deviation, mean + slab_mean * deviation
    return Spikes(share, place, width * deviation, slab_mean, slab_width * deviation, gain, len(u))


def _log_normal(y: Tensor, mean: Tensor, width: Tensor) -> Tensor:
    return -((y - mean) / width).square() / 2 - width.log()


def _densest(u: Tensor) -> Tensor:
    """The middle of the shortest stretch that holds a tenth of the values."""
    ordered = u.sort(dim=0).values
    held = max(1, len(u) // 10)
    lengths = ordered[held:] - ordered[:-held]
    start = lengths.argmin(dim=0)[None]
    return (ordered.gather(0, start) + ordered.gather(0, start + held))[0] / 2
