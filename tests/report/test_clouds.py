"""The clouds show one data set under two sets of latents, and scores where their gaps say."""

from __future__ import annotations

import re
from collections.abc import Callable
from importlib.resources import files
from xml.etree import ElementTree

import numpy as np
import pytest

from noumena.checks import InputError
from noumena.report import svg
from noumena.report.clouds import prediction, witness_clouds
from noumena.structure import Structure
from noumena.worlds import structured

HOSTILE = "<script>alert(1)</script>\"&'\x00"
SVG = "{http://www.w3.org/2000/svg}"


def parse(drawing: str) -> ElementTree.Element:
    return ElementTree.fromstring(drawing)


def by_class(drawing: str, kind: str) -> list[ElementTree.Element]:
    return [node for node in parse(drawing).iter() if node.get("class") == kind]


def words(drawing: str) -> list[str]:
    return [node.text or "" for node in parse(drawing).iter(f"{SVG}text")]


def told(node: ElementTree.Element) -> str:
    return node.find(f"{SVG}title").text or ""


def cloud(n: int = 60, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(n, 2))


def hostile() -> dict[str, str]:
    two = [HOSTILE, HOSTILE]
    return {
        "witness": witness_clouds(cloud(9), cloud(9, 1), cloud(9, 2), names=two, x_names=two),
        "prediction": prediction([0, 1], [0.1, 0.9], y_label=HOSTILE, groups=[HOSTILE, "other"]),
        "one group": prediction([0, 1], [0.1, 0.9], y_label=HOSTILE),
    }


@pytest.mark.parametrize("name", sorted(hostile()))
def test_every_drawing_is_an_escaped_image_that_follows_the_theme(name: str):
    root = parse(hostile()[name])
    assert root.get("role") == "img"
    assert root[0].tag == f"{SVG}title"
    assert not list(root.iter(f"{SVG}script"))
    assert any("<script>" in (node.text or "") for node in root.iter())
    colors = {node.get(key) for node in root.iter() for key in ("fill", "stroke")} - {None, "none"}
    assert colors
    assert all(re.fullmatch(r"(color-mix\(in srgb,)?var\(--.*\)", color) for color in colors)


def test_the_same_input_gives_the_same_drawing():
    assert hostile() == hostile()


# ---- a competitor ------------------------------------------------------------------------------------------


def points(group: ElementTree.Element) -> list[np.ndarray]:
    """The centres (n, 2) of the rings or dots of each shade, in the order they are drawn."""
    found = []
    for path in group:
        starts = re.findall(r"M(-?[\d.]+) (-?[\d.]+)", path.get("d"))
        ring = re.search(r"a([\d.]+) ", path.get("d"))
        radius = float(ring.group(1)) if ring else 0
        found.append(np.array(starts, dtype=float) + np.array([radius, 0]))
    return found


def layers(drawing: str) -> tuple[ElementTree.Element, ...]:
    """One model's latents and data as rings, the other's as dots."""
    (z, x), (z_hat, x_again) = by_class(drawing, "rings"), by_class(drawing, "dots")
    return z, z_hat, x, x_again


def sheared() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    world = structured(Structure([[1, 1], [1, 1], [0, 1]]), random_state=0)
    sample = world.sample(300)
    z_hat = sample.z + np.stack([np.sin(2 * sample.z[:, 1]), np.zeros(300)], axis=1)
    return sample.z, z_hat, sample.x[:, :2]


def test_both_models_have_the_same_data():
    drawing = witness_clouds(*sheared(), names=["z1", "z2"])
    one, other = layers(drawing)[2:]
    assert len(one) == len(other) > 5
    for rings, dots in zip(points(one), points(other), strict=True):
        assert rings == pytest.approx(dots, abs=0.02)


def affine(values: np.ndarray, drawn: np.ndarray) -> None:
    """Every coordinate is drawn on a line, growing to the right and upwards."""
    for k, sign in ((0, 1), (1, -1)):
        slope, start = np.polyfit(values[:, k], drawn[:, k], 1)
        assert slope * sign > 0
        assert drawn[:, k] == pytest.approx(slope * values[:, k] + start, abs=0.02)


