"""A table on disk gives the fit that the same table in memory gives, and is never held as a whole."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from sklearn.base import clone

import noumena as nm
from noumena.checks import InputError
from noumena.data import tables
from noumena.estimators import fit_data, sources
from noumena.estimators.sources import Numbers, OnDisk, Places

QUICK = nm.Training(steps=40, batch_size=32)


@pytest.fixture(params=["float32", "float64"])
def mapped(request: pytest.FixtureRequest, tmp_path: Path) -> np.ndarray:
    rng = np.random.default_rng(0)
    x = np.tanh(rng.normal(size=(2000, 2)) @ rng.normal(size=(2, 5))) * 3 + 10 * np.arange(5)
    np.save(tmp_path / "x.npy", x.astype(request.param))
    return np.load(tmp_path / "x.npy", mmap_mode="r")


@pytest.mark.parametrize("standardise", [True, False])
def test_a_table_on_disk_gives_the_model_that_it_gives_in_memory(mapped: np.ndarray, standardise: bool) -> None:
    given = mapped if standardise else mapped[:, :1]
    model = nm.VAE(1, standardise=standardise, training=QUICK, random_state=0)
    here, there = clone(model).fit(np.array(given)), model.fit(given)
    assert np.allclose(there.objectives_, here.objectives_, rtol=2e-3)
    found, expected = there.transform(given), here.transform(np.array(given))
    assert found.dtype == expected.dtype == given.dtype
    assert np.allclose(found, expected, atol=2e-2)
    assert np.allclose(there.transform(np.array(given)), found, atol=1e-6)


def test_rows_on_disk_are_read_batch_by_batch(mapped: np.ndarray, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []

    def read(self: OnDisk, places: Places) -> np.ndarray:
        rows = np.asarray(self.rows[places])
        asked.append(rows[..., 0].size)
        return rows

    monkeypatch.setattr(OnDisk, "read", read)
    monkeypatch.setattr(sources, "AT_ONCE", 2000)
    monkeypatch.setattr(sources, "ON_DISK_AT_ONCE", 2000)
    nm.VAE(2, training=QUICK, random_state=0).fit(mapped)
    assert len(asked) > QUICK.steps
    assert asked.count(32) >= QUICK.steps
    assert max(asked) == 512  # the rows where the structure is read off


def test_moments_of_stretches_are_those_of_the_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    x = 1e9 + np.random.default_rng(0).normal(size=(1000, 3))
    places = np.random.default_rng(1).permutation(1000)[:700]
    monkeypatch.setattr(sources, "ON_DISK_AT_ONCE", 50)
    mean, spread = fit_data.moments(Numbers(x), places)
    assert np.allclose(mean, x[places].mean(axis=0), rtol=1e-15)
    assert np.allclose(spread, x[places].std(axis=0), rtol=1e-6)


def test_a_fingerprint_of_stretches_is_that_of_the_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    x = np.arange(30.0).reshape(10, 3)
    whole = Numbers(x).digest()
    monkeypatch.setattr(sources, "ON_DISK_AT_ONCE", 6)
    assert Numbers(x).digest() == whole
    x[9, 2] += 1
    assert Numbers(x).digest() != whole


def test_what_is_wrong_far_down_on_disk_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("noumena.checks.CHUNK", 20)
    x = np.random.default_rng(0).normal(size=(100, 2))
    x[57, 1] = np.nan
    np.save(tmp_path / "x.npy", x)
    with pytest.raises(InputError, match=r"x must be finite.* in rows 50 to 59, the first at row 57, column 1"):
        nm.VAE(1).fit(np.load(tmp_path / "x.npy", mmap_mode="r"))
    x[:, 1] = 7.0
    np.save(tmp_path / "x.npy", x)
    with pytest.raises(InputError, match=r"x must vary in every column. Got constant columns 1"):
        nm.VAE(1).fit(np.load(tmp_path / "x.npy", mmap_mode="r"))


def test_a_fitted_model_refuses_a_table_on_disk_of_another_width(mapped: np.ndarray) -> None:
    model = nm.VAE(1, training=nm.Training(steps=2)).fit(mapped)
    with pytest.raises(ValueError, match="3 features, but VAE is expecting 5"):
        model.transform(mapped[:, :3])


def test_whatever_is_read_beside_a_table_on_disk_is_read_too(mapped: np.ndarray) -> None:
    u = np.random.default_rng(1).normal(size=(2000, 1))
    found = nm.iVAE(1, training=nm.Training(steps=5), random_state=0).fit(mapped, u)
    expected = nm.iVAE(1, training=nm.Training(steps=5), random_state=0).fit(np.array(mapped), u)
    assert np.array_equal(found.objectives_, expected.objectives_)


def test_a_large_file_stays_on_disk_unless_it_must_be_changed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    x = np.random.default_rng(0).normal(size=(50, 4))
    np.save(tmp_path / "x.npy", x)
    assert not isinstance(tables.read_prepared(tmp_path / "x.npy").x, np.memmap)
    monkeypatch.setattr(tables, "MAPPED_FROM", 1000)
    assert isinstance(tables.read_prepared(tmp_path / "x.npy").x, np.memmap)
    assert isinstance(tables.read_prepared(tmp_path / "x.npy", columns=[1, 2]).x, np.memmap)
    assert np.array_equal(tables.read_prepared(tmp_path / "x.npy", drop=[2]).x, x[:, [0, 1, 3]])
    x[3, 0] = np.nan
    np.save(tmp_path / "x.npy", x)
    assert np.array_equal(tables.read_prepared(tmp_path / "x.npy", impute="drop-rows").x, np.delete(x, 3, axis=0))
    np.save(tmp_path / "x.npy", np.arange(200, dtype=np.uint8).reshape(50, 4))
    assert tables.read_prepared(tmp_path / "x.npy").x.dtype == np.float64


CEILING = """
import resource, sys
import numpy as np, torch
import noumena as nm
torch.set_num_threads(1)
nm.VAE(2, n_models=1, training=nm.Training(steps=2)).fit(np.random.default_rng(0).normal(size=(64, 4)))
held = next(int(l.split()[1]) for l in open("/proc/self/status") if l.startswith("VmData")) * 1024
room = int(sys.argv[2])
resource.setrlimit(resource.RLIMIT_DATA, (held + room, held + room))
x = np.load(sys.argv[1], mmap_mode="r" if sys.argv[3] == "mapped" else None)
model = nm.VAE(3, training=nm.Training(steps=20, batch_size=64), random_state=0).fit(x)
print(model.transform(x).shape)
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="the limit on data is Linux's")
def test_a_table_larger_than_the_memory_that_is_left_is_learned_from(tmp_path: Path) -> None:
    rows, columns = 2**21, 512  # 4 GiB
    x = np.lib.format.open_memmap(tmp_path / "x.npy", mode="w+", dtype=np.float32, shape=(rows, columns))
    part = np.random.default_rng(0).normal(size=(2**14, columns)).astype(np.float32)
    for start in range(0, rows, len(part)):
        x[start : start + len(part)] = part
    x.flush()
    room = str(2**30)

    def run(how: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-c", CEILING, str(tmp_path / "x.npy"), room, how]
        return subprocess.run(command, capture_output=True, text=True, check=False)

    assert torch.Size([rows, 3]) == eval(run("mapped").stdout)
    assert "MemoryError" in run("held").stderr or "allocate" in run("held").stderr
