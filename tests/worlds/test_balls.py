"""Balls are drawn as a slow loop over pixels draws them, and stand still as often and where they should."""

import time
from dataclasses import replace

import numpy as np
import pytest

from noumena.checks import InputError
from noumena.worlds import balls as module
from noumena.worlds.balls import COLOURS, MARGINS, Balls, separated

MANY = Balls(3, 16, images=4000, seed=5)


def painted(positions: np.ndarray, size: int) -> np.ndarray:
    """One picture, pixel by pixel and ball by ball: each ball paints over what is there."""
    picture = np.full((3, size, size), 255.0)
    for ball, (x, y) in enumerate(positions.reshape(-1, 2)):
        for row, column in np.ndindex(size, size):
            away = np.hypot((column + 0.5) / size - x, (row + 0.5) / size - y)
            share = min(1.0, max(0.0, (0.1 - away) * size + 0.5))
            picture[:, row, column] = (1 - share) * picture[:, row, column] + share * np.array(COLOURS[ball])
    return picture


@pytest.mark.parametrize("size", [12, 20])
def test_pictures_are_those_of_a_slow_loop(size: int) -> None:
    world = Balls(4, size, images=5, seed=3)
    slow = np.stack([painted(row, size) for row in world.z])
    fast = world.render(world.z).numpy().astype(float)
    assert np.abs(fast - slow).max() <= 0.51  # bytes are rounded
    assert len(np.unique(fast)) > 20


def test_the_first_coordinate_is_from_the_left_and_the_second_from_above() -> None:
    (picture,) = Balls(1, 32).render([[0.25, 0.75]]).numpy()
    assert picture[:, 24, 8].tolist() == list(COLOURS[0])
    assert picture[:, 8, 24].tolist() == [255, 255, 255]


def test_later_balls_lie_in_front_of_earlier_ones() -> None:
    (picture,) = Balls(2, 32).render([[0.5, 0.5, 0.55, 0.5]]).numpy()
    assert picture[:, 16, 17].tolist() == list(COLOURS[1])
    assert picture[:, 16, 13].tolist() == list(COLOURS[0])


def test_twelve_colours_are_distinct_and_none_is_nearly_white() -> None:
    colours = np.array(COLOURS)
    gaps = np.abs(colours[:, None] - colours).sum(axis=2) + 999 * np.eye(12)
    assert len(COLOURS) == 12
    assert gaps.min() > 60
    assert (255 * 3 - colours.sum(axis=1)).min() > 150


@pytest.mark.parametrize("first", [3, 10])
def test_the_first_colour_may_be_another_and_the_list_goes_round(first: int) -> None:
    (picture,) = Balls(3, 32, colours=first).render([[0.2, 0.2, 0.5, 0.5, 0.8, 0.8]]).numpy()
    for ball, middle in enumerate((6, 16, 25)):
        assert picture[:, middle, middle].tolist() == list(COLOURS[(first + ball) % 12])


def test_a_tenth_of_the_balls_stands_still_at_its_mean_and_the_others_do_not() -> None:
    still = MANY.z == MANY.means
    assert (still == ~MANY.masks).all()
    assert np.abs(still.mean(axis=0) - 0.1).max() < 0.02
    assert (MANY.masks[:, ::2] == MANY.masks[:, 1::2]).all()
    assert abs((~MANY.masks[:, 0] & ~MANY.masks[:, 2]).mean() - 0.01) < 0.006  # balls freeze independently


def test_coordinates_may_stand_still_one_by_one() -> None:
    world = replace(MANY, freeze="coordinate", frozen=0.3)
    assert np.abs((~world.masks).mean(axis=0) - 0.3).max() < 0.03
    assert abs((~world.masks[:, 0] & ~world.masks[:, 1]).mean() - 0.09) < 0.02


