"""A study: a published table or figure, declared once as a module, run anywhere, compared under a stated tolerance.

A module of this room is a study when it has ``cells``, ``cell`` and ``compare``. On top stand its constants:

- ``PUBLISHED``: the figures of the paper; ``TOLERANCE``: the difference from them that counts as none;
- ``BUDGET``: CPU-minutes of the whole grid on one core.

Then its functions:

- ``cells()``: the parameters of every cell, ``seed`` among them; ``cell(**parameters)``: a row or several. A cell may
  ask for ``device``, and for ``folder``, in which the studies of a paper keep what is expensive;
- ``tiny()``: a few cells so small that all run in seconds;
- ``compare(rows)``: our rows as a table beside the published one; ``claims(rows)``: every published figure with a
  verdict; ``figures(rows)``: curves like those of the paper;
- ``missing(**parameters)``: the sentence that says which file a cell lacks; ``KNOWN``: studies with the same cells;
- ``together(seeds, **shared)``: rows by seed, for cells that differ in their seed alone and can be one program.

A cell is known by its function and parameters, and by the version of the code that it runs: finished cells are never
computed again, changed ones are. Rows whose version was not recorded count as finished.
"""

from __future__ import annotations

import ast
import time
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from pathlib import Path
from typing import Any, TypeGuard

from noumena import checks
from noumena.report.curves import Figure
from noumena.studies import claims as verdicts
from noumena.studies.claims import Claim
from noumena.studies.engine import SEED, Conditions, Task, digest, records
from noumena.studies.fingerprints import code_version
from noumena.studies.limits import Limits
from noumena.studies.rows import Row
from noumena.studies.store import CELL, CODE, FACTS, Store

ROOM = Path(__file__).parent
NEEDED = ("cells", "cell", "compare")
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
class State:
    """The cells of a study: how many there are, are finished, were computed by other code, failed, cannot run here."""

    cells: int
    finished: int
    outdated: int
    failed: int
    missing: int


class Study:
    """A study and the folder in which its rows live."""

    def __init__(self, module: Any, results: str | Path = "results"):
        self.module = module
        self.name = "/".join(module.__name__.removeprefix("noumena.studies.").split("."))
        self.results = Path(results)
        self.store = Store(self.results / self.name)
        self.others = [Store(self.store.folder.parent / other) for other in getattr(module, "KNOWN", ())]

    @property
    def title(self) -> str:
        """The first line of its docstring."""
        return (self.module.__doc__ or self.name).splitlines()[0]

    @property
    def caption(self) -> str:
        """The rest of its docstring, a line for each paragraph."""
        text = "\n".join((self.module.__doc__ or "").splitlines()[1:]).strip()
        return "\n\n".join(" ".join(part.split()) for part in text.split("\n\n")).replace("`", "").replace("**", "")

    @property
    def published(self) -> bool:
        """Whether its claims are of published figures, and not expectations of our own."""
        return getattr(self.module, "PUBLISHED", ()) is not None

    @cached_property
    def code(self) -> str:
        """The version of the code that its cells run."""
        return code_version(*(f for f in (self.module.cell, self._together) if f is not None))

    @property
    def _together(self) -> Callable[..., Any] | None:
        return getattr(self.module, "together", None)

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

    def state(self, *, tiny: bool = False, only: Mapping[str, Any] | None = None) -> State:
        """How many of its cells are finished."""
        asked = {digest(self.module.cell, parameters): parameters for parameters in self.cells(tiny=tiny, only=only)}
        known, done = self.store.known(), self._finished()
        return State(
            cells=len(asked),
            finished=sum(cell in done for cell in asked),
            outdated=sum(done.get(cell, "") not in ("", self.code) for cell in asked),
            failed=sum(cell in known and cell not in done for cell in asked),
            missing=sum(cell not in done and self._lacks(asked[cell]) is not None for cell in asked),
        )

    def _finished(self) -> dict[str, str]:
        """The cells that have rows, here or in a study with the same cells, and the code behind each."""
        return {cell: code for store in (*self.others, self.store) for cell, code in store.finished().items()}

    def _rows(self, asked: Container[Any]) -> list[Row]:
        """The rows of some cells, and of those that are not finished here the rows of a study with the same cells."""
        found = [row for row in self.store.rows() if row.get(CELL) in asked]
        here = self.store.finished()
        for store in self.others:
            there = store.finished().keys() - here
            found = [row for row in found if row[CELL] not in there]
            found += [row for row in store.rows() if row.get(CELL) in asked and row[CELL] in there]
            here |= dict.fromkeys(there, "")
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
        """Compute the cells that are missing, failed or changed; rows are on the disk cell by cell.

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
            if (again or done.get(key, "?") not in ("", self.code)) and self._lacks(parameters) is None
        }
        together = self._together
        if together is None:
            return [Task((key,), self.code, (parameters,), cell) for key, parameters in left.items()]
        return [
            Task(tuple(group), self.code, tuple(group.values()), together, tuple(p[SEED] for p in group.values()))
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

    def claims(self, *, tiny: bool = False) -> list[Claim]:
        """Every published figure beside ours."""
        return self.module.claims(self.rows(tiny=tiny)) if hasattr(self.module, "claims") else []

    def figures(self, *, tiny: bool = False) -> list[Figure]:
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
    """All studies of this library, by the files that there are."""
    return [
        path.relative_to(ROOM).with_suffix("").as_posix()
        for path in sorted(ROOM.glob("*/*.py"))
        if set(NEEDED) <= _top_level(path)
    ]


def get(name: str, results: str | Path = "results") -> Study:
    """A study by its name, such as ``ddl/table3``, with its rows in a folder of results."""
    checks.one_of(name, "study", tuple(names()))
    return Study(import_module("noumena.studies." + name.replace("/", ".")), results)


def _top_level(path: Path) -> set[str]:
    """Names that a file defines or imports at its top."""
    body = ast.parse(path.read_text(encoding="utf-8")).body
    stored = {one.id for node in body if isinstance(node, ast.Assign) for one in ast.walk(node) if _stored(one)}
    defined = {node.name for node in body if isinstance(node, ast.FunctionDef)}
    imported = {alias.asname or alias.name for node in body if isinstance(node, ast.ImportFrom) for alias in node.names}
    return stored | defined | imported


def _stored(node: ast.AST) -> TypeGuard[ast.Name]:
    return isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)


def _same(value: Any, asked: Any) -> bool:
    return value == asked or str(value) == str(asked)


def _groups(left: dict[str, Row]) -> Iterator[dict[str, Row]]:
    """Cells that share everything but their seed."""
    found: dict[str, dict[str, Row]] = {}
    for key, parameters in left.items():
        shared = repr(sorted((name, repr(value)) for name, value in parameters.items() if name != SEED))
        found.setdefault(shared, {})[key] = parameters
    yield from found.values()


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
