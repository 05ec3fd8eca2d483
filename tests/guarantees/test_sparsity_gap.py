"""The sparsity gap agrees with a search over every flat, and reproduces the pixel formulas."""

from __future__ import annotations

from itertools import combinations
from math import inf

import numpy as np
import pytest
from random_jacobians import crosses, flats, pixels, random_blocks, random_jacobian, reference, scalar, weight

from noumena.ambiguity import Blocks
from noumena.guarantees.occam import point_gap
from noumena.guarantees.sparsity_gap import generic_slot_gap, sparsity_gap


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
