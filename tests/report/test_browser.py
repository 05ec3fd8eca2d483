"""The page in a real browser answers as Python does, leaves the console empty and asks nothing of the network."""

from __future__ import annotations

import contextlib
import csv
import fcntl
import io
import json
import os
import random
import select
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import noumena as nm
from noumena.checks import InputError
from noumena.report import Chapter, Page, Table, png, write
from noumena.report.certificates import (
    atoms_figure,
    certificate_tables,
    graph_figure,
    order_figure,
    queries_table,
    structure_figure,
    verdict_of,
)
from noumena.report.explorer import explorer
from noumena.report.page import Slider, Sliders

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="a Chromium browser is not installed")
FLAGS = [
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--remote-debugging-pipe",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-extensions",
    "--hide-scrollbars",
    "--proxy-server=http://127.0.0.1:9",
    "--proxy-bypass-list=<-loopback>",
]
PATIENCE = 60.0
NAMES = [
    "x1",
    "x2",
    "x3",
    "x4",
    "x5",
    "x6",
    "x7",
    "x8",
    "pulse",
    "voice",
    "größe",
    "心",
    "𝒛",
    "🙂",
    "a-b",
    "a",
    "b&c",
    "(d)",
    "~e",
    "'",
    '"',
    "it's",
    '"so"',
    "f^g",
    "h|i",
    "-",
    "--",
    "&",
    "()",
    "</script>",
    "<!--",
    "&amp;",
    "\\",
    "tab\there",
    "line\u2028end",
    "\u200bzero",
]
ODD = [
    *NAMES,
    "two words",
    " led",
    "a b c",
    "",
    " ",
    "x1 & x2",
    "new\nline",
    "\x1cfile",
    "\ufeffmark",
    "\x85",
    "q" * 40,
]


class Browser:
    """One tab of a headless browser, driven by the DevTools protocol through a pair of pipes."""

    def __init__(self, profile: Path):
        read, to_browser = os.pipe()
        from_browser, written = os.pipe()
        high = [fcntl.fcntl(fd, fcntl.F_DUPFD, 20) for fd in (read, written)]

        def hand_over() -> None:
            os.dup2(high[0], 3)
            os.dup2(high[1], 4)

        command = [str(CHROMIUM), *FLAGS, f"--user-data-dir={profile}", "about:blank"]
        quiet = subprocess.DEVNULL
        self.process = subprocess.Popen(command, preexec_fn=hand_over, pass_fds=(3, 4), stdout=quiet, stderr=quiet)
        for fd in (read, written, *high):
            os.close(fd)
        self.to_browser, self.from_browser = to_browser, from_browser
        self.pending, self.number, self.session = b"", 0, ""
        self.events: list[dict[str, Any]] = []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        self.number += 1
        message = {"id": self.number, "method": method, "params": parameters}
        message |= {"sessionId": self.session} if self.session else {}
        data = json.dumps(message).encode() + b"\0"
        while data:
            data = data[os.write(self.to_browser, data) :]
        while (reply := self.read()).get("id") != self.number:
            self.events.append(reply)
        assert "error" not in reply, reply["error"]
        return reply["result"]

    def read(self) -> dict[str, Any]:
        until = time.monotonic() + PATIENCE
        while b"\0" not in self.pending:
            ready, _, _ = select.select([self.from_browser], [], [], max(0.0, until - time.monotonic()))
            assert ready, "the browser did not answer in time"
            more = os.read(self.from_browser, 2**16)
            assert more, "the browser closed its pipe"
            self.pending += more
        message, self.pending = self.pending.split(b"\0", 1)
        return json.loads(message)

    def wait(self, method: str) -> dict[str, Any]:
        """The next event of a kind, of those that came since the last ``open``."""
        while True:
            found = next((event for event in self.events if event["method"] == method), None)
            if found is not None:
                return found["params"]
            self.events.append(self.read())

    def open(self, path: Path) -> None:
        self.events.clear()
        self.call("Page.navigate", url=path.as_uri())
        self.wait("Page.loadEventFired")

    def run(self, script: str, *values: Any) -> Any:
        """What a function of the test returns, run in the page with some values."""
        call = f"({script})(...{json.dumps(values)})"
        reply = self.call("Runtime.evaluate", expression=call, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in reply, reply["exceptionDetails"]
        return reply["result"].get("value")

    def press(self, key: str, text: str = "") -> None:
        for kind in ("keyDown", "keyUp"):
            self.call("Input.dispatchKeyEvent", type=kind, key=key, code=key, text=text if kind == "keyDown" else "")

    def size(self, width: int, height: int, *, dark: bool = False, touch: bool = False) -> None:
        shape = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": touch}
        self.call("Emulation.setDeviceMetricsOverride", **shape)
        self.call("Emulation.setTouchEmulationEnabled", enabled=touch)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[scheme])

    def complaints(self) -> list[str]:
        """Whatever the console has been told since the page was opened."""
        self.run("() => new Promise((done) => setTimeout(done, 50))")
        kinds = ("Runtime.consoleAPICalled", "Runtime.exceptionThrown", "Log.entryAdded")
        return [json.dumps(event["params"]) for event in self.events if event["method"] in kinds]

    def requests(self) -> list[str]:
        """Addresses asked for since the page was opened, but for what is inside the page."""
        sent = [e["params"]["request"]["url"] for e in self.events if e["method"] == "Network.requestWillBeSent"]
        return [address for address in sent if not address.startswith(("data:", "blob:"))]

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self.session = ""
            os.write(self.to_browser, b'{"id":0,"method":"Browser.close"}\0')
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        os.close(self.to_browser)
        os.close(self.from_browser)


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    found = Browser(tmp_path_factory.mktemp("profile"))
    yield found
    found.close()


