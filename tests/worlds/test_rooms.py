"""Rooms are rendered as a slow loop over single rays sees them, and every factor moves only what it is about."""

import numpy as np
import pytest
import torch

from noumena.worlds import rooms as module
from noumena.worlds.rooms import LEVELS, Rooms

ROOMS = Rooms(32)
BASE = np.array([0, 3, 6, 4, 2, 7])
"""Red floor, green wall, blue sphere, seen from the front."""


def changed(factor: int, level: int, base: np.ndarray = BASE) -> np.ndarray:
    """Pixels that change when one factor does."""
    other = base.copy()
    other[factor] = level
    one, two = ROOMS.render(np.stack([base, other])).int()
    return (one != two).any(dim=0).numpy()


def eye_and_ray(angle: float, i: int, j: int, size: int) -> tuple[np.ndarray, np.ndarray]:
    """The camera, and the ray of unit length through the middle of a pixel."""
    away, high = module.EYE
    eye = np.array([away * np.cos(angle), away * np.sin(angle), high])
    forward = np.array([0, 0, module.TARGET]) - eye
    forward /= np.linalg.norm(forward)
    right = np.cross(forward, [0, 0, 1])
    right /= np.linalg.norm(right)
    v, u = 1 - (2 * i + 1) / size, (2 * j + 1) / size - 1
    ray = forward + module.OPENING * (u * right + v * np.cross(right, forward))
    return eye, ray / np.linalg.norm(ray)


def sees_ball(angle: float, radius: float, size: int) -> np.ndarray:
    """Whether the ray through the middle of each pixel meets a ball on the floor, one ray at a time."""
    seen, centre = np.zeros((size, size), dtype=bool), np.array([0, 0, radius])
    for i, j in np.ndindex(size, size):
        eye, ray = eye_and_ray(angle, i, j, size)
        seen[i, j] = np.linalg.norm(eye + (centre - eye) @ ray * ray - centre) < radius
    return seen


def wall_met(angle: float, j: int, size: int) -> int:
    """Which pair of walls the ray through a pixel of the highest row meets."""
    eye, ray = eye_and_ray(angle, 0, j, size)
    return int(np.argmin([(np.sign(ray[k]) * module.WALL - eye[k]) / ray[k] for k in range(2)]))


@pytest.mark.parametrize("orientation", [0, 3, 12, 14])
def test_corners_of_the_room_are_where_a_slow_loop_sees_them(orientation: int) -> None:
    walls = [wall_met((2 * orientation / 14 - 1) * module.WIDEST, j, 32) for j in range(32)]
    corner = int(np.flatnonzero(np.diff(walls))[0])
    row = ROOMS.render([[0, 3, 6, 4, 2, orientation]])[0, 1, 0].int().numpy()
    assert abs(int(np.abs(np.diff(row)).argmax()) - corner) <= 1


@pytest.mark.parametrize(("scale", "orientation"), [(0, 0), (4, 7), (7, 14)])
def test_a_sphere_is_where_a_slow_loop_sees_it(scale: int, orientation: int) -> None:
    base = np.array([0, 3, 6, scale, 2, orientation])
    drawn = changed(2, 1, base)
    radius = module.RADII[0] + (module.RADII[1] - module.RADII[0]) * scale / 7
    seen = sees_ball((2 * orientation / 14 - 1) * module.WIDEST, radius, 32)
    inside = seen & np.roll(seen, 1, 0) & np.roll(seen, -1, 0) & np.roll(seen, 1, 1) & np.roll(seen, -1, 1)
    around = seen | np.roll(seen, 1, 0) | np.roll(seen, -1, 0) | np.roll(seen, 1, 1) | np.roll(seen, -1, 1)
    assert seen.sum() > 10
    assert (drawn >= inside).all()
    assert (drawn <= around).all()


def test_hues_move_their_own_pixels_and_together_all() -> None:
    floor, wall, thing = (changed(k, 9) for k in range(3))
    assert (floor | wall | thing).all()
    edges = (floor & wall) | (floor & thing) | (wall & thing)
    assert 0 < edges.mean() < 0.2
    assert floor[-1].all()
    assert wall[0].all()
    assert not thing[0].any()


def test_the_object_grows_with_its_scale_and_shapes_differ() -> None:
    sizes = [changed(2, 1, np.array([0, 3, 6, scale, 2, 7])).sum() for scale in range(8)]
    assert (np.diff(sizes) > 0).all()
    shapes = ROOMS.render([[0, 3, 6, 4, shape, 7] for shape in range(4)]).int()
    apart = [(shapes[i] != shapes[j]).float().mean().item() for i in range(4) for j in range(i)]
    assert min(apart) > 0.01


def test_the_angle_moves_the_walls_too_and_opposite_angles_mirror_the_room() -> None:
    assert changed(5, 0).mean() > 0.3
    left, right = (changed(2, 1, np.array([0, 3, 6, 4, 0, angle])) for angle in (2, 12))
    np.testing.assert_array_equal(left, right[:, ::-1])


def test_the_lamp_throws_a_shadow_on_the_floor() -> None:
    with_thing, floor = ROOMS.render([BASE, [0, 3, 6, 0, 2, 7]]).int()
    only_floor = changed(0, 5) & ~changed(2, 1) & ~changed(2, 1, np.array([0, 3, 6, 0, 2, 7]))
    darker = (with_thing[0] < floor[0] - 10).numpy() & only_floor
    assert darker.any()


@pytest.mark.parametrize("shape", range(4))
def test_images_do_not_depend_on_what_is_rendered_beside_them(monkeypatch: pytest.MonkeyPatch, shape: int) -> None:
    levels = np.stack([np.random.default_rng(shape).integers(k, size=11) for k in LEVELS], axis=1)
    together = ROOMS.render(levels)
    monkeypatch.setitem(module.PIECE, "cpu", 1)
    alone = torch.cat([ROOMS.render(levels[k : k + 1]) for k in range(11)])
    assert torch.equal(together, alone)


def test_values_at_the_grid_are_the_grid_and_hues_go_round() -> None:
    values = np.array([[0.0, 0.3, 0.6, 4 / 7, 2, 0.5]])
    assert torch.equal(ROOMS.render_values(values), ROOMS.render(BASE[None]))
    round_trip = values.copy()
    round_trip[0, 0] = 1.0
    assert torch.equal(ROOMS.render_values(round_trip), ROOMS.render_values(values))


def test_numbers_of_images_run_through_the_grid() -> None:
    assert len(ROOMS) == 480_000
    assert ROOMS.levels(np.array([0, 1, 479_999])).tolist() == [[0] * 6, [0, 0, 0, 0, 0, 1], [k - 1 for k in LEVELS]]


@pytest.mark.parametrize("continuous", [False, True])
def test_samples_are_rows_with_their_factors_and_seeds_repeat(continuous: bool) -> None:
    one, two = (ROOMS.sample(6, random_state=3, continuous=continuous) for _ in range(2))
    assert one.x.shape == (6, 3 * 32 * 32)
    assert 0 <= one.x.min() < one.x.max() <= 1
    np.testing.assert_array_equal(one.x, two.x)
    assert (ROOMS.sample(6, random_state=4, continuous=continuous).z != one.z).any()
    draw = ROOMS.render_values if continuous else ROOMS.render
    np.testing.assert_allclose(draw(one.z).flatten(1).numpy() / 255, one.x, atol=1e-6)
