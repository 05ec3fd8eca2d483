"""What pairs of models see: the ANI-1x ensemble with the atoms it was made for, and images of dSprites.

The files ``h_networks.npz`` and ``h_aev.npz`` of ANI-1x lie, at any depth, in the folder that ``NOUMENA_ANI1X`` names;
``NOUMENA_DSPRITES`` names the file ``dsprites_downsampled.npz``.
"""

from __future__ import annotations

import os
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from torch import nn

from noumena import checks, seeds
from noumena.data import benchmarks

FILES = {"ani": ("h_networks.npz", "h_aev.npz"), "dsprites": ("dsprites_downsampled.npz",)}
VARIABLES = {"ani": "NOUMENA_ANI1X", "dsprites": "NOUMENA_DSPRITES"}
GENERATED = "generated"
"""In place of the files: numbers for untrained networks of the ensemble, and squares, to try the study on."""
MEMBERS, SIZES = 8, (384, 160, 128, 96, 1)
CELU = 0.1
SIZE, AUDITED = 32, 8000
"""Side of the images, and how many of them runs are compared on."""


def located(part: str, data: str | Path | None = None) -> list[Path]:
    """The files of a part, below the folder ``data`` or where the environment says."""
    given = data if data is not None else os.environ.get(VARIABLES[part])
    must = f"The files of {part} must be named by the variable {VARIABLES[part]}."
    checks.require(given is not None, must, "nothing")
    place = Path(str(given))
    found = [place] if place.is_file() else [path for name in FILES[part] for path in sorted(place.rglob(name))[:1]]
    names = " and ".join(FILES[part])
    checks.require(len(found) == len(FILES[part]), f"The folder must hold {names}.", f"{place.name} with {len(found)}")
    return found


class Atoms(NamedTuple):
    """Environments of atoms, and the molecule of each."""

    x: np.ndarray
    molecules: np.ndarray


def ensemble(weights: Path, inputs: Path) -> tuple[list[nn.Sequential], Atoms]:
    """The eight networks and the rows they see."""
    networks = [untrained_network(k) for k in range(MEMBERS)]
    names = {f"ani1x_{k}_{kind}{j}" for k in range(MEMBERS) for j in range(len(SIZES) - 1) for kind in "wb"}
    with np.load(weights, allow_pickle=False) as file:
        checks.require(names <= set(file), f"{weights.name} must hold {MEMBERS} networks.", f"{len(file)} arrays")
        for k, network in enumerate(networks):
            for j, layer in enumerate(list(network)[::2]):
                kinds = {"weight": file[f"ani1x_{k}_w{j}"], "bias": file[f"ani1x_{k}_b{j}"]}
                layer.load_state_dict({kind: torch.tensor(value) for kind, value in kinds.items()})
    with np.load(inputs, allow_pickle=False) as file:
        must = f"{inputs.name} must hold aev and molecule."
        checks.require({"aev", "molecule"} <= set(file), must, ", ".join(file))
        return networks, Atoms(file["aev"].astype(np.float64), file["molecule"])


def untrained_network(seed: int) -> nn.Sequential:
    """An untrained network of the ensemble's form."""
    with seeds.global_torch(seed, "untrained network"):
        linear = [nn.Linear(inputs, outputs) for inputs, outputs in pairwise(SIZES)]
    return nn.Sequential(*[part for layer in linear for part in (layer, nn.CELU(CELU))][:-1])


class Shapes(NamedTuple):
    """Flat images to train on; the compared ones and the shape and scale of each."""

    train: np.ndarray
    x: np.ndarray
    groups: np.ndarray


def shapes(path: Path, *, size: int = SIZE, audited: int = AUDITED) -> Shapes:
    """The images of dSprites, and a draw of them that is compared; it depends on their number only."""
    images = benchmarks.dsprites(path)
    x, factors = images.rows(size=size), np.asarray(images.factors)
    drawn = seeds.numpy_generator(0, "compared images", len(x)).permutation(len(x))[:audited]
    return Shapes(x, x[drawn], factors[drawn, 0] * (factors[:, 1].max() + 1) + factors[drawn, 1])


def generated_atoms(*, rows: int = 600, molecules: int = 12, factors: int = 5) -> Atoms:
    """Environments that a few numbers make, in groups."""
    rng = seeds.numpy_generator(0, "atoms in place of files")
    x = rng.laplace(size=(rows, factors)) @ rng.normal(size=(factors, SIZES[0]))
    return Atoms(x, np.arange(rows) % molecules)


def generated_shapes(size: int, *, rows: int = 240, groups: int = 6) -> Shapes:
    """Squares of six sizes at random places."""
    rng = seeds.numpy_generator(0, "squares in place of files")
    x, kinds = np.zeros((rows, size, size), dtype=np.float32), np.arange(rows) % groups
    for image, kind, (down, right) in zip(x, kinds, rng.integers(size // 2, size=(rows, 2)), strict=True):
        image[down : down + 3 + kind, right : right + 3 + kind] = 1
    flat = x.reshape(rows, -1)
    return Shapes(flat, flat, kinds)
