"""Sketched dependency sparsity against the exact one: what training with it reaches, by the same exact measures.

Two small cases, three seeds each in one program: a VAE on a table of known structure, and a FactorVAE on pictures of
8 × 8 pixels whose four factors light up overlapping parts. Every row is one way of taking the penalty at the same
weight; beside the MCC stand the *exact* penalty of the decoder that was reached, at 512 fresh points, and the squared
error there, in the units that networks see; means and deviations over seeds. The milliseconds are those of a step of
all three seeds.

    python benchmarks/sketch_quality.py > results/benchmarks/sketch_quality.txt
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import numpy as np
import torch

from noumena import VAE, DependencySparsity, FactorVAE, Structure, Training
from noumena.metrics import mcc
from noumena.nets import MLP, ConvDecoder, ConvEncoder
from noumena.penalties import Penalty
from noumena.worlds import structured

ROWS, FRESH, SEEDS, SIDE = 4000, 512, 3, 8
EXACT = DependencySparsity()
SUPPORT = [
    [1, 0, 0, 0], [0, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1], [1, 1, 0, 0], [0, 1, 1, 0], [0, 0, 1, 1], [1, 0, 0, 1],
    [1, 0, 1, 0], [0, 1, 0, 1],
]  # fmt: skip


def table() -> tuple[np.ndarray, np.ndarray]:
    """Rows of a world of ten observations of four latents, and the latents."""
    found = structured(Structure(SUPPORT), strength=0.3, random_state=0).sample(ROWS + FRESH, random_state=0)
    return found.x, found.z


def pictures() -> tuple[np.ndarray, np.ndarray]:
    """Bytes of pictures with four soft lights of changing brightness that overlap, and the brightnesses."""
    z = np.random.default_rng(0).uniform(size=(ROWS + FRESH, 4))
    line = np.arange(SIDE)
    centres = [(2, 2), (2, 5), (5, 2), (5, 5)]
    far = np.array([np.hypot(line[:, None] - i, line[None] - j) for i, j in centres])
    lights = np.clip(1.6 - far / 2, 0, 1).reshape(4, -1)
    return np.rint(255 * (1 - np.exp(-(z @ lights)))).astype(np.uint8), z


def models(penalty: Penalty | None, steps: int, *, images: bool) -> Any:
    """Three seeds with one way of taking the penalty."""
    how: dict[str, Any] = {"penalty": penalty, "n_models": SEEDS, "random_state": 0}
    if not images:
        net = MLP(hidden=(32, 32))
        return VAE(4, encoder=net, decoder=net, training=Training(steps=steps, batch_size=64), **how)
    shape: dict[str, Any] = {"channels": 1, "size": SIDE, "widths": (8, 16), "hidden": 32}
    nets = {"encoder": ConvEncoder(**shape), "decoder": ConvDecoder(**shape), "discriminator": MLP(hidden=(32, 32))}
    plan = Training(steps=steps, batch_size=64, learning_rate=3e-3)
    return FactorVAE(4, gamma=0.1, beta=0.01, standardise=False, training=plan, **nets, **how)


def measured(model: Any, x: np.ndarray, z: np.ndarray) -> np.ndarray:
    """MCC, exact penalty and squared error of every seed on fresh rows, (seed, 3)."""
    found = []
    for codec, codes in zip(model.models_, model.transform_all(x), strict=True):
        points = torch.as_tensor(codes).to(codec.mean)
        with torch.no_grad():
            penalty = float(EXACT(codec.decoder, points))
            error = (codec.decode(points) - torch.as_tensor(x).to(points)) / codec.scale
        found.append((mcc(z, codes).score, penalty, float(error.square().sum(dim=1).mean())))
    return np.array(found)


def compare(title: str, x: np.ndarray, z: np.ndarray, weight: float, steps: int, ways: dict[str, Any]) -> None:
    """One case: a line for every way."""
    print(f"{title}; {weight:g} × dependency sparsity, {steps} steps of 64 rows, {SEEDS} seeds")
    print(f"{'':22s} {'MCC':>14s} {'exact penalty':>17s} {'squared error':>17s} {'ms a step':>10s}")
    for name, way in ways.items():
        model = models(None if way is None else weight * way, steps, images=x.dtype == np.uint8)
        start = time.perf_counter()
        model.fit(x[:ROWS])
        each = (time.perf_counter() - start) / steps * 1e3
        seen = measured(model, x[ROWS:], z[ROWS:])
        (score, penalty, error), (a, b, c) = seen.mean(axis=0), seen.std(axis=0, ddof=1)
        print(
            f"{name:22s} {score:7.3f} ± {a:.3f} {penalty:9.2f} ± {b:5.2f} {error:9.4f} ± {c:.4f} {each:10.1f}",
            flush=True,
        )


def main() -> None:
    """Both cases."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--steps", type=int, nargs=2, default=(1500, 1500), help="of the table and of the pictures")
    options = parser.parse_args()
    few = {
        "none": None,
        "exact": EXACT,
        "points=16": DependencySparsity(points=16),
        "points=4": DependencySparsity(points=4),
        "points=1": DependencySparsity(points=1),
        "columns=2": DependencySparsity(columns=2),
    }
    compare(
        "A table of 10 observations", *table(), 0.05, options.steps[0], few | {"rows=3": DependencySparsity(rows=3)}
    )
    print()
    more = {"rows=8": DependencySparsity(rows=8), "points=4, columns=2": DependencySparsity(points=4, columns=2)}
    compare("Pictures of 8 × 8 pixels", *pictures(), 0.01, options.steps[1], few | more)


if __name__ == "__main__":
    main()
