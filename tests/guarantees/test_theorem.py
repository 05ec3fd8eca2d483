"""A theorem is as strong as its weakest hypothesis, and a broken one concludes nothing."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import product

import numpy as np
import pytest

import noumena as nm
from noumena.ambiguity import Ambiguity
from noumena.checks import InputError
from noumena.guarantees import Certificate, Hypothesis, Theorem
from noumena.guarantees.hypotheses import ANSWERS

ELEMENT, AFFINE, ANY = Ambiguity("element-wise"), Ambiguity("affine"), Ambiguity("any")
PAIR = Ambiguity("block-wise", ((0, 1),))
PAIR_OF_THREE = Ambiguity("block-wise", ((0,), (1, 2)))


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
CERTIFICATE = Certificate("mixture", (WEAK, MIDDLE, STRONG))


def test_the_strongest_is_the_last_theorem_that_nothing_breaks() -> None:
    assert CERTIFICATE.strongest is MIDDLE
    assert Certificate("mixture", (WEAK, STRONG)).strongest is WEAK
    assert Certificate("mixture", (WEAK, MIDDLE)).strongest is MIDDLE
    assert Certificate("mixture", (STRONG,)).strongest is None


def test_a_certificate_concludes_with_its_strongest_theorem() -> None:
    assert [CERTIFICATE.ambiguity(t) for t in (0, 1)] == [PAIR, AFFINE]
    assert CERTIFICATE.headline == MIDDLE.sentence
    nothing = Certificate("mixture", (STRONG,))
    assert nothing.ambiguity(0) == ANY
    assert nothing.headline == f"Nothing is guaranteed about this mixture: {STRONG.sentence}"


def test_hypotheses_are_listed_once_and_broken_ones_by_name() -> None:
    assert [h.answer for h in CERTIFICATE.hypotheses] == ["holds", "unknown", "fails"]
    again = theorem("fails", name="again")
    assert Certificate("mixture", (STRONG, again, MIDDLE)).broken == ("it fails",)
    assert Certificate("mixture", (WEAK, MIDDLE)).broken == ()


def test_a_certificate_rests_on_what_the_theorems_that_apply_take_for_granted_or_could_not_check() -> None:
    assert CERTIFICATE.rests_on == ("a law", "noise", "points", "it unknown")
    assert Certificate("mixture", (STRONG,)).rests_on == ()


def test_a_theorem_is_found_by_name_and_an_unknown_one_is_one_sentence() -> None:
    assert CERTIFICATE.theorem("middle") is MIDDLE
    with pytest.raises(InputError) as error:
        CERTIFICATE.theorem("strongest")
    assert str(error.value) == "A theorem's name must be one of weak, middle, strong. Got 'strongest'."


def test_a_certificate_says_every_theorem_hypothesis_and_what_it_rests_on() -> None:
    lines = str(CERTIFICATE).splitlines()
    assert lines[:2] == ["Certificate of a mixture", MIDDLE.sentence]
    for found in CERTIFICATE.theorems:
        assert f"  {found.answer:9} {found.name} (nowhere): {found.sentence}" in lines
    start, rests = lines.index("Hypotheses"), lines.index("Rests on")
    assert lines[start + 1 : start + 4] == [f"  {h.answer:9} {h.name}: {h.evidence}" for h in CERTIFICATE.hypotheses]
    following = lines.index("What next")
    assert lines[rests + 1 : following] == ["  a law", "  noise", "  points", "  it unknown", ""]
    assert lines[following + 1 :] == ["  it fails (fails): seen to be fails"]
    assert "Rests on" not in str(Certificate("mixture", (STRONG,)))


def test_a_certificate_survives_json() -> None:
    facts = CERTIFICATE.to_dict()
    assert json.loads(json.dumps(facts)) == facts
    assert facts["subject"] == "mixture"
    assert facts["headline"] == CERTIFICATE.headline
    assert facts["theorems"] == [t.to_dict() for t in CERTIFICATE.theorems]
    assert facts["hypotheses"] == [h.to_dict() for h in CERTIFICATE.hypotheses]
    assert facts["rests_on"] == list(CERTIFICATE.rests_on)


def test_a_latent_is_identified_by_what_pins_it_down_element_wise_and_a_pair_by_what_keeps_it_apart() -> None:
    triple = Theorem("toy", "nowhere", (), (ELEMENT, PAIR_OF_THREE, PAIR_OF_THREE))
    found = Certificate("mixture", (triple,))
    assert [found.verdict(t).answer for t in range(3)] == ["identified", "open", "open"]
    assert found.verdict("z2", "z3").answer == "open"
    assert [found.verdict("z2", r).answer for r in ("z1", "z2")] == ["identified", "identified"]
    assert found.answer == "open"
    assert [latent["answer"] for latent in found.to_dict()["latents"]] == ["identified", "open", "open"]


@pytest.mark.parametrize("conditional", [False, True])
def test_what_could_be_shown_and_was_not_is_open_whatever_is_said_of_it(conditional: bool) -> None:
    shown = Certificate("mixture", (theorem("unknown", name="it", conclusion=ELEMENT),), assumed=frozenset())
    certificate = replace(shown, conditional=conditional)
    assert certificate.verdict(0).answer == certificate.answer == "open"
    assert certificate.verdict(0).reason == "this was not shown: it unknown"
    assert ("provided that" in certificate.headline) == conditional
    assert certificate.what_next == ("it unknown (unknown): seen to be unknown",)
    assumed = replace(certificate, assumed=frozenset(("it unknown",)))
    assert (assumed.verdict(0).answer, assumed.what_next) == ("identified", ())


@pytest.mark.parametrize("latent", [2, -1, 1.5, True, "z3"])
def test_a_latent_that_there_is_not_is_one_sentence(latent: object) -> None:
    for ask in (CERTIFICATE.verdict, CERTIFICATE.ambiguity, CERTIFICATE.known_up_to):
        with pytest.raises(InputError, match="A latent"):
            ask(latent)
    with pytest.raises(InputError, match=r"A query must be put to a certificate with a structure"):
        CERTIFICATE.query("z1")


def test_every_kind_of_subject_answers_in_the_same_words() -> None:
    z = np.random.default_rng(0).uniform(-1, 1, size=(300, 2))
    mixture = nm.worlds.Mixture([0.5, 0.5], [[0, 0], [3, 1]], [np.eye(2), np.diag([2, 4])])
    flat = nm.worlds.Mixture([0.5, 0.5], [[1, 0], [0, 2]], [np.diag([1, 0]), np.diag([0, 1])])
    structure = nm.Structure([[1, 0], [1, 0], [0, 1], [0, 1]])
    subjects = (structure, mixture, flat, [z, z[:, ::-1].copy()])
    found = [nm.certify(subject) for subject in subjects] + [nm.certify(structure, by="mechanisms", region="box")]
    assert [certificate.answer for certificate in found] == ["identified"] * 3 + ["open", "identified"]
    shared = set.intersection(*(set(certificate.to_dict()) for certificate in found))
    assert shared >= {"subject", "answer", "headline", "latents", "hypotheses", "rests_on", "theorems", "what_next"}
    for certificate in found:
        assert isinstance(certificate, nm.Certificate)
        assert json.loads(json.dumps(certificate.to_dict())) == certificate.to_dict()
        assert str(certificate).startswith(f"Certificate of a {certificate.subject}")
        assert [certificate.verdict(t).answer for t in certificate.latents] == [certificate.answer] * 2


def test_a_certificate_is_drawn_in_the_colours_of_its_verdicts() -> None:
    nested = nm.certify(nm.Structure([[1, 1], [0, 1], [0, 1]]))
    cells = [patch.get_gid() for patch in nested.plot().patches]
    assert cells == [
        "not identified: x1 depends on z1",
        "open: x1 depends on z2",
        "empty",
        "open: x2 depends on z2",
        "empty",
        "open: x3 depends on z2",
    ]
    ax = CERTIFICATE.plot()  # a theorem about pairs, one about affine maps, one that fails
    assert [patch.get_gid() for patch in ax.patches] == ["empty"] * 6


def test_theorems_are_asked_for_by_name_and_take_their_own_settings() -> None:
    structure = nm.Structure([[1, 0], [1, 0], [0, 1], [0, 1]])
    whole = nm.certify(structure, by="mechanisms", blocks=(2,))
    assert "there are two blocks or more" in whole.theorem("Type D").broken
    refused = {
        "by must be one of mechanisms, mixtures, degenerate, nearness": {"by": "faith"},
        "by='mechanisms' must come with settings among": {"by": "mechanisms", "constant": 1.0},
        "by='mechanisms' must come without threshold and independent": {"by": "mechanisms", "independent": True},
        "Settings of theorems must come with by=": {"blocks": (1, 1)},
    }
    for sentence, settings in refused.items():
        with pytest.raises(InputError, match=sentence):
            nm.certify(structure, **settings)


def test_the_four_old_doors_stay_open_for_one_release_and_say_where_the_new_one_is() -> None:
    structure = nm.Structure([[1, 0], [1, 0], [0, 1], [0, 1]])
    with pytest.warns(
        DeprecationWarning, match=r"noumena\.mechanisms is now noumena\.certify\(subject, by='mechanisms'\)"
    ):
        old = nm.mechanisms
    assert old(structure).to_dict() == nm.certify(structure, by="mechanisms").to_dict()
    for name in ("nearness", "mixture_ladder", "degenerate_ladder", "Reading"):
        with pytest.warns(DeprecationWarning, match="the old name will go with the next release"):
            assert callable(getattr(nm, name))


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
