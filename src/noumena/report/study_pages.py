"""Pages of studies: what was published beside what we find, one page for each study and one for all of them.

A page takes plain words, so that it can be made from any table of claims: for each published figure a line with the
columns ``COLUMNS``, whose verdict begins with one of ``VERDICTS``. Numbers are read back from those words to draw ours
against the published figures; a claim that is not comparable is in the table and not in the drawing.
"""

from __future__ import annotations

import re
import shlex
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import isfinite
from typing import Any, NamedTuple

import numpy as np

from noumena.checks import count, require
from noumena.report import curves, svg
from noumena.report.curves import curves_svg, fitting
from noumena.report.page import Chapter, Figure, Page, Table, render
from noumena.report.svg import Scale, element, text

COLUMNS = ("published in", "metric", "ours", "published", "difference", "within", "trivial", "verdict")
VERDICTS = {
    "better": ("+", "ahead", svg.ACCENT),
    "reproduced": ("✓", "good", svg.GOOD),
    "worse": ("✕", "bad", svg.BAD),
    "not comparable": ("≠", "open", svg.OPEN),
    "not run": ("○", "quiet", svg.SOFT),
}
"""A sign that tells the verdicts apart without colour, the name of each in the style sheet, and its colour."""
STUDY = ("name", "paper", "title", "counts", "done", "cells", "page")
"""What a line of the index is made from; ``counts`` is how many claims have each verdict, ``page`` a file's name."""
NOTE = (
    "Ours: mean ± standard deviation (runs). Within: the largest difference that counts as none. Trivial: the best "
    "readout that learns nothing; one marked = is as good as ours, so that the figure says nothing about learning."
)
_NUMBER = re.compile(r"([+−-]?[0-9.]+(?:e[+−-]?[0-9]+)?)(?: ± ([0-9.]+(?:e[+−-]?[0-9]+)?))?(?: \([0-9]+\))?")
_FILE = re.compile(r"(?:[A-Za-z0-9_][A-Za-z0-9_.-]*/)*[A-Za-z0-9_][A-Za-z0-9_.-]*\.html")
_WIDE, _TALL = 440.0, 40.0


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
class ClaimsTable(Table):
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
class StudiesTable(Table):
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
    figures: list[curves.Figure],
    text: str,
    facts: dict[str, str],
) -> str:
    """One study as a self-contained HTML page: verdicts, claims, figures, its own comparison and how to run it."""
    for claim in claims:
        missing = [column for column in COLUMNS if column not in claim]
        require(not missing, f"Every claim must have the columns {', '.join(COLUMNS)}.", f"none of {missing}")
    tally = Tally(Counter(verdict_of(claim["verdict"]) for claim in claims))
    chapters = [_claims_chapter(claims, tally), _figures_chapter(figures)]
    if text:
        lead = "The study's own tables, with what is beside the published figures."
        chapters.append(TextChapter("In its own words", lead, text=text))
    chapters.append(_running_chapter(name, facts))
    return render(TalliedPage(title, caption, chapters=tuple(c for c in chapters if c is not None), tally=tally))


