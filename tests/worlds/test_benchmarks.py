"""Benchmark files: small ones of the published layouts come back exactly, others are refused; real ones where named."""

from __future__ import annotations

import os
import pickle
import struct
import sys
from collections.abc import Callable
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from scipy.io import savemat

from noumena.checks import InputError
from noumena.worlds import archives, benchmarks, cars, norb
from noumena.worlds.benchmarks import (
    Images,
    cars3d,
    dsprites,
    falcor3d,
    isaac3d,
    mpi3d,
    shapes3d,
    smallnorb,
    sprites,
)

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
    for number, picture in enumerate(pixels):
        Image.fromarray(picture).save(path / inside / f"{number:06}.png")
    return path


def refusal(call: Callable[[], object]) -> str:
    with pytest.raises(InputError) as error:
        call()
    text = str(error.value)
    assert "\n" not in text
    assert "Got" in text
    return text


# ---- files -------------------------------------------------------------------------------------------------------


def test_dsprites_come_back_white_on_black(tmp_path: Path) -> None:
    images = drawn(len(GRID), 8, 8, top=2)
    found = dsprites(dsprites_file(tmp_path / "d.npz", images=images))
    assert (len(found), found.shape, found.sizes) == (48, (1, 8, 8), (2, 3, 2, 2, 2))
    assert found.names == ("shape", "scale", "orientation", "x", "y")
    assert found.factors.dtype == np.int64
    np.testing.assert_array_equal(found.factors, GRID)
    np.testing.assert_array_equal(found.pixels, 255 * images[:, None])
    np.testing.assert_array_equal(found.rows(), images.reshape(48, -1).astype(np.float32))
    assert found.complete
    assert not dsprites(dsprites_file(tmp_path / "e.npz", images=images[1:], classes=GRID[1:])).complete
    doubled = GRID.copy()
    doubled[0] = doubled[1]
    assert not dsprites(dsprites_file(tmp_path / "f.npz", images=images, classes=doubled)).complete


def test_the_published_dsprites_lose_their_constant_colour(tmp_path: Path) -> None:
    coloured = np.c_[np.zeros(len(GRID), dtype=np.int64), GRID]
    np.testing.assert_array_equal(dsprites(dsprites_file(tmp_path / "d.npz", classes=coloured)).factors, GRID)


def test_sprites_come_back_in_the_colours_of_their_palette(tmp_path: Path) -> None:
    places, palette = drawn(6, 4, 4, top=5), drawn(5, 3)
    found = sprites(str(sprites_file(tmp_path / "s.npz", img_idx=places, palette=palette)))
    assert (found.shape, found.names, found.sizes) == ((3, 4, 4), ("body", "hair"), (2, 3))
    assert found.pixels.dtype == np.uint8
    for i, c, h, w in [(0, 0, 0, 0), (5, 2, 3, 1), (2, 1, 0, 3)]:
        assert found.pixels[i, c, h, w] == palette[places[i, h, w], c]
    np.testing.assert_allclose(found.rows(), palette[places].transpose(0, 3, 1, 2).reshape(6, -1) / 255, rtol=1e-6)
    assert found.factors.dtype == np.int64
    assert str(found) == "6 images of 3 × 4 × 4 (channel, height, width); factors: body 2, hair 3; memory-mapped"


def test_shapes3d_come_back_with_the_ranks_of_their_labels(tmp_path: Path) -> None:
    images = drawn(len(SHAPES), 4, 4, 3)
    found = shapes3d(shapes_file(tmp_path / "3dshapes.h5", images, SHAPES))
    assert found.names == ("floor hue", "wall hue", "object hue", "scale", "shape", "orientation")
    assert found.sizes == (3, 1, 1, 2, 2, 2)
    assert found.complete
    np.testing.assert_array_equal(found.factors[:, 0], 2 * SHAPES[:, 0])
    np.testing.assert_array_equal(found.factors[:, 5], SHAPES[:, 5] > 0)
    np.testing.assert_array_equal(found.pixels, images.transpose(0, 3, 1, 2))


def test_mpi3d_follow_their_grid(tmp_path: Path) -> None:
    sizes = (2, 1, 2, 1, 1, 3, 2)
    images = drawn(24, 2, 2, 3)
    np.savez(tmp_path / "mpi3d_toy.npz", images=images)
    found = mpi3d(tmp_path / "mpi3d_toy.npz", sizes=sizes)
    assert found.sizes == sizes
    np.testing.assert_array_equal(found.factors, list(product(*map(range, sizes))))
    np.testing.assert_array_equal(found.rows(), images.transpose(0, 3, 1, 2).reshape(24, -1) / np.float32(255))


