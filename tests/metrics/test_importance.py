"""Sparsity of use has known ends and known symmetries; concentration is a relative gain."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from noumena.ambiguity import Ambiguity
from noumena.metrics.importance import concentration, hoyer

COUNTS = st.lists(st.integers(0, 50), min_size=2, max_size=12).filter(any).map(np.array)


@given(COUNTS, st.randoms())
def test_sparsity_lies_in_the_unit_interval_and_ignores_order_and_scale(counts, random):
    shuffled = list(counts)
    random.shuffle(shuffled)
    assert 0 <= hoyer(counts).score <= 1
    assert hoyer(np.array(shuffled)).score == pytest.approx(hoyer(counts).score, abs=1e-12)
    assert hoyer(3.5 * counts).score == pytest.approx(hoyer(counts).score, abs=1e-12)


@pytest.mark.parametrize("d", [2, 5, 384])
def test_equal_use_is_zero_and_a_single_feature_is_one(d):
    assert hoyer(np.ones(d)).score == pytest.approx(0, abs=1e-12)
    assert hoyer(np.eye(d)[1]).score == pytest.approx(1)


@given(COUNTS)
def test_sparsity_agrees_with_the_ratio_of_norms(counts):
    d = len(counts)
    expected = (np.sqrt(d) - np.abs(counts).sum() / np.sqrt((counts**2).sum())) / (np.sqrt(d) - 1)
    assert hoyer(counts).score == pytest.approx(expected, abs=1e-9)


def test_an_unused_feature_makes_use_sparser():
    assert hoyer(np.array([3, 3, 0])).score > hoyer(np.array([3, 3, 1])).score > hoyer(np.array([3, 3, 3])).score


def test_concentration_is_the_relative_gain_and_may_be_negative():
    assert concentration(0.75, 0.5).score == pytest.approx(0.5)
    assert concentration(0.5, 0.5).score == 0
    assert concentration(0.4, 0.5).score == pytest.approx(-0.2)


@given(COUNTS)
def test_a_record_of_sparsity_has_shares_a_range_and_what_it_forgives(counts):
    found = hoyer(counts)
    np.testing.assert_allclose(found.shares, counts / counts.sum())
    (claim,) = found.claims
    assert (claim.range, claim.best) == ((0, 1), 1)
    assert float(found) == found.numbers[0].value == found.score
    assert found.forgives == Ambiguity("permutation")
    assert hoyer(torch.tensor(counts)).score == found.score


@given(st.floats(0, 1), st.floats(0.01, 1))
def test_a_record_of_concentration_keeps_both_scores_and_its_range(top, rest):
    found = concentration(top, rest)
    (claim,) = found.claims
    assert (found.top, found.rest, claim.best) == (top, rest, float("inf"))
    assert claim.range[0] <= float(found) == found.score <= claim.range[1]
    assert concentration(3 * top, 3 * rest).score == pytest.approx(found.score)
    assert found.to_dict()["range"]["Concentration"][0] == -1
