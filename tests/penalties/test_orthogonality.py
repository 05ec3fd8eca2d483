"""Orthogonality: OroJaR as published and exact, the factor two, and a contrast that no scale can fool."""

from itertools import product
from math import log

import numpy as np
import pytest
import torch
from decoders_and_draws import (
    D_X,
    D_Z,
    TOLERANCE,
    drawn,
    points,
    rotation,
    slow_jacobian,
    smooth_decoder,
    value,
)
from torch import Tensor, nn

from noumena.penalties import IMAContrast, OroJaR
from noumena.penalties.orthogonality import ima_contrast, orojar


def slow_orojar(J: Tensor) -> list[float]:
    """Twice the squared inner products of different columns, point by point."""
    found = []
    for point in J.tolist():
        columns = list(zip(*point, strict=True))
        total = 0.0
        for a in range(len(columns)):
            for b in range(len(columns)):
                if a != b:
                    total += 2 * sum(s * t for s, t in zip(columns[a], columns[b], strict=True)) ** 2
        found.append(total)
    return found


def slow_published(f: nn.Module, z: Tensor, probes: Tensor, step: float) -> list[float]:
    """Point by point and probe by probe: squared forward differences, then their unbiased variance."""
    found = []
    for row, signs in zip(z, probes, strict=True):
        energies = []
        for v in signs:
            slope = (f((row + step * v)[None]) - f(row[None]))[0] / step
            energies.append(sum(float(s) ** 2 for s in slope.detach()))
        mean = sum(energies) / len(energies)
        found.append(sum((e - mean) ** 2 for e in energies) / (len(energies) - 1))
    return found


def orthogonal_decoder(lengths: tuple[float, ...] = (1.0, 2.0, 0.5, 3.0)) -> Tensor:
    return rotation(D_X)[:, :D_Z] * torch.tensor(lengths, dtype=torch.float64)


# ---- OroJaR --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", TOLERANCE)
@pytest.mark.parametrize("probes", [2, 5])
def test_the_published_form_is_the_slow_loop_over_probes(probes: int, kind: torch.dtype) -> None:
    f, z = smooth_decoder(), points(6)
    for reduction, reduced in (("max", max), ("mean", np.mean)):
        penalty = OroJaR(probes, reduction=reduction)
        draws = drawn(penalty, z)
        expected = reduced(slow_published(f, z, draws["probes"].double(), 0.1))
        found = penalty(smooth_decoder().to(kind), z.to(kind), 1.0, draws)
        loss_of_differences = 10 if kind == torch.float32 else 1
        assert float(found.detach()) == pytest.approx(float(expected), rel=loss_of_differences * TOLERANCE[kind])


@pytest.mark.parametrize("kind", TOLERANCE)
def test_the_exact_form_is_the_slow_loop_over_pairs_of_columns(kind: torch.dtype) -> None:
    f, z = smooth_decoder(), points(6)
    expected = slow_orojar(slow_jacobian(f, z))
    for reduction, reduced in (("max", max), ("mean", np.mean)):
        found = OroJaR(None, None, reduction)(smooth_decoder().to(kind), z.to(kind))
        assert float(found.detach()) == pytest.approx(float(reduced(expected)), rel=TOLERANCE[kind])


def test_the_published_setting_is_the_default() -> None:
    assert OroJaR() == OroJaR(probes=2, step=0.1, reduction="max")


def test_the_variance_over_all_signs_is_twice_the_sum_over_ordered_pairs() -> None:
    J = slow_jacobian(smooth_decoder(), points(1))
    signs = torch.tensor(list(product((-1.0, 1.0), repeat=D_Z)), dtype=torch.float64)
    variance = float((J[0] @ signs.T).square().sum(dim=0).var(unbiased=False))
    assert float(orojar(J)) == pytest.approx(variance, rel=1e-12)
    gram = J[0].T @ J[0]
    assert variance == pytest.approx(2 * float((gram - gram.diag().diag()).square().sum()), rel=1e-12)


def test_without_probes_differences_run_along_every_latent() -> None:
    f, z = smooth_decoder(), points(3)
    moved = [torch.stack([(f(z + 0.1 * e) - f(z)) / 0.1 for e in torch.eye(D_Z, dtype=torch.float64)], dim=-1)]
    expected = np.mean(slow_orojar(moved[0].detach()))
    assert value(OroJaR(None, 0.1, "mean"), f, z) == pytest.approx(float(expected), rel=1e-9)


