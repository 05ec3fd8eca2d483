"""Jacobians agree with autograd and with finite differences, however they are computed."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.func import functional_call, stack_module_state, vmap

from noumena.checks import InputError
from noumena.derivatives import differentiate, jacobian, way_of

D_Z, D_X, ROWS = 5, 7, 6


def wide(z: Tensor) -> Tensor:
    return torch.cat([z.sin() * z[:, :1], z[:, 1:2] ** 3], dim=1)


def narrow(z: Tensor) -> Tensor:
    return torch.stack([z.prod(dim=1), z.square().sum(dim=1)], dim=1)


def network(seed: int = 0, activation: type[nn.Module] = nn.Tanh) -> nn.Sequential:
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(D_Z, 9), activation(), nn.Linear(9, D_X)).double()


def points(rows: int = ROWS, seed: int = 1) -> Tensor:
    return torch.randn(rows, D_Z, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def row_by_row(f: Callable[[Tensor], Tensor], z: Tensor) -> Tensor:
    """The slow reference: reverse mode, one row and one observation at a time."""
    rows = [torch.autograd.functional.jacobian(lambda one: f(one[None])[0], row) for row in z]
    return torch.stack([row if isinstance(row, Tensor) else row[0] for row in rows])


def finite_differences(f: Callable[[Tensor], Tensor], z: Tensor, step: float = 1e-6) -> Tensor:
    columns = []
    for j in range(z.shape[1]):
        move = torch.zeros_like(z)
        move[:, j] = step
        columns.append((f(z + move) - f(z - move)) / (2 * step))
    return torch.stack(columns, dim=-1).detach()


@pytest.mark.parametrize("activation", [nn.Tanh, nn.LeakyReLU, nn.SiLU])
def test_the_jacobian_is_autograds_and_the_limit_of_differences(activation: type[nn.Module]) -> None:
    f, z = network(activation=activation), points()
    J = jacobian(f, z)
    assert J.shape == (ROWS, D_X, D_Z)
    torch.testing.assert_close(J, row_by_row(f, z))
    torch.testing.assert_close(J, finite_differences(f, z), rtol=1e-6, atol=1e-7)


def test_the_jacobian_of_a_linear_map_is_its_matrix_at_every_point() -> None:
    A = torch.arange(6.0).reshape(2, 3)
    J = jacobian(lambda z: z @ A.T + 1, torch.randn(4, 3))
    torch.testing.assert_close(J, A.expand(4, 2, 3))
    assert J.dtype == torch.float32


@pytest.mark.parametrize("memory", [1, 2 * 8 * 64 * 8 * ROWS, 3 * 8 * 64 * 8 * ROWS, 2**30])
def test_a_memory_budget_changes_the_passes_and_not_the_jacobian(memory: int) -> None:
    f, z, calls = network(), points(), []

    def counted(z: Tensor) -> Tensor:
        calls.append(1)
        return f(z)

    torch.testing.assert_close(jacobian(counted, z, way="forward", memory=memory), row_by_row(f, z))
    directions_per_pass = min(D_Z, max(1, memory // (8 * 64 * 8 * ROWS)))
    assert len(calls) == -(-D_Z // directions_per_pass)


@pytest.mark.parametrize(("f", "way"), [(network(), "structured"), (wide, "forward"), (narrow, "reverse")])
def test_the_way_that_is_said_is_the_way_taken(f: Callable[[Tensor], Tensor], way: str) -> None:
    z = points()
    found = differentiate(f, z)
    assert found.way == way_of(f, z) == way
    assert torch.equal(found.x, f(z))
    assert torch.equal(found.J, jacobian(f, z))
    torch.testing.assert_close(found.J, row_by_row(f, z), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("way", ["forward", "reverse"])
@pytest.mark.parametrize("memory", [1, 2**30])
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-9), (torch.float32, 1e-5)])
def test_every_way_gives_the_jacobian_of_any_map(way: str, memory: int, dtype: torch.dtype, tolerance: float) -> None:
    z = points().to(dtype)
    for f in (wide, narrow):
        found = differentiate(f, z, way=way, memory=memory)
        assert found.way == way
        assert found.J.dtype == dtype
        torch.testing.assert_close(found.J, row_by_row(f, z), rtol=tolerance, atol=tolerance / 10)


def test_a_map_of_one_latent_is_called_once() -> None:
    calls = []
    found = differentiate(lambda z: (calls.append(1), z**2)[1], points()[:, :1])
    assert (found.way, len(calls)) == ("forward", 1)


def test_rows_may_have_a_context_that_is_not_differentiated() -> None:
    z, context = points(), points(seed=3)
    J = jacobian(lambda y: y * context, z)
    torch.testing.assert_close(J, torch.diag_embed(context))


@pytest.mark.parametrize("memory", [1, 2**30])
def test_jacobians_of_many_models_at_once_are_those_of_each(memory: int) -> None:
    models = [network(seed) for seed in range(3)]
    parameters, buffers = stack_module_state(models)  # pyright: ignore[reportArgumentType]
    z = torch.stack([points(seed=seed) for seed in range(3)])

    def one(parameters: dict[str, Tensor], buffers: dict[str, Tensor], z: Tensor) -> Tensor:
        return jacobian(lambda z: functional_call(models[0], (parameters, buffers), (z,)), z, memory=memory)

    together = vmap(one)(parameters, buffers, z)
    apart = torch.stack([row_by_row(model, own) for model, own in zip(models, z, strict=True)])
    torch.testing.assert_close(together, apart)


@pytest.mark.parametrize("way", ["structured", "forward", "reverse"])
@pytest.mark.parametrize("memory", [1, 2**30])
def test_gradients_flow_through_the_jacobian(memory: int, way: str) -> None:
    f, z = network(), points().requires_grad_()
    weights = [f[0].weight, f[0].bias, f[2].weight, z]
    found = torch.autograd.grad(jacobian(f, z, way=way, memory=memory).pow(2).sum(), weights)

    def reference() -> Tensor:
        x = f(z)
        rows = [torch.autograd.grad(x[:, i].sum(), z, create_graph=True)[0] for i in range(D_X)]
        return torch.stack(rows, dim=1).pow(2).sum()

    for mine, expected in zip(found, torch.autograd.grad(reference(), weights), strict=True):
        torch.testing.assert_close(mine, expected)
        assert float(mine.abs().max()) > 0


def test_an_ignored_latent_has_an_exactly_zero_column() -> None:
    f = network()
    with torch.no_grad():
        f[0].weight[:, 2] = 0
    J = jacobian(f, points()).detach()
    assert float(J[..., 2].abs().max()) == 0
    assert float(J[..., [0, 1, 3, 4]].abs().amin()) > 0


@pytest.mark.parametrize("rows", [0, 1])
def test_few_points_have_few_jacobians(rows: int) -> None:
    f, z = network(), points(rows)
    J = jacobian(f, z)
    assert J.shape == (rows, D_X, D_Z)
    if rows:
        torch.testing.assert_close(J, row_by_row(f, z))


@pytest.mark.parametrize(
    ("f", "given"),
    [
        (lambda z: z.sum(dim=1), r"\(4, 2\) → \(4,\)"),
        (lambda z: z.sum(dim=0, keepdim=True), r"\(4, 2\) → \(1, 2\)"),
        (lambda z: z[:, :, None], r"\(4, 2\) → \(4, 2, 1\)"),
    ],
)
def test_a_map_that_is_not_batched_is_refused(f: Callable[[Tensor], Tensor], given: str) -> None:
    with pytest.raises(InputError, match=rf"must send \(batch, latent\) to \(batch, observed\)\. Got shapes {given}\."):
        jacobian(f, torch.ones(4, 2))


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"way": "sideways"}, r"way must be one of auto, structured, forward, reverse\. Got 'sideways'\."),
        ({"memory": 0}, r"memory must be a whole number of at least 1\. Got 0\."),
    ],
)
def test_bad_settings_are_refused(settings: dict, sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        jacobian(wide, points(), **settings)


def test_points_without_latents_are_refused() -> None:
    with pytest.raises(InputError, match=r"z must have latents\. Got shape \(3, 0\)\."):
        jacobian(wide, torch.ones(3, 0))


def test_normalisation_by_the_batch_itself_is_refused_even_in_eval() -> None:
    f = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3, track_running_stats=False)).eval()
    with pytest.raises(InputError, match="must treat rows one by one"):
        jacobian(f, torch.randn(4, 2))
