"""Witnesses: explicit equivalent models, the counter-examples of the theory, and the verifier that can say no."""

from dataclasses import replace

import numpy as np
import pytest
import torch

import noumena as nm
from noumena.checks import InputError
from noumena.guarantees import Rivals
from noumena.guarantees.changes import Change
from noumena.guarantees.diversity import claims, clauses
from noumena.guarantees.witness import Verification, Witness, build, dependence
from noumena.worlds import World, law

SHEARED = nm.Structure([[1, 1], [0, 1]])
ROTATED = nm.Structure([[1, 1, 1], [1, 1, 1], [0, 0, 1]])


def shear_world() -> World:
    """CE1: ``g(z) = (z1 + z2 + z2³/3, z2)``."""
    return World(
        SHEARED,
        law("unit gaussian", 2),
        lambda z: torch.stack([z[:, 0] + z[:, 1] + z[:, 1] ** 3 / 3, z[:, 1]], dim=1),
    )


def rotation_world() -> World:
    """CE2: two latents with equal columns inside a third's."""

    def g(z):
        a, b, r = z.T
        first = a + b / 2 + torch.sin(a) / 4 + torch.cos(b) / 5 + r**2
        second = b - a / 2 + torch.sin(b) / 4 + torch.cos(a) / 5 + torch.sin(r)
        return torch.stack([first, second, r], dim=1)

    return World(ROTATED, law("unit gaussian", 3), g)


# ---- the two counter-examples --------------------------------------------------------------------------------


def test_the_first_counter_example_the_paper_says_yes_the_certificate_no_and_the_shear_verifies():
    certificate = nm.certify(shear_world())
    assert clauses(SHEARED).any(axis=1).all()
    assert "Definition 5 (ii)" in claims(SHEARED, 0, 1)
    assert certificate.verdict("z1", "z2").answer == "not identified"
    witness = certificate.witness("z1", "z2")
    assert witness.competitor.kind == "shear"
    found = witness.verify(tolerance=1e-6)
    assert found.holds
    assert found.observations <= 1e-6
    assert found.dependencies == 3


def test_the_shear_of_the_text_is_verified_as_written():
    certificate = nm.certify(shear_world())
    half_sine = Change(
        lambda z: torch.stack([z[:, 0] + torch.sin(z[:, 1]) / 2, z[:, 1]], dim=1),
        lambda z: torch.stack([z[:, 0] - torch.sin(z[:, 1]) / 2, z[:, 1]], dim=1),
    )
    witness = replace(certificate.witness("z1", "z2"), change=half_sine)
    assert witness.verify().holds


def test_the_second_counter_example_an_atom_under_another_latent_rotates_with_it_though_all_is_independent():
    certificate = nm.certify(rotation_world(), independent=True)
    assert "Definition 5 (ii)" in claims(ROTATED, 0, 2)
    assert {atom.names for atom in ROTATED.atoms} == {("z1", "z2"), ("z3",)}
    answer = certificate.query(ROTATED.latents("z1", "z2"))
    assert answer.answer == "not identified"
    assert answer.entangled_with.names == ("z3",)
    witness = certificate.witness("z1", "z3")
    assert witness.competitor.kind == "rotation"
    found = witness.verify(tolerance=1e-6)
    assert found.holds
    assert found.dependence < 0.05


def test_under_independence_and_assumption_1_a_singleton_below_another_latent_is_identified():
    certificate = nm.certify(shear_world(), independent=True)
    theorem = next(t for t in certificate.theorems if t.name.endswith("with independence"))
    assert theorem.broken == ()
    assert theorem.ambiguity(0) == nm.Ambiguity("element-wise")
    rotated = nm.certify(rotation_world(), independent=True)
    theorem = next(t for t in rotated.theorems if t.name.endswith("with independence"))
    assert theorem.ambiguity(0) == nm.Ambiguity("block-wise", ((0, 1, 2),))
    assert theorem.ambiguity(2) == nm.Ambiguity("element-wise")


# ---- every witness verifies --------------------------------------------------------------------------------------


def smooth_world(rng: np.random.Generator, name: str) -> World | None:
    """A random world with a smooth decoder; ``None`` when it is nearly singular."""
    d_z = int(rng.integers(2, 5))
    support = rng.random((int(rng.integers(d_z, 2 * d_z + 2)), d_z)) < rng.uniform(0.3, 0.95)
    if not support.any(axis=0).all() or not support.any(axis=1).all():
        return None
    sign = np.where(rng.random(support.shape) < 0.3, -1, 1)
    A = torch.as_tensor(support * rng.uniform(0.7, 1.3, support.shape) * sign)
    B = torch.as_tensor(support * rng.normal(size=support.shape))
    world = World(nm.Structure(support), law(name, d_z), lambda z: z @ A.T + 0.3 * torch.sin(z @ B.T))
    singular = torch.linalg.svdvals(world.jacobian(world.latents(64)))
    return world if float(singular[:, -1].min()) > 0.05 else None


