"""Annotated tables: features and annotation columns from text, ``.parquet``, ``.h5ad`` and ``.npz`` files. Never
unpickles.
"""

from __future__ import annotations

import csv
import zipfile
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from noumena import checks
from noumena.checks import InputError
from noumena.data.columns import ColumnChoice, PreparedTable, ReadOptions, decoded, filled, refuse_infinite
from noumena.data.delimited import UNNAMED, coded_among, lines_of, number_of, numbers_of, plain
from noumena.data.readers import decoded_column, open_h5ad
from noumena.data.tables import TEXTS, ending_of

ENDINGS = (*TEXTS, ".parquet", ".h5ad", ".npz")
PREFIX = "metadata_"
NEARLY = 0.1
"""A column with a smaller share of strings is numeric."""
_DAMAGE = (
    OSError, ValueError, EOFError, KeyError, TypeError, RuntimeError, csv.Error, zipfile.BadZipFile, zlib.error,
)  # fmt: skip


@dataclass(frozen=True)
class AnnotatedTable:
    """Features with annotation columns.

    Attributes
    ----------
    x : array of shape (n_samples, n_features)
        The features.
    names : tuple of str
        Their names.
    annotations : dict of str to array of shape (n_samples,)
        The annotation columns.
    notes : tuple of str
        What was left out.
    """

    x: np.ndarray
    names: tuple[str, ...]
    annotations: dict[str, np.ndarray]
    notes: tuple[str, ...]


def read_annotated(
    path: str | Path,
    annotations: Sequence[str],
    *,
    features: Sequence[str] | None = None,
    impute: str | None = None,
    missing: Sequence[str] = (),
    sep: str | None = None,
    decimal: str = ".",
) -> AnnotatedTable:
    """Read a file of features and annotation columns.

    Without ``features`` every numeric column is one, but for annotations and columns named ``Metadata_…``. An
    ``.h5ad``
    file has annotations in ``obs`` and features in ``X``; an ``.npz`` file an array ``X`` and others with one entry
    per row.

    Parameters
    ----------
    path : str or Path
        The file.
    annotations : sequence of str
        The annotation columns.
    features : sequence of str, optional
        Names of features, or prefixes of names.
    impute : {"mean", "median", "drop-rows", "drop-columns"}, optional
        What becomes of missing features; by default they are kept as NaN.
    missing : sequence of str
        Codes for missing values, such as ``?`` and ``-999``.
    sep, decimal : str
        Of text: the column separator, by default that of the file's ending, and the decimal point.

    Returns
    -------
    AnnotatedTable
    """
    path, ending = Path(path), ending_of(Path(path))
    checks.require(path.exists(), "The data file must exist.", f"{path}")
    checks.require(path.is_file(), "The data must be a file.", f"the folder {path}")
    checks.one_of(ending, f"The ending of {path.name}", ENDINGS)
    must = "--sep and --decimal must come with a .csv or .tsv file."
    checks.require((sep is None and decimal == ".") or ending in TEXTS, must, path.name)
    codes = tuple(code.strip() for code in missing)
    asked = ReadOptions(choice=ColumnChoice(features), options=True, missing=codes, sep=sep, decimal=decimal)
    try:
        table = _READERS[ending](path, tuple(annotations), asked)
    except InputError:
        raise
    except UnicodeError as error:
        must = f"{path.name} must be a complete {ending} file."
        raise InputError(f"{must} Got text that is not UTF-8; save it as UTF-8.") from error
    except _DAMAGE as error:
        raise InputError(f"{path.name} must be a complete {ending} file. Got: {checks.first_line(error)}.") from error
    return _without_missing(_with_features(table, features, path.name), path.name, impute)


def _without_missing(table: AnnotatedTable, file: str, impute: str | None) -> AnnotatedTable:
    """The table with missing values imputed as asked."""
    if impute is None:
        return table
    refuse_infinite(table.x, table.names, file)
    rows = ~np.isnan(table.x).any(axis=1) if impute == "drop-rows" else np.full(len(table.x), True)
    done = filled(PreparedTable(table.x, table.names, ()), file, impute, chooser="--features")
    annotations = {name: column[rows] for name, column in table.annotations.items()}
    return AnnotatedTable(
        done.x, done.names or (), annotations, (*table.notes, *(note.rstrip(".") for note in done.done))
    )


