"""Names in files of others are words on every page: none is markup, none is run, none fetches anything."""

import base64
import hashlib
import json
import re
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from command_runs import here as here

import noumena as nm
from noumena.report.study_pages import index_page, study_page
from noumena.studies.claims import StudyClaim, line

HOSTILE = (
    "<img src=x onerror=alert(1)>",
    "'\"><script>alert(2)<\\script>",
    "--><svg onload=alert(3)>",
    "{{ 7*7 }}{% raw %}",
    "]]>&lt;b&gt;&#60;i>",
    "javascript:alert(4)",
)
"""No slash, so that they can be names of files too."""


class Elements(HTMLParser):
    """The tags of a page, the text outside scripts, and what is inside them."""

    def __init__(self, page: str):
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text, self.scripts, self.inside = "", [], False
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        self.inside = tag == "script"
        if self.inside:
            self.scripts.append([dict(attrs).get("type"), ""])

    def handle_endtag(self, tag: str) -> None:
        self.inside = False

    def handle_data(self, data: str) -> None:
        if self.inside:
            self.scripts[-1][1] += data
        else:
            self.text += data


def harmful(page: str) -> list[str]:
    """What a page would run or fetch besides the script that its policy names."""
    read = Elements(page)
    policy = "".join(attrs.get("content") or "" for tag, attrs in read.tags if tag == "meta")
    found = [f"{tag} {name}" for tag, attrs in read.tags for name in attrs if name.startswith("on")]
    for tag, attrs in read.tags:
        for name in ("src", "href", "action", "xlink:href", "data", "formaction"):
            value = (attrs.get(name) or "").strip().lower()
            inner = (
                value == "data:,"
                or value.startswith(("#", "data:image/", "data:text/csv"))
                or re.fullmatch(r"(?!//)[\w./-]*", value)
            )
            found += [] if inner else [f"{tag} {name}={value[:40]}"]
    found += [tag for tag, _ in read.tags if tag in ("iframe", "object", "embed", "base", "form")]
    for kind, content in read.scripts:
        digest = base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()
        if kind != "application/json" and f"'sha256-{digest}'" not in policy:
            found.append(f"script {content[:40]}")
        if kind == "application/json":
            json.loads(content)
    return found + ([] if "default-src 'none'" in policy else ["no policy"])


@pytest.mark.parametrize(
    "planted",
    ["<img src=x onerror=alert(1)>", "<script>alert(1)</script>", "<a href='javascript:alert(1)'>", "<svg onload=a()>",
     "<img src=https://example.org/a.png>", "<iframe>", "<base href=x>", "<link href=//example.org>"],
)  # fmt: skip
def test_a_planted_harm_is_found(planted: str) -> None:
    policy = """<meta http-equiv="Content-Security-Policy" content="default-src 'none'">"""
    assert harmful(f"{policy}<p>{planted}</p>") != []
    assert harmful(f"{policy}<p>{planted.replace('<', '&lt;')}</p>") == []
    assert harmful("<p>no policy</p>") == ["no policy"]


def shown(page: str, names: tuple[str, ...] = HOSTILE) -> None:
    """A page harms nobody and has every name as its plain text, or as data for its script."""
    assert harmful(page) == []
    read = Elements(page)
    data = [json.loads(content) for kind, content in read.scripts if kind == "application/json"]
    words = re.sub(r"\s+", " ", read.text) + json.dumps(data, ensure_ascii=False)
    for name in names:
        assert name in words or json.dumps(name, ensure_ascii=False)[1:-1] in words, name


@pytest.fixture
def noumena(here: Callable[..., Any]) -> Callable[..., None]:
    def run(*arguments: Any) -> None:
        done = here(*arguments)
        assert done.returncode == 0, done.stderr

    return run


def _table(path: Path, x: np.ndarray, names: tuple[str, ...] = HOSTILE, **annotations: list[str]) -> Path:
    import pandas as pd

    pd.DataFrame(x, columns=pd.Index(names)).assign(**annotations).to_csv(path, index=False)
    return path


