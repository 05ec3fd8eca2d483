"""Fits of noisy tables: is the number of latents chosen right, what is certified, and is that true?

    python benchmarks/noisy.py --worlds 60 --jobs 2 --out results/noisy/rows.csv

Worlds have 3 to 6 latents, gaps from −2 to 3, five laws, and noise of 0, .2, .5 or 1 of a column's deviation, in turn.
One world in six has noise that two columns share; in one of six the fit is given a latent too few or too many. The
number of latents is chosen by prediction across columns, nothing sees the truth. A row is written when its world is
done; a second call goes on with what is missing.
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

import noumena as nm
from noumena.checks import InputError
from noumena.discovery import choose
from noumena.metrics import mcc

FIRST_SEED = 7_000_000
"""Worlds of seeds from 6 000 000 on were looked at while the search was made."""
GAPS, NOISES = (-2, -1, 0, 1, 2, 3), (0.0, 0.2, 0.5, 1.0)
LAWS = ("gaussian", "unit gaussian", "laplace", "uniform", "correlated gaussian")
KINDS = ("plain", "plain", "plain", "plain", "shared noise", "wrong number")


def world_of(k: int) -> tuple[nm.worlds.World, dict[str, Any]]:
    """The k-th world; everything is drawn from its number."""
    rng = np.random.default_rng(FIRST_SEED + k)
    gap, noise, kind = GAPS[k % len(GAPS)], NOISES[(k // len(GAPS)) % len(NOISES)], KINDS[(k * 5 + k // 6) % len(KINDS)]
    while True:
        d_z, law, seed = int(rng.integers(3, 7)), str(rng.choice(LAWS)), int(rng.integers(2**31))
        d_x = int(d_z * rng.uniform(2.5, 4))
        try:
            structure = nm.worlds.family("random", d_z, d_x, gap=gap, random_state=seed)
            world = nm.worlds.structured(structure, law=law, random_state=seed)
        except InputError:
            continue
        facts = {"latents": d_z, "observed": d_x, "gap": gap, "law": law, "noise": noise, "kind": kind}
        return world, {"world": k, **facts}


def measured(k: int, rows: int) -> dict[str, Any]:
    """One world: its latents counted, fitted, certified, and only then compared with the truth."""
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    world, facts = world_of(k)
    rng = np.random.default_rng(k)
    sample = world.sample(rows)
    spread = facts["noise"] * sample.x.std(axis=0)
    noise = rng.normal(size=sample.x.shape)
    if facts["kind"] == "shared noise":
        noise[:, :2] = noise[:, :1]
        spread[:2] = max(facts["noise"], 0.5) * sample.x[:, :2].std(axis=0)
    x = sample.x + noise * spread
    start = time.perf_counter()
    choice = choose(x[rows // 6 :], x[: rows // 6], weight=0.05, random_state=k)
    counted = time.perf_counter()
    d = choice.latents
    if facts["kind"] == "wrong number":
        d = facts["latents"] + (1 if k % 2 else -1)
    penalty = 0.05 * nm.DependencySparsity()
    training = nm.Training(steps=800)
    model = nm.VAE(d, penalty=penalty, n_models=3, training=training, random_state=k).fit(x)
    certificate = nm.certify(model)
    S = model.structure_
    z = model.transform(x)[:, S.in_use]
    found = model.column_prediction_
    assert found is not None
    failing = [h.name for h in certificate.hypotheses if h.answer in ("fails", "unknown")]
    same = len(S.in_use) == facts["latents"] and S.n_latents == facts["latents"]
    return facts | {
        "rows": rows,
        "chosen": choice.latents,
        "fitted": d,
        "in use": len(S.in_use),
        "answer": certificate.answer,
        "found gap": certificate.gap,
        "MCC": round(float(mcc(sample.z, z).score), 4),
        "wrong dependencies": world.structure.match(S).hamming if same else None,
        "dependencies": len(world.structure),
        "prediction": round(found.score, 4),
        "peers": round(float(np.mean(found.peer)), 4),
        "shortfall": round(found.shortfall, 4),
        "not shown": "; ".join(failing),
        "seconds to count": round(counted - start, 1),
        "seconds to fit": round(time.perf_counter() - counted, 1),
    }


def report(table: pd.DataFrame) -> str:
    """Right numbers, verdicts and false claims by noise."""
    lines = [
        "noise   n | number right (gap ≥ 1) | identified of gap ≥ 2 | false (MCC < .9) | structure exact | median MCC"
    ]
    for noise, t in table.groupby("noise"):
        plain = t[t.kind == "plain"]
        right = (plain.chosen == plain.latents)[plain.gap >= 1]
        strong = plain[plain.gap >= 2]
        said = t.answer == "identified"
        lines.append(
            f"{noise:5} {len(t):3} | {right.sum():4} of {len(right):3} | {(strong.answer == 'identified').sum():4} of "
            f"{len(strong):3} | {int((said & (t.MCC < 0.9)).sum()):4} of {said.sum():3} | "
            f"{int((plain['wrong dependencies'] == 0).sum()):4} of {len(plain):3} | {plain.MCC.median():.3f}"
        )
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--worlds", type=int, default=60)
    parser.add_argument("--rows", type=int, default=3000)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--out", type=Path, default=Path("results/noisy/rows.csv"))
    given = parser.parse_args()
    given.out.parent.mkdir(parents=True, exist_ok=True)
    done = pd.read_csv(given.out) if given.out.exists() else pd.DataFrame()
    known = set(done.world) if len(done) else set()
    todo = (delayed(measured)(k, given.rows) for k in range(given.worlds) if k not in known)
    pool: Any = Parallel(n_jobs=given.jobs, return_as="generator_unordered", pre_dispatch=given.jobs)
    start = time.perf_counter()
    for found in pool(todo):
        done = pd.concat([done, pd.DataFrame([found])], ignore_index=True)
        done.sort_values("world").to_csv(given.out, index=False)
        print(f"{len(done)} worlds, {time.perf_counter() - start:.0f} s: {found}", flush=True)
    print(report(done))


if __name__ == "__main__":
    main()
