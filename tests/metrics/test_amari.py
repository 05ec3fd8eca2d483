"""Amari distance: zero up to order and scale, and a reference in plain loops."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from noumena.ambiguity import Ambiguity
from noumena.metrics.mixings import amari_distance


def test_order_sign_and_scale_are_forgiven_and_nothing_else():
    rng = np.random.default_rng(0)
    A = rng.normal(size=(6, 4))
    W = np.linalg.pinv(A)
    assert amari_distance((W * [[1], [-2], [3], [0.1]])[[2, 0, 3, 1]], A).score == pytest.approx(0, abs=1e-12)
    assert amari_distance(W + 0.1 * rng.normal(size=W.shape), A).score > 0.01


def test_a_loop_gives_the_same():
    rng = np.random.default_rng(1)
    W, A = rng.normal(size=(5, 5)), rng.normal(size=(5, 5))
    P = np.abs(W @ A)
    total = sum(P[i].sum() / P[i].max() - 1 + P[:, i].sum() / P[:, i].max() - 1 for i in range(5))
    assert amari_distance(W, A).score == pytest.approx(total / 40)


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10_000), st.integers(2, 6))
def test_zero_forgives_order_and_scale_and_any_value_order_sign_and_a_common_scale(seed, d):
    rng = np.random.default_rng(seed)
    W, A = rng.normal(size=(d, d + 1)), rng.normal(size=(d + 1, d))
    order, signs = rng.permutation(d), rng.choice([-1, 1], d)
    scale = rng.uniform(0.1, 10, d)
    assert amari_distance((scale * signs * np.linalg.pinv(A).T).T[order], A).score == pytest.approx(0, abs=1e-9)
    found, moved = amari_distance(W, A), amari_distance(3 * (signs[:, None] * W)[order], A)
    assert moved.score == pytest.approx(found.score)
    np.testing.assert_allclose(moved.per_source, found.per_source)
    np.testing.assert_array_equal(order[moved.matching], found.matching)


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10_000), st.integers(2, 6))
def test_every_source_has_its_row_and_its_share(seed, d):
    rng = np.random.default_rng(seed)
    found = amari_distance(rng.normal(size=(d, d)), rng.normal(size=(d, d)))
    assert sorted(found.matching) == list(range(d))
    assert found.per_source.mean() == pytest.approx(found.score)
    assert all(0 <= share <= 1 for share in [found.score, *found.per_source, found.chance])


def test_known_matrices_have_known_shares_and_partners():
    found = amari_distance([[0.0, 1, 0.5], [2, 0, 0], [0, 0, 3]], np.eye(3))
    assert found.matching.tolist() == [1, 0, 2]
    np.testing.assert_allclose(found.per_source, [0, 0.125, (0.5 / 3) / 4])
    assert float(found) == found.score == pytest.approx((0.125 + (0.5 / 3) / 4) / 3)
    np.testing.assert_array_equal(found.matrix, [[0, 1, 0.5], [2, 0, 0], [0, 0, 3]])


def test_the_record_says_that_less_is_better_and_what_a_random_rotation_gets():
    rng = np.random.default_rng(0)
    found = amari_distance(np.eye(5), np.eye(5), shuffles=300)
    (claim,) = found.claims
    assert (claim.range, claim.best, found.ceiling, found.score) == ((0, 1), 0, 0, 0)
    assert found.forgives == Ambiguity("permutation+scaling")
    turns = [np.linalg.qr(rng.normal(size=(5, 5)))[0] for _ in range(300)]
    by_turns = np.mean([amari_distance(Q, np.eye(5), shuffles=0).score for Q in turns])
    assert found.chance == pytest.approx(by_turns, abs=0.02)
    assert amari_distance(np.eye(5), np.eye(5), shuffles=0).chance is None
    assert (
        amari_distance(np.eye(5), np.eye(5), random_state=1).chance
        != amari_distance(np.eye(5), np.eye(5), random_state=2).chance
    )
    assert amari_distance(torch.eye(3), torch.eye(3)).score == 0
