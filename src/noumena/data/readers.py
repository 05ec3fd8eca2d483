"""Readers: one for every format of users' tables, each giving the chosen columns as an array with their names.

Nothing is unpickled and no code comes from a file: arrays of objects are refused, ``.zarr`` arrays must use codecs that
are known to be harmless, and ``.h5`` data must lie in the file itself, not in another that it names. An HDF5 file is
first walked through by another process.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from noumena import checks
from noumena.checks import InputError
from noumena.data.columns import AT_ONCE, Asked, Names, Table
from noumena.data.hdf5_guard import walk
from noumena.data.texts import read_text

CODECS = {
    "adler32", "astype", "bitround", "blosc", "bytes", "bz2", "crc32", "crc32c", "delta", "endian", "fixedscaleoffset",
    "fletcher32", "gzip", "jenkins_lookup3", "lz4", "lzma", "packbits", "pcodec", "quantize", "sharding_indexed",
    "shuffle", "transpose", "zfpy", "zlib", "zstd",
}  # fmt: skip
"""Codecs of ``.zarr`` arrays that only move numbers about; ``pickle`` is not among them."""
DEEP = 8
"""Folders of a ``.zarr`` group that are looked into for arrays."""


def _cut(x: np.ndarray, names: Names, asked: Asked, file: str) -> Table:
    """Chosen columns of an array; all of them, or neighbours, are a view of it."""
    checks.require(
        x.ndim == 2, f"{file} must have two axes, (batch, dim).", f"shape {x.shape}. Reshape your data first"
    )
    kept, chosen, left_out = asked.taken(names, x.shape[1], file)
    run = np.arange(kept[0], kept[0] + len(kept))
    return Table(x[:, kept[0] : kept[-1] + 1] if np.array_equal(kept, run) else x[:, kept], chosen, left_out)


# ---- arrays ----------------------------------------------------------------------------------------------------


def _npy(path: Path, asked: Asked) -> Table:
    mapped = asked.mmap and path.stat().st_size > 0
    x = np.load(path, allow_pickle=False, mmap_mode="r" if mapped else None)
    checks.require(isinstance(x, np.ndarray), f"{path.name} must hold one array.", "an archive")
    return _cut(x, None, asked, path.name)


def _npz(path: Path, asked: Asked) -> Table:
    with path.open("rb") as file:
        archive = np.load(file, allow_pickle=False)
        checks.require(hasattr(archive, "files"), f"{path.name} must be an archive of arrays.", "a single array")
        return _cut(archive[_one_of(archive.files, asked.key, path.name)], None, asked, path.name)


def _one_of(names: list[str], key: str | None, file: str) -> str:
    """The only array of a file, or the one that the key names."""
    must = f"{file} must hold one array, or --key must name one."
    fits = key in names if key is not None else len(names) == 1
    checks.require(fits, must, f"arrays {checks.few(sorted(names), 8) or 'none'} and key {key}")
    return names[0] if key is None else key


def _h5(path: Path, asked: Asked) -> Table:
    h5py = _imported("h5py", ".h5", "data")
    walk(path)
    with h5py.File(path, "r") as file:
        tables: dict[str, Any] = {}
        file.visititems(lambda name, item: tables.update({name: item}) if isinstance(item, h5py.Dataset) else None)
        flat = [name for name, item in tables.items() if item.ndim == 2]
        data = tables[_one_of(flat if asked.key is None else list(tables), asked.key, path.name)]
        outside = data.is_virtual or data.external is not None
        checks.require(not outside, f"{path.name} must hold its numbers itself.", "numbers that lie in another file")
        return _stretched(data, _names(data.attrs.get("columns")), asked, path.name)


def _zarr(path: Path, asked: Asked) -> Table:
    zarr = _imported("zarr", ".zarr", "data")
    arrays = {key: (described, version) for key, described, version in _zarr_arrays(path)}
    key = _one_of(list(arrays), asked.key, path.name)
    described, version = arrays[key]
    strange = sorted(_codecs(described) - CODECS)
    checks.require(not strange, f"{path.name} must use codecs known to be harmless.", f"{checks.few(strange)!r:.80}")
    data = zarr.open_array(path / key if key else path, mode="r", zarr_format=version)
    return _stretched(data, _names(data.attrs.get("columns")), asked, path.name)


def _zarr_arrays(path: Path, below: str = "") -> Iterator[tuple[str, dict[str, Any], int]]:
    """Names of the arrays in a store, the empty one for the store itself, their descriptions and versions."""
    folder = path / below
    for name, version in (("zarr.json", 3), (".zarray", 2)):
        if (folder / name).is_file():
            described = json.loads((folder / name).read_text())
            if version == 2 or described.get("node_type") == "array":
                yield below, described, version
                return
    if below.count("/") < DEEP:
        for child in sorted(p.name for p in folder.iterdir() if p.is_dir() and not p.is_symlink()):
            yield from _zarr_arrays(path, f"{below}/{child}" if below else child)


def _codecs(described: Any) -> set[str]:
    """Names of all codecs anywhere in an array's description: of version 2 by their id, of version 3 by their name."""
    if isinstance(described, list):
        return set().union(*(_codecs(part) for part in described))
    if not isinstance(described, dict):
        return set()
    used = set()
    for key in ("filters", "compressor", "codecs", "index_codecs"):
        parts = described.get(key) or []
        for part in parts if isinstance(parts, list) else [parts]:
            name = part.get("id", part.get("name")) if isinstance(part, dict) else part
            used |= {str(name).lower().removeprefix("numcodecs.")} | _codecs(part)
            used |= _codecs(part.get("configuration")) if isinstance(part, dict) else set()
    return used


