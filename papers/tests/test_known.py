"""Known answers: the committed rows, and a small live run, say what the declared ambiguities say they must."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from noumena.studies import rows as tables
from scores import known

ROWS = tables.read(Path(__file__).parents[2] / "results" / "scores" / "known" / "rows.csv")
TITLES = sorted({row["title"] for row in ROWS})


def test_the_rows_are_complete() -> None:
    assert not [row for row in ROWS if row.get("error")]
    assert {(row["kind"], row["case"], row["seed"]) for row in ROWS} == {
        (cell["kind"], cell["case"], cell["seed"]) for cell in known.cells()
    }
    assert len(TITLES) >= 20


@pytest.mark.parametrize("kind", known.KINDS)
@pytest.mark.parametrize("title", TITLES)
def test_every_cell_is_what_the_declared_ambiguity_says(kind: str, title: str) -> None:
    rows = tables.matching(ROWS, kind=kind, title=title)
    for case in (*known.MAPS, *known.OTHERS):
        value, how = known.judged(rows, case)
        if how is not None:
            assert how in known.expected(title, case, rows[0]["forgives"]), (case, value)


def test_scores_that_do_not_forgive_a_rotation_see_it() -> None:
    blind = [
        title
        for title in TITLES
        for rows in [tables.matching(ROWS, kind="continuous", title=title)]
        if known.judged(rows, "rotation")[1] == "="
    ]
    forgiving = {row["title"] for row in ROWS if row["forgives"] in ("affine", "any")}
    assert set(blind) == forgiving


@pytest.mark.parametrize("case", ["identity", "order, sign", "rotation", "copied", "noise"])
def test_a_small_live_run_says_the_same(case: str) -> None:
    metrics = ("mcc", "mcc_spearman", "r2", "mig", "factor_vae")
    for row in known.cell(kind="continuous", case=case, seed=5, rows=600, metrics=metrics):
        committed = tables.matching(ROWS, kind="continuous", case=case, title=row["title"])
        assert row["value"] == pytest.approx(np.mean([r["value"] for r in committed]), abs=0.12), row["title"]


def test_a_planted_wrong_value_is_noticed() -> None:
    rows = [dict(row) for row in tables.matching(ROWS, kind="continuous", title="MIG")]
    for row in rows:
        row["value"] = 0.98 if row["case"] == "copied" else row["value"]
    assert known.judged(rows, "copied")[1] not in known.expected("MIG", "copied", "element-wise")