@pytest.mark.parametrize(("n", "colours"), [(1_036_800, 6), (460_800, 4)])
def test_the_two_published_grids_of_mpi3d_are_known_by_their_number_of_images(
    tmp_path: Path, n: int, colours: int
) -> None:
    np.savez_compressed(tmp_path / "mpi3d.npz", images=np.zeros((n, 1, 1, 1), dtype=np.uint8))
    found = mpi3d(tmp_path / "mpi3d.npz")
    assert found.sizes == (colours, colours, 2, 3, 3, 40, 40)
    assert found.factors[1].tolist() == [0, 0, 0, 0, 0, 0, 1]
    assert found.factors[40].tolist() == [0, 0, 0, 0, 0, 1, 0]


def test_cars3d_come_back_by_elevation_azimuth_and_car(tmp_path: Path) -> None:
    meshes = {f"car_{k}_mesh": drawn(8, 8, 3, 24, 4) for k in (12, 3, 7)}
    found = cars3d(cars_folder(tmp_path, meshes), size=None, part=True)
    assert (len(found), found.shape, found.sizes) == (4 * 24 * 3, (3, 8, 8), (4, 24, 3))
    assert found.names == ("elevation", "azimuth", "car")
    np.testing.assert_array_equal(found.factors, list(product(range(4), range(24), range(3))))
    listed = list(meshes.values())
    for place in (0, 1, 71, 287):
        elevation, azimuth, car = found.factors[place]
        expected = listed[car][:, :, :, azimuth, elevation].transpose(2, 0, 1)
        np.testing.assert_array_equal(found.pictures([place]).reshape(3, 8, 8), expected)
    assert "a part of 17568" in str(found)
    assert str(found).endswith("kept in memory once read")


def test_cars3d_are_shrunk_as_is_customary(tmp_path: Path) -> None:
    from PIL import Image

    mesh = drawn(8, 8, 3, 24, 4)
    found = cars3d(cars_folder(tmp_path, {"car_1_mesh": mesh}), size=4, part=True)
    image = Image.fromarray(np.ascontiguousarray(mesh[:, :, :, 5, 2]))
    image.thumbnail((4, 4), Image.Resampling.LANCZOS)
    place = 2 * 24 + 5
    np.testing.assert_array_equal(found.pictures([place]).reshape(3, 4, 4), np.asarray(image).transpose(2, 0, 1))


def test_the_file_of_a_car_is_read_once_and_only_when_needed(tmp_path: Path) -> None:
    found = cars3d(two_cars(tmp_path), size=4, part=True)
    np.testing.assert_array_equal(found.stored._done, [True, False])
    again = pickle.loads(pickle.dumps(found))
    (tmp_path / "car_2_mesh.mat").unlink()
    first = found.pictures([0, 2, 100])
    np.testing.assert_array_equal(first, again.pictures([0, 2, 100]))
    assert "car_2_mesh.mat must be a complete .mat file" in refusal(lambda: found.pictures([1]))


def test_the_published_cars_are_183_of_128_pixels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = two_cars(tmp_path)
    text = refusal(lambda: cars3d(folder))
    assert text == "Cars in list.txt must be the 183 published ones; part=True takes fewer. Got 2 cars."
    monkeypatch.setattr(cars, "GRID", (4, 24, 2))
    assert "bytes of shape (128, 128, 3, 24, 4). Got uint8 of shape (8, 8, 3, 24, 4)" in refusal(lambda: cars3d(folder))
    monkeypatch.setattr(cars, "SIDE", 8)
    assert cars3d(folder).shape == (3, 64, 64)
    assert "a part" not in str(cars3d(folder))


def test_smallnorb_come_back_with_both_tables(tmp_path: Path) -> None:
    found = smallnorb(norb_folder(tmp_path), size=None, part=True)
    assert (len(found), found.shape) == (8, (1, 6, 6))
    assert found.names == ("category", "instance", "elevation", "azimuth", "lighting")
    np.testing.assert_array_equal(found.factors[6], [2, 6, 2, 2, 2])
    np.testing.assert_array_equal(found.factors[1], [1, 4, 1, 1, 1])
    halves = [np.fromfile(tmp_path / f"{stem}-dat.mat", np.uint8, offset=24).reshape(4, 2, 6, 6) for stem in norb.STEMS]
    left = np.concatenate(halves)[:, 0].reshape(8, 36)
    np.testing.assert_array_equal(found.pictures([7, 0, 3, 4]), left[[7, 0, 3, 4]])
    assert str(found).startswith("8 images, a part of 48600,")
    assert str(found).endswith("memory-mapped")
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(found)).pictures([5]), left[[5]])
    (tmp_path / f"{norb.STEMS[0]}-dat.mat").unlink()
    np.testing.assert_array_equal(smallnorb(tmp_path, size=None, part=True).pictures([0]), left[[4]])
    assert "must hold the files of SmallNORB" in refusal(lambda: smallnorb(tmp_path))


