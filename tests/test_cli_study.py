"""``noumena study``: what it says and writes, its exit codes, and that bad input is one sentence."""

from __future__ import annotations

import csv
import json
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from noumena import studies
from noumena.cli import main
from noumena.studies.files import StudyFile
from noumena.studies.rows import read, write
from noumena.studies.study import TIDY

PAPERS = Path(__file__).parents[1] / "papers"
COMMITTED = PAPERS.parent / "results"
REAL = "pdgmm/table1"
REAL_FILE = PAPERS / "pdgmm" / "table1.py"
NAME = "mine/toy"
FILE = "mine/toy.py"


@pytest.fixture
def noumena(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture) -> Any:
    """The command, in an empty folder: exit code, what it prints, what it says."""
    monkeypatch.chdir(tmp_path)

    def run(*arguments: object) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["noumena", "study", *map(str, arguments)])
        with pytest.raises(SystemExit) as left:
            main()
        said = capsys.readouterr()
        return int(left.value.code or 0), said.out, said.err

    return run


TOY = '''"""Table 0: a toy.

What it is.
"""

from noumena.studies.claims import StudyClaim

BUDGET = 0.1
broken = False


def cells():
    return [{"d": d, "seed": seed} for d in (1, 2) for seed in (0, 1)]


def tiny():
    return [{"d": 1, "seed": 7}]


def cell(d, seed):
    if broken and d == 2:
        raise ValueError("not yet")
    return {"mcc": d / 2 + seed / 100}


def compare(rows):
    return f"a table of {len(rows)} rows"


def claims(rows):
    found = {d: tuple(row["mcc"] for row in rows if row["d"] == d and row.get("mcc") is not None) for d in (1, 2)}
    return [StudyClaim(f"Table 0: d = {d}", "MCC", d / 2, found[d], tolerance=0.02) for d in (1, 2)]
'''
"""A study of four cells, two of which fail while ``broken`` is true."""


@pytest.fixture
def toy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    """A study in a package of the folder in which the command runs."""
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "__init__.py").write_text('"""A paper: what is in it."""')
    (tmp_path / "mine" / "toy.py").write_text(TOY)
    monkeypatch.setattr(sys, "path", [*sys.path])
    yield StudyFile.at(tmp_path / FILE).load()
    for name in ("mine", "mine.toy", "papers", "papers.toy"):
        sys.modules.pop(name, None)


@pytest.fixture
def results(tmp_path: Path) -> Path:
    """The committed rows of one study, elsewhere."""
    shutil.copytree(COMMITTED / REAL, tmp_path / "copy" / REAL)
    (tmp_path / "copy" / REAL / "verdicts.csv").unlink(missing_ok=True)
    return tmp_path / "copy"


# ---- run -----------------------------------------------------------------------------------------------------------


def test_a_run_computes_compares_and_says_what_is_done(toy: ModuleType, noumena: Any) -> None:
    code, out, err = noumena("run", FILE)
    assert code == 0
    assert out.splitlines() == [
        "a table of 4 rows",
        "mine/toy: 4 of 4 cells finished; rows in results/mine/toy/rows.csv.",
    ]
    assert err.splitlines()[-1] == "mine/toy: 4 of 4 cells"
    assert len(read("results/mine/toy/rows.csv")) == 4


def test_a_failed_cell_is_exit_code_1_until_it_succeeds(toy: ModuleType, noumena: Any) -> None:
    toy.broken = True
    code, out, _ = noumena("run", FILE)
    assert code == 1
    assert "2 of 4 cells finished, 2 failed" in out
    toy.broken = False
    code, out, err = noumena("run", FILE)
    assert code == 0
    assert err.splitlines()[-1] == "mine/toy: 2 of 2 cells"
    assert len(read("results/mine/toy/rows.csv")) == 4


def test_cells_are_chosen_by_their_values_and_the_miniature_by_its_name(toy: ModuleType, noumena: Any) -> None:
    assert "2 of 2 cells finished" in noumena("run", FILE, "--cells", "seed=1")[1]
    assert [(row["d"], row["seed"]) for row in read("results/mine/toy/rows.csv")] == [(1, 1), (2, 1)]
    assert "1 of 1 cells finished" in noumena("run", FILE, "--cells", "d=1, seed=0")[1]
    assert "1 of 1 cells finished" in noumena("run", FILE, "--tiny", "--results", "small")[1]
    assert [row["seed"] for row in read("small/mine/toy/rows.csv")] == [7]


