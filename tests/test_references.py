"""References: papers are cited by author and year, never by a number, and each has an entry and a line on the page."""

import re
from pathlib import Path

import numpy as np
import pytest

import noumena as nm

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "noumena"
KINDS = {".py", ".md", ".toml", ".yml", ".cff", ".html", ".js", ".bib"}
FOLDERS = ("src", "tests", "docs", "papers", "benchmarks", "examples")
TEXTS = sorted(
    path
    for path in [*ROOT.iterdir(), *(found for folder in FOLDERS for found in (ROOT / folder).rglob("*"))]
    if path.suffix in KINDS and path.is_file()
)
NUMBERED = re.compile(r"(?:\bpapers?[^\w.]{0,12}|\(|\b(?:of|and|see)\s+)00[0-4]\b(?![.,]?\d| \d)", re.IGNORECASE)
"""A paper by its number, also across a line break; ``10 000`` and ``0.003`` are numbers."""
CITED = re.compile(
    r"\b((?:von |van den )?[A-Z]\w+)(?: et\s+al\.|(?:,\s+[A-Z]\w+)*\s+and\s+[A-Z]\w+)?(?:'s)?,?\s+\(?((?:19|20)\d\d)\b"
)
"""``Zheng et al. (2026)``, ``Zheng et al. 2026``, ``Kim and Mnih (2018)``, ``Hoyer (2004)``."""
NO_AUTHORS = {"January", "July", "November"}
OURS = "the Occam theorem"
PAGE = (ROOT / "docs" / "references.md").read_text(encoding="utf-8")


def entries() -> dict[str, tuple[str, str]]:
    """The first author's family name and the year of every entry, by its key."""
    text = (ROOT / "docs" / "references.bib").read_text(encoding="utf-8")
    found = {}
    for key, body in re.findall(r"^@\w+\{(\w+),\n(.*?)^\}", text, flags=re.DOTALL | re.MULTILINE):
        fields = dict(re.findall(r"^ *(\w+) *= \{(.*)\},$", body, flags=re.MULTILINE))
        found[key] = (fields["author"].strip("{}").split(" and ")[0].split(",")[0], fields["year"])
    return found


def unknown(text: str) -> list[tuple[str, str]]:
    """Citations of a text that have no entry."""
    known = set(entries().values())
    return [pair for pair in CITED.findall(text) if pair[0] not in NO_AUTHORS and pair not in known]


def sources() -> list[str]:
    """What certificates and readings print as the source of each theorem."""
    structure = nm.Structure([[1, 0], [1, 0], [1, 1], [0, 1], [0, 1]])
    cross = nm.worlds.Mixture([0.5, 0.5], [[1, 0], [0, 2]], [np.diag([1, 0]), np.diag([0, 1])])
    z = np.random.default_rng(0).laplace(size=(400, 2))
    read = (
        nm.certify(structure, independent=True),
        nm.certify(structure, by="mechanisms"),
        nm.certify(cross, by="mixtures"),
        nm.certify(cross, by="degenerate"),
        nm.certify([z, z[:, ::-1].copy()], by="nearness"),
    )
    return [theorem.source for one in read for theorem in one.theorems]


def test_no_paper_is_cited_by_a_number():
    assert len(TEXTS) > 500
    found = {path: NUMBERED.findall(path.read_text(encoding="utf-8")) for path in TEXTS}
    assert {path.relative_to(ROOT).as_posix(): hits for path, hits in found.items() if hits} == {}


@pytest.mark.parametrize("number", ["000", "001", "002", "003", "004"])
def test_a_number_is_seen_however_it_is_written(number):
    for text in ("(paper {})", "papers {} and", "Paper-{},", "(paper\n    {}).", "of {}, Table", "001 and {}", "({})"):
        assert NUMBERED.search(text.format(number)), text
    for text in ("10 {} rows", "0.{}", "of {}.5", "a paper of 12 {}", "in 1_{}"):
        assert not NUMBERED.search(text.format(number)), text


def test_the_source_of_every_theorem_names_authors_year_and_theorem_and_has_an_entry():
    found = set(sources())
    theirs = sorted(found - {OURS})
    assert {re.split(r" \d{4}", source)[0] for source in theirs} == {
        f"{name} et al." for name in ("Kivva", "Matthes", "Nelson", "Xu", "Zheng")
    }
    for source in theirs:
        assert re.match(r"\w+ et al\. \d{4}, Theorem \d", source), source
        assert CITED.findall(source), source
        assert unknown(source) == [], source


def test_every_citation_in_the_code_and_the_documents_has_an_entry():
    texts = [path for path in TEXTS if path.is_relative_to(ROOT / "src") or path.suffix == ".md"]
    found = {path: unknown(path.read_text(encoding="utf-8")) for path in texts if path.name != "references.md"}
    assert {path.relative_to(ROOT).as_posix(): pairs for path, pairs in found.items() if pairs} == {}


def test_an_entry_that_is_missing_is_seen():
    assert unknown("see Nobody et al.\n(2026), Theorem 1") == [("Nobody", "2026")]
    assert unknown("Kim and Mnih (2019)") == [("Kim", "2019")]
    assert unknown("Kim and Mnih (2018), Hoyer (2004), von Kügelgen et al. (2021)") == []


def test_every_entry_has_a_heading_and_one_line_on_the_page():
    known = entries()
    assert len(known) > 60
    shown = re.findall(
        r"^### (.+?)(?: et al\.| and [A-Z]\w+)? \((\d{4})\)\n\n[^\n]+ `(\w+)`\. Here: [^\n]+\.$", PAGE, re.M
    )
    assert {key: (author, year) for author, year, key in shown} == known
    assert len(shown) == len(known) == len(set(known.values())) == PAGE.count("\n### ")


def test_the_files_and_names_that_the_page_shows_exist():
    files = re.findall(r"`([\w/]+\.py)`", PAGE)
    assert len(files) > 20
    assert [name for name in files if not any((folder / name).exists() for folder in (ROOT, SOURCE))] == []
    names = re.findall(r"`(metrics|nets|worlds)\.(\w+)`", PAGE)
    assert [f"{room}.{name}" for room, name in names if not hasattr(getattr(nm, room), name)] == []
    assert [name for name in re.findall(r"`([A-Z]\w+)`", PAGE) if not hasattr(nm, name)] == []
