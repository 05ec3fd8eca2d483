"""Rows: the cells of a study are run, written as they finish, and read back as a table of plain values.

A cell is a pure function of its parameters; its result is one row or several, written together with the parameters, by
which it is recognised when a study is resumed. The file is replaced as a whole after every cell, so that it is
complete at any moment. A cell that fails leaves a row with its error, and is tried again the next time.
"""

from __future__ import annotations

import argparse
import csv
import io
import os
import time
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from importlib import import_module
from inspect import signature
from pathlib import Path
from typing import Any

import numpy as np
from joblib import Parallel, delayed, parallel_config

from noumena import checks, threads
from noumena.checks import InputError

Row = dict[str, Any]
Cell = Callable[..., Row | list[Row]]
ERROR = "error"


def run(
    cells: Sequence[Row],
    cell: Cell,
    out: str | Path,
    *,
    jobs: int = 1,
    known: Iterable[str | Path] = (),
    say: bool = False,
) -> list[Row]:
    """Run the cells that neither ``out`` nor the files ``known`` hold yet; return the rows of all.

    ``jobs`` processes of one thread each; with ``say`` a line is printed for each cell. Rows from ``known`` are copied.
    """
    path = Path(out)
    path.parent.mkdir(parents=True, exist_ok=True)
    names = sorted({name for parameters in cells for name in parameters})
    asked = {_key(parameters, names): parameters for parameters in cells}
    kept = [row for row in read(path) if row.get(ERROR) is None or _key(row, names) not in asked]
    done = {_key(row, names) for row in kept}
    kept += [row for row in _finished(known) if _key(row, names) in asked.keys() - done]
    done = {_key(row, names) for row in kept}
    missing = [parameters for key, parameters in asked.items() if key not in done]
    with parallel_config("loky", inner_max_num_threads=1):
        finished: Any = Parallel(n_jobs=checks.count(jobs, "jobs"), return_as="generator_unordered")(
            delayed(_rows_of)(cell, parameters) for parameters in missing
        )
        for number, rows in enumerate(finished, start=1):
            kept += rows
            write(kept, path)
            if say:
                print(f"{number}/{len(missing)} {rows[0]}", flush=True)
    write(kept, path)
    return [row for row in read(path) if _key(row, names) in asked]


def _finished(files: Iterable[str | Path]) -> list[Row]:
    return [row for file in files for row in read(file) if row.get(ERROR) is None]


def _rows_of(cell: Cell, parameters: Row) -> list[Row]:
    """The rows of one cell beside its parameters, or its error."""
    start = time.process_time()
    try:
        with threads.for_work(0):
            found = cell(**parameters)
    except Exception as error:  # whatever goes wrong in one cell must not stop the others
        found = {ERROR: f"{type(error).__name__}: {error}"}
    rows = found if isinstance(found, list) else [found]
    seconds = round(time.process_time() - start, 2)
    return [{**parameters, **row, "cell seconds": seconds if k == 0 else None} for k, row in enumerate(rows)]


def read(path: str | Path) -> list[Row]:
    """The rows of a file, numbers as numbers and empty entries as ``None``; none when there is no file."""
    path = Path(path)
    if not path.exists():
        return []
    with path.open(newline="", encoding="utf-8") as file:
        return [{name: _value(text) for name, text in row.items()} for row in csv.DictReader(file)]


def write(rows: Sequence[Row], path: str | Path) -> None:
    """Replace a file by these rows at once; columns are all that occur, in order of appearance."""
    replaced(Path(path), as_csv(rows))


def as_csv(rows: Sequence[Row]) -> str:
    """Rows as the text of a table."""
    columns = list(dict.fromkeys(name for row in rows for name in row))
    text = io.StringIO()
    writer = csv.DictWriter(text, columns, lineterminator="\n")
    writer.writeheader()
    writer.writerows({name: _text(value) for name, value in row.items()} for row in rows)
    return text.getvalue()


