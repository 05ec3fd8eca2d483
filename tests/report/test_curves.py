"""Figures of studies are well-formed, escaped, and draw ours, published curves and baselines apart."""

from __future__ import annotations

import re
from dataclasses import replace
from importlib.resources import files
from xml.etree import ElementTree

import numpy as np
import pytest

from noumena.report import svg
from noumena.report.curves import EMPTY, HUES, MANY, Curve, Figure, curves_svg, fitting, legend_words

HOSTILE = "<script>alert(1)</script>\"&'\x00"
SVG = "{http://www.w3.org/2000/svg}"
OURS = Curve("VAE", ((3, 0.9, 0.05), (4, 0.8, 0.1), (5, 0.7, None)))
THEIRS = Curve("VAE", ((3, 0.85, 0.02), (5, 0.6, 0.02)), published=True)
PCA = Curve("PCA", ((3, 0.4, None), (5, 0.3, None)), baseline=True)


def drawn(*curves: Curve, across: str = "latents", up: str = "MCC") -> ElementTree.Element:
    return ElementTree.fromstring(curves_svg(Figure("Recovery", across, up, curves)))


def by_class(root: ElementTree.Element, kind: str) -> list[ElementTree.Element]:
    return [node for node in root.iter() if node.get("class") == kind]


def words(root: ElementTree.Element) -> list[str]:
    return [node.text or "" for node in root.iter(f"{SVG}text")]


def places(nodes: list[ElementTree.Element]) -> np.ndarray:
    """Where markers stand, (n, 2)."""
    found = [re.fullmatch(r"translate\((\S+) (\S+)\)", node.get("transform", "")) for node in nodes]
    return np.array([[float(part) for part in one.groups()] for one in found if one])


def boxes(root: ElementTree.Element) -> list[tuple[float, float, float]]:
    """Left end, right end and baseline of every level text."""
    found = []
    for node in root.iter(f"{SVG}text"):
        if node.get("transform") is None:
            x, wide = float(node.get("x", "nan")), svg.extent(node.text or "", 12)
            left = x - {"middle": 0.5, "end": 1.0}.get(node.get("text-anchor", ""), 0.0) * wide
            found.append((left, left + wide, float(node.get("y", "nan"))))
    return found


def test_markers_stand_where_their_values_are():
    at = places(by_class(drawn(OURS), "marker"))
    assert np.diff(at[:, 0]) == pytest.approx([at[1, 0] - at[0, 0]] * 2, abs=0.02)
    assert np.diff(at[:, 1]) == pytest.approx([at[1, 1] - at[0, 1]] * 2, abs=0.02)
    assert at[0, 1] < at[1, 1]


def test_bars_are_as_long_as_the_deviations_and_only_where_they_are_known():
    root = drawn(OURS)
    at = places(by_class(root, "marker"))
    (bars,) = by_class(root, "deviation")
    ends = re.findall(r"M(\S+) (\S+)h6m-3 0V([0-9.]+)m", bars.get("d", ""))
    unit = (at[1, 1] - at[0, 1]) / 0.1
    lengths = [float(low) - float(high) for _, low, high in ends]
    assert lengths == pytest.approx([0.1 * unit, 0.2 * unit], abs=0.05)
    middles = [(float(low) + float(high)) / 2 for _, low, high in ends]
    assert middles == pytest.approx(at[:2, 1].tolist(), abs=0.05)


def test_published_curves_are_hollow_and_dashed_and_share_the_colour_of_ours():
    root = drawn(OURS, THEIRS)
    lines = by_class(root, "line")
    assert {line.get("stroke-dasharray") for line in lines} == {None, "5 4"}
    assert {line.get("stroke") for line in lines} == {HUES[0]}
    fills = [node.get("fill", "") for node in by_class(root, "marker")]
    assert sorted(fills) == sorted([HUES[0]] * 3 + [svg.PAPER] * 2)
    assert len({node.get("d") for node in by_class(root, "marker")}) == 1


def test_a_curve_that_is_called_published_is_about_the_same():
    named = replace(THEIRS, name="VAE (published)")
    assert {line.get("stroke") for line in by_class(drawn(OURS, named), "line")} == {HUES[0]}
    other = replace(THEIRS, name="flow")
    assert {line.get("stroke") for line in by_class(drawn(OURS, other), "line")} == set(HUES[:2])


