"""Linear baseline: how much of each representation a linear map of the input explains.

Runs that are linear images of the same input agree with each other for that reason alone. Errors and R² are held out
and on the scale of the audit's; the ridge is chosen by cross-validation over the fitted parts, as an input may have
columns that hardly vary in the fitted rows and much in others.

Deviations: the columns of the input are standardised; an input of more than ``MOST_COLUMNS`` columns is reduced to as
many of its leading principal components, which can only lower what is explained.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float

from noumena import checks
from noumena.audits.folds import AuditFolds
from noumena.audits.pairs import RunMoments, part_moments, side_of
from noumena.audits.ridge import cautious_map
from noumena.audits.tables import varying_table
from noumena.guarantees.agreement import affine_map, distances, merged
from noumena.metrics.record import plain

MOST_COLUMNS = 1024


@dataclass(frozen=True, eq=False)
class Trivial:
    """What a linear map of the input attains, run by run.

    Attributes
    ----------
    by_fold : array of shape (n_runs, n_folds)
        Mean errors over the run's diameter.
    r2 : array of shape (n_runs,)
        Share of variance explained.
    columns : int
        Columns of the input.
    ridge : bool
        Whether the maps were regularised.
    """

    by_fold: Float[np.ndarray, "run fold"]
    r2: Float[np.ndarray, " run"]
    columns: int
    ridge: bool

    @property
    def errors(self) -> Float[np.ndarray, " run"]:
        """Mean errors over the folds."""
        return self.by_fold.mean(axis=1)

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers."""
        spread = self.by_fold.std(axis=1)
        values = {"errors": self.errors, "spread": spread, "r2": self.r2, "columns": self.columns, "ridge": self.ridge}
        return plain(values)


def explained(x: Any, sides: Sequence[RunMoments], folds: AuditFolds, *, seed: int) -> tuple[Trivial, tuple[str, ...]]:
    """How well the input predicts each run linearly, and notes on the input."""
    table, notes = varying_table("input", x)
    rows = len(folds.order)
    checks.require(len(table) == rows, f"input must have the {rows} rows of the representations.", f"{len(table)}")
    columns = table.shape[1]
    if columns > MOST_COLUMNS:
        table = _leading(table, seed)
        notes += (f"input: {columns} columns reduced to their {table.shape[1]} leading directions.",)
    table = _standard(table)
    source = side_of("input", table, folds)
    checks.require(
        folds.held_out or rows > table.shape[1] + 1,
        f"In-sample, the input must have more than {table.shape[1] + 1} rows, as a linear map fits fewer exactly.",
        f"{rows}",
    )
    fits = [_onto(side, source, folds) for side in sides]
    return Trivial(np.array([f[0] for f in fits]), np.array([f[1] for f in fits]), columns, folds.held_out), notes


def _leading(table: np.ndarray, seed: int) -> np.ndarray:
    from sklearn.decomposition import PCA

    most = min(MOST_COLUMNS, len(table) - 1)
    return PCA(most, svd_solver="randomized", random_state=seed).fit_transform(_standard(table))


def _standard(table: np.ndarray) -> np.ndarray:
    """Standardised columns in double precision; those of underflowing variance are only centred."""
    centred = table.astype(np.float64) - table.mean(axis=0, dtype=np.float64)
    spread = centred.std(axis=0)
    return centred / np.where(spread > 0, spread, 1)


def _onto(g: RunMoments, source: RunMoments, folds: AuditFolds) -> tuple[list[float], float]:
    """Errors fold by fold, and R², of the best linear map from the input to one run."""
    parts = [part_moments(g, source, p, folds) for p in range(len(folds))]
    errors, left, total = [], 0.0, 0.0
    for k in range(len(folds)):
        fitted = [parts[p] for p in folds.fitted(k)]
        T = cautious_map(fitted) if folds.held_out else affine_map(merged(fitted))
        rows = g.rows[folds.part(k)]
        away = distances(T, rows, source.rows[folds.part(k)])
        errors.append(float(away.mean()) / g.diameter)
        left += float((away**2).sum())
        total += float(((rows - T.end.astype(rows.dtype)) ** 2).sum())
    return errors, 1 - left / total
