"""Figures 7 to 11: strips, swaps, interpolations and maps of derivatives of models with few dependencies.

A *Flow* learns grey pictures (``greys``: footwear of Fashion-MNIST, or the digits of MNIST, and named as such);
*FactorVAE* and *EncDiff* learn rooms, rendered by this library with the factors of 3D Shapes. All have dependency
sparsity. Four pictures are written for each, of latents in the order in which they move the picture; and a line for
each picture says in numbers what is seen. **Labels**: factors and classes of held-out images are looked at after
training, for these lines; before it only to take footwear out of the file of all clothes.

What the lines say. *Strips*: the factor that explains most of a latent's variance over held-out images, and the next
one, as shares of the variance between levels of the factor (by chance (levels − 1) / (images − 1)); of grey pictures
the class, and tenths of what can be measured on the picture itself. *Swaps*: a swapped picture is encoded again, and of
the move of all latents, each in its own spread, the share of the exchanged latent is given; 1 where nothing else moved.
*Interpolations*: the way through pictures over the straight distance of its ends; 1 is a cross-fade. *Maps*: the share
of the pixels that holds half of a latent's derivatives.

Reference: Zheng et al. (2026), section C.2. **Deviations**: rooms in the place of Shapes3D, Cars3D and MPI3D; a minute
of training; names of latents are measured and not given by eye. The flow sees all 784 pixels, with ``LATENTS`` latents
and the rest as noise, and rebuilds softly: after 800 steps on footwear .244 of the variance is missing, against .359
with as many principal components. ``WEIGHT`` is the largest of 0, .03, .1 and .3 that rebuilt held-out pictures as well
as none did (one seed). It does little: half of the derivatives of the five latents shown lay in .160 of the pixels in
the mean, without it in .171, and the same two latents came first. A flow's likelihood hardly forbids latents to grow
instead: their spread was 1.3 to 2.1 in place of 0.7 to 0.9, and up to 3 at a weight of .3.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float, Int, UInt8

from ddl import images
from ddl.greys import MEASURES, SIDE, Greys, greys, measures, tenths
from noumena import checks
from noumena.checks import InputError
from noumena.estimators.base import Estimator
from noumena.estimators.flow import Flow
from noumena.estimators.loop import Training
from noumena.estimators.save import load, save
from noumena.estimators.state import ESTIMATORS
from noumena.nets.couplings import VolumePreserving
from noumena.penalties import DependencySparsity
from noumena.report import pictures, png
from noumena.worlds.rooms import NAMES

MODELS = ("Flow", "FactorVAE", "EncDiff")
LATENTS, NOISE, WEIGHT = 8, 0.1, 0.1
"""Of the flow: latents, the spread that is taken for noise, in units of full light, and the weight of the penalty, in
nats for each unit of the summed derivatives."""
BLOCKS, HIDDEN = 8, (256, 256)
STEPS, BATCH, RATE = 6000, 128, 1e-3
MEASURED = 2000
"""Held-out images by which latents are named."""
SHOWN, FRAMES, LINES = 5, 7, 3
"""Latents, pictures of a strip or of an interpolation, and interpolations."""
PAIRS, POINTS = 48, 16
"""Swaps that are measured, of which as many are shown as a strip has pictures; points of the derivatives."""
LIMIT = 60_000
"""Bytes of a file."""


class Data(NamedTuple):
    """Flat images as bytes to train on and held out, the levels of the factors of the latter, their names, and the
    shape of an image."""

    name: str
    train: np.ndarray
    test: np.ndarray
    levels: np.ndarray
    factors: tuple[str, ...]
    shape: tuple[int, int, int]


class Picture(NamedTuple):
    """A sheet of pictures, the name of its file, and a line on what is seen."""

    name: str
    sheet: np.ndarray
    line: str


# ---- numbers -------------------------------------------------------------------------------------------------------


def explained(
    z: Float[np.ndarray, "batch latent"], levels: Int[np.ndarray, "batch factor"]
) -> Float[np.ndarray, "latent factor"]:
    """The share of every latent's variance that lies between the levels of a factor; 1 iff the level says the latent,
    0 iff the mean is the same at all levels; blind to the names of levels and the unit of latents.

    >>> explained(np.array([[0.0, 1.0], [0.0, 3.0], [2.0, 1.0], [2.0, 3.0]]), np.array([[0], [0], [1], [1]])).tolist()
    [[1.0], [0.0]]
    """
    total = z.var(axis=0)
    out = np.zeros((z.shape[1], levels.shape[1]))
    for k, column in enumerate(levels.T):
        _, level, count = np.unique(column, return_inverse=True, return_counts=True)
        means = np.stack([np.bincount(level, weights=one) / count for one in z.T], axis=1)
        between = (count[:, None] * np.square(means - z.mean(axis=0))).sum(axis=0) / len(z)
        out[:, k] = between / np.where(total > 0, total, 1)
    return out


def alone(moves: Float[np.ndarray, "batch latent"], latent: int) -> float:
    """The share of one latent in the square of all moves; 1 iff no other moves, 0 where nothing does.

    >>> alone(np.array([[3.0, 4.0], [0.0, 0.0]]), 1)
    0.64
    """
    total = float(np.square(moves).sum())
    return float(np.square(moves[:, latent]).sum()) / total if total > 0 else 0.0


def detour(lines: UInt8[np.ndarray, "line step channel height width"]) -> float:
    """The way through pictures over the straight distance of its ends, in the mean over lines; 1 iff all are straight.

    >>> detour(np.array([0, 200, 100], dtype=np.uint8).reshape(1, 3, 1, 1, 1))
    3.0
    """
    flat = lines.reshape(*lines.shape[:2], -1).astype(np.float64)
    way = np.linalg.norm(np.diff(flat, axis=1), axis=2).sum(axis=1)
    straight = np.linalg.norm(flat[:, -1] - flat[:, 0], axis=1)
    return float(np.mean(way[straight > 0] / straight[straight > 0])) if straight.any() else 1.0


def half(entries: Float[np.ndarray, "height width"]) -> float:
    """The least share of the pixels that holds half of the sum of what is not negative; ½ where all are equal.

    >>> half(np.array([[6.0, 1.0], [1.0, 2.0]])), half(np.ones((2, 2)))
    (0.25, 0.5)
    """
    ranked = np.sort(entries.ravel())[::-1].cumsum()
    return float(np.searchsorted(ranked, 0.5 * ranked[-1]) + 1) / ranked.size


def slim(sheet: UInt8[np.ndarray, ...], limit: int = LIMIT) -> UInt8[np.ndarray, ...]:
    """A sheet with as many shades a channel as its file may have to keep within a limit of bytes, and no fewer than
    nine; white stays white.

    >>> slim(np.array([[0, 7, 255]], dtype=np.uint8), limit=1).tolist()
    [[0, 0, 255]]
    """
    for step in (1, 2, 4, 8, 16, 32):
        coarse = (np.round(sheet / step) * step).clip(0, 255).astype(np.uint8)
        if len(png.encode(coarse)) <= limit:
            break
    return coarse


# ---- data and models -----------------------------------------------------------------------------------------------


def grey_data(found: Greys) -> Data:
    """Grey pictures, whose factors are their class and tenths of what is measured on them."""
    levels = np.column_stack([found.classes, tenths(measures(found.test))])
    return Data(found.name, found.train, found.test, levels, ("class", *MEASURES), (1, SIDE, SIDE))


@cache
def rooms(size: int, device: str) -> Data:
    """Rooms as in table 1."""
    found = images.split("rooms", size=size, device=device)
    return Data("rooms", found.train, found.test, found.factors.astype(np.int64), NAMES, found.shape)


def flow(*, share: float = 1.0, device: str = "auto") -> Flow:
    """The flow of grey pictures."""
    plan = Training(
        steps=max(1, round(share * STEPS)), batch_size=BATCH, learning_rate=RATE, clip=1.0, device=device
    )  # fmt: skip
    return Flow(
        LATENTS, penalty=WEIGHT * DependencySparsity("l1", ramp=0.0, points=images.POINTS["FactorVAE"]), noise=NOISE,
        coupling=VolumePreserving(blocks=BLOCKS, hidden=HIDDEN), standardise=False, training=plan, random_state=0,
    )  # fmt: skip


def fitted(method: str, data: Data, *, share: float = 1.0, device: str = "auto", kept: Path | None = None) -> Estimator:
    """A model with dependency sparsity: the one in the folder ``kept`` where there is one, else trained now and, if
    its kind can be read back, left there."""
    checks.one_of(method, "model", MODELS)
    folder = None if kept is None else kept / method
    if folder is not None and (folder / "config.json").exists():
        return load(folder)
    if method == "Flow":
        model: Estimator = flow(share=share, device=device)
    else:
        weight = images.LADDERS[method]["dependency"][1]
        model = images.model(method, "dependency", data.shape, weight=weight, share=share, runs=1, device=device)
    model.fit(data.train)
    if folder is not None and method in ESTIMATORS:
        save(model, folder)
    return model


@dataclass(frozen=True)
class Bounded:
    """A model of bytes whose pictures are cut at no light and at full light, however little it was trained."""

    model: Any

    @property
    def decoder_(self) -> Any:
        """The decoder as it is, with its derivatives."""
        return self.model.decoder_

    def transform(self, x: Any) -> Any:
        """Latents of bytes."""
        return self.model.transform(x)

    def inverse_transform(self, z: Any) -> Any:
        """Pictures of latents, from 0 to 255."""
        return np.clip(self.model.inverse_transform(z), 0, 255)


# ---- pictures ------------------------------------------------------------------------------------------------------


def gallery(model: Any, data: Data, title: str) -> list[Picture]:
    """Strips, swaps, interpolations and maps of the latents that move the picture most."""
    test, seen = data.test[:MEASURED], Bounded(model)
    z = np.asarray(model.transform(test), dtype=np.float64)
    strips = pictures.traversals(seen, test, data.shape, steps=FRAMES)
    latents = strips.latents[: min(SHOWN, max(1, strips.alive))]
    lost = images.unexplained(model, test[:512], model.best_)
    named = _named(latents, explained(z, data.levels[: len(z)]), data.factors)
    facts = f"{strips.alive} of {z.shape[1]} latents move the picture; {lost:.3f} of the variance is not rebuilt"
    sheets = {
        "traversals": (strips.images[: len(latents)], FRAMES, f"{named}. {facts}"),
        "swaps": _swapped(seen, data, latents, z.std(axis=0)),
        "interpolations": _interpolated(seen, data),
        "maps": _mapped(seen, data, latents, z),
    }
    return [
        Picture(f"{title}-{kind}.png".lower(), slim(_sheet(each, data.shape, across)), f"{kind}: {line}.")
        for kind, (each, across, line) in sheets.items()
    ]


def _sheet(each: np.ndarray, shape: tuple[int, int, int], across: int) -> np.ndarray:
    colours = 3 if each.ndim == 4 else shape[0]  # maps are coloured, whatever the pictures are
    return pictures.sheet(each, (colours, *shape[1:]), across)


def _named(latents: tuple[int, ...], shares: np.ndarray, factors: tuple[str, ...]) -> str:
    """Every latent's first two factors."""
    parts = []
    for name, j in zip(pictures.latent_names(latents), latents, strict=True):
        first, second = np.argsort(-shares[j])[:2]
        parts.append(f"{name} {factors[first]} {shares[j, first]:.2f}, then {factors[second]} {shares[j, second]:.2f}")
    return "; ".join(parts)


