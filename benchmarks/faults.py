"""Faults: what survives a kill, a full disk, a folder that cannot be written to, damaged files and two writers.

Run: ``python benchmarks/faults.py [--tries 20] [--out results/benchmarks/faults.txt]``.
A try survives when what was on the disk before is still read, or what came after it is, whole; or when it is refused in
one sentence and nothing else was lost. It is lost when a file can no longer be read that could be before, or when other
numbers come out of it than were put in. Killed runners and workers of whole studies are in ``benchmarks/engine.py``.
"""

import argparse
import itertools
import os
import random
import signal
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import Any

import faults_of_studies
import numpy as np
import torch
from children import Counts, cut, ended, full_disk, in_a_child, killed

import noumena as nm
from noumena.checks import InputError
from noumena.estimators.checkpoint import Checkpoint

X = np.random.default_rng(0).normal(size=(60, 3))


def fitted(seed: int, **more: Any) -> Any:
    return nm.VAE(2, training=nm.Training(steps=3, **more), n_models=1, random_state=seed).fit(X)


def read_as(folder: Path, models: list[Any]) -> bool:
    """Whether a run is one of these models, whole."""
    try:
        found = nm.load(folder).transform(X)
    except InputError:
        return False
    return any(np.array_equal(found, model.transform(X)) for model in models)


# ---- faults --------------------------------------------------------------------------------------------------------


def kill_while_saving(folder: Path, tries: int) -> Counts:
    """Two models are saved as one run in turn, and the writer is killed; the run is one of the two, whole."""
    models = [fitted(0), fitted(1)]
    nm.save(models[0], folder / "run")
    survived = 0
    for k in range(tries):
        turns = itertools.cycle(models)
        killed(
            lambda turns=turns: nm.save(next(turns), folder / "run", force=True), random.Random(k).uniform(0.005, 0.06)
        )
        survived += read_as(folder / "run", models)
    return tries, survived


def kill_while_checkpointing(folder: Path, tries: int) -> Counts:
    """The checkpoint is whole after every kill, and holds what one of the writes put there."""
    path, numbers = folder / "c.safetensors", iter(range(10**9))
    Checkpoint(0, "f", {"w": torch.zeros(20_000)}).save(path)

    def write() -> None:
        step = next(numbers)
        Checkpoint(step, "f", {"w": torch.full((20_000,), float(step))}).save(path)

    survived = 0
    for k in range(tries):
        killed(write, random.Random(k).uniform(0.005, 0.06))
        found = Checkpoint.load(path, "f")
        survived += bool((found.tensors["w"] == found.step).all())
    return tries, survived


def kill_while_fitting(folder: Path, tries: int) -> Counts:
    """A fit that was killed goes on from its checkpoint to the same numbers."""
    settings: dict[str, Any] = {"steps": 60, "checkpoint_seconds": 0.0}

    def fit(path: Path) -> Any:
        return nm.VAE(2, training=nm.Training(checkpoint=path, **settings), n_models=1, random_state=0).fit(X)

    whole = fit(folder / "whole.safetensors").transform(X)
    survived = 0
    for k in range(tries):
        path = folder / f"{k}.safetensors"
        child = in_a_child(lambda path=path: fit(path))
        time.sleep(random.Random(k).uniform(0.05, 0.3))
        os.kill(child, signal.SIGKILL)
        ended(child)
        survived += bool(np.array_equal(fit(path).transform(X), whole))
    return tries, survived


def kill_while_extracting(folder: Path, tries: int) -> Counts:
    """A table that grows in a file is never found under its name before it is complete, and completes when resumed."""
    from noumena.extraction import representations

    model = Slow().requires_grad_(False)
    table = torch.as_tensor(X, dtype=torch.float32)

    def extract(out: Path | None = None) -> np.ndarray:
        return np.asarray(representations(model, table, batch_size=2, out=out))

    whole, survived = extract(), 0
    for k in range(tries):
        out = folder / f"{k}.npy"
        child = in_a_child(lambda out=out: extract(out))
        time.sleep(random.Random(k).uniform(0.01, 0.12))
        os.kill(child, signal.SIGKILL)
        ended(child)
        survived += bool(np.array_equal(np.load(out, allow_pickle=False) if out.exists() else extract(out), whole))
    return tries, survived


class Slow(torch.nn.Linear):
    """Batches that take a while, so that a kill falls between two of them."""

    def __init__(self) -> None:
        torch.manual_seed(0)
        super().__init__(3, 4)

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        time.sleep(0.004)
        return super().forward(rows)