def test_smallnorb_are_shrunk_as_is_customary(tmp_path: Path) -> None:
    from PIL import Image

    full = smallnorb(norb_folder(tmp_path), size=None, part=True).pictures([5]).reshape(6, 6)
    expected = np.asarray(Image.fromarray(full).resize((4, 4), Image.Resampling.LANCZOS))
    np.testing.assert_array_equal(smallnorb(tmp_path, size=4, part=True).pictures([5]).reshape(4, 4), expected)
    assert smallnorb(tmp_path, part=True).shape == (1, 64, 64)


@pytest.mark.parametrize(("load", "sizes"), [(falcor3d, FALCOR), (isaac3d, ISAAC)])
def test_numbered_pictures_are_places_in_their_grid(
    tmp_path: Path, load: Callable[..., Images], sizes: tuple[int, ...]
) -> None:
    n = int(np.prod(sizes))
    pixels = drawn(n, 5, 5, 3)
    found = load(numbered_folder(tmp_path, pixels), sizes=sizes)
    assert (found.sizes, found.shape, found.complete) == (sizes, (3, 5, 5), True)
    np.testing.assert_array_equal(found.factors, list(product(*map(range, sizes))))
    np.testing.assert_array_equal(found.pixels, pixels.transpose(0, 3, 1, 2))
    assert load(tmp_path / "images", sizes=sizes, size=2).shape == (3, 2, 2)
    (tmp_path / "images" / "000001.png").unlink()
    assert f"must be {n}; part=True takes fewer. Got {n - 1} pictures." in refusal(lambda: load(tmp_path, sizes=sizes))
    fewer = load(tmp_path, sizes=sizes, part=True)
    np.testing.assert_array_equal(fewer.factors, np.delete(found.factors, 1, axis=0))
    np.testing.assert_array_equal(fewer.pixels, np.delete(pixels, 1, axis=0).transpose(0, 3, 1, 2))


@pytest.mark.parametrize(
    ("load", "place", "level"),
    [
        (falcor3d, (1, 2, 3, 4, 5, 0, 1), 46656 + 2 * 7776 + 3 * 1296 + 4 * 216 + 5 * 36 + 1),
        (isaac3d, (2, 7, 4, 3, 0, 1, 5, 2, 3), 2 * 245760 + 7 * 30720 + 4 * 6144 + 3 * 1536 + 96 + 5 * 16 + 2 * 4 + 3),
    ],
)
def test_the_published_numbers_of_falcor3d_and_isaac3d_are_known(
    tmp_path: Path, load: Callable[..., Images], place: tuple[int, ...], level: int
) -> None:
    from PIL import Image

    Image.fromarray(drawn(2, 2, 3)).save(tmp_path / f"{level:06}.png")
    assert load(tmp_path, part=True).factors.tolist() == [list(place)]
    assert "part=True takes fewer. Got 1 pictures." in refusal(lambda: load(tmp_path))


@pytest.mark.parametrize("name", benchmarks.TABLES)
def test_a_table_beside_numbered_pictures_must_follow_their_numbers(tmp_path: Path, name: str) -> None:
    numbered_folder(tmp_path, drawn(12, 2, 2, 3))
    values = 1 - np.array(list(product(*map(range, FALCOR)))) / 7

    def with_table(table: np.ndarray) -> Images:
        with (tmp_path / name).open("wb") as file:
            np.save(file, table)
        return falcor3d(tmp_path, sizes=FALCOR)

    assert with_table(values).complete
    assert f"{name} must have shape (12, 7). Got shape (11, 7)" in refusal(lambda: with_table(values[1:]))
    assert f"{name} must follow the numbers of the pictures. Got column 1 does not." == refusal(
        lambda: with_table(values[:, [0, 4, 2, 3, 1, 5, 6]])
    )
    assert "column 4" in refusal(lambda: with_table(np.where(values == 1 - 2 / 7, 1, values)))
    (tmp_path / name).write_bytes(b"torn")
    assert f"{name} must be a complete .npy file" in refusal(lambda: falcor3d(tmp_path, sizes=FALCOR))