def test_baselines_are_grey_and_lie_below_the_others():
    root = drawn(OURS, THEIRS, PCA)
    assert [line.get("stroke") for line in by_class(root, "line")] == [svg.SOFT, HUES[0], HUES[0]]
    assert [line.get("stroke-dasharray") for line in by_class(root, "line")] == [None, "5 4", None]


def test_the_legend_names_every_curve_that_has_points():
    said = words(drawn(OURS, THEIRS, PCA, Curve("nothing", ())))
    assert {"VAE", "VAE (published)", "PCA (baseline)"} <= set(said)
    assert "nothing" not in said
    assert legend_words(Curve("Published flow", (), published=True)) == "Published flow"


def test_words_across_stand_in_the_order_in_which_they_come():
    worlds = Curve("ours", (("apart", 0.9, None), ("CE1", 0.5, None), (7, 0.4, None)))
    more = Curve("theirs", (("inclusion", 0.2, None), ("apart", 0.3, None)), published=True)
    said = words(drawn(worlds, more))
    assert [word for word in said if word in {"apart", "CE1", "7", "inclusion"}] == ["apart", "CE1", "7", "inclusion"]


def test_curves_over_words_stand_beside_each_other():
    both = [Curve(name, (("apart", 0.5, 0.1), ("CE1", 0.5, 0.1))) for name in "ab"]
    x = places(by_class(drawn(*both), "marker"))[:, 0]
    assert len(set(x)) == 4
    assert abs(x[0] - x[2]) >= 8


def test_words_that_do_not_fit_stand_upright_and_those_that_do_are_broken():
    few = drawn(
        Curve("a", (("one world", 1.0, None), ("a second world", 2.0, None), ("a third of the worlds", 3.0, None)))
    )
    many = drawn(Curve("a", tuple((f"counterexample {k}", float(k), None) for k in range(14))))
    assert not any(node.get("transform") for node in few.iter(f"{SVG}text"))
    assert {"a third of the", "worlds"} <= set(words(few))
    assert sum("rotate(-90" in node.get("transform", "") for node in many.iter(f"{SVG}text")) == 14


def test_ticks_are_the_conditions_and_do_not_overlap():
    conditions = (10, 11, 12, 500, 990, 1000)
    said = words(drawn(Curve("a", tuple((c, 0.5 + 1e-4 * c, None) for c in conditions))))
    assert [word for word in said if word in {str(c) for c in conditions}] == ["10", "500", "990"]
    many = words(drawn(Curve("a", tuple((0.1 + k, 0.5, None) for k in range(MANY + 8)))))
    assert {"0.1", "1.1"}.isdisjoint(many)
    assert {"5", "10", "15"} <= set(many)


def test_numbers_with_even_ratios_stand_on_a_logarithmic_axis():
    at = places(by_class(drawn(Curve("a", ((100, 0.1, None), (1000, 0.5, None), (10000, 0.9, None)))), "marker"))
    assert at[1, 0] - at[0, 0] == pytest.approx(at[2, 0] - at[1, 0], abs=0.02)
    even = places(by_class(drawn(Curve("a", ((10, 0.1, None), (60, 0.5, None), (110, 0.9, None)))), "marker"))
    assert even[1, 0] - even[0, 0] == pytest.approx(even[2, 0] - even[1, 0], abs=0.02)


def test_large_positive_values_are_drawn_on_a_logarithmic_axis_and_scores_are_not():
    large = drawn(Curve("a", ((1, 2.0, 3.0), (2, 20.0, 1.0), (3, 200.0, 1.0))))
    at = places(by_class(large, "marker"))
    assert "MCC (log)" in words(large)
    assert at[0, 1] - at[1, 1] == pytest.approx(at[1, 1] - at[2, 1], abs=0.02)
    assert "nan" not in ElementTree.tostring(large, encoding="unicode")
    assert "MCC" in words(drawn(Curve("a", ((1, 0.001, None), (2, 0.9, None)))))


def test_many_points_have_a_band_and_a_few_markers():
    points = tuple((float(k), float(np.sin(k / 9)), 0.2) for k in range(60))
    root = drawn(Curve("a", points))
    (band,) = by_class(root, "deviation")
    assert band.get("d", "").count("L") == 119
    assert len(by_class(root, "marker")) == MANY
    (line,) = by_class(root, "line")
    assert line.get("d", "").count("L") == 59


