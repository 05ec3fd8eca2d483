"""Seeds per second of one program: K seeds of a VAE with dependency sparsity (5 latents, 20 observations), or one.

Run: ``python benchmarks/throughput.py [--device cuda] [--steps 200] [--rounds 5]``. Contestants alternate; the time of
a fit of a tenth of the steps is taken off, so that set-up does not count.
"""

import argparse
import time
import warnings
from statistics import median

import torch

import noumena as nm

SEEDS = (1, 8, 32, 128)
BIAS = 0.05 * nm.DependencySparsity()


def seconds(x, n_models, steps, device):
    training = nm.Training(steps=steps, device=device)
    start = time.perf_counter()
    nm.VAE(5, penalty=BIAS, n_models=n_models, random_state=0, training=training).fit(x)
    return time.perf_counter() - start


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    if options.device == "cpu":
        torch.set_num_threads(1)
    x = nm.worlds.structured(nm.worlds.family("random", 5, 20, gap=3, random_state=0), random_state=0).sample(10_000).x
    short, times = options.steps // 10, {k: [] for k in SEEDS}
    for _ in range(options.rounds + 1):
        for k in SEEDS:
            spent = seconds(x, k, options.steps, options.device) - seconds(x, k, short, options.device)
            times[k].append(1000 * spent / (options.steps - short))
    for k, found in times.items():
        ms, one = median(found[1:]), median(times[1][1:])  # the first round warms up
        print(f"{k:4d} seeds  {ms:7.2f} ms per step ({min(found[1:]):.2f}–{max(found[1:]):.2f})  {k * one / ms:6.1f}×")


if __name__ == "__main__":
    main()