def worlds(n: int, seed: int, names: tuple[str, ...]):
    rng = np.random.default_rng(seed)
    while n:
        world = smooth_world(rng, str(rng.choice(names)))
        if world is not None:
            n -= 1
            yield world


def witnesses(certificate, kinds):
    """One witness of each kind that the certificate knows a competitor of."""
    found = {}
    for competitor in certificate.competitors:
        if competitor.kind in kinds and competitor.kind not in found:
            found[competitor.kind] = build(competitor, certificate.model)
    return found


def test_every_shear_substitution_and_observation_witness_verifies_on_random_worlds():
    counts = dict.fromkeys(("shear", "substitution", "observations"), 0)
    for world in worlds(170, 0, ("gaussian", "laplace", "uniform", "correlated gaussian")):
        for kind, witness in witnesses(nm.certify(world), counts).items():
            assert witness.verify().holds, (world.structure.dense, str(witness.verify()))
            counts[kind] += 1
    assert counts["shear"] > 50
    assert counts["substitution"] > 50
    assert counts["observations"] > 0


def test_every_rotation_and_triangular_witness_verifies_on_random_independent_worlds():
    counts = dict.fromkeys(("rotation", "triangular"), 0)
    for k, world in enumerate(worlds(60, 1, ("gaussian", "unit gaussian"))):
        kinds = ("rotation", "triangular") if k < 25 else ("rotation",)
        for kind, witness in witnesses(nm.certify(world, independent=True), kinds).items():
            assert witness.verify().holds, (world.structure.dense, str(witness.verify()))
            counts[kind] += 1
    assert counts["rotation"] >= 5
    assert counts["triangular"] >= 5


def test_independent_latents_that_are_not_gaussian_rotate_after_each_is_made_so():
    world = replace(rotation_world(), law=law("laplace", 3))
    witness = nm.certify(world, independent=True).witness("z1", "z2")
    assert witness.verify().holds
    straight = nm.certify(rotation_world(), independent=True).witness("z1", "z2")
    mistaken = replace(witness, change=straight.change)
    assert mistaken.verify().dependence > 2 * witness.verify().dependence


def test_dependent_latents_leave_no_competitor_that_keeps_independence():
    world = replace(rotation_world(), law=law("correlated gaussian", 3))
    certificate = nm.certify(world, independent=True)
    assert certificate.verdict("z1", "z2").answer == "open"
    assert nm.certify(rotation_world(), independent=True).verdict("z1", "z2").answer == "not identified"


# ---- a witness is a model ------------------------------------------------------------------------------------


def test_a_witness_decodes_its_latents_to_the_same_observations_in_numpy_and_torch():
    world = shear_world()
    witness = nm.certify(world).witness("z1", "z2")
    sample = world.sample(50, random_state=3)
    z_hat = witness.latents(sample.z)
    np.testing.assert_allclose(witness(z_hat), sample.x, atol=1e-12)
    np.testing.assert_allclose(witness.inverse(z_hat), sample.z, atol=1e-12)
    assert isinstance(witness.decode(torch.as_tensor(z_hat)), torch.Tensor)
    assert np.abs(z_hat - sample.z)[:, 0].max() > 0.1


def test_an_observation_that_folds_in_a_latent_cannot_stand_for_it():
    S = nm.Structure([[1, 1], [1, 0], [0, 1]])
    straight = World(S, law("unit gaussian", 2), lambda z: torch.stack([z.sum(1), z[:, 0], z[:, 1]], dim=1))
    folded = replace(straight, decoder=lambda z: torch.stack([z[:, 0] ** 2 + z[:, 1], z[:, 0], z[:, 1]], dim=1))
    assert nm.certify(straight).competitor("z1", "z2").kind == "substitution"
    assert nm.certify(folded).competitor("z1", "z2") is None
    assert nm.certify(folded).competitor("z2", "z1").kind == "substitution"


