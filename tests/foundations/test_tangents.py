"""The structured pass agrees with autograd for every layer it takes, for many models at once and compiled."""

import subprocess
import sys

import pytest
import torch
from layered_maps import D_Z, ROWS, around, layered, points, row_by_row
from torch import Tensor, nn
from torch.func import functional_call, stack_module_state, vmap

from noumena.derivatives import differentiate, jacobian, rows, way_of
from noumena.derivatives.slopes import SLOPES

POINTWISE = [
    nn.ReLU(),
    nn.LeakyReLU(0.3),
    nn.LeakyReLU(0.3, inplace=True),
    nn.PReLU(),
    nn.PReLU(6),
    nn.ReLU6(),
    nn.Hardtanh(-0.4, 0.7),
    nn.ELU(1.3),
    nn.ELU(0.7, inplace=True),
    nn.SELU(),
    nn.CELU(0.5),
    nn.GELU(),
    nn.GELU("tanh"),
    nn.SiLU(),
    nn.SiLU(inplace=True),
    nn.Mish(),
    nn.Softplus(2.0, threshold=0.5),
    nn.Softsign(),
    nn.Tanh(),
    nn.Sigmoid(),
    nn.LogSigmoid(),
]


def described(layer: nn.Module) -> str:
    return str(layer)


LAYERED = [
    "one linear layer",
    "no linear layer",
    "a normalisation first",
    "no bias",
    "nested",
    "dropout in eval",
    "narrow",
    "narrow, point-wise last",
    "Conv1d",
    "Conv1d, dilated, grouped",
    "ConvTranspose1d",
    "Conv2d",
    "ConvTranspose2d",
    "shared through a convolution",
    "BatchNorm1d",
    "BatchNorm1d of sequences",
    "BatchNorm2d",
    "linear over an inner axis",
    "AvgPool2d",
    "Upsample",
    "weight norm",
]


def penalty_gradients(f: nn.Module, z: Tensor, way: str, memory: int = 2**30) -> list[Tensor]:
    """Gradients of a curved function of the Jacobian and the values, at every parameter and the points."""
    found = differentiate(f, z, way=way, memory=memory)
    loss = (found.J.square() + 0.3 * found.J).sum() + found.x.square().sum()
    return list(torch.autograd.grad(loss, [*f.parameters(), z]))


# ---- each layer ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("layer", POINTWISE, ids=described)
def test_every_pointwise_layer_has_autograds_derivatives(layer: nn.Module) -> None:
    f, z = around(layer), 2 * points().requires_grad_()
    found = differentiate(f, z)
    assert found.way == "structured"
    torch.testing.assert_close(found.J, row_by_row(f, z.detach()), rtol=1e-9, atol=1e-12)
    assert torch.equal(found.x, f(z))
    for mine, expected in zip(penalty_gradients(f, z, "structured"), penalty_gradients(f, z, "forward"), strict=True):
        torch.testing.assert_close(mine, expected, rtol=1e-9, atol=1e-11)


def test_every_slope_is_tested() -> None:
    assert {type(layer) for layer in POINTWISE} == set(SLOPES)


