"""A theorem is as strong as its weakest hypothesis, and a broken one concludes nothing."""

from __future__ import annotations

import json
from itertools import product

import pytest

import noumena as nm
from noumena.ambiguity import Ambiguity
from noumena.checks import InputError
from noumena.guarantees import Hypothesis, Reading, Theorem
from noumena.guarantees.theorem import ANSWERS

ELEMENT, AFFINE, ANY = Ambiguity("element-wise"), Ambiguity("affine"), Ambiguity("any")
PAIR = Ambiguity("block-wise", ((0, 1),))


def premise(answer: str, name: str | None = None) -> Hypothesis:
    return Hypothesis(name or f"it {answer}", answer, f"seen to be {answer}")


def theorem(
    *answers: str, name: str = "toy", conclusion: Ambiguity = ELEMENT, rests_on: tuple[str, ...] = ()
) -> Theorem:
    return Theorem(name, "nowhere", tuple(premise(a) for a in answers), (conclusion, AFFINE), rests_on)


# ---- hypotheses ----------------------------------------------------------------------------------------------


def test_a_hypothesis_is_its_name_answer_and_evidence() -> None:
    assert premise("holds").to_dict() == {"name": "it holds", "answer": "holds", "evidence": "seen to be holds"}


@pytest.mark.parametrize("answer", ["yes", "", "Holds", "broken"])
def test_an_answer_is_one_of_four(answer: str) -> None:
    with pytest.raises(InputError) as error:
        Hypothesis("a premise", answer, "none")
    expected = f"A hypothesis' answer must be one of holds, supported, unknown, fails. Got {answer!r}."
    assert str(error.value) == expected


# ---- one theorem ---------------------------------------------------------------------------------------------


def test_a_theorem_answers_with_its_weakest_hypothesis() -> None:
    for answers in product(ANSWERS, repeat=3):
        assert theorem(*answers).answer == ANSWERS[max(map(ANSWERS.index, answers))]
    assert theorem().answer == "holds"


def test_what_fails_is_broken_and_what_is_unknown_is_open() -> None:
    found = theorem("fails", "holds", "unknown", "supported")
    assert found.broken == ("it fails",)
    assert found.open == ("it unknown",)
    sound = theorem("holds", "supported")
    assert (sound.broken, sound.open) == ((), ())


def test_a_broken_theorem_allows_any_map_of_every_latent() -> None:
    for answers in product(ANSWERS, repeat=2):
        found = theorem(*answers)
        expected = (ANY, ANY) if "fails" in answers else (ELEMENT, AFFINE)
        assert (found.ambiguity(0), found.ambiguity(1)) == expected


def test_a_theorem_reads_as_one_sentence() -> None:
    assert theorem("fails", "unknown").sentence == "toy does not apply, this fails: it fails."
    assert theorem("holds").sentence == "toy pins the latents down up to element-wise or affine maps."
    opened = theorem("unknown", "supported", conclusion=AFFINE).sentence
    assert opened == "toy pins the latents down up to affine maps, provided that: it unknown."


def test_a_sentence_stays_readable_when_every_latent_is_known_up_to_something_else() -> None:
    nested = tuple(Ambiguity("block-wise", (tuple(range(t, 300)),)) for t in range(299))
    assert len(Theorem("toy", "nowhere", (), nested).sentence) < 1000


def test_a_theorem_survives_json() -> None:
    facts = theorem("holds", "unknown", conclusion=PAIR, rests_on=("a law",)).to_dict()
    assert json.loads(json.dumps(facts)) == facts
    assert facts == {
        "name": "toy",
        "source": "nowhere",
        "answer": "unknown",
        "sentence": f"toy pins the latents down up to {PAIR} or affine maps, provided that: it unknown.",
        "hypotheses": [premise("holds").to_dict(), premise("unknown").to_dict()],
        "conclusion": [str(PAIR), "affine"],
        "rests_on": ["a law"],
    }
    assert theorem("fails").to_dict()["conclusion"] == ["any", "any"]


# ---- several theorems ----------------------------------------------------------------------------------------

WEAK = theorem("holds", name="weak", conclusion=AFFINE, rests_on=("a law", "noise"))
MIDDLE = theorem("holds", "unknown", name="middle", conclusion=PAIR, rests_on=("noise", "points"))
STRONG = theorem("fails", "unknown", name="strong", conclusion=ELEMENT, rests_on=("luck",))
READING = Reading("mixture", (WEAK, MIDDLE, STRONG))


