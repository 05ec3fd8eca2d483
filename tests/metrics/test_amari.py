"""Amari distance: zero up to order and scale, and a reference in plain loops."""

import numpy as np
import pytest

from noumena.checks import InputError
from noumena.metrics.mixings import amari_distance


def test_order_sign_and_scale_are_forgiven_and_nothing_else():
    rng = np.random.default_rng(0)
    A = rng.normal(size=(6, 4))
    W = np.linalg.pinv(A)
    assert amari_distance((W * [[1], [-2], [3], [0.1]])[[2, 0, 3, 1]], A) == pytest.approx(0, abs=1e-12)
    assert amari_distance(W + 0.1 * rng.normal(size=W.shape), A) > 0.01


def test_a_loop_gives_the_same():
    rng = np.random.default_rng(1)
    W, A = rng.normal(size=(5, 5)), rng.normal(size=(5, 5))
    P = np.abs(W @ A)
    total = sum(P[i].sum() / P[i].max() - 1 + P[:, i].sum() / P[:, i].max() - 1 for i in range(5))
    assert amari_distance(W, A) == pytest.approx(total / 40)


@pytest.mark.parametrize(
    ("W", "A", "sentence"),
    [
        (np.ones((2, 3)), np.ones((2, 3)), r"must be \(sources, observed\)"),
        (np.ones((1, 1)), np.ones((1, 1)), "two sources or more"),
        (np.array([[1.0, 0], [1, 0]]), np.eye(2), "must have an entry"),
    ],
)
def test_what_has_no_distance_is_refused(W, A, sentence):
    with pytest.raises(InputError, match=sentence):
        amari_distance(W, A)
