"""Users' tables: files of numbers as a ``(batch, dim)`` array with names, checked, or made ready to learn from.

``.npy``, ``.npz``, ``.csv``, ``.tsv``, ``.parquet``, ``.h5``, ``.hdf5``, ``.zarr`` and ``.h5ad``. Never unpickles.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from noumena import checks
from noumena.checks import InputError
from noumena.worlds.columns import Choice, Prepared, prepare
from noumena.worlds.readers import READERS, Asked, Table

ENDINGS = tuple(READERS)
MAPPED_FROM = 2**28
"""Bytes of a ``.npy`` file beyond which it is not read to memory to learn from."""


def read_table(
    path: str | Path,
    *,
    key: str | None = None,
    columns: Sequence[str | int] | None = None,
    drop: Sequence[str | int] = (),
    words: bool = False,
    mmap: bool = False,
) -> Table:
    """Read a file of finite numbers; ``key`` chooses the array of a file that holds several.

    ``columns`` are the columns to take, by name or by number from 0, and ``drop`` those to leave out. With ``words``,
    columns of a text, a ``.parquet`` file or an array may hold words, and are then kept as they are. With ``mmap`` a
    ``.npy`` file stays on disk and comes as a memory map; ``.h5`` and ``.zarr`` files are always read in stretches of
    rows, so that only the chosen columns are ever held. Of an ``.h5ad`` file the key is ``X``, a layer or a part of
    ``obsm``; an attribute ``columns`` names the columns of ``.h5`` and ``.zarr`` arrays.
    """
    file = Path(path).name
    table = _read(Path(path), Asked(key, Choice(columns, drop), words, mmap))
    if words and table.x.dtype.kind in "OUS":
        return table
    if not isinstance(table.x, np.memmap):
        return Table(_checked(table.x, file), table.names, table.left_out)
    _checked(table.x, file)
    return table


def read_prepared(
    path: str | Path,
    *,
    key: str | None = None,
    columns: Sequence[str | int] | None = None,
    drop: Sequence[str | int] = (),
    impute: str | None = None,
    drop_constant: bool = False,
) -> Prepared:
    """Read a file to learn from: missing cells and constant columns are refused by name, or treated as asked for.

    ``impute`` is ``mean``, ``median``, ``drop-rows`` or ``drop-columns``. ``Prepared.done`` says what was done. A
    ``.npy`` file of floats that is larger than ``MAPPED_FROM`` bytes, and needs no treatment, stays on disk.
    """
    file = Path(path).name
    table = _read(Path(path), Asked(key, Choice(columns, drop), mmap=_large(Path(path)), droppable=True))
    floats = table.x.dtype in (np.float32, np.float64) and table.x.size > 0
    numbers = table.x if floats else _checked(np.asarray(table.x), file)
    found = prepare(numbers, table.names, file=file, impute=impute, drop_constant=drop_constant)
    left = len(table.left_out)
    said = f"Left out {left} of {left + table.x.shape[1]} columns as asked: {checks.few(table.left_out)}."
    return Prepared(_checked(found.x, file), found.names, ((said,) if left else ()) + found.done)


def _large(path: Path) -> bool:
    """Whether a file is better left on disk."""
    return path.is_file() and path.stat().st_size > MAPPED_FROM


def _read(path: Path, asked: Asked) -> Table:
    """What a reader finds in a file; whatever it complains of becomes one sentence."""
    ending = path.suffix.lower()
    checks.require(path.exists(), "The data file must exist.", f"{path}")
    if ending == ".zarr":
        checks.require(path.is_dir(), "A .zarr store must be a folder.", f"the file {path}")
    else:
        checks.require(path.is_file(), "The data must be a file.", f"the folder {path}")
    checks.one_of(ending, f"The ending of {path.name}", ENDINGS)
    try:
        return READERS[ending](path, asked)
    except InputError:
        raise
    except Exception as error:  # a damaged file may make its reader raise anything
        first = str(error).splitlines()[0] if str(error) else type(error).__name__
        content = "numbers and words" if asked.words else "numbers"
        raise InputError(f"{path.name} must be a complete {path.suffix} file of {content}. Got: {first}.") from error


def _checked(x: np.ndarray, file: str) -> np.ndarray:
    """Finite numbers in two axes; a memory map stays one."""
    try:
        return checks.mapped(x, file) if isinstance(x, np.memmap) else checks.table(x, file)
    except TypeError as error:
        raise InputError(str(error)) from error
