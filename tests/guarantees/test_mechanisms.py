"""Mechanisms: a subject that satisfies a theorem gets it, and breaking one hypothesis loses it for that reason."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from slot_decoders import (
    PAIRS,
    SCALARS,
    TWO,
    box,
    columns,
    hypothesis,
    jacobians,
    normal,
    pair_decoder,
    read,
    smooth_block,
)
from slot_decoders import good as good
from torch import Tensor

from noumena.ambiguity import Ambiguity
from noumena.guarantees import mechanisms as module
from noumena.guarantees.mechanisms import Mechanisms
from noumena.guarantees.sparsity_gap import SPARSEST
from noumena.structure import Structure


def with_row(row: Callable[[Tensor], Tensor]) -> Callable[[Tensor], Tensor]:
    """The two scalars with one more observation."""
    return lambda z: torch.cat([SCALARS(z), row(z.T)[:, None]], dim=1)


def pixels(p: int, q: int) -> np.ndarray:
    return np.array([[1.0, 0]] * (p - q) + [[1, 1]] * q + [[0, 1]] * (p - q))


# ---- every hypothesis of every theorem -----------------------------------------------------------------------


@pytest.mark.parametrize("name", ["Type D", "Type M", "Type S", "Type H_2", "Type H_3"])
def test_a_decoder_of_separate_smooth_slots_satisfies_every_theorem(good: Mechanisms, name: str) -> None:
    theorem = good.theorem(name)
    assert theorem.broken == ()
    assert theorem.open == ((module.PAIR, module.COVERS) if name == "Type M" else (module.COVERS,))
    assert theorem.ambiguity(0) == Ambiguity("block-wise", PAIRS)
    assert theorem.source.startswith("Matthes et al. 2026, Theorem ")


@pytest.mark.parametrize("name", ["Type D", "Type M", "Type S", "Type H_2", "Type H_3"])
def test_scalar_factors_satisfy_every_theorem_and_are_pinned_down_one_by_one(name: str) -> None:
    theorem = read(SCALARS, at=box(2), blocks=None, order=3).theorem(name)
    assert theorem.broken == ()
    assert theorem.ambiguity(1) == Ambiguity("element-wise")


@pytest.mark.parametrize("name", ["Type D", "Type M", "Type S"])
def test_generic_jacobians_satisfy_the_first_order_theorems(name: str) -> None:
    subject = jacobians(pixels(6, 0 if name == "Type D" else 2))
    assert read(subject).theorem(name).broken == ()


def separate(z: Tensor) -> Tensor:
    return SCALARS(z)


def folded(z: Tensor) -> Tensor:
    return smooth_block(z.sum(dim=1, keepdim=True), seed=1)


def whole(z: Tensor) -> Tensor:
    return smooth_block(z, seed=3)


def flat_step(t: Tensor) -> Tensor:
    """Rises smoothly from −1 to 1 and is exactly flat beyond."""
    t = t.clamp(-1, 1)
    return (315 * t - 420 * t**3 + 378 * t**5 - 180 * t**7 + 35 * t**9) / 128


ONE_BLOCK = {"at": box(2), "blocks": [(0, 1)]}
SPLIT = jacobians([[1, 0, 0]] * 3 + [[0, 1, 0]] * 3 + [[0, 0, 1]] * 3)
SPLIT_BLOCKS = {"blocks": [(0, 1), (2,)]}
CONTAINED_ONCE = [[0, 0], [0, 0], [1, 1], [1, 1], [0, 1], [0, 1]]
VANISHING_ONCE = jacobians(pixels(4, 2)) * (np.arange(8) > 0)[:, None, None]
FROM_ZERO = {**TWO, "at": torch.cat([torch.zeros(1, 2, dtype=torch.float64), box(2)])}
ON_A_LINE = {**TWO, "at": torch.cat([box(1), torch.full((24, 1), 0.5, dtype=torch.float64)], dim=1)}
CORNERS = {
    **TWO,
    "at": 3 * torch.tensor([[1.0, 1], [-1, 1], [-1, -1], [1, -1]], dtype=torch.float64).repeat(4, 1)
    + 0.1 * box(2)[:16],
}
FIRST_ORDER = [
    ("Type D", module.DISJOINT, pair_decoder(overlap=1), {}),
    ("Type D", module.IRREDUCIBLE, pair_decoder(first=separate), {}),
    ("Type D", module.SEVERAL, whole, ONE_BLOCK),
    ("Type D", module.INJECTIVE, pair_decoder(first=folded), {}),
    ("Type M", module.INCOMPARABLE, np.r_[jacobians(pixels(4, 2)), jacobians(CONTAINED_ONCE, points=1)], {}),
    ("Type M", module.TOGETHER, np.r_[jacobians([[1, 0], [1, 1], [0, 1]]), jacobians([[1, 1], [1, 0], [0, 1]])], {}),
    ("Type M", module.IRREDUCIBLE, SPLIT, SPLIT_BLOCKS),
    ("Type M", module.SPANNING, np.stack([pixels(4, 2)] * 5), {}),
    ("Type M", module.SEVERAL, whole, ONE_BLOCK),
    ("Type M", module.INJECTIVE, VANISHING_ONCE, {}),
    ("Type S", SPARSEST, np.stack([pixels(3, 2)] * 2), {}),
    ("Type S", module.IRREDUCIBLE, SPLIT, SPLIT_BLOCKS),
    ("Type S", module.SEVERAL, whole, ONE_BLOCK),
    ("Type S", module.INJECTIVE, pair_decoder(first=folded), {}),
]


@pytest.mark.parametrize(("theorem", "hypothesis", "subject", "options"), FIRST_ORDER)
def test_breaking_one_hypothesis_of_the_first_order_breaks_the_theorem_for_that_reason(
    theorem: str, hypothesis: str, subject: Any, options: dict[str, Any]
) -> None:
    found = read(subject, **options).theorem(theorem)
    assert found.broken == (hypothesis,)
    assert found.ambiguity(0) == Ambiguity("any")


def higher(order: int) -> list[tuple[str, Any, dict[str, Any]]]:
    kinked = columns(
        *[lambda z, k=k: z[k // 3] ** (k % 3 + 1) + 4 * z[k // 3].abs() * z[k // 3] ** (order - 2) for k in range(6)]
    )
    flat = columns(
        *[lambda z, k=k: z[0] ** min(k + 1, order - 1) for k in range(2)],
        *[lambda z, k=k: z[1] ** k + z[1] for k in (1, 2, 3)],
    )
    together = columns(
        *[lambda z, k=k, j=j: z[j] ** k for k in range(1, order) for j in (0, 1)],
        lambda z: z[0] ** order + z[1] ** order,
    )
    return [
        (f"cross-block derivatives of order {order} vanish", with_row(lambda z: z[0] ** (order - 1) * z[1]), ON_A_LINE),
        (
            f"mixed differences of order {order} vanish over the region",
            with_row(lambda z: flat_step(z[0]) * flat_step(z[1])),
            CORNERS,
        ),
        (f"g is {order} times differentiable", kinked, TWO),
        (f"derivatives of order {order} are separable", together, TWO),
        (module.IRREDUCIBLE, flat, TWO),
        (module.SEVERAL, whole, ONE_BLOCK),
        (module.INJECTIVE, columns(*[lambda z, j=j, k=k: z[j] ** k for j in (0, 1) for k in (2, 3, 4)]), FROM_ZERO),
    ]


@pytest.mark.parametrize(("order", "case"), [(order, case) for order in (2, 3) for case in higher(order)])
def test_breaking_one_hypothesis_of_higher_order_breaks_the_theorem_for_that_reason(
    order: int, case: tuple[str, Any, dict[str, Any]]
) -> None:
    hypothesis, subject, options = case
    found = read(subject, **options, order=order).theorem(f"Type H_{order}")
    assert found.broken == (hypothesis,)
    assert found.ambiguity(0) == Ambiguity("any")


@pytest.mark.parametrize("name", ["Type D", "Type M", "Type S", "Type H_2", "Type H_3"])
def test_without_a_region_the_topology_is_left_open(name: str) -> None:
    found = read(SCALARS, **TWO, order=3, region=None).theorem(name)
    assert found.broken == ()
    assert found.open == (*((module.PAIR,) if name == "Type M" else ()), module.CONNECTED, module.COVERS)
    assert set(read(SCALARS, **TWO, order=3, region="space").theorem(name).open) <= {module.PAIR, module.COVERS}


@pytest.mark.parametrize("name", ["Type D", "Type M", "Type S"])
def test_a_structure_leaves_generic_entries_open(name: str) -> None:
    found = read(Structure(pixels(3, 0).astype(bool))).theorem(name)
    assert found.broken == ()
    assert module.GENERIC in found.open
    assert module.GENERIC not in read(jacobians(pixels(3, 0))).theorem(name).open
    assert (module.SPANNING in found.open) == (name == "Type M")


# ---- what is said --------------------------------------------------------------------------------------------


def test_type_m_never_identifies_at_one_point() -> None:
    found = read(np.stack([pixels(3, 2)] * 3))
    assert module.ONE_POINT in found.theorem("Type M").rests_on
    assert hypothesis(found, "Type M", module.INCOMPARABLE).answer == "supported"
    sparsest = hypothesis(found, "Type S", SPARSEST)
    assert sparsest.answer == "fails"
    assert "ρ⁺ = 6, ρ⁻ = 5" in sparsest.evidence
    assert found.gap is not None
    assert (found.gap.rho_plus, found.gap.rho_minus) == (6, 5)


def test_what_overlaps_is_named() -> None:
    failing = hypothesis(read(pair_decoder(overlap=2)), "Type D", module.DISJOINT)
    assert failing.evidence.startswith("x9 x10 move with several blocks, x9 with z1 z2 and z3 z4; the second by 0.9")
    faint = lambda z: pair_decoder()(z) + 0.01 * torch.nn.functional.pad(z[:, 3:], (0, 19))  # noqa: E731
    loose = hypothesis(read(faint, tolerance=0.1), "Type D", module.DISJOINT)
    assert loose.answer == "supported"
    assert "counted as zero below 0.1" in loose.evidence
    assert hypothesis(read(faint, tolerance=1e-4), "Type D", module.DISJOINT).answer == "fails"


def test_on_a_box_an_observation_that_moves_with_one_block_here_and_another_there_is_no_type_d() -> None:
    here, there = jacobians([[1, 0], [1, 0], [0, 1], [0, 1]]), jacobians([[0, 1], [1, 0], [1, 0], [0, 1]])
    points = np.concatenate([here, there])
    assert hypothesis(read(points, blocks=[(0,), (1,)]), "Type D", module.DISJOINT).answer == "fails"
    loose = read(points, blocks=[(0,), (1,)], region=None)
    assert hypothesis(loose, "Type D", module.DISJOINT).answer == "supported"
    assert loose.hierarchy == {"Type D ⇒ Type M": True, "Type D ⇒ Type S": True}


def test_a_contained_support_is_named() -> None:
    failing = hypothesis(read(jacobians([[1, 1], [0, 1], [0, 1]])), "Type M", module.INCOMPARABLE)
    assert failing.evidence == "z2 moves all that z1 moves, at point 0 of 8"
    holding = hypothesis(read(jacobians(pixels(5, 2))), "Type M", module.INCOMPARABLE)
    assert holding.evidence.startswith("every latent moves 3 or more that another block's does not")


def test_a_reducible_block_is_reported_with_its_split() -> None:
    found = read(pair_decoder(first=separate))
    assert hypothesis(found, "Type D", module.IRREDUCIBLE).evidence == (
        "z1 z2 splits into parts that move x1 x2 x3 | x4 x5 x6"
    )
    assert hypothesis(found, "Type M", module.IRREDUCIBLE).evidence == "z1 z2 splits into incomparable z1 | z2"
    assert "z1 z2 split it into 1 + 1" in hypothesis(found, "Type S", module.IRREDUCIBLE).evidence
    assert hypothesis(found, "Type H_2", module.IRREDUCIBLE).evidence == "z1 z2 splits into 2 at point 0"


def test_a_block_that_splits_at_some_points_only_is_irreducible() -> None:
    joined, apart = (
        jacobians([[1, 1, 0]] * 4 + [[0, 0, 1]] * 2),
        jacobians(np.array([[1, 0, 0], [1, 0, 0], [0, 1, 0], [0, 1, 0], [0, 0, 1], [0, 0, 1]])),
    )
    found = read(np.concatenate([apart, joined[:1]]), blocks=[(0, 1), (2,)])
    assert hypothesis(found, "Type D", module.IRREDUCIBLE).answer == "supported"
    assert hypothesis(found, "Type D", module.IRREDUCIBLE).evidence == "no block splits, at 1 of 9 points or more"
    assert hypothesis(read(apart, blocks=[(0, 1), (2,)]), "Type D", module.IRREDUCIBLE).answer == "fails"


def test_too_few_points_cannot_show_that_gradients_span() -> None:
    two = jacobians([[1, 1, 1]] * 6, points=2)
    assert hypothesis(read(two), "Type M", module.SPANNING).answer == "unknown"
    assert hypothesis(read(np.concatenate([two, two])), "Type M", module.SPANNING).answer == "fails"


def test_an_additive_decoder_with_shared_observations_is_type_h_and_not_type_d() -> None:
    found = read(pair_decoder(overlap=10), order=2)
    assert hypothesis(found, "Type H_2", "cross-block derivatives of order 2 vanish").answer == "supported"
    assert hypothesis(found, "Type H_2", "mixed differences of order 2 vanish over the region").answer == "supported"
    assert hypothesis(found, "Type D", module.DISJOINT).answer == "fails"


def test_a_bilinear_interaction_is_of_third_order_only() -> None:
    mixed = with_row(lambda z: z[0] * z[1])
    found = read(mixed, **TWO, order=3)
    assert found.theorem("Type H_2").broken == (
        "cross-block derivatives of order 2 vanish",
        "mixed differences of order 2 vanish over the region",
    )
    assert found.theorem("Type H_3").broken == ()
    assert hypothesis(found, "Type H_2", "cross-block derivatives of order 2 vanish").evidence.startswith("z1 with")
    assert [t.name for t in read(mixed, **TWO).theorems] == ["Type M", "Type H_2", "Type S", "Type D"]


def test_a_linear_additive_decoder_identifies_nothing_by_type_h() -> None:
    linear = lambda z: z @ normal(2, 6, seed=0)  # noqa: E731
    found = read(linear, **TWO, order=3)
    assert found.theorem("Type H_2").broken == (module.IRREDUCIBLE,)
    assert hypothesis(found, "Type H_2", module.IRREDUCIBLE).evidence == "z1 is flat in 1 directions at point 0"


def test_a_piecewise_linear_decoder_that_mixes_is_seen_by_differences() -> None:
    net = torch.nn.Sequential(torch.nn.Linear(2, 12), torch.nn.LeakyReLU(0.2), torch.nn.Linear(12, 5))
    torch.nn.init.normal_(net[0].weight, generator=torch.Generator().manual_seed(0))
    torch.nn.init.normal_(net[2].weight, generator=torch.Generator().manual_seed(1))
    found = read(net, **TWO)
    local = hypothesis(found, "Type H_2", "cross-block derivatives of order 2 vanish")
    assert local.answer == "fails"
    assert "0 exactly" in local.evidence
    assert local.evidence.endswith("used: differences, which see kinks")
    assert hypothesis(found, "Type H_2", "g is 2 times differentiable").answer == "fails"


def test_derivatives_are_used_where_they_are_larger() -> None:
    name = "cross-block derivatives of order 2 vanish"
    curved = hypothesis(read(with_row(lambda z: torch.sin(4 * z[0]) * torch.sin(4 * z[1])), **TWO), "Type H_2", name)
    assert curved.answer == "fails"
    assert curved.evidence.endswith("used: exact derivatives")
    quiet = hypothesis(read(SCALARS, **TWO), "Type H_2", name)
    assert quiet.answer == "supported"
    assert "0 exactly" in quiet.evidence


def standard_points(rows: int, n: int) -> Tensor:
    """Points of mean 0 and standard deviation 1: units of spread are the latents' own."""
    at = normal(rows, n, seed=0)
    return (at - at.mean(dim=0)) / at.std(dim=0)


