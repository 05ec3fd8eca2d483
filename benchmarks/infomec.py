"""InfoMEC: seconds and scores, beside the pairwise loop over scikit-learn's estimates of mutual information.

Run: ``python benchmarks/infomec.py [--rows 10000] [--latents 10] [--rounds 5] [--settings standalone training]``.
One thread, contestants alternating in one process on the same tables; six factors, all discrete (4 to 15 values), all
continuous, or three of each, mixed sparsely into the latents. The loop is that of the public code, one call of
``mutual_info_classif`` or ``mutual_info_regression`` a pair, with as many neighbours. ``matrix`` is the mutual
information alone; ``whole`` is ``infomec`` without its chance, and the same with the loop in the place of the matrix,
so that both pay for the same explicitness. Seconds are the least of the rounds, differences the largest.
"""

import argparse
import time
from unittest import mock

import numpy as np

from noumena.metrics import information
from noumena.metrics.information import SETTINGS, infomec
from noumena.metrics.neighbours import information_matrix, shares

SIZES = (4, 6, 10, 10, 8, 15)
DISCRETE = {"discrete": 6, "continuous": 0, "mixed": 3}


def tables(kind, rows, latents, seed):
    """Factors (rows, 6) of one kind, which of them are discrete, and latents that mix them."""
    rng = np.random.default_rng(seed)
    many = DISCRETE[kind]
    z = np.stack(
        [rng.integers(0, size, rows) if j < many else rng.normal(size=rows) for j, size in enumerate(SIZES)], 1
    )
    unit = (z - z.mean(axis=0)) / z.std(axis=0)
    weights = rng.normal(size=(len(SIZES), latents)) * (rng.random((len(SIZES), latents)) < 0.35)
    z_hat = unit @ weights + 0.3 * rng.normal(size=(rows, latents))
    return z.astype(float), tuple(j < many for j in range(len(SIZES))), z_hat


def loop(values, latents, discrete, *, neighbours):
    from sklearn.feature_selection import mutual_info_classif, mutual_info_regression

    found = np.zeros((values.shape[1], latents.shape[1]))
    for j, factor in enumerate(values.T):
        labels = np.unique(factor, return_inverse=True)[1]
        for i in range(latents.shape[1]):
            known = latents[:, i : i + 1]
            settings = {"discrete_features": False, "n_neighbors": neighbours, "random_state": 0}
            found[j, i] = (
                mutual_info_classif(known, labels, **settings)[0]
                if discrete[j]
                else mutual_info_regression(known, factor, **settings)[0]
            )
    return found


def by_loop(z, z_hat, **settings):
    with mock.patch.object(information, "information_matrix", loop):
        return infomec(z, z_hat, **settings)


def timed(run, *given, **settings):
    start = time.perf_counter()
    found = run(*given, **settings)
    return time.perf_counter() - start, found


def compare(kind, setting, options):
    k = SETTINGS[setting].neighbours
    seconds, apart = {}, {}
    for number in range(options.rounds):
        z, discrete, z_hat = tables(kind, options.rows, options.latents, number)
        runs = {}
        for name, run in (("noumena", information_matrix), ("loop", loop)):
            spent, found = timed(run, z, z_hat, discrete, neighbours=k)
            seconds.setdefault(("matrix", name), []).append(spent)
            runs["matrix", name] = shares(found, z, discrete)
        for name, run in (("noumena", infomec), ("loop", by_loop)):
            spent, found = timed(run, z, z_hat, discrete=discrete, setting=setting, shuffles=0)
            seconds.setdefault(("whole", name), []).append(spent)
            runs["whole", name] = np.array(found.value)
        for part in ("matrix", "whole"):
            gap = np.abs(runs[part, "noumena"] - runs[part, "loop"]).max()
            apart.setdefault(part, []).append(gap)
    for part in ("matrix", "whole"):
        ours, theirs = (min(seconds[part, name]) for name in ("noumena", "loop"))
        gap = f"{theirs / ours:5.1f}×  |Δ| {max(apart[part]):.1e}"
        print(
            f"{kind:10s} {setting:10s} {part:6s} noumena {ours:6.2f} s  loop {theirs:6.2f} s  {gap}",
            flush=True,
        )


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=10_000)
    parser.add_argument("--latents", type=int, default=10)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--settings", nargs="+", default=list(SETTINGS))
    options = parser.parse_args()
    for kind in DISCRETE:
        for setting in options.settings:
            compare(kind, setting, options)


if __name__ == "__main__":
    main()
