"""Curves draw ours, published ones and baselines apart, with their deviations; training curves keep their gaps."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from noumena.charts import Curve, CurveChart, canvas, curves, history
from noumena.charts.canvas import HUES, PAPER, SOFT
from noumena.charts.lines import EMPTY, MANY

OURS = Curve("VAE", ((3, 0.9, 0.05), (4, 0.8, 0.1), (5, 0.7, None)))
THEIRS = Curve("VAE", ((3, 0.85, 0.02), (5, 0.6, 0.02)), published=True)
PCA = Curve("PCA", ((3, 0.4, None), (5, 0.3, None)), baseline=True)


def drawn(*some: Curve, up: str = "MCC") -> Any:
    return CurveChart("Recovery", "latents", up, some).plot()


def of_kind(ax: Any, kind: str) -> list[Any]:
    """Artists that show a kind, undermost first."""
    found = [a for a in (*ax.collections, *ax.lines) if (a.get_gid() or "").split(":")[0] == kind]
    return sorted(found, key=lambda artist: artist.get_zorder())


def places(ax: Any, kind: str = "marker") -> np.ndarray:
    """Where markers stand, (n, 2), in points of the figure."""
    ax.figure.draw_without_rendering()
    return np.array([line.get_transform().transform(line.get_xydata())[0] for line in of_kind(ax, kind)])


def legend(ax: Any) -> list[str]:
    return [text.get_text() for text in ax.figure.legends[0].get_texts()]


def ticks(ax: Any) -> list[str]:
    ax.figure.draw_without_rendering()
    return [tick.get_text() for tick in ax.get_xticklabels()]


def test_markers_stand_where_their_values_are_and_say_them():
    ax = drawn(OURS)
    markers = of_kind(ax, "marker")
    assert [tuple(marker.get_xydata()[0]) for marker in markers] == [(3, 0.9), (4, 0.8), (5, 0.7)]
    assert markers[0].get_gid() == "marker: VAE, 3: 0.9 ± 0.05"
    assert (ax.get_xlabel(), ax.get_title(loc="left")) == ("latents", "MCC")


def test_bars_are_as_long_as_the_deviations_and_only_where_they_are_known():
    (bars,) = of_kind(drawn(OURS), "deviation")
    ends = bars.get_ydata().reshape(-1, 3)[:, :2]
    assert ends == pytest.approx(np.array([[0.85, 0.95], [0.7, 0.9]]))


def test_published_curves_are_hollow_and_dashed_and_share_the_colour_of_ours():
    lines, markers = (of_kind(drawn(OURS, THEIRS), kind) for kind in ("line", "marker"))
    assert sorted(line.get_linestyle() for line in lines) == ["-", "--"]
    assert {line.get_color() for line in lines} == {HUES[0]}
    assert sorted(marker.get_markerfacecolor() for marker in markers) == sorted([HUES[0]] * 3 + [PAPER] * 2)
    assert len({marker.get_marker() for marker in markers}) == 1


def test_a_curve_that_is_called_published_is_about_the_same():
    named = replace(THEIRS, name="VAE (published)")
    assert {line.get_color() for line in of_kind(drawn(OURS, named), "line")} == {HUES[0]}
    other = replace(THEIRS, name="flow")
    assert {line.get_color() for line in of_kind(drawn(OURS, other), "line")} == set(HUES[:2])


def test_baselines_are_grey_and_lie_below_the_others():
    lines = of_kind(drawn(OURS, THEIRS, PCA), "line")
    assert [line.get_color() for line in lines] == [SOFT, HUES[0], HUES[0]]
    assert [line.get_linestyle() for line in lines] == ["-", "--", "-"]


def test_the_legend_names_every_curve_that_has_points():
    assert legend(drawn(OURS, THEIRS, PCA, Curve("nothing", ()))) == ["VAE", "VAE (published)", "PCA (baseline)"]
    assert legend(drawn(Curve("_hidden", ((1, 2.0, None),)))) == ["_hidden"]
    assert Curve("Published flow", (), published=True).label == "Published flow"


def test_words_across_stand_in_the_order_in_which_they_come():
    worlds = Curve("ours", (("apart", 0.9, None), ("CE1", 0.5, None), (7, 0.4, None)))
    more = Curve("theirs", (("inclusion", 0.2, None), ("apart", 0.3, None)), published=True)
    assert ticks(drawn(worlds, more)) == ["apart", "CE1", "7", "inclusion"]


def test_curves_over_words_stand_beside_each_other():
    x = places(drawn(*(Curve(name, (("apart", 0.5, 0.1), ("CE1", 0.5, 0.1))) for name in "ab")))[:, 0]
    assert len(set(x)) == 4
    assert abs(x[0] - x[2]) >= 8


def test_words_that_do_not_fit_stand_upright_and_those_that_do_are_broken():
    names = ("one world", "a second world", "a third", "a fourth of the worlds")
    few = drawn(Curve("a", tuple((name, 1.0, None) for name in names)))
    many = drawn(Curve("a", tuple((f"counterexample {k}", float(k), None) for k in range(14))))
    assert ticks(few)[3] == "a fourth of\nthe worlds"
    assert {tick.get_rotation() for tick in few.get_xticklabels()} == {0}
    assert {tick.get_rotation() for tick in many.get_xticklabels()} == {90}
    assert len(ticks(many)) == 14


def test_names_cut_to_the_same_keep_their_places():
    ax = drawn(Curve("a", tuple((f"{'long ' * 9}{k}", float(k), None) for k in range(3))))
    assert len(ticks(ax)) == 3


def test_ticks_are_the_conditions_and_do_not_overlap():
    conditions = (10, 11, 12, 500, 990, 1000)
    assert ticks(drawn(Curve("a", tuple((c, 0.5 + 1e-4 * c, None) for c in conditions)))) == ["10", "500", "990"]
    many = ticks(drawn(Curve("a", tuple((0.1 + k, 0.5, None) for k in range(MANY + 8)))))
    assert {"0.1", "1.1"}.isdisjoint(many)
    assert {"5", "10", "15"} <= set(many)


def test_numbers_with_even_ratios_stand_on_a_logarithmic_axis():
    def scale(*conditions: int) -> str:
        return drawn(Curve("a", tuple((c, 0.5, None) for c in conditions))).get_xscale()

    assert scale(100, 1000, 10000) == "log"
    assert scale(10, 60, 110) == "linear"


def test_large_positive_values_are_drawn_on_a_logarithmic_axis_and_scores_are_not():
    ax = drawn(Curve("a", ((1, 2.0, 3.0), (2, 20.0, 1.0), (3, 200.0, 1.0))))
    assert (ax.get_yscale(), ax.get_title(loc="left")) == ("log", "MCC (log)")
    assert 0 < ax.get_ylim()[0] < 2
    assert drawn(Curve("a", ((1, 0.001, None), (2, 0.9, None)))).get_yscale() == "linear"


def test_many_points_have_a_band_and_a_few_markers():
    ax = drawn(Curve("a", tuple((float(k), float(np.sin(k / 9)), 0.2) for k in range(60))))
    assert [type(band).__name__ for band in of_kind(ax, "deviation")] == ["FillBetweenPolyCollection"]
    assert len(of_kind(ax, "marker")) == MANY
    assert len(of_kind(ax, "line")[0].get_xdata()) == 60


@pytest.mark.parametrize("bad", [np.nan, np.inf, 1e200])
def test_what_is_not_finite_leaves_a_gap(bad: float):
    broken = Curve("a", ((1, 0.1, None), (2, bad, None), (3, 0.3, bad), (bad, 0.5, None)))
    ax = drawn(broken, PCA, Curve("b", ((2, 0.2, None),)))
    line = next(line for line in of_kind(ax, "line") if line.get_color() == HUES[0])
    np.testing.assert_array_equal(line.get_ydata(), [0.1, np.nan, 0.3])
    assert len(of_kind(ax, "marker")) == 5
    assert not of_kind(ax, "deviation")


@pytest.mark.parametrize("some", [(), (Curve("a", ()),), (Curve("a", ((1, np.nan, None),)),)])
def test_an_empty_chart_is_a_sentence(some: tuple[Curve, ...]):
    ax = drawn(*some)
    assert [text.get_text() for text in ax.texts] == [EMPTY]
    assert not ax.lines


def test_a_single_point_is_drawn():
    assert np.isfinite(places(drawn(Curve("a", ((3, 0.5, None),))))).all()


def test_eight_long_curves_are_told_apart_and_their_names_stay_inside():
    names = [f"a rather long name of an estimator with bias {k}" for k in range(8)]
    ax = drawn(*(Curve(name, ((1, 0.1 * k, 0.02), (2, 0.1, None))) for k, name in enumerate(names)))
    assert len({line.get_color() for line in of_kind(ax, "line")}) == 8
    assert len({marker.get_marker() for marker in of_kind(ax, "marker")}) == 8
    ax.figure.draw_without_rendering()
    boxes = [text.get_window_extent() for text in ax.figure.legends[0].get_texts()]
    assert max(box.x1 for box in boxes) <= ax.figure.bbox.x1
    assert all(a.y0 >= b.y1 - 1 or a.x0 >= b.x1 for a, b in pairwise(boxes))
    assert min(box.y0 for box in boxes) >= 0


def test_curves_are_drawn_on_axes_that_are_given():
    from matplotlib.figure import Figure

    figure = Figure()
    left, right = figure.subplots(1, 2)
    assert curves([OURS], ax=right) is right
    assert right.get_legend() is not None
    assert not left.lines
    assert not figure.legends


# ---- training ------------------------------------------------------------------------------------------------------


def test_values_of_training_that_are_not_finite_leave_gaps_and_lone_ones_are_dots():
    values = np.ones((9, 2)) * np.arange(9)[:, None]
    values[3, 0], values[5, 0], values[:, 1] = np.nan, np.inf, -np.inf
    empty, gapped = history(np.arange(9), values, best=0).lines
    assert not np.isfinite(empty.get_ydata()).any()
    assert np.flatnonzero(~np.isfinite(gapped.get_ydata())).tolist() == [3, 5]
    assert gapped.get_markevery() == [4]


@pytest.mark.parametrize("value", [0.0, 1.0, -3.5, 1e-12, 1e12])
def test_a_constant_curve_is_a_level_line_inside_its_axes(value: float):
    ax = history([0, 1, 2], np.full((3, 1), value), best=0)
    low, high = ax.get_ylim()
    assert low < value < high


@pytest.mark.parametrize("values", [[[np.nan]], [[np.inf]], [[1e300]]])
def test_training_with_nothing_to_draw_says_so(values: list):
    assert [text.get_text() for text in history([0], values, best=0).texts] == ["no finite values"]


@pytest.mark.parametrize(
    ("values", "scale"), [((1, 100), "log"), ((1, 30), "linear"), ((0, 100), "linear"), ((-1, 100), "linear")]
)
def test_the_axis_is_logarithmic_only_for_positive_values_over_one_and_a_half_decades(values: tuple, scale: str):
    ax = history(range(2), np.array(values)[:, None], y_label="loss")
    assert ax.get_yscale() == scale
    assert ax.get_title(loc="left") == "loss" + " (log)" * (scale == "log")


def test_the_best_curve_is_bold_and_on_top():
    ax = history([0, 1], [[1, 2, 3], [2, 3, 4]], best=1)
    assert [line.get_linewidth() for line in ax.lines] == [1.2, 1.2, 2.6]
    assert ax.lines[-1].get_ydata().tolist() == [2, 3]
    assert ax.get_title(loc="right") == "bold: used, of 3"


def test_long_histories_are_thinned():
    ax = history(np.arange(20_000), np.random.default_rng(0).normal(size=(20_000, 1)))
    assert len(ax.lines[0].get_xdata()) == 500


# ---- words ---------------------------------------------------------------------------------------------------------


def test_words_are_shortened_to_their_room():
    assert canvas.fitting("a", 20) == "a"
    assert canvas.fitting("wwwwwwwwww", 60).endswith("…")
    assert canvas.extent(canvas.fitting("wwwwwwwwww", 60), 12) <= 60
    assert canvas.fitting("", 20) == ""


def test_names_are_no_formulas_and_hold_no_control_characters():
    ax = drawn(Curve("$\\frac{\x00", (("$x_{$", 1.0, None), ("b", 2.0, None))), up="$^$")
    assert legend(ax) == ["$\\frac{ "]
    assert ticks(ax)[0] == "$x_{$"
    assert not ax.title.get_parse_math()
