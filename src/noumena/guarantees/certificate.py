"""A certificate: hypotheses with evidence, and a conclusion that is an ambiguity per latent.

The theorem behind it (Occam): where the gap is positive at almost every point, every model that gives the same
observations with no more dependencies has the same latents, up to order and element-wise maps. With a gap of exactly 0,
latents of different blocks still never mix. The verdict on an ordered pair ``(t, r)`` answers: can an equivalent
model that is no denser have a latent that stands for ``t`` and also carries ``r``?
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

from noumena.ambiguity import Ambiguity, Blocks
from noumena.guarantees.theorem import Hypothesis
from noumena.guarantees.witness import Competitor
from noumena.occam import Gap
from noumena.structure import Structure

POSITIVE_GAP = "the Occam gap is positive"


@dataclass(frozen=True)
class Verdict:
    """The answer for one pair of latents, its reason, and the competitor when there is one."""

    answer: str
    reason: str
    competitor: Competitor | None = None

    def __str__(self) -> str:
        return f"{self.answer}: {self.reason}"


@dataclass(frozen=True)
class Certificate:
    """What can be trusted about the latents of a world, a structure or a fitted model."""

    subject: str
    """``structure``, ``world`` or ``decoder``."""
    structure: Structure
    occam: Gap | None
    """The cheapest exchange; ``None`` above the size where it is computed exactly."""
    separates: bool
    """Whether the gap is known to be positive."""
    hypotheses: tuple[Hypothesis, ...]
    rests_on: tuple[str, ...]
    competitors: tuple[Competitor, ...]

    # ---- conclusions -------------------------------------------------------------------------------------

    @property
    def gap(self) -> int | None:
        """The Occam gap; ``None`` where only the polynomial test was possible."""
        return None if self.occam is None else self.occam.value

    @property
    def broken_premises(self) -> tuple[str, ...]:
        """Hypotheses other than the gap's that fail; with one of them nothing is proved."""
        return tuple(h.name for h in self.hypotheses if h.answer == "fails" and h.name != POSITIVE_GAP)

    def verdict(self, t: str | int, r: str | int | None = None) -> Verdict:
        """The answer for the pair (t, r), or for latent ``t`` against all others."""
        t = self.structure.index(t)
        if r is None:
            return self._overall(t)
        r = self.structure.index(r)
        if self._proved_apart(t, r):
            return Verdict("identified", self._reason(t, r))
        rival = self.competitor(t, r)
        if rival is not None:
            return Verdict("not identified", f"a competitor exists, {rival.sentence}", rival)
        if self.broken_premises:
            return Verdict("open", f"nothing is proved while this fails: {', '.join(self.broken_premises)}")
        return Verdict("open", "the Occam gap does not separate them and no competitor is known")

    def competitor(self, t: str | int, r: str | int) -> Competitor | None:
        """The simplest competitor in which the latent that stands for ``t`` carries ``r``; ``None`` if none is
        known."""
        t, r = self.structure.index(t), self.structure.index(r)
        return next((c for c in self.competitors if c.latent == t and r in c.carries), None)

    def ambiguity(self, t: str | int) -> Ambiguity:
        """Up to what latent ``t`` is pinned down: element-wise, or together with its block."""
        block = self._block_of(self.structure.index(t))
        return Ambiguity("element-wise") if len(block) == 1 else Ambiguity("block-wise", (block,))

    def blocks(self) -> Blocks:
        """The finest partition whose parts are proved not to mix."""
        return tuple(sorted({self._block_of(t) for t in range(self.structure.n_latents)}))

    @property
    def answer(self) -> str:
        """One word for the whole: the weakest verdict over latents."""
        answers = {self._overall(t).answer for t in range(self.structure.n_latents)}
        return next(a for a in ("not identified", "open", "identified") if a in answers)

    # ---- words -------------------------------------------------------------------------------------------

    @property
    def headline(self) -> str:
        """The conclusion in one sentence."""
        d_z = self.structure.n_latents
        sure = [t for t in range(d_z) if self._overall(t).answer == "identified"]
        gap = f"{self.gap}" if self.gap is not None else "at least 1" if self.separates else "not shown"
        if len(sure) == d_z:
            model = "these latents" if self.subject == "decoder" else "the true latents"
            return (
                f"Identified up to order and element-wise maps (Occam gap {gap}): any model that explains the data "
                f"with no more than {len(self.structure)} dependencies has {model}."
            )
        named = ", ".join(self.structure.latent[t] for t in sure) or "none"
        why = f"fails: {', '.join(self.broken_premises)}" if self.broken_premises else f"Occam gap {gap}"
        return f"{self.answer.capitalize()} ({why}): of {d_z} latents, pinned down: {named}."

    def __str__(self) -> str:
        lines = [f"Certificate of a {self.subject}: {self.structure}", self.headline, ""]
        for t, name in enumerate(self.structure.latent):
            verdict, closure = self._overall(t), self.structure.closure(t)
            lines.append(f"  {name}: {verdict}; the paper's closure {{{', '.join(closure.names)}}}")
        lines += ["", "Hypotheses"]
        lines += [f"  {h.answer:9} {h.name}: {h.evidence}" for h in self.hypotheses]
        lines += ["", "Rests on", *(f"  {sentence}" for sentence in self.rests_on)]
        return "\n".join(lines)

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain lists, numbers and strings, ready for JSON."""
        names = self.structure.latent
        return {
            "subject": self.subject,
            "answer": self.answer,
            "headline": self.headline,
            "gap": self.gap,
            "separates": self.separates,
            "dependencies": len(self.structure),
            "observed": list(self.structure.observed),
            "latent": list(names),
            "support": self.structure.dense.astype(int).tolist(),
            "latents": [self._latent_dict(t) for t in range(len(names))],
            "pairs": [
                {"latent": names[t], "carries": names[r], "answer": v.answer, "reason": v.reason}
                for t in range(len(names))
                for r in range(len(names))
                if t != r
                for v in [self.verdict(t, r)]
            ],
            "blocks": [[names[t] for t in block] for block in self.blocks()],
            "hypotheses": [{"name": h.name, "answer": h.answer, "evidence": h.evidence} for h in self.hypotheses],
            "rests_on": list(self.rests_on),
        }

    # ---- inside ------------------------------------------------------------------------------------------

    def _latent_dict(self, t: int) -> dict[str, Any]:
        verdict = self._overall(t)
        return {
            "name": self.structure.latent[t],
            "answer": verdict.answer,
            "reason": verdict.reason,
            "ambiguity": str(self.ambiguity(t)),
            "paper_closure": list(self.structure.closure(t).names),
        }

    @cached_property
    def _proved_blocks(self) -> Blocks:
        d_z = self.structure.n_latents
        if self.broken_premises:
            return (tuple(range(d_z)),)
        if self.separates:
            return tuple((t,) for t in range(d_z))
        if self.occam is not None and self.occam.value == 0:
            return self.occam.blocks(d_z)
        return (tuple(range(d_z)),)

    def _block_of(self, t: int) -> tuple[int, ...]:
        return next(block for block in self._proved_blocks if t in block)

    def _proved_apart(self, t: int, r: int) -> bool:
        return t == r or r not in self._block_of(t)

    def _reason(self, t: int, r: int) -> str:
        if t == r:
            return "a latent is itself"
        if self.separates:
            return "every exchange of latents costs dependencies (positive Occam gap)"
        return "no exchange without cost joins them (Occam gap 0)"

    def _overall(self, t: int) -> Verdict:
        others = [self.verdict(t, r) for r in range(self.structure.n_latents) if r != t]
        for answer in ("not identified", "open"):
            for verdict in others:
                if verdict.answer == answer:
                    return verdict
        return others[0] if others else Verdict("identified", "it is the only latent")
