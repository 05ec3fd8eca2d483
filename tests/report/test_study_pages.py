"""Pages of studies show every claim with its verdict in words, ours against published, and how to run them."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest

from noumena.charts import Curve, CurveChart
from noumena.charts.canvas import ACCENT, BAD
from noumena.checks import InputError
from noumena.cli.study_pages import compared
from noumena.report import study_pages
from noumena.report.study_pages import (
    COLUMNS,
    STUDY,
    VERDICTS,
    Compared,
    beside,
    index_page,
    study_page,
    verdict_of,
)
from noumena.studies import claims as studies_claims
from noumena.studies.claims import StudyClaim, line

HOSTILE = "<script>alert(1)</script>\"&'"
CLAIMS = (
    StudyClaim("Table 1: d = 3", "MCC", 0.8, (0.9, 0.92), 0.02, spread=0.01, runs=3, baseline=("PCA", 0.95)),
    StudyClaim("Table 1: d = 4", "MCC", 0.8, (0.81,), 0.02, baseline=("PCA", 0.3)),
    StudyClaim("Table 1: d = 4", "R²", 0.9, (0.5, 0.6), 0.02),
    StudyClaim("Table 1: d = 5", "MCC", 0.8, (0.5,), 0.02, not_comparable="other data"),
    StudyClaim("Table 1: d = 6", "MCC", 0.8, (), 0.02),
)
FIGURE = CurveChart("Recovery over d", "d", "MCC", (Curve("VAE", ((3, 0.9, 0.1), (4, 0.8, None))),))
FACTS = {"rows": "12", "seeds": "3", "CPU-minutes": "4.5", "hardware": "one core", "versions": "torch 2"}


class Reader(HTMLParser):
    """The elements of a page and the text within them."""

    def __init__(self, page: str):
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self.rows: list[list[str]] = []
        self.cell = False
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag == "tr":
            self.rows.append([])
        if tag in ("td", "th"):
            self.cell = True
            self.rows[-1].append("")

    def handle_endtag(self, tag: str) -> None:
        if tag in ("td", "th"):
            self.cell = False

    def handle_data(self, data: str) -> None:
        self.texts.append(data)
        if self.cell:
            self.rows[-1][-1] = " ".join((self.rows[-1][-1] + " " + data).split())

    def row(self, first: str) -> list[str]:
        return next(row for row in self.rows if row and row[0] == first)


def page_of(**changes: Any) -> str:
    about: dict[str, Any] = {
        "name": "ddl/table3",
        "title": "Table 3: recovery",
        "caption": "The mean correlation over five seeds.",
        "claims": [line(claim) for claim in CLAIMS],
        "figures": [FIGURE],
        "text": "d  MCC\n3  0.91",
        "facts": FACTS,
        "compared": compared(CLAIMS),
    }
    return study_page(**(about | changes))


def study(**changes: Any) -> dict[str, Any]:
    counts = {"better": 1, "reproduced": 2, "worse": 0, "not comparable": 3, "not run": 0}
    about = {"name": "ddl/table3", "paper": "Dictionaries", "title": "Table 3", "counts": counts}
    return about | {"done": 5, "cells": 9, "page": "ddl-table3.html"} | changes


def svgs(page: str) -> list[ElementTree.Element]:
    return [ElementTree.fromstring(found) for found in re.findall(r"<svg.*?</svg>", page, flags=re.DOTALL)]


def chapters(found: list[Compared]) -> tuple[Any, ...]:
    """The figures of ours against published."""
    return study_pages._claims_chapter([line(claim) for claim in CLAIMS], found, study_pages.Tally({})).figures


# ---- the page of a study -------------------------------------------------------------------------------------------


def test_columns_and_verdicts_are_those_of_claims():
    assert COLUMNS == studies_claims.HEADER
    assert tuple(VERDICTS) == studies_claims.VERDICTS


def test_every_claim_is_in_the_table_with_its_verdict_in_words():
    read = Reader(page_of())
    assert list(COLUMNS) in read.rows
    for claim in CLAIMS:
        wanted = list(line(claim).values())
        found = [row for row in read.rows if row[:2] == wanted[:2]]
        assert [row[:-1] for row in found] == [wanted[:-1]]
        reason = f" {claim.not_comparable}" if claim.not_comparable else ""
        assert found[0][-1] == f"{VERDICTS[claim.verdict][0]} {claim.verdict}{reason}"


def test_verdicts_are_counted_on_top():
    page = page_of()
    assert "5 published figures: 1 better, 1 reproduced, 1 worse, 1 not comparable, 1 not run" in page
    head = page[: page.index('class="chapter"')]
    assert re.findall(r"</span> (\d+ [a-z ]+)</span>", head) == [f"1 {verdict}" for verdict in VERDICTS]


def test_a_verdict_has_its_colour():
    marks = [
        attrs["class"]
        for tag, attrs in Reader(page_of()).tags
        if tag == "span" and "mark" in (attrs.get("class") or "")
    ]
    assert marks[len(VERDICTS) :] == ["mark ahead", "mark good", "mark bad", "mark open", "mark quiet"]


def test_a_trivial_baseline_is_marked_and_explained():
    read = Reader(page_of())
    assert "= PCA 0.950" in read.row("Table 1: d = 3")
    assert any("one marked = is as good as ours" in words for words in read.texts)
    warning = "what learns nothing is as good as ours (=)."
    assert any(f"In 1 of 5 {warning}" in words for words in read.texts)
    assert warning not in page_of(claims=[line(CLAIMS[1])])


def test_the_page_has_figures_text_facts_and_commands():
    page = page_of()
    read = Reader(page)
    assert "Recovery over d" in read.texts
    assert "d  MCC\n3  0.91" in read.texts
    assert all([name, value] in read.rows for name, value in FACTS.items())
    assert "noumena study run ddl/table3\nnoumena study compare ddl/table3" in read.texts
    assert len(svgs(page)) == 3


def test_what_a_study_does_not_have_is_left_out_or_said():
    page = page_of(claims=[], figures=[], text="", compared=())
    assert "The paper gives no numbers to compare with." in page
    assert "In its own words" not in page
    assert ">Figures<" not in page
    assert "<svg" not in page
    assert 'class="tally"' not in page


def test_a_page_makes_no_request():
    for page in (page_of(), index_page([study()])):
        read = Reader(page)
        assert not {"img", "iframe", "object"} & {tag for tag, _ in read.tags}
        assert [attrs for tag, attrs in read.tags if tag == "script"] == [{}]  # what saves the tables
        addresses = [attrs[key] for tag, attrs in read.tags for key in ("src", "href") if key in attrs]
        assert all(re.fullmatch(r"#chapter-\d|data:,|ddl-table3\.html", str(address)) for address in addresses)
        assert "url(" not in page
        assert "default-src 'none'" in page
        assert 'content="width=device-width, initial-scale=1"' in page
        assert "prefers-color-scheme: dark" in page


def test_hostile_words_are_escaped_everywhere_on_the_page_of_a_study():
    claims = [line(StudyClaim(HOSTILE, HOSTILE, 0.8, (0.9,), 0.02, baseline=(HOSTILE, 0.9)))]
    claims.append(line(StudyClaim(HOSTILE, "MCC", 0.8, (0.9,), 0.02, not_comparable=HOSTILE)))
    figure = CurveChart(HOSTILE, HOSTILE, HOSTILE, (Curve(HOSTILE, ((HOSTILE, 0.9, None),)),))
    page = page_of(
        name=HOSTILE,
        title=HOSTILE,
        caption=HOSTILE,
        claims=claims,
        figures=[figure],
        text=HOSTILE,
        facts={HOSTILE: HOSTILE},
        compared=[Compared(HOSTILE, HOSTILE, "better", (0.9, 0.0), (0.8, 0.0))],
    )
    tags = [tag for tag, _ in Reader(page).tags]
    assert tags.count("script") == page.count("<script") == 1
    assert page.count("&lt;script&gt;") >= 14
    assert not any(key.startswith("on") for _, attrs in Reader(page).tags for key in attrs)


def test_a_name_is_quoted_for_the_shell():
    assert any("noumena study run 'a; b'" in words for words in Reader(page_of(name="a; b")).texts)


def test_a_claim_without_a_column_or_with_another_verdict_is_refused():
    whole = line(CLAIMS[0])
    with pytest.raises(InputError, match=r"must have the columns .* Got none of \['within'\]"):
        page_of(claims=[{key: value for key, value in whole.items() if key != "within"}])
    with pytest.raises(InputError, match=r"must begin with one of better.* Got 'betterment'"):
        page_of(claims=[whole | {"verdict": "betterment"}])


# ---- ours against published ----------------------------------------------------------------------------------------


def test_only_what_is_comparable_and_run_is_drawn_by_metric():
    found = compared(CLAIMS)
    assert [(one.metric, one.where) for one in found] == [
        ("MCC", "Table 1: d = 3"),
        ("MCC", "Table 1: d = 4"),
        ("R²", "Table 1: d = 4"),
    ]
    assert found[0][2] == "better"
    assert found[0].ours == pytest.approx((0.91, 0.02 / 2**0.5))
    assert found[0].published == (0.8, 0.01)
    assert [figure.title for figure in chapters(found)] == ["MCC of 2 claims, ours against published",
                                                            "R² of 1 claim, ours against published"]  # fmt: skip


@pytest.mark.parametrize("values", [(float("nan"),), (0.5, float("inf")), ()])
def test_numbers_that_are_not_finite_are_not_drawn(values: tuple[float, ...]):
    with np.errstate(invalid="ignore"):
        assert compared([StudyClaim("a", "MCC", 0.8, values, 0.02)]) == []


def test_dots_rings_and_deviations_stand_at_their_values():
    ax = beside(
        "MCC",
        [Compared("MCC", "a", "better", (0.9, 0.1), (0.5, 0.0)), Compared("MCC", "b", "worse", (0.3, 0.0), (0.7, 0.2))],
    )
    at = {kind: [line.get_xdata().tolist() for line in ax.lines if line.get_gid().startswith(f"{kind}: ")] for kind in
          ("value", "published", "interval", "spread", "between")}  # fmt: skip
    assert at == {
        "value": [[0.9], [0.3]], "published": [[0.5], [0.7]], "interval": [[0.8, 1.0]],
        "spread": [pytest.approx([0.5, 0.9])], "between": [[0.5, 0.9], [0.7, 0.3]],
    }  # fmt: skip
    assert [text.get_text() for text in ax.texts] == ["a", "+ better", "b", "✕ worse"]
    assert [line.get_color() for line in ax.lines if line.get_gid().startswith("value")] == [ACCENT, BAD]
    assert ax.get_xlabel() == "MCC"


# ---- the index -----------------------------------------------------------------------------------------------------


def test_the_index_sums_studies_and_papers():
    page = index_page(
        [study(), study(name="ddl/table4", page="ddl-table4.html"), study(paper="Mixtures", name="m", done=9)]
    )
    read = Reader(page)
    assert "3 studies of 2 papers, 18 published figures, 19 of 27 cells done." in read.texts
    head = page[: page.index('class="chapter"')]
    assert re.findall(r"</span> (\d+ [a-z ]+)</span>", head) == ["3 better", "6 reproduced", "9 not comparable"]
    assert [text for text in read.texts if text in ("Dictionaries", "Mixtures")] == ["Dictionaries", "Mixtures"] * 2
    assert "2 better, 4 reproduced, 6 not comparable" in read.texts


def test_a_line_of_the_index_has_link_title_bar_words_and_cells():
    page = index_page([study(done=1234, cells=5678)])
    read = Reader(page)
    assert read.row("ddl/table3") == [
        "ddl/table3",
        "Table 3",
        "+ 1 better ✓ 2 reproduced ≠ 3 not comparable",
        "1,234 of 5,678",
    ]
    assert ("a", {"href": "ddl-table3.html"}) in read.tags
    row = page[page.index("<tbody>") :]
    assert re.findall(r'<span class="(\w+)" style="flex-grow: (\d+)">', row) == [
        ("ahead", "1"),
        ("good", "2"),
        ("open", "3"),
    ]


def test_a_study_without_published_numbers_says_so():
    read = Reader(index_page([study(counts={})]))
    assert read.row("ddl/table3")[2] == "no published numbers"


def test_an_index_of_nothing_is_a_sentence():
    assert "There are no studies yet." in index_page([])


def test_hostile_words_are_escaped_in_the_index():
    page = index_page([study(name=HOSTILE, paper=HOSTILE, title=HOSTILE)])
    assert [tag for tag, _ in Reader(page).tags].count("script") == page.count("<script") == 1
    assert page.count("&lt;script&gt;") >= 3


@pytest.mark.parametrize(
    "page",
    [
        "javascript:alert(1).html",
        "https://a.b/c.html",
        "//a.b/c.html",
        "../up.html",
        "/tmp/a.html",
        "a.html?b",
        "a.html\n",
        "",
        3,
    ],
)
def test_a_page_that_is_no_file_beside_the_index_is_refused(page: object):
    with pytest.raises(InputError, match="must be the name of an HTML file beside the index"):
        index_page([study(page=page)])


def test_a_page_in_a_folder_beside_the_index_is_linked():
    assert 'href="ddl/table3.html"' in index_page([study(page="ddl/table3.html")])


@pytest.mark.parametrize("key", STUDY)
def test_a_study_must_have_every_key(key: str):
    with pytest.raises(InputError, match=f"Every study must have .* Got none of \\['{key}'\\]"):
        index_page([{name: value for name, value in study().items() if name != key}])


def test_counts_are_whole_numbers_of_verdicts():
    with pytest.raises(InputError, match="Counts must be of better"):
        index_page([study(counts={"best": 1})])
    with pytest.raises(InputError, match=r"worse must be a whole number of at least 0\. Got -1"):
        index_page([study(counts={"worse": -1})])
    with pytest.raises(InputError, match="done must be a whole number"):
        index_page([study(done=1.5)])


def test_a_verdict_is_read_with_and_without_its_reason():
    assert [verdict_of(words) for words in ("worse", "not run", "not comparable: a: b")] == [
        "worse",
        "not run",
        "not comparable",
    ]
