"""The page of an audit shows matrices, pictures, chance and the warning, escaped and self-contained."""

from xml.etree import ElementTree

import numpy as np
import pytest
from scipy.stats import ortho_group

from noumena.audits import Overlay, audit
from noumena.checks import InputError
from noumena.report import render
from noumena.report.audits import audit_page, error_matrix, group_table, pair_table, procrustes

HOSTILE = "<script>alert(1)</script>\"&'"
SVG = "{http://www.w3.org/2000/svg}"
Z = np.random.default_rng(0).laplace(size=(600, 3))
OTHER = Z @ ortho_group.rvs(3, random_state=0) + 0.05 * np.random.default_rng(1).normal(size=Z.shape)


@pytest.fixture(scope="module")
def found():
    return audit({HOSTILE: Z, "second": OTHER, "far": Z**3}, input=Z, folds=2, shuffles=1)


def words(drawing):
    return [node.text or "" for node in ElementTree.fromstring(drawing).iter(f"{SVG}text")]


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


def test_a_matrix_writes_errors_and_shades_them_by_chance():
    nan = float("nan")
    drawing = error_matrix([[nan, 0.031], [0.4, nan]], [[nan, 0.2], [0.2, nan]], names=["a", HOSTILE], title=HOSTILE)
    root = ElementTree.fromstring(drawing)
    assert not list(root.iter(f"{SVG}script"))
    assert {".031", ".400"} <= set(words(drawing))
    shades = [float(node.get("fill-opacity")) for node in root.iter(f"{SVG}rect") if node.get("fill-opacity")]
    assert shades == pytest.approx([0.06 + 0.94 * 0.155, 1.0], abs=0.01)
    told = [node.text for node in root.iter(f"{SVG}title")]
    assert f"{HOSTILE} onto a: 0.0310, chance 0.2000" in told
    with pytest.raises(InputError, match="values must have shape"):
        error_matrix([[1.0]], [[1.0]], names=["a", "b"], title="")


def test_a_picture_draws_a_line_from_every_row_to_its_image(found):
    overlay = found.overlays[0]
    root = ElementTree.fromstring(procrustes(overlay))
    by_class = {node.get("class"): node.get("d") for node in root.iter(f"{SVG}path")}
    rows = len(overlay.points)
    assert rows == 300
    assert by_class["gap"].count("L") == by_class["target"].count("M") == by_class["source"].count("M") == rows
    reach = [np.linalg.norm(o.points - o.moved, axis=1).mean() for o in found.overlays]
    assert reach[0] < reach[1]
    assert found.overlays[0].error == found.nearest.errors["rigid+scale"]
    assert found.overlays[1].error == found.farthest.errors["rigid+scale"]
    same = Overlay(HOSTILE, HOSTILE, 0.0, np.zeros((3, 2)), np.zeros((3, 2)))
    assert not list(ElementTree.fromstring(procrustes(same)).iter(f"{SVG}script"))


def test_points_that_cannot_be_drawn_are_one_sentence():
    with pytest.raises(InputError, match="must be finite to be drawn"):
        procrustes(Overlay("a", "b", 0.0, np.zeros((3, 2)), np.full((3, 2), np.nan)))


def test_one_column_is_drawn_as_a_line():
    overlay = audit([Z[:, :1], 2 * Z[:, :1]], ica=False).overlays[0]
    assert (overlay.points[:, 1] == 0).all()
    assert procrustes(overlay).count("<path") == 3
