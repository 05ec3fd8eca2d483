"""Rows of studies: written as cells finish, resumed by their parameters, failures kept apart."""

import csv
import os
import sys

import pytest

from noumena.checks import InputError
from noumena.studies import rows
from noumena.studies.rows import command, matching, published, read, run, spread, text_table, write

CELLS = [{"d": d, "law": law} for d in (1, 2) for law in ("a", "b")]


def square(d, law):
    return {"value": d * d, "process": os.getpid()}


def never(d, law):
    raise AssertionError("a finished cell must not run again")


def twice(d, law):
    return [{"k": k, "value": d * k} for k in (1, 2)]


def fragile(d, law):
    if law == "b":
        raise ValueError(f"no b, {d}")
    return {"value": d}


def test_every_cell_leaves_its_row_beside_its_parameters(tmp_path):
    found = run(CELLS, square, tmp_path / "new" / "rows.csv")
    assert [(r["d"], r["law"], r["value"]) for r in found] == [(1, "a", 1), (1, "b", 1), (2, "a", 4), (2, "b", 4)]
    assert read(tmp_path / "new" / "rows.csv") == found


def test_a_cell_may_leave_several_rows_and_counts_its_seconds_once(tmp_path):
    found = run(CELLS[:1], twice, tmp_path / "rows.csv")
    assert [(r["k"], r["value"]) for r in found] == [(1, 1), (2, 2)]
    assert found[0]["cell seconds"] >= 0
    assert found[1]["cell seconds"] is None


def test_finished_cells_are_not_run_again(tmp_path):
    first = run(CELLS, square, tmp_path / "rows.csv")
    assert run(CELLS, never, tmp_path / "rows.csv") == first


def test_only_what_is_missing_is_run_and_other_rows_stay(tmp_path):
    run(CELLS[:2], square, tmp_path / "rows.csv")
    found = run(CELLS[1:3], twice, tmp_path / "rows.csv")
    assert [(r["d"], r["law"], r["k"]) for r in found] == [(1, "b", None), (2, "a", 1), (2, "a", 2)]
    assert len(read(tmp_path / "rows.csv")) == 4


def test_a_cell_is_known_by_all_its_parameters(tmp_path):
    run([{"d": 1, "law": "a"}], square, tmp_path / "rows.csv")
    assert len(run([{"d": 1, "law": "c"}], square, tmp_path / "rows.csv")) == 1
    assert len(read(tmp_path / "rows.csv")) == 2


def test_cells_finished_elsewhere_are_copied_and_not_run(tmp_path):
    run(CELLS[:3], square, tmp_path / "old.csv")
    found = run(CELLS[:2], never, tmp_path / "rows.csv", known=[tmp_path / "old.csv", tmp_path / "absent.csv"])
    assert [r["value"] for r in found] == [1, 1]
    assert read(tmp_path / "rows.csv") == found
    assert run(CELLS[:2], never, tmp_path / "rows.csv", known=[tmp_path / "old.csv"]) == found


def test_failed_cells_of_elsewhere_are_not_copied(tmp_path):
    run(CELLS, fragile, tmp_path / "old.csv")
    found = run(CELLS, square, tmp_path / "rows.csv", known=[tmp_path / "old.csv"])
    assert [r.get("error") for r in found] == [None] * 4


def test_a_failing_cell_is_recorded_and_does_not_stop_the_rest(tmp_path):
    found = run(CELLS, fragile, tmp_path / "rows.csv")
    assert [r["error"] for r in found] == [None, "ValueError: no b, 1", None, "ValueError: no b, 2"]
    assert [r["value"] for r in found] == [1, None, 2, None]


def test_a_failed_cell_is_tried_again_and_its_error_goes(tmp_path):
    run(CELLS, fragile, tmp_path / "rows.csv")
    found = run(CELLS, square, tmp_path / "rows.csv")
    assert sorted((r["d"], r["law"], r["value"]) for r in found) == [(1, "a", 1), (1, "b", 1), (2, "a", 2), (2, "b", 4)]
    assert all(r["error"] is None for r in found)


def test_rows_are_on_disk_before_the_next_cell_starts(tmp_path):
    path = tmp_path / "rows.csv"

    def looks(d, law):
        return {"before": len(read(path))}

    assert [r["before"] for r in run(CELLS, looks, path)] == [0, 1, 2, 3]


def test_a_write_that_breaks_leaves_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "rows.csv"
    write([{"a": 1}], path)
    monkeypatch.setattr(rows.Path, "write_text", lambda self, text: (_ for _ in ()).throw(OSError("disk full")))
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


def test_two_processes_give_the_rows_of_one(tmp_path):
    found = run(CELLS, square, tmp_path / "rows.csv", jobs=2)
    assert sorted((r["d"], r["law"], r["value"]) for r in found) == [(1, "a", 1), (1, "b", 1), (2, "a", 4), (2, "b", 4)]
    assert os.getpid() not in {r["process"] for r in found}


def test_a_cell_has_one_thread(tmp_path):
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        found = run([{"d": 1}], lambda d: {"threads": torch.get_num_threads()}, tmp_path / "rows.csv")
        assert found[0]["threads"] == 1
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)


def test_the_number_of_jobs_must_be_a_count(tmp_path):
    with pytest.raises(InputError, match="jobs must be a whole number"):
        run(CELLS, square, tmp_path / "rows.csv", jobs=0)


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


def test_published_figures_are_rounded_alike():
    assert published((0.8048, 0.008)) == "0.805 ± 0.008"
    assert published(None) == "–"


def test_columns_of_a_table_are_aligned():
    assert text_table(["a", "bb"], [["long", "1"], ["x", "2"]]) == "a     bb\nlong  1\nx     2"


def test_a_study_runs_from_the_command_line(tmp_path, monkeypatch, capsys):
    study = tmp_path / "little_study.py"
    study.write_text(
        '"""A little study."""\nKNOWN = ("other",)\n'
        "def cells():\n    return [{'d': 1}, {'d': 2}, {'d': 3}]\n"
        "def cell(d):\n    return {'value': 1 / (d - 2)}\n"
        "def compare(rows):\n    return f'compared {sorted(r[\"d\"] for r in rows)}'\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "other").mkdir()
    write([{"d": 3, "value": 7.0}], tmp_path / "other" / "rows.csv")
    out = tmp_path / "little" / "rows.csv"
    monkeypatch.setattr(sys, "argv", ["little_study", "--jobs", "1", "--out", str(out)])
    command("little_study")
    said = capsys.readouterr().out
    assert "compared [1, 2, 3]" in said
    assert "3 rows, 1 failed" in said
    assert {r["d"]: r["value"] for r in read(out)} == {3: 7.0, 1: -1.0, 2: None}
