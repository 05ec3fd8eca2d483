"""Premises about a decoder: folds are found and rolls are not, near isometries are told, holes are seen."""

from itertools import combinations
from math import pi, sqrt

import numpy as np
import pytest
import torch
from plane_decoders import curved, cylinder, linear, points

from noumena.checks import InputError
from noumena.guarantees import lipschitz
from noumena.guarantees.lipschitz import (
    ArchitectureBound,
    bi_lipschitz,
    convex,
    injective,
    isometric,
    proportional_term,
    shortest_secant,
)

ROWS = np.arange(10_000)


def test_a_fold_is_found_with_the_second_latent_point():
    z, decoder = points(200, 2) * 4, cylinder(0.9)  # 8 long, around a circle of 5.65
    found = bi_lipschitz(decoder, z)
    secant = shortest_secant(decoder, z, found)
    i, _ = secant.pair
    other = torch.as_tensor(secant.fold)[None]
    assert torch.allclose(decoder(other), decoder(z[i][None]), atol=1e-9)
    assert abs(float(other[0, 0] - z[i, 0])) == pytest.approx(2 * pi * 0.9)
    told = injective(secant, found, ROWS + 100)
    assert told.answer == "fails"
    assert f"point {i + 100} " in told.evidence


def test_without_overlap_there_is_no_fold_although_the_ends_come_close():
    z, decoder = points(300, 2) * torch.tensor([2.8, 1.0]), cylinder(0.9)  # 5.6 long: ends 0.05 apart
    found = bi_lipschitz(decoder, z)
    secant = shortest_secant(decoder, z, found)
    assert secant.stretch < lipschitz.FOLD
    assert secant.fold is None  # the second point with the same output is outside the box
    assert injective(secant, found, ROWS).answer == "unknown"
    assert "rolled up, or folded" in injective(secant, found, ROWS).evidence


def test_sheets_that_come_close_and_do_not_touch_are_no_fold():
    def roll(z):
        radius = 1 + 0.002 * z[:, 0]
        return torch.stack([radius * z[:, 0].cos(), radius * z[:, 0].sin(), z[:, 1]], dim=1)

    z = points(400, 2) * torch.tensor([10.0, 1.0])
    found = bi_lipschitz(roll, z)
    secant = shortest_secant(roll, z, found)
    assert secant.stretch < lipschitz.FOLD * found.stretch[0]
    assert secant.fold is None
    assert injective(secant, found, ROWS).answer == "unknown"


def test_a_search_that_ends_where_it_began_has_found_no_fold():
    here, there = points(2, 2)
    box = (np.full(2, -9.0), np.full(2, 9.0))
    assert lipschitz._coincidence(lambda z: 2 * z, here, there, box) is None
    assert lipschitz._coincidence(lambda z: z**2, here, -1.1 * here, box) == pytest.approx(-here.numpy())


def test_the_smallest_stretch_is_that_of_all_pairs():
    z = points(30, 2)
    secant = shortest_secant(curved, z, bi_lipschitz(curved, z))
    slow = {
        (i, j): float((curved(z)[i] - curved(z)[j]).norm() / (z[i] - z[j]).norm())
        for i, j in combinations(range(30), 2)
    }
    assert secant.stretch == pytest.approx(min(slow.values()))
    assert secant.pair == min(slow, key=lambda pair: slow[pair])
    assert secant.n_pairs == 435
    assert injective(secant, bi_lipschitz(curved, z), ROWS).answer == "supported"


def test_with_many_points_pairs_are_named_by_their_rows():
    z = points(1500, 2)
    secant = shortest_secant(curved, z, bi_lipschitz(curved, z))
    i, j = secant.pair
    assert float((curved(z)[i] - curved(z)[j]).norm() / (z[i] - z[j]).norm()) == pytest.approx(secant.stretch)
    assert secant.n_pairs == 400 * 399 // 2


def test_points_that_differ_in_an_inactive_direction_only_are_no_fold():
    decoder = linear(np.diag([1.0, 0.0]))
    z = torch.tensor([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0]], dtype=torch.float64)
    found = bi_lipschitz(decoder, z)
    secant = shortest_secant(decoder, z, found)
    assert secant.stretch == pytest.approx(1)
    assert "mostly z2" in injective(secant, found, ROWS).evidence


def test_one_point_repeated_is_one_sentence():
    z = torch.ones(3, 2, dtype=torch.float64)
    with pytest.raises(InputError, match="latent points must differ"):
        shortest_secant(curved, z, bi_lipschitz(curved, z))


# ---- near isometries -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("ratio", "answer"), [(1.99, "supported"), (2.01, "fails")])
def test_a_decoder_is_near_an_isometry_up_to_a_ratio_of_two_whatever_the_unit(ratio, answer):
    for unit in (1e-3, 1.0, 1e3):
        found = bi_lipschitz(linear(unit * np.diag([1.0, ratio])), points(4, 2))
        told = isometric(found, None, ROWS)
        assert told.answer == answer
        assert proportional_term(found.at_best_scale, 1.0) == pytest.approx(sqrt(ratio - 1))
        assert f"{found.at_best_scale:.3g} at the best scale" in told.evidence


def test_the_points_of_the_weakest_and_the_strongest_direction_are_named():
    z = torch.tensor([[0.5, 0.5], [0.1, 0.5], [0.5, 2.0]], dtype=torch.float64)
    told = isometric(bi_lipschitz(lambda z: z**2, z), None, np.array([10, 20, 30]))
    assert "0.2 (point 20) to 4 (point 30)" in told.evidence


def test_an_architecture_can_prove_what_points_support():
    found = bi_lipschitz(linear(np.eye(2)), points(4, 2))
    assert isometric(found, ArchitectureBound(1.9, "built so"), ROWS).answer == "holds"
    assert isometric(found, ArchitectureBound(2.1, "built so"), ROWS).answer == "supported"
    assert isometric(found, ArchitectureBound(None, "no"), ROWS).answer == "supported"


# ---- convex support --------------------------------------------------------------------------------------------


def box(n=2000, d=2, seed=0):
    return np.random.default_rng(seed).uniform(-1, 1, size=(n, d))


def ring(n=2000):
    angle = np.random.default_rng(0).uniform(0, 2 * pi, size=n)
    return np.stack([np.cos(angle), np.sin(angle)], axis=1)


def test_a_drawn_box_supports_convexity_and_data_do_not_show_it():
    assert convex(box(), sampled=True).answer == "supported"
    assert convex(box(), sampled=False).answer == "unknown"


@pytest.mark.parametrize("sampled", [True, False])
def test_a_hole_is_found_with_two_rows_on_either_side(sampled):
    z = ring()
    told = convex(z, sampled=sampled)
    assert told.answer == "fails"
    i, j = (int(k) for k in told.evidence.split("(rows ")[1].split(")")[0].split(" and "))
    assert np.linalg.norm((z[i] + z[j]) / 2) < 0.1


def test_heavy_tails_are_no_hole():
    z = np.random.default_rng(0).laplace(size=(2000, 3))
    assert convex(z, sampled=True).answer != "fails"


def test_few_rows_in_many_dimensions_show_nothing():
    z = np.random.default_rng(0).normal(size=(500, 10))
    sphere = z / np.linalg.norm(z, axis=1, keepdims=True)
    assert convex(sphere, sampled=True).answer == "unknown"
