"""Guarantees: under checked hypotheses, up to which ambiguity are the latents pinned down?"""

from noumena.guarantees.answer import Answer
from noumena.guarantees.certificate import Certificate, Verdict
from noumena.guarantees.certify import certify
from noumena.guarantees.competitors import Competitor, Rivals
from noumena.guarantees.theorem import Hypothesis, Reading, Theorem
from noumena.guarantees.witness import Verification, Witness

__all__ = [
    "Answer",
    "Certificate",
    "Competitor",
    "Hypothesis",
    "Reading",
    "Rivals",
    "Theorem",
    "Verdict",
    "Verification",
    "Witness",
    "certify",
]
