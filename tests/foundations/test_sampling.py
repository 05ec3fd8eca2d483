"""Parts of a Jacobian are the whole Jacobian's, and their averages over all choices are its sums."""

from itertools import combinations, product

import pytest
import torch
from torch import Tensor, nn
from torch.func import functional_call, stack_module_state, vmap

from noumena.checks import InputError
from noumena.derivatives import Map, columns, directional, jacobian, rows

D_Z, D_X, ROWS = 4, 6, 5


def network(seed: int = 0) -> nn.Sequential:
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(D_Z, 7), nn.Tanh(), nn.Linear(7, D_X), nn.ELU()).double()


def drawn(*shape: int, seed: int = 1) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def chosen(k: int, of: int) -> Tensor:
    g = torch.Generator().manual_seed(2)
    return torch.stack([torch.randperm(of, generator=g)[:k] for _ in range(ROWS)])


@pytest.fixture(params=["structured", "callable"])
def f(request: pytest.FixtureRequest) -> Map:
    net = network()
    return net if request.param == "structured" else lambda z: net(z)


@pytest.mark.parametrize("memory", [1, 2**30])
def test_directional_derivatives_are_jacobian_times_probe(f: Map, memory: int) -> None:
    z, v = drawn(ROWS, D_Z), drawn(ROWS, 3, D_Z, seed=3)
    found = directional(f, z, v, memory=memory)
    torch.testing.assert_close(found, jacobian(f, z) @ v.mT, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("memory", [1, 2**30])
def test_chosen_columns_and_rows_are_those_of_the_jacobian(f: Map, memory: int) -> None:
    z = drawn(ROWS, D_Z)
    J, which, ways = jacobian(f, z), chosen(3, D_Z), chosen(2, D_X)
    own = columns(f, z, which, memory=memory)
    torch.testing.assert_close(own, J.gather(2, which[:, None].expand(-1, D_X, -1)), rtol=1e-9, atol=1e-12)
    other = rows(f, z, ways, memory=memory)
    torch.testing.assert_close(other, J.gather(1, ways[..., None].expand(-1, -1, D_Z)), rtol=1e-9, atol=1e-12)


def test_gradients_of_parts_are_those_of_the_whole(f: Map) -> None:
    z, which, ways = drawn(ROWS, D_Z).requires_grad_(), chosen(3, D_Z), chosen(2, D_X)
    J = jacobian(f, z)
    pairs = [
        (columns(f, z, which), J.gather(2, which[:, None].expand(-1, D_X, -1))),
        (rows(f, z, ways), J.gather(1, ways[..., None].expand(-1, -1, D_Z))),
    ]
    for part, whole in pairs:
        mine, expected = (torch.autograd.grad(a.abs().sum(), z, retain_graph=True)[0] for a in (part, whole))
        assert float(mine.abs().max()) > 0
        torch.testing.assert_close(mine, expected)


def test_the_mean_over_all_choices_is_the_whole_sum(f: Map) -> None:
    z = drawn(ROWS, D_Z)
    exact = float(jacobian(f, z).detach().abs().sum())
    for part, n in ((columns, D_Z), (rows, D_X)):
        choices = [torch.tensor(c).expand(ROWS, -1) for c in combinations(range(n), 2)]
        estimates = [float(part(f, z, which).detach().abs().sum()) * n / 2 for which in choices]
        assert sum(estimates) / len(estimates) == pytest.approx(exact, rel=1e-12)
        assert max(estimates) > 1.01 * exact


def test_the_mean_over_all_signs_is_the_squared_norm(f: Map) -> None:
    z = drawn(ROWS, D_Z)
    signs = torch.tensor(list(product((-1.0, 1.0), repeat=D_Z)), dtype=torch.float64).expand(ROWS, -1, -1)
    squared = directional(f, z, signs).square().sum(dim=1).mean(dim=-1)
    torch.testing.assert_close(squared, jacobian(f, z).square().sum(dim=(1, 2)))


def test_parts_of_many_models_at_once_are_those_of_each() -> None:
    models = [network(seed) for seed in range(3)]
    parameters, buffers = stack_module_state(models)  # pyright: ignore[reportArgumentType]
    z, which = torch.stack([drawn(ROWS, D_Z, seed=k) for k in range(3)]), torch.stack([chosen(2, D_Z)] * 3)
    whole = torch.stack([jacobian(model, own) for model, own in zip(models, z, strict=True)])

    def sampled(own: dict[str, Tensor], z: Tensor, which: Tensor) -> tuple[Tensor, Tensor]:
        def f(y: Tensor) -> Tensor:
            return functional_call(models[0], (own, buffers), (y,))

        return columns(f, z, which), rows(f, z, which)

    some_columns, some_rows = vmap(sampled)(parameters, z, which)
    torch.testing.assert_close(some_columns, whole.gather(3, which[:, :, None].expand(-1, -1, D_X, -1)))
    torch.testing.assert_close(some_rows, whole.gather(2, which[..., None].expand(-1, -1, -1, D_Z)))


@pytest.mark.parametrize("shape", [(ROWS, D_Z), (ROWS, 2, D_Z + 1), (ROWS + 1, 2, D_Z), (ROWS, 0, D_Z)])
def test_probes_that_do_not_fit_are_refused(shape: tuple[int, ...]) -> None:
    sentence = r"v must have axes \(batch, probe, latent\) that fit z, and at least one probe\. Got shapes"
    with pytest.raises(InputError, match=sentence):
        directional.__wrapped__(network(), drawn(ROWS, D_Z), drawn(*shape))


@pytest.mark.parametrize("part", [columns, rows])
@pytest.mark.parametrize("shape", [(ROWS,), (ROWS + 1, 2), (ROWS, 0)])
def test_choices_that_do_not_fit_are_refused(part, shape: tuple[int, ...]) -> None:
    sentence = r"which must have axes \(batch, k\), a choice for every row of z\. Got shape"
    with pytest.raises(InputError, match=sentence):
        part.__wrapped__(network(), drawn(ROWS, D_Z), torch.zeros(shape, dtype=torch.long))


@pytest.mark.parametrize("part", [columns, rows])
def test_normalisation_over_the_batch_is_refused(part) -> None:
    with pytest.raises(InputError, match=r"must treat rows one by one .* Got BatchNorm1d"):
        part(nn.BatchNorm1d(D_Z).double(), drawn(ROWS, D_Z), chosen(2, D_Z))


class Twice(torch.autograd.Function):
    """What ``torch.func`` cannot take, and autograd can."""

    @staticmethod
    def forward(ctx, x: Tensor) -> Tensor:  # type: ignore[override]
        return 2 * x

    @staticmethod
    def backward(ctx, *slopes: Tensor) -> Tensor:  # type: ignore[override]
        return 2 * slopes[0]


def test_rows_of_a_map_that_only_autograd_takes_are_those_of_the_jacobian() -> None:
    net, z, ways = network(), drawn(ROWS, D_Z), chosen(2, D_X)
    found = rows(lambda y: Twice.apply(net(y)), z, ways)  # pyright: ignore[reportArgumentType]
    torch.testing.assert_close(found, 2 * jacobian(net, z).gather(1, ways[..., None].expand(-1, -1, D_Z)))
