"""Fitted models on disk: ``config.json`` and ``weights.safetensors``, and of models that are trained by gradient
``history.csv`` and ``structure.csv``. Nothing is pickled (see ``state``).
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pandas as pd
import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file

from noumena import checks
from noumena.checks import InputError
from noumena.estimators.base import Estimator
from noumena.estimators.history import History
from noumena.estimators.state import COMPLETE, can_be_saved, restored, state_of


def save(model: Any, folder: str | Path, *, force: bool = False) -> None:
    """Write a fitted model into a folder: all files under temporary names, which are changed when all are complete.

    ``config.json`` comes last and knows what the other files must hold, so that those of two fits are never taken for
    one.

    Parameters
    ----------
    model : estimator
        A fitted estimator of this library, or of a class derived from one.
    folder : path
        Where to write; made where it is not there.
    force : bool, default False
        Whether a run that the folder holds already is replaced.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> from noumena.estimators import ICA
    >>> x = np.random.default_rng(0).uniform(size=(200, 2))
    >>> model = ICA().fit(x)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save(model, folder)
    ...     bool((load(folder).transform(x) == model.transform(x)).all())
    True
    """
    can_be_saved(model)
    config, tensors = state_of(model)
    folder = Path(folder)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError) as error:
        raise InputError(
            f"The folder of a run must be one, or a name that is free. Got the file {error.filename}."
        ) from error
    free = force or not (folder / "config.json").exists()
    checks.require(free, "The folder must not hold a run already; choose another or set force=True.", f"{folder}")
    files: dict[str, Any] = {"weights.safetensors": lambda path: save_file(tensors, path)}
    if isinstance(model, Estimator):
        files["history.csv"] = lambda path: model.history_.frame().to_csv(path, index=False)
        files["structure.csv"] = model.structure_.to_csv
    _together(folder, files, config)


def load(folder: str | Path, *, kinds: Iterable[type] = (), **parameters: Any) -> Any:
    """Read a fitted model from a folder. Networks that do not give what those of the fit gave are refused.

    Parameters
    ----------
    folder : path
        What ``save`` has written.
    kinds : classes, optional
        Your own estimators, where a run is of one whose module cannot be imported.
    **parameters
        Replace stored parameters: your own builders, which are stored by name only.
    """
    folder = Path(folder)
    _complete(folder)
    config = _read_config(folder)
    try:
        tensors = _tensors(folder)
        for name, digest in config.get("files", {}).items():  # runs of the first version have none
            same = _digest(folder / name) == digest
            checks.require(same, COMPLETE, f"another {name} than {folder} was saved with")
        model = restored(config, tensors, kinds=tuple(kinds), parameters=parameters, where=f"The estimator in {folder}")
        if isinstance(model, Estimator):
            model.history_ = _history(folder / "history.csv")
    except InputError:
        raise
    except Exception as error:  # what is damaged may make any of its readers raise anything
        first = next(iter(str(error).splitlines()), "") or "no reason"
        what = f"{folder}, where {type(error).__name__} says {first.rstrip('.')}"
        raise InputError(f"{COMPLETE} Got {what}.") from error
    return model


def _tensors(folder: Path) -> dict[str, torch.Tensor]:
    try:
        return load_file(folder / "weights.safetensors")
    except (OSError, SafetensorError) as error:
        raise InputError(f"A run must have complete weights. Got {folder / 'weights.safetensors'}.") from error


def _read_config(folder: Path) -> dict[str, Any]:
    path = folder / "config.json"
    checks.require(path.is_file(), "A run must be a folder with a config.json.", f"{folder}")
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise InputError(f"A run's config.json must be complete JSON. Got {path}.") from error
    checks.require(isinstance(found, dict), "A run's config.json must hold names and values.", f"{path}")
    return found


def _history(path: Path) -> History:
    frame = pd.read_csv(path, dtype=str, keep_default_na=False)  # whose own numbers may crash on damaged digits
    frame = frame.assign(
        step=[int(cell) for cell in frame["step"]],
        model=[int(cell) for cell in frame["model"]],
        value=[float(cell or "nan") for cell in frame["value"]],
    )
    wide = frame.pivot_table(index=["term", "step"], columns="model", values="value", dropna=False)
    history = History(steps=sorted(int(s) for s in frame["step"].unique()))
    for term in frame["term"].unique():
        history.values[term] = list(wide.loc[term].to_numpy())
    return history


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """No other process of this library changes names in the folder meanwhile; where files have no locks, it may."""
    try:
        import fcntl
    except ImportError:
        yield
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def _complete(folder: Path) -> None:
    """Finish what a writer began that died while it changed names: the rest of its files lies there, complete."""
    for begun in sorted(folder.glob("config.json.*.part")):
        part = begun.name.removeprefix("config.json.")
        with suppress(OSError, ValueError, KeyError, TypeError), _alone(folder):
            wanted = json.loads(begun.read_text(encoding="utf-8"))["files"]
            there = {name: _first(folder / f"{name}.{part}", folder / name) for name in wanted}
            changed = any(path == folder / name for name, path in there.items())
            if changed and all(_digest(path) == wanted[name] for name, path in there.items()):
                rest = [name for name in ("structure.csv", "config.json") if (folder / f"{name}.{part}").exists()]
                for name in (*wanted, *rest):
                    _first(folder / f"{name}.{part}", folder / name).replace(folder / name)


def _first(*paths: Path) -> Path:
    return next((path for path in paths if path.exists()), paths[-1])


def _together(folder: Path, files: dict[str, Any], config: dict[str, Any]) -> None:
    """Write files under names that no other process has, then rename them all: a failure leaves the old ones, and no
    piece."""
    part = f"{os.getpid()}.part"
    names = [*files, "config.json"]
    try:
        for name, write in files.items():
            write(folder / f"{name}.{part}")
        digests = {name: _digest(folder / f"{name}.{part}") for name in files if name != "structure.csv"}
        (folder / f"config.json.{part}").write_text(json.dumps({**config, "files": digests}, indent=1))
        with _alone(folder):
            for name in names:
                (folder / f"{name}.{part}").replace(folder / name)
    finally:
        for name in names:
            (folder / f"{name}.{part}").unlink(missing_ok=True)
