"""ICA of data larger than a worker's memory: time, passes, peak memory, and the difference from ICA in memory.

Run: ``python benchmarks/ica_dask.py [--rows 2000000] [--columns 64] [--chunks 16] [--memory 1GB]``.
Laplace sources, mixed by a random matrix, lie in float32 ``.npy`` chunks in a temporary folder. Two worker processes of
one thread each, limited by Dask to ``--memory``, fit them chunk by chunk; then the same rows are fitted in memory.
Peaks are resident sizes sampled every 10 ms, with those before the fit, which are mostly PyTorch itself, in brackets.
"""

import argparse
import os
import tempfile
import threading
import time
from contextlib import contextmanager
from pathlib import Path

import dask
import dask.array as da
import numpy as np
import psutil
import torch
from scipy.optimize import linear_sum_assignment

from noumena.estimators.ica.ica import ICA
from noumena.metrics import mcc


class Watched(ICA):
    """ICA that shows the stream it read from."""

    def _data(self, x, seed):
        self.read = super()._data(x, seed)
        return self.read


def sources(rows, columns, chunk):
    return np.random.default_rng([7, chunk]).laplace(size=(rows, columns)).astype(np.float32)


def written(folder, rows, columns, chunks):
    """Chunk files, and the Dask array that loads each where it is needed."""
    mixing = np.random.default_rng(7).normal(size=(columns, columns)).astype(np.float32)
    sizes = np.diff(np.linspace(0, rows, chunks + 1).astype(int)).tolist()
    parts = []
    for chunk, size in enumerate(sizes):
        path = str(folder / f"x{chunk:03}.npy")
        np.save(path, sources(size, columns, chunk) @ mixing.T)
        parts.append(da.from_delayed(dask.delayed(np.load)(path), (size, columns), np.float32))
    return sizes, da.concatenate(parts)


@contextmanager
def peaks(pids):
    """Resident size of each process before the block, and its largest during it, in MB."""
    processes = [psutil.Process(pid) for pid in pids]
    before = [p.memory_info().rss / 1e6 for p in processes]
    highest, over = list(before), threading.Event()

    def watch():
        while not over.wait(0.01):
            for i, process in enumerate(processes):
                highest[i] = max(highest[i], process.memory_info().rss / 1e6)

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield before, highest
    finally:
        over.set()
        thread.join()


def difference(ours, theirs):
    """The largest difference of unit-length components after matching, up to sign."""
    ours, theirs = (c / np.linalg.norm(c, axis=1, keepdims=True) for c in (ours, theirs))
    likeness = ours @ np.linalg.pinv(theirs)
    _, to = linear_sum_assignment(-np.abs(likeness))
    signs = np.sign(likeness[np.arange(len(to)), to])
    return np.abs(ours - signs[:, None] * theirs[to]).max()


def import_torch():
    import noumena.estimators.ica.streams  # noqa: F401

    return os.getpid()


def on_workers(x, memory):
    """The fitted model and its seconds; peaks and restarts are printed."""
    from distributed import Client, LocalCluster

    options = {"n_workers": 2, "threads_per_worker": 1, "processes": True, "dashboard_address": None}
    with LocalCluster(memory_limit=memory, **options) as cluster, Client(cluster) as client:
        pids = list(client.run(import_torch).values())
        with peaks([*pids, os.getpid()]) as (before, highest):
            start = time.perf_counter()
            model = Watched().fit(x)
            seconds = time.perf_counter() - start
        kept = sorted(client.run(os.getpid).values()) == sorted(pids)
    for name, base, peak in zip(("worker 1", "worker 2", "client"), before, highest, strict=True):
        print(f"{name:<10} peak {peak:6.0f} MB  (before the fit {base:.0f})")
    print(f"workers restarted: {'none' if kept else 'yes'}")
    return model, seconds


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--columns", type=int, default=64)
    parser.add_argument("--chunks", type=int, default=16)
    parser.add_argument("--memory", default="1GB", help="of each of the two workers")
    asked = parser.parse_args()
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as name:
        sizes, x = written(Path(name), asked.rows, asked.columns, asked.chunks)
        print(f"{asked.rows} × {asked.columns} float32, {x.nbytes / 1e6:.0f} MB in {asked.chunks} chunks on disk")
        print(f"two worker processes of one thread, {asked.memory} each")
        model, seconds = on_workers(x, asked.memory)
        print(
            f"fit        {seconds:6.1f} s   {model.read.passes} passes over the data, {model.n_iter_} steps, ", end=""
        )
        print("at rest" if model.converged_ else f"not at rest ({model.change_:.2g})")
        rows = np.concatenate([np.load(path) for path in sorted(Path(name).iterdir())])
    start = time.perf_counter()
    whole = ICA().fit(rows)
    print(f"in memory  {time.perf_counter() - start:6.1f} s   on one thread, {whole.n_iter_} steps")
    apart = difference(model.components_, whole.components_)
    print(f"largest difference of an entry of the components, matched and of unit length: {apart:.1e}")
    truth = np.concatenate([sources(size, asked.columns, chunk) for chunk, size in enumerate(sizes[:2])])
    for name, fitted in (("workers", model), ("memory", whole)):
        score = mcc(truth, fitted.transform(rows[: len(truth)])).score
        print(f"MCC with the true sources, {name:<8}{score:.5f}")


if __name__ == "__main__":
    main()
