"""Queries: sets of latents written as text, ``(x1 & x2) - x3``.

A name stands for the latents of an observation (or for a latent itself); ``&`` is what is shared, ``|`` either,
``-`` without, ``^`` in exactly one, ``~`` all others. They bind as in Python: ``~``, then ``-``, ``&``, ``^``, ``|``.
Names with spaces or signs are written in quotes, or as they are when nothing else can be meant: a query of two readings
is refused.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from noumena.checks import InputError, listed, require
from noumena.structure import LatentSet, Structure

DEEPEST = 100
_JOINS: dict[str, Callable[[LatentSet, LatentSet], LatentSet]] = {
    "|": LatentSet.__or__,
    "^": LatentSet.__xor__,
    "&": LatentSet.__and__,
    "-": LatentSet.__sub__,
}
_BINDS = {sign: place for place, sign in enumerate((*_JOINS, "~"))}
"""How tightly signs bind: the loosest first."""
_BEFORE_A_NAME = ("~", "(")
_SIGNS = "&|-^~()"
_QUOTED = re.compile(r"""(["'])(.*?)\1""")
_WORD = re.compile(r"[^\s&|^~()\"'-]+")
_GAP = re.compile(r"\s*")


@dataclass(frozen=True)
class _Token:
    text: str
    at: int
    next: int
    """Where the token after it begins."""
    is_name: bool


def parse(text: str, structure: Structure) -> LatentSet:
    """The latents a query asks for.

    >>> S = Structure([[1, 1, 0, 0], [1, 0, 1, 0], [1, 0, 0, 1]])
    >>> parse("(x1 | x2) - x3", S), parse("~x1", S)
    (LatentSet(z2, z3), LatentSet(z3, z4))
    """
    names = {*structure.observed, *structure.latent}
    written = (name for name in names if name.strip() and name not in _SIGNS and _WORD.fullmatch(name) is None)
    odd = sorted(written, key=len, reverse=True)
    readings = _readings(text, names, odd)
    if len(readings) > 1:
        raise _ambiguous(text, *readings)
    tokens = readings[0] if readings else _tokens(text, odd)
    deep = sum(token.text in ("(", "~") and not token.is_name for token in tokens)
    require(deep <= DEEPEST, f"A query must have at most {DEEPEST} parentheses and complements.", f"{deep}")
    return _evaluated(tokens, structure, text)


def _readings(text: str, names: set[str], odd: list[str]) -> list[list[_Token]]:
    """Up to two ways to read all of a text as names that signs join; ``odd`` names are no single words.

    Ways are kept by where they have come and the state there, up to two of each: they all end alike, so that a query
    with very many readings is seen to have two as fast as any. A way is its last token and the way before it.
    """
    ways: dict[int, dict[tuple[bool, int], list[Any]]] = {_past(text, 0): {(True, 0): [None]}}
    for at in range(len(text)):
        for state, earlier in ways.pop(at, {}).items():
            for token in _tokens_at(text, at, odd):
                after = _state_after(token, state, names)
                if after is not None:
                    known = ways.setdefault(token.next, {}).setdefault(after, [])
                    known += [(token, way) for way in earlier][: 2 - len(known)]
    return [_unrolled(way) for way in ways.get(len(text), {}).get((False, 0), [])]


def _state_after(token: _Token, state: tuple[bool, int], names: set[str]) -> tuple[bool, int] | None:
    """Whether a name is wanted and how many parentheses are open behind a token; none where it cannot stand."""
    wanted, opened = state
    if token.is_name:
        return (False, opened) if wanted and token.text in names else None
    if token.text in _BEFORE_A_NAME:
        return (True, opened + (token.text == "(")) if wanted else None
    if token.text == ")":
        return (False, opened - 1) if opened and not wanted else None
    return None if wanted else (True, opened)


def _unrolled(way: Any) -> list[_Token]:
    found = []
    while way is not None:
        token, way = way
        found.append(token)
    return found[::-1]


def _tokens(text: str, odd: list[str]) -> list[_Token]:
    """A text of no reading, token by token with the longest names, so that what is wrong can be told."""
    found, at = [], _past(text, 0)
    while at < len(text):
        here = _tokens_at(text, at, odd)
        if not here:
            raise _misread(text, at, "a quote that is not closed")
        found.append(here[0])
        at = here[0].next
    return found


def _tokens_at(text: str, at: int, odd: list[str]) -> list[_Token]:
    """What a place in a text may hold, the longest first: what is in quotes, or else a name, a sign or a word."""
    quoted, word = _QUOTED.match(text, at), _WORD.match(text, at)
    if quoted:
        return [_Token(quoted.group(2), at, _past(text, quoted.end()), True)]
    whole = [name for name in odd if text.startswith(name, at) and not _torn(name, text, at + len(name))]
    found = [_Token(name, at, _past(text, at + len(name)), True) for name in whole]
    if text[at] in _SIGNS:
        found.append(_Token(text[at], at, _past(text, at + 1), False))
    elif word:
        found.append(_Token(word.group(), at, _past(text, word.end()), True))
    return found


def _torn(name: str, text: str, end: int) -> bool:
    """Whether a name that ends before a place in a text ends within a word."""
    return _WORD.match(name[-1]) is not None and _WORD.match(text, end) is not None


def _past(text: str, at: int) -> int:
    """The first place from here on that is no space."""
    gap = _GAP.match(text, at)
    return gap.end() if gap else at


def _evaluated(tokens: list[_Token], S: Structure, text: str) -> LatentSet:
    """The set that tokens stand for, read once from the left, without a call for every level of nesting.

    ``sets`` are what has been read and not yet joined, ``waiting`` the signs between them and parentheses not closed.
    """
    sets: list[LatentSet] = []
    waiting: list[str] = []
    wanted = True  # a name, not a sign
    for token in tokens:
        sign = "" if token.is_name else token.text
        if wanted and token.is_name:
            sets.append(_named(token, S, text))
            wanted = False
        elif wanted and sign in _BEFORE_A_NAME:
            waiting.append(sign)
        elif wanted:
            raise _misread(text, token.at, f"{token.text!r} where a name was expected")
        elif sign in _JOINS:
            _join(sets, waiting, _BINDS[sign])
            waiting.append(sign)
            wanted = True
        elif sign == ")" and "(" in waiting:
            _join(sets, waiting, _BINDS["|"])
            waiting.pop()
        else:
            expected = "')'" if "(" in waiting else "an operator or the end"
            raise _misread(text, token.at, f"{token.text!r} where {expected} was expected")
    if wanted or "(" in waiting:
        raise _misread(text, len(text), f"the end where {'a name' if wanted else repr(')')} was expected")
    _join(sets, waiting, _BINDS["|"])
    return sets[0]


def _join(sets: list[LatentSet], waiting: list[str], least: int) -> None:
    """Join the sets at the end by the signs that wait for them and bind at least so much, up to a parenthesis."""
    while waiting and waiting[-1] != "(" and _BINDS[waiting[-1]] >= least:
        sign, last = waiting.pop(), sets.pop()
        sets.append(~last if sign == "~" else _JOINS[sign](sets.pop(), last))


def _named(token: _Token, S: Structure, text: str) -> LatentSet:
    if token.text in S.observed:
        return S.of(token.text)
    if token.text in S.latent:
        return S.latents(token.text)
    there = " ".join(f"{listed(S.observed)} and {listed(S.latent)}".split())
    raise InputError(
        "A query's names must be observations or latents of the structure. "
        f"Got {token.text!r} at character {token.at + 1} of {text!r}, where there are {there}."
    )


def _ambiguous(text: str, one: list[_Token], other: list[_Token]) -> InputError:
    """Where two readings part, and what each has there."""
    parting = next(pair for pair in zip(one, other, strict=False) if pair[0] != pair[1])
    long, short = sorted((token.text for token in parting), key=len, reverse=True)
    return InputError(
        f"A query must have one meaning; write its names in quotes. Got {text!r}, where {long!r} or {short!r} can be "
        f"meant at character {parting[0].at + 1}."
    )


def _misread(text: str, at: int, what: str) -> InputError:
    return InputError(
        f"A query must join names by & | - ^ ~ and parentheses. Got {text!r}, with {what} at character {at + 1}."
    )
