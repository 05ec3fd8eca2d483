"""A chart inside a page is escaped, themed, without ids, addresses or styles of its own, and says what it shows."""

from __future__ import annotations

import io
import re
from base64 import b64decode
from importlib.resources import files
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
from PIL import Image

from noumena import charts
from noumena.charts.canvas import HUES, PALETTE, RAMP, shade
from noumena.report import svg
from noumena.report.inline import INKS, inline

HOSTILE = "<script>alert(1)</script>\"&'\x00 $\\frac{ 心"
SVG = "{http://www.w3.org/2000/svg}"
Z = np.random.default_rng(0).normal(size=(30, 2))


def hostile() -> dict[str, Any]:
    two = [HOSTILE, "other"]
    curves = (charts.Curve(HOSTILE, ((HOSTILE, 1.0, 0.1), (2, 2.0, 0.1))), charts.Curve("a", (), published=True))
    many = (charts.Curve(HOSTILE, tuple((float(k), float(k), 0.1) for k in range(20)), baseline=True),)
    row = charts.LevelRow(HOSTILE, 0.5, (0.4, 0.6), 0.1, 1.0, 0.4, (0.3, 0.5), 0.1, HOSTILE, sentence=HOSTILE)
    return {
        "curves": charts.CurveChart(HOSTILE, HOSTILE, HOSTILE, curves).plot(),
        "a band": charts.curves(many, across=HOSTILE, up=HOSTILE),
        "history": charts.history([0, 1, 2], [[1, 2], [np.nan, 1], [3, 1]], best=1, x_label=HOSTILE, y_label=HOSTILE),
        "levels": charts.levels([row], x_label=HOSTILE, chance=0.5),
        "strips": charts.strips({HOSTILE: [0.1, 2.0]}, x_label=HOSTILE, marked={HOSTILE: 0.1}),
        "correlations": charts.correlations([[1, np.nan], [0, 1]], rows=two, columns=two),
        "structure": charts.structure(np.eye(2), observed=two, latent=two, answers=["open", "identified"]),
        "pairs": charts.pairs(Z, Z, names=two),
        "overlay": charts.overlay(Z, Z + 1, target=HOSTILE, source=HOSTILE),
        "competitor": charts.competitor(Z, Z, Z, names=two, x_names=two),
        "gaps": charts.over_gaps([0, 1], [0.1, 0.9], y_label=HOSTILE, groups=two),
        "images": charts.images(np.zeros((2, 3, 4, 4), np.uint8), 1, rows=two, under=two),
    }


@pytest.fixture(scope="module")
def drawings() -> dict[str, str]:
    return {name: inline(chart, HOSTILE) for name, chart in hostile().items()}


def words(drawing: str) -> list[str]:
    return [node.text or "" for node in ElementTree.fromstring(drawing).iter(f"{SVG}text")]


@pytest.mark.parametrize("name", list(hostile()))
def test_every_chart_is_an_escaped_image_with_a_title(name: str, drawings: dict[str, str]):
    root = ElementTree.fromstring(drawings[name])
    assert (root.tag, root.get("role"), root[0].tag) == (f"{SVG}svg", "img", f"{SVG}title")
    assert root[0].text
    assert "<script" not in drawings[name]
    assert "\x00" not in drawings[name]
    said = "".join(words(drawings[name]))
    assert "<script>" in said
    assert "$" in said or "…" in said


@pytest.mark.parametrize("name", list(hostile()))
def test_a_chart_reaches_nothing_outside_itself(name: str, drawings: dict[str, str]):
    drawing = drawings[name]
    assert set(re.findall(r"https?://[^\"'\s)<]+", drawing)) == {"http://www.w3.org/2000/svg"}
    assert "url(" not in drawing
    allowed = {"svg", "title", "g", "path", "circle", "text", "image"}
    for node in ElementTree.fromstring(drawing).iter():
        assert node.tag.removeprefix(SVG) in allowed
        assert node.get("id") is None
        assert node.tag == f"{SVG}svg" or node.get("style") is None
        assert not [key for key in node.keys() if key.startswith("on")]  # noqa: SIM118
        assert node.get("href", "data:image/png").startswith("data:image/png")


@pytest.mark.parametrize("name", list(hostile()))
def test_a_chart_scales_and_follows_the_theme(name: str, drawings: dict[str, str]):
    root = ElementTree.fromstring(drawings[name])
    width, height = map(float, root.get("viewBox", "").split()[2:])
    assert min(width, height) > 0
    assert width <= 480
    assert root.get("width") is None
    colors = {node.get(key) for node in root.iter() for key in ("fill", "stroke")} - {None, "none"}
    assert colors
    assert all(re.fullmatch(r"(color-mix\(in srgb,)?var\(--.*\)", str(color)) for color in colors)
    assert not {float(node.get("font-size", 12)) for node in root.iter(f"{SVG}text")} - {7.5, 9.1, 11, 12, 12.5, 13}


