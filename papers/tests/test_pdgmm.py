"""Studies of degenerate mixtures: cells run, certificates say what is broken, tables stand beside the published."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from noumena.checks import InputError
from noumena.estimators.sparse.flow import SparseFlow
from noumena.guarantees.degenerate import degenerate_ladder
from noumena.studies.engine import digest
from noumena.studies.store import CellRecord
from noumena.studies.study import Study
from noumena.worlds import degenerate, equal_distances, two_bases
from pdgmm import (
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

TINY = {"rows": 600, "steps": 4}
STUDIES = (table1, table4, table5, table6, table8, table9, table10, table11, table17, table18, table19, table20, slopes)
FIVE = settings.world(n=5)


def named(study):
    return study.__name__.rsplit(".", 1)[-1]


def run(study, parameters, **changes):
    """Rows of one cell with its parameters, as they stand in a file."""
    found = study.cell(**parameters, **(changes or TINY))
    return [{**parameters, **row} for row in (found if isinstance(found, list) else [found])]


def line(text, start):
    """The first line that starts with these words."""
    return next(t for t in text.splitlines() if t.split()[: len(start)] == list(start))


@pytest.fixture(scope="module")
def base_rows():
    """All methods on the smallest world of Table 1."""
    return run(table1, {**FIVE, "seed": 0})


# ---- worlds and methods ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("study", STUDIES, ids=named)
def test_cells_of_a_study_are_distinct_and_five_seeds_each(study):
    cells = study.cells()
    keys = {tuple(sorted(c.items(), key=str)) for c in cells}
    assert len(cells) == len(keys) > 0
    assert {c["seed"] for c in cells} == {0, 1, 2, 3, 4}
    assert len(cells) % 5 == 0


def test_the_flow_trains_as_it_does_by_default():
    ours = settings.estimator("flow", 3, 0)
    assert ours.training.get_params() == SparseFlow()._plan().get_params()
    assert ours.depth == SparseFlow().depth


def test_rows_to_judge_are_fresh_and_half_as_many():
    data = settings.drawn(degenerate(4, random_state=1), 200)
    assert len(data.learn.x) == 200
    assert len(data.judge.x) == 100
    assert not np.isclose(data.learn.x[:100], data.judge.x).any()
    assert (np.asarray(data.learn.u)[:100] != data.judge.u).any()


def test_a_method_that_refuses_says_so_in_its_row_and_is_counted():
    data = settings.drawn(degenerate(3, active=3, layers=1, random_state=0), 600)
    row = settings.scored(data, settings.estimator("sparse", 3, 0))
    assert "no sparse direction found" in row["refused"]
    assert "mcc" not in row
    assert settings.spreads([{"method": "sparse", **row}], "mcc", ("sparse",)) == ["–, 1 refused"]


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: settings.world(m=3), "A world must be named by n, edges"),
        (lambda: settings.estimator("magic", 3, 0), "method must be one of"),
    ],
)
def test_what_has_no_name_is_refused_in_a_sentence(call, sentence):
    with pytest.raises(InputError, match=sentence):
        call()


def test_a_rotated_code_is_scored_in_both_bases():
    truth = degenerate(4, angle=30.0, layers=1, mixing="affine", random_state=0)
    z = truth.sample(500).z
    found = settings.scores(truth, z, truth.sparse(z))
    assert found["mcc_sparse"] == pytest.approx(1)
    assert found["mcc"] < 0.95
    assert found["r2"] == pytest.approx(1)


def test_r2_goes_from_the_truth_to_the_code():
    truth = degenerate(3, layers=1, random_state=0)
    z = truth.sample(500).z
    assert settings.scores(truth, z, z[:, :1])["r2"] == pytest.approx(1)


# ---- certificates ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("world", "broken", "theory"),
    [
        ({}, "3.4 fails", "permutation and scale, but for 3.4"),
        ({"means": 1.0}, "all hold", "permutation and scale"),
        ({"means": 1.0, "shift": 2.0}, "3.8a (shift) fails", "permutation and scale, but for 3.8a (shift)"),
        ({"means": 1.0, "angle": 15.0}, "3.8a (turned) fails", "affine, axes of no meaning"),
        ({"mixing": "sigmoid"}, "piecewise affine, 3.4 fail", "permutation and scale, but for piecewise affine, 3.4"),
        ({"noise": "gumbel"}, "Gaussian, 3.4 fail", "permutation and scale, but for Gaussian, 3.4"),
        ({"means": 1.0, "blocks": (2, 2, 1)}, "3.8b fails", "blocks"),
    ],
)  # fmt: skip
def test_a_certificate_names_what_is_broken_and_what_is_left(world, broken, theory):
    found = settings.certificate(degenerate(5, layers=2, random_state=0, **world))
    assert found == {"certificate": broken, "theory": theory}


@pytest.mark.parametrize("world", [{}, {"means": 1.0}, {"shift": 2.0}, {"angle": 30.0}])
def test_a_certificate_agrees_with_the_ladder_of_theorems(world):
    truth = degenerate(5, layers=2, random_state=0, **world)
    reading = degenerate_ladder(truth.mixture, decoder=truth.decoder, exact=True)
    broken = {h.name.split()[0] for t in reading.theorems for h in t.hypotheses if h.answer == "fails"}
    said = settings.certificate(truth)["certificate"]
    assert {name for name in ("3.4", "3.6", "3.8a", "3.8b") if name in said} == broken


def test_worlds_of_a_single_violation_have_it():
    assert settings.certificate(equal_distances(4))["certificate"] == "3.4 fails"
    assert "3.6" in settings.certificate(two_bases(4))["certificate"]


# ---- Table 1 and what shares its cells -----------------------------------------------------------------------------


def test_table_1_has_22_rows_of_17_worlds_as_published():
    assert len(table1.WORLDS) == len(table1.PUBLISHED) == 22
    assert len(settings.distinct(table1.WORLDS)) == 17
    assert len(table1.cells()) == 17 * 5
    assert table1.cells()[0]["n"] == 40
    published = {tuple(settings.label(w)): f for w, f in zip(table1.WORLDS, table1.PUBLISHED, strict=True)}
    assert [m for m, _ in published["10", "1", "10", "1 var", "0", "0"]] == [0.75, 0.46, 0.45, 0.28]
    assert [published["10", "1", "10", "50 %", d, "0"][table1.MCC2][0] for d in "0123"] == [0.97, 0.88, 0.61, 0.49]
    assert [published["10", "1", "10", "50 %", "0", a][table1.MCC2][0] for a in ("15", "30", "45")] == [
        0.83,
        0.60,
        0.62,
    ]
    assert published["40", "1", "10", "50 %", "0", "0"] == ((0.94, 0.01), (0.37, 0.01), (0.94, 0.03), (0.25, 0.11))


def test_a_cell_scores_every_method_on_the_same_rows(base_rows):
    assert [r["method"] for r in base_rows] == list(settings.METHODS)
    by = {r["method"]: r for r in base_rows}
    assert all(0 < r["mcc"] <= 1 and r["mcc_sparse"] == r["mcc"] and r["seconds"] >= 0 for r in base_rows)
    assert by["sparse"]["mcc"] > 0.9 > by["x"]["mcc"]
    assert 0 < by["sparse"]["confidence"] <= 1
    assert by["flow"]["bent"] in (True, False)
    assert by["flow"]["objective"] != by["flow"]["affine objective"]
    assert {r["theory"] for r in base_rows} == {"permutation and scale, but for 3.4"}


def test_table_1_prints_all_its_rows_with_what_the_rows_say(base_rows):
    flow = {**settings.BASE, "method": "flow", "mcc_sparse": 0.125}
    planted = [{**flow, "seed": 0, "mcc": 0.96}, {**flow, "seed": 1, "mcc": 0.98}]
    text = table1.compare(base_rows + planted)
    table = text.split("MCC\n")[1].splitlines()
    assert len(table) == 1 + 22 + 1
    small, base = table[1], table[2]
    for method in settings.METHODS:
        assert f"{next(r['mcc'] for r in base_rows if r['method'] == method):.3f} (1)" in small
    assert " ".join(small.split()).startswith("5 1 10 50 % 0 0 0.750 ± 0.030 0.450 ± 0.050 0.960 ± 0.010")
    assert "0.970 ± 0.014 (2)" in base
    assert "0.125 ± 0.000 (2)" in base
    assert sum("0.970 ± 0.014 (2)" in t for t in table) == 6
    assert table[-1].endswith("in 6 of 6 rows." if "no" in small.split() else "in 7 of 7 rows.")


@pytest.mark.parametrize(("mcc", "verdict"), [(0.96, "yes"), (0.95, "no")])
def test_as_good_means_at_most_a_hundredth_below(mcc, verdict):
    text = table1.compare([{**settings.BASE, "seed": 0, "method": "flow", "mcc": mcc}])
    base = text.split("MCC\n")[1].splitlines()[2]
    assert verdict in base.split()
    assert text.endswith(f"in {6 if verdict == 'yes' else 0} of 6 rows.")


def test_rotated_rows_do_not_count_among_those_to_reach():
    rows = [{**settings.world(angle=45.0), "seed": 0, "method": "flow", "mcc": 0.99}]
    assert table1.compare(rows).endswith("in 0 of 0 rows.")


def test_table_4_has_empty_graphs_and_prints_the_published_k():
    assert len(table4.PUBLISHED) == 22
    assert {c["edges"] for c in table4.cells()} == {0}
    assert len(table4.cells()) == 5 * (17 - 3)
    shared = [c for c in table4.cells() if c in table1.cells()]
    assert {(c["n"], c["layers"], c["shift"]) for c in shared} == {(10, 10, 0.0)}
    rows = [{**settings.world(edges=0, active="one"), "seed": 0, "method": "ica", "mcc": 0.321}]
    assert "0.460 ± 0.040  0.450 ± 0.040" in line(table4.compare(rows), ["10", "1", "10", "1", "var"])
    assert "0.321 (1)" in line(table4.compare(rows), ["10", "1", "10", "1", "var"])


def test_table_8_reads_the_cells_of_table_1(base_rows):
    assert table8.cells() == table1.cells()
    assert len(table8.PUBLISHED) == 22
    assert [f[0] for f in table8.PUBLISHED] == [f[table1.MCC2] for f in table1.PUBLISHED]
    assert [f[3] for f in table8.PUBLISHED] == [f[table1.VADE] for f in table1.PUBLISHED]
    first = line(table8.compare(base_rows), ["5"])
    assert "0.570 ± 0.020" in first
    assert f"{base_rows[-1]['mcc']:.3f} (1)" in first


def test_finished_cells_of_table_1_are_taken_over_by_table_4(tmp_path, base_rows, monkeypatch):
    known = {**settings.world(edges=0), "seed": 0}
    rows = [{k: v for k, v in row.items() if k != "cell seconds"} for row in base_rows[:1]]
    first, fourth = Study(table1, tmp_path), Study(table4, tmp_path)
    with first.store.journal() as journal:
        journal.append(CellRecord(digest(table1.cell, known), "", [{**rows[0], **known}]))
    first.store.settle()
    monkeypatch.setattr(table4, "cells", lambda: [known])
    assert fourth.run().rows() == first.store.rows()
    assert [(r["method"], r["mcc"]) for r in fourth.rows()] == [(rows[0]["method"], rows[0]["mcc"])]


# ---- the other tables ----------------------------------------------------------------------------------------------


def test_table_5_unmixes_affine_codes_and_tells_growth():
    assert table5.published_seconds(50) == pytest.approx(175_760)
    rows = run(table5, {**table5.WORLDS[0], "seed": 0}, rows=600)
    assert [r["method"] for r in rows] == ["x", "pca", "ica", "sparse"]
    assert rows[-1]["mcc"] > 0.999
    planted = [{**w, "seed": 0, "method": "sparse", "seconds": w["n"] ** 2 / 25} for w in table5.WORLDS[:2]]
    text = table5.compare(planted)
    assert line(text, ["10"]).split()[-1] == "101"  # 404 s against 4 s
    assert "Seconds grow as n^2.0; the published ones as n^3.6." in text
    assert "not converged" in line(text, ["100"])


def test_table_6_changes_one_setting_at_a_time():
    default = settings.estimator("flow", 3, 7).get_params()
    for setting, name, value in ((table6.BENDS, "depth", 4.0), (table6.RATES, "training__learning_rate", 0.03)):
        changed = table6.changed(setting, value, 3, 7).get_params()
        assert {k for k in default if k != "training" and changed[k] != default[k]} == {name}
        assert changed[name] == value
    assert table6.changed(table6.RESTARTS, 8.0, 3, 7).n_restarts == 8
    rows = run(table6, {"setting": table6.RESTARTS, "value": 1.0, "seed": 0}, rows=600)
    text = table6.compare(rows)
    assert line(text, ["sparsity", "level", "0.01"]).endswith("0.970 ± 0.010")
    assert line(text, ["learning", "rate", "0.001"]).endswith("0.530 ± 0.080")
    assert f"{rows[0]['mcc']:.3f} (1)" in line(text, ["restarts", "of", "sparse", "1"])


def test_table_9_has_18_rows_and_sparsity_refuses_there():
    assert len(table9.PRINTED) == len(table9.PUBLISHED) == 18
    rows = run(table9, {**table9.of(FIVE), "seed": 0})
    by = {r["method"]: r for r in rows}
    assert list(by) == list(table9.METHODS)
    assert "no sparse direction" in by["sparse"]["refused"]
    first = line(table9.compare(rows), ["5"])
    assert "0.660 ± 0.090   0.940 ± 0.010" in first
    assert f"{by['vade']['r2']:.3f} (1)" in first
    assert "1 refused" in first


def test_table_10_finds_the_rank_among_columns_to_spare():
    rows = run(table10, {"extra": 2, "seed": 0})
    by = {r["method"]: r for r in rows}
    assert by["sparse"]["rank"] == by["flow"]["rank"] == 10
    assert by["x"]["rank"] == by["pca"]["rank"] == 12
    first = line(table10.compare(rows), ["n+2", "0.91"])
    assert f"{by['sparse']['mcc']:.3f} (1)" in first
    assert first.endswith("10.000 (1)")


def test_widening_is_an_isometry_with_a_little_noise():
    sample = degenerate(4, random_state=0).sample(300)
    wide = table10.widened(sample, 3, 0.0, seed=1)
    assert wide.x.shape == (300, 7)
    assert np.linalg.norm(wide.x, axis=1) == pytest.approx(np.linalg.norm(sample.x, axis=1))
    assert np.array_equal(wide.z, sample.z)
    noisy = table10.widened(sample, 3, 0.1, seed=1)
    assert (noisy.x - wide.x).std() == pytest.approx(0.1, rel=0.1)


def test_table_11_measures_graphs_of_codes_and_of_the_truth():
    assert len(table11.PRINTED) == len(table11.PUBLISHED) == 21
    assert table11.PUBLISHED[10] == ((1.8, 1.79), (21.4, 3.05))
    rows = run(table11, {**FIVE, "seed": 0})
    assert [r["method"] for r in rows] == ["z before masks", "z", "sparse", "flow"]
    assert all(0 <= r["shd"] <= 10 for r in rows)
    planted = [{**FIVE, "seed": 0, "method": "sparse", "shd": 7, "shd_active": 3}]
    first = line(table11.compare(planted), ["5"])
    assert "3.000 (1)" in first
    assert "7.000 (1)" in first
    assert "1.4 ± 1.7" in first


def test_latents_before_masks_follow_the_causal_model():
    truth = degenerate(3, edges=1, angle=30.0, random_state=2)
    z = table11.unmasked(truth, 20_000)
    assert np.cov(z.T) == pytest.approx(truth.graph.covariance, abs=0.08)


def test_the_graph_of_a_permuted_truth_is_its_own():
    truth = degenerate(4, active=4, random_state=0)
    z = table11.unmasked(truth, 5000)
    straight, turned = table11.of_code(truth, z, z), table11.of_code(truth, z, -z[:, ::-1])
    assert straight["shd"] == turned["shd"]
    assert turned["mcc"] == pytest.approx(1)


def test_table_17_has_four_kinds_of_thirteen_rows():
    assert len(table17.PRINTED) == len(table17.PUBLISHED) == 13
    assert len(table17.cells()) == 4 * 10 * 5
    rows = [{**settings.world(n=5, mixing="sigmoid"), "seed": 0, "method": "x", "mcc": 0.234}]
    text = table17.compare(rows)
    assert sum("0.234 (1)" in t for t in text.splitlines()) == 1
    assert "0.360 ± 0.020  0.234 (1)" in line(text, ["sigmoid", "5"])
    assert "0.660 ± 0.080" in line(text, ["exponential", "10", "1", "10", "1", "var"])


@pytest.mark.parametrize(
    ("study", "parameters", "start"),
    [(table18, {"n": 2, "seed": 0}, ["2", "0.87"]), (table19, {"edges": 3, "seed": 0}, ["3", "0.85"])],
    ids=["table18", "table19"],
)
def test_tables_of_a_violation_carry_its_certificate(study, parameters, start):
    rows = run(study, parameters, **TINY, **({"n": 4} if study is table19 else {}))
    found = line(study.compare(rows), start)
    judged = [row for row in rows if row["refused"] is None]  # sparsity may refuse rows of two bases
    assert f"{judged[-1]['r2']:.3f} (1)" in found
    assert found.endswith(rows[0]["certificate"])


def test_table_20_measures_blocks_and_prints_a_matrix():
    own, worst = table20.PUBLISHED["2+2+2+2+2"]
    assert np.mean(own) == pytest.approx(0.896)
    assert worst == 0.02
    z = degenerate(10, blocks=(1, 1, 2, 6), edges=0, random_state=0).sample(2000).z
    found = table20.block_scores(z, z[:, ::-1] @ np.diag(np.arange(1, 11)), (1, 1, 2, 6))
    assert found["own"] == pytest.approx(1)
    assert found["blocks found"]
    assert found["matrix"].split("; ")[0].split()[0] == "1.00"
    mixed = table20.block_scores(z, z + z[:, ::-1], (1, 1, 2, 6))
    assert not mixed["blocks found"]
    rows = run(table20, {"blocks": "1+1+2+6", "edges": 0, "seed": 0})
    text = table20.compare(rows)
    assert rows[-1]["matrix"].replace("; ", "\n") in text
    assert f"{rows[3]['own']:.3f} (1)" in line(text, ["1+1+2+6", "0", "sparse"])
    assert rows[0]["theory"].startswith("blocks")


def test_slopes_tell_what_the_bends_gain():
    assert [(w["n"], w["layers"]) for w in slopes.WORLDS] == [(n, m) for n in (5, 10) for m in (2, 3, 5, 10)]
    assert {w["slope"] for w in slopes.WORLDS} == {0.2}
    rows = run(slopes, {**slopes.WORLDS[0], "seed": 0})
    by = {r["method"]: r for r in rows}
    assert list(by) == list(slopes.METHODS)
    first = line(slopes.compare(rows), ["5", "2"])
    assert f"  {by['flow']['mcc'] - by['sparse']['mcc']:.3f} (1)  " in first
    assert f"  {by['flow']['mcc'] - by['ica']['mcc']:.3f} (1)  " in first
    assert f"  {by['flow']['affine objective'] - by['flow']['objective']:.3f} (1)" in first


def test_studies_need_none_of_the_optional_packages():
    blocked = "lightgbm", "zuko", "cooper", "causallearn", "beartype"
    papers = str(Path(settings.__file__).parents[1])
    code = f"import sys; sys.path.append({papers!r}); sys.modules.update(dict.fromkeys({blocked!r})); " + "; ".join(
        f"import pdgmm.{named(study)}" for study in STUDIES
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).returncode == 0
