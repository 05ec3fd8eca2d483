"""Files as strangers bring them: headers of numbers, indices, codes for missing cells, other signs, other names."""

import gzip
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import sentences

from noumena.checks import InputError
from noumena.data import delimited
from noumena.data.tables import read_prepared, read_table

X = np.random.default_rng(0).normal(size=(20, 3))


def refusal(path: Path, read: Callable[..., Any] = read_prepared, **asked: Any) -> str:
    return sentences.refusal(read, path, **asked)


def put(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


# ---- headers -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("wide", [2, 3, 100])
@pytest.mark.parametrize("first", [0, 1])
def test_numbers_in_order_over_other_numbers_are_a_header(tmp_path: Path, wide: int, first: int) -> None:
    x = np.random.default_rng(0).normal(size=(20, wide))
    pd.DataFrame(x, columns=range(first, first + wide)).to_csv(tmp_path / "wide.csv", index=False)
    table = read_table(tmp_path / "wide.csv")
    np.testing.assert_allclose(table.x, x, rtol=1e-14)
    assert table.names == tuple(str(k) for k in range(first, first + wide))


def test_a_number_is_a_place_and_a_text_first_of_all_a_name(tmp_path: Path) -> None:
    pd.DataFrame(X, columns=[1, 2, 3]).to_csv(tmp_path / "own.csv", index=False)
    assert read_table(tmp_path / "own.csv", columns=[1]).names == ("2",)
    assert read_table(tmp_path / "own.csv", columns=["1"]).names == ("1",)
    assert read_table(tmp_path / "own.csv", drop=[0]).names == ("2", "3")


def test_a_long_count_over_whole_numbers_is_a_header(tmp_path: Path) -> None:
    pixels = np.random.default_rng(0).integers(0, 255, size=(5, 64))
    pd.DataFrame(pixels).to_csv(tmp_path / "digits.csv", index=False)
    np.testing.assert_array_equal(read_table(tmp_path / "digits.csv").x, pixels)


@pytest.mark.parametrize(
    "text",
    [
        "0,1\n1,0\n1,1\n",
        "1,2\n3,4\n",
        "0,1,2,3,4,5,6,7,8\n9,10,11,12,13,14,15,16,17\n",
        "2,1\n0.5,0.25\n",
        "0.0,1.0\n0.5,0.25\n",
        "0\n0.5\n",
        ",1.5\n0.5,0.25\n0.75,1\n",
    ],
)
def test_numbers_that_may_be_data_stay_data(tmp_path: Path, text: str) -> None:
    path = put(tmp_path / "own.csv", text)
    assert read_prepared(path, impute="mean" if text[0] == "," else None).names is None


@pytest.mark.parametrize("columns", [range(3), [400, 410, 420], ["a", "b", "c"]])
def test_the_index_that_pandas_writes_is_known_by_its_empty_name(tmp_path: Path, columns: Any) -> None:
    pd.DataFrame(X, columns=columns).to_csv(tmp_path / "own.csv")
    way_out = "write the file without it, by index=False" if 0 in columns else "leave it out with --drop 0"
    assert refusal(tmp_path / "own.csv") == (
        f"Every column of own.csv must have a name. Got none for column 0, an index perhaps; {way_out}."
    )
    found = read_prepared(tmp_path / "own.csv", drop=[0])
    np.testing.assert_allclose(found.x, X, rtol=1e-14)
    assert found.names == tuple(str(name) for name in columns)


def test_a_table_that_is_only_read_must_name_its_columns_too(tmp_path: Path) -> None:
    pd.DataFrame(X, columns=["a", "b", "c"]).to_csv(tmp_path / "own.csv")
    assert refusal(tmp_path / "own.csv", read_table) == (
        "Every column of own.csv must have a name. Got none for column 0, an index perhaps; write the file without it, "
        "by index=False."
    )
    assert read_table(tmp_path / "own.csv", drop=[0]).names == ("a", "b", "c")


def test_a_header_of_other_numbers_is_said_to_be_data_and_can_be_said_to_be_none(tmp_path: Path) -> None:
    pd.DataFrame(X, columns=[400.5, 410, 420]).to_csv(tmp_path / "own.csv", index=False)
    guessed = read_prepared(tmp_path / "own.csv")
    assert (len(guessed.x), guessed.names) == (21, None)
    assert guessed.done == ("No header: 21 rows, the first line among them.",)
    told = read_prepared(tmp_path / "own.csv", header=True)
    assert (len(told.x), told.names, told.done) == (20, ("400.5", "410.0", "420.0"), ())


def test_a_first_line_is_data_where_that_is_asked_for(tmp_path: Path) -> None:
    pd.DataFrame(X).to_csv(tmp_path / "own.csv", index=False)
    found = read_prepared(tmp_path / "own.csv", header=False)
    assert (len(found.x), found.names, found.done) == (21, None, ())
    np.save(tmp_path / "own.npy", X)
    assert read_prepared(tmp_path / "own.npy").done == ()
    assert refusal(tmp_path / "own.npy", header=True) == (
        "--header, --sep and --decimal must come with a .csv or .tsv file. Got own.npy."
    )
    put(tmp_path / "one.csv", "a,b\n")
    assert refusal(tmp_path / "one.csv", header=True) == "one.csv must have at least 2 rows. Got 0."


# ---- missing -----------------------------------------------------------------------------------------------------


def test_codes_for_missing_cells_are_counted_as_missing_and_told_of(tmp_path: Path) -> None:
    path = put(tmp_path / "own.csv", "a,b,c\n1,?,3\n-999,2,5\n4, ? ,-999.0\n7,1,9\n")
    assert refusal(path) == (
        "Column 'b' of own.csv must hold numbers only. Got words, such as '?' on line 2; leave it out with --drop b, "
        "or count '?' as missing with --missing '?'."
    )
    asked = {"missing": ("?", "-999"), "impute": "mean"}
    found = read_prepared(path, **asked)
    np.testing.assert_array_equal(found.x, [[1, 1.5, 3], [4, 2, 5], [4, 1.5, 17 / 3], [7, 1, 9]])
    assert found.done[0] == "Counted 4 cells as missing: '?', '-999'."
    assert "Got 4 missing cells in 3 of 3 columns: 'a' (1), 'b' (2), 'c' (1)" in refusal(path, missing=("?", "-999"))
    none = read_prepared(put(tmp_path / "two.csv", "a,b\n1,2\n2,3\n"), missing=("?",))
    assert none.done == ("Counted 0 cells as missing: '?'.",)


def test_codes_for_missing_cells_are_found_in_arrays_and_frames(tmp_path: Path) -> None:
    np.save(tmp_path / "own.npy", np.array([[1, -999], [3, 4], [5, 6]]))
    found = read_prepared(tmp_path / "own.npy", missing=("-999",), impute="mean")
    np.testing.assert_array_equal(found.x, [[1, 5], [3, 4], [5, 6]])
    assert found.done[0] == "Counted 1 cell as missing: '-999'."
    pd.DataFrame({"a": ["1", "?", "3"], "b": [1.0, 2, 4]}).to_parquet(tmp_path / "own.parquet")
    found = read_prepared(tmp_path / "own.parquet", missing=("?",), impute="mean")
    np.testing.assert_array_equal(found.x, [[1, 1], [2, 2], [3, 4]])


# ---- other signs, other names ------------------------------------------------------------------------------------


def test_other_signs_between_cells_and_in_numbers_are_read_on_request(tmp_path: Path) -> None:
    path = put(tmp_path / "own.csv", "a;b\n1,5;2\n-2,25;3,75\n")
    assert refusal(path) == (
        "Columns of own.csv must be separated by commas, or as --sep says. Got ';' in the first line."
    )
    assert refusal(path, sep=";") == (
        "Column 'a' of own.csv must hold numbers only. Got words, such as '1,5' on line 2; leave it out with --drop a, "
        "or read its commas as decimal points with --decimal ','."
    )
    np.testing.assert_array_equal(read_prepared(path, sep=";", decimal=",").x, [[1.5, 2], [-2.25, 3.75]])
    tabs = put(tmp_path / "tabs.csv", "a\tb\n1\t2\n3\t5\n")
    np.testing.assert_array_equal(read_prepared(tabs, sep="tab").x, [[1, 2], [3, 5]])
    assert refusal(path, sep=";;") == "--sep must be one character, or tab. Got ';;'."
    assert refusal(path, sep=",", decimal=",") == (
        "--decimal must be a point or a comma, and not the column separator. Got ','."
    )
    assert refusal(path, read_table) == ("Columns of own.csv must be separated by commas. Got ';' in the first line.")


def test_a_header_over_decimal_commas_is_known(tmp_path: Path) -> None:
    path = put(tmp_path / "own.csv", "0;1\n1,5;2\n-2,25;3,75\n")
    assert read_prepared(path, sep=";", decimal=",").names == ("0", "1")


@pytest.mark.parametrize("ending", [".npy", ".npz", ".parquet"])
def test_text_under_another_name_is_named(tmp_path: Path, ending: str) -> None:
    assert refusal(put(tmp_path / f"own{ending}", "a,b\n1,2\n")) == (
        f"own{ending} must be a complete {ending} file of numbers. Got something else; if it is text, rename it .csv."
    )


def test_objects_are_refused_without_advice_to_unpickle_them(tmp_path: Path) -> None:
    np.save(tmp_path / "own.npy", np.array([[{}]], dtype=object), allow_pickle=True)
    assert refusal(tmp_path / "own.npy").endswith("Got pickled Python objects, which are never loaded.")


@pytest.mark.parametrize("encoding", ["latin-1", "utf-16", "utf-16-le"])
def test_text_of_another_encoding_is_named(tmp_path: Path, encoding: str) -> None:
    (tmp_path / "own.csv").write_bytes("größe,b\n1,2\n3,5\n".encode(encoding))
    assert refusal(tmp_path / "own.csv") == (
        "own.csv must be a complete .csv file of numbers. Got text that is not UTF-8; save it as UTF-8."
    )


@pytest.mark.parametrize("name", ["own.csv.gz", "own.TSV.gz"])
def test_packed_text_is_read(tmp_path: Path, name: str) -> None:
    sign = "," if "csv" in name else "\t"
    with gzip.open(tmp_path / name, "wt") as file:
        file.write(f"a{sign}b\n1{sign}2\n3{sign}5\n")
    assert read_prepared(tmp_path / name).names == ("a", "b")
    (tmp_path / name).write_bytes((tmp_path / name).read_bytes()[:-9])
    assert f"{name} must be a complete {name[3:]} file of numbers. Got" in refusal(tmp_path / name)


def test_packed_text_must_not_be_much_larger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with gzip.open(tmp_path / "own.csv.gz", "wt") as file:
        file.write("a,b\n" + "1,2\n" * 1000)
    monkeypatch.setattr(delimited, "MOST_BYTES", 1000)
    assert refusal(tmp_path / "own.csv.gz") == (
        "own.csv.gz must unpack to at most 1000 bytes. Got more; unpack it first."
    )


@pytest.mark.parametrize("name", ["own.xlsx", "own.xls", "own.txt", "own.dat"])
def test_sheets_and_other_text_are_to_be_saved_as_csv(tmp_path: Path, name: str) -> None:
    assert refusal(put(tmp_path / name, "1,2")).endswith(f"Got '{Path(name).suffix}'; save it as .csv.")


def test_a_key_for_a_file_of_one_table_is_refused(tmp_path: Path) -> None:
    assert refusal(put(tmp_path / "own.csv", "a\n1\n2\n"), key="x") == (
        "--key must come with a file that may hold several arrays. Got own.csv."
    )


def test_what_is_no_regular_file_is_called_so() -> None:
    assert refusal(Path("/dev/null")) == "The data must be a regular file. Got /dev/null."


def test_a_word_of_two_lines_is_told_of_in_one(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text('a\n1\n"xx\n1\n"\n')
    with pytest.raises(InputError) as caught:
        read_prepared(tmp_path / "t.csv")
    assert "\n" not in str(caught.value)
    assert "must hold numbers only. Got words, such as 'xx\\n1\\n' on line 5" in str(caught.value)


def test_a_column_whose_name_has_two_lines_is_left_out_by_its_number(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text('"a\nb",c\nword,1\nother,2\n')
    with pytest.raises(InputError, match=r"^Column 'a\\nb' of t.csv must .*; leave it out with --drop 0\.$"):
        read_prepared(tmp_path / "t.csv")
    assert read_prepared(tmp_path / "t.csv", drop=["0"]).names == ("c",)
