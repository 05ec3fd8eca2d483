"""Queries: sets of latents written as text, ``(x1 & x2) - x3``.

A name stands for the latents of an observation (or for a latent itself); ``&`` is what is shared, ``|`` either,
``-`` without, ``^`` in exactly one, ``~`` all others. They bind as in Python: ``~``, then ``-``, ``&``, ``^``, ``|``.
Names with spaces or signs are written in quotes, or as they are when nothing else can be meant.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from noumena.checks import InputError, require
from noumena.structure import LatentSet, Structure

DEEPEST = 100
_LOOSEST_FIRST = ("|", "^", "&", "-")
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
    found, rest = _expression(tokens, structure, text, level=0)
    if rest:
        raise _misread(text, rest[0].at, f"{rest[0].text!r} where an operator or the end was expected")
    return found


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


def _expression(tokens: list[_Token], S: Structure, text: str, level: int) -> tuple[LatentSet, list[_Token]]:
    if level == len(_LOOSEST_FIRST):
        return _factor(tokens, S, text)
    sign = _LOOSEST_FIRST[level]
    join: Callable[[LatentSet, LatentSet], LatentSet] = {
        "|": LatentSet.__or__,
        "^": LatentSet.__xor__,
        "&": LatentSet.__and__,
        "-": LatentSet.__sub__,
    }[sign]
    left, rest = _expression(tokens, S, text, level + 1)
    while rest and rest[0].text == sign and not rest[0].is_name:
        right, rest = _expression(rest[1:], S, text, level + 1)
        left = join(left, right)
    return left, rest


def _factor(tokens: list[_Token], S: Structure, text: str) -> tuple[LatentSet, list[_Token]]:
    if not tokens:
        raise _misread(text, len(text), "the end where a name was expected")
    first, rest = tokens[0], tokens[1:]
    if first.is_name:
        return _named(first, S, text), rest
    if first.text == "~":
        inside, rest = _factor(rest, S, text)
        return ~inside, rest
    if first.text != "(":
        raise _misread(text, first.at, f"{first.text!r} where a name was expected")
    inside, rest = _expression(rest, S, text, level=0)
    if not rest or rest[0].is_name or rest[0].text != ")":
        at, what = (rest[0].at, repr(rest[0].text)) if rest else (len(text), "the end")
        raise _misread(text, at, f"{what} where ')' was expected")
    return inside, rest[1:]


def _named(token: _Token, S: Structure, text: str) -> LatentSet:
    if token.text in S.observed:
        return S.of(token.text)
    if token.text in S.latent:
        return S.latents(token.text)
    raise InputError(
        "A query's names must be observations or latents of the structure. "
        f"Got {token.text!r} at character {token.at + 1} of {text!r}."
    )


def _misread(text: str, at: int, what: str) -> InputError:
    return InputError(
        f"A query must join names by & | - ^ ~ and parentheses. Got {text!r}, with {what} at character {at + 1}."
    )
