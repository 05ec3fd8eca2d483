"""Input validation: every error a user sees says in one sentence what must hold and what was given."""

from __future__ import annotations

import csv
import math
import numbers
from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

CHUNK = 2**20
"""Entries of a memory-mapped table that are validated together."""


class InputError(ValueError):
    """Invalid input; the message is one sentence about what must hold."""


class DivergenceError(RuntimeError):
    """Training diverged; the message says at which step and what to try."""


def require(holds: bool, must: str, given: object) -> None:
    """Raise ``InputError`` unless ``holds``.

    >>> require(1 < 0, "The batch must not be empty.", "0 rows")
    Traceback (most recent call last):
        ...
    noumena.checks.InputError: The batch must not be empty. Got 0 rows.
    """
    if not holds:
        raise InputError(f"{must} Got {given}.")


def count(value: Any, name: str, *, minimum: int = 1) -> int:
    """An integer of at least ``minimum``.

    >>> count(3, "n_latents")
    3
    """
    integral = isinstance(value, numbers.Integral) and not isinstance(value, bool | np.bool_)
    enough = integral and int(value) >= minimum
    require(enough, f"{name} must be a whole number of at least {minimum}.", repr(value))
    return int(value)


def number(value: Any, name: str, *, minimum: float = -np.inf, maximum: float = np.inf) -> float:
    """A finite real number within the closed range."""
    real = isinstance(value, numbers.Real) and not isinstance(value, bool | np.bool_)
    converted = _float(value) if real else math.nan
    wanted = f"{name} must be a finite number in [{minimum:g}, {maximum:g}]."
    require(math.isfinite(converted) and minimum <= converted <= maximum, wanted, f"{value!r:.40}")
    return converted


def _float(value: Any) -> float:
    try:
        return float(value)
    except OverflowError:
        return math.inf


def one_of(value: Any, name: str, options: tuple[str, ...]) -> str:
    """One of several strings.

    >>> one_of("l1", "surrogate", ("l1", "log"))
    'l1'
    """
    require(isinstance(value, str) and value in options, f"{name} must be one of {', '.join(options)}.", repr(value))
    return value


def switch(value: Any, name: str) -> bool:
    """``True`` or ``False``.

    >>> switch(False, "whiten")
    False
    """
    require(isinstance(value, bool | np.bool_), f"{name} must be True or False.", repr(value))
    return bool(value)


def table(x: Any, name: str = "x", *, min_rows: int = 1, varying: bool = False, finite: bool = True) -> np.ndarray:
    """A finite real ``(batch, dim)`` array, from numpy, torch, pandas or nested lists.

    ``varying=True`` also refuses constant columns, ``finite=False`` lets NaN and inf pass. A torch tensor is copied to
    the CPU; float32 stays float32, everything else becomes float64.

    >>> table([[1, 2], [3, 4]]).dtype
    dtype('float64')
    """
    if hasattr(x, "toarray"):
        raise TypeError(f"{name} must be a dense array. Got a sparse matrix; use {name}.toarray().")
    unmasked(x, name)
    _undated(x, name)
    if hasattr(x, "detach"):
        _dense(x, name)
        x = x.detach().cpu()
        x = (x.float() if x.is_floating_point() and x.element_size() < 4 else x).numpy()
    array = _numeric(x, name)
    require(
        array.ndim == 2,
        f"{name} must have two axes, (batch, dim).",
        f"shape {array.shape}. Reshape your data first",
    )
    rows, columns = array.shape
    require(
        columns > 0,
        f"{name} must have columns.",
        f"{columns} feature(s) (shape={array.shape}) while a minimum of 1 is required",
    )
    require(
        rows >= min_rows,
        f"{name} must have at least {min_rows} rows.",
        f"{rows} sample(s) (shape={array.shape}, n_samples={rows})",
    )
    if finite:
        _finite(array, name)
    if varying:
        constant = np.flatnonzero(np.ptp(array, axis=0) == 0)
        require(constant.size == 0, f"{name} must vary in every column.", f"constant columns {listed(constant)}")
    return np.ascontiguousarray(array) if min(array.strides) < 0 else array  # torch takes no negative strides


