"""Answer: what is guaranteed about a set of latents that a query asks for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from noumena.guarantees.competitors import Competitor
from noumena.guarantees.diversity import closure_of
from noumena.structure import LatentSet

if TYPE_CHECKING:
    from noumena.guarantees.structure_certificate import StructureCertificate


@dataclass(frozen=True)
class Answer:
    """Which latents, whether they are identified as a block, and what they may be entangled with."""

    latents: LatentSet
    answer: str
    """``block-identified``, ``not identified`` or ``open``; ``empty`` for no latents."""
    entangled_with: LatentSet
    """Latents outside that a known competitor mixes in."""
    reason: str
    competitor: Competitor | None
    under_assumption_1: LatentSet
    """The smallest set around these latents that is block-identified under Assumption 1 of Zheng et al. (2026)."""
    paper: str
    """What the conditions of Zheng et al. (2026) claim, and how that differs."""

    def __str__(self) -> str:
        return f"{{{', '.join(self.latents.names)}}} {self.answer}: {self.reason}. {self.paper}"

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain lists and strings."""
        return {
            "latents": list(self.latents.names),
            "answer": self.answer,
            "entangled_with": list(self.entangled_with.names),
            "reason": self.reason,
            "under_assumption_1": list(self.under_assumption_1.names),
            "paper": self.paper,
        }


def answer(certificate: StructureCertificate, latents: LatentSet) -> Answer:
    """What a certificate says about a set of latents."""
    S = certificate.structure
    closed = closure_of(latents, S)
    paper = _paper(latents, closed)
    none = LatentSet(frozenset(), S.latent)
    if not latents:
        return Answer(latents, "empty", none, "no latent is asked for", None, latents, paper)
    unproved = [t for t in latents if not certificate.block_of(t) <= latents.indices]
    if not unproved and not certificate.unproved_premises:
        reason = "no equivalent model with no more dependencies mixes anything else into them"
        return Answer(latents, "block-identified", none, reason, None, closed, paper)
    carried = [(r, c) for t in unproved for r, c in certificate.carried_with(t).items() if r not in latents.indices]
    if carried:
        entangled, rival = LatentSet(frozenset(r for r, _ in carried), S.latent), carried[0][1]
        several = len(entangled) > 1
        who, first = ("competitors mix in", "; the first:") if several else ("a competitor mixes in", ",")
        reason = f"{who} {', '.join(entangled.names)}{first} {rival.sentence}"
        return Answer(latents, "not identified", entangled, reason, rival, closed, paper)
    return Answer(latents, "open", none, certificate.why_open, None, closed, paper)


def _paper(latents: LatentSet, closed: LatentSet) -> str:
    if not latents:
        return "Zheng et al. 2026 say nothing about no latents."
    if closed == latents:
        return "By Zheng et al. 2026: block-identified; under their Assumption 1 this follows."
    extra = ", ".join((closed - latents).names)
    return (
        "By Zheng et al. 2026: block-identified as a set of observations' latents; even under their Assumption 1 that "
        f"does not follow, {extra} may be mixed in."
    )
