"""Benchmark files: small ones of the published layouts come back exactly, and real ones where named."""

import os
import pickle
from collections.abc import Callable
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from benchmark_files import (
    FALCOR,
    GRID,
    ISAAC,
    SHAPES,
    cars_folder,
    drawn,
    dsprites_file,
    norb_folder,
    numbered_folder,
    shapes_file,
    sprites_file,
    two_cars,
)
from sentences import refusal

from noumena.data import archives, benchmarks, cars, norb
from noumena.data.benchmarks import (
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
    assert f"must be {n}; part=True takes fewer. Got {n - 1} images." in refusal(lambda: load(tmp_path, sizes=sizes))
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
    assert "part=True takes fewer. Got 1 images." in refusal(lambda: load(tmp_path))


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
    assert f"{name} must follow the numbers of the images. Got column 1 does not." == refusal(
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
    images = sample.x.reshape(-1, 32, 32)
    across = (images.sum(axis=1) @ np.arange(32)) / images.sum(axis=(1, 2))
    down = (images.sum(axis=2) @ np.arange(32)) / images.sum(axis=(1, 2))
    assert np.corrcoef(across, sample.z[:, 3])[0, 1] > 0.99
    assert np.corrcoef(down, sample.z[:, 4])[0, 1] > 0.99
    assert np.corrcoef(np.sqrt(images.sum(axis=(1, 2))), sample.z[:, 1])[0, 1] > 0.8


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
