"""Sparse directions are believed when they are found again on other rows."""

import numpy as np
import pytest

from noumena import InputError, SparseComponents


@pytest.mark.parametrize("d", [2, 3, 5])
@pytest.mark.parametrize("seed", range(3))
def test_rows_of_a_common_random_scale_have_no_sparse_direction(d, seed):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(1500, d)) * np.exp(rng.normal(size=(1500, 1)))
    with pytest.raises(InputError, match="no sparse direction found in one half of the rows"):
        SparseComponents().fit(x)


@pytest.mark.filterwarnings("ignore:.*confidence 0")
def test_few_gaussian_rows_are_never_trusted():
    for seed in range(20):
        try:
            model = SparseComponents().fit(np.random.default_rng(seed).normal(size=(15, 3)))
        except InputError:
            continue
        assert model.confidence_.max() == 0


def test_without_refinding_there_is_no_confidence():
    rng = np.random.default_rng(0)
    z = rng.normal(size=(500, 2)) * (rng.random((500, 2)) < 0.5)
    assert np.isnan(SparseComponents(refind=False).fit(z).confidence_).all()
    assert SparseComponents().fit(z).confidence_.min() > 0.9
