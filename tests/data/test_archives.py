"""Arrays in files: mapped where they lie, decompressed once, reopened elsewhere; no more is read than asked for."""

import pickle
import shutil
import tempfile
import tracemalloc
import zipfile
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from sentences import refusal

from noumena.data import archives
from noumena.data.archives import ArchiveMember, HDF5Dataset, MappedArray
from noumena.data.benchmarks import mpi3d, shapes3d

RNG = np.random.default_rng(0)
SIZES = (1, 1, 1, 2, 2, 32, 32)
MEGABYTE = 2**20


def drawn(*shape: int) -> np.ndarray:
    return RNG.integers(0, 256, shape).astype(np.uint8)


def h5(path: Path, array: np.ndarray, **how: Any) -> Path:
    with pytest.importorskip("h5py").File(path, "w") as file:
        file.create_dataset("images", data=array, **how)
    return path


# ---- members of archives -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_members_are_what_numpy_reads(tmp_path: Path, save: Callable[..., None], order: Any) -> None:
    arrays = {
        "first": drawn(7),
        "table": np.asarray(RNG.normal(size=(5, 3, 2)), order=order),
        "words": np.array(["ab", "c"]),
        "one": np.array(3),
        "none": np.zeros((0, 4)),
        "a name of another length": drawn(2, 2),
    }
    save(tmp_path / "x.npz", **arrays)
    for name, array in arrays.items():
        member = ArchiveMember(tmp_path / "x.npz", name)
        assert (member.shape, member.dtype) == (array.shape, array.dtype)
        np.testing.assert_array_equal(archives.array(tmp_path / "x.npz", name), array)
    np.testing.assert_array_equal(ArchiveMember(tmp_path / "x.npz", "table")[np.array([0, 3])], arrays["table"][[0, 3]])


def test_members_say_how_they_are_held(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pixels = drawn(300, 8, 8)
    np.savez(tmp_path / "plain.npz", x=pixels)
    np.savez_compressed(tmp_path / "small.npz", x=pixels)
    assert ArchiveMember(tmp_path / "plain.npz", "x").how == "memory-mapped"
    assert ArchiveMember(tmp_path / "small.npz", "x").how == "in memory"
    monkeypatch.setattr(archives, "LARGEST", 1000)
    monkeypatch.setattr(archives, "PIECE", 777)
    large = ArchiveMember(tmp_path / "small.npz", "x")
    assert large.how == "in a temporary file"
    np.testing.assert_array_equal(large[...], pixels)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(large))[np.array([5])], pixels[[5]])


def test_a_temporary_file_has_no_name_and_needs_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(archives, "LARGEST", 10)
    filed = archives.allocate((3, 5), np.uint8)
    assert isinstance(filed, np.memmap)
    filed[1] = 7
    assert filed.sum() == 35
    assert list(tmp_path.iterdir()) == []
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=2e9))
    text = refusal(lambda: archives.allocate((3 * 10**9,), np.uint8))
    assert text == (
        "The temporary directory must have room for 3 GB of decompressed images. Got 2 GB; TMPDIR names another."
    )


def test_an_archive_behind_other_bytes_is_mapped_at_the_right_place(tmp_path: Path) -> None:
    pixels = drawn(4, 3)
    np.savez(tmp_path / "x.npz", before=drawn(5), x=pixels)
    joined = b"some bytes before" + (tmp_path / "x.npz").read_bytes()
    (tmp_path / "y.npz").write_bytes(joined)
    np.testing.assert_array_equal(ArchiveMember(tmp_path / "y.npz", "x")[...], pixels)


# ---- only what is asked for --------------------------------------------------------------------------------------


def read_by(call: Callable[[], object]) -> int:
    """The most bytes that Python and numpy held during a call."""
    tracemalloc.start()
    call()
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return most


@pytest.fixture(scope="module")
def large() -> np.ndarray:
    """Some 50 MB of images."""
    return np.tile(drawn(64, 64, 64, 3), (64, 1, 1, 1))


def test_eight_pictures_of_a_large_archive_are_read_alone(tmp_path: Path, large: np.ndarray) -> None:
    np.savez(tmp_path / "m.npz", images=large)
    chosen, found = np.array([4095, 3, 800, 2, 9, 10, 11, 3000]), []
    most = read_by(lambda: found.append(mpi3d(tmp_path / "m.npz", sizes=SIZES).pictures(chosen)))
    np.testing.assert_array_equal(found[0], large[chosen].transpose(0, 3, 1, 2).reshape(8, -1))
    assert large.nbytes > 50e6
    assert most < 4 * MEGABYTE
    assert read_by(lambda: archives.array(tmp_path / "m.npz", "images").copy()) > 50e6  # the measure sees a whole read


