"""The distance of structures counts what is missing and extra once columns are matched."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from noumena.ambiguity import Ambiguity
from noumena.checks import InputError
from noumena.metrics import structure_distance
from noumena.structure import Structure


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10_000), st.integers(1, 8), st.integers(1, 5))
def test_a_structure_with_shuffled_columns_is_at_distance_zero(seed: int, rows: int, columns: int) -> None:
    rng = np.random.default_rng(seed)
    support = rng.random((rows, columns)) < 0.5
    support[rng.integers(rows, size=columns), np.arange(columns)] = True
    order = rng.permutation(columns)
    found = structure_distance(Structure(support), Structure(support[:, order]))
    assert (found.score, found.missing, found.extra, found.hamming) == (1.0, 0, 0, 0)
    np.testing.assert_array_equal(support[:, order][:, found.permutation], support)
    assert found.forgives == Ambiguity("permutation")


def test_known_differences_are_counted_by_kind() -> None:
    truth = Structure([[1, 0], [1, 1], [0, 1], [0, 1]])
    learned = Structure([[0, 1], [0, 1], [1, 1], [0, 0]])
    found = structure_distance(truth, learned)
    assert found.permutation.tolist() == [1, 0]
    assert (found.missing, found.extra, found.hamming) == (2, 1, 3)
    assert found.score == pytest.approx(2 * 3 / (5 + 4))
    back = structure_distance(learned, truth)
    assert (back.missing, back.extra, back.score) == (1, 2, found.score)


def test_disjoint_structures_score_zero() -> None:
    found = structure_distance(Structure([[1], [0]]), Structure([[0], [1]]))
    assert (found.score, found.missing, found.extra) == (0.0, 1, 1)


def test_a_missing_column_is_missing_in_full_and_a_further_one_extra_in_full() -> None:
    two, three = Structure([[1, 0], [0, 1]]), Structure([[1, 0, 1], [0, 1, 1]])
    assert (structure_distance(two, three).missing, structure_distance(two, three).extra) == (0, 2)
    assert (structure_distance(three, two).missing, structure_distance(three, two).extra) == (2, 0)


def test_a_random_structure_is_far_from_a_sparse_truth() -> None:
    rng = np.random.default_rng(0)
    truth = Structure(np.kron(np.eye(5, dtype=bool), np.ones((4, 1), dtype=bool)))
    learned = rng.random((20, 5)) < 0.2
    assert structure_distance(truth, Structure(learned)).score < 0.6


def test_structures_of_different_observations_are_refused() -> None:
    with pytest.raises(InputError, match=r"Structures must have the same observations\. Got 1 and 2 rows\."):
        structure_distance(Structure([[1]]), Structure([[1], [1]]))
