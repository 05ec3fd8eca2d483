"""Every check lets good input through and says, in one line, what must hold and what was given."""

from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from scipy import sparse

from noumena import checks
from noumena.checks import DivergenceError, InputError


def message(error: pytest.ExceptionInfo[BaseException]) -> str:
    text = str(error.value)
    assert "\n" not in text
    return text


def test_the_two_errors_can_be_caught_as_their_builtin_kinds() -> None:
    assert issubclass(InputError, ValueError)
    assert issubclass(DivergenceError, RuntimeError)
    assert not issubclass(DivergenceError, ValueError)


def test_require_says_what_must_hold_and_what_was_given() -> None:
    checks.require(True, "The sky must be blue.", "grey")
    with pytest.raises(InputError) as error:
        checks.require(False, "The sky must be blue.", "grey")
    assert message(error) == "The sky must be blue. Got grey."


@pytest.mark.parametrize("value", [1, 7, np.int64(3), np.uint8(2)])
def test_a_count_is_any_whole_number_and_becomes_a_plain_one(value: Any) -> None:
    counted = checks.count(value, "n")
    assert type(counted) is int
    assert counted == value


@pytest.mark.parametrize("value", [0, -3, 1.0, 2.5, True, np.True_, "3", None, [1], np.nan])
def test_what_is_no_count_is_refused_by_name_and_value(value: Any) -> None:
    with pytest.raises(InputError) as error:
        checks.count(value, "n_latents")
    assert message(error) == f"n_latents must be a whole number of at least 1. Got {value!r}."


def test_a_count_has_the_minimum_it_was_given() -> None:
    assert checks.count(0, "n", minimum=0) == 0
    assert checks.count(5, "n", minimum=5) == 5
    with pytest.raises(InputError, match=r"^n must be a whole number of at least 5\. Got 4\.$"):
        checks.count(4, "n", minimum=5)


@pytest.mark.parametrize("value", [0, 1, 0.25, np.float32(0.5), np.int64(1)])
def test_a_number_may_lie_on_the_ends_of_its_range(value: Any) -> None:
    found = checks.number(value, "p", minimum=0.0, maximum=1.0)
    assert type(found) is float
    assert found == value


@pytest.mark.parametrize("value", [-0.01, 1.01, "0.5", True, np.False_, None, 1j])
def test_what_is_no_number_of_the_range_is_refused_by_name_and_value(value: Any) -> None:
    with pytest.raises(InputError) as error:
        checks.number(value, "ramp", minimum=0.0, maximum=1.0)
    assert message(error) == f"ramp must be a finite number in [0, 1]. Got {value!r}."


def test_one_of_names_the_options() -> None:
    assert checks.one_of("log", "surrogate", ("l1", "log")) == "log"
    with pytest.raises(InputError) as error:
        checks.one_of("l2", "surrogate", ("l1", "log"))
    assert message(error) == "surrogate must be one of l1, log. Got 'l2'."


GOOD_TABLES = {
    "nested lists": [[1, 2], [3, 4]],
    "integers": np.array([[1, 2], [3, 4]]),
    "bytes": np.array([[1, 2], [3, 4]], dtype=np.uint8),
    "half precision": np.array([[1, 2], [3, 4]], dtype=np.float16),
    "double precision": np.array([[1.0, 2], [3, 4]]),
    "objects": np.array([[1, 2.0], [3, 4]], dtype=object),
    "texts of numbers": np.array([["1", "2.0"], ["3", "4e0"]]),
    "a data frame": pd.DataFrame({"a": [1, 3], "b": [2.0, 4.0]}),
    "a tensor": torch.tensor([[1.0, 2], [3, 4]], dtype=torch.float64),
    "a tensor with gradient": torch.tensor([[1.0, 2], [3, 4]], dtype=torch.float64, requires_grad=True),
    "columns in memory": np.asfortranarray([[1.0, 2], [3, 4]]),
}


@pytest.mark.parametrize("kind", GOOD_TABLES)
def test_a_table_comes_from_anything_rectangular(kind: str) -> None:
    table = checks.table(GOOD_TABLES[kind])
    assert isinstance(table, np.ndarray)
    assert table.dtype == np.float64
    np.testing.assert_array_equal(table, [[1, 2], [3, 4]])


def test_true_and_false_are_one_and_zero_in_a_table() -> None:
    np.testing.assert_array_equal(checks.table(np.array([[True, False]])), [[1.0, 0.0]])


@pytest.mark.parametrize("x", [np.ones((2, 3), dtype=np.float32), torch.ones(2, 3)])
def test_single_precision_stays_single_in_a_table(x: Any) -> None:
    assert checks.table(x).dtype == np.float32


BAD_TABLES = {
    "one axis": ([1.0, 2.0], "x must have two axes, (batch, dim). Got shape (2,)."),
    "no axis": (3.0, "x must have two axes, (batch, dim). Got shape ()."),
    "three axes": (np.ones((2, 3, 4)), "x must have two axes, (batch, dim). Got shape (2, 3, 4)."),
    "no rows": (np.ones((0, 3)), "x must have at least 1 rows. Got 0 sample(s) (shape=(0, 3), n_samples=0)."),
    "no columns": (np.ones((3, 0)), "x must have columns. Got 0 feature(s) (shape=(3, 0))"),
    "ragged": ([[1.0, 2.0], [3.0]], "x must be a rectangular array of numbers. Got rows of unequal length."),
    "text": ([["1", "two"]], "x must hold numbers only"),
    "complex": (np.ones((2, 2), dtype=complex), "Complex data not supported. Got dtype complex128."),
    "dates": (np.array([["2020-01-01"]], dtype="datetime64[D]"), "x must hold numbers. Got dtype datetime64[D]."),
    "NaN": ([[0.0, 1.0], [2.0, np.nan]], "x must be finite. Got 1 NaN and 0 inf entries, the first at row 1, column 1"),
    "inf": ([[0.0, -np.inf], [np.inf, np.nan]], "Got 1 NaN and 2 inf entries, the first at row 0, column 1."),
}


