"""Rows in files and Dask arrays, read in small blocks, and the sentence that refuses others."""

import dask
import dask.array as da
import numpy as np
import pytest

from noumena.checks import InputError
from noumena.estimators.ica import streams

N, P, K = 3001, 5, 4
CHUNKS = ((1000, 1, 700, 0, 1300), (P,))


def rows_of(offset=0.0, dtype=np.float32, n=N):
    rng = np.random.default_rng(0)
    x = rng.laplace(size=(n, P)) @ rng.normal(size=(P, P)) + offset
    return np.asarray(10 * x if np.dtype(dtype).kind == "i" else x, dtype=dtype)


def as_map(x, tmp_path):
    np.save(tmp_path / "x.npy", x)
    return np.load(tmp_path / "x.npy", mmap_mode="r")


def as_path(x, tmp_path):
    np.save(tmp_path / "x.npy", x)
    return str(tmp_path / "x.npy")


def as_uneven_chunks(x, tmp_path):
    return da.from_array(x, chunks=CHUNKS)


def as_column_chunks(x, tmp_path):
    return da.from_array(x, chunks=(900, 2))


SOURCES = [as_map, as_path, as_uneven_chunks, as_column_chunks]


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch):
    """Blocks of 500 rows or so, worked on in pieces of 512; tables of up to 2000; no threads of Dask."""
    monkeypatch.setattr(streams, "BLOCK_BYTES", 10_000)
    monkeypatch.setattr(streams, "CACHED_ENTRIES", 1)
    monkeypatch.setattr(streams, "stages", lambda rows, components: [500, 600, 1000, 2000, None])
    with dask.config.set(scheduler="synchronous"):
        yield


def refused(make):
    with pytest.raises(InputError) as caught:
        make()
    return str(caught.value)