def test_every_cloud_is_what_was_given_and_a_row_keeps_its_colour():
    z, z_hat, x = sheared()
    drawing = witness_clouds(z, z_hat, x, names=["z1", "z2"])
    order = np.argsort(z[:, 0])
    parts = [np.sort(part) for part in np.array_split(order, 12)]
    for values, group in zip((z, z_hat, x, x), layers(drawing), strict=True):
        drawn = points(group)
        assert [len(part) for part in drawn] == [25] * 12
        affine(values[np.concatenate(parts)], np.concatenate(drawn))
        assert [path.get("stroke") for path in group] == [svg.ramp(k / 11) for k in range(12)]


def test_the_rank_shows_in_the_size_too():
    for group in layers(witness_clouds(*sheared(), names=["z1", "z2"])):
        radii = [re.search(r"a([\d.]+) ", path.get("d")) for path in group]
        sizes = [
            float(r.group(1)) if r else float(path.get("stroke-width")) for r, path in zip(radii, group, strict=True)
        ]
        assert sizes == sorted(set(sizes))


def test_equal_values_share_a_colour():
    z = np.column_stack([np.repeat([0.0, 1.0], 30), np.arange(60.0)])
    group = layers(witness_clouds(z, z, z, names=["a", "b"]))[0]
    assert [len(part) for part in points(group)] == [30, 30]
    assert [path.get("stroke") for path in group] == [svg.ramp(2 / 11), svg.ramp(8 / 11)]


def test_captions_and_axes_say_what_is_what():
    drawing = witness_clouds(cloud(), cloud(), cloud(), names=["age", "mood"], x_names=("pulse", "voice"))
    said = words(drawing)
    assert {"latents of one model", "latents of the other", "the same data"} <= set(said)
    assert {"age →", "mood →", "in place of age →", "in place of mood →", "pulse →", "voice →"} <= set(said)
    assert {"one model", "the other", "small to large age"} <= set(said)
    turned = {node.text for node in parse(drawing).iter(f"{SVG}text") if node.get("transform")}
    assert turned == {"mood →", "in place of mood →", "voice →"}


def test_at_most_four_hundred_evenly_spaced_rows_are_drawn():
    z = np.column_stack([np.arange(5000.0), np.arange(5000.0)])
    parts = points(layers(witness_clouds(z, z, z, names=["a", "b"]))[0])
    assert {len(part) for part in parts} == {33, 34}
    assert sum(map(len, parts)) == 400
    steps = np.diff(np.concatenate(parts)[:, 0])
    assert steps == pytest.approx(np.full(399, steps.mean()), abs=0.06)


@pytest.mark.parametrize("points_given", [cloud(1), np.ones((5, 2)), cloud(400) * [1e9, 1e-9]])
def test_clouds_of_any_shape_stay_inside_their_panels(points_given: np.ndarray):
    drawing = witness_clouds(points_given, points_given, points_given, names=["a", "b"])
    one, other, data = by_class(drawing, "panel")
    for group, panel in zip(layers(drawing), (one, other, data, data), strict=True):
        x, y = np.concatenate(points(group)).T
        left, top, wide, tall = (float(panel.get(key)) for key in ("x", "y", "width", "height"))
        assert left + 4 < x.min()
        assert x.max() < left + wide - 4
        assert top + 4 < y.min()
        assert y.max() < top + tall - 4


# ---- the gap -----------------------------------------------------------------------------------------------


def places(drawing: str) -> np.ndarray:
    found = [
        re.match(r"translate\((\S+) (\S+)\)", node.get("transform")).groups() for node in by_class(drawing, "point")
    ]
    return np.array(found, dtype=float)


def ticks(drawing: str) -> dict[str, float]:
    """Where the gaps' labels stand."""
    labels = [node for node in parse(drawing).iter(f"{SVG}text") if node.get("text-anchor") == "middle"]
    return {node.text: float(node.get("x")) for node in labels if node.text != "Occam gap"}


def heights(scores: np.ndarray) -> np.ndarray:
    return 232 - 188 * scores


