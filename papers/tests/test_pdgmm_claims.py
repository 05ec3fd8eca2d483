"""Claims of the studies of degenerate mixtures: every published figure once, beside values that one finds by hand."""

import csv
from pathlib import Path
from statistics import fmean, stdev

import numpy as np
import pytest

from noumena.studies import rows as tables
from noumena.studies.claims import NOT_COMPARABLE, NOT_RUN, StudyClaim, commit
from pdgmm import (
    ball_claims,
    balls,
    settings,
    slopes,
    table1,
    table4,
    table5,
    table6,
    table8,
    table9,
    table10,
    table11,
    table17,
    table18,
    table19,
    table20,
)

RESULTS = Path(__file__).parents[2] / "results" / "pdgmm"
RUN = (table1, table4, table5, table6, table8, table9, table10, table11, table17, table18, table19, table20, slopes)
STUDIES = (*RUN, ball_claims)
PRINTED = {
    table1: (22 - 5) * 4,  # the base row is printed six times
    table4: 22 - 6,
    table5: 5 * 3 + 2,
    table6: 9 + 4,
    table8: (22 - 5) * 3,  # its first column is Table 1's
    table9: (18 - 4) * 2,
    table10: 5 * 2,
    table11: 21 * 3,
    table17: 13 * 4,
    table18: 3 * 2,
    table19: 4,
    table20: 14 + 3,
    slopes: 0,
    ball_claims: 2 + 4 + 6 + 4 + 2,
}


def named(study):
    return study.__name__.rsplit(".", 1)[-1]


def raw(study, **wanted):
    """Lines of a committed file as text, without the library's reader."""
    with (RESULTS / named(study) / "rows.csv").open(newline="", encoding="utf-8") as file:
        lines = list(csv.DictReader(file))
    return [line for line in lines if all(line[name] == value for name, value in wanted.items())]


def of(claims, where, metric):
    found = [claim for claim in claims if (claim.where, claim.metric) == (where, metric)]
    assert len(found) == 1
    return found[0]


def committed(study):
    return study.claims(tables.read(RESULTS / named(study) / "rows.csv"))


BASE = {"n": "10", "edges": "1", "layers": "10", "active": "half", "shift": "0.0", "angle": "0.0"}


# ---- names and figures -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("study", STUDIES, ids=named)
def test_every_printed_figure_has_one_claim_of_its_own_name(study, tmp_path):
    claims = study.claims([])
    assert len(claims) == PRINTED[study]
    assert all(isinstance(claim, StudyClaim) for claim in claims)
    commit(claims, tmp_path / "verdicts.csv")


@pytest.mark.parametrize("study", STUDIES, ids=named)
def test_without_rows_nothing_is_claimed(study):
    claims = study.claims([])
    assert all(claim.ours == () and claim.baseline is None for claim in claims)
    assert {claim.verdict for claim in claims} <= {NOT_RUN, NOT_COMPARABLE}
    assert study is table20 or all(
        curve.published or not curve.points for f in getattr(study, "figures", lambda _: [])([]) for curve in f.curves
    )


@pytest.mark.parametrize(
    ("study", "where", "metric", "figure"),
    [
        (table1, "Table 1: ρ = 1 var", "MCC of stage 2", (0.45, 0.04)),
        (table1, "Table 1: M = 3", "R² of stage 1", (0.99, 0.01)),
        (table1, "Table 1: n = 20", "MCC of VaDE", (0.23, 0.15)),
        (table4, "Table 4: θ = 0", "MCC of stage 2", (0.96, 0.03)),
        (table5, "Table 5: n = 10", "seconds", (404.0, None)),
        (table6, "Table 6: sparsity level 0.1", "MCC", (0.90, 0.08)),
        (table6, "Table 7: learning rate 0.0001", "MCC", (0.97, 0.01)),
        (table8, "Table 8: δ = 1", "MCC of the oracle", (0.73, 0.16)),
        (table8, "Table 8: n = 5", "MCC without sparsity", (0.57, 0.02)),
        (table9, "Table 9: k = 2", "R² of VaDE", (0.74, 0.12)),
        (table9, "Table 9: θ = 15", "R²", (0.94, 0.01)),
        (table10, "Table 10: n+10", "R²", (0.83, None)),
        (table11, "Table 11: n = 40", "SHD(ẑ)", (39.8, 17.75)),
        (table17, "Table 17: ρ = 1 var", "MCC, Gumbel", (0.59, 0.07)),
        (table18, "Table 18: n = 5", "MCC of stage 2", (0.63, None)),
        (table19, "Table 19: k = 3", "R² of stage 1", (0.85, None)),
        (table20, "Table 20: 1+1+2+6, block 3", "own R²", (0.895, None)),
        (table20, "Table 20: 1+1+1+3+4", "largest other R²", (0.03, None)),
        (ball_claims, "Table 15: ball 4", "R²", (0.407, 0.375)),
        (ball_claims, "Table 16: y2", "R²", (0.99, None)),
        (ball_claims, "Table 16", "largest other R²", (0.03, None)),
    ],
)
def test_a_claim_has_the_figure_of_its_line_of_the_paper(study, where, metric, figure):
    claim = of(study.claims([]), where, metric)
    assert (claim.published, claim.spread) == pytest.approx(figure)
    assert claim.runs == (None if figure[1] is None else 5)


