"""Guarantees: under checked hypotheses, up to which ambiguity are the latents pinned down?"""

from noumena.guarantees.certificate import Certificate, Verdict
from noumena.guarantees.certify import certify
from noumena.guarantees.theorem import Hypothesis, Reading, Theorem
from noumena.guarantees.witness import Competitor, competitors

__all__ = ["Certificate", "Competitor", "Hypothesis", "Reading", "Theorem", "Verdict", "certify", "competitors"]
