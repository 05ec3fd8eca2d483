"""What a stranger's tables, builders and files do: they work, or one sentence says the way out."""

import functools
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.base import clone
from sklearn.metrics import r2_score
from torch import Tensor, nn

import noumena as nm
from noumena import seeds
from noumena.checks import InputError
from noumena.estimators.fit_data import split
from noumena.estimators.penalised import fit_penalised
from noumena.estimators.sources import source_of

X = np.random.default_rng(0).normal(size=(300, 6)).astype("f")
QUICK = nm.Training(steps=6, batch_size=64)


def planes() -> np.ndarray:
    rng = np.random.default_rng(0)
    return rng.normal(size=(400, 2)) @ rng.normal(size=(2, 5)) + 0.01 * rng.normal(size=(400, 5))


def vae(**settings: Any) -> nm.VAE:
    return nm.VAE(2, **({"training": QUICK, "random_state": 0} | settings))


def refused(call: Any, match: str) -> None:
    with pytest.raises(InputError, match=match) as caught:
        call()
    assert "\n" not in str(caught.value)


# ---- precision ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("unit", "offset"), [(1, 0), (1, 1e8), (1e-3, 1e6), (1e-50, 0), (1e50, 0), (1e-50, 1e-45)])
def test_units_and_offsets_do_not_change_what_is_learned(unit: float, offset: float, tmp_path: Path) -> None:
    plain, x = planes(), planes() * unit + offset
    model = vae(training=nm.Training(steps=200, batch_size=64)).fit(x)
    again = model.inverse_transform(model.transform(x))
    assert r2_score((x - offset) / unit, (again - offset) / unit) > 0.95
    reference = vae(training=nm.Training(steps=200, batch_size=64)).fit(plain)
    assert np.allclose(model.objectives_, reference.objectives_, rtol=0.05)
    assert np.allclose(model.structure_.evidence.strength, reference.structure_.evidence.strength, atol=0.05)
    assert np.isclose(model.score(x), reference.score(plain), rtol=0.05)
    nm.save(model, tmp_path)
    assert np.array_equal(nm.load(tmp_path).transform(x), model.transform(x))


