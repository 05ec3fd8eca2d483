"""A study: a table or a figure, declared once in a Python file, run anywhere, compared under a stated tolerance.

Any file is a study when it has ``cells``, ``cell`` and ``compare``. On top may stand its constants:

- ``PUBLISHED``: the figures of the paper; ``TOLERANCE``: the difference from them that counts as none;
- ``BUDGET``: CPU-minutes of the whole grid on one core.

Its functions:

- ``cells()``: the parameters of every cell, ``seed`` among them; ``cell(**parameters)``: a row or several. A cell may
  ask for ``device``, and for ``folder``, in which the studies of a paper keep what is expensive;
- ``tiny()``: a few cells so small that all run in seconds;
- ``compare(rows)``: our rows as a table beside the published one; ``claims(rows)``: every published figure with a
  verdict; ``figures(rows)``: curves like those of the paper;
- ``missing(**parameters)``: the sentence that says which file a cell lacks; ``KNOWN``: studies with the same cells;
- ``together(seeds, **shared)``: rows by seed, for cells that differ in their seed alone and can be one program.

A cell is known by its function and parameters, and is never computed again once it is finished, unless that is asked
for. With its rows stand the commit of the study's repository and the versions of packages.
"""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

from noumena import checks
from noumena.charts import CurveChart
from noumena.studies import claims as verdicts
from noumena.studies.claims import StudyClaim
from noumena.studies.engine import SEED, Conditions, Task, digest, records
from noumena.studies.files import NEEDED, PAPERS, StudyFile, study_files
from noumena.studies.limits import Limits
from noumena.studies.provenance import commit_of
from noumena.studies.rows import Row
from noumena.studies.store import CELL, CODE, FACTS, Store

TIDY = ("study", CELL, CODE, SEED, "metric", "value", "parameters", *FACTS[2:])
"""Columns of tidy rows."""


@dataclass(frozen=True)
class Progress:
    """How far a run has come; ``left`` are seconds to go, by the pace so far."""

    done: int
    all: int
    failed: int
    left: float | None
    rows: list[Row]


@dataclass(frozen=True)
class StudyState:
    """The cells of a study: how many there are, are finished, failed, cannot run here."""

    cells: int
    finished: int
    failed: int
    missing: int


