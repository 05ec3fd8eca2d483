"""Hypotheses: premises of theorems, each with an answer and its evidence, and the names that several files share."""

from __future__ import annotations

from dataclasses import dataclass

from noumena.checks import one_of

ANSWERS = ("holds", "supported", "unknown", "fails")
"""From the strongest to the weakest; a theorem is as strong as its weakest hypothesis."""

POSITIVE_GAP = "the Occam gap is positive"
CONNECTED = "slices of the latents are connected"
ZEROS = "zeros are exact"
NO_DENSER = "the other model is no denser"
INVERTIBLE = "g is invertible"
EXPLAINED = "the data are explained"
SHARED = "what the columns share is explained"
"""The same of noisy data, whose noise no model has to explain;"""
NOISE = "noise is independent from column to column"
"""which then has to be so."""
IN_USE = "every latent is in use"
INDEPENDENT = "the latents are independent"
CONTINUOUS = "g and its inverse are continuous"
SPREAD = "the points spread in all directions"
GENERIC = "generic entries"


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
