"""Penalties in a training loop of one's own: what does not fit is one sentence, before anything is called."""

import subprocess
import sys
from typing import Any

import pytest
import torch
from sklearn.base import clone
from torch import Tensor, nn

from noumena.checks import InputError
from noumena.estimators import VAE
from noumena.penalties import (
    CompositionalContrast,
    DependencySparsity,
    GroupSparsity,
    HessianPenalty,
    IMAContrast,
    Interaction,
    LatentSparsity,
    OroJaR,
    Penalty,
)

ON_DECODERS = [
    DependencySparsity(),
    DependencySparsity(rows=2),
    DependencySparsity(columns=2),
    GroupSparsity(3),
    CompositionalContrast(3),
    CompositionalContrast(3, rows=2),
    IMAContrast(),
    OroJaR(),
    OroJaR(None),
    OroJaR(2, None),
    OroJaR(None, None),
    HessianPenalty(),
    HessianPenalty(None),
    HessianPenalty(2, None),
    HessianPenalty(None, None),
    Interaction(3),
    Interaction(3, step=0.1),
    Interaction(3, pairs=2),
    Interaction(3, pairs=2, step=0.1),
    0.5 * OroJaR() + DependencySparsity(),
]
Z = torch.randn(6, 3, generator=torch.Generator().manual_seed(0))


class Own(nn.Module):
    """A decoder that is no sequence of layers."""

    def __init__(self, gives: Any = None) -> None:
        super().__init__()
        self.net, self.gives = layers(), gives

    def forward(self, z: Tensor) -> Any:
        x = self.net(z)
        return x if self.gives is None else self.gives(x)


def layers(*more: nn.Module) -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(3, 16), nn.ELU(), nn.Linear(16, 8), *more)


def refusal(penalty: Any, decoder: Any, z: Any) -> str:
    with pytest.raises(InputError) as error:
        penalty(decoder, z)
    return str(error.value)


on_decoders = pytest.mark.parametrize("penalty", ON_DECODERS, ids=repr)
every = pytest.mark.parametrize("penalty", [*ON_DECODERS, LatentSparsity()], ids=repr)
both = pytest.mark.parametrize("make", [layers, Own], ids=["a sequence", "a module"])


@on_decoders
@pytest.mark.parametrize("layer", [nn.BatchNorm1d(8), nn.Dropout(0.5)], ids=["normalisation", "dropout"])
def test_a_decoder_that_mixes_rows_or_changes_between_calls_is_refused_before_it_is_called(
    penalty: Penalty, layer: nn.Module
) -> None:
    decoder = layers(layer.train())
    before = {name: value.clone() for name, value in decoder.state_dict().items()}
    said = refusal(penalty, decoder, Z)
    assert said.startswith("The map must treat rows one by one and ")
    assert said.endswith(f" Got {type(layer).__name__} in training mode.")
    assert all(torch.equal(value, before[name]) for name, value in decoder.state_dict().items())
    assert torch.isfinite(penalty(decoder.eval(), Z))


@on_decoders
@both
def test_points_of_another_precision_are_taken_in_that_of_the_decoder(penalty: Penalty, make: Any) -> None:
    z, decoder = Z.double().requires_grad_(), make()
    draws = penalty.draws(len(Z), Z.shape[1], torch.Generator().manual_seed(0))
    value = penalty(decoder, z, 1.0, draws)
    assert torch.equal(value, penalty(decoder, Z, 1.0, draws))
    (gradient,) = torch.autograd.grad(value, z)
    assert gradient.dtype == torch.float64
    assert gradient.isfinite().all()


@every
def test_points_must_be_floating_and_have_rows(penalty: Penalty) -> None:
    decoder = layers()
    assert refusal(penalty, decoder, Z.long()) == "z must hold floating point numbers. Got torch.int64."
    assert refusal(penalty, decoder, Z[:0]) == "z must have rows. Got shape (0, 3)."


@on_decoders
def test_points_must_be_a_table(penalty: Penalty) -> None:
    assert refusal(penalty, layers(), Z[0]) == "z must have two axes, (batch, latent). Got shape (3,)."
    assert refusal(penalty, layers(), Z[:, :0]) == "z must have latents. Got shape (6, 0)."


@pytest.mark.parametrize("penalty", [p for p in ON_DECODERS if not hasattr(p, "slots")], ids=repr)
def test_a_wrong_number_of_latents_is_one_sentence(penalty: Penalty) -> None:
    assert refusal(penalty, layers(), Z[:, :2]) == "z must have the 3 latents of the decoder. Got shape (6, 2)."
    net = layers()
    for decoder in (Own(), lambda z: net(z)):
        said = refusal(penalty, decoder, Z[:, :2])
        assert said.startswith("The decoder must take these points. Got shape (")
        assert "2) of torch.float32, of which torch says: " in said


