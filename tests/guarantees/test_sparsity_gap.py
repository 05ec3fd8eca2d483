"""The sparsity gap agrees with a search over every flat, keeps its bounds, and reproduces the pixel formulas."""

from __future__ import annotations

from itertools import combinations
from math import inf

import numpy as np
import pytest

from noumena.ambiguity import Blocks
from noumena.checks import InputError
from noumena.guarantees import sparsity_gap as module
from noumena.guarantees.sparsity_gap import SparsityGap, generic_slot_gap, partition, sparsity_gap
from noumena.occam import point_gap


def scalar(n: int) -> Blocks:
    return tuple((j,) for j in range(n))


def random_jacobian(rng: np.random.Generator, d_x: int, d_z: int, *, whole: bool) -> np.ndarray:
    """Full column rank; small whole numbers cancel by accident, normal ones do not."""
    while True:
        numbers = rng.integers(1, 3, size=(d_x, d_z)) if whole else rng.normal(size=(d_x, d_z))
        J = np.where(rng.random((d_x, d_z)) < rng.uniform(0.3, 0.9), numbers, 0).astype(float)
        if np.linalg.matrix_rank(J) == d_z:
            return J


def random_blocks(rng: np.random.Generator, n: int) -> Blocks:
    while True:
        label = rng.integers(0, n, size=n)
        if len(set(label.tolist())) > 1:
            return tuple(tuple(np.flatnonzero(label == k).tolist()) for k in sorted(set(label.tolist())))


def flats(J: np.ndarray, columns: tuple[int, ...], rng: np.random.Generator) -> list[np.ndarray]:
    """For every set of rows sent to zero by directions on some columns, as many generic directions as the columns."""
    n, found = J.shape[1], []
    for size in range(len(columns)):
        for R in combinations(range(len(J)), size):
            _, singular, right = np.linalg.svd(J[list(R)][:, columns].reshape(size, len(columns)))
            kernel = right[int((singular > 1e-9).sum()) :]
            for _ in range(len(kernel)):
                v = np.zeros(n)
                v[list(columns)] = rng.normal(size=len(kernel)) @ kernel
                found.append(v / np.abs(v).max())
    return found


def weight(J: np.ndarray, v: np.ndarray) -> int:
    return int((np.abs(J @ v) > 1e-8).sum())


def greedy(J: np.ndarray, directions: list[np.ndarray], first: tuple[np.ndarray, ...] = ()) -> int:
    """The lightest set of directions, with ``first`` forced, that spans what all of them span."""
    chosen = list(first)
    for v in sorted(directions, key=lambda v: weight(J, v)):
        if np.linalg.matrix_rank(np.array([*chosen, v]), tol=1e-7) > len(chosen):
            chosen.append(v)
    return sum(weight(J, v) for v in chosen)


def crosses(v: np.ndarray, blocks: Blocks) -> bool:
    return sum(np.abs(v[list(block)]).max() > 1e-9 for block in blocks) > 1


def reference(J: np.ndarray, blocks: Blocks, rng: np.random.Generator) -> tuple[int, int]:
    """ρ⁺ and ρ⁻ by definition, over generic directions of every flat, elementary or not."""
    rho_plus = sum(greedy(J, flats(J, block, rng)) for block in blocks)
    everything = flats(J, tuple(range(J.shape[1])), rng)
    lightest: dict[tuple[int, tuple[int, ...]], np.ndarray] = {}
    for v in everything:
        if crosses(v, blocks):
            lightest[weight(J, v), tuple(np.flatnonzero(np.abs(v) > 1e-9).tolist())] = v
    return rho_plus, min(greedy(J, everything, (v,)) for v in lightest.values())


def every_basis(J: np.ndarray, blocks: Blocks, rng: np.random.Generator) -> tuple[int, int]:
    """ρ⁺ and ρ⁻ by trying every basis made of the candidates."""
    n = J.shape[1]
    candidates = flats(J, tuple(range(n)), rng) + [v for block in blocks for v in flats(J, block, rng)]
    rho_plus, rho_minus = inf, inf
    for chosen in combinations(candidates, n):
        if abs(np.linalg.det(np.array(chosen))) > 1e-7:
            total = sum(weight(J, v) for v in chosen)
            if any(crosses(v, blocks) for v in chosen):
                rho_minus = min(rho_minus, total)
            else:
                rho_plus = min(rho_plus, total)
    return int(rho_plus), int(rho_minus)


