"""The page of an audit shows matrices, pictures, chance and the warning, escaped and self-contained."""

from xml.etree import ElementTree

import numpy as np
import pytest
from scipy.stats import ortho_group

from noumena.audits import audit
from noumena.report import render
from noumena.report.audits import audit_page, group_table, pair_table

HOSTILE = "<script>alert(1)</script>\"&'"
SVG = "{http://www.w3.org/2000/svg}"
Z = np.random.default_rng(0).laplace(size=(600, 3))
OTHER = Z @ ortho_group.rvs(3, random_state=0) + 0.05 * np.random.default_rng(1).normal(size=Z.shape)


@pytest.fixture(scope="module")
def found():
    return audit({HOSTILE: Z, "second": OTHER, "far": Z**3}, input=Z, folds=2, shuffles=1)


def test_the_page_holds_verdict_warning_chance_and_every_matrix(found):
    page = render(audit_page(found))
    assert page.count("<script") == 1  # what saves the tables
    assert "<script>alert" not in page
    assert "http://" not in page.replace("http://www.w3.org/2000/svg", "")
    assert "https://" not in page
    for piece in ("Consistency across runs is not correctness", "by chance", "Can ICA be trusted?", "not stable"):
        assert piece in page
    assert page.count("Errors up to: ") == len(found.kinds) == 5
    assert "nearest pair" in page
    assert "farthest pair" in page
    assert "What the input explains linearly" in page


def test_stable_runs_are_not_called_identified():
    chapter = audit_page(audit([Z, Z], ica=False)).chapters[0]
    assert chapter.verdict.kind == "stable, right or wrong"
    assert len(chapter.figures) == 1
    assert [table.caption for table in chapter.tables] == ["Errors over the diameter"]


def test_tables_hold_the_numbers_of_the_audit(found):
    groups = {row[0]: row for row in group_table(found).rows}
    assert groups["affine"][1] == pytest.approx(np.nanmean(found.errors["affine"]))
    assert groups["rigid+scale"][5] == pytest.approx(np.nanmean(found.chance["rigid+scale"]))
    pairs = pair_table(found)
    assert len(pairs.rows) == 6
    assert pairs.rows[0][3] == np.nanmax(found.errors["rigid+scale"])
    first = next(row for row in pairs.rows if row[:2] == ("second", HOSTILE))
    assert first[-2] == found.pair(HOSTILE, "second").efficiency
    assert first[-1] == "rigid+scale"


def test_matrices_are_drawn_by_the_audit_and_say_what_they_are(found):
    figures = audit_page(found).chapters[1].figures
    assert [figure.title for figure in figures] == [f"Errors up to: {kind}" for kind in found.kinds]
    drawing = ElementTree.fromstring(figures[1].svg)
    error = found.errors["rigid+scale"][0, 1]
    assert f"{error:.3f}".removeprefix("0") in [node.text for node in drawing.iter(f"{SVG}text")]
    told = [node.text for node in drawing.iter(f"{SVG}title")]
    assert f"second onto {HOSTILE}: {error:.4f}, chance {found.chance['rigid+scale'][0, 1]:.4f}" in told


def test_a_picture_draws_a_line_from_every_row_to_its_image(found):
    page = audit_page(found)
    drawing = ElementTree.fromstring(page.chapters[0].figures[0].svg)
    kinds = {node.get("class"): node[0].get("d", "") for node in drawing.iter(f"{SVG}g") if node.get("class")}
    rows = len(found.overlays[0].points)
    assert rows == 300
    assert kinds["gap"].count("L") == kinds["target"].count("M") == kinds["source"].count("M") == rows
    reach = [np.linalg.norm(o.points - o.moved, axis=1).mean() for o in found.overlays]
    assert reach[0] < reach[1]
    assert found.overlays[0].error == found.nearest.errors["rigid+scale"]
    assert found.overlays[1].error == found.farthest.errors["rigid+scale"]


def test_one_column_is_drawn_as_a_line():
    overlay = audit([Z[:, :1], 2 * Z[:, :1]], ica=False).overlays[0]
    assert (overlay.points[:, 1] == 0).all()
    assert (overlay.plot().lines[1].get_ydata() == 0).all()