def sample(n: int = 90, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    return rng.integers(-3, 4, size=n), rng.uniform(size=n)


def test_every_point_has_its_height_its_hint_and_a_place_beside_its_gap():
    gap, score = sample()
    drawing = prediction(gap, score, y_label="MCC")
    at, x = places(drawing), ticks(drawing)
    expected = sorted(zip(gap.tolist(), score.tolist(), strict=True))
    assert [told(node) for node in by_class(drawing, "point")] == [
        f"gap {svg.tick_label(g)}: MCC {s:.3f}" for g, s in expected
    ]
    assert at[:, 1] == pytest.approx(heights(np.array(expected)[:, 1]), abs=0.01)
    aside = at[:, 0] - [x[svg.tick_label(g)] for g, _ in expected]
    assert np.abs(aside).max() < 20
    assert len(set(aside.round(1))) > 10


def test_points_of_one_gap_and_score_do_not_hide_each_other():
    at = places(prediction([1] * 8, [0.5] * 8, y_label="MCC"))
    assert np.diff(np.sort(at[:, 0])).min() > 2


def test_the_line_goes_through_the_median_of_each_gap():
    gap, score = sample()
    drawing = prediction(gap, score, y_label="MCC")
    (line,) = by_class(drawing, "median")
    drawn = np.array(re.findall(r"[ML](\S+?) ([\d.]+)", line.get("d")), dtype=float)
    medians = np.array([np.median(score[gap == g]) for g in range(-3, 4)])
    assert drawn[:, 0] == pytest.approx([ticks(drawing)[svg.tick_label(g)] for g in range(-3, 4)], abs=0.01)
    assert drawn[:, 1] == pytest.approx(heights(medians), abs=0.01)


def test_the_order_of_the_rows_does_not_matter():
    gap, score = sample()
    assert prediction(gap, score, y_label="MCC") == prediction(gap[::-1], score[::-1], y_label="MCC")


def test_gaps_beyond_three_are_counted_there_and_say_so():
    drawing = prediction([-5, -3, 3, 9], [0.1, 0.3, 0.8, 1.0], y_label="MCC")
    assert list(ticks(drawing)) == ["≤ −3", "−2", "−1", "0", "1", "2", "≥ 3"]
    assert told(by_class(drawing, "point")[0]) == "gap −5: MCC 0.100"
    (line,) = by_class(drawing, "median")
    drawn = np.array(re.findall(r"[ML]\S+? ([\d.]+)", line.get("d")), dtype=float)
    assert drawn == pytest.approx(heights(np.array([0.2, 0.9])), abs=0.01)
    assert list(ticks(prediction([-3, 3], [0, 1], y_label="MCC")))[::6] == ["−3", "3"]


def test_groups_have_their_own_marks_lanes_and_medians():
    gap = np.array([0, 0, 0, 0, 1, 1])
    score = np.array([0.1, 0.3, 0.7, 0.9, 0.2, 0.8])
    drawing = prediction(gap, score, y_label="MCC", groups=["a", "a", "b", "b", "a", "b"])
    marks = by_class(drawing, "point")
    assert [told(node)[0] for node in marks] == ["a"] * 3 + ["b"] * 3
    assert len({(node.get("d"), node.get("fill")) for node in marks}) == 2
    assert len({node.get("d") for node in marks}) == 2
    at = places(drawing)
    assert at[:2, 0].max() < ticks(drawing)["0"] < at[3:5, 0].min()
    ends = [re.findall(r"[ML]\S+? ([\d.]+)", line.get("d")) for line in by_class(drawing, "median")]
    assert np.array(ends, dtype=float) == pytest.approx(heights(np.array([[0.2, 0.2], [0.8, 0.8]])), abs=0.01)
    assert {"a", "b"} <= set(words(drawing))


def test_the_shaded_part_begins_between_zero_and_one():
    drawing = prediction([0, 1], [0.2, 1.0], y_label="MCC")
    (band,) = by_class(drawing, "positive")
    left, right = float(band.get("x")), float(band.get("x")) + float(band.get("width"))
    at = ticks(drawing)
    assert at["0"] < left < at["1"] < at["3"] < right
    assert "gap positive: identified" in words(drawing)


# ---- mistakes and colours ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda z: witness_clouds(z[:, :1], z, z, names="ab"), r"z must have two columns.* Got shape \(9, 1\)\."),
        (lambda z: witness_clouds(z, np.ones((9, 3)), z, names="ab"), "z_hat must have two columns"),
        (lambda z: witness_clouds(z, z, z[0], names="ab"), "x must have two axes"),
        (lambda z: witness_clouds(z, z[:5], z, names="ab"), "z and z_hat must share their batch axis"),
        (lambda z: witness_clouds(z, z, z[:5], names="ab"), "z and x must share their batch axis"),
        (lambda z: witness_clouds(z * np.nan, z, z, names="ab"), "z must be finite"),
        (lambda z: witness_clouds(z, z, z, names=["a"]), r"There must be two names of latents\. Got 1\."),
        (lambda z: witness_clouds(z, z, z, names="ab", x_names=["x"]), "There must be two names of observations"),
        (lambda z: prediction([1, 2], [0.5], y_label="y"), r"must share one shape \(n,\)\. Got shapes \(2,\) and"),
        (lambda z: prediction([[1]], [[0.5]], y_label="y"), "must share one shape"),
        (lambda z: prediction([], [], y_label="y"), "must share one shape"),
        (lambda z: prediction([1, 0.5], [0, 1], y_label="y"), r"Every gap must be a whole number\. Got 0\.5\."),
        (lambda z: prediction([None], [0], y_label="y"), r"Every gap must be a whole number\. Got nan\."),
        (lambda z: prediction([1], [1.2], y_label="y"), r"Scores must lie in \[0, 1\]\. Got 1\.2 to 1\.2\."),
        (lambda z: prediction([1], [-0.2], y_label="y"), r"Scores must lie in \[0, 1\]"),
        (lambda z: prediction([1], [np.nan], y_label="y"), r"Scores must lie in \[0, 1\]\. Got NaN\."),
        (lambda z: prediction([1], [1], y_label="y", groups=["a", "b"]), "There must be 1 groups, one per point"),
        (lambda z: prediction([1] * 5, [1] * 5, y_label="y", groups="abcde"), "at most 4 groups"),
    ],
)
def test_what_cannot_be_drawn_is_refused_in_one_sentence(call: Callable, message: str):
    with pytest.raises(InputError, match=message):
        call(cloud(9))


