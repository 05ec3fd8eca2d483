"""Degenerate mixtures: each assumption is decided exactly, and the counter-examples are real."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
import torch
from scipy.stats import ortho_group
from sklearn.mixture import GaussianMixture
from torch import nn

from noumena.checks import InputError
from noumena.guarantees import Certificate
from noumena.guarantees.degenerate import (
    AGAIN_A_MIXTURE,
    COMMON_BASIS,
    COMMON_POINT,
    GENERIC,
    INVERTIBLE,
    MIXING,
    RECONSTRUCTION,
    SPARSE,
    STANDARD_BASIS,
    VARIABILITY,
    degenerate_ladder,
    mixed_with,
)
from noumena.mixtures import Mixture


def masked(*masks: tuple[int, ...], n: int = 3, means: Any = None, seed: int = 0) -> Mixture:
    """One component for each set of active latents, with random covariances, and random means where they move."""
    rng = np.random.default_rng(seed)
    k = len(masks)
    active = np.array([[i in mask for i in range(n)] for mask in masks])
    factors = [rng.normal(size=(n, n)) * row[:, None] for row in active]
    centres = rng.normal(size=(k, n)) * active if means is None else means
    return Mixture(np.ones(k) / k, centres, np.stack([F @ F.T for F in factors]))


def lines(directions: Any, means: Any) -> Mixture:
    directions = np.asarray(directions, dtype=float)
    k = len(directions)
    return Mixture(np.ones(k) / k, means, directions[:, :, None] * directions[:, None, :])


def network(last: nn.Module) -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(3, 5), last)


PAIRS = masked((0, 1), (1, 2), (0, 2))
TOLD = {"decoder": network(nn.LeakyReLU(0.2)), "explained": 0.99, "sparsity": (2.0, 2.0), "exact": True}
T35, T37, BLOCKS, T39 = range(4)
EVERYONE = range(4)

TILTED = np.array([[1.0, 1, 0], [0, 1, 0], [0, 0, 1]])
PLANE = lines([[1, 0, 0], [0, 1, 0], [1, 1, 0]], [[1, 0, 0], [0, 2, 0], [3, 3, 0]])
SHIFTED = [[1, 2, 0], [0, 1, -2], [1, 0, 3], [2, 2, 1]]
PARALLEL = masked((0, 1), (1, 2), (0, 2), (0, 1), means=SHIFTED)  # the first and the last support
BROKEN = [
    (MIXING, PAIRS, {"decoder": network(nn.Tanh())}, EVERYONE),
    (MIXING, PAIRS, {"decoder": network(nn.GELU())}, EVERYONE),  # curved, and its injectivity is open
    (RECONSTRUCTION, PAIRS, {"explained": 0.9}, EVERYONE),
    (GENERIC, masked((0, 1), (1, 2), (0, 2), means=np.zeros((3, 3))), {}, EVERYONE),
    (COMMON_BASIS, PLANE, {}, (T37,)),  # and so not the axes, as 3.8a implies 3.6
    (COMMON_POINT, PARALLEL, {}, (T37,)),
    (SPARSE, PAIRS, {"sparsity": (2.2, 2.0)}, (BLOCKS, T39)),
    (STANDARD_BASIS, PAIRS.pushed(TILTED), {}, (BLOCKS, T39)),
    (STANDARD_BASIS, PAIRS.pushed(np.eye(3), [0, 0, 1.0]), {}, (BLOCKS, T39)),
    (VARIABILITY, masked((0, 1), (1, 2)), {}, (T39,)),
]


def test_a_world_that_satisfies_everything_gets_every_theorem() -> None:
    reading = degenerate_ladder(PAIRS, **TOLD)
    assert reading.broken == ()
    assert all(theorem.open == (AGAIN_A_MIXTURE,) for theorem in reading.theorems)
    assert {h.answer for h in reading.hypotheses} == {"holds", "supported", "unknown"}
    groups = ["affine within components", "affine", "permutation+scaling", "permutation+scaling"]
    assert [str(t.ambiguity(2)) for t in reading.theorems] == groups
    assert all(len(t.conclusion) == 3 for t in reading.theorems)
    assert "decoder is injective" in " ".join(reading.rests_on)
    json.dumps(reading.to_dict())


@pytest.mark.parametrize(
    ("name", "mixture", "changes", "needed_by"), BROKEN, ids=[f"{i} {b[0]}" for i, b in enumerate(BROKEN)]
)
def test_breaking_one_hypothesis_loses_exactly_the_theorems_that_need_it(name, mixture, changes, needed_by) -> None:
    reading = degenerate_ladder(mixture, **{**TOLD, **changes})
    for rung, theorem in enumerate(reading.theorems):
        implied = name in (COMMON_BASIS, COMMON_POINT) and rung in (BLOCKS, T39)
        expected = (name,) if rung in needed_by else (STANDARD_BASIS,) if implied else ()
        assert theorem.broken == expected, theorem.name


def evidence(reading: Certificate, name: str) -> str:
    return next(h.evidence for h in reading.hypotheses if h.name == name)


def answer(reading: Certificate, name: str) -> str:
    return next(h.answer for h in reading.hypotheses if h.name == name)


def test_three_lines_of_a_plane_are_named() -> None:
    """Example E.3: a map that is affine on each of three lines need not be affine."""
    reading = degenerate_ladder(PLANE, **TOLD)
    assert "components 0, 1, 2 have no common basis" in evidence(reading, COMMON_BASIS)
    assert str(reading.ambiguity(0)) == "affine within components"
    parallel = degenerate_ladder(PARALLEL, **TOLD)
    assert evidence(parallel, COMMON_POINT) == "components 0, 3 have no common point"


def test_what_is_not_given_is_open() -> None:
    reading = degenerate_ladder(PAIRS, exact=True)
    assert reading.broken == ()
    assert reading.theorems[T39].open == (MIXING, RECONSTRUCTION, AGAIN_A_MIXTURE, SPARSE)
    assert str(reading.ambiguity(0)) == "permutation+scaling"


# ---- 3.6 -------------------------------------------------------------------------------------------------


def test_a_tilted_basis_is_found_with_its_margin() -> None:
    skew = np.array([[1.0, 1, 0], [0, 0.1, 0], [0, 0, 1]])
    reading = degenerate_ladder(PAIRS.pushed(skew), exact=True)
    assert answer(reading, COMMON_BASIS) == "holds"
    assert "one was built, with singular values of at least 0." in evidence(reading, COMMON_BASIS)
    assert evidence(degenerate_ladder(PAIRS, exact=True), COMMON_BASIS).startswith("the axes, within")


def test_supports_that_meet_two_by_two_may_share_no_point() -> None:
    triangle = lines([[1, 0], [0, 1], [1, -1]], [[0, 0], [0, 0], [1, 0]])
    reading = degenerate_ladder(triangle, exact=True)
    assert evidence(reading, COMMON_POINT) == "components 0, 1, 2 have no common point"


def test_a_common_basis_can_fail_without_three_culprits() -> None:
    """Four planes of ℝ³ in general position: any three share a basis, the four do not."""
    normals = np.array([[1.0, 0, 0], [0, 1, 0], [0, 0, 1], [1, 1, 1]])
    covariances = [np.eye(3) - np.outer(v, v) / (v @ v) for v in normals]
    reading = degenerate_ladder(Mixture(np.ones(4) / 4, np.zeros((4, 3)), covariances), exact=True)
    assert "components 0, 1, 2, 3 have no common basis" in evidence(reading, COMMON_BASIS)


def test_three_axes_can_be_flattened_by_a_homeomorphism_so_theorem_3_7_asks_for_more() -> None:
    """A piecewise linear bijection of ℝ³, linear on each axis, takes the axes to three lines of one plane."""
    e1, e2, e3 = np.eye(3)
    w3 = e1 + e2
    hexagon, flat = np.array([e1, e3, e2, -e1, -e3, -e2]), np.array([e1, w3, e2, -e1, -w3, -e2])
    poles, tops = np.array([e1 + e2 - e3, -e1 - e2 + e3]), np.array([-e3, e3])
    fans = []
    for ring, ends in ((hexagon, poles), (flat, tops)):
        cones = [np.stack([end, ring[k], ring[(k + 1) % 6]]) for end in ends for k in range(6)]
        signs = np.sign([np.linalg.det(c) for c in cones])
        assert (signs[:6] == signs[0]).all()
        assert (signs[6:] == -signs[0]).all()
        points = np.random.default_rng(0).normal(size=(200, 3))
        inside = np.array([[(np.linalg.solve(c.T, p) > 0).all() for c in cones] for p in points])
        assert (inside.sum(axis=1) == 1).all()  # the cones tile space, so the map between the fans is a bijection
        fans.append(cones)
    for cone, image in zip(*fans, strict=True):
        linear = np.linalg.solve(cone, image)
        for axis, line in ((e1, e1), (e2, e2), (e3, w3)):
            for sign in (1, -1):
                if any(np.allclose(ray, sign * axis) for ray in cone):
                    assert np.allclose(sign * axis @ linear, sign * line)
    axes = lines(np.eye(3), np.diag([1.0, 2, 3]))
    reading = degenerate_ladder(axes, **TOLD)
    assert reading.theorems[T37].broken == ()
    assert reading.theorems[T37].open == (AGAIN_A_MIXTURE, INVERTIBLE)
    assert reading.theorems[T39].open == (AGAIN_A_MIXTURE,)
    two = degenerate_ladder(masked((0, 1), (2,)), **TOLD)
    assert evidence(two, INVERTIBLE) == "all 3 dimensions are spanned by components 0, 1"
    one = degenerate_ladder(masked((0,), (0, 1)), **TOLD)
    assert evidence(one, INVERTIBLE) == "all 2 dimensions are spanned by component 1"


# ---- 3.8 -------------------------------------------------------------------------------------------------


def variability_by_definition(active: np.ndarray) -> bool:
    n = active.shape[1]
    unions = [set(np.flatnonzero(active[~active[:, i]].any(axis=0)).tolist()) for i in range(n)]
    return all(unions[i] == set(range(n)) - {i} for i in range(n))


def test_variability_and_what_is_mixed_follow_their_definitions() -> None:
    rng, answers = np.random.default_rng(4), []
    for seed in range(60):
        n = int(rng.integers(2, 5))
        active = rng.random((int(rng.integers(2, 7)), n)) < 0.5
        masks = [tuple(int(i) for i in np.flatnonzero(row)) for row in active]
        reading = degenerate_ladder(masked(*masks, n=n, seed=seed), exact=True)
        expected = variability_by_definition(active)
        assert (VARIABILITY not in reading.broken) == expected
        mixed = mixed_with(active)
        moves = active.any(axis=0)
        for i in range(n):
            for r in range(n):
                together = i != r and moves[r] and all(row[i] for row in active if row[r])
                assert mixed[i, r] == together
        answers.append(expected)
    assert 5 < sum(answers) < 55


def test_sparsity_cannot_do_better_than_the_order_allows() -> None:
    """Linear maps with entries only where the order allows keep the number of active latents, others raise it."""
    rng = np.random.default_rng(5)
    for _ in range(40):
        n = int(rng.integers(2, 5))
        active = rng.random((6, n)) < 0.5
        allowed = mixed_with(active) | np.eye(n, dtype=bool)
        L = np.where(allowed, rng.normal(size=(n, n)), 0)
        truth = active.sum()
        assert ((active.astype(float) @ (L != 0).T) > 0).sum() == truth
        for i, r in zip(*np.nonzero(~allowed & active.any(axis=0)), strict=True):
            denser = L.copy()
            denser[i, r] = 1
            assert ((active.astype(float) @ (denser != 0).T) > 0).sum() > truth


def test_without_variability_latents_come_in_blocks_of_the_order() -> None:
    mixture = masked((0, 1), (0, 1, 2), (3,), (2, 3), n=5)  # z1, z2 together; z3, z4 apart; z5 never
    reading = degenerate_ladder(mixture, exact=True)
    blocks = reading.theorems[BLOCKS]
    assert blocks.broken == ()
    assert [str(blocks.ambiguity(t)) for t in range(5)] == [
        *["block-wise {z1 z2 | z3 | z4 | z5}"] * 2,
        *["permutation+scaling"] * 2,
        "any",
    ]
    assert evidence(reading, VARIABILITY) == "z5 never moves"
    assert str(reading.ambiguity(0)) == "block-wise {z1 z2 | z3 | z4 | z5}"


def test_a_latent_below_another_is_found_and_the_other_is_not() -> None:
    """z2 moves only when z1 does: ẑ_1 may contain z2, but ẑ_2 cannot contain z1."""
    reading = degenerate_ladder(masked((0, 1), (0,), (2,), n=3), exact=True)
    assert [str(reading.theorems[BLOCKS].ambiguity(t)) for t in range(3)] == [
        "block-wise {z1 z2 | z3}",
        "permutation+scaling",
        "permutation+scaling",
    ]
    assert evidence(reading, VARIABILITY) == "z1 is active whenever z2"


def test_supports_off_the_axes_or_off_the_origin_are_named() -> None:
    tilted = lines([[1, 0], [1, 1]], [[1, 0], [2, 2]])
    reading = degenerate_ladder(tilted, exact=True)
    assert evidence(reading, STANDARD_BASIS).startswith("off the axes by up to 0.")
    assert evidence(reading, STANDARD_BASIS).endswith(": component 1")
    assert answer(reading, VARIABILITY) == "unknown"
    shifted = lines(np.eye(2), [[1, 5], [0, 2]])
    shown = evidence(degenerate_ladder(shifted, exact=True), STANDARD_BASIS)
    assert shown.startswith("off the origin by up to")
    assert "spreads: component 0; if the supports share a point, subtract it" in shown


# ---- fitted mixtures -------------------------------------------------------------------------------------


def test_a_fitted_mixture_is_read_within_a_tolerance() -> None:
    truth = Mixture([0.5, 0.5], [[2, 0], [0, 4]], [np.diag([1.0, 0]), np.diag([0, 1.0])])
    z, u = truth.sample(3000, random_state=1)
    start = np.stack([z[u == j].mean(axis=0) for j in (0, 1)])
    precisions = np.stack([np.diag([1.0, 1e4]), np.diag([1e4, 1.0])])
    fitted = GaussianMixture(2, means_init=start, precisions_init=precisions, random_state=0).fit(z)
    reading = degenerate_ladder(fitted, explained=0.97, sparsity=(1.0, 1.0), rows=z)
    assert reading.broken == ()
    answers = {answer(reading, n) for n in (GENERIC, COMMON_POINT, COMMON_BASIS, STANDARD_BASIS, VARIABILITY, SPARSE)}
    assert answers == {"supported"}
    assert "wanted 0.05" in evidence(reading, GENERIC)
    angle = np.deg2rad(5)  # enough to be seen
    rotation = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
    assert STANDARD_BASIS in degenerate_ladder(Mixture.of(fitted).pushed(rotation)).broken


def test_units_of_the_latents_do_not_matter() -> None:
    units = np.diag([1e-5, 1.0, 1e6])
    assert degenerate_ladder(PAIRS.pushed(units), **TOLD).to_dict()["theorems"][3]["answer"] == "unknown"
    assert degenerate_ladder(PAIRS.pushed(units), **TOLD).broken == ()


def test_a_non_degenerate_mixture_is_affine_by_theorem_3_7() -> None:
    rng = np.random.default_rng(6)
    factors = rng.normal(size=(3, 3, 3))
    mixture = Mixture(np.ones(3) / 3, rng.normal(size=(3, 3)), factors @ factors.transpose(0, 2, 1))
    reading = degenerate_ladder(mixture.pushed(ortho_group(3, seed=0).rvs()), **TOLD)
    assert reading.theorems[T37].open == (AGAIN_A_MIXTURE,)
    assert reading.theorems[T37].broken == ()
    assert reading.theorems[T39].broken == (VARIABILITY,)


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"explained": 1.5}, "explained must be a finite number"),
        ({"sparsity": (1.0, 2.0, 3.0)}, r"sparsity must be a pair of numbers, learned and true. Got shape \(3,\)."),
        ({"sparsity": 2.0}, "sparsity must be a pair of numbers"),
        ({"sparsity": (-1.0, 2.0)}, "sparsity must be a finite number"),
        ({"tolerance": 2.0}, "tolerance must be a finite number"),
        ({"decoder": nn.Linear(2, 4)}, "must take a batch of the mixture's latents"),
    ],
)
def test_wrong_input_is_refused_in_one_sentence(changes: dict[str, Any], sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        degenerate_ladder(PAIRS, **changes)
    with pytest.raises(InputError, match="A mixture must be a Mixture or a fitted GaussianMixture"):
        degenerate_ladder([1, 2])
