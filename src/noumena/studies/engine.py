"""The engine: cells are handed to processes here or on a cluster, and come back as records one by one.

- ``local``: processes of one thread each on this machine, by joblib; one worker means this process.
- ``dask``: a Dask cluster by its address, or one of our own on this machine.
- ``ray``: a Ray cluster by its address, or one of our own on this machine.

Clusters are given single tasks and not joblib's batches: of a batch whose worker dies nobody knows which cell it was,
and Ray's backend for joblib hands results out only when all are there.

A cell that raises, runs too long or holds too much leaves a record of its error. Where a worker of this machine dies,
the cells that were in flight, which workers note down, are computed again one by one; one that dies again is recorded.
A cluster gives the cells of a dead worker to others; those that it gives up are computed one by one at the end. The
caller writes records as they come: what is lost when the caller dies are the cells in flight.
"""

from __future__ import annotations

import hashlib
import logging
import os
import platform
import signal
import socket
import sys
import tempfile
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import cache, partial
from importlib.metadata import PackageNotFoundError, version
from inspect import signature
from itertools import islice
from pathlib import Path
from threading import current_thread, main_thread
from typing import Any, NamedTuple

from joblib import Parallel, delayed, parallel_config

from noumena import checks, threads
from noumena.studies.devices import leased
from noumena.studies.limits import LimitError, Limits, watched
from noumena.studies.rows import ERROR, Row
from noumena.studies.store import Record

ENGINES = ("local", "dask", "ray")
SEED = "seed"
PACKAGES = ("noumena", "torch", "numpy", "scipy", "scikit-learn")
TRIES = 1
"""How often a cluster of our own gives a cell to another worker when one has died, before it is computed by itself."""
FRUITLESS = 3
"""How often in a row all workers of this machine may die with nothing done."""
START = "10 minutes"
"""How long a worker may take to come back: it imports torch on a machine that others use."""
LONGEST = 2000
"""Characters of an error that a row keeps."""


@dataclass(frozen=True)
class Task:
    """One cell, or several that differ in their seed alone and are computed as one program.

    ``cells`` are the digests; ``parameters`` those of each; ``function`` takes the parameters of one cell, or, where
    there are ``seeds``, all of them and the parameters that are shared, and gives rows by seed.
    """

    cells: tuple[str, ...]
    code: str
    parameters: tuple[Row, ...]
    function: Callable[..., Any]
    seeds: tuple[int, ...] | None = None


@dataclass(frozen=True)
class Conditions:
    """How tasks are computed: under which limits, on which devices, and what else every cell is told."""

    limits: Limits = field(default_factory=Limits)
    devices: tuple[str, ...] = ()
    told: tuple[tuple[str, Any], ...] = ()
    driver: int = 0
    notes: str | None = None
    """A folder in which a worker notes the cell that it is at."""


def digest(function: Callable[..., Any], parameters: Row) -> str:
    """The name of a cell: a digest of its function's name and its parameters.

    >>> digest(digest, {"b": 1, "a": 0.5}) == digest(digest, {"a": 0.5, "b": 1})
    True
    """
    given = sorted((name, repr(value)) for name, value in parameters.items())
    named = f"{function.__module__}.{function.__qualname__} {given}"
    return "c" + hashlib.sha256(named.encode()).hexdigest()[:15]  # no digest reads as a number in a table


def records(
    tasks: Sequence[Task],
    *,
    engine: str = "local",
    workers: int = 1,
    address: str | None = None,
    conditions: Conditions | None = None,
) -> Generator[Record, None, None]:
    """The records of all tasks, in the order in which they are finished."""
    checks.one_of(engine, "engine", ENGINES)
    checks.count(workers, "workers")
    checks.require(
        address is None or engine != "local", "An address must be that of a dask or ray engine.", f"{engine}"
    )
    given = conditions or Conditions()
    given = replace(given, driver=os.getpid())
    if not tasks:
        return
    if engine == "local" and workers == 1:
        for task in tasks:
            yield from perform(task, given)
    elif engine == "local":
        yield from _by_processes(tasks, given, workers)
    else:
        with (_dask if engine == "dask" else _ray)(workers, address) as cluster:
            yield from _by_cluster(tasks, given, cluster)


# ---- in the worker -------------------------------------------------------------------------------------------------


