"""Users' files come back as they were written, and every bad file is refused in one line."""

from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import sentences

from noumena.data import read_table
from noumena.data.tables import ENDINGS

X = np.random.default_rng(0).normal(size=(20, 3))
NAMES = ("pulse", "voice", "x 3")


refusal = partial(sentences.refusal, read_table)


def write(path: Path, x: np.ndarray = X, names: tuple[str, ...] | None = NAMES) -> Path:
    """Write a table in the format of the path's ending."""
    if path.suffix == ".npy":
        np.save(path, x)
    elif path.suffix == ".npz":
        np.savez(path, x)
    elif path.suffix == ".csv":
        pd.DataFrame(x, columns=names).to_csv(path, index=False, header=names is not None)
    else:
        pd.DataFrame(x, columns=names).to_parquet(path)
    return path


# ---- round trips ---------------------------------------------------------------------------------------------


def test_whole_numbers_become_numbers(tmp_path: Path) -> None:
    whole = np.arange(6).reshape(3, 2)
    for ending in (".npy", ".npz"):
        np.testing.assert_array_equal(read_table(write(tmp_path / f"data{ending}", whole)).x, whole)


def test_the_ending_may_be_in_capitals(tmp_path: Path) -> None:
    write(tmp_path / "data.npy").rename(tmp_path / "data.NPY")
    np.testing.assert_array_equal(read_table(tmp_path / "data.NPY").x, X)


def test_a_key_chooses_among_several_arrays(tmp_path: Path) -> None:
    np.savez(tmp_path / "data.npz", first=X, second=2 * X)
    np.testing.assert_array_equal(read_table(tmp_path / "data.npz", key="second").x, 2 * X)
    np.testing.assert_array_equal(read_table(tmp_path / "data.npz", key="first").x, X)


@pytest.mark.parametrize(
    ("text", "shape", "names"),
    [
        ("1,2\n3,4\n", (2, 2), None),
        ("a,b\n3,4\n", (1, 2), ("a", "b")),
        ("a,2\n3,4\n", (1, 2), ("a", "2")),
        ("-1.5e3,+2\n3,4\n", (2, 2), None),
        ("1\n2\n3\n", (3, 1), None),
        ("1,2\r\n3,4\r\n", (2, 2), None),
        ("a,b\r\n3,4\r\n", (1, 2), ("a", "b")),
        ("1,2\n3,4", (2, 2), None),
        ("1,2\n\n3,4\n\n", (2, 2), None),
        ("a,b\n 3, 4\n", (1, 2), ("a", "b")),
    ],
)
def test_a_first_line_of_numbers_is_data_and_any_other_a_header(
    tmp_path: Path, text: str, shape: tuple[int, int], names: tuple[str, ...] | None
) -> None:
    (tmp_path / "data.csv").write_bytes(text.encode())
    table = read_table(tmp_path / "data.csv")
    assert table.x.shape == shape
    assert table.names == names
    np.testing.assert_array_equal(table.x[-1, -1], float(text.strip().splitlines()[-1].split(",")[-1]))


# ---- refusals ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("ending", [".npy", ".npz", ".csv", ".parquet"])
@pytest.mark.parametrize(("bad", "words"), [(np.nan, "1 NaN and 0 inf"), (np.inf, "0 NaN and 1 inf")])
def test_entries_that_are_not_finite_are_refused_with_their_place(
    tmp_path: Path, ending: str, bad: float, words: str
) -> None:
    x = X.copy()
    x[4, 2] = bad
    text = refusal(write(tmp_path / f"data{ending}", x))
    assert text == f"data{ending} must be finite. Got {words} entries, the first at row 4, column 2."


@pytest.mark.parametrize("ending", [".npy", ".npz"])
@pytest.mark.parametrize("shape", [(), (20,), (4, 5, 3)])
def test_arrays_without_two_axes_are_refused(tmp_path: Path, ending: str, shape: tuple[int, ...]) -> None:
    text = refusal(write(tmp_path / f"data{ending}", np.ones(shape)))
    assert text.startswith(f"data{ending} must have two axes, (batch, dim). Got shape {shape}.")


@pytest.mark.parametrize("ending", [".npy", ".npz", ".csv", ".parquet"])
def test_tables_without_rows_are_refused(tmp_path: Path, ending: str) -> None:
    assert "must have at least 1 row. Got 0." in refusal(write(tmp_path / f"data{ending}", X[:0]))


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("a,b\n1,2\n3\n", "Every line of data.csv must have 2 cells. Got 1 on line 3."),
        ("a,b\n1,2,3\n", "Every line of data.csv must have 2 cells. Got 3 on line 2."),
        ("1,2\n3,4,5\n", "Every line of data.csv must have 2 cells. Got 3 on line 2."),
        ("a,b\n1,two\n", "Column 'b' of data.csv must hold numbers only. Got words, such as 'two' on line 2."),
        ("a,b\n2020-01-01,2\n", "Column 'a' of data.csv must hold numbers only. Got words, such as '2020-01-01'"),
        ("A,1\nB,2\n", "Column 0 of data.csv must hold numbers only. Got words, such as 'A' on line 1."),
        ("a,b\n1_2,2\n", "Column 'a' of data.csv must hold numbers only. Got words, such as '1_2' on line 2."),
        ("1,2\n3,\n", "data.csv must be finite. Got 1 NaN and 0 inf entries, the first at row 1, column 1."),
        ("a;b\n1;2\n", "Columns of data.csv must be separated by commas. Got ';' in the first line."),
        ("a\tb\n1\t2\n", "Columns of data.csv must be separated by commas. Got a tab in the first line."),
        ("a,b\n", "data.csv must have at least 1 row. Got 0."),
        ('a,b\n1,"2\n', "data.csv must be a complete .csv file of numbers."),
    ],
)
def test_bad_csv_files_are_refused(tmp_path: Path, text: str, sentence: str) -> None:
    (tmp_path / "data.csv").write_text(text)
    assert sentence in refusal(tmp_path / "data.csv")