def _claims_chapter(claims: list[dict[str, str]], tally: Tally) -> Chapter:
    if not claims:
        return Chapter("Ours beside the published figures", "The paper gives no numbers to compare with.")
    rows = tuple(tuple(claim[column] for column in COLUMNS) for claim in claims)
    caption = f"{svg.counted(len(rows), 'published figure')}: {tally}"
    drawn = tuple(
        Figure(
            beside_svg(metric, compared),
            f"{metric}. Filled: ours, with the standard deviation of its runs. Hollow: published, with its own as a "
            "shade. What is not comparable is left out.",
        )
        for metric, compared in comparable(claims).items()
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


def _figures_chapter(figures: list[curves.Figure]) -> Chapter | None:
    if not figures:
        return None
    lead = "Filled: ours. Hollow and dashed: published. Grey: what learns nothing. Bars and bands: standard deviations."
    return Chapter("Figures", lead, figures=tuple(Figure(curves_svg(figure), figure.title) for figure in figures))


def _running_chapter(name: str, facts: dict[str, str]) -> Chapter:
    table = Table("Behind these numbers", ("what", "value"), (("study", name), *facts.items()))
    quoted = shlex.quote(name)
    return TextChapter(
        title="How to run it",
        lead="Cells that are finished are kept, and only the others are run.",
        tables=(table,),
        text=f"noumena study run {quoted}\nnoumena study compare {quoted}",
    )


# ---- ours against published ----------------------------------------------------------------------------------------


class Compared(NamedTuple):
    """A claim as numbers: mean and deviation of ours and of the published figure."""

    where: str
    verdict: str
    ours: tuple[float, float]
    published: tuple[float, float]


def comparable(claims: Sequence[Mapping[str, str]]) -> dict[str, list[Compared]]:
    """By metric, the claims that can be drawn: comparable, run, and published as a number."""
    found: dict[str, list[Compared]] = {}
    for claim in claims:
        verdict = verdict_of(claim["verdict"])
        ours, published = number_of(claim["ours"]), number_of(claim["published"])
        if verdict not in ("not comparable", "not run") and ours is not None and published is not None:
            found.setdefault(claim["metric"], []).append(Compared(claim["published in"], verdict, ours, published))
    return found


def number_of(words: str) -> tuple[float, float] | None:
    """Mean and deviation, 0 where there is none; nothing where the words are no finite number.

    >>> number_of("0.840 ± 0.014 (2)"), number_of("-1.500"), number_of("–")
    ((0.84, 0.014), (-1.5, 0.0), None)
    """
    found = _NUMBER.fullmatch(words)
    if found is None:
        return None
    try:
        mean, deviation = (float((part or "0").replace("−", "-")) for part in found.groups())
    except ValueError:
        return None
    return (mean, deviation) if isfinite(mean) and isfinite(deviation) else None


def beside_svg(metric: str, compared: Sequence[Compared]) -> str:
    """One line per claim: ours as a dot with its deviation, the published figure as a ring, the verdict in words.

    >>> one = Compared("Table 1", "better", (0.9, 0.01), (0.8, 0.0))
    >>> beside_svg("MCC", [one]).count('class="published"')
    1
    """
    ends = [mean + side * sd for one in compared for mean, sd in (one.ours, one.published) for side in (-1, 1)]
    x = svg.around(np.array(ends), 20, _WIDE - 20)
    bottom = 8 + _TALL * len(compared)
    drawn = []
    for tick in x.ticks():
        drawn.append(element("line", x1=x(tick), x2=x(tick), y1=8, y2=bottom, stroke=svg.LINE))
        drawn.append(text(x(tick), bottom + 16, svg.tick_label(tick), text_anchor="middle"))
    drawn += [_beside(x, 8 + _TALL * k, one) for k, one in enumerate(compared)]
    drawn.append(text(_WIDE / 2, bottom + 34, fitting(metric, _WIDE - 20), text_anchor="middle"))
    title = f"{metric} of {svg.counted(len(compared), 'claim')}, ours against published"
    return svg.document(_WIDE, bottom + 44, title, "".join(drawn))


def _beside(x: Scale, top: float, one: Compared) -> str:
    y, (sign, _, color) = top + 27, VERDICTS[one.verdict]
    (ours, sd), (published, spread) = one.ours, one.published
    told = svg.hint(f"{one.where}: ours {ours:.4g}, published {published:.4g}, {one.verdict}")
    verdict = f"{sign} {one.verdict}"
    label = fitting(one.where, _WIDE - 36 - svg.extent(verdict, 12))
    heading = [
        text(12, top + 13, label, fill=svg.INK),
        text(_WIDE - 12, top + 13, verdict, fill=color, text_anchor="end", font_weight="600"),
    ]
    level = {"y1": y, "y2": y}
    lines = [element("line", class_="between", x1=x(published), x2=x(ours), **level, stroke=svg.SOFT, stroke_width=1.2)]
    if spread:
        ends = {"x1": x(published - spread), "x2": x(published + spread), **level}
        lines.append(element("line", class_="spread", **ends, stroke=svg.SOFT, stroke_width=6, stroke_opacity=0.25))
    if sd:
        ends = {"x1": x(ours - sd), "x2": x(ours + sd), **level}
        lines.append(element("line", class_="deviation", **ends, stroke=color, stroke_width=3, stroke_opacity=0.5))
    ring = {"cx": x(published), "cy": y, "r": 5.5, "fill": svg.PAPER, "stroke": svg.INK, "stroke_width": 1.6}
    dot = {"cx": x(ours), "cy": y, "r": 4.2, "fill": color}
    marks = element("circle", told, class_="published", **ring) + element("circle", told, class_="ours", **dot)
    return "".join(heading + lines) + marks


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
