"""Mechanisms: a subject that satisfies a theorem gets it, and breaking one hypothesis loses it for that reason."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from noumena.ambiguity import Ambiguity
from noumena.checks import InputError
from noumena.guarantees import mechanisms as module
from noumena.guarantees.factors import factors
from noumena.guarantees.mechanisms import Mechanisms, mechanisms
from noumena.guarantees.sparsity_gap import SPARSEST
from noumena.structure import Structure
from noumena.worlds import structured
from noumena.worlds.laws import NAMES
from noumena.worlds.world import World

PAIRS = ((0, 1), (2, 3))
ROWS = 10


def box(n: int, *, rows: int = 24, seed: int = 0) -> Tensor:
    return 2 * torch.rand(rows, n, generator=torch.Generator().manual_seed(seed), dtype=torch.float64) - 1


def normal(*shape: int, seed: int) -> Tensor:
    return torch.as_tensor(np.random.default_rng(seed).normal(size=shape))


def smooth_block(z: Tensor, *, seed: int, rows: int = ROWS) -> Tensor:
    """A generic smooth function of all given latents."""
    hidden = torch.tanh(z @ normal(z.shape[1], 16, seed=seed) + normal(16, seed=seed + 1))
    return hidden @ normal(16, rows, seed=seed + 2)


def pair_decoder(*, overlap: int = 0, first: Callable[[Tensor], Tensor] | None = None) -> Callable[[Tensor], Tensor]:
    """Two blocks of two latents with ten observations each, the last of the one added to the first of the other."""

    def decode(z: Tensor) -> Tensor:
        one = smooth_block(z[:, :2], seed=1) if first is None else first(z[:, :2])
        two = smooth_block(z[:, 2:], seed=5)
        pad = torch.nn.functional.pad
        return pad(one, (0, two.shape[1] - overlap)) + pad(two, (one.shape[1] - overlap, 0))

    return decode


def columns(*rows: Callable[[Tensor], Tensor]) -> Callable[[Tensor], Tensor]:
    """A decoder from one function of all latents (given as columns) per observation."""
    return lambda z: torch.stack([row(z.T) for row in rows], dim=1)


SCALARS = columns(
    lambda z: z[0],
    lambda z: z[0] ** 2,
    lambda z: torch.exp(z[0]),
    lambda z: z[1],
    lambda z: z[1] ** 2,
    lambda z: torch.exp(z[1]),
)
"""Two latents, three observations each: Type D, and curved to the third order."""


def with_row(row: Callable[[Tensor], Tensor]) -> Callable[[Tensor], Tensor]:
    """The two scalars with one more observation."""
    return lambda z: torch.cat([SCALARS(z), row(z.T)[:, None]], dim=1)


def jacobians(support: Any, *, points: int = 8, seed: int = 0) -> np.ndarray:
    present = np.asarray(support, dtype=float)
    return present * np.random.default_rng(seed).normal(size=(points, *present.shape))


def pixels(p: int, q: int) -> np.ndarray:
    return np.array([[1.0, 0]] * (p - q) + [[1, 1]] * q + [[0, 1]] * (p - q))


def read(subject: Any, **options: Any) -> Mechanisms:
    if callable(subject):
        options = {"at": box(4), "blocks": PAIRS, **options}
    return mechanisms(subject, **{"region": "box", **options})


# ---- every hypothesis of every theorem -----------------------------------------------------------------------


@pytest.fixture(scope="module")
def good() -> Mechanisms:
    return read(pair_decoder(), order=3)


@pytest.mark.parametrize("name", ["Type D", "Type M", "Type S", "Type H_2", "Type H_3"])
def test_a_decoder_of_separate_smooth_slots_satisfies_every_theorem(good: Mechanisms, name: str) -> None:
    theorem = good.theorem(name)
    assert theorem.broken == ()
    assert theorem.open == ((module.PAIR, module.COVERS) if name == "Type M" else (module.COVERS,))
    assert theorem.ambiguity(0) == Ambiguity("block-wise", PAIRS)
    assert theorem.source.startswith("mechanistic independence, Thm ")


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
TWO = {"at": box(2), "blocks": [(0,), (1,)]}
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


def hypothesis(found: Mechanisms, theorem: str, name: str) -> Any:
    return next(h for h in found.theorem(theorem).hypotheses if h.name == name)


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


# ---- subjects ------------------------------------------------------------------------------------------------


SLOTTED = Structure([[1, 1, 0]] * 4 + [[0, 0, 1]] * 3)


def test_a_world_says_what_its_structure_knows() -> None:
    found = mechanisms(structured(SLOTTED, seed=1))
    assert found.subject == "world"
    assert found.blocks["Type D"] == ((0, 1), (2,))
    type_d = found.theorem("Type D")
    assert type_d.broken == ()
    assert type_d.open == (module.COVERS,)
    assert hypothesis(found, "Type D", module.DISJOINT).answer == "holds"
    assert hypothesis(found, "Type D", module.CONNECTED).evidence == "the latents fill ℝⁿ"
    assert "g is 2 times differentiable" in found.theorem("Type H_2").broken
    assert hypothesis(found, "Type M", module.TOGETHER).answer == "fails"


def test_the_law_says_where_latents_live() -> None:
    assert set(module.LAWS) <= set(NAMES)
    box_world = mechanisms(structured(SLOTTED, law="uniform", seed=1))
    assert hypothesis(box_world, "Type D", module.CONNECTED).evidence == "the latents fill a box"
    world = structured(SLOTTED, seed=1)
    strange = World(world.structure, replace(world.law, name="ring"), world.decoder)
    assert hypothesis(mechanisms(strange), "Type D", module.CONNECTED).answer == "unknown"
    assert hypothesis(mechanisms(strange, region="box"), "Type D", module.CONNECTED).answer == "holds"
    assert hypothesis(mechanisms(strange), "Type D", module.DISJOINT).answer == "holds"


def test_a_world_is_read_at_given_points_too() -> None:
    world = structured(SLOTTED, seed=1)
    found = mechanisms(world, at=world.latents(5).numpy())
    assert hypothesis(found, "Type D", module.IRREDUCIBLE).evidence.endswith("of 5 points or more")


def test_a_structure_is_read_by_its_support_and_generic_numbers() -> None:
    found = mechanisms(SLOTTED)
    assert [t.name for t in found.theorems] == ["Type D", "Type M", "Type S"]
    assert found.blocks == {"Type D": ((0, 1), (2,)), "Type M": ((0,), (1,), (2,)), "Type S": ((0,), (1,), (2,))}
    assert hypothesis(found, "Type D", module.DISJOINT).answer == "holds"
    assert hypothesis(found, "Type D", module.IRREDUCIBLE).answer == "holds"
    assert hypothesis(found, "Type D", module.INJECTIVE).answer == "holds"
    slots = mechanisms(SLOTTED, blocks=[(0, 1), (2,)])
    assert hypothesis(slots, "Type S", SPARSEST).answer == "holds"
    assert hypothesis(slots, "Type M", module.INCOMPARABLE).answer == "holds"
    assert hypothesis(slots, "Type M", module.IRREDUCIBLE).answer == "holds"
    deficient = mechanisms(Structure([[1, 1, 1], [1, 0, 0], [1, 0, 0]]))
    assert hypothesis(deficient, "Type D", module.INJECTIVE).answer == "fails"
    assert deficient.gap is None
    assert mechanisms(jacobians([[1, 0], [1, 0]])).factors is None


def test_remixed_latents_are_one_block_whose_factors_are_found() -> None:
    mix = normal(2, 2, seed=3)
    found = read(lambda z: SCALARS(z @ mix), at=box(2), blocks=None)
    assert found.theorem("Type D").broken == (module.IRREDUCIBLE, module.SEVERAL)
    assert found.factors is not None
    assert found.factors.observed == ((0, 1, 2), (3, 4, 5))
    assert np.abs(np.linalg.solve(found.factors.basis, np.eye(2))).min() > 0
    assert hypothesis(found, "Type D", module.SEVERAL).evidence == "1, the components of G_D"


def test_blocks_are_said_to_be_given_found_or_scalar() -> None:
    found = mechanisms(SLOTTED)
    assert hypothesis(found, "Type D", module.SEVERAL).evidence == "2, the components of G_D"
    assert hypothesis(found, "Type S", module.SEVERAL).evidence == "3, each latent a block of its own"
    assert hypothesis(mechanisms(SLOTTED, blocks=[(0, 1), (2,)]), "Type D", module.SEVERAL).evidence == "2, as given"


def test_the_finer_conclusion_is_the_stronger() -> None:
    support = [[1, 0, 0]] * 3 + [[1, 1, 0]] + [[0, 1, 0]] * 3 + [[0, 0, 1]] * 3
    found = read(jacobians(support))
    assert found.theorem("Type D").ambiguity(0) == Ambiguity("block-wise", ((0, 1), (2,)))
    assert found.strongest is not None
    assert found.strongest.name == "Type S"
    assert found.ambiguity(0) == Ambiguity("element-wise")
    given = read(jacobians(support), blocks=[(0, 1), (2,)])
    assert [t.name for t in given.theorems] == ["Type M", "Type S", "Type D"]


def test_a_reading_prints_and_travels(good: Mechanisms) -> None:
    json.dumps(good.to_dict())
    assert "Type D pins the latents down up to block-wise" in str(good)
    assert good.headline.startswith("Type D")


def test_a_module_is_read_in_double_precision_and_left_alone() -> None:
    net = torch.nn.Sequential(torch.nn.Linear(2, 6), torch.nn.Tanh(), torch.nn.Linear(6, 5))
    before = {name: p.clone() for name, p in net.named_parameters()}
    read(net, at=box(2).float(), blocks=None)
    assert net.training
    assert all(p.dtype == torch.float32 and bool((p == before[name]).all()) for name, p in net.named_parameters())
    assert all(p.requires_grad and p.grad is None for p in net.parameters())


def test_a_module_in_training_is_read_as_it_would_be_used() -> None:
    net = torch.nn.Sequential(torch.nn.Linear(2, 6), torch.nn.Dropout(0.5), torch.nn.Tanh(), torch.nn.Linear(6, 5))
    assert read(net.train(), at=box(2), blocks=None).theorem("Type D").broken == (module.SEVERAL,)


def test_single_precision_and_whole_numbers_are_welcome() -> None:
    found = read(SCALARS, **{**TWO, "at": box(2).float()})
    assert found.theorem("Type H_2").broken == ()
    assert "tolerance 0.0012" in hypothesis(found, "Type H_2", "cross-block derivatives of order 2 vanish").evidence
    assert read(SCALARS, **{**TWO, "at": torch.tensor([[0, 1], [1, 0], [2, 2]])}).theorem("Type D").broken == ()
    assert read(SCALARS, **{**TWO, "at": box(2).numpy()}).theorem("Type D").broken == ()


def test_verdicts_do_not_depend_on_units() -> None:
    scaled = lambda z: pair_decoder()(z / torch.tensor([1e3, 1, 1e-3, 1], dtype=torch.float64)) * 1e4  # noqa: E731
    at = box(4) * torch.tensor([1e3, 1, 1e-3, 1], dtype=torch.float64)
    before, after = read(pair_decoder()), read(scaled, at=at)
    assert [(h.name, h.answer) for h in before.hypotheses] == [(h.name, h.answer) for h in after.hypotheses]


# ---- hierarchy -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(12))
def test_type_d_implies_the_others_on_random_decoders(seed: int) -> None:
    rng = np.random.default_rng(seed)
    sizes = [int(k) for k in rng.integers(1, 3, size=int(rng.integers(2, 4)))]
    edges = np.cumsum([0, *sizes])
    blocks = [tuple(range(a, b)) for a, b in pairwise(edges.tolist())]

    def decode(z: Tensor) -> Tensor:
        return torch.cat([smooth_block(z[:, list(b)], seed=seed + b[0], rows=5) for b in blocks], dim=1)

    n = int(edges[-1])
    found = read(decode, at=box(n, rows=12, seed=seed), blocks=blocks, order=3)
    assert len(found.hierarchy) == 4
    assert all(found.hierarchy.values())
    assert all(found.theorem(name).hypotheses[0].answer == "supported" for name in found.blocks)
    mixed = read(lambda z: smooth_block(z, seed=seed), at=box(n, rows=12), blocks=blocks, order=3)
    assert all(mixed.hierarchy.values())
    assert mixed.theorem("Type D").hypotheses[0].answer == mixed.theorem("Type H_2").hypotheses[0].answer == "fails"


def test_answers_that_contradict_the_hierarchy_are_shown(good: Mechanisms) -> None:
    def with_answer(name: str, answer: str) -> Mechanisms:
        theorems = [
            replace(t, hypotheses=(replace(t.hypotheses[0], answer=answer), *t.hypotheses[1:])) if t.name == name else t
            for t in good.theorems
        ]
        return replace(good, theorems=tuple(theorems))

    assert with_answer("Type S", "fails").hierarchy["Type D ⇒ Type S"] is False
    assert with_answer("Type M", "fails").hierarchy["Type D ⇒ Type M"] is False
    assert with_answer("Type H_3", "fails").hierarchy["Type H_2 ⇒ Type H_3"] is False
    assert with_answer("Type S", "unknown").hierarchy["Type D ⇒ Type S"] is True
    assert with_answer("Type D", "fails").hierarchy["Type D ⇒ Type S"] is True
    assert mechanisms(SLOTTED).hierarchy == {}


# ---- bad input -----------------------------------------------------------------------------------------------


class Leaves(torch.nn.Module):
    def forward(self, z: Tensor) -> Tensor:
        return torch.as_tensor(np.sin(z.numpy()))


@pytest.mark.parametrize(
    ("subject", "options", "sentence"),
    [
        (Leaves(), {"at": box(2)}, "A decoder must be a differentiable torch function .* the error: Cannot"),
        (
            lambda z: SCALARS(z.detach()),
            {"at": box(2)},
            "A decoder must be differentiable by torch. Got a zero derivative for z1",
        ),
        (
            lambda z: torch.cat([z[:, :1], z[:, 1:].detach()], 1),
            {"at": box(2)},
            "Got a zero derivative for z2, which moves",
        ),
        (
            lambda z: z[:3],
            {"at": box(2)},
            r"A decoder must send \(24, 2\) to \(batch, observed\) of the same batch. Got \(3, 2\).",
        ),
        (lambda z: z[:, 0], {"at": box(2)}, r"of the same batch. Got \(24,\)."),
        (lambda z: [1.0], {"at": box(2)}, "of the same batch. Got list."),
        (lambda z: z / 0, {"at": box(2)}, "A decoder must be finite at the points. Got NaN or inf observations."),
        (
            lambda z: z @ torch.ones(3, 2),
            {"at": box(2)},
            "A decoder must be a differentiable torch function .* the error: mat1",
        ),
        (SCALARS, {"at": box(2)[:1]}, r"at must have at least 2 rows. Got 1 sample\(s\)"),
        (SCALARS, {"at": box(2)[0]}, r"at must have two axes, \(batch, dim\)."),
        (SCALARS, {}, "must be given latent points, at=z. Got at=None."),
        (SCALARS, {"at": box(2), "blocks": [(0,)]}, r"Blocks must partition the latents 0 to 1. Got \(\(0,\),\)."),
        (SCALARS, {"at": box(2), "blocks": [(0, 1), (1,)]}, "Blocks must partition the latents 0 to 1."),
        (SCALARS, {"at": box(2), "order": 4}, "order must be 2 or 3. Got 4."),
        (SCALARS, {"at": box(2), "region": "ring"}, "region must be one of box, space. Got 'ring'."),
        (SCALARS, {"at": box(2), "tolerance": -1}, "tolerance must be a finite number"),
        (np.ones((1, 4, 2)), {}, "Mechanisms are read off at two points or more. Got 1."),
        (np.ones((4, 2)), {}, r"Jacobians must have three axes, \(point, observed, latent\). Got shape \(4, 2\)."),
        (np.full((2, 4, 2), np.nan), {}, "Jacobians must be finite. Got NaN or inf entries."),
    ],
)
def test_what_cannot_be_read_is_refused_in_one_sentence(subject: Any, options: dict[str, Any], sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        mechanisms(subject, **options)


def test_jacobians_may_be_tensors_and_fewer_observations_than_latents_are_not_injective() -> None:
    found = mechanisms(torch.as_tensor(jacobians(np.ones((2, 3)))))
    assert hypothesis(found, "Type D", module.INJECTIVE).evidence == "2 observations of 3 latents"
    assert factors(jacobians(np.ones((4, 3)))).count == 1
