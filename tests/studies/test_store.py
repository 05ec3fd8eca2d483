"""The store of rows: nothing is lost or counted twice, whatever is torn, killed, full, or written at once."""

import errno
import json
import os
import threading
import time
import zlib
from multiprocessing import get_context
from pathlib import Path

import pytest

from noumena.studies import rows as tables
from noumena.studies import store as stores
from noumena.studies.rows import read
from noumena.studies.store import CellRecord, Store


def record(k: int, *, code: str = "v1", value: float | None = None, failed: bool = False) -> CellRecord:
    row = {"k": k, "error": "ValueError: no"} if failed else {"k": k, "value": k * 0.1 if value is None else value}
    return CellRecord(f"c{k}", code, [row], {"cell seconds": 0.5}, failed)


def written(folder: Path, *records: CellRecord) -> Path:
    """A journal with these records, as a run that died leaves it."""
    with Store(folder).journal() as journal:
        journal.append(*records)
    return journal.path


def found(store: Store) -> list[tuple[int, float]]:
    return [(row["k"], row.get("value")) for row in store.rows()]


# ---- append, settle, merge -----------------------------------------------------------------------------------------


def test_a_cell_is_there_as_soon_as_it_is_appended_and_once_only_after_it_is_settled(tmp_path):
    store = Store(tmp_path / "a" / "b")
    with store.journal() as journal:
        journal.append(record(1))
        assert found(store) == [(1, 0.1)]
        assert store.finished() == {"c1"}
        store.settle()
        assert not store.path.exists(), "a journal whose writer is alive must not be folded"
        journal.append(record(2))
    store.settle()
    store.settle()
    assert found(store) == [(1, 0.1), (2, 0.2)]
    assert [row["k"] for row in read(store.path)] == [1, 2]
    assert list(store.journals.iterdir()) == []


def test_a_journal_without_cells_leaves_no_file(tmp_path):
    written(tmp_path)
    assert list((tmp_path / "journal").iterdir()) == []
    Store(tmp_path).settle()
    assert not (tmp_path / "rows.csv").exists()


def test_rows_of_a_cell_stay_together_and_its_facts_stand_with_the_first(tmp_path):
    several = CellRecord("c1", "v1", [{"k": 1, "m": 0}, {"k": 1, "m": 1}], {"cell seconds": 0.5, "peak MB": 7})
    written(tmp_path, several)
    Store(tmp_path).settle()
    first, second = read(tmp_path / "rows.csv")
    assert (first["m"], first["cell"], first["code"], first["peak MB"]) == (0, "c1", "v1", 7)
    assert (second["m"], second["cell"], second["code"], second["peak MB"]) == (1, "c1", "v1", None)


def test_a_cell_without_rows_is_no_obstacle(tmp_path):
    for _ in range(2):
        written(tmp_path, CellRecord("c1", "v1", []), record(2))
    Store(tmp_path).settle()
    assert found(Store(tmp_path)) == [(2, 0.2)]


def test_a_failure_gives_way_to_a_success_and_never_the_other_way_round(tmp_path):
    store = Store(tmp_path)
    written(tmp_path, record(1, failed=True))
    assert (store.finished(), store.known()) == (set(), {"c1": True})
    store.settle()
    assert (store.finished(), store.known()) == (set(), {"c1": True})
    written(tmp_path, record(1))
    assert found(store) == [(1, 0.1)]
    store.settle()
    assert read(store.path)[0].get("error") is None
    written(tmp_path, record(1, failed=True, code="v2"))
    assert store.finished() == {"c1"}
    store.settle()
    assert (found(store), store.finished()) == ([(1, 0.1)], {"c1"})


def test_the_last_of_two_failures_is_kept(tmp_path):
    written(tmp_path, CellRecord("c1", "v1", [{"error": "first"}], failed=True))
    Store(tmp_path).settle()
    written(tmp_path, CellRecord("c1", "v2", [{"error": "second"}], failed=True))
    Store(tmp_path).settle()
    assert [(row["error"], row["code"]) for row in Store(tmp_path).rows()] == [("second", "v2")]


