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


@pytest.mark.parametrize("path", sorted((ROOT / "examples").glob("*.py")), ids=lambda p: p.name)
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


def test_the_studies_page_shows_what_the_rows_say():
    from importlib import import_module

    from noumena.studies.rows import read

    page = (ROOT / "docs" / "studies.md").read_text()
    files = re.findall(r"`results/([\w/]+)/rows\.csv`\n\n```text\n(.*?)\n```", page, flags=re.DOTALL)
    assert len(files) >= 6
    for name, shown in files:
        study = import_module(f"noumena.studies.{name.replace('/', '.')}")
        assert shown == study.compare(read(ROOT / "results" / name / "rows.csv")), name
