"""The page is well formed, self-contained and escaped, and says what it was given."""

from __future__ import annotations

import re
from dataclasses import FrozenInstanceError
from html.parser import HTMLParser
from importlib.resources import files
from pathlib import Path

import numpy as np
import pytest

from noumena.checks import InputError
from noumena.report import Callout, Chapter, Page, PageFigure, PageTable, plots, render, write
from noumena.report.page import printed

HOSTILE = "<script>alert(1)</script>\"&'"
VOID = {"meta", "link", "br", "hr", "img", "input", "rect", "path", "line", "circle"}
KINDS = ("identified", "not identified", "open")


class Outline(HTMLParser):
    """Every element with its attributes and text; an element closed out of turn is an error."""

    def __init__(self, html: str):
        super().__init__()
        self.open: list[int] = []
        self.elements: list[tuple[str, dict, list[str]]] = []
        self.feed(html)
        self.close()
        assert self.open == [], f"never closed: {[self.elements[k][0] for k in self.open]}"

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs), []))
        if tag not in VOID:
            self.open.append(len(self.elements) - 1)

    def handle_startendtag(self, tag, attrs):
        self.elements.append((tag, dict(attrs), []))

    def handle_endtag(self, tag):
        if tag in VOID:
            return
        opened = self.elements[self.open.pop()][0]
        assert opened == tag, f"<{opened}> closed by </{tag}>"

    def handle_data(self, data):
        for k in self.open:
            self.elements[k][2].append(data)

    def all(self, tag: str, **wanted: str) -> list[tuple[dict, str]]:
        return [
            (attributes, "".join(words).strip())
            for name, attributes, words in self.elements
            if name == tag and all(attributes.get(key.rstrip("_")) == value for key, value in wanted.items())
        ]


def full_page(words: str = "words") -> Page:
    drawing = plots.bipartite([[1, 0], [1, 1]], observed=[words, "b"], latent=["c", words + "2"])
    table = PageTable(words, (words, "score"), ((words, 0.5), ("other", 1)), note=words, strong=frozenset({1}))
    chapters = tuple(
        Chapter(words, words, Callout(kind, words, (words,)), (PageFigure(drawing, words),), (table,), words)
        for kind in KINDS
    )
    return Page(words, words, table, chapters, words)


def test_the_page_is_well_formed_and_says_every_part():
    outline = Outline(render(full_page()))
    assert [text for _, text in outline.all("h1")] == ["words"]
    assert len(outline.all("h2")) == 3
    assert len(outline.all("table")) == 4
    assert len(outline.all("figcaption")) == 3
    assert [text for _, text in outline.all("pre")] == ["words"] * 3
    assert outline.all("footer")[0][1] == "words"


def test_an_empty_page_is_well_formed_too():
    outline = Outline(render(Page("Nothing yet", "")))
    assert not outline.all("table")
    assert not outline.all("nav")
    assert not outline.all("footer")


def test_hostile_strings_come_out_as_text_everywhere():
    html = render(full_page(HOSTILE))
    outline = Outline(html)
    assert [str(full_page(HOSTILE).script).strip()] == [text for _, text in outline.all("script")]
    assert html.count("<script") == 1
    for tag in ("h1", "h2", "h3", "figcaption", "caption", "pre"):
        assert {text for _, text in outline.all(tag)} == {HOSTILE}
    assert HOSTILE in {text for _, text in outline.all("th", scope="row")}


def test_a_hostile_caption_cannot_leave_its_attribute():
    outline = Outline(render(full_page('" onfocus="alert(1)')))
    assert all(not name.startswith("on") for _, attributes, _ in outline.elements for name in attributes)


def test_nothing_would_be_fetched():
    html = render(full_page())
    addresses = set(re.findall(r"https?://[^\"'\s)<]+", html))
    assert addresses == {"http://www.w3.org/2000/svg"}
    assert "@import" not in html
    assert "url(" not in html
    for _, attributes, _ in Outline(html).elements:
        assert not {"src", "srcset", "data", "action"} & set(attributes)
        assert attributes.get("href", "#").startswith(("#", "data:"))


def test_the_browser_is_told_to_fetch_nothing_and_to_run_only_what_saves_the_tables():
    page = full_page()
    policy = Outline(render(page)).all("meta", **{"http-equiv": "Content-Security-Policy"})
    assert policy[0][0]["content"].startswith("default-src 'none'")
    assert policy[0][0]["content"].endswith(f"; script-src '{page.script_digest}'")
    bare = Outline(render(Page("t", ""))).all("meta", **{"http-equiv": "Content-Security-Policy"})
    assert "script-src" not in bare[0][0]["content"]


@pytest.mark.parametrize(
    ("kind", "sign"),
    [
        ("identified", "✓"),
        ("not identified", "✕"),
        ("open", "?"),
        ("stable, right or wrong", "≈"),
        ("not stable", "✕"),
    ],
)
def test_a_verdict_shows_its_word_and_a_sign_beside_its_colour(kind: str, sign: str):
    page = Page("t", "", None, (Chapter("c", "", Callout(kind, "headline", ("one", "two"))),))
    outline = Outline(render(page))
    assert outline.all("p", class_="kind")[0][1].split(maxsplit=1) == [sign, kind]
    assert outline.all("h3")[0][1] == "headline"
    assert [text for _, text in outline.all("p")][-2:] == ["one", "two"]


def test_the_three_verdicts_look_different():
    classes = {attributes["class"] for attributes, _ in Outline(render(full_page())).all("div", role="note")}
    assert classes == {"verdict good", "verdict bad", "verdict open"}


