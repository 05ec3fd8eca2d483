"""Latents of every estimator after a few steps, as numbers and as digests: two versions of the library side by side.

    python benchmarks/latents.py before.npz
    python benchmarks/latents.py after.npz --against before.npz

One thread, fixed seeds, small tables. A digest is the first digits of the SHA-256 of the latents in float64; with
``--against`` each line also says whether they are equal to the last digit, or how far apart.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import torch

import noumena as nm
from noumena import estimators
from noumena.estimators import images
from noumena.nets.conv import ConvEncoder
from noumena.nets.residual import ResidualEncoder

QUICK = nm.Training(steps=40, batch_size=32)
RNG = np.random.default_rng(0)
TABLE = RNG.normal(size=(120, 2)) @ RNG.normal(size=(2, 4)) + 0.1 * RNG.normal(size=(120, 4))
PIXELS = 1 / (1 + np.exp(-TABLE))
SPARSE = (RNG.normal(size=(600, 3)) * (RNG.random((600, 3)) < 0.5)) @ RNG.normal(size=(3, 3))
LABELS = (TABLE[:, 0] > 0).astype(int)
IMAGES = RNG.random((40, 16)).astype(np.float32)
LARGER = RNG.random((24, 256)).astype(np.float32)
PENALTY = 0.05 * nm.DependencySparsity()
SMALL: Any = {"training": QUICK, "random_state": 0}


def disco() -> Any:
    """A DisCo of two steps."""
    parts = {
        "generator": images.StyleGenerator(1, 4, widths=(4,), style=5, depth=1),
        "discriminator": images.StyleDiscriminator(1, 4, widths=(4,)),
        "encoder": ConvEncoder(1, 4, widths=(4,), hidden=6, slope=0.2),
    }
    first = nm.Training(steps=2, batch_size=8)
    return nm.DisCo(3, noise=4, queries=4, generator_training=first, training=first, random_state=0, **parts)


def enc_diff() -> Any:
    """An EncDiff of three steps."""
    parts = {
        "autoencoder": images.VectorQuantised(1, 16, widths=(4, 4), blocks=1, depth=2, codes=8),
        "encoder": ResidualEncoder(1, 16, widths=(4, 4), blocks=1),
        "unet": images.UNet(2, 4, widths=(4, 8), heads=2, context=4),
    }
    plan = nm.Training(steps=3, batch_size=8, learning_rate=1e-3)
    return nm.EncDiff(3, first=plan, sampling=3, training=plan, random_state=0, **parts)


MODELS: dict[str, tuple[Callable[[], Any], np.ndarray]] = {
    "Autoencoder": (lambda: nm.Autoencoder(2, penalty=PENALTY, normalise=True, **SMALL), TABLE),
    "VAE": (lambda: nm.VAE(2, **SMALL), TABLE),
    "VAE, penalty, two seeds": (lambda: nm.VAE(2, penalty=PENALTY, n_models=2, **SMALL), TABLE),
    "VAE, Bernoulli": (lambda: nm.VAE(2, likelihood="bernoulli", standardise=False, **SMALL), PIXELS),
    "BetaVAE": (lambda: nm.BetaVAE(2, **SMALL), TABLE),
    "BetaTCVAE": (lambda: nm.BetaTCVAE(2, **SMALL), TABLE),
    "FactorVAE": (lambda: nm.FactorVAE(2, discriminator=nm.MLP((16,)), **SMALL), TABLE),
    "BioAE": (lambda: nm.BioAE(2, **SMALL), TABLE),
    "QLAE": (lambda: nm.QLAE(2, **SMALL), TABLE),
    "Flow": (lambda: nm.Flow(**SMALL), TABLE),
    "SlotAutoencoder": (lambda: nm.SlotAutoencoder(2, 1, **SMALL), TABLE),
    "iVAE": (lambda: nm.iVAE(2, **SMALL), TABLE),
    "VaDE": (lambda: nm.VaDE(2, 2, pretraining=10, **SMALL), TABLE),
    "VaDE, Bernoulli": (
        lambda: nm.VaDE(2, 2, pretraining=10, likelihood="bernoulli", standardise=False, **SMALL),
        PIXELS,
    ),
    "MFCVAE": (lambda: nm.MFCVAE(((1, 2), (1, 3)), pretraining=10, **SMALL), TABLE),
    "ICA": (lambda: nm.ICA(2, n_restarts=2, max_iter=2000), TABLE),
    "SparseComponents": (nm.SparseComponents, SPARSE),
    "DegenerateMixture": (lambda: nm.DegenerateMixture(stage1="identity"), SPARSE),
    "SparseFlow": (lambda: nm.SparseFlow(depth=1, training=nm.Training(steps=40, batch_size=64)), SPARSE),
    "ConstrainedComponents": (
        lambda: estimators.ConstrainedComponents(2, steps=20, batch_size=64, layers=(1,)),
        SPARSE,
    ),
    "DegenerateGaussians": (lambda: nm.DegenerateGaussians(2, n_restarts=2), SPARSE),
    "DisCo": (disco, IMAGES),
    "EncDiff": (enc_diff, LARGER),
}


def latents(name: str) -> np.ndarray:
    """The latents of a model of this list, in float64."""
    make, x = MODELS[name]
    torch.manual_seed(0)
    model = make().fit(x, LABELS) if name == "iVAE" else make().fit(x)
    found = model.transform(x) if hasattr(model, "transform") else model.predict_proba(x)
    return np.ascontiguousarray(found, dtype=np.float64)


def compared(found: np.ndarray, before: np.ndarray) -> str:
    """How far two tables of latents are apart."""
    if found.shape != before.shape:
        return f"shapes {before.shape} and {found.shape}"
    return "equal" if np.array_equal(found, before) else f"apart by {np.abs(found - before).max():.3g}"


def main() -> None:
    """Fit all, print their digests, write their latents."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--against", type=Path)
    given = parser.parse_args()
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    before = {} if given.against is None else dict(np.load(given.against))
    found = {}
    for name in MODELS:
        found[name] = latents(name)
        digest = hashlib.sha256(found[name].tobytes()).hexdigest()[:16]
        print(f"{name:26} {digest}", compared(found[name], before[name]) if name in before else "", flush=True)
    np.savez(given.out, **found)


if __name__ == "__main__":
    main()