@on_decoders
def test_a_function_that_does_not_take_the_precision_of_the_points_is_one_sentence(penalty: Penalty) -> None:
    net = layers()
    said = refusal(penalty, lambda z: net(z), Z.double())
    assert said.startswith("The decoder must take these points. Got shape (")
    assert "3) of torch.float64, of which torch says: " in said


@on_decoders
def test_an_error_within_a_decoder_stays_what_it_is(penalty: Penalty) -> None:
    def broken(z: Tensor) -> Tensor:
        raise RuntimeError("theirs")

    with pytest.raises(RuntimeError, match=r"^theirs$"):
        penalty(broken, Z)


@on_decoders
@pytest.mark.parametrize(
    ("gives", "given"),
    [
        (lambda x: (x, x), "a tuple"),
        (lambda x: {"x": x}, "a dict"),
        (lambda x: x > 0, "torch.bool"),
        (lambda x: x.long(), "torch.int64"),
    ],
    ids=["a tuple", "a dict", "booleans", "integers"],
)
def test_a_decoder_returns_one_floating_tensor(penalty: Penalty, gives: Any, given: str) -> None:
    own = Own(gives)
    for decoder in (own, lambda z: own(z)):
        sentence = refusal(penalty, decoder, Z)
        assert "The decoder must return one tensor" in sentence or "return floating point numbers" in sentence
        assert sentence.endswith(f" Got {given}.")


@on_decoders
def test_pictures_and_other_numbers_of_rows_are_refused(penalty: Penalty) -> None:
    wanted = "The map must send (batch, latent) to (batch, observed). Got shapes ("
    picture = nn.Unflatten(1, (2, 2, 2))
    for decoder in (layers(picture), Own(picture), Own(lambda x: x.sum(dim=1)), Own(lambda x: x[:-1])):
        assert refusal(penalty, decoder, Z).startswith(wanted)


def test_what_is_no_tensor_and_what_cannot_be_called_is_refused_by_every_penalty() -> None:
    program = """
import torch, noumena.penalties as room
z = torch.randn(6, 3)
for name in room.__all__:
    if name not in ("Penalty", "PenaltySum"):
        kind = getattr(room, name)
        penalty = kind(3) if "slots" in kind.__dataclass_fields__ else kind()
        for given in ((torch.nn.Linear(3, 8), z.numpy()), ("decoder", z)):
            try:
                penalty(*given)
            except ValueError as error:
                print(error)
"""  # in a process of its own, where nothing but the penalty looks at types
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=300)
    said = done.stdout.splitlines()
    assert said.count("z must be a torch tensor, (batch, latent). Got a ndarray.") == 8, done.stderr
    assert said.count("decoder must be a function z ↦ x. Got 'decoder'.") == 7


@pytest.mark.parametrize("penalty", [OroJaR(), HessianPenalty(), Interaction(3), OroJaR(2, None)], ids=repr)
def test_a_call_costs_one_pass_through_the_decoder_and_no_more(penalty: Penalty) -> None:
    calls: list[int] = []
    decoder = Own()
    decoder.register_forward_hook(lambda *_: calls.append(1))
    penalty(decoder, Z)
    assert len(calls) == 1


@pytest.mark.parametrize("kind", [torch.bfloat16, torch.float32], ids=str)
def test_under_autocast_points_are_left_as_they_are(kind: torch.dtype) -> None:
    seen: list[torch.dtype] = []
    decoder = Own()
    decoder.register_forward_pre_hook(lambda _, args: seen.append(args[0].dtype))
    with torch.autocast("cpu", torch.bfloat16):
        DependencySparsity()(decoder, Z.to(kind))
    assert set(seen) == {kind}


def test_a_penalty_is_searched_over_as_a_whole() -> None:
    penalty = 0.1 * DependencySparsity()
    model = VAE(3, penalty=penalty)
    assert clone(model).penalty == penalty
    for given in (penalty, DependencySparsity()):
        with pytest.raises(InputError) as error:
            VAE(3, penalty=given).set_params(penalty__scale=0.1)
        wanted = "A penalty must be replaced as a whole, such as penalty=0.1 * DependencySparsity(scale=0.1)."
        assert str(error.value) == f"{wanted} Got scale=0.1."
    assert model.set_params(penalty=0.2 * DependencySparsity(scale=0.1)).penalty == 0.2 * DependencySparsity(scale=0.1)
