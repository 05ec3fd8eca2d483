"""The page in a real browser shows what is pointed at, saves its tables and asks nothing of the network."""

from __future__ import annotations

import csv
import io
import time
from pathlib import Path

import numpy as np
import pytest
from headless_browser import CHROMIUM, PATIENCE, SHEARED, Browser, shown
from headless_browser import browser as browser
from headless_browser import page as page
from headless_browser import tab as tab

import noumena as nm
from noumena.report import Chapter, Page, PageTable, png, write
from noumena.report.explorer import explorer
from noumena.report.page import Slider, Sliders

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="a Chromium browser is not installed")


# ---- pointing ------------------------------------------------------------------------------------------------------


def middle(tab: Browser, name: str) -> dict[str, float]:
    script = """(name) => {
      const e = [...document.querySelectorAll(".option")].find((o) => o.textContent.includes(name));
      e.scrollIntoView({ block: "center", behavior: "instant" });
      const box = e.getBoundingClientRect(); return { x: box.x + box.width / 2, y: box.y + box.height / 2 }; }"""
    return tab.run(script, name)


def marked(tab: Browser, style: str) -> list[str]:
    return tab.run("(s) => [...document.querySelectorAll(`.option${s} .words`)].map((e) => e.textContent)", style)


def test_pointing_at_a_latent_shows_its_observations_closure_and_guarantee(tab: Browser, page: nm.Certificate):
    tab.call("Input.dispatchMouseEvent", type="mouseMoved", **middle(tab, "age"))
    told, verdict = shown(tab), page.verdict("age")
    assert told["subject"] == "age"
    assert told["observations"] == "pulse, sleep"
    assert told["closure"] == "age, mood"
    assert told["ruling"].split(maxsplit=1)[1] == f"{verdict.answer} {verdict.reason}."
    assert told["ambiguity"] == page.known_up_to("age")
    assert told["entangled"] == ", ".join(page.query("age").entangled_with.names)
    assert marked(tab, ".near") == ["pulse", "sleep"]
    assert marked(tab, ".rival") == list(page.query("age").entangled_with.names)
    tab.call("Input.dispatchMouseEvent", type="mouseMoved", x=1, y=1)
    assert shown(tab) == {}


def test_pointing_at_an_observation_shows_its_latents(tab: Browser, page: nm.Certificate):
    tab.call("Input.dispatchMouseEvent", type="mouseMoved", **middle(tab, "the gait"))
    assert shown(tab) == {"subject": "the gait", "latents": "mood, fitness"}
    assert marked(tab, ".near") == ["mood", "fitness"]


def test_a_tap_keeps_what_it_shows(tab: Browser, page: nm.Certificate):
    tab.size(390, 844, touch=True)
    at = middle(tab, "mood")
    tab.call("Input.dispatchTouchEvent", type="touchStart", touchPoints=[at])
    tab.call("Input.dispatchTouchEvent", type="touchEnd", touchPoints=[])
    tab.run("() => new Promise((done) => setTimeout(done, 400))")
    assert shown(tab)["subject"] == "mood"


def test_the_lists_are_walked_with_tab_arrows_and_escape(tab: Browser, page: nm.Certificate):
    tab.run("() => [...document.querySelectorAll('.example')].pop().focus()")
    tab.press("Tab")
    assert shown(tab)["subject"] == "age"
    walked = []
    for key in ("ArrowRight", "ArrowDown", "ArrowDown", "Home", "End", "ArrowLeft"):
        tab.press(key)
        walked.append(shown(tab)["subject"])
    assert walked == ["mood", "fitness", "fitness", "age", "fitness", "mood"]
    assert marked(tab, '[aria-selected="true"]') == ["mood"]
    tab.press("Escape")
    assert shown(tab) == {}
    tab.press("Tab")
    assert shown(tab)["subject"] == "pulse"
    tab.call("Input.dispatchKeyEvent", type="keyDown", key="Tab", code="Tab", modifiers=8)
    assert shown(tab)["subject"] == "mood"  # the list remembers where one was


def test_every_control_has_a_name_that_is_read_aloud(tab: Browser, page: nm.Certificate):
    nodes = tab.call("Accessibility.getFullAXTree")["nodes"]
    wanted = {"button", "textbox", "listbox", "option"}
    found = [(n["role"]["value"], n["name"]["value"]) for n in nodes if n.get("role", {}).get("value") in wanted]
    assert [pair for pair in found if not pair[1]] == []
    assert {role for role, _ in found} == wanted
    assert ("option", "age, not identified") in found
    assert ("textbox", "Ask about a set of latents") in found


# ---- tables --------------------------------------------------------------------------------------------------------


def _whole(path: Path) -> bool:
    """Whether a file is there to its last line: the browser makes it empty first."""
    return path.is_file() and path.read_bytes().endswith(b"\r\n") and not list(path.parent.glob("*.crdownload"))


