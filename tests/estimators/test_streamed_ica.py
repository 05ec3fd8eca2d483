"""Projections and ICA of data larger than memory are those of the table in memory."""

from functools import partial

import dask.array as da
import numpy as np
import pytest
from streamed_rows import SOURCES, N, P, as_path, as_uneven_chunks, refused, rows_of
from streamed_rows import small_pieces as small_pieces

from noumena.estimators.ica import streams
from noumena.estimators.ica.ica import ICA
from noumena.estimators.ica.streams import project, stream


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int64])
@pytest.mark.parametrize("make", SOURCES)
def test_projections_are_those_of_the_whole_table(make, dtype, tmp_path):
    x, components = rows_of(1e3, dtype), np.random.default_rng(1).normal(size=(3, P))
    mean = x.mean(axis=0)
    found = project(make(x, tmp_path), mean, components)
    assert found.dtype == (np.float32 if dtype == np.float32 else np.float64)
    assert found.shape == (N, 3)
    np.testing.assert_allclose(np.asarray(found), (x - mean.astype(float)) @ components.T, rtol=1e-5, atol=1e-5)


def test_the_projection_of_a_dask_array_is_lazy():
    def read(block):
        raise AssertionError("read")

    source = da.zeros((5, P), chunks=((3, 2), (P,)), dtype=np.float32).map_blocks(
        read, meta=np.empty((0, 0), np.float32)
    )
    found = project(source, np.zeros(P), np.ones((2, P)))
    assert isinstance(found, da.Array)
    assert found.chunks == ((3, 2), (2,))
    with pytest.raises(AssertionError, match="read"):
        found.compute()


def test_a_projection_is_written_block_by_block_and_named_when_complete(tmp_path):
    x, components = rows_of(), np.random.default_rng(1).normal(size=(3, P))
    path, out = as_path(x, tmp_path), tmp_path / "s.npy"
    found = project(path, np.zeros(P), components, out=out)
    assert isinstance(found, np.memmap)
    np.testing.assert_allclose(np.load(out), x @ components.T, rtol=1e-4, atol=1e-4)
    assert "must be a new .npy file in a folder that exists" in refused(
        partial(project, path, np.zeros(P), components, out)
    )
    x[17] = np.nan
    as_path(x, tmp_path)
    wrong = refused(partial(project, path, np.zeros(P), components, tmp_path / "t.npy"))
    assert wrong.endswith("Got NaN or inf in 1 of its rows, the first of them row 17.")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["s.npy", "x.npy"]


def test_wrong_projections_are_refused_in_a_sentence(tmp_path):
    path, lazy = as_path(rows_of(), tmp_path), da.from_array(rows_of())
    for source in (path, lazy):
        assert f"and 4 columns. Got shape ({N}, {P})." in refused(
            partial(project, source, np.zeros(4), np.ones((2, 4)))
        )
    assert "out must be left out for a Dask array" in refused(
        partial(project, lazy, np.zeros(P), np.ones((2, P)), "s.npy")
    )


def matched(a, b):
    """The largest difference of rows after the best one-to-one matching with signs."""
    a, b = (c / np.linalg.norm(c, axis=1, keepdims=True) for c in (a, b))
    cosine = a @ np.linalg.inv(b)
    to = np.abs(cosine).argmax(axis=1)
    assert sorted(to) == list(range(len(a)))
    return np.abs(a - np.sign(cosine[np.arange(len(a)), to])[:, None] * b[to]).max()


@pytest.mark.parametrize("make", SOURCES)
@pytest.mark.parametrize("memory", [0, 4 * P * 1000])
def test_ica_of_a_stream_is_ica_of_the_table(make, memory, tmp_path, monkeypatch):
    monkeypatch.setattr(streams, "BLOCK_BYTES", 100_000)
    monkeypatch.setattr(ICA, "_data", lambda self, x, seed: stream(x, seed, memory=memory))
    x = rows_of(n=N)
    found = ICA(tol=1e-8).fit(make(x, tmp_path))
    monkeypatch.undo()
    whole = ICA(tol=1e-8).fit(x)
    assert found.converged_
    assert matched(found.components_, whole.components_) < 1e-3


def test_ica_fits_and_transforms_files_and_dask_arrays(tmp_path):
    x = rows_of()
    whole = ICA(random_state=1).fit(x)
    for source in (as_path(x, tmp_path), as_uneven_chunks(x, tmp_path)):
        model = ICA(random_state=1).fit(source)
        assert matched(model.components_, whole.components_) < 1e-3
        np.testing.assert_allclose(np.asarray(model.transform(source)), model.transform(x), atol=1e-4)
