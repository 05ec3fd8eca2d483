"""Claims of diverse dictionary learning: every printed number once, our rows beside it, miniatures that run."""

import csv
import re
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from ddl import fig4, fig5, settings, table1, table3, table4, table5, table6, table7, wide
from noumena.studies import claims as verdicts
from noumena.studies import rows as tables

RESULTS = Path(__file__).parents[2] / "results" / "ddl"
PRINTED = {fig4: 15, fig5: 6, table1: 54, table3: 9, table4: 9, table5: 18, table6: 8, table7: 20, wide: 0}
STUDIES = tuple(PRINTED)
IMAGES = (table1, table6, table7)
SYNTHETIC = tuple(study for study in STUDIES if study not in IMAGES)
FILE = {fig5: "table3", table6: "table1", table7: "table1"}


def name_of(study) -> str:
    return study.__name__.rsplit(".", 1)[1]


def committed(study):
    return tables.read(RESULTS / FILE.get(study, name_of(study)) / "rows.csv")


def found(study, rows):
    return {(claim.where, claim.metric): claim for claim in study.claims(rows)}


def numbers(file, column, **wanted):
    """A column of a file of rows, read without the library."""
    with (RESULTS / file / "rows.csv").open(newline="") as lines:
        return [float(r[column]) for r in csv.DictReader(lines) if all(r[k] == v for k, v in wanted.items())]


every = pytest.mark.parametrize("study", STUDIES, ids=name_of)


# ---- what is published -------------------------------------------------------------------------------------------


@every
def test_every_printed_number_has_one_claim_with_a_name_of_its_own(study):
    claims = study.claims([])
    assert len(claims) == len({(claim.where, claim.metric) for claim in claims}) == PRINTED[study]


@every
def test_nothing_is_said_to_hold_where_nothing_has_run(study):
    claims = study.claims([])
    assert {claim.verdict for claim in claims} <= {"not run", "not comparable"}
    assert all(claim.ours == () and claim.baseline is None for claim in claims)


@pytest.mark.parametrize(
    ("study", "printed"),
    [
        (table3, [".8258 .0085 .7288 .0280 .8257 .0240", ".8449 .0043 .6301 .0810 .8352 .0396",
                  ".8048 .0080 .5119 .1482 .7789 .0174"]),
        (table4, [".8258 .0085 .8210 .0088 .3814 .0369", ".8449 .0043 .8381 .0093 .5467 .0326",
                  ".8048 .0080 .7944 .0134 .4576 .1075"]),
        (table5, [".6789 .0364 .7317 .1092 .6989 .0133", ".7313 .0242 .7294 .0147 .7513 .0007",
                  ".7765 .0363 .7826 .0244 .7681 .0455", ".8145 .0221 .8032 .0327 .7979 .0421",
                  ".8268 .0268 .8232 .0187 .8101 .0112", ".8256 .0088 .8420 .0401 .8099 .0296"]),
        (table6, [".708 .026 .135 .030", ".501 .434 .113 .069", ".752 .040 .144 .053", ".723 .023 .141 .004"]),
        (table7, [".708 .026 .135 .030 .599 .064 .345 .047", ".501 .434 .113 .069 .440 .065 .325 .028",
                  ".165 .235 .030 .007 .499 .090 .272 .054", ".321 .455 .082 .077 .506 .056 .254 .067",
                  ".752 .040 .144 .053 .639 .084 .384 .031"]),
    ],
    ids=["table3", "table4", "table5", "table6", "table7"],
)  # fmt: skip
def test_the_numbers_are_those_of_the_paper_line_by_line(study, printed):
    expected = [float(word) for line in printed for word in line.split()]
    assert [value for claim in study.claims([]) for value in (claim.published, claim.spread)] == expected


def test_table_1_is_told_row_by_row_then_data_set_by_data_set():
    claims = found(table1, [])
    names = list(claims)
    assert names[:2] == [("Table 1: FactorVAE, none, Shapes3D", score) for score in ("FactorVAE score", "DCI")]
    assert names[-1] == ("Table 1: DisCo, dependency, MPI3D", "DCI")
    row = [claims[f"Table 1: EncDiff, latent, {data}", s] for data in table1.PUBLISHED for s in table1.SCORES]
    assert [claim.published for claim in row] == [0.967, 0.891, 0.729, 0.241, 0.879, 0.684]
    assert {(claim.runs, claim.better) for claim in row} == {(3, "higher")}


