"""Every door for a file refuses a damaged one by its name, in one sentence, whatever its ending says."""

import gc
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sentences import refusal

from noumena.audits.folds import read_labels
from noumena.cli.images import read_images
from noumena.data.annotated import read_annotated
from noumena.data.tables import read_table

X = np.random.default_rng(0).normal(size=(30, 3))
FRAME = pd.DataFrame(X, columns=["a", "b", "c"])
LABELS = FRAME.assign(plate=["p", "q"] * 15)
TEXT = (".csv", ".tsv")
TABLES = (".npy", ".npz", *TEXT, ".parquet", ".h5", ".hdf5", ".h5ad")


def write(path: Path, frame: pd.DataFrame = FRAME) -> Path:
    """A table in the format of the path's ending."""
    numbers, words = frame.select_dtypes("number"), frame.select_dtypes(exclude="number")
    if path.suffix == ".npy":
        np.save(path, numbers.to_numpy())
    elif path.suffix == ".npz":
        np.savez(path, X=numbers.to_numpy(), **{name: words[name].to_numpy().astype("U") for name in words})
    elif path.suffix in TEXT:
        frame.to_csv(path, index=False, sep="," if path.suffix == ".csv" else "\t")
    elif path.suffix == ".parquet":
        frame.to_parquet(path)
    elif path.suffix in (".h5", ".hdf5"):
        with pytest.importorskip("h5py").File(path, "w") as file:
            file["x"] = numbers.to_numpy()
    else:
        obs = pd.DataFrame(words.to_numpy(), columns=words.columns, index=[str(k) for k in range(len(frame))])
        pytest.importorskip("anndata").AnnData(X=numbers.to_numpy(), obs=obs).write_h5ad(path)
    return path


def images(path: Path) -> Path:
    np.save(path, np.zeros((5, 3, 8, 8), np.uint8))
    return path


annotated = partial(read_annotated, annotations=["plate"])
DOORS: dict[str, tuple[Callable[..., Any], Callable[[Path], Path], str]] = {
    **{
        f"a table {end}": (read_table, write, end)
        for end in (".npy", ".npz", *TEXT, ".parquet", ".h5", ".hdf5", ".h5ad")
    },
    **{f"a mapped table {end}": (partial(read_table, mmap=True), write, end) for end in (".npy", ".parquet", ".h5")},
    **{
        f"an annotated table {end}": (annotated, partial(write, frame=LABELS), end)
        for end in (".csv", ".parquet", ".npz", ".h5ad")
    },
    "labels .npy": (partial(read_labels, rows=30), write, ".npy"),
    "images .npy": (read_images, images, ".npy"),
}
DAMAGE: dict[str, Callable[[bytes], bytes]] = {
    "no bytes": lambda whole: b"",
    "other bytes": lambda whole: b"\xff\x00\x80 nothing\x00",
    "another kind": lambda whole: b"\x89HDF\r\n\x1a\n" + b"\x00" * 90,
    "a bare pickle": lambda whole: b"\x80\x04K\x01.",
    **{
        f"cut at {share:.0%}": lambda whole, share=share: whole[: int(share * len(whole))]
        for share in (0.05, 0.5, 0.95)
    },
    "text": lambda whole: b"a,b\n1,2\n",
}


@pytest.mark.parametrize("damage", DAMAGE)
@pytest.mark.parametrize("door", DOORS)
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_damaged_file_is_refused_by_its_name(tmp_path: Path, door: str, damage: str) -> None:
    read, make, ending = DOORS[door]
    if ending in TEXT and (damage == "text" or damage.startswith("cut")):
        pytest.skip("shorter text is text")
    path = make(tmp_path / f"data{ending}")
    path.write_bytes(DAMAGE[damage](path.read_bytes()))
    assert f"data{ending}" in refusal(read, path)
    gc.collect()


@pytest.mark.parametrize("door", DOORS)
def test_what_is_no_file_is_refused(tmp_path: Path, door: str) -> None:
    read, make, ending = DOORS[door]
    make(tmp_path / f"sound{ending}")
    said = refusal(read, tmp_path / f"gone{ending}")
    assert "must" in said
    assert "gone" in said or "images" in door
    if "images" not in door:
        (tmp_path / f"folder{ending}").mkdir()
        assert "must be a" in refusal(read, tmp_path / f"folder{ending}")
