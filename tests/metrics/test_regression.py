"""R² agrees with scikit-learn, is judged on rows it was not fitted on, and is defined at the edges."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import LinearRegression
from sklearn.metrics import r2_score
from sklearn.preprocessing import StandardScaler

from noumena import seeds
from noumena.ambiguity import Ambiguity
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
    found = r2(z, z_hat, random_state=4)
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


# ---- all rows, landmarks -------------------------------------------------------------------------------------


def test_every_fitted_row_counts() -> None:
    z, z_hat = tables(2800)
    found = r2(z, z_hat, regressor="kernel", random_state=1, shuffles=0)
    order = seeds.numpy_generator(1, "rows of r2").permutation(2800)
    judge, fit = order[:560], order[560:]
    inputs = StandardScaler().fit(z_hat[fit])
    ridge = KernelRidge(alpha=1.0, kernel="rbf", gamma=1 / 4)
    ridge.fit(inputs.transform(z_hat[fit]), z[fit] - z[fit].mean(axis=0))
    predicted = ridge.predict(inputs.transform(z_hat[judge])) + z[fit].mean(axis=0)
    np.testing.assert_allclose(found.per_target, r2_score(z[judge], predicted, multioutput="raw_values"), rtol=1e-9)
    assert (found.method, found.rows) == ("exact", 560)


def test_landmarks_come_in_beyond_the_exact_rows_and_are_said() -> None:
    z, z_hat = tables(1000)
    exact = r2(z, z_hat, regressor="kernel", most_exact=800)
    near = r2(z, z_hat, regressor="kernel", most_exact=799)
    assert (exact.method, near.method) == ("exact", "Nyström, 800 landmarks")
    assert near.score == pytest.approx(exact.score, abs=1e-4)
    assert r2(z, z_hat).method == "least squares"


# ---- what stands beside --------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("direction", ["learned to true", "true to learned"])
def test_chance_is_the_score_of_shuffled_targets(kind: str, direction: str) -> None:
    z, z_hat = tables(60)
    found = r2(z, z_hat, regressor=kind, direction=direction, shuffles=4, random_state=2)
    rng = seeds.numpy_generator(2, "shuffled targets")
    orders = [rng.permutation(60) for _ in range(4)]
    pairs = [(z[p], z_hat) if direction == "learned to true" else (z, z_hat[p]) for p in orders]
    scores = [r2(a, b, regressor=kind, direction=direction, shuffles=0, random_state=2).score for a, b in pairs]
    assert found.chance == pytest.approx(np.mean(scores))
    assert found.chance < min(0, found.score)
    assert found.shuffles == 4
    assert found.score == pytest.approx(
        r2(z, z_hat, regressor=kind, direction=direction, shuffles=0, random_state=2).score
    )
    assert r2(z, z_hat, shuffles=0).chance is None


def test_in_sample_chance_lies_above_zero() -> None:
    rng = np.random.default_rng(0)
    z, z_hat = rng.normal(size=(40, 2)), rng.normal(size=(40, 10))
    assert r2(z, z_hat, held_out=False, shuffles=50).chance == pytest.approx(10 / 39, abs=0.03)


def test_the_ceiling_of_a_smoothing_regression_lies_below_one() -> None:
    z, z_hat = tables(300)
    linear, kernel = (r2(z, z_hat, regressor=kind, ceiling=True) for kind in KINDS)
    assert linear.ceiling == pytest.approx(1)
    assert 0.8 < kernel.ceiling < 0.995
    assert kernel.ceiling == r2(z, z, regressor="kernel").score
    assert r2(z, z_hat).ceiling is None


def test_the_uncertainty_covers_other_samples() -> None:
    z, z_hat = tables(20_000)
    found = r2(z[:400], z_hat[:400], subsamples=40)
    others = [r2(z[i : i + 400], z_hat[i : i + 400], shuffles=0).score for i in range(400, 20_000, 400)]
    assert 0.5 < found.uncertainty.error / np.std(others) < 2
    assert found.uncertainty.low < np.mean(others) < found.uncertainty.high
    assert found.uncertainty.draws == 40


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("direction", ["learned to true", "true to learned"])
def test_the_record_says_what_the_score_supports(kind: str, direction: str) -> None:
    z, z_hat = tables(50)
    found = r2(z, z_hat, regressor=kind, direction=direction)
    claim = found.claims[0]
    assert claim.title == f"R² ({kind}, {direction})"
    assert {"linear": "affine", "kernel": "smooth"}[kind] in claim.supports
    assert ("hold" in claim.supports.split(";")[0]) == (direction == "true to learned")
    assert claim.range == (-np.inf, 1)
    assert found.to_dict()["method"] == {"linear": "least squares", "kernel": "exact"}[kind]
    assert r2(z, z_hat, held_out=False).claims[0].title == "R² (linear, learned to true, in sample)"


def test_a_learned_latent_that_never_varies_counts_zero_as_a_target_and_it_is_printed() -> None:
    z = np.random.default_rng(0).normal(size=(100, 2))
    still = np.column_stack([z, np.ones(100)])
    back = r2(z, still, direction="true to learned")
    assert (back.per_target[2], back.constant) == (0, (2,))
    assert str(back).endswith("; constant and counted 0: ẑ3")
    assert r2(z, still).constant == r2(still, z, direction="true to learned").constant == ()
