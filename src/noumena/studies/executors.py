"""Executors: where cells are computed, each as a ``concurrent.futures.Executor`` and the number of cells at a time.

- ``local``: processes of one thread each on this machine, by loky.
- ``dask``: a Dask cluster by its address, or one of our own on this machine.
- ``ray``: a Ray cluster by its address, or one of our own on this machine.
"""

from __future__ import annotations

import logging
import os
import socket
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future
from contextlib import AbstractContextManager, ExitStack, contextmanager
from functools import partial
from importlib import import_module
from typing import Any

from joblib.externals.loky import ProcessPoolExecutor

from noumena import checks

TRIES = 1
"""How often a cluster of our own gives a cell to another worker when one has died."""
START = "10 minutes"
"""How long a worker of Dask may take to come back: it imports torch on a machine that others use."""
IDLE = 300
"""Seconds after which a process without work ends, also where whoever started it was killed."""
ONE_THREAD = dict.fromkeys(
    [f"{library}_NUM_THREADS" for library in ("OMP", "OPENBLAS", "MKL", "BLIS", "NUMBA", "NUMEXPR")], "1"
)
LOST = {"BrokenExecutor", "KilledWorker", "WorkerCrashedError", "NodeDiedError", "OutOfMemoryError"}
"""Errors of executors: what a cell raises is in its record."""

Opened = Iterator[tuple[Executor, int]]


def opened(engine: str, workers: int, address: str | None) -> AbstractContextManager[tuple[Executor, int]]:
    """An executor whose workers run, and how many cells it computes at a time."""
    return {"local": _local, "dask": _dask, "ray": _ray}[engine](workers, address)


def died(error: BaseException | None) -> bool:
    """Whether an error says that a worker is gone."""
    return bool({kind.__name__ for kind in type(error).__mro__} & LOST)


@contextmanager
def _local(workers: int, _: str | None) -> Opened:
    pool, whole = ProcessPoolExecutor(max_workers=workers, timeout=IDLE, env=ONE_THREAD), False
    try:
        pool.submit(int).result()  # workers that cannot even begin are an error, and no cell's fault
        yield pool, workers
        whole = True
    finally:
        pool.shutdown(kill_workers=not whole)


@contextmanager
def _dask(workers: int, address: str | None) -> Opened:
    distributed = _extra("distributed", "dask")
    patient = {"distributed.deploy.lost-worker-timeout": START, "distributed.scheduler.allowed-failures": TRIES}
    with ExitStack() as stack:
        if address is None:
            stack.enter_context(_extra("dask", "dask").config.set(patient))
            own = {"n_workers": workers, "threads_per_worker": 1, "processes": True, "dashboard_address": ":0"}
            cluster = stack.enter_context(distributed.LocalCluster(**own, silence_logs=logging.ERROR))
            address = str(cluster.scheduler_address)
        client = stack.enter_context(_reached(partial(distributed.Client, address, timeout=10), address))
        pool = client.get_executor(pure=False)
        stack.callback(pool.shutdown, wait=False)
        yield pool, max(workers, sum(client.nthreads().values()))


class RayExecutor(Executor):
    """Functions on the workers of Ray as futures."""

    def __init__(self, ray: Any):
        self._start = ray.remote(num_cpus=1, max_retries=TRIES)(_called)

    def submit(self, function: Callable[..., Any], /, *given: Any) -> Future[Any]:
        """The future of a call."""
        return self._start.remote(function, *given).future()


def _called(function: Callable[..., Any], *given: Any) -> Any:
    return function(*given)


@contextmanager
def _ray(workers: int, address: str | None) -> Opened:
    ray = _extra("ray", "ray")
    paths = {"env_vars": {"OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}}
    quiet = {"runtime_env": paths, "log_to_driver": False, "logging_level": "ERROR"}
    if address is None:
        ray.init(address="local", num_cpus=workers, include_dashboard=False, **quiet)
    else:
        _reached(partial(_answers, address), address)  # Ray itself goes on asking for many minutes
        _reached(partial(ray.init, address=address, **quiet), address)
    try:
        yield RayExecutor(ray), max(workers, int(ray.cluster_resources().get("CPU", 0)))
    finally:
        ray.shutdown()


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
    try:
        return import_module(module)
    except ImportError as error:
        raise checks.InputError(
            f"The engine {extra} must be installed: pip install 'noumena[{extra}]'. Got {error}."
        ) from error
