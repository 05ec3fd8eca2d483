"""Spike and slab: known columns are read off, and smooth ones have no spike."""

import math

import numpy as np
import pytest
import torch
from scipy.stats import norm
from sklearn.mixture import GaussianMixture

from noumena.estimators.sparse.spikes import Spikes, fit_spikes, needed_gain

ROWS = 4000


def column(share=0.5, place=0.0, width=0.05, seed=0):
    rng = np.random.default_rng(seed)
    y = np.where(rng.random(ROWS) < share, place + width * rng.normal(size=ROWS), rng.normal(size=ROWS))
    return torch.as_tensor(y)[:, None]


@pytest.mark.parametrize(("share", "place", "width"), [(0.5, 0.0, 0.05), (0.3, 2.0, 0.1), (0.9, -1.0, 0.02)])
def test_a_known_spike_is_found(share, place, width):
    spikes = fit_spikes(column(share, place, width))
    found = [float(spikes.share), float(spikes.place), float(spikes.width)]
    assert found == pytest.approx([share, place, width], rel=0.15, abs=0.02)
    assert bool(spikes.sparse(10))


def test_the_fit_is_that_of_a_mixture_of_two_gaussians():
    y = column(0.4, 0.5, 0.1)
    spikes = fit_spikes(y, iterations=300)
    reference = GaussianMixture(2, means_init=[[0.5], [0.0]], precisions_init=[[[100.0]], [[1.0]]], random_state=0).fit(
        y.numpy()
    )
    expected = reference.score(y.numpy()) - norm(y.mean(), y.std()).logpdf(y.numpy()).mean()
    assert float(spikes.gain) == pytest.approx(expected, abs=2e-3)
    assert float(spikes.log_density(y).mean()) == pytest.approx(reference.score(y.numpy()), abs=2e-3)


@pytest.mark.parametrize("kind", ["normal", "uniform", "constant"])
def test_columns_without_a_spike_are_not_sparse(kind):
    rng = np.random.default_rng(0)
    draws = {"normal": rng.normal, "uniform": rng.uniform, "constant": lambda size: np.full(size, 3.0)}
    spikes = fit_spikes(torch.as_tensor(draws[kind](size=(ROWS, 1))))
    assert not bool(spikes.sparse(10))


def test_a_gain_that_fewer_rows_would_not_bear_is_not_sparse():
    spikes = fit_spikes(column(0.2, 0.0, 0.1))
    parts = [spikes.share, spikes.place, spikes.width, spikes.slab_mean, spikes.slab_width, spikes.gain]
    assert bool(spikes.sparse(5))
    assert not bool(Spikes(*parts, rows=50).sparse(5))
    assert needed_gain(50, 5) > float(spikes.gain) > needed_gain(ROWS, 5)


def test_an_exact_atom_is_told_without_doubt_and_its_gain_grows_as_the_spike_may_narrow():
    y = column(0.5, 1.0, 0.0)
    wide, narrow = fit_spikes(y, narrowest=1e-2), fit_spikes(y, narrowest=1e-4)
    assert float(narrow.certainty(y)) > 0.99
    assert float(narrow.gain - wide.gain) == pytest.approx(0.5 * math.log(100), rel=0.1)
    assert ((narrow.inactive(y) > 0.5) == (y == 1.0)).all()


def test_moving_a_column_moves_its_spike_and_slab_only():
    y = column()
    spikes = fit_spikes(y)
    torch.testing.assert_close(spikes.moved(torch.ones(1).double()).inactive(y + 1), spikes.inactive(y))
    both = fit_spikes(torch.cat([y, column(0.8, 1.0)], dim=1))
    torch.testing.assert_close(both.chosen(torch.tensor([1])).inactive(y), both.inactive(y.expand(-1, 2))[:, 1:])
