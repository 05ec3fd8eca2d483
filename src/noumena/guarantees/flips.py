"""Flips: what would change in the conclusions if an entry near the threshold were read the other way."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from noumena.guarantees.occam import MOST_LATENTS, generic_gap
from noumena.guarantees.surplus import surplus
from noumena.structure import Structure

MOST_FLIPS = 32
"""The entries nearest to the threshold that are tried; the rest are counted."""


@dataclass(frozen=True)
class Flip:
    """One entry read the other way, and the gap of the support before and after."""

    observed: str
    latent: str
    strength: float
    threshold: float
    present: bool
    """Whether it is read as a dependency now."""
    before: int
    after: int | None
    """The gap of the flipped support; ``None`` when the latent would touch nothing."""
    exact: bool
    """Whether gaps are exact, or 1 for shown positive and 0 for not shown."""

    @property
    def matters(self) -> bool:
        """Whether the conclusion would flip: positive to not, zero to negative, or the other way round."""
        return self.after is None or bool(np.sign(self.before) != np.sign(self.after))

    def __str__(self) -> str:
        name = f"{self.observed}–{self.latent}"
        now = "a dependency" if self.present else "none"
        read = f"{name} is read as {now} (strength {self.strength:.3f}, threshold {self.threshold:.3f})"
        if self.after is None:
            return f"{read}; read the other way, nothing would depend on {self.latent}"
        change = f"the support's gap would be {self.after} instead of {self.before}"
        if not self.exact:
            shown = {(0, 1): "would be shown", (1, 0): "would no longer be shown"}
            now = "is still shown" if self.before else "is still not shown"
            change = f"the support's gap {shown.get((self.before, self.after), now)} to be positive"
        return f"{read}; {change}{', and the conclusion would change' if self.matters else ''}"


def flips(structure: Structure) -> tuple[Flip, ...]:
    """What each entry near the threshold would change, the nearest first; empty without evidence.

    Gaps are those of the support with generic entries.
    """
    evidence = structure.evidence
    if evidence is None:
        return ()
    near = np.array(evidence.borderline(), dtype=int).reshape(-1, 2)
    distance = np.abs(np.log(evidence.strength[near[:, 0], near[:, 1]] / evidence.threshold))
    support, before = structure.dense, _gap(structure.dense)
    found = []
    for i, j in near[np.argsort(distance, kind="stable")[:MOST_FLIPS]].tolist():
        other = support.copy()
        other[i, j] = not other[i, j]
        found.append(
            Flip(
                structure.observed[i],
                structure.latent[j],
                float(evidence.strength[i, j]),
                evidence.threshold,
                bool(support[i, j]),
                before,
                _gap(other) if other[:, j].any() else None,
                support.shape[1] <= MOST_LATENTS,
            )
        )
    return tuple(found)


def _gap(support: np.ndarray) -> int:
    exact = generic_gap(support)
    return int(surplus(support) > 0) if exact is None else exact.value
