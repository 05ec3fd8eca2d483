"""Kernel R²: seconds, CPU seconds, memory and score, exact and by landmarks, beside scikit-learn's KernelRidge.

Run: ``OMP_NUM_THREADS=1 python benchmarks/kernel_r2.py [--sizes 10000x10 100000x10] [--rounds 1] [--without-sklearn]``.
One thread, contestants alternating in one process on the same float64 tables: a smooth function of Gaussian latents
with noise, four fifths of the rows fitted. Ours includes five copies of shuffled targets for the level of chance.
Sizes beyond the exact rows are fitted by landmarks; there only ours runs. With ``--landmarks`` the exact score
is compared with that of several numbers of landmarks. Memory is what the process has held at most, in the
order of the lines: scikit-learn comes last.
"""

import argparse
import resource
import time

import numpy as np

from noumena.metrics.kernels import MOST_EXACT, kernel_ridge
from noumena.metrics.regression import r2, split


def tables(rows, columns, seed):
    rng = np.random.default_rng(seed)
    z = rng.normal(size=(rows, columns))
    A, B = rng.normal(size=(2, columns, columns)) / np.sqrt(columns)
    return z, np.tanh(z @ A) + 0.5 * z @ B + 0.05 * rng.normal(size=z.shape)


def sklearn_r2(z, z_hat):
    """The same regression: standardised, γ = 1/d, α = 1, the same rows."""
    from sklearn.kernel_ridge import KernelRidge
    from sklearn.metrics import r2_score
    from sklearn.preprocessing import StandardScaler

    fit, judge = split(len(z), True, 0, "rows of r2")
    inputs, outputs = StandardScaler().fit(z_hat[fit]), StandardScaler().fit(z[fit])
    ridge = KernelRidge(alpha=1, kernel="rbf", gamma=1 / z_hat.shape[1])
    ridge.fit(inputs.transform(z_hat[fit]), outputs.transform(z[fit]))
    return r2_score(z[judge], outputs.inverse_transform(ridge.predict(inputs.transform(z_hat[judge]))))


def timed(name, function, *given):
    start, spent = time.perf_counter(), time.process_time()
    result = function(*given)
    wall, cpu = time.perf_counter() - start, time.process_time() - spent
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(f"  {name:26s} {wall:7.1f} s, CPU {cpu:7.1f} s, at most {memory:.2f} GiB so far  ", end="")
    return result


def compare(size, options):
    rows, columns = (int(part) for part in size.split("x"))
    z, z_hat = tables(rows, columns, 0)
    print(f"{size}:")
    for _ in range(options.rounds):
        found = timed("noumena", lambda: r2(z, z_hat, regressor="kernel"))
        print(f"R² {found.score:.5f} (chance {found.chance:.3f}), {found.method}", flush=True)
        if rows * 0.8 <= MOST_EXACT and not options.without_sklearn:
            print(f"R² {timed('scikit-learn', sklearn_r2, z, z_hat):.5f}", flush=True)


def landmarks(size):
    rows, columns = (int(part) for part in size.split("x"))
    z, z_hat = tables(rows, columns, 0)
    fit, judge = split(rows, True, 0, "rows of r2")
    print(f"{size}:")

    def score(**settings):
        predicted = kernel_ridge(z_hat[fit], z[fit], **settings)(z_hat[judge])
        return 1 - ((predicted - z[judge]) ** 2).mean(axis=0) / z[judge].var(axis=0)

    exact = timed("exact", lambda: score(most_exact=rows))
    print(f"R² {exact.mean():.5f}")
    for m in (500, 1000, 2000, 3000, 4000):
        near = timed(f"{m} landmarks", lambda m=m: score(most_exact=0, landmarks=m))
        print(
            f"R² {near.mean():.5f}, off by {near.mean() - exact.mean():+.5f}, at most {np.abs(near - exact).max():.5f}"
        )


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sizes", nargs="+", default=["10000x10", "100000x10"])
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--without-sklearn", action="store_true")
    parser.add_argument("--landmarks", action="store_true")
    options = parser.parse_args()
    for size in options.sizes:
        if options.landmarks:
            landmarks(size)
        else:
            compare(size, options)


if __name__ == "__main__":
    main()