def replaced(path: Path, text: str) -> None:
    """Write a file under another name, all the way to the disk, and rename it: the old one stays until then."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        with temporary.open("w", encoding="utf-8", newline="") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
        synchronised(path.parent)
    finally:
        temporary.unlink(missing_ok=True)


def synchronised(folder: Path) -> None:
    """Force the names in a folder to the disk."""
    directory = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)


def _text(value: Any) -> str:
    if value is None:
        return ""
    return repr(float(value)) if isinstance(value, float | np.floating) else str(value)


def _value(text: str) -> Any:
    """What ``_text`` was given.

    >>> [_value(t) for t in ("3", "0.5", "True", "", "none")]
    [3, 0.5, True, None, 'none']
    """
    if text in ("", "True", "False"):
        return {"": None, "True": True, "False": False}[text]
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def _key(row: Row, names: Iterable[str]) -> tuple[str, ...]:
    return tuple(_text(row.get(name)) for name in names)


# ---- tables ------------------------------------------------------------------------------------------------------


def matching(rows: Iterable[Row], **values: Any) -> list[Row]:
    """The rows that have these values and no error.

    >>> matching([{"d": 3, "mcc": 0.8}, {"d": 4, "mcc": 0.7}], d=4)
    [{'d': 4, 'mcc': 0.7}]
    """
    return [r for r in rows if r.get(ERROR) is None and all(r.get(name) == value for name, value in values.items())]


def values(rows: Iterable[Row], name: str) -> tuple[float, ...]:
    """The numbers of a column, without those that are missing.

    >>> values([{"mcc": 0.8}, {"mcc": None}, {"mcc": 1}], "mcc")
    (0.8, 1.0)
    """
    return tuple(float(row[name]) for row in rows if row.get(name) is not None)


def spread(rows: Iterable[Row], name: str) -> str:
    """Mean ± standard deviation (of the sample) of a column and the number of rows it was found in.

    >>> spread([{"mcc": 0.8}, {"mcc": 0.6}, {"mcc": None}], "mcc")
    '0.700 ± 0.141 (2)'
    """
    found = values(rows, name)
    if not found:
        return "–"
    deviation = f" ± {np.std(found, ddof=1):.3f}" if len(found) > 1 else ""
    return f"{np.mean(found):.3f}{deviation} ({len(found)})"


def published(figure: tuple[float, float] | None) -> str:
    """A published mean and deviation as they are printed beside ours.

    >>> published((0.8258, 0.0085)), published(None)
    ('0.826 ± 0.009', '–')
    """
    return "–" if figure is None else f"{figure[0]:.3f} ± {figure[1]:.3f}"


def text_table(header: Sequence[str], lines: Iterable[Sequence[str]]) -> str:
    """Columns of text, aligned.

    >>> print(text_table(("d", "MCC"), [("3", "0.826")]))
    d  MCC
    3  0.826
    """
    grid = [list(header), *(list(line) for line in lines)]
    widths = [max(map(len, column)) for column in zip(*grid, strict=True)]
    return "\n".join("  ".join(t.ljust(w) for t, w in zip(line, widths, strict=True)).rstrip() for line in grid)


def command(study: str) -> None:
    """Run a study from the command line: what is missing in ``--out``, then its comparison."""
    module = import_module(study)
    parser = argparse.ArgumentParser(prog=f"python -m {study}", description=(module.__doc__ or "").splitlines()[0])
    default = Path("results", *study.split(".")[2:], "rows.csv")
    parser.add_argument("--jobs", type=int, default=2, help="processes of one thread each")
    parser.add_argument("--out", type=Path, default=default, help="file of rows, resumed when it exists")
    options = parser.parse_args()
    start = time.perf_counter()
    known = [options.out.parent.parent / other / "rows.csv" for other in getattr(module, "KNOWN", ())]
    rows = run(module.cells(), module.cell, options.out, jobs=options.jobs, known=known, say=True)
    print(module.compare(rows))
    failed = [row for row in rows if row.get(ERROR) is not None]
    cpu = sum(row["cell seconds"] or 0 for row in rows) / 60
    print(
        f"{len(rows)} rows, {len(failed)} failed; {cpu:.1f} CPU-minutes in all, {time.perf_counter() - start:.0f} s now"
    )


def command_on_files(
    study: str, arguments: Sequence[str] | None, present: Callable[[Any], Any], *, wants: str, trains: bool = True
) -> None:
    """Run a study of real files from the command line; where ``present`` refuses them, say so and run nothing.

    ``wants`` says what ``--data`` names; ``cells`` and ``cell`` of the study may ask for ``data``, and for ``device``
    where it trains.
    """
    module = import_module(study)
    parser = argparse.ArgumentParser(prog=f"python -m {study}", description=(module.__doc__ or "").splitlines()[0])
    parser.add_argument("--data", help=wants)
    parser.add_argument("--jobs", type=int, default=1, help="processes of one thread each")
    default = Path("results", *study.split(".")[2:], "rows.csv")
    parser.add_argument("--out", type=Path, default=default, help="file of rows, resumed when it exists")
    if trains:
        parser.add_argument("--device", default="auto", help="a torch device; processes share a GPU")
    options = parser.parse_args(arguments)
    try:
        present(options.data)
    except InputError as error:
        print(f"Skipped. {error}")
        return
    one = partial(module.cell, data=options.data, **({"device": options.device} if trains else {}))
    asked = module.cells(options.data) if "data" in signature(module.cells).parameters else module.cells()
    print(module.compare(run(asked, one, options.out, jobs=options.jobs, say=True)))