@pytest.mark.parametrize("code", ["v1", "v2"])
def test_a_cell_that_was_computed_again_replaces_the_old_one_in_its_place(tmp_path, code):
    store = Store(tmp_path)
    written(tmp_path, record(1), record(2))
    store.settle()
    written(tmp_path, record(1, code=code, value=9.0))
    assert store.finished() == {"c1", "c2"}
    store.settle()
    assert found(store) == [(1, 9.0), (2, 0.2)]
    assert [row["code"] for row in store.rows()] == [code, "v1"]
    assert store.finished() == {"c1", "c2"}


@pytest.mark.parametrize("text", ["a\rb", "a\r\nb", "a\nb,c", 'quote " end', "half \udc80 character", "ä – é", "\x00"])
def test_an_error_of_any_characters_is_settled_and_read_back(tmp_path, text):
    store = Store(tmp_path)
    written(tmp_path, CellRecord("c1", "v1", [{"k": 1, "error": text}], failed=True), record(2))
    store.settle()
    rows = store.rows()
    assert [row["k"] for row in rows] == [1, 2]
    assert rows[0]["error"] == text.replace("\r\n", "\n").replace("\r", "\n").replace("\udc80", "\\udc80")
    assert store.known() == {"c1": True, "c2": False}


def test_rows_that_were_committed_before_there_were_cells_stay(tmp_path):
    (tmp_path / "rows.csv").write_text("k,value\n1,0.5\n1,0.5\n\n")
    store = Store(tmp_path)
    assert store.finished() == set()
    written(tmp_path, record(2))
    store.settle()
    assert found(store) == [(1, 0.5), (1, 0.5), (2, 0.2)]


def test_a_table_without_versions_is_read(tmp_path):
    (tmp_path / "rows.csv").write_text("k,cell\n1,c1\n\n2,\n")
    assert Store(tmp_path).finished() == {"c1"}


# ---- what is torn --------------------------------------------------------------------------------------------------


def test_a_journal_cut_at_any_byte_of_its_last_line_loses_that_cell_alone(tmp_path):
    whole = written(tmp_path / "whole", record(1), record(2)).read_bytes()
    start = whole.index(b"\n") + 1
    for cut in range(start, len(whole) + 1):
        folder = tmp_path / f"cut{cut}"
        (folder / "journal").mkdir(parents=True)
        (folder / "journal" / "dead.jsonl").write_bytes(whole[:cut])
        store = Store(folder)
        expected = [(1, 0.1)] + ([(2, 0.2)] if cut >= len(whole) - 1 else [])  # the line's end may be missing
        assert found(store) == expected
        if cut % 10 == 0 or cut >= len(whole) - 2:
            store.settle()
            assert found(store) == expected
            written(folder, record(2))
            store.settle()
            assert found(store) == [(1, 0.1), (2, 0.2)]


@pytest.mark.parametrize(
    "garbage", [b"\n", b"\x00" * 700 + b"\n", b"{}\t00000000\n", b"\xff\xfe\n", b"plain words\n", b"\t\n", b"{\n"]
)
def test_garbage_in_the_middle_of_a_journal_is_passed_over(tmp_path, garbage):
    path = written(tmp_path, record(1), record(2))
    first, second = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(first + garbage + second)
    assert found(Store(tmp_path)) == [(1, 0.1), (2, 0.2)]


def test_a_changed_digit_in_a_journal_is_not_believed(tmp_path):
    path = written(tmp_path, record(1), record(2))
    path.write_bytes(path.read_bytes().replace(b"0.1", b"0.9"))
    assert found(Store(tmp_path)) == [(2, 0.2)]


# ---- crashes -------------------------------------------------------------------------------------------------------