def test_differences_of_graphs_are_those_that_the_paper_prints():
    found = [claim.published for claim in table11.claims([]) if claim.metric == "SHD(ẑ) − SHD(z)"]
    sizes, graphs, depths, shares = (2.4, 2.4, 14.2, 26.2), (2.4, 2.8, 1.6), (1.2, 2.4, 7.0), (19.6, 2.4, 5.6)
    assert found == [*sizes, *graphs, *depths, *shares, 2.4, 15.0, 20.0, 20.4, 2.4, 15.8, 18.2, 16.9]


def test_the_figures_of_balls_are_those_of_their_study():
    assert ball_claims.PUBLISHED == balls.PUBLISHED
    assert ball_claims.TABLE16 == balls.TABLE16
    assert set(ball_claims.SHOWN) == set(balls.ARMS)


# ---- committed rows ----------------------------------------------------------------------------------------------


def test_the_flow_stands_for_stage_2_and_the_best_of_what_learns_nothing_beside_it():
    shifted = {**BASE, "shift": "2.0"}
    means = {m: fmean(float(r["mcc"]) for r in raw(table1, **shifted, method=m)) for m in ("x", "pca", "ica", "flow")}
    claim = of(committed(table1), "Table 1: δ = 2", "MCC of stage 2")
    assert claim.mean == pytest.approx(means["flow"])
    assert len(claim.ours) == len(raw(table1, **shifted, method="flow")) == 5
    best = max(("x", "pca", "ica"), key=means.__getitem__)
    assert claim.baseline == (best, pytest.approx(means[best]))
    assert claim.verdict == "better"


def test_a_rotated_world_is_worse_where_the_paper_has_more():
    claim = of(committed(table1), "Table 1: θ = 15", "MCC of stage 2")
    assert claim.mean == pytest.approx(
        fmean(float(r["mcc"]) for r in raw(table1, **{**BASE, "angle": "15.0"}, method="flow"))
    )
    assert claim.verdict == "worse"


def test_the_base_row_counts_once():
    claims = committed(table1)
    base = tuple(float(r["r2"]) for r in raw(table1, **BASE, method="flow"))
    assert [claim.where for claim in claims if claim.ours == base] == ["Table 1: n = 10"]
    assert not {f"Table 1: {name}" for name in ("k = 1", "M = 10", "ρ = 50 %", "δ = 0", "θ = 0")} & {
        claim.where for claim in claims
    }


def test_x_itself_stands_beside_what_is_not_run_and_is_not_compared():
    first, second = of(committed(table1), "Table 1: n = 5", "MCC of stage 1"), committed(table8)
    without = of(second, "Table 8: n = 5", "MCC without sparsity")
    expected = tuple(float(r["mcc"]) for r in raw(table1, **{**BASE, "n": "5"}, method="x"))
    assert first.ours == without.ours == expected
    assert {first.verdict, without.verdict} == {NOT_COMPARABLE}
    assert {of(second, "Table 8: n = 5", m).verdict for m in ("MCC of the oracle", "MCC of VaDE")} == {NOT_RUN}


