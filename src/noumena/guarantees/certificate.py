"""A certificate: what can be trusted about the latents of a subject, and the theorems that say so.

One type for whatever is certified: a structure, a world, a decoder, a fitted model, a mixture, representations. Every
certificate has a ``verdict`` on a latent and on a pair of latents, the ``ambiguity`` up to which a latent is pinned
down, a ``headline``, a one-word ``answer``, ``hypotheses`` with evidence, what it ``rests_on`` and ``what_next``.
"""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

import numpy as np

from noumena import charts, checks
from noumena.ambiguity import Ambiguity
from noumena.checks import InputError, one_of
from noumena.guarantees.hypotheses import Hypothesis
from noumena.guarantees.theorem import ANYTHING, Theorem
from noumena.structure import position

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from noumena.guarantees.competitors import Competitor

ANSWERS = ("not identified", "open", "identified")
"""Of a latent, a pair or a whole subject, from the weakest."""
ALONE = Ambiguity("element-wise")
listed = partial(checks.listed, most=12)
SHOWN = 20
"""Latents printed one by one; of more, only those that are not identified, up to this many."""


@dataclass(frozen=True)
class Verdict:
    """The answer for one latent or a pair of latents, its reason, and the competitor when there is one."""

    answer: str
    reason: str
    competitor: Competitor | None = None

    def __str__(self) -> str:
        return f"{self.answer}: {self.reason}"


