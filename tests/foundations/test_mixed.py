"""Mixed derivatives are nested reverse mode's, and differences converge to them."""

from itertools import combinations_with_replacement

import pytest
import torch
from torch import Tensor, nn
from torch.func import functional_call, jacrev, stack_module_state, vmap

from noumena.checks import InputError
from noumena.derivatives import Map, derivative, mixed_derivatives, mixed_differences

D_Z, D_X, ROWS = 3, 4, 5


def network(seed: int = 0) -> nn.Sequential:
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(D_Z, 6), nn.Tanh(), nn.Linear(6, 6), nn.Softplus(), nn.Linear(6, D_X)).double()


def cubic(z: Tensor) -> Tensor:
    return torch.stack([z[:, 0] * z[:, 1] * z[:, 2], z[:, 0] ** 2 * z[:, 1], z[:, 2].exp(), z.sum(dim=1)], dim=1)


def points(seed: int = 1) -> Tensor:
    return torch.randn(ROWS, D_Z, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def nested(f: Map, z: Tensor, index: tuple[int, ...]) -> Tensor:
    """The slow reference: reverse mode within reverse mode, one row at a time."""

    def one(row: Tensor) -> Tensor:
        return f(row[None])[0]

    for _ in index:
        one = jacrev(one)
    return torch.stack([one(row)[(slice(None), *index)] for row in z]).detach()


MAPS: list[Map] = [network(), cubic]


@pytest.mark.parametrize("f", MAPS, ids=["structured", "callable"])
@pytest.mark.parametrize("order", [1, 2, 3])
@pytest.mark.parametrize("memory", [1, 2**30])
def test_mixed_derivatives_are_those_of_nested_reverse_mode(f: Map, order: int, memory: int) -> None:
    z, indices = points(), list(combinations_with_replacement(range(D_Z), order))[::2]
    found = mixed_derivatives(f, z, torch.tensor(indices), memory=memory)
    assert found.shape == (ROWS, D_X, len(indices))
    for m, index in enumerate(indices):
        torch.testing.assert_close(found[..., m].detach(), nested(f, z, index), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("order", [1, 2, 3])
@pytest.mark.parametrize("memory", [1, 2**30])
def test_differences_of_a_multilinear_map_are_exact(order: int, memory: int) -> None:
    index = torch.tensor([list(range(order)), list(range(order))[::-1]])
    z = points()
    found = mixed_differences(lambda z: z.prod(dim=1, keepdim=True), z, index, step=0.7, memory=memory)
    expected = z[:, order:].prod(dim=1)
    torch.testing.assert_close(found, expected[:, None, None].expand(-1, 1, 2))


def test_differences_converge_to_derivatives_at_first_order_in_the_step() -> None:
    f, z, indices = network(), points(), torch.tensor([[0, 1], [2, 2], [1, 0]])
    exact = mixed_derivatives(f, z, indices)
    errors = [float((mixed_differences(f, z, indices, step=h) - exact).detach().norm()) for h in (2e-3, 1e-3)]
    assert errors[0] / errors[1] == pytest.approx(2, rel=0.05)


def test_differences_follow_their_definition_and_visit_every_point_once() -> None:
    f, z, visited = network(), points(), []
    pairs = [(0, 1), (0, 2), (1, 2), (0, 0), (1, 0)]
    found = mixed_differences(f, z, torch.tensor(pairs), step=0.3)
    moves = 0.3 * torch.eye(D_Z, dtype=torch.float64)
    for m, (i, j) in enumerate(pairs):
        expected = (f(z + moves[i] + moves[j]) - f(z + moves[i]) - f(z + moves[j]) + f(z)) / 0.09
        torch.testing.assert_close(found[..., m], expected)
    mixed_differences(lambda y: (visited.append(1), f(y))[1], z, torch.tensor(pairs), memory=1)
    assert len(visited) == 1 + 3 + 4


def test_differences_see_the_kinks_that_derivatives_miss() -> None:
    kinked = nn.Sequential(nn.Linear(2, 1, bias=False), nn.ReLU())
    nn.init.ones_(kinked[0].weight)
    z, pair = torch.full((1, 2), -0.05), torch.tensor([[0, 1]])
    assert float(mixed_derivatives(kinked, z, pair).detach()) == 0
    assert float(mixed_differences(kinked, z, pair).detach()) == pytest.approx(10, rel=1e-4)


@pytest.mark.parametrize("mixed", [mixed_derivatives, mixed_differences])
def test_many_models_at_once_are_each_of_them_and_gradients_flow(mixed) -> None:
    models = [network(seed) for seed in range(2)]
    parameters, buffers = stack_module_state(models)  # pyright: ignore[reportArgumentType]
    z, pairs = torch.stack([points(1), points(2)]), torch.tensor([[0, 1], [1, 2]])
    skeleton = Mixed(models[0], mixed, pairs)

    def one(own: dict[str, Tensor], z: Tensor) -> Tensor:
        return functional_call(skeleton, ({f"f.{name}": value for name, value in own.items()}, buffers), (z,))

    together = vmap(one)(parameters, z)
    weights = [name for name in parameters if name != "4.bias"]
    mine = torch.autograd.grad(together.square().sum(), [parameters[name] for name in weights])
    for k, model in enumerate(models):
        alone = mixed(model, z[k], pairs)
        torch.testing.assert_close(together[k], alone)
        apart = torch.autograd.grad(alone.square().sum(), [model.get_parameter(name) for name in weights])
        for found, expected in zip(mine, apart, strict=True):
            assert float(expected.abs().max()) > 0
            torch.testing.assert_close(found[k], expected)


class Mixed(nn.Module):
    """A decoder inside the module whose parameters are swapped."""

    def __init__(self, f: nn.Module, mixed, pairs: Tensor):
        super().__init__()
        self.f, self.mixed, self.pairs = f, mixed, pairs

    def forward(self, z: Tensor) -> Tensor:
        return self.mixed(self.f, z, self.pairs)


def test_all_derivatives_of_an_order_hold_the_mixed_ones() -> None:
    f, z = network(), points()
    pairs = torch.tensor([[0, 1], [2, 2]])
    whole = derivative(f, z, 2)
    assert whole.shape == (ROWS, D_X, D_Z, D_Z)
    torch.testing.assert_close(whole[:, :, pairs[:, 0], pairs[:, 1]], mixed_derivatives(f, z, pairs))


@pytest.mark.parametrize("mixed", [mixed_derivatives, mixed_differences])
@pytest.mark.parametrize(
    ("indices", "sentence"),
    [
        (
            torch.zeros(2, dtype=torch.long),
            r"indices must have axes \(m, order\), .* Got shape \(2,\) of torch.int64\.",
        ),
        (torch.zeros(0, 2, dtype=torch.long), r"both at least 1, .* Got shape \(0, 2\)"),
        (torch.zeros(2, 2), r"and hold whole numbers\. Got shape \(2, 2\) of torch.float32\."),
        (torch.tensor([[0, D_Z]]), r"indices must lie between 0 and 2\. Got 3\."),
        (torch.tensor([[-1, 0]]), r"indices must lie between 0 and 2\. Got -1\."),
    ],
)
def test_indices_that_cannot_be_used_are_refused(mixed, indices: Tensor, sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        mixed.__wrapped__(cubic, points(), indices)


def test_a_step_of_nothing_is_refused() -> None:
    with pytest.raises(InputError, match=r"step must be a finite number in \[1e-12, inf\]\. Got 0\."):
        mixed_differences(cubic, points(), torch.tensor([[0, 1]]), step=0.0)


@pytest.mark.parametrize("mixed", [mixed_derivatives, mixed_differences])
def test_a_map_that_is_not_batched_is_refused(mixed) -> None:
    with pytest.raises(InputError, match=r"must send \(batch, latent\) to \(batch, observed\)"):
        mixed(lambda z: z.sum(dim=1), points(), torch.tensor([[0, 1]]))
