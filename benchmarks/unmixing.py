"""Affine sparse unmixing: seconds and MCC of SparseComponents for growing n, beside the published constrained solver.

Run: ``python benchmarks/unmixing.py [--sizes 5 10 20 40 50 100] [--peer 10] [--most 1800] [--device cpu]``.
Exactly affine codes of the published worlds (ER-1, half of the latents active), 20 000 rows, one core. The peer is run
on the same codes until it reaches the MCC of ours (less one thousandth) or ``--most`` seconds have passed; it looks at
the truth for this clock only. Its layers are multiplied out, which makes it some thirty times faster than as published.
"""

import argparse
import time
from contextlib import suppress

import numpy as np
import torch

import noumena as nm
from noumena.estimators import ConstrainedComponents, SparseComponents
from noumena.metrics import mcc

ROWS = 20_000


class Reached(Exception):
    """The peer is as good as ours, or out of time."""


def codes(n, seed):
    world = nm.worlds.degenerate(n, edges=1, active="half", layers=3, mixing="affine", random_state=seed)
    sample = world.sample(ROWS)
    return sample.x @ np.random.default_rng(seed).normal(size=(n, n)), sample.z


def ours(x, z, seed, device):
    start = time.perf_counter()
    model = SparseComponents(random_state=seed, device=device).fit(x)
    return time.perf_counter() - start, mcc(z, model.transform(x)).score


def peer(x, z, seed, goal, most):
    """Seconds until the goal, the best MCC on the way, and the steps taken."""
    start, best, steps = time.perf_counter(), 0.0, 0

    def look(step, transform):
        nonlocal best, steps
        steps = step
        if step % 250 == 0:
            best = max(best, mcc(z, transform(x)).score)
            if best >= goal or time.perf_counter() - start > most:
                raise Reached

    with suppress(Reached):
        ConstrainedComponents(random_state=seed, callback=look, steps=10_000_000).fit(x)
    return time.perf_counter() - start, best, steps


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sizes", type=int, nargs="+", default=[5, 10, 20, 40, 50, 100])
    parser.add_argument(
        "--peer", type=int, nargs="*", default=[10], help="sizes at which the published solver runs too"
    )
    parser.add_argument("--most", type=float, default=1800, help="seconds that the published solver may take")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--device", default="cpu")
    options = parser.parse_args()
    if options.device == "cpu":
        torch.set_num_threads(1)
    ours(*codes(5, 0), 0, options.device)  # warms up
    medians = []
    for n in options.sizes:
        found = [ours(*codes(n, seed), seed, options.device) for seed in range(options.seeds)]
        times, scores = np.array(found).T
        medians.append(np.median(times))
        print(
            f"n {n:4d}  {medians[-1]:7.2f} s ({times.min():.2f}–{times.max():.2f})  MCC {scores.min():.4f} at least",
            flush=True,
        )
        if n in options.peer:
            x, z = codes(n, 0)
            spent, best, steps = peer(x, z, 0, scores[0] - 1e-3, options.most)
            reached = "reached it" if best >= scores[0] - 1e-3 else f"had reached {best:.4f}"
            print(
                f"        the published solver {reached} after {spent:.0f} s, {steps} steps: {spent / times[0]:.0f}×",
                flush=True,
            )
    if len(medians) > 1:
        slope = np.polyfit(np.log(options.sizes), np.log(medians), 1)[0]
        print(f"seconds grow like n^{slope:.2f}")


if __name__ == "__main__":
    main()
