"""Faults of studies and audits, for ``faults.py``: what becomes of rows, journals and verdicts."""

import itertools
import random
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from children import Counts, cut, ended, in_a_child, killed

import noumena as nm
from noumena.checks import InputError
from noumena.cli.folders import write_json
from noumena.studies.store import CellRecord, Store


def _records(first: int, count: int) -> list[CellRecord]:
    return [CellRecord(f"c{k}", "v", [{"seed": k, "value": k**0.5}]) for k in range(first, first + count)]


def _rows_of(store: Store) -> dict[str, float]:
    found = store.rows()
    assert len({row["cell"] for row in found}) == len(found), "a cell that counts twice"
    return {row["cell"]: row["value"] for row in found}


def _right(rows: dict[str, float]) -> bool:
    """Whether every row has the number that was put in."""
    return all(value == int(cell[1:]) ** 0.5 for cell, value in rows.items())


def kill_while_settling(folder: Path, tries: int) -> Counts:
    """A runner is killed while it appends and settles rows; every row that it said was on the disk is there, once."""
    survived = 0
    for k in range(tries):
        store, said = Store(folder / f"{k}"), folder / f"{k}.said"
        counter = itertools.count(0, 5)

        def run(store: Store = store, said: Path = said, counter: Any = counter) -> None:
            first = next(counter)
            with store.journal() as journal:
                journal.append(*_records(first, 5))
            with said.open("a") as file:
                file.write(f"{first + 5}\n")
            store.settle()

        said.touch()
        killed(run, random.Random(k).uniform(0.01, 0.3))
        store.settle()
        wanted = max((int(line) for line in said.read_text().split()), default=0)
        rows = _rows_of(store)
        survived += _right(rows) and {f"c{i}" for i in range(wanted)} <= rows.keys()
    return tries, survived


def torn_journal(folder: Path, tries: int) -> Counts:
    """A journal is cut or overwritten somewhere; what stands before that place is read, and nothing wrong after it."""
    survived = 0
    for k in range(tries):
        rng, store = random.Random(k), Store(folder / f"{k}")
        with store.journal() as journal:
            journal.append(*_records(0, 20))
        (path,) = store.journals.iterdir()
        whole = path.read_bytes()
        at = rng.randrange(len(whole))
        path.write_bytes(whole[:at] if k % 2 else whole[:at] + rng.randbytes(8) + whole[at + 8 :])
        before = whole[:at].count(b"\n")
        rows = _rows_of(store)
        survived += _right(rows) and {f"c{i}" for i in range(before)} <= rows.keys()
    return tries, survived


def truncated_rows(folder: Path, tries: int) -> Counts:
    """A table of rows is cut somewhere; it is refused in one sentence, or the rows that it still has are right."""
    survived = 0
    for k in range(tries):
        store = Store(folder / f"{k}")
        with store.journal() as journal:
            journal.append(*_records(0, 20))
        store.settle()
        store.path.write_bytes(cut(store.path.read_bytes(), random.Random(k)))
        try:
            survived += _right(_rows_of(store))
        except InputError as error:
            survived += "\n" not in str(error)
    return tries, survived


def two_settlers(folder: Path, tries: int) -> Counts:
    """Two runners append and settle at once; all rows of both are there, once."""
    survived = 0
    for k in range(tries):
        store = Store(folder / f"{k}")

        def run(start: int, store: Store = store) -> None:
            for first in range(start, start + 50, 10):
                with store.journal() as journal:
                    journal.append(*_records(first, 10))
                store.settle()

        codes = [ended(child) for child in [in_a_child(partial(run, start)) for start in (0, 50)]]
        rows = _rows_of(store)
        survived += codes == [0, 0] and _right(rows) and len(rows) == 100
    return tries, survived


def kill_while_auditing(folder: Path, tries: int) -> Counts:
    """An audit is killed while it works or writes; the file of an earlier one is still whole, or is the new one."""
    rng = np.random.default_rng(0)
    z = rng.normal(size=(200, 2))
    one, two = ([z, z @ rng.normal(size=(2, 2)) + noise] for noise in (0.0, 0.1))
    out = folder / "audit.json"
    whole = [write_json(nm.audit(models).to_dict(), out) for models in (two, one)]
    survived = 0
    for k in range(tries):
        killed(lambda k=k: write_json(nm.audit((one, two)[k % 2]).to_dict(), out), random.Random(k).uniform(0.01, 1.0))
        survived += out.read_text() in whole
    return tries, survived


FAULTS: dict[str, Any] = {
    "kill -9 while rows of a study are settled": kill_while_settling,
    "a torn or overwritten journal": torn_journal,
    "truncated rows.csv": truncated_rows,
    "two settlers of one study": two_settlers,
    "kill -9 during an audit": kill_while_auditing,
}
