"""DCI: seconds and scores of the fast trees beside those of scikit-learn's gradient boosting.

Run: ``python benchmarks/dci.py [--rows 10000] [--kinds continuous discrete mixed] [--cases noisy rotation …]
[--rounds 1]``. One thread, contestants alternating in one process, 10 latents and 6 factors: continuous ones, discrete
ones of 3, 4, 5, 6, 8 and 10 levels, or three of either. Δ is fast − reference in disentanglement, completeness and
informativeness. All cases together take about half an hour, nearly all of it in the reference.
"""

import argparse
import os
import time

os.environ["OMP_NUM_THREADS"] = "1"

import numpy as np

from noumena.metrics.disentanglement import dci

LEVELS = (3, 4, 5, 6, 8, 10)
KINDS = {"continuous": (), "discrete": (0, 1, 2, 3, 4, 5), "mixed": (0, 2, 5)}


def factors(rows, kind, rng):
    """Factors (rows, 6) and which of them are discrete."""
    z = rng.normal(size=(rows, 6))
    for j in KINDS[kind]:
        z[:, j] = rng.integers(0, LEVELS[j], rows)
    return z, [j in KINDS[kind] for j in range(6)]


def cases(z, rng):
    """Learned latents (rows, 10) of every case."""
    s, noise = (z - z.mean(axis=0)) / z.std(axis=0), rng.normal(size=(len(z), 10))
    turn = np.linalg.qr(rng.normal(size=(6, 6)))[0]
    hidden = np.tanh(s @ rng.normal(size=(6, 16)) / 2)
    return {
        "identity": np.c_[s, noise[:, :4]],
        "permutation": np.c_[noise[:, :4], -s[:, ::-1]],
        "noisy": np.c_[s + 0.3 * noise[:, :6], noise[:, 6:]],
        "rotation": np.c_[s @ turn, noise[:, :4]],
        "mixture": hidden @ rng.normal(size=(16, 10)) + 0.05 * noise,
        "duplicated": np.c_[s, s[:, :4] + 0.1 * noise[:, :4]],
        "noise": noise,
    }


def timed(z, z_hat, discrete, trees, seed):
    start = time.perf_counter()
    found = dci(z, z_hat, discrete=discrete, trees=trees, shuffles=0, random_state=seed)
    return time.perf_counter() - start, np.array(found.value)


def compare(kind, options):
    rng = np.random.default_rng(0)
    z, discrete = factors(options.rows, kind, rng)
    for name, z_hat in cases(z, rng).items():
        if options.cases and name not in options.cases:
            continue
        seconds, scores = {"fast": [], "reference": []}, {"fast": [], "reference": []}
        for number in range(options.rounds):
            for trees in seconds:
                spent, value = timed(z, z_hat, discrete, trees, number)
                seconds[trees].append(spent)
                scores[trees].append(value)
        fast, slow = np.array(seconds["fast"]), np.array(seconds["reference"])
        change = np.mean(scores["fast"], axis=0) - np.mean(scores["reference"], axis=0)
        print(
            f"{kind:11s} {name:12s} {np.median(fast):6.2f} s ({fast.min():.2f}–{fast.max():.2f})  "
            f"{np.median(slow):7.2f} s ({slow.min():.2f}–{slow.max():.2f})  {np.median(slow / fast):5.1f}×  "
            f"{'  '.join(f'{v:.3f}' for v in scores['reference'][0])}  {'  '.join(f'{v:+.4f}' for v in change)}",
            flush=True,
        )


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=10_000)
    parser.add_argument("--kinds", nargs="+", default=list(KINDS), choices=list(KINDS))
    parser.add_argument("--cases", nargs="+", default=[])
    parser.add_argument("--rounds", type=int, default=1)
    options = parser.parse_args()
    dci(*[np.random.default_rng(0).normal(size=(100, 2))] * 2, shuffles=0)  # warms up
    print("factors, case, seconds of fast and reference, ratio, D C I of the reference, ΔD ΔC ΔI")
    for kind in options.kinds:
        compare(kind, options)


if __name__ == "__main__":
    main()
