"""The page shows every condition with its interval, what components carry, and the design; everything is escaped."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

from noumena.deconfounding import Deconfounding, deconfound
from noumena.deconfounding.carriers import Carriers
from noumena.deconfounding.result import Estimate
from noumena.report.deconfounding import deconfounding_page, intervals, strip
from noumena.report.page import render, write

HOSTILE = "<script>alert(1)</script>"


@pytest.fixture(scope="module")
def found() -> Deconfounding:
    draw = np.random.default_rng(0)
    x = draw.normal(size=(90, 3))
    batch = np.repeat(["B1", "B2", HOSTILE], 30)
    label = np.where(x[:, 0] + 0.5 * draw.normal(size=90) > 0, "drug", HOSTILE)
    return deconfound(
        x, batch, label, positive="drug", rotations=2, top=(1,), remove_batch=True, boosting={"min_data_in_leaf": 10}
    )


def by_class(drawing: str, kind: str) -> list[ElementTree.Element]:
    return [node for node in ElementTree.fromstring(drawing).iter() if node.get("class") == kind]


def test_the_page_is_complete_escaped_and_in_one_file(found: Deconfounding, tmp_path: Path) -> None:
    page = render(deconfounding_page(found, HOSTILE, ("A note",)))
    assert page.count("<script") == 1  # what saves the tables
    assert "<script>alert" not in page
    assert "&lt;script&gt;" in page
    assert all(title in page for title in ("Scores on held-out batches", "What the components carry", "Design"))
    assert all(name in page for name in ("the base features", "PCA", "ICA", "random rotations", "A note."))
    assert found.headline in page
    assert write(deconfounding_page(found, "x"), tmp_path / "report.html").stat().st_size > 5000


def test_the_design_is_shown_with_the_fold_that_holds_each_batch_out(found: Deconfounding) -> None:
    table = deconfounding_page(found, "x").chapters[-1].tables[0]
    assert {row[0] for row in table.rows} == {"B1", "B2", HOSTILE}
    assert sorted(str(row[1]) for row in table.rows) == ["1", "2", "3"]
    assert sum(int(cell) for row in table.rows for cell in row[2:]) == 90


def test_without_components_there_is_no_chapter_on_them(found: Deconfounding) -> None:
    alone = replace(found, carriers=())
    assert [c.title for c in deconfounding_page(alone, "x").chapters] == ["Scores on held-out batches", "Design"]


def test_every_condition_has_its_mean_between_the_ends_of_its_interval(found: Deconfounding) -> None:
    drawing = intervals([(s.condition, s.auroc, s.spread) for s in found.scores])
    bars, dots = by_class(drawing, "interval"), by_class(drawing, "mean")
    assert len(bars) == len(dots) == 4
    for bar, dot in zip(bars, dots, strict=True):
        assert float(bar.get("x1", "")) <= float(dot.get("cx", "")) <= float(bar.get("x2", ""))
    assert len(by_class(drawing, "chance")) == 1


def test_higher_scores_are_further_right_and_what_was_not_scored_says_so() -> None:
    groups = [
        ("pca", Estimate(0.6, 0.1, 0.5, 0.7), 0.0),
        ("ica", Estimate(0.8, 0.1, 0.7, 0.9), 0.02),
        ("random", Estimate(*[float("nan")] * 4), 0.0),
        ("base", Estimate(0.7, float("nan"), float("-inf"), float("inf")), 0.0),
    ]
    drawing = intervals(groups)
    low, high, _ = (float(dot.get("cx", "")) for dot in by_class(drawing, "mean"))
    assert low < high
    assert "not scored" in drawing
    assert len(by_class(drawing, "spread")) == 2
    assert "inf" not in "".join(bar.get("x1", "") + bar.get("x2", "") for bar in by_class(drawing, "interval"))


def test_the_strip_marks_what_is_above_chance_and_is_ordered_by_batch() -> None:
    share = np.array([0.1, 0.8, 0.4])
    drawing = strip(Carriers("ica", share, share, np.array([0.9, 0.0, 0.0]), (0.0, 0.0), (0.3, 0.3)))
    assert len(by_class(drawing, "carries")) == 3
    titles = [node.text or "" for node in ElementTree.fromstring(drawing).iter() if node.tag.endswith("title")]
    assert titles[1].startswith("ica 2, batch: 0.800")
    assert titles[2].startswith("ica 3, batch: 0.400")
