"""Mutual information by neighbours: the matrix against slow loops, scikit-learn and the closed form of Gaussians."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.special import digamma
from sklearn.feature_selection import mutual_info_classif, mutual_info_regression

from noumena.metrics.neighbours import _column, _in_strips, _squares, entropy, information_matrix, shares


def noise(*shape: int, seed: int = 1) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape)


def mixed_factors(n: int) -> tuple[np.ndarray, tuple[bool, ...]]:
    rng = np.random.default_rng(0)
    return np.c_[rng.integers(0, 3, n), rng.normal(size=n), rng.integers(0, 9, n), rng.gamma(2, size=n)], (
        True,
        False,
        True,
        False,
    )


def slow_numbers(x: np.ndarray, y: np.ndarray, k: int) -> float:
    """Kraskov's first estimator row by row, on columns of variance 1; rows as far as the k-th neighbour count, but for
    one of them where that is the only one."""
    x, y = x / x.std(), y / y.std()
    terms = []
    for i in range(len(x)):
        across, up = np.abs(x - x[i]), np.abs(y - y[i])
        both = np.maximum(across, up)
        radius = np.sort(both)[k]
        closer, as_far = radius - 1e-9 * (1 + radius), radius + 1e-9 * (1 + radius)
        if closer <= 0:
            own, beside, above = np.sum(both <= 1e-9), np.sum(across <= 1e-9), np.sum(up <= 1e-9)
        else:
            own = np.sum(both <= as_far) - 1
            beside, above = (max(np.sum(c < closer), np.sum(c <= as_far) - 1) for c in (across, up))
        terms.append(digamma(own) - digamma(beside) - digamma(above))
    return max(0.0, digamma(len(x)) + np.mean(terms))


def slow_radius(x: np.ndarray, y: np.ndarray, k: int) -> np.ndarray:
    both = np.maximum(np.abs(x[:, None] - x), np.abs(y[:, None] - y))
    return np.sort(both, axis=1)[:, k]


# ---- the matrix --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("k", [3, 10])
def test_the_matrix_is_the_pairwise_loop_over_scikit_learn(k: int) -> None:
    values, discrete = mixed_factors(1500)
    latents = np.c_[values @ noise(4, 3) + 0.5 * noise(1500, 3, seed=2), noise(1500), np.tanh(values[:, 1])]
    found = information_matrix(values, latents, discrete, neighbours=k)
    expected = np.zeros((4, 5))
    for j in range(4):
        measure = mutual_info_classif if discrete[j] else mutual_info_regression
        for i in range(5):
            how: dict[str, Any] = {"discrete_features": False, "n_neighbors": k, "random_state": 0}
            expected[j, i] = measure(latents[:, [i]], values[:, j], **how)[0]
    np.testing.assert_allclose(found, expected, atol=1e-4)
    np.testing.assert_allclose(shares(found, values, discrete), shares(expected, values, discrete), atol=1e-4)
    assert found[1, 4] > 2 > found[0].max() > 0.02


@settings(max_examples=40, deadline=None)
@given(
    points=arrays(np.float64, (30, 2), elements=st.integers(-3, 3).map(float)),
    k=st.integers(1, 8),
)
def test_ties_in_the_plane_are_counted_as_a_slow_loop_counts_them(points: np.ndarray, k: int) -> None:
    if (np.ptp(points, axis=0) == 0).any():
        assert information_matrix(points[:, 1:], points[:, :1], (False,), neighbours=k)[0, 0] == 0
        return
    found = information_matrix(points[:, 1:], points[:, :1], (False,), neighbours=k)[0, 0]
    assert found == pytest.approx(slow_numbers(points[:, 0], points[:, 1], k), abs=1e-9)


SHAPES = {
    "independent": lambda u: (u[:, 0], u[:, 1]),
    "dependent": lambda u: (u[:, 0], 0.95 * u[:, 0] + 0.31 * u[:, 1]),
    "the same": lambda u: (u[:, 0], u[:, 0] ** 3),
    "heavy tails": lambda u: (u[:, 0] / np.abs(u[:, 1]), u[:, 2] / np.abs(u[:, 3])),
    "few levels": lambda u: (np.round(u[:, 0]), np.round(2 * u[:, 1])),
    "a level and numbers": lambda u: (np.maximum(u[:, 0], 0), u[:, 1]),
    "a cross": lambda u: (u[:, 0] * (u[:, 2] > 0), u[:, 1] * (u[:, 2] <= 0)),
}


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize(("n", "k"), [(40, 10), (700, 1), (700, 3), (700, 10), (901, 25)])
def test_squares_reach_the_neighbours_of_a_slow_search(shape: str, n: int, k: int) -> None:
    x, y = SHAPES[shape](noise(n, 4))
    across, up = _column(x), _column(y)
    radius, own = _squares(across, up, k)
    np.testing.assert_array_equal(radius, slow_radius(across.numbers, up.numbers, k))
    both = np.maximum(*(np.abs(c.numbers[:, None] - c.numbers) for c in (across, up)))
    np.testing.assert_array_equal(own, np.sum(both <= 1e-9 + radius[:, None], axis=1) - (radius > 0))


def test_strips_find_most_neighbours_and_say_where_they_may_not() -> None:
    x, y = _column(noise(3000)), _column(noise(3000, seed=2))
    found, beyond, sure = _in_strips(x, y, 10, strips=20, window=26)
    exact = slow_radius(x.numbers, y.numbers, 10)
    assert (found >= exact).all()
    assert (found > exact).any()
    right = found <= sure
    np.testing.assert_array_equal(found[right], exact[right])
    assert right.mean() > 0.7
    next_one, right = slow_radius(x.numbers, y.numbers, 11), beyond <= sure
    np.testing.assert_array_equal(beyond[right], next_one[right])


def test_more_neighbours_than_rows_are_all_the_rows() -> None:
    line = np.arange(6.0)[:, None]
    few, many = (information_matrix(line, line, (False,), neighbours=k) for k in (5, 50))
    np.testing.assert_array_equal(few, many)


# ---- known answers -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("correlation", [0.0, 0.3, 0.6, 0.9, -0.99])
def test_gaussian_pairs_have_the_information_of_the_closed_form(correlation: float) -> None:
    u = noise(6000, 2, seed=3)
    other = correlation * u[:, :1] + np.sqrt(1 - correlation**2) * u[:, 1:]
    exact = -0.5 * np.log(1 - correlation**2)
    for k in (3, 10):
        found = information_matrix(u[:, :1], other, (False,), neighbours=k)
        assert found[0, 0] == pytest.approx(exact, abs=0.03)
        assert shares(found, u[:, :1], (False,))[0, 0] == pytest.approx(correlation**2, abs=0.03)


@pytest.mark.parametrize("correlation", [0.0, 0.8])
@pytest.mark.parametrize(("unit", "units"), [(0.01, 2), (0.1, 2), (0.1, 1), (0.5, 2), (0.5, 1)])
def test_numbers_that_were_rounded_have_the_information_of_those_that_were_not(
    correlation: float, unit: float, units: int
) -> None:
    u = noise(2000, 2, seed=3)
    pair = np.c_[u[:, 0], correlation * u[:, 0] + np.sqrt(1 - correlation**2) * u[:, 1]]
    plain = information_matrix(pair[:, :1], pair[:, 1:], (False,))[0, 0]
    pair[:, :units] = np.round(pair[:, :units] / unit) * unit
    assert information_matrix(pair[:, :1], pair[:, 1:], (False,))[0, 0] == pytest.approx(plain, abs=0.04)


def test_latents_that_are_often_off_know_nothing_of_each_other() -> None:
    u = noise(5000, 4)
    off = u[:, :2] * (u[:, 2:] > 0)
    assert information_matrix(off[:, :1], off[:, 1:], (False,))[0, 0] < 0.01


def test_two_classes_of_gaussians_have_the_information_of_a_quadrature() -> None:
    labels = np.random.default_rng(0).integers(0, 2, 6000).astype(float)
    latent = 2 * labels + noise(6000)
    grid = np.linspace(-9, 11, 20001)
    within = np.exp(-0.5 * (grid[:, None] - [0, 2]) ** 2) / np.sqrt(2 * np.pi)
    total = within.mean(axis=1)
    exact = np.mean(np.sum(within * np.log(within / total[:, None]), axis=0)) * (grid[1] - grid[0])
    found = information_matrix(labels[:, None], latent[:, None], (True,))
    assert found[0, 0] == pytest.approx(exact, abs=0.02)
    assert shares(found, labels[:, None], (True,))[0, 0] == pytest.approx(exact / np.log(2), abs=0.03)


def test_constant_columns_know_nothing_and_have_nothing_to_know() -> None:
    values = np.c_[np.repeat([0.0, 1], 20), np.ones(40), noise(40), np.full(40, 0.3)]
    latents = np.c_[values[:, 0], np.full(40, 7.0), values[:, 2]]
    discrete = (True, True, False, False)
    found = information_matrix(values, latents, discrete)
    assert found[[1, 3]].max() == found[:, 1].max() == 0
    assert found[0, 0] > 0.6
    assert found[2, 2] > 0.6
    assert (shares(found, values, discrete)[[1, 3]] == 0).all()
    alone = information_matrix(
        np.arange(40.0)[:, None], latents, (True,)
    )  # every value met once: nothing to learn from
    assert (alone == 0).all()


def test_units_and_places_change_nothing_even_at_the_ends_of_the_range() -> None:
    values, discrete = mixed_factors(300)
    latents = values @ noise(4, 2) + noise(300, 2)
    plain = information_matrix(values, latents, discrete)
    for scale in (1e-200, 1e150):
        np.testing.assert_allclose(information_matrix(values, scale * latents, discrete), plain, atol=1e-9)
        continuous = information_matrix(scale * values, latents, discrete)
        np.testing.assert_allclose(continuous, plain, atol=1e-9)
    mixed_up = np.random.default_rng(0).permutation(300)
    np.testing.assert_allclose(information_matrix(values[mixed_up], latents[mixed_up], discrete), plain, atol=1e-12)
    swapped = information_matrix(values[:, ::-1], latents[:, ::-1], discrete[::-1])
    np.testing.assert_array_equal(swapped, plain[::-1, ::-1])


def test_shares_are_parts_of_the_entropy_or_of_the_variance() -> None:
    values = np.c_[np.repeat([0.0, 5], [10, 30]), np.arange(40)]
    found = shares(np.array([[0.2, 0.0], [0.2, 5.0]]), values, (True, False))
    np.testing.assert_allclose(found[0], [0.2 / entropy(np.repeat([0, 1], [10, 30])), 0])
    np.testing.assert_allclose(found[1], [1 - np.exp(-0.4), 1 - np.exp(-10)])


# ---- laws --------------------------------------------------------------------------------------------------------

MAPS = {
    "exp": np.exp,
    "cube": lambda v: v**3,
    "tanh": np.tanh,
    "falling": lambda v: -np.arctan(v),
    "steps apart": lambda v: v + 5 * np.floor(v),
}


@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 10**6), name=st.sampled_from(sorted(MAPS)), spread=st.floats(0.2, 2))
def test_monotone_maps_of_a_latent_hardly_move_its_information_with_classes(
    seed: int, name: str, spread: float
) -> None:
    labels = np.random.default_rng(seed).integers(0, 4, 1500).astype(float)[:, None]
    latent = labels / 2 + spread * noise(1500, 1, seed=seed + 1)
    plain, bent = (information_matrix(labels, v, (True,))[0, 0] for v in (latent, MAPS[name](latent)))
    assert bent == pytest.approx(plain, abs=0.05)


@settings(max_examples=25, deadline=None)
@given(names=st.lists(st.integers(-(10**6), 10**6), min_size=5, max_size=5, unique=True), seed=st.integers(0, 1000))
def test_other_names_for_the_classes_change_nothing_at_all(names: list[int], seed: int) -> None:
    labels = np.random.default_rng(seed).integers(0, 5, 200)
    latents = np.c_[labels + noise(200, seed=seed), np.round(noise(200, seed=seed + 1))]
    renamed = np.array(names, dtype=float)[labels]
    plain = information_matrix(labels.astype(float)[:, None], latents, (True,))
    np.testing.assert_allclose(information_matrix(renamed[:, None], latents, (True,)), plain, rtol=1e-12, atol=1e-14)


@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 1000), scale=st.floats(-5, 5).filter(lambda a: abs(a) > 0.01), shift=st.floats(-10, 10))
def test_shifts_and_scales_change_nothing_and_both_sides_are_one(seed: int, scale: float, shift: float) -> None:
    x, y = noise(200, 1, seed=seed), noise(200, 1, seed=seed + 1)
    y = y + x
    plain = information_matrix(y, x, (False,))
    np.testing.assert_allclose(information_matrix(y, scale * x + shift, (False,)), plain, atol=1e-6)
    np.testing.assert_allclose(information_matrix(x, y, (False,)), plain, atol=1e-9)