@pytest.mark.parametrize("bad", [np.nan, np.inf, 1e200])
def test_what_is_not_finite_leaves_a_gap(bad: float):
    root = drawn(
        Curve("a", ((1, 0.1, None), (2, bad, None), (3, 0.3, bad), (bad, 0.5, None))),
        PCA,
        Curve("b", ((2, 0.2, None),)),
    )
    line = next(line for line in by_class(root, "line") if line.get("stroke") == HUES[0])
    assert line.get("d", "").count("M") == 2
    assert len(by_class(root, "marker")) == 5
    assert not by_class(root, "deviation")
    assert not re.search(r"\b(nan|inf)\b", ElementTree.tostring(root, encoding="unicode"))


@pytest.mark.parametrize("curves", [(), (Curve("a", ()),), (Curve("a", ((1, np.nan, None),)),)])
def test_an_empty_figure_is_a_sentence(curves: tuple[Curve, ...]):
    root = drawn(*curves)
    assert words(root) == [EMPTY]
    assert root[0].text == "Recovery"


def test_a_single_point_is_drawn():
    (marker,) = by_class(drawn(Curve("a", ((3, 0.5, None),))), "marker")
    assert np.isfinite(places([marker])).all()


@pytest.mark.parametrize("condition", [1, HOSTILE])
def test_hostile_names_are_escaped(condition: int | str):
    figure = Figure(HOSTILE, HOSTILE, HOSTILE, (Curve(HOSTILE, ((condition, 1.0, 0.1), (2, 2.0, 0.1))),))
    drawing = curves_svg(figure)
    root = ElementTree.fromstring(drawing)
    assert not list(root.iter(f"{SVG}script"))
    assert "<script" not in drawing
    assert "\x00" not in drawing
    assert any("<script>" in (node.text or "") for node in root.iter())
    colors = {node.get(key) for node in root.iter() for key in ("fill", "stroke")} - {None, "none"}
    assert all(str(color).startswith("var(--") for color in colors)


def test_eight_long_curves_are_told_apart_and_nothing_overlaps():
    names = [f"a rather long name of an estimator with bias {k}" for k in range(8)]
    root = drawn(*(Curve(name, ((1, 0.1 * k, 0.02), (2, 0.1, None))) for k, name in enumerate(names)))
    lines = by_class(root, "line")
    assert len({line.get("stroke") for line in lines}) == 8
    assert len({marker.get("d") for marker in by_class(root, "marker")}) == 8
    width, height = map(float, root.get("viewBox", "").split()[2:])
    level = boxes(root)
    assert all(left >= 0 and right <= width and y <= height for left, right, y in level)
    for k, (left, right, y) in enumerate(level):
        assert not any(abs(y - v) < 11 and left < end and start < right for start, end, v in level[k + 1 :])


def test_words_are_shortened_to_their_room():
    assert fitting("a", 20) == "a"
    assert fitting("wwwwwwwwww", 60).endswith("…")
    assert svg.extent(fitting("wwwwwwwwww", 60), 12) <= 60
    assert fitting("", 20) == ""


@pytest.mark.parametrize("theme", [0, 1])
def test_hues_are_in_the_style_sheet_and_stand_out_in_both_themes(theme: int):
    style = files("noumena.report").joinpath("templates/style.css").read_text(encoding="utf-8")
    block = re.findall(r":root \{(.*?)\}", style, flags=re.DOTALL)[theme]
    colors = dict(re.findall(r"--([a-z0-9-]+): (#[0-9a-f]{6})", block))
    for k, hue in enumerate(HUES, start=1):
        low, high = sorted((luminance(colors[f"hue-{k}"]), luminance(colors["paper"])))
        assert (high + 0.05) / (low + 0.05) >= 4
        assert theme or hue == f"var(--hue-{k},{colors[f'hue-{k}']})"


def luminance(color: str) -> float:
    channels = np.array([int(color[k : k + 2], 16) for k in (1, 3, 5)]) / 255
    linear = np.where(channels <= 0.04045, channels / 12.92, ((channels + 0.055) / 1.055) ** 2.4)
    return float(linear @ [0.2126, 0.7152, 0.0722])
