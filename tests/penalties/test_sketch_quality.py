"""Sketched dependency sparsity: right in the mean, in value and gradient, and as good as the exact one after a fit."""

import numpy as np
import pytest
import torch
from torch import Tensor

from noumena import VAE, DependencySparsity, Training
from noumena.metrics import mcc
from noumena.nets import MLP, ConvDecoder
from noumena.penalties import Penalty

LATENTS, DRAWS = 3, 150
SKETCHES = [
    DependencySparsity(points=4),
    DependencySparsity(columns=2),
    DependencySparsity(rows=5),
    DependencySparsity(points=2, columns=2),
]


def decoder() -> torch.nn.Module:
    torch.manual_seed(0)
    return ConvDecoder(1, 8, widths=(3, 3), hidden=6)(LATENTS, 64).double()


def all_points() -> Tensor:
    return torch.randn(24, LATENTS, generator=torch.Generator().manual_seed(1), dtype=torch.float64)


def seen(penalty: Penalty, net: torch.nn.Module, z: Tensor, rng: torch.Generator) -> Tensor:
    """The penalty and its gradient with respect to the decoder's first weights, on rows in a random order."""
    order = torch.randperm(len(z), generator=rng)
    value = penalty(net, z[order], 1.0, penalty.draws(len(z), LATENTS, rng))
    weight = next(net.parameters())
    return torch.cat([value[None].detach(), torch.autograd.grad(value, weight)[0].flatten()])


@pytest.mark.parametrize("sketch", SKETCHES, ids=repr)
def test_value_and_gradient_are_those_of_the_exact_penalty_in_the_mean(sketch: Penalty) -> None:
    net, z, rng = decoder(), all_points(), torch.Generator().manual_seed(2)
    exact = seen(DependencySparsity(), net, z, rng)
    found = torch.stack([seen(sketch, net, z, rng) for _ in range(DRAWS)])
    error = found.std(dim=0) / DRAWS**0.5
    assert float(error[0]) > 0
    assert float(((found.mean(dim=0) - exact) / error.clamp_min(1e-12)).abs().max()) < 4.5


def test_a_fit_with_four_points_is_as_good_as_one_with_all() -> None:
    support = np.array([[1, 0, 0], [0, 1, 0], [0, 0, 1], [1, 1, 0], [0, 1, 1], [1, 0, 1.0]])
    z = np.random.default_rng(0).normal(size=(1200, LATENTS))
    x = np.tanh(z @ support.T / 2)
    scores, reached = {}, {}
    for name, penalty in {"none": None, "all": DependencySparsity(), "four": DependencySparsity(points=4)}.items():
        net, plan = MLP(hidden=(16,)), Training(steps=120, batch_size=64, refit=False)
        weighted = None if penalty is None else 0.3 * penalty
        model = VAE(LATENTS, penalty=weighted, encoder=net, decoder=net, training=plan, random_state=0).fit(x[:900])
        codec, codes = model.models_[0], model.transform(x[900:])
        scores[name] = mcc(z[900:], codes).score
        with torch.no_grad():
            reached[name] = float(DependencySparsity()(codec.decoder, torch.as_tensor(codes).to(codec.mean)))
    assert abs(scores["all"] - scores["four"]) < 0.02
    assert reached["four"] == pytest.approx(reached["all"], rel=0.1)
    assert reached["none"] > 1.2 * reached["all"]