@pytest.mark.parametrize("name", LAYERED)
@pytest.mark.parametrize("memory", [1, 2**30])
def test_every_layered_map_has_autograds_derivatives(name: str, memory: int) -> None:
    f, z = layered(name), points().requires_grad_()
    assert way_of(f, z) == "structured"
    found = differentiate(f, z, memory=memory)
    torch.testing.assert_close(found.J, row_by_row(f, z.detach()), rtol=1e-9, atol=1e-12)
    torch.testing.assert_close(found.x, f(z), rtol=1e-12, atol=1e-12)
    mine = penalty_gradients(f, z, "structured", memory)
    for own, expected in zip(mine, penalty_gradients(f, z, "forward"), strict=True):
        torch.testing.assert_close(own, expected, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("name", LAYERED)
def test_cotangents_are_pulled_back_through_every_layer(name: str) -> None:
    f, z = layered(name), points().requires_grad_()
    J = jacobian(f, z, way="forward")
    found = rows(f, z, torch.arange(J.shape[1]).expand(ROWS, -1))
    torch.testing.assert_close(found, J, rtol=1e-9, atol=1e-12)
    wanted = [z, *[p for name, p in f.named_parameters() if "bias" not in name]]
    options = {"allow_unused": True, "materialize_grads": True}
    mine, expected = (torch.autograd.grad(own.square().sum(), wanted, **options) for own in (found, J))
    torch.testing.assert_close(mine, expected, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("name", ["nested", "ConvTranspose2d", "narrow"])
def test_single_precision_is_right_to_its_own_rounding(name: str) -> None:
    f, z = layered(name).float(), points().float()
    J = jacobian(f, z, way="structured")
    assert J.dtype == torch.float32
    torch.testing.assert_close(J, row_by_row(f, z), rtol=1e-5, atol=1e-6)


def test_a_mask_carries_no_gradient() -> None:
    f, z = around(nn.LeakyReLU(0.2)), points().requires_grad_()
    J = jacobian(f, z)
    inner, bias, at = torch.autograd.grad(J.square().sum(), [f[0].weight, f[0].bias, z], allow_unused=True)
    assert float(inner.abs().max()) > 0
    assert bias is None
    assert at is None


def test_gradients_reach_every_weight_and_every_bias_below_a_curve() -> None:
    f = layered("nested")
    jacobian(f, points()).square().sum().backward()
    reached = {name: p.grad is not None and float(p.grad.abs().max()) > 0 for name, p in f.named_parameters()}
    assert reached == {"0.0.weight": True, "0.0.bias": True, "2.weight": True, "2.bias": False}


def test_no_rows_have_no_jacobians() -> None:
    for name in ("nested", "narrow"):
        f = layered(name)
        assert jacobian(f, points(0)).shape == (0, f[-1].out_features, D_Z)


# ---- many models, autocast, compilation ------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["nested", "narrow", "ConvTranspose2d", "BatchNorm1d"])
@pytest.mark.parametrize("memory", [1, 2**30])
def test_many_models_at_once_are_each_of_them(name: str, memory: int) -> None:
    models = [layered(name) for _ in range(2)]
    with torch.no_grad():
        for parameter in models[1].parameters():
            parameter += 0.1
    skeleton = Penalised(models[0], memory)
    parameters, buffers = stack_module_state([Penalised(f, memory) for f in models])  # pyright: ignore[reportArgumentType]
    z = torch.stack([points(), points() + 1])

    def one(parameters: dict[str, Tensor], buffers: dict[str, Tensor], z: Tensor) -> Tensor:
        return functional_call(skeleton, (parameters, buffers), (z,))

    losses = vmap(one)(parameters, buffers, z)
    together = torch.autograd.grad(losses.sum(), list(parameters.values()), allow_unused=True)
    for k, f in enumerate(models):
        own = Penalised(f, memory)
        loss = own(z[k])
        torch.testing.assert_close(losses[k], loss)
        apart = torch.autograd.grad(loss, list(own.parameters()), allow_unused=True)
        assert [g is None for g in apart] == [g is None for g in together]
        for mine, expected in zip(together, apart, strict=True):
            if mine is not None:
                torch.testing.assert_close(mine[k], expected)


class Penalised(nn.Module):
    """A penalty on a decoder, as a training objective calls it: the decoder's parameters are swapped around it."""

    def __init__(self, decoder: nn.Module, memory: int):
        super().__init__()
        self.decoder, self.memory = decoder, memory

    def forward(self, z: Tensor) -> Tensor:
        return jacobian(self.decoder, z, way="structured", memory=self.memory).square().sum()


@pytest.mark.parametrize("name", ["nested", "narrow", "one linear layer"])
def test_autocast_gives_the_network_in_half_precision(name: str) -> None:
    f, z = layered(name).float(), points().float()
    expected = jacobian(f, z)
    with torch.autocast("cpu", torch.bfloat16):
        found = differentiate(f, z, way="structured")
        found.J.square().sum().backward()
    assert found.J.dtype == found.x.dtype == torch.bfloat16
    error = float((found.J.float() - expected).detach().norm() / expected.detach().norm())
    assert 1e-5 < error < 0.02
    assert all(p.grad is not None and p.grad.dtype == torch.float32 for n, p in f.named_parameters() if "weight" in n)


COMPILED = """
import torch
from torch import nn
from noumena.derivatives import jacobian

torch.manual_seed(0)
f = nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 5)).double()
z = torch.randn(3, 4, dtype=torch.float64)
loss = torch.compile(lambda z: jacobian(f, z).abs().sum(), fullgraph=True)(z)
expected = jacobian(f, z, way="forward").abs().sum()
torch.testing.assert_close(loss, expected)
for mine, other in zip(*(torch.autograd.grad(own, [f[0].weight, f[0].bias]) for own in (loss, expected))):
    torch.testing.assert_close(mine, other)
print("equal")
"""


@pytest.mark.slow
def test_a_compiled_penalty_is_the_penalty_in_one_graph() -> None:
    """In a process of its own: compilers cannot follow the run-time checks of annotations that tests switch on."""
    ran = subprocess.run([sys.executable, "-c", COMPILED], capture_output=True, text=True, check=False)
    assert ran.stdout == "equal\n", ran.stderr