def _with_features(table: AnnotatedTable, features: Sequence[str] | None, file: str) -> AnnotatedTable:
    if features is None:
        columns = np.arange(len(table.names))
    else:
        columns = np.flatnonzero([_is_named(name, features, table.names) for name in table.names])
        strange = next((s for s in features if not any(name.startswith(s) for name in table.names)), None)
        must = f"Every name of --features must be, or begin, a numeric column of {file}."
        shown = f"{strange!r:.60} where there are {checks.listed(_shown(table.names), 8) or 'none'}"
        checks.require(strange is None, must, shown)
    checks.require(columns.size > 0, f"{file} must have numeric columns beside its annotations.", "none")
    names = tuple(table.names[k] for k in columns)
    x = table.x[:, columns]
    notes = [*table.notes, f"{len(names)} features: {checks.listed(names, 3)}"]
    if features is None:
        integral = [name for name, column in zip(names, x.T, strict=True) if _looks_coded(column)]
        if integral:
            notes.append(
                f"Columns of a few whole numbers are taken as features: {checks.listed(integral)}; --features chooses"
            )
    return AnnotatedTable(x, names, table.annotations, tuple(notes))


def _is_named(name: str, features: Sequence[str], names: Sequence[str]) -> bool:
    """Whether features name a column, or are a prefix of its name without being the name of another."""
    return name in features or any(name.startswith(start) for start in features if start not in names)


