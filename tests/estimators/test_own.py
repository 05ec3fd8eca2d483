"""Your own module in the library's loop: trained as by hand, and left alone unless asked."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from own_modules import QUICK, ROWS, Theirs, fitted
from torch import Tensor, nn

import noumena as nm
from noumena.checks import InputError
from noumena.estimators.penalised import Penalised
from noumena.estimators.state import ESTIMATORS


def weights(module: nn.Module) -> list[Tensor]:
    return [p.detach().clone() for p in module.parameters()]


def same(first: list[Tensor], second: list[Tensor], tolerance: float = 0.0) -> bool:
    return all(torch.allclose(a, b, rtol=0, atol=tolerance) for a, b in zip(first, second, strict=True))


# ---- what is learned -------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_penalised_module_of_ones_own_recovers_a_structure_and_its_certificate_says_what_is_not_shown() -> None:
    S = nm.Structure([[1, 0], [1, 0], [1, 0], [1, 1], [0, 1], [0, 1], [0, 1]])
    world = nm.worlds.structured(S, random_state=0)
    sample = world.sample(600)
    torch.manual_seed(0)
    pair = (
        nn.Sequential(nn.Linear(7, 32), nn.ELU(), nn.Linear(32, 2)),
        nn.Sequential(nn.Linear(2, 32), nn.ELU(), nn.Linear(32, 7)),
    )
    training = nm.Training(steps=600, batch_size=128)
    model = fitted(pair, sample.x, penalty=0.05 * nm.DependencySparsity(), standardise=True, training=training)
    assert nm.metrics.mcc(sample.z, model.transform(sample.x)).score > 0.95
    assert model.structure_.match(world.structure).hamming == 0
    certificate = nm.certify(model)
    assert certificate.gap == 1
    assert certificate.answer == "open"  # without an exactly sparse refit, small entries are not zeros
    assert "the sparse refit beats its dense twin" in certificate.unproved_premises
    assert model.history_.steps[-1] == 600


def test_a_step_is_adams_on_loss_plus_penalty() -> None:
    """One step on all rows, against torch's own Adam and a Jacobian by hand."""
    module, twin = Theirs(), Theirs()
    plan = nm.Training(steps=1, batch_size=40, held_out=0.0, schedule="constant", learning_rate=0.01)
    model = fitted(module, training=plan, penalty=0.1 * nm.DependencySparsity("l1", ramp=0))
    z = twin.encode(ROWS)
    spread = (z.var(dim=0, correction=0) + 1e-8).sqrt()
    J = torch.stack([torch.autograd.functional.jacobian(twin.decode, row, create_graph=True) for row in z])
    optimiser = torch.optim.Adam(twin.parameters(), lr=0.01)
    misfit = (twin.decode(z) - ROWS).square().sum(dim=1).mean()
    (misfit + 0.1 * (J * spread).abs().sum(dim=(1, 2)).mean()).backward()
    optimiser.step()
    assert same(weights(model.models_[0].own), weights(twin), 1e-5)  # pyright: ignore[reportArgumentType]
    assert not same(weights(twin), weights(module), 1e-3)


def test_a_decoder_module_and_a_decoder_method_give_the_same_fit() -> None:
    theirs = Theirs()
    by_method = fitted(theirs)
    by_module = fitted((theirs.inner, theirs.outer))
    by_methods = fitted((theirs.encode, theirs.decode))
    for other in (by_module, by_methods):
        assert np.allclose(by_method.transform(ROWS), other.transform(ROWS), atol=1e-5)
        assert other.terms_["penalty"] == pytest.approx(by_method.terms_["penalty"], rel=1e-4)


def test_ones_own_loss_is_minimised_by_name_by_method_and_by_function() -> None:
    theirs = Theirs()
    forms = ("loss", theirs.loss, lambda module, x: module.loss(x))
    found = [fitted(theirs, loss=form) for form in forms]
    assert all(np.array_equal(found[0].transform(ROWS), model.transform(ROWS)) for model in found)
    model = fitted(theirs, loss="loss", penalty=None, training=nm.Training(steps=1, held_out=0, learning_rate=1e-12))
    error = (theirs.decode(theirs.encode(ROWS)) - ROWS).detach().square().sum(dim=1).mean()
    assert model.terms_["loss"][0] == pytest.approx(2 * float(error), rel=1e-5)


def test_the_penalty_cannot_be_escaped_by_rescaling() -> None:
    small, large = Theirs(), Theirs()
    with torch.no_grad():
        large.inner[2].weight.mul_(1000)
        large.inner[2].bias.mul_(1000)
        large.outer[0].weight.div_(1000)
    still = nm.Training(steps=1, learning_rate=1e-12)
    values = [fitted(m, training=still).terms_["penalty"][0] for m in (small, large)]
    assert values[0] == pytest.approx(values[1], rel=1e-3)


# ---- whose weights ---------------------------------------------------------------------------------------------


def test_a_module_is_left_alone_unless_it_is_to_be_trained_in_place() -> None:
    theirs = Theirs()
    theirs.inner[1].eval()
    before, modes = weights(theirs), [m.training for m in theirs.modules()]
    model = fitted(theirs)
    assert same(weights(theirs), before)
    assert [m.training for m in theirs.modules()] == modes
    assert all(p.requires_grad for p in theirs.parameters())
    again = fitted(theirs, in_place=True)
    assert not same(weights(theirs), before, 1e-4)
    assert np.array_equal(again.transform(ROWS), model.transform(ROWS))
    with torch.no_grad():
        assert torch.equal(theirs.encode(ROWS), again.transform(ROWS))
    assert all(p.requires_grad for p in theirs.parameters())


