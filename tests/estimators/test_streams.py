"""Data larger than memory: the moments of a table in memory, from files and Dask arrays, whatever their blocks."""

import sys
from functools import partial

import dask
import dask.array as da
import numpy as np
import pytest
import torch
from streamed_rows import SOURCES, K, N, P, as_map, as_path, as_uneven_chunks, refused, rows_of
from streamed_rows import small_pieces as small_pieces

from noumena.checks import InputError
from noumena.estimators.ica import streams
from noumena.estimators.ica.contrasts import contrast_called
from noumena.estimators.ica.rotation import stages
from noumena.estimators.ica.streams import is_stream, project, stream


def reference(x):
    x = np.asarray(x, dtype=np.float64)
    mean = x.mean(axis=0)
    return mean, (x - mean).T @ (x - mean) / len(x)


def whitening_of(covariance, k=K):
    values, vectors = np.linalg.eigh(covariance)
    return (vectors[:, -k:] / np.sqrt(values[-k:])).T


def rotations(k=K, models=2):
    draws = torch.randn(models, k, k, generator=torch.Generator().manual_seed(3))
    return torch.linalg.qr(draws).Q


def expected_moments(white, W, name):
    """Means over rows by the textbook: tanh, y exp(−y²/2), y³."""
    y = np.einsum("nk,mjk->mnj", white, W.double().numpy())
    bell = np.exp(-(y**2) / 2)
    g, slope, value = {
        "logcosh": (np.tanh(y), 1 - np.tanh(y) ** 2, np.log(np.cosh(y))),
        "exp": (y * bell, (1 - y**2) * bell, -bell),
        "cube": (y**3, 3 * y**2, y**4 / 4),
    }[name]
    return np.einsum("mnj,nk->mjk", g, white) / len(white), slope.mean(axis=1), value.mean(axis=1)