def test_the_tolerance_is_the_median_of_the_printed_deviations():
    def median(*studies):
        return float(np.median([claim.spread for study in studies for claim in study.claims([])]))

    assert pytest.approx(median(table3, table4, table5), abs=5e-4) == settings.TOLERANCE
    assert pytest.approx(median(table1), abs=5e-3) == table1.TOLERANCE
    assert all(claim.tolerance == study.TOLERANCE for study in STUDIES for claim in study.claims([]))


# ---- ours beside it ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("study", "where", "wanted"),
    [
        (table3, "Table 3: OroJaR, d = 4", {"method": "OroJaR", "d": "4", "recipe": "ours", "world": "diverse"}),
        (
            table4,
            "Table 4: dependency sparsity with noise, d = 5",
            {"method": "dependency sparsity", "d": "5", "recipe": "ours", "noise": "0.1"},
        ),
        (table4, "Table 4: dense base, d = 3", {"d": "3", "recipe": "ours", "world": "dense"}),
        (table5, "Table 5: λ = 0.03, d = 5", {"weight": "0.03", "d": "5", "recipe": "paper"}),
        (fig5, "Fig. 5: base, d = 4", {"d": "4", "recipe": "ours", "world": "dense"}),
    ],
    ids=["table3", "table4 noise", "table4 dense", "table5", "fig5"],
)
def test_ours_are_the_rows_of_the_same_method_and_world(study, where, wanted):
    file = FILE.get(study, name_of(study))
    claim = found(study, committed(study))[where, "MCC"]
    assert sorted(claim.ours) == sorted(numbers(file, "mcc", **wanted))
    assert len(claim.ours) == (3 if study is table5 else 10)
    means = {name: np.mean(numbers(file, column, **wanted)) for column, name in table3.TRIVIAL.items()}
    best = max(means, key=means.__getitem__)
    assert claim.baseline == (best, pytest.approx(means[best]))


def test_figure_4_has_the_square_worlds_with_independent_latents():
    claim = found(fig4, committed(fig4))["Fig. 4: SymDiff, d = 5", "R²"]
    wanted = {"world": "square", "d": "5", "law": "unit gaussian", "method": "dependency sparsity"}
    assert sorted(claim.ours) == sorted(numbers("fig4", "r2", measure="SymDiff", **wanted))
    assert len(claim.ours) == 3
    assert claim.published is None


def test_images_stand_beside_those_of_the_data_set_in_their_place():
    wanted = {"data": "Sprites", "method": "FactorVAE", "bias": "dependency"}
    for study, number in ((table1, 1), (table7, 7)):
        claim = found(study, committed(study))[f"Table {number}: FactorVAE, dependency, MPI3D", "DCI"]
        assert sorted(claim.ours) == sorted(numbers("table1", "DCI", **wanted))
        assert len(claim.ours) == 3
        baselines = {m: numbers("table1", "DCI", data="Sprites", method=m)[0] for m in ("pixels", "PCA", "PCA + ICA")}
        assert claim.baseline == max(baselines.items(), key=lambda one: one[1])


@pytest.mark.parametrize("study", [fig4, fig5, *IMAGES], ids=name_of)
def test_other_data_and_drawn_figures_are_not_judged_and_the_reason_is_given(study):
    rows = committed(study)
    claims = study.claims(rows)
    assert any(claim.ours for claim in claims)
    assert {claim.verdict for claim in claims} == {"not comparable"}
    if study in IMAGES:
        for claim in claims:
            ours, theirs = claim.not_comparable.removeprefix("other data, ").split(" in place of ")
            assert ours in {"rooms", "dSprites", "Sprites"}
            assert study is table6 or claim.where.endswith(theirs)
        assert {claim.not_comparable for claim in table6.claims([])} == {"other data, rooms in place of Cars3D"}
    else:
        assert all("prints no numbers" in claim.not_comparable for claim in claims)


