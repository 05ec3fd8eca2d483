"""Eight seeds in one program against eight fits one after the other, on one thread.

Contestants alternate in one process; medians over rounds, with the range. The peer is a plain PyTorch loop over the
same modules, rows and draws, one seed at a time, without ``vmap``. Also prints the largest difference in final
parameters between the batched fit and the eight separate ones. Run: ``python benchmarks/many_seeds.py [rounds]
[steps]``.
"""

import sys
import time
import warnings
from statistics import median

import numpy as np
import torch

import noumena as nm
from noumena.estimators.loop import one_cycle

K = 8
BIAS = 0.05 * nm.DependencySparsity()


def data():
    structure = nm.worlds.family("random", 5, 20, gap=3, random_state=0)
    return nm.worlds.structured(structure, random_state=0).sample(10_000).x


def estimator(penalty, batch_size, steps, dtype="float32", *, n_models, seed=0):
    training = nm.Training(steps=steps, batch_size=batch_size, dtype=dtype)
    return nm.VAE(5, penalty=penalty, n_models=n_models, random_state=seed, training=training)


def together(x, *settings):
    return estimator(*settings, n_models=K).fit(x).models_


def sequential(x, *settings):
    return [estimator(*settings, n_models=1, seed=k).fit(x).models_[0] for k in range(K)]


def plain_torch(x, penalty, batch_size, steps):
    """What a user writes: one module, one optimiser, one loop per seed."""
    rows = torch.as_tensor((x - x.mean(axis=0)) / x.std(axis=0), dtype=torch.float32)
    blank = estimator(penalty, batch_size, steps, n_models=1)
    models = [blank._model(k, x.shape[1], torch.zeros(x.shape[1]), torch.ones(x.shape[1])) for k in range(K)]
    for k, model in enumerate(models):
        generator = torch.Generator().manual_seed(k)
        optimizer = torch.optim.Adam(model.parameters(), lr=0.01, fused=True)
        for step in range(steps):
            for group in optimizer.param_groups:
                group["lr"] = 0.01 * one_cycle(step / steps)
            batch = rows[torch.randint(len(rows), (batch_size,), generator=generator)]
            optimizer.zero_grad()
            model(batch, model.draws(batch_size, generator), step / steps)[0].backward()
            optimizer.step()
    return models


def seconds(contestant, *settings):
    start = time.perf_counter()
    models = contestant(*settings)
    return time.perf_counter() - start, models


def largest_difference(a, b):
    pairs = zip(a, b, strict=True)
    return max(
        float((p - q).abs().max()) for m, n in pairs for p, q in zip(m.parameters(), n.parameters(), strict=True)
    )


def main(rounds=5, steps=150):
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    x = data()
    print(f"{K} seeds, 5 latents, 20 observations, {steps} steps, one thread, median of {rounds} (range), ms per step")
    for penalty in (None, BIAS):
        for batch_size in (64, 256):
            times = {f: [] for f in (together, sequential, plain_torch)}
            for _ in range(rounds):
                found = {}
                for contestant in times:
                    spent, found[contestant] = seconds(contestant, x, penalty, batch_size, steps)
                    times[contestant].append(1000 * spent / steps)
            line = "  ".join(f"{f.__name__} {median(t):.1f} ({min(t):.1f}–{max(t):.1f})" for f, t in times.items())
            ratio = {f: np.median(np.array(times[f]) / np.array(times[together])) for f in (sequential, plain_torch)}
            print(
                f"batch {batch_size:3d} {'with' if penalty else 'without':7s} penalty  {line}  "
                f"ratio {ratio[sequential]:.2f}× / {ratio[plain_torch]:.2f}×  "
                f"largest parameter difference {largest_difference(found[together], found[sequential]):.1e}"
            )

    exact = (BIAS, 256, steps, "float64")
    difference = largest_difference(together(x, *exact), sequential(x, *exact))
    print(f"largest parameter difference in double precision, batch 256 with penalty: {difference:.1e}")


if __name__ == "__main__":
    main(*(int(a) for a in sys.argv[1:]))
