"""Every drawing of a structure is well-formed SVG, escaped, and marks what it says it marks."""

from __future__ import annotations

from collections.abc import Callable
from xml.etree import ElementTree

import numpy as np
import pytest

from noumena.checks import InputError
from noumena.report import plots, svg

HOSTILE = "<script>alert(1)</script>\"&'\x00"
SVG = "{http://www.w3.org/2000/svg}"


def names(letter: str, n: int) -> list[str]:
    return [f"{letter}{i + 1}" for i in range(n)]


def support(rows: int, columns: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).uniform(size=(rows, columns)) < 0.3


def parse(drawing: str) -> ElementTree.Element:
    return ElementTree.fromstring(drawing)


def by_class(drawing: str, kind: str) -> list[ElementTree.Element]:
    return [node for node in parse(drawing).iter() if node.get("class") == kind]


def words(drawing: str) -> list[str]:
    return [node.text or "" for node in parse(drawing).iter(f"{SVG}text")]


def hostile_plots() -> dict[str, str]:
    two = [HOSTILE, "other"]
    square = np.array([[True, False], [True, True]])
    return {
        "heatmap": plots.structure_heatmap(square, square.T, observed=two, latent=two, strength=np.ones((2, 2))),
        "learned only": plots.structure_heatmap(None, square, observed=two, latent=two),
        "bipartite": plots.bipartite(square, observed=two, latent=two, verdicts=["open", "identified"]),
    }


@pytest.mark.parametrize("name", sorted(hostile_plots()))
def test_every_plot_is_an_escaped_image_with_a_title(name: str):
    drawing = hostile_plots()[name]
    root = parse(drawing)
    assert root.tag == f"{SVG}svg"
    assert root.get("role") == "img"
    assert root[0].tag == f"{SVG}title"
    assert root[0].text
    assert not list(root.iter(f"{SVG}script"))
    assert any("<script>" in (node.text or "") for node in root.iter())


@pytest.mark.parametrize("name", sorted(hostile_plots()))
def test_every_plot_scales_and_follows_the_theme(name: str):
    drawing = hostile_plots()[name]
    width, height = map(float, parse(drawing).get("viewBox").split()[2:])
    assert min(width, height) > 0
    assert parse(drawing).get("width") is None
    colors = {node.get(key) for node in parse(drawing).iter() for key in ("fill", "stroke")} - {None, "none"}
    assert colors
    assert all(color.startswith("var(--") for color in colors)


def coordinates(drawing: str) -> tuple[np.ndarray, np.ndarray]:
    """The corners of all rectangles that stand directly in the drawing."""
    boxes = [
        [float(node.get(key)) for key in ("x", "y", "width", "height")] for node in parse(drawing) if "rect" in node.tag
    ]
    x, y, wide, tall = np.array(boxes).T
    return np.concatenate([x, x + wide]), np.concatenate([y, y + tall])


# ---- structures --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("rows", "columns"), [(5, 5), (20, 5), (60, 20), (300, 3), (1, 1)])
def test_missing_and_extra_entries_are_marked_once_each(rows: int, columns: int):
    truth, learned = support(rows, columns), support(rows, columns, seed=1)
    drawing = plots.structure_heatmap(truth, learned, observed=names("x", rows), latent=names("z", columns))
    missing, extra = int((truth & ~learned).sum()), int((learned & ~truth).sum())
    assert len(by_class(drawing, "missing")) == missing
    assert len(by_class(drawing, "extra")) == extra
    assert {f"missing: {missing}", f"extra: {extra}"} <= set(words(drawing))


@pytest.mark.parametrize(("rows", "columns"), [(5, 5), (20, 5), (60, 20), (300, 3), (2, 1)])
def test_every_cell_lies_inside_the_drawing(rows: int, columns: int):
    full = np.ones((rows, columns), dtype=bool)
    drawing = plots.structure_heatmap(full, full, observed=names("x", rows), latent=names("z", columns))
    x, y = coordinates(drawing)
    width, height = map(float, parse(drawing).get("viewBox").split()[2:])
    assert x.min() >= 0
    assert x.max() <= width
    assert y.max() <= height


