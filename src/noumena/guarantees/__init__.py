"""Guarantees: under checked hypotheses, up to which ambiguity are the latents pinned down?"""

from noumena.guarantees.certificate import Certificate, Hypothesis, Verdict
from noumena.guarantees.certify import certify
from noumena.guarantees.witness import Competitor, competitors

__all__ = ["Certificate", "Competitor", "Hypothesis", "Verdict", "certify", "competitors"]
