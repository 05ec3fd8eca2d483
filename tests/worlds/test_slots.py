"""An overlapping world has its windows, its facts hold at fresh points, and mechanisms read it as the theory says."""

import numpy as np
import pytest
import torch

from noumena.checks import InputError
from noumena.guarantees.mechanisms import mechanisms
from noumena.worlds.laws import law
from noumena.worlds.slots import LEAST_SHARE, PROBES, RANK_MARGIN, SECANT_MARGIN, SlotBlocks, SlotWorld, overlapping

BUILT = {"apart": (2, 0.0), "a quarter": (3, 0.25), "half": (2, 0.5), "three quarters": (3, 0.75)}


@pytest.fixture(scope="module", params=BUILT)
def world(request: pytest.FixtureRequest) -> SlotWorld:
    n_slots, overlap = BUILT[request.param]
    return overlapping(n_slots, overlap=overlap, random_state=1)


def heard(world: SlotWorld) -> np.ndarray:
    """(observed, slot)"""
    return world.structure.dense[:, ::3]


def test_moving_a_slot_moves_exactly_its_observations(world: SlotWorld) -> None:
    z = world.sample(100, random_state=5).z
    for k in range(len(world.slots)):
        moved = z.copy()
        moved[:, 3 * k : 3 * k + 3] += 1.0
        moves = (world.decode(moved) != world.decode(z)).any(axis=0)
        np.testing.assert_array_equal(moves, heard(world)[:, k])


def test_the_facts_hold_at_fresh_points(world: SlotWorld) -> None:
    z = world.sample(PROBES, random_state=7).z
    J = world.jacobian(z)
    np.testing.assert_array_equal((J != 0).any(axis=0), world.structure.dense)
    assert world.facts["support exact"] == 1
    margins = [s[-1] / s[0] for s in np.linalg.svd(J, compute_uv=False)]
    assert world.facts["rank margin"] > RANK_MARGIN
    assert min(margins) == pytest.approx(world.facts["rank margin"], rel=0.3)
    other = world.sample(PROBES, random_state=8).z
    stretches = []
    for k in range(len(world.slots) + 1):
        moved = other.copy()
        if k < len(world.slots):
            moved = z.copy()
            moved[:, 3 * k : 3 * k + 3] = other[:, 3 * k : 3 * k + 3]
        stretches.append(
            np.linalg.norm(world.decode(moved) - world.decode(z), axis=1) / np.linalg.norm(moved - z, axis=1)
        )
    assert world.facts["secant margin"] > SECANT_MARGIN
    assert np.min(stretches) / np.max(stretches) == pytest.approx(world.facts["secant margin"], rel=0.4)
    share = np.abs(J).mean(axis=0) * z.std(axis=0) / world.decode(z).std(axis=0)[:, None]
    least = np.linalg.norm(share.reshape(len(share), -1, 3), axis=2)[heard(world)].min()
    assert least > LEAST_SHARE
    assert least == pytest.approx(world.facts["least share"], rel=0.1)


def test_contributions_of_the_slots_add_up_and_are_equally_loud(world: SlotWorld) -> None:
    z = world.latents(4000, random_state=9)
    silence = torch.zeros_like(z)
    parts, still = [], world.decode(silence)
    for k in range(len(world.slots)):
        alone = silence.clone()
        alone[:, 3 * k : 3 * k + 3] = z[:, 3 * k : 3 * k + 3]
        parts.append(world.decode(alone) - still)
    torch.testing.assert_close(torch.stack(parts).sum(dim=0) + still, world.decode(z))
    loud = torch.stack([part.std(dim=0) for part in parts], dim=1).numpy()[heard(world)]
    np.testing.assert_allclose(loud, 1, atol=0.15)


@pytest.mark.parametrize(
    ("overlap", "shared"), [(0.0, (0, 0, 0)), (0.25, (5, 0, 0)), (0.5, (10, 0, 0)), (0.75, (15, 10, 5))]
)
def test_windows_form_a_chain(overlap: float, shared: tuple[int, ...]) -> None:
    world = overlapping(4, overlap=overlap)
    slots = heard(world)
    together = slots.T.astype(int) @ slots.astype(int)
    for apart, count in enumerate(shared, start=1):
        assert set(np.diagonal(together, apart).tolist()) == {count}
    assert set(np.diagonal(together).tolist()) == {20}
    assert world.n_observed == 20 + 3 * (20 - shared[0])
    assert slots.sum(axis=1).max() == {0: 1, 5: 2, 10: 2, 15: 4}[shared[0]]
    assert world.slots == (3, 3, 3, 3)


def test_a_block_is_curved_and_each_slot_has_its_own() -> None:
    world = overlapping(2, random_state=3)
    J = world.jacobian(world.sample(200).z)
    assert np.abs(J - J.mean(axis=0)).mean() > 0.1 * np.abs(J).mean()
    assert not np.allclose(J[:, :20, :3], J[:, 20:, 3:])


def test_laws_noise_and_seeds_are_those_asked_for() -> None:
    correlated = overlapping(2, law="correlated gaussian", random_state=2)
    assert np.abs(np.corrcoef(correlated.sample(2000).z.T)[:3, 3:]).max() > 0.15
    assert overlapping(2, law=law("laplace", 6)).law.name == "laplace"
    noisy, clean = overlapping(2, noise=0.5).sample(500), overlapping(2).sample(500)
    assert (noisy.x - clean.x).std() == pytest.approx(0.5, rel=0.1)
    np.testing.assert_array_equal(clean.x, overlapping(2).sample(500).x)
    assert not np.allclose(clean.x, overlapping(2, random_state=1).sample(500).x)


def test_other_sizes_of_slots_and_windows_work() -> None:
    world = overlapping(3, slot_size=2, per_slot=7, overlap=0.3)
    assert (world.slots, world.n_observed) == ((2, 2, 2), 17)


BLOCKS = ((0, 1, 2), (3, 4, 5))


@pytest.mark.parametrize(("overlap", "disjoint"), [(0.0, True), (0.25, False), (0.75, False)])
def test_only_slots_apart_are_of_type_d_and_all_are_of_type_s(overlap: float, disjoint: bool) -> None:
    read = mechanisms(overlapping(2, overlap=overlap, random_state=1), blocks=BLOCKS)
    answers = {t.name: t.hypotheses[0].answer for t in read.theorems}
    assert (answers["Type D"] == "holds") is disjoint
    assert answers["Type S"] in ("holds", "supported")
    assert answers["Type H_2"] != "fails"


def test_a_world_that_cannot_be_verified_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("noumena.worlds.slots.MOST_DRAWS", 2)
    fold = SlotBlocks.contributions
    monkeypatch.setattr(SlotBlocks, "contributions", lambda self, z: fold(self, z.abs()))
    with pytest.raises(InputError, match=r"let every slot be heard\. Got none in 2 draws"):
        overlapping(2)
