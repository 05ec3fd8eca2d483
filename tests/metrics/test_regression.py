"""R² agrees with scikit-learn, is judged on rows it was not fitted on, and is defined at the edges."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import LinearRegression
from sklearn.metrics import r2_score
from sklearn.preprocessing import StandardScaler

from noumena import seeds
from noumena.ambiguity import Ambiguity
from noumena.checks import InputError
from noumena.metrics import r2

KINDS = ("linear", "kernel")


def tables(n: int = 200, d: int = 3, d_hat: int = 4, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    z = rng.normal(size=(n, d)) * [1, 10, 0.1][:d] + 5
    return z, np.tanh(z @ rng.normal(size=(d, d_hat))) + 0.1 * rng.normal(size=(n, d_hat))


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 1000), st.integers(1, 3), st.integers(1, 4), st.integers(10, 80))
def test_in_sample_linear_r2_is_scikit_learns(seed: int, d: int, d_hat: int, n: int) -> None:
    z, z_hat = tables(n, d, d_hat, seed)
    found = r2(z, z_hat, held_out=False)
    predicted = LinearRegression().fit(z_hat, z).predict(z_hat)
    np.testing.assert_allclose(found.per_target, r2_score(z, predicted, multioutput="raw_values"), atol=1e-7)
    assert found.score == pytest.approx(r2_score(z, predicted), abs=1e-7)
    assert found.rows == n
    assert not found.held_out


def test_in_sample_kernel_r2_is_scikit_learns() -> None:
    z, z_hat = tables()
    inputs, outputs = StandardScaler().fit_transform(z_hat), StandardScaler().fit_transform(z)
    ridge = KernelRidge(alpha=1.0, kernel="rbf", gamma=1 / z_hat.shape[1]).fit(inputs, outputs)
    expected = r2_score(outputs, ridge.predict(inputs), multioutput="raw_values")
    found = r2(z, z_hat, regressor="kernel", held_out=False)
    np.testing.assert_allclose(found.per_target, expected)
    assert found.score == pytest.approx(expected.mean())


@pytest.mark.parametrize("n", [10, 11, 37, 200])
def test_held_out_rows_are_a_fifth_and_take_no_part_in_the_fit(n: int) -> None:
    z, z_hat = tables(n)
    found = r2(z, z_hat, seed=4)
    order = seeds.numpy_generator(4, "rows of r2").permutation(n)
    judge, fit = order[: found.rows], order[found.rows :]
    assert found.rows == max(2, round(n / 5))
    assert found.held_out
    predicted = LinearRegression().fit(z_hat[fit], z[fit]).predict(z_hat[judge])
    np.testing.assert_allclose(found.per_target, r2_score(z[judge], predicted, multioutput="raw_values"), rtol=1e-6)


def test_memorised_noise_is_punished_where_rows_are_held_out() -> None:
    rng = np.random.default_rng(0)
    z, z_hat = rng.normal(size=(40, 2)), rng.normal(size=(40, 25))
    assert r2(z, z_hat, held_out=False).score > 0.4
    assert r2(z, z_hat).score < 0.1


@pytest.mark.parametrize("kind", KINDS)
def test_identity_scores_one_and_noise_about_zero(kind: str) -> None:
    rng = np.random.default_rng(0)
    z = rng.normal(size=(800, 2))
    assert r2(z, z, regressor=kind).score > 0.98
    assert r2(z, rng.normal(size=(800, 2)), regressor=kind).score == pytest.approx(0, abs=0.15)


def test_an_affine_map_is_forgiven_and_a_bend_only_by_the_kernel() -> None:
    z = np.random.default_rng(0).normal(size=(1000, 2))
    mixed = z @ np.array([[1.0, 2], [3, 4]]) - 7
    assert r2(z, mixed).score == pytest.approx(1)
    bent = np.c_[z[:, 0] + z[:, 1] ** 2, z[:, 1]]
    linear, kernel = r2(z, bent), r2(z, bent, regressor="kernel")
    assert linear.score < 0.8
    assert kernel.score > 0.95
    assert linear.forgives == Ambiguity("affine")
    assert kernel.forgives == Ambiguity("any")


@pytest.mark.parametrize("kind", KINDS)
def test_the_direction_matters(kind: str) -> None:
    z = np.random.default_rng(0).normal(size=(600, 2))
    less = z[:, :1]
    forward = r2(z, less, regressor=kind)
    backward = r2(z, less, regressor=kind, direction="true to learned")
    assert forward.per_target.shape == (2,)
    assert forward.score == pytest.approx(0.5, abs=0.05)
    assert backward.per_target.shape == (1,)
    assert backward.score > 0.97


def test_a_constant_target_scores_zero_and_a_constant_source_explains_nothing() -> None:
    z = np.random.default_rng(0).normal(size=(100, 2))
    stuck = np.c_[z[:, 0], np.ones(100)]
    for kind in KINDS:
        assert r2(stuck, z, regressor=kind).per_target[1] == 0
        assert r2(z, np.ones((100, 1)), regressor=kind).score == pytest.approx(0, abs=0.1)


@pytest.mark.parametrize("kind", KINDS)
def test_the_seed_chooses_the_rows(kind: str) -> None:
    z, z_hat = tables()
    assert r2(z, z_hat, regressor=kind, seed=1).score == r2(z, z_hat, regressor=kind, seed=1).score
    assert r2(z, z_hat, regressor=kind, seed=1).score != r2(z, z_hat, regressor=kind, seed=2).score


def test_tensors_score_alike() -> None:
    z, z_hat = tables()
    assert r2(torch.as_tensor(z), torch.as_tensor(z_hat)).score == r2(z, z_hat).score


def test_bad_input_is_refused() -> None:
    z, z_hat = tables(20)
    with pytest.raises(InputError, match=r"regressor must be one of linear, kernel\. Got 'forest'\."):
        r2(z, z_hat, regressor="forest")
    with pytest.raises(InputError, match=r"direction must be one of learned to true, true to learned\. Got 'up'\."):
        r2(z, z_hat, direction="up")
    with pytest.raises(InputError, match=r"z must have at least 10 rows\. Got 9 "):
        r2(z[:9], z_hat[:9])
    with pytest.raises(InputError, match="must share their batch axis"):
        r2(z, z_hat[1:])
