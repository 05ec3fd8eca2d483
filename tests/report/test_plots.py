"""Every plot is well-formed SVG, escaped, and marks what it says it marks."""

from __future__ import annotations

import re
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
    z, two = np.arange(6.0).reshape(3, 2), [HOSTILE, "other"]
    square = np.array([[True, False], [True, True]])
    return {
        "heatmap": plots.structure_heatmap(square, square.T, observed=two, latent=two, strength=np.ones((2, 2))),
        "learned only": plots.structure_heatmap(None, square, observed=two, latent=two),
        "bipartite": plots.bipartite(square, observed=two, latent=two, verdicts=["open", "identified"]),
        "correlations": plots.correlation_matrix(np.eye(2), rows=two, columns=two),
        "curves": plots.curves([0, 1, 2], z, best=1, title=HOSTILE, y_label=HOSTILE, x_label=HOSTILE),
        "dots": plots.dots({HOSTILE: [0.1, 0.2]}, x_label=HOSTILE, marked={HOSTILE: 0.2}),
        "scatter": plots.scatter_pairs(z, z, names=two),
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
        (
            lambda: plots.correlation_matrix([[1.5]], rows=["a"], columns=["b"]),
            r"lie in \[0, 1\]\. Got 0 to 1\.5",
        ),
        (lambda: plots.correlation_matrix([[0.5]], rows=["a", "b"], columns=["b"]), "values must have shape"),
        (lambda: plots.curves([0, 1], [[1.0]], best=0), "curves need steps"),
        (lambda: plots.curves([0], [[1.0]], best=1), "best must be below 1"),
        (lambda: plots.dots({}), "at least one group"),
        (lambda: plots.dots({"a": [1]}, lo=1, hi=1), "lo must be below hi"),
        (lambda: plots.dots({"a": [1]}, marked={"b": 1}), "marked name must be a group"),
        (lambda: plots.scatter_pairs(np.ones((3, 2)), np.ones((3, 1)), names=["a", "b"]), "share one shape"),
        (lambda: plots.scatter_pairs(np.ones((3, 2)), np.ones((3, 2)), names=["a"]), "must be 2 names"),
        (lambda: plots.scatter_pairs(np.ones((3, 1)), np.ones((3, 1)), names=["a"], most=0), "most must be"),
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


# ---- correlations ------------------------------------------------------------------------------------------


def test_correlations_are_printed_with_the_largest_of_a_row_bold():
    drawing = plots.correlation_matrix([[0.914, 0.2], [np.nan, 0]], rows=["a", "b"], columns=["c", "d"])
    numbers = {node.text: node.get("font-weight") for node in parse(drawing).iter(f"{SVG}text")}
    assert numbers["0.91"] == "650"
    assert numbers["0.20"] == "400"
    assert numbers["–"] == "400"
    assert "nan" not in drawing


def test_a_large_matrix_keeps_its_numbers_where_a_pointer_rests():
    drawing = plots.correlation_matrix(np.full((40, 40), 0.25), rows=names("a", 40), columns=names("b", 40))
    assert "0.25" not in words(drawing)
    assert "a40 with b40: 0.250" in drawing


# ---- curves ------------------------------------------------------------------------------------------------


def path_data(drawing: str) -> list[str]:
    return [node.get("d") for node in by_class(drawing, "curve")]


def test_values_that_are_not_finite_leave_gaps():
    values = np.ones((9, 2)) * np.arange(9)[:, None]
    values[3, 0], values[5, 0], values[:, 1] = np.nan, np.inf, -np.inf
    drawing = plots.curves(np.arange(9), values, best=0)
    assert not re.search("nan|inf", drawing, flags=re.IGNORECASE)
    empty, gapped = path_data(drawing)
    assert empty == ""
    assert gapped.count("M") == 3
    assert gapped.count("h0") == 1


@pytest.mark.parametrize("value", [0.0, 1.0, -3.5, 1e-12, 1e12])
def test_a_constant_curve_is_a_level_line(value: float):
    drawing = plots.curves([0, 1, 2], np.full((3, 1), value), best=0)
    heights = re.findall(r"[ML]\S+ ([\d.]+)", path_data(drawing)[0])
    assert len(heights) == 3
    assert len(set(heights)) == 1


@pytest.mark.parametrize("values", [[[np.nan]], [[np.inf]], [[1e300]]])
def test_curves_with_nothing_to_draw_say_so(values: list):
    assert "no finite values" in words(plots.curves([0], values, best=0))


def test_one_step_is_one_dot():
    assert path_data(plots.curves([7], [[1.0]], best=0))[0].endswith("h0")


def test_the_axis_is_logarithmic_only_for_positive_values_over_one_and_a_half_decades():
    def logarithmic(*values: float) -> bool:
        column = np.array(values)[:, None]
        return any("(log)" in word for word in words(plots.curves(range(len(values)), column, best=0)))

    assert logarithmic(1, 100)
    assert not logarithmic(1, 30)
    assert not logarithmic(0, 100)
    assert not logarithmic(-1, 100)


def test_the_best_curve_is_bold_and_on_top():
    drawing = plots.curves([0, 1], [[1, 2, 3], [2, 3, 4]], best=1)
    widths = [float(node.get("stroke-width")) for node in by_class(drawing, "curve")]
    assert widths[-1] == max(widths)
    assert widths.count(max(widths)) == 1


def test_long_histories_are_thinned():
    drawing = plots.curves(np.arange(20_000), np.random.default_rng(0).normal(size=(20_000, 1)), best=0)
    assert path_data(drawing)[0].count("L") == 499


@pytest.mark.parametrize(("lo", "hi"), [(0, 1), (-3, 17), (1e-9, 2e-9), (0, 3e7), (0.99, 1.0)])
def test_ticks_are_few_even_and_inside(lo: float, hi: float):
    ticks = svg.linear_ticks(lo, hi)
    assert 2 <= len(ticks) <= 7
    assert lo - 1e-9 * (hi - lo) <= ticks[0]
    assert ticks[-1] <= hi + 1e-9 * (hi - lo)
    assert np.diff(ticks) == pytest.approx(np.full(len(ticks) - 1, ticks[1] - ticks[0]))
    assert len({svg.tick_label(tick) for tick in ticks}) == len(ticks)


# ---- dots and pairs ----------------------------------------------------------------------------------------


def test_every_finite_value_is_a_dot_and_the_marked_one_is_printed():
    drawing = plots.dots({"PCA": [0.1, np.nan, 0.3], "ICA": []}, marked={"PCA": 0.3})
    assert len(by_class(drawing, "dot")) == 2
    assert len(by_class(drawing, "mark")) == 1
    assert "0.300" in words(drawing)
    assert "nan" not in drawing


def test_values_outside_the_axis_are_hollow_at_its_edge():
    drawing = plots.dots({"a": [-2.0, 0.0, 5.0, 1.0]})
    below, least, above, most = by_class(drawing, "dot")
    assert below.get("cx") == least.get("cx")
    assert above.get("cx") == most.get("cx")
    assert [node.get("fill") == svg.PAPER for node in (below, least, above, most)] == [
        True,
        False,
        True,
        False,
    ]


def test_pairs_print_the_correlation_of_all_rows_and_draw_some():
    rng = np.random.default_rng(0)
    z = rng.normal(size=(5000, 2))
    z_hat = z * [-2, 1] + rng.normal(size=z.shape) * [0, 1]
    drawing = plots.scatter_pairs(z, z_hat, names=["a", "b"], most=100)
    expected = f"r = {np.corrcoef(z[:, 1], z_hat[:, 1])[0, 1]:.2f}"
    assert {"r = −1.00", expected} <= set(words(drawing))
    specks = [node.get("d").count("h0") for node in parse(drawing).iter(f"{SVG}path")]
    assert specks == [100, 100]


def test_a_latent_that_does_not_vary_has_no_correlation():
    line, level, nothing = np.arange(4.0), np.full(4, 0.1), np.full(4, np.nan)
    z, z_hat = np.column_stack([line, level, nothing, line]), np.column_stack([level, line, line, line])
    drawing = plots.scatter_pairs(z, z_hat, names=["a", "b", "c", "d"])
    assert [word for word in words(drawing) if word.startswith("r =")] == [
        "r = –",
        "r = –",
        "r = –",
        "r = 1.00",
    ]
    assert "nan" not in drawing


@pytest.mark.parametrize("n", [1, 2, 5, 8, 20])
def test_pairs_of_any_number_stay_inside_the_drawing(n: int):
    z = np.random.default_rng(0).normal(size=(30, n))
    drawing = plots.scatter_pairs(z, z, names=names("z", n))
    x, y = coordinates(drawing)
    width, height = map(float, parse(drawing).get("viewBox").split()[2:])
    assert len(x) == 2 * n
    assert x.max() <= width
    assert y.max() <= height