@pytest.fixture
def tab(browser: Browser) -> Browser:
    browser.size(1200, 900)
    return browser


# ---- pages and queries ---------------------------------------------------------------------------------------------


def random_certificate(rng: random.Random) -> nm.Certificate:
    """A small structure with names of every kind, its latents dependent or not."""
    rows, columns = rng.randint(1, 9), rng.randint(1, 6)
    support = np.array([[rng.random() < 0.4 for _ in range(columns)] for _ in range(rows)])
    for column in np.flatnonzero(~support.any(axis=0)):
        support[rng.randrange(rows), column] = True
    names = [f"x{i + 1}" for i in range(rows)] if rng.random() < 0.4 else rng.sample(ODD, rows)
    latent = None if rng.random() < 0.5 else rng.sample(["z1", "z 2", "(z)", "心", "x1", "z-6", "a b"], columns)
    structure = nm.Structure(support, observed=names, latent=latent)
    return nm.certify(structure, independent=rng.random() < 0.5)


def random_query(rng: random.Random, S: nm.Structure, depth: int = 3) -> str:
    """A query that mostly reads, with some signs, quotes and names out of place."""
    kind = rng.random()
    if depth == 0 or kind < 0.3:
        name = rng.choice([*S.observed, *S.latent])
        return rng.choice([name, name, f'"{name}"', f"'{name}'", f" {name} "])
    if kind < 0.4:
        return "~" + random_query(rng, S, depth - 1)
    if kind < 0.55:
        return f"({random_query(rng, S, depth - 1)})"
    if kind < 0.93:
        sign = rng.choice(["&", "|", "-", "^", " & ", " - ", " | "])
        return random_query(rng, S, depth - 1) + sign + random_query(rng, S, depth - 1)
    torn = [rng.choice(["(", ")", "&", "~~", "'", '"', "who?", "\t", "\u3000", "𝒛𝒛", "\u0378", ""]) for _ in range(2)]
    return torn[0] + random_query(rng, S, depth - 1) + torn[1]


def expected(certificate: nm.Certificate, text: str) -> dict[str, Any]:
    try:
        found = certificate.query(text)
    except InputError as error:
        return {"error": str(error)}
    told = found.to_dict()
    return {
        "latents": told["latents"],
        "ruling": [told["answer"]],
        "entangled": told["entangled_with"],
        "why": told["reason"] + ".",
        "paper": told["paper"],
    }


ASK = """(asked) => {
  const explorers = [...document.querySelectorAll(".explorer")];
  return asked.map((texts, k) => texts.map((text) => {
    const [input, box] = [explorers[k].querySelector("input"), explorers[k].querySelector(".answer")];
    box.replaceChildren();
    Object.defineProperty(input, "value", { configurable: true, get: () => text });
    explorers[k].querySelector("button.go").click();
    const error = box.querySelector(".error");
    if (error) return { error: error.textContent };
    const names = (part, of) => [...box.querySelectorAll(`${part} ${of}`)].map((e) => e.textContent);
    const words = (part) => box.querySelector(part).textContent;
    return {
      latents: names(".latents", ".name"), ruling: names(".ruling", ".kind"), entangled: names(".entangled", ".name"),
      why: words(".why"), paper: words(".paper"),
    };
  }));
}"""


