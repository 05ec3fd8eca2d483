"""Images for diverse dictionary learning: data, models and scores that tables 1, 6 and 7 share.

Three families learn from images, each alone, with latent sparsity and with dependency sparsity: FactorVAE (a VAE),
EncDiff (diffusion) and DisCo (a GAN). They are scored on images that none was trained on, by the FactorVAE score and
DCI disentanglement, beside three trivial readouts: the pixels at 4 × 4, principal components, and their ICA.

Reference: Zheng et al. (2026), section 4.2 and C.2. **Deviations**: other data, for the published files (Shapes3D,
Cars3D, MPI3D) are not here: *rooms*, rendered by this library with the factors of Shapes3D; real dSprites, a complete
sub-grid of it; and real Sprites. A minute of training in place of hours, at the steps below: that is enough for
FactorVAE, short for EncDiff, and hardly a beginning for DisCo. The paper does not give weights of penalties or where
they attach in EncDiff and DisCo; the estimators' own pages say where they attach here, and a weight is chosen without
labels: down a ladder of a few, the first that adds at most a tenth to what is lost on held-out images (FactorVAE: the
share of variance not reconstructed; EncDiff: the error of the noise; DisCo: the contrast), or the last. FactorVAE goes
down the ladder on every data set; EncDiff and DisCo on rooms, and the other data sets have the weight found there.
Dependencies are counted by L1, as published, at a few points of every batch.

Training wants a GPU; scoring wants lightgbm. Codes of held-out images are therefore kept in a folder, one file a cell,
and a cell whose file is there is scored from it: where lightgbm is missing a cell fails after its training, and is
scored by running it again elsewhere.
"""

from __future__ import annotations

import os
import time
from math import prod
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from noumena import checks, seeds
from noumena.data import benchmarks
from noumena.estimators.base import Estimator
from noumena.estimators.factor_vae import FactorVAE
from noumena.estimators.ica.ica import ICA
from noumena.estimators.images.disco import DisCo
from noumena.estimators.images.enc_diff import EncDiff
from noumena.estimators.images.style_networks import StyleDiscriminator, StyleGenerator
from noumena.estimators.loop import Training
from noumena.estimators.sources import stretches
from noumena.metrics import dci, factor_vae_score
from noumena.nets.conv import ConvDecoder, ConvEncoder
from noumena.penalties import DependencySparsity, HessianPenalty, LatentSparsity, OroJaR, Penalty
from noumena.studies.rows import Row
from noumena.worlds.rooms import Rooms

FILES = {"dSprites": "NOUMENA_DSPRITES", "Sprites": "NOUMENA_SPRITES"}
DATA = ("rooms", *FILES)
METHODS = ("FactorVAE", "EncDiff", "DisCo")
BASELINES = ("pixels", "PCA", "PCA + ICA")
PENALTIES = ("none", "latent", "dependency", "OroJaR", "Hessian")
ROOMS, EVALUATED, HELD_OUT = 60_000, 10_000, 0.2
"""Images drawn of the grid of rooms; how many are kept to be evaluated on, at most, and as which share."""
LEARNED = 5_000
"""Images that principal components are found in."""
RUNS = 3
LATENTS = {"FactorVAE": 10, "EncDiff": 20, "DisCo": 64}
STEPS = {"FactorVAE": 6000, "EncDiff": 800, "DisCo": 300}
FIRST = {"EncDiff": 600, "DisCo": 700}
"""Steps of the first stage: the autoencoder of EncDiff, the generator of DisCo."""
BATCH = {"FactorVAE": 128, "EncDiff": 128, "DisCo": 32}
RATE = {"FactorVAE": 1e-3, "EncDiff": 5e-4, "DisCo": 5e-4}
FIRST_BATCH = {"EncDiff": 128, "DisCo": 64}
FIRST_RATE = {"EncDiff": 1e-3, "DisCo": 2e-3}
GAMMA = 10.0
STYLES = (128, 128, 64, 32, 16)
"""Widths of DisCo's generator, from the smallest image on."""
POINTS = {"FactorVAE": 4, "EncDiff": 2, "DisCo": 1}
"""Rows of a batch at which the Jacobian of an image is taken, by as many derivatives as there are latents."""
LADDERS: dict[str, dict[str, tuple[float, ...]]] = {
    "FactorVAE": {
        "latent": (100.0, 30.0, 10.0), "dependency": (0.1, 0.03, 0.01), "OroJaR": (1e-4, 3e-5), "Hessian": (0.03, 0.01),
    },
    "EncDiff": {"latent": (30.0, 3.0), "dependency": (0.01, 0.001)},
    "DisCo": {"latent": (1.0, 0.1), "dependency": (1e-5, 1e-6)},
}  # fmt: skip
"""Weights to be tried, the largest first."""
LOST = {"FactorVAE": "unexplained", "EncDiff": "held-out noise error", "DisCo": "held-out contrast"}
"""What says, without labels, how much a bias costs; by more than ``BOUND`` is too much."""
BOUND = 1.1


