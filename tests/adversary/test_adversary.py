"""No subject with a known truth is certified wrongly: a few hundred of the cases of benchmarks/adversary.py."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from adversary_exact import EXACT
from adversary_fits import LAWS
from adversary_pinned import PINNED
from adversary_truth import Case, Claim, brute_gap, decoder_case, gapped, law, stands

import adversary
from noumena.checks import InputError

CASES, FEWER = 12, {"parallel": 2, "any worlds": 4, "matrices": 5}
"""Of every family of exact subjects, fewer of those that take longer."""
CONTROLS = ("structures", "controls", "units", "element-wise", "worlds")
POWER = 0.8
"""Share of identifiable subjects that are called so, at least."""


# ---- what the library says -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("family", EXACT)
def test_no_exact_subject_is_answered_wrongly(family: str) -> None:
    rows = [adversary.judge(family, seed) for seed in range(FEWER.get(family, CASES))]
    wrong = [row for row in rows if row.false_identified or row.false_not or row.false_holds or row.crash]
    assert wrong == []
    assert not any(row.answer == "not made" for row in rows)
    if family in CONTROLS:
        able = [row for row in rows if row.identifiable == "1"]
        assert sum(row.answer == "identified" for row in able) >= POWER * len(able)


@pytest.mark.parametrize("number", range(len(PINNED)))
def test_what_was_once_answered_wrongly_is_not_any_more(number: int) -> None:
    row = adversary.judge("pinned", number)
    assert (row.false_identified, row.false_not, row.false_holds, row.crash) == (0, 0, 0, 0), row


@pytest.mark.parametrize("family", ["mixtures", "representations"])
def test_no_law_without_axes_is_given_any(family: str) -> None:
    rows = [adversary.judge(family, seed) for seed in range(8)]
    assert [row for row in rows if row.false_identified or row.crash] == []


# ---- the adversary itself --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("family", EXACT)
def test_rivals_are_equivalent_models_with_other_latents(family: str) -> None:
    cases = [EXACT[family](seed) for seed in range(4)]
    assert [problem for case in cases if case.rival is not None and (problem := stands(case))] == []


@pytest.mark.parametrize("number", range(len(PINNED)))
def test_pinned_rivals_are_equivalent_models_too(number: int) -> None:
    case = PINNED[number]()
    assert case.rival is None or stands(case) == ""


def test_a_rival_that_is_none_is_seen() -> None:
    case = EXACT["matrices"](next(seed for seed in range(50) if EXACT["matrices"](seed).rival is not None))
    assert case.rival is not None
    assert case.decoder is not None
    assert case.points is not None
    same = decoder_case(case.decoder, case.points, False, rival=type(case.rival)(case.decoder, case.points))
    assert stands(same) == "the latents are the same"
    other = decoder_case(case.decoder, case.points, False, rival=type(case.rival)(case.decoder, 2 * case.points))
    assert stands(other).startswith("observations differ")


def test_the_gap_by_brute_force_is_that_of_hand_computed_matrices() -> None:
    assert brute_gap(np.array([[1.0, 0], [1, 0], [1, 1], [0, 1], [0, 1]]))[0] == 1
    assert brute_gap(np.array([[1.0, 0], [1, 0], [1, 1], [1, 1], [0, 1], [0, 1]]))[0] == 0
    gap, basis = brute_gap(np.array([[1.0, 0], [1, 1], [1, 1], [1, 1], [0, 1]]))
    assert gap == -2
    assert (np.abs(np.array([[1.0, 0], [1, 1], [1, 1], [1, 1], [0, 1]]) @ basis) > 1e-9).sum() == 6


def _raised(error: Exception) -> Claim:
    raise error


def test_the_judge_counts_each_kind_of_false_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    def judged(claim: Claim | Exception, identifiable: bool | None) -> tuple[int, int, int]:
        answer = (lambda: _raised(claim)) if isinstance(claim, Exception) else (lambda: claim)
        monkeypatch.setitem(adversary.FAMILIES, "toy", lambda seed: Case("fit", answer, identifiable))
        row = adversary.judge("toy", 0)
        return row.false_identified, row.false_not, row.crash

    assert judged(Claim("identified"), False) == (1, 0, 0)
    assert judged(Claim("identified"), True) == judged(Claim("open"), False) == judged(Claim("open"), True) == (0, 0, 0)
    assert judged(Claim("not identified"), True) == (0, 1, 0)
    assert judged(Claim("identified", mcc=0.9), True) == (1, 0, 0)
    assert judged(Claim("identified", mcc=0.99), None) == (0, 0, 0)
    assert judged(InputError("It must hold. Got nothing."), False) == (0, 0, 0)
    assert judged(KeyError("x"), None) == (0, 0, 1)


def test_a_case_that_cannot_be_made_is_no_failure_of_the_library(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(adversary.FAMILIES, "toy", lambda seed: _raised(KeyError("x")))
    row = adversary.judge("toy", 0)
    assert (row.answer, row.crash, row.identifiable) == ("not made", 0, "")


def test_rows_are_read_back_and_summed_by_family(tmp_path: Path) -> None:
    rows = [adversary.judge("structures", seed) for seed in range(3)]
    for row in rows:
        adversary.append(tmp_path / "rows.csv", row)
    assert adversary.read(tmp_path / "rows.csv") == rows
    assert adversary.read(tmp_path / "none.csv") == []
    assert adversary.summary(rows).splitlines()[1].startswith("structures ")
    assert adversary.upper(0, 300) == pytest.approx(0.00994, abs=1e-5)


def test_families_take_turns_and_named_cases_come_once() -> None:
    listed = list(adversary.jobs(["structures", "pinned"], 10**6, 100))
    assert listed[:2] == [("structures", 10**6), ("pinned", 0)]
    assert len(listed) == 100 + len(PINNED)
    assert set(adversary.chosen(["laws", "dead"])) == {*LAWS, "dead"}


def test_controls_have_a_positive_gap_and_points_in_every_direction() -> None:
    rng = np.random.default_rng(0)
    for d in (2, 3, 4):
        assert brute_gap(gapped(rng, d))[0] > 0
        assert np.linalg.matrix_rank(law(rng, 50, d).numpy()) == d
