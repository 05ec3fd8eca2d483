"""Degenerate worlds: draws follow the law they state, and the facts are those that the theorems' reader finds."""

from importlib import import_module
from itertools import combinations
from typing import Any

import numpy as np
import pytest
import torch
from scipy.stats import kurtosis, skew

from noumena.checks import InputError
from noumena.guarantees.degenerate import (
    COMMON_BASIS,
    COMMON_POINT,
    GENERIC,
    MIXING,
    STANDARD_BASIS,
    VARIABILITY,
    degenerate_ladder,
)
from noumena.worlds import DegenerateWorld, Graph, degenerate, layered, two_bases
from noumena.worlds.degenerate import MaskedLaw, inseparable, random_masks
from noumena.worlds.mixings import plane_rotations

VARIANTS: dict[str, dict[str, Any]] = {
    "base": {},
    "independent": {"edges": 0},
    "one": {"active": "one"},
    "three quarters": {"active": "three quarters"},
    "all but one": {"active": 4},
    "all": {"active": 5},
    "shifted": {"shift": 2.0},
    "shifted and independent": {"shift": 2.0, "edges": 0},
    "turned": {"angle": 30.0},
    "turned and shifted": {"angle": 15.0, "shift": 1.0, "means": 1.0},
    "turned by a right angle": {"angle": 90.0, "means": 1.0},
    "with means": {"means": 1.0},
    "one with means": {"active": "one", "means": 1.0},
    "blocks": {"blocks": (1, 1, 3), "active": 1},
    "blocks with means": {"blocks": (2, 1, 2), "active": 2, "means": 1.0},
    "smooth": {"mixing": "smooth"},
    "sigmoid": {"mixing": "sigmoid"},
    "affine": {"mixing": "affine"},
}


def small(name: str, seed: int = 0) -> DegenerateWorld:
    return degenerate(5, layers=3, random_state=seed, **VARIANTS[name])


# ---- the law -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["base", "shifted", "turned and shifted", "with means", "blocks"])
def test_draws_follow_the_exact_mixture(name: str) -> None:
    world = small(name)
    law, drawn = world.mixture, world.sample(60_000, random_state=1)
    assert law is not None
    assert law.n_components == len(world.masks)
    for j in range(law.n_components):
        z = drawn.z[drawn.u == j]
        assert len(z) == pytest.approx(60_000 / law.n_components, rel=0.1)
        assert z.mean(axis=0) == pytest.approx(law.means[j], abs=0.08)
        assert np.cov(z.T) == pytest.approx(law.covariances[j], abs=0.2)


@pytest.mark.parametrize("noise", ["gaussian", "exponential", "gumbel"])
def test_a_frozen_latent_has_its_value_exactly_and_an_active_one_the_moments_of_the_causal_model(noise: str) -> None:
    world = degenerate(4, edges=1, shift=2.0, noise=noise, layers=2, random_state=4)
    drawn, std = world.sample(80_000), np.sqrt(np.diag(world.graph.covariance))
    active = world.masks[drawn.u]
    assert (np.where(active, 0, drawn.z) == np.where(active, 0, 2.0 * std)).all()
    for i, j in combinations(range(4), 2):
        both = active[:, i] & active[:, j]
        assert np.cov(drawn.z[both][:, [i, j]].T) == pytest.approx(
            world.graph.covariance[np.ix_([i, j], [i, j])], abs=0.15
        )
    assert drawn.z[active[:, 0], 0].mean() == pytest.approx(0, abs=0.05)
    assert (world.mixture is None) == (noise != "gaussian")


@pytest.mark.parametrize(
    ("noise", "skewness", "peak"), [("gaussian", 0, 0), ("exponential", 2, 6), ("gumbel", 1.14, 2.4)]
)
def test_noises_have_their_own_shape(noise: str, skewness: float, peak: float) -> None:
    world = degenerate(2, edges=0, active=2, noise=noise, layers=1)
    z = world.sample(200_000).z
    assert z.mean() == pytest.approx(0, abs=0.01)
    assert z.std() == pytest.approx(1, abs=0.01)
    assert skew(z[:, 0]) == pytest.approx(skewness, abs=0.1)
    assert kurtosis(z[:, 0]) == pytest.approx(peak, abs=0.7)


def test_a_mask_marginalises_the_causal_model_instead_of_cutting_its_edges() -> None:
    chain, mask = Graph([[0, 2, 0], [0, 0, 1], [0, 0, 0]]), np.array([[True, False, True]])
    law = MaskedLaw(chain, mask, np.zeros((1, 3)), np.zeros(3), np.eye(3))
    assert law.mixture is not None
    assert law.mixture.covariances[0] == pytest.approx(np.array([[1, 0, 2], [0, 0, 0], [2, 0, 6]]))


