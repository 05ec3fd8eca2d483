"""Users' tables: files of numbers as a ``(batch, dim)`` array with names, checked, or made ready to learn from.

``.npy``, ``.npz``, ``.csv``, ``.tsv``, the last two also packed as ``.gz``, ``.parquet``, ``.h5``, ``.hdf5``, ``.zarr``
and ``.h5ad``. Never unpickles.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from noumena import checks
from noumena.checks import InputError
from noumena.data.columns import Asked, Choice, Prepared, Table, decoded, prepare, require_names
from noumena.data.readers import READERS

ENDINGS = tuple(READERS)
TEXTS = (".csv", ".tsv", ".csv.gz", ".tsv.gz")
SINGLE = (*TEXTS, ".npy", ".parquet")
"""Files of one table, of which no key chooses."""
SHEETS = (".xlsx", ".xls", ".ods", ".txt", ".dat")
"""Files that are to be saved as text with commas first."""
MAGIC = {".npy": (b"\x93NUMPY", b"PK"), ".npz": (b"PK", b"\x93NUMPY"), ".parquet": (b"PAR1", b"PARE")}
"""How files begin that their readers may look into."""
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
    chooser: str | None = None,
) -> Table:
    """Read a file of finite numbers; ``key`` chooses the array of a file that holds several.

    ``columns`` are the columns to take, by name or by number from 0, and ``drop`` those to leave out. With ``words``,
    columns of a text, a ``.parquet`` file or an array may hold words, and are then kept as they are. With ``mmap`` a
    ``.npy`` file stays on disk and comes as a memory map; ``.h5`` and ``.zarr`` files are always read in stretches of
    rows, so that only the chosen columns are ever held. Of an ``.h5ad`` file the key is ``X``, a layer or a part of
    ``obsm``; an attribute ``columns`` names the columns of ``.h5`` and ``.zarr`` arrays. ``chooser`` is the option of a
    command that leaves columns out, ``--drop``, or takes them; sentences on columns that are refused then name it.
    """
    file = Path(path).name
    table = _read(Path(path), Asked(key, Choice(columns, drop), words, mmap, chooser=chooser))
    require_names(table.names, file, droppable=chooser == "--drop")
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
    missing: Sequence[str] = (),
    header: bool | None = None,
    sep: str | None = None,
    decimal: str = ".",
) -> Prepared:
    """Read a file to learn from: missing cells and constant columns are refused by name, or treated as asked for.

    ``impute`` is ``mean``, ``median``, ``drop-rows`` or ``drop-columns``; ``missing`` are cells that count as missing,
    such as ``?`` and ``-999``. Of text, ``header`` says whether its first line is one, where that is not to be decided
    from what is below it, ``sep`` what parts its cells, and ``decimal`` is the sign in its numbers. ``Prepared.done``
    says what was done. A ``.npy`` file of floats that is larger than ``MAPPED_FROM`` bytes, and needs no treatment,
    stays on disk.
    """
    file, ending = Path(path).name, ending_of(Path(path))
    require_key(key, Path(path))
    of_text = header is not None or sep is not None or decimal != "."
    must = "--header, --sep and --decimal must come with a .csv or .tsv file."
    checks.require(not of_text or ending in TEXTS, must, file)
    codes = tuple(code.strip() for code in missing)
    mapped = _large(Path(path)) and not codes
    asked = Asked(key, Choice(columns, drop), False, mapped, True, codes, header, sep, decimal, "--drop")
    table = _read(Path(path), asked)
    floats = table.x.dtype in (np.float32, np.float64) and table.x.size > 0
    numbers, coded = decoded(table.x if floats else _checked(np.asarray(table.x), file, 2), codes)
    found = prepare(numbers, table.names, file=file, impute=impute, drop_constant=drop_constant)
    said = _said(table, ending in TEXTS and header is None, codes, table.coded + coded)
    return Prepared(_checked(found.x, file, 2), found.names, said + found.done)


def require_key(key: str | None, *paths: Path) -> None:
    """Refuse a key that chooses nothing, since each of the files holds one table."""
    several = any(ending_of(path) not in SINGLE for path in paths)
    must = "--key must come with a file that may hold several arrays."
    checks.require(key is None or several, must, checks.few([path.name for path in paths]))


def _said(table: Table, guessed: bool, codes: tuple[str, ...], coded: int) -> tuple[str, ...]:
    """Sentences on how a file was read."""
    rows, left = len(table.x), len(table.left_out)
    said = [f"No header: {rows} rows, the first line among them."] if guessed and table.names is None else []
    if left:
        all_columns = left + table.x.shape[1]
        said.append(f"Left out {left} of {all_columns} columns as asked: {checks.few(table.left_out)}.")
    if codes:
        said.append(f"Counted {coded} cell{'' if coded == 1 else 's'} as missing: {', '.join(map(repr, codes))}.")
    return tuple(said)


def _large(path: Path) -> bool:
    """Whether a file is better left on disk."""
    return path.is_file() and path.stat().st_size > MAPPED_FROM


def ending_of(path: Path) -> str:
    """The ending of a file's name, in small letters; both of packed text.

    >>> ending_of(Path("a/X.CSV.gz")), ending_of(Path("x.tar.gz")), ending_of(Path("x.npy"))
    ('.csv.gz', '.gz', '.npy')
    """
    double = "".join(path.suffixes[-2:]).lower()
    return double if double in READERS else path.suffix.lower()


def _read(path: Path, asked: Asked) -> Table:
    """What a reader finds in a file; whatever it complains of becomes one sentence."""
    ending = ending_of(path)
    checks.require(path.exists(), "The data file must exist.", f"{path}")
    if ending == ".zarr":
        checks.require(path.is_dir(), "A .zarr store must be a folder.", f"the file {path}")
    else:
        checks.require(not path.is_dir(), "The data must be a file.", f"the folder {path}")
        checks.require(path.is_file(), "The data must be a regular file.", f"{path}")
    given = f"{path.suffix.lower()!r}{'; save it as .csv' if ending in SHEETS else ''}"
    checks.require(ending in ENDINGS, f"The ending of {path.name} must be one of {', '.join(ENDINGS)}.", given)
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
    """What a reader complains of, in its own words unless ours are of more use."""
    if isinstance(error, UnicodeError):
        return " text that is not UTF-8; save it as UTF-8"
    first = str(error).splitlines()[0] if str(error) else type(error).__name__
    return " Python's objects, which are never unpickled" if "allow_pickle" in first else f": {first}"


def _checked(x: np.ndarray, file: str, least: int = 1) -> np.ndarray:
    """Finite numbers in two axes; a memory map stays one."""
    if x.ndim == 2 and x.dtype.kind in "fiub":
        must = f"{file} must have at least {least} row{'s' if least > 1 else ''}."
        checks.require(len(x) >= least, must, len(x))
    try:
        return checks.mapped(x, file) if isinstance(x, np.memmap) else checks.table(x, file)
    except TypeError as error:
        raise InputError(str(error)) from error
