"""Heat maps show every number, and a structure the answer of every latent."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from matplotlib.colors import to_rgba

from noumena.charts import correlations, heatmap, structure
from noumena.charts.canvas import ANSWERS, HEAT, TILE


def names(letter: str, n: int) -> list[str]:
    return [f"{letter}{i + 1}" for i in range(n)]


def test_correlations_are_printed_with_the_largest_of_a_row_bold():
    ax = correlations([[0.914, 0.2], [np.nan, 0]], rows=["a", "b"], columns=["c", "d"])
    weights = {text.get_text(): text.get_fontweight() for text in ax.texts}
    assert weights == {"0.91": 700, "0.20": 400, "–": 400, "0.00": 700}
    assert [tick.get_text() for tick in ax.get_xticklabels()] == ["c", "d"]
    assert [tick.get_text() for tick in ax.get_yticklabels()] == ["a", "b"]


def test_a_large_matrix_keeps_its_numbers_where_a_pointer_rests():
    ax = correlations(np.full((40, 40), 0.25), rows=names("a", 40), columns=names("b", 40))
    assert not ax.texts
    assert ax.patches[-1].get_gid() == "cell: a40 with b40: 0.250"


def test_cells_are_darker_the_larger_their_share_and_quiet_where_nothing_is_known():
    nan = float("nan")
    ax = heatmap([[nan, 3.0], [7.0, 1.0]], rows="ab", columns="cd", shares=[[0, 0.155], [2.0, 0]], dots=np.eye(2))
    colors = [patch.get_facecolor() for patch in ax.patches]
    assert colors[0] == to_rgba(TILE)
    assert [color[3] for color in colors[1:]] == pytest.approx([0.06 + 0.94 * 0.155, 1.0, 0.06])
    assert {color[:3] for color in colors[1:]} == {to_rgba(HEAT)[:3]}
    assert [tuple(line.get_xydata()[0]) for line in ax.lines] == [(0, 0), (1, 1)]


def test_cells_stand_in_the_order_of_their_names():
    ax = heatmap([[1.0, 2.0], [3.0, 4.0]], rows="ab", columns="cd", written="{:g}".format)
    assert [(text.get_position(), text.get_text()) for text in ax.texts] == [
        ((0, 0), "1"), ((1, 0), "2"), ((0, 1), "3"), ((1, 1), "4")
    ]  # fmt: skip
    assert ax.yaxis_inverted()


@pytest.mark.parametrize(("rows", "columns"), [(5, 5), (20, 5), (60, 20), (300, 3), (1, 1)])
def test_a_structure_has_the_colour_of_its_latents_answers(rows: int, columns: int):
    support = np.random.default_rng(0).uniform(size=(rows, columns)) < 0.3
    answers = [list(ANSWERS)[j % 3] for j in range(columns)]
    ax = structure(support, observed=names("x", rows), latent=names("z", columns), answers=answers)
    colors = np.array([patch.get_facecolor()[:3] for patch in ax.patches]).reshape(rows, columns, 3)
    for j, answer in enumerate(answers):
        assert (colors[support[:, j], j] == to_rgba(ANSWERS[answer])[:3]).all()
        assert (colors[~support[:, j], j] == to_rgba(TILE)[:3]).all()
    assert [text.get_text() for text in ax.figure.legends[0].get_texts()] == [a for a in ANSWERS if a in answers]


def test_the_shade_of_an_entry_follows_its_strength():
    ax = structure([[1, 1, 1]], observed=["x"], latent=["a", "b", "c"], strength=[[0.1, -0.9, 0.5]])
    weak, strong, middle = (patch.get_facecolor()[3] for patch in ax.patches)
    assert 0 < weak < middle < strong == pytest.approx(0.85)
    assert ax.patches[0].get_gid() == "cell: x depends on a"
    assert not ax.figure.legends


@pytest.mark.parametrize("size", [(2, 1), (60, 20), (5, 90)])
def test_names_stay_inside_the_figure_and_do_not_touch(size: tuple[int, int]):
    long = [f"temperature {k}" for k in range(max(size))]
    ax = structure(np.ones(size), observed=long[: size[0]], latent=long[: size[1]])
    ax.figure.draw_without_rendering()
    for axis in (ax.xaxis, ax.yaxis):
        boxes = [label.get_window_extent() for label in axis.get_ticklabels()]
        assert all(box.x0 >= -1 and box.y1 <= ax.figure.bbox.y1 + 1 for box in boxes)
        assert not any(a.overlaps(b) and a.width * a.height for a, b in pairwise(boxes))