def local_numbers(subject: Callable[[Tensor], Tensor], order: int = 2, **options: Any) -> tuple[float, float]:
    name = f"cross-block derivatives of order {order} vanish"
    evidence = hypothesis(read(subject, order=order, **options), f"Type H_{order}", name).evidence
    exact, near = (float(evidence.split(word)[0].split()[-1]) for word in (" exactly", " by differences"))
    return exact, near


def test_differences_estimate_the_derivative_per_pair_of_latents() -> None:
    pairs = lambda z: torch.stack([(z[:, 0] + z[:, 1]) * (z[:, 2] + z[:, 3]), *z.T], dim=1)  # noqa: E731
    exact, near = local_numbers(pairs, at=standard_points(40, 4))
    assert near == pytest.approx(exact, rel=0.02)
    triples = lambda z: torch.stack([z.sum(dim=1) ** 3, *z.T], dim=1)  # noqa: E731
    exact, near = local_numbers(triples, order=3, at=standard_points(40, 4))
    assert near == pytest.approx(exact, rel=0.02)


def test_derivatives_see_what_differences_of_one_length_miss() -> None:
    waves = with_row(lambda z: torch.sin(8 * torch.pi * z[0]) * torch.sin(8 * torch.pi * z[1]))
    options = {**TWO, "at": standard_points(30, 2)}
    exact, near = local_numbers(waves, **options)
    assert near < 1e-9 < 1 < exact
    found = read(waves, **options)
    assert hypothesis(found, "Type H_2", "cross-block derivatives of order 2 vanish").answer == "fails"