@pytest.mark.parametrize("whole", [True, False], ids=["whole numbers", "generic numbers"])
def test_the_gap_is_that_of_a_search_over_every_flat(whole: bool) -> None:
    rng = np.random.default_rng(int(whole))
    signs, slots = set(), 0
    for _ in range(170):
        d_z = int(rng.integers(2, 5))
        J = random_jacobian(rng, int(rng.integers(d_z, 8)), d_z, whole=whole)
        blocks = random_blocks(rng, d_z)
        found = sparsity_gap(J, blocks)
        assert (found.rho_plus, found.rho_minus) == reference(J, blocks, rng)
        assert found.exact
        assert found.lower == found.upper == found.value == found.rho_minus - found.rho_plus
        signs.add(np.sign(found.value))
        slots += len(blocks) < d_z
    assert signs == {-1, 0, 1}
    assert slots > 50


def test_the_gap_is_that_of_every_basis_tried_in_turn() -> None:
    rng = np.random.default_rng(2)
    signs = set()
    for k in range(40):
        d_z = 2 if k % 2 else 3
        J = random_jacobian(rng, d_z + (0 if d_z == 3 else 3), d_z, whole=k % 4 < 2)
        blocks = random_blocks(rng, d_z)
        found = sparsity_gap(J, blocks)
        assert (found.rho_plus, found.rho_minus) == every_basis(J, blocks, rng)
        signs.add(np.sign(found.value))
    assert len(signs) > 1


def test_for_scalar_blocks_it_is_the_occam_gap_and_below_zero_the_signs_agree() -> None:
    rng = np.random.default_rng(3)
    lower, seen = 0, set()
    for k in range(400):
        d_z = int(rng.integers(2, 5))
        J = random_jacobian(rng, int(rng.integers(d_z, 9)), d_z, whole=k % 2 == 0)
        found, occam = sparsity_gap(J, scalar(d_z)), point_gap(J)
        assert occam is not None
        assert found.rho_plus == (J != 0).sum()
        if occam.value >= 0:
            assert found.value == occam.value
        else:
            assert found.value <= occam.value
            lower += found.value < occam.value
        seen.add(np.sign(occam.value))
    assert seen == {-1, 0, 1}
    assert lower > 10  # several exchanges may each save


def pixels(p: int, q: int, rng: np.random.Generator | None = None) -> np.ndarray:
    """Two latents with ``p`` pixels each, ``q`` shared, alike or generic."""
    support = np.array([[1, 0]] * (p - q) + [[1, 1]] * q + [[0, 1]] * (p - q))
    return support.astype(float) if rng is None else np.where(support, rng.normal(size=support.shape), 0)


@pytest.mark.parametrize("p", range(1, 8))
def test_two_factors_with_shared_pixels_follow_the_formulas(p: int) -> None:
    rng = np.random.default_rng(p)
    for q in range(1, p):
        alike, generic = sparsity_gap(pixels(p, q), scalar(2)), sparsity_gap(pixels(p, q, rng), scalar(2))
        assert (alike.rho_plus, alike.rho_minus) == (2 * p, min(3 * p - 2 * q, 3 * p - q))
        assert (generic.rho_plus, generic.rho_minus) == (2 * p, 3 * p - q - 1)
        assert (alike.value > 0) == (q < p / 2)  # strictly less than half
        assert generic_slot_gap(pixels(p, q), scalar(2)).rho_minus == generic.rho_minus
    apart = sparsity_gap(pixels(p, 0), scalar(2))
    assert (apart.rho_plus, apart.rho_minus) == (2 * p, 3 * p)