def test_a_stopped_run_keeps_its_cells_and_says_how_to_go_on(toy: ModuleType, noumena: Any) -> None:
    whole, calls = toy.cell, []

    def stopped(d: int, seed: int) -> dict[str, Any]:
        calls.append(d)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return whole(d, seed)

    stopped.__module__, stopped.__qualname__ = whole.__module__, whole.__qualname__
    toy.cell = stopped
    code, _, err = noumena("run", FILE)
    assert code == 1
    assert err.splitlines()[-1] == ("noumena: mine/toy was stopped; finished cells are kept, the same command goes on.")
    assert len(read("results/mine/toy/rows.csv")) == 2
    assert noumena("run", FILE)[0] == 0
    assert len(calls) == 5, "only the two cells that were missing are computed"


def test_the_miniature_of_a_real_study_runs_to_its_table(noumena: Any) -> None:
    code, out, _ = noumena("run", PAPERS / "scores" / "known.py", "--tiny", "--results", "small")
    assert code == 0, [row.get("error") for row in read("small/scores/known/rows.csv")]
    assert "scores/known: 3 of 3 cells finished; rows in small/scores/known/rows.csv." in out
    assert {row["error"] for row in read("small/scores/known/rows.csv") if "error" in row} <= {None}


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("run", "ddl/table99"), "A study must be a Python file, or a folder of such. Got ddl/table99."),
        (("run", "mine/__init__.py"), "A study must define cells, cell, compare. Got mine/__init__.py without cells"),
        (("list",), "Studies must be named as files, or lie in a folder papers. Got neither."),
        (("merge", PAPERS, "absent"), "The command takes one study at a time. Got 33 of them."),
        (("run", FILE, "--cells", "three"), "--cells must be names and values with commas, such as d=3,seed=0."),
        (("run", FILE, "--cells", "n=3"), "A study's cells must be chosen by one of d, seed. Got n."),
        (("run", FILE, "--cells", "d=99"), "Some cell of mine/toy must have the values asked for."),
        (("run", FILE, "--engine", "slurm"), "engine must be one of local, dask, ray. Got 'slurm'."),
        (("run", FILE, "--address", "tcp://x:1"), "An address must be that of a dask or ray engine. Got local."),
        (("run", FILE, "--workers", "0"), "--workers must be a whole number of at least 1. Got 0."),
        (("run", FILE, "--seconds", "-1"), "--seconds must be a finite number"),
        (("run", FILE, "--megabytes", "nan"), "--megabytes must be a finite number"),
        (("merge", FILE, "absent"), "A folder of results must have rows.csv or a journal. Got absent."),
    ],
)
def test_bad_input_is_one_sentence_and_exit_code_2(
    toy: ModuleType, noumena: Any, arguments: tuple[str, ...], sentence: str
) -> None:
    code, out, err = noumena(*arguments)
    assert code == 2
    assert out == ""
    assert err.startswith(f"noumena: {sentence}")
    assert len(err.strip().splitlines()) == 1
    assert not list(Path().glob("results/**/rows.csv"))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("engine", "address"), [("dask", "tcp://127.0.0.1:1"), ("dask", "nonsense://"), ("ray", "127.0.0.1:1")]
)
def test_a_cluster_that_does_not_answer_is_one_sentence(
    toy: ModuleType, noumena: Any, engine: str, address: str
) -> None:
    pytest.importorskip({"dask": "distributed", "ray": "ray"}[engine])
    code, _, err = noumena("run", FILE, "--engine", engine, "--address", address)
    assert code == 2
    said = [line for line in err.splitlines() if line.startswith("noumena:")]
    assert said[0].startswith(f"noumena: A cluster must answer at its address. Got '{address}'")


def test_a_folder_of_studies_is_run_listed_and_compared(toy: ModuleType, noumena: Any) -> None:
    assert noumena("run", "mine")[0] == 0
    assert json.loads(noumena("list", "mine", "--json")[1])[0]["finished"] == 4
    Path("mine").rename("papers")
    assert noumena("compare")[1] == noumena("compare", "papers/toy.py")[1]