def test_a_row_of_128_pixels_is_not_one_of_64():
    arm = {"data": "rooms", "method": "FactorVAE", "bias": "dependency", "FactorVAE score": 0.5, "DCI": 0.25}
    claims = found(table6, [{**arm, "size": 64}, {**arm, "size": 128, "DCI": 0.75}])
    assert claims["Table 6: FactorVAE, dependency, 64 pixels", "DCI"].ours == (0.25,)
    assert claims["Table 6: FactorVAE, dependency, 128 pixels", "DCI"].ours == (0.75,)


@pytest.mark.parametrize(("mcc", "method", "base"), [(0.95, "better", "worse"), (0.1, "worse", "worse")])
def test_a_high_score_is_no_gain_where_the_paper_shows_a_failure(mcc, method, base):
    world = {"d": 3, "method": settings.DEPENDENCY, "recipe": "ours", "noise": 0.0, "mcc": mcc}
    fourth = found(table4, [{**world, "world": kind} for kind in ("diverse", "dense") for _ in range(2)])
    assert fourth["Table 4: dependency sparsity without noise, d = 3", "MCC"].verdict == method
    assert fourth["Table 4: dense base, d = 3", "MCC"].verdict == base
    fifth = found(table5, [{"d": 4, "recipe": "paper", "weight": w, "mcc": mcc} for w in (0.0, 0.0, 0.05, 0.05)])
    assert fifth["Table 5: λ = 0.05, d = 4", "MCC"].verdict == method
    assert fifth["Table 5: λ = 0, d = 4", "MCC"].verdict == base


def test_a_failed_cell_and_another_recipe_are_not_counted():
    row = {"world": "diverse", "d": 3, "method": settings.OROJAR, "recipe": "ours", "noise": 0.0, "mcc": 0.5}
    rows = [row, {**row, "recipe": "paper", "mcc": 0.9}, {**row, "error": "E"}, {**row, "noise": 0.1, "mcc": 0.8}]
    assert found(table3, rows)["Table 3: OroJaR, d = 3", "MCC"].ours == (0.5,)


# ---- miniatures --------------------------------------------------------------------------------------------------


@cache
def ran(cell, parameters):
    """The rows of a cell, run once."""
    return cell(**dict(parameters))


@pytest.mark.slow
@pytest.mark.parametrize("study", SYNTHETIC, ids=name_of)
def test_a_miniature_runs_and_is_compared(study):
    cells = study.tiny()
    assert 2 <= len(cells) <= 6
    assert all(isinstance(v, str | int | float | bool | None) for cell in cells for v in cell.values())
    rows = [{**cell, **row} for cell in cells for row in ran(study.cell, tuple(cell.items()))]
    assert study.compare(rows)
    claims = study.claims(rows)
    assert study is wide or any(claim.ours for claim in claims)
    assert len(verdicts.claims_table(claims).splitlines()) == 1 + PRINTED[study]
    drawn = (fig5 if study is table4 else study).figures(rows)  # the former shows the worlds of Table 4
    assert any(not curve.published and curve.points for figure in drawn for curve in figure.curves)


@pytest.mark.parametrize("study", IMAGES, ids=name_of)
def test_images_have_no_miniature(study):
    assert study.tiny() == []


@every
def test_a_study_says_what_it_takes(study):
    assert study.BUDGET > 0
    spent = sum(row["cell seconds"] or 0 for row in committed(study)) / 60
    assert study in IMAGES or spent <= study.BUDGET <= spent + 1


# ---- files -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("study", [table1, table7], ids=name_of)
def test_a_missing_file_is_named_and_rooms_need_none(study, monkeypatch, tmp_path):
    monkeypatch.delenv("NOUMENA_DSPRITES", raising=False)
    monkeypatch.setenv("NOUMENA_SPRITES", str(tmp_path / "s.npz"))
    cell = {"method": "FactorVAE", "bias": "none", "size": 64, "share": 1.0}
    assert "the variable NOUMENA_DSPRITES" in study.missing(data="dSprites", **cell)
    assert study.missing(data="Sprites", **cell) == "The file of Sprites must exist. Got s.npz."
    assert study.missing(data="rooms", **cell) is None
    (tmp_path / "s.npz").touch()
    assert study.missing(data="Sprites", **cell) is None