class Split(NamedTuple):
    """Flat images, as bytes, to train on and to evaluate on, the factors of the latter, and an image's shape."""

    train: np.ndarray
    test: np.ndarray
    factors: np.ndarray
    shape: tuple[int, int, int]


class Codes(NamedTuple):
    """What a cell leaves: latents of the held-out images, (model, image, latent), and facts about the training."""

    codes: np.ndarray
    facts: dict[str, list[float]]


# ---- data ----------------------------------------------------------------------------------------------------------


class Drawn(NamedTuple):
    """Pictures of a data set in the order of the split, the first ``held`` of which are evaluated on."""

    source: Any
    order: np.ndarray
    factors: np.ndarray
    held: int

    def pictures(self, some: slice) -> np.ndarray:
        """Flat images, as bytes, of a stretch of the order."""
        places, width = self.order[some], prod(self.source.shape)
        parts = [self.source.pictures(places[few]) for few in stretches(len(places), width)]
        return np.concatenate([torch.as_tensor(part).cpu().numpy() for part in parts])


def drawn(data: str, *, size: int = 64, files: dict[str, Any] | None = None, device: str = "cpu") -> Drawn:
    """The pictures of a data set and the factors behind them, the same split every time; nothing is read yet."""
    checks.one_of(data, "data", DATA)
    rng = seeds.numpy_generator(0, "images to evaluate on", data)
    if data == "rooms":
        source: Any = Rooms(size, device)
        order = rng.choice(len(source), ROOMS, replace=False)
        factors = source.levels(order)
    else:
        source = getattr(benchmarks, data.lower())(named(data, (files or {}).get(data)))
        must = f"Images of {data} must be of {source.shape[1]} pixels."
        checks.require(size == source.shape[1], must, f"{size}")
        order = rng.permutation(len(source))
        factors = source.factors[order]
    return Drawn(source, order, factors.astype(np.float64), min(EVALUATED, round(HELD_OUT * len(order))))


def split(data: str, **how: Any) -> Split:
    """The images of a data set, to train on and to evaluate on."""
    found = drawn(data, **how)
    train, test = found.pictures(slice(found.held, None)), found.pictures(slice(0, found.held))
    return Split(train, test, found.factors[: found.held], found.source.shape)


def named(data: str, path: str | Path | None = None) -> Path:
    """The file of a data set: the one given, or the one the environment names."""
    given = path if path is not None else os.environ.get(FILES[data])
    must = f"{data} must be named by the variable {FILES[data]}."
    checks.require(given is not None, must, "nothing")
    checks.require(Path(str(given)).is_file(), f"The file of {data} must exist.", Path(str(given)).name)
    return Path(str(given))


# ---- models --------------------------------------------------------------------------------------------------------


