"""Factors know their kinds, declared or detected, and say so; what cannot be a factor is refused in one sentence."""

from typing import Any

import numpy as np
import pandas
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from noumena.checks import InputError
from noumena.metrics.factors import FactorTable, factors_of, pair

modest = settings(max_examples=30, deadline=None)


def columns(n: int = 200) -> np.ndarray:
    """A shape, an angle of ten values, and a position."""
    rng = np.random.default_rng(0)
    return np.c_[rng.integers(0, 3, n), rng.integers(0, 10, n) / 7, rng.normal(size=n)]


@pytest.mark.parametrize(
    ("column", "discrete"),
    [
        (np.arange(40.0) % 20, True),  # whole numbers, twice each
        (np.arange(40.0) % 21, False),  # whole numbers, less than twice on average
        (np.arange(40.0) % 4 / 3, True),  # four numbers, ten times each
        (np.arange(40.0) % 5 / 3, False),  # five numbers, eight times each
        (np.arange(640.0) % 32 / 7, True),
        (np.arange(660.0) % 33 / 7, False),  # more than 32 numbers that are not whole
        (np.ones(40), True),
        (np.linspace(0, 1, 40), False),
    ],
)
def test_kinds_are_detected_by_how_often_values_occur(column: np.ndarray, discrete: bool) -> None:
    assert factors_of(column[:, None]).discrete == (discrete,)


def test_kinds_are_said_with_who_said_so() -> None:
    z = columns()
    assert str(factors_of(z)) == "Factors (detected by their values): discrete z1, z2; continuous z3"
    assert str(factors_of(z, [0])) == "Factors (declared): discrete z1; continuous z2, z3"
    assert str(factors_of(z[:, :1], True)) == "Factors (declared): discrete z1"
    assert not factors_of(z).declared
    assert factors_of(z, [0, 1]).declared


@pytest.mark.parametrize(
    "told",
    [
        [True, True, False],
        (True, True, False),
        np.array([True, True, False]),
        [0, 1],
        (1, 0),
        np.array([1, 0]),
        ["z1", "z2"],
        ["z2", 0],
        torch.tensor([True, True, False]),
    ],
)
def test_kinds_are_declared_by_flags_numbers_or_names(told: Any) -> None:
    assert factors_of(columns(), told).discrete == (True, True, False)


@pytest.mark.parametrize(("told", "expected"), [("z2", (False, True, False)), (1, (False, True, False))])
def test_one_discrete_factor_may_be_named_alone(told: Any, expected: tuple[bool, ...]) -> None:
    assert factors_of(columns(), told).discrete == expected


def test_true_and_false_are_for_all_factors() -> None:
    assert factors_of(columns(), False).discrete == (False, False, False)
    assert factors_of(columns()[:, :2], True).discrete == (True, True)


@pytest.mark.parametrize(
    "told", [[True, False], [3], [-1], ["z4"], "shape", 3, 1.5, [0.0], {"z1": True}, [[0, 1]], np.ones((3, 3)) > 0]
)
def test_other_declarations_are_refused(told: Any) -> None:
    must = r"discrete must be True or False, one of them for each of 3 factors, or numbers or names of columns\. Got "
    with pytest.raises(InputError, match=must):
        factors_of(columns(), told)


def test_a_discrete_factor_must_repeat_a_value() -> None:
    with pytest.raises(InputError, match=r"Discrete factor z3 must repeat its values\. Got 200 values in 200 rows\."):
        factors_of(columns(), True)


def test_names_become_numbers_in_their_order_and_are_discrete() -> None:
    words = [["cube", 0.5], ["ball", 0.25], ["cone", 0.125]] * 5
    found = factors_of(words)
    assert found.values[:3].tolist() == [[2, 0.5], [0, 0.25], [1, 0.125]]
    assert found.values.dtype == np.float64
    assert found.discrete == (True, False)
    assert found.nominal == (0,)
    assert factors_of(words, [0, 1]).nominal == (0,)
    with pytest.raises(InputError, match=r"Factor z1 must be discrete\. Got names that are no numbers\."):
        factors_of(words, [1])


def test_names_that_never_repeat_are_no_factor() -> None:
    with pytest.raises(InputError, match=r"Names in column 0 of z must repeat\. Got 12 different ones\."):
        factors_of([[f"picture {k}"] for k in range(12)])


