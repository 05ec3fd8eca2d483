"""Agreement between models."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from noumena.ambiguity import Ambiguity
from noumena.checks import InputError
from noumena.metrics import agreement, mcc


def test_copies_up_to_order_sign_and_scale_agree_fully():
    z = np.random.default_rng(0).normal(size=(200, 3))
    found = agreement([z, -2 * z[:, [2, 0, 1]] + 1, z])
    assert found.score == pytest.approx(1)
    assert np.allclose(found.matrix, 1)


def test_the_score_is_the_mean_over_pairs_of_the_mcc():
    a, b, c = np.random.default_rng(1).normal(size=(3, 100, 2))
    found = agreement(np.stack([a, b, c]))
    assert found.score == pytest.approx(np.mean([mcc(a, b).score, mcc(a, c).score, mcc(b, c).score]))
    assert np.array_equal(found.matrix, found.matrix.T)
    assert found.score < 0.5


def test_a_model_alone_agrees_with_itself_and_none_is_refused():
    assert agreement([np.random.default_rng(0).normal(size=(9, 2))]).score == 1
    with pytest.raises(InputError, match="a model to compare"):
        agreement([])


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 10_000))
def test_order_sign_and_scale_of_any_model_are_forgiven(seed):
    rng = np.random.default_rng(seed)
    models = list(rng.normal(size=(3, 30, 2)))
    moved = [rng.uniform(0.1, 9, 2) * rng.choice([-1, 1], 2) * z[:, rng.permutation(2)] + 1 for z in models]
    found, again = agreement(models, shuffles=0), agreement(moved, shuffles=0)
    assert again.score == pytest.approx(found.score)
    assert 0 <= found.score <= 1
    assert (found.chance, found.ceiling, found.forgives) == (None, 1, Ambiguity("permutation+scaling"))


def test_chance_is_the_mean_over_pairs_and_uncertainty_comes_from_halves_of_the_rows():
    rng = np.random.default_rng(2)
    a = rng.normal(size=(60, 2))
    models = [a, a + rng.normal(size=(60, 2)), rng.normal(size=(60, 3))]
    found = agreement(models, subsamples=20, random_state=3)
    pairs = [mcc(models[i], models[j], random_state=3) for i, j in ((0, 1), (2, 0), (2, 1))]  # the wider one first
    assert found.chance == pytest.approx(np.mean([pair.chance for pair in pairs]))
    assert found.score == pytest.approx(np.mean([pair.score for pair in pairs]))
    assert 0.01 < found.uncertainty.error < 0.2
    assert found.uncertainty.low < found.score < found.uncertainty.high
    assert agreement([torch.tensor(z) for z in models], random_state=3).score == found.score
    assert "wrong together" in found.claims[0].supports


def test_models_of_different_width_agree_alike_in_any_order():
    rng = np.random.default_rng(4)
    wide = rng.normal(size=(200, 3))
    narrow = wide[:, :2] + 0.3 * rng.normal(size=(200, 2))
    found, back = agreement([wide, narrow]), agreement([narrow, wide])
    assert found.score == pytest.approx(back.score)
    assert found.score == pytest.approx(mcc(wide, narrow).score)
    assert found.score < 2 / 3
    np.testing.assert_allclose(found.matrix, back.matrix)
