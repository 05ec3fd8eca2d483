"""Where the rows of a study live: a table that is committed, and journals that no failure tears.

``rows.csv`` holds settled rows: the parameters and results of a cell, one row or several, and with the first of them
``cell`` (the digest of function and parameters), ``code`` (the commit of the code, empty where it is not known), CPU
seconds, peak memory, hardware and versions. A running study appends every finished cell to a journal of its own,
``journal/*.jsonl``, one line with a checksum, forced to the disk: a line that power failed in is no line. When a run
ends its journal is folded into the table under a lock; journals of runs that died are folded by the next one, which
knows them by their lock being free. Several runs and machines may write at once; rows of one cell count once.

Rows of another machine are merged by ``merge``, or by copying its journals into the folder.
"""

from __future__ import annotations

import fcntl
import json
import os
import platform
import secrets
import zlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, TextIO

import numpy as np

from noumena.studies.rows import ERROR, Row, lines, read, synchronised, write

CELL, CODE = "cell", "code"
FACTS = (CELL, CODE, "cell seconds", "peak MB", "hardware", "versions")
"""Columns that stand with the first row of a cell and say how it was computed; the first two stand with every row."""


@dataclass(frozen=True)
class CellRecord:
    """What a finished cell leaves: its rows, parameters among them, or its error."""

    cell: str
    code: str
    rows: list[Row]
    facts: Row = field(default_factory=dict)
    failed: bool = False

    def table(self) -> list[Row]:
        """The rows as they stand in the table."""
        own = {CELL: self.cell, CODE: self.code or None}
        return [{**row, **own, **(self.facts if k == 0 else {})} for k, row in enumerate(self.rows)]


class Store:
    """The rows of one study in a folder.

    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     store = Store(folder)
    ...     with store.journal() as journal:
    ...         journal.append(CellRecord("a1", "v1", [{"d": 3, "mcc": 0.5}]))
    ...     store.settle()
    ...     [(row["d"], row["mcc"]) for row in store.rows()], store.finished()
    ([(3, 0.5)], {'a1'})
    """

    def __init__(self, folder: str | Path):
        self.folder = Path(folder)
        self.path = self.folder / "rows.csv"
        self.journals = self.folder / "journal"

    def finished(self) -> set[str]:
        """The cells that have rows and no error."""
        return {cell for cell, failed in self.known().items() if not failed}

    def known(self) -> dict[str, bool]:
        """The cells that have rows, and whether they failed."""
        pending = list(self._pending())  # first: a journal that is folded in the meantime is then in the table
        found = dict(_scanned(self.path))
        for record in pending:
            found[record.cell] = record.failed and found.get(record.cell, True)
        return found

    def rows(self) -> list[Row]:
        """All rows, settled and not, every cell once."""
        pending = list(self._pending())  # first, as in ``known``
        return _merged(read(self.path), pending)

    @contextmanager
    def journal(self) -> Iterator[Journal]:
        """A journal of one's own to append finished cells to."""
        _made(self.journals)
        name = f"{platform.node() or 'host'}-{os.getpid()}-{secrets.token_hex(4)}.jsonl"
        with _locked(self.folder / ".lock"):  # nobody may fold it before its own lock is held
            journal = Journal(self.journals / name)
        with journal:
            yield journal

    def settle(self) -> None:
        """Fold the journals that nobody writes to into the table."""
        if not any(self.journals.glob("*.jsonl")):
            return
        with _locked(self.folder / ".lock"):
            free = [file for file in map(_taken, sorted(self.journals.glob("*.jsonl"))) if file is not None]
            try:
                records = [record for file in free for record in _read_journal(Path(file.name))]
                if records:
                    self._write(_merged(read(self.path), records))
                for file in free:
                    Path(file.name).unlink(missing_ok=True)
            finally:
                for file in free:
                    file.close()

    def merge(self, other: str | Path) -> int:
        """Take the cells of another folder that are not here; return how many there were."""
        theirs = Store(other)
        _made(self.folder)
        with _locked(self.folder / ".lock"):
            here = self.finished()
            grouped: dict[str, list[Row]] = {}
            for row in theirs.rows():
                if row.get(CELL) is not None and row.get(ERROR) is None and row[CELL] not in here:
                    grouped.setdefault(row[CELL], []).append(row)
            self._write(_merged(read(self.path), [_record(rows) for rows in grouped.values()]))
        return len(grouped)

    def _write(self, rows: Sequence[Row]) -> None:
        """Replace the table, under the lock; what a writer that died had begun is thrown away."""
        for part in self.folder.glob(f".{self.path.name}.*.part"):
            part.unlink(missing_ok=True)
        write(rows, self.path)

    def _pending(self) -> Iterator[CellRecord]:
        for path in sorted(self.journals.glob("*.jsonl")):
            yield from _read_journal(path)


