"""Curvature: the Hessian Penalty as published and exact, and interactions of slots to the second and third order."""

from itertools import product
from math import prod

import numpy as np
import pytest
import torch
from decoders_and_draws import (
    D_X,
    D_Z,
    TOLERANCE,
    drawn,
    leaky_decoder,
    points,
    rotation,
    slow_hessian,
    smooth_decoder,
    value,
)
from torch import Tensor, nn
from torch.func import jacfwd

from noumena.checks import InputError
from noumena.penalties import HessianPenalty, Interaction
from noumena.penalties.sketches import mixed

SLOTS = [(2, 2), (1, 3), (1, 1, 1, 1)]


def slow_published(f: nn.Module, z: Tensor, probes: Tensor, step: float) -> list[float]:
    """Point by point and probe by probe: central second differences, then their unbiased variance."""
    found = []
    for row, signs in zip(z, probes, strict=True):
        bends = []
        for v in signs:
            ahead, here, behind = (f((row + s * step * v)[None])[0].detach() for s in (1, 0, -1))
            bends.append([(a - 2 * h + b) / step**2 for a, h, b in zip(ahead, here, behind, strict=True)])
        for of_one in zip(*bends, strict=True):
            mean = sum(of_one) / len(of_one)
            found.append(float(sum((b - mean) ** 2 for b in of_one) / (len(of_one) - 1)))
    return found


def slow_pairs(H: Tensor) -> list[float]:
    """Twice the squared off-diagonal entries, for every point and observation."""
    found = []
    for A in H.flatten(0, 1).tolist():
        found.append(sum(2 * A[a][b] ** 2 for a in range(len(A)) for b in range(len(A)) if a != b))
    return found


def slow_tensor(f: nn.Module, row: Tensor, order: int) -> np.ndarray:
    """All derivatives of one order at one point, (observed, latent, …), by nested forward mode."""
    g = lambda one: f(one[None])[0]  # noqa: E731
    for _ in range(order):
        g = jacfwd(g)
    return g(row).detach().numpy()


def slow_interaction(f: nn.Module, z: Tensor, sizes: tuple[int, ...], order: int) -> float:
    """Over every ordered index tuple that does not lie in one slot."""
    slot_of = np.repeat(range(len(sizes)), sizes)
    total = 0.0
    for row in z:
        T = slow_tensor(f, row, order)
        for index in product(range(len(slot_of)), repeat=order):
            if len({slot_of[j] for j in index}) > 1:
                total += sum(T[i][index] ** 2 for i in range(len(T)))
    return total / len(z)


def slow_differences(f: nn.Module, z: Tensor, sizes: tuple[int, ...], order: int, step: float) -> float:
    slot_of = np.repeat(range(len(sizes)), sizes)
    eye, total = torch.eye(len(slot_of), dtype=z.dtype), 0.0
    for row in z:
        for index in product(range(len(slot_of)), repeat=order):
            if len({slot_of[j] for j in index}) > 1:
                found = torch.zeros(f(z[:1]).shape[1], dtype=z.dtype)
                for taken in product((0, 1), repeat=order):
                    moved = row + step * sum(t * eye[j] for t, j in zip(taken, index, strict=True))
                    found = found + prod(1 if t else -1 for t in taken) * f(moved[None])[0].detach()
                total += sum(float(d / step**order) ** 2 for d in found)
    return total / len(z)


def product_of(*which: int) -> nn.Module:
    class Product(nn.Module):
        def forward(self, z: Tensor) -> Tensor:
            return torch.stack([z[:, j] for j in which]).prod(dim=0)[:, None] + z**2

    return Product()


# ---- Hessian Penalty -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("probes", [2, 5])
@pytest.mark.parametrize("make", [smooth_decoder, leaky_decoder])
def test_the_published_form_is_the_slow_loop_over_probes(make: type, probes: int) -> None:
    f, z = make(), points(6)
    for reduction, reduced in (("max", max), ("mean", np.mean)):
        penalty = HessianPenalty(probes, reduction=reduction)
        draws = drawn(penalty, z)
        expected = float(reduced(slow_published(f, z, draws["probes"].double(), 0.1)))
        assert expected > 0
        assert float(penalty(f, z, 1.0, draws).detach()) == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("kind", TOLERANCE)
