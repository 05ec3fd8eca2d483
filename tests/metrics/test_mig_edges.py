"""MIG and SAP are defined at the edges, and their records say how they were measured."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
import torch
from gap_samples import KINDS, every, mixed, noise, truth

from noumena.metrics.factors import factors_of
from noumena.metrics.gaps import binned, mig, sap

# ---- edges -------------------------------------------------------------------------------------------------------


@every
@KINDS
def test_constant_latents_take_no_part(metric: Any, discrete: bool) -> None:
    z = truth(discrete)
    z_hat = z + 0.3 * noise(600, 3)
    plain, dead = metric(z, z_hat), metric(z, np.c_[np.full(600, 0.1), z_hat, np.zeros(600)])
    assert (dead.score, dead.chance) == (plain.score, plain.chance)
    np.testing.assert_array_equal(dead.best, plain.best + 1)
    assert dead.active.tolist() == [1, 2, 3]
    none = metric(z, np.ones((600, 2)))
    assert (none.score, none.chance) == (0, 0)
    assert none.best.tolist() == [[-1, -1]] * 3
    assert none.active.size == 0


@every
def test_one_latent_alone_is_held_against_knowing_nothing(metric: Any) -> None:
    z = truth(True)
    alone = metric(z, z[:, 2:], shuffles=0)
    assert alone.best.tolist()[2] == [0, -1]
    assert metric(z, np.c_[z[:, 2:], np.ones(600)], shuffles=0).score == alone.score
    nothing = 0 if alone.claims[0].title == "MIG" else 1 / 3
    assert alone.per_factor[2] == pytest.approx(alone.matrix[2, 0] - nothing, abs=0.06)
    assert alone.per_factor[:2].max() < 0.06


def test_sap_of_rare_classes_is_held_against_the_most_frequent_one() -> None:
    z = (np.arange(200) % 10 == 0)[:, None] * 1.0
    found = sap(z, z, held_out=False, shuffles=0)
    assert found.matrix.tolist() == [[1.0]]
    assert found.score == pytest.approx(0.1)
    assert sap(z, np.ones((200, 3)), held_out=False).matrix.tolist() == [[0.9] * 3]


@every
def test_constant_factors_are_left_out_and_said(metric: Any) -> None:
    z = truth(True)
    plain, dead = metric(z, z), metric(np.c_[np.full(600, 7.0), z], z)
    assert (dead.score, dead.chance) == (plain.score, plain.chance)
    assert dead.factors.tolist() == [1, 2, 3]
    np.testing.assert_array_equal(dead.per_factor, plain.per_factor)
    np.testing.assert_array_equal(dead.best, plain.best)
    assert dead.kinds.endswith("constant and left out z1")
    assert "left out" not in plain.kinds


@every
def test_ten_rows_and_classes_met_once_are_defined(metric: Any) -> None:
    z = np.array([[0, 1, 2, 3, 4, 5, 6, 7, 8, 8], [0, 0, 0, 0, 0, 0, 0, 0, 0, 1]]).T * 1.0
    for z_hat in (noise(10, 2), np.ones((10, 2)), noise(10, 1)):
        for seed in range(3):
            found = metric(z, z_hat, discrete=True, subsamples=10, ceiling=True, random_state=seed)
            interval = found.uncertainty
            assert np.isfinite([found.score, found.chance, found.ceiling, interval.low, interval.high]).all()
            assert 0 <= found.score <= 1


def test_bins_end_where_numbers_do() -> None:
    assert binned(np.array([2.0, 2, 2]), 20).tolist() == [0, 0, 0]
    near = 1 + np.array([0, 1, 2, 1]) * np.finfo(float).eps
    assert binned(near, 20).tolist() == [0, 1, 2, 1]
    assert binned(np.array([-1.0, 1]), 20).tolist() == [0, 19]


def test_values_of_a_discrete_factor_are_its_bins() -> None:
    z, z_hat = mixed(300, 4)
    few = [mig(z, z_hat, discrete=kinds, estimator="bins", bins=3, shuffles=0) for kinds in (None, False)]
    np.testing.assert_array_equal(few[0].matrix[[0, 2]], few[1].matrix[[0, 2]])
    assert np.abs(few[0].matrix[1] - few[1].matrix[1]).max() > 0.01  # five values in three bins


def test_information_above_the_entropy_counts_as_all_of_it() -> None:
    z = np.repeat([0.0, 1, 2], [3, 3, 6])[:, None]
    assert mig(z, z, discrete=True, neighbours=1, shuffles=0).matrix.tolist() == [[1.0]]


# ---- records -----------------------------------------------------------------------------------------------------


@every
def test_tensors_names_and_factors_with_their_kinds_score_alike(metric: Any) -> None:
    z, z_hat = mixed(300, 4)
    plain = metric(z, z_hat)
    tensors = metric(torch.as_tensor(z), torch.as_tensor(z_hat))
    assert tensors.numbers == plain.numbers
    assert metric(factors_of(z), z_hat).numbers == plain.numbers
    named = z.astype(object)
    named[:, 0] = np.array(["ball", "cone", "cube"])[z[:, 0].astype(int)]
    assert metric(named, z_hat).numbers == plain.numbers
    told = metric(z, z_hat, discrete=False, shuffles=0)
    assert told.score != plain.score or getattr(told, "estimator", "") == "bins"  # each value has a bin of its own
    assert told.kinds == "Factors (declared): continuous z1, z2, z3"
    assert plain.kinds == "Factors (detected by their values): discrete z1, z2; continuous z3"


@every
def test_the_kinds_of_factors_are_those_of_all_rows(metric: Any) -> None:
    z = (np.arange(100) // 2)[:, None] % 40 * 1.0  # in half of the rows, values no longer repeat twice on average
    full = metric(z, z + noise(100, 2), subsamples=10)
    assert full.kinds == "Factors (detected by their values): discrete z1"
    declared = metric(z, z + noise(100, 2), subsamples=10, discrete=True)
    assert full.uncertainty == declared.uncertainty


def test_the_results_speak_and_become_plain_data() -> None:
    z, z_hat = mixed(300, 4)
    z_hat[:, 1] = 3
    found = mig(z, z_hat, ceiling=True)
    assert str(found) == (
        f"MIG {found.score:.2f} (chance {found.chance:.2f}, ceiling {found.ceiling:.2f}); forgives element-wise; "
        "3 of 4 latents and 3 of 3 factors vary, 300 rows. "
        "Factors (detected by their values): discrete z1, z2; continuous z3"
    )
    plain = json.loads(json.dumps(found.to_dict()))
    assert plain["matrix"] == found.matrix.tolist()
    assert plain["active"] == [0, 2, 3]
    assert plain["estimator"] == "neighbours"
    assert plain["range"] == {"MIG": [0, 1]}
    separated = sap(z, z_hat)
    assert str(separated).startswith(f"SAP {separated.score:.2f} (chance {separated.chance:.2f}); forgives perm")
    assert json.loads(json.dumps(separated.to_dict()))["held_out"] is True
    assert not sap(z, z_hat, held_out=False).held_out
