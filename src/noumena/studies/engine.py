"""The engine: cells are handed to processes here or on a cluster, and come back as records one by one.

A cell that raises, runs too long or holds too much leaves a record of its error. Cells that were in flight when their
worker died are computed again one by one at the end; one that dies again is recorded as lost. One worker on this
machine means this process. The caller writes records as they come: what is lost when the caller dies are the cells in
flight.
"""

from __future__ import annotations

import hashlib
import os
import signal
import time
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, Executor, Future, wait
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from inspect import signature
from threading import current_thread, main_thread
from typing import Any

from noumena import checks, threads
from noumena.studies import executors
from noumena.studies.devices import leased
from noumena.studies.files import StudyFile
from noumena.studies.limits import LimitError, Limits, watched
from noumena.studies.provenance import machine
from noumena.studies.rows import ERROR, Row
from noumena.studies.store import CellRecord

ENGINES = ("local", "dask", "ray")
SEED = "seed"
LONGEST = 2000
"""Characters of an error that a row keeps."""


@dataclass(frozen=True)
class Task:
    """One cell, or several that differ in their seed alone and are computed as one program.

    ``cells`` are the digests; ``parameters`` those of each; ``function`` is the name of a function of ``file`` that
    takes the parameters of one cell, or, where there are ``seeds``, all of them and the parameters that are shared, and
    gives rows by seed. Names travel to workers, which import the file themselves.
    """

    cells: tuple[str, ...]
    code: str
    parameters: tuple[Row, ...]
    file: StudyFile
    function: str = "cell"
    seeds: tuple[int, ...] | None = None

    def records(self, rows: Sequence[list[Row]], facts: Row) -> list[CellRecord]:
        """The record of each of its cells."""
        return [
            CellRecord(cell, self.code, found, facts, failed=any(row.get(ERROR) is not None for row in found))
            for cell, found in zip(self.cells, rows, strict=True)
        ]

    def failed(self, why: str) -> list[list[Row]]:
        """Rows that say what went wrong."""
        error = why if len(why) <= LONGEST else why[:LONGEST] + " …"
        return [_rows(parameters, {ERROR: error}) for parameters in self.parameters]


@dataclass(frozen=True)
class Conditions:
    """How tasks are computed: under which limits, on which devices, and what else every cell is told."""

    limits: Limits = field(default_factory=Limits)
    devices: tuple[str, ...] = ()
    told: tuple[tuple[str, Any], ...] = ()
    driver: int = 0


def digest(function: Callable[..., Any], parameters: Row) -> str:
    """The name of a cell: a digest of its function's name and its parameters.

    >>> digest(digest, {"b": 1, "a": 0.5}) == digest(digest, {"a": 0.5, "b": 1})
    True
    """
    return digest_of(f"{function.__module__}.{function.__qualname__}", parameters)


def digest_of(name: str, parameters: Row) -> str:
    """The same of a function's full name.

    >>> digest_of("my_study.cell", {"d": 3, "seed": 0})
    'c58e277059e3ba77'
    """
    given = sorted((name, repr(value)) for name, value in parameters.items())
    return "c" + hashlib.sha256(f"{name} {given}".encode()).hexdigest()[:15]  # none reads as a number in a table


def records(
    tasks: Sequence[Task],
    *,
    engine: str = "local",
    workers: int = 1,
    address: str | None = None,
    conditions: Conditions | None = None,
) -> Generator[CellRecord, None, None]:
    """The records of all tasks, in the order in which they are finished."""
    checks.one_of(engine, "engine", ENGINES)
    checks.count(workers, "workers")
    checks.require(
        address is None or engine != "local", "An address must be that of a dask or ray engine.", f"{engine}"
    )
    given = replace(conditions or Conditions(), driver=os.getpid())
    waiting = deque((task, False) for task in tasks)
    if engine == "local" and workers == 1:
        for task in tasks:
            yield from perform(task, given)
        return
    while waiting:
        with executors.opened(engine, workers, address) as (pool, width):
            yield from _flown(waiting, given, pool, width)