def test_the_same_chart_gives_the_same_drawing(drawings: dict[str, str]):
    assert {name: inline(chart, HOSTILE) for name, chart in hostile().items()} == drawings


def test_what_an_artist_shows_is_a_class_and_a_hint():
    drawing = inline(charts.levels([charts.LevelRow("a", 0.5, chance=0.1, sentence="a is 0.5 & more")]), "t")
    kinds = {node.get("class"): node for node in ElementTree.fromstring(drawing).iter(f"{SVG}g") if node.get("class")}
    assert set(kinds) == {"chance", "value"}
    assert [kinds["value"][0].text, kinds["value"][1].tag] == ["a is 0.5 & more", f"{SVG}circle"]


def test_many_markers_are_one_path_and_stand_where_they_did():
    figure = charts.pairs(Z, 2 * Z, names=["a", "b"])
    drawing = inline(figure, "t")
    dots = [node.get("d", "") for node in ElementTree.fromstring(drawing).iter(f"{SVG}path")]
    clouds = [data for data in dots if data.count("h0") == len(Z)]
    assert len(clouds) == 2
    for j, data in enumerate(clouds):
        x, y = np.array(re.findall(r"M(\S+) (\S+)h0", data), dtype=float).T
        assert np.corrcoef(x, Z[:, j])[0, 1] > 0.9999
        assert np.corrcoef(y, Z[:, j])[0, 1] < -0.9999


@pytest.mark.parametrize("channels", [1, 3])
def test_images_keep_their_pixels(channels: int):
    pixels = np.random.default_rng(0).integers(0, 256, (2, channels, 5, 4), dtype=np.uint8)
    root = ElementTree.fromstring(inline(charts.images(pixels, 2), "t"))
    found = list(root.iter(f"{SVG}image"))
    for image, given in zip(found, pixels, strict=True):
        decoded = np.asarray(Image.open(io.BytesIO(b64decode(image.get("href", "").split(",")[1]))))
        np.testing.assert_array_equal(decoded, given[0] if channels == 1 else np.moveaxis(given, 0, -1))
    (x, y, wide, tall), (right, level) = (
        [float(found[k].get(key, "nan")) for key in keys] for k, keys in ((0, ("x", "y", "width", "height")), (1, "xy"))
    )
    assert wide == pytest.approx(64, rel=0.1)
    assert tall == pytest.approx(80, rel=0.1)
    assert right > x + wide
    assert level == pytest.approx(y)


# ---- colours -------------------------------------------------------------------------------------------------------


def themes() -> list[dict[str, str]]:
    style = files("noumena.report").joinpath("templates/style.css").read_text(encoding="utf-8")
    blocks = re.findall(r":root \{(.*?)\}", style, flags=re.DOTALL)[:2]
    return [dict(re.findall(r"--([a-z0-9-]+): (#[0-9a-f]{6})", block)) for block in blocks]


def luminance(color: str) -> float:
    channels = np.array([int(color[k : k + 2], 16) for k in (1, 3, 5)]) / 255
    linear = np.where(channels <= 0.04045, channels / 12.92, ((channels + 0.055) / 1.055) ** 2.4)
    return float(linear @ [0.2126, 0.7152, 0.0722])


def contrast(one: str, other: str) -> float:
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


def test_the_palette_is_that_of_the_light_page_and_colours_alike_stay_alike_in_the_dark():
    light, dark = themes()
    assert {name: light[name] for name in PALETTE} == PALETTE
    for name, color in PALETTE.items():
        assert dark[re.fullmatch(r"var\(--([a-z0-9-]+),#\w+\)", INKS[color])[1]] == dark[name]  # type: ignore[index]


@pytest.mark.parametrize("theme", [0, 1])
def test_hues_and_ranks_stand_out_in_both_themes(theme: int):
    colors = themes()[theme]
    assert all(contrast(colors[f"hue-{k}"], colors["paper"]) >= 4 for k in range(1, len(HUES) + 1))
    assert all(contrast(colors[name], colors[ground]) >= 3 for name in RAMP for ground in ("paper", "tile"))


def test_ranks_between_two_colours_are_mixed_in_the_pages_own():
    assert INKS[shade(3 / 11)] == svg.ramp(3 / 11)
    assert INKS[shade(0)] == svg.RAMP[0]


@pytest.mark.parametrize(("share", "low", "part"), [(0, 0, 100), (0.5, 1, 100), (0.75, 1, 50), (1, 1, 0)])
def test_a_share_lies_between_two_colours(share: float, low: int, part: int):
    assert svg.ramp(share) == f"color-mix(in srgb,{svg.RAMP[low]} {part}%,{svg.RAMP[low + 1]})"


@pytest.mark.parametrize(("width", "lines"), [(30, ["one", "two", "three"]), (60, ["one two", "three"])])
def test_a_paragraph_breaks_between_words(width: float, lines: list[str]):
    drawn, height = svg.paragraph("one two three", 0, 0, width)
    assert words(f'<svg xmlns="http://www.w3.org/2000/svg">{drawn}</svg>') == lines
    assert height == 17 * len(lines)
