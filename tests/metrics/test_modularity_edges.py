"""Modularity and explicitness are defined at the edges, and their records say how they were measured."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch
from modularity_samples import KINDS, mixed, noise, truth

from noumena.metrics.explicitness import modularity, one_factor
from noumena.metrics.factors import factors_of

# ---- edges -------------------------------------------------------------------------------------------------------


@KINDS
def test_constant_latents_are_left_out(discrete: bool) -> None:
    z = truth(discrete)
    z_hat = z + 0.3 * noise(600, 3)
    plain, dead = modularity(z, z_hat), modularity(z, np.c_[np.full(600, 0.1), z_hat, np.zeros(600)])
    assert dead.modularity == plain.modularity
    assert dead.explicitness == pytest.approx(plain.explicitness, abs=1e-6)
    assert dead.active.tolist() == [1, 2, 3]
    assert dead.best.tolist() == plain.best.tolist()
    none = modularity(z, np.ones((600, 2)))
    assert none.value == none.chance == (0, 0)
    assert none.per_latent.size == none.active.size == 0
    assert none.per_factor.tolist() == [0, 0, 0]


def test_a_latent_that_knows_nothing_counts_zero() -> None:
    z = np.arange(100)[:, None] % 2 * 1.0
    z = np.c_[z, z]
    blank = (np.arange(100) // 2 % 2)[:, None] * 1.0  # independent of both, exactly
    found = modularity(z, np.c_[z[:, :1], blank], estimator="bins", shuffles=0)
    assert found.per_latent.tolist() == [0, 0]  # the first knows both factors alike
    assert found.best.tolist() == [0, -1]


def test_one_factor_alone_leaves_nothing_to_confuse() -> None:
    z = truth(True)
    found = modularity(z[:, :1], z, estimator="bins", shuffles=0)
    assert found.per_latent.tolist() == [1, 1, 1]
    assert one_factor(np.array([[0.3], [0.0]])).tolist() == [1, 0]


def test_constant_factors_are_left_out_and_said() -> None:
    z = truth(True)
    z_hat = z + noise(600, 3)
    plain, dead = modularity(z, z_hat), modularity(np.c_[np.full(600, 7.0), z], z_hat)
    assert (dead.value, dead.chance) == (plain.value, plain.chance)
    assert dead.factors.tolist() == [1, 2, 3]
    assert dead.best.tolist() == (plain.best + 1).tolist()
    assert dead.kinds.endswith("constant and left out z1")


def test_values_met_on_one_side_only_have_no_area() -> None:
    z = np.zeros((50, 1))
    z[:, 0] = np.arange(50) % 2
    z[3], z[20] = 2, 2  # for some seed both lie on one side
    scores = [
        modularity(z, z + 0.1 * noise(50, 1), random_state=s, discrete=True, shuffles=0).explicitness for s in range(6)
    ]
    np.testing.assert_allclose(scores, 1, atol=0.1)
    alone = np.zeros((20, 1))
    alone[4] = 1
    scores = [modularity(alone, alone, random_state=s, discrete=True, shuffles=0).explicitness for s in range(6)]
    assert set(scores) == {0.0}  # in the fitted rows or in the judged ones it is missing


@pytest.mark.parametrize("estimator", ["neighbours", "bins"])
def test_ten_rows_and_classes_met_once_are_defined(estimator: str) -> None:
    z = np.array([[0, 1, 2, 3, 4, 5, 6, 7, 8, 8], [0, 0, 0, 0, 0, 0, 0, 0, 0, 1]]).T * 1.0
    for z_hat in (noise(10, 2), np.ones((10, 2)), noise(10, 1)):
        found = modularity(z, z_hat, discrete=True, estimator=estimator, subsamples=10, ceiling=True)
        assert np.isfinite([*found.value, *found.chance, *found.ceiling]).all()  # type: ignore[misc]
        assert all(0 <= number.value <= 1 for number in found.numbers)


# ---- records -----------------------------------------------------------------------------------------------------


def test_tensors_names_and_factors_with_their_kinds_score_alike() -> None:
    z, z_hat = mixed(300, 4)
    plain = modularity(z, z_hat)
    assert modularity(torch.as_tensor(z), torch.as_tensor(z_hat)).numbers == plain.numbers
    assert modularity(factors_of(z), z_hat).numbers == plain.numbers
    named = z.astype(object)
    named[:, 0] = np.array(["ball", "cube"])[z[:, 0].astype(int)]
    assert modularity(named, z_hat).numbers == plain.numbers
    told = modularity(z, z_hat, discrete=False, shuffles=0)
    assert told.per_factor[1] == pytest.approx(plain.per_factor[1], abs=0.3)
    assert told.per_factor[1] != plain.per_factor[1]
    assert told.kinds == "Factors (declared): continuous z1, z2, z3"


def test_the_result_speaks_and_becomes_plain_data() -> None:
    z, z_hat = mixed(300, 4)
    z_hat[:, 1] = 3
    found = modularity(z, z_hat)
    assert found.chance is not None
    assert str(found) == (
        f"Modularity {found.modularity:.2f} (chance {found.chance.modularity:.2f}), "
        f"Explicitness {found.explicitness:.2f} (chance {found.chance.explicitness:.2f}); "
        "forgives permutation+scaling; 3 of 4 latents and 3 of 3 factors vary, 300 rows, explicitness held-out. "
        "Factors (detected by their values): discrete z1, z2; continuous z3"
    )
    plain = json.loads(json.dumps(found.to_dict()))
    assert plain["matrix"] == found.matrix.tolist()
    assert plain["active"] == [0, 2, 3]
    assert plain["chance"] == found.chance._asdict()
    assert plain["range"] == {"Modularity": [0, 1], "Explicitness": [0, 1]}
    assert "explicitness in-sample" in str(modularity(z, z_hat, held_out=False))
