"""The explorer of a certificate's structure: what a page carries to show a latent and to answer queries by itself.

The page holds the support, the blocks that are proved apart and the known competitors; its script reads the language of
``noumena.guarantees.queries`` and gives the answers of ``StructureCertificate.query``, word by word.

**Deviations**: the browser's tables of Unicode may be newer than Python's, so that an error may print a character as it
is that Python writes as a number. A saved table has an apostrophe before words that a spreadsheet would run.
"""

from __future__ import annotations

from typing import Any

from noumena.checks import InputError
from noumena.guarantees import StructureCertificate, queries
from noumena.report.page import Explorer
from noumena.structure import Structure

MOST_ENTRIES = 20_000
"""Entries, of observations × latents and of latents × latents, of a structure that a page carries."""
LONGEST_EXAMPLE = 40
"""Letters of a query that is offered to be tried."""
MOST_LETTERS = 500_000
"""Letters, of names and of the sentences about competitors above all, that a page carries to answer from."""
CAPTION = (
    "Point at a name, tap it, or reach it with Tab and the arrow keys; Escape lets go. Answers are worked out on this "
    "page, from the structure inside it, and are those of certificate.query."
)


def explorer(certificate: StructureCertificate) -> Explorer:
    """The structure of a certificate, to point at and to ask; of one too large for a page, a sentence that says so."""
    S = certificate.structure
    if max(S.n_observed, S.n_latents) * S.n_latents > MOST_ENTRIES:
        size = f"{S.n_observed:,} observations of {S.n_latents:,} latents"
        return _left_out(f"this structure has {size}, and a page carries up to {MOST_ENTRIES:,} entries")
    found = Explorer(facts(certificate), CAPTION, examples(S))
    if len(found.data) > MOST_LETTERS:
        return _left_out(f"its answers need {len(found.data):,} letters, and a page carries up to {MOST_LETTERS:,}")
    return found


def _left_out(why: str) -> Explorer:
    how = "Ask with noumena certify --query, or with certificate.query in Python."
    return Explorer(None, f"The box for queries is left out: {why}. {how}")


def facts(certificate: StructureCertificate) -> dict[str, Any]:
    """What answers are made from, as plain lists, numbers and words; a competitor's sentence is kept once."""
    S = certificate.structure
    sentences: dict[str, int] = {}
    carried = [
        [[r, sentences.setdefault(c.sentence, len(sentences))] for r, c in certificate.carried_with(t).items()]
        if len(certificate.block_of(t)) > 1
        else []
        for t in range(S.n_latents)
    ]
    verdicts = [certificate.verdict(t) for t in range(S.n_latents)]
    return {
        "observed": list(S.observed),
        "latent": list(S.latent),
        "support": [S.latents_of(i) for i in range(S.n_observed)],
        "blocks": [list(block) for block in certificate.blocks()],
        "verdicts": [[v.answer, v.reason, certificate.known_up_to(t)] for t, v in enumerate(verdicts)],
        "carried": carried,
        "sentences": list(sentences),
        "proved": not certificate.broken_premises,
        "why_open": certificate.why_open,
        "deepest": queries.DEEPEST,
    }


def examples(structure: Structure) -> tuple[str, ...]:
    """Up to three queries about the first two observations that share a latent and differ, shorter than a line.

    >>> examples(Structure([[1, 1, 0], [0, 1, 1]], observed=["pulse", "the voice"]))
    ("pulse & 'the voice'", "pulse - 'the voice'", '~pulse')
    """
    rows = [set(structure.latents_of(i)) for i in range(min(structure.n_observed, 50))]
    pairs = ((i, j) for i in range(len(rows)) for j in range(len(rows)) if i < j)
    best = next(((i, j) for i, j in pairs if rows[i] & rows[j] and rows[i] - rows[j]), (0, min(1, len(rows) - 1)))
    one, other = (_written(structure.observed[i]) for i in best)
    tried = dict.fromkeys((f"{one} & {other}", f"{one} - {other}", f"~{one}"))
    return tuple(text for text in tried if len(text) <= LONGEST_EXAMPLE and _reads(text, structure))


def _written(name: str) -> str:
    """A name as it is written in a query: plain where it can be, else in quotes."""
    if name.isidentifier():
        return name
    mark = '"' if "'" in name else "'"
    return f"{mark}{name}{mark}"


def _reads(text: str, structure: Structure) -> bool:
    try:
        queries.parse(text, structure)
    except InputError:
        return False
    return True
