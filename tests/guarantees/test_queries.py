"""A query means what Python means by the same signs, and what cannot be read is told with its place."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from noumena.checks import InputError
from noumena.guarantees.queries import DEEPEST, parse
from noumena.structure import Structure

S = Structure([[1, 1, 0, 0, 0], [1, 0, 1, 0, 0], [0, 0, 1, 1, 0], [0, 1, 0, 1, 1]])
NAMES = (*S.observed, *S.latent)


# ---- what a query means --------------------------------------------------------------------------------------


def spaced(sign: str) -> st.SearchStrategy[str]:
    return st.sampled_from([sign, f" {sign} ", f"{sign}  ", f"\t{sign}"])


def grown(inside: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    """Longer queries from shorter ones, joined without parentheses, so that what binds first matters."""
    sign = st.sampled_from("-&^|").flatmap(spaced)
    joined = st.tuples(inside, sign, inside).map("".join)
    complement = st.tuples(spaced("~"), inside).map("".join)
    return st.one_of(joined, joined, complement, inside.map(lambda text: f"( {text})"))


QUERIES = st.recursive(st.sampled_from(NAMES), grown, max_leaves=14)


@given(QUERIES)
@settings(max_examples=500, deadline=None)
def test_a_query_is_what_python_makes_of_the_same_expression(text: str) -> None:
    values = {name: S.of(name) if name in S.observed else S.latents(name) for name in NAMES}
    assert parse(text, S) == eval(text.strip(), {}, values)


def test_every_two_signs_between_every_three_names_bind_as_in_python() -> None:
    values = {name: S.of(name) for name in S.observed}
    for a, b, c in product(S.observed, repeat=3):
        for first, second in product("-&^|", repeat=2):
            text = f"{a} {first} {b} {second} ~{c}"
            assert parse(text, S) == eval(text, {}, values), text


@pytest.mark.parametrize(
    ("text", "means"),
    [
        ("x1 | x2 ^ x1", "x1 | (x2 ^ x1)"),
        ("x1 ^ x2 & x3", "x1 ^ (x2 & x3)"),
        ("x2 & x1 - x2", "x2 & (x1 - x2)"),
        ("~x1 - x4", "(~x1) - x4"),
        ("x1 - x2 - x1", "(x1 - x2) - x1"),
        ("x1 ^ x2 ^ x1", "(x1 ^ x2) ^ x1"),
        ("~~x1", "x1"),
    ],
)
def test_signs_bind_as_in_python_and_from_the_left(text: str, means: str) -> None:
    assert parse(text, S) == parse(means, S)


def test_parentheses_bind_first() -> None:
    assert parse("(x1 | x2) - x3", S).names == ("z1", "z2")
    assert parse("x1 | (x2 - x3)", S).names == ("z1", "z2")
    assert parse("x1 - (x2 | x4)", S).names == ()
    assert parse("~(x1 | x2)", S).names == ("z4", "z5")


def test_a_long_query_without_parentheses_is_read() -> None:
    assert parse(" | ".join(["x1"] * 1000), S) == S.of("x1")


# ---- names ---------------------------------------------------------------------------------------------------

ODD = ("heart rate", "x-1", "x-10", "a&b", "it's", 'say "hi"', "(n)", "~m", "größe", "x.1", "p^2|q", "plain")


def with_names(*names: str) -> Structure:
    return Structure(np.eye(len(names), dtype=bool), observed=names)


def quoted(name: str) -> str:
    return f'"{name}"' if '"' not in name else f"'{name}'"


@pytest.mark.parametrize("name", ODD)
def test_any_name_can_be_asked_for_in_quotes(name: str) -> None:
    named = with_names(*ODD)
    assert parse(quoted(name), named) == named.of(name)
    assert parse(f"{quoted(name)}|{quoted('plain')}", named) == named.of(name, "plain")
    assert parse(f"~({quoted('plain')}-{quoted(name)})", named) == ~(named.of("plain") - named.of(name))


@pytest.mark.parametrize("name", ODD)
def test_a_name_with_spaces_signs_or_quotes_can_be_written_as_it_is(name: str) -> None:
    named = with_names(*ODD)
    assert parse(name, named) == named.of(name)
    assert parse(f"~({name} | plain)", named) == ~named.of(name, "plain")


def test_of_two_names_that_begin_alike_the_longer_one_is_read() -> None:
    named = with_names("x-1", "x-10", "heart", "heart rate", "heart rate max")
    for name in named.observed:
        assert parse(name, named) == named.of(name)


def test_a_sign_between_two_names_stays_a_sign_where_a_longer_name_holds_both() -> None:
    named = Structure([[1, 1, 0], [0, 1, 1], [0, 0, 1]], observed=["a", "b", "a-b"])
    assert parse("a - b", named).names == ("z1",)
    assert parse("'a-b'", named).names == ("z3",)


@pytest.mark.parametrize(
    ("names", "text", "long", "short", "at"),
    [
        (["a-b", "a", "b"], "a-b", "a-b", "a", 1),
        (["a-b", "a", "b"], "~(b | a-b )", "a-b", "a", 7),
        (["a & b", "a", "b"], "a & b", "a & b", "a", 1),
        (["(n)", "n"], "(n)", "(n)", "(", 1),
        (["~m", "m", "a"], "a - ~m", "~m", "~", 5),
        (["a-b", "b-c", "a", "c"], "a-b-c", "a-b", "a", 1),
        (["a - 'b'", "a", "b"], "a - 'b'", "a - 'b'", "a", 1),
        (["a-b-c", "a-b", "a", "c"], "a-b-c", "a-b-c", "a-b", 1),
    ],
)
def test_a_query_of_two_readings_is_refused_and_read_in_quotes(
    names: list[str], text: str, long: str, short: str, at: int
) -> None:
    assert refused(text, with_names(*names)) == (
        f"A query must have one meaning; write its names in quotes. Got {text!r}, where {long!r} or {short!r} can be "
        f"meant at character {at}."
    )
    assert parse(quoted(names[0]), with_names(*names)).names == ("z1",)


@pytest.mark.parametrize(
    ("names", "text", "means"),
    [
        (["a-b", "a", "bc"], "a-bc", "'a' - 'bc'"),
        (["a-b", "a", "b-c"], "a-b-c", "'a' - 'b-c'"),
        (["a-b", "a", "b-c"], "a-b-a", "'a-b' - 'a'"),
        (["-x", "a", "x"], "a -x", "'a' - 'x'"),
        (["-x", "a", "x"], "a--x", "'a' - '-x'"),
        (["a", "b", "a-b"], "a -b", "'a' - 'b'"),
        (["(a)", "a", "b"], "(a | b) - b", "('a' | 'b') - 'b'"),
        (["it's", "it", "s"], "it's", '"it\'s"'),
        (["a)", "a", "b"], "(a) | b", "('a') | 'b'"),
    ],
)
def test_a_query_of_one_reading_is_read_whatever_other_names_begin_alike(
    names: list[str], text: str, means: str
) -> None:
    assert parse(text, with_names(*names)) == parse(means, with_names(*names))


def test_a_long_query_of_very_many_readings_is_refused_at_once() -> None:
    assert "'a-a' or 'a' can be meant at character 1." in refused("-".join(["a"] * 500), with_names("a-a", "a"))


@pytest.mark.parametrize("sign", ["-", "&", "(", ")", "~"])
def test_a_sign_is_a_sign_even_where_an_observation_is_called_so(sign: str) -> None:
    named = Structure([[1, 1, 0], [0, 1, 1], [0, 0, 1]], observed=["a", "b", sign])
    assert parse("~(a - b) & b", named).names == ("z2", "z3")
    assert parse(f"a | {quoted(sign)}", named).names == ("z1", "z2", "z3")


def test_latents_may_be_named_too() -> None:
    assert parse("z3", S).names == ("z3",)
    assert parse("x1 - z1 | z5", S).names == ("z2", "z5")


def test_a_name_of_both_is_the_observation() -> None:
    both = Structure([[1, 1], [0, 1]], observed=["age", "mood"], latent=["mood", "age"])
    assert parse("age", both) == both.of("age")
    assert parse("mood", both).names == ("age",)


def test_an_observation_without_a_name_does_not_keep_a_query_from_ending() -> None:
    code = """