def luminance(color: str) -> float:
    channels = np.array([int(color[k : k + 2], 16) for k in (1, 3, 5)]) / 255
    linear = np.where(channels <= 0.04045, channels / 12.92, ((channels + 0.055) / 1.055) ** 2.4)
    return float(linear @ [0.2126, 0.7152, 0.0722])


@pytest.mark.parametrize("theme", [0, 1])
@pytest.mark.parametrize("ground", ["paper", "tile"])
@pytest.mark.parametrize("front", ["low", "middle", "high"])
def test_the_colours_of_ranks_stand_out_in_both_themes(theme: int, ground: str, front: str):
    style = files("noumena.report").joinpath("templates/style.css").read_text(encoding="utf-8")
    block = re.findall(r":root \{(.*?)\}", style, flags=re.DOTALL)[theme]
    colors = dict(re.findall(r"--([a-z-]+): (#[0-9a-f]{6})", block))
    low, high = sorted((luminance(colors[front]), luminance(colors[ground])))
    assert (high + 0.05) / (low + 0.05) >= 3
    assert theme or f"var(--{front},{colors[front]})" in svg.RAMP


@pytest.mark.parametrize(("share", "low", "part"), [(0, 0, 100), (0.5, 1, 100), (0.75, 1, 50), (1, 1, 0)])
def test_a_share_lies_between_two_colours(share: float, low: int, part: int):
    assert svg.ramp(share) == f"color-mix(in srgb,{svg.RAMP[low]} {part}%,{svg.RAMP[low + 1]})"


@pytest.mark.parametrize(("width", "lines"), [(30, ["one", "two", "three"]), (60, ["one two", "three"])])
def test_a_paragraph_breaks_between_words(width: float, lines: list[str]):
    drawn, height = svg.paragraph("one two three", 0, 0, width)
    assert words(f'<svg xmlns="http://www.w3.org/2000/svg">{drawn}</svg>') == lines
    assert height == 17 * len(lines)