def test_a_csv_file_that_is_no_text_is_refused(tmp_path: Path) -> None:
    (tmp_path / "data.csv").write_bytes(b"\xff\xfe\x00a,\x80\n1,2\n")
    assert "data.csv must be a complete .csv file of numbers." in refusal(tmp_path / "data.csv")


@pytest.mark.parametrize(
    "columns",
    [
        {"a": ["x", "y"]},
        {"a": [1.0, 2.0], "b": pd.to_datetime(["2020-01-01", "2020-01-02"])},
        {"a": pd.to_datetime(["2020-01-01", "2020-01-02"])},
        {"a": [[1, 2], [3]]},
    ],
)
def test_parquet_columns_that_are_no_numbers_are_refused(tmp_path: Path, columns: dict) -> None:
    pd.DataFrame(columns).to_parquet(tmp_path / "data.parquet")
    assert " of data.parquet must hold numbers only. Got " in refusal(tmp_path / "data.parquet")


def test_missing_files_folders_and_unknown_endings_are_refused(tmp_path: Path) -> None:
    assert refusal(tmp_path / "nowhere.csv") == f"The data file must exist. Got {tmp_path / 'nowhere.csv'}."
    (tmp_path / "folder.csv").mkdir()
    assert refusal(tmp_path / "folder.csv") == f"The data must be a file. Got the folder {tmp_path / 'folder.csv'}."
    for name, ending in (("data.txt", "'.txt'; save it as .csv"), ("data.pkl", "'.pkl'"), ("data", "''")):
        (tmp_path / name).write_text("1,2\n")
        expected = f"The ending of {name} must be one of {', '.join(ENDINGS)}. Got {ending}."
        assert refusal(tmp_path / name) == expected


def test_several_arrays_need_a_key_that_names_one(tmp_path: Path) -> None:
    path = tmp_path / "data.npz"
    np.savez(path, first=X, second=X)
    assert (
        refusal(path) == "data.npz must hold one array, or --key must name one. Got arrays first, second and key None."
    )
    assert "and key third." in refusal(path, key="third")
    np.savez(path, first=X)
    assert "third" in refusal(path, key="third")
    np.savez(path)
    assert "Got arrays none and key None." in refusal(path)


def test_a_reader_that_complains_in_several_lines_is_cut_to_the_first(tmp_path: Path) -> None:
    np.save(tmp_path / "data.npy", np.zeros(1, dtype=[(f"field {i}", "f8") for i in range(1000)]))
    with pytest.raises(ValueError, match="\n"):
        np.load(tmp_path / "data.npy")
    assert "data.npy must be a complete .npy file of numbers. Got: " in refusal(tmp_path / "data.npy")


# ---- words -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "names", "rows"),
    [
        ("shape,size\ncube,1\nball,2\n", ("shape", "size"), [["cube", "1"], ["ball", "2"]]),
        ("cube,1\nball,2\n", None, [["cube", "1"], ["ball", "2"]]),
        ("shape,kind\ncube,a\nball,b\n", ("shape", "kind"), [["cube", "a"], ["ball", "b"]]),
        ("cube,a\nball,b\ncube,b\n", None, [["cube", "a"], ["ball", "b"], ["cube", "b"]]),
        ("u,v\n1,2\n3,4\n", ("u", "v"), [[1.0, 2.0], [3.0, 4.0]]),
        ("1,2\n3,4\n", None, [[1.0, 2.0], [3.0, 4.0]]),
    ],
)
def test_words_are_kept_on_request(tmp_path: Path, content: str, names: tuple | None, rows: list) -> None:
    (tmp_path / "t.csv").write_text(content)
    table = read_table(tmp_path / "t.csv", words=True)
    assert table.names == names
    assert table.x.tolist() == rows


def test_words_are_kept_in_parquet_and_arrays(tmp_path: Path) -> None:
    frame = pd.DataFrame({"shape": ["cube", "ball"], "size": [1.0, 2.0]})
    frame.to_parquet(tmp_path / "t.parquet")
    assert read_table(tmp_path / "t.parquet", words=True).x.tolist() == [["cube", 1.0], ["ball", 2.0]]
    np.save(tmp_path / "t.npy", np.array([["cube"], ["ball"]]))
    assert read_table(tmp_path / "t.npy", words=True).x.tolist() == [["cube"], ["ball"]]


def test_missing_cells_and_flat_words_are_refused(tmp_path: Path) -> None:
    (tmp_path / "hole.csv").write_text("shape,size\ncube,1\n,2\n")
    assert "must be filled" in refusal(tmp_path / "hole.csv", words=True)
    np.save(tmp_path / "flat.npy", np.array(["cube", "ball"]))
    assert "two axes" in refusal(tmp_path / "flat.npy", words=True)
    assert "complete .npz file of numbers and words" in refusal(write_garbage(tmp_path / "bad.npz"), words=True)


def write_garbage(path: Path) -> Path:
    path.write_bytes(b"PK\x03\x04 and no more")
    return path