class Study:
    """A study and the folder in which its rows live.

    Parameters
    ----------
    source : path or module
        A Python file with ``cells``, ``cell`` and ``compare``, or the same imported.
    results : path
        The folder below which rows live, each study's under its name.

    Attributes
    ----------
    name : str
        The path of the file within its topmost package: ``ddl/table3``, or ``my_study`` where it is in none.
    """

    def __init__(self, source: str | Path | ModuleType, results: str | Path = "results"):
        self.file = StudyFile.at((source.__file__ or "") if isinstance(source, ModuleType) else source)
        self.module: Any = self.file.load()
        lacks = [name for name in NEEDED if not hasattr(self.module, name)]
        checks.require(not lacks, f"A study must define {', '.join(NEEDED)}.", f"{source} without {', '.join(lacks)}")
        self.name = self.file.module.replace(".", "/")
        self.results = Path(results)
        self.store = Store(self.results / self.name)
        self.others = [Store(self.store.folder.parent / other) for other in getattr(self.module, "KNOWN", ())]

    @property
    def title(self) -> str:
        """The first line of its docstring."""
        return ((self.module.__doc__ or "").strip() or self.name).splitlines()[0]

    @property
    def caption(self) -> str:
        """The rest of its docstring, a line for each paragraph."""
        text = "\n".join((self.module.__doc__ or "").strip().splitlines()[1:]).strip()
        return "\n\n".join(" ".join(part.split()) for part in text.split("\n\n")).replace("`", "").replace("**", "")

    @property
    def paper(self) -> str:
        """What its package is about: the docstring up to the colon; its own name where it is in none."""
        package = self.file.module.rpartition(".")[0]
        about = import_module(package).__doc__ if package else None
        return (about or self.name).strip().partition(":")[0]

    @property
    def published(self) -> bool:
        """Whether its claims are of published figures, and not expectations of our own."""
        return getattr(self.module, "PUBLISHED", ()) is not None

    @property
    def path(self) -> str:
        """Its file, as seen from here."""
        return os.path.relpath(self.file.path)

    @cached_property
    def code(self) -> str:
        """The commit of its repository, ``+`` when code there has changed; empty without git."""
        return commit_of(self.file.path)

    # ---- cells -----------------------------------------------------------------------------------------------------

    def cells(self, *, tiny: bool = False, only: Mapping[str, Any] | None = None) -> list[Row]:
        """The parameters of all cells, of the miniature, or only of those that have these values."""
        checks.require(not tiny or hasattr(self.module, "tiny"), "The study must have a miniature.", self.name)
        found = self.module.tiny() if tiny else self.module.cells()
        names = sorted({name for parameters in found for name in parameters})
        only = only or {}
        for name in only:
            checks.require(name in names, f"A study's cells must be chosen by one of {', '.join(names)}.", name)
        chosen = [p for p in found if all(_same(p.get(name), value) for name, value in only.items())]
        checks.require(
            bool(chosen) or not only, f"Some cell of {self.name} must have the values asked for.", dict(only)
        )
        return chosen

    def state(self, *, tiny: bool = False, only: Mapping[str, Any] | None = None) -> StudyState:
        """How many of its cells are finished."""
        asked = {digest(self.module.cell, parameters): parameters for parameters in self.cells(tiny=tiny, only=only)}
        known, done = self.store.known(), self._finished()
        return StudyState(
            cells=len(asked),
            finished=sum(cell in done for cell in asked),
            failed=sum(cell in known and cell not in done for cell in asked),
            missing=sum(cell not in done and self._lacks(asked[cell]) is not None for cell in asked),
        )

    def _finished(self) -> set[str]:
        """The cells that have rows, here or in a study with the same cells."""
        return self.store.finished().union(*(store.finished() for store in self.others))

    def _rows(self, asked: Container[Any]) -> list[Row]:
        """The rows of some cells, and of those that are not finished here the rows of a study with the same cells."""
        found = [row for row in self.store.rows() if row.get(CELL) in asked]
        here = self.store.finished()
        for store in self.others:
            there = store.finished() - here
            found = [row for row in found if row[CELL] not in there]
            found += [row for row in store.rows() if row.get(CELL) in asked and row[CELL] in there]
            here |= there
        return found

    def _lacks(self, parameters: Row) -> str | None:
        return self.module.missing(**parameters) if hasattr(self.module, "missing") else None

    # ---- running ---------------------------------------------------------------------------------------------------

    def run(
        self,
        engine: str = "local",
        *,
        workers: int = 1,
        address: str | None = None,
        devices: Sequence[str] = (),
        limits: Limits | None = None,
        again: bool = False,
        tell: Callable[[Progress], None] | None = None,
        tiny: bool = False,
        only: Mapping[str, Any] | None = None,
    ) -> Study:
        """Compute the cells that are missing or failed; rows are on the disk cell by cell.

        ``only`` chooses cells by their values, ``tiny`` the miniature; ``again`` also computes those that are finished.
        What cannot run here for want of a file is left out.
        """
        self.store.settle()
        tasks = self.tasks(again=again, tiny=tiny, only=only)
        told = (("folder", self.results.parent / "runs" / "studies" / self.name.split("/")[0]),)
        conditions = Conditions(limits or Limits(), tuple(devices), told)
        asked: dict[str, Any] = {"engine": engine, "workers": workers, "address": address, "conditions": conditions}
        found, pace = records(tasks, **asked), _Pace(sum(len(task.cells) for task in tasks))
        try:
            with self.store.journal() as journal, closing(found):
                for record in found:
                    journal.append(record)
                    pace.note(record.failed)
                    if tell is not None:
                        tell(pace.progress(record.table()))
        finally:
            self.store.settle()
        return self

    def tasks(self, *, again: bool = False, tiny: bool = False, only: Mapping[str, Any] | None = None) -> list[Task]:
        """What is to be computed; cells that differ in their seed alone are one task where the study can do that."""
        cell, done = self.module.cell, self._finished()
        asked = {digest(cell, parameters): parameters for parameters in self.cells(tiny=tiny, only=only)}
        left = {
            key: parameters
            for key, parameters in asked.items()
            if (again or key not in done) and self._lacks(parameters) is None
        }
        if not hasattr(self.module, "together"):
            return [Task((key,), self.code, (parameters,), self.file) for key, parameters in left.items()]
        return [
            Task(tuple(group), self.code, tuple(group.values()), self.file, "together", _seeds(group))
            for group in _groups(left)
        ]

    # ---- reading ---------------------------------------------------------------------------------------------------

    def rows(self, *, tiny: bool = False) -> list[Row]:
        """The rows of its cells, parameters and results, as ``compare`` takes them."""
        asked = {digest(self.module.cell, parameters) for parameters in self.cells(tiny=tiny)}
        return self._rows(asked)

    def tidy(self, *, tiny: bool = False) -> list[Row]:
        """One row for every single value: study, cell, its parameters, seed, metric, value, and how it was computed."""
        asked = {digest(self.module.cell, parameters): parameters for parameters in self.cells(tiny=tiny)}
        return [one for row in self._rows(asked) for one in _tidied(self.name, row, asked[row[CELL]])]

    def compare(self, *, tiny: bool = False) -> str:
        """Our rows beside the published table."""
        return self.module.compare(self.rows(tiny=tiny))

    def claims(self, *, tiny: bool = False) -> list[StudyClaim]:
        """Every published figure beside ours."""
        return self.module.claims(self.rows(tiny=tiny)) if hasattr(self.module, "claims") else []

    def figures(self, *, tiny: bool = False) -> list[CurveChart]:
        """Curves like those of the paper."""
        return self.module.figures(self.rows(tiny=tiny)) if hasattr(self.module, "figures") else []

    @property
    def committed(self) -> Path:
        """The file of verdicts that must hold."""
        return self.store.folder / "verdicts.csv"

    def broken(self) -> list[str]:
        """A sentence for every committed claim that no longer holds."""
        return verdicts.broken(self.claims(), verdicts.committed(self.committed))


