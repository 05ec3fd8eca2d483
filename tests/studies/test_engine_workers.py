"""The engine: the same rows from several processes, a Dask and a Ray cluster, whatever is killed on the way."""

import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Iterator
from concurrent.futures import Executor, Future
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from toy_study import of, values, with_cells
from toy_study import toy as toy

from noumena.studies import executors
from noumena.studies.engine import Task, records
from noumena.studies.files import StudyFile
from noumena.studies.limits import Limits
from noumena.studies.study import Study


@pytest.fixture(scope="module")
def dask_address(toy: ModuleType) -> Iterator[str]:
    """A Dask cluster of two workers."""
    dask, distributed = pytest.importorskip("dask"), pytest.importorskip("distributed")
    own = {"n_workers": 2, "threads_per_worker": 1, "processes": True, "dashboard_address": ":0"}
    patient = dask.config.set({"distributed.deploy.lost-worker-timeout": "5 minutes"})
    with patient, distributed.LocalCluster(**own, silence_logs=50) as cluster:
        yield cluster.scheduler_address


# ---- several processes and clusters ----------------------------------------------------------------------------------


class Killer(threading.Thread):
    """Kills the process of a cell that waits for it, from outside."""

    def __init__(self, note: Path):
        super().__init__(daemon=True)
        self.note, self.killed = note, 0

    def run(self) -> None:
        end = time.monotonic() + 200
        while time.monotonic() < end:
            if self.note.exists():
                os.kill(int(self.note.read_text()), signal.SIGKILL)
                self.killed += 1
                return
            time.sleep(0.02)


def with_one_worker_killed(study: Study, name: str, **where: Any) -> int:
    killer = Killer(study.results.parent / "runs" / "studies" / study.name / "pid0")
    killer.start()
    study.run(name, workers=2, **where)
    killer.join(1)
    return killer.killed


def grid(toy: ModuleType) -> list[dict[str, Any]]:
    fine = of("fine", seeds=12)
    return [*fine[:5], *of("raises", "waits"), *fine[5:]]


def expected(toy: ModuleType, folder: Path, monkeypatch: pytest.MonkeyPatch) -> list[tuple[Any, ...]]:
    """The same rows, computed here without anybody being killed."""
    study = with_cells(toy, folder / "alone", grid(toy), monkeypatch)
    note = study.results.parent / "runs" / "studies" / study.name / "pid0"
    note.parent.mkdir(parents=True)
    note.touch()
    return values(study.run())


@pytest.mark.slow
def test_two_processes_complete_with_the_same_rows_when_one_is_killed(toy, tmp_path, monkeypatch):
    rows = expected(toy, tmp_path, monkeypatch)
    study = with_cells(toy, tmp_path, grid(toy), monkeypatch)
    assert with_one_worker_killed(study, "local") == 1
    assert values(study) == rows
    assert len(rows) == 13 * 2 + 1


@pytest.mark.slow
def test_two_processes_record_cells_that_hang_and_die_and_complete_the_rest(toy, tmp_path, monkeypatch):
    cells = [*of("fine", seeds=4), *of("dies", "hangs"), *of("fine", d=2, seeds=4)]
    study = with_cells(toy, tmp_path, cells, monkeypatch).run(workers=2, limits=Limits(seconds=3))
    errors = {row["kind"]: row.get("error") for row in study.store.rows()}
    assert errors == {
        "fine": None,
        "dies": "WorkerLost: the process that computed the cell died, more than once",
        "hangs": "LimitError: The cell ran for more than 3 s.",
    }
    assert study.state().finished == 8


@pytest.mark.slow
def test_workers_share_out_the_devices(toy, tmp_path, monkeypatch):
    study = with_cells(toy, tmp_path, of("asks", seeds=12), monkeypatch)
    study.run(workers=2, devices=("first", "second"))
    by_process = {row["process"]: row["device"] for row in study.store.rows()}
    assert len({(row["process"], row["device"]) for row in study.store.rows()}) == len(by_process)
    assert sorted(by_process.values()) == ["first", "second"]
    study.run(workers=2, devices=("third",), again=True)
    assert {row["device"] for row in study.store.rows()} == {"third"}


def test_workers_that_cannot_begin_are_an_error_and_no_endless_loop(toy, monkeypatch):
    pools = []

    class NoWorkers(Executor):
        def __init__(self, **_):
            pools.append(self)

        def submit(self, function, /, *given):
            future = Future()
            future.set_exception(BrokenProcessPool("no worker"))
            return future

        def shutdown(self, *, kill_workers):
            assert kill_workers

    monkeypatch.setattr(executors, "ProcessPoolExecutor", NoWorkers)
    with pytest.raises(BrokenProcessPool):
        list(records([Task(("a",), "v", ({},), StudyFile.at(toy.__file__))], workers=2))
    assert len(pools) == 1


@pytest.mark.slow
def test_a_dask_cluster_completes_with_the_same_rows_when_a_worker_is_killed(toy, dask_address, tmp_path, monkeypatch):
    rows = expected(toy, tmp_path, monkeypatch)
    study = with_cells(toy, tmp_path, grid(toy), monkeypatch)
    assert with_one_worker_killed(study, "dask", address=dask_address) == 1
    assert values(study) == rows


@pytest.mark.slow
def test_a_ray_cluster_of_our_own_completes_with_the_same_rows_when_a_worker_is_killed(toy, tmp_path, monkeypatch):
    pytest.importorskip("ray")
    rows = expected(toy, tmp_path, monkeypatch)
    study = with_cells(toy, tmp_path, grid(toy), monkeypatch)
    assert with_one_worker_killed(study, "ray") == 1
    assert values(study) == rows


@pytest.mark.slow
@pytest.mark.parametrize("name", ["dask", "ray"])
def test_a_cluster_of_our_own_records_a_cell_that_kills_its_workers_and_blames_no_other(
    toy, tmp_path, monkeypatch, name
):
    pytest.importorskip(name)
    cells = [*of("fine", seeds=6), *of("dies"), *of("fine", d=2, seeds=6)]
    study = with_cells(toy, tmp_path, cells, monkeypatch).run(name, workers=2)
    errors = {row["kind"]: row.get("error") for row in study.store.rows()}
    assert errors["fine"] is None
    assert errors["dies"].startswith("WorkerLost")
    assert study.state().finished == 12


RAY = """
    import sys, time, ray
    print(ray.init(num_cpus=2, include_dashboard=False, logging_level="ERROR").address_info["address"], flush=True)
    sys.stdin.read()
"""


@pytest.mark.slow
def test_a_ray_cluster_by_its_address_gives_the_same_rows(toy, tmp_path, monkeypatch):
    pytest.importorskip("ray")
    rows = expected(toy, tmp_path, monkeypatch)
    asked = [sys.executable, "-c", textwrap.dedent(RAY)]
    with subprocess.Popen(asked, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as cluster:
        assert cluster.stdout is not None
        address = cluster.stdout.readline().strip()
        study = with_cells(toy, tmp_path, grid(toy), monkeypatch)
        assert with_one_worker_killed(study, "ray", address=address) == 1
        cluster.communicate("")
    assert values(study) == rows
