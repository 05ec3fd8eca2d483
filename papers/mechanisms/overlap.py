"""Slots that share observations: how far do they stay identified as the shared part grows?

Worlds of ``K`` slots of 3 latents, 20 observations each, neighbours sharing 0 … 75 % of them; slot identifiability
score (SIS) of the published recipe, compositional contrast with λ ∈ {1e-2, 1}, and of ours.

Reference: Matthes et al. (2026), experiments. Deviations: fewer rows and steps (the public code of the contrast trains
for 200 000 steps of 64), alike for all methods; the learning rate follows one cycle; observations are standardised;
Jacobians are taken at 16 rows of each batch. The published error is a mean over observations, ours a sum, so λ is
multiplied by ``d_x``. ``contrast`` is the published recipe with latents of free scale; ``contrast, our fit`` has our
networks, learning rate and unit latents, and differs from ``ours`` in its penalty and its single stage.
"""

from __future__ import annotations

import numpy as np
from sklearn.decomposition import PCA

from averages import averaged, most
from noumena import checks
from noumena.charts import CurveChart
from noumena.estimators.loop import Training
from noumena.estimators.slots import SlotAutoencoder
from noumena.metrics.slots import sis
from noumena.nets import MLP
from noumena.penalties import CompositionalContrast
from noumena.studies import rows as tables
from noumena.studies.claims import StudyClaim
from noumena.studies.rows import Row
from noumena.worlds.slots import SlotWorld, overlapping

SLOTS = (2, 3, 5)
OVERLAPS = (0.0, 0.25, 0.5, 0.75)
METHODS = ("contrast 0.01", "contrast 1", "ours")
ABLATION = "contrast 0.01, our fit"
SEEDS, ABLATION_SEEDS = (0, 1, 2, 3, 4), (0, 1, 2)
ROWS, MODELS, BATCH = 10_000, 3, 64
STEPS, TINY_STEPS = 1800, 40
RATE, PUBLISHED_RATE = 1e-2, 1e-3
PUBLISHED_NET = MLP(hidden=(80, 80, 80))
POINTS = 16
SCORED, SCORED_FEW = 2500, 1000
"""Rows that the best model and the truth are scored on; all models, and their agreement."""
BUDGET = 46.0
"""CPU-minutes of all cells on one core."""
TOLERANCE = 0.2
"""Of the share of worlds in which a statement holds: one of five."""
PUBLISHED = (
    "Published, as curves without a table: SIS is high at small overlap and falls as overlap grows, "
    "where training ends in bad local minima; only 0 % is of Type D."
)


def cell(n_slots: int, overlap: float, method: str, seed: int, *, tiny: bool = False) -> Row:
    """One row: a world, a method, a seed; the truth scores the result and chooses nothing."""
    checks.one_of(method, "method", (*METHODS, ABLATION))
    world = overlapping(n_slots, overlap=overlap, random_state=seed)
    sample, fresh = world.sample(500 if tiny else ROWS), world.sample(100 if tiny else SCORED, random_state=1)
    model = _model(world, method, seed, tiny).fit(sample.x)
    latents = model.transform_all(fresh.x)
    best = model.best_

    def score(z_hat: np.ndarray, *, against: np.ndarray = fresh.z, rows: int = SCORED) -> float:
        return sis(against, z_hat, slots=n_slots, max_rows=rows).score

    others = [score(z_hat, against=latents[best], rows=SCORED_FEW) for k, z_hat in enumerate(latents) if k != best]
    return {
        "sis": score(latents[best]),
        "sis_models": float(np.mean([score(z_hat, rows=SCORED_FEW) for z_hat in latents])),
        "sis_truth": score(fresh.z),
        "sis_pca": score(PCA(world.n_latents).fit(sample.x).transform(fresh.x)),
        "reconstruction": 1 - float(model.terms_["reconstruction"][best]) / world.n_observed,
        "agreement": float(np.mean(others)),
        "objective": float(model.objectives_[best]),
        "n_models": len(latents),
    }


def _model(world: SlotWorld, method: str, seed: int, tiny: bool) -> SlotAutoencoder:
    steps, models = (TINY_STEPS, 2) if tiny else (STEPS, MODELS)
    ours = SlotAutoencoder(
        len(world.slots),
        world.slots[0],
        n_models=models,
        training=Training(steps=steps, batch_size=BATCH, learning_rate=RATE),
        random_state=1000 * seed,
    )
    if method == "ours":
        return ours
    weight = world.n_observed * (1.0 if method == "contrast 1" else 1e-2)
    ours.set_params(penalty=weight * CompositionalContrast(world.slots, points=POINTS), first=None)
    if method == ABLATION:
        return ours
    ours.set_params(scale="free", encoder=PUBLISHED_NET, decoder=PUBLISHED_NET)
    return ours.set_params(training__learning_rate=PUBLISHED_RATE)


