"""Modules that users bring are looked at without being changed, and what cannot be used is one sentence."""

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from noumena.adopt.modules import (
    BATCH,
    adopt_decoder,
    copy_module,
    evaluation_mode,
    first_weight,
    module_of,
    require_rowwise,
    require_tensor,
    run_module,
    unit_layer,
)
from noumena.adopt.networks import build_network
from noumena.checks import InputError

Z = torch.randn(6, 2, generator=torch.Generator().manual_seed(0))


def mixed_modes() -> nn.Sequential:
    """A module in training mode with a layer that its owner has set to evaluation mode."""
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(2, 4), nn.BatchNorm1d(4), nn.Dropout(0.5), nn.Linear(4, 3)).train()
    net[1].eval()
    return net


def state(module: nn.Module) -> list[Any]:
    values = [value.clone() for value in module.state_dict().values()]
    return [*values, *(layer.training for layer in module.modules()), *(p.requires_grad for p in module.parameters())]


def fail_inside(module: nn.Module) -> None:
    try:
        with evaluation_mode(module):
            assert not any(layer.training for layer in module.modules())
            raise KeyError
    except KeyError:
        pass


LOOKS = {
    "a block that fails": fail_inside,
    "a run": lambda module: run_module(module, Z),
    "a copy": copy_module,
    "a decoder": lambda module: adopt_decoder(module, Z),
    "a decoder in double precision": lambda module: adopt_decoder(module, Z, precise=True),
    "a decoder by its method": lambda module: adopt_decoder(module.forward, Z),
    "a builder": lambda module: build_network(lambda i, o: module, "coupling", 2, 3),
}


@pytest.mark.parametrize("look", LOOKS)
def test_a_module_that_is_looked_at_is_as_it_was(look: str) -> None:
    module = mixed_modes()
    before = state(module)
    LOOKS[look](module)
    after = state(module)
    assert len(before) == len(after)
    for a, b in zip(before, after, strict=True):
        assert torch.equal(a, b) if isinstance(a, Tensor) else a == b


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32, torch.float64])
def test_a_module_runs_in_its_own_precision_batch_by_batch(dtype: torch.dtype) -> None:
    seen: list[tuple[int, torch.dtype]] = []
    net = nn.Linear(2, 3).to(dtype)
    net.register_forward_pre_hook(lambda _, rows: seen.append((len(rows[0]), rows[0].dtype)))
    rows = np.random.default_rng(0).normal(size=(BATCH + 5, 2))
    assert run_module(net, rows).shape == (BATCH + 5, 3)
    assert seen == [(BATCH, dtype), (5, dtype)]


def test_whole_numbers_stay_whole_for_a_module_that_looks_them_up() -> None:
    net = nn.Embedding(4, 3)
    assert run_module(net, np.array([3, 0])).shape == (2, 3)


@pytest.mark.parametrize("role", ["decoder", "encoder"])
@pytest.mark.parametrize(
    ("answer", "words"),
    [
        ((Z, Z), "must return one tensor"),
        ({"x": Z}, "must return one tensor"),
        (None, "must return one tensor"),
        (torch.complex(Z, Z), "must return real numbers; use torch.view_as_real"),
        (Z.long(), "must be differentiable and return floating point numbers. Got torch.int64"),
        (Z > 0, "must be differentiable and return floating point numbers. Got torch.bool"),
    ],
)
def test_an_answer_is_one_tensor_of_real_floating_numbers(role: str, answer: Any, words: str) -> None:
    with pytest.raises(InputError) as error:
        require_tensor(answer, role)
    assert str(error.value).startswith(f"The {role} must")
    assert words in str(error.value)
    assert require_tensor(Z, role) is Z


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (lambda z: z + torch.randn_like(z), "must give the same answer at every call; sample in the loss. Got two"),
        (lambda z: z - z.mean(dim=0), "must treat rows one by one"),
        (lambda z: z.cumsum(dim=0), "must treat rows one by one"),
    ],
)
def test_a_function_of_rows_answers_row_by_row(function: Any, words: str) -> None:
    for n in (2, 6):
        with pytest.raises(InputError) as error:
            require_rowwise(function, Z[:n], "encoder", repeat="sample in the loss")
        assert f"The encoder {words}" in str(error.value)
    assert torch.equal(require_rowwise(torch.sin, Z), Z.sin())


def test_whose_a_function_is_and_what_precision_it_has() -> None:
    net = nn.Sequential(nn.Linear(2, 3).half())
    assert module_of(net) is module_of(net.forward) is net
    assert module_of(torch.sin) is module_of(3) is first_weight(None) is None
    assert first_weight(net) is net[0].weight
    assert first_weight(nn.BatchNorm1d(2, affine=False)).dtype == torch.float32  # pyright: ignore


def test_a_change_of_units_is_a_layer_whose_units_are_learned_through() -> None:
    spread = torch.tensor([2.0, 3.0], requires_grad=True)
    layer = unit_layer(torch.ones(2), spread)
    assert torch.allclose(layer(Z), Z * spread + 1)
    layer(Z).sum().backward()
    assert torch.allclose(spread.grad, Z.sum(dim=0))  # pyright: ignore