def saved(tab: Browser, folder: Path) -> dict[str, list[list[str]]]:
    """Every table of the page as it was downloaded."""
    tab.call("Page.setDownloadBehavior", behavior="allow", downloadPath=str(folder))
    names = tab.run("() => [...document.querySelectorAll('button.save')].map((e) => e.dataset.name)")
    files: dict[str, list[list[str]]] = {}
    for k, name in enumerate(names):
        tab.run("(k) => document.querySelectorAll('button.save')[k].click()", k)
        until = time.monotonic() + PATIENCE
        while not _whole(folder / name):
            assert time.monotonic() < until, f"{name} was not saved"
            time.sleep(0.05)
        files[name] = list(csv.reader(io.StringIO((folder / name).read_text(encoding="utf-8"), newline="")))
    return files


def test_every_table_is_saved_with_every_digit(tab: Browser, tmp_path: Path):
    awkward = ('a,"b"', "<b>&amp;</b>", "two\nlines", "=1+1", "-x", "-0.5", "größe 心", " spaced")
    rows = (*((word, 0.1 + k, 10**k) for k, word in enumerate(awkward)), ("none", "–", 0), ("least", -np.inf, 0))
    page = Page("t", "", PageTable("All sorts!", ("word, or", "value", "count"), rows), (Chapter("c", ""),))
    tab.open(write(page, tmp_path / "tables.html"))
    files = saved(tab, tmp_path / "saved")
    assert list(files) == ["all-sorts.csv"]
    words = ['a,"b"', "<b>&amp;</b>", "two\nlines", "'=1+1", "'-x", "-0.5", "größe 心", " spaced"]
    cells = [[word, repr(0.1 + k), str(10**k)] for k, word in enumerate(words)]
    cells += [["none", "", "0"], ["least", "-inf", "0"]]
    assert files["all-sorts.csv"] == [["word, or", "value", "count"], *cells]
    assert tab.complaints() == []
    assert tab.requests() == [(tmp_path / "tables.html").as_uri()]


def test_a_certificates_tables_are_all_saved(tab: Browser, page: nm.Certificate, tmp_path: Path):
    files = saved(tab, tmp_path / "saved")
    assert files["hypotheses-and-evidence.csv"][1:] == [[h.name, h.answer, h.evidence] for h in page.hypotheses]
    assert files["queries.csv"][1][:2] == ["pulse - voice", "age"]
    assert [row[0] for row in files["what-is-pinned-down.csv"]] == ["latent", "age", "mood", "fitness"]
    assert len(files) == tab.run("() => document.querySelectorAll('table').length") == 5


# ---- safety --------------------------------------------------------------------------------------------------------


def test_a_request_would_be_seen_and_is_refused_by_the_policy(tab: Browser, page: nm.Certificate):
    assert tab.complaints() == []
    refused = tab.run("() => fetch('http://127.0.0.1:9/').then(() => 'sent', () => 'refused')")
    assert refused == "refused"
    assert any("Content Security Policy" in words for words in tab.complaints())
    tab.run("() => { document.body.append(Object.assign(document.createElement('script'), { text: 'broken = 1' })); }")
    assert tab.run("() => window.broken ?? null") is None


def test_sliders_tables_and_an_explorer_share_one_page(tab: Browser, tmp_path: Path):
    strip = png.data_uri(np.linspace(0, 255, 48).reshape(4, 12).astype(np.uint8))
    sliders = Sliders((Slider("age", strip, ("-1", "0", "1"), (4, 4)),), "Traversals")
    table = PageTable("t", ("a",), (("b",),))
    chapter = Chapter("c", "", figures=(sliders,), tables=(table,), explorer=explorer(nm.certify(SHEARED)))
    tab.open(write(Page("p", "", chapters=(chapter,)), tmp_path / "all.html"))
    script = """() => { const input = document.querySelector(".slider input"); input.value = 2;
      input.dispatchEvent(new Event("input")); return document.querySelector(".slider output").value; }"""
    assert tab.run(script) == "= 1"
    assert (
        tab.run("() => [...document.querySelectorAll('button.save, .ask, .parts')].filter((e) => e.hidden).length") == 0
    )
    assert tab.complaints() == []


# ---- looks ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("width", "dark"), [(1280, False), (390, False), (390, True), (320, False)])
def test_the_page_fits_its_window(tab: Browser, page: nm.Certificate, width: int, dark: bool):
    tab.size(width, 844, dark=dark)
    tab.run("() => document.querySelectorAll('.option')[0].click()")
    assert tab.run("() => document.documentElement.scrollWidth") <= width
    paper = tab.run("() => getComputedStyle(document.querySelector('.explorer')).backgroundColor")
    assert paper == ("rgb(25, 29, 35)" if dark else "rgb(255, 255, 255)")
    tall = (
        "() => [...document.querySelectorAll('.option, .explorer button')].map((e) => e.getBoundingClientRect().height)"
    )
    lines = "() => [...document.querySelectorAll('.explorer dd')].map((e) => getComputedStyle(e).backgroundColor)"
    assert set(tab.run(lines)) == {"rgba(0, 0, 0, 0)"}  # no style of another part of the page
    assert min(tab.run(tall)) >= (36 if width < 500 else 24)