def test_the_exact_form_is_the_slow_loop_over_pairs_of_latents(kind: torch.dtype) -> None:
    f, z = smooth_decoder(), points(6)
    expected = slow_pairs(slow_hessian(f, z))
    assert len(expected) == 6 * D_X
    for reduction, reduced in (("max", max), ("mean", np.mean)):
        found = HessianPenalty(None, None, reduction)(smooth_decoder().to(kind), z.to(kind))
        assert float(found.detach()) == pytest.approx(float(reduced(expected)), rel=TOLERANCE[kind])


def test_the_published_setting_is_the_default() -> None:
    assert HessianPenalty() == HessianPenalty(probes=2, step=0.1, reduction="max")


def test_the_variance_over_all_signs_is_twice_the_sum_over_ordered_pairs() -> None:
    H = slow_hessian(smooth_decoder(), points(1))
    signs = torch.tensor(list(product((-1.0, 1.0), repeat=D_Z)), dtype=torch.float64)
    variance = torch.einsum("va,iab,vb->iv", signs, H[0], signs).var(dim=1, unbiased=False)
    torch.testing.assert_close(variance, torch.tensor(slow_pairs(H), dtype=torch.float64))


def test_differences_see_the_kinks_of_a_leaky_decoder_and_derivatives_do_not() -> None:
    f, z = leaky_decoder(), points(50)
    for exact in (HessianPenalty(None, None), HessianPenalty(2, None), Interaction(2), Interaction(2, pairs=2)):
        assert value(exact, f, z) == 0
    for differences in (HessianPenalty(), HessianPenalty(None), Interaction(2, step=0.1)):
        assert value(differences, f, z) > 1e-3


def test_the_hessian_penalty_vanishes_exactly_for_sums_over_single_latents() -> None:
    z = points(10)
    apart = lambda y: torch.cat([y**3, (y**2).sum(dim=1, keepdim=True)], dim=1)  # noqa: E731
    for penalty in (HessianPenalty(), HessianPenalty(None), HessianPenalty(None, None)):
        assert value(penalty, apart, z) == pytest.approx(0, abs=1e-18)
        assert value(penalty, product_of(0, 1), z) == pytest.approx(4, rel=1e-6) or penalty.probes is not None
    assert value(HessianPenalty(), product_of(0, 1), points(50)) == pytest.approx(8)


def test_one_latent_interacts_with_nobody() -> None:
    assert value(HessianPenalty(), lambda y: y**3, points(dim=1)) == pytest.approx(0, abs=1e-18)
    with pytest.raises(InputError, match=r"Pairs of latents must exist, or probes be given\. Got 1 latent\."):
        HessianPenalty(None)(lambda y: y**3, points(dim=1))


def test_the_hessian_penalty_ignores_order_and_signs_and_is_fooled_by_scale() -> None:
    f, z = smooth_decoder(), points()
    moved = torch.eye(D_Z, dtype=torch.float64)[[2, 0, 3, 1]] * torch.tensor([1.0, -1.0, -1.0, 1.0]).double()
    exact = HessianPenalty(None, None)
    expected = value(exact, f, z)
    assert value(exact, lambda y: f(y @ moved), z @ moved.T) == pytest.approx(expected)
    assert value(exact, lambda y: f(y / 10), 10 * z) == pytest.approx(expected / 10**4)
    assert exact.needs_scale


# ---- interaction ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("order", [2, 3])
@pytest.mark.parametrize("slots", SLOTS)
def test_interaction_is_the_slow_sum_over_ordered_tuples(slots: tuple[int, ...], order: int) -> None:
    f, z = smooth_decoder(), points(3)
    expected = slow_interaction(f, z, slots, order)
    for kind, tolerance in TOLERANCE.items():
        found = Interaction(slots, order)(smooth_decoder().to(kind), z.to(kind))
        assert float(found.detach()) == pytest.approx(expected, rel=tolerance)


@pytest.mark.parametrize("order", [2, 3])
@pytest.mark.parametrize("make", [smooth_decoder, leaky_decoder])
def test_interaction_by_differences_is_the_slow_sum_of_them(make: type, order: int) -> None:
    f, z = make(), points(2)
    expected = slow_differences(f, z, (1, 3), order, 0.3)
    assert expected > 0
    assert value(Interaction((1, 3), order, step=0.3), f, z) == pytest.approx(expected, rel=1e-8)


