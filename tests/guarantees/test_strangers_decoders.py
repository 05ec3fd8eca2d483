"""Decoders that people bring: any kernel, any precision, any shape; certified, never changed, or refused."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.decomposition import PCA
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

import noumena as nm
from noumena.checks import InputError
from noumena.derivatives import columns, derivative, differentiate, jacobian, mixed_derivatives, mixed_differences, rows

Z = torch.randn(64, 3, generator=torch.Generator().manual_seed(0))
A = torch.randn(3, 8, generator=torch.Generator().manual_seed(1))


def plain() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(3, 16), nn.ELU(), nn.Linear(16, 8))


def refusal(subject: Any, **options: Any) -> str:
    with pytest.raises(InputError) as error:
        nm.certify(subject, **options)
    sentence = str(error.value)
    assert "\n" not in sentence
    assert " Got " in sentence
    assert sentence.endswith(".")
    return sentence


def by_autograd(f: Callable[[Tensor], Tensor], z: Tensor) -> Tensor:
    z = z.detach().clone().requires_grad_()
    x = f(z).flatten(1)
    return torch.stack([torch.autograd.grad(x[:, i].sum(), z, retain_graph=True)[0] for i in range(x.shape[1])], dim=1)


class Recurrent(nn.Module):
    def __init__(self, kind: Any = nn.GRU, *, batch_first: bool = True):
        super().__init__()
        torch.manual_seed(0)
        self.a, self.r = nn.Linear(3, 32), kind(8, 2, batch_first=batch_first)

    def forward(self, z: Tensor) -> Tensor:
        return self.r(self.a(z).unflatten(1, (4, 8)))[0].flatten(1)


class Attending(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.a = nn.Linear(3, 32)

    def forward(self, z: Tensor) -> Tensor:
        h = self.a(z).unflatten(1, (1, 4, 8))
        return F.scaled_dot_product_attention(h, h, h).flatten(1)[:, :12]


def transforming() -> nn.Module:
    layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, activation="gelu", batch_first=True)
    return nn.Sequential(nn.Linear(3, 16), nn.Unflatten(1, (2, 8)), layer, nn.Flatten()).eval()


class OldFunction(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, z: Tensor) -> Tensor:
        ctx.save_for_backward(z)
        return z.sin()

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        (z,) = ctx.saved_tensors
        return grad * z.cos()


def checkpointed(z: Tensor, *, reentrant: bool) -> Tensor:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return checkpoint(lambda y: torch.tanh(y @ A.to(y)), z, use_reentrant=reentrant)  # pyright: ignore


KERNELS: dict[str, Callable[[], Any]] = {
    "GRU": Recurrent,
    "LSTM": lambda: Recurrent(nn.LSTM),
    "attention": Attending,
    "transformer layer": transforming,
    "cdist": lambda: lambda z: torch.cdist(z, A.to(z).T),
    "old function": lambda: lambda z: OldFunction.apply(z) @ A.to(z),
    "a branch on a value": lambda: lambda z: (2 * z if bool(z.sum() > 1e9) else z.sin()) @ A.to(z),
}


@pytest.mark.parametrize("kind", KERNELS)
def test_kernels_without_forward_mode_have_the_derivatives_that_autograd_gives(kind: str) -> None:
    f = KERNELS[kind]()
    J = by_autograd(f, Z)
    torch.testing.assert_close(jacobian(f, Z).detach(), J, rtol=1e-4, atol=1e-5)
    which = torch.arange(64)[:, None] % 3
    some = columns(f, Z, which).detach()
    torch.testing.assert_close(some, J.gather(2, which[:, None].expand(-1, J.shape[1], 1)), rtol=1e-4, atol=1e-5)
    some = rows(f, Z, which).detach()
    torch.testing.assert_close(some, J.gather(1, which[:, :, None].expand(-1, 1, 3)), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("kind", [kind for kind in KERNELS if kind != "cdist"])
def test_derivatives_of_such_kernels_can_be_penalised(kind: str) -> None:
    f, z = KERNELS[kind](), Z.double().requires_grad_()
    f = f.double() if isinstance(f, nn.Module) else f
    jacobian(f, z).square().sum().backward()
    assert z.grad is not None
    move = 1e-5 * torch.randn(Z.shape, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    above, below = (by_autograd(f, z.detach() + sign * move).square().sum() for sign in (1, -1))
    assert float(above - below) == pytest.approx(float(2 * (move * z.grad).sum()), rel=1e-3)


def test_attention_with_fewer_observations_than_latents_can_be_penalised() -> None:
    f = nn.Sequential(Attending(), nn.Linear(12, 2))
    assert differentiate(f, Z).way == "reverse"
    nm.DependencySparsity()(f, Z).backward()
    assert all(p.grad is not None for p in f.parameters() if p.ndim == 2)


@pytest.mark.parametrize(
    "norm", [nn.LayerNorm(8), nn.Sequential(nn.Unflatten(1, (2, 4)), nn.InstanceNorm1d(2, affine=True), nn.Flatten())]
)
def test_derivatives_through_norms_have_the_derivatives_that_reverse_mode_gives(norm: nn.Module) -> None:
    net = plain()
    f, z = nn.Sequential(net, norm).double(), Z.double()
    for weight in norm.parameters():
        nn.init.normal_(weight)
    found = [derivative(lambda y, w=w: jacobian(f, y, way=w).flatten(1), z, 1) for w in ("forward", "reverse")]
    torch.testing.assert_close(found[0], found[1])
    pairs = torch.tensor([[0, 1], [2, 2]])
    mixed = found[1].reshape(64, 8, 3, 3)[:, :, pairs[:, 0], pairs[:, 1]]
    torch.testing.assert_close(mixed_derivatives(f, z, pairs), mixed)
    w = next(net.parameters())
    gradients = [torch.autograd.grad(jacobian(f, z, way=by).square().sum(), w)[0] for by in ("forward", "reverse")]
    torch.testing.assert_close(gradients[0], gradients[1])


def test_a_decoder_that_worked_is_tried_once() -> None:
    calls = []
    found = differentiate(lambda z: (calls.append(1), z @ A)[1], Z)
    assert (found.way, len(calls)) == ("forward", 2)  # once to count its observations


def test_differences_of_a_recurrent_decoder_are_taken() -> None:
    f = Recurrent(nn.LSTM)
    found = mixed_differences(f, Z, torch.tensor([[0, 1]]), step=0.1)
    e = 0.1 * torch.eye(3)
    expected = (f(Z + e[0] + e[1]) - f(Z + e[0]) - f(Z + e[1]) + f(Z)) / 0.01
    torch.testing.assert_close(found[:, :, 0], expected, rtol=1e-3, atol=1e-3)


def test_derivatives_through_numpy_are_an_error_and_never_zeros() -> None:
    layer = nn.Linear(3, 8)
    with pytest.raises(RuntimeError):
        jacobian(lambda z: layer(torch.as_tensor(np.tanh(z.detach().numpy()))), Z)


def test_derivatives_of_a_random_map_are_refused_in_words() -> None:
    with pytest.raises(InputError, match="the same at every call"):
        jacobian(lambda z: F.dropout(z @ A, 0.5), Z)


def test_points_are_not_changed_by_a_map_that_works_in_place() -> None:
    z = Z.clone()
    J = jacobian(lambda y: y.mul_(2) @ A, z, memory=1)
    assert torch.equal(z, Z)
    torch.testing.assert_close(J, (2 * A.T).expand(64, 8, 3))


ROW_MIXERS: dict[str, Any] = {
    "no batch_first": Recurrent(batch_first=False),
    "standardised by the batch": lambda z: (lambda x: (x - x.mean(0)) / x.std(0))(z @ A.to(z)),
    "softmax over the batch": lambda z: torch.softmax(z @ A.to(z), dim=0),
    "rolled": lambda z: z @ A.to(z) + z.roll(1, 0) @ A.to(z),
}


@pytest.mark.parametrize("kind", ROW_MIXERS)
@pytest.mark.parametrize("n", [3, 64])
def test_a_decoder_that_mixes_rows_is_refused(kind: str, n: int) -> None:
    assert "The decoder must treat rows one by one" in refusal(ROW_MIXERS[kind], at=Z[:n])
    with pytest.raises(InputError, match="rows one by one"):
        nm.Structure.from_decoder(ROW_MIXERS[kind], Z[:n])


@pytest.mark.parametrize("wrap", [lambda m: m, lambda m: m.forward], ids=["module", "its method"])
def test_a_refused_module_in_training_mode_is_as_it_was(wrap: Callable[[Any], Any]) -> None:
    for layer in (nn.BatchNorm1d(8), nn.Dropout(0.5)):
        module = nn.Sequential(plain(), layer, nn.LayerNorm(8))
        before, state = {k: v.clone() for k, v in module.state_dict().items()}, torch.get_rng_state()
        assert "eval()" in refusal(wrap(module), at=Z)
        assert all(torch.equal(before[k], v) for k, v in module.state_dict().items())
        assert torch.equal(state, torch.get_rng_state())


def test_looking_at_a_spectral_norm_in_training_mode_moves_nothing() -> None:
    torch.manual_seed(0)
    module = nn.Sequential(nn.utils.parametrizations.spectral_norm(nn.Linear(3, 8)), nn.LayerNorm(8))
    before = {k: v.clone() for k, v in module.state_dict().items()}
    certificate = nm.certify(module, at=Z)
    nm.Structure.from_decoder(module, Z)
    assert all(torch.equal(before[k], v) for k, v in module.state_dict().items())
    assert certificate.to_dict() == nm.certify(module.eval(), at=Z).to_dict()


@pytest.mark.parametrize("of", [torch.clone, lambda z: z.numpy().copy()], ids=["tensor", "numpy"])
def test_points_are_as_they_were(of: Callable[[Tensor], Any]) -> None:
    for f in (lambda z: z.mul_(2) @ A.to(z), nn.Sequential(nn.ELU(inplace=True), plain())):
        points = of(Z)
        certificate = nm.certify(f, at=points)
        nm.Structure.from_decoder(f, points)
        assert np.array_equal(np.asarray(points), Z.numpy())
        if not isinstance(f, nn.Module):
            assert certificate.to_dict() == nm.certify(lambda z: 2 * z @ A.to(z), at=Z).to_dict()


@pytest.mark.parametrize("kind", KERNELS)
def test_decoders_of_any_kernel_are_certified(kind: str) -> None:
    assert nm.certify(KERNELS[kind](), at=Z).subject == "decoder"


def test_a_decoder_with_checkpoints_is_certified_or_told_how() -> None:
    assert nm.certify(lambda z: checkpointed(z, reentrant=False), at=Z).structure.n_observed == 8
    assert "use_reentrant=False" in refusal(lambda z: checkpointed(z, reentrant=True), at=Z)


class Constant(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.matrix, self.layers = nn.Linear(3, 3), A, [nn.Linear(8, 8)]

    def forward(self, z: Tensor) -> Tensor:
        return self.layers[0](self.first(z) @ self.matrix)


@pytest.mark.parametrize(
    "f", [lambda z: z.float() @ A, lambda z: z @ A, Constant()], ids=["cast", "single", "plain attributes"]
)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_decoder_that_is_single_inside_stays_single(f: Any, dtype: torch.dtype) -> None:
    certificate = nm.certify(f, at=Z.to(dtype))
    assert certificate.structure.n_observed == 8
    assert certificate.competitors is not None


@pytest.mark.parametrize("of", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
@pytest.mark.parametrize("given", [torch.float16, torch.float32, torch.float64])
def test_points_are_taken_in_the_precision_of_the_module(of: torch.dtype, given: torch.dtype) -> None:
    module = plain().to(of)
    assert nm.certify(module, at=Z.to(given)).structure.n_observed == 8
    assert nm.Structure.from_decoder(module, Z.to(given)).n_observed == 8
    assert {p.dtype for p in module.parameters()} == {of}


def test_points_of_numpy_do_not_follow_the_default_precision() -> None:
    module = plain()
    torch.set_default_dtype(torch.float64)
    try:
        assert nm.certify(module, at=Z.numpy()).structure.n_observed == 8
        assert nm.certify(lambda z: module(z), at=Z.numpy()).structure.n_observed == 8
    finally:
        torch.set_default_dtype(torch.float32)


def test_pictures_are_certified_pixel_by_pixel() -> None:
    torch.manual_seed(0)
    pictures = nn.Sequential(nn.Linear(3, 16), nn.Unflatten(1, (1, 4, 4)), nn.Conv2d(1, 1, 3, padding=1))
    flat = nn.Sequential(pictures, nn.Flatten())
    assert nm.certify(pictures, at=Z).to_dict() == nm.certify(flat, at=Z).to_dict()
    assert nm.certify(lambda z: (z @ A.to(z)).unflatten(1, (2, 4)), at=Z).structure.n_observed == 8
    assert nm.Structure.from_decoder(pictures, Z) == nm.Structure.from_decoder(flat, Z)
    with pytest.raises(InputError, match=r"nn\.Flatten"):
        jacobian(pictures, Z)


@pytest.mark.parametrize(
    ("f", "words"),
    [
        (lambda z: (z, z), "one tensor"),
        (lambda z: {"x": z}, "one tensor"),
        (lambda z: torch.complex(z, z), "real"),
        (lambda z: (z @ A.to(z)).long(), "differentiable"),
        (lambda z: F.dropout(z @ A.to(z), 0.5), "the same answer at every call"),
        (lambda z: z @ A.to(z) + torch.randn(8).to(z), "the same answer at every call"),
    ],
    ids=["tuple", "dict", "complex", "whole numbers", "dropout", "noise"],
)
def test_answers_that_cannot_be_read_are_refused_in_words(f: Any, words: str) -> None:
    state = torch.get_rng_state()
    assert words in refusal(f, at=Z)
    assert torch.equal(state, torch.get_rng_state())


class Locked(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.net, self.lock = plain(), threading.Lock()

    def forward(self, z: Tensor) -> Tensor:
        with self.lock:
            return self.net(z)


def old(norm: Callable[[nn.Module], nn.Module]) -> nn.Module:
    module = nn.Sequential(norm(nn.Linear(3, 8)), nn.ELU(), nn.Linear(8, 8))
    module(Z)
    return module


UNCOPIED: dict[str, Callable[[], Any]] = {
    "lock": Locked,
    "script": lambda: torch.jit.script(plain()),
    "trace": lambda: torch.jit.trace(plain(), Z),
    "weight_norm": lambda: old(nn.utils.weight_norm),
    "spectral_norm": lambda: old(nn.utils.spectral_norm),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", UNCOPIED)
def test_modules_that_are_hard_to_copy_are_certified_and_left_alone(kind: str) -> None:
    module = UNCOPIED[kind]()
    before = {k: v.clone() for k, v in module.state_dict().items()}
    assert nm.certify(module, at=Z).structure.n_observed == 8
    assert all(torch.equal(before[k], v) and before[k].dtype == v.dtype for k, v in module.state_dict().items())
    assert all(p.requires_grad for p in module.parameters())


class Uncopied(Locked):
    def __deepcopy__(self, memo: Any) -> Any:
        raise TypeError("never twice")


def test_a_module_that_refuses_to_be_copied_is_called_as_a_function() -> None:
    assert nm.certify(Uncopied(), at=Z).structure == nm.certify(plain(), at=Z).structure


@pytest.mark.filterwarnings("ignore:.*deprecated:DeprecationWarning")
def test_a_compiled_decoder_is_certified_as_what_it_was_compiled_from() -> None:
    module, compiled = plain(), []
    backend: Any = lambda graph, inputs: compiled.append(graph) or graph.forward  # noqa: E731
    for f in (torch.compile(module, backend=backend), torch.compile(lambda z: module(z), backend=backend)):
        assert nm.certify(f, at=Z).structure == nm.certify(plain(), at=Z).structure
    assert not compiled


def witness() -> Any:
    certificate = nm.certify(plain(), at=Z)
    return next(w for t in range(3) for r in range(3) if t != r and (w := certificate.witness(t, r)) is not None)


def test_a_witness_takes_points_of_any_precision() -> None:
    found = witness()
    for dtype in (torch.float32, torch.float64, torch.float16):
        x = found.decode(found.latents(Z.to(dtype)))
        assert x.dtype == dtype
    torch.testing.assert_close(found.decode(found.latents(Z)), plain()(Z), rtol=1e-3, atol=1e-3)
    assert found.decode(found.latents(Z.numpy())).dtype == np.float64


@pytest.mark.parametrize("verb", ["latents", "inverse", "decode"])
def test_a_witness_refuses_points_of_another_width(verb: str) -> None:
    found = witness()
    for points in (Z[:, :2], Z[:, :2].numpy(), Z[0]):
        with pytest.raises(InputError, match=r"3 latents|two axes"):
            getattr(found, verb)(points)


@pytest.mark.parametrize("model", [nm.SparseComponents(), nm.ICA(2), PCA(2)], ids=["sparse", "ICA", "PCA"])
def test_linear_estimators_are_told_what_applies(model: Any) -> None:
    draws = np.random.default_rng(0)
    x = (draws.normal(size=(2000, 3)) * (draws.random((2000, 3)) < 0.3)) @ draws.normal(size=(3, 3))
    sentence = refusal(model.fit(x))
    assert "docs/choose.md" in sentence
    assert type(model).__name__ in sentence


def test_a_folder_is_to_be_loaded(tmp_path: Any) -> None:
    assert "nm.load" in refusal(tmp_path)
    assert "nm.load" in refusal(str(tmp_path))


def test_points_beside_a_fitted_model_are_refused() -> None:
    x = np.random.default_rng(0).normal(size=(64, 4))
    model = nm.VAE(2, training=nm.Training(steps=2)).fit(x)
    assert "has its own latent points" in refusal(model, at=x)
