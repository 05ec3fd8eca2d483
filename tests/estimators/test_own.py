"""Your own module in the library's loop: trained as by hand, left alone unless asked, refused in one sentence."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import noumena as nm
from noumena.checks import InputError
from noumena.estimators import runs
from noumena.estimators.own import Penalised, fit_penalised, paired

ROWS = torch.randn(40, 6, generator=torch.Generator().manual_seed(0))
QUICK = nm.Training(steps=4, batch_size=16)
PENALTY = 0.1 * nm.DependencySparsity("l1")


class Theirs(nn.Module):
    def __init__(self, *, seed: int = 0, layer: nn.Module | None = None):
        super().__init__()
        torch.manual_seed(seed)
        self.inner = nn.Sequential(nn.Linear(6, 8), layer or nn.Tanh(), nn.Linear(8, 2))
        self.outer = nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, 6))

    def encode(self, x: Tensor) -> Any:
        return self.inner(x)

    def decode(self, z: Tensor) -> Any:
        return self.outer(z)

    def loss(self, x: Tensor) -> Tensor:
        return 2 * (self.decode(self.encode(x)) - x).square().sum(dim=1).mean()


def fitted(module: Any, rows: Any = ROWS, **settings: Any) -> Penalised:
    return fit_penalised(module, rows, **({"penalty": PENALTY, "training": QUICK, "random_state": 0} | settings))


def refusal(module: Any, rows: Any = ROWS, **settings: Any) -> str:
    with pytest.raises(InputError) as error:
        fitted(module, rows, **settings)
    sentence = str(error.value)
    assert "\n" not in sentence
    assert " Got " in sentence
    assert sentence.endswith(".")
    return sentence


def weights(module: nn.Module) -> list[Tensor]:
    return [p.detach().clone() for p in module.parameters()]


def same(first: list[Tensor], second: list[Tensor], tolerance: float = 0.0) -> bool:
    return all(torch.allclose(a, b, rtol=0, atol=tolerance) for a, b in zip(first, second, strict=True))


# ---- what is learned -------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_penalised_module_of_ones_own_recovers_a_structure_and_is_certified() -> None:
    S = nm.Structure([[1, 0], [1, 0], [1, 0], [1, 1], [0, 1], [0, 1], [0, 1]])
    world = nm.worlds.structured(S, seed=0)
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
    assert certificate.answer == "identified"
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
    monkeypatch.setitem(runs.ESTIMATORS, "Penalised", Penalised)
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


# ---- what is refused -------------------------------------------------------------------------------------------


def test_batch_normalisation_is_refused_in_training_mode_and_taken_when_settled() -> None:
    theirs = Theirs(layer=nn.BatchNorm1d(8))
    assert "Got 0.inner.1.running_mean." in refusal(theirs)
    theirs.inner[1].eval()
    fitted(theirs)
    assert "must take a single row" in refusal(Theirs(layer=nn.BatchNorm1d(8, track_running_stats=False)))


class Counting(Theirs):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("calls", torch.zeros(()))

    def encode(self, x: Tensor) -> Tensor:
        self.calls.add_(1)  # pyright: ignore[reportCallIssue]
        return self.inner(x)


def test_a_module_that_changes_when_it_is_asked_is_refused_unchanged() -> None:
    theirs = Counting()
    assert "Buffers must not change in a forward pass" in refusal(theirs)
    assert float(theirs.calls) == 0  # pyright: ignore[reportArgumentType]


class Sampling(Theirs):
    def encode(self, x: Tensor) -> Tensor:
        return self.inner(x) + torch.randn(len(x), 2)


class Mixing(Theirs):
    def encode(self, x: Tensor) -> Tensor:
        return self.inner(x - x.mean(dim=0))


class Wordy(Theirs):
    def encode(self, x: Tensor) -> Any:
        return "latents"


class Tupled(Theirs):
    def decode(self, z: Tensor) -> Any:
        return self.outer(z), z


class Wide(Theirs):
    def encode(self, x: Tensor) -> Tensor:
        return self.inner(x)[:, :, None]


class Narrow(Theirs):
    def decode(self, z: Tensor) -> Tensor:
        return self.outer(z)[:, :3]


@pytest.mark.parametrize(
    ("module", "words"),
    [
        (Sampling(), "same latents at every call"),
        (Mixing(), "encode must treat rows one by one."),
        (Wordy(), "The encoder must give a tensor. Got a str."),
        (Tupled(), "The decoder must give a tensor. Got a tuple."),
        (Wide(), "(batch, latent). Got shape (2, 2, 1)."),
        (Narrow(), "Got (8, 3) flat, for (8, 6)."),
        (nn.Linear(6, 2), "give a pair (encoder, decoder) otherwise. Got a Linear."),
        ("module", "Got a str."),
        ((nn.Linear(6, 2),), "Got a tuple."),
        ((nn.Linear(5, 2), nn.Linear(2, 6)), "The encoder must take rows of shape (6,). Got the error: "),
        ((nn.Linear(6, 2), nn.Linear(3, 6)), "The decoder must take latents of shape (8, 2). Got the error: "),
        ((nn.LazyLinear(2), nn.Linear(2, 6)), "lazy or on the device meta"),
        ((nn.Linear(6, 2, device="meta"), nn.Linear(2, 6)), "lazy or on the device meta"),
        ((lambda x: x[:, :2], lambda z: z.repeat(1, 3)), "weights to train"),
        (copy.deepcopy(Theirs()).requires_grad_(False), "weights to train. Got none"),
    ],
)
def test_a_module_that_cannot_be_trained_is_refused(module: Any, words: str) -> None:
    assert words in refusal(module)


def test_a_function_that_hides_a_module_is_refused() -> None:
    theirs = Theirs()
    assert "Got a function that uses a Theirs." in refusal((theirs.inner, lambda z: theirs.decode(z)))


def test_losses_that_cannot_be_minimised_are_refused() -> None:
    theirs = Theirs()
    assert "Got 'no_such'." in refusal(theirs, loss="no_such")
    assert "one that depends on none" in refusal(theirs, loss=lambda module, x: theirs.loss(x))
    assert "loss must give a scalar. Got shape (8, 2)." in refusal(theirs, loss=lambda module, x: module.encode(x))
    assert "Got the error: " in refusal(theirs, loss=lambda x: x.sum())
    assert "depends on none" in refusal(theirs, loss=lambda module, x: module.loss(x).detach())


def test_settings_and_data_that_do_not_fit_are_refused() -> None:
    theirs = Theirs()
    assert "polish must be 0" in refusal(theirs, training=nm.Training(steps=4, polish=1))
    assert "shape must have the 6 numbers of a row. Got (2, 2)." in refusal(theirs, shape=(2, 2))
    loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(ROWS))
    assert "Got a DataLoader." in refusal(theirs, loader)
    theirs.scale = nn.Parameter(torch.ones(()))
    assert "Got a Theirs without it." in refusal(theirs, n_models=2)


def test_a_pair_shares_weights_with_what_it_was_made_of() -> None:
    theirs = Theirs()
    pair = paired((theirs.encode, theirs.decode))
    assert [owner is theirs for owner in pair.owners] == [True]
    assert paired(pair) is pair
    assert paired(theirs).whole is theirs


# ---- certify takes any decoder ---------------------------------------------------------------------------------

POINTS = torch.randn(32, 2, generator=torch.Generator().manual_seed(1))
MATRIX = torch.tensor([[1.0, 0], [1.3, 0], [0.7, 0], [1, 1.2], [0.8, -1], [0, 1], [0, 1.1], [0, 0.9]])


def sparse_layer() -> nn.Linear:
    layer = nn.Linear(2, 8, bias=False)
    layer.weight = nn.Parameter(MATRIX.clone())
    return layer


def test_a_convolutional_decoder_is_certified_by_its_own_support() -> None:
    maps = nn.ConvTranspose2d(8, 8, 2, 2, groups=8, bias=False)
    nn.init.uniform_(maps.weight, 0.5, 1.5)
    decoder = nn.Sequential(sparse_layer(), nn.Unflatten(1, (8, 1, 1)), maps, nn.Flatten())
    certificate = nm.certify(decoder, at=POINTS)
    assert np.array_equal(certificate.structure.dense, np.repeat(MATRIX.numpy() != 0, 4, axis=0))
    assert certificate.answer == "identified"
    with pytest.raises(InputError, match=r"Got shapes \(32, 2\) → \(32, 8, 2, 2\)"):
        nm.certify(decoder[:-1], at=POINTS)


def test_a_decoder_of_half_precision_is_certified_as_in_full_and_left_as_it_is() -> None:
    decoder = sparse_layer().half()
    certificate = nm.certify(decoder, at=POINTS.half())
    assert np.array_equal(certificate.structure.dense, MATRIX.numpy() != 0)
    assert certificate.answer == nm.certify(sparse_layer(), at=POINTS).answer == "identified"
    assert decoder.weight.dtype == torch.float16


@pytest.mark.parametrize(
    ("decoder", "words"),
    [
        (nn.Linear(2, 4, device="meta"), "meta"),
        (Tupled().eval(), "A decoder must be a differentiable torch function"),
        (nn.Sequential(nn.Linear(2, 8), nn.Dropout(0.5)), "Dropout in training mode"),
        (nn.Sequential(nn.Linear(2, 8), nn.BatchNorm1d(8)), "BatchNorm1d in training mode"),
    ],
)
def test_a_decoder_that_cannot_be_read_is_refused_in_one_sentence(decoder: nn.Module, words: str) -> None:
    call = decoder.decode if isinstance(decoder, Tupled) else decoder
    with pytest.raises(InputError) as error:
        nm.certify(call, at=POINTS)
    assert words in str(error.value)
    assert "\n" not in str(error.value)


def test_points_without_numbers_are_refused() -> None:
    with pytest.raises(InputError, match="Latent points must hold numbers"):
        nm.certify(nn.Linear(2, 4), at=torch.zeros(8, 2, device="meta"))
