"""The compositional contrast: a slow loop over pairs of slots, its zero set, its invariances, its samples."""

from __future__ import annotations

from math import sqrt

import pytest
import torch
from decoders_and_draws import (
    D_X,
    D_Z,
    TOLERANCE,
    agrees_in_the_mean,
    each_draw,
    points,
    rotation,
    slow_jacobian,
    smooth_decoder,
    value,
)
from torch import Tensor

from noumena.checks import InputError
from noumena.penalties import CompositionalContrast
from noumena.penalties.compositionality import compositional_contrast, slot_norms

SLOTS = [(2, 2), (1, 3), (2, 1, 1), (1, 1, 1, 1)]


def slow_contrast(J: Tensor, sizes: tuple[int, ...]) -> float:
    """Point by point, observation by observation, pair by pair."""
    total = 0.0
    for point in J.tolist():
        for row in point:
            norms, begin = [], 0
            for size in sizes:
                norms.append(sqrt(sum(entry**2 for entry in row[begin : begin + size])))
                begin += size
            for j in range(len(norms)):
                for i in range(j):
                    total += norms[i] * norms[j]
    return total / len(J)


@pytest.mark.parametrize("kind", TOLERANCE)
@pytest.mark.parametrize("slots", SLOTS)
def test_the_contrast_is_the_slow_sum_over_pairs_of_slots(slots: tuple[int, ...], kind: torch.dtype) -> None:
    f, z = smooth_decoder(), points(6)
    expected = slow_contrast(slow_jacobian(f, z), slots)
    found = CompositionalContrast(slots)(f.to(kind), z.to(kind))
    assert float(found.detach()) == pytest.approx(expected, rel=TOLERANCE[kind])


def test_equal_slots_may_be_given_by_their_number() -> None:
    f, z = smooth_decoder(), points()
    assert value(CompositionalContrast(2), f, z) == value(CompositionalContrast((2, 2)), f, z)
    assert value(CompositionalContrast(4), f, z) == value(CompositionalContrast((1, 1, 1, 1)), f, z)
    torch.testing.assert_close(slot_norms(torch.ones(1, 1, 4), (1, 3)), torch.tensor([[[1.0, 3**0.5]]]))


def test_the_contrast_is_zero_iff_each_observation_listens_to_one_slot_at_a_time() -> None:
    def switching(z: Tensor) -> Tensor:
        """Its one observation listens to the first slot on one side and to the second on the other."""
        return torch.where(z[:, :1] > 0, z[:, :1].relu() ** 2, z[:, 2:3] * 0)

    apart = torch.block_diag(torch.ones(3, 2), torch.ones(2, 2)).double()
    z = points(20)
    assert value(CompositionalContrast(2), lambda y: y @ apart.T, z) == 0
    assert value(CompositionalContrast(2), switching, z) == 0
    assert value(CompositionalContrast(4), lambda y: y @ apart.T, z) > 1
    apart[0, 3] = 1e-3
    assert value(CompositionalContrast(2), lambda y: y @ apart.T, z) == pytest.approx(1e-3 * sqrt(2))
    added = value(CompositionalContrast(2), lambda y: y[:, :2] + y[:, 2:] ** 2, z)
    assert added > 0.1, "an additive decoder is not compositional"


def test_a_slot_nobody_listens_to_has_finite_gradients() -> None:
    A = torch.zeros(3, 4, dtype=torch.float64)
    A[:, :2] = 1
    A.requires_grad_()
    CompositionalContrast(2)(lambda z: z @ A.T, points(5)).backward()
    assert A.grad is not None
    assert A.grad.isfinite().all()


def test_rotations_within_slots_and_the_order_of_slots_change_nothing_and_scale_fools() -> None:
    J = slow_jacobian(smooth_decoder(), points())

    def contrast(J: Tensor, sizes: tuple[int, ...]) -> float:
        return float(compositional_contrast(slot_norms(J, sizes)))

    expected = contrast(J, (1, 3))
    turn = torch.block_diag(-torch.ones(1, 1), rotation(3))
    assert contrast(J @ turn, (1, 3)) == pytest.approx(expected)
    assert contrast(J[:, :, [1, 2, 3, 0]], (3, 1)) == pytest.approx(expected)
    assert contrast(J @ rotation(D_Z), (1, 3)) != pytest.approx(expected)
    assert contrast(J / 10, (1, 3)) == pytest.approx(expected / 100)
    assert CompositionalContrast(2).needs_scale


# ---- samples -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("k", [1, 2, 3, 5, 8])
def test_sampled_rows_are_right_on_average_over_all_choices(k: int) -> None:
    f, z = smooth_decoder(), points(1)
    uniform = ((torch.arange(D_X, dtype=torch.float64) + 0.5) / D_X)[:, None].expand(-1, k)
    found = CompositionalContrast(2, rows=k)(f, z.expand(D_X, -1), 1.0, {"rows": uniform})
    assert float(found.detach()) == pytest.approx(value(CompositionalContrast(2), f, z), rel=1e-7)


@pytest.mark.parametrize("slots", SLOTS[:2])
def test_samples_agree_with_the_whole_over_ten_thousand_draws(slots: tuple[int, ...]) -> None:
    f, z = smooth_decoder(), points(1)
    expected = slow_contrast(slow_jacobian(f, z), slots)
    assert agrees_in_the_mean(each_draw(CompositionalContrast(slots, rows=2), f, z), expected)


def test_points_cap_the_rows_of_the_batch_and_of_the_draws() -> None:
    f, z = smooth_decoder(), points(9)
    assert value(CompositionalContrast(2, points=3), f, z) == value(CompositionalContrast(2), f, z[:3])
    sampled = CompositionalContrast(2, rows=2, points=3)
    draws = sampled.draws(9, D_Z, torch.Generator().manual_seed(0))
    short = {k: v[:3] for k, v in draws.items()}
    assert float(sampled(f, z, 1.0, draws).detach()) == float(sampled(f, z[:3], 1.0, short).detach())


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: CompositionalContrast(1), r"There must be at least 2 slots\. Got 1\."),
        (lambda: CompositionalContrast((4,)), r"There must be at least 2 slots\. Got \(4,\)\."),
        (lambda: CompositionalContrast((4, 0)), r"The size of a slot must be a whole number of at least 1\. Got 0\."),
        (lambda: CompositionalContrast(2, rows=0), r"rows must be a whole number of at least 1\. Got 0\."),
        (lambda: CompositionalContrast(2, points=0), r"points must be a whole number of at least 1\. Got 0\."),
        (
            lambda: CompositionalContrast((1, 2))(smooth_decoder(), points()),
            r"The sizes of the slots must add up to 4 latents\. Got \(1, 2\)\.",
        ),
    ],
)
def test_bad_settings_are_refused(make: object, sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        make()
