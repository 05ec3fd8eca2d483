"""Factors agree with circuits found by brute force, survive any change of coordinates, and derivatives are exact."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
import torch
from scipy import sparse

from noumena.ambiguity import Blocks
from noumena.checks import InputError
from noumena.derivatives import derivative
from noumena.guarantees import factors as fac
from noumena.guarantees.factors import Factors, components, dependency_graph, factors, form_factors, split


def random_jacobian(rng: np.random.Generator, *, most_latents: int = 6, most_rows: int = 9) -> np.ndarray:
    """Blocks of generic or small whole numbers, sparse, with a few zero rows, of full column rank."""
    while True:
        d_z = int(rng.integers(1, most_latents + 1))
        d_x = int(rng.integers(d_z, most_rows + 1))
        numbers = rng.normal(size=(d_x, d_z)) if rng.random() < 0.5 else rng.integers(-2, 3, size=(d_x, d_z))
        J = np.where(rng.random((d_x, d_z)) < rng.uniform(0.15, 0.7), numbers, 0).astype(float)
        if np.linalg.matrix_rank(J) == d_z:
            return J


def random_mix(rng: np.random.Generator, n: int) -> np.ndarray:
    while True:
        A = rng.normal(size=(n, n))
        if np.linalg.cond(A) < 50:
            return A


def merge(n: int, groups: list[tuple[int, ...]]) -> set[frozenset[int]]:
    part = {i: {i} for i in range(n)}
    for group in groups:
        union = set().union(*(part[i] for i in group))
        for i in union:
            part[i] = union
    return {frozenset(p) for p in part.values()}


def circuits(J: np.ndarray) -> list[tuple[int, ...]]:
    """Every minimal dependent set of rows, by rank."""
    found: list[tuple[int, ...]] = []
    for size in range(1, J.shape[1] + 2):
        for rows in combinations(range(len(J)), size):
            if any(set(c) <= set(rows) for c in found):
                continue
            if np.linalg.matrix_rank(J[list(rows)], tol=1e-9) < size:
                found.append(rows)
    return found


def row_partition(found: Factors) -> set[frozenset[int]]:
    return {frozenset(rows) for rows in found.observed}


def test_factors_are_the_components_of_the_row_matroid_by_its_circuits() -> None:
    rng = np.random.default_rng(0)
    counts = set()
    for _ in range(520):
        J = random_jacobian(rng, most_rows=8)
        moving = frozenset(np.flatnonzero(J.any(axis=1)).tolist())
        by_circuits = {part for part in merge(len(J), circuits(J)) if part <= moving}
        found = factors(J)
        assert row_partition(found) == by_circuits
        assert found.count == len(by_circuits) == len(found.blocks)
        counts.add(found.count)
    assert counts >= {1, 2, 3, 4, 5}


def test_no_basis_of_independent_rows_has_more_components_and_all_have_as_many() -> None:
    rng = np.random.default_rng(1)
    for _ in range(60):
        J = random_jacobian(rng, most_latents=5, most_rows=7)
        d_z = J.shape[1]
        for rows in combinations(range(len(J)), d_z):
            if abs(np.linalg.det(J[list(rows)])) > 1e-9:
                moved = J @ np.linalg.inv(J[list(rows)])
                assert len(components(dependency_graph(np.abs(moved) > 1e-8))) == factors(J).count


def test_factors_do_not_change_when_the_latents_are_remixed() -> None:
    rng = np.random.default_rng(2)
    for _ in range(520):
        J = random_jacobian(rng)
        before, after = factors(J), factors(J @ random_mix(rng, J.shape[1]))
        assert before.count == after.count
        assert before.observed == after.observed
        assert list(map(len, before.blocks)) == list(map(len, after.blocks))


def test_factors_do_not_change_with_units() -> None:
    rng = np.random.default_rng(3)
    for _ in range(100):
        J = random_jacobian(rng)
        d_x, d_z = J.shape
        scaled = 10 ** rng.uniform(-6, 6, (d_x, 1)) * J * 10 ** rng.uniform(-6, 6, (1, d_z))
        assert row_partition(factors(J)) == row_partition(factors(scaled))


def test_the_basis_shows_the_blocks_and_is_the_inverse_of_its_rows() -> None:
    rng = np.random.default_rng(4)
    for _ in range(100):
        J = random_jacobian(rng)
        J = J @ random_mix(rng, J.shape[1])
        found = factors(J)
        assert np.allclose(J[list(found.rows)] @ found.basis, np.eye(J.shape[1]), atol=1e-8)
        assert sorted(j for block in found.blocks for j in block) == list(range(J.shape[1]))
        moved = np.abs(J @ found.basis) > 1e-8
        for block, rows in zip(found.blocks, found.observed, strict=True):
            assert tuple(np.flatnonzero(moved[:, list(block)].any(axis=1))) == rows


def test_the_margin_says_how_near_an_entry_is_to_the_tolerance() -> None:
    clear, faint = np.array([[1.0, 0], [0, 1], [1, 0.5]]), np.array([[1.0, 0], [0, 1], [1, 1e-7]])
    assert factors(faint).margin == pytest.approx(10)
    assert factors(clear).margin > 1e6
    assert (factors(faint).count, factors(faint, tolerance=1e-6).count) == (1, 2)


def test_factors_of_several_points_hold_at_all_of_them() -> None:
    apart, joined = np.kron(np.eye(2), np.ones((2, 1))), np.array([[1.0, 0], [1, 0], [0, 1], [1, 1]])
    assert factors(np.stack([apart, apart])).observed == ((0, 1), (2, 3))
    assert factors(np.stack([apart, joined])).count == 1
    swapped = apart[[2, 0, 1, 3]]  # at each point two factors that share no row, over both points in one basis too
    assert factors(np.stack([apart, swapped])).observed == ((0, 1, 2), (0, 2, 3))
    turned = np.array([[1.0, 1], [1, 1], [1, -1], [1, -1]])  # two factors at each point, in different bases
    assert factors(turned).count == 2
    assert factors(np.stack([apart, turned])).count == 1


def test_a_remixed_decoder_is_read_at_many_points_at_once() -> None:
    rng = np.random.default_rng(5)
    A = random_mix(rng, 4)
    points = np.zeros((6, 8, 4))
    points[:, :4, :2], points[:, 4:, 2:] = rng.normal(size=(6, 4, 2)), rng.normal(size=(6, 4, 2))
    found = factors(torch.as_tensor(points @ A))
    assert found.observed == ((0, 1, 2, 3), (4, 5, 6, 7))
    assert found.margin > 100


def test_a_reducible_block_is_split_and_an_irreducible_one_is_not() -> None:
    rng = np.random.default_rng(6)
    J = np.zeros((7, 3))
    J[:2, 0], J[2:5, 1:] = 1, rng.normal(size=(3, 2))
    J[5:, 2] = 1
    J[:, :2] = J[:, :2] @ random_mix(rng, 2)  # the first latent hides in the second column too
    found = split(J, (0, 1))
    assert found is not None
    assert {frozenset(rows) for rows in found.observed} == {frozenset({0, 1}), frozenset({2, 3, 4})}
    assert found.basis.shape == (2, 2)
    assert split(J, (2,)) is None
    assert split(np.stack([rng.normal(size=(4, 2))] * 2), [0, 1]) is None


def test_the_dependency_graph_has_an_edge_where_two_columns_share_a_row() -> None:
    rng = np.random.default_rng(7)
    for _ in range(50):
        J = np.where(rng.random((6, 5)) < 0.3, -1.0, 0)
        graph, same = dependency_graph(J), dependency_graph(sparse.csr_array(J))
        expected = np.array([[j != k and bool((J[:, j] * J[:, k]).any()) for k in range(5)] for j in range(5)])
        assert (graph.toarray() == expected).all()
        assert (same.toarray() == expected).all()
        assert graph.nnz == expected.sum()
        edges = [(j, k) for j, k in np.argwhere(expected).tolist()]
        assert {frozenset(block) for block in components(graph)} == merge(5, edges)


def test_components_come_in_order() -> None:
    assert components(np.array([[0, 0, 1], [0, 0, 0], [0, 0, 0]])) == ((0, 2), (1,))


@pytest.mark.parametrize(
    ("J", "sentence"),
    [
        (np.ones((3, 2)), "A Jacobian must have full column rank. Got rank 1 for 2 latents."),
        (np.array([[1.0, 0], [2, 0]]), "A Jacobian must have full column rank. Got rank 1 for 2 latents."),
        (np.ones((1, 2)), "A Jacobian must have full column rank. Got rank 1 for 2 latents."),
        (np.zeros((3, 2)), "A Jacobian must have full column rank. Got rank 0 for 2 latents."),
        (np.ones(3), r"A Jacobian must have axes \(observed, latent\). Got shape \(3,\)."),
        (np.array([[np.nan, 1]]), "A Jacobian must be finite. Got NaN or inf entries."),
    ],
)
def test_a_jacobian_that_cannot_be_read_is_refused_in_one_sentence(J: np.ndarray, sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        factors(J)


# ---- forms ---------------------------------------------------------------------------------------------------


def block_forms(rng: np.random.Generator, sizes: list[int], n_forms: int) -> np.ndarray:
    F = np.zeros((n_forms, sum(sizes), sum(sizes)))
    start = 0
    for size in sizes:
        A = rng.normal(size=(n_forms, size, size))
        F[:, start : start + size, start : start + size] = A + np.swapaxes(A, 1, 2)
        start += size
    return F


def random_sizes(rng: np.random.Generator, n: int) -> list[int]:
    sizes: list[int] = []
    while sum(sizes) < n:
        sizes.append(int(rng.integers(1, n - sum(sizes) + 1)))
    return sizes


def test_forms_split_into_the_blocks_they_were_built_from_in_any_basis() -> None:
    rng = np.random.default_rng(8)
    for _ in range(150):
        sizes = random_sizes(rng, int(rng.integers(1, 6)))
        forms = block_forms(rng, sizes, int(rng.integers(3, 8)))
        A = random_mix(rng, sum(sizes))
        found = form_factors(A.T @ forms @ A)
        assert sorted(map(len, found.blocks)) == sorted(sizes)
        assert found.irreducible == (len(sizes) == 1)
        moved = found.basis.T @ A.T @ forms @ A @ found.basis
        label = np.array([next(k for k, b in enumerate(found.blocks) if j in b) for j in range(sum(sizes))])
        assert np.abs(moved[:, label[:, None] != label]).max(initial=0) < 1e-5 * np.abs(moved).max()


@pytest.mark.parametrize(
    ("forms", "blocks", "flat"),
    [
        ([np.eye(2)], ((0,), (1,)), 0),  # a single form is diagonal in some basis
        ([np.zeros((1, 1))], ((0,),), 1),
        ([np.diag([1.0, 0, 0])], ((0,), (1,), (2,)), 2),
        ([np.array([[0, 1.0], [1, 0]]), np.array([[0, 0], [0, 1.0]])], ((0, 1),), 0),  # a defective pencil
        ([np.array([[0, 1.0], [1, 0]]), np.diag([1.0, -1])], ((0, 1),), 0),  # a complex one
    ],
)
def test_forms_with_a_known_answer(forms: list[np.ndarray], blocks: Blocks, flat: int) -> None:
    found = form_factors(np.array(forms))
    assert (found.blocks, found.flat) == (blocks, flat)
    assert found.irreducible == (len(blocks) == 1 and flat == 0)


def test_flat_directions_are_found_in_any_basis() -> None:
    rng = np.random.default_rng(9)
    forms = np.pad(block_forms(rng, [2], 4), ((0, 0), (0, 1), (0, 1)))
    A = random_mix(rng, 3)
    found = form_factors(A.T @ forms @ A)
    assert (found.flat, found.blocks) == (1, ((0, 1), (2,)))
    assert np.abs(A.T @ forms @ A @ found.basis[:, 2]).max() < 1e-8


def test_a_conjugate_pair_of_eigenvalues_is_one_space() -> None:
    turn = np.array([[0.0, -1, 0], [1, 0, 0], [0, 0, 3]])
    basis, blocks = fac._eigenspaces(turn)
    assert sorted(map(len, blocks)) == [1, 2]
    single = next(block for block in blocks if len(block) == 1)
    assert np.allclose(np.abs(basis[:, single[0]]), [0, 0, 1])


def test_a_split_is_verified_before_it_is_believed() -> None:
    forms, blocks = np.array([np.diag([1.0, 2])]), ((0,), (1,))
    assert fac._uncoupled(forms, np.eye(2), blocks, tolerance=1e-3)
    assert not fac._uncoupled(forms, np.array([[1.0, 1], [0, 1]]), blocks, tolerance=1e-3)
    assert not fac._uncoupled(0 * forms, np.array([[1.0, 1], [0, 1e-4]]), blocks, tolerance=1e-3)


def test_forms_must_be_square() -> None:
    with pytest.raises(InputError, match=r"Forms must be square matrices \(form, k, k\). Got shape \(2, 3\)."):
        form_factors(np.ones((2, 3)))


# ---- derivatives and differences -----------------------------------------------------------------------------


def curved(z: torch.Tensor) -> torch.Tensor:
    return torch.stack([z[:, 0] ** 2 * z[:, 1], torch.sin(z[:, 1]), z[:, 0] * z[:, 1] * z[:, 2]], dim=1)


def test_derivatives_are_those_of_reverse_mode() -> None:
    z = torch.randn(3, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    for order in (1, 2, 3):
        found = derivative(curved, z, order)
        assert found.shape == (3, 3, *[3] * order)

        def one(y: torch.Tensor) -> torch.Tensor:
            return curved(y[None])[0]

        wanted = one
        for _ in range(order):
            wanted = torch.func.jacrev(wanted)
        assert torch.allclose(found, torch.stack([wanted(row) for row in z]))


def test_mixed_differences_vanish_exactly_for_what_does_not_mix() -> None:
    g = torch.Generator().manual_seed(1)
    z, w = (torch.randn(5, 3, dtype=torch.float64, generator=g) for _ in range(2))
    additive = lambda z: torch.stack([z[:, 0] ** 3 + torch.exp(z[:, 1] * z[:, 2])], dim=1)  # noqa: E731
    bilinear = lambda z: additive(z) + z[:, :1] * z[:, 1:2]  # noqa: E731
    assert fac.mixed_difference(additive, z, w, (0,)).abs().max() < 1e-12
    assert fac.mixed_difference(additive, z, w, (1,)).abs().max() > 0.1
    expected = (z[:, :1] - w[:, :1]) * (z[:, 1:2] - w[:, 1:2])
    assert torch.allclose(fac.mixed_difference(bilinear, z, w, (0,)), expected)
    assert fac.mixed_difference(bilinear, z, w, (0,), order=3).abs().max() < 1e-12
    assert fac.mixed_difference(curved, z, w, (0,), order=3).abs().max() > 0.01
    triple = fac.mixed_difference(lambda z: z.prod(dim=1, keepdim=True), 0 * z, 0 * z + 2, (0,), order=3)
    assert torch.allclose(triple, torch.full((5, 1), 2.0, dtype=torch.float64))  # half steps of 1: 1·(1·1 + 1·1)


@pytest.mark.parametrize(
    ("f", "order", "smooth"),
    [
        (torch.sin, 3, True),
        (lambda z: 3 * z + 1, 3, True),
        (torch.abs, 2, False),
        (lambda z: z + torch.nn.functional.leaky_relu(z, 0.2), 2, False),
        (lambda z: z * z.abs(), 3, False),  # the second derivative jumps
        (lambda z: torch.sign(z), 2, False),
    ],
)
def test_a_jump_of_a_derivative_is_seen(f, order: int, smooth: bool) -> None:
    z = torch.linspace(-2, -0.1, 8, dtype=torch.float64)[:, None]
    missed = fac.jump(f, z, -z + 0.3, order)
    assert missed < 0.01 if smooth else missed > 0.2


def test_spaces_are_as_separate_as_the_sine_of_their_angle() -> None:
    angle = 0.3
    one, other = np.array([[1.0], [0], [0]]), np.array([[np.cos(angle)], [np.sin(angle)], [0]])
    assert fac.separation(one, other) == pytest.approx(np.sqrt(1 - np.cos(angle)))
    assert fac.separation(np.eye(3)[:, :2], 5 * np.eye(3)[:, 2:]) == pytest.approx(1)
    assert fac.separation(np.eye(2), one[:2]) == 0
    assert fac.separation(one, np.zeros((3, 2))) == 1
    assert fac.separation(one, np.hstack([other, 1e-9 * one])) > 0.2  # rounding errors span nothing


def test_separability_compares_a_block_with_lower_derivatives_and_other_blocks() -> None:
    lower, x = np.eye(4)[:, :2], np.eye(4)
    second = np.zeros((4, 2, 2))
    second[:, 0, 0], second[:, 1, 1], second[:, 0, 1] = x[2], x[3], x[0]
    assert fac.separability([lower, second], ((0,), (1,))) == [pytest.approx(1), pytest.approx(1)]
    second[:, 1, 1] = x[2]
    assert fac.separability([lower, second], ((0,), (1,))) == [0, 0]
    second[:, 1, 1] = x[3] + x[1]
    assert fac.separability([lower, second], ((0,), (1,)))[1] == pytest.approx(np.sqrt(1 - np.sqrt(0.5)))
    second[:, 1, 1] = x[1]
    assert fac.separability([lower, second], ((0,), (1,))) == [pytest.approx(1), 0]


def test_rows_outside_and_gradients_that_span() -> None:
    support = np.array([[[1, 0, 1], [1, 1, 0], [0, 1, 0]]])
    assert fac.outside(support)[0].tolist() == [[0, 1, 1], [1, 0, 2], [0, 1, 0]]
    J = np.array([[[1.0, 2], [0, 0], [0, 3]], [[1, 2.1], [0, 0], [0, 5]]])
    spans = fac.spans(J)
    assert spans[1:].tolist() == [1, 1]
    assert 0 < spans[0] < 0.1
    assert fac.spans(J[:1])[0] == 0


def test_a_cross_derivative_mixes_a_block_with_another_latent() -> None:
    tensor = np.zeros((1, 1, 3, 3, 3))
    tensor[0, 0, 0, 1, 1] = -4
    tensor[0, 0, 2, 2, 2] = 9
    assert fac.cross_derivative(tensor, (0, 1)) == 0
    assert fac.cross_derivative(tensor, (0,)) == 4
    assert fac.cross_derivative(tensor, (0, 1, 2)) == 0
    assert fac.within(tensor[0], (0, 1)).shape == (1, 2, 2, 2)
    assert fac.within(tensor[0], (1, 0))[0, 1, 0, 0] == -4


def test_units_of_spread_leave_what_does_not_vary() -> None:
    z = torch.tensor([[0.0, 5], [2, 5]], dtype=torch.float64)
    f, y = fac.standardised(
        lambda z: torch.stack([10 * z[:, 0], z[:, 1]], dim=1), z, torch.stack([10 * z[:, 0], z[:, 1]], 1)
    )
    spread = float(np.sqrt(2))
    assert torch.allclose(y, torch.tensor([[-1 / spread, 0], [1 / spread, 0]], dtype=torch.float64))
    assert torch.allclose(f(y), torch.tensor([[0, 5], [2 / spread, 5]], dtype=torch.float64))


def test_a_smooth_map_through_a_layer_norm_does_not_jump() -> None:
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Linear(2, 6), torch.nn.LayerNorm(6), torch.nn.Tanh(), torch.nn.Linear(6, 3))
    net = net.double().requires_grad_(False)
    ends = torch.randn(2, 5, 2, dtype=torch.float64) / 4
    assert fac.jump(net, ends[0], ends[1], 2) < 1e-3
