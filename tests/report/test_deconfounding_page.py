"""The page shows every condition with its interval, what components carry, and the design; everything is escaped."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.axes import Axes

from noumena.deconfounding import Deconfounding, deconfound
from noumena.deconfounding.carriers import Carriers
from noumena.deconfounding.result import Estimate
from noumena.report.deconfounding import deconfounding_page
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


def of_kind(ax: Axes, kind: str) -> list[Any]:
    return [line for line in ax.lines if str(line.get_gid()).split(":")[0] == kind]


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
    ax = found.plot()
    marks = {kind: of_kind(ax, kind) for kind in ("interval", "value", "chance")}
    assert [len(marks[kind]) for kind in marks] == [4, 4, 1]
    for bar, dot, score in zip(marks["interval"], marks["value"], found.scores, strict=True):
        assert bar.get_xdata()[0] <= dot.get_xdata()[0] == score.auroc.mean <= bar.get_xdata()[1]
    assert list(marks["chance"][0].get_xdata()) == [0.5, 0.5]
    assert ax.get_xlabel() == "AUROC"


def test_what_was_not_scored_says_so_and_unknown_intervals_stay_on_the_axis(found: Deconfounding) -> None:
    nan, inf = float("nan"), float("inf")
    estimates = (
        Estimate(0.6, 0.1, 0.5, 0.7), Estimate(0.8, 0.1, 0.7, 0.9), Estimate(*[nan] * 4), Estimate(0.7, nan, -inf, inf)
    )  # fmt: skip
    scores = tuple(
        replace(score, auroc=auroc, spread=spread)
        for score, auroc, spread in zip(found.scores, estimates, (0.0, 0.02, 0.0, 0.0), strict=True)
    )
    ax = replace(found, scores=scores).plot()
    assert [dot.get_xdata()[0] for dot in of_kind(ax, "value")] == [0.6, 0.8, 0.7]
    assert "not scored" in [text.get_text() for text in ax.texts]
    assert [ring.get_xdata()[0] for ring in of_kind(ax, "repeats")] == pytest.approx([0.78, 0.82])
    assert all(np.isfinite(bar.get_xdata()).all() for bar in of_kind(ax, "interval"))


def test_the_strip_marks_what_is_above_chance_and_is_ordered_by_batch() -> None:
    share = np.array([0.1, 0.8, 0.4])
    ax = Carriers("ica", share, share, np.array([0.9, 0.0, 0.0]), (0.0, 0.0), (0.3, 0.3)).plot()
    assert [tuple(dot.get_xydata()[0]) for dot in of_kind(ax, "dot")] == [(0, 0), (1, 0), (2, 1)]
    told = [patch.get_gid() for patch in ax.patches]
    assert told[0].startswith("cell: ica 2, batch: 0.800")
    assert told[1].startswith("cell: ica 3, batch: 0.400")
    assert [tick.get_text() for tick in ax.get_yticklabels()] == ["batch", "label"]