def test_the_rotation_is_undone_by_sparse() -> None:
    straight, turned = (
        degenerate(6, layers=2, shift=1.0, random_state=2),
        degenerate(6, layers=2, shift=1.0, angle=40, random_state=2),
    )
    a, b = straight.sample(50, random_state=3), turned.sample(50, random_state=3)
    assert (a.u == b.u).all()
    assert b.z == pytest.approx(a.z @ turned.rotation.T)
    assert turned.sparse(b.z) == pytest.approx(a.z)
    assert turned.sparse(torch.as_tensor(b.z)).numpy() == pytest.approx(a.z)
    assert np.abs(b.z - a.z).max() > 0.5
    assert turned.decode(a.z) == pytest.approx(straight.decode(a.z))


def test_means_are_the_components_own_and_only_of_active_latents() -> None:
    world = degenerate(30, edges=2, means=1.5, layers=1)
    std = np.sqrt(np.diag(world.graph.covariance))
    own = world.law.means / std
    assert (own[~world.masks] == 0).all()
    assert own[world.masks].std() == pytest.approx(1.5, rel=0.1)
    assert own[world.masks].mean() == pytest.approx(0, abs=0.1)


# ---- masks -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("n", "active", "expected"),
    [(5, "half", 2), (5, "three quarters", 3), (10, "three quarters", 7), (10, "one", 1), (10, 4, 4), (1, "half", 1)],
)
def test_masks_are_different_have_the_size_asked_for_and_number_at_most_five_per_latent(n, active, expected) -> None:
    for seed in range(5):
        masks = degenerate(n, active=active, layers=1, random_state=seed).masks
        assert (masks.sum(axis=1) == expected).all()
        assert len(masks) <= 5 * n
        assert len(np.unique(masks, axis=0)) == len(masks)
        assert masks.any(axis=0).all()


def test_no_latent_is_always_frozen_or_always_active_even_where_only_one_is() -> None:
    """Of all draws of fifty masks about one in twenty leaves a latent out."""
    for seed in range(100):
        masks = random_masks((1,) * 10, 1, random_state=seed)
        assert masks.any(axis=0).all()
        assert not random_masks((1,) * 10, 9, random_state=seed).all(axis=0).any()


def test_a_large_world_has_all_but_few_of_its_draws() -> None:
    masks = random_masks((1,) * 40, 20)
    assert len(masks) == 200
    assert masks.mean() == 0.5


