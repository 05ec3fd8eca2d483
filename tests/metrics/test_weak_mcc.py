"""The weak MCC is the held-out canonical correlation, forgives every linear map and is defined at the edges."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.cross_decomposition import CCA

from noumena import seeds
from noumena.ambiguity import Ambiguity
from noumena.metrics import mcc, weak_mcc

modest = settings(max_examples=25, deadline=None)


def latents(rows: int = 600, n: int = 3, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(rows, n))


def related(rows: int = 600, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    z, rng = latents(rows, 3, seed), np.random.default_rng(seed + 1)
    return z, z @ rng.normal(size=(3, 3)) + rng.normal(size=(rows, 3))


def test_the_directions_are_those_of_scikit_learn_on_the_same_half(monkeypatch):
    z, z_hat = related()

    class InOrder:
        def permutation(self, n: int) -> np.ndarray:
            return np.arange(n)

    monkeypatch.setattr("noumena.metrics.canonical.seeds.numpy_generator", lambda *_: InOrder())
    found = weak_mcc(z, z_hat)
    a, b = CCA(3, max_iter=5000, tol=1e-12).fit(z[:300], z_hat[:300]).transform(z[300:], z_hat[300:])
    expected = [abs(np.corrcoef(a[:, i], b[:, i])[0, 1]) for i in range(3)]
    np.testing.assert_allclose(found.per_direction, expected, atol=1e-4)
    assert found.score == pytest.approx(np.mean(expected), abs=1e-4)
    assert found.rows == 300


@modest
@given(seed=st.integers(0, 1000))
def test_any_invertible_affine_map_of_either_side_is_forgiven(seed):
    z, z_hat = related(seed=seed)
    rng = np.random.default_rng(seed + 2)
    A, B = rng.normal(size=(3, 3)) + 3 * np.eye(3), 1000 * (rng.normal(size=(3, 3)) + 3 * np.eye(3))
    plain, turned = weak_mcc(z, z_hat), weak_mcc(z @ A + 5, z_hat @ B - 7)
    np.testing.assert_allclose(turned.per_direction, plain.per_direction, atol=1e-8)
    assert 0 < plain.score < 1
    assert plain.forgives == Ambiguity("affine")


def test_a_linear_mixture_scores_one_weakly_and_less_strongly():
    z = latents()
    mixed = z @ np.array([[1.0, 1, 0], [1, -1, 1], [0, 1, 2]])
    assert weak_mcc(z, mixed).score == pytest.approx(1)
    assert mcc(z, mixed).score < 0.95


def test_weak_may_lie_below_strong():
    """Few noisy rows: fitted directions do worse on the other half than plain latents do."""
    scores = []
    for seed in range(10):
        z = latents(40, 8, seed)
        z_hat = z + 1.5 * latents(40, 8, seed + 100)
        scores.append(weak_mcc(z, z_hat).score - mcc(z, z_hat).score)
    assert min(scores) < -0.05


def test_noise_scores_little_on_rows_it_was_not_fitted_on():
    assert weak_mcc(latents(2000, 5), latents(2000, 5, seed=1)).score < 0.1


@pytest.mark.parametrize("spoil", ["constant", "copy", "sum", "tiny"])
def test_columns_that_add_nothing_change_nothing(spoil):
    z, z_hat = related()
    added = {
        "constant": np.full((600, 1), 0.1),
        "copy": z_hat[:, :1],
        "sum": z_hat @ np.ones((3, 1)),
        "tiny": 1e-12 * z_hat[:, 1:2],
    }[spoil]
    plain = weak_mcc(z, z_hat)
    np.testing.assert_allclose(weak_mcc(z, np.hstack([z_hat, added])).per_direction, plain.per_direction, atol=1e-6)


def test_the_mean_is_over_the_dimensions_the_true_latents_fill():
    z = latents()
    assert weak_mcc(z, z[:, :1]).score == pytest.approx(1 / 3)
    assert weak_mcc(np.hstack([z, z[:, :1]]), z).score == pytest.approx(1)
    assert weak_mcc(z[:, :1], z).score == pytest.approx(1)
    assert weak_mcc(np.ones((600, 2)), z).score == 0
    assert weak_mcc(z, np.zeros((600, 2))).score == 0


# ---- what stands beside --------------------------------------------------------------------------------------


def test_rows_are_shuffled_within_each_half_for_the_chance():
    z, z_hat = related(61)
    order = seeds.numpy_generator(3, "rows of weak mcc").permutation(61)
    rng, scores = seeds.numpy_generator(3, "chance of weak mcc"), []
    for _ in range(4):
        shuffled = z_hat.copy()
        for half in (order[:30], order[30:]):
            shuffled[half] = z_hat[half][rng.permutation(len(half))]
        scores.append(weak_mcc(z, shuffled, shuffles=0, random_state=3).score)
    assert weak_mcc(z, z_hat, shuffles=4, random_state=3).chance == pytest.approx(np.mean(scores), abs=1e-9)