def test_eight_pictures_of_a_large_hdf5_file_are_read_alone(tmp_path: Path, large: np.ndarray) -> None:
    path = h5(tmp_path / "x.h5", large)
    with pytest.importorskip("h5py").File(path, "a") as file:
        file["labels"] = np.zeros((len(large), 6))
    shapes3d(path)
    chosen, found = np.array([4095, 3, 800, 2, 9, 10, 11, 3000]), []
    most = read_by(lambda: found.append(shapes3d(path).pictures(chosen)))
    np.testing.assert_array_equal(found[0], large[chosen].transpose(0, 3, 1, 2).reshape(8, -1))
    assert most < 4 * MEGABYTE


# ---- HDF5 --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("chunks", [None, (1, 4, 4), (7, 2, 4), (100, 4, 4)])
def test_datasets_are_read_at_any_rising_places(tmp_path: Path, chunks: Any) -> None:
    pixels = drawn(100, 4, 4)
    found = HDF5Dataset(h5(tmp_path / "x.h5", pixels, chunks=chunks), "images")
    assert found.together == (chunks[0] if chunks else 1)
    for places in ([0], [99], [3, 4, 5], [0, 6, 7, 13, 14, 99], list(range(100)), []):
        np.testing.assert_array_equal(found[np.array(places, dtype=int)], pixels[places])
    np.testing.assert_array_equal(found[...], pixels)


def test_neighbours_and_places_of_one_piece_are_read_as_one_range() -> None:
    def lengths(places: list[int], together: int) -> list[int]:
        return [len(run) for run in archives._runs(np.array(places), together)]

    assert lengths([0, 1, 2, 5, 9], 1) == [3, 1, 1]
    assert lengths([0, 3, 9, 10, 15, 25], 10) == [5, 1]
    assert lengths([0, 3, 9, 12, 15, 25], 10) == [3, 2, 1]


def test_a_dataset_must_be_an_array_that_is_there(tmp_path: Path) -> None:
    with pytest.importorskip("h5py").File(tmp_path / "x.h5", "w") as file:
        file.create_group("images")
    assert refusal(lambda: HDF5Dataset(tmp_path / "x.h5", "images")) == "images must be an array. Got a group."
    assert refusal(lambda: HDF5Dataset(tmp_path / "x.h5", "labels")) == "x.h5 must hold labels. Got images."


def test_a_pickled_source_is_small_and_opens_its_file_anew(tmp_path: Path) -> None:
    pixels = drawn(50, 100)
    np.savez(tmp_path / "plain.npz", x=pixels)
    np.savez_compressed(tmp_path / "packed.npz", x=pixels)
    (tmp_path / "raw").write_bytes(b"12" + pixels.tobytes())
    sources = [
        ArchiveMember(tmp_path / "plain.npz", "x"),
        ArchiveMember(tmp_path / "packed.npz", "x"),
        MappedArray(tmp_path / "raw", 2, (50, 100), np.uint8),
        HDF5Dataset(h5(tmp_path / "x.h5", pixels), "images"),
    ]
    for source in sources:
        assert len(pickle.dumps(source)) < 1000
        np.testing.assert_array_equal(pickle.loads(pickle.dumps(source))[...], pixels)


def test_a_dataset_is_opened_again_after_a_fork(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = HDF5Dataset(h5(tmp_path / "x.h5", drawn(5, 4)), "images")
    before = found._data
    found[np.array([0])]
    assert found._data is before
    monkeypatch.setattr(archives.os, "getpid", lambda: -1)
    found[np.array([0])]
    assert found._data is not before


# ---- refusals ----------------------------------------------------------------------------------------------------


def test_a_member_shorter_than_its_header_says_is_refused(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", drawn(10, 3))
    whole = (tmp_path / "x.npy").read_bytes()
    for compression in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        with zipfile.ZipFile(tmp_path / "x.npz", "w", compression) as archive:
            archive.writestr("x.npy", whole[:-4])
        assert "x has 26 bytes for shape (10, 3)" in refusal(lambda: ArchiveMember(tmp_path / "x.npz", "x"))


def test_headers_of_other_kinds_are_refused(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", drawn(2))
    whole = (tmp_path / "x.npy").read_bytes()
    for bytes_, sentence in ((whole[:6] + b"\x03\x00" + whole[8:], "version (3, 0)"), (b"no array", "magic string")):
        with zipfile.ZipFile(tmp_path / "x.npz", "w") as archive:
            archive.writestr("x.npy", bytes_)
        assert sentence in refusal(lambda: ArchiveMember(tmp_path / "x.npz", "x"))


def test_damage_inside_a_compressed_member_is_found(tmp_path: Path) -> None:
    np.savez_compressed(tmp_path / "x.npz", x=drawn(1000, 10))
    damaged = bytearray((tmp_path / "x.npz").read_bytes())
    damaged[3000:3100] = bytes(100)
    (tmp_path / "y.npz").write_bytes(damaged)
    assert "y.npz must be a complete .npz file" in refusal(lambda: ArchiveMember(tmp_path / "y.npz", "x"))
