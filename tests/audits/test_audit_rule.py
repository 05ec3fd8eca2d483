"""The rule: far better than chance, and no clearly better map in a larger group."""

import numpy as np
import pytest

from noumena.audits.rule import equally_good, reference, smallest_group
from noumena.guarantees.agreement import AFFINE, PERMUTATION, RIGID

CHANCE = {PERMUTATION: 0.28, RIGID: 0.2, AFFINE: 0.21}


def rule(permutation, rigid, affine, spread=0.0):
    folds = [permutation - spread, permutation + spread]
    return smallest_group({PERMUTATION: folds, RIGID: [rigid] * 2, AFFINE: [affine] * 2}, CHANCE)


@pytest.mark.parametrize(
    ("errors", "group"),
    [
        ((0.01, 0.01, 0.01), PERMUTATION),
        ((0.029, 0.01, 0.01), PERMUTATION),
        ((0.031, 0.01, 0.01), RIGID),
        ((0.15, 0.031, 0.028), RIGID),
        ((0.15, 0.09, 0.01), AFFINE),
        ((0.15, 0.099, 0.095), RIGID),
        ((0.15, 0.101, 0.099), AFFINE),
        ((0.15, 0.101, 0.101), "none"),
        ((0.2, 0.2, 0.2), "none"),
        ((0.15, 0.03, 0.12), RIGID),
    ],
)
def test_the_smallest_group_that_is_good_enough_is_named(errors, group):
    assert rule(*errors) == group


def test_a_difference_within_the_spread_over_folds_does_not_count():
    assert rule(0.05, 0.01, 0.01) == RIGID
    assert rule(0.05, 0.01, 0.01, spread=0.015) == PERMUTATION


def test_chance_is_that_of_the_map_that_knows_least():
    assert reference(CHANCE) == 0.2


def test_errors_beyond_two_deviations_are_not_as_good():
    lost = np.array([-1.0, 1.0]) * 0.01
    assert equally_good(lost + 0.02, 0.2)
    assert equally_good(lost + 0.039, 0.2)
    assert not equally_good(lost + 0.041, 0.2)
