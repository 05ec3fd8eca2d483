"""Laws have the variances, shapes and independence that they state."""

import numpy as np
import pytest
import torch
from scipy import stats

from noumena import seeds
from noumena.worlds import law
from noumena.worlds.laws import NAMES

N = 40_000
INDEPENDENT = ("gaussian", "unit gaussian", "laplace", "uniform")
DEPENDENT = ("correlated gaussian", "linear sem")


def sample(name: str, d: int = 4, *, n: int = N, seed: int = 0, draw: int = 1) -> np.ndarray:
    return law(name, d, random_state=seed).draw(n, seeds.generator(draw, "draw")).numpy()


def covariance(name: str, d: int = 4, seed: int = 0) -> np.ndarray:
    return np.cov(sample(name, d, seed=seed), rowvar=False)


def off_diagonal(matrix: np.ndarray) -> np.ndarray:
    return np.abs(matrix[~np.eye(len(matrix), dtype=bool)])


def test_every_law_is_covered() -> None:
    assert set(INDEPENDENT) | set(DEPENDENT) == set(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_draws_are_centred_tables_of_double_precision(name: str) -> None:
    chosen = law(name, 3)
    z = chosen.draw(N, seeds.generator(0, "draw"))
    assert z.shape == (N, 3)
    assert z.dtype == torch.float64
    assert (chosen.name, chosen.n_latents) == (name, 3)
    np.testing.assert_allclose(z.mean(dim=0), 0, atol=0.05)


@pytest.mark.parametrize("name", NAMES)
def test_the_seed_fixes_the_law_and_the_generator_fixes_the_draw(name: str) -> None:
    np.testing.assert_array_equal(sample(name, n=5), sample(name, n=5))
    assert not np.array_equal(sample(name, n=5, draw=1), sample(name, n=5, draw=2))


@pytest.mark.parametrize("name", ["gaussian", *DEPENDENT])
def test_another_seed_is_another_law(name: str) -> None:
    assert not np.allclose(sample(name, n=5, seed=0), sample(name, n=5, seed=1))


@pytest.mark.parametrize("name", ["unit gaussian", "laplace", "uniform", "correlated gaussian"])
def test_unit_variance_is_unit_variance(name: str) -> None:
    np.testing.assert_allclose(covariance(name).diagonal(), 1, atol=0.05)


def test_gaussian_variances_are_drawn_between_a_half_and_three() -> None:
    variances = np.concatenate([covariance("gaussian", d=20, seed=seed).diagonal() for seed in range(2)])
    assert variances.min() > 0.45
    assert variances.max() < 3.15
    assert np.ptp(variances) > 1.8
    assert variances.mean() == pytest.approx(1.75, abs=0.4)


@pytest.mark.parametrize("name", INDEPENDENT)
def test_independent_laws_say_so_and_are(name: str) -> None:
    z = sample(name)
    assert law(name, 4).independent
    bound = 4 / np.sqrt(N)
    for function in (lambda z: z, np.abs, lambda z: z > 1):
        assert off_diagonal(np.corrcoef(function(z).astype(float), rowvar=False)).max() < bound


@pytest.mark.parametrize("name", DEPENDENT)
def test_dependent_laws_say_so_and_are(name: str) -> None:
    assert not law(name, 4).independent
    assert off_diagonal(np.corrcoef(sample(name), rowvar=False)).max() > 0.15
    assert law(name, 1).independent


@pytest.mark.parametrize(
    ("name", "distribution"),
    [
        ("unit gaussian", stats.norm()),
        ("laplace", stats.laplace(scale=1 / np.sqrt(2))),
        ("uniform", stats.uniform(-np.sqrt(3), 2 * np.sqrt(3))),
        ("correlated gaussian", stats.norm()),
    ],
)
def test_each_latent_has_the_distribution_named(name: str, distribution: stats.rv_continuous) -> None:
    z = sample(name, 2, n=20_000)
    for column in z.T:
        assert stats.kstest(column, distribution.cdf).statistic < 0.02


@pytest.mark.parametrize("seed", range(4))
def test_a_linear_sem_is_acyclic_with_unit_noise(seed: int) -> None:
    """In the order of the latents each is a combination of earlier ones plus noise of unit variance."""
    z = sample("linear sem", 4, seed=seed)
    for j in range(4):
        earlier = z[:, :j]
        weights, *_ = np.linalg.lstsq(earlier, z[:, j], rcond=None)
        noise = z[:, j] - earlier @ weights
        assert noise.var() == pytest.approx(1, abs=0.05)
        assert all(abs(w) < 0.05 or 0.15 < abs(w) < 1.05 for w in weights)


def test_the_edges_of_linear_sems_are_half_of_all_and_of_both_signs() -> None:
    weights = []
    for seed in range(12):
        z = sample("linear sem", 4, seed=seed, n=4000)
        for j in range(1, 4):
            weights += list(np.linalg.lstsq(z[:, :j], z[:, j], rcond=None)[0])
    edges = [w for w in weights if abs(w) > 0.12]
    assert 0.3 < len(edges) / len(weights) < 0.7
    assert 0.25 < np.mean([w > 0 for w in edges]) < 0.75
