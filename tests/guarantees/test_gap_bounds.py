"""The sparsity gap keeps its bounds where not everything is listed, and what cannot be read is refused."""

from __future__ import annotations

from math import inf

import numpy as np
import pytest
from random_jacobians import pixels, random_blocks, random_jacobian, reference, scalar

from noumena.ambiguity import Blocks
from noumena.checks import InputError
from noumena.guarantees import sparsity_gap as module
from noumena.guarantees.sparsity_gap import SparsityGap, generic_slot_gap, partition, sparsity_gap


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