def _flown(waiting: deque[tuple[Task, bool]], given: Conditions, pool: Executor, width: int) -> Iterator[CellRecord]:
    """The records of tasks, ``width`` at a time, those that must be alone by themselves, until the pool is broken."""
    flying: dict[Future[list[CellRecord]], tuple[Task, bool]] = {}
    broken = False
    while flying or (waiting and not broken):
        while waiting and not broken and len(flying) < (1 if waiting[0][1] else width):
            task, alone = waiting.popleft()
            flying[_submitted(pool, task, given)] = task, alone
        for future in wait(flying, return_when=FIRST_COMPLETED).done:
            task, alone = flying.pop(future)
            error = future.exception()
            broken = broken or isinstance(error, BrokenExecutor)
            if error is None:
                yield from future.result()
            elif not executors.died(error):
                raise error
            elif alone:
                lost = task.failed("WorkerLost: the process that computed the cell died, more than once")
                yield from task.records(lost, machine())
            else:
                waiting.append((task, True))


def _submitted(pool: Executor, task: Task, given: Conditions) -> Future[list[CellRecord]]:
    try:
        return pool.submit(perform, task, given)
    except BrokenExecutor as error:  # a worker died while it had nothing to do
        future = Future[list[CellRecord]]()
        future.set_exception(error)
        return future


# ---- in the worker -------------------------------------------------------------------------------------------------


def perform(task: Task, conditions: Conditions) -> list[CellRecord]:
    """Compute a task where it is called: a record for each of its cells, whatever happens."""
    start, usage, guest = time.process_time(), None, os.getpid() != conditions.driver
    with _interrupts() as stopped:
        try:
            function = getattr(task.file.load(), task.function)
            start = time.process_time()
            with threads.for_work(0), watched(conditions.limits, may_exit=guest) as usage:
                computed = _computed(function, task, conditions)
            found = [_rows(*both) for both in zip(task.parameters, computed, strict=True)]
        except (Exception, LimitError) as error:  # whatever goes wrong in one cell must not stop the others
            found = task.failed(f"{type(error).__name__}: {error}")
    if stopped:  # a fit takes Ctrl-C as the wish to end early: what came of it is no result
        raise KeyboardInterrupt
    seconds = round((time.process_time() - start) / len(task.cells), 2)
    return task.records(
        found, {"cell seconds": seconds, "peak MB": round(usage.peak_mb) if usage else None, **machine()}
    )


@contextmanager
def _interrupts() -> Iterator[list[int]]:
    """Notes a Ctrl-C in the meantime, whoever else takes it."""
    seen: list[int] = []
    if current_thread() is not main_thread() or signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        yield seen
        return

    def note(number: int, _: Any) -> None:
        seen.append(number)
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGINT, note)
    try:
        yield seen
    finally:
        signal.signal(signal.SIGINT, before or signal.default_int_handler)


def _computed(function: Callable[..., Any], task: Task, conditions: Conditions) -> list[Any]:
    known = signature(function).parameters.keys() - task.parameters[0].keys()
    told = {name: value for name, value in conditions.told if name in known}
    if "device" in known and conditions.devices:
        told["device"] = leased(conditions.devices, run=conditions.driver)
    if task.seeds is None:
        return [function(**task.parameters[0], **told)]
    shared = {name: value for name, value in task.parameters[0].items() if name != SEED}
    found = function(seeds=task.seeds, **shared, **told)
    return [found[seed] for seed in task.seeds]


def _rows(parameters: Row, found: Row | list[Row]) -> list[Row]:
    """What a cell found beside its parameters; at least one row, so that the cell is known to be finished."""
    rows = (found or [{}]) if isinstance(found, list) else [found]
    return [{**parameters, **{str(name): value for name, value in row.items()}} for row in rows]
