"""Annotated tables: numbers and the columns that say where they come from, from text, plain or packed, ``.parquet``,
``.h5ad`` and ``.npz`` files. Never unpickles."""

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
from noumena.data.columns import Asked, Choice, Prepared, decoded, filled, refuse_infinite
from noumena.data.readers import decoded_column, open_h5ad
from noumena.data.tables import TEXTS, ending_of
from noumena.data.texts import UNNAMED, coded_among, lines_of, number_of, numbers_of, plain

ENDINGS = (*TEXTS, ".parquet", ".h5ad", ".npz")
PREFIX = "metadata_"
NEARLY = 0.1
"""A column with fewer words than that, of its cells, is taken for one of numbers."""
_DAMAGE = (
    OSError, ValueError, EOFError, KeyError, TypeError, RuntimeError, csv.Error, zipfile.BadZipFile, zlib.error,
)  # fmt: skip


@dataclass(frozen=True)
class Annotated:
    """Features ``x`` (rows, features) with their names, annotation columns (rows,), and what was left out."""

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
) -> Annotated:
    """Read a file; ``annotations`` are the columns to keep apart, ``features`` names or beginnings of names to use.

    Without ``features`` every numeric column is one, but for annotations and columns named ``Metadata_…``. An ``.h5ad``
    file has annotations in ``obs`` and features in ``X``; an ``.npz`` file an array ``X`` with two axes and others with
    one entry for each of its rows. ``missing`` are cells that count as missing, such as ``?`` and ``-999``; ``impute``
    says what becomes of missing features: ``mean``, ``median``, ``drop-rows`` or ``drop-columns``. Without it, entries
    that are not finite are left to whoever uses the table. Of text, ``sep`` is what parts its cells and ``decimal`` the
    sign in its numbers.
    """
    path, ending = Path(path), ending_of(Path(path))
    checks.require(path.exists(), "The data file must exist.", f"{path}")
    checks.require(path.is_file(), "The data must be a file.", f"the folder {path}")
    checks.one_of(ending, f"The ending of {path.name}", ENDINGS)
    must = "--sep and --decimal must come with a .csv or .tsv file."
    checks.require((sep is None and decimal == ".") or ending in TEXTS, must, path.name)
    codes = tuple(code.strip() for code in missing)
    asked = Asked(choice=Choice(features), options=True, missing=codes, sep=sep, decimal=decimal)
    try:
        found = _READERS[ending](path, tuple(annotations), asked)
    except InputError:
        raise
    except UnicodeError as error:
        must = f"{path.name} must be a complete {ending} file."
        raise InputError(f"{must} Got text that is not UTF-8; save it as UTF-8.") from error
    except _DAMAGE as error:
        first = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise InputError(f"{path.name} must be a complete {ending} file. Got: {first}.") from error
    return _whole(_chosen(found, features, path.name), path.name, impute)


def _whole(table: Annotated, file: str, impute: str | None) -> Annotated:
    """The table with missing cells treated as asked for."""
    if impute is None:
        return table
    refuse_infinite(table.x, table.names, file)
    rows = ~np.isnan(table.x).any(axis=1) if impute == "drop-rows" else np.full(len(table.x), True)
    done = filled(Prepared(table.x, table.names, ()), file, impute, chooser="--features")
    annotations = {name: column[rows] for name, column in table.annotations.items()}
    return Annotated(done.x, done.names or (), annotations, (*table.notes, *(note.rstrip(".") for note in done.done)))


def _chosen(found: Annotated, features: Sequence[str] | None, file: str) -> Annotated:
    if features is None:
        kept = np.arange(len(found.names))
    else:
        kept = np.flatnonzero([_is_named(name, features, found.names) for name in found.names])
        strange = next((s for s in features if not any(name.startswith(s) for name in found.names)), None)
        must = f"Every name of --features must be, or begin, a numeric column of {file}."
        given = f"{strange!r:.60} where there are {checks.few(_shown(found.names), 8) or 'none'}"
        checks.require(strange is None, must, given)
    checks.require(kept.size > 0, f"{file} must have numeric columns beside its annotations.", "none")
    names = tuple(found.names[k] for k in kept)
    x = found.x[:, kept]
    notes = [*found.notes, f"{len(names)} features: {checks.few(names, 3)}"]
    if features is None:
        whole = [name for name, column in zip(names, x.T, strict=True) if _looks_coded(column)]
        if whole:
            notes.append(
                f"Columns of a few whole numbers are taken as features: {checks.few(whole)}; --features chooses"
            )
    return Annotated(x, names, found.annotations, tuple(notes))


def _is_named(name: str, features: Sequence[str], names: Sequence[str]) -> bool:
    """Whether features name a column, or begin its name without being the name of another."""
    return name in features or any(name.startswith(start) for start in features if start not in names)