def _swapped(model: Any, data: Data, latents: tuple[int, ...], spread: np.ndarray) -> tuple[np.ndarray, int, str]:
    """Sources, targets, and sources with one latent of the target; what moves when the latter are encoded again."""
    pairs = min(PAIRS, len(data.test) // 2)
    source, target = data.test[:pairs], data.test[pairs : 2 * pairs]
    found = pictures.swaps(model, source, target, data.shape, latents)
    codes = [np.asarray(model.transform(row.reshape(pairs, -1))) for row in found.images]
    unit = np.where(spread > 0, spread, 1)
    shares = [alone((after - codes[0]) / unit, j) for j, after in zip(latents, codes[2:], strict=True)]
    shown = min(FRAMES, pairs)
    line = ", ".join(f"{name} {share:.2f}" for name, share in zip(found.names[2:], shares, strict=True))
    text = f"source, target, then one latent exchanged; its share in the move of all latents, encoded again: {line}"
    return found.images[:, :shown], shown, text


def _interpolated(model: Any, data: Data) -> tuple[np.ndarray, int, str]:
    found = pictures.interpolations(model, data.test[:LINES], data.test[LINES : 2 * LINES], data.shape, FRAMES)
    return found, FRAMES, f"the way is {detour(found):.2f} times the straight one"


def _mapped(model: Any, data: Data, latents: tuple[int, ...], z: np.ndarray) -> tuple[np.ndarray, int, str]:
    found = pictures.jacobian_maps(model, z[:POINTS], data.shape)[list(latents)]
    pairs = zip(pictures.latent_names(latents), found, strict=True)
    line = ", ".join(f"{name} {half(entries):.3f}" for name, entries in pairs)
    return (
        pictures.coloured(found),
        len(latents),
        f"half of a latent's derivatives lies in a share of the pixels: {line}",
    )


# ---- the command ---------------------------------------------------------------------------------------------------


def main(arguments: list[str] | None = None) -> None:
    """Train or read the models, and write their pictures and a file of lines into ``--out``."""
    parser = argparse.ArgumentParser(prog="python -m ddl.traversals", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--fashion", help="a file of Fashion-MNIST; by default the variable NOUMENA_FASHION")
    parser.add_argument(
        "--mnist", help="the file of MNIST, if there is no other; by default the variable NOUMENA_MNIST"
    )
    parser.add_argument("--models", nargs="+", choices=MODELS, default=MODELS, help="models to show")
    parser.add_argument("--size", type=int, default=64, help="side of the rooms in pixels")
    parser.add_argument("--share", type=float, default=1.0, help="share of the steps of every training")
    parser.add_argument("--device", default="auto", help="a torch device")
    parser.add_argument("--kept", type=Path, help="folder of trained models, read where they are there")
    parser.add_argument("--out", type=Path, default=Path("runs/ddl-traversals"), help="folder of the pictures")
    options = parser.parse_args(arguments)
    options.out.mkdir(parents=True, exist_ok=True)
    device = str(Training(device=options.device).torch_device())
    for method in options.models:
        try:
            data = grey_data(greys(options.fashion, options.mnist)) if method == "Flow" else rooms(options.size, device)
        except InputError as error:
            print(f"Skipped {method}. {error}")
            continue
        start = time.perf_counter()
        model = fitted(method, data, share=options.share, device=device, kept=options.kept)
        trained = time.perf_counter() - start
        found = gallery(model, data, f"{data.name}-{method}")
        _write(found, options.out / f"{data.name}-{method}.txt".lower())
        print(f"{method} on {data.name}: {trained:.1f} s of training, {time.perf_counter() - start:.1f} s in all")


def _write(found: list[Picture], lines: Path) -> None:
    for picture in found:
        png.save(picture.sheet, lines.with_name(picture.name))
        print(f"{picture.name} {picture.line}", flush=True)
    lines.write_text("".join(f"{picture.name} {picture.line}\n" for picture in found))


if __name__ == "__main__":
    main()
