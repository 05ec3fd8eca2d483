"""What ``make test-machines`` compares: settings that a processor can run, and decisions that must not differ."""

import copy

import pytest
from decisions import CASES
from machines import ALL, ROOMS, ROOT, USUAL, differences, environment, missing

RECORD = {"answers": {"ica": {"laplace": [True, [1, 0]]}}, "numbers": {"ica": {"laplace": [0.99, 1e-3]}}}


def test_every_value_of_every_setting_is_among_the_usual_ones():
    assert set(USUAL) <= set(ALL)
    assert len(ALL) == 24
    asked = [set(values) for values in zip(*(name.split("-") for name in USUAL), strict=True)]
    assert asked == [set(values) for values in zip(*(name.split("-") for name in ALL), strict=True)]


def test_a_setting_is_skipped_where_the_processor_lacks_its_instructions():
    old = {"sse4_2", "avx2", "fma"}
    assert missing("Nehalem-default-1", old) == missing("Haswell-avx2-2", old) == []
    assert "avx512f" in missing("SkylakeX-default-1", old)
    assert "avx512bw" in missing("Zen-avx512-1", old)


def test_a_setting_names_kernels_instructions_and_threads():
    asked = environment("Zen-avx2-2")
    assert (asked["OPENBLAS_CORETYPE"], asked["ATEN_CPU_CAPABILITY"]) == ("Zen", "avx2")
    assert {asked[name] for name in ("OMP_NUM_THREADS", "NOUMENA_TEST_THREADS")} == {"2"}


def test_rooms_that_are_named_exist():
    assert all((ROOT / "tests" / room).exists() for room in ROOMS)


def test_answers_must_be_equal_and_numbers_near():
    assert differences(RECORD, RECORD) == []
    other = copy.deepcopy(RECORD)
    other["numbers"]["ica"]["laplace"][0] = 0.9905
    assert differences(RECORD, other) == []
    other["numbers"]["ica"]["laplace"][0] = 0.992
    assert len(differences(RECORD, other)) == 1
    other["answers"]["ica"]["laplace"] = [True, [0, 1]]
    other["answers"]["more"] = 1
    assert len(differences(RECORD, other)) == 3
    other["numbers"]["ica"]["laplace"][0] = float("nan")
    assert any("nan" in line for line in differences(RECORD, other))


@pytest.mark.parametrize("name", ["structures", "mixtures"])
def test_cases_answer_alike_twice(name):
    assert CASES[name]() == CASES[name]()
