"""Rows of studies: written at once, read as they were written, matched and averaged."""

import csv
import re

import pytest

from noumena.checks import InputError
from noumena.studies import rows
from noumena.studies.claims import committed
from noumena.studies.rows import matching, published, read, spread, text_table, values, write


def test_a_write_that_breaks_leaves_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "rows.csv"
    write([{"a": 1}], path)
    monkeypatch.setattr(rows.os, "fsync", lambda _: (_ for _ in ()).throw(OSError("disk full")))
    with pytest.raises(OSError, match="disk full"):
        write([{"a": 2}], path)
    assert read(path) == [{"a": 1}]


def test_the_file_itself_is_never_written_into_but_replaced(tmp_path):
    path = tmp_path / "rows.csv"
    write([{"a": 1}], path)
    reader = path.open()  # someone who has the old file open goes on reading the old file
    write([{"a": 2}], path)
    with reader:
        assert reader.read() == "a\n1\n"
    assert read(path) == [{"a": 2}]
    assert [p.name for p in tmp_path.iterdir()] == ["rows.csv"]


def test_values_come_back_as_they_went(tmp_path):
    row = {"i": 3, "f": 0.1 + 0.2, "none": None, "yes": True, "no": False, "word": "none", "comma": 'a, "b"\nc'}
    write([row, {"late": 1.0}], tmp_path / "rows.csv")
    back = read(tmp_path / "rows.csv")
    assert back[0] == {**row, "late": None}
    assert isinstance(back[1]["late"], float)
    with (tmp_path / "rows.csv").open() as file:
        assert next(csv.reader(file)) == [*row, "late"]


def test_rows_match_by_value_and_without_error():
    found = [{"d": 3, "m": "a"}, {"d": 3, "m": "b"}, {"d": 3, "m": "a", "error": "lost"}]
    assert matching(found, d=3, m="a") == [{"d": 3, "m": "a"}]


def test_the_spread_is_that_of_a_sample():
    assert spread([{"v": 1.0}, {"v": 2.0}, {"v": 3.0}, {}], "v") == "2.000 ± 1.000 (3)"
    assert spread([{"v": 1.0}], "v") == "1.000 (1)"
    assert spread([], "v") == "–"


def test_the_numbers_of_a_column_are_those_that_are_there():
    assert values([{"v": 1}, {"v": None}, {}, {"v": 0.5}], "v") == (1.0, 0.5)


def test_published_figures_are_rounded_alike():
    assert published((0.8048, 0.008)) == "0.805 ± 0.008"
    assert published(None) == "–"


def test_columns_of_a_table_are_aligned():
    assert text_table(["a", "bb"], [["long", "1"], ["x", "2"]]) == "a     bb\nlong  1\nx     2"


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"a,b\n1\n", "Every line of rows.csv must have as many cells as the first. Got line 2."),
        (b"a,b\n1,2,3\n", "Every line of rows.csv must have as many cells as the first. Got line 2."),
        (b"a\n\xff\n", "rows.csv must be a complete table. Got: 'utf-8' codec can't decode"),
    ],
)
def test_a_damaged_table_is_one_sentence(tmp_path, content, sentence):
    (tmp_path / "rows.csv").write_bytes(content)
    with pytest.raises(InputError, match=re.escape(sentence)):
        read(tmp_path / "rows.csv")
    with pytest.raises(InputError, match=re.escape(sentence)):
        committed(tmp_path / "rows.csv")
