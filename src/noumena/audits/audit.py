"""Audit of any set of representations: are they stable, up to what, and does ICA give axes one can use?

References
----------
Nelson et al. (2026), "Statistical and structural identifiability in representation learning", Section 4.2 and A.7.2.

Deviations: see ``pairs`` (how errors are measured), ``rule`` (how a group is named), ``axes`` (when ICA is trusted)
and
``trivial`` (what the input explains).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import combinations
from typing import Any

import numpy as np

from noumena import checks, seeds
from noumena.audits.axes import axes_of
from noumena.audits.folds import AuditFolds, folds_of
from noumena.audits.pairs import PairComparison, RunMoments, compare, part_moments, sides_of
from noumena.audits.record import Audit, Overlay
from noumena.audits.tables import is_array, tables_of
from noumena.audits.trivial import explained
from noumena.deprecated import renamed
from noumena.guarantees.agreement import RIGID, merged, similarity_map

OVERLAY_ROWS = 300
"""Rows of a pair that are kept for drawing."""


@renamed(seed="random_state")
def audit(
    representations: Any,
    *,
    data: Any = None,
    input: Any = None,
    groups: Any = None,
    held_out: bool = True,
    folds: int = 5,
    shuffles: int = 3,
    ica: bool = True,
    restarts: int = 2,
    random_state: Any = 0,
    progress: Callable[[str], None] | None = None,
) -> Audit:
    """Say whether representations of the same rows are stable, up to what, and whether ICA gives axes one can use.

    Parameters
    ----------
    representations : list or dict of arrays of shape (n_samples, n_latents), or fitted models
        Two or more tables, or models that see ``data`` (anything with ``transform``, a torch module, a function); a
        single
        estimator with several runs stands for its runs.
    data : array, optional
        Input of the models.
    input : array of shape (n_samples, n_features), optional
        What was represented, by default ``data``: what a linear map of it explains is reported beside.
    groups : array of shape (n_samples,), optional
        Labels, such as molecules, plates or patients, that are held out as a whole.
    held_out : bool
        Measure errors on held-out rows; False gives the paper's in-sample numbers.
    folds : int
        Number of folds.
    shuffles : int
        Row shuffles for the chance level.
    ica : bool
        Whether to compare axes by ICA.
    restarts : int
        Starts of ICA, which must agree for it to be trusted.
    random_state : int, Generator or None
        Seed of everything random.
    progress : callable, optional
        Is given the name of every run and pair.

    Returns
    -------
    Audit

    Examples
    --------
    >>> z = np.random.default_rng(0).laplace(size=(1000, 2))
    >>> found = audit({"first": z, "second": z @ np.array([[0.6, 0.8], [-0.8, 0.6]])})
    >>> found.group, str(found.up_to), round(float(found.errors["rigid+scale"][0, 1]), 6)
    ('rigid+scale', 'similarity', 0.0)
    """
    seed = seeds.seed_of(random_state)
    tables = tables_of(representations, data)
    rows = len(tables.tables[0])
    split, more = folds_of(rows, folds=folds, groups=groups, held_out=held_out, seed=seed)
    shuffles = checks.count(shuffles, "shuffles")
    report = progress or (lambda sentence: None)
    sides, ica_notes = sides_of(
        tables.names, tables.tables, split, ica=ica, restarts=restarts, seed=seed, progress=progress
    )
    x = _table_or_none(data) if input is None else input
    trivial, input_notes = (None, ()) if x is None else explained(x, sides, split, seed=seed)
    pairs: list[PairComparison] = []
    for g, h in combinations(sides, 2):
        report(f"{g.name} and {h.name}")
        pairs += compare(g, h, split, shuffles=shuffles, seed=seed)
    onto_first = [pair for pair in pairs if pair.target == tables.names[0]]
    result = Audit(
        tables.names,
        tuple((rows, table.shape[1]) for table in tables.tables),
        held_out,
        len(split),
        tuple(pairs),
        axes_of(sides, onto_first, split, seed=seed),
        trivial,
        (*tables.notes, *more, *ica_notes, *input_notes),
    )
    return replace(result, overlays=_overlays(result, sides, split, seed))


def _table_or_none(data: Any) -> Any:
    """The data, where a linear map of them can be fitted."""
    shape = np.shape(data) if data is not None and is_array(data) else ()
    return data if len(shape) == 2 else None


def _overlays(result: Audit, sides: Sequence[RunMoments], folds: AuditFolds, seed: int) -> tuple[Overlay, ...]:
    """The nearest and the farthest pair."""
    by_name = {side.name: side for side in sides}
    ends = dict.fromkeys((pair.target, pair.source) for pair in (result.nearest, result.farthest))
    return tuple(_overlay(by_name[target], by_name[source], result, folds, seed) for target, source in ends)


def _overlay(g: RunMoments, h: RunMoments, result: Audit, folds: AuditFolds, seed: int) -> Overlay:
    """Some measured rows of the first fold, the source moved onto the target by the best rigid map."""
    T = similarity_map(merged([part_moments(g, h, p, folds) for p in folds.fitted(0)]))
    a, b = (side.rows[folds.part(0)].astype(np.float64) for side in (g, h))
    kept_rows = np.sort(seeds.numpy_generator(seed, "drawn rows", len(a)).permutation(len(a))[:OVERLAY_ROWS])
    _, vector = np.linalg.eigh(g.covariances[0])
    plane, centre = vector[:, ::-1][:, :2], g.means[0]
    if plane.shape[1] < 2:  # a line is drawn as one
        plane = np.pad(plane, ((0, 0), (0, 1)))
    moved = T(b[kept_rows])[:, : a.shape[1]]
    error = result.pair(g.name, h.name).errors[RIGID]
    return Overlay(g.name, h.name, error, (a[kept_rows] - centre) @ plane, (moved - centre) @ plane)