import signal
from noumena.guarantees.queries import parse
from noumena.structure import Structure
signal.alarm(2)
print(parse("x", Structure([[1, 0], [0, 1]], observed=["", "x"])))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, f"ended by signal {-done.returncode}"
    assert done.stdout == "LatentSet(z2)\n"


# ---- what cannot be read -------------------------------------------------------------------------------------


def refused(text: str, structure: Structure = S) -> str:
    with pytest.raises(InputError) as error:
        parse(text, structure)
    sentence = str(error.value)
    assert "\n" not in sentence
    assert sentence.endswith(".")
    return sentence


@pytest.mark.parametrize(
    ("text", "what", "at"),
    [
        ("", "the end where a name was expected", 1),
        ("   ", "the end where a name was expected", 4),
        ("x1 &", "the end where a name was expected", 5),
        ("x1 | ~", "the end where a name was expected", 7),
        ("(x1 | x2", "the end where ')' was expected", 9),
        ("((x1) | x2", "the end where ')' was expected", 11),
        ("(x1 x2)", "'x2' where ')' was expected", 5),
        ("x1 x2", "'x2' where an operator or the end was expected", 4),
        ("x1 (x2)", "'(' where an operator or the end was expected", 4),
        ("x1 ~x2", "'~' where an operator or the end was expected", 4),
        ("x1) | x2", "')' where an operator or the end was expected", 3),
        ("x1 + x2", "'+' where an operator or the end was expected", 4),
        ("()", "')' where a name was expected", 2),
        ("& x1", "'&' where a name was expected", 1),
        ("x1 && x2", "'&' where a name was expected", 5),
        ("x1 - - x2", "'-' where a name was expected", 6),
        ("x1 | 'x2", "a quote that is not closed", 6),
        ('"x1', "a quote that is not closed", 1),
        ("x1\n| x2 'x3", "a quote that is not closed", 9),
    ],
)
def test_a_query_that_does_not_parse_says_what_is_wrong_and_where(text: str, what: str, at: int) -> None:
    sentence = refused(text)
    assert sentence.startswith("A query must join names by & | - ^ ~ and parentheses. ")
    assert sentence.endswith(f"Got {text!r}, with {what} at character {at}.")


