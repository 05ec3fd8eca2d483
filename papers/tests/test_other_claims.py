"""Claims of Matthes et al., Kivva et al., Nelson et al. and of the known answers: figures as published, our values."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import averages
from kivva import likelihood, pinwheel
from kivva import mnist as facets
from mechanisms import overlap
from near import deconfound, mnist, pairs, table2
from noumena.studies import rows as tables
from noumena.studies.claims import NOT_COMPARABLE, NOT_RUN, REPRODUCED, WORSE, StudyClaim, counted
from noumena.studies.rows import Row
from scores import known

RESULTS = Path(__file__).parents[2] / "results"
STUDIES: dict[str, ModuleType] = {
    "mechanisms/overlap": overlap,
    "kivva/likelihood": likelihood,
    "kivva/pinwheel": pinwheel,
    "kivva/mnist": facets,
    "near/mnist": mnist,
    "near/pairs": pairs,
    "near/table2": table2,
    "near/deconfound": deconfound,
    "scores/known": known,
}
ROWS = {name: tables.read(RESULTS / name / "rows.csv") for name in STUDIES}
CLAIMS: dict[str, list[StudyClaim]] = {name: study.claims(ROWS[name]) for name, study in STUDIES.items()}


def claim(study: str, where: str, metric: str) -> StudyClaim:
    """The one claim of that name."""
    (found,) = [c for c in CLAIMS[study] if c.where == where and c.metric == metric]
    return found


def mean(study: str, column: str, **there: Any) -> float:
    """The mean of a column, by hand."""
    found = [row[column] for row in ROWS[study] if all(row[name] == value for name, value in there.items())]
    return sum(found) / len(found)


def rows_of_tiny(study: ModuleType) -> list[Row]:
    found = []
    for parameters in study.tiny():
        rows = study.cell(**parameters)
        found += [{**parameters, **row} for row in (rows if isinstance(rows, list) else [rows])]
    return found


# ---- every study -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", STUDIES)
def test_claims_have_names_of_their_own_and_nothing_is_held_without_rows(name: str) -> None:
    names = [(c.where, c.metric) for c in CLAIMS[name]]
    assert len(set(names)) == len(names) > 0
    empty = STUDIES[name].claims([])
    assert {c.verdict for c in empty} <= {NOT_RUN, NOT_COMPARABLE}
    if name != "scores/known":  # whose scores are known from their rows
        assert [(c.where, c.metric) for c in empty] == names


@pytest.mark.parametrize("name", STUDIES)
def test_tolerances_are_the_study_s_and_a_failed_cell_adds_no_value(name: str) -> None:
    study = STUDIES[name]
    assert {c.tolerance for c in CLAIMS[name]} == {study.TOLERANCE}
    failed = [{**row, "error": "lost"} for row in ROWS[name]]
    assert not any(c.ours for c in study.claims(failed))


@pytest.mark.parametrize("name", STUDIES)
def test_the_budget_covers_what_the_committed_cells_took(name: str) -> None:
    minutes = sum(row.get("cell seconds") or 0 for row in ROWS[name]) / 60
    assert minutes <= STUDIES[name].BUDGET <= 1.3 * minutes + 1


@pytest.mark.slow
@pytest.mark.parametrize("name", STUDIES)
def test_tiny_cells_are_plain_complete_and_pass_through_comparison_and_claims(name: str) -> None:
    study = STUDIES[name]
    cells = study.tiny()
    assert 2 <= len(cells) <= 6
    assert {type(value) for cell in cells for value in cell.values()} <= {str, int, float, bool, type(None)}
    if hasattr(study, "missing"):
        assert [study.missing(**cell) for cell in cells] == [None] * len(cells)
    found = rows_of_tiny(study)
    assert len(found) >= len(cells)
    assert study.compare(found) != study.compare([])
    assert [(c.where, c.metric) for c in study.claims(found)]
    for figure in getattr(study, "figures", lambda _: [])(found):
        assert figure.curves


@pytest.mark.parametrize(
    ("study", "row", "variable"),
    [
        (facets, {"method": "PCA"}, "NOUMENA_MNIST"),
        (mnist, {"digit": 1}, "NOUMENA_MNIST"),
        (deconfound, {"question": "drug"}, "NOUMENA_CELLPAINTING"),
        (pairs, {"part": "ani"}, "NOUMENA_ANI1X"),
        (pairs, {"part": "dsprites"}, "NOUMENA_DSPRITES"),
        (table2, {"data": "dSprites"}, "NOUMENA_DSPRITES"),
        (table2, {"data": "Sprites"}, "NOUMENA_SPRITES"),
    ],
)
def test_a_cell_without_its_file_says_what_must_be_named(
    study: ModuleType, row: Row, variable: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv(variable, raising=False)
    assert f"by the variable {variable}." in study.missing(**row)
    monkeypatch.setenv(variable, str(tmp_path / "nowhere"))
    assert "must" in study.missing(**row)


def test_cells_with_their_files_lack_nothing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("digits.npz", *deconfound.FILES.values(), "h_networks.npz", "h_aev.npz"):
        (tmp_path / name).touch()
    monkeypatch.setenv("NOUMENA_MNIST", str(tmp_path / "digits.npz"))
    monkeypatch.setenv("NOUMENA_CELLPAINTING", str(tmp_path))
    monkeypatch.setenv("NOUMENA_ANI1X", str(tmp_path))
    assert facets.missing() is mnist.missing() is deconfound.missing() is pairs.missing(part="ani") is None


# ---- Matthes et al. (2026) -------------------------------------------------------------------------------------------


def test_overlap_has_our_score_beside_components_and_the_fall_of_the_published_recipe() -> None:
    assert counted(CLAIMS["mechanisms/overlap"])[NOT_COMPARABLE] == 12
    point = claim("mechanisms/overlap", "Curves: 5 slots, overlap 75%", "SIS")
    there = {"n_slots": 5, "overlap": 0.75, "method": "ours"}
    assert point.published is None
    assert point.mean == pytest.approx(mean("mechanisms/overlap", "sis", **there))
    assert point.baseline is not None
    assert point.baseline[1] == pytest.approx(mean("mechanisms/overlap", "sis_pca", **there))
    fall = claim(
        "mechanisms/overlap", "Curves: 2 slots, contrast 0.01, SIS falls from overlap 0% to 75%", "share of worlds"
    )
    assert sorted(fall.ours) == [0, 0, 1, 1, 1]
    assert fall.verdict == WORSE


def test_a_fall_is_told_within_worlds() -> None:
    shared = {"n_slots": 3, "method": "contrast 1"}
    scores = {(0.0, 0): 0.5, (0.75, 0): 0.4, (0.0, 1): 0.9, (0.75, 1): 0.95, (0.0, 2): 0.7}
    rows = [{**shared, "overlap": o, "seed": k, "sis": sis} for (o, k), sis in scores.items()]
    (fall,) = [c for c in overlap.claims(rows) if c.metric == "share of worlds" and c.ours]
    assert (fall.where.split(",")[:2], fall.ours) == (["Curves: 3 slots", " contrast 1"], (1.0, 0.0))


def test_figures_of_the_overlap_have_every_method_and_mark_what_learns_nothing() -> None:
    figures = overlap.figures(ROWS["mechanisms/overlap"])
    assert len(figures) == 3
    curves = {curve.name: curve for curve in figures[1].curves}
    assert {*overlap.METHODS, overlap.ABLATION} < set(curves)
    assert {name for name, curve in curves.items() if curve.baseline} == {"principal components", "the true latents"}
    at, value, deviation = curves["ours"].points[3]
    there = [
        r["sis"] for r in ROWS["mechanisms/overlap"] if (r["n_slots"], r["overlap"], r["method"]) == (3, 0.75, "ours")
    ]
    assert (at, value, deviation) == (0.75, pytest.approx(np.mean(there)), pytest.approx(np.std(there, ddof=1)))


# ---- Kivva et al. (2022) ---------------------------------------------------------------------------------------------


def test_one_model_in_fifty_that_fails_breaks_the_claim_of_the_likelihood() -> None:
    (found,) = CLAIMS["kivva/likelihood"]
    assert (found.published, found.verdict, len(found.ours)) == (1.0, REPRODUCED, 50)
    rows = [dict(row) for row in ROWS["kivva/likelihood"]]
    rows[7]["unique"] = False
    assert likelihood.claims(rows)[0].verdict == WORSE


def test_the_pinwheel_is_read_at_the_beta_of_the_bound_with_the_labels_exchanged() -> None:
    strong = claim("kivva/pinwheel", "Section 4, Figure 2: pinwheel, printed as weak", "strong MCC between runs")
    weak = claim("kivva/pinwheel", "Section 4, Figure 2: pinwheel, printed as strong", "weak MCC between runs")
    there = {"method": "VaDE", "beta": 0.01}
    assert (strong.published, weak.published) == (0.87, 1.0)
    assert strong.mean == pytest.approx(mean("kivva/pinwheel", "strong", **there))
    assert weak.mean == pytest.approx(mean("kivva/pinwheel", "weak", **there))
    assert len(strong.ours) == 5
    assert strong.ours[2] == pytest.approx(mean("kivva/pinwheel", "strong", first=2, **there))
    assert strong.trivial
    assert weak.trivial
    distance = claim("kivva/pinwheel", "Section 4, Figure 2: pinwheel, pairs of runs", "affine distance")
    assert (distance.published, distance.spread, distance.verdict) == (0.113, 0.065, NOT_COMPARABLE)
    assert distance.baseline is not None
    assert distance.baseline[1] < 1e-3


def test_runs_on_mnist_are_those_of_the_better_bound_beside_components() -> None:
    there = {"method": "MFCVAE", "activation": "leaky ReLU"}
    weak = claim("kivva/mnist", "Section 4, real data: MFCVAE on MNIST, leaky ReLU", "weak MCC between runs")
    strong = claim("kivva/mnist", "Section 4, real data: MFCVAE on MNIST, ReLU", "strong MCC between runs")
    assert (weak.published, strong.published) == (0.94, 0.70)
    assert weak.mean == pytest.approx(mean("kivva/mnist", "weak", **there))
    assert strong.mean == pytest.approx(mean("kivva/mnist", "strong", method="MFCVAE", activation="ReLU"))
    assert strong.baseline == ("principal components", pytest.approx(mean("kivva/mnist", "strong", method="PCA")))
    worse = [{**row, "rate": 1.0, "elbo": -1e3, "weak": 0.1} for row in tables.matching(ROWS["kivva/mnist"], **there)]
    assert [c.ours for c in facets.claims(ROWS["kivva/mnist"] + worse)] == [c.ours for c in CLAIMS["kivva/mnist"]]


def test_published_curves_of_paper_003_are_marked_as_such() -> None:
    (_, strong, weak) = pinwheel.figures(ROWS["kivva/pinwheel"])
    assert [c.points[0][1] for figure in (strong, weak) for c in figure.curves if c.published] == [0.87, 1.0]
    (figure, _) = facets.figures(ROWS["kivva/mnist"])
    assert [c.points for c in figure.curves if c.published] == [(("ReLU", 0.7, None), ("leaky ReLU", 0.69, None))]
    assert {c.name for c in figure.curves if c.baseline} == {"PCA"}


# ---- Nelson et al. (2026) --------------------------------------------------------------------------------------------


def test_pairs_on_mnist_are_judged_in_sample_at_leak_one_and_after_all_steps() -> None:
    limit = claim("near/mnist", "Figure 2: error as the leak goes to 1, pairs on all digits", "share of the diameter")
    there = {"digit": "all", "leak": 1.0, "steps": 3000}
    assert limit.mean == pytest.approx(mean("near/mnist", "rigid in-sample", **there))
    assert limit.baseline is not None
    assert limit.baseline[1] == pytest.approx(mean("near/mnist", "rigid in-sample", **{**there, "steps": 1}))
    each = claim(
        "near/mnist", "Figure A.6: error as the leak goes to 1, pairs on one digit each", "share of the diameter"
    )
    own = [r["rigid in-sample"] for r in ROWS["near/mnist"] if r["digit"] != "all" and r["leak"] == 1]
    assert each.mean == pytest.approx(np.mean(own))
    removed = claim("near/mnist", "A.7.1: removed by the filter, pairs on all digits", "share of pairs")
    assert (removed.published, sum(removed.ours), len(removed.ours)) == (pytest.approx(11 / 60), 1, 60)
    assert removed.verdict == NOT_COMPARABLE


def test_the_fitted_curve_of_figure_two_passes_through_its_pairs() -> None:
    rows = [
        {"digit": "all", "steps": 3000, "leak": leak, "pair": k, "term": t, "rigid": 0.1 * t, "diameter": 1.0,
         "rigid in-sample": 0.09 * t}
        for leak, t in ((0.0, 2.0), (0.6, 1.0), (1.0, 0.0))
        for k in range(2)
    ]  # fmt: skip
    error, in_sample, term = mnist.figures(rows)[0].curves
    assert [p[0] for p in error.points] == [0.0, 0.6, 1.0]
    assert [p[1] for p in term.points] == pytest.approx([p[1] for p in error.points])
    assert in_sample.points[0][1] == pytest.approx(0.18)


def test_table_one_stands_beside_models_of_the_same_kind_in_sample() -> None:
    assert len(CLAIMS["near/pairs"]) == 4 * 5
    assert counted(CLAIMS["near/pairs"])[NOT_COMPARABLE] == 20
    rigid = claim("near/pairs", "Table 1: MAE", "error up to rigid")
    there = {"model": "AE", "layer": "last hidden", "protocol": "in-sample"}
    assert (rigid.published, rigid.better, rigid.mean) == (
        0.109,
        "lower",
        pytest.approx(mean("near/pairs", "rigid", **there)),
    )
    linear = claim("near/pairs", "Table 1: ResNet-18", "error up to affine")
    there = {"model": "ANI-1x", "layer": "hidden 3", "protocol": "in-sample"}
    assert linear.published == 0.175
    assert linear.baseline == ("linear map of the input", pytest.approx(mean("near/pairs", "input", **there)))
    for model, (permutation, rigid_error, _, ica) in pairs.PUBLISHED.items():
        share = (permutation - ica) / (permutation - rigid_error)
        assert claim("near/pairs", f"Table 1: {model}", "efficiency of ICA").published == pytest.approx(
            share, abs=0.006
        )


def test_generated_data_have_the_layout_of_the_files() -> None:
    train, test = facets.digits(facets.GENERATED)
    assert train.x.shape[1] == test.x.shape[1] == 784
    assert 0 <= train.x.min() < train.x.max() <= 1
    assert len(np.unique(train.labels)) > 1
    wells = deconfound.wells("drug", deconfound.GENERATED)
    assert set(wells.label) == {"bortezomib", "DMSO"}
    assert len(np.unique(wells.plate)) == 3
    assert abs(deconfound.position_score(wells, "bortezomib", "DMSO") - 0.5) < 0.25  # places say little


def test_table_two_is_as_the_study_prints_it_and_settings_are_chosen_with_labels() -> None:
    printed = table2.compare([]).splitlines()
    published = printed[[line.startswith("published") for line in printed].index(True) + 1 :]
    lines = [[part for part in line.split("  ") if part] for line in published]
    shown = {name: [part.strip() for part in parts] for name, *parts in lines[:6]}
    assert shown.pop("QLAE") == ["–"] * 5  # which has no row in Table 2
    assert shown["AE"] == ["0.39 0.76 0.25", "0.34 0.99 0.16", "0.42 0.40 0.31", "0.37 0.83 0.20", "0.41 0.80 0.34"]
    for readout, figures in table2.PUBLISHED.items():
        assert [" ".join(f"{v:.2f}" for v in three) for three in figures] == shown.pop(readout)
    assert shown == {}
    assert len(CLAIMS["near/table2"]) == 5 * 5 * 3
    settings = {"data": "rooms", "readout": "AE + ICA", "second": None, "unexplained": 0.1}
    rows = [
        {**settings, "strength": strength, "run": k, "InfoM": m + k / 10, "InfoE": 0.5, "InfoC": 0.3}
        for strength, m in ((0.0, 0.4), (0.5, 0.7))
        for k in range(2)
    ]
    spoilt = [{**rows[2], "strength": 2.0, "InfoM": 0.99, "unexplained": 0.3}]
    trivial = [
        {**rows[0], "readout": name, "strength": None, "InfoM": m} for name, m in (("PCA", 0.2), ("pixels", 0.6))
    ]
    found = {(c.where, c.metric): c for c in table2.claims(rows + spoilt + trivial)}
    shapes = found["Table 2: AE + ICA, Shapes3D", "InfoM"]
    assert (shapes.published, shapes.ours, shapes.baseline) == (0.79, pytest.approx((0.7, 0.8)), ("pixels", 0.6))
    assert found["Table 2: AE + ICA, aggregated", "InfoM"].ours == pytest.approx((0.75,))
    assert found["Table 2: AE + ICA, MPI3D", "InfoM"].ours == ()
    assert {c.verdict for c in found.values()} == {NOT_COMPARABLE}


def test_the_claims_choose_settings_as_the_table_does() -> None:
    blocks = table2.compare(ROWS["near/table2"]).split("\n\n")
    for data in ("dSprites", "Sprites"):
        (block,) = [block for block in blocks if block.startswith(data)]
        for readout in table2.PUBLISHED:
            there = tables.matching(ROWS["near/table2"], data=data, readout=readout)
            (line,) = [line for line in block.splitlines() if line.startswith(f"{readout}  ")]
            shown = [part.strip() for part in line.split("  ") if part.strip()]
            chosen = table2.chosen(there, "InfoM")
            assert shown[2] == tables.spread(chosen, "InfoM")
            assert len(chosen) == 3
            best = {tuple(row[name] for name in table2.SETTING) for row in chosen}
            assert shown[1] == ", ".join(f"{value:g}" for value in best.pop() if value is not None)
            assert best == set()


def test_tables_three_four_and_seven_stand_beside_single_genes_and_the_place_of_a_well() -> None:
    assert len(CLAIMS["near/deconfound"]) == 6 * 4 * 2 + 4 + 2 * 3
    ica = claim("near/deconfound", "Table 3: PLK1, PCA + ICA", "AUROC")
    genes = [r for r in ROWS["near/deconfound"] if r["question"].startswith("AD") or r["question"] == "ABL1"]
    assert ica.published == 0.815
    assert ica.mean == pytest.approx(np.mean([r["auroc"] for r in genes if r["condition"] == "ica"]))
    assert len(ica.ours) == 4
    assert ica.baseline == ("place of the well", 1.0)
    assert claim("near/deconfound", "Table 3: HCK, base", "Hoyer sparsity").published == 0.156
    top = claim("near/deconfound", "Table 4: PCA", "concentration")
    assert top.published == 0.332
    assert top.mean == pytest.approx(np.mean([r["concentration 10"] for r in genes if r["condition"] == "pca"]))
    assert claim("near/deconfound", "Table 7: third size, PCA + ICA", "concentration").published == 0.334
    assert counted(CLAIMS["near/deconfound"])[NOT_COMPARABLE] == len(CLAIMS["near/deconfound"])


def test_figures_of_the_genes_have_ours_and_six_published_ones() -> None:
    auroc, _ = deconfound.figures(ROWS["near/deconfound"])
    assert [c.name for c in auroc.curves if c.published] == list(deconfound.PUBLISHED)
    assert [p[0] for p in auroc.curves[0].points] == list(deconfound.CONDITIONS.values())
    (pair,) = pairs.figures(ROWS["near/pairs"])
    assert [c.name for c in pair.curves if c.published] == list(pairs.PUBLISHED)
    assert [c.name for c in pair.curves if c.baseline] == ["untrained, last hidden"]


# ---- known answers -----------------------------------------------------------------------------------------------


def test_expectations_hold_in_every_case_that_has_a_score() -> None:
    counts = counted(CLAIMS["scores/known"])
    assert counts[REPRODUCED] == len(CLAIMS["scores/known"]) - counts[NOT_COMPARABLE]
    refused = [c.where for c in CLAIMS["scores/known"] if c.verdict == NOT_COMPARABLE]
    assert refused == [f"Expected of SIS: {case}" for case in ("copied", "dead", "fewer", "more")]
    assert not [
        c for c in CLAIMS["scores/known"] if c.where == "Expected of MCC (Pearson): rotation"
    ]  # may do anything


def test_a_score_that_does_what_is_not_expected_of_it_is_worse() -> None:
    rows = [dict(row) for row in ROWS["scores/known"] if row["title"] == "MIG"]
    for row in rows:
        if row["case"] == "copied" and row["kind"] == "discrete":
            row["value"] = 1.0
    (found,) = [c for c in known.claims(rows) if c.verdict != REPRODUCED]
    assert (found.where, found.ours, found.verdict) == ("Expected of MIG: copied", (1.0, 0.0), WORSE)


def test_averages_choose_the_lowest_where_low_is_good() -> None:
    found = {"x": (0.4, 0.6), "ICA": (0.1, 0.3), "PCA": ()}
    assert averages.most(found, lowest=True) == ("ICA", pytest.approx(0.2))
    assert averages.most(found) == ("x", 0.5)
    assert averages.most({}) is None