def penalty(name: str, weight: float, points: int = POINTS["FactorVAE"]) -> Penalty | None:
    """A penalty by its name in the tables; dependencies by L1, as published, from the start of a fit."""
    if name == "none":
        return None
    kinds: dict[str, Penalty] = {
        "latent": LatentSparsity(),
        "dependency": DependencySparsity("l1", ramp=0.0, points=points),
        "OroJaR": OroJaR(),
        "Hessian": HessianPenalty(),
    }
    return weight * kinds[checks.one_of(name, "penalty", tuple(kinds))]


def model(
    method: str, bias: str, shape: tuple[int, int, int], *, weight: float = 0.0, share: float = 1.0,
    runs: int = RUNS, device: str = "auto", kept: Path | None = None,
) -> Estimator:  # fmt: skip
    """The estimator of a cell; ``share`` shortens all trainings, ``kept`` is where first stages are shared."""
    checks.one_of(method, "method", METHODS)
    channels, size, _ = shape
    plan = Training(
        steps=max(1, round(share * STEPS[method])), batch_size=BATCH[method], learning_rate=RATE[method],
        device=device, precision="bfloat16", clip=None if method == "FactorVAE" else 1.0,
    )  # fmt: skip
    common: dict[str, Any] = {
        "penalty": penalty(bias, weight, POINTS[method]), "standardise": False, "n_models": runs, "random_state": 0
    }  # fmt: skip
    if method == "FactorVAE":
        widths = (32, 32, 64, 64) if size <= 64 else (32, 32, 32, 64, 64)
        nets = {"channels": channels, "size": size, "widths": widths}
        ends = {"encoder": ConvEncoder(**nets), "decoder": ConvDecoder(**nets)}
        return FactorVAE(LATENTS[method], gamma=GAMMA, likelihood="bernoulli", training=plan, **ends, **common)
    first = plan.changed(
        steps=max(1, round(share * FIRST[method])), learning_rate=FIRST_RATE[method], batch_size=FIRST_BATCH[method],
        clip=None, checkpoint=kept, checkpoint_seconds=1e9,
    )  # fmt: skip
    plan = plan.changed(average=0.999)
    if method == "EncDiff":
        return EncDiff(LATENTS[method], first=first, training=plan, **common)
    nets = {
        "generator": StyleGenerator(channels, size, STYLES),
        "discriminator": StyleDiscriminator(channels, size, STYLES[::-1]),
    }
    return DisCo(LATENTS[method], generator_training=first.changed(average=0.999), training=plan, **nets, **common)


# ---- cells ---------------------------------------------------------------------------------------------------------


def codes(data: str, method: str, bias: str, **how: Any) -> Codes:
    """The codes of a cell, at the first weight of the ladder that does not cost too much; where there are two stages,
    that of rooms."""
    plain = trained(data, method, "none", 0.0, **how)
    if bias == "none":
        return plain
    bound, weights = BOUND * np.mean(plain.facts[LOST[method]]), LADDERS[method][bias]
    if method in FIRST and data != DATA[0]:
        weights = (codes(DATA[0], method, bias, **how).facts["weight"][0],)
    for weight in weights:
        found = trained(data, method, bias, weight, **how)
        if np.mean(found.facts[LOST[method]]) <= bound:
            break
    return found