def disagreements(tab: Browser, path: Path, certificates: list[nm.Certificate], asked: list[list[str]]) -> list[Any]:
    chapters = tuple(Chapter(f"{k}", "", explorer=explorer(c)) for k, c in enumerate(certificates))
    tab.open(write(Page("Queries", "", chapters=chapters), path))
    answers = tab.run(ASK, asked)
    pairs = [
        (text, got, expected(certificate, text))
        for certificate, texts, found in zip(certificates, asked, answers, strict=True)
        for text, got in zip(texts, found, strict=True)
    ]
    return [pair for pair in pairs if pair[1] != pair[2]]


def compare(tab: Browser, path: Path, *, structures: int, queries: int, seed: int) -> None:
    rng = random.Random(seed)
    certificates = [random_certificate(rng) for _ in range(structures)]
    asked = [[random_query(rng, c.structure) for _ in range(queries)] for c in certificates]
    kinds = {
        expected(c, t).get("ruling", ["error"])[0] for c, texts in zip(certificates, asked, strict=True) for t in texts
    }
    assert kinds == {"block-identified", "not identified", "open", "empty", "error"}
    assert disagreements(tab, path, certificates, asked) == []
    assert tab.complaints() == []
    assert tab.requests() == [path.as_uri()]


SHEARED = nm.Structure(
    [[1, 1, 0], [0, 1, 0], [0, 1, 1], [1, 1, 0]],
    observed=["pulse", "voice", "the gait", "sleep"],
    latent=["age", "mood", "fitness"],
)


def chapter_of(certificate: nm.Certificate, *asked: str) -> Chapter:
    """The chapter of a certificate but for the picture of a competitor, which takes its time."""
    drawn = (structure_figure, graph_figure, order_figure, atoms_figure)
    return Chapter(
        "Certificate",
        "",
        verdict_of(certificate),
        figures=tuple(draw(certificate) for draw in drawn),
        tables=(queries_table({text: certificate.query(text) for text in asked}), *certificate_tables(certificate)),
        details=str(certificate),
        explorer=explorer(certificate),
    )


def shown(tab: Browser, part: str = ".told") -> dict[str, str]:
    """The lines of a panel, by their names."""
    script = """(part) => Object.fromEntries([...document.querySelectorAll(`.explorer ${part} dd`)].map(
      (e) => [e.className, [...e.querySelectorAll(".name")].map((n) => n.textContent).join(", ") || e.textContent]))"""
    return tab.run(script, part)


@pytest.fixture
def page(tab: Browser, tmp_path: Path) -> nm.Certificate:
    certificate = nm.certify(SHEARED)
    chapters = (chapter_of(certificate, "pulse - voice"),)
    tab.open(write(Page("What can be trusted", "", chapters=chapters), tmp_path / "report.html"))
    return certificate


# ---- queries -------------------------------------------------------------------------------------------------------


def test_queries_have_the_answers_and_errors_that_python_gives(tab: Browser, tmp_path: Path):
    compare(tab, tmp_path / "queries.html", structures=24, queries=20, seed=0)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1, 5))
def test_many_more_queries_have_the_answers_that_python_gives(tab: Browser, tmp_path: Path, seed: int):
    compare(tab, tmp_path / "queries.html", structures=100, queries=100, seed=seed)


def test_a_query_with_too_many_parentheses_has_pythons_sentence(tab: Browser, tmp_path: Path):
    deep = ["(" * n + "x1" + ")" * n for n in (30, 101)] + ["~" * 101 + "x1", "- ".join(["x1"] * 300)]
    certificate = nm.certify(nm.Structure([[1, 0], [1, 1]]))
    assert "error" in expected(certificate, deep[1])
    assert disagreements(tab, tmp_path / "deep.html", [certificate], [deep]) == []


def test_of_two_names_the_longer_is_read(tab: Browser, tmp_path: Path):
    certificate = nm.certify(nm.Structure([[1, 0, 0], [0, 1, 0], [0, 0, 1]], observed=["a b", "a b c", "-x"]))
    assert expected(certificate, "a b c")["latents"] == ["z2"]
    asked = ["a b c", "a b", "a b c | a b", "a b--x", "'a b' c"]
    assert disagreements(tab, tmp_path / "names.html", [certificate], [asked]) == []


