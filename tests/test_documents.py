"""What the documents show is what happens: README and examples are executed."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()


def run(*arguments):
    return subprocess.run([sys.executable, *arguments], capture_output=True, text=True, timeout=300, cwd=ROOT)


def test_the_readmes_program_prints_what_the_readme_shows(tmp_path):
    program, shown = re.findall(r"```(?:python|text)\n(.*?)```", README, flags=re.DOTALL)[:2]
    (tmp_path / "readme.py").write_text("import torch\ntorch.set_num_threads(1)\n" + program)
    done = run(tmp_path / "readme.py")
    assert done.returncode == 0, done.stderr
    assert done.stdout == shown


LONG = ("hugging_face.py", "lightning_callback.py", "many_seeds.py", "own_autoencoder.py", "slots.py")
"""Examples of ten seconds and more."""


@pytest.mark.parametrize(
    "path",
    [
        pytest.param(path, marks=[pytest.mark.slow] if path.name in LONG else [], id=path.name)
        for path in sorted((ROOT / "examples").glob("*.py"))
    ],
)
def test_an_example_runs_and_says_something(path):
    done = run(path)
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.splitlines()) >= 3


def test_the_readme_is_short_and_its_files_exist():
    assert len(README.splitlines()) <= 150
    named = re.findall(r"`((?:docs|results|examples)/[\w./]*)`", README) + re.findall(r"\((docs/[\w./]+)\)", README)
    assert named
    assert [n for n in named if not (ROOT / n).exists()] == []


def test_every_test_that_the_theory_names_exists():
    named = re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", (ROOT / "docs" / "theory.md").read_text())
    assert len(named) > 20
    assert [pair for pair in named if f"def {pair[1]}(" not in (ROOT / pair[0]).read_text()] == []


def test_every_public_name_has_a_docstring_and_can_be_imported():
    import noumena as nm

    missing = [name for name in nm.__all__ if not getattr(nm, name).__doc__]
    assert missing == []
    assert set(dir(nm)) == set(nm.__all__)
    with pytest.raises(AttributeError, match="no attribute 'oracle'"):
        _ = nm.oracle


def test_versions_agree():
    import tomllib

    import noumena as nm

    assert tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"] == nm.__version__
    assert f"[{nm.__version__}]" in (ROOT / "CHANGELOG.md").read_text()
    assert f"version: {nm.__version__}" in (ROOT / "CITATION.cff").read_text()


@pytest.mark.parametrize("name", ["README.md", "docs/studies.md", "docs/coverage.md", "docs/metrics.md"])
def test_a_document_quotes_what_the_rows_say(name):
    from noumena.studies import Study, study_files
    from noumena.studies.documents import refreshed

    studies = [Study(path, ROOT / "results") for path in study_files(ROOT / "papers")]
    text = (ROOT / name).read_text()
    spoiled = text.replace("| **all** | ", "| **all** | 7", 1) if "**all**" in text else _without_a_line(text)
    assert spoiled != text
    assert refreshed(spoiled, studies) == text


def _without_a_line(text):
    """The page without the second line of its first quoted table."""
    before, mark, table = text.partition("rows.csv`\n\n```text\n")
    first, _, rest = table.split("\n", 2)
    return f"{before}{mark}{first}\n{rest}"


def test_every_study_with_rows_is_quoted():
    from noumena.studies import Study, study_files

    names = [Study(path).name for path in study_files(ROOT / "papers")]
    pages = "".join((ROOT / "docs" / name).read_text() for name in ("studies.md", "metrics.md"))
    quoted = set(re.findall(r"`results/([\w/]+)/rows\.csv`\n\n```text\n", pages))
    assert {name for name in names if (ROOT / "results" / name / "rows.csv").exists()} == quoted


def test_the_page_of_scores_says_what_the_records_declare():
    import numpy as np

    import noumena as nm

    z = np.random.default_rng(0).uniform(-1, 1, size=(60, 2))
    page = (ROOT / "docs" / "metrics.md").read_text()
    rows = [
        line.strip("| ").split(" | ") for line in page.splitlines() if line.startswith("| ") and line.count("|") == 6
    ]
    declared = {row[0].removesuffix(" (best 0)"): (row[2], row[4], "(best 0)" in row[0]) for row in rows}
    assert len(declared) >= 28
    for number in nm.score(z, z, ceiling=False).numbers:
        claim = number.claim
        group = str(claim.forgives).split(" {")[0]
        assert declared[claim.title] == (group, claim.supports, claim.best == 0), claim.title