class PowerCutError(BaseException):
    """Nothing in the library may catch this."""


def test_a_crash_between_the_new_table_and_the_end_of_its_journal_duplicates_nothing(tmp_path, monkeypatch):
    store = Store(tmp_path)
    journal = written(tmp_path, record(1), record(2))

    def cut(self, missing_ok=False):
        raise PowerCutError

    with monkeypatch.context() as broken:
        broken.setattr(Path, "unlink", cut)
        with pytest.raises(PowerCutError):
            store.settle()
    assert journal.exists()
    assert len(read(store.path)) == 2
    assert found(store) == [(1, 0.1), (2, 0.2)]
    store.settle()
    assert found(store) == [(1, 0.1), (2, 0.2)]
    assert len(read(store.path)) == 2
    assert not journal.exists()


def full(*_):
    raise OSError(errno.ENOSPC, "No space left on device")


@pytest.mark.parametrize("name", ["fsync", "replace"])
def test_a_full_disk_leaves_the_old_table_and_the_journal(tmp_path, monkeypatch, name):
    store = Store(tmp_path)
    written(tmp_path, record(1))
    store.settle()
    before = store.path.read_bytes()
    journal = written(tmp_path, record(2))
    with monkeypatch.context() as broken:
        broken.setattr(*((tables.os, "fsync") if name == "fsync" else (Path, "replace")), full)
        with pytest.raises(OSError, match="No space"):
            store.settle()
    assert store.path.read_bytes() == before
    assert journal.exists()
    assert found(store) == [(1, 0.1), (2, 0.2)]
    assert not list(tmp_path.glob(".rows.csv.*")), "a table that was not finished must not stay"
    store.settle()
    assert [row["k"] for row in read(store.path)] == [1, 2]


def test_a_cell_that_could_not_be_forced_to_the_disk_is_an_error(tmp_path, monkeypatch):
    with Store(tmp_path).journal() as journal, monkeypatch.context() as broken:
        broken.setattr(os, "fsync", full)
        with pytest.raises(OSError, match="No space"):
            journal.append(record(1))


def test_what_a_killed_writer_had_begun_is_thrown_away(tmp_path):
    written(tmp_path, record(1))
    (tmp_path / ".rows.csv.123.part").write_text("k,va")
    Store(tmp_path).settle()
    assert not list(tmp_path.glob(".rows.csv.*"))
    assert found(Store(tmp_path)) == [(1, 0.1)]


# ---- at once -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("reader", ["read", "_scanned"])
def test_a_journal_that_is_folded_while_others_read_is_seen(tmp_path, monkeypatch, reader):
    """The table is read last: what left the journals by then is in it."""
    written(tmp_path, record(1))
    whole = getattr(stores, reader)

    def folded_after_reading(path):
        rows = list(whole(path))
        monkeypatch.setattr(stores, reader, whole)
        Store(tmp_path).settle()
        return rows

    monkeypatch.setattr(stores, reader, folded_after_reading)
    store = Store(tmp_path)
    assert (found(store) == [(1, 0.1)]) if reader == "read" else (store.finished() == {"c1"})
    assert len(read(store.path)) == 1


def test_a_journal_is_not_folded_before_its_writer_holds_its_lock(tmp_path, monkeypatch):
    store, lock, others = Store(tmp_path), stores.fcntl.flock, []

    def late(file, kind):
        if str(file.name).endswith(".jsonl") and not others:
            others.append(threading.Thread(target=Store(tmp_path).settle))
            others[0].start()
            others[0].join(0.3)
        lock(file, kind)

    monkeypatch.setattr(stores.fcntl, "flock", late)
    with store.journal() as journal:
        journal.append(record(1))
        assert journal.path.exists()
    others[0].join(10)
    assert found(store) == [(1, 0.1)]


