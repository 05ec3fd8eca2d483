"""Tables: what a user hands in, arrays or fitted models with data, as named tables of the same rows.

Deviations: constant columns carry nothing that could agree; they are left out and named.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from torch import Tensor, nn

from noumena import checks
from noumena.adopt.modules import run_module
from noumena.checks import InputError
from noumena.estimators import Estimator


@dataclass(frozen=True, eq=False)
class Tables:
    """Finite tables of the same rows without constant columns, and what was done to them."""

    names: tuple[str, ...]
    tables: tuple[np.ndarray, ...]
    notes: tuple[str, ...]


def tables_of(representations: Any, data: Any = None) -> Tables:
    """Named tables from arrays, from models that see ``data``, or from the runs of one model."""
    named, notes = _named(representations, data)
    checks.require(len(named) >= 2, "audit must be given two or more representations.", f"{len(named)}")
    tables = []
    for name, item in named:
        rows = item if is_array(item) else _through(name, item, data)
        table, note = varying_table(name, rows)
        tables.append(table)
        notes += note
        checks.require(
            len(table) == len(tables[0]),
            f"All representations must have the same rows, but {named[0][0]} has {len(tables[0])}.",
            f"{len(table)} in {name}",
        )
    return Tables(tuple(name for name, _ in named), tuple(tables), notes)


def is_array(item: Any) -> bool:
    """Whether something is numbers (numpy, torch, pandas, nested lists) rather than a model."""
    return hasattr(item, "__array__") or hasattr(item, "toarray") or isinstance(item, Tensor | list | tuple)


def _named(representations: Any, data: Any) -> tuple[list[tuple[str, Any]], tuple[str, ...]]:
    if isinstance(representations, Mapping):
        named = [(str(name), item) for name, item in representations.items()]
    else:
        several = isinstance(representations, list | tuple) or getattr(representations, "ndim", 0) == 3
        items = list(representations) if several else [representations]
        named = [(f"run {k + 1}", item) for k, item in enumerate(items)]
    if len(named) == 1 and isinstance(named[0][1], Estimator):
        return _runs(named[0][1], data)
    models = data is None or not all(is_array(item) for _, item in named)
    checks.require(models, "data must come with models; for arrays use input=.", "arrays only")
    return named, ()


def _runs(model: Estimator, data: Any) -> tuple[list[tuple[str, Any]], tuple[str, ...]]:
    """The runs of one estimator, without those that diverged."""
    _need(data)
    checks.require(hasattr(model, "models_"), "A model must be fitted before it is audited.", type(model).__name__)
    latents = model.transform_all(data)
    sound = [k for k in range(len(latents)) if not model.diverged_[k]]
    must = "A model that is audited alone must have two runs or more (n_models)."
    checks.require(len(sound) >= 2, must, f"{len(sound)}")
    lost = len(latents) - len(sound)
    notes = (f"{lost} of {len(latents)} runs diverged and {'is' if lost == 1 else 'are'} left out.",) if lost else ()
    return [(f"seed {model.seeds_[k]}", latents[k]) for k in sound], notes


def _need(data: Any) -> None:
    checks.require(data is not None, "Models must come with the rows they see, data=x.", "data=None")


def _through(name: str, model: Any, data: Any) -> Any:
    """A model's representations of the data."""
    _need(data)
    transform: Callable | None = getattr(model, "transform", None) or (model if callable(model) else None)
    if transform is None:
        raise InputError(
            f"{name} must be an array, have .transform, or be a function of the data. Got a {type(model).__name__}."
        )
    return run_module(model, data) if isinstance(model, nn.Module) and transform is model else transform(data)


def varying_table(name: str, rows: Any) -> tuple[np.ndarray, tuple[str, ...]]:
    """A finite table without its constant columns."""
    checks.unmasked(rows, name)
    try:
        table = checks.table(rows, name, min_rows=2, finite=False)
    except TypeError as error:
        raise InputError(str(error)) from error
    bad = np.flatnonzero(~np.isfinite(table).all(axis=1))
    must = f"Every row of {name} must be finite."
    checks.require(bad.size == 0, must, f"{len(bad)} with NaN or inf (rows {checks.listed(bad)})")
    flat = np.ptp(table, axis=0) == 0
    if not flat.any():
        return table, ()
    checks.require(not flat.all(), f"{name} must vary.", "constant columns only")
    constant = checks.listed(np.flatnonzero(flat))
    return table[:, ~flat], (f"{name}: {int(flat.sum())} constant of {len(flat)} columns left out ({constant}).",)