def test_independent_latents_have_one_world_which_counts_once_for_each_of_its_figures():
    claims = committed(table4)
    base = tuple(float(r["mcc"]) for r in raw(table4, **{**BASE, "edges": "0"}, method="flow"))
    same = [claim for claim in claims if claim.ours == base]
    assert same[0].where == "Table 4: n = 10"
    figures = [(claim.published, claim.spread) for claim in same]
    assert len(set(figures)) == len(figures) < 6


def test_only_the_settings_that_the_paper_uses_are_compared():
    claims = committed(table6)
    compared = [claim.where for claim in claims if claim.not_comparable is None]
    assert compared == ["Table 6: sparsity level 0.01", "Table 7: learning rate 0.0001"]
    default = raw(table6, setting="learning rate of flow", value=str(settings.RATE))
    assert of(claims, compared[0], "MCC").ours == tuple(float(r["mcc"]) for r in default) != ()


def test_an_autoencoder_stands_for_stage_1_where_nothing_is_sparse():
    claim = of(committed(table9), "Table 9: k = 3", "R²")
    world = {"n": "10", "edges": "3", "layers": "10", "angle": "0.0"}
    assert claim.ours == tuple(float(r["r2"]) for r in raw(table9, **world, method="autoencoder")) != ()
    assert of(committed(table9), "Table 9: k = 3", "R² of VaDE").verdict == NOT_COMPARABLE


def test_graphs_are_compared_seed_by_seed_and_fewer_errors_are_better():
    claims = committed(table11)
    flow, before = raw(table11, **BASE, method="flow"), raw(table11, **BASE, method="z before masks")
    least = {r["seed"]: float(r["shd"]) for r in before}
    assert of(claims, "Table 11: M = 10", "SHD(z)").ours == tuple(least.values())
    assert of(claims, "Table 11: M = 10", "SHD(ẑ)").ours == tuple(float(r["shd"]) for r in flow)
    gaps = tuple(float(r["shd"]) - least[r["seed"]] for r in flow)
    assert of(claims, "Table 11: M = 10", "SHD(ẑ) − SHD(z)").ours == gaps != ()
    assert of(claims, "Table 11: ρ = 1 var", "SHD(ẑ)").verdict == "better"


def test_blocks_are_compared_by_their_mean_in_the_graph_of_the_base_row():
    claims = committed(table20)
    lines = raw(table20, blocks="1+1+2+6", edges="1", method="flow")
    matrices = [np.array([row.split() for row in line["matrix"].split("; ")], dtype=float) for line in lines]
    expected = [np.sort(matrix[:, 3])[-6:].mean() for matrix in matrices]
    assert of(claims, "Table 20: 1+1+2+6, block 4", "own R²").ours == pytest.approx(expected, abs=1e-4)
    leak = of(claims, "Table 20: 1+1+2+6", "largest other R²")
    assert leak.ours == tuple(float(line["largest leak"]) for line in lines) != ()
    assert leak.better == "lower"
    assert leak.baseline is not None
    means = [fmean(float(r["largest leak"]) for r in raw(table20, blocks="1+1+2+6", edges="1", method=m)) for m in
             ("x", "pca", "ica")]  # fmt: skip
    assert leak.baseline[1] == pytest.approx(min(means))


@pytest.mark.parametrize("study", [table10, table18, table19], ids=named)
def test_worlds_that_are_not_theirs_are_shown_and_not_compared(study):
    claims = committed(study)
    assert all(claim.ours and claim.verdict == NOT_COMPARABLE for claim in claims)


# ---- figures -----------------------------------------------------------------------------------------------------


def test_a_curve_has_the_mean_and_deviation_of_its_rows():
    drawing = table1.figures(tables.read(RESULTS / "table1" / "rows.csv"))[0]
    assert (drawing.title, drawing.across, drawing.up) == ("Table 1: MCC, by n", "n", "MCC")
    flow = next(curve for curve in drawing.curves if curve.name == "flow")
    values = [float(r["mcc"]) for r in raw(table1, **{**BASE, "n": "20"}, method="flow")]
    assert flow.points[2] == (20.0, pytest.approx(fmean(values)), pytest.approx(stdev(values)))
    assert {c.name for c in drawing.curves if c.baseline} == {"x", "pca", "ica"}