def test_the_factors_of_falcor3d_and_isaac3d_have_their_published_levels(tmp_path: Path) -> None:
    folder = numbered_folder(tmp_path, drawn(1, 2, 2, 3))
    falcor, isaac = falcor3d(folder, part=True), isaac3d(folder, part=True)
    assert dict(zip(isaac.names, isaac.grid or (), strict=True)) == {
        "object shape": 3, "object scale": 4, "camera height": 4, "robot x": 8, "robot y": 5, "lighting intensity": 4,
        "lighting y": 6, "object colour": 4, "wall colour": 4,
    }  # fmt: skip
    assert dict(zip(falcor.names, falcor.grid or (), strict=True)) == {
        "lighting intensity": 5, "lighting x": 6, "lighting y": 6, "lighting z": 6, "camera x": 6, "camera y": 6,
        "camera z": 6,
    }  # fmt: skip
    assert "a part of 233280" in str(falcor)
    assert "a part of 737280" in str(isaac)


def test_dsprites_in_part_say_so_and_large_ones_lie_in_a_temporary_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    images = drawn(len(GRID), 8, 8, top=2)
    np.savez_compressed(tmp_path / "d.npz", imgs=images, latents_classes=GRID)
    monkeypatch.setattr(archives, "LARGEST", 1000)
    monkeypatch.setattr(archives, "PIECE", 100)
    found = dsprites(tmp_path / "d.npz")
    assert str(found).startswith("48 images, a part of 737280, of 1 × 8 × 8")
    assert str(found).endswith("in a temporary file")
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(found)).pixels, 255 * images[:, None])


def test_shapes3d_survive_pickling(tmp_path: Path) -> None:
    found = shapes3d(shapes_file(tmp_path / "3dshapes.h5", drawn(len(SHAPES), 4, 4, 3), SHAPES))
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(found)).pixels, found.pixels)
    assert str(found).startswith("24 images, a part of 480000,")
    assert str(found).endswith("read from HDF5")


# ---- refusals ----------------------------------------------------------------------------------------------------


def test_other_files_are_refused_by_what_they_hold(tmp_path: Path) -> None:
    wrong = dsprites_file(tmp_path / "d.npz")
    text = refusal(lambda: sprites(wrong))
    assert text == ("d.npz must hold img_idx, palette, factors, factor_names. Got imgs, latents_classes, metadata.")
    assert "must hold images." in refusal(lambda: mpi3d(wrong))
    assert "must hold imgs, latents_classes." in refusal(lambda: dsprites(sprites_file(tmp_path / "s.npz")))
    np.save(tmp_path / "one.npy", np.ones(3))
    assert "no named arrays" in refusal(lambda: dsprites(tmp_path / "one.npy"))
    with pytest.importorskip("h5py").File(tmp_path / "x.h5", "w") as file:
        file["images"] = np.ones(3)
    assert refusal(lambda: shapes3d(tmp_path / "x.h5")) == "x.h5 must hold images, labels. Got images."


@pytest.mark.parametrize("load", [dsprites, sprites, shapes3d, mpi3d])
def test_missing_and_damaged_files_are_refused(tmp_path: Path, load: Callable[[Path], Images]) -> None:
    if load is shapes3d:
        pytest.importorskip("h5py")
    assert refusal(lambda: load(tmp_path / "gone.npz")) == "The file of images must exist. Got gone.npz."
    assert "must exist" in refusal(lambda: load(tmp_path))
    (tmp_path / "noise.bin").write_bytes(bytes(range(256)) * 4)
    assert "noise.bin must be a complete" in refusal(lambda: load(tmp_path / "noise.bin"))
    (tmp_path / "empty.npz").write_bytes(b"")
    assert "empty.npz must be a complete" in refusal(lambda: load(tmp_path / "empty.npz"))


