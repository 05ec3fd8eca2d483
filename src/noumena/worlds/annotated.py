"""Annotated tables: numbers and the columns that say where they come from, from text, plain or packed, ``.parquet``,
``.h5ad`` and ``.npz`` files. Never unpickles."""

from __future__ import annotations

import csv
import zipfile
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from noumena import checks
from noumena.checks import InputError
from noumena.worlds.columns import Asked, Prepared, decoded, filled
from noumena.worlds.readers import open_h5ad
from noumena.worlds.tables import TEXTS, ending_of
from noumena.worlds.texts import opened, require_parted, separator

ENDINGS = (*TEXTS, ".parquet", ".h5ad", ".npz")
PREFIX = "metadata_"
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
    asked = Asked(options=True, missing=tuple(code.strip() for code in missing), sep=sep, decimal=decimal)
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
    return _whole(_chosen(found, features, path.name), path.name, asked.missing, impute)


def _whole(table: Annotated, file: str, codes: tuple[str, ...], impute: str | None) -> Annotated:
    """The table with codes for missing cells read as such, and with missing cells treated as asked for."""
    x, _ = decoded(table.x, codes)
    notes = [*table.notes, *([f"Cells that count as missing: {', '.join(map(repr, codes))}"] if codes else [])]
    if impute is None:
        return replace(table, x=x, notes=tuple(notes))
    rows = ~np.isnan(x).any(axis=1) if impute == "drop-rows" else np.full(len(x), True)
    done = filled(Prepared(x, table.names, ()), file, impute)
    annotations = {name: column[rows] for name, column in table.annotations.items()}
    notes += [note.rstrip(".") for note in done.done]
    return Annotated(done.x, done.names or (), annotations, tuple(notes))


def _chosen(found: Annotated, features: Sequence[str] | None, file: str) -> Annotated:
    if features is None:
        kept = np.arange(len(found.names))
    else:
        kept = np.flatnonzero([any(name.startswith(start) for start in features) for name in found.names])
        strange = next((s for s in features if not any(name.startswith(s) for name in found.names)), None)
        must = f"Every name of --features must be, or begin, a numeric column of {file}."
        given = f"{strange!r:.60} where there are {checks.few(found.names, 8) or 'none'}"
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


def _looks_coded(column: np.ndarray) -> bool:
    """Whether numbers may be names: whole, and few of them."""
    if not np.isfinite(column).all() or (column != np.rint(column)).any():
        return False
    return 1 < len(np.unique(column)) <= max(2, len(column) // 10)


# ---- files ---------------------------------------------------------------------------------------------------------


def _text(path: Path, annotations: tuple[str, ...], asked: Asked) -> Annotated:
    import pandas as pd

    with path.open("rb") as file:
        checks.require(file.read(1) != b"", f"{path.name} must be a complete {path.suffix} file.", "no bytes")
    sign = separator(path, asked)
    with opened(path) as file:
        header = next(csv.reader(file, delimiter=sign), [])
        require_parted(header, sign, path, asked)
        _require_different([name for name in header if name.strip()], path.name)  # pandas would give them others
        file.seek(0)
        text: Any = file
        read: Any = {"sep": sign, "decimal": asked.decimal, "low_memory": False, "float_precision": "round_trip"}
        frame = pd.read_csv(text, dtype=dict.fromkeys(annotations, str), na_values=list(asked.missing), **read)
    return _frame(frame, annotations, path.name)


def _parquet(path: Path, annotations: tuple[str, ...], asked: Asked) -> Annotated:
    import pandas as pd

    return _frame(pd.read_parquet(path), annotations, path.name)


def _frame(frame: Any, annotations: tuple[str, ...], file: str) -> Annotated:
    """Numeric columns as features, annotations as they stand; the others left out and named."""
    import pandas as pd

    columns = [str(name) for name in frame.columns]
    frame.columns = pd.Index(columns)
    _require_different(columns, file)
    _require_columns(annotations, columns, file)
    rest = [name for name in columns if name not in annotations]
    numeric = [name for name in rest if pd.api.types.is_numeric_dtype(frame[name].dtype)]
    numeric = [name for name in numeric if not pd.api.types.is_bool_dtype(frame[name].dtype)]
    kept = [name for name in numeric if not name.lower().startswith(PREFIX) and not name.startswith("Unnamed:")]
    out = [name for name in rest if name not in set(kept)]
    notes = (f"Columns left out: {checks.few(out)}",) if out else ()
    x = frame[kept].to_numpy(dtype=np.float64, na_value=np.nan)
    return Annotated(x, tuple(kept), {name: frame[name].to_numpy(dtype=object) for name in annotations}, notes)


def _h5ad(path: Path, annotations: tuple[str, ...], asked: Asked) -> Annotated:
    data = open_h5ad(path)
    _require_columns(annotations, [str(name) for name in data.obs.columns], f"obs in {path.name}")
    matrix: Any = data.X
    checks.require(matrix is not None, f"{path.name} must hold a matrix X.", "none")
    x = np.asarray(matrix.toarray() if hasattr(matrix, "toarray") else matrix, dtype=np.float64)
    columns = {name: data.obs[name].to_numpy(dtype=object) for name in annotations}
    return Annotated(x, tuple(str(name) for name in data.var_names), columns, ())


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
    return Annotated(x.astype(np.float64), names, {n: arrays[n].astype(object) for n in annotations}, ())


_READERS: dict[str, Callable[[Path, tuple[str, ...], Asked], Annotated]] = {
    **dict.fromkeys(TEXTS, _text), ".parquet": _parquet, ".h5ad": _h5ad, ".npz": _npz,
}  # fmt: skip


def _require_different(columns: Sequence[str], file: str) -> None:
    twice = sorted({name for name in columns if columns.count(name) > 1})
    checks.require(not twice, f"The columns of {file} must have different names.", f"{checks.few(twice)} twice")


def _require_columns(annotations: Sequence[str], columns: Sequence[str], file: str) -> None:
    for name in annotations:
        checks.require(
            name in columns, f"{file} must hold the annotation {name}.", f"{checks.few(columns, 8) or 'none'}"
        )