def test_an_old_name_still_works_where_the_papers_are_and_says_the_new_one(
    noumena: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(PAPERS.parent)
    code, out, err = noumena("compare", "kivva/likelihood")
    assert code == 0
    assert (
        err
        == "noumena: kivva/likelihood is now papers/kivva/likelihood.py; the old name will go with the next release.\n"
    )
    assert noumena("compare", "papers/kivva/likelihood.py") == (0, out, "")
    with pytest.warns(DeprecationWarning, match=r"studies\.get\(name\) is now noumena\.studies\.Study\(path\)"):
        assert studies.get("kivva/likelihood").name == "kivva/likelihood"
    with pytest.warns(DeprecationWarning, match=r"studies\.names\(\) is now noumena\.studies\.study_files\(\)"):
        assert "ddl/table3" in studies.names()


# ---- list, rows, merge, pages --------------------------------------------------------------------------------------


@pytest.mark.slow
def test_the_list_has_every_study_and_what_is_finished(results: Path, noumena: Any) -> None:
    two = PAPERS / "ddl" / "table3.py", REAL_FILE  # all would take a minute
    code, out, _ = noumena("list", *two, "--results", results, "--json")
    found = {line["study"]: line for line in json.loads(out)}
    assert code == 0
    assert list(found) == ["ddl/table3", REAL]
    cells = {row["cell"] for row in read(results / REAL / "rows.csv")}
    assert found[REAL]["finished"] == len(cells & {row["cell"] for row in read(COMMITTED / REAL / "rows.csv")}) > 0
    assert found["ddl/table3"]["finished"] == 0
    assert found[REAL]["CPU minutes"] > 0
    code, out, _ = noumena("list", *two, "--results", results)
    assert len(out.splitlines()) == len(found) + 1


def test_tidy_rows_have_one_value_each(toy: ModuleType, noumena: Any) -> None:
    noumena("run", FILE)
    code, out, _ = noumena("rows", FILE)
    lines = list(csv.DictReader(out.splitlines()))
    assert code == 0
    assert [(line["study"], line["seed"], line["metric"], line["value"], line["parameters"]) for line in lines] == [
        (NAME, "0", "mcc", "0.5", "d=1"), (NAME, "1", "mcc", "0.51", "d=1"),
        (NAME, "0", "mcc", "1.0", "d=2"), (NAME, "1", "mcc", "1.01", "d=2"),
    ]  # fmt: skip
    assert all(line["cell"].startswith("c") and line["code"] == "" and line["hardware"] for line in lines)


def test_a_file_of_rows_is_not_overwritten_unasked(toy: ModuleType, noumena: Any) -> None:
    noumena("run", FILE)
    assert noumena("rows", FILE, "--out", "new/tidy.csv") == (0, "", "")
    before = Path("new/tidy.csv").read_text()
    Path("new/tidy.csv").write_text("mine")
    code, _, err = noumena("rows", FILE, "--out", "new/tidy.csv")
    assert (code, err) == (2, "noumena: --out must be a new file, or --force be given. Got new/tidy.csv.\n")
    assert Path("new/tidy.csv").read_text() == "mine"
    assert noumena("rows", FILE, "--out", "new/tidy.csv", "--force")[0] == 0
    assert Path("new/tidy.csv").read_text() == before


def test_rows_of_a_miniature_are_listed_where_it_is_asked_for(toy: ModuleType, noumena: Any) -> None:
    noumena("run", FILE, "--tiny", "--results", "small")
    code, out, err = noumena("rows", FILE, "--results", "small")
    assert code == 0
    assert out.splitlines() == [",".join(TIDY)]
    sentence = "noumena: mine/toy has no finished cells in small; --tiny lists those of the miniature.\n"
    assert err == sentence
    assert noumena("rows", FILE, "--results", "small", "--out", "none.csv") == (0, "", sentence)
    assert Path("none.csv").read_text() == out
    code, out, err = noumena("rows", FILE, "--results", "small", "--tiny")
    assert (code, err) == (0, "")
    assert [(line["seed"], line["value"]) for line in csv.DictReader(out.splitlines())] == [("7", str(1 / 2 + 7 / 100))]
    noumena("run", FILE)
    assert (
        noumena("rows", FILE, "--tiny")[2] == "noumena: mine/toy has no finished cells of the miniature in results.\n"
    )


ABSENT = "noumena: --results must be a folder of results, as study run makes it. Got nothere.\n"


@pytest.mark.parametrize("arguments", ["compare", f"compare {FILE}", f"rows {FILE}", f"pages {FILE}"])
def test_a_folder_of_results_that_is_not_there_is_refused_where_results_are_read(
    toy: ModuleType, noumena: Any, arguments: str
) -> None:
    assert noumena(*arguments.split(), "--results", "nothere") == (2, "", ABSENT)
    assert [path.name for path in Path().iterdir()] == ["mine"]


def test_no_document_is_written_from_a_folder_of_results_that_is_not_there(noumena: Any) -> None:
    before = "<!-- verdicts by paper -->\n\nas before\n\n<!-- end -->\n"
    Path("a.md").write_text(before)
    assert noumena("write", "a.md", "--results", "nothere") == (2, "", ABSENT)
    assert Path("a.md").read_text() == before


def test_rows_of_two_machines_are_merged(toy: ModuleType, noumena: Any) -> None:
    noumena("run", FILE, "--cells", "d=1", "--results", "here")
    noumena("run", FILE, "--cells", "seed=1", "--results", "there")
    code, out, _ = noumena("merge", FILE, f"there/{NAME}", "--results", "here")
    assert (code, out) == (0, "1 cells taken; 3 of 4 are finished.\n")
    assert len(read(f"here/{NAME}/rows.csv")) == 3


def test_pages_are_written_into_a_new_folder(toy: ModuleType, noumena: Any) -> None:
    noumena("run", FILE)
    code, out, _ = noumena("pages", FILE, "--out", "site")
    assert (code, out) == (0, "Open site/index.html.\n")
    assert "a table of 4 rows" in Path("site/mine-toy.html").read_text()
    assert "mine-toy.html" in Path("site/index.html").read_text()
    code, _, err = noumena("pages", FILE, "--out", "site")
    assert code == 2
    assert err.startswith("noumena: --out must be a new or empty folder. Got site")


# ---- the gate ------------------------------------------------------------------------------------------------------


def test_comparing_counts_verdicts(toy: ModuleType, noumena: Any) -> None:
    noumena("run", FILE, "--cells", "d=1")
    code, out, _ = noumena("compare", FILE)
    assert code == 0
    assert "Table 0: d = 1  MCC     0.505 ± 0.007 (2)  0.500" in out
    assert out.endswith("2 published figures: 0 better, 1 reproduced, 0 worse, 0 not comparable, 1 not run.\n")
    lines = json.loads(noumena("compare", FILE, "--json")[1])
    assert [line["verdict"] for line in lines] == ["reproduced", "not run"]


def test_a_committed_claim_that_is_broken_is_exit_code_1(toy: ModuleType, noumena: Any) -> None:
    noumena("run", FILE)
    assert noumena("compare", FILE, "--commit")[0] == 0
    assert noumena("compare", FILE)[0] == 0
    path = Path("results", NAME, "rows.csv")
    write([{**row, "mcc": 0.1 if row["d"] == 2 else row["mcc"]} for row in read(path)], path)
    code, out, err = noumena("compare", FILE)
    assert code == 1
    assert err == "noumena: broken: mine/toy: Table 0: d = 2, MCC: was reproduced, is worse.\n"
    assert "1 reproduced, 1 worse" in out
    path.unlink()
    code, _, err = noumena("compare", FILE)
    assert (code, len(err.splitlines())) == (1, 2), "rows that are gone break a claim as well"
    assert noumena("compare", FILE, "--commit")[0] == 0
    assert noumena("compare", FILE)[0] == 0


def test_committed_verdicts_of_a_real_study_hold_and_break_with_its_rows(results: Path, noumena: Any) -> None:
    assert noumena("compare", REAL_FILE, "--results", results, "--commit")[0] == 0
    held = list(csv.DictReader((results / REAL / "verdicts.csv").read_text().splitlines()))
    assert {line["verdict"] for line in held} & {"reproduced", "better"}
    assert noumena("compare", REAL_FILE, "--results", results)[0] == 0
    path = results / REAL / "rows.csv"
    write([{**row, "mcc": 0.0, "r2": 0.0} for row in read(path)], path)
    code, _, err = noumena("compare", REAL_FILE, "--results", results)
    assert code == 1
    assert err.startswith(f"noumena: broken: {REAL}: ")


def test_a_file_of_verdicts_that_was_torn_is_one_sentence(toy: ModuleType, noumena: Any) -> None:
    noumena("run", FILE)
    noumena("compare", FILE, "--commit")
    path = Path("results", NAME, "verdicts.csv")
    path.write_text(path.read_text().replace("reproduced", "reprod"))
    code, _, err = noumena("compare", FILE)
    assert code == 2
    assert err.startswith("noumena: A file of verdicts must have")
