"""Users' tables: files of numbers as a ``(batch, dim)`` array with column names, checked, or prepared to learn from.

``.npy``, ``.npz``, ``.csv`` and ``.tsv`` (also gzipped), ``.parquet``, ``.h5``, ``.hdf5``, ``.zarr`` and ``.h5ad``.
Never
unpickles.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from noumena import checks
from noumena.checks import InputError
from noumena.data.columns import ColumnChoice, DataTable, PreparedTable, ReadOptions, decoded, prepare, require_names
from noumena.data.readers import READERS

ENDINGS = tuple(READERS)
TEXTS = (".csv", ".tsv", ".csv.gz", ".tsv.gz")
SINGLE = (*TEXTS, ".npy", ".parquet")
"""Formats of one table, which take no key."""
SHEETS = (".xlsx", ".xls", ".ods", ".txt", ".dat")
"""Formats that are to be saved as CSV first."""
MAGIC = {".npy": (b"\x93NUMPY", b"PK"), ".npz": (b"PK", b"\x93NUMPY"), ".parquet": (b"PAR1", b"PARE")}
"""First bytes of valid files."""
MAPPED_FROM = 2**28
"""Bytes beyond which a ``.npy`` file is memory-mapped."""


def read_table(
    path: str | Path,
    *,
    key: str | None = None,
    columns: Sequence[str | int] | None = None,
    drop: Sequence[str | int] = (),
    words: bool = False,
    mmap: bool = False,
    chooser: str | None = None,
) -> DataTable:
    """Read a file of finite numbers.

    Parameters
    ----------
    path : str or Path
        The file.
    key : str, optional
        Which array of a file that holds several; of an ``.h5ad`` file ``X``, a layer or a part of ``obsm``.
    columns, drop : sequence of str or int
        Columns to take and to leave out, by name or by index.
    words : bool
        Whether columns of text, ``.parquet`` files and arrays may hold strings, which are then kept.
    mmap : bool
        Memory-map a ``.npy`` file; ``.h5`` and ``.zarr`` files are always read in chunks of rows.
    chooser : str, optional
        A command's option that chooses columns, which errors then name.

    Returns
    -------
    DataTable
        An attribute ``columns`` names the columns of ``.h5`` and ``.zarr`` arrays.
    """
    file = Path(path).name
    table = _read(Path(path), ReadOptions(key, ColumnChoice(columns, drop), words, mmap, chooser=chooser))
    require_names(table.names, file, droppable=chooser == "--drop")
    if words and table.x.dtype.kind in "OUS":
        return table
    if not isinstance(table.x, np.memmap):
        return DataTable(_checked(table.x, file), table.names, table.left_out)
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
    missing: Sequence[str] = (),
    header: bool | None = None,
    sep: str | None = None,
    decimal: str = ".",
) -> PreparedTable:
    """Read a file to learn from: missing values and constant columns are refused by name, or treated as asked.

    Parameters
    ----------
    path : str or Path
        The file.
    key : str, optional
        Which array of a file that holds several.
    columns, drop : sequence of str or int
        Columns to take and to leave out, by name or by index.
    impute : {"mean", "median", "drop-rows", "drop-columns"}, optional
        What becomes of missing values.
    drop_constant : bool
        Leave out columns that never vary.
    missing : sequence of str
        Codes for missing values, such as ``?`` and ``-999``.
    header : bool, optional
        Whether text begins with a header; detected by default.
    sep, decimal : str
        Of text: the column separator, by default that of the file's ending, and the decimal point.

    Returns
    -------
    PreparedTable
        A large ``.npy`` file of floats that needs no treatment stays memory-mapped.
    """
    file, ending = Path(path).name, ending_of(Path(path))
    require_key(key, Path(path))
    of_text = header is not None or sep is not None or decimal != "."
    must = "--header, --sep and --decimal must come with a .csv or .tsv file."
    checks.require(not of_text or ending in TEXTS, must, file)
    codes = tuple(code.strip() for code in missing)
    mapped = _large(Path(path)) and not codes
    asked = ReadOptions(key, ColumnChoice(columns, drop), False, mapped, True, codes, header, sep, decimal, "--drop")
    table = _read(Path(path), asked)
    floats = table.x.dtype in (np.float32, np.float64) and table.x.size > 0
    numbers, coded = decoded(table.x if floats else _checked(np.asarray(table.x), file, 2), codes)
    prepared = prepare(numbers, table.names, file=file, impute=impute, drop_constant=drop_constant)
    notes = _reading_notes(table, ending in TEXTS and header is None, codes, table.coded + coded)
    return PreparedTable(_checked(prepared.x, file, 2), prepared.names, notes + prepared.done)


def require_key(key: str | None, *paths: Path) -> None:
    """Refuse a key where each of the files holds one table."""
    several = any(ending_of(path) not in SINGLE for path in paths)
    must = "--key must come with a file that may hold several arrays."
    checks.require(key is None or several, must, checks.listed([path.name for path in paths]))


def _reading_notes(table: DataTable, guessed: bool, codes: tuple[str, ...], coded: int) -> tuple[str, ...]:
    """Sentences on how a file was read."""
    rows, left = len(table.x), len(table.left_out)
    notes = [f"No header: {rows} rows, the first line among them."] if guessed and table.names is None else []
    if left:
        all_columns = left + table.x.shape[1]
        notes.append(f"Left out {left} of {all_columns} columns as asked: {checks.listed(table.left_out)}.")
    if codes:
        notes.append(f"Counted {coded} cell{'' if coded == 1 else 's'} as missing: {', '.join(map(repr, codes))}.")
    return tuple(notes)


def _large(path: Path) -> bool:
    """Whether a file is better memory-mapped."""
    return path.is_file() and path.stat().st_size > MAPPED_FROM


def ending_of(path: Path) -> str:
    """The lower-case suffix of a file, both suffixes of gzipped text.

    >>> ending_of(Path("a/X.CSV.gz")), ending_of(Path("x.tar.gz")), ending_of(Path("x.npy"))
    ('.csv.gz', '.gz', '.npy')
    """
    double = "".join(path.suffixes[-2:]).lower()
    return double if double in READERS else path.suffix.lower()


def _read(path: Path, asked: ReadOptions) -> DataTable:
    """The table in a file; whatever its reader raises becomes one sentence."""
    ending = ending_of(path)
    checks.require(path.exists(), "The data file must exist.", f"{path}")
    if ending == ".zarr":
        checks.require(path.is_dir(), "A .zarr store must be a folder.", f"the file {path}")
    else:
        checks.require(not path.is_dir(), "The data must be a file.", f"the folder {path}")
        checks.require(path.is_file(), "The data must be a regular file.", f"{path}")
    shown = f"{path.suffix.lower()!r}{'; save it as .csv' if ending in SHEETS else ''}"
    checks.require(ending in ENDINGS, f"The ending of {path.name} must be one of {', '.join(ENDINGS)}.", shown)
    content = "numbers and words" if asked.words else "numbers"
    must = f"{path.name} must be a complete {path.name[-len(ending) :]} file of {content}."
    if ending in MAGIC and path.stat().st_size > 0:
        with path.open("rb") as file:
            known = file.read(6).startswith(MAGIC[ending])
        checks.require(known, must, "something else; if it is text, rename it .csv")
    try:
        return READERS[ending](path, asked)
    except InputError:
        raise
    except Exception as error:  # a damaged file may make its reader raise anything
        raise InputError(f"{must} Got{_complaint(error)}.") from error


def _complaint(error: Exception) -> str:
    """A reader's error in one clause."""
    if isinstance(error, UnicodeError):
        return " text that is not UTF-8; save it as UTF-8"
    first = checks.first_line(error)
    return " pickled Python objects, which are never loaded" if "allow_pickle" in first else f": {first}"


def _checked(x: np.ndarray, file: str, least: int = 1) -> np.ndarray:
    """Finite numbers in two axes; a memory map stays one."""
    if x.ndim == 2 and x.dtype.kind in "fiub":
        must = f"{file} must have at least {least} row{'s' if least > 1 else ''}."
        checks.require(len(x) >= least, must, len(x))
    try:
        return checks.mapped(x, file) if isinstance(x, np.memmap) else checks.table(x, file)
    except TypeError as error:
        raise InputError(str(error)) from error