# ---- figures -----------------------------------------------------------------------------------------------------


def curve_of(figure, name):
    (found,) = [curve for curve in figure.curves if curve.name == name]
    return found


@pytest.mark.parametrize("study", [fig4, fig5, table3, table5, wide], ids=name_of)
def test_curves_are_ours_published_and_trivial_and_each_has_its_own_name(study):
    for figure in study.figures(committed(study)):
        names = [curve.name for curve in figure.curves]
        assert len(set(names)) == len(names) <= 8
        assert all(curve.points for curve in figure.curves)
        assert {"published" in curve.name for curve in figure.curves if curve.published} <= {True}
        assert any(curve.published for curve in figure.curves) == (study not in (fig4, wide))
        assert any(curve.baseline for curve in figure.curves) == (study is not fig4)
    assert all(curve.published or not curve.points for f in study.figures([]) for curve in f.curves)


def test_a_point_is_the_mean_and_deviation_over_the_seeds():
    (figure,) = fig5.figures(committed(fig5))
    dense = numbers("table3", "mcc", world="dense", d="4", recipe="ours")
    at, mean, deviation = curve_of(figure, "dense worlds").points[1]
    assert (at, mean) == (4, pytest.approx(np.mean(dense)))
    assert deviation == pytest.approx(np.std(dense, ddof=1))
    assert curve_of(figure, "base, published").points[1] == (4, 0.5467, 0.0326)
    x = numbers("table3", "x", world="dense", d="4", recipe="ours")
    assert curve_of(figure, "x itself, dense").points[1][1] == pytest.approx(np.mean(x))


def test_weights_and_parts_are_across_in_order():
    last = table5.figures(committed(table5))[-1]
    assert [p[0] for p in curve_of(last, "recipe paper").points] == ["0", "0.001", "0.005", "0.01", "0.03", "0.05"]
    assert curve_of(last, "published").points[0] == ("0", 0.6989, 0.0133)
    mccs = numbers("table5", "mcc", weight="0.001", d="5", recipe="ours")
    assert curve_of(last, "recipe ours").points[1][1] == pytest.approx(np.mean(mccs))
    parts = curve_of(fig4.figures(committed(fig4))[0], "none")
    assert [p[0] for p in parts.points] == ["Int", "SymDiff", "Comp A", "Comp B", "Ref"]
    refs = numbers("fig4", "r2", measure="Ref", world="square", law="unit gaussian", method="none", d="3")
    assert parts.points[-1][1] == pytest.approx(np.mean(refs))


def test_wide_worlds_are_drawn_up_to_twenty_latents():
    (figure,) = wide.figures(committed(wide))
    mccs = numbers("wide", "mcc", d="20", method="none")
    assert curve_of(figure, "none").points[-1][:2] == (20, pytest.approx(np.mean(mccs)))
    x = numbers("wide", "x", d="20", method="dependency sparsity")
    assert curve_of(figure, "x itself").points[-1][1] == pytest.approx(np.mean(x))


def test_one_value_has_no_deviation():
    assert settings.curve("one", {"a": [{"v": 0.25}], "b": [{"v": None}]}, "v").points == (("a", 0.25, None),)


@pytest.mark.parametrize(("page", "start"), [("studies", "The second table is new"), ("theory", "Measured in the")])
def test_leaks_quoted_in_prose_are_those_of_the_rows(page: str, start: str) -> None:
    text = next(line for line in (RESULTS.parents[1] / "docs" / f"{page}.md").read_text().splitlines() if start in line)
    groups: dict[tuple, list[float]] = {}
    for r in committed(fig4):
        for size in (None, r["d"]):
            if r["leak"] is not None:
                groups.setdefault((r["world"], r["law"], r["method"], r["measure"], size), []).append(r["leak"])
    found = {f"{np.mean(g):.3f} ± {np.std(g, ddof=1):.3f}".replace("0.", ".") for g in groups.values() if len(g) > 1}
    quoted = re.findall(r"\.\d+ ± \.\d+", text[text.index(start) :])
    assert len(quoted) >= 8
    assert set(quoted) <= found
