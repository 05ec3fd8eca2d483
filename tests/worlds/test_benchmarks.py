"""Benchmark files: small ones of the published layouts come back exactly, others are refused; real ones where named."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from itertools import product
from pathlib import Path

import numpy as np
import pytest

from noumena.checks import InputError
from noumena.worlds.benchmarks import Images, dsprites, mpi3d, shapes3d, sprites

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


def refusal(call: Callable[[], object]) -> str:
    with pytest.raises(InputError) as error:
        call()
    text = str(error.value)
    assert "\n" not in text
    assert "Got" in text
    return text


def image(channels: int = 1, size: int = 4, n: int = 3) -> Images:
    return Images(drawn(n, size, size, channels), np.arange(n)[:, None], ("which",))


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
    assert str(found) == "6 images of 3 × 4 × 4 (channel, height, width); factors: body 2, hair 3"


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


# ---- rows and samples --------------------------------------------------------------------------------------------


def test_rows_are_flat_channel_by_channel_between_zero_and_one() -> None:
    found = image(channels=3)
    rows = found.rows()
    assert (rows.shape, rows.dtype) == ((3, 48), np.float32)
    np.testing.assert_array_equal(np.round(rows * 255).reshape(3, 3, 4, 4), found.pixels)
    extremes = Images(np.array([[[[0], [255]]]], dtype=np.uint8), np.zeros((1, 1), dtype=int), ("a",))
    assert extremes.rows().tolist() == [[0, 1]]


def test_shrinking_averages_blocks() -> None:
    found = image(channels=2, size=6)
    small = found.rows(size=2).reshape(3, 2, 2, 2)
    for i, c, h, w in product(range(3), range(2), range(2), range(2)):
        block = found.pixels[i, c, 3 * h : 3 * h + 3, 3 * w : 3 * w + 3]
        assert small[i, c, h, w] == pytest.approx(block.mean() / 255, rel=1e-6)
    np.testing.assert_array_equal(found.rows(size=6), found.rows())


def test_rows_can_be_chosen_across_chunks() -> None:
    found = image(n=1100)
    everything = found.rows()
    np.testing.assert_array_equal(everything, found.pixels.reshape(1100, -1) / np.float32(255))
    np.testing.assert_array_equal(found.rows([1099, 0, -2]), everything[[1099, 0, -2]])
    odd = np.arange(1100) % 2 == 1
    np.testing.assert_array_equal(found.rows(odd), everything[odd])
    assert found.rows([]).shape == (0, 16)


def test_samples_are_different_images_with_their_factors() -> None:
    found = image(n=50)
    sample = found.sample(20, seed=3)
    np.testing.assert_array_equal(sample.x, found.rows(sample.z[:, 0]))
    assert len(np.unique(sample.z)) == 20
    assert sample.z.dtype == np.int64
    assert sample.u is None
    np.testing.assert_array_equal(sample.z, found.sample(20, seed=3).z)
    assert (sample.z != found.sample(20, seed=4).z).any()
    assert found.sample(5, size=2).x.shape == (5, 4)
    assert sorted(found.sample(50).z[:, 0]) == list(range(50))


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


def test_rows_and_samples_that_are_not_there_are_refused() -> None:
    found = image()
    assert "size must divide a square of pixels, here 4 × 4. Got 3." in refusal(lambda: found.rows(size=3))
    assert "size must be a whole number" in refusal(lambda: found.rows(size=0))
    oblong = Images(drawn(1, 2, 4, 1), np.zeros((1, 1), dtype=int), ("a",))
    assert "square of pixels, here 2 × 4" in refusal(lambda: oblong.rows(size=2))
    assert "from -3 to 2" in refusal(lambda: found.rows([0, 3]))
    assert "Got [-4]" in refusal(lambda: found.rows([-4]))
    assert "Got shape (2,)" in refusal(lambda: found.rows([True, False]))
    assert "dtype float64" in refusal(lambda: found.rows([0.5]))
    assert "n must be at most the 3 images there are. Got 4." in refusal(lambda: found.sample(4))
    assert "n must be a whole number" in refusal(lambda: found.sample(0))


def test_without_h5py_the_package_to_install_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = shapes_file(tmp_path / "x.h5", drawn(len(SHAPES), 2, 2, 3), SHAPES)
    monkeypatch.setitem(sys.modules, "h5py", None)
    assert "must have the package h5py; install noumena[data]" in refusal(lambda: shapes3d(path))


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
