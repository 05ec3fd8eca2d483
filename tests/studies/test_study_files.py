"""Files of studies: what they are called, how workers find them, and which commit their rows name."""

import re
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from noumena.checks import InputError
from noumena.studies import Study, claims, study_files
from noumena.studies.documents import refreshed
from noumena.studies.engine import digest_of
from noumena.studies.files import StudyFile
from noumena.studies.provenance import commit_of
from noumena.studies.rows import read

STUDY = '''
    """A grid of my own."""

    {more}

    def cells():
        return [{{"seed": seed}} for seed in range(4)]

    def cell(seed):
        return {{"value": seed * {factor}}}

    def compare(rows):
        return "\\n".join(str(row["value"]) for row in rows)
    '''


def written(path: Path, factor: str = "2", more: str = "") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(textwrap.dedent(STUDY).format(factor=factor, more=more))
    return path


@pytest.fixture
def mine(tmp_path, monkeypatch):
    """An empty folder to work in; what is imported from it is forgotten."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    known = set(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - known:
        if str(tmp_path) in str(getattr(sys.modules[name], "__file__", "")):
            del sys.modules[name]


def test_a_study_is_called_by_its_path_within_its_topmost_package(mine):
    for package in ("above/outer", "above/outer/inner"):
        (mine / package).mkdir(parents=True)
        (mine / package / "__init__.py").touch()
    deep, plain = written(mine / "above/outer/inner/own_table.py"), written(mine / "own_study.py")
    assert StudyFile.at(deep) == StudyFile(str(mine / "above"), "outer.inner.own_table")
    assert [Study(path).name for path in (deep, "own_study.py")] == ["outer/inner/own_table", "own_study"]
    one = Study(plain).run()
    assert one.compare() == "0\n2\n4\n6"
    assert [row["cell"] for row in read("results/own_study/rows.csv")] == [
        digest_of("own_study.cell", {"seed": seed}) for seed in range(4)
    ]
    assert Study(Study(deep).module).path == "above/outer/inner/own_table.py"


def test_workers_import_the_file_and_what_lies_beside_it(mine):
    (mine / "elsewhere").mkdir()
    (mine / "elsewhere" / "beside_it.py").write_text("FACTOR = 3\n")
    path = written(mine / "elsewhere" / "own_study_of_two.py", "FACTOR", "from beside_it import FACTOR")
    code = f"from noumena.studies import Study; print(Study({str(path)!r}).run(workers=2).compare())"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert sorted(done.stdout.split()) == ["0", "3", "6", "9"], done.stderr


def test_a_folder_is_searched_and_what_is_hidden_or_a_test_is_not(mine):
    studies = [written(mine / "papers" / name) for name in ("a.py", "b/c.py")]
    for name in (".hidden/a.py", "_old/a.py", "test_a.py", "b/test_c.py"):
        written(mine / "papers" / name)
    (mine / "papers" / "settings.py").write_text("cells = cell = 1\n")
    here = [path.relative_to(mine) for path in studies]
    assert study_files() == study_files("papers") == here
    assert study_files("papers/b", "papers/a.py") == here[::-1]


def test_what_is_no_study_is_one_sentence(mine):
    with pytest.raises(InputError, match=r"^Studies must be named as files, or lie in a folder papers\. Got nei"):
        study_files()
    (mine / "empty").mkdir()
    with pytest.raises(InputError, match=r"^Some Python file .* must define cells, cell, compare\. Got empty\.$"):
        study_files("empty")
    (mine / "empty" / "broken.py").write_text("def cells(:\n")
    with pytest.raises(InputError, match=r"^Every file .* must be Python\. Got empty/broken\.py: invalid syntax"):
        study_files("empty")
    for name in ("absent.py", "absent", "a.b.py", "own.txt"):
        if "absent" not in name:
            (mine / name).touch()
        with pytest.raises(InputError, match=rf"^A study must be a Python file, .* Got {re.escape(name)}\.$"):
            Study(name)
    (mine / "half_of_it.py").write_text("def cells(): ...\n")
    with pytest.raises(InputError, match=r"must define .* Got half_of_it\.py without cell, compare\.$"):
        Study("half_of_it.py")


def test_a_name_that_another_module_has_is_refused(mine):
    first, second = (written(mine / folder / "own_twin.py") for folder in ("one", "two"))
    assert Study(first).name == "own_twin"
    for path in (second, written(mine / "textwrap.py")):
        with pytest.raises(InputError, match=r"^A study's file must have a name that no other module has\. Got "):
            Study(path)


def test_rows_name_the_commit_and_whether_code_was_changed_since(mine):
    def git(*arguments: str) -> str:
        own = "-c", "user.name=n", "-c", "user.email=e"
        return subprocess.run(["git", *own, *arguments], capture_output=True, text=True, check=True).stdout.strip()

    path = written(mine / "folder" / "own_committed.py")
    assert commit_of(path) == Study(path).code == ""
    git("init", "--quiet")
    assert commit_of(path) == "", "no commit yet"
    git("add", "folder")
    git("commit", "--quiet", "-m", "one")
    commit = "g" + git("rev-parse", "--short", "HEAD")
    Study(path).run(only={"seed": 0})
    assert commit_of(path) == commit, "rows are no code"
    (mine / "beside.py").touch()
    assert Study(path).run().code == commit + "+"
    assert [row["code"] for row in read("results/own_committed/rows.csv")] == [commit, *[commit + "+"] * 3]


def test_the_old_name_of_a_claim_warns_and_is_the_new_one():
    with pytest.warns(DeprecationWarning, match="Claim is now noumena.studies.claims.StudyClaim"):
        assert claims.Claim is claims.StudyClaim


def test_an_empty_block_is_filled_and_nothing_after_it_is_lost(mine):
    study = Study(written(mine / "own_quoted.py")).run()
    page = "`results/own_quoted/rows.csv`\n\n```text\n```\n\n## Next\n\n```text\nkept\n```\n"
    found = refreshed(page, [study])
    assert found == page.replace("```text\n```", "```text\n0\n2\n4\n6\n```")
    assert refreshed(found, [study]) == found
    assert refreshed(page, []) == page
