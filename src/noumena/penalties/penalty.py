"""Penalty: a scalar function of a decoder and latent points, with an algebra: ``0.1 * A + B``."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from noumena import checks
from noumena.checks import InputError
from noumena.derivatives import Map

Draws = dict[str, Tensor]


class Penalty(ABC):
    """Call it with any callable ``z ↦ x`` and points ``z`` (batch, latent); it returns a scalar.

    ``progress`` runs from 0 to 1 over a fit, for penalties that are annealed; outside a fit leave it at 1. ``draws``
    are the random numbers of penalties that probe or sample, one row per point, as ``draws()`` makes them; without
    them a call makes its own from torch's global stream. A decoder with dropout or batch normalisation must be in its
    ``eval()``, and pictures must be flattened; a module is given points in the precision of its weights.
    """

    needs_scale = False
    """Whether the penalty is vacuous unless something fixes the scale of the latents."""

    @abstractmethod
    def __call__(self, decoder: Map, z: Tensor, progress: float = 1.0, draws: Draws | None = None) -> Tensor:
        """The penalty's value, a scalar."""

    def draws(self, rows: int, n_latents: int, generator: torch.Generator) -> Draws:
        """Random numbers that a call needs for ``rows`` points, each with a leading axis of rows; none by default."""
        return {}

    def drawn(self, z: Tensor, draws: Draws | None) -> Draws:
        """The given draws, or fresh ones from torch's global stream, beside the points."""
        found = self.draws(z.shape[0], z.shape[1], torch.default_generator) if draws is None else draws
        return {name: value.to(z) for name, value in found.items()}

    def set_params(self, **settings: Any) -> Penalty:
        """Refused: a penalty never changes, so that a search such as scikit-learn's goes over whole ones."""
        must = "A penalty must be replaced as a whole, such as penalty=0.1 * DependencySparsity(scale=0.1)."
        raise InputError(f"{must} Got {', '.join(f'{name}={value!r}' for name, value in settings.items())}.")

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

    def __call__(self, decoder: Map, z: Tensor, progress: float = 1.0, draws: Draws | None = None) -> Tensor:
        """The weighted sum of the terms' values."""
        values = []
        for k, (weight, term) in enumerate(self.terms):
            own = None if draws is None else {n.split(".", 1)[1]: v for n, v in draws.items() if n.startswith(f"{k}.")}
            values.append(weight * term(decoder, z, progress, own))
        return torch.stack(values).sum()

    def draws(self, rows: int, n_latents: int, generator: torch.Generator) -> Draws:
        """Every term's draws, under its number."""
        return {
            f"{k}.{name}": value
            for k, (_, term) in enumerate(self.terms)
            for name, value in term.draws(rows, n_latents, generator).items()
        }

    def __rmul__(self, weight: float) -> PenaltySum:
        weight = checks.number(weight, "A penalty's weight", minimum=0)
        return PenaltySum(tuple((weight * w, term) for w, term in self.terms))

    __mul__ = __rmul__

    def __add__(self, other: Penalty) -> PenaltySum:
        more = other.terms if isinstance(other, PenaltySum) else ((1.0, other),)
        return PenaltySum(self.terms + more)

    def __repr__(self) -> str:
        return " + ".join(f"{w:g} * {term!r}" for w, term in self.terms)
