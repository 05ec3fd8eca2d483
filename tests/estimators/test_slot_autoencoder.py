"""The slot autoencoder regroups latents without changing what it reconstructs, and recovers slots that overlap."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from sklearn.base import clone
from torch import nn

from noumena.checks import InputError
from noumena.estimators.autoencoder import Autoencoder
from noumena.estimators.fit_data import FitData
from noumena.estimators.loop import Training
from noumena.estimators.slots import NET, SlotAutoencoder, regrouped
from noumena.metrics.slots import sis
from noumena.penalties import CompositionalContrast, GroupSparsity
from noumena.worlds.slots import overlapping

QUICK = Training(steps=8, batch_size=32)


def data(n: int = 200, seed: int = 0) -> np.ndarray:
    return overlapping(2, slot_size=2, per_slot=4, overlap=0.25, random_state=1).sample(n, random_state=seed).x


def quick(**changes: object) -> SlotAutoencoder:
    given: dict = {"training": QUICK, "random_state": 0, **changes}
    return SlotAutoencoder(2, 2, **given)


# ---- regrouping ----------------------------------------------------------------------------------------------


def planted(overlap: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Jacobians of three slots of three latents in a shuffled order, and the slot of each."""
    rng = np.random.default_rng(seed)
    owner = rng.permutation(np.repeat(np.arange(3), 3))
    J = 0.01 * rng.normal(size=(8, 60, 9))
    for j, k in enumerate(owner):
        J[:, k * (20 - overlap) : k * (20 - overlap) + 20, j] += rng.normal(size=(8, 20))
    return J, owner


@pytest.mark.parametrize("overlap", [0, 5, 10, 15])
def test_latents_of_one_slot_are_put_together(overlap: int) -> None:
    for seed in range(3):
        J, owner = planted(overlap, seed)
        order = regrouped(J, 3, seed=seed)
        assert sorted(order) == list(range(9))
        assert all(len(set(owner[order[k : k + 3]])) == 1 for k in (0, 3, 6))


def test_slots_in_order_stay_as_they_are() -> None:
    J, owner = planted(5, 0)
    J = J[:, :, np.argsort(owner)]
    np.testing.assert_array_equal(regrouped(J, 3), np.arange(9))
    np.testing.assert_array_equal(regrouped(np.ones((2, 4, 6)), 2), np.arange(6))


def test_a_first_stage_ends_in_slots_of_few_observations_and_reconstructs_as_before() -> None:
    model = quick(training=Training(steps=1, batch_size=32), n_models=2)
    x = torch.as_tensor(data(), dtype=torch.float32)
    model._check()
    model.seeds_ = [0, 1]
    plain = [model._model(s, x.shape[1], torch.zeros(x.shape[1]), torch.ones(x.shape[1])) for s in (0, 1)]
    with torch.no_grad():
        for codec in plain:
            codec.encoder[-1].weight[:2] *= torch.tensor([[5.0], [0.2]])
            codec.decoder[0].weight[:, [0, 3]] *= 30.0  # two loud latents, in different slots
    before = [codec.decoder(codec.code(x)) for codec in plain]
    model._begin(plain, FitData(x, x, ""), Training(steps=1).set_params(steps=0))
    for codec, wanted in zip(plain, before, strict=True):
        torch.testing.assert_close(codec.decoder(codec.code(x)), wanted, rtol=1e-4, atol=1e-4)
        loud = codec.decoder[0].weight.norm(dim=0).topk(2).indices.sort().values.tolist()
        assert loud in ([0, 1], [2, 3])


def test_the_first_stage_takes_three_quarters_of_the_steps_and_the_rest_its_own_penalty() -> None:
    both = quick(training=Training(steps=40, batch_size=32)).fit(data())
    assert both.history_.steps[-1] == 10
    alone = quick(training=Training(steps=40, batch_size=32), first=None).fit(data())
    assert alone.history_.steps[-1] == 40
    assert both.models_[0].penalty == 0.1 * GroupSparsity(2, start=0.03, ramp=0.0, points=16)
    own = 0.2 * CompositionalContrast(2)
    assert quick(penalty=own).fit(data()).models_[0].penalty == own


def test_without_a_penalty_it_is_a_plain_autoencoder() -> None:
    slots = quick(penalty=None).fit(data())
    plain = Autoencoder(4, normalise=True, encoder=NET, decoder=NET, training=QUICK, random_state=0).fit(data())
    np.testing.assert_allclose(slots.transform(data()), plain.transform(data()), rtol=1e-5)
    assert slots.history_.steps[-1] == 8


