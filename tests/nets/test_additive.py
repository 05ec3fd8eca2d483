"""An additive decoder is a sum of perceptrons, one for each slot."""

from itertools import pairwise

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.func import functional_call, stack_module_state, vmap

from noumena import seeds
from noumena.derivatives import jacobian
from noumena.nets.additive import Additive
from noumena.penalties import CompositionalContrast, Interaction

SLOTS = [2, 3, (2, 4), (1, 2, 3), 1]


def network(slots: int | tuple[int, ...], hidden: tuple[int, ...] = (5, 4), seed: int = 0) -> nn.Sequential:
    with seeds.global_torch(seed, "init"):
        return Additive(slots, hidden)(6, 7).double()


def points(rows: int = 9) -> Tensor:
    return torch.randn(rows, 6, generator=torch.Generator().manual_seed(1), dtype=torch.float64)


@pytest.mark.parametrize("slots", SLOTS)
@pytest.mark.parametrize("hidden", [(), (5,), (5, 4), (3, 5, 2)])
@pytest.mark.parametrize("slope", [0.0, 0.2])
def test_the_output_is_the_sum_of_hand_written_perceptrons(
    slots: int | tuple[int, ...], hidden: tuple[int, ...], slope: float
) -> None:
    f, z = Additive(slots, hidden, slope)(6, 7).double(), points()
    sizes = (6 // slots,) * slots if isinstance(slots, int) else slots
    parameters = [p.detach().numpy() for p in f.parameters()]
    ends = np.cumsum((0, *sizes))
    last, bias = parameters[-2:]
    expected = np.tile(bias, (len(z), 1))
    for k, (begin, end) in enumerate(pairwise(ends)):
        features = z.numpy()[:, begin:end]
        for layer in range(len(hidden)):
            weight, shift = parameters[2 * layer : 2 * layer + 2]
            own = weight[begin:end] if layer == 0 else weight[k]
            features = features @ own + shift[k]
            features = np.where(features > 0, features, slope * features)
        columns = slice(begin, end) if not hidden else slice(k * hidden[-1], (k + 1) * hidden[-1])
        expected = expected + features @ last[:, columns].T
    np.testing.assert_allclose(f(z).detach().numpy(), expected, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("slots", [2, 3, (2, 4), (1, 2, 3)])
def test_slots_do_not_interact_and_still_share_observations(slots: int | tuple[int, ...]) -> None:
    f, z = network(slots, (16, 16)), points(20)
    for penalty in (Interaction(slots, step=0.3), Interaction(slots, 3, step=0.3)):
        assert float(penalty(f, z).detach()) == pytest.approx(0, abs=1e-18)
    assert float(CompositionalContrast(slots)(f, z).detach()) > 0.01
    finer = Interaction(6, step=0.3)
    assert float(finer(f, z).detach()) > 1e-4, "within a slot latents interact"


def test_changing_one_slot_moves_the_output_by_its_own_part_only() -> None:
    f, z = network((2, 4)), points(2)
    a, b = z[:1], z[1:]
    mixed = torch.cat([a[:, :2], b[:, 2:]], dim=1), torch.cat([b[:, :2], a[:, 2:]], dim=1)
    torch.testing.assert_close(f(a) + f(b), f(mixed[0]) + f(mixed[1]))


def test_many_networks_at_once_are_one_at_a_time_with_their_jacobians() -> None:
    fs = [network((2, 4), seed=seed) for seed in range(3)]
    z = points()
    state = stack_module_state(fs)

    def one(p: dict[str, Tensor], b: dict[str, Tensor]) -> tuple[Tensor, Tensor]:
        g = lambda y: functional_call(fs[0], (p, b), (y,))  # noqa: E731
        return g(z), jacobian(g, z)

    x, J = vmap(one)(*state)
    torch.testing.assert_close(x, torch.stack([f(z) for f in fs]))
    torch.testing.assert_close(J, torch.stack([jacobian(f, z) for f in fs]))


def test_weights_begin_within_the_bounds_of_a_linear_layer() -> None:
    f = Additive((1, 4), hidden=(400, 9))(5, 2)
    inputs, hidden, last = f[0], f[2], f[-1]
    for rows, size in ((inputs.weight[:1], 1), (inputs.weight[1:], 4), (inputs.bias[:1], 1), (inputs.bias[1:], 4)):
        assert 0.9 * size**-0.5 < float(rows.detach().abs().max()) <= size**-0.5
    for rows in (hidden.weight, hidden.bias):
        assert 0.7 / 20 < float(rows.detach().abs().max()) <= 1 / 20
    assert isinstance(last, nn.Linear)
