"""The affine distance of mixtures is zero exactly between equivalent ones, and otherwise what an integral says."""

import numpy as np
import pytest
from scipy.linalg import expm
from scipy.stats import multivariate_normal
from sklearn.mixture import GaussianMixture

from noumena.ambiguity import Ambiguity
from noumena.metrics import affine_distance
from noumena.metrics.mixtures import _Search, _standard
from noumena.mixtures import Mixture


def mixture(k: int, n: int, seed: int) -> Mixture:
    rng = np.random.default_rng(seed)
    roots = rng.normal(size=(k, n, n))
    covariances = roots @ roots.transpose(0, 2, 1) / n + 0.1 * np.eye(n)
    return Mixture(rng.dirichlet(np.full(k, 4.0)), 2 * rng.normal(size=(k, n)), covariances)


def density(law: Mixture, x: np.ndarray) -> np.ndarray:
    parts = zip(law.weights, law.means, law.covariances, strict=True)
    return sum(w * multivariate_normal.pdf(x, m, S) for w, m, S in parts)  # type: ignore[return-value]


@pytest.mark.parametrize(("k", "n"), [(1, 2), (3, 1), (2, 2), (3, 3), (2, 4), (6, 4)])
def test_equivalent_mixtures_are_at_distance_zero_and_the_map_is_the_right_one(k, n):
    p, rng = mixture(k, n, 10 * k + n), np.random.default_rng(1)
    A, b = rng.normal(size=(n, n)) + np.eye(n), rng.normal(size=n)
    found = affine_distance(p, p.pushed(A, b), restarts=2)
    assert found.normalised < 1e-4
    assert found.distance < 1e-4
    image = p.pushed(A, b).pushed(found.A, found.b)
    np.testing.assert_allclose(image.covariance, p.covariance, atol=1e-3)
    np.testing.assert_allclose(image.mean, p.mean, atol=1e-3)


def test_the_distance_is_the_integral_of_the_squared_difference():
    p, q = mixture(3, 2, 0), mixture(2, 2, 1)
    found = affine_distance(p, q, restarts=3)
    grid = np.linspace(-12, 12, 241)
    x = np.stack(np.meshgrid(grid, grid), axis=-1).reshape(-1, 2)
    cell = (grid[1] - grid[0]) ** 2
    apart = density(p, x) - density(q.pushed(found.A, found.b), x)
    assert found.distance == pytest.approx(np.sqrt((apart**2).sum() * cell), rel=1e-6)
    assert found.normalised == pytest.approx(found.distance / np.sqrt((density(p, x) ** 2).sum() * cell), rel=1e-6)
    assert 0.05 < found.normalised < 1


def test_no_map_nearby_is_better():
    p, q = mixture(2, 2, 3), mixture(2, 2, 4)
    found = affine_distance(p, q, restarts=4)
    grid = np.linspace(-12, 12, 161)
    x = np.stack(np.meshgrid(grid, grid), axis=-1).reshape(-1, 2)
    rng = np.random.default_rng(0)
    here = ((density(p, x) - density(q.pushed(found.A, found.b), x)) ** 2).sum()
    for _ in range(20):
        A, b = found.A + 0.03 * rng.normal(size=(2, 2)), found.b + 0.03 * rng.normal(size=2)
        assert ((density(p, x) - density(q.pushed(A, b), x)) ** 2).sum() > here


def test_one_peak_from_two_is_a_distance_known_by_hand():
    """Far apart peaks: the best single peak covers one of them, and half of ``‖p‖²`` stays."""
    p = Mixture([0.5, 0.5], [[0], [1000]], [[[1]], [[1]]])
    found = affine_distance(p, Mixture([1.0], [[5]], [[[4]]]))
    # ‖p‖² = 2·¼/√(4π); one unit-weight peak of width s: 1/(2s√π) − 2·½/√(2π(1+s²)) is added, least at its best s
    s = np.linspace(0.3, 60, 200_000)
    least = (0.5 / np.sqrt(4 * np.pi) + 1 / np.sqrt(4 * np.pi) / s - 1 / np.sqrt(2 * np.pi * (1 + s**2))).min()
    assert found.distance == pytest.approx(np.sqrt(least), rel=1e-5)


def test_the_normalised_distance_knows_no_units_and_the_distance_those_of_p():
    p, q, A = mixture(2, 2, 5), mixture(2, 2, 6), np.array([[30.0, 1], [0, 0.02]])
    plain = affine_distance(p, q)
    assert affine_distance(p, q.pushed(A, [5, 6])).distance == pytest.approx(plain.distance, rel=1e-3)
    bigger = affine_distance(p.pushed(100 * np.eye(2)), q)
    assert bigger.normalised == pytest.approx(plain.normalised, rel=1e-3)
    assert bigger.distance == pytest.approx(plain.distance / 100, rel=1e-3)


def test_the_order_of_the_pair_matters():
    p, q = Mixture([0.5, 0.5], [[0], [9]], [[[1]], [[1]]]), Mixture([1.0], [[0]], [[[1]]])
    assert affine_distance(p, q).normalised > affine_distance(q, p).normalised + 0.05


def test_more_restarts_never_find_less():
    p, q = mixture(3, 2, 7), mixture(3, 2, 8)
    found = [affine_distance(p, q, restarts=r).distance for r in (1, 4, 8)]
    assert found[0] >= found[1] - 1e-12
    assert found[1] >= found[2] - 1e-12


def test_a_rotation_that_is_a_little_off_is_turned_until_components_match():
    p, M = _standard(mixture(6, 3, 9), "p")[0], np.random.default_rng(0).normal(size=(2, 3, 3))
    truth, off = (expm(size * np.triu(M) - size * np.triu(M).T) for size, M in ((1, M[0]), (0.1, M[1])))
    search = _Search(p.pushed(truth), p)
    assert np.abs(truth @ off - truth).max() > 0.05
    np.testing.assert_allclose(search.matched(truth @ off), truth, atol=1e-6)
    np.testing.assert_allclose(search.signed(), truth, atol=1e-6)


def test_a_fitted_mixture_of_scikit_learn_is_read():
    p = Mixture([0.4, 0.6], [[0, 0], [4, 1]], [np.eye(2), np.diag([0.5, 2])])
    fitted = GaussianMixture(2, random_state=0).fit(p.sample(20_000)[0])
    assert affine_distance(p, fitted, restarts=3).normalised < 0.05


def test_the_record_has_both_distances_with_their_ranges_and_less_is_better():
    p = mixture(2, 2, 0)
    found = affine_distance(p, mixture(2, 2, 1), restarts=1)
    assert found.value == (found.distance, found.normalised)
    assert [number.value for number in found.numbers] == [found.distance, found.normalised]
    assert [(claim.best, claim.range) for claim in found.claims] == [(0, (0, float("inf"))), (0, (0, 1))]
    assert [number.ceiling for number in found.numbers] == [0, 0]
    assert found.forgives == Ambiguity("affine")
    assert all(claim.range[0] <= getattr(found, claim.field) <= claim.range[1] for claim in found.claims)


@pytest.mark.parametrize("seed", range(2))
def test_affine_maps_of_the_second_mixture_are_forgiven(seed):
    rng = np.random.default_rng(seed)
    p, q = mixture(2, 2, seed), mixture(2, 2, seed + 10)
    moved = q.pushed(rng.normal(size=(2, 2)) + 2 * np.eye(2), rng.normal(size=2))
    plain, again = affine_distance(p, q, restarts=4), affine_distance(p, moved, restarts=4)
    assert again.normalised == pytest.approx(plain.normalised, abs=0.02)