def test_of_a_linear_decoder_differences_are_exact() -> None:
    A = torch.randn(D_X, D_Z, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    z = points()
    exact = value(OroJaR(None, None), lambda y: y @ A.T, z)
    assert value(OroJaR(None, 0.1), lambda y: y @ A.T, z) == pytest.approx(exact)
    assert value(OroJaR(2, 0.1), lambda y: y @ A.T, z) == pytest.approx(value(OroJaR(2, None), lambda y: y @ A.T, z))


def test_orojar_vanishes_exactly_for_orthogonal_columns() -> None:
    A, z = orthogonal_decoder(), points()
    for penalty in (OroJaR(), OroJaR(None), OroJaR(None, None)):
        assert value(penalty, lambda y: y @ A.T, z) == pytest.approx(0, abs=1e-20)
        assert value(penalty, lambda y: y @ (A + 0.1).T, z) > 1e-3


def test_orojar_ignores_order_and_signs_and_is_fooled_by_scale() -> None:
    J = slow_jacobian(smooth_decoder(), points())
    order = [2, 0, 3, 1]
    signs = torch.tensor([1.0, -1.0, -1.0, 1.0], dtype=torch.float64)
    torch.testing.assert_close(orojar((J * signs)[:, :, order]), orojar(J))
    torch.testing.assert_close(orojar(rotation(D_X) @ J), orojar(J))
    torch.testing.assert_close(orojar(J / 10), orojar(J) / 10**4)
    assert OroJaR().needs_scale


# ---- IMA -----------------------------------------------------------------------------------------------------


def slow_ima(J: Tensor) -> float:
    total = 0.0
    for point in J.numpy():
        lengths = [np.sqrt(sum(entry**2 for entry in column)) for column in point.T]
        total += sum(log(length) for length in lengths) - 0.5 * np.log(np.linalg.det(point.T @ point))
    return total / len(J)


@pytest.mark.parametrize("kind", TOLERANCE)
def test_the_ima_contrast_is_log_lengths_less_log_volume(kind: torch.dtype) -> None:
    A = torch.randn(3, 9, D_Z, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    assert float(ima_contrast(A.to(kind))) == pytest.approx(slow_ima(A), rel=TOLERANCE[kind])


def test_the_ima_contrast_of_a_decoder_is_that_of_its_jacobians() -> None:
    f, z = smooth_decoder(), points(6)
    assert value(IMAContrast(), f, z) == pytest.approx(slow_ima(slow_jacobian(f, z)), rel=1e-9)
    assert value(IMAContrast(points=2), f, z) == pytest.approx(slow_ima(slow_jacobian(f, z[:2])), rel=1e-9)


def test_the_ima_contrast_ignores_order_signs_and_scales_and_needs_none() -> None:
    J = slow_jacobian(smooth_decoder(), points())
    scales = torch.tensor([1e-6, -3.0, 1e5, 0.1], dtype=torch.float64)
    expected = float(ima_contrast(J))
    assert expected > 0.1
    assert float(ima_contrast((J * scales)[:, :, [2, 0, 3, 1]])) == pytest.approx(expected)
    assert float(ima_contrast(rotation(D_X) @ J)) == pytest.approx(expected)
    assert not IMAContrast().needs_scale


def test_the_ima_contrast_vanishes_exactly_for_orthogonal_columns() -> None:
    A = orthogonal_decoder()
    assert float(ima_contrast(A[None])) == pytest.approx(0, abs=1e-14)
    assert float(ima_contrast(A[None] + 0.1)) > 1e-3


@pytest.mark.parametrize("kind", TOLERANCE)
def test_a_vanished_column_counts_as_orthogonal_and_parallel_ones_stay_finite(kind: torch.dtype) -> None:
    J = slow_jacobian(smooth_decoder(), points(3))
    vanished = J.clone()
    vanished[:, :, 1] = 0
    parallel = J.clone()
    parallel[:, :, 1] = -2 * J[:, :, 0]
    for at, low, high in ((vanished, 0.01, 5), (parallel, 5, 50), (0 * J, 0, 0)):
        at = at.clone().to(kind).requires_grad_()
        found = ima_contrast(at)
        found.backward()
        assert low <= float(found.detach()) <= high
        assert at.grad is not None
        assert at.grad.isfinite().all()
    assert float(ima_contrast(vanished)) == pytest.approx(slow_ima(J[:, :, [0, 2, 3]]), rel=1e-9)


@pytest.mark.parametrize("scale", [1e-20, 1e-6, 1.0, 1e6, 1e20])
def test_a_column_as_long_or_short_as_single_precision_allows_changes_neither_the_contrast_nor_its_slopes(
    scale: float,
) -> None:
    J = torch.randn(3, 9, D_Z, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    J[:, :, 1] *= scale
    single, double = J.float().requires_grad_(), J.clone().requires_grad_()
    found, expected = ima_contrast(single), ima_contrast(double)
    found.backward()
    expected.backward()
    lengths = torch.tensor([1.0, scale, 1.0, 1.0], dtype=torch.float64)  # the slope along a column is inverse to it
    assert float(found.detach()) == pytest.approx(slow_ima(J), rel=TOLERANCE[torch.float32])
    assert float(expected.detach()) == pytest.approx(slow_ima(J), rel=1e-9)
    assert single.grad is not None
    assert double.grad is not None
    torch.testing.assert_close(single.grad.double() * lengths, double.grad * lengths, rtol=1e-5, atol=1e-6)


def test_the_slopes_of_the_ima_contrast_are_those_of_its_formula() -> None:
    J = slow_jacobian(smooth_decoder(), points(3)).requires_grad_()
    formula = (J.norm(dim=-2).log().sum(dim=-1) - torch.linalg.slogdet(J.mT @ J).logabsdet / 2).mean()
    torch.testing.assert_close(*(torch.autograd.grad(f, J)[0] for f in (ima_contrast(J), formula)))
