"""Degenerate mixtures are found again: by the zeros of sparse codes, and by expectation–maximisation."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.stats import multivariate_normal
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.utils.estimator_checks import estimator_checks_generator

import noumena as nm
from noumena.ambiguity import Ambiguity
from noumena.checks import InputError
from noumena.estimators.sparse.gaussians import DegenerateGaussians, _flat, mixture_of_masks
from noumena.mixtures import Mixture

LAW = Mixture(
    [0.2, 0.35, 0.45],
    [[1, 0.5, 0], [0, 2, 0.5], [0.5, 0, -1.5]],
    [[[1, 0.3, 0], [0.3, 0.5, 0], [0, 0, 0]], np.diag([0, 2, 1]), [[1.5, 0, -0.4], [0, 0, 0], [-0.4, 0, 0.7]]],
)
MASKS = np.array([[True, False, True], [False, True, True], [True, True, False]])
"""From the most frequent component to the rarest."""
ORDER = [2, 1, 0]


def noisy(z: np.ndarray, spread: float) -> np.ndarray:
    return z + spread * np.random.default_rng(9).normal(size=z.shape)


# ---- by zeros ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("spread", "threshold"), [(0.0, 1e-3), (1e-3, 0.01), (0.02, 0.1)])
def test_rows_with_the_same_zeros_are_one_component(spread, threshold):
    z, u = LAW.sample(6000, random_state=1)
    found = mixture_of_masks(noisy(z, spread), threshold=threshold)
    assert np.array_equal(found.masks, MASKS)
    assert np.mean(np.array(ORDER)[found.labels] == u) > 0.97
    np.testing.assert_array_equal(found.counts, np.bincount(found.labels))
    np.testing.assert_allclose(found.mixture.weights, LAW.weights[ORDER], atol=0.02)
    np.testing.assert_allclose(found.mixture.means, LAW.means[ORDER], atol=0.1)
    np.testing.assert_allclose(found.mixture.covariances, LAW.covariances[ORDER], atol=0.15)
    assert found.mixture.ranks().tolist() == [2, 2, 2]
    assert (found.mixture.means[~MASKS] == 0).all()


def test_the_moments_are_those_of_the_rows():
    z, u = LAW.sample(500, random_state=2)
    found = mixture_of_masks(z)
    assert found.exact.all()
    for j, component in enumerate(ORDER):
        rows = z[u == component]
        np.testing.assert_allclose(found.mixture.means[j], rows.mean(axis=0), atol=1e-12)
        np.testing.assert_allclose(found.mixture.covariances[j], np.cov(rows.T, bias=True), atol=1e-12)
    assert found.mixture.weights.tolist() == (found.counts / 500).tolist()


def test_a_small_value_by_accident_makes_no_component_and_a_frequent_pattern_does():
    rng = np.random.default_rng(0)
    z = rng.normal(size=(5000, 2))
    assert mixture_of_masks(z, threshold=0.05).masks.tolist() == [[True, True]]
    z[:1500, 1] = 0
    found = mixture_of_masks(z, threshold=0.05)
    assert found.masks.tolist() == [[True, True], [True, False]]
    assert found.exact.all()


def test_rare_patterns_join_the_nearest_and_leave_its_moments_alone():
    z, _ = LAW.sample(1000, random_state=3)
    spoilt = np.vstack([z, np.full((4, 3), 2.0)])
    found, clean = mixture_of_masks(spoilt), mixture_of_masks(z)
    assert np.array_equal(found.masks, clean.masks)
    assert found.exact.tolist() == [True] * 1000 + [False] * 4
    np.testing.assert_allclose(found.mixture.means, clean.mixture.means)
    assert found.counts.sum() == 1004
    assert mixture_of_masks(spoilt, min_rows=4).masks.any(axis=0).sum() == 3
    assert len(mixture_of_masks(spoilt, min_rows=4).masks) == 4


def test_the_ladder_reads_permutation_and_scaling_off_the_codes_of_a_good_world():
    z, _ = LAW.sample(4000, random_state=4)
    law = mixture_of_masks(z).mixture
    reading = nm.certify(law, by="degenerate", at=z)
    assert reading.broken == ()
    assert all(reading.ambiguity(i) == Ambiguity("permutation+scaling") for i in range(3))


def test_codes_without_zeros_are_one_component_and_never_active_ones_a_point():
    dense = np.random.default_rng(0).normal(size=(60, 2)) + 5
    found = mixture_of_masks(dense)
    assert found.masks.tolist() == [[True, True]]
    np.testing.assert_allclose(found.mixture.covariances[0], np.cov(dense.T, bias=True))
    assert mixture_of_masks(np.zeros((20, 2))).mixture.ranks().tolist() == [0]
    scattered = np.eye(6)[np.arange(18) % 6]
    assert mixture_of_masks(scattered, threshold=0.1).masks.tolist() == [[True] * 6]
    assert len(mixture_of_masks(scattered, threshold=0.1, min_rows=3).masks) == 6


def test_fewer_rows_than_active_latents_still_fill_their_support():
    z = np.random.default_rng(0).normal(size=(12, 20)) + 3
    assert mixture_of_masks(z).mixture.ranks().tolist() == [20]


def test_impossible_thresholds_and_counts_are_refused():
    with pytest.raises(InputError, match="threshold must be a finite number"):
        mixture_of_masks(np.ones((5, 2)), threshold=-1)
    with pytest.raises(InputError, match="min_rows must be a whole number"):
        mixture_of_masks(np.ones((5, 2)), min_rows=0)
    with pytest.raises(InputError, match="z_hat must have at least 2 rows"):
        mixture_of_masks(np.ones((1, 2)))


# ---- by expectation–maximisation ---------------------------------------------------------------------------


def matched(model: DegenerateGaussians, law: Mixture) -> list[int]:
    """The fitted component nearest to each true one."""
    return [int(((model.mixture_.means - mean) ** 2).sum(axis=1).argmin()) for mean in law.means]


@pytest.mark.parametrize("spread", [0.0, 0.01])
def test_flat_components_are_found_with_their_ranks(spread):
    z, u = LAW.sample(2000, random_state=5)
    x = noisy(z, spread)
    model = DegenerateGaussians(3, n_restarts=3).fit(x)
    order = matched(model, LAW)
    assert sorted(order) == [0, 1, 2]
    assert model.ranks_.tolist() == model.mixture_.ranks().tolist() == [2, 2, 2]
    assert np.mean(np.argsort(order)[model.predict(x)] == u) > 0.98
    np.testing.assert_allclose(model.mixture_.weights[order], LAW.weights, atol=0.04)
    np.testing.assert_allclose(model.mixture_.covariances[order], LAW.covariances, atol=0.25)
    if spread:
        np.testing.assert_allclose(model.noise_, spread**2, rtol=0.2)
    assert model.restart_bounds_.max() == model.lower_bound_ == pytest.approx(model.score(x))


def test_ranks_differ_where_the_components_do_also_off_the_axes():
    turn = np.linalg.qr(np.random.default_rng(1).normal(size=(3, 3)))[0]
    covariances = [turn @ np.diag(d) @ turn.T for d in ([2, 0, 0], [1, 1.5, 0], [1, 0.7, 0.8])]
    law = Mixture([0.3, 0.3, 0.4], [[4, 0, 0], [0, 5, 0], [0, 0, -5]], covariances)
    model = DegenerateGaussians(3, n_restarts=2).fit(1000 * noisy(law.sample(1500, random_state=6)[0], 0.003))
    order = np.argsort(model.ranks_)
    assert model.ranks_[order].tolist() == [1, 2, 3]
    assert model.noise_[order[2]] == 0
    line = model.mixture_.supports(tolerance=1e-6)[order[0]]
    assert abs(float(line.basis[:, 0] @ turn[:, 0])) == pytest.approx(1, abs=1e-3)


def test_snapped_to_axes_the_ladder_ends_at_permutation_and_scaling():
    x = noisy(LAW.sample(2000, random_state=7)[0], 0.005)
    model = DegenerateGaussians(3, n_restarts=2, axes=True).fit(x)
    assert model.ranks_.tolist() == [2, 2, 2]
    for covariance in model.mixture_.covariances:
        assert (np.diag(covariance) == 0).sum() == 1
    reading = nm.certify(model.mixture_, by="degenerate", at=x)
    assert reading.broken == ()
    assert reading.ambiguity(0) == Ambiguity("permutation+scaling")


def test_densities_and_probabilities_are_those_of_the_mixture_with_its_noise():
    z, _ = LAW.sample(300, random_state=8)
    x = noisy(z, 0.1)
    model = DegenerateGaussians(2, n_restarts=1, max_iter=20).fit(x)
    parts = zip(model.mixture_.weights, model.mixture_.means, model.covariances_, strict=True)
    joint = np.column_stack([w * multivariate_normal.pdf(x, m, S) for w, m, S in parts])
    np.testing.assert_allclose(np.exp(model.score_samples(x)), joint.sum(axis=1), rtol=1e-8)
    np.testing.assert_allclose(model.predict_proba(x), joint / joint.sum(axis=1, keepdims=True), atol=1e-8)
    np.testing.assert_array_equal(model.predict(x), joint.argmax(axis=1))


def test_noise_is_taken_out_of_the_variances_that_stay():
    turn = np.linalg.qr(np.random.default_rng(2).normal(size=(3, 3)))[0]
    covariance, rank, noise = _flat(turn @ np.diag([4, 3, 0.05]) @ turn.T, 30.0, axes=False)
    np.testing.assert_allclose(covariance, turn @ np.diag([3.95, 2.95, 0]) @ turn.T, atol=1e-12)
    assert (rank, round(noise, 12)) == (2, 0.05)


def test_a_component_without_a_gap_is_full():
    x = np.random.default_rng(0).normal(size=(500, 3)) * np.array([1, 0.5, 0.3])
    model = DegenerateGaussians(1, n_restarts=1).fit(x)
    assert model.ranks_.tolist() == [3]
    assert DegenerateGaussians(1, n_restarts=1, gap=2).fit(x).ranks_.tolist() == [1]


def test_the_same_state_fits_the_same_and_the_data_are_forgotten():
    x = noisy(LAW.sample(200, random_state=0)[0], 0.01)
    first = DegenerateGaussians(3, n_restarts=1, random_state=3).fit(x)
    again: Any = clone(first)
    again.fit(x)
    np.testing.assert_array_equal(first.mixture_.means, again.mixture_.means)
    assert not any(value is x for value in vars(first).values())


def contract() -> Any:
    """scikit-learn's checks, but the one that hands over parameters of other types: types are checked here."""
    cases: Any = estimator_checks_generator(DegenerateGaussians(2, n_restarts=1, max_iter=10))
    for estimator, check in cases:
        name = getattr(check, "func", check).__name__
        if name != "check_do_not_raise_errors_in_init_or_set_params":
            yield pytest.param(estimator, check, id=name)


@pytest.mark.parametrize(("estimator", "check"), list(contract()))
def test_scikit_learns_own_check_passes(estimator, check):
    check(estimator)


@pytest.mark.parametrize(
    ("parameters", "rows", "sentence"),
    [
        ({"n_components": 0}, 20, "n_components must be a whole number"),
        ({"n_components": 20}, 20, "20 components must have more rows than that. Got 20 rows"),
        ({"gap": 0.5}, 20, "gap must be a finite number"),
        ({"floor": 0.0}, 20, "floor must be a finite number"),
        ({"n_restarts": 0}, 20, "n_restarts must be a whole number"),
    ],
)
def test_impossible_settings_are_refused_by_fit(parameters, rows, sentence):
    with pytest.raises(InputError, match=sentence):
        DegenerateGaussians(**parameters).fit(np.random.default_rng(0).normal(size=(rows, 2)))


def test_equal_rows_and_predictions_before_fitting_are_refused():
    with pytest.raises(InputError, match="X must vary"):
        DegenerateGaussians().fit(np.ones((20, 2)))
    with pytest.raises(NotFittedError):
        DegenerateGaussians().predict(np.ones((2, 2)))