@pytest.mark.parametrize("kind", BAD_TABLES)
def test_what_is_no_table_is_refused_in_one_line(kind: str) -> None:
    x, sentence = BAD_TABLES[kind]
    with pytest.raises(InputError) as error:
        checks.table(x)
    assert sentence in message(error)


def test_a_table_is_refused_by_the_name_it_was_given() -> None:
    with pytest.raises(InputError, match=r"^z_hat must have two axes"):
        checks.table([1.0], "z_hat")


def test_sparse_matrices_and_things_that_are_no_numbers_are_type_errors() -> None:
    with pytest.raises(TypeError, match=r"^x must be a dense array\. Got a sparse matrix; use x\.toarray\(\)\.$"):
        checks.table(sparse.csr_array(np.eye(2)))
    with pytest.raises(TypeError, match="x must hold numbers only") as error:
        checks.table(np.array([[1, {}]], dtype=object))
    message(error)


def test_a_table_has_the_rows_asked_for() -> None:
    assert len(checks.table(np.ones((4, 1)), min_rows=4)) == 4
    with pytest.raises(InputError, match=r"^x must have at least 5 rows\. Got 4 sample"):
        checks.table(np.ones((4, 1)), min_rows=5)


def test_constant_columns_are_refused_only_where_columns_must_vary() -> None:
    x = np.array([[1.0, 0.1, 5], [2, 0.1, 5]])
    assert checks.table(x).shape == (2, 3)
    with pytest.raises(InputError) as error:
        checks.table(x, varying=True)
    assert message(error) == "x must vary in every column. Got constant columns 1, 2."
    assert checks.table(x[:, :1], varying=True).shape == (2, 1)


@pytest.mark.parametrize("rows", [3, 10, 37])
def test_a_constant_is_constant_whatever_the_rounding_of_its_mean(rows: int) -> None:
    with pytest.raises(InputError, match="constant columns 0"):
        checks.table(np.full((rows, 1), 0.1), varying=True)


def test_a_long_list_of_columns_is_cut_short() -> None:
    with pytest.raises(InputError, match=r"constant columns 0, 1, 2, 3, 4 and 2 more\.$"):
        checks.table(np.ones((3, 7)), varying=True)
    with pytest.raises(InputError, match=r"constant columns 0, 1, 2, 3, 4\.$"):
        checks.table(np.ones((3, 5)), varying=True)


def test_two_tables_must_share_their_batch_axis() -> None:
    checks.same_batch(np.ones((3, 1)), np.ones((3, 2)))
    with pytest.raises(InputError) as error:
        checks.same_batch(np.ones((100, 3)), np.ones((90, 3)), names=("a", "b"))
    assert message(error) == "a and b must share their batch axis. Got shapes (100, 3) and (90, 3)."


def test_slots_are_equal_by_number_or_have_the_given_sizes() -> None:
    assert checks.slots(3, 6) == (2, 2, 2)
    assert checks.slots([1, 2], 3) == (1, 2)


@pytest.mark.parametrize(
    ("slots", "sentence"),
    [
        (4, "6 latents must fall into equal slots. Got 4 slots."),
        ((3, 2), "The sizes of the slots must add up to 6 latents. Got (3, 2)."),
        (0, "slots must be a whole number of at least 1. Got 0."),
        ((6, 0), "The size of a slot must be a whole number of at least 1. Got 0."),
    ],
)
def test_slots_that_do_not_fit_are_refused(slots: Any, sentence: str) -> None:
    with pytest.raises(InputError) as error:
        checks.slots(slots, 6)
    assert message(error) == sentence


def test_masked_entries_are_refused_and_an_empty_mask_is_none() -> None:
    x = np.ma.masked_greater(np.arange(6.0).reshape(3, 2), 2)
    with pytest.raises(InputError) as error:
        checks.table(x, "z")
    assert message(error) == "z must have no masked entries. Got 3 masked entries."
    np.testing.assert_array_equal(checks.table(np.ma.array(np.ones((2, 2)))), np.ones((2, 2)))


@pytest.mark.parametrize(
    ("names", "sentence"),
    [
        (["a", "b", "a"], "The columns of x must have different names. Got 'a' twice."),
        (["a", 1, "b"], "The names of the columns of x must all be text. Got 1, of type int, beside text."),
    ],
)
def test_frames_whose_columns_cannot_be_told_apart_are_refused(names: list[Any], sentence: str) -> None:
    with pytest.raises(InputError) as error:
        checks.columns(pd.DataFrame(np.ones((2, 3)), columns=names), "x")
    assert message(error) == sentence


def test_frames_with_names_of_one_kind_are_read() -> None:
    assert checks.table(pd.DataFrame(np.ones((2, 3)))).shape == (2, 3)
    assert checks.table(pd.DataFrame(np.ones((2, 2)), columns=["a", "b"])).shape == (2, 2)
