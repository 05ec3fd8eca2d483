"""Kernel ridge is scikit-learn's where it is exact, close to it by landmarks, and keeps one kernel matrix in memory."""

import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.kernel_ridge import KernelRidge
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.preprocessing import StandardScaler

from noumena import seeds
from noumena.ambiguity import kernel_map
from noumena.metrics import kernels
from noumena.metrics.kernels import kernel_ridge, rbf


def tables(n: int = 120, d: int = 3, targets: int = 2, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    source = rng.normal(size=(n, d)) * rng.uniform(0.1, 50, d) + rng.normal(size=d)
    smooth = np.tanh((source / source.std(axis=0)) @ rng.normal(size=(d, targets)))
    return source, 20 * smooth + rng.normal(size=(n, targets)) + 7


def reference(source: np.ndarray, target: np.ndarray, new: np.ndarray) -> np.ndarray:
    inputs, outputs = StandardScaler().fit(source), StandardScaler().fit(target)
    ridge = KernelRidge(alpha=1, kernel="rbf", gamma=1 / source.shape[1])
    ridge.fit(inputs.transform(source), outputs.transform(target))
    return outputs.inverse_transform(ridge.predict(inputs.transform(new)))


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 1000), st.integers(5, 80), st.integers(1, 6), st.integers(1, 4))
def test_exact_predictions_are_scikit_learns(seed: int, n: int, d: int, targets: int) -> None:
    source, target = tables(n + 10, d, targets, seed)
    function = kernel_ridge(source[:n], target[:n])
    assert function.method == "exact"
    np.testing.assert_allclose(function(source), reference(source[:n], target[:n], source), rtol=1e-9, atol=1e-9)


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 1000), st.integers(1, 30), st.integers(1, 30), st.integers(1, 5), st.floats(0.01, 3))
def test_the_kernel_is_scikit_learns_in_pieces_of_any_size(seed: int, n: int, m: int, d: int, gamma: float) -> None:
    rng = np.random.default_rng(seed)
    a, b = rng.normal(size=(n, d)), rng.normal(size=(m, d))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kernels, "CACHED", 50)
        np.testing.assert_allclose(rbf(a, b, gamma), rbf_kernel(a, b, gamma), atol=1e-13)
        assert rbf(1000 * a, 1000 * a, gamma).max() <= 1


def test_exact_predictions_are_those_of_the_map_that_alignment_uses() -> None:
    source, target = tables(300)
    np.testing.assert_allclose(kernel_ridge(source, target)(source), kernel_map(source, target)(source), rtol=1e-9)


def test_landmarks_solve_the_equations_they_stand_for() -> None:
    """``f = K_*m (K_mn K_nm + K_mm)⁻¹ K_mn y`` for the drawn rows, by a least-squares solver."""
    source, target = tables(200)
    function = kernel_ridge(source, target, most_exact=199, landmarks=15, random_state=3)
    rows = StandardScaler().fit_transform(source)
    chosen = rows[seeds.numpy_generator(3, "landmarks").permutation(200)[:15]]
    across, among = rbf_kernel(rows, chosen, 1 / 3), rbf_kernel(chosen, chosen, 1 / 3)
    stacked = np.vstack([across, np.linalg.cholesky(among + 1e-6 * np.eye(15)).T])
    weights = np.linalg.lstsq(stacked, np.vstack([target - target.mean(axis=0), np.zeros((15, 2))]), rcond=None)[0]
    np.testing.assert_allclose(function(source), across @ weights + target.mean(axis=0), rtol=1e-6)
    assert function.method == "Nyström, 15 landmarks"
    assert len(function.centres) == 15


@pytest.mark.parametrize("d", [1, 3, 8])
def test_all_rows_as_landmarks_are_the_exact_fit(d: int) -> None:
    source, target = tables(300, d)
    near = kernel_ridge(source, target, most_exact=0, landmarks=5000)
    assert near.method == "Nyström, 300 landmarks"
    np.testing.assert_allclose(near(source), kernel_ridge(source, target)(source), atol=1e-4 * target.std())


def test_few_landmarks_explain_almost_as_much_as_all_rows() -> None:
    source, target = tables(2500, 5)
    fit, new = slice(0, 2000), slice(2000, None)
    missed = [
        ((function(source[new]) - target[new]) ** 2).mean() / target[new].var()
        for function in (
            kernel_ridge(source[fit], target[fit], most_exact=exact, landmarks=m)
            for exact, m in ((2000, 1), (0, 500), (0, 5))
        )
    ]
    assert missed[1] == pytest.approx(missed[0], abs=0.005)
    assert missed[2] > missed[0] + 0.05


def test_rows_in_pieces_give_the_same_function(monkeypatch: pytest.MonkeyPatch) -> None:
    source, target = tables(100)
    whole = kernel_ridge(source, target, most_exact=0, landmarks=30)
    found = whole(source)
    monkeypatch.setattr(kernels, "PIECE", 7)
    np.testing.assert_allclose(kernel_ridge(source, target, most_exact=0, landmarks=30)(source), found, rtol=1e-6)


@pytest.mark.parametrize("exact", [0, 1000])
def test_units_and_dead_columns_are_harmless(exact: int) -> None:
    source, target = tables(150)
    plain = kernel_ridge(source, target, most_exact=exact)(source)
    moved = kernel_ridge(1e-6 * source + 3, 1e5 * target - 4, most_exact=exact)(1e-6 * source + 3)
    np.testing.assert_allclose(moved, 1e5 * plain - 4, rtol=1e-4)
    dead = np.tile([0.0, 0.1], (150, 1))
    np.testing.assert_allclose(
        kernel_ridge(dead, target, most_exact=exact)(dead), np.tile(target.mean(axis=0), (150, 1))
    )
    np.testing.assert_allclose(kernel_ridge(source, dead, most_exact=exact)(source), dead)


def test_equal_rows_as_landmarks_are_solved() -> None:
    source = np.tile([[0.0], [1.0], [4.0]], (50, 1))
    function = kernel_ridge(source, source**2, most_exact=0, landmarks=60)
    np.testing.assert_allclose(function(source), kernel_ridge(source, source**2)(source), atol=1e-3)


def test_the_seed_draws_the_landmarks() -> None:
    source, target = tables(80)
    one, again, other = (
        kernel_ridge(source, target, most_exact=0, landmarks=9, random_state=s)(source) for s in (1, 1, 2)
    )
    np.testing.assert_array_equal(one, again)
    assert not np.allclose(one, other)


def test_one_kernel_matrix_is_in_memory() -> None:
    source, target = tables(1500, 4)
    kernel_ridge(source[:50], target[:50])
    tracemalloc.start()
    kernel_ridge(source, target)(source[:300])
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1.3 * 8 * 1500**2


def test_a_matrix_that_is_not_positive_is_refused() -> None:
    with pytest.raises(np.linalg.LinAlgError, match="not positive definite"):
        kernels._solved(-np.eye(3), np.ones((3, 1)))
