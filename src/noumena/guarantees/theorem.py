"""A theorem read on a subject: hypotheses with evidence, and a conclusion that is an ambiguity per latent."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from noumena.ambiguity import Ambiguity
from noumena.checks import one_of

ANSWERS = ("holds", "supported", "unknown", "fails")
"""From the strongest to the weakest; a theorem is as strong as its weakest hypothesis."""

MOST_LETTERS = 120
"""Ambiguities are spelled out up to this length, and named by their group beyond."""
ANYTHING = Ambiguity("any")


@dataclass(frozen=True)
class Hypothesis:
    """One premise of a theorem: does it hold, and how do we know."""

    name: str
    answer: str
    """``holds`` (checked exactly), ``supported`` (estimated, with its margin), ``fails`` or ``unknown``."""
    evidence: str

    def __post_init__(self) -> None:
        one_of(self.answer, "A hypothesis' answer", ANSWERS)

    def to_dict(self) -> dict[str, str]:
        """Name, answer and evidence."""
        return {"name": self.name, "answer": self.answer, "evidence": self.evidence}


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


@dataclass(frozen=True)
class Reading:
    """Several theorems read on one subject, the weaker conclusions first."""

    subject: str
    theorems: tuple[Theorem, ...]

    @property
    def hypotheses(self) -> tuple[Hypothesis, ...]:
        """Every hypothesis of every theorem, once."""
        return tuple(dict.fromkeys(h for theorem in self.theorems for h in theorem.hypotheses))

    @property
    def broken(self) -> tuple[str, ...]:
        """Names of the hypotheses that fail."""
        return tuple(dict.fromkeys(name for theorem in self.theorems for name in theorem.broken))

    @property
    def rests_on(self) -> tuple[str, ...]:
        """What the theorems that apply take for granted, and what they could not check."""
        applying = [t for t in self.theorems if not t.broken]
        return tuple(dict.fromkeys(s for theorem in applying for s in (*theorem.rests_on, *theorem.open)))

    def theorem(self, name: str) -> Theorem:
        """A theorem by name."""
        one_of(name, "A theorem's name", tuple(t.name for t in self.theorems))
        return next(t for t in self.theorems if t.name == name)

    @property
    def strongest(self) -> Theorem | None:
        """The last theorem that no hypothesis breaks; ``None`` when all are broken."""
        return next((t for t in reversed(self.theorems) if not t.broken), None)

    def ambiguity(self, t: int) -> Ambiguity:
        """Up to what latent ``t`` is pinned down by the strongest theorem that applies."""
        return ANYTHING if self.strongest is None else self.strongest.ambiguity(t)

    @property
    def headline(self) -> str:
        """The conclusion in one sentence."""
        if self.strongest is None:
            return f"Nothing is guaranteed about this {self.subject}: {self.theorems[0].sentence}"
        return self.strongest.sentence

    def __str__(self) -> str:
        lines = [f"Reading of a {self.subject}", self.headline, ""]
        lines += [f"  {t.answer:9} {t.name} ({t.source}): {t.sentence}" for t in self.theorems]
        lines += ["", "Hypotheses", *(f"  {h.answer:9} {h.name}: {h.evidence}" for h in self.hypotheses)]
        if self.rests_on:
            lines += ["", "Rests on", *(f"  {sentence}" for sentence in self.rests_on)]
        return "\n".join(lines)

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain lists, numbers and strings, ready for JSON."""
        return {
            "subject": self.subject,
            "headline": self.headline,
            "theorems": [t.to_dict() for t in self.theorems],
            "hypotheses": [h.to_dict() for h in self.hypotheses],
            "rests_on": list(self.rests_on),
        }