def test_a_torn_archive_is_refused(tmp_path: Path) -> None:
    whole = dsprites_file(tmp_path / "d.npz").read_bytes()
    (tmp_path / "torn.npz").write_bytes(whole[: len(whole) // 2])
    assert "torn.npz must be a complete .npz file" in refusal(lambda: dsprites(tmp_path / "torn.npz"))


def test_pickled_images_are_never_loaded(tmp_path: Path) -> None:
    np.savez(tmp_path / "p.npz", imgs=np.array([{}], dtype=object), latents_classes=GRID)
    assert "plain arrays" in refusal(lambda: dsprites(tmp_path / "p.npz"))


def test_wrong_shapes_and_values_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "d.npz"
    flat = dsprites_file(path, images=drawn(len(GRID), 64))
    assert "Images must be bytes with 3 axes. Got shape (48, 64) and dtype uint8" in refusal(lambda: dsprites(flat))
    real = dsprites_file(path, images=np.zeros((len(GRID), 2, 2)))
    assert "Images must be bytes" in refusal(lambda: dsprites(real))
    grey = dsprites_file(path, images=np.full((len(GRID), 2, 2), 7, dtype=np.uint8))
    assert refusal(lambda: dsprites(grey)) == "Pixels must be places 0 to 1 of the palette. Got 7."
    short = dsprites_file(path, classes=GRID[1:])
    assert "The factors of 48 images must be a table of whole numbers. Got shape (47, 5)" in refusal(
        lambda: dsprites(short)
    )
    assert "whole numbers" in refusal(lambda: dsprites(dsprites_file(path, classes=GRID + 0.5)))
    assert "must not be negative. Got -1." in refusal(lambda: dsprites(dsprites_file(path, classes=GRID - 1)))
    assert "There must be 5 factors. Got 4 columns." in refusal(
        lambda: dsprites(dsprites_file(path, classes=GRID[:, 1:]))
    )
    none = dsprites_file(path, images=np.zeros((0, 2, 2), dtype=np.uint8), classes=GRID[:0])
    assert "Images must be bytes" in refusal(lambda: dsprites(none))
    grey = sprites_file(tmp_path / "s.npz", palette=drawn(5))
    assert "A palette must be bytes with 2 axes. Got shape (5,)" in refusal(lambda: sprites(grey))
    words = shapes_file(tmp_path / "x.h5", drawn(3, 2, 2, 3), np.zeros(3))
    assert "labels must be a table of numbers" in refusal(lambda: shapes3d(words))
    holes = shapes_file(tmp_path / "holes.h5", np.zeros((2, 4, 4, 3), np.uint8), np.array([[np.nan] * 6, [0.0] * 6]))
    assert refusal(lambda: shapes3d(holes)) == "labels must be finite. Got 6 entries that are not."
    few = shapes_file(tmp_path / "y.h5", drawn(3, 2, 2, 3), np.zeros((3, 5)))
    assert "There must be 6 factors. Got 5 columns." in refusal(lambda: shapes3d(few))


def test_grids_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    np.savez(tmp_path / "m.npz", images=drawn(24, 2, 2, 3))
    text = refusal(lambda: mpi3d(tmp_path / "m.npz"))
    assert "6 × 6 × 2 × 3 × 3 × 40 × 40 = 1036800 or 4 × 4 × 2 × 3 × 3 × 40 × 40 = 460800. Got 24 images." in text
    assert "a grid of 7 factors" in refusal(lambda: mpi3d(tmp_path / "m.npz", sizes=(24,)))
    assert "must be a whole number" in refusal(lambda: mpi3d(tmp_path / "m.npz", sizes=(24, 1, 1, 1, 1, 1, 0)))
    np.savez(tmp_path / "n.npz", images=np.uint8(3))
    assert "Got 0 images" in refusal(lambda: mpi3d(tmp_path / "n.npz"))


def test_without_h5py_the_package_to_install_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = shapes_file(tmp_path / "x.h5", drawn(len(SHAPES), 2, 2, 3), SHAPES)
    monkeypatch.setitem(sys.modules, "h5py", None)
    assert "must have the package h5py; install noumena[data]" in refusal(lambda: shapes3d(path))


# ---- refusals of every loader ------------------------------------------------------------------------------------


def shapes_set(path: Path) -> Path:
    return shapes_file(path / "3dshapes.h5", drawn(len(SHAPES), 4, 4, 3), SHAPES)


def mpi_set(path: Path) -> Path:
    np.savez(path / "m.npz", images=drawn(24, 4, 4, 3))
    return path / "m.npz"


LOADERS: dict[str, tuple[Callable[[Path], Path], Callable[[Path], Images]]] = {
    "dsprites": (lambda path: dsprites_file(path / "d.npz"), dsprites),
    "sprites": (lambda path: sprites_file(path / "s.npz"), sprites),
    "shapes3d": (shapes_set, shapes3d),
    "mpi3d": (mpi_set, lambda path: mpi3d(path, sizes=(2, 1, 2, 1, 1, 3, 2))),
    "cars3d": (two_cars, lambda path: cars3d(path, size=4, part=True)),
    "smallnorb": (norb_folder, lambda path: smallnorb(path, part=True)),
    "falcor3d": (lambda path: numbered_folder(path, drawn(12, 8, 8, 3)), lambda path: falcor3d(path, sizes=FALCOR)),
    "isaac3d": (lambda path: numbered_folder(path, drawn(6, 8, 8, 3)), lambda path: isaac3d(path, sizes=ISAAC)),
}


def files_of(path: Path) -> list[Path]:
    return [path] if path.is_file() else sorted(file for file in path.rglob("*") if file.suffix in (".mat", ".png"))


@pytest.mark.parametrize("name", LOADERS)
def test_what_is_not_there_is_refused(tmp_path: Path, name: str) -> None:
    make, load = LOADERS[name]
    if name == "shapes3d":
        pytest.importorskip("h5py")
    assert len(load(make(tmp_path))) > 0
    assert "must exist. Got gone" in refusal(lambda: load(tmp_path / "gone"))
    wrong = tmp_path if files_of(make(tmp_path))[0] == make(tmp_path) else files_of(make(tmp_path))[0]
    given = f"a folder, {wrong.name}" if wrong.is_dir() else f"a file, {wrong.name}"
    assert f"must exist. Got {given}." in refusal(lambda: load(wrong))


@pytest.mark.parametrize("name", LOADERS)
@pytest.mark.parametrize("kept", [0, 3, 30, 0.3, 0.6, 0.9])
def test_truncated_files_are_refused_by_name(tmp_path: Path, name: str, kept: float) -> None:
    make, load = LOADERS[name]
    path = make(tmp_path)
    torn = files_of(path)[0]
    whole = torn.read_bytes()
    torn.write_bytes(whole[: int(kept * len(whole)) if kept < 1 else int(kept)])
    assert f"{torn.name} must " in refusal(lambda: load(path).pixels)


@pytest.mark.parametrize("name", LOADERS)
def test_files_of_another_kind_are_refused_by_name(tmp_path: Path, name: str) -> None:
    make, load = LOADERS[name]
    path = make(tmp_path)
    noise = files_of(path)[0]
    for content in (bytes(range(256)) * 40, b"PK\x03\x04" + bytes(500), b"\x89HDF\r\n\x1a\n" + bytes(500)):
        noise.write_bytes(content)
        assert f"{noise.name} must " in refusal(lambda: load(path))


def test_wrong_types_of_pixels_are_refused_by_every_loader(tmp_path: Path) -> None:
    np.savez(tmp_path / "m.npz", images=np.zeros((24, 4, 4, 3), np.float32))
    assert "Images must be bytes" in refusal(lambda: LOADERS["mpi3d"][1](tmp_path / "m.npz"))
    wide = sprites_file(tmp_path / "s.npz", img_idx=np.zeros((6, 4, 4), np.int64))
    assert "Images must be bytes" in refusal(lambda: sprites(wide))
    real_ = shapes_file(tmp_path / "x.h5", np.zeros((len(SHAPES), 4, 4, 3)), SHAPES)
    assert "Images must be bytes" in refusal(lambda: shapes3d(real_))
    folder = cars_folder(tmp_path / "cars", {"car_1": np.zeros((8, 8, 3, 24, 4))})
    assert "im in car_1.mat must be bytes of shape (8, 8, 3, 24, 4). Got double" in refusal(
        lambda: cars3d(folder, part=True)
    )
    folder = norb_folder(tmp_path / "norb")
    matrix_file(folder / f"{norb.STEMS[0]}-dat.mat", np.zeros((4, 2, 6, 6), np.float32))
    assert "-dat.mat must be bytes of shape (image, camera, height, width). Got float32" in refusal(
        lambda: smallnorb(folder, part=True)
    )
    from PIL import Image

    folder = numbered_folder(tmp_path / "falcor", drawn(12, 2, 2, 3))
    Image.fromarray(np.zeros((2, 2), np.uint16)).save(folder / "images" / "000000.png")
    text = refusal(lambda: falcor3d(folder, sizes=FALCOR))
    assert text.startswith("Pictures must be grey or in colour, with eight bits a channel. Got 000000.png of mode I;16")


def test_missing_tables_of_factors_are_refused_by_every_loader(tmp_path: Path) -> None:
    np.savez(tmp_path / "d.npz", imgs=drawn(3, 2, 2, top=2))
    assert refusal(lambda: dsprites(tmp_path / "d.npz")) == "d.npz must hold imgs, latents_classes. Got imgs."
    np.savez(tmp_path / "s.npz", img_idx=drawn(3, 2, 2, top=2), palette=drawn(2, 3))
    assert "s.npz must hold img_idx, palette, factors, factor_names. Got img" in refusal(
        lambda: sprites(tmp_path / "s.npz")
    )
    folder = two_cars(tmp_path / "cars")
    (folder / "list.txt").unlink()
    assert refusal(lambda: cars3d(folder)) == "The folder cars must hold list.txt, the names of the cars. Got none."
    for kind in ("cat", "info"):
        folder = norb_folder(tmp_path / "norb")
        (folder / f"{norb.STEMS[1]}-{kind}.mat").rename(folder / f"{norb.STEMS[1]}-{kind}.mat.gz")
        text = refusal(lambda folder=folder: smallnorb(folder, part=True))
        assert text == (
            "The folder norb must hold the files of SmallNORB. "
            f"Got no {norb.STEMS[1]}-{kind}.mat, but one packed as .gz."
        )


def test_cars_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    folder = two_cars(tmp_path)
    (folder / "list.txt").write_text("car_7_mesh car_7_mesh")
    assert "different names" in refusal(lambda: cars3d(folder, part=True))
    (folder / "list.txt").write_text("car_7_mesh car_9_mesh")
    text = refusal(lambda: cars3d(folder, part=True))
    assert text == "Every car of list.txt must have its file. Got no car_9_mesh.mat."
    (folder / "list.txt").write_text("")
    assert "between 1 and 183" in refusal(lambda: cars3d(folder, part=True))
    (folder / "list.txt").write_text("car_7_mesh.mat car_2_mesh")
    assert len(cars3d(folder, part=True)) == 192
    savemat(folder / "car_2_mesh.mat", {"im": drawn(6, 6, 3, 24, 4)})
    assert "im in car_2_mesh.mat must be bytes of shape (8, 8, 3, 24, 4)" in refusal(lambda: cars3d(folder, part=True))
    savemat(folder / "car_2_mesh.mat", {"mask": drawn(2, 2)})
    assert refusal(lambda: cars3d(folder, part=True)) == "car_2_mesh.mat must hold im. Got mask."
    assert "size must be a whole number" in refusal(lambda: cars3d(two_cars(tmp_path), part=True, size=0))


def test_matrices_of_smallnorb_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    folder = norb_folder(tmp_path)
    images, cat, info = (folder / f"{norb.STEMS[0]}-{kind}.mat" for kind in ("dat", "cat", "info"))

    def said() -> str:
        text = refusal(lambda: smallnorb(folder, part=True))
        norb_folder(tmp_path)
        return text

    assert "must be bytes of shape (24300, 2, 96, 96), unless part=True. Got uint8 of shape (4, 2, 6, 6)" in refusal(
        lambda: smallnorb(folder)
    )
    matrix_file(images, drawn(4, 2, 6, 6), magic=0x1E3D4C52)
    text = said()
    assert "-dat.mat must begin with one of 0x1E3D4C51 (float32)" in text
    assert text.endswith("Got 0x1E3D4C52.")
    images.write_bytes(images.read_bytes() + b"more")
    assert "-dat.mat must have 312 bytes for shape (4, 2, 6, 6). Got 316." in said()
    images.write_bytes(struct.pack("<5i", 0x1E3D4C55, 9, 1, 1, 1))
    assert "must have 1 to 8 axes, none of them empty. Got 9 axes." in said()
    images.write_bytes(struct.pack("<5i", 0x1E3D4C55, 3, 1, 0, 1))
    assert "Got shape (1, 0, 1)." in said()
    matrix_file(images, drawn(4, 2, 7, 7))
    assert "Training and testing images must have one shape. Got [(2, 6, 6), (2, 7, 7)]." in said()
    matrix_file(cat, np.zeros(3, np.int32))
    assert "-cat.mat must be whole numbers of shape (4,). Got int32 of shape (3,)." in said()
    matrix_file(cat, np.zeros(4, np.float32))
    assert "-cat.mat must be whole numbers of shape (4,). Got float32" in said()
    matrix_file(cat, np.full(4, 5, np.int32))
    assert said() == "Levels of category must be below 5. Got 5."
    matrix_file(info, np.zeros((4, 3), np.int32))
    assert "-info.mat must be whole numbers of shape (4, 4)." in said()
    matrix_file(info, np.full((4, 4), 3, np.int32))
    assert "-info.mat must be even. Got [3]." in said()
    for stem in norb.STEMS:
        (folder / f"{stem}-dat.mat").unlink()
    assert "-dat.mat. Got neither half." in refusal(lambda: smallnorb(folder, part=True))


def test_pictures_with_other_numbers_are_refused(tmp_path: Path) -> None:
    folder = numbered_folder(tmp_path, drawn(12, 2, 2, 3))
    assert "Falcor3D must be 233280; part=True takes fewer. Got 12 pictures." in refusal(lambda: falcor3d(folder))
    assert "Isaac3D must be 737280; part=True takes fewer. Got 12 pictures." in refusal(lambda: isaac3d(folder))
    assert "must be numbered below 6. Got 6, 7, 8, 9, 10 and 1 more." in refusal(lambda: isaac3d(folder, sizes=ISAAC))
    assert "Falcor3D must have 7 factors. Got 1 sizes." in refusal(lambda: falcor3d(folder, sizes=(12,)))
    assert "must be a whole number" in refusal(lambda: falcor3d(folder, sizes=(12, 1, 1, 1, 1, 1, 0)))
    (folder / "images" / ".hidden.png").write_bytes(b"")
    assert len(falcor3d(folder, sizes=FALCOR)) == 12
    (folder / "images" / "12.png").write_bytes(b"")
    assert "must be numbered, 000000.png and so on. Got 12.png." in refusal(lambda: falcor3d(folder, sizes=FALCOR))
    (tmp_path / "none").mkdir()
    assert "Got 0 pictures" in refusal(lambda: falcor3d(tmp_path / "none", part=True))


def test_levels_beyond_the_published_grids_are_refused(tmp_path: Path) -> None:
    far = GRID.copy()
    far[0, 2] = 40
    text = refusal(lambda: dsprites(dsprites_file(tmp_path / "d.npz", classes=far)))
    assert text == "Levels of orientation must be below 40. Got 40."
    hues = np.zeros((11, 6))
    hues[:, 1] = np.arange(11)
    many = shapes_file(tmp_path / "x.h5", drawn(11, 2, 2, 3), hues)
    assert refusal(lambda: shapes3d(many)) == "Levels of wall hue must be below 10. Got 10."


# ---- real files --------------------------------------------------------------------------------------------------


def real(variable: str) -> str:
    path = os.environ.get(variable)
    if path is None:
        pytest.skip(f"{variable} does not name a file")
    return path


def test_the_real_dsprites_are_shapes_that_move_with_their_factors() -> None:
    found = dsprites(real("NOUMENA_DSPRITES"))
    assert (found.shape, len(found.sizes)) == ((1, 64, 64), 5)
    sample = found.sample(500, size=32)
    assert sample.x.shape == (500, 1024)
    assert (sample.x.min(), sample.x.max()) == (0, 1)
    pictures = sample.x.reshape(-1, 32, 32)
    across = (pictures.sum(axis=1) @ np.arange(32)) / pictures.sum(axis=(1, 2))
    down = (pictures.sum(axis=2) @ np.arange(32)) / pictures.sum(axis=(1, 2))
    assert np.corrcoef(across, sample.z[:, 3])[0, 1] > 0.99
    assert np.corrcoef(down, sample.z[:, 4])[0, 1] > 0.99
    assert np.corrcoef(np.sqrt(pictures.sum(axis=(1, 2))), sample.z[:, 1])[0, 1] > 0.8


def test_the_real_sprites_are_a_complete_grid_of_colours() -> None:
    found = sprites(real("NOUMENA_SPRITES"))
    assert (len(found), found.shape) == (23328, (3, 64, 64))
    assert found.names == ("body", "bottomwear", "topwear", "hair", "action", "direction", "frame")
    assert found.sizes == (6, 6, 6, 6, 3, 3, 2)
    assert found.complete
    hair = [int(np.flatnonzero((found.factors == [0, 0, 0, level, 0, 1, 0]).all(axis=1))[0]) for level in range(6)]
    differ = found.rows(hair).reshape(6, 3, 64, 64).std(axis=0).max(axis=0)
    heights = np.flatnonzero(differ.max(axis=1) > 0.1)
    assert heights.size > 0
    assert heights.mean() < 32  # hair is in the upper half
