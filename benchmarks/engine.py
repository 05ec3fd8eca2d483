"""The engine of studies: cells per minute, seconds to resume, and what a killed runner or worker costs.

Run: ``python benchmarks/engine.py [--cells 10000] [--cluster-cells 1000] [--finished 100000] [--only PART …]``.
Parts are ``local``, ``resume``, ``kills``, ``dask`` and ``ray``. A trivial cell returns one number at once; each is
forced to the disk by itself. Clusters have two workers of one thread on this machine; their start is counted apart.
"""

import argparse
import importlib
import itertools
import os
import random
import signal
import sys
import tempfile
import textwrap
import threading
import time
from multiprocessing import get_context
from pathlib import Path

import torch

from noumena.studies.engine import digest
from noumena.studies.rows import read
from noumena.studies.store import CellRecord
from noumena.studies.study import Study

TOY = '''
    """Trivial cells, and such as take ten milliseconds."""

    import os, time
    from pathlib import Path

    GRID = []

    def cells():
        return GRID

    def cell(kind, seed, folder=None):
        if kind == "short":
            time.sleep(0.01)
        if kind == "waits" and not Path(folder, "pid").exists():
            Path(folder).mkdir(parents=True, exist_ok=True)
            Path(folder, "part").write_text(str(os.getpid()))
            Path(folder, "part").rename(Path(folder, "pid"))
            time.sleep(1000)
        return {"value": seed**0.5}

    def compare(rows):
        return f"{len(rows)} rows"
    '''


def grid(kind, count):
    return [{"kind": kind, "seed": seed} for seed in range(count)]


def study(toy, folder, cells):
    toy.GRID = cells
    return Study(toy, Path(folder, "results"))


def values(one):
    return sorted((row["cell"], row["value"]) for row in one.store.rows())


def timed(one, engine, workers, **where):
    """Seconds in all, and those from the first record on."""
    begin, first = time.perf_counter(), []
    one.run(engine, workers=workers, tell=lambda _: first or first.append(time.perf_counter()), **where)
    end = time.perf_counter()
    return end - begin, end - first[0]


def throughput(toy, engine, workers, count):
    with tempfile.TemporaryDirectory() as folder:
        whole, running = timed(study(toy, folder, grid("trivial", count)), engine, workers)
        finished = study(toy, folder, grid("trivial", count)).state().finished
    name, pace = f"{engine}, {workers} worker{'s' * (workers > 1)}, {count} trivial cells", 60 * count / running
    say(name, f"{pace:9.0f} per minute", f"{running:.1f} s after the first, {whole:.1f} s in all, {finished} finished")


def resume(toy, count):
    cells = grid("trivial", count)
    rows = [
        CellRecord(digest(toy.cell, p), "", [{**p, "value": p["seed"] ** 0.5}], {"cell seconds": 0.0}) for p in cells
    ]
    with tempfile.TemporaryDirectory() as folder:
        one = study(toy, folder, cells)
        with one.store.journal() as journal:
            journal.append(*rows)
        for where in ("pending in a journal", "settled in the table"):
            begin = time.perf_counter()
            left = len(study(toy, folder, cells).tasks())
            say(
                f"resume, {count} finished cells {where}", f"{time.perf_counter() - begin:9.2f} s", f"{left} left to do"
            )
            begin = time.perf_counter()
            study(toy, folder, cells).run()
            if where.startswith("pending"):
                say("  and fold them into the table", f"{time.perf_counter() - begin:9.2f} s", "once")


def kills(toy, count=200, shots=10):
    draw = random.Random(0)
    with tempfile.TemporaryDirectory() as folder:
        whole = study(toy, f"{folder}/whole", grid("short", count))
        seconds, _ = timed(whole, "local", 1)
        one, seen = study(toy, f"{folder}/killed", grid("short", count)), []
        for _ in range(shots):
            process = get_context("fork").Process(target=one.run)
            process.start()
            process.join(draw.uniform(0, 1.5 * seconds / shots))
            os.kill(process.pid, signal.SIGKILL)
            process.join()
            seen.append(len(one.store.finished()))
        lost = any(b < a for a, b in itertools.pairwise(seen))
        one.run()
        table = read(one.store.path)
        same = values(one) == values(whole)
        doubled = len(table) - len({row["cell"] for row in table})
    say(f"runner of {count} cells killed {shots} times", f"{seconds:9.1f} s", "for a run that nobody kills")
    say("  finished after each", "", " ".join(map(str, seen)))
    say("  lost, doubled, equal to an uninterrupted run", "", f"{'some' if lost else 'none'}, {doubled}, {same}")


def killed_worker(toy, engine, workers, count=200):
    """The same study undisturbed, and with a worker killed in its middle."""
    cells = grid("short", count)
    waiting = [*cells[: count // 2], {"kind": "waits", "seed": 0}, *cells[count // 2 :]]
    with tempfile.TemporaryDirectory() as folder:
        calm = study(toy, f"{folder}/calm", cells)
        whole, running = timed(calm, engine, workers)
        rows = values(calm)
        say(
            f"{engine}, {workers} workers, {count} cells of 10 ms", f"{running:9.1f} s", f"{whole:.1f} s with its start"
        )
        one = study(toy, f"{folder}/killed", waiting)
        note = one.results.parent / "runs" / "studies" / one.name / "pid"
        threading.Thread(target=shoot, args=(note,), daemon=True).start()
        whole, running = timed(one, engine, workers)
        more = digest(toy.cell, waiting[count // 2])
        same = [row for row in values(one) if row[0] != more] == rows
        done = one.state().finished
    say("  one worker killed in the middle", f"{running:9.1f} s", f"{done} finished, same rows: {same}")


def shoot(note):
    while not note.exists():
        time.sleep(0.01)
    os.kill(int(note.read_text()), signal.SIGKILL)


def say(what, figure, more):
    print(f"{what:<52}{figure:<22}{more}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cells", type=int, default=10_000)
    parser.add_argument("--cluster-cells", type=int, default=1_000)
    parser.add_argument("--finished", type=int, default=100_000)
    parser.add_argument("--only", nargs="*", default=["local", "resume", "kills", "dask", "ray"])
    asked = parser.parse_args()
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as path:
        Path(path, "toy_engine.py").write_text(textwrap.dedent(TOY))
        sys.path.insert(0, path)
        toy = importlib.import_module("toy_engine")
        if "resume" in asked.only:
            resume(toy, asked.finished)
        if "kills" in asked.only:
            kills(toy)
        if "local" in asked.only:
            throughput(toy, "local", 1, asked.cells)
            throughput(toy, "local", 2, asked.cells)
            killed_worker(toy, "local", 2)
        for engine in ("dask", "ray"):
            if engine in asked.only:
                throughput(toy, engine, 2, asked.cluster_cells)
                killed_worker(toy, engine, 2)


if __name__ == "__main__":
    main()
