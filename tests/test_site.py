"""The site: links and anchors lead somewhere, blocks run and print what the pages say, nothing public is left out.

Every page of ``RUN`` is a program: its python blocks are run in order, in one process and an empty folder of its own,
and a text block after a python block is what that block prints. Numbers with a point are compared to two decimals.
"""

import importlib
import json
import os
import re
import subprocess
import sys
from importlib.util import find_spec
from inspect import ismodule
from pathlib import Path

import pytest

import noumena as nm

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PAGES = sorted(DOCS.rglob("*.md"))
TEXTS = [*PAGES, ROOT / "README.md", ROOT / "CONTRIBUTING.md"]
ROOMS = sorted((DOCS / "rooms").glob("*.md"))
RUN = [DOCS / "getting-started.md", DOCS / "choose.md", *ROOMS]
FENCE = re.compile(r"^```(\w*)[^\n]*\n(.*?)^```$", re.DOTALL | re.MULTILINE)
LINK = re.compile(r"\]\(\s*<?([^)\s>]+)>?(?:\s+\"[^\"]*\")?\s*\)")
IN_ROOM = {
    "audits": ("audits", "deconfounding"),
    "penalties": ("penalties", "integrations"),
    "report": ("report", "charts"),
}

DRIVER = """
import contextlib, io, json, os, sys, tempfile, traceback, warnings
import numpy, pandas, sklearn, torch
import noumena as nm
torch.set_num_threads(1)
nm.VAE, nm.certify, nm.score, nm.audit, nm.deconfound
for name, blocks in json.load(sys.stdin).items():
    reads, writes = os.pipe()
    if os.fork():
        os.close(writes)
        with os.fdopen(reads) as pipe:
            found = pipe.read()
        os.wait()
        print(json.dumps([name, json.loads(found) if found else ["the process died"]]), flush=True)
        continue
    os.close(reads)
    space, printed = {"__name__": "__main__"}, []
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        for block in blocks:
            out = io.StringIO()
            try:
                with contextlib.redirect_stdout(out):
                    exec(compile(block, name, "exec"), space)
            except BaseException:
                printed.append(traceback.format_exc())
                break
            printed.append(out.getvalue())
        os.chdir("/")
    with os.fdopen(writes, "w") as pipe:
        pipe.write(json.dumps(printed))
    os._exit(0)
"""
"""Imports are paid once; then every page has a process of its own."""


def short(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def prose(text: str) -> str:
    """A page without its blocks and code, in which brackets are no links."""
    return re.sub(r"(`+)(?:(?!\n\n).)+?\1", "", FENCE.sub("", text), flags=re.DOTALL)


def anchor(heading: str) -> str:
    """A heading as the site addresses it."""
    plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).replace("`", "").replace("*", "")
    ascii_only = plain.encode("ascii", "ignore").decode()  # the default of Python-Markdown
    return re.sub(r"[-\s]+", "-", re.sub(r"[^\w\s-]", "", ascii_only).strip().lower())


def anchors(path: Path) -> set[str]:
    return {anchor(found) for found in re.findall(r"^#+ +(.+?)\s*$", FENCE.sub("", path.read_text()), re.MULTILINE)}


def broken_links(path: Path) -> list[str]:
    found = []
    for target in LINK.findall(prose(path.read_text())):
        if re.match(r"[a-z]+:", target):
            continue
        name, _, part = target.partition("#")
        there = (path.parent / name).resolve() if name else path
        if not there.exists() or (part and there.suffix == ".md" and part not in anchors(there)):
            found.append(target)
    return found


def blocks_of(path: Path) -> list[tuple[str, str | None]]:
    """Python blocks, each with the text block that follows at once, if there is one."""
    text, found = path.read_text(), []
    fences = list(FENCE.finditer(text))
    for k, fence in enumerate(fences):
        if fence[1] == "python":
            after = fences[k + 1] if k + 1 < len(fences) else None
            shown = after is not None and after[1] == "text" and not text[fence.end() : after.start()].strip()
            found.append((fence[2], after[2] if after is not None and shown else None))
    return found


def rounded(text: str) -> str:
    return re.sub(r"-?\d+\.\d+(?:e[+-]?\d+)?", lambda number: f"{float(number[0]):.2f}", text).strip()


