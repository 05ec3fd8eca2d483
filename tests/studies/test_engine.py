"""The engine in one process: every cell leaves its rows, and a runner that is stopped loses and doubles nothing."""

import importlib
import json
import os
import random
import signal
import subprocess
import sys
import textwrap
from multiprocessing import get_context
from pathlib import Path

import pytest
from toy_study import of, values, with_cells
from toy_study import toy as toy

from noumena.checks import InputError
from noumena.studies import engine, executors
from noumena.studies.engine import Conditions, Task, digest, perform, records
from noumena.studies.files import StudyFile
from noumena.studies.limits import Limits
from noumena.studies.rows import read
from noumena.studies.study import Study

# ---- one process ---------------------------------------------------------------------------------------------------


def test_every_cell_leaves_its_rows_and_how_they_were_computed(toy, tmp_path):
    study = Study(toy, tmp_path).run()
    rows = read(tmp_path / "toy_cells" / "rows.csv")
    assert [(row["d"], row["seed"], row["part"]) for row in rows] == [
        (d, seed, part) for d in (1, 2) for seed in range(6) for part in (0, 1)
    ]
    assert rows[0]["value"] == 0.1
    assert rows[0]["cell"] == digest(toy.cell, {"kind": "fine", "d": 1, "seed": 0})
    assert (rows[0]["code"], study.code) == (None, ""), "the toy lies in no repository"
    assert rows[0]["peak MB"] > 10
    assert "numpy" in rows[0]["versions"]
    assert study.state().finished == 12
    assert study.compare() == "24 rows"


def test_finished_cells_are_not_computed_again_unless_that_is_asked_for(toy, tmp_path, monkeypatch):
    study = Study(toy, tmp_path).run(only={"d": 1})
    assert len(study.tasks()) == 6
    monkeypatch.setattr(engine, "perform", lambda *_: pytest.fail("a finished cell was computed"))
    study.run(only={"d": 1})
    assert len(study.tasks(again=True)) == 12
    changed = Study(toy, tmp_path)
    changed.__dict__["code"] = "g-of-another-day"
    assert len(changed.tasks()) == 6
    monkeypatch.undo()
    changed.run(only={"d": 1}, again=True)
    assert {row["code"] for row in changed.rows()} == {"g-of-another-day"}


def test_failures_are_recorded_and_tried_again(toy, tmp_path, monkeypatch):
    cells = of("fine", "raises", "hangs", "nothing", "none", "fine", seeds=2)
    study = with_cells(toy, tmp_path, cells, monkeypatch).run(limits=Limits(seconds=1))
    errors = {row["kind"]: row.get("error") for row in study.store.rows()}
    assert errors["fine"] is errors["nothing"] is None
    assert errors["raises"].startswith("ValueError: no no")
    assert len(errors["raises"]) < 2100
    assert errors["hangs"] == "LimitError: The cell ran for more than 1 s."
    assert errors["none"]
    state = study.state()
    assert (state.cells, state.finished, state.failed) == (10, 4, 6)
    assert {task.parameters[0]["kind"] for task in study.tasks()} == {"raises", "hangs", "none"}


def test_progress_counts_cells_and_failures(toy, tmp_path, monkeypatch):
    told = []
    with_cells(toy, tmp_path, of("raises", "fine", seeds=2), monkeypatch).run(tell=told.append)
    assert [(p.done, p.all, p.failed) for p in told] == [(1, 4, 1), (2, 4, 2), (3, 4, 2), (4, 4, 2)]
    assert told[-1].left == 0


def test_cells_of_several_seeds_are_one_call_with_the_keys_of_single_ones(toy, tmp_path):
    together = importlib.import_module("toy_together")
    single = Study(toy, tmp_path / "single").run()
    batched = Study(together, tmp_path / "batched").run(only={"d": 1}).run(only={"seed": 3}).run()
    calls = list(together.CALLS)
    assert calls == [(tuple(range(6)), "fine", 1), ((3,), "fine", 2), ((0, 1, 2, 4, 5), "fine", 2)]
    assert [row[:-1] for row in values(batched)] == [row[:-1] for row in values(single)]
    file = StudyFile.at(together.__file__)
    failed = [Task(("a", "b"), "v", ({"seed": 0}, {"seed": 1}), file, "together", (0, 1))]
    assert [(r.cell, r.failed, r.rows[0]["seed"]) for r in records(failed)] == [("a", True, 0), ("b", True, 1)]