def names() -> list[str]:
    """Old: the names of all studies in the folder ``papers``; now ``study_files()``."""
    _old("names()", "study_files()")
    return [StudyFile.at(path).module.replace(".", "/") for path in study_files()]


def get(name: str, results: str | Path = "results") -> Study:
    """Old: the study of that name in the folder ``papers``; now ``Study`` of its file."""
    path = Path(PAPERS, f"{name}.py")
    _old("get(name)", "Study(path)")
    return Study(path, results)


def _old(name: str, new: str) -> None:
    told = f"noumena.studies.{name} is now noumena.studies.{new}; the old name will go with the next release."
    warnings.warn(told, DeprecationWarning, stacklevel=3)


def _same(value: Any, asked: Any) -> bool:
    return value == asked or str(value) == str(asked)


def _groups(left: dict[str, Row]) -> Iterator[dict[str, Row]]:
    """Cells that share everything but their seed."""
    found: dict[str, dict[str, Row]] = {}
    for key, parameters in left.items():
        shared = repr(sorted((name, repr(value)) for name, value in parameters.items() if name != SEED))
        found.setdefault(shared, {})[key] = parameters
    yield from found.values()


def _seeds(group: dict[str, Row]) -> tuple[int, ...]:
    return tuple(parameters[SEED] for parameters in group.values())


def _tidied(study: str, row: Row, parameters: Row) -> Iterator[Row]:
    facts = {name: row.get(name) for name in FACTS[2:]}
    labels = {k: v for k, v in row.items() if isinstance(v, str) and k not in (*FACTS, *parameters)}
    settings = {k: v for k, v in parameters.items() if k != SEED} | labels
    for name, value in row.items():
        if name not in parameters and name not in FACTS and isinstance(value, int | float):
            yield {
                "study": study, CELL: row[CELL], CODE: row.get(CODE), SEED: parameters.get(SEED), "metric": name,
                "value": value, "parameters": "; ".join(f"{k}={v}" for k, v in settings.items()), **facts,
            }  # fmt: skip


class _Pace:
    """Counts finished cells and says how long the rest will take."""

    def __init__(self, total: int):
        self.total, self.done, self.failed, self.start = total, 0, 0, time.monotonic()

    def note(self, failed: bool) -> None:
        self.done, self.failed = self.done + 1, self.failed + failed

    def progress(self, rows: list[Row]) -> Progress:
        elapsed = time.monotonic() - self.start
        return Progress(self.done, self.total, self.failed, elapsed / self.done * (self.total - self.done), rows)