def test_the_strongest_is_the_last_theorem_that_nothing_breaks() -> None:
    assert READING.strongest is MIDDLE
    assert Reading("mixture", (WEAK, STRONG)).strongest is WEAK
    assert Reading("mixture", (WEAK, MIDDLE)).strongest is MIDDLE
    assert Reading("mixture", (STRONG,)).strongest is None


def test_a_reading_concludes_with_its_strongest_theorem() -> None:
    assert [READING.ambiguity(t) for t in (0, 1)] == [PAIR, AFFINE]
    assert READING.headline == MIDDLE.sentence
    nothing = Reading("mixture", (STRONG,))
    assert nothing.ambiguity(0) == ANY
    assert nothing.headline == f"Nothing is guaranteed about this mixture: {STRONG.sentence}"


def test_hypotheses_are_listed_once_and_broken_ones_by_name() -> None:
    assert [h.answer for h in READING.hypotheses] == ["holds", "unknown", "fails"]
    again = theorem("fails", name="again")
    assert Reading("mixture", (STRONG, again, MIDDLE)).broken == ("it fails",)
    assert Reading("mixture", (WEAK, MIDDLE)).broken == ()


def test_a_reading_rests_on_what_the_theorems_that_apply_take_for_granted_or_could_not_check() -> None:
    assert READING.rests_on == ("a law", "noise", "points", "it unknown")
    assert Reading("mixture", (STRONG,)).rests_on == ()


def test_a_theorem_is_found_by_name_and_an_unknown_one_is_one_sentence() -> None:
    assert READING.theorem("middle") is MIDDLE
    with pytest.raises(InputError) as error:
        READING.theorem("strongest")
    assert str(error.value) == "A theorem's name must be one of weak, middle, strong. Got 'strongest'."


def test_a_reading_says_every_theorem_hypothesis_and_what_it_rests_on() -> None:
    lines = str(READING).splitlines()
    assert lines[:2] == ["Reading of a mixture", MIDDLE.sentence]
    for found in READING.theorems:
        assert f"  {found.answer:9} {found.name} (nowhere): {found.sentence}" in lines
    start, rests = lines.index("Hypotheses"), lines.index("Rests on")
    assert lines[start + 1 : start + 4] == [f"  {h.answer:9} {h.name}: {h.evidence}" for h in READING.hypotheses]
    assert lines[rests + 1 :] == ["  a law", "  noise", "  points", "  it unknown"]
    assert "Rests on" not in str(Reading("mixture", (STRONG,)))


def test_a_reading_survives_json() -> None:
    facts = READING.to_dict()
    assert json.loads(json.dumps(facts)) == facts
    assert facts["subject"] == "mixture"
    assert facts["headline"] == READING.headline
    assert facts["theorems"] == [t.to_dict() for t in READING.theorems]
    assert facts["hypotheses"] == [h.to_dict() for h in READING.hypotheses]
    assert facts["rests_on"] == list(READING.rests_on)


def test_a_theorem_of_a_structure_speaks_of_its_own_latents():
    names = ["age", "mood", "dose"]
    certificate = nm.certify(nm.Structure([[1, 1, 0], [1, 1, 0], [0, 0, 1], [0, 0, 1]], latent=names))
    blocks = [t for t in certificate.theorems if "{" in t.sentence]
    assert any("{age mood}" in t.sentence for t in blocks)
    assert all("z1" not in t.sentence and "z1" not in str(t.to_dict()["conclusion"]) for t in certificate.theorems)
    swapped = nm.certify(nm.Structure([[1, 1, 0], [1, 1, 0], [0, 0, 1], [0, 0, 1]], latent=["z3", "z1", "z2"]))
    assert any("{z3 z1}" in t.sentence for t in swapped.theorems)


def test_several_competitors_are_not_told_of_as_one():
    certificate = nm.certify(nm.Structure([[1, 1, 0], [1, 0, 1], [0, 1, 0], [0, 1, 0], [0, 0, 1], [0, 0, 1]]))
    answer = certificate.query("z1")
    assert [rival.carries for rival in certificate.rivals.of(0)] == [(1,), (2,)]
    assert answer.reason.startswith("competitors mix in z2, z3; the first: ẑ = x1 in place of z1: ")
    one = nm.certify(nm.Structure([[1, 1], [0, 1]])).query("z1")
    assert one.reason.startswith("a competitor mixes in z2, ẑ = ")