def test_with_slots_of_one_latent_interaction_is_half_the_hessian_penalty() -> None:
    f, z = smooth_decoder(), points()
    total = D_X * value(HessianPenalty(None, None, "mean"), f, z)
    assert value(Interaction(D_Z), f, z) == pytest.approx(total / 2)


def test_second_order_vanishes_exactly_for_decoders_additive_over_slots() -> None:
    z = points()
    within, across = product_of(0, 1), product_of(1, 2)
    for penalty in (Interaction(2), Interaction(2, step=0.1), Interaction(2, pairs=2)):
        assert value(penalty, within, z) == pytest.approx(0, abs=1e-18)
        assert value(penalty, lambda y: within(torch.tanh(y)), z) == pytest.approx(0, abs=1e-18)
        assert value(penalty, across, points(40)) > 1


def test_third_order_forgives_products_of_two_and_sees_three() -> None:
    z = points()
    for penalty in (Interaction(2, 3), Interaction(2, 3, step=0.1)):
        assert value(penalty, product_of(1, 2), z) == pytest.approx(0, abs=1e-18)
        assert value(penalty, product_of(0, 0, 1), z) == pytest.approx(0, abs=1e-18)
        assert value(penalty, product_of(0, 1, 2), z) == pytest.approx(6 * D_Z)
        assert value(penalty, product_of(0, 0, 2), z) == pytest.approx(3 * 2**2 * D_Z)


@pytest.mark.parametrize("order", [2, 3])
def test_rotations_within_slots_and_the_order_of_slots_change_nothing(order: int) -> None:
    f, z = smooth_decoder(), points()
    expected = value(Interaction((1, 3), order), f, z)
    turn = torch.block_diag(-torch.ones(1, 1), rotation(3))
    assert value(Interaction((1, 3), order), lambda y: f(y @ turn.T), z @ turn) == pytest.approx(expected)
    moved = Interaction((3, 1), order)
    assert value(moved, lambda y: f(y[:, [3, 0, 1, 2]]), z[:, [1, 2, 3, 0]]) == pytest.approx(expected)
    across = rotation(D_Z)
    assert value(Interaction((1, 3), order), lambda y: f(y @ across.T), z @ across) != pytest.approx(expected)
    fooled = value(Interaction((1, 3), order), lambda y: f(y / 10), 10 * z)
    assert fooled == pytest.approx(expected / 100**order)
    assert Interaction(2).needs_scale


@pytest.mark.parametrize(("slots", "order", "number"), [((2, 2), 2, 4), ((1, 3), 2, 3), ((2, 2), 3, 12)])
@pytest.mark.parametrize("step", [None, 0.3])
def test_sampled_tuples_are_right_on_average_over_all_choices(
    slots: tuple[int, ...], order: int, number: int, step: float | None
) -> None:
    f, z = smooth_decoder(), points(1)
    grid = (torch.arange(number, dtype=torch.float64) + 0.5) / number
    expected = value(Interaction(slots, order, step), f, z)
    for pairs in (1, 2, number, number + 3):
        sampled = Interaction(slots, order, step, pairs=pairs)
        found = sampled(f, z.repeat(number, 1), 1.0, {"tuples": grid[:, None].expand(-1, pairs)})
        assert float(found.detach()) == pytest.approx(expected, rel=1e-7)


@pytest.mark.parametrize("index", [(3, 1), (2, 2), (0, 1, 2), (1, 3, 3)])
def test_mixed_derivatives_along_axes_are_those_of_the_whole_tensor_sign_and_all(index: tuple[int, ...]) -> None:
    f, z = smooth_decoder(), points(2)
    axes = torch.eye(D_Z, dtype=torch.float64)[list(index)].expand(2, 3, -1, -1)
    expected = torch.stack([torch.as_tensor(slow_tensor(f, row, len(index))[(slice(None), *index)]) for row in z])
    for step, tolerance in ((None, 1e-9), (1e-3, 1e-2)):
        found = mixed(f, z, axes, step)
        assert found.shape == (2, D_X, 3)
        torch.testing.assert_close(found.detach(), expected[..., None].expand(-1, -1, 3), rtol=tolerance, atol=1e-3)
