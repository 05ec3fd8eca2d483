"""Doors: every way in which files come in, for ``fuzz.py``: valid files to begin with, and what reads them."""

import io
import tempfile
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from noumena.checks import InputError


@dataclass(frozen=True)
class Target:
    """A door: valid files to start from, the name under which a changed one is put, and what reads it."""

    seeds: list[bytes]
    name: str
    read: Any
    around: dict[str, bytes] | None = None
    """Files that lie beside it, unchanged."""


def target(name: str) -> Target:
    """A door by its name; what it needs is imported here."""
    return DOORS[name]()


def _saved(save: Any, ending: str) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"seed{ending}"
        save(path)
        return path.read_bytes()


def _npy(x: Any) -> bytes:
    file = io.BytesIO()
    np.save(file, x)
    return file.getvalue()


def _zip(compressed: bool = False, **arrays: Any) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED if compressed else zipfile.ZIP_STORED) as archive:
        for name, x in arrays.items():
            archive.writestr(f"{name}.npy", _npy(x))
    return file.getvalue()


X = np.arange(12.0).reshape(4, 3) ** 1.5
CSVS = [
    b"a,b,c\n1,2,3\n4,5.5,-6e3\nNA,,nan\n",
    b"1,2\n3,4\n",
    b'"a ""q""",b\n"1",word\n2,other\n',
    b"\xef\xbb\xbfx\n1\n",
]


def _structure() -> Target:
    from noumena.structure import Structure

    seeds = [b",z1,z2\nx1,1,0\nx2,1,1\n", b'"",a,"b,c"\n"x ""1""",0,1\ny, 1 ,0\n', b",z\nx,1\n"]
    return Target(seeds, "s.csv", Structure.from_csv)


def _rows() -> Target:
    from noumena.studies.rows import read

    seeds = [b"d,mcc,error\n3,0.5,\n4,,ValueError: no\n", b'kind,seed,ok\n"a ""b""\nc",1,True\n', b"cell,code\na1,v1\n"]
    return Target(seeds, "rows.csv", read)


def _verdicts() -> Target:
    from noumena.studies.claims import committed

    seeds = [b'published in,metric,verdict\nTable 1,MCC,better\n"Table 2, d = 3",R2,not run\n', b"a,b,c\nx,y,worse\n"]
    return Target(seeds, "verdicts.csv", committed)


def _journal() -> Target:
    import zlib

    from noumena.studies.store import Store

    texts = [
        '{"cell":"a1","code":"v1","rows":[{"d":3,"mcc":0.5}],"facts":{},"failed":false}',
        '{"cell":"b"}',
        "[]",
        "{}",
    ]
    lines = [text.encode() + b"\t%08x\n" % zlib.crc32(text.encode()) for text in texts]

    def read(path: Path) -> None:
        store = Store(path.parent.parent)
        store.rows()
        store.finished()

    return Target([lines[0] * 2, b"".join(lines), *lines], "journal/a.jsonl", read, {"rows.csv": b"cell,code\na1,v0\n"})


def _table(ending: str, seeds: list[bytes], name: str | None = None, **asked: Any) -> Target:
    from noumena.data.tables import read_prepared, read_table

    def read(path: Path) -> None:
        for reader, more in ((read_table, asked), (read_prepared, {k: v for k, v in asked.items() if k == "key"})):
            try:
                reader(path, **more)
            except InputError as error:
                last = error
            else:
                last = None
        if last:
            raise last

    return Target(seeds, name or f"d{ending}", read)


def _npys() -> list[bytes]:
    kinds = [
        X,
        X.astype("f4"),
        X.astype(">i4"),
        X > 3,
        np.array([["a", "b"]]),
        X.T[:, :2],
        X[:0],
        X[0],
        np.asfortranarray(X),
    ]
    return [_npy(x) for x in kinds]


def _h5(path: Path) -> None:
    import h5py

    with h5py.File(path, "w") as file:
        file["deep/t"] = X
        file["deep/t"].attrs["columns"] = ["a", "b", "c"]


def _walked(ending: str, save: Any) -> Target:
    from noumena.data import hdf5_guard

    hdf5_guard.PATIENCE = 4.0  # less than the limit of an input
    return _table(ending, [_saved(save, ending)])


def _zarr(changed: str, version: int = 3) -> Target:
    import zarr

    from noumena.data.tables import read_table

    with tempfile.TemporaryDirectory() as folder:
        store = Path(folder) / "d.zarr"
        zarr.create_array(store, data=X, chunks=X.shape, zarr_format=version, attributes={"columns": ["a", "b", "c"]})
        files = {f"d.zarr/{p.relative_to(store)}": p.read_bytes() for p in store.rglob("*") if p.is_file()}
    return Target(
        [files[f"d.zarr/{changed}"]],
        f"d.zarr/{changed}",
        lambda path: read_table(next(parent for parent in path.parents if parent.name == "d.zarr")),
        files,
    )