def perform(task: Task, conditions: Conditions) -> list[Record]:
    """Compute a task where it is called: a record for each of its cells, whatever happens."""
    start, usage, guest = time.process_time(), None, os.getpid() != conditions.driver
    with _interrupts() as stopped:
        try:
            with threads.for_work(0), _noted(task, conditions), watched(conditions.limits, may_exit=guest) as usage:
                computed = _computed(task, conditions)
            found = [_rows(*both) for both in zip(task.parameters, computed, strict=True)]
        except (Exception, LimitError) as error:  # whatever goes wrong in one cell must not stop the others
            found = _failed(task, f"{type(error).__name__}: {error}")
    if stopped:  # a fit takes Ctrl-C as the wish to end early: what came of it is no result
        raise KeyboardInterrupt
    seconds = round((time.process_time() - start) / len(task.cells), 2)
    facts = {"cell seconds": seconds, "peak MB": round(usage.peak_mb) if usage else None, **_machine()}
    return [
        Record(cell, task.code, rows, facts, failed=any(row.get(ERROR) is not None for row in rows))
        for cell, rows in zip(task.cells, found, strict=True)
    ]


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


def _computed(task: Task, conditions: Conditions) -> list[Any]:
    known = signature(task.function).parameters.keys() - task.parameters[0].keys()
    told = {name: value for name, value in conditions.told if name in known}
    if "device" in known and conditions.devices:
        told["device"] = leased(conditions.devices, run=conditions.driver)
    if task.seeds is None:
        return [task.function(**task.parameters[0], **told)]
    shared = {name: value for name, value in task.parameters[0].items() if name != SEED}
    found = task.function(seeds=task.seeds, **shared, **told)
    return [found[seed] for seed in task.seeds]


@contextmanager
def _noted(task: Task, conditions: Conditions) -> Iterator[None]:
    if conditions.notes is None:
        yield
        return
    note = Path(conditions.notes, str(os.getpid()))
    note.write_text(task.cells[0])
    yield
    note.unlink(missing_ok=True)


def _rows(parameters: Row, found: Row | list[Row]) -> list[Row]:
    """What a cell found beside its parameters; at least one row, so that the cell is known to be finished."""
    rows = (found or [{}]) if isinstance(found, list) else [found]
    return [{**parameters, **{str(name): value for name, value in row.items()}} for row in rows]


def _failed(task: Task, why: str) -> list[list[Row]]:
    return [
        _rows(parameters, {ERROR: why if len(why) <= LONGEST else why[:LONGEST] + " …"})
        for parameters in task.parameters
    ]


@cache
def _machine() -> Row:
    """The hardware and the versions that a cell was computed with."""
    import torch

    gpu = f", {torch.cuda.get_device_name()}" if torch.cuda.is_available() else ""
    packages = " ".join(f"{name} {_version(name)}" for name in PACKAGES)
    cores = os.cpu_count()
    return {
        "hardware": f"{_processor()}, {cores} cores{gpu}",
        "versions": f"python {platform.python_version()} {packages}",
    }


def _version(name: str) -> str:
    """A package's version; this one may run from its folder of sources, without being installed."""
    try:
        return version(name).split("+")[0]
    except PackageNotFoundError:
        return "from sources"


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    named = next((line.split(":")[1].strip() for line in lines if line.startswith("model name")), "")
    return named or platform.machine()


# ---- processes here ------------------------------------------------------------------------------------------------


def _by_processes(tasks: Sequence[Task], conditions: Conditions, workers: int) -> Iterator[Record]:
    waiting, suspects, fruitless = {task.cells[0]: task for task in tasks}, list[str](), 0
    with tempfile.TemporaryDirectory() as notes:
        given = replace(conditions, notes=notes)
        while waiting:
            some = suspects[:1] or list(waiting)
            try:
                for found in _parallel((delayed(perform)(waiting[cell], given) for cell in some), workers):
                    del waiting[found[0].cell]
                    fruitless = 0
                    yield from found
            except Exception as error:  # of the workers: what a cell raises is in its record
                fruitless += 1
                if not _died(error) or fruitless > FRUITLESS:
                    raise
                if not suspects:
                    suspects = ["", *_in_flight(notes, waiting)]
                else:  # it was by itself
                    fruitless = 0
                    yield from _lost(waiting.pop(suspects[0]))
            suspects = suspects[1:]


def _in_flight(notes: str, waiting: dict[str, Task]) -> list[str]:
    """The cells that workers were at when one of them died."""
    cells = []
    for file in sorted(Path(notes).iterdir()):
        with suppress(FileNotFoundError):  # others are alive for a moment longer
            cells.append(file.read_text())
            file.unlink()
    return [cell for cell in cells if cell in waiting]


def _parallel(jobs: Iterator[Any], workers: int) -> Iterator[list[Record]]:
    with parallel_config("loky", inner_max_num_threads=1):
        found: Any = Parallel(n_jobs=workers, return_as="generator_unordered")(jobs)
        yield from found


