"""Queries typed into the page in a real browser have the answers and errors that Python gives."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from headless_browser import CHROMIUM, Browser, chapter_of, shown
from headless_browser import browser as browser
from headless_browser import page as page
from headless_browser import tab as tab

import noumena as nm
from noumena.checks import InputError
from noumena.report import Chapter, Page, write
from noumena.report.explorer import explorer

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="a Chromium browser is not installed")
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


def test_a_query_of_two_readings_is_refused_and_one_of_one_reading_is_read(tab: Browser, tmp_path: Path):
    names = ["a-b", "a", "b", "bc", "b-c", "(a)", "~b", "it's", "-a", "a b", "a - 'b'", "心-a", "心", "𝒛-𝒛", "𝒛𝒛"]
    certificate = nm.certify(nm.Structure(np.eye(len(names)), observed=names))
    asked = ["a-b", " b | a-b", "a-bc", "a-b-c", "(a)", "(a) & ~b", "b -a", "b--a", "a b-a", "a - 'b'", "'a'-'b'"]
    asked += ["心-a", "a-心-a", "𝒛-𝒛", "𝒛-𝒛𝒛", "𝒛𝒛-𝒛-𝒛𝒛", "-".join(["a"] * 300), "it's-a", "it'sa", " ", "a-b\u3000"]
    assert "心' can be meant at character 1." in expected(certificate, "心-a")["error"]
    assert expected(certificate, "a-bc")["latents"] == ["z2"]
    rng = random.Random(0)
    asked += ["".join(rng.choice([*names, *"&|-^~() "]) for _ in range(rng.randint(1, 7))) for _ in range(2000)]
    told = [expected(certificate, text).get("error", "") for text in asked]
    assert sum("one meaning" in error for error in told) > 50
    assert told.count("") > 50
    assert disagreements(tab, tmp_path / "readings.html", [certificate], [asked]) == []


def test_a_query_is_typed_and_sent_with_enter_and_taken_away_with_escape(tab: Browser, page: nm.Certificate):
    tab.run("() => document.querySelector('.explorer input').focus()")
    tab.call("Input.insertText", text="pulse - 'the gait'")
    tab.press("Enter", "\r")
    assert shown(tab, ".answer")["latents"] == "age"
    assert shown(tab, ".answer")["why"] == page.query("pulse - 'the gait'").reason + "."
    tab.press("Escape")
    assert shown(tab, ".answer") == {}
    tab.call("Input.insertText", text="(")
    tab.press("Enter", "\r")
    invalid = "() => document.querySelector('.explorer input').ariaInvalid"
    assert tab.run(invalid) == "true"
    tab.press("Escape")
    assert tab.run(invalid) == "false"


def test_every_example_reads_when_it_is_clicked(tab: Browser, page: nm.Certificate):
    examples = tab.run("() => [...document.querySelectorAll('.example')].map((e) => e.textContent)")
    assert examples == ["pulse & voice", "pulse - voice", "~pulse"]
    for k, text in enumerate(examples):
        tab.run("(k) => document.querySelectorAll('.example')[k].click()", k)
        assert shown(tab, ".answer")["paper"] == page.query(text).paper


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
