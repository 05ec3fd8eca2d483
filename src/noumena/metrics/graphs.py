"""Distances between structures."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from noumena.ambiguity import Ambiguity
from noumena.structure import Structure


@dataclass(frozen=True)
class StructureDistance:
    """F1 in [0, 1] of the learned dependencies after matching columns, and what is missing or extra."""

    score: float
    missing: int
    extra: int
    permutation: np.ndarray
    forgives: Ambiguity

    @property
    def hamming(self) -> int:
        """Entries that differ."""
        return self.missing + self.extra


def structure_distance(truth: Structure, learned: Structure) -> StructureDistance:
    """Match the learned columns to the true ones by overlap, then count missing and extra dependencies.

    >>> structure_distance(Structure([[1, 0], [1, 1]]), Structure([[1, 1], [1, 1]])).extra
    1
    """
    m = truth.match(learned)
    return StructureDistance(m.f1, m.missing, m.extra, m.permutation, Ambiguity("permutation"))
