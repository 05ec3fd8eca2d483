"""Table 9: mixtures that are not degenerate, where sparsity has nothing to say: R² alone.

Reference: Xu et al. (2026), Appendix D.7; its table is headed MCC, its text says R². How the mixtures are drawn is
lost; ours are ``worlds.non_degenerate``, with two components per latent. A mixture of full rank has no share of active
latents, so the rows "1 var", "50 %" and "75 %" are one world here. ``autoencoder`` is a stage 1 as published
(reconstruction, code of unit variance), at a size that trains in a minute; ``vade`` is told the true number of
components. ``sparse`` has nothing to find: it refuses, or its confidence is low. **Deviations**: as said.
"""

from __future__ import annotations

from typing import Any

from noumena.charts import CurveChart
from noumena.estimators import Training, VaDE
from noumena.estimators.sparse.stages import affordable_stage1
from noumena.studies import rows as tables
from noumena.studies.claims import StudyClaim
from noumena.studies.rows import Row
from noumena.worlds import non_degenerate
from pdgmm import settings, table1

TRIVIAL = ("x", "pca", "ica", "sparse")
METHODS = (*TRIVIAL, "autoencoder", "vade")
STEPS = 1500
"""Of the autoencoder, and of VaDE after half as many to begin with."""
NAMES = ("n", "edges", "layers", "angle")
GROUPS = {letter: worlds for letter, worlds in table1.GROUPS.items() if letter != "δ"}
PRINTED = tuple(w for worlds in GROUPS.values() for w in worlds)
_BASE = ((0.78, 0.05), (0.94, 0.01))
PUBLISHED = (
    ((0.66, 0.09), (0.94, 0.01)), _BASE, ((0.86, 0.04), (0.93, 0.01)), ((0.84, 0.07), (0.93, 0.01)),
    ((0.86, 0.05), (0.95, 0.01)), _BASE, ((0.74, 0.12), (0.94, 0.01)), ((0.69, 0.11), (0.93, 0.02)),
    ((0.78, 0.10), (0.99, 0.00)), _BASE, ((0.70, 0.10), (0.89, 0.01)),
    ((0.77, 0.05), (0.94, 0.01)), _BASE, ((0.75, 0.08), (0.94, 0.02)),
    _BASE, ((0.77, 0.01), (0.94, 0.01)), ((0.78, 0.02), (0.94, 0.02)), ((0.78, 0.02), (0.94, 0.01)),
)  # fmt: skip
"""VaDE and the published method, in the order of ``PRINTED``."""
BUDGET = 20
"""CPU-minutes of all cells, from those that have run, more for 20 and 40 latents."""
TOLERANCE = settings.TOLERANCE
"""Of R²: one in the last printed digit."""
DRAWN = "how the published mixtures were drawn is lost, and VaDE models just these"


def of(w: Row) -> Row:
    """The parameters of a printed row that a mixture of full rank has."""
    return {name: w[name] for name in NAMES}


def cells() -> list[Row]:
    """One cell per world and seed."""
    return settings.cells(of(w) for w in PRINTED)


def cell(*, seed: int, rows: int = settings.ROWS, steps: int = STEPS, **w: Any) -> list[Row]:
    """Build a mixture of full rank and score every method on it; ``steps`` shortens the training of networks."""
    truth = non_degenerate(**w, random_state=seed)
    data = settings.drawn(truth, rows)
    autoencoder = affordable_stage1(truth.n_latents).set_params(random_state=seed, training__steps=steps)
    vade = VaDE(truth.n_latents, truth.facts["components"], pretraining=steps // 2, random_state=seed)
    vade.set_params(training=Training(steps=steps))
    learned = {"autoencoder": autoencoder, "vade": vade}
    found = settings.all_scored(data, seed, TRIVIAL)
    return found + [{"method": name, **settings.scored(data, model)} for name, model in learned.items()]


def compare(rows: list[Row]) -> str:
    """R² from z to the code; n, k, M, ρ, δ, θ as printed in the paper."""
    lines = []
    for w, (vade, theirs) in zip(PRINTED, PUBLISHED, strict=True):
        here = settings.of_world(rows, of(w))
        published = [tables.published(vade), tables.published(theirs)]
        sure = tables.spread(tables.matching(here, method="sparse"), "confidence")
        lines.append([*settings.label(w), *published, *settings.spreads(here, "r2", METHODS), sure])
    return tables.text_table([*settings.LABEL, "published VaDE", "published", *METHODS, "confidence of sparse"], lines)


def claims(rows: list[Row]) -> list[StudyClaim]:
    """R² of both methods in each row, the base row once; the autoencoder stands for the published method.

    R² of a code of unit variance follows the mixing, which is known, more than the mixture, which is not.
    """
    found = []
    for (name, w), (vade, theirs) in settings.once(zip(settings.printed(GROUPS), PUBLISHED, strict=True)):
        here, where = settings.of_world(rows, of(w)), f"Table 9: {name}"
        found += [
            settings.claim(where, "R² of VaDE", vade, here, column="r2", method="vade", not_comparable=DRAWN),
            settings.claim(where, "R²", theirs, here, column="r2", method="autoencoder"),
        ]
    return found


def figures(rows: list[Row]) -> list[CurveChart]:
    """R² by every parameter of the worlds."""
    published: dict[str, Any] = dict(zip(("VaDE", "stage 1"), zip(*PUBLISHED, strict=True), strict=True))
    told = {"column": "r2", "up": "R² from z to the code", "methods": METHODS}
    return settings.figures("Table 9: R²", GROUPS, lambda w: settings.of_world(rows, of(w)), published, **told)


def tiny() -> list[Row]:
    """Five latents, a few hundred rows."""
    return settings.tiny(of(PRINTED[0]))
