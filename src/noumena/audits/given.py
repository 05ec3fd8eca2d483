"""Given: what a user hands in, arrays or fitted models with data, as named tables of the same rows.

Deviations: constant columns carry nothing that could agree; they are left out and named.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from noumena import checks
from noumena.checks import InputError
from noumena.estimators import Estimator

BATCH = 4096
"""Rows that go through a module at once."""


@dataclass(frozen=True, eq=False)
class Given:
    """Finite tables of the same rows without constant columns, and what was done to them."""

    names: tuple[str, ...]
    tables: tuple[np.ndarray, ...]
    notes: tuple[str, ...]


def given(representations: Any, data: Any = None) -> Given:
    """Named tables from arrays, from models that see ``data``, or from the runs of one model."""
    named, notes = _named(representations, data)
    checks.require(len(named) >= 2, "audit must be given two or more representations.", f"{len(named)}")
    tables = []
    for name, item in named:
        rows = item if is_array(item) else _through(name, item, data)
        table, note = checked(name, rows)
        tables.append(table)
        notes += note
        checks.require(
            len(table) == len(tables[0]),
            f"All representations must have the same rows, but {named[0][0]} has {len(tables[0])}.",
            f"{len(table)} in {name}",
        )
    return Given(tuple(name for name, _ in named), tuple(tables), notes)


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
    found = model.transform_all(data)
    kept = [k for k in range(len(found)) if not model.diverged_[k]]
    checks.require(
        len(kept) >= 2, "A model that is audited alone must have two runs or more (n_models).", f"{len(kept)}"
    )
    lost = len(found) - len(kept)
    notes = (f"{lost} of {len(found)} runs diverged and {'is' if lost == 1 else 'are'} left out.",) if lost else ()
    return [(f"seed {model.seeds_[k]}", found[k]) for k in kept], notes


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
    return _of_module(model, data) if isinstance(model, nn.Module) and transform is model else transform(data)


def _of_module(module: nn.Module, data: Any) -> np.ndarray:
    """The outputs of a torch module in evaluation mode, batch by batch, on its own device; it is left as it was."""
    held = next(iter((*module.parameters(), *module.buffers())), None)
    rows = data if isinstance(data, Tensor) else torch.as_tensor(np.asarray(data))
    was_training = module.training
    module.eval()
    try:
        with torch.no_grad():
            parts = [module(_beside(part, held)).detach().cpu() for part in rows.split(BATCH)]
    finally:
        module.train(was_training)
    return torch.cat(parts).numpy()


def _beside(rows: Tensor, held: Tensor | None) -> Tensor:
    if held is None:
        return rows
    return rows.to(held) if rows.is_floating_point() and held.is_floating_point() else rows.to(held.device)


def checked(name: str, rows: Any) -> tuple[np.ndarray, tuple[str, ...]]:
    """A finite table without its constant columns."""
    checks.unmasked(rows, name)
    found = rows.detach().cpu() if isinstance(rows, Tensor) else rows
    array = np.asarray(found.float() if isinstance(found, Tensor) and found.dtype == torch.bfloat16 else found)
    if array.dtype.kind == "f" and array.ndim == 2 and not np.isfinite(array).all():
        bad = np.flatnonzero(~np.isfinite(array).all(axis=1))
        raise InputError(
            f"Every row of {name} must be finite. Got {len(bad)} with NaN or inf (rows {checks.few(bad)})."
        )
    try:
        table = checks.table(array, name, min_rows=2)
    except TypeError as error:
        raise InputError(str(error)) from error
    flat = np.ptp(table, axis=0) == 0
    if not flat.any():
        return table, ()
    checks.require(not flat.all(), f"{name} must vary.", "constant columns only")
    constant = checks.few(np.flatnonzero(flat))
    return table[:, ~flat], (f"{name}: {int(flat.sum())} constant of {len(flat)} columns left out ({constant}).",)
