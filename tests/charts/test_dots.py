"""Levels stand beside chance, ceiling and what was published; strips have a dot per value."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from noumena.charts import LevelRow, levels, strips
from noumena.charts.canvas import PAPER


def of_kind(ax: Any, kind: str) -> list[Any]:
    return [line for line in ax.lines if line.get_gid().split(":")[0] == kind]


def test_every_mark_of_a_row_stands_at_its_number():
    row = LevelRow("MCC", 0.7, (0.6, 0.8), 0.1, 1.0, 0.65, (0.6, 0.7), repeats=0.05, sentence="told")
    ax = levels([row])
    at = {kind: [line.get_xdata().tolist() for line in of_kind(ax, kind)] for kind in
          ("value", "interval", "chance", "ceiling", "published", "spread", "between", "repeats")}  # fmt: skip
    assert at == {
        "value": [[0.7]], "interval": [[0.6, 0.8]], "chance": [[0.1]], "ceiling": [[1.0]], "published": [[0.65]],
        "spread": [[0.6, 0.7]], "between": [[0.65, 0.7]], "repeats": [[pytest.approx(0.65)], [0.75]],
    }  # fmt: skip
    assert of_kind(ax, "value")[0].get_gid() == "value: told"
    assert ax.get_xlim()[0] < 0.1 < 1.0 < ax.get_xlim()[1]


def test_rows_come_from_top_to_bottom_with_names_and_notes():
    ax = levels([LevelRow("first", 0.5), LevelRow("second", -0.25), LevelRow("third", 1, note="✓ same", color="red")])
    assert [text.get_text() for text in ax.texts] == ["first", "0.500", "second", "−0.250", "third", "✓ same"]
    heights = [line.get_ydata()[0] for line in of_kind(ax, "value")]
    assert heights == sorted(heights)
    assert ax.yaxis_inverted()
    assert ax.texts[-1].get_color() == "red"


def test_a_number_that_is_not_known_has_no_marks():
    ax = levels([LevelRow("none", float("nan"), (float("nan"), float("nan")), note="not scored"), LevelRow("one", 0.5)])
    assert len(ax.lines) == 1
    assert "not scored" in [text.get_text() for text in ax.texts]


def test_what_lies_beyond_the_limits_is_drawn_at_the_end():
    ax = levels([LevelRow("low", -7.0, (float("-inf"), float("inf")), chance=-3.0)], limits=(0, 1), chance=0.5)
    assert [line.get_xdata().tolist() for line in of_kind(ax, "value") + of_kind(ax, "interval")] == [[0.0], [0.0, 1.0]]
    assert [list(line.get_xdata()) for line in of_kind(ax, "chance")] == [[0.5, 0.5], [0.0]]


def test_equal_values_and_long_names_can_be_drawn():
    ax = levels([LevelRow("long " * 40, 0.0, published=0.0)])
    assert ax.texts[0].get_text().endswith("…")
    ax.figure.draw_without_rendering()
    name, note = (text.get_window_extent() for text in ax.texts)
    assert name.x1 < note.x0
    low, high = ax.get_xlim()
    assert low < 0 < high


def test_every_finite_value_is_a_dot_and_the_marked_one_is_printed():
    ax = strips({"PCA": [0.1, np.nan, 0.3], "ICA": []}, marked={"PCA": 0.3})
    assert [line.get_xdata()[0] for line in of_kind(ax, "dot")] == [0.1, 0.3]
    assert [line.get_xdata()[0] for line in of_kind(ax, "mark")] == [0.3]
    assert [text.get_text() for text in ax.texts] == ["0.300"]
    assert [tick.get_text() for tick in ax.get_yticklabels()] == ["PCA", "ICA"]


def test_values_outside_the_axis_are_hollow_at_its_edge():
    dots = of_kind(strips({"a": [-2.0, 0.0, 5.0, 1.0]}), "dot")
    assert [dot.get_xdata()[0] for dot in dots] == [0, 0, 1, 1]
    assert [dot.get_markerfacecolor() == PAPER for dot in dots] == [True, False, True, False]
