"""A decoder of which every latent lights one quarter of the picture: all that is shown of it is known by hand."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch import nn

from noumena.checks import InputError
from noumena.report import pictures
from noumena.report.pictures import (
    Latents,
    checked_shape,
    coloured,
    interpolations,
    jacobian_maps,
    pixels,
    shape_of,
    sheet,
    shrunk,
    swaps,
    top_of,
    traversals,
)

SHAPE = (1, 8, 8)
GAINS = np.array([1.0, 0.5, 0.25, 0.0])
"""Light per latent; the last latent is dead."""


def quarter(k: int) -> np.ndarray:
    light = np.zeros((8, 8))
    light[4 * (k // 2) : 4 * (k // 2) + 4, 4 * (k % 2) : 4 * (k % 2) + 4] = 1
    return light


class Quarters:
    """``x = top · Σ_j gain_j · z_j · quarter_j`` in every channel, and its inverse."""

    def __init__(self, channels: int = 1, top: float = 1.0):
        one = np.stack([gain * quarter(k).ravel() for k, gain in enumerate(GAINS)], axis=1)
        self.matrix = top * np.concatenate([(c + 1) * one for c in range(channels)])  # (pixel, latent)
        self.decoder_ = nn.Linear(4, len(self.matrix), bias=False)
        with torch.no_grad():
            self.decoder_.weight.copy_(torch.as_tensor(self.matrix))

    def transform(self, x):
        return np.asarray(x) @ np.linalg.pinv(self.matrix).T

    def inverse_transform(self, z):
        return np.asarray(z) @ self.matrix.T


def lit(*lights: float) -> list:
    """The picture with so much light in its quarters, in bytes."""
    return np.round(255 * sum(light * quarter(k) for k, light in enumerate(lights))).tolist()


CODES = np.array([[0.0, 0.0, 0.0, 0.0], [0.5, 0.5, 0.5, 0.5], [1.0, 1.0, 1.0, 1.0]])


def test_a_strip_moves_one_latent_through_its_quantiles_and_keeps_the_others():
    z = np.random.default_rng(0).uniform(size=(1001, 4))
    found = traversals(Latents(Quarters()), z, SHAPE, steps=3)
    low, high = np.quantile(z[:, 1], (0.01, 0.99))
    k = found.latents.index(1)
    np.testing.assert_allclose(found.values[k], [low, (low + high) / 2, high])
    base = found.start * GAINS
    assert found.images.shape == (4, 3, *SHAPE)
    for step, value in enumerate(found.values[k]):
        assert found.images[k, step, 0].tolist() == lit(base[0], 0.5 * value, base[2], base[3])


def test_strips_start_from_the_row_nearest_to_the_median():
    assert traversals(Latents(Quarters()), CODES, SHAPE).start.tolist() == [0.5] * 4
    skewed = np.array([[5.0, 0.0, 0.0, 0.0], [0.0, 0.0, 0.0, 0.0], [0.1, 0.0, 0.0, 0.0]])
    assert traversals(Latents(Quarters()), skewed, SHAPE, span=1.0).start.tolist() == [0.1, 0.0, 0.0, 0.0]


def test_latents_come_by_how_much_they_move_the_picture_and_dead_ones_are_named():
    shuffled = Latents(Quarters())
    found = traversals(shuffled, CODES, SHAPE, latents=[3, 2, 0, 1], steps=3, span=1.0)
    assert found.latents == (0, 1, 2, 3)
    assert found.names == ("z1", "z2", "z3", "z4")
    assert found.dead == ("z4",)
    assert found.alive == 3
    assert found.values.tolist() == [[-1.0, 0.0, 1.0]] * 4
    # what is darker than black is cut: 0, 0, gain in a quarter of the pixels; variance 2/9·gain²
    np.testing.assert_allclose(found.moves[:2], np.sqrt(2 / 9 / 4) * GAINS[:2], rtol=6e-3)
    assert found.moves[3] == 0


def test_how_much_a_latent_moves_is_measured_from_several_rows():
    class Gated(Quarters):
        """The first latent acts only where the second is above 0.9."""

        def inverse_transform(self, z):
            open_ = np.asarray(z)[:, 1:2] > 0.9
            return np.asarray(z) @ (self.matrix * [0, 1, 1, 1]).T + open_ * np.asarray(z)[:, :1] @ self.matrix[:, :1].T

    found = traversals(Latents(Gated()), CODES, SHAPE, latents=[0], steps=3)
    assert (found.images[0] == found.images[0, :1]).all()  # at the start it does nothing
    assert found.alive == 1


def test_a_latent_that_moves_by_a_level_of_a_byte_is_alive_and_by_less_is_dead():
    z = np.zeros((3, 4))
    z[:, 0] = [0, 0.5, 1]
    for light, alive in ((5 / 255, 1), (3 / 255, 0)):  # two steps: spread light/2 in a quarter, light/4 in all
        found = traversals(Latents(Quarters()), z, SHAPE, latents=[0], steps=2, span=light)
        assert found.moves[0] == pytest.approx(light / 4)
        assert found.alive == alive


def test_rows_of_data_go_through_transform():
    model = Quarters()
    x = model.inverse_transform(CODES * [1, 1, 1, 0])
    found = traversals(model, x, SHAPE, latents=[0], steps=2)
    np.testing.assert_allclose(found.start, [0.5, 0.5, 0.5, 0.0], atol=1e-12)
    np.testing.assert_allclose(found.values, [[0.01, 0.99]])


def test_a_swap_takes_one_latent_from_the_target():
    source, target = np.array([[0.2, 0.4, 0.8, 0.0], [0.0] * 4]), np.array([[1.0, 0.0, 0.48, 0.0], [1.0] * 4])
    found = swaps(Latents(Quarters()), source, target, SHAPE, latents=[2, 0])
    assert found.names == ("source", "target", "z3", "z1")
    assert found.images.shape == (4, 2, *SHAPE)
    rows = [[0.2, 0.2, 0.2], [1.0, 0.0, 0.12], [0.2, 0.2, 0.12], [1.0, 0.2, 0.2]]
    assert found.images[:, 0, 0].tolist() == [lit(*row) for row in rows]
    assert found.images[:, 1, 0].tolist() == [lit(0), lit(1, 0.5, 0.25), lit(0, 0, 0.25), lit(1)]
    assert swaps(Latents(Quarters()), source, target, SHAPE).latents == (0, 1, 2, 3)


def test_an_interpolation_is_a_straight_line_with_both_ends():
    a, b = np.array([[0.0, 0.8, 0.0, 0.0]]), np.array([[1.0, 0.0, 0.0, 0.0]])
    found = interpolations(Latents(Quarters()), a, b, SHAPE, 5)
    assert found.shape == (1, 5, *SHAPE)
    assert [found[0, k, 0].tolist() for k in range(5)] == [lit(t, 0.4 * (1 - t)) for t in (0, 0.25, 0.5, 0.75, 1)]


def test_a_map_is_the_size_of_the_derivative_at_every_pixel():
    np.testing.assert_allclose(
        jacobian_maps(Quarters(), CODES, SHAPE), [gain * quarter(k) for k, gain in enumerate(GAINS)], rtol=1e-6
    )


def test_channels_are_combined_by_their_euclidean_norm():
    found = jacobian_maps(Quarters(channels=3), CODES, (3, 8, 8))
    np.testing.assert_allclose(found[1], np.sqrt(1 + 4 + 9) * 0.5 * quarter(1), rtol=1e-6)


def test_a_map_is_the_mean_over_points_of_sizes_that_do_not_cancel():
    bent = SimpleNamespace(decoder_=lambda z: (z**2) @ torch.eye(2, 4))
    points = np.array([[1.0, 0.0]] * 20 + [[-1.0, 0.0]] * 20)  # more than are taken at a time
    assert jacobian_maps(bent, points, (1, 2, 2)).tolist() == [[[2.0, 0.0], [0.0, 0.0]], [[0.0, 0.0], [0.0, 0.0]]]


def test_colours_stay_in_their_channels():
    model = Latents(Quarters(channels=3))
    found = interpolations(model, np.zeros((1, 4)), np.array([[0.2, 0, 0, 0]]), (3, 8, 8), 2)
    assert found[0, 1, :, 0, 0].tolist() == [51, 102, 153]


# ---- units -----------------------------------------------------------------------------------------------------


def fitted(mean: float, scale: float):
    return SimpleNamespace(models_=[SimpleNamespace(mean=torch.full((3,), mean), scale=torch.full((3,), scale))])


@pytest.mark.parametrize(
    ("mean", "scale", "top"), [(0, 1, 1), (0, 255, 255), (0.4, 0.3, 1), (80.0, 40.0, 255)],
    ids=["floats", "bytes", "standardised floats", "standardised bytes"],
)  # fmt: skip
def test_the_unit_of_light_is_read_off_the_model(mean: float, scale: float, top: float):
    assert top_of(fitted(mean, scale)) == top
    assert top_of(Latents(fitted(mean, scale))) == top


def test_a_model_that_says_nothing_of_its_unit_is_taken_in_0_to_1():
    assert top_of(Quarters()) == 1


def test_bytes_and_floats_give_the_same_pictures():
    in_floats, in_bytes = Quarters(), Quarters(top=255)
    for model in (in_floats, in_bytes):
        model.models_ = fitted(0, 255 if model is in_bytes else 1).models_
    one, two = (traversals(Latents(m), CODES, SHAPE) for m in (in_floats, in_bytes))
    assert (one.images == two.images).all()
    assert one.moves.tolist() == two.moves.tolist()
    assert one.images.max() == 252  # 0.99 of full light
    assert (interpolations(Latents(in_bytes), CODES, CODES, SHAPE, top=510)[2, 0, 0, 0, 0]) == 128


def test_pictures_in_another_unit_are_refused_in_one_sentence():
    with pytest.raises(InputError, match=r"Pictures must be in the unit of top=1, their full light\. Got values up"):
        swaps(Latents(Quarters(top=255)), CODES, CODES, SHAPE)


def test_the_shape_is_told_by_a_builder():
    builder, other = SimpleNamespace(channels=3, size=4), SimpleNamespace(channels=3, size=5)

    def model(*parts):
        return SimpleNamespace(n_features_in_=48, get_params=lambda deep: dict(enumerate((7, None, *parts))))

    assert shape_of(model(builder)) == (3, 4, 4)
    assert shape_of(model(other, builder)) == (3, 4, 4)
    assert shape_of(model(other)) is None


# ---- sheets ----------------------------------------------------------------------------------------------------


def test_a_sheet_lays_pictures_out_row_by_row_in_colour():
    images = np.arange(2 * 3 * 2 * 1, dtype=np.uint8).reshape(2, 3, 2, 1)
    found = sheet(images, (3, 2, 1), 2, margin=1)
    assert found.shape == (2, 3, 3)
    assert found[:, 0].tolist() == [[0, 2, 4], [1, 3, 5]]
    assert found[:, 1].tolist() == [[255] * 3] * 2
    assert found[:, 2].tolist() == [[6, 8, 10], [7, 9, 11]]


def test_shrinking_averages_blocks_of_every_picture():
    images = np.stack([np.full((3, 4, 5), 8), np.arange(60).reshape(3, 4, 5)]).astype(np.uint8)
    found = shrunk(images, 2)
    assert found.shape == (2, 3, 2, 2)
    assert (found[0] == 8).all()
    assert found[1, 0].tolist() == [[3, 5], [13, 15]]


def test_a_map_without_anything_is_white():
    assert (coloured(np.zeros((1, 2, 2))) == 255).all()


def test_maps_have_scales_of_their_own():
    one = np.array([[[0.0, 1.0]], [[0.0, 100.0]]])
    assert (coloured(one)[0] == coloured(one)[1]).all()


# ---- mistakes --------------------------------------------------------------------------------------------------

MISTAKES = {
    "a latent that is not there": (lambda m: traversals(m, CODES, SHAPE, [4]), "different numbers from 0 to 3"),
    "a latent twice": (lambda m: swaps(m, CODES, CODES, SHAPE, [1, 1]), "different numbers from 0 to 3"),
    "no latent": (lambda m: swaps(m, CODES, CODES, SHAPE, []), "different numbers from 0 to 3"),
    "one step": (lambda m: traversals(m, CODES, SHAPE, steps=1), "steps must be a whole number of at least 2"),
    "one step of a line": (lambda m: interpolations(m, CODES, CODES, SHAPE, 1), "steps must be a whole number"),
    "an unknown span": (lambda m: traversals(m, CODES, SHAPE, span="sd"), "must be one of quantiles"),
    "a negative span": (lambda m: traversals(m, CODES, SHAPE, span=-1), "span must be a finite number"),
    "unequal pairs": (lambda m: swaps(m, CODES, CODES[:2], SHAPE), "source and target must have one shape"),
    "unequal ends": (lambda m: interpolations(m, CODES, CODES[:2], SHAPE), "a and b must have one shape"),
    "a shape of two": (lambda m: checked_shape((8, 8)), "channels .1 or 3., height and width"),
    "a shape of two channels": (lambda m: sheet(np.zeros(8, np.uint8), (2, 2, 2), 1), "channels .1 or 3."),
    "a shape that is no list": (lambda m: checked_shape(64), "channels .1 or 3."),
    "another shape": (lambda m: swaps(m, CODES, CODES, (1, 4, 4)), "must have 16 pixels. Got 64 observations"),
    "another shape of maps": (lambda m: jacobian_maps(m.model, CODES, (3, 8, 8)), "must have 192 pixels. Got 64"),
    "no decoder": (lambda m: jacobian_maps(m, CODES, SHAPE), "The model must have a decoder_. Got Latents"),
    "no columns": (lambda m: sheet(np.zeros(4, np.uint8), (1, 2, 2), 0), "columns must be a whole number"),
    "no light": (lambda m: pixels(CODES, (1, 2, 2), top=0.0), "in the unit of top=0"),
}  # fmt: skip


@pytest.mark.parametrize("name", list(MISTAKES))
def test_a_mistake_is_one_sentence(name: str):
    wrong, words = MISTAKES[name]
    with pytest.raises(InputError, match=words):
        wrong(Latents(Quarters()))


def test_constants_are_as_documented():
    assert pictures.RANGE == (0.01, 0.99)
    assert pytest.approx(1 / 255) == pictures.DEAD