def _lost(task: Task) -> list[Record]:
    found = _failed(task, "WorkerLost: the process that computed the cell died, more than once")
    return [
        Record(cell, task.code, rows, _machine(), failed=True) for cell, rows in zip(task.cells, found, strict=True)
    ]


def _died(error: Exception) -> bool:
    """Whether an exception says that a worker is gone."""
    names = {kind.__name__ for kind in type(error).__mro__}
    local, dask = {"BrokenProcessPool", "TerminatedWorkerError"}, {"KilledWorker"}
    ray = {"WorkerCrashedError", "NodeDiedError", "OutOfMemoryError"}  # of the cluster: those of a cell are its record
    return bool(names & (local | dask | ray))


def _reached(connect: Callable[[], Any], address: str) -> Any:
    try:
        return connect()
    except (OSError, ValueError, ConnectionError) as error:
        raise checks.InputError(f"A cluster must answer at its address. Got {address!r}: {error}.") from error


def _answers(address: str) -> None:
    """Fail within seconds where nobody listens at ``host:port``; other names of clusters are not looked at."""
    host, _, port = address.rpartition("://")[2].rpartition(":")
    if host and port.isdigit():
        socket.create_connection((host, int(port)), timeout=10).close()


def _extra(module: str, extra: str) -> Any:
    from importlib import import_module

    try:
        return import_module(module)
    except ImportError as error:
        raise checks.InputError(
            f"The engine {extra} must be installed: pip install 'noumena[{extra}]'. Got {error}."
        ) from error


# ---- clusters ------------------------------------------------------------------------------------------------------


class Cluster(NamedTuple):
    """How a cluster is asked: to start a task, which of some have landed, what came of one, and how many at a time."""

    submit: Callable[[Task, Conditions], Any]
    landed: Callable[[list[Any]], Sequence[Any]]
    result: Callable[[Any], list[Record]]
    width: int


def _by_cluster(tasks: Sequence[Task], conditions: Conditions, cluster: Cluster) -> Iterator[Record]:
    queue, flying, suspects = iter(tasks), {}, list[Task]()
    while True:
        for task in islice(queue, cluster.width - len(flying)):
            flying[cluster.submit(task, conditions)] = task
        if not flying:
            break
        for future in cluster.landed(list(flying)):
            task = flying.pop(future)
            found = _survived(cluster, future)
            suspects += [task] if found is None else []
            yield from found or ()
    for task in suspects:  # Dask blames all cells that a dead worker had, and not only the one that it was at
        found = _survived(cluster, cluster.submit(task, conditions))
        yield from _lost(task) if found is None else found


def _survived(cluster: Cluster, future: Any) -> list[Record] | None:
    """What came of a task; nothing where its workers died."""
    try:
        return cluster.result(future)
    except Exception as error:
        if not _died(error):
            raise
        return None


@contextmanager
def _dask(workers: int, address: str | None) -> Iterator[Cluster]:
    distributed = _extra("distributed", "dask")
    patient = {"distributed.deploy.lost-worker-timeout": START, "distributed.scheduler.allowed-failures": TRIES}
    with ExitStack() as stack:
        if address is None:
            stack.enter_context(_extra("dask", "dask").config.set(patient))
            own = {"n_workers": workers, "threads_per_worker": 1, "processes": True, "dashboard_address": ":0"}
            cluster = stack.enter_context(distributed.LocalCluster(**own, silence_logs=logging.ERROR))
            address = str(cluster.scheduler_address)
        client = stack.enter_context(_reached(partial(distributed.Client, address, timeout=10), address))
        yield Cluster(
            submit=partial(client.submit, perform, pure=False),
            landed=lambda futures: list(distributed.wait(futures, return_when="FIRST_COMPLETED").done),
            result=lambda future: future.result(),
            width=2 * max(workers, sum(client.nthreads().values())),
        )


@contextmanager
def _ray(workers: int, address: str | None) -> Iterator[Cluster]:
    ray = _extra("ray", "ray")
    paths = {"env_vars": {"OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}}
    quiet = {"runtime_env": paths, "log_to_driver": False, "logging_level": "ERROR"}
    if address is None:
        ray.init(address="local", num_cpus=workers, include_dashboard=False, **quiet)
    else:
        _reached(partial(_answers, address), address)  # Ray itself goes on asking for many minutes
        _reached(partial(ray.init, address=address, **quiet), address)
    try:
        yield Cluster(
            submit=ray.remote(num_cpus=1, max_retries=TRIES)(perform).remote,
            landed=lambda futures: ray.wait(futures, num_returns=1)[0],
            result=ray.get,
            width=2 * max(workers, int(ray.cluster_resources().get("CPU", 0))),
        )
    finally:
        ray.shutdown()