@dataclass(frozen=True)
class Certificate:
    """What can be trusted about the latents of a subject, by theorems whose hypotheses were checked.

    Parameters
    ----------
    subject : str
        What was certified, such as ``"structure"``, ``"world"`` or ``"mixture prior"``.
    theorems : tuple of Theorem
        The theorems that were read on it, the weaker conclusions first.
    assumed : frozenset of str, optional
        Names of the hypotheses that no data can show for such a subject, the only ones that may stay unknown. By
        default all of them may: the subject is known, and what is unknown is a premise of what is said.
    conditional : bool
        Whether a theorem that lacks more than that still says what it would conclude.

    Examples
    --------
    >>> flat = Hypothesis("g is affine", "unknown", "nobody looked")
    >>> theorem = Theorem("toy", "nowhere", (flat,), (Ambiguity("element-wise"), Ambiguity("affine")))
    >>> certificate = Certificate("toy", (theorem,))
    >>> certificate.verdict(0).answer, certificate.verdict(1).answer, certificate.answer
    ('identified', 'open', 'open')
    >>> Certificate("toy", (theorem,), assumed=frozenset()).verdict(0).reason
    'this was not shown: g is affine'
    """

    subject: str
    theorems: tuple[Theorem, ...]
    _: KW_ONLY
    assumed: frozenset[str] | None = None
    conditional: bool = False

    # ---- premises ----------------------------------------------------------------------------------------

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
        applying = [t for t in self.theorems if self._applies(t)]
        return tuple(dict.fromkeys(s for theorem in applying for s in (*theorem.rests_on, *theorem.open)))

    def missing(self, theorem: Theorem) -> tuple[str, ...]:
        """The hypotheses of a theorem that could be shown and were not."""
        return () if self.assumed is None else tuple(name for name in theorem.open if name not in self.assumed)

    def theorem(self, name: str) -> Theorem:
        """A theorem by name."""
        one_of(name, "A theorem's name", tuple(t.name for t in self.theorems))
        return next(t for t in self.theorems if t.name == name)

    def _applies(self, theorem: Theorem) -> bool:
        return not theorem.broken and (self.conditional or not self.missing(theorem))

    # ---- conclusions -------------------------------------------------------------------------------------

    @property
    def latents(self) -> tuple[str, ...]:
        """The names of the latents."""
        first = self.theorems[0]
        return first.latents or tuple(f"z{t + 1}" for t in range(len(first.conclusion)))

    def index(self, latent: Any) -> int:
        """The index of a latent given by name or index."""
        return position(latent, self.latents, "A latent")

    @property
    def strongest(self) -> Theorem | None:
        """The last theorem that applies; ``None`` when there is none."""
        return next((t for t in reversed(self.theorems) if self._applies(t)), None)

    @property
    def concluding(self) -> Theorem | None:
        """The last theorem without a failed or a missing premise, which verdicts are drawn from."""
        return next((t for t in reversed(self.theorems) if not t.broken and not self.missing(t)), None)

    def ambiguity(self, t: Any) -> Ambiguity:
        """Up to what latent ``t`` is pinned down by the strongest theorem that applies."""
        t = self.index(t)
        return ANYTHING if self.strongest is None else self.strongest.ambiguity(t)

    def known_up_to(self, t: Any) -> str:
        """The ambiguity of latent ``t`` in the subject's own names."""
        return self.ambiguity(t).named(self.latents)

    def block_of(self, t: int) -> frozenset[int]:
        """The latents that ``t`` is not proved apart from, itself included."""
        everyone = frozenset(range(len(self.latents)))
        if self.concluding is None:
            return everyone
        ambiguity = self.concluding.ambiguity(t)
        if ambiguity <= ALONE:
            return frozenset((t,))
        blocks = ambiguity.blocks if ambiguity.group == "block-wise" else ()
        return frozenset(r for block in blocks if t in block for r in block) or everyone

    def verdict(self, t: Any, r: Any = None) -> Verdict:
        """The answer for the pair (t, r), or for latent ``t`` against all others."""
        t = self.index(t)
        if r is None:
            return self._overall(t)
        r = self.index(r)
        if t == r:
            return Verdict("identified", "a latent is itself")
        if r not in self.block_of(t):
            return Verdict("identified", self._why_apart)
        return Verdict("open", self.why_open)

    @cached_property
    def _answers(self) -> tuple[str, ...]:
        return tuple(self._overall(t).answer for t in range(len(self.latents)))

    @property
    def answer(self) -> str:
        """One word for the whole: the weakest verdict over latents."""
        return min(self._answers, key=ANSWERS.index)

    def _overall(self, t: int) -> Verdict:
        concluding = self.concluding
        if concluding is not None and self.block_of(t) == {t} and concluding.ambiguity(t) <= ALONE:
            return Verdict("identified", self._why_apart)
        return Verdict("open", self.why_open)

    @property
    def _why_apart(self) -> str:
        assert self.concluding is not None
        return f"{self.concluding.name} pins it down up to {ALONE.group} maps or less"

    @property
    def why_open(self) -> str:
        """Why a latent that is not identified may yet be."""
        if self.concluding is not None:
            return f"no theorem that applies tells it from the others; {self.concluding.name} is the strongest"
        theorem = self.strongest or self.theorems[0]
        if theorem.broken:
            return f"this fails: {', '.join(theorem.broken)}"
        return f"this was not shown: {', '.join(self.missing(theorem))}"

    @property
    def what_next(self) -> tuple[str, ...]:
        """What stands in the way of more: hypotheses that fail, or that could be shown and were not, with their
        evidence."""
        wanting = dict.fromkeys(name for t in self.theorems for name in (*t.broken, *self.missing(t)))
        return tuple(f"{h.name} ({h.answer}): {h.evidence}" for h in self.hypotheses if h.name in wanting)

    def query(self, latents: Any) -> Any:
        """What is guaranteed about a set of latents; only a structure has sets of observations to ask about."""
        raise InputError(f"A query must be put to a certificate with a structure. Got one of a {self.subject}.")

    # ---- words -------------------------------------------------------------------------------------------

    @property
    def headline(self) -> str:
        """The conclusion in one sentence, or what it lacks."""
        if self.strongest is not None:
            return self.strongest.sentence
        first = self.theorems[0]
        why = first.sentence if first.broken and self.assumed is None else f"{self.why_open}."
        return f"Nothing is guaranteed about this {self.subject}: {why}"

    def __str__(self) -> str:
        lines = [self._title, self.headline, "", *self._latents_in_words(), "", "Theorems"]
        lines += [f"  {self._answer_of(t):9} {t.name} ({t.source}): {self._sentence_of(t)}" for t in self.theorems]
        lines += ["", "Hypotheses", *(f"  {h.answer:9} {h.name}: {h.evidence}" for h in self.hypotheses)]
        for title, sentences in (("Rests on", self.rests_on), ("What next", self.what_next)):
            lines += ["", title, *(f"  {sentence}" for sentence in sentences)] if sentences else []
        return "\n".join(lines)

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain lists, numbers and strings, ready for JSON; a theorem that does not conclude pins nothing
        down."""
        return {
            "subject": self.subject,
            "answer": self.answer,
            "headline": self.headline,
            "latents": [self._latent_dict(t) for t in range(len(self.latents))],
            "hypotheses": [h.to_dict() for h in self.hypotheses],
            "rests_on": list(self.rests_on),
            "theorems": [self._theorem_dict(t) for t in self.theorems],
            "what_next": list(self.what_next),
        }

    def plot(self, ax: Axes | None = None) -> Axes:
        """Which theorem pins down which latent by itself, in the colours of the verdicts.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Where to draw; a new figure by default.

        Returns
        -------
        Axes

        Examples
        --------
        >>> theorem = Theorem("toy", "nowhere", (), (Ambiguity("element-wise"), Ambiguity("affine")))
        >>> [patch.get_gid() for patch in Certificate("toy", (theorem,)).plot().patches]
        ['identified: toy pins down z1', 'empty']
        """
        concluding = [not theorem.broken and not self.missing(theorem) for theorem in self.theorems]
        alone = [[a <= ALONE for a in theorem.conclusion] for theorem in self.theorems]
        names = [theorem.name for theorem in self.theorems]
        told: Any = {"answers": self._answers, "relation": "pins down", "ax": ax}
        shown = np.array(alone) & np.array(concluding)[:, None]
        return charts.structure(shown, observed=names, latent=self.latents, **told)

    # ---- inside ------------------------------------------------------------------------------------------

    @property
    def _title(self) -> str:
        return f"Certificate of a {self.subject}"

    def _latents_in_words(self) -> list[str]:
        doubtful = [t for t, answer in enumerate(self._answers) if answer != "identified"]
        everyone = list(range(len(self.latents)))
        few = everyone if len(everyone) <= SHOWN else doubtful[:SHOWN]
        lines = [f"  {self.latents[t]}: {self._latent_in_words(t)}" for t in few]
        if len(everyone) > SHOWN:
            lines.append(f"  {len(everyone) - len(doubtful)} of {len(everyone)} latents are identified")
        return lines

    def _latent_in_words(self, t: int) -> str:
        return f"{self._overall(t)}; known up to {self.known_up_to(t)} maps"

    def _latent_dict(self, t: int) -> dict[str, Any]:
        found = self._overall(t)
        facts = {"name": self.latents[t], "answer": found.answer, "reason": found.reason}
        return {**facts, "ambiguity": self.known_up_to(t)}

    def _open(self, theorem: Theorem) -> bool:
        return bool(self.missing(theorem)) and not theorem.broken and not self.conditional

    def _answer_of(self, theorem: Theorem) -> str:
        return "open" if self._open(theorem) else theorem.answer

    def _sentence_of(self, theorem: Theorem) -> str:
        if not self._open(theorem):
            return theorem.sentence
        return f"{theorem.name} is open, this was not shown: {', '.join(self.missing(theorem))}."

    def _theorem_dict(self, theorem: Theorem) -> dict[str, Any]:
        facts = theorem.to_dict()
        if self._open(theorem):
            facts |= {"sentence": self._sentence_of(theorem), "conclusion": ["any"] * len(theorem.conclusion)}
        return facts