def _stretched(data: Any, names: Names, asked: Asked, file: str) -> Table:
    """Chosen columns of an array on disk, read in stretches of rows so that the others are never held together."""
    shape, dtype = tuple(data.shape), np.dtype(data.dtype)
    checks.require(
        len(shape) == 2, f"{file} must have two axes, (batch, dim).", f"shape {shape}. Reshape your data first"
    )
    checks.require(dtype.kind in "fiub", f"{file} must hold numbers.", f"dtype {dtype}")
    named = names if names is not None and len(names) == shape[1] else None
    kept, chosen, left_out = asked.taken(named, shape[1], file)
    x = np.empty((shape[0], len(kept)), np.float32 if dtype == np.float32 else np.float64)
    step = max(1, AT_ONCE // shape[1])
    for start in range(0, shape[0], step):
        x[start : start + step] = np.asarray(data[start : start + step])[:, kept]
    return Table(x, chosen, left_out)


def _names(stored: Any) -> Names:
    """Names of columns from an attribute ``columns``, where it is a list of words."""
    found = stored.tolist() if isinstance(stored, np.ndarray) else stored
    if not isinstance(found, list):
        return None
    return tuple(name.decode(errors="replace") if isinstance(name, bytes) else str(name) for name in found)


# ---- frames ----------------------------------------------------------------------------------------------------


def _parquet(path: Path, asked: Asked) -> Table:
    import pandas as pd

    return _framed(pd.read_parquet(path), asked, path.name)


def _framed(frame: Any, asked: Asked, file: str) -> Table:
    """Chosen columns of a pandas frame; cells that are missing become NaN."""
    names = tuple(str(name) for name in frame.columns)
    kept, chosen, left_out = asked.taken(names, len(names), file)
    decoded = [decoded_column(frame.iloc[:, j], asked.missing) for j in kept]
    columns, coded = [column for column, _ in decoded], sum(count for _, count in decoded)
    found = [_column(column) for column in columns]
    strange = next((k for k, numbers in enumerate(found) if numbers is None), None)
    if strange is None:
        table = np.stack([numbers for numbers in found if numbers is not None], axis=1)
        return Table(table, chosen, left_out, coded)
    if not asked.words:
        raise asked.refusal(int(kept[strange]), names, file, _kind(columns[strange]))
    cells = np.empty((len(frame), len(kept)), dtype=object)
    for k, column in enumerate(columns):
        cells[:, k] = column.to_numpy(dtype=object)
    return Table(cells, chosen, left_out)


def decoded_column(column: Any, missing: tuple[str, ...]) -> tuple[Any, int]:
    """A column of words with those that stand for missing cells left out, as numbers if it then is, and how many."""
    import pandas as pd

    if not missing or pd.api.types.is_numeric_dtype(column.dtype):
        return column, 0
    codes = column.astype(str).str.strip().isin(missing)
    left = column.mask(codes)
    try:
        return (pd.to_numeric(left) if codes.any() else column), int(codes.sum())
    except (TypeError, ValueError):
        return left, int(codes.sum())


def _column(column: Any) -> np.ndarray | None:
    """Numbers of a column, or ``None`` where it holds anything else."""
    import pandas as pd

    types = pd.api.types
    if types.is_complex_dtype(column.dtype):
        return None
    if types.is_numeric_dtype(column.dtype):
        single = column.dtype == np.float32
        return column.to_numpy(dtype=np.float32 if single else np.float64, na_value=np.nan)
    if column.dtype == object and all(cell is None or isinstance(cell, int | float) for cell in column):
        return column.astype(np.float64).to_numpy()
    return None


def _kind(column: Any) -> str:
    """What a column holds that are no numbers, with an example."""
    import pandas as pd

    if pd.api.types.is_datetime64_any_dtype(column.dtype) or pd.api.types.is_timedelta64_dtype(column.dtype):
        return "dates or times"
    strange = [cell for cell in column if not isinstance(cell, int | float) and cell is not None]
    example = str(strange[0]).splitlines()[:1] if strange else []
    kind = "words" if strange and isinstance(strange[0], str) else "what are no numbers"
    return f"{kind}, such as {example[0][:40]!r}" if example else kind


def _h5ad(path: Path, asked: Asked) -> Table:
    data = open_h5ad(path)
    parts: dict[str, Any] = {"X": data.X} if data.X is not None else {}
    parts |= {name: data.layers[name] for name in data.layers} | {name: data.obsm[name] for name in data.obsm}
    key = asked.key if asked.key is not None else "X"
    must = f"{path.name} must hold the matrix {key}, as X, a layer or in obsm."
    checks.require(key in parts, must, f"{checks.few(list(parts), 8) or 'none'}")
    matrix = parts[key]
    dense = np.asarray(matrix.toarray() if hasattr(matrix, "toarray") else matrix)
    names = tuple(str(name) for name in data.var_names)
    return _cut(dense, names if dense.ndim == 2 and dense.shape[1] == len(names) else None, asked, path.name)


def open_h5ad(path: Path) -> Any:
    """The annotated matrix of an ``.h5ad`` file."""
    anndata = _imported("anndata", ".h5ad", "bio")
    walk(path)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return anndata.read_h5ad(path)


def _imported(package: str, ending: str, extra: str) -> Any:
    """A package that only some formats need."""
    from importlib import import_module

    try:
        return import_module(package)
    except ImportError as error:
        raise InputError(
            f"{ending} files must have {package} to be read. Got none; pip install 'noumena[{extra}]'."
        ) from error


READERS: dict[str, Callable[[Path, Asked], Table]] = {
    ".npy": _npy, ".npz": _npz, ".csv": read_text, ".tsv": read_text, ".parquet": _parquet, ".h5": _h5,
    ".hdf5": _h5, ".zarr": _zarr, ".h5ad": _h5ad, ".csv.gz": read_text, ".tsv.gz": read_text,
}  # fmt: skip
