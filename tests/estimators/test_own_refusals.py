"""Modules that cannot be trained and decoders that cannot be read are refused in one sentence."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest
import torch
from own_modules import ROWS, Theirs, fitted
from torch import Tensor, nn

import noumena as nm
from noumena.adopt.networks import adopt_pair
from noumena.checks import InputError


def refusal(module: Any, rows: Any = ROWS, **settings: Any) -> str:
    with pytest.raises(InputError) as error:
        fitted(module, rows, **settings)
    sentence = str(error.value)
    assert "\n" not in sentence
    assert " Got " in sentence
    assert sentence.endswith(".")
    return sentence


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
        (Sampling(), "The encoder must give the same answer at every call; let it give a mean"),
        (Mixing(), "The encoder must treat rows one by one;"),
        (Wordy(), "The encoder must return one tensor. Got a str."),
        (Tupled(), "The decoder must return one tensor; pick it, as by decoder(z)[0]. Got a tuple."),
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


@pytest.mark.parametrize("loss", [nn.MSELoss(), lambda x, x_hat: (x - x_hat).abs().mean(), lambda x: x.sum()])
@pytest.mark.parametrize("module", [Theirs(), (nn.Linear(6, 2), nn.Linear(2, 6))])
def test_a_loss_that_is_called_otherwise_is_told_how_it_is_called(module: Any, loss: Any) -> None:
    must = "A module, its loss, called as (module, x) ↦ scalar, and the penalty must run with weights that are handed"
    assert refusal(module, loss=loss).startswith(f"{must} to them. Got the error: ")


class Weighted(Theirs):
    def weighted(self, x: Tensor, weight: float) -> Tensor:
        return weight * self.loss(x)


def test_a_method_with_other_arguments_is_told_how_a_loss_is_called() -> None:
    assert "its loss, called as x ↦ scalar, and the penalty must" in refusal(Weighted(), loss="weighted")


class Breaking(nn.Module):
    def forward(self, z: Tensor) -> Tensor:
        if torch.is_grad_enabled():
            raise RuntimeError("out of order")
        return z.repeat(1, 3)


def test_a_module_that_fails_without_a_loss_hears_nothing_of_losses() -> None:
    sentence = refusal((nn.Linear(6, 2), Breaking()))
    assert sentence == (
        "A module and the penalty must run with weights that are handed to them. Got the error: out of order."
    )


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
    pair = adopt_pair((theirs.encode, theirs.decode))
    assert [owner is theirs for owner in pair.owners] == [True]
    assert adopt_pair(pair) is pair
    assert adopt_pair(theirs).module is theirs
    with pytest.warns(DeprecationWarning, match="whole is now EncoderDecoder.module"):
        assert adopt_pair(theirs).whole is theirs


# ---- certify takes any decoder ---------------------------------------------------------------------------------


POINTS = torch.randn(300, 2, generator=torch.Generator().manual_seed(1))
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
    pictures = nm.certify(decoder[:-1], at=POINTS)
    assert np.array_equal(pictures.structure.dense, certificate.structure.dense)


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
        (Tupled().eval(), "The decoder must return one tensor"),
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
