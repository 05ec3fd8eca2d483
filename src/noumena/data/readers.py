"""Readers: one for every format of users' tables, each returning the chosen columns with their names.

Nothing is unpickled and no code comes from a file: object arrays are refused, ``.zarr`` arrays must use known codecs,
and ``.h5`` data must not be external or virtual. An HDF5 file is first checked by another process.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from noumena import checks
from noumena.data.columns import CHUNK, DataTable, Names, ReadOptions
from noumena.data.delimited import read_text
from noumena.data.hdf5_guard import check_hdf5

CODECS = {
    "adler32", "astype", "bitround", "blosc", "bytes", "bz2", "crc32", "crc32c", "delta", "endian", "fixedscaleoffset",
    "fletcher32", "gzip", "jenkins_lookup3", "lz4", "lzma", "packbits", "pcodec", "quantize", "sharding_indexed",
    "shuffle", "transpose", "zfpy", "zlib", "zstd",
}  # fmt: skip
"""Codecs of ``.zarr`` arrays that cannot run code; ``pickle`` is not among them."""
DEEP = 8
"""Depth to which a ``.zarr`` group is searched for arrays."""


def _cut(x: np.ndarray, names: Names, asked: ReadOptions, file: str) -> DataTable:
    """Chosen columns of an array, a view where they are contiguous."""
    checks.require(
        x.ndim == 2, f"{file} must have two axes, (batch, dim).", f"shape {x.shape}. Reshape your data first"
    )
    columns, chosen, left_out = asked.taken(names, x.shape[1], file)
    run = np.arange(columns[0], columns[0] + len(columns))
    return DataTable(
        x[:, columns[0] : columns[-1] + 1] if np.array_equal(columns, run) else x[:, columns], chosen, left_out
    )


# ---- arrays ----------------------------------------------------------------------------------------------------


def _npy(path: Path, asked: ReadOptions) -> DataTable:
    mapped = asked.mmap and path.stat().st_size > 0
    x = np.load(path, allow_pickle=False, mmap_mode="r" if mapped else None)
    checks.require(isinstance(x, np.ndarray), f"{path.name} must hold one array.", "an archive")
    return _cut(x, None, asked, path.name)


def _npz(path: Path, asked: ReadOptions) -> DataTable:
    with path.open("rb") as file:
        archive = np.load(file, allow_pickle=False)
        checks.require(hasattr(archive, "files"), f"{path.name} must be an archive of arrays.", "a single array")
        return _cut(archive[_one_of(archive.files, asked.key, path.name)], None, asked, path.name)


def _one_of(names: list[str], key: str | None, file: str) -> str:
    """The only array of a file, or the one that the key names."""
    must = f"{file} must hold one array, or --key must name one."
    fits = key in names if key is not None else len(names) == 1
    checks.require(fits, must, f"arrays {checks.listed(sorted(names), 8) or 'none'} and key {key}")
    return names[0] if key is None else key


def _h5(path: Path, asked: ReadOptions) -> DataTable:
    h5py = checks.package("h5py", "h5py", ".h5 files", "data")
    check_hdf5(path)
    with h5py.File(path, "r") as file:
        tables: dict[str, Any] = {}
        file.visititems(lambda name, item: tables.update({name: item}) if isinstance(item, h5py.Dataset) else None)
        flat = [name for name, item in tables.items() if item.ndim == 2]
        data = tables[_one_of(flat if asked.key is None else list(tables), asked.key, path.name)]
        outside = data.is_virtual or data.external is not None
        checks.require(not outside, f"{path.name} must store its arrays itself.", "an external or virtual dataset")
        return _chunked(data, _names(data.attrs.get("columns")), asked, path.name)


def _zarr(path: Path, asked: ReadOptions) -> DataTable:
    zarr = checks.package("zarr", "zarr", ".zarr files", "data")
    arrays = {key: (described, version) for key, described, version in _zarr_arrays(path)}
    key = _one_of(list(arrays), asked.key, path.name)
    described, version = arrays[key]
    strange = sorted(_codecs(described) - CODECS)
    checks.require(not strange, f"{path.name} must use codecs known to be harmless.", f"{checks.listed(strange)!r:.80}")
    data = zarr.open_array(path / key if key else path, mode="r", zarr_format=version)
    return _chunked(data, _names(data.attrs.get("columns")), asked, path.name)


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


def _chunked(data: Any, names: Names, asked: ReadOptions, file: str) -> DataTable:
    """Chosen columns of an array on disk, read in chunks of rows."""
    shape, dtype = tuple(data.shape), np.dtype(data.dtype)
    checks.require(
        len(shape) == 2, f"{file} must have two axes, (batch, dim).", f"shape {shape}. Reshape your data first"
    )
    checks.require(dtype.kind in "fiub", f"{file} must hold numbers.", f"dtype {dtype}")
    named = names if names is not None and len(names) == shape[1] else None
    columns, chosen, left_out = asked.taken(named, shape[1], file)
    x = np.empty((shape[0], len(columns)), np.float32 if dtype == np.float32 else np.float64)
    step = max(1, CHUNK // shape[1])
    for start in range(0, shape[0], step):
        x[start : start + step] = np.asarray(data[start : start + step])[:, columns]
    return DataTable(x, chosen, left_out)


def _names(stored: Any) -> Names:
    """Names of columns from an attribute ``columns``, where it is a list of strings."""
    names = stored.tolist() if isinstance(stored, np.ndarray) else stored
    if not isinstance(names, list):
        return None
    return tuple(name.decode(errors="replace") if isinstance(name, bytes) else str(name) for name in names)


# ---- frames ----------------------------------------------------------------------------------------------------


def _parquet(path: Path, asked: ReadOptions) -> DataTable:
    import pandas as pd

    return _framed(pd.read_parquet(path), asked, path.name)


def _framed(frame: Any, asked: ReadOptions, file: str) -> DataTable:
    """Chosen columns of a pandas frame; cells that are missing become NaN."""
    names = tuple(str(name) for name in frame.columns)
    taken, chosen, left_out = asked.taken(names, len(names), file)
    decoded = [decoded_column(frame.iloc[:, j], asked.missing) for j in taken]
    columns, coded = [column for column, _ in decoded], sum(count for _, count in decoded)
    arrays = [_column(column) for column in columns]
    strange = next((k for k, numbers in enumerate(arrays) if numbers is None), None)
    if strange is None:
        table = np.stack([numbers for numbers in arrays if numbers is not None], axis=1)
        return DataTable(table, chosen, left_out, coded)
    if not asked.words:
        raise asked.refusal(int(taken[strange]), names, file, _kind(columns[strange]))
    cells = np.empty((len(frame), len(taken)), dtype=object)
    for k, column in enumerate(columns):
        cells[:, k] = column.to_numpy(dtype=object)
    return DataTable(cells, chosen, left_out)


def decoded_column(column: Any, missing: tuple[str, ...]) -> tuple[Any, int]:
    """A column with codes for missing values masked, numeric if it then is, and how many they are."""
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
    """What a non-numeric column holds, with an example."""
    import pandas as pd

    if pd.api.types.is_datetime64_any_dtype(column.dtype) or pd.api.types.is_timedelta64_dtype(column.dtype):
        return "dates or times"
    strange = [cell for cell in column if not isinstance(cell, int | float) and cell is not None]
    example = str(strange[0]).splitlines()[:1] if strange else []
    kind = "words" if strange and isinstance(strange[0], str) else "what are no numbers"
    return f"{kind}, such as {example[0][:40]!r}" if example else kind


def _h5ad(path: Path, asked: ReadOptions) -> DataTable:
    data = open_h5ad(path)
    parts: dict[str, Any] = {"X": data.X} if data.X is not None else {}
    parts |= {name: data.layers[name] for name in data.layers} | {name: data.obsm[name] for name in data.obsm}
    key = asked.key if asked.key is not None else "X"
    must = f"{path.name} must hold the matrix {key}, as X, a layer or in obsm."
    checks.require(key in parts, must, f"{checks.listed(list(parts), 8) or 'none'}")
    matrix = parts[key]
    dense = np.asarray(matrix.toarray() if hasattr(matrix, "toarray") else matrix)
    names = tuple(str(name) for name in data.var_names)
    return _cut(dense, names if dense.ndim == 2 and dense.shape[1] == len(names) else None, asked, path.name)


def open_h5ad(path: Path) -> Any:
    """The annotated matrix of an ``.h5ad`` file."""
    anndata = checks.package("anndata", "anndata", ".h5ad files", "bio")
    check_hdf5(path)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return anndata.read_h5ad(path)


READERS: dict[str, Callable[[Path, ReadOptions], DataTable]] = {
    ".npy": _npy, ".npz": _npz, ".csv": read_text, ".tsv": read_text, ".parquet": _parquet, ".h5": _h5,
    ".hdf5": _h5, ".zarr": _zarr, ".h5ad": _h5ad, ".csv.gz": read_text, ".tsv.gz": read_text,
}  # fmt: skip