def test_published_curves_go_over_the_worlds_of_their_group():
    drawings = {drawing.title: drawing for drawing in table1.figures([])}
    shares = next(c for c in drawings["Table 1: MCC, by ρ"].curves if c.name == "published stage 2")
    assert shares.points == (("1 var", 0.45, 0.04), ("50 %", 0.97, 0.01), ("75 %", 0.93, 0.04))
    angles = next(c for c in drawings["Table 1: R², by θ"].curves if c.published)
    assert [point[:2] for point in angles.points] == [(0, 0.94), (15, 0.93), (30, 0.93), (45, 0.93)]


# ---- balls -------------------------------------------------------------------------------------------------------


def ball_rows():
    matrix = "0.10 0.90 0.00 0.00; 0.80 0.20 0.00 0.00; 0.00 0.00 0.70 0.05; 0.00 0.30 0.00 0.60"
    cell = {"balls": 2, "freeze": "ball", "refused": None}
    free = {"balls": 2, "freeze": "coordinate", "seed": 0}
    return [
        {**cell, "seed": 0, "method": "places", "ball 1": 0.9, "ball 2": 0.8},
        {**cell, "seed": 1, "method": "places", "ball 1": 1.0, "ball 2": 0.6},
        {**cell, "seed": 0, "method": "pca", "ball 1": 0.2, "ball 2": 0.3},
        {**cell, "seed": 0, "method": "pixels", "ball 1": 0.1, "ball 2": 0.4},
        {**free, "method": "places", "matrix": matrix, "mcc": 0.85},
        {**free, "method": "ica", "refused": "nothing varies"},
    ]


def test_balls_have_their_places_and_the_best_of_what_learns_none():
    claims = ball_claims.claims(ball_rows())
    first, second = (of(claims, f"Table 13: ball {k}", "R²") for k in (1, 2))
    assert (first.ours, first.baseline) == ((0.9, 1.0), ("pca", 0.2))
    assert (second.ours, second.baseline) == ((0.8, 0.6), ("pixels", 0.4))
    assert of(claims, "Table 14: ball 1", "R²").verdict == NOT_RUN


def test_coordinates_have_a_latent_each_and_the_lost_figure_is_not_compared():
    claims = ball_claims.claims(ball_rows())
    own = [of(claims, f"Table 16: {name}", "R²").ours for name in ("x1", "y1", "x2", "y2")]
    assert own == [(0.9,), (0.8,), (0.7,), (0.6,)]
    other = of(claims, "Table 16", "largest other R²")
    assert (other.ours, other.better) == ((0.3,), "lower")
    lost = of(claims, "Appendix D.11", "MCC")
    assert (lost.ours, lost.verdict) == ((0.85,), NOT_COMPARABLE)


def test_a_figure_of_balls_has_one_point_for_every_ball():
    drawing = ball_claims.figures(ball_rows())[0]
    curves = {curve.name: curve for curve in drawing.curves}
    assert curves["places"].points[0] == ("ball 1", pytest.approx(0.95), pytest.approx(stdev([0.9, 1.0])))
    assert curves["published"].points == (("ball 1", 0.958, 0.052), ("ball 2", 0.914, 0.148))
    assert curves["features"].points == ()
    assert curves["pca"].baseline


# ---- miniatures --------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("study", [study for study in RUN if study is not table8], ids=named)
def test_a_miniature_runs_and_is_compared(study):
    cells = study.tiny()
    assert 2 <= len(cells) <= 6
    assert all(isinstance(value, str | int | float | bool | None) for cell in cells for value in cell.values())
    rows = []
    for cell in cells:
        found = study.cell(**cell)
        rows += [{**cell, **row} for row in (found if isinstance(found, list) else [found])]
    assert study.compare(rows) != study.compare([])
    values = [claim.ours for claim in study.claims(rows)]
    assert any(values) or study in (table5, slopes)
    assert all(np.isfinite(value) for ours in values for value in ours)


def test_the_miniature_of_what_sparsity_does_is_that_of_the_first_table():
    assert table8.cell is table1.cell
    assert table8.tiny() == table1.tiny()


@pytest.mark.parametrize("study", RUN, ids=named)
def test_a_study_says_what_it_costs_and_what_counts_as_equal(study):
    assert study.BUDGET > 0
    assert study.TOLERANCE > 0
    assert all(claim.tolerance > 0 for claim in study.claims([]))
