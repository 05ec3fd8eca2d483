"""Pages of studies: what was published beside what we find, one page for each study and one for all of them.

A page takes plain words, so that it can be made from any table of claims: for each published figure a line with the
columns ``COLUMNS``, whose verdict begins with one of ``VERDICTS``. The numbers that are drawn, ours against the
published figures, are handed in beside them; a claim that is not comparable is in the table and not in the drawing.
"""

from __future__ import annotations

import re
import shlex
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from noumena import charts
from noumena.charts import CurveChart
from noumena.checks import count, require
from noumena.report import svg
from noumena.report.page import Chapter, Page, PageFigure, PageTable, render

if TYPE_CHECKING:
    from matplotlib.axes import Axes

COLUMNS = ("published in", "metric", "ours", "published", "difference", "within", "trivial", "verdict")
VERDICTS = {
    "better": ("+", "ahead", charts.PALETTE["accent"]),
    "reproduced": ("✓", "good", charts.PALETTE["good"]),
    "worse": ("✕", "bad", charts.PALETTE["bad"]),
    "not comparable": ("≠", "open", charts.PALETTE["open"]),
    "not run": ("○", "quiet", charts.PALETTE["soft"]),
}
"""A sign that tells the verdicts apart without colour, the name of each in the style sheet, and its colour."""
STUDY = ("name", "paper", "title", "counts", "done", "cells", "page")
"""What a line of the index is made from; ``counts`` is how many claims have each verdict, ``page`` a file's name."""
NOTE = (
    "Ours: mean ± standard deviation (runs). Within: the largest difference that counts as none. Trivial: the best "
    "readout that learns nothing; one marked = is as good as ours, so that the figure says nothing about learning."
)
_FILE = re.compile(r"(?:[A-Za-z0-9_][A-Za-z0-9_.-]*/)*[A-Za-z0-9_][A-Za-z0-9_.-]*\.html")


# ---- pieces --------------------------------------------------------------------------------------------------------


class Part(NamedTuple):
    """The share of a verdict in a tally."""

    verdict: str
    sign: str
    style: str
    count: int


@dataclass(frozen=True)
class Tally:
    """How many claims have each verdict: a bar, and the same in words."""

    counts: Mapping[str, int]

    @property
    def parts(self) -> tuple[Part, ...]:
        """The verdicts that occur, best first."""
        found = ((verdict, self.counts.get(verdict, 0)) for verdict in VERDICTS)
        return tuple(Part(verdict, *VERDICTS[verdict][:2], n) for verdict, n in found if n)

    def __str__(self) -> str:
        return ", ".join(f"{part.count} {part.verdict}" for part in self.parts)


class Mark(NamedTuple):
    """A verdict as it stands in a table, and the reason after it."""

    verdict: str
    sign: str
    style: str
    reason: str


@dataclass(frozen=True)
class ClaimsTable(PageTable):
    """Claims, with their verdicts in colour and words."""

    @property
    def marks(self) -> tuple[Mark, ...]:
        """The verdict of each row."""
        found = []
        for row in self.rows:
            words = str(row[-1])
            verdict = verdict_of(words)
            reason = words.removeprefix(verdict).lstrip(": ")
            found.append(Mark(verdict, *VERDICTS[verdict][:2], reason))
        return tuple(found)


@dataclass(frozen=True)
class StudiesTable(PageTable):
    """Studies, each with a link to its page and a tally of its verdicts."""

    links: tuple[str, ...] = ()
    tallies: tuple[Tally, ...] = ()


@dataclass(frozen=True)
class TalliedPage(Page):
    """A page with a tally at its top."""

    tally: Tally = field(default_factory=lambda: Tally({}))


@dataclass(frozen=True)
class TextChapter(Chapter):
    """A chapter that ends in plain text, set as it is."""

    text: str = ""


def verdict_of(words: str) -> str:
    """The verdict with which some words begin.

    >>> verdict_of("not comparable: other data")
    'not comparable'
    """
    found = next((v for v in VERDICTS if words == v or words.startswith(f"{v}:")), None)
    require(found is not None, f"A verdict must begin with one of {', '.join(VERDICTS)}.", repr(words))
    return str(found)


# ---- the page of a study -------------------------------------------------------------------------------------------


def study_page(
    name: str,
    title: str,
    caption: str,
    claims: list[dict[str, str]],
    figures: list[CurveChart],
    text: str,
    facts: dict[str, str],
    compared: Sequence[Compared] = (),
) -> str:
    """One study as a self-contained HTML page: verdicts, claims, figures, its own comparison and how to run it.

    ``claims`` are words for the table, ``compared`` the numbers of those that are drawn.
    """
    for claim in claims:
        missing = [column for column in COLUMNS if column not in claim]
        require(not missing, f"Every claim must have the columns {', '.join(COLUMNS)}.", f"none of {missing}")
    tally = Tally(Counter(verdict_of(claim["verdict"]) for claim in claims))
    chapters = [_claims_chapter(claims, compared, tally), _figures_chapter(figures)]
    if text:
        lead = "The study's own tables, with what is beside the published figures."
        chapters.append(TextChapter("In its own words", lead, text=text))
    chapters.append(_running_chapter(name, facts))
    return render(TalliedPage(title, caption, chapters=tuple(c for c in chapters if c is not None), tally=tally))


