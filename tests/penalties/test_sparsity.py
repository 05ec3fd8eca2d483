"""Sparsity of dependencies and of slots: every surrogate against a slow loop, annealed, sampled without bias."""

from itertools import permutations
from math import log, sqrt

import pytest
import torch
from decoders_and_draws import (
    D_X,
    D_Z,
    TOLERANCE,
    points,
    rotation,
    slow_jacobian,
    smooth_decoder,
    value,
)
from torch import Tensor

from noumena.penalties import DependencySparsity, GroupSparsity
from noumena.penalties.sketches import by_strata, without_replacement
from noumena.penalties.sparsity import dependency_clipped, dependency_l0

SURROGATES = ("log", "l1", "clipped", "l0")
SLOTS = [2, (1, 3), (2, 1, 1), 4]


def counted(surrogate: str, size: float, scale: float) -> float:
    size = abs(size)
    if surrogate == "log":
        return log(1 + size / scale) / log(1 + 1 / scale)
    if surrogate == "clipped":
        return min(size / scale, 1.0)
    return size if surrogate == "l1" else size**2 / (size**2 + scale**2)


def sizes_of(slots: int | tuple[int, ...]) -> tuple[int, ...]:
    return (D_Z // slots,) * slots if isinstance(slots, int) else slots


def slow_entries(J: Tensor, surrogate: str, scale: float) -> float:
    total = 0.0
    for point in J.tolist():
        for row in point:
            for entry in row:
                total += counted(surrogate, entry, scale)
    return total / len(J)


def slow_slots(J: Tensor, slots: int | tuple[int, ...], surrogate: str, scale: float) -> float:
    total = 0.0
    for point in J.tolist():
        for row in point:
            begin = 0
            for size in sizes_of(slots):
                total += counted(surrogate, sqrt(sum(e**2 for e in row[begin : begin + size])), scale)
                begin += size
    return total / len(J)


# ---- references ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", TOLERANCE)
@pytest.mark.parametrize("scale", [0.03, 0.5])
@pytest.mark.parametrize("surrogate", SURROGATES)
def test_every_surrogate_is_the_slow_sum_over_entries(surrogate: str, scale: float, kind: torch.dtype) -> None:
    f, z = smooth_decoder(), points(6)
    expected = slow_entries(slow_jacobian(f, z), surrogate, scale)
    found = DependencySparsity(surrogate, scale=scale)(f.to(kind), z.to(kind))
    assert float(found.detach()) == pytest.approx(expected, rel=TOLERANCE[kind])


@pytest.mark.parametrize("kind", TOLERANCE)
@pytest.mark.parametrize("slots", SLOTS)
@pytest.mark.parametrize("surrogate", SURROGATES)
def test_group_sparsity_is_the_slow_sum_over_slots(
    surrogate: str, slots: int | tuple[int, ...], kind: torch.dtype
) -> None:
    f, z = smooth_decoder(), points(6)
    expected = slow_slots(slow_jacobian(f, z), slots, surrogate, 0.5)
    found = GroupSparsity(slots, surrogate, scale=0.5)(f.to(kind), z.to(kind))
    assert float(found.detach()) == pytest.approx(expected, rel=TOLERANCE[kind])


@pytest.mark.parametrize("progress", [0.0, 0.1, 0.2, 0.4, 1.0])
@pytest.mark.parametrize("surrogate", SURROGATES)
def test_weight_and_scale_are_annealed_alike_for_all_surrogates_and_slots(surrogate: str, progress: float) -> None:
    f, z = smooth_decoder(), points()
    fraction = min(progress / 0.4, 1.0)
    scale = 2.0 * (0.02 / 2.0) ** fraction
    annealed = {"scale": 0.02, "start": 2.0, "ramp": 0.4}
    J = slow_jacobian(f, z)
    single, group = DependencySparsity(surrogate, **annealed), GroupSparsity(2, surrogate, **annealed)
    assert value(single, f, z, progress) == pytest.approx(fraction * slow_entries(J, surrogate, scale), rel=1e-9)
    assert value(group, f, z, progress) == pytest.approx(fraction * slow_slots(J, 2, surrogate, scale), rel=1e-9)


# ---- what the surrogates are ---------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [dependency_clipped, dependency_l0])
def test_sharp_surrogates_bend_towards_the_number_of_entries(count: object) -> None:
    J = torch.tensor([[[10.0, 0.1, 0.0]]], dtype=torch.float64)
    distances = [abs(float(count(J, scale)) - 2) for scale in (20.0, 0.5, 0.2, 1e-6)]
    assert distances == sorted(distances, reverse=True)
    assert distances[0] > 0.1
    assert distances[-1] < 1e-9
    assert float(count(0 * J, 1e-12)) == 0


def test_clipped_pulls_only_below_its_scale_and_l0_everywhere() -> None:
    J = torch.tensor([[[3.0, -0.2, 0.0]]], requires_grad=True)
    (pull,) = torch.autograd.grad(dependency_clipped(J, 0.5), J)
    assert pull.flatten().tolist() == [0, -2, 0]
    (pull,) = torch.autograd.grad(dependency_l0(J, 0.5), J)
    assert pull[0, 0, 0] > 0 > pull[0, 0, 1]
    assert pull[0, 0, 2] == 0


def test_l0_stays_finite_for_the_smallest_scale_and_large_entries() -> None:
    J = torch.tensor([[[1e8, 1e-20, 0.0]]], requires_grad=True)
    found = dependency_l0(J, 1e-12)
    found.backward()
    assert float(found.detach()) == pytest.approx(1)
    assert J.grad is not None
    assert J.grad.isfinite().all()


# ---- slots ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("surrogate", SURROGATES)
def test_slots_of_one_latent_are_single_dependencies(surrogate: str) -> None:
    f, z = smooth_decoder(), points()
    assert value(GroupSparsity(D_Z, surrogate), f, z) == pytest.approx(value(DependencySparsity(surrogate), f, z))


@pytest.mark.parametrize("surrogate", SURROGATES)
@pytest.mark.parametrize("slots", [2, (1, 3)])
def test_rotations_within_a_slot_and_the_order_of_slots_change_nothing(
    surrogate: str, slots: int | tuple[int, ...]
) -> None:
    f, z = smooth_decoder(), points()
    settings = {"surrogate": surrogate, "scale": 0.5}
    sizes = sizes_of(slots)
    turn = torch.block_diag(*(rotation(size, seed) for seed, size in enumerate(sizes)))
    expected = value(GroupSparsity(slots, **settings), f, z)
    assert value(GroupSparsity(slots, **settings), lambda y: f(y @ turn.T), z @ turn) == pytest.approx(expected)
    parts = torch.arange(D_Z).split(sizes)
    order = torch.cat(parts[::-1])
    back = order.argsort()
    exchanged = GroupSparsity(tuple(reversed(sizes)), **settings)
    assert value(exchanged, lambda y: f(y[:, back]), z[:, order]) == pytest.approx(expected)
    across = rotation(D_Z, 3)
    assert value(GroupSparsity(slots, **settings), lambda y: f(y @ across.T), z @ across) != pytest.approx(expected)


@pytest.mark.parametrize("surrogate", SURROGATES)
def test_a_slot_nobody_listens_to_has_finite_gradients_and_counts_nothing(surrogate: str) -> None:
    A = torch.zeros(3, 4, dtype=torch.float64)
    A[:, :2] = 1
    A.requires_grad_()
    found = GroupSparsity(2, surrogate)(lambda z: z @ A.T, points(5))
    found.backward()
    assert float(found.detach()) == pytest.approx(3 * counted(surrogate, sqrt(2), 0.03))
    assert A.grad is not None
    assert A.grad.isfinite().all()


@pytest.mark.parametrize("surrogate", SURROGATES)
def test_a_constant_decoder_costs_nothing(surrogate: str) -> None:
    for penalty in (DependencySparsity(surrogate), GroupSparsity(2, surrogate)):
        assert value(penalty, lambda z: 0 * z + 3, points()) == 0


# ---- samples -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("surrogate", SURROGATES)
@pytest.mark.parametrize("k", [1, 2, 3, 4, 9])
def test_sampled_columns_are_right_on_average_over_all_choices(surrogate: str, k: int) -> None:
    f, z = smooth_decoder(), points(1)
    ranks = torch.tensor(list(permutations(range(D_Z))), dtype=torch.float64) / D_Z
    sampled = DependencySparsity(surrogate, columns=k)(f, z.expand(len(ranks), -1), 1.0, {"columns": ranks})
    assert float(sampled.detach()) == pytest.approx(value(DependencySparsity(surrogate), f, z), rel=1e-7)


@pytest.mark.parametrize("k", [1, 2, 3, 5, 8])
def test_sampled_rows_are_right_on_average_over_all_choices(k: int) -> None:
    f, z = smooth_decoder(), points(1)
    grid = (torch.arange(D_X, dtype=torch.float64) + 0.5) / D_X
    uniform = grid[:, None].expand(-1, k)
    many = z.expand(len(grid), -1)
    for exact, sampled in (
        (DependencySparsity(), DependencySparsity(rows=k)),
        (GroupSparsity(2), GroupSparsity(2, rows=k)),
    ):
        found = float(sampled(f, many, 1.0, {"rows": uniform}).detach())
        assert found == pytest.approx(value(exact, f, z), rel=1e-7)


@pytest.mark.parametrize(("n", "k"), [(1, 1), (5, 2), (5, 5), (5, 7), (12288, 3), (100_003, 100_003)])
def test_strata_visit_every_item_equally_often(n: int, k: int) -> None:
    uniform = torch.rand(max(1, 200_000 // k), k, generator=torch.Generator().manual_seed(0))
    found = by_strata(uniform, n)
    assert found.min() >= 0
    assert found.max() < n
    assert bool((found.diff(dim=-1) >= 0).all())
    if n == k:
        assert torch.equal(found, torch.arange(n).expand_as(found))
    if n == 5:
        often = found.flatten().bincount(minlength=n) / len(found)
        torch.testing.assert_close(often, torch.full((n,), k / n), rtol=0, atol=0.02)
    assert by_strata(torch.ones(1, k), n).max() == n - 1


def test_columns_drawn_without_replacement_differ() -> None:
    found = without_replacement(torch.rand(500, 6, generator=torch.Generator().manual_seed(0)), 4)
    assert all(len(set(row)) == 4 for row in found.tolist())
    assert found.flatten().bincount(minlength=6).min() > 250
