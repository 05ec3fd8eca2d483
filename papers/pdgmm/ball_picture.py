"""True places of balls and those read off a code, as a picture: a dot where a ball is, a line to where it is found.

Reads what the study of balls leaves in its folder: a row of panels for every world, a panel for every method. A code
that knows the places leaves dots; one that does not draws every ball's dots to their mean.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
from jaxtyping import Float, UInt8

from noumena import checks
from noumena.report import pictures, png
from noumena.worlds.balls import COLOURS, WHITE
from pdgmm.ball_scores import recovered

WORLDS, METHODS = ("2-ball-0", "4-ball-0"), ("places", "features", "ica")
SIZE, SHOWN = 160, 100
"""Pixels of a panel's side, and pictures whose balls are shown."""


def panel(
    true: Float[np.ndarray, "batch ball 2"], found: Float[np.ndarray, "batch ball 2"], size: int = SIZE
) -> UInt8[np.ndarray, "3 height width"]:
    """Dots at true places, in the colours of the balls, and paler lines from them to the places found.

    >>> here, there = np.array([[[0.25, 0.5]]]), np.array([[[0.75, 0.5]]])
    >>> (panel(here, there, 8)[0] < 255).astype(int)[3:6].tolist()
    [[0, 1, 1, 0, 0, 0, 0, 0], [0, 1, 1, 1, 1, 1, 1, 0], [0, 0, 0, 0, 0, 0, 0, 0]]
    """
    out = np.full((3, size, size), WHITE, dtype=np.uint8)
    colours = np.array(COLOURS[: true.shape[1]])
    along = np.linspace(0, 1, 2 * size)[:, None, None, None]
    lines = _pixels(true + along * (found - true), size)
    for ball, colour in enumerate(colours):
        x, y = lines[:, :, ball].reshape(-1, 2).T
        out[:, y, x] = ((colour + 2 * WHITE) // 3)[:, None]
    for ball, colour in enumerate(colours):
        for shift in ((0, 0), (1, 0), (0, 1), (1, 1)):
            x, y = (_pixels(true[:, ball], size) - shift).clip(0, size - 1).T
            out[:, y, x] = colour[:, None]
    return out


def _pixels(places: np.ndarray, size: int) -> np.ndarray:
    return np.floor(places * size).astype(int).clip(0, size - 1)


def drawn(folder: Path, worlds: tuple[str, ...] = WORLDS, methods: tuple[str, ...] = METHODS) -> np.ndarray:
    """The panels of worlds, down, and methods, across; a method that was refused has an empty one."""
    panels = []
    for world in worlds:
        file = folder / f"{world}.npz"
        checks.require(file.is_file(), f"The folder of codes must hold {file.name}.", "none")
        with np.load(file, allow_pickle=False) as kept:
            z = kept["z"]
            codes = {method: kept[method] for method in methods if method in kept.files}
        true = z.reshape(len(z), -1, 2)
        places = [recovered(z, codes[m])[:SHOWN] if m in codes else true[:0] for m in methods]
        panels += [panel(true[: len(found)], found) for found in places]
    return pictures.sheet(np.stack(panels), (3, SIZE, SIZE), len(methods), margin=4)


def main(arguments: list[str] | None = None) -> None:
    """Draw the panels of ``--codes`` into ``--out``."""
    name, doc = "pdgmm.ball_picture", (__doc__ or "").splitlines()[0]
    parser = argparse.ArgumentParser(prog=f"python -m {name}", description=doc)
    parser.add_argument("--codes", type=Path, required=True, help="the folder that the study of balls left")
    parser.add_argument("--out", type=Path, default=Path("runs/balls-recovered.png"), help="the picture")
    options = parser.parse_args(arguments)
    options.out.parent.mkdir(parents=True, exist_ok=True)
    print(png.save(drawn(options.codes), options.out))


if __name__ == "__main__":
    main()
