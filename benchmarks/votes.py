"""FactorVAE score: seconds, memory and scores beside a loop that casts one vote at a time, as the public code does.

Run: ``python benchmarks/votes.py [--rows 10000] [--latents 10] [--factors 6] [--rounds 5] [--cases]``.
One thread, contestants alternating in one process on the same tables, 10 000 + 5 000 votes of 64 rows, the shortest of
all rounds. The loop looks its groups of rows up and draws from them for each vote; the public code also runs the
encoder on every batch. ``--cases`` prints known cases for discrete, continuous and mixed factors with their level of
chance and the ceiling, and the level of chance for growing numbers of rows.
"""

import argparse
import time
import tracemalloc

import numpy as np

from noumena.metrics.factor_vae_score import factor_vae_score
from noumena.metrics.factors import factors_of
from noumena.metrics.fixed import fixed_factors

VOTES, BATCH = (10_000, 5_000), 64


def sample(rows, factors, kind, seed=0):
    """Discrete factors of 3 to 15 values, continuous ones, or both in turn."""
    rng = np.random.default_rng(seed)
    discrete = rng.integers(0, np.resize([10, 3, 6, 8, 4, 15], factors), size=(rows, factors)).astype(float)
    whole = {"discrete": np.ones(factors), "continuous": np.zeros(factors), "mixed": np.arange(factors) % 2}[kind]
    return np.where(whole, discrete, rng.normal(size=(rows, factors)))


def unit(z):
    return (z - z.mean(axis=0)) / z.std(axis=0)


def loop(z, latents, seed=0):
    """One vote at a time."""
    rng, groups = np.random.default_rng(seed), fixed_factors(factors_of(z)).groups
    rows_of = [{g: np.flatnonzero(column == g) for g in np.unique(column)} for column in groups.T]
    spread = latents.var(axis=0, ddof=1)
    tables = np.zeros((2, groups.shape[1], latents.shape[1]))
    for table, number in zip(tables, VOTES, strict=True):
        for _ in range(number):
            j = rng.integers(groups.shape[1])
            same = rows_of[j][groups[rng.integers(len(z)), j]]
            local = latents[same[rng.integers(len(same), size=BATCH)]].var(axis=0, ddof=1)
            table[j, np.argmin(local / spread)] += 1
    names = tables[0].argmax(axis=0)
    return tables[1][names, np.arange(len(names))].sum() / VOTES[1]


def seconds(task):
    start = time.perf_counter()
    result = task()
    return time.perf_counter() - start, result


def compare(options):
    rng = np.random.default_rng(1)
    for kind in ("discrete", "continuous", "mixed"):
        z = sample(options.rows, options.factors, kind)
        latents = unit(z) @ rng.normal(size=(options.factors, options.latents)) + rng.normal(
            size=(options.rows, options.latents)
        )
        tasks = {
            "noumena": lambda z=z, h=latents: factor_vae_score(z, h, shuffles=0).score,
            "noumena, chance": lambda z=z, h=latents: factor_vae_score(z, h).score,
            "loop": lambda z=z, h=latents: loop(z, h),
        }
        found = {name: [] for name in tasks}
        for _ in range(options.rounds):
            for name, task in tasks.items():
                found[name].append(seconds(task))
        best = {name: min(spent for spent, _ in runs) for name, runs in found.items()}
        for name, runs in found.items():
            ratio = best["loop"] / best[name]
            print(
                f"{kind:10s} {name:16s} {best[name]:6.3f} s  loop/this {ratio:5.1f}  score {runs[0][1]:.4f}", flush=True
            )
        tracemalloc.start()
        tasks["noumena"]()
        print(f"{kind:10s} peak memory {tracemalloc.get_traced_memory()[1] / 2**20:.0f} MB")
        tracemalloc.stop()


def cases(options):
    rng, k = np.random.default_rng(2), options.factors
    rotation = np.linalg.qr(rng.normal(size=(k, k)))[0]
    for kind in ("discrete", "continuous", "mixed"):
        z = sample(options.rows, k, kind)
        noise = rng.normal(size=z.shape)
        known = {
            "identity": z,
            "permutation and sign flip": -2 * z[:, ::-1],
            "monotone distortion": np.exp(unit(z)),
            "rotation": unit(z) @ rotation,
            "duplicated latents": np.c_[z, z],
            "dead latents": np.c_[z, np.ones((len(z), 3))],
            "pure noise": noise,
            "half of the latents": z[:, : k // 2],
            "further latents": np.c_[z, noise],
            "as much noise as signal": unit(z) + noise,
        }
        for name, z_hat in known.items():
            print(f"{kind:10s} {name:26s} {factor_vae_score(z, z_hat, ceiling=True)}", flush=True)
    for rows in (50, 100, 300, 1000, 10_000):
        z = sample(rows, k, "continuous")
        levels = [factor_vae_score(z, z, shuffles=10, random_state=seed).chance for seed in range(3)]
        print(f"chance with {rows} rows and {k} factors {np.mean(levels):.3f} (1/K is {1 / k:.3f})", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=10_000)
    parser.add_argument("--latents", type=int, default=10)
    parser.add_argument("--factors", type=int, default=6)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--cases", action="store_true", help="known cases and levels of chance instead of seconds")
    options = parser.parse_args()
    (cases if options.cases else compare)(options)


if __name__ == "__main__":
    main()