class Journal:
    """A file of finished cells that only grows, and whose writer holds its lock."""

    def __init__(self, path: Path):
        self.path = path
        self._file = path.open("a", encoding="utf-8")
        fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        synchronised(path.parent)

    def append(self, *records: CellRecord) -> None:
        """Write cells to the disk, all the way."""
        for record in records:
            text = json.dumps(asdict(record), default=_plain, separators=(",", ":"))
            self._file.write(f"{text}\t{zlib.crc32(text.encode()):08x}\n")
        self._file.flush()
        os.fsync(self._file.fileno())

    def __enter__(self) -> Journal:
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        with self._file:
            if not os.fstat(self._file.fileno()).st_size:
                self.path.unlink()


def _plain(value: Any) -> Any:
    if isinstance(value, np.generic):
        return value.item()
    return str(value)


def _read_journal(path: Path) -> Iterator[CellRecord]:
    """The whole lines of a journal; one that was torn is left out."""
    try:
        lines = path.read_bytes().split(b"\n")
    except FileNotFoundError:  # folded by another run in the meantime
        return
    for line in lines:
        text, _, checksum = line.rpartition(b"\t")
        if text and checksum == b"%08x" % zlib.crc32(text):
            with suppress(ValueError, TypeError):  # a whole line that is no record
                yield CellRecord(**json.loads(text))


def _scanned(path: Path) -> Iterator[tuple[str, bool]]:
    """Cell and failure of every row of a table, without looking at the rest."""
    header, *below = lines(path) or [[]]
    if CELL not in header:
        return
    cell, error = header.index(CELL), header.index(ERROR) if ERROR in header else None
    for line in below:
        if line[cell]:
            yield line[cell], error is not None and bool(line[error])


def _merged(rows: Iterable[Row], records: Iterable[CellRecord]) -> list[Row]:
    """Rows with those of the records, every cell once: a success replaces what was there, a failure nothing."""
    kept: dict[Any, list[Row]] = {}
    for row in rows:
        kept.setdefault(row.get(CELL) or id(row), []).append(row)
    for record in records:
        before = kept.get(record.cell)
        if not before or not record.failed or before[0].get(ERROR) is not None:
            kept[record.cell] = record.table()
    return [row for group in kept.values() for row in group]


def _record(rows: list[Row]) -> CellRecord:
    first = rows[0]
    plain = [{name: value for name, value in row.items() if name not in FACTS} for row in rows]
    facts = {name: first.get(name) for name in FACTS[2:]}
    return CellRecord(first[CELL], first.get(CODE) or "", plain, facts, first.get(ERROR) is not None)


def _made(folder: Path) -> None:
    """A folder, and those above it, whose names are on the disk."""
    if not folder.exists():
        _made(folder.parent)
        folder.mkdir(exist_ok=True)
        synchronised(folder.parent)


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    with path.open("a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _taken(path: Path) -> TextIO | None:
    """A journal opened and locked, or nothing where its writer is alive or it is gone."""
    try:
        file = path.open("r+", encoding="utf-8")
    except FileNotFoundError:
        return None
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        file.close()
        return None
    return file
