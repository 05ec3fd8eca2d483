"""Unmixing: whitening obeys its lemma and ICA finds the components it should, whatever the units."""

from math import sqrt

import numpy as np
import pytest
from component_samples import N, draw
from scipy.stats import ortho_group

from noumena.checks import InputError
from noumena.guarantees import unmixing
from noumena.guarantees.unmixing import covariance_of, halves, log_cosh, matched, unmix, whitening_factor


def test_log_cosh_does_not_overflow():
    assert log_cosh(np.array([1000.0, -1000.0, 0.0])) == pytest.approx([1000 - np.log(2)] * 2 + [0])


def test_whitening_enlarges_no_distance_more_than_the_lemma_allows():
    rng = np.random.default_rng(4)

    def white(x):
        value, vector = np.linalg.eigh(covariance_of(x))
        return x @ (vector / np.sqrt(value)) @ vector.T, value[0]

    tightest = 0.0
    for _ in range(2000):
        d = int(rng.integers(1, 4))
        x = rng.normal(size=(int(rng.integers(d + 2, 12)), d)) * rng.uniform(0.3, 3)
        y = x + rng.normal(size=x.shape) * rng.uniform(0, 0.3)
        x, y = x - x.mean(axis=0), y - y.mean(axis=0)
        (wx, lx), (wy, ly) = white(x), white(y)
        epsilon = np.linalg.norm(x - y, axis=1).max()
        radius = max(np.linalg.norm(x, axis=1).max(), np.linalg.norm(y, axis=1).max())
        allowed = epsilon * whitening_factor(float(min(lx, ly)), float(radius))
        tightest = max(tightest, np.linalg.norm(wx - wy, axis=1).max() / allowed)
        assert tightest <= 1 + 1e-9
    assert tightest > 0.3
    assert whitening_factor(4.0, 2.0) == 1.0
    assert whitening_factor(0.25, 3.0) == 2 + 9 * 8
    with pytest.raises(InputError, match="must be positive"):
        whitening_factor(0.0, 1.0)


@pytest.mark.parametrize("law", ["laplace", "uniform", "mixed"])
def test_unmixing_finds_the_components_and_restores_the_representations(law):
    s = draw(law, d=3)
    A = np.random.default_rng(5).normal(size=(3, 3))
    z = s @ A.T + 7
    found = unmix(z)
    assert matched(np.corrcoef(found(z), s, rowvar=False)[:3, 3:]) > 0.98
    assert np.allclose(covariance_of(found(z)), np.eye(3))
    assert np.allclose(found.restore(found(z)), z)
    assert found.agreement > 0.99
    assert found.converged
    assert not found.tie


def test_an_ill_conditioned_mixing_in_single_precision_is_whitened():
    s = draw("uniform", d=3)
    A = np.diag([1.0, 1e-3, 1e3]) @ ortho_group.rvs(3, random_state=0)
    z = (s @ A.T + 100).astype(np.float32)
    found = unmix(z)
    assert np.isfinite(found.matrix).all()
    assert np.allclose(covariance_of(found(z.astype(float))), np.eye(3), atol=1e-6)


def test_components_are_the_same_whatever_the_units_and_the_seed():
    z = draw("laplace", d=3) @ np.random.default_rng(6).normal(size=(3, 3))
    first = unmix(z)
    for other, columns in ((unmix(z, seed=1), z), (unmix(z * [1e-6, 1, 1e6]), z * [1e-6, 1, 1e6])):
        assert matched(np.corrcoef(first(z), other(columns), rowvar=False)[:3, 3:]) > 0.999
    assert (unmix(z).matrix == first.matrix).all()


@pytest.mark.parametrize("right", [0, 1, 2])
def test_the_start_with_the_largest_contrast_is_kept(right, monkeypatch):
    s = draw("laplace")
    cross = np.array([[1, 1], [-1, 1]]) / sqrt(2)
    _, vector = np.linalg.eigh(np.corrcoef(s, rowvar=False))  # the rotation that whitening leaves behind
    starts = [vector if k == right else cross @ vector for k in range(3)]
    monkeypatch.setattr(unmixing, "_ica", lambda white, seed, k: (starts[k], True))
    found = unmix(s, restarts=3)
    assert matched(np.corrcoef(found(s), s, rowvar=False)[:2, 2:]) > 0.99
    assert found.agreement == pytest.approx(1 / sqrt(2), abs=0.01)
    assert not found.tie


def test_a_tie_of_other_components_is_told():
    found = unmix(draw("disc", n=1000, d=6), restarts=8)
    assert found.agreement < 0.9
    assert found.tie


def test_directions_without_variance_are_left_out():
    z = np.c_[draw("uniform"), np.zeros(N)]
    z[:, 2] = z[:, 0] - z[:, 1]
    found = unmix(z)
    assert found.matrix.shape == (2, 3)
    assert np.allclose(found.restore(found(z)), z)
    assert unmix(np.c_[z[:, 0], np.ones(N)]).matrix.shape == (1, 2)


def test_halves_share_no_row_and_depend_on_the_seed():
    fitted, measured = halves(101, 0)
    assert sorted([*fitted, *measured]) == list(range(101))
    assert len(fitted) == 50
    assert (halves(101, 0)[0] == fitted).all()
    assert (halves(101, 1)[0] != fitted).any()
