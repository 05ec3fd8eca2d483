"""The compositional contrast: a slow loop over pairs of slots, its zero set, its invariances, its samples."""

from math import sqrt

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
