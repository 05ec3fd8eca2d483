"""Rows prefer axes to turned ones only where there are axes, and chance is what turned rows show."""

import numpy as np
import pytest

from noumena.audits.axes import separable
from noumena.audits.rotation_test import preference

ROWS, SEEDS = 300, range(60)


def lengths(kind, rng):
    drawn = {
        "ring": np.ones,
        "disc": lambda size: np.sqrt(rng.random(size)),
        "gaussian": lambda size: np.sqrt(rng.chisquare(2, size)),
        "scale": lambda size: np.sqrt(rng.chisquare(2, size)) * np.exp(rng.normal(size=size)),
    }
    return drawn[kind](ROWS)


def turned_rows(kind, seed):
    rng = np.random.default_rng(seed)
    angle = 2 * np.pi * rng.random(ROWS)
    return lengths(kind, rng)[:, None] * np.column_stack([np.cos(angle), np.sin(angle)])


@pytest.mark.parametrize("kind", ["ring", "disc", "scale"])
def test_chance_is_one_deviation_without_axes(kind):
    found = np.array([preference(turned_rows(kind, seed))[0, 1] for seed in SEEDS])
    assert abs(found.mean()) < 0.5
    assert 0.7 < found.std() < 1.4


@pytest.mark.parametrize("second", ["laplace", "uniform", "normal"])
@pytest.mark.parametrize("first", ["laplace", "uniform"])
def test_axes_of_independent_columns_are_preferred_whatever_the_other_column_is(first, second):
    found = []
    for seed in SEEDS:
        rng = np.random.default_rng(seed)
        found.append(preference(np.c_[getattr(rng, first)(size=ROWS), getattr(rng, second)(size=ROWS)])[0, 1])
    assert np.median(found) > 3


def test_neither_scale_nor_shift_nor_sign_nor_order_matters():
    s = np.random.default_rng(0).laplace(size=(ROWS, 3))
    told = preference(s)
    moved = preference(s[:, [2, 0, 1]] * [-1e6, 1e-6, 3] + [5, 0, -1])
    assert np.allclose(moved[np.ix_([1, 2, 0], [1, 2, 0])][np.triu_indices(3, 1)], told[np.triu_indices(3, 1)])
    assert np.isinf(np.diag(told)).all()


def test_one_column_twice_and_a_constant_one_are_not_preferred():
    s = np.random.default_rng(0).uniform(size=ROWS)
    for other in (s, -2 * s, np.zeros(ROWS)):
        assert preference(np.c_[s, other])[0, 1] == 0


def test_a_ring_beside_a_third_column_has_no_axes_of_its_own():
    counts = []
    for seed in SEEDS:
        third = np.random.default_rng(seed + 100).laplace(size=ROWS)
        counts.append(separable(np.c_[turned_rows("ring", seed), third], least=2.5)[:2].any())
    assert np.mean(counts) <= 0.1