def cells() -> list[Row]:
    """The grid, largest worlds first."""
    seeds = {**dict.fromkeys(METHODS, SEEDS), ABLATION: ABLATION_SEEDS}
    return [
        {"n_slots": n, "overlap": overlap, "method": method, "seed": seed}
        for n in sorted(SLOTS, reverse=True)
        for overlap in OVERLAPS
        for method in seeds
        for seed in seeds[method]
    ]


def compare(rows: list[Row]) -> str:
    """SIS of the model with the lowest objective, beside that of the true latents and of principal components."""
    methods = (*METHODS, ABLATION)
    lines = []
    for n in SLOTS:
        for overlap in OVERLAPS:
            there = tables.matching(rows, n_slots=n, overlap=overlap)
            scores = [tables.spread(tables.matching(there, method=method), "sis") for method in methods]
            ours = tables.matching(there, method="ours")
            beside = [tables.spread(ours, name) for name in ("sis_models", "agreement", "sis_pca", "sis_truth")]
            lines.append([f"{n}", f"{overlap:.0%}", *scores, *beside])
    header = ["slots", "overlap", *methods, "ours, all models", "agreement", "PCA", "the truth"]
    return f"{tables.text_table(header, lines)}\n{PUBLISHED}"


# ---- beside the published curves -------------------------------------------------------------------------------------

LOST = "a curve whose values are not in the text at hand"
PCA_NAME = "principal components"
BESIDE = {PCA_NAME: "sis_pca", "the true latents": "sis_truth"}


def claims(rows: list[Row]) -> list[StudyClaim]:
    """SIS of our method at every point of the curves, whose values are lost, and that the contrast falls, as said."""
    found = []
    for n in SLOTS:
        there = tables.matching(rows, n_slots=n)
        found += [_point(there, n, overlap) for overlap in OVERLAPS]
        found += [_fall(tables.matching(there, method=method), n, method) for method in METHODS[:2]]
    return found


def _point(rows: list[Row], n_slots: int, overlap: float) -> StudyClaim:
    """Our method at a point of a curve, beside principal components."""
    found = tables.matching(rows, overlap=overlap, method="ours")
    where, baseline = (
        f"Curves: {n_slots} slots, overlap {overlap:.0%}",
        most({PCA_NAME: tables.values(found, "sis_pca")}),
    )
    ours = tables.values(found, "sis")
    return StudyClaim(where, "SIS", None, ours, TOLERANCE, baseline=baseline, not_comparable=LOST)


def _fall(rows: list[Row], n_slots: int, method: str) -> StudyClaim:
    """In what share of worlds the published recipe scores lower at the largest overlap than without any."""
    ends = (OVERLAPS[0], OVERLAPS[-1])
    apart, shared = ({row["seed"]: row["sis"] for row in tables.matching(rows, overlap=overlap)} for overlap in ends)
    falls = tuple(float(shared[seed] < apart[seed]) for seed in apart if seed in shared)
    where = f"Curves: {n_slots} slots, {method}, SIS falls from overlap {ends[0]:.0%} to {ends[1]:.0%}"
    return StudyClaim(where, "share of worlds", 1.0, falls, TOLERANCE, better="neither")


def figures(rows: list[Row]) -> list[CurveChart]:
    """SIS over the overlap, a figure for each number of slots."""
    return [_figure(tables.matching(rows, n_slots=n), n) for n in SLOTS]


def _figure(rows: list[Row], n_slots: int) -> CurveChart:
    curves = [
        averaged(method, _over(tables.matching(rows, method=method), "sis")) for method in (*METHODS[::-1], ABLATION)
    ]
    ours = tables.matching(rows, method="ours")
    curves += [averaged(name, _over(ours, column), baseline=True) for name, column in BESIDE.items()]
    return CurveChart(f"{n_slots} slots of three latents", "overlap", "SIS", tuple(curves))


def _over(rows: list[Row], column: str) -> dict[float, tuple[float, ...]]:
    return {overlap: tables.values(tables.matching(rows, overlap=overlap), column) for overlap in OVERLAPS}


def tiny() -> list[Row]:
    """Small worlds, trained on for a moment: our method without overlap, the published one with the largest."""
    asked = ((OVERLAPS[0], "ours"), (OVERLAPS[-1], METHODS[0]))
    return [{"n_slots": 2, "overlap": overlap, "method": method, "seed": 0, "tiny": True} for overlap, method in asked]
