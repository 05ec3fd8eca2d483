"""Mixtures and runs that must not be believed: fits without rows, rows without components, counts, unrelated noise."""

import numpy as np
import pytest
from sklearn.mixture import GaussianMixture

import noumena as nm

SEEDS = range(3)


def diagonal(x, seed=0):
    return GaussianMixture(3, covariance_type="diag", n_init=3, random_state=seed).fit(x)


def ring(n, seed):
    rng = np.random.default_rng(seed)
    v = rng.normal(size=(n, 2))
    return v / np.linalg.norm(v, axis=1, keepdims=True) * (3 + 0.2 * rng.normal(size=(n, 1)))


def clusters(n, seed):
    """Three components with distinct diagonal covariances."""
    rng = np.random.default_rng(seed)
    u = rng.choice(3, n)
    means, spreads = np.array([[0, 0], [5, 1], [-1, 6.0]]), np.array([[1, 1], [0.5, 2], [2, 0.4]])
    return means[u] + spreads[u] * rng.normal(size=(n, 2))


@pytest.mark.parametrize("seed", SEEDS)
def test_a_fit_alone_concludes_nothing(seed):
    reading = nm.certify(diagonal(np.random.default_rng(seed).normal(size=(1000, 2)), seed))
    assert str(reading.ambiguity(0)) == "any"
    assert reading.strongest is None
    assert reading.headline.startswith("Nothing is guaranteed about this mixture prior: this was not shown")


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("kind", ["gaussian", "uniform", "ring", "scale"])
def test_rows_without_components_pin_no_axes_down(kind, seed):
    rng = np.random.default_rng(seed)
    x = {
        "gaussian": lambda: rng.normal(size=(1500, 2)),
        "uniform": lambda: rng.uniform(-1, 1, size=(1500, 2)),
        "ring": lambda: ring(1500, seed),
        "scale": lambda: rng.normal(size=(1500, 2)) * np.exp(rng.normal(size=(1500, 1)) / 2),
    }[kind]()
    assert str(nm.certify(diagonal(x, seed), at=x).ambiguity(0)) in ("any", "affine")


@pytest.mark.parametrize("seed", SEEDS)
def test_rows_of_distinct_components_pin_the_axes_down_and_turned_ones_do_not(seed):
    x = clusters(3000, seed)
    assert str(nm.certify(diagonal(x), at=clusters(3000, seed + 50)).ambiguity(0)) == "permutation+scaling"
    turned = x @ np.array([[0.8, 0.6], [-0.6, 0.8]])
    assert str(nm.certify(diagonal(turned), at=turned).ambiguity(0)) == "any"


def test_rows_of_another_shape_are_refused():
    with pytest.raises(nm.InputError, match="rows must have one column for each of the 2 latents"):
        nm.certify(diagonal(clusters(300, 0)), at=np.ones((5, 3)) * np.arange(5)[:, None])


def test_counts_are_no_mixture_of_gaussians():
    rng = np.random.default_rng(0)
    x = rng.poisson(1.0, size=(3000, 4)) @ rng.normal(size=(4, 4))
    reading = nm.certify(nm.DegenerateMixture(stage1="identity").fit(x))
    assert "held-out rows are Gaussian on the supports" in reading.broken
    assert str(reading.ambiguity(0)) == "any"


@pytest.mark.parametrize("seed", SEEDS)
def test_unrelated_noise_is_near_nothing_and_gaussian_runs_have_no_axes(seed):
    rng = np.random.default_rng(seed)
    first, second = rng.normal(size=(2, 1000, 3))
    assert str(nm.certify([first, second]).ambiguity(0)) == "any"
    turn = np.linalg.qr(rng.normal(size=(3, 3)))[0]
    assert str(nm.certify([first, first @ turn]).ambiguity(0)) == "rigid"
