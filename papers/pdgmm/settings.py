"""Settings of the studies of degenerate mixtures: worlds, methods, scores and certificates, with every constant.

Reference: Xu et al. (2026), section 5 and Appendices C to E. A world is named by its parameters: ``n`` latents,
``edges`` per latent of the causal graph, ``layers`` of the mixing (M), the share of ``active`` latents (ρ), ``shift``
(δ), ``angle`` (θ), ``noise``, ``mixing``, ``slope``, ``seed``; what is not said is as in the base row.

Methods. ``x``: the observations themselves. ``pca``, ``ica`` (FastICA): of the observations. ``sparse``:
``SparseComponents`` of the observations, an affine map. ``flow``: ``SparseFlow``, which bends. None sees a component, a
mask or a latent; all are scored on rows they have not seen.

Scores. ``mcc``: Pearson, against ``z``. ``r2``: linear regression from ``z`` to ``ẑ``. ``mcc_sparse``: against the
latents in the basis in which they are sparse, which is another one where they are rotated.

**Deviations**: 20 000 rows are drawn once, where the paper draws 6144 new ones at every one of 85 000 steps.
"""

from __future__ import annotations

import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.decomposition import PCA, FastICA
from sklearn.preprocessing import FunctionTransformer

from noumena import checks
from noumena.charts import Curve, CurveChart, Point
from noumena.checks import DivergenceError, InputError
from noumena.estimators import Training
from noumena.estimators.sparse.components import SparseComponents
from noumena.estimators.sparse.flow import SparseFlow
from noumena.guarantees.degenerate import degenerate_ladder
from noumena.metrics import mcc, r2
from noumena.studies import rows as tables
from noumena.studies.claims import StudyClaim
from noumena.studies.rows import Row
from noumena.worlds import DegenerateWorld, MixtureWorld, Sample, degenerate

ROWS = 20_000
JUDGED_ROWS = 10_000
"""Fresh rows of the same world, on which codes are compared with the truth."""
SEEDS = (0, 1, 2, 3, 4)
METHODS = ("x", "pca", "ica", "sparse", "flow")
TRIVIAL = METHODS[:3]
"""What learns nothing of the mixture."""
STEPS, RATE = 2400, 0.015
"""How long and how fast ``SparseFlow`` trains unless told otherwise; here by name, so that a study can change them."""
TINY: Row = {"rows": 400, "steps": 4}
"""What makes a cell run within a second, and learn nothing."""
BASE: Row = {
    "n": 10,
    "edges": 1,
    "layers": 10,
    "active": "half",
    "shift": 0.0,
    "angle": 0.0,
    "noise": "gaussian",
    "mixing": "piecewise affine",
    "slope": None,
}
"""The base row of Table 1."""
TOLERANCE = 0.01
"""One in the last digit that the published tables have; spreads between seeds widen it where they are known."""
PUBLISHED_SEEDS = 5
"""Behind every published mean and deviation."""
SHARES = {"one": "1 var", "half": "50 %", "three quarters": "75 %"}


# ---- worlds ----------------------------------------------------------------------------------------------


def world(**changes: Any) -> Row:
    """The parameters of a world: the base row with some of them changed.

    >>> world(n=5, shift=1.0)["layers"], world()["n"]
    (10, 10)
    """
    checks.require(changes.keys() <= BASE.keys(), f"A world must be named by {', '.join(BASE)}.", list(changes))
    return {**BASE, **changes}


def distinct(worlds: Iterable[Row]) -> list[Row]:
    """Worlds without repetitions, in order."""
    return list({tuple(w.values()): w for w in worlds}.values())


def once(lines: Iterable[tuple[Any, ...]]) -> list[Any]:
    """Lines of a table without those that are printed again: the same world under another name, the same figures.

    >>> once([(("n = 10", {"n": 10}), 0.9), (("k = 1", {"n": 10}), 0.9), (("k = 2", {"n": 10}), 0.8)])
    [(('n = 10', {'n': 10}), 0.9), (('k = 2', {'n': 10}), 0.8)]
    """
    found: dict[str, tuple[Any, ...]] = {}
    for (name, w), *figures in lines:
        found.setdefault(repr((w, figures)), ((name, w), *figures))
    return list(found.values())