def test_shared_pixels_alike_are_type_m_without_type_s() -> None:
    J = pixels(3, 2)
    first, second = (set(np.flatnonzero(J[:, j])) for j in range(2))
    assert not first <= second
    assert not second <= first
    found = sparsity_gap(J, scalar(2))
    assert (found.rho_plus, found.rho_minus) == (6, 5)
    assert found.direction is not None
    assert found.direction[0] == pytest.approx(-found.direction[1])


def test_the_direction_is_misaligned_and_costs_what_the_gap_says() -> None:
    rng = np.random.default_rng(4)
    for k in range(150):
        d_z = int(rng.integers(2, 5))
        J = random_jacobian(rng, int(rng.integers(d_z, 9)), d_z, whole=k % 2 == 0)
        J = J * 10 ** rng.uniform(-2, 2, (1, d_z))
        blocks = random_blocks(rng, d_z)
        found = sparsity_gap(J, blocks)
        assert found.direction is not None
        v = found.direction * np.abs(J).max(axis=0)
        assert crosses(v / np.abs(v).max(), blocks)
        inner = np.abs(np.linalg.solve(found.basis, found.direction)) * np.linalg.norm(J @ found.basis, axis=0)
        heaviest = max(weight(J, found.basis[:, t]) for t in np.flatnonzero(inner > 1e-7 * inner.max()))
        cost = weight(J, found.direction) - heaviest
        assert cost == found.value if found.value >= 0 else found.value <= cost < 0


def test_the_basis_is_aligned_and_weighs_rho_plus() -> None:
    rng = np.random.default_rng(5)
    for k in range(100):
        J = random_jacobian(rng, 7, 4, whole=k % 2 == 0)
        blocks = random_blocks(rng, 4)
        found = sparsity_gap(J, blocks)
        assert abs(np.linalg.det(found.basis)) > 1e-9
        assert sum(weight(J, v) for v in found.basis.T) == found.rho_plus
        for block in blocks:
            others = [j for j in range(4) if j not in block]
            assert not found.basis[np.ix_(others, block)].any()


def test_the_gap_does_not_change_with_units_order_and_coordinates_within_blocks() -> None:
    rng = np.random.default_rng(6)
    for k in range(60):
        J = random_jacobian(rng, 8, 4, whole=k % 2 == 0)
        blocks = random_blocks(rng, 4)
        mix = np.zeros((4, 4))
        for block in blocks:
            mix[np.ix_(block, block)] = np.linalg.qr(rng.normal(size=(len(block), len(block))))[0] + 0.1
        if np.linalg.cond(mix) > 50:
            continue
        moved = (10 ** rng.uniform(-3, 3, (8, 1)) * (J @ mix) * 10 ** rng.uniform(-3, 3, (1, 4)))[rng.permutation(8)]
        before, after = sparsity_gap(J, blocks), sparsity_gap(moved, blocks)
        assert (before.rho_plus, before.rho_minus) == (after.rho_plus, after.rho_minus)
        assert before.atoms is not None
        assert after.atoms is not None
        assert sorted(map(len, before.atoms)) == sorted(map(len, after.atoms))


def test_a_faint_entry_is_an_entry() -> None:
    rng = np.random.default_rng(7)
    for _ in range(60):
        J = random_jacobian(rng, 7, 3, whole=False)
        faint = np.where(rng.random(J.shape) < 0.3, 1e-4, 1) * J
        blocks = random_blocks(rng, 3)
        assert sparsity_gap(faint, blocks).value == sparsity_gap(J, blocks).value


def test_one_block_has_nothing_to_misalign() -> None:
    found = sparsity_gap(np.eye(3)[:, :2], [(0, 1)])
    assert (found.rho_plus, found.rho_minus, found.direction) == (2, inf, None)
    assert found.lower == found.upper == inf


# ---- atoms ---------------------------------------------------------------------------------------------------