X = np.random.default_rng(0).laplace(size=(120, 6)) @ np.random.default_rng(1).normal(size=(6, 6))
Z = np.random.default_rng(2).laplace(size=(120, 6))


def test_hostile_columns_are_words_on_the_page_of_a_run(tmp_path: Path, noumena: Callable[..., None]) -> None:
    data = _table(tmp_path / f"{HOSTILE[0]}.csv", X)
    out = tmp_path / "out"
    noumena("fit", data, "--out", out, "--latents", 2, "--models", 2, "--steps", 3)
    shown((out / "report.html").read_text())
    noumena("report", out)
    shown((out / "report.html").read_text())


def test_hostile_structures_and_queries_are_words_on_their_page(tmp_path: Path, noumena: Callable[..., None]) -> None:
    support = np.eye(6, dtype=bool) | np.eye(6, k=1, dtype=bool)
    latent = [f"{name} latent" for name in HOSTILE]
    nm.Structure(support, observed=HOSTILE, latent=latent).to_csv(tmp_path / "s.csv")
    noumena("certify", tmp_path / "s.csv", "--query", f"{HOSTILE[0]} | {HOSTILE[5]}", "--out", tmp_path / "out")
    shown((tmp_path / "out" / "report.html").read_text(), (*HOSTILE, *latent, f"{HOSTILE[0]} | {HOSTILE[5]}"))


def test_hostile_names_of_files_are_words_on_the_page_of_an_audit(tmp_path: Path, noumena: Callable[..., None]) -> None:
    files = [tmp_path / f"{name}.npy" for name in HOSTILE[:3]]
    for k, file in enumerate(files):
        np.save(file, np.roll(X, k, axis=1))
    noumena("audit", *files, "--no-ica", "--folds", 2, "--out", tmp_path / "out")
    shown((tmp_path / "out" / "report.html").read_text(), HOSTILE[:3])


def test_hostile_factors_are_words_on_the_page_of_scores(tmp_path: Path, noumena: Callable[..., None]) -> None:
    true, learned = _table(tmp_path / "z.csv", Z), _table(tmp_path / "z_hat.csv", Z @ X[:6])
    noumena("score", true, learned, "--metrics", "mcc,dci", "--shuffles", 2, "--out", tmp_path / "out")
    page = (tmp_path / "out" / "report.html").read_text()
    assert harmful(page) == []


def test_hostile_plates_and_treatments_are_words_on_their_page(tmp_path: Path, noumena: Callable[..., None]) -> None:
    plate, drug = [HOSTILE[k % 3] for k in range(120)], [HOSTILE[3 + k // 3 % 2] for k in range(120)]
    names = tuple(f"{name}." for name in HOSTILE)
    data = _table(tmp_path / f"{HOSTILE[2]}.csv", X, names, **{HOSTILE[0]: plate, HOSTILE[1]: drug})
    asked = ["--batch", HOSTILE[0], "--label", HOSTILE[1], "--folds", 3, "--rotations", 1, "--leaf", 5]
    noumena("deconfound", data, *asked, "--out", tmp_path / "out")
    shown((tmp_path / "out" / "report.html").read_text(), (HOSTILE[2], HOSTILE[3], HOSTILE[4]))


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_rows_of_studies_are_words_on_their_pages(name: str) -> None:
    claim = StudyClaim(name, name, 0.8, (0.9,), 0.02, baseline=(name, 0.5))
    other = StudyClaim(f"{name}, other", name, 0.8, (0.9,), 0.02, not_comparable=name)
    about: dict[str, Any] = {"name": name, "title": name, "caption": name, "text": name, "facts": {"hardware": name}}
    shown(study_page(claims=[line(claim), line(other)], figures=[], **about), (name,))
    counts = {"better": 1, "reproduced": 0, "worse": 0, "not comparable": 0, "not run": 0}
    row = {"name": name, "paper": name, "title": name, "counts": counts, "done": 1, "cells": 2, "page": "a.html"}
    shown(index_page([row]), (name,))