@pytest.fixture(scope="module")
def printed() -> dict[str, list[str]]:
    programs = {short(page): [code for code, _ in blocks_of(page)] for page in RUN}
    done = subprocess.run(
        [sys.executable, "-c", DRIVER], input=json.dumps(programs), capture_output=True, text=True, timeout=600,
        env={**os.environ, "OMP_NUM_THREADS": "1"}, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return dict(json.loads(line) for line in done.stdout.splitlines())


@pytest.mark.parametrize("path", TEXTS, ids=short)
def test_every_relative_link_and_anchor_leads_somewhere(path):
    assert broken_links(path) == []


def test_a_broken_link_and_a_broken_anchor_are_seen(tmp_path):
    (tmp_path / "b.md").write_text("# One heading, `two` words\n")
    page = tmp_path / "a.md"
    page.write_text("[a](b.md) [b](b.md#one-heading-two-words) [c](none.md) [d](b.md#none) [e](https://x.org) `[f](g)`")
    assert broken_links(page) == ["none.md", "b.md#none"]


@pytest.mark.slow
@pytest.mark.parametrize("path", RUN, ids=short)
def test_every_page_of_rooms_runs_and_prints_what_it_says(path, printed):
    blocks = blocks_of(path)
    assert blocks, "a page has an example"
    found = printed[short(path)]
    assert len(found) == len(blocks), found[-1]
    for (code, said), out in zip(blocks, found, strict=True):
        assert "Traceback" not in out, out
        assert said is None or rounded(out) == rounded(said), code


def test_every_public_name_is_on_a_room_page():
    texts = " ".join(page.read_text() for page in ROOMS)
    named = set(re.findall(r"`(?:nm\.)?(\w+)[^`]*`", FENCE.sub("", texts)))
    rooms = {page.stem for page in ROOMS}
    assert {name for name in nm.__all__ if name not in named | rooms} == set()


@pytest.mark.parametrize("page", ROOMS, ids=short)
def test_a_room_page_lists_every_name_of_its_room(page):
    listed = set(re.findall(r"^\| `(\w+)` \|", page.read_text(), re.MULTILINE))
    for room in IN_ROOM.get(page.stem, (page.stem,)):
        assert set(importlib.import_module(f"noumena.{room}").__all__) - listed == set()


@pytest.mark.parametrize("page", ROOMS, ids=short)
def test_a_room_page_says_what_the_room_does_not_do(page):
    assert "## What it does not do\n\n- " in page.read_text()


def test_every_page_is_in_the_navigation_and_every_entry_is_a_page():
    entries = re.findall(r":\s+([\w/-]+\.md)$", (ROOT / "mkdocs.yml").read_text(), re.MULTILINE)
    assert sorted(entries) == [page.relative_to(DOCS).as_posix() for page in PAGES]


def test_the_api_reference_has_every_public_name_and_no_other():
    named = re.findall(r"^::: noumena\.([\w.]+)\.(\w+)$", (DOCS / "api.md").read_text(), re.MULTILINE)
    for module, name in named:
        assert hasattr(importlib.import_module(f"noumena.{module}"), name), name
    public = {name for name in nm.__all__ if not ismodule(getattr(nm, name))}
    assert public <= {name for _, name in named}
    assert len(set(named)) == len(named)


def test_the_gallery_shows_every_example_and_no_other():
    named = set(re.findall(r"examples/(\w+)\.py", (DOCS / "gallery.md").read_text()))
    assert named == {path.stem for path in (ROOT / "examples").glob("*.py")}


@pytest.mark.skipif(find_spec("codespell_lib") is None, reason="codespell is not installed")
def test_the_words_are_spelled_as_a_list_of_common_mistakes_knows_them():
    names = "yau"  # of authors
    done = subprocess.run(
        [sys.executable, "-m", "codespell_lib", "--builtin", "clear,rare", "-L", names, *map(str, TEXTS)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout


@pytest.mark.slow
def test_the_site_builds_without_a_warning_and_fetches_nothing_when_viewed(tmp_path):
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path / "site")]
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, env={**os.environ, "NO_MKDOCS_2_WARNING": "1"}, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    pages = sorted((tmp_path / "site").rglob("*.html"))
    assert len(pages) == len(PAGES) + 1  # and the page for what is not found
    loads = re.compile(
        r"<(?:script|img|iframe|source)[^>]*src=\"?(?:https?:)?//|<link(?![^>]*canonical)[^>]*href=\"?(?:https?:)?//"
    )
    assert [page.name for page in pages if loads.search(page.read_text())] == []
    styles = sorted((tmp_path / "site").rglob("*.css"))
    assert [style.name for style in styles if re.search(r"(?:url\(|@import)\s*[\"']?https?:", style.read_text())] == []