def _looks_coded(column: np.ndarray) -> bool:
    """Whether numbers may be names: whole, and few of them."""
    if not np.isfinite(column).all() or (column != np.rint(column)).any():
        return False
    return 1 < len(np.unique(column)) <= max(2, len(column) // 10)


# ---- files ---------------------------------------------------------------------------------------------------------


def _text(path: Path, annotations: tuple[str, ...], asked: Asked) -> Annotated:
    """Columns of text by the rules of tables: numbers are features, annotations words as they stand."""
    (_, first), *written = lines_of(path, asked)
    header = [cell.strip() for cell in first]
    _require_different([name for name in header if name], path.name)
    _require_columns(annotations, header, path.name)
    rows = [(line, plain(row, asked)) for line, row in written]
    places = [j for j, name in enumerate(header) if name and name not in annotations]
    found = {j: numbers_of([row[j] for _, row in rows]) for j in places}
    for j in (j for j in places if found[j] is None and _is_wanted(header[j], asked, header)):
        _require_words([row[j] for _, row in rows], header[j], path.name)
    numbers = {header[j]: column for j in places if (column := found[j]) is not None and not _is_metadata(header[j])}
    words = {name: _labels([row[header.index(name)] for _, row in written]) for name in annotations}
    kept = np.array([header.index(name) for name in numbers], dtype=np.int64)
    left = [name or str(j) for j, name in enumerate(header) if name not in numbers and name not in annotations]
    x = np.stack(list(numbers.values()), axis=1) if numbers else np.empty((len(rows), 0))
    notes = _notes(left, asked.missing, coded_among(rows, written, kept))
    return Annotated(x, tuple(numbers), words, notes)


def _labels(cells: list[str]) -> np.ndarray:
    """Words as they stand, ``None`` where there is none."""
    return np.array([None if cell.strip().lower() in UNNAMED else cell.strip() for cell in cells], dtype=object)


def _require_words(cells: list[str], name: str, file: str) -> None:
    """Refuse a column of numbers in which a few cells are words, for those may stand for missing ones."""
    words = [cell.strip() for cell in cells if number_of(cell) is None]
    must = f"Column {name!r:.60} of {file} must hold numbers only, or words only."
    given = f"{len(words)} cells such as {words[0]!r:.40} among numbers; count it as missing with --missing"
    checks.require(len(words) > NEARLY * len(cells), must, f"{given}, or choose columns with --features")


def _is_wanted(name: str, asked: Asked, names: Sequence[str]) -> bool:
    """Whether a column would be a feature if it held numbers."""
    features = asked.choice.columns
    return not _is_metadata(name) if features is None else _is_named(name, [str(f) for f in features], names)


def _is_metadata(name: str) -> bool:
    return name.lower().startswith(PREFIX) or name.startswith("Unnamed:")


def _notes(left: list[str], codes: tuple[str, ...], hits: int) -> tuple[str, ...]:
    """What was left out, and how many cells were told to be missing."""
    said = [f"Columns left out: {checks.few(left)}"] if left else []
    if codes:
        said.append(f"Counted {hits} cell{'' if hits == 1 else 's'} as missing: {', '.join(map(repr, codes))}")
    return tuple(said)


def _parquet(path: Path, annotations: tuple[str, ...], asked: Asked) -> Annotated:
    import pandas as pd

    return _frame(pd.read_parquet(path), annotations, asked, path.name)


def _frame(frame: Any, annotations: tuple[str, ...], asked: Asked, file: str) -> Annotated:
    """Numeric columns as features, annotations as they stand; the others left out and named."""
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
    return Annotated(x, tuple(numbers), words, _notes([n for n in rest if n not in numbers], asked.missing, hits))


def _h5ad(path: Path, annotations: tuple[str, ...], asked: Asked) -> Annotated:
    data = open_h5ad(path)
    _require_columns(annotations, [str(name) for name in data.obs.columns], f"obs in {path.name}")
    matrix: Any = data.X
    checks.require(matrix is not None, f"{path.name} must hold a matrix X.", "none")
    x, hits = decoded(_floats(matrix.toarray() if hasattr(matrix, "toarray") else matrix), asked.missing)
    columns = {name: data.obs[name].to_numpy(dtype=object) for name in annotations}
    names = tuple(str(name) for name in data.var_names)
    return Annotated(x.astype(np.float64), names, columns, _notes([], asked.missing, hits))


def _floats(x: Any) -> np.ndarray:
    """Numbers in the precision in which codes for missing ones were written."""
    array = np.asarray(x)
    return array if array.dtype == np.float32 else array.astype(np.float64)


def _npz(path: Path, annotations: tuple[str, ...], asked: Asked) -> Annotated:
    with path.open("rb") as file:
        archive = np.load(file, allow_pickle=False)
        checks.require(hasattr(archive, "files"), f"{path.name} must be an archive of arrays.", "a single array")
        arrays = {name: archive[name] for name in archive.files}
    key = next((name for name in ("X", "x") if name in arrays), None)
    given = checks.few(list(arrays)) or "none"
    checks.require(key is not None, f"{path.name} must hold an array X.", f"arrays {given}")
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
    return Annotated(x.astype(np.float64), names, words, _notes([], asked.missing, hits))


_READERS: dict[str, Callable[[Path, tuple[str, ...], Asked], Annotated]] = {
    **dict.fromkeys(TEXTS, _text), ".parquet": _parquet, ".h5ad": _h5ad, ".npz": _npz,
}  # fmt: skip


def _require_different(columns: Sequence[str], file: str) -> None:
    twice = sorted({name for name in columns if columns.count(name) > 1})
    checks.require(not twice, f"The columns of {file} must have different names.", f"{checks.few(_shown(twice))} twice")


def _require_columns(annotations: Sequence[str], columns: Sequence[str], file: str) -> None:
    for name in annotations:
        given = checks.few(_shown(columns), 8) or "none"
        checks.require(name in columns, f"{file} must hold the annotation {name}.", given)


def _shown(names: Sequence[str]) -> list[str]:
    """Names in one line each."""
    return [name if name.isprintable() else repr(name) for name in names]
