"""Every format gives back its numbers, names and chosen columns; every damaged or hostile file is one sentence."""

import json
import os
import pickle
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import sentences

from noumena.data import columns as looked_at
from noumena.data import readers
from noumena.data.tables import ENDINGS, read_prepared, read_table
from noumena.estimators import ICA

X = np.random.default_rng(0).normal(size=(30, 4))
NAMES = ("pulse", "voice", "x 3", "gait")
ALL = [".npy", ".npz", ".csv", ".tsv", ".parquet", ".h5", ".hdf5", ".zarr", ".h5ad"]
NAMED = [".csv", ".tsv", ".parquet", ".h5", ".hdf5", ".zarr", ".h5ad"]
EXTRAS = {".h5": "h5py", ".hdf5": "h5py", ".zarr": "zarr", ".h5ad": "anndata"}


def write(path: Path, x: np.ndarray = X) -> Path:
    """A table in the format of the path's ending, with names of columns where it can have them."""
    names = list(NAMES[: x.shape[1]])
    if path.suffix in EXTRAS:
        package = pytest.importorskip(EXTRAS[path.suffix])
    if path.suffix == ".npy":
        np.save(path, x)
    elif path.suffix == ".npz":
        np.savez(path, x)
    elif path.suffix in (".csv", ".tsv"):
        pd.DataFrame(x, columns=names).to_csv(path, index=False, sep="," if path.suffix == ".csv" else "\t")
    elif path.suffix == ".parquet":
        pd.DataFrame(x, columns=names).to_parquet(path)
    elif path.suffix in (".h5", ".hdf5"):
        with package.File(path, "w") as file:
            file.create_dataset("deep/table", data=x, chunks=(7, 2)).attrs["columns"] = names
            file["numbers"] = np.arange(3)
    elif path.suffix == ".zarr":
        array = package.create_array(path, shape=x.shape, chunks=(7, 2), dtype=x.dtype, attributes={"columns": names})
        array[:] = x
    else:
        obs = pd.DataFrame({"batch": ["A", "B"] * (len(x) // 2)}, index=[str(k) for k in range(len(x))])
        package.AnnData(X=x, obs=obs, var=pd.DataFrame(index=names)).write_h5ad(path)
    return path


def refusal(path: Path, read: Callable[..., Any] = read_table, **asked: Any) -> str:
    return sentences.refusal(read, path, **asked)


# ---- round trips -----------------------------------------------------------------------------------------------


def test_the_endings_are_these():
    assert list(ENDINGS) == [*ALL, ".csv.gz", ".tsv.gz"]


@pytest.mark.parametrize("ending", ALL)
def test_numbers_names_and_choices_survive_every_format(tmp_path: Path, ending: str) -> None:
    path = write(tmp_path / f"data{ending}")
    whole = read_table(path)
    np.testing.assert_allclose(whole.x, X, rtol=1e-14)
    assert whole.names == (NAMES if ending in NAMED else None)
    assert whole.left_out == ()
    some = read_table(str(path), columns=[3, 0, "1"], drop=[0])
    np.testing.assert_allclose(some.x, X[:, [3, 1]], rtol=1e-14)
    assert some.names == (("gait", "voice") if ending in NAMED else None)
    assert some.left_out == (("'pulse'", "'x 3'") if ending in NAMED else ("0", "2"))
    if ending in NAMED:
        np.testing.assert_allclose(read_table(path, columns=["x 3"]).x, X[:, [2]], rtol=1e-14)


@pytest.mark.parametrize("ending", [".npy", ".npz", ".parquet", ".h5", ".zarr", ".h5ad"])
def test_single_precision_stays(tmp_path: Path, ending: str) -> None:
    assert read_table(write(tmp_path / f"data{ending}", X.astype(np.float32))).x.dtype == np.float32


def test_a_key_chooses_among_the_arrays_of_every_kind_of_store(tmp_path: Path) -> None:
    h5py, zarr, anndata = (pytest.importorskip(name) for name in ("h5py", "zarr", "anndata"))
    with h5py.File(tmp_path / "s.h5", "w") as file:
        file["a/first"], file["second"] = X, 2 * X
    group = zarr.open_group(tmp_path / "s.zarr", mode="w")
    group.create_array("a/first", data=X)
    group.create_array("second", data=2 * X)
    for ending in (".h5", ".zarr"):
        path = tmp_path / f"s{ending}"
        np.testing.assert_array_equal(read_table(path, key="a/first").x, X)
        np.testing.assert_array_equal(read_table(path, key="second").x, 2 * X)
        text = f"s{ending} must hold one array, or --key must name one. Got arrays a/first, second and key "
        assert refusal(path) == f"{text}None."
        assert refusal(path, key="../s") == f"{text}../s."
    data = anndata.AnnData(X=X, layers={"counts": 3 * X}, obsm={"X_pca": X[:, :2]})
    data.write_h5ad(tmp_path / "s.h5ad")
    np.testing.assert_array_equal(read_table(tmp_path / "s.h5ad", key="counts").x, 3 * X)
    reduced = read_table(tmp_path / "s.h5ad", key="X_pca")
    assert (reduced.x.shape, reduced.names) == ((30, 2), None)
    assert refusal(tmp_path / "s.h5ad", key="raw") == (
        "s.h5ad must hold the matrix raw, as X, a layer or in obsm. Got X, counts, X_pca."
    )


def test_the_second_version_of_zarr_is_read_too(tmp_path: Path) -> None:
    zarr = pytest.importorskip("zarr")
    zarr.create_array(tmp_path / "old.zarr", data=X, zarr_format=2)
    assert (tmp_path / "old.zarr" / ".zarray").exists()
    np.testing.assert_array_equal(read_table(tmp_path / "old.zarr").x, X)


def test_nullable_columns_of_a_frame_are_numbers_with_holes(tmp_path: Path) -> None:
    frame = pd.DataFrame({"a": pd.array([1, None, 3], dtype="Int64"), "b": [True, False, True], "c": [None, 2, 3]})
    frame["d"] = pd.Series([None, 1, 2.5], dtype=object)
    frame.to_parquet(tmp_path / "t.parquet")
    found = read_prepared(tmp_path / "t.parquet", impute="mean")
    np.testing.assert_array_equal(found.x, [[1, 1, 2.5, 1.75], [2, 0, 2, 1], [3, 1, 3, 2.5]])


# ---- files that are not held -------------------------------------------------------------------------------------


def test_a_mapped_file_stays_on_disk_and_neighbouring_columns_are_a_view_of_it(tmp_path: Path) -> None:
    path = write(tmp_path / "data.npy")
    whole = read_table(path, mmap=True).x
    assert isinstance(whole, np.memmap)
    assert Path(str(whole.filename)) == path
    some = read_table(path, mmap=True, columns=[1, 2]).x
    assert isinstance(some, np.memmap)
    assert np.may_share_memory(some, some.base)
    np.testing.assert_array_equal(some, X[:, 1:3])
    assert not isinstance(read_table(path).x, np.memmap)


class Counting(np.memmap):
    """A memory map that remembers how many rows were asked for at a time."""

    asked: list[int]

    def __getitem__(self, index: Any) -> Any:
        found = super().__getitem__(index)
        if isinstance(index, slice):
            Counting.asked.append(len(found))
        return found

    def __array__(self, *arguments: Any, **settings: Any) -> np.ndarray:
        Counting.asked.append(len(self))
        return super().__array__(*arguments, **settings)


def test_ica_fits_a_mapped_file_in_blocks_and_never_asks_for_all_of_it(tmp_path: Path, monkeypatch) -> None:
    rng = np.random.default_rng(1)
    x = rng.laplace(size=(20_000, 3)) @ rng.normal(size=(3, 3))
    np.save(tmp_path / "x.npy", x)
    mapped = read_table(tmp_path / "x.npy", mmap=True).x
    monkeypatch.setattr("noumena.estimators.ica.streams.BLOCK_BYTES", 24 * 1000)
    counted = mapped.view(Counting)
    Counting.asked = []
    model = ICA(random_state=0).fit(counted)
    assert sum(Counting.asked) >= 2 * len(x)  # every row was read, more than once
    assert max(Counting.asked) <= 1000
    held = ICA(random_state=0).fit(x)
    np.testing.assert_allclose(np.abs(model.components_), np.abs(held.components_), atol=5e-3)


def test_arrays_on_disk_are_read_in_stretches_of_rows(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(readers, "CHUNK", 4 * 8)
    asked: list[int] = []

    class Data:
        shape, dtype = X.shape, X.dtype

        def __getitem__(self, some: slice) -> np.ndarray:
            asked.append(len(X[some]))
            return X[some]

    found = readers._chunked(Data(), None, readers.ReadOptions(choice=looked_at.ColumnChoice([2])), "x")
    assert asked == [8, 8, 8, 6]
    np.testing.assert_array_equal(found.x, X[:, [2]])


def test_a_mapped_file_is_checked_in_stretches(tmp_path: Path) -> None:
    x = np.ones((2**19 + 10, 2))
    x[2**19 + 3, 1] = np.nan
    np.save(tmp_path / "x.npy", x)
    assert refusal(tmp_path / "x.npy", mmap=True) == (
        "x.npy must be finite. Got 1 NaN and 0 inf entries in rows 524288 to 524297, the first at row 524291, column 1."
    )
    np.save(tmp_path / "x.npy", x[:0])
    assert "x.npy must have at least 1 row. Got 0." in refusal(tmp_path / "x.npy", mmap=True)


# ---- damage ------------------------------------------------------------------------------------------------------


def test_a_zarr_array_with_a_damaged_chunk_is_one_sentence(tmp_path: Path) -> None:
    path = write(tmp_path / "data.zarr")
    (path / "c" / "1" / "1").write_bytes(b"no chunk")
    assert "data.zarr must be a complete .zarr file of numbers. Got: " in refusal(path)
    (path / "zarr.json").write_bytes(b"\xff\x00\x80 nothing\x00")
    assert "data.zarr must be a complete .zarr file of numbers. Got" in refusal(path, mmap=True)
    (tmp_path / "file.zarr").write_text("a")
    assert refusal(tmp_path / "file.zarr") == f"A .zarr store must be a folder. Got the file {tmp_path / 'file.zarr'}."
    (tmp_path / "empty.zarr").mkdir()
    assert "empty.zarr must hold one array, or --key must name one. Got arrays none" in refusal(tmp_path / "empty.zarr")


@pytest.mark.parametrize("ending", [".h5", ".zarr"])
@pytest.mark.parametrize(
    ("x", "sentence"),
    [
        (np.zeros((2, 3, 4)), "must have two axes, (batch, dim). Got shape (2, 3, 4)"),
        (np.zeros((2, 3), complex), "must hold numbers. Got dtype complex128."),
    ],
)
def test_arrays_on_disk_that_are_no_tables_are_refused(tmp_path: Path, ending: str, x: Any, sentence: str) -> None:
    h5py, zarr = pytest.importorskip("h5py"), pytest.importorskip("zarr")
    if ending == ".h5":
        with h5py.File(tmp_path / "d.h5", "w") as file:
            file["x"] = x
    else:
        zarr.open_group(tmp_path / "d.zarr", mode="w").create_array("x", data=x)
    assert f"d{ending} {sentence}" in refusal(tmp_path / f"d{ending}", key="x")


@pytest.mark.parametrize(("ending", "package"), [(".h5", "h5py"), (".zarr", "zarr"), (".h5ad", "anndata")])
def test_a_missing_package_is_named_with_the_command_that_installs_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ending: str, package: str
) -> None:
    path = write(tmp_path / f"data{ending}")
    monkeypatch.setitem(sys.modules, package, None)
    extra = "bio" if package == "anndata" else "data"
    assert refusal(path) == (
        f"{ending} files must have the package {package}; install noumena[{extra}]. Got an ImportError."
    )


def test_heavy_packages_are_imported_by_the_formats_that_need_them_only() -> None:
    import subprocess

    code = "import sys, noumena.data.tables; print(*{'h5py', 'zarr', 'anndata', 'pandas'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "\n")


# ---- hostile files -----------------------------------------------------------------------------------------------


class Trap:
    """Unpickling this would create a folder."""

    def __init__(self, path: Path):
        self.path = path

    def __reduce__(self) -> tuple[Callable[[str], None], tuple[str]]:
        return os.mkdir, (str(self.path),)


@pytest.mark.parametrize("place", ["filters", "compressor"])
def test_a_pickle_in_a_zarr_chunk_is_never_opened(tmp_path: Path, place: str) -> None:
    zarr = pytest.importorskip("zarr")
    path = tmp_path / "trap.zarr"
    zarr.create_array(path, data=X[:2, :2], chunks=(2, 2), zarr_format=2, compressors=None)
    described = json.loads((path / ".zarray").read_text())
    described[place] = [{"id": "pickle"}] if place == "filters" else {"id": "pickle"}
    (path / ".zarray").write_text(json.dumps(described))
    (path / "0.0").write_bytes(pickle.dumps(Trap(tmp_path / "sprung")))
    assert refusal(path) == "trap.zarr must use codecs known to be harmless. Got 'pickle'."
    assert not (tmp_path / "sprung").exists()


def test_a_strange_codec_inside_a_shard_is_found(tmp_path: Path) -> None:
    zarr = pytest.importorskip("zarr")
    path = tmp_path / "trap.zarr"
    zarr.create_array(path, data=X, chunks=(5, 2), shards=(10, 4))
    np.testing.assert_array_equal(read_table(path).x, X)
    described = json.loads((path / "zarr.json").read_text())
    described["codecs"][0]["configuration"]["codecs"].append({"name": "numcodecs.pickle", "configuration": {}})
    (path / "zarr.json").write_text(json.dumps(described))
    assert refusal(path) == "trap.zarr must use codecs known to be harmless. Got 'pickle'."


def test_numbers_that_lie_in_another_file_are_refused(tmp_path: Path) -> None:
    h5py = pytest.importorskip("h5py")
    (tmp_path / "secret").write_bytes(bytes(range(64)))
    with h5py.File(tmp_path / "outside.h5", "w") as file:
        file.create_dataset("x", (8, 8), "u1", external=[(str(tmp_path / "secret"), 0, 64)])
    write(tmp_path / "inside.h5")
    with h5py.File(tmp_path / "linked.h5", "w") as file:
        file["x"] = h5py.ExternalLink(str(tmp_path / "inside.h5"), "deep/table")
    layout = h5py.VirtualLayout(shape=(30, 4), dtype="f8")
    layout[:] = h5py.VirtualSource(str(tmp_path / "inside.h5"), "deep/table", shape=(30, 4))
    with h5py.File(tmp_path / "virtual.h5", "w") as file:
        file.create_virtual_dataset("x", layout)
    for name in ("outside", "virtual"):
        assert refusal(tmp_path / f"{name}.h5") == (
            f"{name}.h5 must store its arrays itself. Got an external or virtual dataset."
        )
    assert "linked.h5 must hold one array, or --key must name one. Got arrays none" in refusal(tmp_path / "linked.h5")


def test_cells_of_text_are_parted_as_the_ending_says(tmp_path: Path) -> None:
    (tmp_path / "d.tsv").write_text("a,b\n1,2\n")
    assert refusal(tmp_path / "d.tsv") == "Columns of d.tsv must be separated by tabs. Got ',' in the first line."
    (tmp_path / "d.csv").write_text("a\tb\n1\t2\n")
    assert refusal(tmp_path / "d.csv") == "Columns of d.csv must be separated by commas. Got a tab in the first line."