def test_a_mark_names_its_entry():
    drawing = plots.structure_heatmap([[1, 0]], [[0, 1]], observed=["pulse"], latent=["age", "mood"])
    assert by_class(drawing, "missing")[0][0].text == "missing: pulse depends on age"
    assert by_class(drawing, "extra")[0][0].text == "extra: pulse depends on mood"


def test_without_a_truth_nothing_is_missing_or_extra():
    drawing = plots.structure_heatmap(None, support(6, 3), observed=names("x", 6), latent=names("z", 3))
    assert "true" not in words(drawing)
    assert "learned" in words(drawing)
    assert not by_class(drawing, "missing") + by_class(drawing, "extra")
    assert not any(word.startswith(("missing", "extra")) for word in words(drawing))


def test_the_shade_of_a_learned_entry_follows_its_strength():
    drawing = plots.structure_heatmap(
        None, [[1, 1, 1]], observed=["x"], latent=["a", "b", "c"], strength=[[0.1, 0.9, 0.5]]
    )
    weak, strong, middle = (float(node.get("fill-opacity")) for node in parse(drawing) if "rect" in node.tag)
    assert 0 < weak < middle < strong == 1


def test_names_too_long_are_cut_with_the_whole_name_kept():
    long = "concentration of calcium in the blood"
    drawing = plots.structure_heatmap(None, [[1]], observed=[long], latent=["z"])
    assert "concentration…" in words(drawing)
    assert f"{long} depends on z" in drawing


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: plots.structure_heatmap(None, np.ones((2, 2)), observed=["x"], latent=["z"]),
            "learned must have",
        ),
        (lambda: plots.structure_heatmap(None, [[2]], observed=["x"], latent=["z"]), "only 0 and 1"),
        (
            lambda: plots.structure_heatmap([[1, 1]], [[1]], observed=["x"], latent=["z"]),
            "truth must have shape",
        ),
        (
            lambda: plots.structure_heatmap(None, [[1]], observed=["x"], latent=["z"], strength=[1.0]),
            "strength must have the shape",
        ),
        (
            lambda: plots.structure_heatmap(None, [[1]], observed=["x"], latent=["z"], strength=[[np.nan]]),
            "strength must be finite",
        ),
        (
            lambda: plots.bipartite([[1]], observed=["x"], latent=["z"], verdicts=["maybe"]),
            "verdict must be one of",
        ),
        (lambda: plots.bipartite([[1]], observed=["x"], latent=["z"], verdicts=[]), "one verdict per latent"),
    ],
)
def test_what_cannot_be_drawn_is_refused_in_one_sentence(call: Callable, message: str):
    with pytest.raises(InputError, match=message):
        call()


# ---- graphs ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("rows", "columns"), [(5, 5), (20, 5), (60, 20), (3, 90)])
def test_a_latent_is_grouped_with_exactly_its_edges(rows: int, columns: int):
    entries = support(rows, columns)
    drawing = plots.bipartite(entries, observed=names("x", rows), latent=names("z", columns))
    groups = by_class(drawing, "nm-latent")
    edges = [sum(node.get("class") == "nm-edge" for node in group) for group in groups]
    assert edges == entries.sum(axis=0).tolist()
    assert ".nm-latent:hover .nm-edge" in drawing


def test_each_verdict_has_its_colour_its_sign_and_its_word():
    kinds = ["identified", "not identified", "open"]
    drawing = plots.bipartite(np.ones((1, 3)), observed=["x"], latent=["a", "b", "c"], verdicts=kinds)
    groups = by_class(drawing, "nm-latent")
    discs = [next(group.iter(f"{SVG}circle")).get("fill") for group in groups]
    assert discs == [svg.GOOD, svg.BAD, svg.OPEN]
    assert [f"a: {kinds[0]}" in ElementTree.tostring(group, "unicode") for group in groups] == [
        True,
        False,
        False,
    ]
    signs = [{node.get("d") for node in group.iter(f"{SVG}path")} for group in groups]
    assert [svg.CHECK in sign for sign in signs] == [True, False, False]
    assert [svg.CROSS in sign for sign in signs] == [False, True, False]
    assert set(kinds) <= set(words(drawing))


def test_the_legend_names_only_the_verdicts_present():
    drawing = plots.bipartite([[1]], observed=["x"], latent=["z"], verdicts=["open"])
    assert "open" in words(drawing)
    assert "identified" not in words(drawing)
