"""MCC: seconds, CPU seconds and memory, beside numpy's corrcoef and scipy's spearmanr with a matching.

Run: ``OMP_NUM_THREADS=1 python benchmarks/mcc.py [--sizes 20000x1000 10000x10] [--rounds 3]``. One thread, contestants
alternating in one process on the same float64 tables, a bent and noisy permutation of Gaussian latents. Ours includes
the level of chance, theirs does not. scipy's ranks of wide tables take long: it is left out with ``--without-scipy``.
Seconds are the least of the rounds; memory is what the process has held at most, tables included.
"""

import argparse
import resource
import time

import numpy as np
from scipy.optimize import linear_sum_assignment
from scipy.stats import rankdata, spearmanr

from noumena.metrics.correlation import CHANCE_DRAWS, affordable, mcc, unit_ranks


def tables(rows, columns, seed):
    rng = np.random.default_rng(seed)
    z = rng.normal(size=(rows, columns))
    return z, 2 * np.tanh(z[:, rng.permutation(columns)]) + 0.1 * rng.normal(size=z.shape)


def matched(both, d):
    size = np.abs(both[:d, d:])
    return float(size[linear_sum_assignment(-size)].mean())


def contestants(without_scipy):
    found = {
        "noumena, Pearson": lambda z, h: mcc(z, h).score,
        "noumena, Spearman": lambda z, h: mcc(z, h, correlation="spearman").score,
        "numpy corrcoef": lambda z, h: matched(np.corrcoef(z, h, rowvar=False), z.shape[1]),
    }
    if not without_scipy:
        found["scipy spearmanr"] = lambda z, h: matched(spearmanr(z, h).statistic, z.shape[1])
    return found


def timed(function, *given):
    start, spent = time.perf_counter(), time.process_time()
    result = function(*given)
    return time.perf_counter() - start, time.process_time() - spent, result


def compare(size, options):
    rows, columns = (int(part) for part in size.split("x"))
    names, seconds, scores = contestants(options.without_scipy), {}, {}
    z, z_hat = tables(rows, columns, 0)
    for number in range(options.rounds):
        for name, function in names.items():
            *spent, scores[name] = timed(function, z, z_hat)
            seconds.setdefault(name, []).append(spent)
            if (number, name) == (0, "noumena, Spearman"):  # before any peer has run
                memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    shuffles = affordable(CHANCE_DRAWS, rows * columns**2)
    print(f"{size}: {shuffles} shuffles, at most {memory:.2f} GiB for ours")
    peers = {"numpy corrcoef": "noumena, Pearson", "scipy spearmanr": "noumena, Spearman"}
    least = {name: np.min(spent, axis=0) for name, spent in seconds.items()}
    for name, (wall, cpu) in least.items():
        ratio = f"{cpu / least[peers[name]][1]:5.1f}× ours" if name in peers else ""
        print(f"  {name:20s} {wall:8.3f} s, CPU {cpu:8.3f} s  score {scores[name]:.6f}  {ratio}", flush=True)
    size = np.abs(np.random.default_rng(0).normal(size=(columns, columns)))
    print(f"  matching of noise    {timed(linear_sum_assignment, -size)[1]:8.3f} CPU s")
    part = z[:, :20]
    ours, theirs = timed(unit_ranks, part)[1], timed(rankdata, part, "average")[1]
    print(f"  ranks of 20 columns  {ours:8.3f} CPU s, scipy's rankdata {theirs:.3f}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sizes", nargs="+", default=["10000x10", "20000x1000"])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--without-scipy", action="store_true")
    options = parser.parse_args()
    mcc(*tables(100, 3, 0))  # warms up
    for size in options.sizes:
        compare(size, options)


if __name__ == "__main__":
    main()