@pytest.mark.parametrize("sizes", [(2, 2, 2, 2, 2), (1, 1, 1, 3, 4), (1, 1, 2, 6)])
def test_latents_of_a_block_are_active_together_and_blocks_are_not(sizes: tuple[int, ...]) -> None:
    world = degenerate(10, blocks=sizes, layers=1)
    block = np.repeat(np.arange(len(sizes)), sizes)
    first = np.searchsorted(block, np.arange(len(sizes)))
    assert (world.masks == world.masks[:, first][:, block]).all()
    assert (world.masks[:, first].sum(axis=1) == len(sizes) // 2).all()
    pairs = {(i, r) for i in range(10) for r in range(10) if i != r and block[i] == block[r]}
    assert set(world.facts["inseparable"]) == pairs
    assert world.facts["sufficient variability"] is False
    assert degenerate(10, blocks=5, layers=1).masks.tolist() == degenerate(10, blocks=(2,) * 5, layers=1).masks.tolist()


def test_masks_that_nest_are_named() -> None:
    masks = np.array([[1, 1, 0], [1, 0, 0], [0, 0, 1]], dtype=bool)
    assert inseparable(masks) == ((0, 1),)
    never = np.array([[1, 0], [1, 0]], dtype=bool)
    assert inseparable(never) == ((0, 1),)


# ---- what a world knows ------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", VARIANTS)
def test_a_world_knows_what_the_ladder_of_theorems_finds(name: str) -> None:
    for seed in (0, 1):
        world = small(name, seed)
        reading = degenerate_ladder(world.mixture, decoder=world.decoder, exact=True)
        answers = {h.name: h.answer for h in reading.hypotheses}
        knows = world.hypotheses()
        assert answers[GENERIC] == ("holds" if knows["3.4 genericity"] else "fails")
        assert answers[COMMON_POINT] == ("holds" if knows["3.6 common point"] else "fails")
        assert answers[COMMON_BASIS] == ("holds" if knows["3.6 common basis"] else "fails")
        assert answers[STANDARD_BASIS] == ("holds" if knows["3.8a standard basis"] else "fails")
        if answers[STANDARD_BASIS] == "holds":
            assert answers[VARIABILITY] == ("holds" if knows["3.8b variability"] else "fails")
        if world.facts["piecewise affine"]:
            assert answers[MIXING] == "holds"
        else:
            assert answers[MIXING] in ("fails", "unknown")


@pytest.mark.parametrize(
    ("name", "broken"),
    [
        ("base", {"3.4 genericity"}),
        ("with means", set()),
        ("shifted", {"3.4 genericity", "3.8a standard basis"}),  # two pairs of latents without a common cause
        ("shifted and independent", {"3.4 genericity", "3.8a standard basis"}),
        ("turned", {"3.4 genericity", "3.8a standard basis"}),
        ("turned and shifted", {"3.8a standard basis"}),
        ("turned by a right angle", set()),
        ("one with means", set()),
        ("blocks with means", {"3.8b variability"}),
        ("smooth", {"3.4 genericity", "piecewise affine mixing"}),
    ],
)
def test_each_world_breaks_just_the_hypotheses_it_was_built_to_break(name: str, broken: set[str]) -> None:
    assert {h for h, holds in small(name).hypotheses().items() if not holds} == broken


def test_the_published_worlds_violate_genericity_and_means_repair_it() -> None:
    published, repaired = degenerate(10), degenerate(10, means=1.0)
    assert published.genericity == 0
    assert published.facts["zero means"]
    assert published.facts["frozen at zero"]
    assert published.facts["disjoint masks"]
    assert published.facts["components"] == len(published.masks)
    assert published.facts["active share"] == 0.5
    assert repaired.genericity > 1e-6
    assert not repaired.facts["zero means"]
    assert degenerate(5, active="three quarters").facts["disjoint masks"] is False
    exponential = degenerate(5, noise="exponential", means=1.0).hypotheses()
    assert not exponential["gaussian components"]
    assert not exponential["3.4 genericity"]


@pytest.mark.parametrize(("second", "generic"), [([1.0, 0, 0], False), ([-1.0, 0, 0], True), ([2.0, 0, 0], True)])
def test_components_that_share_an_axis_are_told_apart_along_it(second: list[float], generic: bool) -> None:
    """With means of opposite sign the distances agree at the origin, and differ elsewhere on the shared axis."""
    masks, means = np.array([[1, 1, 0], [1, 0, 1]], dtype=bool), np.array([[1.0, 0, 0], second])
    law = MaskedLaw(Graph(np.zeros((3, 3))), masks, means, np.zeros(3), np.eye(3))
    world = DegenerateWorld(law=law, decoder=layered(3, 1), seed=0, facts={})
    reading = degenerate_ladder(world.mixture, exact=True)
    assert (world.genericity > 0.1) is generic
    assert (GENERIC in reading.broken) is not generic


def test_components_that_share_an_axis_are_told_apart_by_what_moves_it() -> None:
    """Zero means, and one of the two components knows a cause of the shared latent: distances grow differently."""
    masks, zero = np.array([[1, 1, 0], [1, 0, 1]], dtype=bool), np.zeros((2, 3))
    weights = np.zeros((3, 3))
    weights[1, 0] = 1.0
    law = MaskedLaw(Graph(weights), masks, zero, np.zeros(3), np.eye(3))
    world = DegenerateWorld(law=law, decoder=layered(3, 1), seed=0, facts={})
    assert world.genericity == pytest.approx(0.5)  # 2 z² and z², in units of the variance 2: 2 and 1, of which the half
    assert GENERIC not in degenerate_ladder(world.mixture, exact=True).broken


def test_slopes_are_among_the_facts() -> None:
    hard, steep = degenerate(4, slope=0.2).facts, degenerate(4, slope=1.4).facts
    assert (hard["smallest slope"], hard["largest slope"]) == (0.2, 1.0)
    assert (steep["smallest slope"], steep["largest slope"]) == (1.0, 1.4)
    flat = degenerate(4, layers=1).facts
    assert (flat["smallest slope"], flat["largest slope"]) == (1.0, 1.0)


# ---- the world ---------------------------------------------------------------------------------------------


def test_seeds_decide_the_world_and_the_draws_separately() -> None:
    first, again, other = degenerate(5, random_state=1), degenerate(5, random_state=1), degenerate(5, random_state=2)
    assert (first.masks == again.masks).all()
    a, b = first.sample(20, random_state=7), again.sample(20, random_state=7)
    assert (a.x == b.x).all()
    assert (a.u == b.u).all()
    assert np.abs(a.z - first.sample(20, random_state=8).z).max() > 0.1
    assert np.abs(a.z - other.sample(20, random_state=7).z).max() > 0.1
    assert (degenerate(5, random_state=1, shift=2.0).masks == first.masks).all()
    assert (degenerate(5, random_state=1, edges=2).masks == first.masks).all()


def test_two_bases_share_none_and_the_ladder_says_so() -> None:
    for arguments, basis, point in (
        ({}, False, True),
        ({"shift": 1.0}, False, False),
        ({"angle": 0.0, "shift": 1.0}, True, True),
    ):
        world = two_bases(4, means=1.0, layers=2, **arguments)
        answers = {h.name: h.answer for h in degenerate_ladder(world.mixture, exact=True).hypotheses}
        assert world.facts["common basis"] is basis
        assert world.facts["common point"] is point
        assert answers[COMMON_BASIS] == ("holds" if basis else "fails")
        assert answers[COMMON_POINT] == ("holds" if point else "fails")
    half = degenerate(4, means=1.0).mixture
    mixture = two_bases(4, means=1.0, angle=20.0).mixture
    assert half is not None
    assert mixture is not None
    assert mixture.n_components == 2 * half.n_components
    turned = half.pushed(plane_rotations(4, 20.0))
    assert mixture.means == pytest.approx(np.concatenate([half.means, turned.means]))


def test_masks_that_cannot_be_found_are_said_to_be_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(import_module("noumena.worlds.degenerate"), "MASKS", 0)
    with pytest.raises(InputError, match="must be found in 1000 draws"):
        random_masks((1, 1), 1)
