"""Images: rows and samples come back exactly from wherever they lie, and only what is asked for is read."""

import pickle
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sentences import refusal

from noumena.data import archives
from noumena.data.images import CHUNK, Images

RNG = np.random.default_rng(0)


def drawn(*shape: int, top: int = 256) -> np.ndarray:
    return RNG.integers(0, top, shape).astype(np.uint8)


def image(channels: int = 1, size: int = 4, n: int = 3) -> Images:
    return Images(drawn(n, size, size, channels), np.arange(n)[:, None], ("which",))


class Counting:
    """An array that notes what is read of it, and insists on places in rising order."""

    dtype = np.dtype(np.uint8)

    def __init__(self, array: np.ndarray) -> None:
        self.array, self.shape, self.read = array, array.shape, []

    def __getitem__(self, places: Any) -> np.ndarray:
        assert (np.diff(places) > 0).all()
        self.read += places.tolist()
        return self.array[places]


# ---- images ----------------------------------------------------------------------------------------------------


def test_pictures_are_flat_bytes_channel_by_channel_in_the_order_asked_for() -> None:
    pixels = drawn(9, 2, 5, 3)
    found = Images(pixels, np.arange(9)[:, None], ("which",))
    asked = np.array([7, 0, 7, -1, 3], dtype=np.int32)
    read = found.pictures(asked)
    assert (read.shape, read.dtype, read.flags.c_contiguous) == ((5, 30), np.uint8, True)
    np.testing.assert_array_equal(read, pixels[asked].transpose(0, 3, 1, 2).reshape(5, 30))
    assert (found.shape, len(found), found.pictures([]).shape) == ((3, 2, 5), 9, (0, 30))
    coloured = Images(drawn(4, 3, 3, top=2), np.zeros((4, 1), dtype=int), ("a",), palette := drawn(2, 3))
    np.testing.assert_array_equal(
        coloured.pictures([2]).reshape(3, 3, 3), palette[coloured.stored[2]].transpose(2, 0, 1)
    )


def test_only_what_is_asked_for_is_read_once_and_in_rising_order() -> None:
    source = Counting(drawn(50, 2, 2, 1))
    found = Images(source, np.zeros((50, 1), dtype=int), ("a",))
    assert source.read == [0]
    source.read.clear()
    np.testing.assert_array_equal(found.pictures([9, 4, 9, 20, -50]), source.array[[9, 4, 9, 20, 0]].reshape(5, 4))
    assert source.read == [0, 4, 9, 20]
    source.read.clear()
    assert found.sample(3, random_state=1).x.shape == (3, 4)
    assert len(source.read) == 3


def test_a_plain_hdf5_dataset_is_read_at_places_in_any_order(tmp_path: Path) -> None:
    pixels = drawn(20, 3, 3, 3)
    with pytest.importorskip("h5py").File(tmp_path / "x.h5", "w") as file:
        file["images"] = pixels
        found = Images(file["images"], np.zeros((20, 1), dtype=int), ("a",))
        read = found.pictures([19, 2, 2, 5])
    np.testing.assert_array_equal(read, pixels[[19, 2, 2, 5]].transpose(0, 3, 1, 2).reshape(4, 27))


def test_images_of_an_array_survive_pickling() -> None:
    found = image(channels=2)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(found)).pixels, found.pixels)


# ---- unpacked ----------------------------------------------------------------------------------------------------


def test_unpacked_images_are_the_same_images_as_plain_bytes() -> None:
    palette = drawn(4, 3)
    found = Images(drawn(CHUNK + 40, 4, 4, top=4), np.arange(CHUNK + 40)[:, None], ("which",), palette, grid=(9999,))
    plain = found.unpacked()
    assert plain.palette is None
    assert (plain.names, plain.grid) == (found.names, found.grid)
    np.testing.assert_array_equal(plain.pixels, found.pixels)
    np.testing.assert_array_equal(plain.factors, found.factors)
    small = found.unpacked(size=2)
    assert small.shape == (3, 2, 2)
    np.testing.assert_array_equal(small.pixels.reshape(CHUNK + 40, -1), np.rint(255 * found.rows(size=2)))
    assert "size must divide" in refusal(lambda: found.unpacked(size=3))


