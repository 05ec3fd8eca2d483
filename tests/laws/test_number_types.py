"""Every type of number gives what doubles give, others are refused, and a mapped file stays on the disk."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import noumena as nm
from noumena.checks import InputError

WHOLE = np.random.default_rng(3).integers(0, 2, size=(200, 3)) @ np.array([[1, 0, 1], [0, 1, 1], [0, 0, 1]])
TYPES = ("f2", "f4", "f8", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", ">f8", ">i4", "S8", "U8", "O")


@pytest.mark.parametrize("dtype", TYPES)
def test_every_type_of_number_gives_what_doubles_give(dtype: str) -> None:
    given = WHOLE.astype(dtype)
    exact = nm.ICA(2, random_state=0).fit(WHOLE.astype(float))
    tolerance = 1e-4 if dtype == "f4" else 1e-9
    found = nm.ICA(2, random_state=0).fit(given)
    np.testing.assert_allclose(found.transform(given), exact.transform(WHOLE.astype(float)), atol=tolerance)
    scores = [nm.metrics.mcc(WHOLE.astype(float), z).score for z in (given, WHOLE.astype(float))]
    assert scores[0] == pytest.approx(scores[1], abs=tolerance)


@pytest.mark.parametrize("dtype", ["?", "f4", "i8", "S3"])
def test_an_estimator_of_networks_takes_every_type_of_number(dtype: str) -> None:
    given = (WHOLE > 0).astype(int).astype(dtype)
    settings: dict[str, Any] = {"training": nm.Training(steps=3), "n_models": 1, "random_state": 0}
    exact = nm.VAE(2, **settings).fit((WHOLE > 0).astype(float))
    found = nm.VAE(2, **settings).fit(given)
    np.testing.assert_allclose(found.transform(given), exact.transform((WHOLE > 0).astype(float)), atol=1e-4)


@pytest.mark.parametrize("dtype", ["c16", "M8[s]", "m8[s]", "V3"])
def test_other_types_are_one_sentence(dtype: str) -> None:
    given = np.zeros((20, 3), dtype)
    with pytest.raises(InputError, match=r"^[A-Z]?\w.* Got dtype [^\n]*\.$"):
        nm.ICA(2).fit(given)


CEILING = """
import sys, threading, time
import numpy as np
import noumena as nm
from noumena.estimators.ica import streams
from noumena.data.tables import read_table

streams.BLOCK_BYTES = 2**20
streams.stream.__kwdefaults__["memory"] = 2**20
path, rows = "x.npy", 400_000
table, rng = np.lib.format.open_memmap(path, "w+", np.float64, (rows, 16)), np.random.default_rng(0)
mixing = rng.normal(size=(16, 16))
for start in range(0, rows, 20_000):
    table[start : start + 20_000] = rng.laplace(size=(20_000, 16)) @ mixing
del table

def anonymous():
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) * 1024 for line in file if line.startswith("RssAnon"))

nm.ICA(random_state=0).fit(rng.laplace(size=(500, 16)))  # what is imported on first use
most, over = anonymous(), threading.Event()
def watch():
    global most
    while not over.wait(0.002):
        most = max(most, anonymous())
before, watcher = most, threading.Thread(target=watch)
watcher.start()
nm.ICA(random_state=0, max_iter=5).fit(read_table(path, mmap=True).x)
over.set()
watcher.join()
print(most - before, rows * 16 * 8)
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_ica_of_a_mapped_file_takes_less_memory_than_half_of_the_file(tmp_path: Path) -> None:
    call = [sys.executable, "-W", "ignore", "-c", CEILING]
    settings = os.environ | {"OMP_NUM_THREADS": "1"}
    done = subprocess.run(call, cwd=tmp_path, env=settings, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    taken, size = map(int, done.stdout.split()[-2:])
    assert 0 < taken < size / 2