def writes(folder: Path, first: int) -> None:
    store = Store(folder)
    for k in range(first, first + 60):
        with store.journal() as journal:
            journal.append(record(k))
            journal.append(record(k + 1000))
        if k % 20 == 0:
            store.settle()


def settles(folder: Path) -> None:
    while not (folder / "over").exists():
        Store(folder).settle()
        time.sleep(0.001)


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_two_writers_and_a_settler_at_once_lose_and_double_nothing(tmp_path):
    fork = get_context("fork")
    writers = [fork.Process(target=writes, args=(tmp_path, first)) for first in (0, 40)]  # 20 cells by both
    settler = fork.Process(target=settles, args=(tmp_path,))
    for process in (*writers, settler):
        process.start()
    for writer in writers:
        writer.join(60)
    (tmp_path / "over").touch()
    settler.join(60)
    assert [process.exitcode for process in (*writers, settler)] == [0, 0, 0]
    store = Store(tmp_path)
    expected = sorted([*range(100), *range(1000, 1100)])
    assert sorted(row["k"] for row in store.rows()) == expected
    store.settle()
    assert sorted(row["k"] for row in read(store.path)) == expected
    assert list(store.journals.iterdir()) == []


# ---- two machines --------------------------------------------------------------------------------------------------


def test_rows_of_two_machines_merge_whether_apart_overlapping_or_failed(tmp_path):
    here, there = tmp_path / "here", tmp_path / "there"
    written(here, record(1), record(2, failed=True), record(3))
    Store(here).settle()
    written(there, record(2, value=7.0), record(3, value=8.0), record(4, failed=True))
    Store(there).settle()
    written(there, record(5))  # not settled yet
    ours = Store(here)
    assert ours.merge(there) == 2
    assert found(ours) == [(1, 0.1), (2, 7.0), (3, pytest.approx(0.3)), (5, 0.5)]
    assert ours.finished() == {"c1", "c2", "c3", "c5"}
    assert read(ours.path)[1]["cell seconds"] == 0.5
    assert ours.merge(there) == 0
    assert len(read(ours.path)) == 4


def test_rows_merge_into_a_folder_that_is_not_there_yet(tmp_path):
    written(tmp_path / "there", record(1), record(2))
    ours = Store(tmp_path / "new" / "here")
    assert ours.merge(tmp_path / "there") == 2
    assert found(ours) == [(1, 0.1), (2, 0.2)]


def test_a_journal_copied_from_elsewhere_is_folded(tmp_path):
    journal = written(tmp_path / "there", record(1))
    written(tmp_path / "here", record(2))
    Store(tmp_path / "here").settle()
    (tmp_path / "here" / "journal" / journal.name).write_bytes(journal.read_bytes())
    Store(tmp_path / "here").settle()
    assert sorted(found(Store(tmp_path / "here"))) == [(1, 0.1), (2, 0.2)]


def test_numbers_survive_the_journal_and_the_table_to_the_last_digit(tmp_path):
    values = {"a": 0.1 + 0.2, "b": 1e-300, "c": 12345678901234567890, "d": True, "e": None, "f": "words", "g": -0.0}
    path = written(tmp_path, CellRecord("c1", "v1", [values]))
    assert json.loads(path.read_bytes().rpartition(b"\t")[0])["rows"] == [values]
    Store(tmp_path).settle()
    row = read(tmp_path / "rows.csv")[0]
    assert {name: row[name] for name in values} == values
    assert str(row["g"]) == "-0.0"


def test_a_whole_line_that_is_no_record_is_left_out(tmp_path):
    store = Store(tmp_path)
    with store.journal() as journal:
        journal.append(CellRecord("c1", "v1", [{"d": 1}]))
    (path,) = (tmp_path / "journal").glob("*.jsonl")
    for text in (b'{"cell": "c2"}', b"[1]", b"not json"):
        path.write_bytes(path.read_bytes() + text + b"\t%08x\n" % zlib.crc32(text))
    assert store.finished() == {"c1"}
