"""The structured pass agrees with autograd for every layer it takes, and leaves alone what it cannot take."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.func import functional_call, stack_module_state, vmap
from torch.nn.utils import parametrizations

from noumena.checks import InputError
from noumena.derivatives import differentiate, jacobian, rows, tangents, way_of
from noumena.derivatives.slopes import SLOPES

D_Z, ROWS = 4, 3
PIECEWISE_LINEAR = (nn.ReLU, nn.LeakyReLU, nn.ReLU6, nn.Hardtanh)
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


def points(n: int = ROWS) -> Tensor:
    g = torch.Generator().manual_seed(1)
    return torch.randn(n, D_Z, generator=g, dtype=torch.float64)


def row_by_row(f: Callable[[Tensor], Tensor], z: Tensor) -> Tensor:
    """The slow reference: reverse mode, one row at a time."""
    found = [torch.autograd.functional.jacobian(lambda one: f(one[None])[0], row) for row in z]
    return torch.stack([row if isinstance(row, Tensor) else row[0] for row in found])


def trained_normalisation(layer: nn.BatchNorm1d | nn.BatchNorm2d) -> nn.Module:
    torch.manual_seed(5)
    for tensor in (layer.running_mean, layer.running_var, layer.weight, layer.bias):
        if tensor is not None:
            tensor.data = torch.rand_like(tensor) + 0.5
    return layer.eval()


def around(layer: nn.Module) -> nn.Sequential:
    """A point-wise layer between linear ones, so that tangents differ from row to row."""
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(D_Z, 6), layer, nn.Linear(6, 5)).double()


def layered(name: str) -> nn.Sequential:
    torch.manual_seed(0)
    start = [nn.Linear(D_Z, 24), nn.Tanh(), nn.Unflatten(1, (2, 12))]
    plane = [nn.Linear(D_Z, 32), nn.Tanh(), nn.Unflatten(-1, (2, 4, 4))]
    layers: dict[str, list[nn.Module]] = {
        "one linear layer": [nn.Linear(D_Z, 6)],
        "no linear layer": [nn.Tanh()],
        "a normalisation first": [trained_normalisation(nn.BatchNorm1d(D_Z)), nn.Linear(D_Z, 6)],
        "no bias": [nn.Linear(D_Z, 6, bias=False), nn.Tanh(), nn.Linear(6, 5, bias=False)],
        "nested": [nn.Sequential(nn.Linear(D_Z, 6), nn.Sequential(nn.Tanh())), nn.Identity(), nn.Linear(6, 5)],
        "dropout in eval": [nn.Linear(D_Z, 6), nn.Dropout().eval(), nn.Tanh(), nn.Linear(6, 5)],
        "narrow": [nn.Linear(D_Z, 6), nn.Tanh(), nn.Linear(6, 2)],
        "narrow, point-wise last": [nn.Linear(D_Z, 6), nn.Tanh(), nn.Linear(6, 2), nn.Sigmoid()],
        "Conv1d": [*start, nn.Conv1d(2, 3, 4, stride=3, padding=1), nn.Tanh(), nn.Flatten()],
        "Conv1d, dilated, grouped": [*start, nn.Conv1d(2, 4, 3, dilation=2, groups=2), nn.Tanh(), nn.Flatten()],
        "ConvTranspose1d": [*start, nn.ConvTranspose1d(2, 3, 4, stride=2, output_padding=1), nn.Tanh(), nn.Flatten()],
        "Conv2d": [*plane, nn.Conv2d(2, 3, 3, stride=2), nn.Tanh(), nn.Flatten()],
        "ConvTranspose2d": [*plane, nn.ConvTranspose2d(2, 3, 4, stride=2, padding=1), nn.ELU(), nn.Flatten()],
        "shared through a convolution": [
            nn.Linear(D_Z, 24),
            nn.Unflatten(1, (2, 12)),
            nn.Conv1d(2, 3, 3),
            nn.Flatten(),
        ],
        "BatchNorm1d": [nn.Linear(D_Z, 6), trained_normalisation(nn.BatchNorm1d(6)), nn.Tanh(), nn.Linear(6, 5)],
        "BatchNorm1d of sequences": [*start, trained_normalisation(nn.BatchNorm1d(2)), nn.Tanh(), nn.Flatten()],
        "BatchNorm2d": [*plane, trained_normalisation(nn.BatchNorm2d(2, affine=False)), nn.Tanh(), nn.Flatten()],
        "linear over an inner axis": [*start, nn.Linear(12, 5), nn.Tanh(), nn.Flatten()],
        "AvgPool2d": [*plane, nn.AvgPool2d(2), nn.Tanh(), nn.Flatten()],
        "Upsample": [*plane, nn.Upsample(scale_factor=2, mode="bilinear"), nn.Tanh(), nn.Flatten()],
        "weight norm": [parametrizations.weight_norm(nn.Linear(D_Z, 6)), nn.Tanh(), nn.Linear(6, 5)],
    }
    return nn.Sequential(*layers[name]).double()


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


# ---- memory ----------------------------------------------------------------------------------------------------


def test_the_budget_counts_what_autograd_keeps() -> None:
    kept: list[int] = []

    def note(tensor: Tensor) -> Tensor:
        kept.append(tensor.numel())
        return tensor

    z = points(50)
    for activation in (nn.LeakyReLU(), nn.Tanh()):
        f = nn.Sequential(nn.Linear(D_Z, 20), activation, nn.Linear(20, 30), activation, nn.Linear(30, 8)).double()
        at = tangents.linearise(f, z)
        kept.clear()
        with torch.autograd.graph.saved_tensors_hooks(note, lambda tensor: tensor):
            tangents.along(at, z, z.expand(7, -1, -1), 2**30)
        tangent_sized = sum(n for n in kept if n % (7 * 50) == 0)
        at_work = 3 * 30 * 50
        assert 7 * (tangents.live(at.links, 50) - at_work) == tangent_sized
        with torch.no_grad():
            assert tangents.live(at.links, 50) == at_work


@pytest.mark.parametrize("back", [False, True])
def test_tensors_that_the_allocator_would_not_reuse_are_split(back: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    f, z, passes = layered("narrow" if back else "nested"), points(), []
    expected, link = jacobian(f, z), tangents.Link

    def noted(push, pull, *rest):
        counted = [lambda T, carry=carry: (passes.append(len(T)), carry(T))[1] for carry in (push, pull)]
        return link(*counted, *rest)

    monkeypatch.setattr(tangents, "Link", noted)
    monkeypatch.setattr(tangents, "PAGED", (1 if back else 3) * ROWS * 6 * 8)
    torch.testing.assert_close(jacobian(f, z), expected, rtol=1e-12, atol=1e-12)
    assert sorted(passes) == ([1, 1, 1, 1] if back else [1, 1, 3, 3])


def test_chunks_keep_less_for_the_backward_pass() -> None:
    kept: dict[int, int] = {}
    f, z = layered("ConvTranspose2d"), points(20)
    for memory in (1, 2**30):
        sizes: list[int] = []
        with torch.autograd.graph.saved_tensors_hooks(lambda t, s=sizes: (s.append(t.numel()), t)[1], lambda t: t):
            jacobian(f, z, memory=memory)
        kept[memory] = sum(sizes)
    assert kept[1] < 0.6 * kept[2**30]


# ---- what is left alone ----------------------------------------------------------------------------------------


class Doubled(nn.Linear):
    def forward(self, input: Tensor) -> Tensor:
        return 2 * super().forward(input)


def hooked() -> nn.Module:
    layer = nn.Tanh()
    layer.register_forward_hook(lambda module, given, out: out**2)
    return layer


def patched() -> nn.Module:
    layer = nn.Tanh()
    layer.forward = lambda input: input**3
    return layer


def hooked_sequence() -> nn.Module:
    layers = nn.Sequential(nn.Tanh())
    layers.register_forward_pre_hook(lambda module, given: (given[0] ** 2,))
    return layers


STRANGERS = {
    "Doubled": Doubled(6, 6),
    "Tanh with a hook": hooked(),
    "Tanh with a replaced forward": patched(),
    "Sequential with a hook": hooked_sequence(),
    "LayerNorm": nn.LayerNorm(6),
    "Softmax": nn.Softmax(dim=-1),
    "Flatten": nn.Flatten(0, 0),
}


@pytest.mark.parametrize("name", STRANGERS)
def test_a_stranger_is_left_to_forward_mode_and_named_when_refused(name: str) -> None:
    f, z = around(STRANGERS[name]), points()
    found = differentiate(f, z)
    assert found.way == "forward"
    torch.testing.assert_close(found.J, row_by_row(f, z), rtol=1e-9, atol=1e-12)
    sentence = rf'way="structured" needs .*convolution.* layers\. Got {name}\.'
    with pytest.raises(InputError, match=sentence):
        jacobian(f, z, way="structured")


def test_padding_that_is_not_zeros_is_left_to_forward_mode() -> None:
    for layer in (nn.Conv1d(2, 3, 3, padding=1, padding_mode="circular"), nn.Conv1d(2, 3, 3, padding="same")):
        f = nn.Sequential(nn.Linear(D_Z, 12), nn.Unflatten(1, (2, 6)), layer, nn.Flatten()).double()
        assert way_of(f, points()) == "forward"
        torch.testing.assert_close(jacobian(f, points()), row_by_row(f, points()))


def test_a_callable_is_no_structured_map() -> None:
    with pytest.raises(InputError, match=r"Got a callable that is no module\."):
        jacobian(torch.tanh, points(), way="structured")


@pytest.mark.parametrize(
    "layer",
    [nn.BatchNorm1d(6), nn.BatchNorm1d(6, track_running_stats=False).eval(), nn.Dropout(0.5), nn.Dropout2d(0.1)],
)
@pytest.mark.parametrize("way", ["auto", "forward", "structured", "reverse"])
def test_what_mixes_rows_or_is_random_is_refused(layer: nn.Module, way: str) -> None:
    f = nn.Sequential(around(nn.Sequential(layer)))
    name = type(layer).__name__
    sentence = (
        rf"The map must treat rows one by one and the same at every call; use its eval\(\)\. Got {name} in training"
    )
    with pytest.raises(InputError, match=sentence):
        jacobian(f, points(), way=way)


def test_dropout_of_nothing_is_taken_in_training_mode() -> None:
    f, z = around(nn.Dropout(0.0)), points()
    torch.testing.assert_close(jacobian(f, z, way="structured"), row_by_row(f, z))


def test_a_convolution_without_channels_is_refused() -> None:
    with pytest.raises(
        InputError, match=r"Conv1d must be given \(batch, channel, …\) with 1 more axes\. Got shape \(3, 4\)\."
    ):
        jacobian(nn.Conv1d(3, 3, 1).double(), points())