def cells(worlds: Iterable[Row], seeds: Sequence[int] = SEEDS) -> list[Row]:
    """A cell for every world and seed; the largest worlds come first, so that they do not finish last."""
    ordered = sorted(distinct(worlds), key=lambda w: -w["n"])
    return [{**w, "seed": seed} for w in ordered for seed in seeds]


def label(w: Row) -> list[str]:
    """A world as the published tables name it: n, k, M, ρ, δ, θ.

    >>> label(world(active="one"))
    ['10', '1', '10', '1 var', '0', '0']
    """
    return [str(w["n"]), str(w["edges"]), str(w["layers"]), SHARES[w["active"]], f"{w['shift']:g}", f"{w['angle']:g}"]


LABEL = ["n", "k", "M", "ρ", "δ", "θ"]


@dataclass(frozen=True, eq=False)
class Drawn:
    """A world with the rows to learn from and fresh rows to be judged on."""

    world: MixtureWorld
    learn: Sample
    judge: Sample


def drawn(truth: MixtureWorld, rows: int = ROWS) -> Drawn:
    """Rows of a world; half as many to judge as to learn from."""
    return Drawn(truth, truth.sample(rows, random_state=0), truth.sample(rows * JUDGED_ROWS // ROWS, random_state=1))


# ---- methods ---------------------------------------------------------------------------------------------


def estimator(method: str, latents: int | None, seed: int, *, steps: int = STEPS) -> Any:
    """The estimator of a method; ``latents=None`` leaves their number to it, ``steps`` are those of ``flow``."""
    checks.one_of(method, "method", METHODS)
    if method == "x":
        return FunctionTransformer()
    if method == "pca":
        return PCA(latents, random_state=0)
    if method == "ica":
        return FastICA(latents, whiten="unit-variance", random_state=seed)
    if method == "sparse":
        return SparseComponents(latents, random_state=seed)
    training = Training(steps=steps, batch_size=2000, learning_rate=RATE, clip=10.0)
    return SparseFlow(latents, training=training, random_state=seed)


def own_figures(model: Any) -> Row:
    """What a fitted model says of itself, without the truth."""
    if isinstance(model, SparseComponents):
        return {"objective": model.objective_, "confidence": float(model.confidence_.mean())}
    if isinstance(model, SparseFlow):
        return {
            "objective": float(model.objectives_[model.best_]),
            "affine objective": model.affine_objective_,
            "bent": model.bent_,
        }
    return {}


def scores(truth: MixtureWorld, z: np.ndarray, z_hat: np.ndarray) -> Row:
    """A code beside the truth."""
    found = {"mcc": mcc(z, z_hat).score, "r2": r2(z, z_hat, direction="true to learned").score}
    return {**found, "mcc_sparse": mcc(truth.sparse(z), z_hat).score if isinstance(truth, DegenerateWorld) else None}


Judge = Callable[[MixtureWorld, np.ndarray, np.ndarray], Row]
"""What compares a code with the truth: ``scores`` unless a study has figures of its own."""


def scored(data: Drawn, model: Any, *, judge: Judge = scores) -> Row:
    """The row of one estimator, fitted without the truth, then compared with it; a refusal is a row too."""
    start = time.process_time()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # ICA that does not converge, components that are not sparse: scored as is
            model.fit(data.learn.x)
        seconds = round(time.process_time() - start, 2)
        z_hat = checks.table(model.transform(data.judge.x), "The code")
    except (InputError, DivergenceError) as error:
        return {"seconds": round(time.process_time() - start, 2), "refused": str(error)}
    return {**judge(data.world, data.judge.z, z_hat), "seconds": seconds, "refused": None, **own_figures(model)}


def all_scored(
    data: Drawn,
    seed: int,
    methods: Sequence[str] = METHODS,
    *,
    judge: Judge = scores,
    steps: int = STEPS,
    count_known: bool = True,
) -> list[Row]:
    """The rows of all methods in one world, with its certificate; they are told the number of latents or are not."""
    told = certificate(data.world)
    latents = data.world.n_latents if count_known else None
    models = {method: estimator(method, latents, seed, steps=steps) for method in methods}
    return [{"method": method, **scored(data, model, judge=judge), **told} for method, model in models.items()]


def cell(*, seed: int, rows: int = ROWS, methods: Sequence[str] = METHODS, steps: int = STEPS, **w: Any) -> list[Row]:
    """Build a degenerate world and score every method on it; ``steps`` are those of the flow."""
    return all_scored(drawn(degenerate(**world(**w), random_state=seed), rows), seed, methods, steps=steps)


# ---- certificates ----------------------------------------------------------------------------------------


def certificate(truth: MixtureWorld) -> Row:
    """Which hypotheses of the paper's theorems a world breaks, and what is left of their conclusion for ``z``.

    >>> certificate(degenerate(5, layers=2))
    {'certificate': '3.4 fails', 'theory': 'permutation and scale, but for 3.4'}
    """
    if not isinstance(truth, DegenerateWorld):
        reading = degenerate_ladder(truth.mixture, decoder=truth.decoder, exact=True)
        hypotheses = {h.name.split()[0]: h.answer for t in reading.theorems for h in t.hypotheses}
        return {"certificate": _told([name for name, status in hypotheses.items() if status == "fails"])}
    held = truth.hypotheses()
    names = {"gaussian components": "Gaussian", "piecewise affine mixing": "piecewise affine", "3.4 genericity": "3.4"}
    lacking = [short for name, short in names.items() if not held[name]]
    turned = bool((np.abs(truth.rotation).max(axis=0) < 1 - 1e-9).any())
    if not held["3.8a standard basis"]:
        lacking.append("3.8a (turned)" if turned else "3.8a (shift)")
    variable = held["3.8b variability"]
    conclusion = "affine, axes of no meaning" if turned else "permutation and scale" if variable else "blocks"
    but = [name for name in lacking if name != "3.8a (turned)"]
    return {
        "certificate": _told(lacking + ([] if variable else ["3.8b"])),
        "theory": conclusion + (f", but for {', '.join(but)}" if but else ""),
    }


def _told(broken: list[str]) -> str:
    return f"{', '.join(broken)} fail{'s' if len(broken) == 1 else ''}" if broken else "all hold"


# ---- tables ----------------------------------------------------------------------------------------------


def of_world(rows: Iterable[Row], w: Row, **values: Any) -> list[Row]:
    """The rows of one world, without errors."""
    return tables.matching(rows, **w, **values)


def spreads(rows: list[Row], name: str, methods: Sequence[str] = METHODS) -> list[str]:
    """Mean ± deviation of one column for every method; methods that refused are counted."""
    found = []
    for method in methods:
        of_method = tables.matching(rows, method=method)
        refused = sum(r.get("refused") is not None for r in of_method)
        found.append(tables.spread(of_method, name) + (f", {refused} refused" if refused else ""))
    return found


def words(rows: list[Row], name: str) -> str:
    """What a column of text says, with how many seeds say it where they disagree.

    >>> words([{"seed": 0, "theory": "blocks"}, {"seed": 1, "theory": "affine"}], "theory")
    'blocks (1), affine (1)'
    """
    said = Counter({r["seed"]: r[name] for r in rows if r.get(name) is not None}.values())
    return ", ".join(f"{text} ({count})" if len(said) > 1 else text for text, count in said.most_common()) or "–"


def mean(rows: list[Row], name: str) -> float | None:
    """The mean of a column over the rows that have it."""
    values = [r[name] for r in rows if r.get(name) is not None]
    return float(np.mean(values)) if values else None


# ---- claims and figures ----------------------------------------------------------------------------------

Published = tuple[float, float] | float
"""A mean with its deviation, or a figure alone."""
Groups = dict[str, Sequence[Row]]
"""Worlds in the order of a table, by the letter of ``LABEL`` that changes among them."""
Here = Callable[[Row], list[Row]]
"""The rows that stand for a printed world."""


def printed(groups: Groups) -> list[tuple[str, Row]]:
    """The worlds of a table in order, each named by what changes in its group.

    >>> [name for name, _ in printed({"n": [world(n=5), world()], "ρ": [world()]})]
    ['n = 5', 'n = 10', 'ρ = 50 %']
    """
    return [(f"{letter} = {_value(letter, w)}", w) for letter, worlds in groups.items() for w in worlds]


def _value(letter: str, w: Row) -> str:
    return label(w)[LABEL.index(letter)]


def trivial(rows: list[Row], column: str, *, lowest: bool = False) -> tuple[str, float] | None:
    """The best of what learns nothing, by the mean of a column.

    >>> trivial([{"method": "x", "mcc": 0.5}, {"method": "ica", "mcc": 0.9}], "mcc")
    ('ica', 0.9)
    """
    means = {method: mean(tables.matching(rows, method=method), column) for method in TRIVIAL}
    found = [(method, value) for method, value in means.items() if value is not None]
    best = min if lowest else max
    return best(found, key=lambda one: one[1]) if found else None


def claim(
    where: str,
    metric: str,
    figure: Published,
    rows: list[Row],
    *,
    column: str = "mcc",
    method: str = "flow",
    **more: Any,
) -> StudyClaim:
    """A published figure beside a method's values in these rows; without rows it is not run."""
    center, spread = figure if isinstance(figure, tuple) else (figure, None)
    ours = tables.values(tables.matching(rows, method=method), column)
    seeds = None if spread is None else PUBLISHED_SEEDS
    told = {"tolerance": TOLERANCE, "spread": spread, "runs": seeds, "baseline": trivial(rows, column), **more}
    return StudyClaim(where, metric, center, ours, **told)


def figures(
    title: str,
    groups: Groups,
    here: Here,
    published: Mapping[str, Sequence[Published]],
    *,
    column: str = "mcc",
    up: str = "MCC",
    methods: Sequence[str] = METHODS,
) -> list[CurveChart]:
    """A figure for every group of a table: ours by method, and the published curves by their names."""
    drawings, start = [], 0
    for letter, worlds in groups.items():
        at = [_value(letter, w) if letter == "ρ" else float(_value(letter, w)) for w in worlds]
        found = [(x, here(w)) for x, w in zip(at, worlds, strict=True)]
        curves = [curve(m, [(x, tables.matching(rows, method=m)) for x, rows in found], column) for m in methods]
        part = slice(start, start + len(worlds))
        curves += [published_curve(f"published {name}", at, of[part]) for name, of in published.items()]
        drawings.append(CurveChart(f"{title}, by {letter}", letter, up, tuple(curves)))
        start += len(worlds)
    return drawings


def curve(method: str, found: Iterable[tuple[float | str, list[Row]]], column: str) -> Curve:
    """Mean and deviation of a method's column where there are rows."""
    points: list[Point] = []
    for x, rows in found:
        values = tables.values(rows, column)
        spread = float(np.std(values, ddof=1)) if len(values) > 1 else None
        points += [(x, float(np.mean(values)), spread)] if values else []
    return Curve(method, tuple(points), baseline=method in TRIVIAL)


def published_curve(name: str, at: Sequence[float | str], of: Sequence[Published]) -> Curve:
    """Published figures as a curve."""
    pairs = [figure if isinstance(figure, tuple) else (figure, None) for figure in of]
    return Curve(
        name, tuple((x, center, spread) for x, (center, spread) in zip(at, pairs, strict=True)), published=True
    )


def tiny(*worlds: Row) -> list[Row]:
    """Cells of some worlds, two seeds each, of few rows and steps."""
    return [{**w, "seed": seed, **TINY} for w in worlds for seed in SEEDS[:2]]