def trained(
    data: str, method: str, bias: str, weight: float, *, size: int = 64, share: float = 1.0,
    files: dict[str, Any] | None = None, device: str = "auto", folder: Path | None = None,
) -> Codes:  # fmt: skip
    """Train the models of a cell and keep the codes of held-out images; a cell that was trained before is read."""
    file = None if folder is None else folder / f"{data}-{method}-{bias}-{weight:g}-{size}-{share:g}.npz"
    if file is not None and file.exists():
        with np.load(file, allow_pickle=False) as kept:
            return Codes(kept["codes"], {key: kept[key].tolist() for key in kept.files if key != "codes"})
    place = Training(device=device).torch_device()
    images = split(data, size=size, files=files, device=str(place))
    first = None if folder is None else folder / "stages" / f"{data}-{method}-{size}-{share:g}.safetensors"
    start = time.perf_counter()
    fitted = model(method, bias, images.shape, weight=weight, share=share, device=str(place), kept=first)
    fitted.fit(images.train)
    facts = {"weight": [weight] * RUNS, "training seconds": [time.perf_counter() - start]}
    facts["objective"] = fitted.objectives_.tolist()
    facts |= {f"held-out {key}": value.tolist() for key, value in fitted.terms_.items()}
    if method != "DisCo":  # whose code is not what its images are made of
        facts["unexplained"] = [unexplained(fitted, images.test[:512], k) for k in range(RUNS)]
    found = Codes(fitted.transform_all(images.test).astype(np.float32), facts)
    if file is not None:
        file.parent.mkdir(parents=True, exist_ok=True)
        arrays: dict[str, Any] = {"codes": found.codes, **{key: np.array(value) for key, value in facts.items()}}
        temporary = file.with_suffix(".part.npz")
        np.savez_compressed(temporary, **arrays)
        temporary.replace(file)
    return found


def unexplained(fitted: Any, x: np.ndarray, k: int) -> float:
    """The share of the images' variance that the k-th model does not bring back from its own code."""
    rows = torch.as_tensor(x).to(fitted.models_[k].mean)
    with torch.no_grad():
        again = fitted.models_[k].decode(fitted.models_[k].encode(rows))
        return float((again - rows).square().sum() / (rows - rows.mean(dim=0)).square().sum())


def cell(
    data: str, method: str, bias: str, *, files: dict[str, Any] | None = None, device: str = "auto",
    folder: Path | None = None, **how: Any,
) -> list[Row]:  # fmt: skip
    """One row per model with its scores; a baseline has one row. Codes are kept in the folder, to be scored again."""
    images = drawn(data, files=files)
    factors = images.factors[: images.held]
    if method in BASELINES:
        return [{"run": 0, **scores(factors, baseline(method, images))}]
    found = codes(data, method, bias, files=files, device=device, folder=folder, **how)
    return [
        {"run": k, **scores(factors, code), **{n: v[k] for n, v in found.facts.items() if k < len(v)}}
        for k, code in enumerate(found.codes)
    ]


def scores(factors: np.ndarray, code: np.ndarray) -> Row:
    """FactorVAE score and DCI of a code, the former's level of chance, and how many latents vary."""
    discrete = (True,) * factors.shape[1]
    vote, parts = factor_vae_score(factors, code, discrete=discrete), dci(factors, code, discrete=discrete, shuffles=0)
    chance = {} if vote.chance is None else {"FactorVAE by chance": float(vote.chance)}
    alive = int((code.std(axis=0) > 1e-3 * code.std(axis=0).max()).sum())
    return {
        "FactorVAE score": vote.score, **chance, "DCI": parts.disentanglement, "DCI completeness": parts.completeness,
        "DCI informativeness": parts.informativeness, "alive": alive,
    }  # fmt: skip


def baseline(method: str, images: Drawn) -> np.ndarray:
    """A readout that needs no training of a network: 4 × 4 pixels, ten principal components, or their ICA."""
    from sklearn.decomposition import PCA

    channels, height, width = images.source.shape
    test = images.pictures(slice(0, images.held)).astype(np.float32)
    if method == "pixels":
        blocks = test.reshape(len(test), channels, 4, height // 4, 4, width // 4)
        return blocks.mean(axis=(1, 3, 5)).reshape(len(test), 16)
    some = images.pictures(slice(images.held, images.held + LEARNED)).astype(np.float32)
    pca = PCA(10, svd_solver="randomized", random_state=0).fit(some)
    code = pca.transform(test)
    return code if method == "PCA" else np.asarray(ICA().fit(pca.transform(some)).transform(code))
