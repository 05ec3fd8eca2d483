"""Small files of the published layouts of benchmarks, and the sentence that refuses one."""

import struct
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from scipy.io import savemat

from noumena.data import norb

RNG = np.random.default_rng(0)
GRID = np.array(list(product(range(2), range(3), range(2), range(2), range(2))))
SHAPES = np.array(list(product([0.0, 0.5, 1.0], [0.1], [0.9], [0.75, 1.25], [0, 3], [-30.0, 30.0])))


def drawn(*shape: int, top: int = 256) -> np.ndarray:
    return RNG.integers(0, top, shape).astype(np.uint8)


def dsprites_file(path: Path, *, images: np.ndarray | None = None, classes: np.ndarray | None = None) -> Path:
    images = drawn(len(GRID), 8, 8, top=2) if images is None else images
    secret = np.array({"title": "not to be unpickled"}, dtype=object)
    np.savez(path, imgs=images, latents_classes=GRID if classes is None else classes, metadata=secret)
    return path


def sprites_file(path: Path, **changed: np.ndarray) -> Path:
    entries = {
        "img_idx": drawn(6, 4, 4, top=5),
        "palette": drawn(5, 3),
        "factors": np.array(list(product(range(2), range(3))), dtype=np.uint8),
        "factor_names": np.array(["body", "hair"]),
        "action_names": np.array(["walk"]),
    }
    np.savez(path, **{**entries, **changed})
    return path


def shapes_file(path: Path, images: np.ndarray, labels: np.ndarray) -> Path:
    with pytest.importorskip("h5py").File(path, "w") as file:
        file["images"], file["labels"] = images, labels
    return path


def cars_folder(path: Path, meshes: dict[str, np.ndarray]) -> Path:
    path.mkdir(exist_ok=True)
    (path / "list.txt").write_text("\n".join(meshes) + "\n")
    for name, mesh in meshes.items():
        savemat(path / f"{name}.mat", {"im": mesh, "mask": np.zeros((2, 2))}, do_compression=True)
    return path


def two_cars(path: Path) -> Path:
    return cars_folder(path, {f"car_{k}_mesh": drawn(8, 8, 3, 24, 4) for k in (7, 2)})


MAGIC = {np.dtype(np.uint8): 0x1E3D4C55, np.dtype(np.int32): 0x1E3D4C54, np.dtype(np.float32): 0x1E3D4C51}


def matrix_file(path: Path, array: np.ndarray, *, magic: int | None = None) -> Path:
    lengths = (*array.shape, 1, 1)[: max(3, array.ndim)]
    start = struct.pack("<2i", MAGIC[array.dtype] if magic is None else magic, array.ndim)
    path.write_bytes(start + struct.pack(f"<{len(lengths)}i", *lengths) + array.tobytes())
    return path


def norb_folder(path: Path, *, n: int = 4, side: int = 6) -> Path:
    path.mkdir(exist_ok=True)
    for k, stem in enumerate(norb.STEMS):
        matrix_file(path / f"{stem}-dat.mat", drawn(n, 2, side, side))
        matrix_file(path / f"{stem}-cat.mat", np.arange(n, dtype=np.int32) % 5)
        info = np.stack([np.full(n, 2 * k + 4), np.arange(n) % 9, 2 * (np.arange(n) % 18), np.arange(n) % 6], axis=1)
        matrix_file(path / f"{stem}-info.mat", info.astype(np.int32))
    return path


FALCOR = (1, 2, 1, 1, 3, 1, 2)
ISAAC = (2, 1, 1, 1, 1, 1, 1, 1, 3)


def numbered_folder(path: Path, pixels: np.ndarray, *, inside: str = "images") -> Path:
    from PIL import Image

    (path / inside).mkdir(parents=True, exist_ok=True)
    for number, image in enumerate(pixels):
        Image.fromarray(image).save(path / inside / f"{number:06}.png")
    return path