def prepared(source, *, memory=0, k=K, seed=0):
    """A stream as ICA has it when the iteration starts; without memory no table is kept."""
    data = stream(source, seed, memory=memory)
    mean, covariance = data.mean_and_covariance()
    data.prepare(mean, torch.from_numpy(whitening_of(covariance[0].numpy(), k))[None])
    return data


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int32, np.uint8, np.float16])
@pytest.mark.parametrize("make", SOURCES)
def test_mean_and_covariance_are_those_of_the_whole_table(make, dtype, tmp_path):
    x = rows_of(dtype=np.float32)
    x = np.clip(10 * x, 0, 255).astype(dtype) if dtype == np.uint8 else x.astype(dtype)
    data = stream(make(x, tmp_path), 0)
    mean, covariance = data.mean_and_covariance()
    expected = reference(x)
    assert (data.n_rows, data.n_features, data.passes) == (N, P, 1)
    assert mean.dtype == covariance.dtype == torch.float64
    np.testing.assert_allclose(mean[0], expected[0], rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(covariance[0], expected[1], rtol=1e-10, atol=1e-10 * np.abs(expected[1]).max())


@pytest.mark.parametrize("make", SOURCES)
def test_a_mean_a_million_times_the_spread_costs_no_digits_of_the_covariance(make, tmp_path):
    x = rows_of(offset=1e6, dtype=np.float64)
    x[1500:] += 3.0  # blocks have means of their own
    mean, covariance = stream(make(x, tmp_path), 0).mean_and_covariance()
    expected = reference(x)
    np.testing.assert_allclose(mean[0], expected[0], rtol=1e-14)
    np.testing.assert_allclose(covariance[0], expected[1], rtol=0, atol=1e-10 * np.abs(expected[1]).max())


@pytest.mark.parametrize("name", ["logcosh", "exp", "cube"])
@pytest.mark.parametrize("make", SOURCES)
def test_moments_over_all_rows_are_those_of_the_whole_table(make, name, tmp_path):
    x = rows_of(offset=100.0)
    data, W, contrast = prepared(make(x, tmp_path)), rotations(), contrast_called(name)
    mean, covariance = reference(x)
    expected = expected_moments((x - mean) @ whitening_of(covariance).T, W, name)
    product, slope = data.moments(W, contrast, None)
    assert product.dtype == slope.dtype == torch.float32
    for found, right in zip((product, slope, data.value(W, contrast)), expected, strict=True):
        np.testing.assert_allclose(found, right, rtol=1e-5, atol=1e-5)
    assert data.passes == 3


@pytest.mark.parametrize("make", SOURCES)
def test_a_direction_a_hundred_thousand_times_narrower_than_others_keeps_its_moments(make, tmp_path):
    x = rows_of(dtype=np.float64) @ np.diag([1, 1, 1, 1, 1e-5]) @ np.linalg.qr(rows_of(n=P)).Q + 1e3
    data, W = stream(make(x, tmp_path), 0, memory=0), rotations(P)
    data.mean_and_covariance()
    mean, covariance = reference(x)
    data.prepare(torch.from_numpy(mean)[None], torch.from_numpy(whitening_of(covariance, P))[None])
    expected = expected_moments((x - mean) @ whitening_of(covariance, P).T, W, "logcosh")
    product, slope = data.moments(W, contrast_called("logcosh"), None)
    np.testing.assert_allclose(product, expected[0], rtol=1e-5, atol=3e-6)
    np.testing.assert_allclose(slope, expected[1], rtol=1e-5, atol=3e-6)


@pytest.mark.parametrize("size", [600, 2000])
@pytest.mark.parametrize("make", [as_path, as_uneven_chunks])
def test_few_rows_come_from_all_over_the_data_in_random_order_and_none_comes_twice(make, size, tmp_path):
    x = rows_of()
    x[:, 0] = np.arange(N)
    data = stream(make(x, tmp_path), 0, memory=4 * P * size)
    mean, _ = data.mean_and_covariance()
    data.prepare(mean, torch.eye(P).double()[None])
    data.excess(100)
    numbers = (data._table[:, 0].double() + mean[0, 0]).round().long().numpy()
    assert len(numbers) == len(set(numbers)) == size
    assert np.diff(np.sort(numbers)).max() <= 2 * N / size + 2  # two stretches and the ends of blocks
    assert abs(numbers[:100].mean() - N / 2) < N / 10  # a prefix is no corner of the data
    assert 0.4 < (np.diff(numbers) < 0).mean() < 0.6
    np.testing.assert_allclose(data._table[:, 1:], x[numbers, 1:] - mean[0, 1:].numpy(), atol=1e-5)


@pytest.mark.parametrize("make", [as_path, as_uneven_chunks])
def test_means_over_few_rows_are_means_over_the_first_rows_of_the_table(make, tmp_path):
    x = rows_of()
    data, W = prepared(make(x, tmp_path), memory=4 * K * 2000), rotations()
    product, slope = data.moments(W, contrast_called("exp"), 700)
    white = data._table[:700].double().numpy()
    expected = expected_moments(white, W, "exp")
    np.testing.assert_allclose(product, expected[0], atol=1e-5)
    np.testing.assert_allclose(slope, expected[1], atol=1e-5)
    np.testing.assert_allclose(data.excess(700)[0], white.T @ white / 700 - np.eye(K), atol=1e-5)
    assert data.excess(700).abs().max() > 0.01
    assert data.passes == 2


def test_requests_for_few_rows_do_not_touch_the_disk(tmp_path):
    path = as_path(rows_of(), tmp_path)
    data, W, contrast = prepared(path, memory=4 * K * 1000), rotations(), contrast_called("logcosh")
    once = data.moments(W, contrast, 800)
    (tmp_path / "x.npy").unlink()
    torch.testing.assert_close(data.moments(W, contrast, 800), once, rtol=0, atol=0)
    data.moments(W, contrast, 1000)
    data.excess(10)
    with pytest.raises(InputError, match=r"The file of a stream must exist\."):
        data.moments(W, contrast, 1001)


def test_requests_beyond_the_table_are_answered_with_all_rows(tmp_path):
    data, W, contrast = prepared(as_path(rows_of(), tmp_path), memory=4 * K * 1000), rotations(), contrast_called("exp")
    torch.testing.assert_close(data.moments(W, contrast, 1001), data.moments(W, contrast, None), rtol=0, atol=0)
    assert (data.excess(1001) == 0).all()
    assert data.passes == 3


def test_no_more_rows_are_kept_than_the_stages_of_ica_ask_for(tmp_path, monkeypatch):
    monkeypatch.setattr(streams, "stages", stages)
    data = prepared(as_path(rows_of(), tmp_path), memory=4 * K * 1000)
    data.excess(1)
    assert stages(N, K) == [len(data._table), None] == [256, None]


def test_data_that_fit_the_memory_are_read_twice(tmp_path):
    x = rows_of()
    data, W, contrast = prepared(as_path(x, tmp_path), memory=4 * K * N), rotations(), contrast_called("exp")
    mean, covariance = reference(x)
    expected = expected_moments((x - mean) @ whitening_of(covariance).T, W, "exp")
    for _ in range(3):
        np.testing.assert_allclose(data.moments(W, contrast, None)[0], expected[0], atol=1e-5)
        np.testing.assert_allclose(data.value(W, contrast), expected[2], atol=1e-5)
    assert data.passes == 2


def test_a_second_whitening_replaces_the_rows_of_the_first(tmp_path):
    data = prepared(as_path(rows_of(), tmp_path), memory=4 * K * 1000)
    first = data.excess(500)
    data.prepare(torch.from_numpy(data._white.mean), 2 * torch.from_numpy(data._white.whitening).double())
    torch.testing.assert_close(data.excess(500), 4 * first, rtol=1e-4, atol=1e-4)


def test_a_seed_decides_the_rows_drawn_and_nothing_else_does(tmp_path):
    x, W = rows_of(), rotations()
    sources = as_path(x, tmp_path), da.from_array(x, chunks=(500, P))  # 10 000 bytes of file are 500 rows, too

    def draw(source, seed):
        return prepared(source, memory=4 * K * 1000, seed=seed).moments(W, contrast_called("exp"), 300)[0]

    torch.testing.assert_close(draw(sources[0], 7), draw(sources[0], 7), rtol=0, atol=0)
    torch.testing.assert_close(draw(sources[0], 7), draw(sources[1], 7), rtol=1e-6, atol=1e-6)
    assert not torch.equal(draw(sources[0], 7), draw(sources[0], 8))


@pytest.mark.parametrize("bad", [np.nan, np.inf])
@pytest.mark.parametrize("make", SOURCES)
def test_rows_that_are_not_finite_are_counted_and_the_first_is_named(make, bad, tmp_path):
    x = rows_of()
    x[[2999, 1234, 1700], [0, 3, 1]] = bad
    with pytest.raises(
        InputError, match=r"x must be finite\. Got NaN or inf in 3 of its rows, the first of them row 1234\."
    ):
        stream(make(x, tmp_path), 0).mean_and_covariance()


def test_what_cannot_be_read_in_blocks_is_refused_in_a_sentence(tmp_path):
    np.save(tmp_path / "line.npy", np.ones(3))
    np.save(tmp_path / "words.npy", np.array([["a", "b"], ["c", "d"]]))
    np.save(tmp_path / "objects.npy", np.array([{}, {}]), allow_pickle=True)
    np.save(tmp_path / "one.npy", np.ones((1, 3)))
    (tmp_path / "text.npy").write_text("1 2 3")
    unknown = da.from_array(rows_of(), chunks=(500, P))
    unknown = unknown[unknown[:, 0] > 0]
    assert "must know the sizes of its chunks; call x.compute_chunk_sizes() first. Got" in refused(
        partial(stream, unknown)
    )
    assert stream(unknown.compute_chunk_sizes()).n_rows < N
    assert "must have two axes" in refused(partial(stream, tmp_path / "line.npy"))
    assert "must hold real numbers. Got dtype <U1" in refused(partial(stream, tmp_path / "words.npy"))
    assert "must be an .npy file of numbers. Got" in refused(partial(stream, tmp_path / "objects.npy"))
    assert "must be an .npy file of numbers. Got" in refused(partial(stream, tmp_path / "text.npy"))
    assert "must exist. Got" in refused(partial(stream, tmp_path / "absent.npy"))
    assert "at least 2 rows and a column. Got shape (1, 3)." in refused(partial(stream, tmp_path / "one.npy"))
    assert "A stream must be a memory map" in refused(partial(stream, np.ones((3, 2))))
    data = prepared(da.from_array(rows_of(), chunks=(500, P)))
    wrong = refused(partial(data.moments, rotations(), contrast_called("exp"), 0))
    assert wrong == "rows must be a whole number of at least 1. Got 0."


def test_only_maps_npy_paths_and_dask_arrays_are_streams(tmp_path):
    x = rows_of(n=4)
    assert is_stream(as_map(x, tmp_path))
    assert is_stream(tmp_path / "x.npy")
    assert is_stream(da.from_array(x))
    assert not any(is_stream(y) for y in (x, torch.ones(2, 2), "x.csv", [[1.0]], None))


def test_files_are_read_where_dask_is_not_installed(tmp_path, monkeypatch):
    for name in [name for name in sys.modules if name.split(".")[0] == "dask"]:
        monkeypatch.setitem(sys.modules, name, None)  # an import would fail
    path = as_path(rows_of(), tmp_path)
    assert is_stream(path)
    assert prepared(path).passes == 1
    assert project(path, np.zeros(P), np.eye(P)).shape == (N, P)


def test_threads_are_the_callers_own_after_a_pass():
    torch.set_num_threads(2)
    try:
        with dask.config.set(scheduler="threads"):
            prepared(da.from_array(rows_of(), chunks=(500, P)))
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(1)


def test_tasks_on_workers_have_one_thread_each():
    torch.set_num_threads(2)
    try:
        assert streams._alone(lambda rows, first: torch.get_num_threads(), rows_of(), 0, ()) == 1
    finally:
        torch.set_num_threads(1)


def test_a_cluster_gives_the_same_answers(tmp_path):
    from distributed import Client, LocalCluster

    x, W, contrast = rows_of(), rotations(), contrast_called("logcosh")
    here = prepared(as_uneven_chunks(x, tmp_path), memory=4 * K * 500)
    expected = [here.moments(W, contrast, rows) for rows in (200, None)]
    options = {"n_workers": 2, "threads_per_worker": 1, "processes": False, "dashboard_address": None}
    with dask.config.set(scheduler=None), LocalCluster(**options) as cluster, Client(cluster) as client:
        data = prepared(as_uneven_chunks(x, tmp_path), memory=4 * K * 500)
        for rows, right in zip((200, None), expected, strict=True):
            torch.testing.assert_close(data.moments(W, contrast, rows), right, rtol=1e-6, atol=1e-6)
        assert client.run_on_scheduler(lambda dask_scheduler: len(dask_scheduler.transition_log)) > 0
