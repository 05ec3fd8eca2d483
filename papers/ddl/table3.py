"""Table 3: MCC of five biases on the paper's square worlds, beside what needs no learning and what the theory says.

Reference: Zheng et al. (2026), Table 3 (regularisers), the *Base* column of Table 4 and Section 4.1. A cell is a world;
all methods are trained on it under the recipes of ``settings``: ``paper`` on the first three seeds, as published,
``ours`` on ten. Each row carries the MCC of ``x`` itself, of PCA and of linear ICA, the agreement between restarts, and
the world's certificate with its first competitor: with as many observations as latents there is no positive Occam gap,
so a high MCC here is a property of the worlds and not of the method.

**Deviations**: see ``settings``. The kind of MCC is lost in the paper; Pearson is compared, Spearman is reported.
"""

from __future__ import annotations

import time
import warnings
from typing import Any, Literal

import numpy as np
from sklearn.decomposition import PCA, FastICA
from sklearn.exceptions import ConvergenceWarning

from ddl import settings
from noumena.charts import Curve, CurveChart
from noumena.estimators import VAE
from noumena.guarantees import certify
from noumena.metrics import agreement, mcc, structure_distance
from noumena.studies import rows as tables
from noumena.studies.claims import StudyClaim
from noumena.studies.rows import Row
from noumena.worlds import Sample, World

DIMENSIONS = (3, 4, 5)
SEEDS = tuple(range(10))
PUBLISHED_SEEDS = (0, 1, 2)
ICA_ROWS = 2000
TRIVIAL = {"x": "x itself", "pca": "PCA", "ica": "linear ICA"}
"""Readouts that learn nothing, by column."""
BUDGET = 56.0
"""CPU-minutes of all cells on one core."""
TOLERANCE = settings.TOLERANCE
"""As wide as the published deviations are at the median."""
PRINTED = (settings.DEPENDENCY, settings.OROJAR, settings.HESSIAN)
"""The columns of the printed table."""

PUBLISHED = {
    ("diverse", settings.DEPENDENCY): {3: (0.8258, 0.0085), 4: (0.8449, 0.0043), 5: (0.8048, 0.0080)},
    ("diverse", settings.OROJAR): {3: (0.7288, 0.0280), 4: (0.6301, 0.0810), 5: (0.5119, 0.1482)},
    ("diverse", settings.HESSIAN): {3: (0.8257, 0.0240), 4: (0.8352, 0.0396), 5: (0.7789, 0.0174)},
    ("diverse", settings.NONE): {3: (0.6789, 0.0364), 4: (0.7317, 0.1092), 5: (0.6989, 0.0133)},
    ("dense", settings.DEPENDENCY): {3: (0.3814, 0.0369), 4: (0.5467, 0.0326), 5: (0.4576, 0.1075)},
}
"""MCC, mean and deviation, by world and method, then dimension: Table 3, *Base* of Table 4, λ = 0 of Table 5."""


def cells() -> list[Row]:
    """One cell per world."""
    return [
        {"world": world, "d": d, "seed": seed, "noise": 0.0}
        for seed in SEEDS
        for d in DIMENSIONS
        for world in ("diverse", "dense")
    ]


def tiny() -> list[Row]:
    """A diverse and a dense world, a few rows and two steps."""
    return [{"world": world, "d": 3, "seed": 4, "noise": 0.0, **settings.TINY} for world in ("diverse", "dense")]


def cell(
    world: str,
    d: int,
    seed: int,
    noise: float = 0.0,
    *,
    methods: tuple[str, ...] | None = None,
    recipes: tuple[str, ...] | None = None,
    rows: int = settings.ROWS,
    **changes: Any,
) -> list[Row]:
    """Build a world, train every method on it under every recipe, and only then compare with the truth.

    A dense world is trained with dependency sparsity alone. ``changes`` are the recipe's numbers.
    """
    truth, strength = settings.world(world, d, seed, noise=noise)
    methods = methods or (settings.METHODS if world != "dense" else (settings.DEPENDENCY,))
    recipes = recipes or (("paper", "ours") if seed in PUBLISHED_SEEDS else ("ours",))
    sample = truth.sample(rows)
    shared = about(truth, sample, strength)
    return [
        {"method": method, "recipe": name, **trained(truth, sample, method, name, **changes), **shared}
        for name in recipes
        for method in methods
    ]


def trained(truth: World, sample: Sample, method: str, name: str, **changes: Any) -> Row:
    """One method's row: trained without the truth, scored against it."""
    start = time.process_time()
    model = settings.estimator(method, truth.n_latents, name, **changes).fit(sample.x)
    seconds = time.process_time() - start
    found = scores(truth, sample, model, ranked=settings.recipe(name).ranked)
    answer = {"fit is": certify(model).answer} if changes.get("refit") else {}
    return {**found, **answer, "seconds": round(seconds, 2)}


def scores(truth: World, sample: Sample, model: VAE, *, ranked: bool) -> Row:
    """What a fitted model found, for the model that the objective ranks first, or for the first one trained."""
    z, x = sample.z[: settings.JUDGED_ROWS], sample.x[: settings.JUDGED_ROWS]
    k = model.best_ if ranked else 0
    latents = model.transform_all(x)
    structure = model.structure_of(k)
    return {
        "mcc": mcc(z, latents[k]).score,
        "spearman": mcc(z, latents[k], correlation="spearman").score,
        "mean of models": float(np.mean([mcc(z, code).score for code in latents])),
        "agreement": agreement(latents).score,
        "r2": 1 - float(model.terms_["reconstruction"][k]) / truth.n_observed,
        "found": len(structure),
        "f1": structure_distance(truth.structure, structure).score,
    }


