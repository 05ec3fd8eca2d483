"""Axes are counted where ICA has any to find: not among Gaussian components, however alike two fits happen to be."""

import numpy as np
import pytest
from scipy.stats import ortho_group

from noumena.audits import audit
from noumena.audits.axes import gaussian_columns, separable


def two_runs(law, n, d, seed):
    rng = np.random.default_rng([seed, n, d])
    z = getattr(rng, law)(size=(n, d))
    return audit([z, z @ ortho_group.rvs(d, random_state=rng)], shuffles=1, random_state=seed)


def test_gaussian_rows_of_few_columns_have_no_axes_however_often_they_seem_to_be_found_again():
    found = [two_runs("normal", 400, 2, seed) for seed in range(5)]
    assert max((a.axes.correlations >= 0.9).sum() for a in found) == 2  # by chance
    assert {a.axes.found for a in found} == {0}
    assert {a.axes.which for a in found} == {()}
    assert {a.axes.gaussian for a in found} == {(2, 2)}
    assert all("0 of 2 axes are found again" in a.verdict for a in found)


@pytest.mark.parametrize("law", ["laplace", "uniform"])
@pytest.mark.parametrize("d", [2, 3])
def test_axes_of_a_few_hundred_rows_that_are_not_gaussian_are_found_again(law, d):
    found = two_runs(law, 400, d, 0)
    assert found.axes.found == d
    assert found.axes.which == tuple(range(d))
    assert max(found.axes.gaussian) <= 1


def test_one_gaussian_column_among_others_is_an_axis_and_two_are_none():
    rng = np.random.default_rng(0)
    s = np.c_[rng.laplace(size=(4000, 2)), rng.normal(size=(4000, 2))]
    for gaussians, axes in ((1, 3), (2, 2)):
        z = s[:, : 2 + gaussians]
        found = audit([z, z @ ortho_group.rvs(2 + gaussians, random_state=0)], folds=2, shuffles=1)
        assert found.axes.found == axes
        assert found.axes.gaussian == (gaussians, gaussians)
        assert len(found.axes.which) == axes


def test_gaussian_columns_are_told_by_their_rows_and_a_single_one_is_separable():
    rng = np.random.default_rng(0)
    s = np.c_[rng.uniform(size=2000), rng.normal(size=(2000, 2))]
    assert gaussian_columns(s).tolist() == [False, True, True]
    assert separable(s).tolist() == [True, False, False]
    assert separable(s[:, :2]).tolist() == [True, True]
    assert separable(s[:, 1:2]).tolist() == [True]


def test_in_sample_gaussian_rows_have_no_axes_though_both_runs_share_their_ica():
    rng = np.random.default_rng(1)
    z = rng.normal(size=(600, 2))
    found = audit([z, z @ ortho_group.rvs(2, random_state=1)], held_out=False, shuffles=1)
    assert found.axes.found == 0


@pytest.mark.parametrize("kind", ["ring", "scale"])
def test_rotation_invariant_rows_have_no_axes(kind):
    found = 0
    for seed in range(6):
        rng = np.random.default_rng(seed)
        z = rng.normal(size=(800, 2))
        length = np.linalg.norm(z, axis=1, keepdims=True)
        z = z / length if kind == "ring" else z * np.exp(rng.normal(size=(800, 1)))
        turn = np.linalg.qr(rng.normal(size=(2, 2)))[0]
        axes = audit([z, z @ turn], folds=2, shuffles=1, random_state=seed).axes
        assert axes is not None
        found += axes.found
    assert found <= 1
