"""Rows: what the cells of a study leave, as plain values in a file, and as tables to be read."""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from noumena import checks
from noumena.checks import InputError

Row = dict[str, Any]
ERROR = "error"


def read(path: str | Path) -> list[Row]:
    """The rows of a file, numbers as numbers and empty entries as ``None``; none when there is no file."""
    header, *below = lines(path) or [[]]
    return [{name: _value(text) for name, text in zip(header, line, strict=True)} for line in below]


def lines(path: str | Path) -> list[list[str]]:
    """The lines of a table, cell by cell, all as long as the first; none when there is no file."""
    path = Path(path)
    if not path.exists():
        return []
    try:
        with path.open(newline="", encoding="utf-8") as file:
            found = [line for line in csv.reader(file) if line]
    except (UnicodeDecodeError, csv.Error) as error:
        raise InputError(f"{path.name} must be a complete table. Got: {str(error).splitlines()[0]}.") from error
    wrong = next((k for k, line in enumerate(found, start=1) if len(line) != len(found[0])), None)
    checks.require(wrong is None, f"Every line of {path.name} must have as many cells as the first.", f"line {wrong}")
    return found


def write(rows: Sequence[Row], path: str | Path) -> None:
    """Replace a file by these rows at once; columns are all that occur, in order of appearance."""
    replaced(Path(path), as_csv(rows))


def as_csv(rows: Sequence[Row], columns: Sequence[str] = ()) -> str:
    """Rows as the text of a table; ``columns`` come first, also where there are no rows.

    >>> as_csv([], ["d", "mcc"])
    'd,mcc\\n'
    """
    columns = list(dict.fromkeys([*columns, *(name for row in rows for name in row)]))
    text = io.StringIO()
    writer = csv.DictWriter(text, columns, lineterminator="\n")
    writer.writeheader()
    writer.writerows({name: _written(_text(value)) for name, value in row.items()} for row in rows)
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


def _written(text: str) -> str:
    """A text that a table gives back as it was: one kind of line end, no half characters."""
    if text.isascii() and "\r" not in text:
        return text
    return text.replace("\r\n", "\n").replace("\r", "\n").encode(errors="backslashreplace").decode()


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
