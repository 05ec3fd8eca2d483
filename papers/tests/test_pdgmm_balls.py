"""The study of balls: balls get the latents that tell of them, and every method runs without the truth."""

from __future__ import annotations

from dataclasses import replace
from itertools import permutations

import numpy as np
import pytest

from noumena.checks import InputError
from noumena.studies.study import Study
from noumena.worlds.balls import Balls
from pdgmm import ball_scores
from pdgmm import balls as study
from pdgmm.balls import SMALL, Codes, Plan

TINY = replace(
    SMALL, size=8, images=120, judged=60, steps=2, place_steps=2, maps=3, stage1_steps=4, pixel_rows=60, features=16
)


def places(n: int, rows: int = 300, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(rows, 2 * n))


def test_the_r2_of_a_pair_is_that_of_a_least_squares_fit() -> None:
    z = places(2)
    code = z @ np.random.default_rng(1).normal(size=(4, 5)) + np.random.default_rng(2).normal(size=(300, 5))
    table = ball_scores.pair_r2(z, code)
    assert set(table) == {(i, j) for i in range(5) for j in range(i + 1, 5)}
    for pair in ((0, 3), (2, 4)):
        design = np.c_[code[:, list(pair)], np.ones(300)]
        rest = z - design @ np.linalg.lstsq(design, z, rcond=None)[0]
        expected = (1 - rest.var(axis=0) / z.var(axis=0)).reshape(2, 2).mean(axis=1)
        np.testing.assert_allclose(table[pair], expected, rtol=1e-9)


def test_balls_get_pairs_of_latents_with_the_largest_sum_of_all_assignments() -> None:
    rng = np.random.default_rng(3)
    table = {(i, j): rng.random(3) for i in range(6) for j in range(i + 1, 6)}
    found = ball_scores.matched(table, 3)
    assert sorted(column for pair in found for column in pair) == list(range(6))
    brute = max(
        sum(table[min(a, b), max(a, b)][ball] for ball, (a, b) in enumerate(zip(order[::2], order[1::2], strict=True)))
        for order in permutations(range(6))
    )
    assert sum(table[pair][ball] for ball, pair in enumerate(found)) == pytest.approx(brute)


def test_six_balls_are_matched_in_an_instant() -> None:
    z = places(6)
    order = np.random.default_rng(0).permutation(12)
    found = ball_scores.matched(ball_scores.pair_r2(z, z[:, order]), 6)
    assert [tuple(sorted(order[list(pair)])) for pair in found] == [(2 * k, 2 * k + 1) for k in range(6)]


def test_a_code_that_turns_every_ball_by_itself_scores_one_ball_by_ball_but_not_in_mcc() -> None:
    z, turn = places(2, 4000), np.array([[1.0, 1.0], [-1.0, 1.0]])
    row = ball_scores.scores(z, np.c_[z[:, 2:] @ turn, z[:, :2] @ turn])
    assert (row["ball 1"], row["ball 2"], row["mean"], row["r2"]) == pytest.approx((1, 1, 1, 1))
    assert row["mcc"] < 0.75
    assert ball_scores.scores(z, z[:, ::-1])["mcc"] == pytest.approx(1)


def test_a_code_that_mixes_balls_scores_all_latents_but_not_balls() -> None:
    z = places(2, 4000)
    row = ball_scores.scores(z, z @ np.linalg.qr(np.random.default_rng(5).normal(size=(4, 4))).Q)
    assert row["r2"] == pytest.approx(1)
    assert row["mean"] < 0.9
    assert ball_scores.scores(z, places(2, 4000, seed=9))["mean"] < 0.01


def test_the_matrix_has_the_latents_of_each_ball_in_its_columns() -> None:
    z = places(2, 2000)
    row = ball_scores.scores(z, z[:, [2, 3, 0, 1]])
    matrix = np.array([[float(entry) for entry in line.split()] for line in row["matrix"].split("; ")])
    np.testing.assert_allclose(matrix, np.eye(4), atol=0.02)


def test_recovered_places_lie_where_the_balls_are() -> None:
    z = places(3)
    noise = 0.01 * places(3, seed=4)
    found = ball_scores.recovered(z, (z + noise)[:, [4, 5, 0, 1, 2, 3]] @ np.kron(np.eye(3), [[1, 2], [0, 1]]))
    assert found.shape == (300, 3, 2)
    assert np.abs(found - z.reshape(300, 3, 2)).max() < 0.1
    with pytest.raises(InputError, match="z and code must share their batch axis"):
        ball_scores.recovered(z, z[:5])


def test_a_code_with_too_few_latents_is_refused() -> None:
    with pytest.raises(InputError, match="A code must have two latents for each of 2 balls"):
        ball_scores.scores(places(2), places(2)[:, :3])


def test_dead_features_are_dropped_and_too_few_are_refused() -> None:
    learn = np.c_[places(1), np.zeros(300), 0.001 * places(1)[:, 0]]
    kept = study.varying(Codes(learn, learn[:5], {"explained": 1.0}), 2)
    assert (kept.learn.shape, kept.judge.shape, kept.facts) == ((300, 2), (5, 2), {"explained": 1.0, "alive": 2})
    with pytest.raises(InputError, match="At least 3 features must vary"):
        study.varying(Codes(learn, learn, {}), 3)


