"""A study of cells that compute, raise, hang or die, on the path of this process and of its workers."""

import importlib
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from noumena.studies.study import Study

TOY = '''
    """Toy: cells that compute, raise, hang or die."""

    import os, signal, time
    from pathlib import Path

    SEEDS = 6

    def cells():
        return [{"kind": "fine", "d": d, "seed": seed} for d in (1, 2) for seed in range(SEEDS)]

    def tiny():
        return cells()[:2]

    def cell(kind, d, seed, folder=None, device=None):
        if kind == "raises":
            raise ValueError("no " * 5000)
        if kind == "hangs":
            while True:
                time.sleep(0.01)
        if kind == "dies":
            os.kill(os.getpid(), signal.SIGKILL)
        if kind == "waits":  # to be killed from outside, once
            note = Path(folder, f"pid{seed}")
            if not note.exists():
                note.parent.mkdir(parents=True, exist_ok=True)
                note.with_suffix(".part").write_text(str(os.getpid()))
                note.with_suffix(".part").rename(note)
                time.sleep(100)
        if kind == "asks":
            time.sleep(0.2)
            return {"device": device, "process": os.getpid()}
        if kind == "short":
            time.sleep(0.01)
        if kind == "nothing":
            return []
        if kind == "none":
            return None
        return [{"part": part, "value": d * 0.1 + seed**0.5 + part} for part in (0, 1)]

    def compare(rows):
        return f"{len(rows)} rows"
    '''
TOGETHER = '''
    """Toy: the same cells, those of all seeds at once."""

    from toy_cells import cell, cells, compare

    CALLS = []

    def together(seeds, kind, d):
        CALLS.append((seeds, kind, d))
        return {seed: cell(kind, d, seed) for seed in seeds}
    '''


@pytest.fixture(scope="module")
def toy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ModuleType]:
    """A study of cells on the path of this process and of its workers."""
    folder = tmp_path_factory.mktemp("path")
    (folder / "toy_cells.py").write_text(textwrap.dedent(TOY))
    (folder / "toy_together.py").write_text(textwrap.dedent(TOGETHER))
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(folder))
        patch.setenv("PYTHONPATH", str(folder))
        patch.setenv("OMP_NUM_THREADS", "1")
        yield importlib.import_module("toy_cells")
    for name in ("toy_cells", "toy_together"):
        sys.modules.pop(name, None)


def of(*kinds: str, d: int = 1, seeds: int = 1) -> list[dict[str, Any]]:
    return [{"kind": kind, "d": d, "seed": seed} for kind in kinds for seed in range(seeds)]


def with_cells(toy: ModuleType, folder: Path, cells: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch) -> Study:
    monkeypatch.setattr(toy, "cells", lambda: cells)
    return Study(toy, folder / "results")


def values(study: Study) -> list[tuple[Any, ...]]:
    """What was found, without how; every row that there is, so that one that is doubled shows."""
    names = ("kind", "d", "seed", "part", "value", "error", "cell", "code")
    return sorted((tuple(row.get(name) for name in names) for row in study.store.rows()), key=repr)
