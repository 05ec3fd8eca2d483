"""Agreement between models."""

import numpy as np
import pytest

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
