"""The surplus tests never promise more than brute force finds, and find what their own conditions say."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import combinations
from typing import Any

import numpy as np
import pytest
from scipy import sparse

from noumena.guarantees import surplus as module
from noumena.guarantees.occam import generic_gap, point_gap
from noumena.guarantees.surplus import hall_surplus, owned_surplus, pure_surplus, surplus


def random_supports(n: int, *, most_rows: int = 13, most_latents: int = 4, seed: int = 0) -> Iterator[np.ndarray]:
    """Supports without empty columns, half of them sparse enough for a surplus."""
    rng = np.random.default_rng(seed)
    while n:
        d_x, d_z = int(rng.integers(2, most_rows + 1)), int(rng.integers(2, most_latents + 1))
        support = rng.random((d_x, d_z)) < rng.choice([0.2, 0.35, 0.6])
        if support.any(axis=0).all():
            n -= 1
            yield support


def has_surplus(support: np.ndarray) -> bool:
    """The slow reference: |N(Q) outside col(r)| > |Q| for every r and every set Q of latents no heavier."""
    weight = support.sum(axis=0)
    for r in range(support.shape[1]):
        lighter = [q for q in range(support.shape[1]) if q != r and weight[q] <= weight[r]]
        outside = support[~support[:, r]]
        for size in range(1, len(lighter) + 1):
            for Q in combinations(lighter, size):
                if outside[:, Q].any(axis=1).sum() <= size:
                    return False
    return True


# ---- supports ------------------------------------------------------------------------------------------------


def test_no_surplus_exceeds_the_true_gap_on_thousands_of_supports() -> None:
    shown = 0
    for support in random_supports(2000, most_rows=11, seed=6):
        gap = generic_gap(support)
        assert gap is not None
        bound, owned = surplus(support), owned_surplus(support)
        assert bound <= max(0, gap.value)
        assert owned <= bound
        assert hall_surplus(support) == (bound > 0)
        shown += bound > 0
    assert shown > 150


def test_a_surplus_is_shown_exactly_where_every_set_of_lighter_latents_has_rows_to_spare() -> None:
    answers = [(hall_surplus(s), has_surplus(s)) for s in random_supports(1000, most_latents=5, seed=1)]
    assert all(shown == true for shown, true in answers)
    assert {True, False} == {true for _, true in answers}


def test_matching_finds_a_surplus_that_dealing_rows_out_misses() -> None:
    missed = [s for s in random_supports(400, seed=2) if hall_surplus(s) and not owned_surplus(s)]
    assert missed
    assert {surplus(s) for s in missed} == {1}


def test_large_supports_are_dealt_out_and_not_matched(monkeypatch: pytest.MonkeyPatch) -> None:
    missed = next(s for s in random_supports(400, seed=2) if hall_surplus(s) and not owned_surplus(s))
    monkeypatch.setattr(module, "SMALL", missed.size)
    assert surplus(missed) == 1
    monkeypatch.setattr(module, "SMALL", missed.size - 1)
    assert surplus(missed) == 0


@pytest.mark.parametrize("rows", [1, 2, 3, 7])
def test_columns_that_share_nothing_keep_all_rows_but_one(rows: int) -> None:
    blocks = np.kron(np.eye(3), np.ones((rows, 1))) > 0
    assert surplus(blocks) == owned_surplus(blocks) == rows - 1


def test_rows_are_dealt_out_evenly() -> None:
    own, pairs = np.kron(np.eye(3), np.ones((2, 1))), np.kron((1 - np.eye(3))[::-1], np.ones((2, 1)))
    assert owned_surplus(np.r_[own, pairs] > 0) == 2  # two rows of its own and one of each two it shares, less one


def test_the_single_heaviest_latent_needs_no_rows_of_its_own() -> None:
    heaviest = np.r_[np.ones(6), np.zeros(4)]
    second, third = np.r_[1, 1, 1, 0, 0, 0, 1, 1, 0, 0], np.r_[0, 0, 0, 1, 1, 1, 0, 0, 1, 1]
    assert surplus(np.stack([heaviest, second, third], axis=1) > 0) == 1
    assert surplus(np.stack([heaviest, second, third, heaviest], axis=1) > 0) == 0


@pytest.mark.parametrize("weight", [1, 2, 5])
def test_a_single_latent_has_the_gap_of_its_weight(weight: int) -> None:
    support = np.arange(6)[:, None] < weight
    gap = generic_gap(support)
    assert gap is not None
    assert surplus(support) == owned_surplus(support) == pure_surplus(support * 1.5) == gap.value == weight


def test_nested_equal_and_square_columns_have_none() -> None:
    assert surplus(np.array([[1, 1], [0, 1], [0, 1], [0, 1]]) > 0) == 0
    assert surplus(np.ones((9, 2), dtype=bool)) == 0
    assert surplus(np.eye(4, dtype=bool)) == 0


def stored_zeros(support: np.ndarray) -> sparse.csr_array:
    """A sparse array that stores every entry, zeros too."""
    full = sparse.csr_array(np.ones(support.shape))
    full.data = support.astype(float).ravel()
    return full


@pytest.mark.parametrize(
    "kind",
    [sparse.csr_array, sparse.csc_array, sparse.coo_array, sparse.csr_matrix, lambda s: s.astype(int), stored_zeros],
    ids=["csr", "csc", "coo", "matrix", "integers", "stored zeros"],
)
def test_sparse_supports_are_read_like_dense_ones(kind: Callable[[np.ndarray], Any]) -> None:
    for support in random_supports(100, seed=3):
        given = kind(support)
        assert surplus(given) == surplus(support)
        assert owned_surplus(given) == owned_surplus(support)


def test_an_input_is_left_as_it_was() -> None:
    support = sparse.csr_array(next(random_supports(1)))
    before = support.toarray()
    surplus(support)
    np.testing.assert_array_equal(support.toarray(), before)
    assert support.dtype == bool


# ---- Jacobians -----------------------------------------------------------------------------------------------


def random_jacobians(n: int, *, whole: bool, seed: int, latents: tuple[int, int] = (2, 4)) -> Iterator[np.ndarray]:
    """Real entries, or small whole numbers with many accidental cancellations."""
    rng = np.random.default_rng(seed)
    while n:
        shape = int(rng.integers(3, 11)), int(rng.integers(latents[0], latents[1] + 1))
        entries = rng.integers(-2, 3, size=shape).astype(float) if whole else rng.normal(size=shape)
        J = entries * (rng.random(shape) < rng.uniform(0.25, 0.7))
        if J.any(axis=0).all():
            n -= 1
            yield J


@pytest.mark.parametrize("whole", [True, False], ids=["small integers", "reals"])
def test_no_pure_surplus_exceeds_the_gap_at_a_point(whole: bool) -> None:
    shown = 0
    for J in random_jacobians(500, whole=whole, seed=4):
        gap = point_gap(J)
        assert gap is not None
        assert pure_surplus(J) <= max(0, gap.value)
        shown += pure_surplus(J) > 0
    assert shown > 25


@pytest.mark.parametrize("whole", [True, False], ids=["small integers", "reals"])
def test_of_two_latents_the_pure_surplus_is_the_gap_itself(whole: bool) -> None:
    for J in random_jacobians(400, whole=whole, seed=5, latents=(2, 2)):
        gap = point_gap(J)
        assert gap is not None
        assert pure_surplus(J) == max(0, gap.value)


def test_rows_that_cancel_together_are_counted_together() -> None:
    J = np.array([[1.0, 0], [1, 0], [1, 0], [1, 2], [2, 4], [3, -1], [0, 1], [0, 1], [0, 1]])
    assert pure_surplus(J) == 1  # nine rows, the two with ratio 1/2 cancelled, six of the heavier
    J[4] = [2.0, 4.1]
    assert pure_surplus(J) == 2


def test_units_of_latents_and_observations_do_not_matter() -> None:
    J = np.array([[1.0, 0], [1, 0], [1, 0], [1, 3], [1, 3 * (1 + 1e-12)], [0, 1], [0, 1], [0, 1]])
    for latents, observations in (([1e9, 1e-9], 1.0), ([1e-9, 1e9], 1.0), ([1.0, 1.0], 1e-9)):
        assert pure_surplus(J * np.array(latents) * observations) == 1


def test_ratios_within_the_tolerance_are_one_ratio() -> None:
    J = np.array([[1.0, 0], [1, 0], [1, 0], [1, 3], [1, 3], [0, 1], [0, 1], [0, 1]])
    J[4, 1] = 3 * (1 + 1e-7)
    assert pure_surplus(J) == 2
    assert pure_surplus(J, tolerance=1e-6) == 1


def test_of_three_latents_the_two_fewest_own_rows_must_pay_for_what_the_heaviest_shares() -> None:
    own = np.kron(np.eye(3), np.ones((4, 1)))
    shared = np.array([[1.0, 2, 3], [1, -1, 1]])
    assert pure_surplus(np.r_[own, shared]) == 3  # a pair: ten rows, one cancelled, six of the heavier
    many = np.random.default_rng(0).normal(size=(7, 3))
    assert pure_surplus(np.r_[own, many]) == 1  # all three: four and four own rows less seven shared
    assert pure_surplus(np.r_[own, np.random.default_rng(0).normal(size=(8, 3))]) == 0


def test_of_four_latents_two_own_rows_count_and_not_three() -> None:
    own, many = np.kron(np.eye(4), np.ones((4, 1))), np.random.default_rng(0).normal(size=(7, 4))
    assert pure_surplus(np.r_[own, many]) == 1