def _h5ad(path: Path) -> None:
    import anndata
    import pandas as pd

    obs = pd.DataFrame({"y": ["a", "b", "a", "b"]}, index=pd.Index(list("0123")))
    anndata.AnnData(X, obs=obs).write_h5ad(path)


def _frame(path: Path) -> None:
    import pandas as pd

    pd.DataFrame({"a": [1.0, 2], "b": [3, None], "y": ["u", "v"]}).to_parquet(path)


def _annotated(ending: str, seeds: list[bytes]) -> Target:
    from noumena.data.annotated import read_annotated

    return Target(seeds, f"a{ending}", lambda path: read_annotated(path, ["y"]))


def _labels() -> Target:
    from noumena.audits.folds import read_labels

    return Target(
        [b"m\na\nb\na\n", b'"a ""b"""\n"c,d"\ne\n', b"1\n2\n3\n"], "l.csv", lambda path: read_labels(path, rows=3)
    )


def _images() -> Target:
    from noumena.cli.images import read_images

    pictures = np.arange(2 * 8 * 8, dtype=np.uint8).reshape(2, 8, 8)
    return Target([_npy(pictures), _npy(pictures[..., None] / 255), _zip(x=pictures)], "i.npy", read_images)


def _folder() -> Target:
    from PIL import Image

    from noumena.data.folders import folder

    seeds = [
        _saved(Image.new(kind, (6, 6)).save, ending) for kind in ("L", "RGB") for ending in (".png", ".jpg", ".bmp")
    ]

    def read(path: Path) -> None:
        images = folder(path.parent)
        images.pictures(np.arange(len(images)))

    return Target(seeds, "pictures/a.png", read)


def _archive() -> Target:
    from noumena.data.archives import ArchiveMember

    seeds = [_zip(x=X), _zip(compressed=True, x=X, y=X[0]), _zip(x=X[:0]), _npy(X)]
    return Target(seeds, "a.npz", lambda path: ArchiveMember(path, "x")[...])


def _run_files() -> dict[str, bytes]:
    import noumena as nm

    model = nm.VAE(1, training=nm.Training(steps=2), n_models=1, penalty=0.1 * nm.DependencySparsity(), random_state=0)
    with tempfile.TemporaryDirectory() as folder:
        nm.save(model.fit(np.random.default_rng(0).normal(size=(20, 3))), folder)
        return {path.name: path.read_bytes() for path in Path(folder).iterdir()}


def _run(name: str) -> Target:
    from noumena.estimators import load

    files = _run_files()
    return Target(
        [files[name]], f"run/{name}", lambda path: load(path.parent), {f"run/{k}": v for k, v in files.items()}
    )


def _checkpoint() -> Target:
    import torch

    from noumena.estimators.checkpoint import Checkpoint

    seed = _saved(Checkpoint(3, "f", {"w": torch.ones(2, 2)}).save, ".safetensors")
    return Target([seed], "c.safetensors", lambda path: Checkpoint.load(path, "f"))


DOORS: dict[str, Any] = {
    "structure": _structure,
    "rows": _rows,
    "verdicts": _verdicts,
    "journal": _journal,
    "csv": lambda: _table(".csv", CSVS),
    "csv with words": lambda: _table(".csv", CSVS, words=True),
    "tsv": lambda: _table(".tsv", [seed.replace(b",", b"\t") for seed in CSVS]),
    "npy": lambda: _table(".npy", _npys()),
    "mapped npy": lambda: _table(".npy", _npys(), mmap=True),
    "npz": lambda: _table(".npz", [_zip(x=X), _zip(compressed=True, x=X, y=X), _zip()], key="x"),
    "parquet": lambda: _table(".parquet", [_saved(_frame, ".parquet")], words=True),
    "h5": lambda: _walked(".h5", _h5),
    "h5ad": lambda: _walked(".h5ad", _h5ad),
    "zarr description": lambda: _zarr("zarr.json"),
    "zarr numbers": lambda: _zarr("c/0/0"),
    "older zarr": lambda: _zarr(".zarray", version=2),
    "annotated csv": lambda: _annotated(".csv", [b"a,b,y\n1,2,u\n3,4,v\n", b'y,"a b",Metadata_x\nu,1,2\nv,,4\n']),
    "annotated npz": lambda: _annotated(".npz", [_zip(X=X, y=np.array(list("uvuv"))), _zip(x=X, y=X[:, 0])]),
    "annotated parquet": lambda: _annotated(".parquet", [_saved(_frame, ".parquet")]),
    "labels": _labels,
    "images": _images,
    "pictures": _folder,
    "archive": _archive,
    "run config": lambda: _run("config.json"),
    "run weights": lambda: _run("weights.safetensors"),
    "run history": lambda: _run("history.csv"),
    "checkpoint": _checkpoint,
}