def test_a_fitted_decoder_gets_a_witness():
    torch.manual_seed(0)
    A = torch.tensor([[1.0, 0.8], [0.0, 1.2], [0.0, -0.7], [0.9, 1.1]])
    net = torch.nn.Sequential(torch.nn.Linear(2, 4, bias=False))
    net[0].weight.data = A
    z = torch.randn(600, 2)
    witness = nm.certify(net, at=z).witness("z1", "z2")
    assert witness.competitor.kind == "shear"
    assert witness.verify().holds
    assert net[0].weight.dtype == torch.float32


@pytest.mark.parametrize(
    ("subject", "pair", "sentence"),
    [
        (nm.Structure([[1, 0], [1, 0], [1, 1], [0, 1], [0, 1]]), ("z1", "z2"), "known competitor"),
        (SHEARED, ("z1", "z2"), "built from a decoder"),
        (SHEARED, ("z1", "nobody"), "structure's names"),
    ],
)
def test_a_pair_without_a_witness_is_one_sentence(subject, pair, sentence):
    with pytest.raises(InputError, match=sentence):
        nm.certify(subject).witness(*pair)


# ---- the verifier says no ------------------------------------------------------------------------------------------


def identity() -> Change:
    return Change(lambda z: z, lambda z: z)


def test_the_verifier_refuses_equal_latents_more_dependencies_and_other_observations():
    witness = nm.certify(shear_world()).witness("z1", "z2")
    assert not replace(witness, change=identity()).verify().holds

    other_way = Change(
        lambda z: torch.stack([z[:, 0], z[:, 1] + z[:, 0]], dim=1),
        lambda z: torch.stack([z[:, 0], z[:, 1] - z[:, 0]], dim=1),
    )
    denser = replace(witness, change=other_way, competitor=replace(witness.competitor, latent=1)).verify()
    assert denser.dependencies == 4
    assert denser.mixing > 0.1
    assert not denser.holds

    wrong = replace(witness, change=replace(witness.change, inverse=lambda z: z)).verify()
    assert wrong.observations > 0.1
    assert not wrong.holds


def test_the_verifier_refuses_dependent_latents_where_independence_is_demanded():
    witness = nm.certify(rotation_world(), independent=True).witness("z1", "z2")
    shear = Change(
        lambda z: torch.stack([z[:, 0] + z[:, 1], z[:, 1], z[:, 2]], dim=1),
        lambda z: torch.stack([z[:, 0] - z[:, 1], z[:, 1], z[:, 2]], dim=1),
    )
    found = replace(witness, change=shear).verify()
    assert found.observations < 1e-12
    assert found.dependence > 0.15
    assert not found.holds
    assert "not verified" in str(found)


def test_dependence_is_near_zero_for_independent_and_one_for_equal_columns():
    rng = np.random.default_rng(0)
    z = rng.normal(size=(4000, 3))
    assert dependence(z) < 0.03
    assert dependence(np.c_[z[:, 0], z[:, 0] ** 3]) == pytest.approx(1)
    assert 0.2 < dependence(np.c_[z[:, 0], z[:, 0] + z[:, 1]]) < 0.9
    assert dependence(np.c_[z[:, 0], z[:, 0] ** 2]) > 0.5


def test_a_verification_needs_every_part():
    good = Verification(1e-9, 3, 3, 0.5, 0.0, True, 1e-6)
    assert good.holds
    for part in ({"observations": 1e-3}, {"dependencies": 4}, {"mixing": 0.0}, {"dependence": 0.5}):
        assert not replace(good, **part).holds
    assert replace(good, dependence=0.5, independent=False).holds


# ---- competitors by structure --------------------------------------------------------------------------------------


def test_independence_leaves_rotations_and_triangles():
    dense = nm.Structure(np.ones((3, 2), dtype=bool))
    assert {c.kind for c in Rivals(dense, independent=True)} == {"rotation", "triangular"}
    assert {c.kind for c in Rivals(SHEARED, independent=True)} == {"triangular"}
    assert {c.kind for c in Rivals(nm.Structure(np.eye(3, dtype=bool)), independent=True)} == set()
    assert {c.kind for c in Rivals(SHEARED)} >= {"shear"}


def test_a_nearly_full_structure_is_not_identified_by_independence():
    lack_one = nm.worlds.family("lack-one", 4, 4)
    rivals = [c for c in Rivals(lack_one, independent=True) if c.kind == "triangular"]
    assert rivals
    assert all(c.change <= 0 for c in rivals)
    assert min(c.change for c in rivals) == 4 * 5 // 2 - len(lack_one)


def test_a_witness_knows_its_words():
    witness = nm.certify(shear_world()).witness("z1", "z2")
    assert isinstance(witness, Witness)
    assert "z1 + s(z2)" in str(witness)
