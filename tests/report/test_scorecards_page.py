"""The page of a scorecard shows every number, three matrices in matched order, and what each number supports."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure

from noumena.metrics import Scorecard, score
from noumena.report.page import render, write
from noumena.report.scorecards import scorecard_page

HOSTILE = "<script>alert(1)</script>"
METRICS = ("mcc", "mcc_spearman", "dci", "infomec", "r2")


@pytest.fixture(scope="module")
def card() -> Scorecard:
    rng = np.random.default_rng(0)
    z = pd.DataFrame({HOSTILE: rng.choice(["a", "b"], 200), "size": rng.uniform(size=200), "x": rng.normal(size=200)})
    learned = np.column_stack([z["x"], rng.normal(size=200), -z["size"]])
    return score(z, learned, metrics=METRICS, subsamples=10)


def by_class(drawing: str, kind: str) -> list[ElementTree.Element]:
    return [node for node in ElementTree.fromstring(drawing).iter() if node.get("class") == kind]


def test_the_page_is_complete_and_escaped(card: Scorecard, tmp_path: Path) -> None:
    page = render(scorecard_page(card))
    assert page.count("<script") == 1  # what saves the tables
    assert "<script>alert" not in page
    assert "&lt;script&gt;" in page
    for number in card.numbers:
        assert number.claim.title in page
        assert number.claim.supports.split("'")[0] in page
    assert card.reading in page
    assert write(scorecard_page(card), tmp_path / "page.html").read_text() == page


def test_matrices_are_drawn_with_their_numbers_and_sentences(card: Scorecard) -> None:
    chapters = {chapter.title: chapter for chapter in scorecard_page(card).chapters}
    which = chapters["Which latent is which"].figures
    assert len(which) == 2
    assert str(card["mcc"].numbers[0]) in which[0].caption
    for title, name in (("Which latent predicts which factor", "dci"), ("Which latent knows which factor", "infomec")):
        (figure,) = chapters[title].figures
        assert all(str(number) in figure.caption for number in card[name].numbers)
        assert all(number.claim.supports in figure.caption for number in card[name].numbers)


def test_latents_stand_in_the_order_of_their_partners(card: Scorecard) -> None:
    drawing = scorecard_page(card).chapters[1].figures[0].svg
    names = [node.text for node in ElementTree.fromstring(drawing).iter() if (node.text or "").startswith("ẑ")]
    assert names == ["ẑ3", "ẑ1", "ẑ2"]
    assert card["mcc"].permutation.tolist() == [2, 0]


def test_levels_mark_chance_ceiling_interval_and_value(card: Scorecard) -> None:
    drawing = scorecard_page(card).chapters[0].figures[0].svg
    count = sum(number.claim.best == 1 for number in card.numbers)
    assert count > 5
    assert [len(by_class(drawing, kind)) for kind in ("value", "chance", "ceiling", "interval")] == [count] * 4


def test_a_scorecard_is_drawn_on_axes_that_are_given(card: Scorecard) -> None:
    ax = Figure().add_subplot()
    assert card.plot(ax) is ax
    drawn = [number for number in card.numbers if number.claim.best == 1]
    at = {kind: [line.get_xdata().tolist() for line in ax.lines if line.get_gid().startswith(f"{kind}: ")] for kind in
          ("value", "chance", "ceiling", "interval")}  # fmt: skip
    assert at["value"] == [[number.value] for number in drawn]
    assert at["chance"] == [[number.chance] for number in drawn]
    assert at["ceiling"] == [[number.ceiling] for number in drawn]
    assert [ends[1] for ends in at["interval"]] == [min(n.uncertainty.high, 1.02) for n in drawn if n.uncertainty]
    assert [text.get_text() for text in ax.texts][::2] == [number.claim.title for number in drawn]
    alone = score(np.eye(30), np.eye(30), metrics="mcc").plot()
    assert not [line for line in alone.lines if line.get_gid().startswith("interval")]


def test_a_score_below_the_axis_stays_on_the_page(card: Scorecard, monkeypatch: pytest.MonkeyPatch) -> None:
    low = replace(card["r2"].numbers[0], value=-7.0, chance=-3.0)
    monkeypatch.setattr(Scorecard, "numbers", (low,))
    ax = card.plot()
    assert ax.get_xlim()[0] == pytest.approx(-3.02)
    at = {str(line.get_gid()).split(":")[0]: line.get_xdata()[0] for line in ax.lines}
    assert at["value"] == at["chance"] - 0.02 == pytest.approx(-3.02)


def test_what_was_not_found_and_what_was_refused_are_said() -> None:
    rng = np.random.default_rng(1)
    lost = score(rng.normal(size=(60, 2)), rng.normal(size=(60, 3)))
    overview = scorecard_page(lost).chapters[0]
    assert overview.verdict is not None
    assert overview.verdict.kind == "not found"
    assert ("sis", lost.refused["sis"]) in overview.tables[1].rows
    assert (
        scorecard_page(score(np.eye(30), np.eye(30), metrics=["r2"])).chapters[1].title == "What each number supports"
    )


def test_large_matrices_are_cut_and_it_is_said() -> None:
    z = np.random.default_rng(2).normal(size=(50, 40))
    figure = scorecard_page(score(z, z, metrics="mcc", ceiling=False)).chapters[1].figures[0]
    assert "the first 30 of 40 factors and 40 latents" in figure.caption
    assert figure.svg.count('class="cell"') == 900
