"""What every study of the library keeps: its contract, its committed verdicts, its rows."""

from pathlib import Path

import pytest

from noumena import studies
from noumena.studies.claims import NOT_COMPARABLE, NOT_RUN, VERDICTS, broken, committed
from noumena.studies.engine import digest

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "results"
NAMES = studies.names()


def study(name):
    return studies.get(name, RESULTS)


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