def about(truth: World, sample: Sample, strength: float) -> Row:
    """What is known of a world before anything is learned: codes that need no training, and the certificate."""
    z, x = sample.z[: settings.JUDGED_ROWS], sample.x
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # Gaussian data: ICA has nothing to find
        ica = FastICA(truth.n_latents, whiten="unit-variance", random_state=0).fit(x[:ICA_ROWS])
    pca = PCA(truth.n_latents, random_state=0).fit(x)
    certificate = certify(truth)
    rival = None if certificate.answer == "identified" else next(iter(certificate.competitors), None)
    judged = x[: settings.JUDGED_ROWS]
    return {
        "x": mcc(z, judged).score,
        "pca": mcc(z, pca.transform(judged)).score,
        "ica": mcc(z, ica.transform(judged)).score,
        "dependencies": len(truth.structure),
        "strength": strength,
        "gap": certificate.gap,
        "gap at least": certificate.bound,
        "certificate": certificate.answer,
        "competitor": None if rival is None else rival.kind,
        "competitor says": None if rival is None else rival.sentence,
    }


def compare(rows: list[Row]) -> str:
    """MCC by dimension, world, recipe and method, beside the published figure and what needs no learning."""
    lines = []
    for d in DIMENSIONS:
        for (world, method), figures in {**PUBLISHED, ("diverse", settings.LATENT): {}}.items():
            ours = tables.matching(rows, world=world, d=d, method=method, recipe="ours")
            paper = tables.matching(rows, world=world, d=d, method=method, recipe="paper")
            three = [r for r in ours if r["seed"] in PUBLISHED_SEEDS]
            columns = [tables.spread(ours, name) for name in ("mcc", "spearman", "agreement", "r2", "f1", *TRIVIAL)]
            beside = [tables.published(figures.get(d)), tables.spread(paper, "mcc"), tables.spread(three, "mcc")]
            lines.append([f"{d}", world, method, *beside, *columns])
    beside = ["published", "MCC paper's recipe", "MCC ours, 3 seeds"]
    header = [
        "d",
        "world",
        "method",
        *beside,
        "MCC ours",
        "Spearman",
        "agreement",
        "R²",
        "F1",
        "x itself",
        "PCA",
        "ICA",
    ]
    found = tables.text_table(header, lines)
    answers = sorted({f"{r['certificate']} ({r['competitor']})" for r in tables.matching(rows)})
    return f"{found}\nThe certificates of these worlds say: {', '.join(answers)}."


# ---- beside the paper --------------------------------------------------------------------------------------------


def claims(rows: list[Row]) -> list[StudyClaim]:
    """The nine printed figures beside recipe ``ours`` on all worlds, under which every bias has the same budget."""
    return [
        claim(
            f"Table 3: {method}, d = {d}",
            PUBLISHED["diverse", method][d],
            tables.matching(rows, world="diverse", d=d, method=method, recipe="ours", noise=0.0),
        )
        for d in DIMENSIONS
        for method in PRINTED
    ]


def claim(
    where: str,
    figure: tuple[float, float],
    rows: list[Row],
    *,
    better: Literal["higher", "neither"] = "higher",
) -> StudyClaim:
    """A published MCC beside the rows of one method, with the best readout of the same worlds that learns nothing."""
    return StudyClaim(
        where,
        "MCC",
        figure[0],
        tables.values(rows, "mcc"),
        TOLERANCE,
        spread=figure[1],
        runs=settings.PUBLISHED_RUNS,
        better=better,
        baseline=trivial(rows),
    )


def trivial(rows: list[Row]) -> tuple[str, float] | None:
    """The best mean MCC of a readout that learns nothing, and its name.

    >>> trivial([{"x": 0.5, "pca": 0.75}, {"x": 0.5, "pca": 0.25, "ica": 0.875}])
    ('linear ICA', 0.875)
    """
    found = {name: tables.values(rows, column) for column, name in TRIVIAL.items()}
    means = [(name, float(np.mean(some))) for name, some in found.items() if some]
    return max(means, key=lambda one: one[1], default=None)


def by_dimension(rows: list[Row], **chosen: Any) -> dict[float | str, list[Row]]:
    """The rows of one method, or what else is asked for, by number of latents."""
    return {d: tables.matching(rows, d=d, **chosen) for d in DIMENSIONS}


def figures(rows: list[Row]) -> list[CurveChart]:
    """MCC of the printed biases over the number of latents, beside the published ones and x itself."""
    square = tables.matching(rows, world="diverse", recipe="ours", noise=0.0)
    curves: list[Curve] = []
    for method in PRINTED:
        curves.append(settings.curve(method, by_dimension(square, method=method), "mcc"))
        curves.append(settings.published_curve(f"{method}, published", PUBLISHED["diverse", method]))
    curves.append(settings.curve("x itself", by_dimension(square, method=settings.DEPENDENCY), "x", baseline=True))
    return [CurveChart("Table 3: biases on square worlds", "latents d", "MCC", tuple(curves))]
