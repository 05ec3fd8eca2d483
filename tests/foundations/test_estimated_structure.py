"""A structure is read off a decoder by the strength of its entries, and the line between them is explained."""

from itertools import pairwise

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from noumena.checks import InputError
from noumena.derivatives.strength import relative_strength
from noumena.structure import Evidence, Structure, widest_gap

modest = settings(max_examples=60, deadline=None)


# ---- estimates -----------------------------------------------------------------------------------------------


def decoder(z: Tensor) -> Tensor:
    """x1 of z1; x2 of z1 and, faintly, z2; x3 of z2; z3 touches nothing but x3, hardly."""
    a, b, c = z.unbind(dim=1)
    return torch.stack([2 * a, a.sin() + 0.05 * b, 3 * b**3 + 1e-6 * c], dim=1)


def latent_points(n: int = 400) -> Tensor:
    scale = torch.tensor([1.0, 2.0, 0.5], dtype=torch.float64)
    return scale * torch.randn(n, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


def test_strength_is_the_share_of_spread_that_a_typical_move_makes() -> None:
    z = latent_points()
    a, b, _ = z.unbind(dim=1)
    sd_z, sd_x = z.std(dim=0), decoder(z).std(dim=0)
    expected = np.zeros((3, 3))
    expected[0, 0] = 2 * sd_z[0] / sd_x[0]
    expected[1, 0] = a.cos().abs().mean() * sd_z[0] / sd_x[1]
    expected[1, 1] = 0.05 * sd_z[1] / sd_x[1]
    expected[2, 1] = (9 * b**2).mean() * sd_z[1] / sd_x[2]
    expected[2, 2] = 1e-6 * sd_z[2] / sd_x[2]
    np.testing.assert_allclose(relative_strength(decoder, z), expected, rtol=1e-10)
    np.testing.assert_allclose(relative_strength(decoder, z.numpy()), expected, rtol=1e-10)


def test_strength_does_not_depend_on_the_units_of_latents_or_observations() -> None:
    z = latent_points()
    unit_z, unit_x = torch.tensor([3.0, 0.1, 50.0]), torch.tensor([10.0, 0.2, 1.0])
    rescaled = relative_strength(lambda own: unit_x * decoder(own / unit_z), z * unit_z)
    np.testing.assert_allclose(rescaled, relative_strength(decoder, z), rtol=1e-9)


def test_a_constant_observation_depends_on_nothing() -> None:
    strength = relative_strength(lambda z: torch.cat([z, torch.ones(len(z), 1)], dim=1), torch.randn(20, 2))
    np.testing.assert_array_equal(strength[2], [0, 0])


def test_a_structure_is_read_off_a_decoder_with_its_evidence() -> None:
    z = latent_points()
    strength = relative_strength(decoder, z)
    S = Structure.from_decoder(decoder, z, threshold=0.05, observed=["a", "b", "c"])
    np.testing.assert_array_equal(S.dense, [[1, 0, 0], [1, 1, 0], [0, 1, 1]])
    assert S.observed == ("a", "b", "c")
    assert S.evidence is not None
    np.testing.assert_array_equal(S.evidence.strength, strength)
    assert S.evidence.threshold == 0.05
    faint = Structure.from_decoder(decoder, z, threshold=0.2)
    np.testing.assert_array_equal(faint.dense, [[1, 0, 0], [1, 0, 0], [0, 1, 1]])


def test_an_entry_counts_just_above_the_threshold_and_not_just_below() -> None:
    z = latent_points()
    strength = relative_strength(decoder, z)
    below, above = (Structure.from_decoder(decoder, z, threshold=strength[1, 1] * by) for by in (0.999, 1.001))
    np.testing.assert_array_equal(below.dense, [[1, 0, 0], [1, 1, 0], [0, 1, 1]])
    np.testing.assert_array_equal(above.dense, [[1, 0, 0], [1, 0, 0], [0, 1, 1]])


def test_without_a_threshold_the_widest_gap_is_the_line() -> None:
    S = Structure.from_decoder(decoder, latent_points())
    assert S.evidence is not None
    assert S.evidence.threshold == widest_gap(S.evidence.strength)
    np.testing.assert_array_equal(S.dense[:, :2], S.evidence.strength[:, :2] > S.evidence.threshold)


def test_a_structure_needs_two_points() -> None:
    with pytest.raises(InputError, match=r"read off at two points or more\. Got 1\."):
        Structure.from_decoder(decoder, latent_points(1))
    with pytest.raises(InputError, match="z must have at least 2 rows"):
        Structure.from_decoder(decoder, latent_points(1).numpy())
    with pytest.raises(InputError, match=r"threshold must be a finite number in \[0, inf\]\. Got -0\.1\."):
        Structure.from_decoder(decoder, latent_points(), threshold=-0.1)


def test_the_margin_is_the_factor_to_the_nearest_entry() -> None:
    assert Evidence(np.array([[0.0, 0.8], [0.05, 0.9]]), 0.1).margin == pytest.approx(2.0)
    assert Evidence(np.array([[0.0, 0.3], [0.01, 0.9]]), 0.1).margin == pytest.approx(3.0)
    assert Evidence(np.array([[0.1, 0.9]]), 0.1).margin == pytest.approx(1.0)


def test_borderline_entries_lie_within_a_factor_of_the_line_on_either_side() -> None:
    evidence = Evidence(np.array([[0.0, 0.14], [0.07, 0.9], [0.16, 0.06]]), 0.1)
    assert evidence.borderline() == [(0, 1), (1, 0)]
    assert evidence.borderline(factor=1.7) == [(0, 1), (1, 0), (2, 0), (2, 1)]
    assert evidence.borderline(factor=1.1) == []


@modest
@given(st.lists(st.floats(1e-4, 3.0), min_size=1, max_size=12))
def test_the_line_lies_in_the_widest_gap_between_the_bounds(strengths: list[float]) -> None:
    line = widest_gap(np.array(strengths))
    edges = sorted([0.03, 0.2, *(s for s in strengths if 0.03 < s < 0.2)])
    ratios = [high / low for low, high in pairwise(edges)]
    below, above = max(e for e in edges if e <= line), min(e for e in edges if e >= line)
    assert above / below == pytest.approx(max(ratios))
    assert line / below == pytest.approx(above / line)
    assert 0.03 < line < 0.2
