"""Power and false claims of certified fits: random worlds of gap 1 to 3, the penalised fit with and without its search.

    python benchmarks/power.py --worlds 150 --rows 3000 --jobs 2 --out results/power/rows.csv

Worlds have 3 to 6 latents and 2½ to 4 times as many observations; sizes, laws and seeds are fixed before anything is
trained, and no fit sees the truth. A row is written when its world is done; a second call goes on with what is missing.
``right`` means that the certificate says identified and that the latents have MCC ≥ .95 with the truth.
"""

from __future__ import annotations

import argparse
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from joblib import Parallel, delayed
from scipy.stats import beta

import noumena as nm
from noumena.checks import InputError
from noumena.metrics import mcc

FIRST_SEED = 4_000_000
"""Worlds of seeds from 2 000 000 on were looked at while the search was made."""
LAWS = ("gaussian", "unit gaussian", "laplace", "uniform", "correlated gaussian")
RIGHT = 0.95


def world_of(k: int) -> tuple[nm.worlds.World, dict[str, object]]:
    """The k-th world: everything is drawn from its number."""
    rng = np.random.default_rng(FIRST_SEED + k)
    while True:
        d_z, gap = int(rng.integers(3, 7)), int(rng.integers(1, 4))
        d_x, law, seed = int(d_z * rng.uniform(2.5, 4)), str(rng.choice(LAWS)), int(rng.integers(2**31))
        try:
            structure = nm.worlds.family("random", d_z, d_x, gap=gap, random_state=seed)
            world = nm.worlds.structured(structure, law=law, random_state=seed)
        except InputError:  # too few observations for that gap, or no world with a margin
            continue
        return world, {"world": k, "latents": d_z, "observed": d_x, "gap": gap, "law": law, "seed": seed}


def measured(k: int, rows: int, steps: int, models: int) -> dict[str, object]:
    """One world fitted plainly and with the search, certified, and compared with the truth."""
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    world, facts = world_of(k)
    sample = world.sample(rows)
    found = dict(facts) | {"rows": rows, "steps": steps, "models": models}
    for name, refit in (("plain", False), ("search", True)):
        start = time.perf_counter()
        model = nm.VAE(
            world.n_latents,
            penalty=0.05 * nm.DependencySparsity(),
            n_models=models,
            training=nm.Training(steps=steps, refit=refit),
            random_state=k,
        ).fit(sample.x)
        found[f"seconds_{name}"] = round(time.perf_counter() - start, 1)
        found[f"mcc_{name}"] = round(float(mcc(sample.z, model.transform(sample.x)).score), 4)
        matching = world.structure.match(model.structure_)
        found[f"f1_{name}"], found[f"hamming_{name}"] = round(matching.f1, 4), matching.hamming
    certificate = nm.certify(model)
    failing = [h.name for h in certificate.hypotheses if h.answer in ("fails", "unknown")]
    return found | {"answer": certificate.answer, "found_gap": certificate.gap, "not_shown": "; ".join(failing)}


def report(table: pd.DataFrame) -> str:
    """Shares and medians, by gap and number of rows, with the upper bound on false claims."""
    lines = ["rows gap   n | identified&right  false | MCC plain search | F1 plain search | exact | s plain search"]
    groups = [((rows, gap), part) for (rows, gap), part in table.groupby(["rows", "gap"])]
    for (rows, gap), t in [*groups, *(((rows, "all"), part) for rows, part in table.groupby("rows"))]:
        said = t.answer == "identified"
        right, false = said & (t.mcc_search >= RIGHT), int((said & (t.mcc_search < RIGHT)).sum())
        lines.append(
            f"{rows:5} {gap!s:>3} {len(t):4} | {right.mean():8.0%} {false:13} | {t.mcc_plain.median():.3f} "
            f"{t.mcc_search.median():.4f} | {t.f1_plain.median():.3f} {t.f1_search.median():.3f} | "
            f"{(t.hamming_search == 0).mean():5.0%} | {t.seconds_plain.median():.0f} {t.seconds_search.median():.0f}"
        )
    said = int((table.answer == "identified").sum())
    false = int(((table.answer == "identified") & (table.mcc_search < RIGHT)).sum())
    bound = float(beta.ppf(0.95, false + 1, max(1, said - false)))
    lowest = table.mcc_search[table.answer == "identified"].min()
    lines.append(
        f"{false} false of {said} identified (95 % upper bound {bound:.3f}); lowest MCC identified {lowest:.3f}"
    )
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--worlds", type=int, default=150)
    parser.add_argument("--rows", type=int, nargs="+", default=[3000])
    parser.add_argument("--steps", type=int, default=800)
    parser.add_argument("--models", type=int, default=3)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=np.inf, help="start no world after so long")
    parser.add_argument("--out", type=Path, default=Path("results/power/rows.csv"))
    given = parser.parse_args()
    given.out.parent.mkdir(parents=True, exist_ok=True)
    done = pd.read_csv(given.out) if given.out.exists() else pd.DataFrame()
    known = set(zip(done.world, done.rows, done.steps, strict=True)) if len(done) else set()
    cells = [(k, rows) for k in range(given.worlds) for rows in given.rows if (k, rows, given.steps) not in known]
    start = time.perf_counter()
    todo = (
        delayed(measured)(k, rows, given.steps, given.models)
        for k, rows in cells
        if time.perf_counter() - start < given.seconds
    )
    pool: Any = Parallel(n_jobs=given.jobs, return_as="generator_unordered", pre_dispatch=given.jobs)
    for found in pool(todo):
        done = pd.concat([done, pd.DataFrame([found])], ignore_index=True)
        done.sort_values(["rows", "world"]).to_csv(given.out, index=False)
        print(f"{len(done)} worlds, {time.perf_counter() - start:.0f} s", flush=True)
    print(report(done))


if __name__ == "__main__":
    main()
