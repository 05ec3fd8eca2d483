"""Shares of variance agree with their definition, and chance is what shuffled factors reach."""

import numpy as np
import pytest

from noumena.deconfounding.carriers import Carriers, beyond_chance, carriers, explained, shuffled

DRAW = np.random.default_rng(0)
BATCH, LABEL = np.repeat(np.arange(4), 30), np.tile([0, 0, 1], 40)
NOISE = DRAW.normal(size=(120, 5))


def test_the_share_is_that_of_sums_of_squares_between_groups():
    z = NOISE[:, :1] + 0.5 * BATCH[:, None]
    means = np.array([z[b == BATCH].mean() for b in range(4)])[BATCH]
    expected = ((means - z.mean()) ** 2).sum() / ((z - z.mean()) ** 2).sum()
    assert explained(z, BATCH)[0] == pytest.approx(expected)


def test_the_partial_share_agrees_with_two_regressions():
    z = NOISE + 0.3 * BATCH[:, None] + 0.8 * LABEL[:, None]

    def ones(codes):
        return (codes[:, None] == np.unique(codes)).astype(float)

    def left(design):
        return ((z - design @ np.linalg.lstsq(design, z, rcond=None)[0]) ** 2).sum(axis=0)

    small, full = left(ones(BATCH)), left(np.c_[ones(BATCH), ones(LABEL)])
    np.testing.assert_allclose(explained(z, LABEL, BATCH), (small - full) / small, atol=1e-10)


def test_shares_forget_scale_and_shift_and_a_factor_that_is_given_explains_nothing():
    z = NOISE + LABEL[:, None]
    np.testing.assert_allclose(explained(3 - 7 * z, LABEL, BATCH), explained(z, LABEL, BATCH), atol=1e-10)
    np.testing.assert_allclose(explained(z, BATCH, BATCH), 0, atol=1e-10)
    np.testing.assert_allclose(explained(BATCH[:, None].astype(float), LABEL, BATCH), 0, atol=1e-10)


def test_chance_beyond_chance_is_zero_and_all_is_one():
    many = DRAW.normal(size=(120, 2000))
    assert beyond_chance(many, BATCH).mean() == pytest.approx(0, abs=2e-3)
    assert explained(many, BATCH).mean() == pytest.approx(3 / 119, abs=2e-3)
    assert beyond_chance(BATCH[:, None].astype(float), BATCH)[0] == pytest.approx(1)


def test_shuffled_factors_reach_chance_and_the_threshold_is_that_of_the_largest_component():
    mean, threshold = shuffled(NOISE, BATCH)
    assert mean == pytest.approx(3 / 119, abs=0.01)
    assert threshold > 2 * mean
    assert shuffled(NOISE, BATCH) == (mean, threshold)
    assert shuffled(NOISE, BATCH, seed=1) != (mean, threshold)


def test_shuffles_keep_what_is_given():
    """A label that only follows the batch is carried by nothing once batches are given."""
    tied = (BATCH >= 2).astype(int)
    mean, threshold = shuffled(NOISE + 5.0 * tied[:, None], tied, BATCH)
    assert mean == pytest.approx(0, abs=1e-12)
    assert threshold == pytest.approx(0, abs=1e-12)


def test_components_that_carry_batch_label_both_or_neither_are_told_apart():
    z = np.c_[NOISE[:, 0], NOISE[:, 1] + BATCH, NOISE[:, 2] + 2 * LABEL, NOISE[:, 3] + BATCH + 2 * LABEL]
    found = carriers("ica", z, BATCH, LABEL)
    assert found.of_batch == (1, 3)
    assert found.of_signal == (2, 3)
    assert "Of 4 ica components 2 carry batch: " in str(found)
    assert "1 carry both" in str(found)
    plain = found.to_dict()
    assert plain["carry batch"] == [2, 4]
    assert plain["carry label"] == [3, 4]


def test_noise_carries_nothing():
    found = carriers("pca", NOISE, BATCH, LABEL)
    assert found.of_batch == ()
    assert found.of_signal == ()
    assert "0 carry batch: none" in str(found)


def test_many_carriers_are_named_from_the_largest_and_counted_beyond_eight():
    share = np.linspace(0.5, 0.9, 10)
    found = Carriers("pca", share, share, share, (0.0, 0.0), (0.1, 0.1))
    assert found.named(found.of_batch, share).startswith("10 (0.90), 9 (0.86)")
    assert found.named(found.of_batch, share).endswith("and 2 more")
