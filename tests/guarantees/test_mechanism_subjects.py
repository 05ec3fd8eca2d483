"""Mechanisms are read off worlds, structures, modules and Jacobians; what cannot be read is refused in one sentence."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import torch
from slot_decoders import SCALARS, TWO, box, hypothesis, jacobians, normal, pair_decoder, read, smooth_block
from slot_decoders import good as good
from torch import Tensor

from noumena.ambiguity import Ambiguity
from noumena.checks import InputError
from noumena.guarantees import mechanisms as module
from noumena.guarantees.factors import factors
from noumena.guarantees.mechanisms import Mechanisms, mechanisms
from noumena.guarantees.sparsity_gap import SPARSEST
from noumena.structure import Structure
from noumena.worlds import overlapping, structured
from noumena.worlds.laws import NAMES
from noumena.worlds.world import World

# ---- subjects ------------------------------------------------------------------------------------------------


SLOTTED = Structure([[1, 1, 0]] * 4 + [[0, 0, 1]] * 3)


def test_a_world_says_what_its_structure_knows() -> None:
    found = mechanisms(structured(SLOTTED, random_state=1))
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
    box_world = mechanisms(structured(SLOTTED, law="uniform", random_state=1))
    assert hypothesis(box_world, "Type D", module.CONNECTED).evidence == "the latents fill a box"
    world = structured(SLOTTED, random_state=1)
    strange = World(world.structure, replace(world.law, name="ring"), world.decoder)
    assert hypothesis(mechanisms(strange), "Type D", module.CONNECTED).answer == "unknown"
    assert hypothesis(mechanisms(strange, region="box"), "Type D", module.CONNECTED).answer == "holds"
    assert hypothesis(mechanisms(strange), "Type D", module.DISJOINT).answer == "holds"


def test_a_world_is_read_at_given_points_too() -> None:
    world = structured(SLOTTED, random_state=1)
    found = mechanisms(world, at=world.latents(5).numpy())
    assert hypothesis(found, "Type D", module.IRREDUCIBLE).evidence.endswith("of 5 points or more")


def test_a_world_of_slots_is_read_by_its_slots() -> None:
    world = overlapping(2, overlap=0.25, random_state=1)
    found = mechanisms(world)
    assert set(found.blocks.values()) == {((0, 1, 2), (3, 4, 5))}
    assert hypothesis(found, "Type S", module.SEVERAL).evidence == "2, the slots of the world"
    assert found.theorem("Type S").broken == ()
    assert found.theorems != mechanisms(world, blocks=[(j,) for j in range(6)]).theorems
    asked = mechanisms(world, blocks=[(0, 1, 2), (3, 4, 5)])
    assert [t.hypotheses[0] for t in found.theorems] == [t.hypotheses[0] for t in asked.theorems]


@pytest.mark.parametrize("sizes", [(2, 1), [2, 1], np.array([2, 1])])
def test_blocks_may_be_given_by_their_sizes(sizes: Any) -> None:
    by_size, by_latents = mechanisms(SLOTTED, blocks=sizes), mechanisms(SLOTTED, blocks=[(0, 1), (2,)])
    assert (by_size.blocks, by_size.theorems) == (by_latents.blocks, by_latents.theorems)


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
            "A decoder must be a differentiable torch function .* the error: .*mat1",
        ),
        (SCALARS, {"at": box(2)[:1]}, r"at must have at least 2 rows. Got 1 sample\(s\)"),
        (SCALARS, {"at": box(2)[0]}, r"at must have two axes, \(batch, dim\)."),
        (SCALARS, {}, "must be given latent points, at=z. Got at=None."),
        (SCALARS, {"at": box(2), "blocks": [(0,)]}, r"Blocks must partition the latents 0 to 1. Got \(\(0,\),\)."),
        (SCALARS, {"at": box(2), "blocks": [(0, 1), (1,)]}, "Blocks must partition the latents 0 to 1."),
        (SCALARS, {"at": box(2), "blocks": (3, 1)}, r"sizes of the slots must add up to 2 latents. Got \(3, 1\)."),
        (SCALARS, {"at": box(2), "blocks": (0, 1)}, "The size of a slot must be a whole number of at least 1. Got 0."),
        (SCALARS, {"at": box(2), "blocks": "two"}, "Blocks must be lists of latents' indices. Got 'two'."),
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