def test_a_table_on_disk_is_standardised_as_precisely(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", planes() + 1e8)
    x = np.load(tmp_path / "x.npy", mmap_mode="r")
    model = vae(training=nm.Training(steps=200, batch_size=64)).fit(x)
    again = model.inverse_transform(model.transform(x))
    assert r2_score(planes(), again - 1e8) > 0.95


def test_results_have_the_precision_of_the_input_far_from_zero() -> None:
    x = planes() + 1e6
    model = vae().fit(x)
    z = model.transform(x.astype("f"))
    assert z.dtype == np.float32
    assert model.inverse_transform(z).dtype == np.float32
    assert model.transform(torch.as_tensor(x)).dtype == torch.float64


def test_numbers_beyond_all_reason_are_refused_with_their_column() -> None:
    x = planes()
    x[:, 3] *= 1e200
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        refused(lambda: vae().fit(x), r"between 1e-100 and 1e\+100; change its unit\. Got column 3 with a spread of")
        x[:, 3] /= 1e150
        must = r"x must hold numbers that float32 holds; .*standardise=True.* Got column 3"
        refused(lambda: vae(standardise=False).fit(x), must)


def test_ordinary_data_are_standardised_as_before_up_to_rounding() -> None:
    x = planes().astype("f")
    rows, *units = split(source_of(x), 0.1, standardise=True, beside=None, like=torch.zeros(0))
    mean, scale = (torch.as_tensor(unit) for unit in units)
    order = torch.randperm(len(x), generator=seeds.generator(0, "held-out rows", len(x)))
    kept = torch.as_tensor(x)[order[40:]]
    assert rows.train.dtype == torch.float32
    assert torch.allclose(rows.train, (kept - kept.mean(dim=0)) / kept.std(dim=0, correction=0), atol=1e-5)
    assert torch.allclose(rows.held_out.double() * scale + mean, torch.as_tensor(x)[order[:40]].double(), atol=1e-6)


# ---- whose module it is ------------------------------------------------------------------------------------


def test_a_users_own_module_is_copied_and_left_alone() -> None:
    mine = nn.Linear(2, 6)
    before = mine.weight.detach().clone()
    model = vae(decoder=lambda i, o: mine, n_models=2).fit(X)
    assert torch.equal(mine.weight, before)
    assert mine.training
    assert mine.weight.requires_grad
    assert not torch.equal(model.models_[0].decoder.weight, model.models_[1].decoder.weight)


def test_frozen_weights_of_a_builder_stay_as_they_are() -> None:
    mine = nn.Sequential(nn.Linear(2, 4).requires_grad_(False), nn.Tanh(), nn.Linear(4, 6))
    model = vae(decoder=lambda i, o: mine, n_models=2).fit(X)
    for found in model.models_:
        assert torch.equal(found.decoder[0].weight, mine[0].weight)
        assert not torch.equal(found.decoder[2].weight, mine[2].weight)


class Alike(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.w = nn.Parameter(torch.ones(2, 6), requires_grad=False)
        self.w2 = nn.Parameter(torch.ones(6))

    def forward(self, z: Tensor) -> Tensor:
        return z @ self.w + self.w2


def test_a_frozen_weight_freezes_none_whose_name_begins_like_its_own() -> None:
    (found,) = vae(decoder=lambda i, o: Alike()).fit(X).models_
    assert torch.equal(found.decoder.w, torch.ones(2, 6))
    assert not torch.equal(found.decoder.w2, torch.ones(6))


def test_networks_without_anything_to_train_are_refused() -> None:
    def still(inputs: int, outputs: int) -> nn.Module:
        return nn.Linear(inputs, outputs).requires_grad_(False)

    refused(lambda: vae(encoder=still, decoder=still).fit(X), "must have weights to train")
    refused(lambda: vae(decoder=still, training=nm.Training(steps=6, polish=1)).fit(X), "polish must be 0 where")
    slots = nm.SlotAutoencoder(2, 1, decoder=still, training=QUICK, random_state=0)
    refused(lambda: slots.fit(X), "To regroup latents, all weights must have requires_grad=True")


# ---- what a builder may return -----------------------------------------------------------------------------


class Two(nn.Linear):
    def forward(self, z: Tensor) -> Any:
        return super().forward(z), z


class Noisy(nn.Linear):
    def forward(self, z: Tensor) -> Tensor:
        found = super().forward(z)
        return found + torch.randn_like(found)


class Mixing(nn.Linear):
    def forward(self, z: Tensor) -> Tensor:
        found = super().forward(z)
        return found - found.mean(dim=0)


def dropping(i: int, o: int) -> nn.Module:
    return nn.Sequential(nn.Linear(i, 8), nn.Dropout(0.1), nn.Linear(8, o))


REFUSED = {
    "narrow": (lambda i, o: nn.Linear(i, 1), r"The decoder must give 6 columns\. Got 1\.$"),
    "tuple": (lambda i, o: Two(i, o), r"The decoder must return one tensor.* Got a tuple\.$"),
    "picture": (
        lambda i, o: nn.Sequential(nn.Linear(i, o), nn.Unflatten(1, (1, 2, 3))),
        r"flat rows; end it with nn\.Flatten\(\)\. Got shape \(2, 1, 2, 3\)",
    ),
    "dropout": (dropping, r"The decoder must give the same for the same rows.*Dropout"),
    "noise": (lambda i, o: Noisy(i, o), r"The decoder must give the same for the same rows"),
    "mixing": (lambda i, o: Mixing(i, o), r"The decoder must treat rows one by one"),
    "lazy": (lambda i, o: nn.LazyLinear(o), r"The decoder must have all of its weights"),
    "scripted": (lambda i, o: torch.jit.script(nn.Linear(i, o)), r"The decoder must be a plain torch module"),
    "module": (nn.Linear(2, 6), r"decoder must be a builder.*lambda inputs, outputs: .* Got a Linear"),
    "no arguments": (lambda: nn.Linear(2, 6), r"decoder must be a builder.* Got one that takes other arguments"),
    "inputs": (lambda i, o: nn.Linear(7, o), r"The decoder must take rows of 2 numbers\. Got the error: .*mat1"),
    "number": (3, r"decoder must be a builder"),
}


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("kind", REFUSED)
def test_a_decoder_that_cannot_work_is_one_sentence(kind: str) -> None:
    builder, sentence = REFUSED[kind]
    refused(lambda: vae().set_params(decoder=builder).fit(X), sentence)


def test_an_encoder_of_the_wrong_width_is_refused() -> None:
    refused(lambda: vae(encoder=lambda i, o: nn.Linear(i, 2)).fit(X), r"The encoder must give 4 columns\. Got 2\.$")
    narrow = nm.Autoencoder(2, encoder=lambda i, o: nn.Linear(i, 1), training=QUICK)
    refused(lambda: narrow.fit(X), r"The encoder must give 2 columns\. Got 1\.$")


def test_a_trial_leaves_streams_and_buffers_as_they_were() -> None:
    made: list[nn.Module] = []

    class Counting(nn.Linear):
        def __init__(self, i: int, o: int):
            super().__init__(i, o)
            self.calls = 0
            made.append(self)

        def forward(self, z: Tensor) -> Tensor:
            self.calls += 1
            return super().forward(z)

    torch.manual_seed(3)
    before = torch.get_rng_state()
    vae(decoder=Counting).fit(X)
    assert torch.equal(before, torch.get_rng_state())
    assert [layer.calls for layer in made] == [0]


class Recurrent(nn.Module):
    def __init__(self, i: int, o: int):
        super().__init__()
        self.cell, self.out = nn.GRU(1, 3, batch_first=True), nn.Linear(3, o)

    def forward(self, x: Tensor) -> Tensor:
        return self.out(self.cell(x.unsqueeze(-1))[0][:, -1])


class Branching(nn.Linear):
    def forward(self, x: Tensor) -> Tensor:
        found = super().forward(x)
        return found if float(self.weight.sum().item()) > 1e9 else found.tanh()


class Looking(nn.Linear):
    def forward(self, x: Tensor) -> Tensor:
        found = super().forward(x)
        return found if (x > 1e9).any() else found.tanh()


@pytest.mark.parametrize("net", [Recurrent, Branching, Looking])
def test_what_cannot_be_batched_over_models_runs_side_by_side(net: Any) -> None:
    model = vae(encoder=net, n_models=2)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        both = clone(model).fit(X)
    alone = clone(model).set_params(n_models=1, random_state=1).fit(X)
    assert np.allclose(both.objectives_[1], alone.objectives_[0], rtol=1e-5)
    assert both.transform(X).shape == (300, 2)
    assert not both.models_[0].batched


def test_ordinary_builders_stay_batched() -> None:
    model = vae(encoder=lambda i, o: nn.Sequential(nn.Linear(i, 8), nn.Tanh(), nn.Linear(8, o))).fit(X)
    assert model.models_[0].batched


@pytest.mark.parametrize("kind", [nm.VAE, nm.QLAE, nm.SlotAutoencoder, nm.Flow])
def test_settings_of_a_training_must_be_a_training(kind: Any) -> None:
    refused(lambda: kind().set_params(training={"steps": 3}).fit(X), r"training must be a Training.*Training\(steps=")


# ---- weights that hide -------------------------------------------------------------------------------------


class Held:
    def __init__(self, net: Any):
        self.net = net

    def __call__(self, z: Tensor) -> Tensor:
        return self.net(z)

    def decode(self, z: Tensor) -> Tensor:
        return self.net(z)


HIDDEN_NET = nn.Linear(2, 6)
SHELF = {"m": HIDDEN_NET}
ROW = [HIDDEN_NET]


def _local(z: Tensor, net: Any = HIDDEN_NET) -> Tensor:
    return net(z)


HIDDEN = {
    "a partial of a method": functools.partial(HIDDEN_NET.forward),
    "a partial of a module": functools.partial(HIDDEN_NET),
    "a partial with a module": functools.partial(lambda net, z: net(z), HIDDEN_NET),
    "a partial with a named module": functools.partial(_local, net=HIDDEN_NET),
    "a callable object": Held(HIDDEN_NET),
    "an object with a list": Held(ROW),
    "a method of an object": Held(HIDDEN_NET).decode,
    "a dictionary": lambda z: SHELF["m"](z),
    "a list": lambda z: ROW[0](z),
    "a default": _local,
}


@pytest.mark.parametrize("where", HIDDEN)
def test_weights_that_hide_in_a_function_are_refused(where: str) -> None:
    must = r"must be a module or its method, so that they can be trained\. Got a function that uses a Linear"
    refused(lambda: fit_penalised((nn.Linear(6, 2), HIDDEN[where]), X, penalty=None, training=QUICK), must)


def test_functions_without_weights_are_taken() -> None:
    repeated = functools.partial(torch.Tensor.repeat_interleave, repeats=3, dim=1)
    model = fit_penalised((nn.Linear(6, 2), repeated), X, penalty=None, training=QUICK, random_state=0)
    assert model.transform(X).shape == (300, 2)
