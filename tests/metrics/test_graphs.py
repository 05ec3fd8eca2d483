"""The distance of structures counts what is missing and extra once columns are matched."""

from itertools import permutations

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


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10_000), st.integers(1, 8), st.integers(1, 4), st.integers(1, 4))
def test_counts_are_those_of_the_best_matching_of_all(seed: int, rows: int, here: int, there: int) -> None:
    rng = np.random.default_rng(seed)
    a, b = (rng.random((rows, columns)) < 0.5 for columns in (here, there))
    a[0], b[-1] = True, True
    found = structure_distance(Structure(a), Structure(b))
    wide = max(here, there)
    a, b = (np.pad(m, [(0, 0), (0, wide - m.shape[1])]) for m in (a, b))
    hits = max((a & b[:, list(order)]).sum() for order in permutations(range(wide)))
    assert (found.missing, found.extra) == (a.sum() - hits, b.sum() - hits)
    assert found.score == pytest.approx(2 * hits / (a.sum() + b.sum()))
    (claim,) = found.claims
    assert claim.range == (0, 1)
    assert all(0 <= value <= 1 for value in (found.score, found.chance, found.ceiling))


def test_chance_is_the_mean_score_with_shuffled_observations() -> None:
    rng = np.random.default_rng(0)
    truth = np.kron(np.eye(3, dtype=bool), np.ones((5, 1), dtype=bool))
    found = structure_distance(Structure(truth), Structure(truth), shuffles=200)
    shuffled = [Structure(truth[rng.permutation(15)]) for _ in range(200)]
    levels = [structure_distance(Structure(truth), learned, shuffles=0).score for learned in shuffled]
    assert found.chance == pytest.approx(np.mean(levels), abs=0.03)
    assert 0.4 < found.chance < 0.7
    assert found.score == found.ceiling == 1
    first, again, other = (
        structure_distance(Structure(truth), Structure(truth), random_state=s).chance for s in (1, 1, 2)
    )
    assert first == again != other
    assert structure_distance(Structure(truth), Structure(truth), shuffles=0).chance is None
    with pytest.raises(InputError, match="shuffles must be a whole number of at least 0"):
        structure_distance(Structure(truth), Structure(truth), shuffles=-1)


def test_the_record_names_what_it_supports() -> None:
    found = structure_distance(Structure([[1]]), Structure([[1]]))
    assert str(found) == "Structure F1 1.00 (chance 1.00, ceiling 1.00); forgives permutation"
    assert "nothing about the latents' values" in found.to_dict()["supports"]["Structure F1"]


def test_arrays_are_structures_too() -> None:
    truth, learned = np.array([[1, 0], [1, 1], [0, 1]]), np.array([[0, 1], [1, 1], [1, 1]])
    found = structure_distance(truth, learned)
    assert (found.missing, found.extra) == (0, 1)
    assert found.to_dict() == structure_distance(Structure(truth), Structure(learned)).to_dict()
    with pytest.raises(InputError):
        structure_distance(truth, np.array([[0.5, 1], [1, 1], [1, 1]]))


ROWS = [[1, 0], [1, 0], [1, 1], [0, 1], [0, 1], [0, 1]]


def test_observations_of_the_same_names_are_compared_by_name() -> None:
    truth = Structure(ROWS, observed=list("abcdef"))
    order = [5, 2, 0, 1, 3, 4]
    learned = Structure(np.array(ROWS)[order], observed=[truth.observed[i] for i in order])
    found = structure_distance(truth, learned)
    assert (found.score, found.missing, found.extra) == (1.0, 0, 0)
    assert found.permutation.tolist() == [0, 1]
    turned = Structure(ROWS, observed=["x6", "x5", "x4", "x3", "x2", "x1"])
    assert structure_distance(Structure(ROWS[::-1]), turned).score == 1


def test_observations_without_names_are_compared_by_place() -> None:
    named, unnamed = Structure(ROWS, observed=list("abcdef")), Structure(ROWS)
    assert structure_distance(named, unnamed).score == structure_distance(unnamed, named).score == 1
    assert structure_distance(named, ROWS[::-1]).score < 1