def test_numbers_written_as_words_are_numbers() -> None:
    found = factors_of(np.array([["1", "0.5"], ["2", "0.25"]] * 6))
    assert found.values[:2].tolist() == [[1, 0.5], [2, 0.25]]
    assert found.nominal == ()


@pytest.mark.parametrize("missing", [None, float("nan")])
def test_missing_names_and_numbers_are_refused(missing: Any) -> None:
    table = [["cube", 0.5], ["ball", 0.25]] * 5
    with pytest.raises(InputError, match=r"Names in column 0 of z must not be missing\. Got 1 without a name\."):
        factors_of([*table, [missing, 0.1]])
    with pytest.raises(InputError, match=r"z must be finite\. Got 1 NaN .* row 10, column 1"):
        factors_of(np.array([*table, ["cube", missing]], dtype=object))


def test_a_data_frame_brings_its_names() -> None:
    frame = pandas.DataFrame({"shape": ["cube", "ball"] * 10, "size": np.linspace(0, 1, 20), "lit": [True, False] * 10})
    found = factors_of(frame)
    assert found.names == ("shape", "size", "lit")
    assert found.discrete == (True, False, True)
    assert str(found) == "Factors (detected by their values): discrete shape, lit; continuous size"
    assert factors_of(frame, ["shape"]).discrete == (True, False, False)
    assert factors_of(frame[["size"]], False).names == ("size",)
    with pytest.raises(InputError, match="Got 'form'"):
        factors_of(frame, "form")


@pytest.mark.parametrize("kind", [torch.float32, torch.float64, torch.int64])
def test_tensors_are_factors_like_arrays(kind: torch.dtype) -> None:
    z = torch.arange(60).reshape(30, 2).to(kind) % 7
    found, same = factors_of(z), factors_of(z.numpy())
    np.testing.assert_array_equal(found.values, same.values)
    assert found.values.dtype == np.float64
    assert found.discrete == same.discrete == (True, True)
    learned = z.double().requires_grad_()
    np.testing.assert_array_equal(factors_of(learned).values, found.values)


def test_factors_stay_as_they_are() -> None:
    found = factors_of(columns(), [0])
    assert factors_of(found) is found
    with pytest.raises(InputError, match=r"discrete must be left out where z has its kinds already\. Got \[0\]\."):
        factors_of(found, [0])


@modest
@given(seed=st.integers(0, 1000))
def test_some_rows_keep_kinds_and_names(seed: int) -> None:
    found = factors_of([["cube", k / 7, k % 3] for k in range(30)])
    rows = np.random.default_rng(seed).permutation(30)[:9]
    part = found.at(rows)
    np.testing.assert_array_equal(part.values, found.values[rows])
    assert (part.discrete, part.names, part.nominal) == (found.discrete, found.names, found.nominal)
    assert len(part) == 9


def test_varying_factors_take_two_values() -> None:
    z = np.c_[np.ones(20), np.arange(20) % 2, np.full(20, 0.1)]
    assert factors_of(z).varying.tolist() == [1]


def test_values_are_a_copy() -> None:
    z = columns()
    found = factors_of(z)
    z[0, 0] = 99
    assert found.values[0, 0] != 99


def test_a_pair_is_two_tables_of_one_batch_in_double_precision() -> None:
    z, z_hat = pair(np.ones((12, 2), dtype=np.float32), torch.zeros(12, 3))
    assert (z.shape, z_hat.shape) == ((12, 2), (12, 3))
    assert z.dtype == z_hat.dtype == np.float64
    values, _ = pair(FactorTable(columns(), (True, True, False), ("a", "b", "c")), np.ones((200, 1)))
    np.testing.assert_array_equal(values, columns())
    with pytest.raises(InputError, match=r"share their batch axis\. Got shapes \(12, 2\) and \(11, 2\)\."):
        pair(np.ones((12, 2)), np.ones((11, 2)))
    with pytest.raises(InputError, match="z_hat must be finite"):
        pair(np.ones((12, 2)), np.full((12, 2), np.inf))
    with pytest.raises(InputError, match="z must have at least 13 rows"):
        pair(np.ones((12, 2)), np.ones((12, 2)), min_rows=13)