def test_frozen_weights_stay() -> None:
    theirs = Theirs()
    theirs.inner.requires_grad_(False)
    before, outer = weights(theirs.inner), weights(theirs.outer)
    fitted(theirs, in_place=True)
    assert same(weights(theirs.inner), before)
    assert not same(weights(theirs.outer), outer, 1e-4)


def test_the_first_model_begins_with_the_weights_given_and_the_others_with_new_ones() -> None:
    still = nm.Training(steps=1, learning_rate=1e-12)
    theirs = Theirs()
    model = fitted(theirs, n_models=3, training=still, standardise=True)
    first, second, third = (weights(m.own) for m in model.models_)  # pyright: ignore[reportArgumentType]
    assert same(first, weights(theirs), 1e-6)
    assert not same(first, second, 1e-2)
    assert not same(second, third, 1e-2)
    answers = {h.name: h.answer for h in nm.certify(model).hypotheses}
    assert answers["the two best seeds agree"] in ("supported", "fails")


def test_a_checkpoint_of_other_weights_is_not_resumed(tmp_path: Any) -> None:
    plan = QUICK.changed(checkpoint=tmp_path / "kept")
    fitted(Theirs(), training=plan)
    fitted(Theirs(), training=plan)
    with pytest.raises(InputError):
        fitted(Theirs(seed=1), training=plan)


# ---- a fitted object -------------------------------------------------------------------------------------------


def test_pictures_go_in_as_they_are_and_through_convolutions() -> None:
    torch.manual_seed(0)
    encoder = nn.Sequential(nn.Conv2d(1, 2, 3, 2, 1), nn.ELU(), nn.Flatten(), nn.Linear(8, 2))
    decoder = nn.Sequential(nn.Linear(2, 8), nn.Unflatten(1, (2, 2, 2)), nn.ConvTranspose2d(2, 1, 4, 2, 1))
    images = np.random.default_rng(0).integers(0, 256, size=(20, 1, 4, 4), dtype=np.uint8)
    model = fitted((encoder, decoder), images)
    flat = images.reshape(20, 16)
    assert np.array_equal(model.transform(images), model.transform(flat))
    assert model.inverse_transform(model.transform(flat)).shape == (20, 16)
    assert model.structure_.n_observed == 16
    with torch.no_grad():
        own = model.models_[0].own.encode(torch.as_tensor(images) / 255)  # pyright: ignore
    assert np.allclose(model.transform(images), own, atol=1e-6)
    with pytest.raises(InputError, match=r"Rows must be flat or of shape \(1, 4, 4\)"):
        model.transform(images.reshape(20, 4, 4, 1))


def test_a_saved_model_is_loaded_with_its_module(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(ESTIMATORS, "Penalised", Penalised)
    model = fitted(Theirs(), loss="loss", n_models=2)
    nm.save(model, tmp_path)
    with pytest.raises(InputError, match="module= again"):
        nm.load(tmp_path)
    again = nm.load(tmp_path, module=Theirs(seed=5))
    assert np.array_equal(again.transform(ROWS), model.transform(ROWS))
    assert np.array_equal(again.structure_.dense, model.structure_.dense)


def test_randomness_of_ones_own_is_repeated_by_the_seed_and_absent_after_the_fit() -> None:
    theirs = Theirs(layer=nn.Dropout(0.5))
    state = torch.get_rng_state()
    first = fitted(theirs)
    assert torch.equal(torch.get_rng_state(), state)
    second, other = fitted(theirs), fitted(theirs, random_state=1)
    assert np.array_equal(first.transform(ROWS), second.transform(ROWS))
    assert not np.array_equal(first.transform(ROWS), other.transform(ROWS))
    assert np.array_equal(first.transform(ROWS), first.transform(ROWS))
    assert not any(m.training for m in first.models_[0].modules())


def test_dropout_is_on_while_learning_and_off_at_a_look() -> None:
    modes: list[tuple[bool, bool]] = []

    def loss(module: Any, x: Tensor) -> Tensor:
        modes.append((torch.is_grad_enabled(), module.training))
        return module.loss(x)

    fitted(Theirs(), loss=loss)
    assert set(modes) == {(True, True), (False, False)}


def test_a_posteriors_mean_is_the_first_entry_of_a_tuple() -> None:
    class Variational(Theirs):
        def encode(self, x: Tensor) -> Any:
            return self.inner(x), torch.zeros(len(x), 2)

        def loss(self, x: Tensor) -> Tensor:
            mean, log_variance = self.encode(x)
            z = mean + torch.randn_like(mean) * (log_variance / 2).exp()
            return (self.decode(z) - x).square().sum(dim=1).mean() + mean.square().sum(dim=1).mean()

    first, second = fitted(Variational(), loss="loss"), fitted(Variational(), loss="loss")
    assert first.transform(ROWS).shape == (40, 2)
    assert torch.equal(first.transform(ROWS), second.transform(ROWS))


def test_precision_is_that_of_the_training_and_half_weights_stay_half_in_place() -> None:
    theirs = Theirs().half()
    model = fitted(theirs, ROWS.double(), training=QUICK.changed(dtype="float64"), in_place=True)
    assert model.models_[0].own.owners[0].inner[0].weight.dtype == torch.float64  # pyright: ignore
    assert theirs.inner[0].weight.dtype == torch.float16