def test_places_are_normal_around_the_means_and_end_at_the_margins() -> None:
    moving = [column[mask] for column, mask in zip(MANY.z.T, MANY.masks.T, strict=True)]
    assert MANY.z.min() >= MARGINS[0]
    assert MANY.z.max() <= MARGINS[1]
    for values, mean in zip(moving, MANY.means, strict=True):
        assert abs(values.mean() - mean) < 0.01
        assert abs(values.std() - 0.1) < 0.006
        assert abs((np.abs(values - mean) < 0.1).mean() - 0.683) < 0.03
    assert np.abs(np.corrcoef(MANY.z.T) - np.eye(6)).max() < 0.06


def test_far_tails_are_cut_off_and_not_piled_up() -> None:
    spread = module._cut_normal(np.linspace(0, 1 - 1e-9, 1001)[:, None], np.array([0.06]))
    assert abs(spread.min() - 0.05) < 1e-6
    assert (spread < 0.0501).sum() <= 2
    assert 0.3 < spread.max() < 0.7


@pytest.mark.parametrize("n", [2, 4, 6])
def test_means_are_in_their_square_and_far_apart(n: int) -> None:
    for seed in range(3):
        points = Balls(n, seed=seed).means.reshape(n, 2)
        gaps = np.hypot(*(points[:, None] - points).transpose(2, 0, 1)) + np.eye(n)
        assert gaps.min() > 0.2
        assert points.min() >= 0.3
        assert points.max() <= 0.7
    assert not np.array_equal(Balls(n, seed=0).means, Balls(n, seed=1).means)


def test_means_that_have_no_room_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "STARTS", 2)
    with pytest.raises(InputError, match=r"10 means in \[0.3, 0.7\]² must have room to be more than 0.3 apart. Got"):
        separated(10, 0.3)


def test_an_image_depends_on_the_seed_and_its_number_only() -> None:
    few, many = Balls(2, 8, images=10), Balls(2, 8, images=50)
    assert np.array_equal(few.z, many.z[:10])
    assert np.array_equal(few.masks, many.masks[:10])
    shuffled = np.array([7, 2, 9])
    assert (few.pictures(shuffled) == many.pictures(np.arange(50))[shuffled]).all()
    assert not np.array_equal(few.z, replace(few, seed=1).z)


def test_pictures_are_flat_rows_of_what_is_rendered() -> None:
    world = Balls(2, 8, images=300)
    rows = world.pictures(np.arange(300))
    assert (len(world), world.shape, rows.shape) == (300, (3, 8, 8), (300, 192))
    assert (rows == world.render(world.positions).flatten(1)).all()
    assert world.names == ("x0", "y0", "x1", "y1")


def test_pieces_of_a_large_batch_fit_together(monkeypatch: pytest.MonkeyPatch) -> None:
    world = Balls(2, 8, images=20)
    whole = world.pictures(np.arange(20))
    monkeypatch.setattr(module, "PIECE", {"cpu": 0})
    assert (world.pictures(np.arange(20)) == whole).all()


def test_samples_are_new_rows_of_the_same_law() -> None:
    world = Balls(2, 8, images=2000)
    one, again, other = world.sample(2000), world.sample(2000), world.sample(5, random_state=1)
    assert np.array_equal(one.x, again.x)
    assert np.array_equal(one.z, again.z)
    moved = world.masks.all(axis=1)
    assert not np.isin(one.z[(one.z != world.means).all(axis=1)], world.z[moved]).any()
    assert not np.isin(other.z[other.z != world.means[None]], one.z).any()
    assert np.abs(one.z.mean(axis=0) - world.z.mean(axis=0)).max() < 0.015
    assert (one.x.min() >= 0, one.x.max()) == (True, 1.0)
    assert np.array_equal((one.x * 255).round().astype(np.uint8), world.render(one.z).flatten(1).numpy())


def test_a_core_draws_some_hundred_pictures_a_second() -> None:
    world = Balls(4, 64, images=256)
    world.pictures(np.arange(8))
    start = time.process_time()
    world.pictures(np.arange(256))
    assert time.process_time() - start < 1.0
