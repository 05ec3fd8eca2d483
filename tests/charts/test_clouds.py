"""The clouds show one data set under two sets of latents, runs moved onto each other, and scores over their gaps."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from noumena.charts import canvas, competitor, over_gaps, overlay, pairs
from noumena.charts.clouds import MOST, SHADES
from noumena.structure import Structure
from noumena.worlds import structured


def of_kind(ax: Any, kind: str) -> list[Any]:
    return [line for line in ax.lines if line.get_gid().split(":")[0] == kind]


def points(lines: list[Any]) -> np.ndarray:
    return np.concatenate([line.get_xydata() for line in lines])


# ---- a competitor ------------------------------------------------------------------------------------------


def sheared() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    world = structured(Structure([[1, 1], [1, 1], [0, 1]]), random_state=0)
    sample = world.sample(300)
    z_hat = sample.z + np.stack([np.sin(2 * sample.z[:, 1]), np.zeros(300)], axis=1)
    return sample.z, z_hat, sample.x[:, :2]


def layers(figure: Any) -> list[list[Any]]:
    """One model's latents and data as rings, the other's as dots."""
    one, other, data = figure.axes
    return [of_kind(one, "rings"), of_kind(other, "dots"), of_kind(data, "rings"), of_kind(data, "dots")]


def test_every_cloud_is_what_was_given_and_a_row_keeps_its_colour_and_size():
    z, z_hat, x = sheared()
    parts = np.array_split(np.argsort(z[:, 0]), SHADES)
    for values, group in zip((z, z_hat, x, x), layers(competitor(z, z_hat, x, names=["z1", "z2"])), strict=True):
        assert [line.get_color() for line in group] == [canvas.shade(k / 11) for k in range(SHADES)]
        for part, line in zip(parts, group, strict=True):
            np.testing.assert_array_equal(line.get_xydata(), values[np.sort(part)])
        sizes = [line.get_markersize() for line in group]
        assert sizes == sorted(set(sizes))


def test_equal_values_share_a_colour():
    z = np.column_stack([np.repeat([0.0, 1.0], 30), np.arange(60.0)])
    group = layers(competitor(z, z, z, names=["a", "b"]))[0]
    assert [len(line.get_xdata()) for line in group] == [30, 30]
    assert [line.get_color() for line in group] == [canvas.shade(2 / 11), canvas.shade(8 / 11)]


def test_captions_and_axes_say_what_is_what():
    figure = competitor(*sheared(), names=["age", "mood"], x_names=("pulse", "voice"))
    said = [(ax.get_title(loc="left") or ax.get_title(), ax.get_xlabel(), ax.get_ylabel()) for ax in figure.axes]
    assert said == [
        ("latents of one model", "age →", "mood →"),
        ("latents of the other", "in place of age →", "in place of mood →"),
        ("the same data", "pulse →", "voice →"),
    ]
    assert [t.get_text() for t in figure.legends[0].get_texts()] == ["one model", "the other", "small age", "large age"]


def test_at_most_four_hundred_evenly_spaced_rows_are_drawn():
    z = np.column_stack([np.arange(5000.0), np.arange(5000.0)])
    kept = points(layers(competitor(z, z, z, names=["a", "b"]))[0])[:, 0]
    assert len(kept) == MOST
    assert np.diff(kept) == pytest.approx(4999 / 399, abs=1)


@pytest.mark.parametrize("given", [np.zeros((1, 2)), np.ones((5, 2)), np.random.default_rng(0).normal(size=(400, 2))])
def test_clouds_of_any_shape_stay_inside_their_panels(given: np.ndarray):
    figure = competitor(given, given, given, names=["a", "b"])
    for ax, group in zip(figure.axes, layers(figure), strict=False):
        (left, right), (low, high) = ax.get_xlim(), ax.get_ylim()
        x, y = points(group).T
        assert left < x.min() <= x.max() < right
        assert low < y.min() <= y.max() < high


# ---- pairs and runs ------------------------------------------------------------------------------------------------


def test_pairs_print_the_correlation_of_all_rows_and_draw_some():
    rng = np.random.default_rng(0)
    z = rng.normal(size=(5000, 2))
    z_hat = z * [-2, 1] + rng.normal(size=z.shape) * [0, 1]
    figure = pairs(z, z_hat, names=["a", "b"], most=100)
    expected = f"r = {np.corrcoef(z[:, 1], z_hat[:, 1])[0, 1]:.2f}"
    assert [ax.get_title(loc="right") for ax in figure.axes] == ["r = −1.00", expected]
    assert [len(ax.lines[0].get_xdata()) for ax in figure.axes] == [100, 100]


def test_a_latent_that_does_not_vary_has_no_correlation():
    line, level, nothing = np.arange(4.0), np.full(4, 0.1), np.full(4, np.nan)
    z, z_hat = np.column_stack([line, level, nothing, line]), np.column_stack([level, line, line, line])
    shown = [ax.get_title(loc="right") for ax in pairs(z, z_hat, names=["a", "b", "c", "d"]).axes]
    assert shown == ["r = –", "r = –", "r = –", "r = 1.00"]


@pytest.mark.parametrize("n", [1, 2, 5, 8, 20])
def test_pairs_have_a_panel_each_and_the_last_row_says_what_is_what(n: int):
    z = np.random.default_rng(0).normal(size=(30, n))
    figure = pairs(z, z, names=[f"z{k}" for k in range(n)])
    assert len(figure.axes) == n
    (named,) = [ax for ax in figure.axes if ax.get_xlabel()]
    assert (named.get_xlabel(), named.get_ylabel()) == ("true →", "learned →")
    assert named.get_subplotspec().is_last_row()


def test_an_overlay_joins_every_row_with_its_image_on_even_axes():
    rng = np.random.default_rng(0)
    one, other = rng.normal(size=(2, 30, 2))
    ax = overlay(one, other, target="first", source="second")
    gap, target, source = ax.lines
    np.testing.assert_array_equal(gap.get_xydata().reshape(30, 3, 2)[:, :2], np.stack([one, other], axis=1))
    np.testing.assert_array_equal(target.get_xydata(), one)
    np.testing.assert_array_equal(source.get_xydata(), other)
    assert np.ptp(ax.get_xlim()) == pytest.approx(np.ptp(ax.get_ylim()))
    assert [text.get_text() for text in ax.figure.legends[0].get_texts()] == ["first", "second, moved"]


def test_runs_that_are_one_point_can_be_drawn():
    ax = overlay(np.zeros((3, 2)), np.zeros((3, 2)), target="a", source="b")
    assert ax.get_xlim() == (-1, 1)


# ---- the gap -----------------------------------------------------------------------------------------------


def sample(n: int = 90, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    return rng.integers(-3, 4, size=n), rng.uniform(size=n)


def names(ax: Any) -> list[str]:
    return [tick.get_text() for tick in ax.get_xticklabels()]


def test_every_point_has_its_height_its_hint_and_a_place_beside_its_gap():
    gap, score = sample()
    marks = of_kind(over_gaps(gap, score, y_label="MCC"), "point")
    at = points(marks)
    expected = sorted(zip(gap.tolist(), score.tolist(), strict=True))
    assert [mark.get_gid() for mark in marks] == [
        f"point: gap {canvas.tick_label(g)}: MCC {s:.3f}" for g, s in expected
    ]
    assert at[:, 1].tolist() == [s for _, s in expected]
    aside = at[:, 0] - [g for g, _ in expected]
    assert np.abs(aside).max() < 0.5
    assert len(set(aside.round(2))) > 10


def test_points_of_one_gap_and_score_do_not_hide_each_other():
    at = points(of_kind(over_gaps([1] * 8, [0.5] * 8, y_label="MCC"), "point"))
    assert np.diff(np.sort(at[:, 0])).min() > 0.04


def test_the_line_goes_through_the_median_of_each_gap_whatever_the_order_of_rows():
    gap, score = sample()
    for turn in (1, -1):
        (line,) = of_kind(over_gaps(gap[::turn], score[::turn], y_label="MCC"), "median")
        assert line.get_xdata().tolist() == list(range(-3, 4))
        assert line.get_ydata().tolist() == [np.median(score[gap == g]) for g in range(-3, 4)]


def test_gaps_beyond_three_are_counted_there_and_say_so():
    ax = over_gaps([-5, -3, 3, 9], [0.1, 0.3, 0.8, 1.0], y_label="MCC")
    assert names(ax) == ["≤ −3", "−2", "−1", "0", "1", "2", "≥ 3"]
    assert of_kind(ax, "point")[0].get_gid() == "point: gap −5: MCC 0.100"
    assert of_kind(ax, "median")[0].get_ydata() == pytest.approx([0.2, 0.9])
    assert names(over_gaps([-3, 3], [0, 1], y_label="MCC"))[::6] == ["−3", "3"]


def test_groups_have_their_own_marks_lanes_and_medians():
    gap, score = np.array([0, 0, 0, 0, 1, 1]), np.array([0.1, 0.3, 0.7, 0.9, 0.2, 0.8])
    ax = over_gaps(gap, score, y_label="MCC", groups=["a", "a", "b", "b", "a", "b"])
    marks = of_kind(ax, "point")
    assert [mark.get_gid()[7] for mark in marks] == ["a"] * 3 + ["b"] * 3
    assert len({(mark.get_marker(), mark.get_markerfacecolor()) for mark in marks}) == 2
    at = points(marks)
    assert at[:2, 0].max() < 0 < at[3:5, 0].min()
    assert [line.get_ydata().tolist() for line in of_kind(ax, "median")] == [[0.2, 0.2], [0.8, 0.8]]
    assert [text.get_text() for text in ax.figure.legends[0].get_texts()] == ["a", "b"]


def test_the_shaded_part_begins_between_zero_and_one():
    ax = over_gaps([0, 1], [0.2, 1.0], y_label="MCC")
    (band,) = ax.patches
    assert (band.get_x(), band.get_width()) == (0.5, 3.0)
    assert ax.get_title(loc="right") == "gap positive: identified"