@pytest.mark.parametrize(("text", "name", "at"), [("x9", "x9", 1), ("(x1 | 'x 9')", "x 9", 7), ("x1-X2", "X2", 4)])
def test_an_unknown_name_is_told_with_its_place(text: str, name: str, at: int) -> None:
    assert refused(text) == (
        f"A query's names must be observations or latents of the structure. Got {name!r} at character {at} of "
        f"{text!r}, where there are x1, x2, x3, x4 and z1, z2, z3, z4, z5."
    )


def test_a_name_that_looks_like_a_sign_is_no_sign() -> None:
    assert "')' where ')' was expected" in refused("(x1 ')'")
    assert "'&' where an operator" in refused("x1 '&' x2")
    named = with_names("x1", "x2", ")")
    refused("(x1 ')'", named)


@pytest.fixture
def high_stack() -> Iterator[None]:
    """Room for the frames that checking types at run time adds to each call."""
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(10 * limit)
    yield
    sys.setrecursionlimit(limit)


@pytest.mark.usefixtures("high_stack")
def test_what_nests_too_deeply_is_refused_and_the_deepest_allowed_is_read() -> None:
    assert parse("(" * DEEPEST + "x1" + ")" * DEEPEST, S) == S.of("x1")
    assert parse("~" * DEEPEST + "x1", S) == S.of("x1")
    for text in ("(" * (DEEPEST + 1) + "x1" + ")" * (DEEPEST + 1), "~" * (DEEPEST + 1) + "x1", "~(" * 51 + "x1"):
        assert refused(text).startswith(f"A query must have at most {DEEPEST} parentheses and complements. Got 10")


def test_quoted_signs_do_not_count_as_nesting() -> None:
    named = with_names("(", "x")
    assert parse(" | ".join(["'('"] * (DEEPEST + 20)), named) == named.of("(")


def test_a_name_that_is_not_there_is_answered_with_those_that_are() -> None:
    S = Structure([[1, 0], [1, 1]], observed=["vane", "roof"], latent=["wind", "sun"])
    with pytest.raises(InputError) as error:
        parse("roof & vnae", S)
    assert str(error.value) == (
        "A query's names must be observations or latents of the structure. Got 'vnae' at character 8 of "
        "'roof & vnae', where there are vane, roof and wind, sun."
    )
