"""A theorem read on a subject: hypotheses with evidence, and a conclusion that is an ambiguity per latent."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from noumena.ambiguity import Ambiguity
from noumena.guarantees.hypotheses import ANSWERS, Hypothesis

MOST_LETTERS = 120
"""Ambiguities are spelled out up to this length, and named by their group beyond."""
ANYTHING = Ambiguity("any")


@dataclass(frozen=True)
class Theorem:
    """Premises with evidence and what follows from them, latent by latent.

    >>> flat = Hypothesis("g is affine", "holds", "it is a matrix")
    >>> theorem = Theorem("toy", "nowhere", (flat,), (Ambiguity("affine"),) * 2)
    >>> theorem.answer, str(theorem.ambiguity(0))
    ('holds', 'affine')
    """

    name: str
    source: str
    hypotheses: tuple[Hypothesis, ...]
    conclusion: tuple[Ambiguity, ...]
    """What is pinned down of each latent if the hypotheses are true."""
    rests_on: tuple[str, ...] = ()
    latents: tuple[str, ...] = ()
    """What the latents are called; z1, z2, … where nothing is said."""

    @property
    def answer(self) -> str:
        """The weakest answer among the hypotheses."""
        return max((h.answer for h in self.hypotheses), key=ANSWERS.index, default="holds")

    @property
    def broken(self) -> tuple[str, ...]:
        """Names of the hypotheses that fail."""
        return tuple(h.name for h in self.hypotheses if h.answer == "fails")

    @property
    def open(self) -> tuple[str, ...]:
        """Names of the hypotheses that the subject cannot show."""
        return tuple(h.name for h in self.hypotheses if h.answer == "unknown")

    def ambiguity(self, t: int) -> Ambiguity:
        """Up to what latent ``t`` is pinned down; any map when a hypothesis fails. What is ``open`` is assumed."""
        return ANYTHING if self.broken else self.conclusion[t]

    @property
    def sentence(self) -> str:
        """The theorem's reading in one sentence."""
        if self.broken:
            return f"{self.name} does not apply, this fails: {', '.join(self.broken)}."
        groups = list(dict.fromkeys(a.named(self.latents) for a in self.conclusion))
        if len(", ".join(groups)) > MOST_LETTERS:
            groups = list(dict.fromkeys(a.group for a in self.conclusion))
        known = f"{self.name} pins the latents down up to {' or '.join(groups)} maps"
        return f"{known}, provided that: {', '.join(self.open)}." if self.open else f"{known}."

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain lists and strings."""
        return {
            "name": self.name,
            "source": self.source,
            "answer": self.answer,
            "sentence": self.sentence,
            "hypotheses": [h.to_dict() for h in self.hypotheses],
            "conclusion": [self.ambiguity(t).named(self.latents) for t in range(len(self.conclusion))],
            "rests_on": list(self.rests_on),
        }
