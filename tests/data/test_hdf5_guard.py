"""An HDF5 file in which its library is lost, or falls over, is refused in one sentence and takes nobody with it."""

import subprocess
import sys
from pathlib import Path

import h5py
import numpy as np
import pytest

from noumena.checks import InputError
from noumena.data import hdf5_guard
from noumena.data.archives import require_datasets
from noumena.data.readers import open_h5ad
from noumena.data.tables import read_table


@pytest.fixture
def file(tmp_path: Path) -> Path:
    with h5py.File(tmp_path / "own.h5", "w") as file:
        file.create_dataset("deep/x", data=np.eye(3), chunks=(1, 3)).attrs["columns"] = ["a", "b", "c"]
        file["words"] = np.array(["one", "two"], dtype=h5py.string_dtype())
        file["none"] = h5py.Empty("f8")
        file["gone"] = h5py.SoftLink("/nowhere")
    return tmp_path / "own.h5"


def test_the_walker_goes_through_a_whole_file_without_a_word(file: Path) -> None:
    path = Path(file.parent, "walker.py")
    path.write_text(hdf5_guard.PROBE)
    done = subprocess.run([sys.executable, str(path), str(file)], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    hdf5_guard.check_hdf5(file)


@pytest.mark.parametrize("door", [read_table, open_h5ad, lambda path: require_datasets(path, ("deep",))])
def test_every_door_for_hdf5_files_is_walked_through(file: Path, monkeypatch: pytest.MonkeyPatch, door) -> None:
    monkeypatch.setattr(hdf5_guard, "PROBE", "import os; os.abort()")
    with pytest.raises(
        InputError, match=r"^own\.h5 must be a complete \.h5 file\. Got one that HDF5 could not read: it crashed"
    ):
        door(file)


def test_a_walk_without_an_end_is_given_up(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hdf5_guard, "PROBE", "while True: pass")
    monkeypatch.setattr(hdf5_guard, "TIMEOUT", 0.3)
    with pytest.raises(InputError, match=r"Got one that HDF5 could not read: it hung\.$"):
        read_table(file, key="deep/x")


def test_what_a_walker_complains_of_is_left_to_the_reader(tmp_path: Path) -> None:
    (tmp_path / "own.h5").write_bytes(b"no such format")
    hdf5_guard.check_hdf5(tmp_path / "own.h5")
    with pytest.raises(InputError, match=r"own.h5 must be a complete .h5 file of numbers. Got: .*signature"):
        read_table(tmp_path / "own.h5")
