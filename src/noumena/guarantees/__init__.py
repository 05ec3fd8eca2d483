"""Guarantees: under checked hypotheses, up to which ambiguity are the latents pinned down?

Names are imported when they are used: a structure is certified without torch.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from noumena.deprecated import moved

if TYPE_CHECKING:
    from noumena.guarantees.answer import Answer
    from noumena.guarantees.certificate import Certificate, Verdict
    from noumena.guarantees.competitors import Competitor, Rivals
    from noumena.guarantees.hypotheses import Hypothesis
    from noumena.guarantees.structure_certificate import StructureCertificate
    from noumena.guarantees.subjects import certify
    from noumena.guarantees.theorem import Theorem
    from noumena.guarantees.witness import Verification, Witness

_HOMES = {
    "Answer": "answer",
    "Certificate": "certificate",
    "Competitor": "competitors",
    "Hypothesis": "hypotheses",
    "Rivals": "competitors",
    "StructureCertificate": "structure_certificate",
    "Theorem": "theorem",
    "Verdict": "certificate",
    "Verification": "witness",
    "Witness": "witness",
    "certify": "subjects",
}

__all__ = [
    "Answer",
    "Certificate",
    "Competitor",
    "Hypothesis",
    "Rivals",
    "StructureCertificate",
    "Theorem",
    "Verdict",
    "Verification",
    "Witness",
    "certify",
]


_old = moved("noumena.guarantees", {"Reading": "noumena.guarantees.Certificate"})


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(f"noumena.guarantees.{_HOMES[name]}"), name)
    return _old(name)