def _looks_coded(column: np.ndarray) -> bool:
    """Whether numbers may be categories: few different integers."""
    if not np.isfinite(column).all() or (column != np.rint(column)).any():
        return False
    return 1 < len(np.unique(column)) <= max(2, len(column) // 10)


# ---- files ---------------------------------------------------------------------------------------------------------


def _text(path: Path, annotations: tuple[str, ...], asked: ReadOptions) -> AnnotatedTable:
    """Columns of text: numbers are features, annotations stay strings."""
    (_, first), *written = lines_of(path, asked)
    header = [cell.strip() for cell in first]
    _require_different([name for name in header if name], path.name)
    _require_columns(annotations, header, path.name)
    rows = [(line, plain(row, asked)) for line, row in written]
    places = [j for j, name in enumerate(header) if name and name not in annotations]
    parsed = {j: numbers_of([row[j] for _, row in rows]) for j in places}
    for j in (j for j in places if parsed[j] is None and _is_wanted(header[j], asked, header)):
        _require_words([row[j] for _, row in rows], header[j], path.name)
    numbers = {header[j]: column for j in places if (column := parsed[j]) is not None and not _is_metadata(header[j])}
    words = {name: _labels([row[header.index(name)] for _, row in written]) for name in annotations}
    numeric = np.array([header.index(name) for name in numbers], dtype=np.int64)
    left = [name or str(j) for j, name in enumerate(header) if name not in numbers and name not in annotations]
    x = np.stack(list(numbers.values()), axis=1) if numbers else np.empty((len(rows), 0))
    notes = _notes(left, asked.missing, coded_among(rows, written, numeric))
    return AnnotatedTable(x, tuple(numbers), words, notes)


def _labels(cells: list[str]) -> np.ndarray:
    """Strings, ``None`` where missing."""
    return np.array([None if cell.strip().lower() in UNNAMED else cell.strip() for cell in cells], dtype=object)


def _require_words(cells: list[str], name: str, file: str) -> None:
    """Refuse a numeric column in which a few cells are strings, for those may be codes for missing values."""
    words = [cell.strip() for cell in cells if number_of(cell) is None]
    must = f"Column {name!r:.60} of {file} must hold numbers only, or words only."
    shown = f"{len(words)} cells such as {words[0]!r:.40} among numbers; count it as missing with --missing"
    checks.require(len(words) > NEARLY * len(cells), must, f"{shown}, or choose columns with --features")


def _is_wanted(name: str, asked: ReadOptions, names: Sequence[str]) -> bool:
    """Whether a column would be a feature if it held numbers."""
    features = asked.choice.columns
    return not _is_metadata(name) if features is None else _is_named(name, [str(f) for f in features], names)


def _is_metadata(name: str) -> bool:
    return name.lower().startswith(PREFIX) or name.startswith("Unnamed:")


def _notes(left: list[str], codes: tuple[str, ...], hits: int) -> tuple[str, ...]:
    """What was left out, and how many cells were codes for missing values."""
    notes = [f"Columns left out: {checks.listed(left)}"] if left else []
    if codes:
        notes.append(f"Counted {hits} cell{'' if hits == 1 else 's'} as missing: {', '.join(map(repr, codes))}")
    return tuple(notes)


def _parquet(path: Path, annotations: tuple[str, ...], asked: ReadOptions) -> AnnotatedTable:
    import pandas as pd

    return _frame(pd.read_parquet(path), annotations, asked, path.name)


def _frame(frame: Any, annotations: tuple[str, ...], asked: ReadOptions, file: str) -> AnnotatedTable:
    """Numeric columns as features, annotations unchanged; the others left out and named."""
    import pandas as pd

    columns = [str(name) for name in frame.columns]
    frame.columns = pd.Index(columns)
    _require_different(columns, file)
    _require_columns(annotations, columns, file)
    rest = [name for name in columns if name not in annotations]
    kinds = pd.api.types
    numbers, hits = {}, 0
    for name in rest:
        column, coded = decoded_column(frame[name], asked.missing)
        if kinds.is_numeric_dtype(column.dtype) and not kinds.is_bool_dtype(column.dtype) and not _is_metadata(name):
            single = column.dtype == np.float32
            values = column.to_numpy(dtype=np.float32 if single else np.float64, na_value=np.nan)
            numbers[name], more = decoded(values, asked.missing)
            hits += coded + more
    x = np.stack([v.astype(np.float64) for v in numbers.values()], axis=1) if numbers else np.empty((len(frame), 0))
    words = {name: frame[name].to_numpy(dtype=object) for name in annotations}
    return AnnotatedTable(x, tuple(numbers), words, _notes([n for n in rest if n not in numbers], asked.missing, hits))


def _h5ad(path: Path, annotations: tuple[str, ...], asked: ReadOptions) -> AnnotatedTable:
    data = open_h5ad(path)
    _require_columns(annotations, [str(name) for name in data.obs.columns], f"obs in {path.name}")
    matrix: Any = data.X
    checks.require(matrix is not None, f"{path.name} must hold a matrix X.", "none")
    x, hits = decoded(_floats(matrix.toarray() if hasattr(matrix, "toarray") else matrix), asked.missing)
    columns = {name: data.obs[name].to_numpy(dtype=object) for name in annotations}
    names = tuple(str(name) for name in data.var_names)
    return AnnotatedTable(x.astype(np.float64), names, columns, _notes([], asked.missing, hits))


def _floats(x: Any) -> np.ndarray:
    """Numbers in the precision in which codes for missing values were written."""
    array = np.asarray(x)
    return array if array.dtype == np.float32 else array.astype(np.float64)


def _npz(path: Path, annotations: tuple[str, ...], asked: ReadOptions) -> AnnotatedTable:
    with path.open("rb") as file:
        archive = np.load(file, allow_pickle=False)
        checks.require(hasattr(archive, "files"), f"{path.name} must be an archive of arrays.", "a single array")
        arrays = {name: archive[name] for name in archive.files}
    key = next((name for name in ("X", "x") if name in arrays), None)
    shown = checks.listed(list(arrays)) or "none"
    checks.require(key is not None, f"{path.name} must hold an array X.", f"arrays {shown}")
    x = arrays[str(key)]
    flat = x.ndim == 2 and x.dtype.kind in "fiu"
    checks.require(flat, f"X in {path.name} must hold numbers with two axes.", f"{x.dtype} of shape {x.shape}")
    fits = [name for name, array in arrays.items() if array.shape == (len(x),)]
    _require_columns(annotations, fits, f"{path.name}, of {len(x)} rows,")
    named = arrays.get("features")
    fitting = named is not None and named.shape == (x.shape[1],)
    names = tuple(str(n) for n in named) if named is not None and fitting else tuple(map(str, range(x.shape[1])))
    x, hits = decoded(_floats(x), asked.missing)
    words = {n: (a.astype(str) if (a := arrays[n]).dtype.kind == "S" else a).astype(object) for n in annotations}
    return AnnotatedTable(x.astype(np.float64), names, words, _notes([], asked.missing, hits))


_READERS: dict[str, Callable[[Path, tuple[str, ...], ReadOptions], AnnotatedTable]] = {
    **dict.fromkeys(TEXTS, _text), ".parquet": _parquet, ".h5ad": _h5ad, ".npz": _npz,
}  # fmt: skip


def _require_different(columns: Sequence[str], file: str) -> None:
    twice = sorted({name for name in columns if columns.count(name) > 1})
    checks.require(
        not twice, f"The columns of {file} must have different names.", f"{checks.listed(_shown(twice))} twice"
    )


def _require_columns(annotations: Sequence[str], columns: Sequence[str], file: str) -> None:
    for name in annotations:
        shown = checks.listed(_shown(columns), 8) or "none"
        checks.require(name in columns, f"{file} must hold the annotation {name}.", shown)


def _shown(names: Sequence[str]) -> list[str]:
    """Names in one line each."""
    return [name if name.isprintable() else repr(name) for name in names]