def lightest_bases_split(J: np.ndarray, rng: np.random.Generator) -> set[frozenset[int]]:
    """The finest blocks of one lightest basis that every direction of a lightest basis respects, from all flats."""
    n = J.shape[1]
    directions = sorted(flats(J, tuple(range(n)), rng), key=lambda v: weight(J, v))
    chosen: list[np.ndarray] = []
    for v in directions:
        if np.linalg.matrix_rank(np.array([*chosen, v]), tol=1e-7) > len(chosen):
            chosen.append(v)
    weights = np.array([weight(J, v) for v in chosen])
    part = {t: {t} for t in range(n)}
    for v in directions:
        T = np.flatnonzero(np.abs(np.linalg.solve(np.array(chosen).T, v)) > 1e-7).tolist()
        if weight(J, v) == weights[T].max():
            union = set().union(*(part[t] for t in T))
            for t in union:
                part[t] = union
    return {frozenset(p) for p in part.values()}


def test_atoms_are_what_all_lightest_bases_respect() -> None:
    rng = np.random.default_rng(8)
    counts = set()
    for k in range(120):
        n = int(rng.integers(2, 5))
        J = random_jacobian(rng, int(rng.integers(n, 8)), n, whole=k % 2 == 0)
        atoms = sparsity_gap(J, [tuple(range(n))]).atoms
        assert atoms is not None
        assert sorted(map(len, atoms)) == sorted(map(len, lightest_bases_split(J, rng)))
        counts.add(len(atoms))
    assert counts == {1, 2, 3, 4}


def test_a_positive_gap_of_scalars_makes_every_latent_an_atom_of_any_block() -> None:
    rng = np.random.default_rng(9)
    positive = 0
    for _ in range(100):
        J = random_jacobian(rng, 16, 3, whole=False)
        if sparsity_gap(J, scalar(3)).value > 0:
            positive += 1
            assert sparsity_gap(J, [(0, 1, 2)]).atoms == scalar(3)
            assert sparsity_gap(J, [(0, 2), (1,)]).value > 0
    assert positive > 10


# ---- slots, bounds and bad input -----------------------------------------------------------------------------


def slots(n_slots: int, size: int, rows: int, overlap: int) -> tuple[np.ndarray, Blocks]:
    """Slots of some latents that move some rows each, neighbours sharing a few."""
    step = rows - overlap
    support = np.zeros((step * (n_slots - 1) + rows, n_slots * size), dtype=bool)
    for k in range(n_slots):
        support[k * step : k * step + rows, k * size : (k + 1) * size] = True
    return support, tuple(tuple(range(k * size, (k + 1) * size)) for k in range(n_slots))


@pytest.mark.parametrize(("rows", "overlap"), [(5, 0), (5, 1), (6, 2), (6, 4), (5, 4)])
def test_generic_slots_agree_with_a_search_over_random_numbers(rows: int, overlap: int) -> None:
    rng = np.random.default_rng(rows + overlap)
    support, blocks = slots(2, 2, rows, overlap)
    found = generic_slot_gap(support, blocks)
    J = np.where(support, rng.normal(size=support.shape), 0)
    assert (found.rho_plus, found.rho_minus) == reference(J, blocks, rng)
    assert found.rho_plus == 4 * (rows - 1)


