"""Evidence for a structure: how strong every dependency is (``noumena.strength`` measures it), and where the line was
drawn; and how far one structure agrees with another."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

FEW = 6
"""Of so many entries below the threshold one may be near it, on either side."""
EXACT = 1e-9
"""Strengths below this are zeros."""
LARGEST = 700.0
"""Distances on a log scale end here, so that their exponentials are finite."""


@dataclass(frozen=True)
class Evidence:
    """Why an estimated structure looks as it does: the strength of every entry and the line drawn."""

    strength: np.ndarray
    threshold: float

    @property
    def margin(self) -> float:
        """How far the nearest entry is from the threshold, as a factor ≥ 1; near 1 means fragile."""
        return float(np.exp(self._distance.min()))

    @property
    def below(self) -> int:
        """How many entries count as no dependency."""
        return int((self.strength <= self.threshold).sum())

    @property
    def parts(self) -> bool:
        """Whether the threshold parts strong entries from faint ones: fewer are near it than are exactly zero, or than
        one in ``FEW`` of those below it.

        Strengths of a dense decoder are spread evenly from zero on: some five in six of those below a line would be as
        near to it, and the line is an accident.

        >>> Evidence(np.array([[1.0, 0.9, 0.8, 0.01, 0.001]]), 0.1).parts
        True
        >>> Evidence(np.arange(1, 100)[None] / 100, 0.1).parts
        False
        """
        near = len(self.borderline())
        return FEW * near < self.below or near <= int((self.strength < EXACT).sum())

    def borderline(self, factor: float = 1.5) -> list[tuple[int, int]]:
        """Entries within ``factor`` of the threshold, either side: those that could flip."""
        return [(int(i), int(j)) for i, j in np.argwhere(self._distance < np.log(factor))]

    @property
    def _distance(self) -> np.ndarray:
        """Distance of every entry from the threshold, on a log scale; an exact zero is far from any threshold."""
        tiny = np.finfo(float).tiny
        distance = np.abs(np.log(np.maximum(self.strength, tiny)) - np.log(max(self.threshold, tiny)))
        return np.where(self.strength == 0, LARGEST, np.minimum(distance, LARGEST))


@dataclass(frozen=True)
class Matching:
    """One structure's columns matched to another's, and what then differs."""

    permutation: np.ndarray
    """For each latent here, the matched latent there; −1 when there is none."""
    missing: int
    extra: int
    f1: float

    @property
    def hamming(self) -> int:
        """Entries that differ after matching."""
        return self.missing + self.extra


def widest_gap(strength: np.ndarray, *, lowest: float = 0.03, highest: float = 0.2) -> float:
    """The line through the widest gap, on a log scale, of the sorted strengths between two bounds.

    >>> round(widest_gap(np.array([0.9, 0.8, 0.5, 0.02, 0.001])), 2)
    0.08
    """
    inside = np.sort(strength[(strength > lowest) & (strength < highest)])
    edges = np.concatenate([[lowest], inside, [highest]])
    widest = int(np.argmax(np.diff(np.log(edges))))
    return float(np.sqrt(edges[widest] * edges[widest + 1]))