def tensor(x: Any, name: str = "x") -> None:
    """``table`` for a torch tensor on its device: dense, real and finite, with two axes.

    >>> import torch
    >>> tensor(torch.tensor([[torch.nan]]))
    Traceback (most recent call last):
        ...
    noumena.checks.InputError: x must be finite. Got 1 NaN and 0 inf entries, the first at row 0, column 0.
    """
    _dense(x, name)
    require(x.ndim == 2, f"{name} must have two axes, (batch, dim).", f"shape {tuple(x.shape)}")
    require(x.numel() > 0, f"{name} must have rows and columns.", f"shape {tuple(x.shape)}")
    if not bool(x.isfinite().all()):
        _finite(x.detach().double().cpu().numpy(), name)


def _dense(x: Any, name: str) -> None:
    if str(x.layout) != "torch.strided":
        raise TypeError(f"{name} must be a dense tensor. Got a sparse one; use {name}.to_dense().")
    require(not x.is_complex(), f"{name} must be real. Complex data not supported.", f"dtype {x.dtype}")


def _undated(x: Any, name: str) -> None:
    """Refuse dates and times of a polars frame, which numpy would convert to integers."""
    schema: Any = x.schema if hasattr(x, "get_columns") else None
    kinds = schema.items() if isinstance(schema, Mapping) else ()
    dated = next((f"{column!r:.60} of {kind}" for column, kind in kinds if _temporal(kind)), "")
    require(not dated, f"{name} must hold numbers only.", f"column {dated}")


def _temporal(kind: Any) -> bool:
    return bool(getattr(kind, "is_temporal", lambda: False)())


