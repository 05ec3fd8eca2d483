"""A builder of perceptrons makes the network it describes."""

from itertools import pairwise

import numpy as np
import pytest
import torch
from torch import nn

from noumena.nets import MLP


@pytest.mark.parametrize("hidden", [(), (4,), (64, 64), (3, 5, 2)])
def test_widths_are_as_asked(hidden: tuple[int, ...]) -> None:
    network = MLP(hidden=hidden)(6, 7)
    linear = [layer for layer in network if isinstance(layer, nn.Linear)]
    widths = (6, *hidden, 7)
    assert [(layer.in_features, layer.out_features) for layer in linear] == list(pairwise(widths))
    assert network(torch.randn(9, 6)).shape == (9, 7)


@pytest.mark.parametrize("slope", [0.0, 0.2, 1.0])
def test_the_output_is_that_of_a_hand_written_network(slope: float) -> None:
    network = MLP(hidden=(4, 5), slope=slope)(3, 2).double()
    x = torch.randn(10, 3, dtype=torch.float64)
    hidden = x.numpy()
    parameters = [p.detach().numpy() for p in network.parameters()]
    for layer in range(3):
        hidden = hidden @ parameters[2 * layer].T + parameters[2 * layer + 1]
        if layer < 2:
            hidden = np.where(hidden > 0, hidden, slope * hidden)
    np.testing.assert_allclose(network(x).detach().numpy(), hidden)


def test_the_last_layer_is_linear_and_the_default_bends() -> None:
    network = MLP()(2, 3)
    assert isinstance(network[-1], nn.Linear)
    x = torch.randn(50, 2)
    assert (network(x) < 0).any()
    assert not torch.allclose(network(-x) + network(x), 2 * network(0 * x), atol=1e-3)


def test_without_hidden_layers_or_with_slope_one_the_network_is_affine() -> None:
    for network in (MLP(hidden=())(3, 2), MLP(slope=1.0)(3, 2)):
        a, b = torch.randn(2, 5, 3).unbind()
        torch.testing.assert_close(network(a) + network(b), network(a + b) + network(0 * a), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(("ends", "width"), [((3, 2), 64), ((5, 40), 80), ((80, 40), 160), ((784, 10), 64)])
def test_the_default_width_follows_the_wider_end(ends: tuple[int, int], width: int) -> None:
    widths = [layer.out_features for layer in MLP()(*ends) if isinstance(layer, nn.Linear)]
    assert widths == [width, width, ends[1]]
