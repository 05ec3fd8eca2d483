"""The Occam gap agrees with brute force over null spaces, and says what it claims about competitors."""

from __future__ import annotations

from itertools import combinations, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from noumena.guarantees import occam
from noumena.guarantees.occam import Gap, generic_gap, point_gap
from noumena.guarantees.surplus import hall_surplus

Cheapest = tuple[int, tuple[int, ...], np.ndarray]


def random_support(rng: np.random.Generator, d_x: int, d_z: int) -> np.ndarray:
    """A support without empty columns."""
    while True:
        support = rng.random((d_x, d_z)) < rng.uniform(0.2, 0.8)
        if support.any(axis=0).all():
            return support


def random_jacobian(rng: np.random.Generator, support: np.ndarray) -> np.ndarray:
    return np.where(support, rng.normal(size=support.shape), 0)


def null_space(A: np.ndarray, n: int) -> np.ndarray:
    if len(A) == 0:
        return np.eye(n)
    _, singular, right = np.linalg.svd(A)
    return right[int((singular > 1e-9).sum()) :].T


def exchanges(J: np.ndarray, rng: np.random.Generator) -> list[Cheapest]:
    """The slow reference: for every set T and every set of rows to cancel, a random direction that cancels them."""
    d_z, found = J.shape[1], []
    weight = (J != 0).sum(axis=0)
    for size in range(2, d_z + 1):
        for T in combinations(range(d_z), size):
            touched = np.flatnonzero((J[:, T] != 0).any(axis=1))
            for k in range(min(size, len(touched) + 1)):
                for R in combinations(touched, k):
                    basis = null_space(J[list(R)][:, T], size)
                    c = basis @ rng.normal(size=basis.shape[1])
                    if np.abs(c).min() > 1e-7:
                        image = int((np.abs(J[:, T] @ c) > 1e-7).sum())
                        full = np.zeros(d_z)
                        full[list(T)] = c
                        found.append((image - int(weight[list(T)].max()), T, full))
    return found


def random_structures(n: int, *, most_rows: int, most_latents: int, seed: int = 0) -> list[np.ndarray]:
    rng = np.random.default_rng(seed)
    sizes = [(int(rng.integers(2, most_rows + 1)), int(rng.integers(2, most_latents + 1))) for _ in range(n)]
    return [random_support(rng, d_x, d_z) for d_x, d_z in sizes]


@pytest.mark.parametrize(
    "support", random_structures(40, most_rows=7, most_latents=4), ids=lambda s: f"{s.shape[0]}x{s.shape[1]}"
)
def test_the_generic_gap_is_the_cheapest_exchange_of_a_random_jacobian(support: np.ndarray) -> None:
    rng = np.random.default_rng(1)
    J = random_jacobian(rng, support)
    reference = exchanges(J, rng)
    gap = generic_gap(support)
    assert gap is not None
    cost: dict[tuple[int, ...], int] = {}
    for value, T, _ in reference:
        cost[T] = min(cost.get(T, value), value)
    assert gap.value == min(cost.values())
    assert cost[gap.exchange] == gap.value
    assert len(gap.exchange) == min(len(T) for T in cost if cost[T] == gap.value)
    assert set(gap.tight) == {T for T in cost if cost[T] <= 0}


def test_the_gap_at_a_random_point_is_that_of_the_support() -> None:
    rng = np.random.default_rng(2)
    for support in random_structures(150, most_rows=8, most_latents=5, seed=2):
        generic, point = generic_gap(support), point_gap(random_jacobian(rng, support))
        assert generic is not None
        assert point is not None
        assert point.value == generic.value
        assert set(point.tight) <= set(generic.tight)
        if generic.value >= 0:
            assert point.blocks(support.shape[1]) == generic.blocks(support.shape[1])


def test_a_faint_entry_is_an_entry() -> None:
    rng = np.random.default_rng(9)
    for support in random_structures(60, most_rows=7, most_latents=4, seed=9):
        J = random_jacobian(rng, support)
        J[rng.random(J.shape) < 0.3] *= 1e-4
        generic, point = generic_gap(support), point_gap(J)
        assert generic is not None
        assert point is not None
        assert point.value == generic.value


def test_accidents_are_seen_at_a_point_and_not_in_the_support() -> None:
    rng = np.random.default_rng(3)
    lower = 0
    for support in random_structures(40, most_rows=6, most_latents=3, seed=3):
        J = np.where(support, rng.integers(1, 3, size=support.shape), 0).astype(float)
        found, generic = point_gap(J), generic_gap(support)
        assert found is not None
        assert generic is not None
        assert found.value == min(cost for cost, _, _ in exchanges(J, rng))
        assert found.value <= generic.value
        lower += found.value < generic.value
    assert lower > 0


def test_the_gap_does_not_change_with_units_and_order() -> None:
    rng = np.random.default_rng(4)
    for support in random_structures(30, most_rows=7, most_latents=4, seed=4):
        J = random_jacobian(rng, support)
        d_x, d_z = support.shape
        rows, columns = rng.permutation(d_x), rng.permutation(d_z)
        moved = (10 ** rng.uniform(-2, 2, (d_x, 1)) * J * rng.uniform(0.5, 2, (1, d_z)))[rows][:, columns]
        before, after = point_gap(J), point_gap(moved)
        assert before is not None
        assert after is not None
        assert before.value == after.value
        assert len(before.tight) == len(after.tight)
        generic, shuffled = generic_gap(support), generic_gap(support[rows][:, columns].astype(int))
        assert generic is not None
        assert shuffled is not None
        assert generic.value == shuffled.value


def pair(alone_first: int, shared: int, alone_second: int) -> np.ndarray:
    rows = [[1, 0]] * alone_first + [[1, 1]] * shared + [[0, 1]] * alone_second
    return np.array(rows, dtype=bool)


