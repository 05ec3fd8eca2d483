"""Penalty: a scalar function of a decoder and latent points, with an algebra: ``0.1 * A + B``."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import torch
from torch import Tensor

from noumena import checks
from noumena.derivatives import Map


class Penalty(ABC):
    """Call it with any callable ``z ↦ x`` and points ``z`` (batch, latent); it returns a scalar.

    ``progress`` runs from 0 to 1 over a fit, for penalties that are annealed; outside a fit leave it at 1.
    """

    needs_scale = False
    """Whether the penalty is vacuous unless something fixes the scale of the latents."""

    @abstractmethod
    def __call__(self, decoder: Map, z: Tensor, progress: float = 1.0) -> Tensor:
        """The penalty's value, a scalar."""

    def __rmul__(self, weight: float) -> PenaltySum:
        return PenaltySum(((checks.number(weight, "A penalty's weight", minimum=0), self),))

    __mul__ = __rmul__

    def __add__(self, other: Penalty) -> PenaltySum:
        return 1.0 * self + other


@dataclass(frozen=True)
class PenaltySum(Penalty):
    """A weighted sum of penalties; what ``0.1 * A + B`` makes.

    >>> from noumena.penalties import LatentSparsity
    >>> float((2 * LatentSparsity() + LatentSparsity())(lambda z: z, torch.ones(1, 2)))
    3.0
    """

    terms: tuple[tuple[float, Penalty], ...]

    @property
    def needs_scale(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Whether one of the terms does."""
        return any(term.needs_scale for _, term in self.terms)

    def __call__(self, decoder: Map, z: Tensor, progress: float = 1.0) -> Tensor:
        """The weighted sum of the terms' values."""
        return torch.stack([w * term(decoder, z, progress) for w, term in self.terms]).sum()

    def __rmul__(self, weight: float) -> PenaltySum:
        weight = checks.number(weight, "A penalty's weight", minimum=0)
        return PenaltySum(tuple((weight * w, term) for w, term in self.terms))

    __mul__ = __rmul__

    def __add__(self, other: Penalty) -> PenaltySum:
        more = other.terms if isinstance(other, PenaltySum) else ((1.0, other),)
        return PenaltySum(self.terms + more)

    def __repr__(self) -> str:
        return " + ".join(f"{w:g} * {term!r}" for w, term in self.terms)