# ---- the contract --------------------------------------------------------------------------------------------


def test_several_models_are_the_fits_of_their_seeds() -> None:
    both = quick(n_models=2).fit(data())
    second = quick(random_state=1).fit(data())
    np.testing.assert_allclose(both.transform_all(data())[1], second.transform(data()), atol=1e-4)
    assert both.n_latents == 4
    assert both.transform(data()).shape == (200, 4)
    assert clone(both).get_params(deep=False).keys() == both.get_params(deep=False).keys()


def test_unit_latents_have_unit_spread_and_free_ones_their_own() -> None:
    training = Training(steps=60, batch_size=64)
    unit = quick(training=training).fit(data(400)).transform(data(400))
    np.testing.assert_allclose(unit.std(axis=0), 1, atol=0.15)
    contrast = 0.1 * CompositionalContrast(2)
    free = quick(training=training, penalty=contrast, first=None, scale="free").fit(data(400)).transform(data(400))
    assert np.abs(free.std(axis=0) - 1).max() > 0.2


def test_an_interrupted_fit_resumes_in_both_stages(tmp_path: Path) -> None:
    x, kept = data(), tmp_path / "run.checkpoint"
    first = quick(training=Training(steps=8, batch_size=32, checkpoint=kept)).fit(x)
    assert (tmp_path / "run.checkpoint.first").exists()
    assert kept.exists()
    again = quick(training=Training(steps=8, batch_size=32, checkpoint=kept)).fit(x)
    np.testing.assert_array_equal(first.transform(x), again.transform(x))


class Doubled(nn.Module):
    """A decoder that begins with two linear layers side by side: permuting one of them is not enough."""

    def __init__(self, inputs: int, outputs: int):
        super().__init__()
        self.one, self.two = nn.Linear(inputs, 8), nn.Linear(inputs, 8)
        self.last = nn.Linear(8, outputs)

    def forward(self, z: torch.Tensor) -> torch.Tensor:
        return self.last(torch.tanh(self.one(z)) + self.two(z).abs() * 0.1)


class Widened(nn.Module):
    """An encoder without a linear layer that ends in the latents."""

    def __init__(self, inputs: int, outputs: int):
        super().__init__()
        self.wide, self.outputs = nn.Linear(inputs, outputs + 1), outputs

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.wide(x)[:, : self.outputs]


@pytest.mark.parametrize(
    ("model", "sentence"),
    [
        (SlotAutoencoder(0, 2), "n_slots must be a whole number"),
        (SlotAutoencoder(2, 0), "slot_size must be a whole number"),
        (quick(n_models=0), "n_models must be"),
        (quick().set_params(penalty="slot"), "penalty must be one of slots"),
        (quick().set_params(penalty=3), r"penalty must be a Penalty such as 0\.1 \* GroupSparsity\(2\)\. Got 3\."),
        (quick().set_params(first=3), "first must be a Penalty"),
        (quick(scale="wide"), "scale must be one of unit, free"),
        (quick(decoder=Doubled), r"begin with a linear layer\. Got networks that do not; set first=None\."),
        (quick(encoder=Widened), r"begin with a linear layer\. Got networks that do not; set first=None\."),
    ],
)
def test_bad_input_is_one_sentence(model: SlotAutoencoder, sentence: str) -> None:
    x = data()
    with pytest.raises(InputError, match=sentence) as caught:
        model.fit(x)
    assert "\n" not in str(caught.value)


# ---- recovery ------------------------------------------------------------------------------------------------


def test_overlapping_slots_are_recovered_by_the_default_and_not_without_it() -> None:
    world = overlapping(2, overlap=0.5, random_state=100)
    x, fresh = world.sample(4000).x, world.sample(800, random_state=1)
    training = Training(steps=500, batch_size=64)
    fitted = SlotAutoencoder(2, 3, training=training, random_state=0).fit(x)
    found = sis(fresh.z, fitted.transform(fresh.x), slots=world.slots).score
    plain = SlotAutoencoder(2, 3, penalty=None, training=training, random_state=0).fit(x)
    assert found > 0.9
    assert sis(fresh.z, plain.transform(fresh.x), slots=world.slots).score < 0.6