def test_an_unknown_verdict_is_refused():
    with pytest.raises(InputError, match="kind must be one of identified"):
        Callout("maybe", "headline")


def test_contents_link_to_the_chapters():
    outline = Outline(render(full_page()))
    targets = {attributes["href"].removeprefix("#") for attributes, _ in outline.all("a")}
    assert targets == {attributes["id"] for attributes, _ in outline.all("section", class_="chapter")}


def test_tables_have_captions_scopes_and_a_scrolling_region_of_their_own():
    outline = Outline(render(full_page()))
    assert len(outline.all("caption")) == len(outline.all("table")) == len(outline.all("div", role="region"))
    assert all(attributes.get("scope") in {"row", "col"} for attributes, _ in outline.all("th"))


def test_every_figure_has_a_role_and_a_title():
    outline = Outline(render(full_page()))
    drawings = [k for k, (tag, _, _) in enumerate(outline.elements) if tag == "svg"]
    assert len(drawings) == 3
    for k in drawings:
        assert outline.elements[k][1]["role"] == "img"
        assert outline.elements[k + 1][0] == "title"


def test_numbers_are_right_aligned_and_words_are_not():
    table = PageTable("t", ("name", "score", "mixed"), (("a", 0.5, 1), ("b", "–", "two")))
    outline = Outline(render(Page("t", "", table)))
    numeric = [text for attributes, text in outline.all("td") if attributes.get("class") == "number"]
    assert numeric == ["0.500", "–"]
    assert [text for _, text in outline.all("th", class_="number")] == ["score"]


def test_strong_rows_are_marked():
    table = PageTable("t", ("name",), (("a",), ("b",), ("c",)), strong=frozenset({1}))
    assert [text for _, text in Outline(render(Page("t", "", table))).all("tr", class_="strong")] == ["b"]


@pytest.mark.parametrize(
    ("cell", "text"),
    [
        (0.9914, "0.991"),
        (np.float32(0.25), "0.250"),
        (np.int64(12345), "12,345"),
        (-3, "−3"),
        (-0.5, "−0.500"),
        (1234.5, "1,234"),
        (0.0, "0.000"),
        (2e-5, "2.00e−5"),
        (3e7, "3.00e7"),
        (float("nan"), "–"),
        (float("-inf"), "−∞"),
        (True, "True"),
        ("0.5 ± 0.1", "0.5 ± 0.1"),
    ],
)
def test_cells_are_printed_to_three_decimals(cell: object, text: str):
    assert printed(cell) == text


def test_a_ragged_table_is_refused():
    with pytest.raises(InputError, match=r"Every row must have 2 cells\. Got 1 in row 1\."):
        PageTable("t", ("a", "b"), (("x", 1), ("y",)))


def test_a_strong_row_that_is_not_there_is_refused():
    with pytest.raises(InputError, match="Strong rows must be below 1"):
        PageTable("t", ("a",), (("x",),), strong=frozenset({1}))


def test_parts_cannot_be_changed():
    with pytest.raises(FrozenInstanceError):
        full_page().title = "other"  # type: ignore[misc]


def test_a_wide_drawing_gets_the_whole_row():
    names = [f"x{i}" for i in range(40)]
    wide = plots.bipartite(np.ones((40, 1)), observed=names, latent=["z"])
    narrow = plots.bipartite(np.ones((2, 1)), observed=names[:2], latent=["z"])
    page = Page("t", "", None, (Chapter("c", "", figures=(PageFigure(wide, "wide"), PageFigure(narrow, "narrow"))),))
    assert [text.endswith("wide") for _, text in Outline(render(page)).all("figure", class_="wide")] == [True]


def test_writing_returns_the_path_and_leaves_no_other_file(tmp_path: Path):
    path = write(full_page(), tmp_path / "deep" / "report.html")
    assert path.read_text(encoding="utf-8") == render(full_page())
    assert list(path.parent.iterdir()) == [path]


def test_a_failed_write_keeps_the_old_report_and_no_temporary_file(tmp_path: Path, monkeypatch):
    path = tmp_path / "report.html"
    path.write_text("old")

    def refuse(self, target):
        raise OSError("disk full")

    monkeypatch.setattr(Path, "replace", refuse)
    with pytest.raises(OSError, match="disk full"):
        write(full_page(), path)
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def themes() -> dict[str, dict[str, str]]:
    style = files("noumena.report").joinpath("templates/style.css").read_text(encoding="utf-8")
    light, dark = re.findall(r":root \{(.*?)\}", style, flags=re.DOTALL)[:2]
    return {
        name: dict(re.findall(r"--([a-z-]+): (#[0-9a-f]{6})", block))
        for name, block in (("light", light), ("dark", dark))
    }


def luminance(color: str) -> float:
    channels = np.array([int(color[k : k + 2], 16) for k in (1, 3, 5)]) / 255
    linear = np.where(channels <= 0.04045, channels / 12.92, ((channels + 0.055) / 1.055) ** 2.4)
    return float(linear @ [0.2126, 0.7152, 0.0722])


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize(
    ("front", "back"),
    [
        ("ink", "ground"),
        ("ink", "heat"),
        ("soft", "paper"),
        ("soft", "ground"),
        ("accent", "ground"),
        ("good", "good-tint"),
        ("bad", "bad-tint"),
        ("open", "open-tint"),
        ("paper", "good"),
        ("paper", "bad"),
        ("paper", "open"),
    ],
)
def test_text_is_readable_in_both_themes(theme: str, front: str, back: str):
    colors = themes()[theme]
    low, high = sorted((luminance(colors[front]), luminance(colors[back])))
    assert (high + 0.05) / (low + 0.05) >= 4.5
