"""ICA: seconds, Amari distance and passes over the rows, beside FastICA of scikit-learn, fastica_torch and picard.

Run: ``python benchmarks/ica.py [--sizes 10000x40 50000x40 50000x100 50000x128] [--sources laplace mixed] [--rounds 5]``
or, on a GPU, ``python benchmarks/ica.py --device cuda --sizes 222000x384 2000000x512 --sources laplace``.
One thread, contestants alternating in one process on the same float64 table, each at the tolerance it comes with
(1e-4 on 1 − |cos| for the FastICAs, 1e-7 on the gradient for picard, which is also given 1e-4). Peers that are not
installed are left out (``pip install python-picard fastica_torch``). The limit is what the passes that were taken cost
in multiplications alone, at the speed of a large product of the same kind measured here. On a GPU, a table there of
float32; nothing is copied to it, and fastica_torch runs beside.
"""

import argparse
import time
import warnings

import numpy as np
import torch

from noumena.estimators.ica.ica import ICA
from noumena.metrics.mixings import amari_distance


def table(rows, columns, kind, seed, device="cpu"):
    """Mixed sources (rows, columns) and the mixing; mixed sources alternate between Laplace and uniform."""
    make = torch.Generator(device).manual_seed(seed)
    u = torch.rand(rows, columns, generator=make, device=device, dtype=torch.float32) - 0.5
    s = -u.sign() * torch.log1p(-2 * u.abs().clamp_max(0.4999999))
    if kind == "mixed":
        s[:, ::2] = u[:, ::2]
    A = torch.randn(columns, columns, generator=make, device=device)
    return s @ A.T, s, A


def sklearn_with(solver):
    from sklearn.decomposition import FastICA

    return lambda x: FastICA(whiten_solver=solver, random_state=0, max_iter=500).fit(x).components_


def contestants(device):
    found = {"noumena": lambda x: ICA().fit(x)}
    if device == "cpu":
        found["scikit-learn"] = sklearn_with("svd")
        found["scikit-learn, eigh"] = sklearn_with("eigh")
    try:
        from fastica_torch import FastICA

        found["fastica_torch, eigh"] = lambda x: FastICA(whiten_solver="eigh", random_state=0, max_iter=500).fit(
            torch.as_tensor(x).float()
        )
    except ImportError:
        print("fastica_torch is not installed")
    try:
        from picard import Picard

        if device == "cpu":
            found["picard"] = lambda x: Picard(random_state=0).fit(x).components_
            found["picard, 1e-4"] = lambda x: Picard(random_state=0, tol=1e-4).fit(x).components_
    except ImportError:
        print("picard is not installed")
    return found


def unmixing(result):
    result = getattr(result, "components_", result)
    return result.detach().cpu().double().numpy() if isinstance(result, torch.Tensor) else np.asarray(result)


def timed(fit, x):
    if isinstance(x, torch.Tensor) and x.is_cuda:
        torch.cuda.synchronize()
    start = time.perf_counter()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        result = fit(x)
    if isinstance(x, torch.Tensor) and x.is_cuda:
        torch.cuda.synchronize()
    return time.perf_counter() - start, result, bool(caught)


def limit(model, x, device):
    """Seconds that the products of the steps alone take, 4·rows·components² operations a pass, in float32."""
    a = torch.randn(4096, x.shape[1], device=device)
    b = torch.randn(x.shape[1], x.shape[1], device=device)
    repeats = 50 if device == "cpu" else 2000
    for _ in range(3):
        a @ b
    if device != "cpu":
        torch.cuda.synchronize()
    start = time.perf_counter()
    for _ in range(repeats):
        a @ b
    if device != "cpu":
        torch.cuda.synchronize()
    speed = repeats * 2 * a.numel() * x.shape[1] / (time.perf_counter() - start)
    return 4 * x.shape[0] * x.shape[1] ** 2 * model.passes_ / speed


def mcc(x, s, model):
    """Mean of the matched absolute correlations with the true sources, where the table lies."""
    from scipy.optimize import linear_sum_assignment

    y = (x - torch.as_tensor(model.mean_).to(x)) @ torch.as_tensor(model.components_).to(x).T
    y, s = (y - y.mean(0)) / y.std(0), (s - s.mean(0)) / s.std(0)
    size = (y.T @ s / len(y)).abs().cpu().numpy()
    return float(size[linear_sum_assignment(-size)].mean())


def compare(size, kind, options):
    rows, columns = (int(part) for part in size.split("x"))
    seconds, scores, warned = {}, {}, {}
    names = contestants(options.device)
    for number in range(options.rounds):
        x, s, A = table(rows, columns, kind, number, options.device)
        given = x if options.device != "cpu" else x.double().numpy()
        for name, fit in names.items():
            spent, result, complained = timed(fit, given)
            seconds.setdefault(name, []).append(spent)
            scores.setdefault(name, []).append(amari_distance(unmixing(result), A.cpu().double().numpy()).score)
            warned[name] = warned.get(name, 0) + complained
            if name == "noumena":
                model = result
    least = limit(model, x, options.device)
    print(f"{size} {kind}: {model.n_iter_} steps, {model.passes_:.1f} passes, limit {least:.3f} s")
    if options.device != "cpu":
        memory = torch.cuda.max_memory_allocated() / 2**30
        print(f"  MCC {mcc(x, s, model):.5f}, at rest {model.converged_}, memory {memory:.1f} GiB")
    base = np.median(seconds["noumena"])
    for name in names:
        t, q = np.array(seconds[name]), np.array(scores[name])
        ratio = f"{np.median(t) / base:6.1f}×" if name != "noumena" else "      "
        print(
            f"  {name:20s} {np.median(t):8.3f} s ({t.min():.3f}–{t.max():.3f}) {ratio}  Amari {np.median(q):.5f} "
            f"({np.median(q / np.array(scores['noumena'])):.3f} of ours)  complained {warned[name]} of {len(t)}",
            flush=True,
        )


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sizes", nargs="+", default=["10000x40", "50000x40", "50000x100", "50000x128"])
    parser.add_argument("--sources", nargs="+", default=["laplace", "mixed"])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--device", default="cpu")
    options = parser.parse_args()
    if options.device == "cpu":
        torch.set_num_threads(1)
    else:
        print(torch.cuda.get_device_name())
    ICA().fit(table(2000, 8, "laplace", 0, options.device)[0])  # warms up
    for size in options.sizes:
        for kind in options.sources:
            compare(size, kind, options)


if __name__ == "__main__":
    main()