@given(st.integers(0, 5), st.integers(1, 5), st.integers(0, 5))
@settings(max_examples=40, deadline=None)
def test_two_latents_that_share_a_row_have_the_smaller_ones_own_rows_less_one(a: int, shared: int, b: int) -> None:
    gap = generic_gap(pair(a, shared, b))
    assert gap is not None
    assert gap.value == min(a, b) - 1
    assert gap.exchange == (0, 1)
    assert gap.blocks(2) == (((0, 1),) if gap.value <= 0 else ((0,), (1,)))


@given(st.integers(1, 5), st.integers(1, 5))
@settings(max_examples=20, deadline=None)
def test_two_latents_without_a_shared_row_have_the_smaller_ones_weight(a: int, b: int) -> None:
    for gap in (generic_gap(pair(a, 0, b)), point_gap(pair(a, 0, b).astype(float))):
        assert gap is not None
        assert gap.value == min(a, b)


def test_one_latent_has_nothing_to_mix_with() -> None:
    support = np.array([[1], [1], [0]])
    assert generic_gap(support) == point_gap(support.astype(float)) == Gap(2, (0,), ())
    assert hall_surplus(support)


def test_a_positive_gap_means_no_competitor_is_as_sparse_and_an_exchange_costs_what_it_says() -> None:
    rng = np.random.default_rng(5)
    signs = set()
    for support in random_structures(60, most_rows=9, most_latents=3, seed=5):
        gap = generic_gap(support)
        assert gap is not None
        J = random_jacobian(rng, support)
        cost, T, c = min(exchanges(J, rng), key=lambda exchange: exchange[0])
        heaviest = max(T, key=lambda t: support[:, t].sum())
        competitor = J.copy()
        competitor[:, heaviest] = J @ c
        change = int((np.abs(competitor) > 1e-7).sum()) - int(support.sum())
        assert change == cost == gap.value
        signs.add(np.sign(gap.value))
    assert signs == {-1, 0, 1}


def all_square(d: int) -> list[np.ndarray]:
    every = (np.array(bits, dtype=bool).reshape(d, d) for bits in product((0, 1), repeat=d * d))
    return [support for support in every if support.any(axis=0).all()]


def is_permutation(support: np.ndarray) -> bool:
    return bool((support.sum(axis=0) == 1).all() and (support.sum(axis=1) == 1).all())


def test_as_many_observations_as_latents_never_have_a_positive_gap_unless_a_permutation() -> None:
    rng = np.random.default_rng(6)
    larger = [random_support(rng, d, d) for d in (4, 5) for _ in range(150)]
    permutations = 0
    for support in [*all_square(2), *all_square(3), *larger, np.eye(5, dtype=bool)[rng.permutation(5)]]:
        gap = generic_gap(support)
        assert gap is not None
        assert (gap.value > 0) == is_permutation(support)
        permutations += gap.value > 0
    assert permutations >= 2 + 6 + 1


def test_hall_surplus_never_says_yes_wrongly() -> None:
    rng = np.random.default_rng(7)
    yes = 0
    for _ in range(4000):
        d_z = int(rng.integers(2, 6))
        support = random_support(rng, int(rng.integers(2 * d_z, 6 * d_z)), d_z)
        if hall_surplus(support):
            gap = generic_gap(support)
            assert gap is not None
            assert gap.value >= 1
            yes += 1
    assert yes > 200


def surplus_by_definition(support: np.ndarray) -> bool:
    """Every set Q of others no heavier than r owns |Q| + 1 rows outside col(r)."""
    weight = support.sum(axis=0)
    for r in range(support.shape[1]):
        others = [q for q in range(support.shape[1]) if q != r and weight[q] <= weight[r]]
        for size in range(1, len(others) + 1):
            for Q in combinations(others, size):
                if (support[:, Q].any(axis=1) & ~support[:, r]).sum() < size + 1:
                    return False
    return True


def test_hall_surplus_is_its_definition() -> None:
    answers = set()
    for support in random_structures(400, most_rows=12, most_latents=5, seed=8):
        assert hall_surplus(support) == surplus_by_definition(support)
        answers.add(hall_surplus(support))
    assert answers == {True, False}


def test_beyond_the_search_the_answer_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    assert generic_gap(np.ones((10, 8), dtype=bool)) is not None
    assert generic_gap(np.ones((10, 9), dtype=bool)) is None
    J = np.random.default_rng(0).normal(size=(8, 5))
    assert point_gap(J) is not None
    with monkeypatch.context() as patch:
        patch.setattr(occam, "MOST_EXCHANGES", 100)
        assert point_gap(J) is None
    with monkeypatch.context() as patch:
        patch.setattr(occam, "MOST_LATENTS", 2)
        assert point_gap(J) is None


@given(
    st.integers(1, 7).flatmap(
        lambda n: st.tuples(
            st.just(n),
            st.lists(
                st.sets(st.integers(0, n - 1), min_size=1, max_size=3).map(lambda s: tuple(sorted(s))), max_size=5
            ),
        )
    )
)
@settings(max_examples=80, deadline=None)
def test_blocks_are_the_connected_components_of_tight_exchanges(case: tuple[int, list[tuple[int, ...]]]) -> None:
    n, tight = case
    component = {t: {t} for t in range(n)}
    for _ in range(n):
        for group in tight:
            union = set().union(*(component[t] for t in group))
            for t in union:
                component[t] = union
    blocks = Gap(0, (0,), tuple(tight)).blocks(n)
    assert {frozenset(block) for block in blocks} == {frozenset(c) for c in component.values()}
    assert sorted(t for block in blocks for t in block) == list(range(n))