def test_beyond_the_listing_the_bounds_hold(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(10)
    cases, useful = [], 0
    for k in range(80):
        d_z = int(rng.integers(2, 5))
        J = random_jacobian(rng, int(rng.integers(d_z + 2, 13)), d_z, whole=k % 2 == 0)
        cases.append((J, random_blocks(rng, d_z)))
    for n_slots, size, rows, overlap in (
        (3, 2, 8, 1),
        (3, 2, 8, 2),
        (3, 2, 7, 3),
        (2, 2, 9, 2),
        (4, 1, 6, 1),
        (4, 1, 7, 2),
    ):
        support, blocks = slots(n_slots, size, rows, overlap)
        cases.append((np.where(support, rng.normal(size=support.shape), 0), blocks))
    exact = [sparsity_gap(J, blocks) for J, blocks in cases]
    for most, least in ((0, 1), (12, 100)):
        monkeypatch.setattr(module, "MOST_DIRECTIONS", most)
        monkeypatch.setattr(module, "LEAST_SAMPLED", least)
        for (J, blocks), truth in zip(cases, exact, strict=True):
            found = sparsity_gap(J, blocks)
            assert found.lower <= truth.value <= found.upper
            assert found.rho_plus >= truth.rho_plus
            assert found.rho_minus >= truth.rho_minus
            assert found.exact or found.lower < inf
            useful += not found.exact and found.lower > 0
    assert useful >= 5


def test_the_lower_bound_counts_private_and_shared_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_DIRECTIONS", 2)
    rng = np.random.default_rng(11)
    found = sparsity_gap(pixels(8, 2, rng), scalar(2))
    assert not found.exact
    assert found.lower == 6 - 2  # six private rows of the other, two shared
    chain = np.zeros((30, 3), dtype=bool)
    chain[:20, 0] = chain[8:28, 1] = chain[26:, 2] = True
    found = sparsity_gap(np.where(chain, rng.normal(size=chain.shape), 0), scalar(3))
    assert not found.exact
    assert found.lower == 3 * (6 - 12)  # the first loses twelve to the second, which has six of its own
    star = np.zeros((40, 4), dtype=bool)
    star[:30, 0] = star[10:20, 1] = star[30:34, 1] = star[20:30, 2] = star[34:38, 2] = star[38:, 3] = True
    found = sparsity_gap(np.where(star, rng.normal(size=star.shape), 0), scalar(4))
    assert found.lower == 4 * (4 - 10 + 4 - 10)  # the first may lose to both neighbours at once
    few = sparsity_gap(rng.normal(size=(4, 2)), scalar(2))
    assert few.lower == 2 * 2 - 8  # two disjoint pairs of rows: every direction moves two or more


def test_a_light_aligned_basis_is_no_misaligned_one() -> None:
    supports = np.eye(2, dtype=bool)
    aligned = module._Directions(np.eye(2), supports, True)
    crossing = module._Directions(np.array([[1.0, 0], [1, 1]]), supports, True)
    assert module._misaligned(aligned, scalar(2)) == inf
    assert module._misaligned(crossing, scalar(2)) == 2


def test_large_blocks_are_bounded_by_their_rank(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_DIRECTIONS", 2)
    J = np.random.default_rng(12).normal(size=(9, 4))
    found = sparsity_gap(J, [(0, 1), (2, 3)])
    assert found.atoms is None
    assert found.rho_plus == 4 * 8
    assert found.upper == found.rho_minus - 2 * (2 * 4)  # nine rows hold four disjoint pairs
    assert found.lower == 4 * 2 - found.rho_plus


def test_many_slots_are_bounded_without_listing() -> None:
    support, blocks = slots(5, 3, 20, 2)
    found = generic_slot_gap(support, blocks)
    assert not found.exact
    assert found.rho_plus == 15 * 18
    assert 12 <= found.lower <= found.upper
    apart, blocks = slots(5, 3, 20, 0)
    known = generic_slot_gap(apart, blocks)
    assert known.exact
    assert known.value == 18


def test_hidden_factors_are_listed_one_by_one() -> None:
    support, _ = slots(2, 3, 20, 0)
    rng = np.random.default_rng(13)
    J = np.where(support, rng.normal(size=support.shape), 0)
    plain, remixed = (sparsity_gap(A, [tuple(range(6))]) for A in (J, J @ rng.normal(size=(6, 6))))
    assert plain.exact
    assert remixed.exact  # 2 · (20 choose 2) directions, not (40 choose 5)
    assert plain.rho_plus == remixed.rho_plus == 6 * 18
    assert plain.atoms is not None
    assert remixed.atoms is not None
    assert sorted(map(len, plain.atoms)) == sorted(map(len, remixed.atoms)) == [3, 3]


def test_the_gap_is_exact_only_when_every_block_is_listed_too(monkeypatch: pytest.MonkeyPatch) -> None:
    J = np.random.default_rng(14).normal(size=(8, 7))  # (8 choose 6) = 28 directions, (8 choose 3) = 56 of the block
    blocks = [(0, 1, 2, 3), (4, 5, 6)]
    assert sparsity_gap(J, blocks).exact
    monkeypatch.setattr(module, "MOST_DIRECTIONS", 30)
    found = sparsity_gap(J, blocks)
    assert not found.exact
    assert found.atoms is None


def test_the_same_jacobian_gives_the_same_bounds() -> None:
    support, blocks = slots(3, 3, 12, 3)
    first, second = generic_slot_gap(support, blocks), generic_slot_gap(support, blocks)
    assert (first.lower, first.upper) == (second.lower, second.upper)


def test_gaps_are_taken_at_the_first_points_of_full_rank() -> None:
    good = pixels(4, 1)
    found = module.gaps_at(np.stack([np.ones_like(good), good, pixels(4, 1) * 2]), scalar(2))
    assert [gap.value for gap in found] == [2, 2]
    assert len(module.gaps_at(np.stack([good] * 12), scalar(2))) == 8
    wide, blocks = slots(3, 3, 12, 3)
    assert (
        len(
            module.gaps_at(np.stack([np.where(wide, 1.0 + np.random.default_rng(0).random(wide.shape), 0)] * 4), blocks)
        )
        == 2
    )


def gap(lower: float, upper: float, atoms: Blocks | None = None) -> SparsityGap:
    exact = lower == upper
    return SparsityGap(4, 4 + upper, exact, lower, upper, np.array([1.0, 0, -2]), np.eye(3), atoms)


@pytest.mark.parametrize(
    ("gaps", "answer", "said"),
    [
        ([gap(2, 2), gap(1, 3)], "supported", "a gap of 1 or more"),
        ([gap(2, 2), gap(0, 0)], "fails", "ρ⁺ = 4, ρ⁻ = 4 at the worst of 2 points, by a direction across z1 z3"),
        ([gap(2, 2), gap(-1, 3)], "unknown", "proved is only ≥ -1"),
        ([], "unknown", "no point has full rank"),
    ],
)
def test_the_hypothesis_says_what_the_gaps_say(gaps: list[SparsityGap], answer: str, said: str) -> None:
    found = module.sparsest(gaps, known=False)
    assert (found.name, found.answer) == (module.SPARSEST, answer)
    assert said in found.evidence
    if answer == "supported":
        assert module.sparsest(gaps, known=True).answer == "holds"


def test_a_block_is_irreducible_when_some_point_does_not_split_it() -> None:
    blocks = ((0, 2), (1,))
    whole, split = gap(1, 1, ((0, 2), (1,))), gap(1, 1, ((0,), (1,), (2,)))
    assert module.irreducible([split, whole], blocks, known=False).answer == "supported"
    assert module.irreducible([split, whole], blocks, known=True).answer == "holds"
    failing = module.irreducible([split, split], blocks, known=False)
    assert failing.answer == "fails"
    assert "z1 z3 split it into 1 + 1" in failing.evidence
    assert module.irreducible([split], scalar(3), known=False).answer == "holds"
    assert module.irreducible([gap(1, 2)], blocks, known=False).answer == "unknown"


@pytest.mark.parametrize(
    ("J", "blocks", "sentence"),
    [
        (np.ones((3, 2)), [(0,), (1,)], "A Jacobian must have full column rank. Got rank 1 for 2 latents."),
        (np.eye(2), [(0,)], r"Blocks must partition the latents 0 to 1. Got \(\(0,\),\)."),
        (np.eye(2), [(0, 1), (1,)], "Blocks must partition the latents 0 to 1"),
        (np.eye(2), [(0, 1), ()], "Blocks must partition the latents 0 to 1"),
        (np.eye(2), [0, 1], r"Blocks must be lists of latents' indices. Got \[0, 1\]."),
        (np.eye(2), [["a"], [1]], "Blocks must be lists of latents' indices."),
        (np.ones(2), [(0,)], r"A Jacobian must have axes \(observed, latent\). Got shape \(2,\)."),
        (np.array([[np.inf]]), [(0,)], "A Jacobian must be finite. Got NaN or inf entries."),
    ],
)
def test_what_cannot_be_read_is_refused_in_one_sentence(J: np.ndarray, blocks: list, sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        sparsity_gap(J, blocks)


def test_a_partition_keeps_its_order_and_takes_numpy_integers() -> None:
    assert partition(np.array([[2, 0], [1, 3]]), 4) == ((2, 0), (1, 3))