def mapped(x: np.ndarray, name: str = "x", *, min_rows: int = 1, varying: bool = False) -> np.ndarray:
    """``table`` for a memory map of floats: validated chunk by chunk, and returned as it is.

    >>> mapped(np.array([[1.0, 2.0], [3.0, 2.0]]), varying=True)
    Traceback (most recent call last):
        ...
    noumena.checks.InputError: x must vary in every column. Got constant columns 1.
    """
    step = max(1, CHUNK // max(1, x.shape[1]))
    low = high = table(x[:1], name)[0]
    require(len(x) >= min_rows, f"{name} must have at least {min_rows} rows.", f"{len(x)} sample(s)")
    for start in range(0, len(x), step):
        part = _numeric(x[start : start + step], name)
        _finite(part, name, first=start, among=f" in rows {start} to {start + len(part) - 1}")
        low, high = np.minimum(low, part.min(axis=0)), np.maximum(high, part.max(axis=0))
    if varying:
        constant = np.flatnonzero(low == high)
        require(constant.size == 0, f"{name} must vary in every column.", f"constant columns {listed(constant)}")
    return x


def unmasked(x: Any, name: str) -> None:
    """Refuse a masked array with masked entries."""
    masked = int(np.ma.getmaskarray(x).sum()) if isinstance(x, np.ma.MaskedArray) else 0
    require(masked == 0, f"{name} must have no masked entries.", f"{masked} masked entr{'y' if masked == 1 else 'ies'}")


def columns(x: Any, name: str) -> None:
    """Refuse a frame with duplicate column names, or names of which only some are strings."""
    if not hasattr(x, "columns") or not hasattr(x, "shape"):
        return
    names = list(x.columns)
    other = next((shown for shown in names if not isinstance(shown, str)), None)
    mixed = other is not None and any(isinstance(shown, str) for shown in names)
    shown = f"{other!r:.40}, of type {type(other).__name__}, beside text"
    require(not mixed, f"The names of the columns of {name} must all be text.", shown)
    twice = [shown for shown in names if names.count(shown) > 1][:1] if len(set(names)) < len(names) else []
    require(
        not twice, f"The columns of {name} must have different names.", f"{listed([f'{t!r:.40}' for t in twice])} twice"
    )


def _numeric(x: Any, name: str) -> np.ndarray:
    try:
        array = np.asarray(x)
    except ValueError as error:
        raise InputError(f"{name} must be a rectangular array of numbers. Got rows of unequal length.") from error
    if array.dtype.kind == "c":
        raise InputError(f"{name} must be real. Complex data not supported. Got dtype {array.dtype}.")
    if array.dtype.kind in "OUS":
        try:
            return _read(array)
        except (TypeError, ValueError, SystemError) as error:  # the last for invalid Unicode
            kind = TypeError if isinstance(error, TypeError) else InputError
            raise kind(
                f"{name} must hold numbers only: each entry's argument must be a string of a number or a number. "
                f"Got dtype {array.dtype} with an entry that is neither."
            ) from error
    require(array.dtype.kind in "fiub", f"{name} must hold numbers.", f"dtype {array.dtype}")
    return array if array.dtype == np.float32 else array.astype(np.float64, copy=not array.flags.writeable)


def _read(array: np.ndarray) -> np.ndarray:
    """Objects and strings as numbers; pandas' ``NA`` as NaN.

    >>> _read(np.array(["1", "2.5"]))
    array([1. , 2.5])
    """
    try:
        return array.astype(np.float64)
    except TypeError:
        missing = [type(entry).__name__ == "NAType" for entry in array.flat]
        return np.where(np.reshape(missing, array.shape), np.nan, array).astype(np.float64)


def _finite(array: np.ndarray, name: str, *, first: int = 0, among: str = "") -> None:
    bad = ~np.isfinite(array)
    if bad.any():
        row, column = np.argwhere(bad)[0]
        nan, inf = int(np.isnan(array).sum()), int(np.isinf(array).sum())
        raise InputError(
            f"{name} must be finite. Got {nan} NaN and {inf} inf entries{among}, the first at row {first + row}, "
            f"column {column}."
        )


def csv_rows(path: str | Path, what: str) -> list[list[str]]:
    """Rows of a comma-separated file, blank ones left out; ``what`` the file is for, such as a structure.

    A missing file, one that is not text, or another separator is refused in one sentence.
    """
    try:
        with Path(path).open(newline="", encoding="utf-8-sig") as file:
            rows = [row for row in csv.reader(file) if row]
    except FileNotFoundError as error:
        raise InputError(f"The {what} file must exist. Got {path}.") from error
    except OSError as error:
        raise InputError(f"The {what} must be a file that can be read. Got {path} ({error.strerror}).") from error
    except (UnicodeDecodeError, csv.Error) as error:
        raise InputError(f"The {what} file must be text in UTF-8. Got {path}.") from error
    other = next((sign for sign in (";", "\t") if rows and len(rows[0]) == 1 and sign in rows[0][0]), None)
    shown = f"{'a tab' if other == chr(9) else repr(other)} in the first line"
    require(other is None, f"Columns of {path} must be separated by commas.", shown)
    return rows


def slots(slots: Any, n_latents: int) -> tuple[int, ...]:
    """Sizes of consecutive slots of latents, from their number (equal slots) or their sizes.

    >>> slots(2, 6), slots((1, 3), 4)
    ((3, 3), (1, 3))
    """
    if isinstance(slots, Sequence) and not isinstance(slots, str):
        sizes = tuple(count(size, "The size of a slot") for size in slots)
        require(sum(sizes) == n_latents, f"The sizes of the slots must add up to {n_latents} latents.", f"{sizes}")
        return sizes
    number = count(slots, "slots")
    require(n_latents % number == 0, f"{n_latents} latents must fall into equal slots.", f"{number} slots")
    return (n_latents // number,) * number


def same_batch(z: np.ndarray, z_hat: np.ndarray, names: tuple[str, str] = ("z", "z_hat")) -> None:
    """Refuse two tables of different numbers of rows.

    >>> same_batch(np.ones((2, 1)), np.ones((3, 1)))
    Traceback (most recent call last):
        ...
    noumena.checks.InputError: z and z_hat must share their batch axis. Got shapes (2, 1) and (3, 1).
    """
    require(
        len(z) == len(z_hat),
        f"{names[0]} and {names[1]} must share their batch axis.",
        f"shapes {z.shape} and {z_hat.shape}",
    )


def package(module: str, name: str, what: str, extra: str) -> Any:
    """An optional dependency, or an error that says how to install it.

    >>> package("no_such_module", "nothing", "This", "none")
    Traceback (most recent call last):
        ...
    noumena.checks.InputError: This must have the package nothing; install noumena[none]. Got an ImportError.
    """
    try:
        import_module(module.split(".")[0])
        return import_module(module)
    except ImportError as error:
        must = f"{what} must have the package {name}; install noumena[{extra}]."
        raise InputError(f"{must} Got an ImportError.") from error


def first_line(error: Exception) -> str:
    """The first line of an error's message, or its type.

    >>> first_line(KeyError("a")), first_line(EOFError())
    ("'a'", 'EOFError')
    """
    return str(error).splitlines()[0] if str(error) else type(error).__name__


def listed(names: Sequence[Any] | np.ndarray, most: int = 5) -> str:
    """Comma-separated names, and the number of those beyond ``most``.

    >>> listed(["B1", "B2", "B3"], 2)
    'B1, B2 and 1 more'
    """
    shown = ", ".join(str(name) for name in names[:most])
    return f"{shown} and {len(names) - most} more" if len(names) > most else shown
