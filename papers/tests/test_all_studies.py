"""What every study of the papers keeps: its contract, its committed verdicts, its rows."""

from pathlib import Path

import pytest

from noumena.studies import Study, study_files
from noumena.studies.claims import NOT_COMPARABLE, NOT_RUN, VERDICTS, broken, committed
from noumena.studies.engine import digest
from tools import rename_cells

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "results"
STUDIES = {one.name: one for one in (Study(path, RESULTS) for path in study_files(ROOT / "papers"))}
NAMES = list(STUDIES)


def study(name):
    return STUDIES[name]


def test_the_studies_are_found_by_their_files():
    assert len(NAMES) >= 30
    assert {"ddl/table3", "ddl/fig5", "pdgmm/table8", "near/table2", "pdgmm/balls"} <= set(NAMES)
    assert not {"ddl/images", "pdgmm/settings", "near/encoders", "ddl/traversals"} & set(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_a_study_declares_what_the_engine_needs(name):
    one = study(name)
    assert one.title[0].isupper()
    assert one.module.BUDGET >= 0
    cells = one.cells()
    assert len({digest(one.module.cell, parameters) for parameters in cells}) == len(cells)
    plain = (str, int, float, bool, type(None))
    assert all(isinstance(value, plain) for parameters in cells + one.module.tiny() for value in parameters.values())


@pytest.mark.parametrize("name", NAMES)
def test_without_rows_nothing_is_claimed(name):
    claims = study(name).module.claims([])
    assert {claim.verdict for claim in claims} <= {NOT_RUN, NOT_COMPARABLE}
    assert len({(claim.where, claim.metric) for claim in claims}) == len(claims)


@pytest.mark.parametrize("name", NAMES)
def test_a_committed_verdict_still_holds_and_none_is_forgotten(name):
    one = study(name)
    claims = one.claims()
    held = committed(one.committed)
    assert broken(claims, held) == []
    assert held == {(claim.where, claim.metric): claim.verdict for claim in claims}


@pytest.mark.parametrize("name", NAMES)
def test_every_committed_row_belongs_to_a_cell(name):
    one = study(name)
    asked = {digest(one.module.cell, parameters) for parameters in one.cells()}
    assert {row["cell"] for row in one.store.rows()} <= asked


def test_all_verdicts_are_among_the_five():
    found = {verdict for name in NAMES for verdict in committed(study(name).committed).values()}
    assert found <= set(VERDICTS)
    assert len(found) >= 4


ROWS = {
    "ddl/fig4": (1206, 75), "ddl/fig5": (0, 0), "ddl/table1": (90, 36), "ddl/table3": (234, 60),
    "ddl/table4": (273, 90), "ddl/table5": (108, 18), "ddl/table6": (3, 1), "ddl/table7": (27, 13),
    "ddl/wide": (95, 25), "kivva/likelihood": (50, 1), "kivva/mnist": (70, 7), "kivva/pinwheel": (200, 10),
    "mechanisms/overlap": (216, 216), "near/deconfound": (64, 16), "near/mnist": (360, 78), "near/pairs": (432, 16),
    "near/table2": (132, 32), "pdgmm/balls": (60, 12), "pdgmm/slopes": (96, 16), "pdgmm/table1": (425, 85),
    "pdgmm/table10": (50, 10), "pdgmm/table11": (56, 14), "pdgmm/table17": (220, 44), "pdgmm/table18": (20, 4),
    "pdgmm/table19": (20, 4), "pdgmm/table20": (125, 25), "pdgmm/table4": (130, 26), "pdgmm/table5": (0, 0),
    "pdgmm/table6": (11, 11), "pdgmm/table8": (425, 85), "pdgmm/table9": (60, 10), "scores/known": (2076, 100),
}  # fmt: skip
"""Rows and cells of every study when its functions got the names of today; more may come, none may be lost."""


@pytest.mark.parametrize("name", NAMES)
def test_no_row_was_lost_when_the_studies_moved(name):
    rows = study(name).store.rows()
    before, cells = ROWS.get(name, (0, 0))
    assert len(rows) >= before
    assert len({row["cell"] for row in rows}) >= cells
    assert set(ROWS) <= set(NAMES)


def test_cells_are_renamed_and_all_else_of_a_table_stays(tmp_path):
    path = tmp_path / "results" / "scores" / "known" / "rows.csv"
    path.parent.mkdir(parents=True)
    whole = (RESULTS / "scores" / "known" / "rows.csv").read_bytes()
    one = Study(ROOT / "papers" / "scores" / "known.py", tmp_path / "results")
    old = whole
    for before, now in rename_cells.new_names(one, "an.older.").items():
        old = old.replace(now.encode(), before.encode())
    path.write_bytes(old.replace(b"\n", b"\r\n"))
    assert one.state().finished == 0
    assert rename_cells.rename(one, "an.older.") == (100, 100)
    assert path.read_bytes() == whole.replace(b"\n", b"\r\n")
    assert rename_cells.rename(one, "an.older.") == (100, 0)
    assert one.state().finished == 100