@pytest.mark.parametrize(("together", "longest"), [(1, CHUNK), (600, 600)])
def test_unpacking_reads_ranges_as_long_as_the_pieces_of_the_file(together: int, longest: int) -> None:
    class Pieces(Counting):
        def __getitem__(self, places: Any) -> np.ndarray:
            lengths.append(len(places))
            return super().__getitem__(places)

    lengths: list[int] = []
    source = Pieces(drawn(1300, 1, 1, 1))
    source.together = together  # type: ignore[attr-defined]
    found = Images(source, np.zeros((1300, 1), dtype=int), ("a",))
    np.testing.assert_array_equal(found.unpacked().pixels.ravel(), source.array.ravel())
    assert max(lengths) == longest
    assert sum(lengths) == 1 + 1300


def test_many_unpacked_images_lie_in_a_temporary_file(monkeypatch: pytest.MonkeyPatch) -> None:
    found = image(n=20)
    assert not isinstance(found.unpacked().stored, np.memmap)
    monkeypatch.setattr(archives, "LARGEST", 100)
    filed = found.unpacked()
    assert isinstance(filed.stored, np.memmap)
    np.testing.assert_array_equal(filed.pixels, found.pixels)


# ---- what they are -----------------------------------------------------------------------------------------------


def test_a_part_of_a_published_set_says_so() -> None:
    whole = Images(drawn(4, 2, 2, 1), np.array(list(product(range(2), range(2)))), ("a", "b"), grid=(2, 2))
    assert str(whole) == "4 images of 1 × 2 × 2 (channel, height, width); factors: a 2, b 2"
    assert whole.complete
    part = Images(drawn(3, 2, 2, 1), whole.factors[1:], ("a", "b"), grid=(2, 2))
    assert str(part).startswith("3 images, a part of 4, of 1 × 2 × 2")
    assert not part.complete


def test_images_may_have_no_factors() -> None:
    found = Images(drawn(1, 2, 2, 1), np.zeros((1, 0), dtype=int), ())
    assert str(found).endswith("factors: none")
    assert (found.sizes, found.complete) == ((), False)
    assert found.sample(1).z.shape == (1, 0)


def test_levels_beyond_a_published_grid_are_refused() -> None:
    def with_level(level: int) -> Images:
        return Images(drawn(1, 2, 2, 1), np.array([[0, level]]), ("a", "hue"), grid=(1, 3))

    assert with_level(2).sizes == (1, 3)
    assert refusal(lambda: with_level(3)) == "Levels of hue must be below 3. Got 3."


def test_images_without_pixels_and_palettes_without_colours_are_refused() -> None:
    factors = np.zeros((2, 1), dtype=int)
    assert "Images must be bytes" in refusal(lambda: Images(np.zeros((2, 0, 3, 1), np.uint8), factors, ("a",)))
    empty = np.zeros((0, 3), np.uint8)
    assert "A palette must be" in refusal(lambda: Images(drawn(2, 3, 3), factors, ("a",), empty))


def test_a_pixel_beyond_the_palette_is_refused_when_it_is_read() -> None:
    places = drawn(5, 2, 2, top=2)
    places[4] = 2
    found = Images(places, np.zeros((5, 1), dtype=int), ("a",), drawn(2, 3))
    assert found.pictures([0, 3]).shape == (2, 12)
    assert refusal(lambda: found.pictures([1, 4])) == "Pixels must be places 0 to 1 of the palette. Got 2."


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
    sample = found.sample(20, random_state=3)
    np.testing.assert_array_equal(sample.x, found.rows(sample.z[:, 0]))
    assert len(np.unique(sample.z)) == 20
    assert sample.z.dtype == np.int64
    assert sample.u is None
    np.testing.assert_array_equal(sample.z, found.sample(20, random_state=3).z)
    assert (sample.z != found.sample(20, random_state=4).z).any()
    assert found.sample(5, size=2).x.shape == (5, 4)
    assert sorted(found.sample(50).z[:, 0]) == list(range(50))


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
    for index in ([0, 3], [-4], [True, False], [0.5]):
        assert "index must be integers from -3 to 2" in refusal(lambda index=index: found.pictures(index))
