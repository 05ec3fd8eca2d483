"""Queries: sets of latents written as text, ``(x1 & x2) - x3``.

A name stands for the latents of an observation (or for a latent itself); ``&`` is what is shared, ``|`` either,
``-`` without, ``^`` in exactly one, ``~`` all others. They bind as in Python: ``~``, then ``-``, ``&``, ``^``, ``|``.
Names with spaces or signs are written in quotes, or as they are when nothing else can be meant.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from noumena.checks import InputError, few, require
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


@dataclass(frozen=True)
class _Token:
    text: str
    at: int
    is_name: bool


def parse(text: str, structure: Structure) -> LatentSet:
    """The latents a query asks for.

    >>> S = Structure([[1, 1, 0, 0], [1, 0, 1, 0], [1, 0, 0, 1]])
    >>> parse("(x1 | x2) - x3", S), parse("~x1", S)
    (LatentSet(z2, z3), LatentSet(z3, z4))
    """
    tokens = _tokens(text, structure)
    deep = sum(token.text in ("(", "~") and not token.is_name for token in tokens)
    require(deep <= DEEPEST, f"A query must have at most {DEEPEST} parentheses and complements.", f"{deep}")
    return _evaluated(tokens, structure, text)


def _tokens(text: str, structure: Structure) -> list[_Token]:
    names = {*structure.observed, *structure.latent}
    written = (name for name in names if name.strip() and name not in _SIGNS and _WORD.fullmatch(name) is None)
    odd = sorted(written, key=len, reverse=True)
    found, at = [], 0
    while at < len(text):
        if text[at].isspace():
            at += 1
            continue
        quoted, word = _QUOTED.match(text, at), _WORD.match(text, at)
        whole = next((name for name in odd if text.startswith(name, at)), None)
        if quoted:
            found.append(_Token(quoted.group(2), at, True))
            at = quoted.end()
        elif whole is not None:
            found.append(_Token(whole, at, True))
            at += len(whole)
        elif text[at] in _SIGNS:
            found.append(_Token(text[at], at, False))
            at += 1
        elif word:
            found.append(_Token(word.group(), at, True))
            at = word.end()
        else:
            raise _misread(text, at, "a quote that is not closed")
    return found


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
    there = " ".join(f"{few(S.observed)} and {few(S.latent)}".split())
    raise InputError(
        "A query's names must be observations or latents of the structure. "
        f"Got {token.text!r} at character {token.at + 1} of {text!r}, where there are {there}."
    )


def _misread(text: str, at: int, what: str) -> InputError:
    return InputError(
        f"A query must join names by & | - ^ ~ and parentheses. Got {text!r}, with {what} at character {at + 1}."
    )