def test_devices_may_change_from_run_to_run_in_one_process(toy):
    task = Task(("a",), "v", ({"kind": "asks", "d": 1, "seed": 0},), StudyFile.at(toy.__file__))
    found = [perform(task, Conditions(devices=(name,), driver=1))[0].rows[0]["device"] for name in ("one", "two")]
    assert found == ["one", "two"]
    assert perform(task, Conditions())[0].rows[0]["device"] is None


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"engine": "slurm"}, "engine must be one of local, dask, ray. Got 'slurm'."),
        ({"workers": 0}, "workers must be a whole number of at least 1. Got 0."),
        ({"address": "tcp://here:1"}, "An address must be that of a dask or ray engine. Got local."),
    ],
)
def test_what_cannot_be_asked_for_is_one_sentence(toy, tmp_path, given, sentence):
    with pytest.raises(InputError) as error:
        Study(toy, tmp_path).run(**given)
    assert str(error.value) == sentence


def test_a_study_without_a_miniature_says_so(toy, tmp_path):
    together = importlib.import_module("toy_together")
    with pytest.raises(InputError, match=r"^The study must have a miniature\. Got toy_together\.$"):
        Study(together, tmp_path).run(tiny=True)


def test_nothing_to_do_starts_no_cluster(toy, tmp_path, monkeypatch):
    Study(toy, tmp_path).run()
    monkeypatch.setattr(executors, "opened", lambda *_: pytest.fail("a cluster was started"))
    again = Study(toy, tmp_path).run("dask")
    assert again.state().finished == again.state().cells


# ---- the runner is stopped -----------------------------------------------------------------------------------------


def runs(study: Study, errors: Path) -> None:
    try:
        study.run()
    except BaseException as error:
        errors.write_text(repr(error))
        raise


def shot(study: Study, seconds: float, folder: Path) -> int:
    """Run in another process, killed after a while; its exit code."""
    process = get_context("fork").Process(target=runs, args=(study, folder / "errors"))
    process.start()
    process.join(seconds)
    if process.is_alive():
        assert process.pid is not None
        os.kill(process.pid, signal.SIGKILL)
    process.join()
    return process.exitcode or 0


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
@pytest.mark.parametrize("kills", [3, pytest.param(10, marks=pytest.mark.slow)])
def test_a_runner_that_is_killed_at_random_times_loses_and_doubles_nothing(toy, tmp_path, monkeypatch, kills):
    cells = [{"kind": "short", "d": d, "seed": seed} for d in range(10) for seed in range(20)]
    whole = with_cells(toy, tmp_path / "whole", cells, monkeypatch).run()
    study, draw, before = with_cells(toy, tmp_path / "killed", cells, monkeypatch), random.Random(kills), 0
    shots = 0
    while shots < kills:
        ended = shot(study, draw.uniform(0.0, 2.0 / kills), tmp_path)
        assert ended == -signal.SIGKILL, (tmp_path / "errors").read_text() if ended > 0 else "it was too fast"
        shots += 1
        now = len(study.store.finished())
        assert now >= before, "a finished cell was lost"
        before = now
        cells_seen = [row["cell"] for row in study.store.rows()]
        assert len(cells_seen) == 2 * len(set(cells_seen)), "a cell was doubled or torn"
    assert 0 < before < 200
    left = len(study.tasks())
    assert left == 200 - before
    study.run()
    assert values(study) == values(whole)
    assert len(read(study.store.path)) == 400
    assert list(study.store.journals.iterdir()) == []


STOPPED = """
    import signal, sys, toy_cells
    from noumena.studies.study import Study
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs do not hear it
    toy_cells.cells = lambda: [{"kind": "asks", "d": d, "seed": seed} for d in range(10) for seed in range(20)]
    study = Study(toy_cells, sys.argv[1])
    try:
        study.run(workers=int(sys.argv[2]), tell=lambda progress: print(progress.done, flush=True))
    except KeyboardInterrupt:
        print("stopped", flush=True)
"""


@pytest.mark.parametrize("workers", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_ctrl_c_keeps_what_is_finished(toy, tmp_path, workers):
    asked = [sys.executable, "-c", textwrap.dedent(STOPPED), str(tmp_path), str(workers)]
    with subprocess.Popen(asked, stdout=subprocess.PIPE, text=True, start_new_session=True) as run:
        assert run.stdout is not None
        for _ in range(5):
            run.stdout.readline()
        os.killpg(run.pid, signal.SIGINT)  # as a terminal does: to all processes of the command
        said = run.stdout.read().split()
    assert said[-1] == "stopped"
    done = max([5, *(int(word) for word in said[:-1])])
    rows = read(tmp_path / "toy_cells" / "rows.csv")
    assert done <= len(rows) <= done + 1
    assert len({row["cell"] for row in rows}) == len(rows)
    assert {row.get("error") for row in rows} == {None}
    assert list((tmp_path / "toy_cells" / "journal").iterdir()) == []
    assert json.dumps(rows)