def _claims_chapter(claims: list[dict[str, str]], compared: Sequence[Compared], tally: Tally) -> Chapter:
    if not claims:
        return Chapter("Ours beside the published figures", "The paper gives no numbers to compare with.")
    rows = tuple(tuple(claim[column] for column in COLUMNS) for claim in claims)
    caption = f"{svg.counted(len(rows), 'published figure')}: {tally}"
    by_metric: dict[str, list[Compared]] = {}
    for one in compared:
        by_metric.setdefault(one.metric, []).append(one)
    drawn = tuple(
        PageFigure(
            beside(metric, own),
            f"{metric}. Filled: ours, with the standard deviation of its runs. Hollow: published, with its own as a "
            "shade. What is not comparable is left out.",
            title=f"{metric} of {svg.counted(len(own), 'claim')}, ours against published",
        )
        for metric, own in by_metric.items()
    )
    trivial = sum(claim["trivial"].startswith("= ") for claim in claims)
    warning = f" In {trivial} of {len(claims)} what learns nothing is as good as ours (=)." if trivial else ""
    lead = "Every number that was published, what our runs give in its place, and the verdict on the difference."
    return Chapter(
        title="Ours beside the published figures",
        lead=lead + warning,
        figures=drawn,
        tables=(ClaimsTable(caption, COLUMNS, rows, note=NOTE),),
    )


def _figures_chapter(figures: list[CurveChart]) -> Chapter | None:
    if not figures:
        return None
    lead = "Filled: ours. Hollow and dashed: published. Grey: what learns nothing. Bars and bands: standard deviations."
    return Chapter(
        "Figures",
        lead,
        figures=tuple(PageFigure(figure.plot(), figure.title, figure.title or "Curves") for figure in figures),
    )


def _running_chapter(name: str, facts: dict[str, str]) -> Chapter:
    table = PageTable("Behind these numbers", ("what", "value"), (("study", name), *facts.items()))
    quoted = shlex.quote(name)
    return TextChapter(
        title="How to run it",
        lead="Cells that are finished are kept, and only the others are run.",
        tables=(table,),
        text=f"noumena study run {quoted}\nnoumena study compare {quoted}",
    )


# ---- ours against published ----------------------------------------------------------------------------------------


class Compared(NamedTuple):
    """A claim as numbers: mean and deviation, 0 where there is none, of ours and of the published figure."""

    metric: str
    where: str
    verdict: str
    ours: tuple[float, float]
    published: tuple[float, float]


def beside(metric: str, compared: Sequence[Compared]) -> Axes:
    """One line per claim: ours as a dot with its deviation, the published figure as a ring, the verdict in words.

    >>> one = Compared("MCC", "Table 1", "better", (0.9, 0.01), (0.8, 0.0))
    >>> [text.get_text() for text in beside("MCC", [one]).texts]
    ['Table 1', '+ better']
    """
    rows = []
    for one in compared:
        (ours, sd), (published, spread), (sign, _, color) = one.ours, one.published, VERDICTS[one.verdict]
        row = charts.LevelRow(
            one.where,
            ours,
            interval=(ours - sd, ours + sd) if sd else None,
            published=published,
            published_interval=(published - spread, published + spread) if spread else None,
            note=f"{sign} {one.verdict}",
            color=color,
            sentence=f"{one.where}: ours {ours:.4g}, published {published:.4g}, {one.verdict}",
        )
        rows.append(row)
    return charts.levels(rows, x_label=metric)


# ---- the index -----------------------------------------------------------------------------------------------------


def index_page(studies: list[dict[str, Any]]) -> str:
    """All studies at a glance, by paper: verdicts, cells done links to pages; dicts have the keys ``STUDY``."""
    for study in studies:
        _check(study)
    papers = list(dict.fromkeys(study["paper"] for study in studies))
    tally = _sum(studies)
    claims, done, cells = sum(tally.counts.values()), sum(s["done"] for s in studies), sum(s["cells"] for s in studies)
    lead = (
        f"{_studies(len(studies))} of {svg.counted(len(papers), 'paper')}, "
        f"{svg.counted(claims, 'published figure')}, {done:,} of {cells:,} cells done."
        if studies
        else "There are no studies yet."
    )
    chapters = tuple(_paper(paper, [study for study in studies if study["paper"] == paper]) for paper in papers)
    return render(TalliedPage("Published figures and ours", lead, chapters=chapters, tally=tally))


def _check(study: Mapping[str, Any]) -> None:
    missing = [key for key in STUDY if key not in study]
    require(not missing, f"Every study must have {', '.join(STUDY)}.", f"none of {missing}")
    page = study["page"]
    plain = isinstance(page, str) and _FILE.fullmatch(page) is not None
    require(plain, "A study's page must be the name of an HTML file beside the index.", repr(page))
    strangers = [verdict for verdict in study["counts"] if verdict not in VERDICTS]
    require(not strangers, f"Counts must be of {', '.join(VERDICTS)}.", strangers)
    for name, value in {"done": study["done"], "cells": study["cells"], **study["counts"]}.items():
        count(value, name, minimum=0)


def _sum(studies: Sequence[Mapping[str, Any]]) -> Tally:
    return Tally({verdict: sum(study["counts"].get(verdict, 0) for study in studies) for verdict in VERDICTS})


def _studies(n: int) -> str:
    return "1 study" if n == 1 else f"{n} studies"


def _paper(paper: str, studies: list[dict[str, Any]]) -> Chapter:
    tallies = tuple(Tally(study["counts"]) for study in studies)
    rows = tuple(
        (
            study["name"],
            study["title"],
            str(tally) or "no published numbers",
            f"{study['done']:,} of {study['cells']:,}",
        )
        for study, tally in zip(studies, tallies, strict=True)
    )
    table = StudiesTable(
        caption=_studies(len(studies)),
        header=("study", "title", "verdicts", "cells done"),
        rows=rows,
        links=tuple(study["page"] for study in studies),
        tallies=tallies,
    )
    return Chapter(paper, str(_sum(studies)), tables=(table,))
