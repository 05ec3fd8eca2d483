"""Missing and infinite cells, constant and unnamed columns: refused by name, or treated as asked."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import sentences
from sklearn.impute import SimpleImputer

from noumena.checks import InputError
from noumena.data import columns
from noumena.data.columns import ColumnChoice, PreparedTable, prepare
from noumena.data.tables import read_prepared

NAN, INF = np.nan, np.inf
NAMES = ("age", "dose", "site")


def holed() -> np.ndarray:
    x = np.random.default_rng(0).normal(size=(50, 3))
    x[[3, 7, 8], 0] = NAN
    x[7, 1] = NAN
    return x


def refusal(x: Any, names: tuple[str, ...] | None = NAMES, **asked: Any) -> str:
    return sentences.refusal(prepare, np.asarray(x, dtype=float), names, file="own.csv", **asked)


def test_a_clean_table_comes_back_as_it_is_with_nothing_done() -> None:
    x = np.random.default_rng(0).normal(size=(5, 3))
    found = prepare(x, NAMES)
    assert found.x is x
    assert (found.names, found.done) == (NAMES, ())
    with pytest.raises(AttributeError):
        found.done = ("changed",)  # type: ignore[misc]


# ---- missing cells -----------------------------------------------------------------------------------------------


def test_missing_cells_are_refused_with_how_many_and_where() -> None:
    must = "own.csv must have no missing cells, or --impute must say what becomes of them (mean, median, drop-rows, "
    got = "drop-columns). Got 4 missing cells in 2 of 3 columns: {} (3), {} (1), the first at row 3 of column {}."
    assert refusal(holed()) == must + got.format("'age'", "'dose'", "'age'")
    assert refusal(holed(), None) == must + got.format(0, 1, 0)
    one = np.array([[1.0, 2], [3, NAN]])
    assert "Got 1 missing cell in 1 of 2 columns: 'b' (1), the first at row 1" in refusal(one, ("a", "b"))


@pytest.mark.parametrize("impute", ["mean", "median"])
def test_missing_cells_are_filled_as_scikit_learn_fills_them(impute: str) -> None:
    x = holed()
    found = prepare(x, NAMES, impute=impute)
    np.testing.assert_allclose(found.x, SimpleImputer(strategy=impute).fit_transform(x), rtol=1e-15)
    assert found.done == (f"Filled 4 missing cells with the {impute} of their column: 'age' (3), 'dose' (1).",)
    assert np.isnan(x).sum() == 4  # what was given is left alone


def test_rows_or_columns_with_missing_cells_are_left_out_on_request() -> None:
    x = holed()
    rows = prepare(x, NAMES, impute="drop-rows")
    np.testing.assert_array_equal(rows.x, np.delete(x, [3, 7, 8], axis=0))
    assert rows.done == ("Left out 3 of 50 rows for 4 missing cells: 'age' (3), 'dose' (1).",)
    kept = prepare(x, NAMES, impute="drop-columns")
    np.testing.assert_array_equal(kept.x, x[:, 2:])
    assert kept.names == ("site",)
    assert kept.done == ("Left out 2 of 3 columns for missing cells: 'age' (3), 'dose' (1).",)


def test_asking_to_impute_where_nothing_is_missing_is_answered() -> None:
    found = prepare(np.array([[1.0], [2.0]]), None, impute="mean")
    assert found.done == ("No cell was missing, so none was imputed.",)


def test_what_cannot_be_imputed_is_refused() -> None:
    empty = np.array([[1.0, NAN], [2.0, NAN]])
    for impute in ("mean", "median"):
        assert refusal(empty, ("a", "b"), impute=impute) == (
            f"Every column of own.csv must hold some numbers for --impute {impute}. Got none in column 'b'; "
            "leave it out with --drop b."
        )
    assert refusal(empty, None, impute="drop-rows") == (
        "Some rows of own.csv must have no missing cells for --impute drop-rows. Got missing cells in all 2, in "
        "columns 1 (2)."
    )
    assert refusal(np.full((2, 2), NAN), None, impute="drop-columns") == (
        "Some columns of own.csv must have no missing cells for --impute drop-columns. Got missing cells in all 2."
    )
    assert "--impute must be one of mean, median, drop-rows, drop-columns. Got 'zero'." in refusal(empty, impute="zero")


# ---- infinite, constant, unnamed ---------------------------------------------------------------------------------


def test_infinite_cells_are_refused_whatever_is_imputed() -> None:
    x = holed()
    x[9, 1], x[4, 2], x[5, 2] = INF, -INF, INF
    for impute in (None, "mean", "drop-rows"):
        assert refusal(x, impute=impute) == (
            "own.csv must hold finite numbers. Got 3 infinite cells in columns 'dose' (1), 'site' (2), the first at "
            "row 9 of column 'dose'."
        )
    assert "Got 1 infinite cell in columns 0 (1)" in refusal([[INF], [1.0]], None)


def test_constant_columns_are_refused_by_name_or_left_out() -> None:
    x = np.c_[np.arange(4.0), np.full(4, 7.0), np.zeros(4)]
    assert refusal(x) == (
        "Every column of own.csv must vary, or --drop-constant must leave out those that do not. Got constant columns "
        "'dose', 'site'."
    )
    assert refusal(x[:, :2], None).endswith("Got constant column 1.")
    found = prepare(x, NAMES, drop_constant=True)
    np.testing.assert_array_equal(found.x, x[:, :1])
    assert (found.names, found.done) == (("age",), ("Left out 2 constant columns: 'dose', 'site'.",))
    assert refusal(x[:, 1:], None, drop_constant=True) == "Some columns of own.csv must vary. Got 2 constant columns."


def test_a_column_that_no_longer_varies_once_rows_are_left_out_counts_as_constant() -> None:
    x = np.array([[1.0, 5], [2, 5], [NAN, 6]])
    assert "Got constant column 'b'." in refusal(x, ("a", "b"), impute="drop-rows")
    found = prepare(x, ("a", "b"), impute="drop-rows", drop_constant=True)
    assert found.done == (
        "Left out 1 of 3 rows for 1 missing cell: 'a' (1).",
        "Left out 1 constant column: 'b'.",
    )


def test_looking_in_stretches_sees_the_whole_table(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(columns, "CHUNK", 3 * 8)
    whole = prepare(holed(), NAMES, impute="mean")
    assert whole.done == ("Filled 4 missing cells with the mean of their column: 'age' (3), 'dose' (1).",)
    late = np.zeros((50, 1))
    late[-1] = 1  # varies in the last stretch only
    assert prepare(late, None).done == ()


def test_columns_without_a_name_or_with_the_same_are_refused() -> None:
    x = np.random.default_rng(0).normal(size=(4, 3))
    assert refusal(x, ("", "a", "b")) == (
        "Every column of own.csv must have a name. Got none for column 0, an index perhaps; leave it out with --drop 0."
    )
    assert refusal(x, ("a", "b", "a")) == (
        "The columns of own.csv must have different names. Got 'a' for columns 0, 2; leave some out by number with "
        "--drop."
    )


def test_an_index_written_by_pandas_is_found_and_left_out_by_its_number(tmp_path: Path) -> None:
    pd.DataFrame({"a": [1.0, 2, 4], "b": [3.0, 1, 2]}).to_csv(tmp_path / "own.csv")
    with pytest.raises(InputError, match="an index perhaps; leave it out with --drop 0"):
        read_prepared(tmp_path / "own.csv")
    found = read_prepared(tmp_path / "own.csv", drop=[0])
    assert found.names == ("a", "b")
    assert found.done == ("Left out 1 of 3 columns as asked: 0.",)


# ---- choosing ----------------------------------------------------------------------------------------------------


def test_a_name_goes_before_a_number_and_a_shared_name_needs_the_number() -> None:
    assert ColumnChoice(["1"]).of(("a", "b", "1"), 3, "t").tolist() == [2]
    assert ColumnChoice([1]).of(("a", "b"), 2, "t").tolist() == [1]
    with pytest.raises(
        InputError, match=r"Columns to leave out of t must be told apart; use their numbers. Got 'a', which several"
    ):
        ColumnChoice(drop=["a"]).of(("a", "a", "b"), 3, "t")
    assert ColumnChoice(drop=[0]).of(("a", "a", "b"), 3, "t").tolist() == [1, 2]


@pytest.mark.parametrize("label", [-1, 2, "2", "c", "-1", "0.5"])
def test_a_column_that_is_not_there_is_named(label: str | int) -> None:
    with pytest.raises(
        InputError, match=r"Columns to take from t must be names, or numbers from 0 to 1. Got "
    ) as error:
        ColumnChoice([label]).of(None, 2, "t")
    assert str(error.value).endswith(f"{label!r} where there are 2 columns without names.")


def test_words_are_refused_by_name_with_the_option_that_leaves_them_out(tmp_path: Path) -> None:
    frame = pd.DataFrame({"a": [1.0, 2.0], "my batch": ["A", "B"], "when": pd.to_datetime(["2020-01-01"] * 2)})
    frame.to_parquet(tmp_path / "own.parquet")
    frame.to_csv(tmp_path / "own.csv", index=False)
    for ending, where in ((".parquet", ""), (".csv", " on line 2")):
        with pytest.raises(InputError) as error:
            read_prepared(tmp_path / f"own{ending}")
        assert str(error.value) == (
            f"Column 'my batch' of own{ending} must hold numbers only. Got words, such as 'A'{where}; "
            "leave it out with --drop 'my batch'."
        )
    with pytest.raises(
        InputError, match=r"Column 'when' of own.parquet must hold numbers only. Got dates or times; leave"
    ):
        read_prepared(tmp_path / "own.parquet", drop=["my batch"])
    found = read_prepared(tmp_path / "own.parquet", columns=["a"])
    assert isinstance(found, PreparedTable)
    assert found.done == ("Left out 2 of 3 columns as asked: 'my batch', 'when'.",)


def test_words_and_no_rows_in_other_arrays_are_refused(tmp_path: Path) -> None:
    np.save(tmp_path / "own.npy", np.array([["a", "b"]]))
    with pytest.raises(InputError, match=r"own.npy must hold numbers only"):
        read_prepared(tmp_path / "own.npy")
    np.save(tmp_path / "own.npy", np.zeros((0, 2)))
    with pytest.raises(InputError, match=r"^own.npy must have at least 2 rows. Got 0.$"):
        read_prepared(tmp_path / "own.npy")
