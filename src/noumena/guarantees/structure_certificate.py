"""A certificate of a structure and of whatever has a decoder, by the Occam theorem.

The theorem: where the gap is positive at almost every point, every model that gives the same observations with no more
dependencies has the same latents, up to order and element-wise maps, if decoders and their inverses are continuous and
slices of the latents are connected; where slices are not, within each connected part. With a gap of exactly 0, latents
of different blocks still never mix. Nothing is proved while a hypothesis fails, or is unknown and not among those that
no data can show. The verdict on an ordered pair ``(t, r)`` answers: can an equivalent model that is no denser have a
latent that stands for ``t`` and also carries ``r``?
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import KW_ONLY, dataclass
from functools import cached_property
from itertools import islice
from typing import TYPE_CHECKING, Any

from noumena import charts, checks
from noumena.ambiguity import Ambiguity, Blocks
from noumena.checks import InputError
from noumena.guarantees import queries
from noumena.guarantees.answer import Answer, answer
from noumena.guarantees.certificate import SHOWN, Certificate, Verdict, listed
from noumena.guarantees.competitors import Competitor, Rivals
from noumena.guarantees.flips import Flip, flips
from noumena.guarantees.hypotheses import CONNECTED, POSITIVE_GAP, ZEROS, Hypothesis
from noumena.guarantees.occam import Gap
from noumena.structure import LatentSet, Structure

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from noumena.guarantees.witness import Model, Witness

WITHIN_PARTS = "element-wise within each connected part"
MOST_TRIES = 12
"""Competitors of a latent that are built and verified on a model before the search for one is given up."""


@dataclass(frozen=True)
class StructureCertificate(Certificate):
    """What can be trusted about the latents of a world, a structure or a model with a decoder.

    Its first theorem is Occam's, whose hypotheses are the certificate's; the others are those of Zheng et al. (2026),
    each with its own.

    Parameters
    ----------
    structure : Structure
        Which observation depends on which latent.
    occam : Gap or None
        The cheapest exchange; ``None`` above the size where it is computed exactly.
    bound : int
        The gap is at least this; 0 when it is not shown to be positive.
    rivals : Rivals
        The competitors that are known.
    model : Model, optional
        The decoder and latent points that witnesses are built from.
    not_searched : tuple of str
        Competitors that the size of the subject leaves untried; without them a pair may be open that is not identified.
    """

    _: KW_ONLY
    structure: Structure
    occam: Gap | None
    bound: int
    rivals: Rivals
    model: Model | None = None
    not_searched: tuple[str, ...] = ()

    # ---- premises ----------------------------------------------------------------------------------------

    @property
    def hypotheses(self) -> tuple[Hypothesis, ...]:
        """Those of the Occam theorem."""
        return self.theorems[0].hypotheses

    @property
    def rests_on(self) -> tuple[str, ...]:
        """What the Occam theorem takes for granted."""
        return self.theorems[0].rests_on

    # ---- conclusions -------------------------------------------------------------------------------------

    @property
    def latents(self) -> tuple[str, ...]:
        """The structure's names."""
        return self.structure.latent

    @property
    def gap(self) -> int | None:
        """The Occam gap; ``None`` where only a lower bound is known."""
        return None if self.occam is None else self.occam.value

    @property
    def separates(self) -> bool:
        """Whether the gap is known to be positive."""
        return self.bound > 0

    @property
    def broken_premises(self) -> tuple[str, ...]:
        """Hypotheses other than the gap's that fail; with one of them nothing is proved."""
        return tuple(h.name for h in self.hypotheses if h.answer == "fails" and h.name != POSITIVE_GAP)

    @property
    def unproved_premises(self) -> tuple[str, ...]:
        """Hypotheses other than the gap's that fail, or that are unknown where data could show them."""
        return (*self.broken_premises, *self.missing(self.theorems[0]))

    @property
    def within_parts(self) -> bool:
        """Whether all that is missing are connected slices: latents are then pinned down within each part."""
        return self.separates and self.unproved_premises == (CONNECTED,)

    def verdict(self, t: Any, r: Any = None) -> Verdict:
        """The answer for the pair (t, r), or for latent ``t`` against all others."""
        t = self.structure.index(t)
        if r is None:
            return self._overall(t)
        r = self.structure.index(r)
        if t == r:
            return Verdict("identified", "a latent is itself")
        if r not in self.block_of(t):
            return Verdict("identified", self._why_apart)
        rival = self.competitor(t, r)
        if rival is not None:
            return Verdict("not identified", f"a competitor exists, {rival.sentence}", rival)
        return Verdict("open", self._why_open_of(t))

    def competitor(self, t: Any, r: Any) -> Competitor | None:
        """The simplest competitor in which the latent that stands for ``t`` carries ``r``, verified where there is a
        model; ``None`` if none is known."""
        t, r = self.structure.index(t), self.structure.index(r)
        return self.carried_with(t).get(r)

    def carried_with(self, t: int) -> dict[int, Competitor]:
        """Every latent that a known competitor mixes into ``t``, with the simplest competitor that does; found once."""
        if t not in self._carried:
            self._carried[t] = dict(self._confirmed(t))
        return self._carried[t]

    def _confirmed(self, t: int) -> Iterator[tuple[int, Competitor]]:
        """Every latent mixed into ``t``, with the first competitor whose witness verifies; none where entries that
        count as zeros are not, for then no dependencies are counted that a theorem speaks of."""
        if self.model is None:
            yield from self.rivals.simplest(t)
        elif ZEROS not in self.broken_premises:
            met: set[int] = set()
            for competitor in islice(self.rivals.unmet(t, met), MOST_TRIES):
                self._suggested.add(t)
                further = [r for r in self._mixed(competitor) if r not in met]
                met.update(further)
                yield from ((r, competitor) for r in further)
                if len(met) == self.structure.n_latents - 1:
                    return

    def _mixed(self, competitor: Competitor) -> tuple[int, ...]:
        """The latents that the witness of a competitor is verified to carry."""
        from noumena.guarantees.witness import mixed

        if competitor not in self._verified:
            assert self.model is not None
            self._verified[competitor] = mixed(competitor, self.model)
        return self._verified[competitor]

    @property
    def competitors(self) -> tuple[Competitor, ...]:
        """Every known competitor of every latent."""
        return tuple(self.rivals)

    def query(self, latents: Any) -> Answer:
        """What is guaranteed about a set of latents, given as a set or as text, ``"(x1 & x2) - x3"``."""
        asked = queries.parse(latents, self.structure) if isinstance(latents, str) else latents
        given = " ".join(f"{latents!r:.60}".split())
        checks.require(isinstance(asked, LatentSet), "A query must be text or a set of latents.", given)
        checks.require(
            asked.universe == self.structure.latent, "A query must be about this structure's latents.", f"{asked}"
        )
        return answer(self, asked)

    def witness(self, t: Any, r: Any) -> Witness:
        """An explicit equivalent model in which the latent that stands for ``t`` carries ``r``."""
        rival = self.competitor(t, r)
        names = f"{self.structure.latent[self.structure.index(t)]} and {self.structure.latent[self.structure.index(r)]}"
        if rival is None:
            raise InputError(
                f"A witness needs a pair with a known competitor. Got {names}: {self.verdict(t, r).answer}."
            )
        if self.model is None:
            raise InputError(
                "A witness is built from a decoder: certify a world (worlds.structured(structure)), a fitted model or "
                f"a decoder with points. Got a certificate of a bare structure, for {names}."
            )
        from noumena.guarantees.witness import build  # torch is imported when there is a decoder

        return build(rival, self.model, self.structure.index(r))

    def sparser(self) -> Witness | None:
        """An equivalent model with fewer dependencies, a better start for further training; ``None`` if none is found.

        A negative gap at points does not promise one: the exchange may have to change from point to point.
        """
        if self.model is None:
            return None
        from noumena.guarantees.sparser import sparser

        return sparser(self.model)

    @cached_property
    def flips(self) -> tuple[Flip, ...]:
        """For a structure read off a decoder: what each entry near the threshold would change if it flipped."""
        return flips(self.structure)

    def ambiguity(self, t: Any) -> Ambiguity:
        """Up to what latent ``t`` is pinned down: element-wise, or together with its block; any map of one latent where
        nothing is proved."""
        block = tuple(sorted(self.block_of(self.structure.index(t))))
        if self.structure.n_latents == 1 and self.unproved_premises:
            return Ambiguity("any")
        return Ambiguity("element-wise") if len(block) == 1 else Ambiguity("block-wise", (block,))

    def known_up_to(self, t: Any) -> str:
        """The ambiguity of latent ``t`` in the structure's own names."""
        t = self.structure.index(t)
        block = sorted(self.block_of(t))
        if self.within_parts:
            return WITHIN_PARTS
        if len(block) == 1:
            return self.ambiguity(t).group
        return f"block-wise {{{listed([self.structure.latent[r] for r in block])}}}"

    def blocks(self) -> Blocks:
        """The finest partition whose parts are proved not to mix."""
        return self._proved_blocks

    def block_of(self, t: int) -> frozenset[int]:
        """The latents that ``t`` is not proved apart from, itself included."""
        return self._block[t]

    # ---- words -------------------------------------------------------------------------------------------

    @property
    def headline(self) -> str:
        """The conclusion in one sentence."""
        d_z = self.structure.n_latents
        sure = [t for t, a in enumerate(self._answers) if a == "identified"]
        gap = f"{self.gap}" if self.gap is not None else f"at least {self.bound}" if self.separates else "not shown"
        if len(sure) == d_z:
            model = "these latents" if self.subject == "decoder" else "the true latents"
            return (
                f"Identified up to order and element-wise maps (Occam gap {gap}): any model that explains "
                f"the data with no more than {len(self.structure)} dependencies has {model}."
            )
        named = listed([self.structure.latent[t] for t in sure], most=SHOWN) or "none"
        why = self._unproved_in_words or f"Occam gap {gap}"
        if self.within_parts:
            return f"{self.answer.capitalize()} ({why}): latents are pinned down {WITHIN_PARTS} only (Occam gap {gap})."
        return f"{self.answer.capitalize()} ({why}): of {d_z} latents, pinned down: {named}."

    def __str__(self) -> str:
        lines = [super().__str__()]
        lines += ["", "Not searched", *(f"  {sentence}" for sentence in self.not_searched)] if self.not_searched else []
        lines += ["", "Entries near the threshold", *(f"  {flip}" for flip in self.flips)] if self.flips else []
        return "\n".join(lines)

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain lists, numbers and strings, ready for JSON; ``support`` lists each observation's latents,
        ``pairs`` those that are not identified, each with its simplest competitor."""
        S = self.structure
        return {
            **super().to_dict(),
            "gap": self.gap,
            "gap_at_least": self.bound,
            "separates": self.separates,
            "dependencies": len(S),
            "observed": list(S.observed),
            "latent": list(S.latent),
            "support": [S.latents_of(i) for i in range(S.n_observed)],
            "pairs": [
                {"latent": S.latent[t], "carries": S.latent[r], "kind": c.kind, "reason": c.sentence}
                for t in range(S.n_latents)
                if len(self.block_of(t)) > 1
                for r, c in self.carried_with(t).items()
                if r in self.block_of(t)
            ],
            "blocks": [[S.latent[t] for t in block] for block in self.blocks()],
            "not_searched": list(self.not_searched),
            "flips": [str(flip) for flip in self.flips],
        }

    def plot(self, ax: Axes | None = None) -> Axes:
        """The structure, each latent in the colour of its verdict, stronger dependencies darker.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Where to draw; a new figure by default.

        Returns
        -------
        Axes
        """
        S = self.structure
        strength = None if S.evidence is None else S.evidence.strength
        named: Any = {"observed": S.observed, "latent": S.latent, "answers": self._answers}
        return charts.structure(S.dense, strength=strength, ax=ax, **named)

    # ---- inside ------------------------------------------------------------------------------------------

    @property
    def _title(self) -> str:
        return f"Certificate of a {self.subject}: {self.structure}"

    def _latent_in_words(self, t: int) -> str:
        closure = listed(self.structure.closure(t).names)
        return f"{self._overall(t)}; closure {{{closure}}} (Zheng et al. 2026)"

    def _latent_dict(self, t: int) -> dict[str, Any]:
        return {**super()._latent_dict(t), "paper_closure": list(self.structure.closure(t).names)}

    @cached_property
    def _proved_blocks(self) -> Blocks:
        d_z = self.structure.n_latents
        if not self.unproved_premises and self.separates:
            return tuple((t,) for t in range(d_z))
        if not self.unproved_premises and self.gap == 0:
            assert self.occam is not None
            return self.occam.blocks(d_z)
        return (tuple(range(d_z)),)

    @cached_property
    def _block(self) -> dict[int, frozenset[int]]:
        return {t: members for block in self._proved_blocks for members in [frozenset(block)] for t in block}

    @cached_property
    def _carried(self) -> dict[int, dict[int, Competitor]]:
        return {}

    @cached_property
    def _verified(self) -> dict[Competitor, tuple[int, ...]]:
        return {}

    @cached_property
    def _suggested(self) -> set[int]:
        """Latents with a competitor by their structure, whether it verifies or not."""
        return set()

    @property
    def why_open(self) -> str:
        """Why a pair without a competitor is not identified either."""
        if self.within_parts:
            return f"latents are pinned down {WITHIN_PARTS} only, {self._unproved_in_words}"
        if self.unproved_premises:
            return f"nothing is proved while this {self._unproved_in_words}"
        return "the Occam gap does not separate them and no competitor is known"

    def _why_open_of(self, t: int) -> str:
        """Why latent ``t`` is open, and that a competitor was suggested where none could be verified."""
        suggested = "; a competitor is suggested by the structure, but none could be verified"
        return self.why_open + (suggested if t in self._suggested else "")

    @property
    def _unproved_in_words(self) -> str:
        """What fails and what is unknown, by name."""
        unknown = [name for name in self.unproved_premises if name not in self.broken_premises]
        said = (("fails", self.broken_premises), ("is unknown", unknown))
        return "; ".join(f"{what}: {', '.join(names)}" for what, names in said if names)

    @property
    def _why_apart(self) -> str:
        if self.separates:
            return "every exchange of latents costs dependencies (positive Occam gap)"
        return "no exchange without cost joins them (Occam gap 0)"

    def _overall(self, t: int) -> Verdict:
        if self.structure.n_latents == 1:
            alone = Verdict("identified", "it is the only latent")
            return Verdict("open", self.why_open) if self.unproved_premises else alone
        block = self.block_of(t)
        if len(block) == 1:
            return Verdict("identified", self._why_apart)
        found = self._carried[t].items() if t in self._carried else self._confirmed(t)
        rival = next((c for r, c in found if r in block), None)
        if rival is not None:
            return Verdict("not identified", f"a competitor exists, {rival.sentence}", rival)
        return Verdict("open", self._why_open_of(t))
