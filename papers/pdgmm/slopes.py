"""Slopes of 0.2: mixings that bend so much that an affine unmixing is not enough.

The published mixings have slopes near one and are nearly affine: x itself has the published R² of stage 1. With a slope
of 0.2 in every layer they are not, and what a nonlinear map adds can be seen. ``flow`` bends by sparsity; ``stages`` is
``DegenerateMixture`` with the autoencoder for stage 1, as in the paper, at a size that trains in a minute. Not a table
of the paper. Rows say what the objective, which never sees z, says of the bends. **Deviations**: see ``settings``.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from noumena.charts import CurveChart
from noumena.estimators.sparse.degenerate import DegenerateMixture
from noumena.estimators.sparse.stages import affordable_stage1
from noumena.studies import rows as tables
from noumena.studies.claims import StudyClaim
from noumena.studies.rows import Row
from noumena.worlds import degenerate
from pdgmm import settings

SLOPE = 0.2
STAGE1_STEPS = 1500
METHODS = (*settings.METHODS, "stages")
GROUPS = {n: tuple(settings.world(n=n, layers=m, slope=SLOPE) for m in (2, 3, 5, 10)) for n in (5, 10)}
WORLDS = (*GROUPS[5], *GROUPS[10])
BUDGET = 27
"""CPU-minutes of all cells, from those that have run."""
TOLERANCE = settings.TOLERANCE
"""Of R² and MCC: one in the last printed digit."""


def cells() -> list[Row]:
    """One cell per world and seed."""
    return settings.cells(WORLDS)


def cell(*, seed: int, rows: int = settings.ROWS, steps: int = settings.STEPS, **w: Any) -> list[Row]:
    """Build a world that bends, and score every method on it; ``steps`` shortens the training of networks."""
    truth = degenerate(**settings.world(**w), random_state=seed)
    data = settings.drawn(truth, rows)
    stage1 = affordable_stage1(truth.n_latents).set_params(training__steps=min(steps, STAGE1_STEPS))
    stages = DegenerateMixture(truth.n_latents, stage1=stage1, random_state=seed)
    found = settings.all_scored(data, seed, steps=steps)
    return [*found, {"method": "stages", **settings.scored(data, stages)}]


def compare(rows: list[Row]) -> str:
    """MCC and R² by world, and what the bends gain over the affine unmixing, seed by seed."""
    lines = []
    for w in WORLDS:
        here = settings.of_world(rows, w)
        flow = tables.matching(here, method="flow")
        gains = [tables.spread(gained(here, "flow", affine), "gain") for affine in ("sparse", "ica")]
        nats = [{"nats": _difference(r.get("affine objective"), r.get("objective"))} for r in flow]
        r2s = settings.spreads(here, "r2", ("x", "flow"))
        told = [*gains, tables.spread(nats, "nats"), settings.words(here, "theory")]
        lines.append([str(w["n"]), str(w["layers"]), *settings.spreads(here, "mcc", METHODS), *r2s, *told])
    header = [
        "n",
        "M",
        *METHODS,
        "R² x",
        "R² flow",
        "flow − sparse",
        "flow − ica",
        "nats the bends gain",
        "theory says",
    ]
    return tables.text_table(header, lines)


def gained(rows: list[Row], method: str, over: str) -> list[Row]:
    """The MCC that a method has more than another one, seed by seed."""
    other = {r["seed"]: r.get("mcc") for r in tables.matching(rows, method=over)}
    return [{"gain": _difference(r.get("mcc"), other.get(r["seed"]))} for r in tables.matching(rows, method=method)]


def _difference(a: float | None, b: float | None) -> float | None:
    return None if a is None or b is None else a - b


def claims(rows: list[Row]) -> list[StudyClaim]:
    """None: nothing is published of these worlds."""
    return []


def figures(rows: list[Row]) -> list[CurveChart]:
    """MCC by depth."""
    here = partial(settings.of_world, rows)
    return [
        drawing
        for n, worlds in GROUPS.items()
        for drawing in settings.figures(f"Slopes of {SLOPE}: MCC, n = {n}", {"M": worlds}, here, {}, methods=METHODS)
    ]


def tiny() -> list[Row]:
    """Five latents, two layers, a few hundred rows."""
    return settings.tiny(GROUPS[5][0])