def test_a_query_is_typed_and_sent_with_enter_and_taken_away_with_escape(tab: Browser, page: nm.Certificate):
    tab.run("() => document.querySelector('.explorer input').focus()")
    tab.call("Input.insertText", text="pulse - 'the gait'")
    tab.press("Enter", "\r")
    assert shown(tab, ".answer")["latents"] == "age"
    assert shown(tab, ".answer")["why"] == page.query("pulse - 'the gait'").reason + "."
    tab.press("Escape")
    assert shown(tab, ".answer") == {}


def test_every_example_reads_when_it_is_clicked(tab: Browser, page: nm.Certificate):
    examples = tab.run("() => [...document.querySelectorAll('.example')].map((e) => e.textContent)")
    assert examples == ["pulse & voice", "pulse - voice", "~pulse"]
    for k, text in enumerate(examples):
        tab.run("(k) => document.querySelectorAll('.example')[k].click()", k)
        assert shown(tab, ".answer")["paper"] == page.query(text).paper


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


def saved(tab: Browser, folder: Path) -> dict[str, list[list[str]]]:
    """Every table of the page as it was downloaded."""
    tab.call("Page.setDownloadBehavior", behavior="allow", downloadPath=str(folder))
    names = tab.run("() => [...document.querySelectorAll('button.save')].map((e) => e.dataset.name)")
    files: dict[str, list[list[str]]] = {}
    for k, name in enumerate(names):
        tab.run("(k) => document.querySelectorAll('button.save')[k].click()", k)
        until = time.monotonic() + PATIENCE
        while not (folder / name).exists():
            assert time.monotonic() < until, f"{name} was not saved"
            time.sleep(0.05)
        files[name] = list(csv.reader(io.StringIO((folder / name).read_text(encoding="utf-8"), newline="")))
    return files


def test_every_table_is_saved_with_every_digit(tab: Browser, tmp_path: Path):
    awkward = ('a,"b"', "<b>&amp;</b>", "two\nlines", "=1+1", "-x", "-0.5", "größe 心", " spaced")
    rows = tuple((word, 0.1 + k, 10**k) for k, word in enumerate(awkward))
    page = Page("t", "", Table("All sorts!", ("word, or", "value", "count"), rows), (Chapter("c", ""),))
    tab.open(write(page, tmp_path / "tables.html"))
    files = saved(tab, tmp_path / "saved")
    assert list(files) == ["all-sorts.csv"]
    words = ['a,"b"', "<b>&amp;</b>", "two\nlines", "'=1+1", "'-x", "-0.5", "größe 心", "spaced"]
    cells = [[word, repr(0.1 + k), str(10**k)] for k, word in enumerate(words)]
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


def test_hostile_names_stay_words(tab: Browser, tmp_path: Path):
    names = [
        "</script><script>window.broken = 1</script>",
        "<img src=x onerror='window.broken = 2'>",
        '" onfocus="window.broken = 3" autofocus x="',
        "<!--<script>",
        "\u2028\u202e${window.broken = 4}`\\u003c",
        "]]>&lt;/script&gt;",
        "http://127.0.0.1:9/x.png",
        "w" * 10_000,
    ]
    structure = nm.Structure(np.tril(np.ones((8, 8))), observed=names, latent=[f"z{name}" for name in names])
    certificate = nm.certify(structure)
    path = write(Page(names[0], names[1], chapters=(chapter_of(certificate),)), tmp_path / "hostile.html")
    tab.open(path)
    options = "() => [...document.querySelectorAll('.list.observation .words')].map((e) => e.textContent)"
    assert tab.run(options) == names
    texts = [f"'{name}'" for name in names if "'" not in name] + [f"{names[1]} & z{names[0]}", "<script>"]
    assert tab.run(ASK, [texts]) == [[expected(certificate, text) for text in texts]]
    for name in range(8):
        tab.run("(k) => document.querySelectorAll('.option')[k].click()", name)
    assert tab.run("() => window.broken ?? null") is None
    kinds = tab.run("() => [...document.scripts].map((e) => e.type)")
    assert kinds == ["application/json", ""]
    assert tab.run("() => document.querySelectorAll('main img, [onerror], [onfocus]').length") == 0
    assert tab.complaints() == []
    assert tab.requests() == [path.as_uri()]


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
    table = Table("t", ("a",), (("b",),))
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
