"""MIG and SAP are defined at the edges, and their records say how they were measured."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
import torch
from gap_samples import KINDS, every, mixed, noise, truth

from noumena.checks import InputError
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
            found = metric(z, z_hat, discrete=True, bootstrap=10, ceiling=True, seed=seed)
            interval = found.uncertainty
            assert np.isfinite([found.score, found.chance, found.ceiling, interval.low, interval.high]).all()
            assert 0 <= found.score <= 1


@every
@KINDS
@pytest.mark.parametrize("unit", [1e200, 1e-200])
def test_no_unit_is_too_large_or_too_small(metric: Any, discrete: bool, unit: float) -> None:
    z = truth(discrete, 200)
    z_hat = z + noise(200, 3)
    plain, scaled = metric(z, z_hat, shuffles=0), metric(z * unit, z_hat * unit, discrete=discrete, shuffles=0)
    np.testing.assert_allclose(scaled.matrix, plain.matrix, atol=1e-9)
    assert plain.matrix.max() > 0.2


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
def test_chance_ceiling_and_uncertainty_are_measured_on_request(metric: Any) -> None:
    z, z_hat = mixed(300, 2)
    bare = metric(z, z_hat, shuffles=0)
    assert (bare.chance, bare.ceiling, bare.uncertainty) == (None, None, None)
    full = metric(z, z_hat, shuffles=2, ceiling=True, bootstrap=10)
    assert full.score == bare.score
    assert full.ceiling == metric(z, z, shuffles=0).score
    assert full.ceiling > full.score + 0.1
    assert 0 <= full.chance < 0.2
    assert 0 < full.uncertainty.error < 0.2
    assert full.uncertainty.low < full.score < full.uncertainty.high
    again = metric(z, z_hat, shuffles=2, ceiling=True, bootstrap=10)
    assert again.numbers == full.numbers
    assert metric(z, z_hat, shuffles=1).chance != full.chance


@every
def test_rows_are_drawn_by_the_seed(metric: Any) -> None:
    z, z_hat = mixed(400, 2)
    first, again, other = (metric(z, z_hat, rows=100, seed=s, shuffles=0) for s in (1, 1, 2))
    assert first.rows == 100
    assert first.score == again.score != other.score
    assert metric(z, z_hat, shuffles=0).rows == 400


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
    full = metric(z, z + noise(100, 2), bootstrap=10)
    assert full.kinds == "Factors (detected by their values): discrete z1"
    declared = metric(z, z + noise(100, 2), bootstrap=10, discrete=True)
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


@every
def test_bad_input_is_refused(metric: Any) -> None:
    z, z_hat = mixed(40, 0)
    with pytest.raises(InputError, match="must share their batch axis"):
        metric(z, z_hat[1:])
    with pytest.raises(InputError, match="z must have at least 10 rows"):
        metric(z[:9], z_hat[:9])
    with pytest.raises(InputError, match="z_hat must be finite"):
        metric(z, np.where(z_hat > 1, np.nan, z_hat))
    with pytest.raises(InputError, match=r"Some factor must vary\. Got 2 constant columns of z\."):
        metric(np.ones((40, 2)), z_hat)
    with pytest.raises(InputError, match="rows must be a whole number of at least 10"):
        metric(z, z_hat, rows=9)
    with pytest.raises(InputError, match="seed must be a whole number of at least 0"):
        metric(z, z_hat, seed=-1)
    with pytest.raises(InputError, match="discrete must be True or False"):
        metric(z, z_hat, discrete=[7])
    with pytest.raises(InputError, match="bootstrap must be 0 or at least 10 halves"):
        metric(z, z_hat, bootstrap=3)


def test_an_unknown_estimator_is_refused() -> None:
    z, z_hat = mixed(40, 0)
    with pytest.raises(InputError, match=r"estimator must be one of neighbours, bins\. Got 'kernel'\."):
        mig(z, z_hat, estimator="kernel")
    with pytest.raises(InputError, match="neighbours must be a whole number of at least 1"):
        mig(z, z_hat, neighbours=0)
    with pytest.raises(InputError, match="bins must be a whole number of at least 2"):
        mig(z, z_hat, estimator="bins", bins=1)
