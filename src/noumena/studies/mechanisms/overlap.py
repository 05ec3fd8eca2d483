"""Slots that share observations: how far do they stay identified as the shared part grows?

Worlds of ``K`` slots of 3 latents, 20 observations each, neighbours sharing 0 … 75 % of them; slot identifiability
score (SIS) of the published recipe, compositional contrast with λ ∈ {1e-2, 1}, and of ours. The command
``python -m noumena.studies.mechanisms.overlap --jobs 2 --out rows.csv`` runs the grid, appends a row per finished cell
and resumes where it was left.

Reference: mechanistic independence (paper 002), experiments. Deviations: fewer rows and steps (the public code of the
contrast trains for 200 000 steps of 64), alike for all methods; the learning rate follows one cycle; observations are
standardised; Jacobians are taken at 16 rows of each batch. The published error is a mean over observations, ours a sum,
so λ is multiplied by ``d_x``. ``contrast`` is the published recipe with latents of free scale; ``contrast, our fit``
has our networks, learning rate and unit latents, and differs from ``ours`` in its penalty and its single stage.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import pandas as pd
from sklearn.decomposition import PCA

from noumena import checks
from noumena.estimators.slots import SlotAutoencoder
from noumena.estimators.training import Training
from noumena.metrics.slots import sis
from noumena.nets import MLP
from noumena.penalties import CompositionalContrast
from noumena.worlds.slots import SlotWorld, overlapping

STUDY = "mechanisms/overlap"
SLOTS = (2, 3, 5)
OVERLAPS = (0.0, 0.25, 0.5, 0.75)
METHODS = ("contrast 0.01", "contrast 1", "ours")
ABLATION, ABLATED = "contrast 0.01, our fit", 3
"""A method that runs at one number of slots only."""
SEEDS = (0, 1, 2, 3, 4)
ROWS, MODELS, BATCH = 10_000, 4, 64
STEPS, TINY_STEPS = 1800, 40
RATE, PUBLISHED_RATE = 1e-2, 1e-3
PUBLISHED_NET = MLP(hidden=(80, 80, 80))
POINTS = 16
SCORED, SCORED_FEW = 2500, 1000
"""Rows that the best model and the truth are scored on; all models, and their agreement."""
KEY = ["n_slots", "overlap", "method", "seed"]
PUBLISHED = (
    "Published, as curves without a table: SIS is high at small overlap and falls as overlap grows, "
    "where training ends in bad local minima; only 0 % is of Type D."
)


def cell(n_slots: int, overlap: float, method: str, seed: int, *, tiny: bool = False) -> dict[str, Any]:
    """One row: a world, a method, a seed; the truth scores the result and chooses nothing."""
    checks.one_of(method, "method", (*METHODS, ABLATION))
    began = time.perf_counter()
    world = overlapping(n_slots, overlap=overlap, seed=seed)
    sample, fresh = world.sample(500 if tiny else ROWS), world.sample(100 if tiny else SCORED, seed=1)
    model = _model(world, method, seed, tiny).fit(sample.x)
    latents = model.transform_all(fresh.x)
    best = model.best_

    def score(z_hat: np.ndarray, *, against: np.ndarray = fresh.z, rows: int = SCORED) -> float:
        return sis(against, z_hat, slots=n_slots, most_rows=rows).score

    others = [score(z_hat, against=latents[best], rows=SCORED_FEW) for k, z_hat in enumerate(latents) if k != best]
    return {
        "study": STUDY, "n_slots": n_slots, "overlap": overlap, "method": method, "seed": seed,
        "sis": score(latents[best]),
        "sis_models": float(np.mean([score(z_hat, rows=SCORED_FEW) for z_hat in latents])),
        "sis_truth": score(fresh.z),
        "sis_pca": score(PCA(world.n_latents).fit(sample.x).transform(fresh.x)),
        "reconstruction": 1 - float(model.terms_["reconstruction"][best]) / world.n_observed,
        "agreement": float(np.mean(others)),
        "objective": float(model.objectives_[best]),
        "n_models": len(latents), "seconds": time.perf_counter() - began,
    }  # fmt: skip


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


def cells() -> list[tuple[int, float, str, int]]:
    """The grid, largest worlds first."""
    grid = [(n, o, m, s) for n in sorted(SLOTS, reverse=True) for o in OVERLAPS for m in METHODS for s in SEEDS]
    return grid + [(ABLATED, o, ABLATION, s) for o in OVERLAPS for s in SEEDS]


def run(
    jobs: int = 2,
    out: str | Path = "rows.csv",
    *,
    grid: Sequence[tuple[int, float, str, int]] | None = None,
    tiny: bool = False,
) -> pd.DataFrame:
    """Run what is missing from ``out``, a row appended as each cell ends; all rows of the grid that are there."""
    out, grid = Path(out), cells() if grid is None else list(grid)
    done = _done(out)
    missing = [c for c in grid if c not in done]
    with joblib.parallel_config(backend="loky", inner_max_num_threads=1):
        work = joblib.Parallel(n_jobs=checks.count(jobs, "jobs"), return_as="generator_unordered")
        for row in work(joblib.delayed(cell)(*c, tiny=tiny) for c in missing):
            pd.DataFrame([row]).to_csv(out, mode="a", header=not out.exists(), index=False)
    return pd.read_csv(out)


def _done(out: Path) -> set[tuple[Any, ...]]:
    return set(pd.read_csv(out)[KEY].itertuples(index=False, name=None)) if out.exists() else set()


def compare(rows: pd.DataFrame) -> str:
    """SIS of the model with the lowest objective, mean ± standard deviation over seeds; the truth's own beside it."""

    def digits(found: Any) -> pd.Series:
        return pd.Series(found).map("{:.3f}".format)

    by = rows.groupby(["n_slots", "overlap", "method"])["sis"]
    table = (digits(by.mean()) + " ± " + digits(by.std(ddof=0))).unstack("method")
    for name in ("pca", "truth"):
        table[name] = digits(rows.groupby(["n_slots", "overlap"])[f"sis_{name}"].mean())
    spent = f"{len(rows)} cells, {rows['seconds'].sum() / 60:.1f} minutes of computing."
    return f"{table.fillna('').to_string()}\n{spent}\n{PUBLISHED}"


def main() -> None:
    """Run the grid from the command line."""
    parser = argparse.ArgumentParser(description="Slots that share observations: SIS against overlap.")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--out", default="rows.csv")
    given = parser.parse_args()
    print(compare(run(given.jobs, given.out)))


if __name__ == "__main__":
    main()