def test_a_cell_has_a_row_for_every_method_and_keeps_places_and_codes(tmp_path) -> None:
    rows = study.cell(2, "ball", 3, plan=TINY, folder=tmp_path)
    assert [row["method"] for row in rows] == list(study.ARMS)
    with np.load(tmp_path / "2-ball-3.npz") as file:
        kept = dict(file)
    world = Balls(2, 8, 180, seed=3)
    assert np.array_equal(kept["z"], world.z[120:])
    assert np.array_equal(kept["masks"], world.masks[120:])
    for row in rows:
        if row["refused"] is None:
            np.testing.assert_allclose(row["mean"], ball_scores.scores(kept["z"], kept[row["method"]])["mean"])
            assert np.isfinite([row["ball 1"], row["ball 2"], row["mcc"], row["explained"]]).all()
    assert {"pca", "ica"} <= set(kept)


def test_trained_networks_are_kept_and_read_again_refusals_included(tmp_path, monkeypatch) -> None:
    first = study.cell(2, "ball", 3, plan=TINY, folder=tmp_path)
    (kept,) = tmp_path.glob("networks-2-ball-3-8-120-2-2.npz")
    read = study._kept(kept)
    assert list(read) == ["places", "features"]
    monkeypatch.setattr(study, "trained", lambda *_: pytest.fail("trained again"))
    second = study.cell(2, "ball", 3, plan=TINY, folder=tmp_path)
    same = [{k: v for k, v in row.items() if k != "readout seconds"} for row in first]
    assert same == [{k: v for k, v in row.items() if k != "readout seconds"} for row in second]
    monkeypatch.setattr(study, "trained", lambda *_: (_ for _ in ()).throw(InputError("no net")))
    for _ in range(2):
        found = study.networks(study.world_of(2, "ball", 4, TINY), TINY, tmp_path)
        assert found == {"places": "no net", "features": "no net"}


def test_cells_are_distinct_and_a_refusal_is_a_row() -> None:
    cells = study.cells()
    assert len(cells) == len({tuple(c.values()) for c in cells}) == 12
    row, code = study._read("nothing was trained", None, places(2))
    assert (row, code) == ({"refused": "nothing was trained"}, None)
    smooth = Codes(places(2), places(2), {"explained": 0.5})
    row, code = study._read(smooth, study.readouts(SMALL, 4, 0)["places"][1], places(2))
    assert "must be sparse along some direction" in row["refused"]
    assert code is None


def test_sparse_places_are_unmixed_ball_by_ball() -> None:
    world = Balls(2, 4, images=3000, seed=1)
    mixing = np.linalg.qr(np.random.default_rng(0).normal(size=(4, 4))).Q
    codes = Codes(world.z[:2000] @ mixing, world.z[2000:] @ mixing, {})
    row, _ = study._read(codes, study.readouts(Plan(), 4, 0)["places"][1], world.z[2000:])
    assert row["mean"] > 0.999
    assert row["active share"] == pytest.approx(0.9, abs=0.03)


def test_the_comparison_has_published_figures_above_ours_and_both_matrices() -> None:
    ours = {"method": "places", "ball 1": 0.5, "ball 2": 0.7, "mean": 0.6, "r2": 0.9, "mcc": 0.8, "matrix": "1 0; 0 1"}
    rows = [
        {"balls": 2, "freeze": freeze, "seed": seed, **ours} for freeze in ("ball", "coordinate") for seed in (0, 1)
    ]
    rows.append({"balls": 2, "freeze": "ball", "seed": 0, "method": "pixels", "refused": "no"})
    text = study.compare(rows)
    lines = [" ".join(line.split()) for line in text.splitlines()]
    assert lines[2].startswith("published 0.958 ± 0.052 0.914 ± 0.148 0.936")
    assert lines[3].startswith("places 0.500 ± 0.000 (2) 0.700 ± 0.000 (2) 0.600 ± 0.000 (2) 0.900")
    assert "pixels (1 refused)" in text
    assert "0.743 ± 0.106" in text
    assert "0.02 0.99 0.00 0.01" in text
    assert "places, seed 1\n1 0\n0 1" in text


def test_the_study_runs_what_is_missing_keeps_what_it_trained_and_resumes(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(study, "SMALL", TINY)
    one = Study(study, tmp_path / "results")
    first = one.run(tiny=True).rows(tiny=True)
    assert {(row["balls"], row["freeze"]) for row in first} == {(2, "ball"), (2, "coordinate")}
    assert len(first) == 2 * len(study.ARMS)
    kept = sorted(file.name for file in (tmp_path / "runs" / "studies" / "pdgmm").iterdir())
    networks = [f"networks-2-{freeze}-0-8-120-2-2.npz" for freeze in ("ball", "coordinate")]
    assert kept == ["2-ball-0.npz", "2-coordinate-0.npz", *networks]
    monkeypatch.setattr(study, "readouts", lambda *_: pytest.fail("a finished cell ran again"))
    assert one.run(tiny=True).rows(tiny=True) == first
    assert "places" in one.compare(tiny=True)


def test_a_cell_is_planned_for_its_device_or_small(monkeypatch) -> None:
    seen = []
    monkeypatch.setattr(study, "world_of", lambda n, freeze, seed, plan: seen.append(plan))
    for asked in ({"device": "cpu"}, {"small": True}, {"plan": TINY}):
        with pytest.raises(AttributeError):
            study.cell(2, "ball", 0, **asked)
    assert seen == [Plan(device="cpu"), SMALL, TINY]


def test_pictures_are_trained_on_in_half_precision_on_a_gpu_only(monkeypatch) -> None:
    assert Plan(device="cpu").training(learning_rate=0.1).precision == "full"
    monkeypatch.setattr(Plan, "on", "cuda")
    training = Plan(steps=9, batch=5).training(learning_rate=0.1)
    assert (training.precision, training.steps, training.batch_size) == ("bfloat16", 9, 5)
