"""Changed files and queries are read or refused in one sentence: a few thousand of the inputs of benchmarks/fuzz.py."""

import random
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import fuzz
import numpy as np
import pytest

from noumena.audits.folds import read_labels
from noumena.checks import InputError, table
from noumena.cli.images import read_images
from noumena.guarantees.queries import DEEPEST, parse
from noumena.structure import Structure

S = Structure([[1, 1, 0], [0, 1, 1]])

QUICK = {"query": 3000, "structure": 400, "csv": 200, "tsv": 100, "npy": 200, "npz": 100, "labels": 200, "archive": 100}


@pytest.mark.parametrize("name", QUICK)
@pytest.mark.filterwarnings("ignore")
def test_every_changed_input_is_read_or_refused_in_one_sentence(name: str) -> None:
    assert fuzz.batch(name, seed=1, count=QUICK[name]) == []


def _raises(error: BaseException) -> Callable[[], Any]:
    def task() -> None:
        raise error

    return task


def test_what_is_no_sentence_of_ours_is_a_finding() -> None:
    assert fuzz.attempt(lambda: 1) is None
    assert fuzz.attempt(_raises(InputError("It must hold. Got nothing."))) is None
    assert fuzz.attempt(_raises(InputError("two\nlines."))).startswith("not one sentence")
    assert fuzz.attempt(_raises(InputError("no end"))).startswith("not one sentence")
    assert fuzz.attempt(_raises(KeyError("x"))).startswith("KeyError at test_fuzz.py")
    assert fuzz.attempt(_raises(RecursionError())) == "RecursionError"
    assert fuzz.attempt(_raises(fuzz.Hang())).startswith("hang")


def test_inputs_are_a_function_of_the_seed_and_most_differ() -> None:
    def some(seed: int) -> list[bytes]:
        rng = random.Random(seed)
        return [fuzz.mutated(b"a,b\n1,2\n", [b"x"], rng) for _ in range(200)]

    assert some(1) == some(1)
    assert some(1) != some(2)
    assert len(set(some(1))) > 150
    rng = random.Random(0)
    asked = [fuzz.query(rng, ("x1", "x2", "z1")) for _ in range(500)]
    readable = 0
    for text in asked:
        try:
            parse(text, S)
            readable += 1
        except InputError:
            pass
    assert 100 < readable < 450  # some are read, some are not


@pytest.mark.parametrize(
    "text", ["(" * DEEPEST + "x1" + ")" * DEEPEST, "~" * DEEPEST + "x1", "~(" * 50 + "x1" + ")" * 50]
)
def test_the_deepest_query_needs_no_stack(text: str) -> None:
    def below(levels: int) -> Any:
        return parse(text, S) if levels == 0 else below(levels - 1)

    free, frame = sys.getrecursionlimit(), sys._getframe()
    while frame is not None:
        free, frame = free - 1, frame.f_back
    assert below(free - 80) == S.of("x1")


def test_a_very_long_query_is_read_in_time_that_grows_with_its_length() -> None:
    assert parse("&".join(["x1"] * 2_000), S) == S.of("x1")
    assert parse("x1|" * 2_000 + "x2", S).names == ("z1", "z2", "z3")


def test_numbers_of_inputs_add_up_to_what_is_asked_for() -> None:
    assert sum(fuzz.numbers(1_000_000, []).values()) >= 1_000_000
    assert set(fuzz.numbers(10, [])) == {"query", *fuzz.DOORS}
    assert np.all(np.array(list(fuzz.numbers(10, []).values())) >= 1)


@pytest.mark.parametrize("content", [b"PK\x03\x04 no archive", b"", b"\x93NUMPY", b"\x80\x04."])
def test_labels_and_images_of_something_else_are_one_sentence(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "x.npy"
    path.write_bytes(content)
    for read in (lambda: read_labels(path, rows=3), lambda: read_images(path)):
        with pytest.raises(InputError, match=r"^x\.npy must be a complete \.npy file of [^\n]*\.$"):
            read()


def test_an_archive_is_no_array_of_labels(tmp_path: Path) -> None:
    np.savez(tmp_path / "x.npz", y=np.arange(3))
    (tmp_path / "x.npz").rename(tmp_path / "x.npy")
    with pytest.raises(InputError, match=r"^x\.npy must hold one array of labels\. Got an archive\.$"):
        read_labels(tmp_path / "x.npy", rows=3)


@pytest.mark.parametrize("name", ["", " ", "a\nb"])
def test_a_latent_that_touches_nothing_is_refused_in_one_line_whatever_its_name(name: str) -> None:
    with pytest.raises(
        InputError, match=r"^Every latent must touch at least one observation\. Got none for \S[^\n]*\.$"
    ):
        Structure([[1, 0]], latent=["z", name])


def test_letters_outside_unicode_are_one_sentence() -> None:
    letters = np.frombuffer(b"\xff" * 8, "<U1").reshape(1, 2)
    with pytest.raises(InputError, match="must hold numbers only"):
        table(letters)