def full_disk_while_saving(folder: Path, tries: int) -> Counts:
    """A run that cannot be written stays as it was."""
    old, new = fitted(0), fitted(1)
    nm.save(old, folder / "run")
    survived = 0
    for k in range(tries):
        code = full_disk(lambda: nm.save(new, folder / "run", force=True), 64 * (k + 1))
        survived += code == 3 and read_as(folder / "run", [old]) and not list(folder.rglob("*.part"))
    return tries, survived


def full_disk_while_checkpointing(folder: Path, tries: int) -> Counts:
    """A checkpoint that cannot be written stays as it was."""
    path = folder / "c.safetensors"
    Checkpoint(1, "f", {"w": torch.ones(5000)}).save(path)
    survived = 0
    for k in range(tries):
        code = full_disk(lambda: Checkpoint(2, "f", {"w": torch.zeros(5000)}).save(path), 100 * (k + 1))
        survived += code == 3 and Checkpoint.load(path, "f").step == 1
    return tries, survived


def no_writing(folder: Path, tries: int) -> Counts:
    """A folder that cannot be written to is one sentence before the work begins."""
    from noumena.cli.folders import claim

    survived = 0
    for k in range(tries):
        try:
            claim(Path("/proc") / f"run{k}", force=False)
        except InputError as error:
            survived += "--out must be a folder that can be written to" in str(error)
    return tries, survived


def _damaged(folder: Path, tries: int, name: str, change: Any) -> Counts:
    model = fitted(0)
    nm.save(model, folder / "run")
    path = folder / "run" / name
    whole, survived = path.read_bytes(), 0
    for k in range(tries):
        path.write_bytes(change(whole, random.Random(k)))
        try:
            nm.load(folder / "run")
            survived += name == "history.csv" or read_as(folder / "run", [model])
        except InputError as error:
            survived += "\n" not in str(error)
    return tries, survived


def _overwritten(whole: bytes, rng: random.Random) -> bytes:
    at = rng.randrange(min(len(whole), 200))
    return whole[:at] + rng.randbytes(8) + whole[at + 8 :]


def two_writers(folder: Path, tries: int) -> Counts:
    """Two processes save two models as the same run at once; neither fails, and one of the two can be read."""
    models = [fitted(0), fitted(1)]
    survived = 0
    for k in range(tries):
        path = folder / f"{k}"

        def often(model: Any, path: Path = path) -> None:
            for _ in range(5):
                nm.save(model, path, force=True)

        codes = [ended(child) for child in [in_a_child(partial(often, model)) for model in models]]
        survived += codes == [0, 0] and read_as(path, models)
    return tries, survived


def clock_jumps(folder: Path, tries: int) -> Counts:
    """A wall clock that jumps by days either way changes nothing."""
    before, wall, survived = fitted(0).transform(X), time.time, 0
    try:
        for k in range(tries):
            rng = random.Random(k)
            time.time = lambda rng=rng: wall() + rng.uniform(-1e6, 1e6)
            found = fitted(0, checkpoint=folder / f"{k}.safetensors", checkpoint_seconds=0.0)
            survived += bool(np.array_equal(found.transform(X), before))
    finally:
        time.time = wall
    return tries, survived


FAULTS: dict[str, Any] = {
    "kill -9 while a run is saved": kill_while_saving,
    "kill -9 while a checkpoint is written": kill_while_checkpointing,
    "kill -9 during a fit, then resumed": kill_while_fitting,
    "kill -9 during an extraction, then resumed": kill_while_extracting,
    "full disk while a run is saved": full_disk_while_saving,
    "full disk while a checkpoint is written": full_disk_while_checkpointing,
    "a folder that cannot be written to": no_writing,
    "truncated weights": lambda folder, tries: _damaged(folder, tries, "weights.safetensors", cut),
    "overwritten head of weights": lambda folder, tries: _damaged(folder, tries, "weights.safetensors", _overwritten),
    "truncated config.json": lambda folder, tries: _damaged(folder, tries, "config.json", cut),
    "truncated history.csv": lambda folder, tries: _damaged(folder, tries, "history.csv", cut),
    "two writers of one run": two_writers,
    "a clock that jumps": clock_jumps,
    **faults_of_studies.FAULTS,
}


def tried(name: str, tries: int) -> Counts:
    """Tries of a fault in a folder of its own, and how many survived."""
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        return FAULTS[name](Path(folder), tries)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--tries", type=int, default=20)
    options.add_argument("--out", type=Path)
    given = options.parse_args()
    lines = [f"{'fault':44}  {'tries':>5}  {'survived':>8}  {'lost':>4}"]
    print(lines[0], flush=True)
    for name in FAULTS:
        tries, survived = tried(name, given.tries)
        lines.append(f"{name:44}  {tries:5}  {survived:8}  {tries - survived:4}")
        print(lines[-1], flush=True)
    if given.out:
        given.out.write_text("\n".join([*lines, ""]))


if __name__ == "__main__":
    main()
