"""Orthogonal layers stay orthogonal, and networks of them bend distances no more than their leaks allow."""

import numpy as np
import pytest
import torch
from torch import nn

from noumena import seeds
from noumena.derivatives import jacobian
from noumena.estimators.autoencoder import Autoencoder
from noumena.estimators.loop import Training
from noumena.guarantees.lipschitz import architecture_bound
from noumena.nets.orthogonal import Orthogonal, OrthogonalLinear, householder_columns


def away_from_orthonormal(columns: torch.Tensor) -> float:
    gram = columns.mT @ columns
    return float((gram - torch.eye(gram.shape[-1], dtype=gram.dtype)).detach().abs().max())


# ---- the parametrisation -----------------------------------------------------------------------------------------


def test_a_frame_is_the_product_of_reflections_one_after_the_other() -> None:
    V = torch.randn(6, 4, dtype=torch.float64)
    product = np.eye(6)
    for v in V.numpy().T:
        product = product @ (np.eye(6) - 2 * np.outer(v, v) / (v @ v))
    np.testing.assert_allclose(householder_columns(V).numpy(), product[:, :4], atol=1e-12)


@pytest.mark.parametrize("shape", [(784, 256), (64, 64), (5, 1), (1, 1)])
def test_columns_are_orthonormal_in_single_precision_whatever_the_parameters(shape: tuple[int, int]) -> None:
    rows, columns = shape
    for seed in range(5):
        g = torch.Generator().manual_seed(seed)
        even = torch.randn(shape, generator=g)
        nearly_one = torch.randn(rows, 1, generator=g) + 1e-3 * torch.randn(shape, generator=g)
        assert away_from_orthonormal(householder_columns(even)) < 2e-6
        assert away_from_orthonormal(householder_columns(even * torch.logspace(-3, 3, columns))) < 2e-6
        assert away_from_orthonormal(householder_columns(nearly_one)) < 1e-5


def test_the_length_of_a_direction_is_of_no_consequence() -> None:
    V = torch.randn(7, 3, dtype=torch.float64)
    torch.testing.assert_close(householder_columns(V * torch.tensor([0.1, -3.0, 20.0])), householder_columns(V))


def test_gradients_of_a_frame_are_those_of_finite_differences() -> None:
    for shape in ((5, 3), (3, 3)):
        assert torch.autograd.gradcheck(
            householder_columns, torch.randn(shape, dtype=torch.float64, requires_grad=True)
        )


@pytest.mark.parametrize(("inputs", "outputs"), [(2, 3), (3, 2), (2, 2)])
def test_layers_start_anywhere_with_equal_chance(inputs: int, outputs: int) -> None:
    with seeds.global_torch(0, "many layers"):
        drawn = torch.stack([OrthogonalLinear(inputs, outputs).weight.detach() for _ in range(2000)])
    assert drawn.shape[1:] == (outputs, inputs)
    torch.testing.assert_close(drawn.mean(dim=0), torch.zeros(outputs, inputs), atol=0.06, rtol=0)
    torch.testing.assert_close(
        drawn.square().mean(dim=0), torch.full((outputs, inputs), 1 / max(inputs, outputs)), atol=0.05, rtol=0
    )


def test_large_steps_leave_a_layer_orthonormal_and_move_it() -> None:
    layer = OrthogonalLinear(30, 12)
    before = layer.weight.detach()
    x, y = torch.randn(64, 30), torch.randn(64, 12)
    optimizer = torch.optim.Adam(layer.parameters(), lr=0.3)
    for _ in range(20):
        optimizer.zero_grad()
        (layer(x) - y).square().sum().backward()
        optimizer.step()
        assert away_from_orthonormal(layer.weight.mT) < 1e-5
    assert float((layer.weight.detach() - before).norm()) > 1


def test_a_layer_in_double_precision_is_orthonormal_to_double_precision() -> None:
    assert away_from_orthonormal(OrthogonalLinear(64, 200).double().weight) < 1e-12


# ---- networks ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("slope", [0.0, 0.2])
def test_the_output_is_that_of_a_network_written_by_hand(slope: float) -> None:
    network = Orthogonal(hidden=(5, 6), slope=slope)(3, 4).double()
    x = torch.randn(10, 3, dtype=torch.float64)
    hidden = x.numpy()
    for k in (0, 2, 4):
        hidden = hidden @ network[k].weight.detach().numpy().T
        hidden = np.where((hidden > 0) | (k == 4), hidden, slope * hidden)
    np.testing.assert_allclose(network(x).detach().numpy(), hidden, atol=1e-12)


@pytest.mark.parametrize("slope", [0.3, 0.7])
def test_singular_values_of_a_decoder_lie_between_a_power_of_the_slope_and_one(slope: float) -> None:
    lowest, highest = [], []
    for seed in range(5):
        with seeds.global_torch(seed, "decoder"):
            network = Orthogonal(hidden=(3, 4), slope=slope)(2, 5).double()
            J = jacobian(network, torch.randn(200, 2, dtype=torch.float64))
        singular = torch.linalg.svdvals(J.detach())
        lowest.append(float(singular.min()))
        highest.append(float(singular.max()))
        assert architecture_bound(network).value == pytest.approx(slope**-2)
    assert slope**2 - 1e-9 <= min(lowest) < slope
    assert 0.9 < max(highest) <= 1 + 1e-9


def test_with_slope_one_a_decoder_is_a_linear_isometry_and_an_encoder_its_kind_of_transpose() -> None:
    decoder = Orthogonal(hidden=(6, 7), slope=1.0)(4, 9)
    a, b = torch.randn(2, 8, 4).unbind()
    torch.testing.assert_close(decoder(a) + 2 * decoder(b), decoder(a + 2 * b), atol=1e-5, rtol=1e-4)
    torch.testing.assert_close(torch.cdist(decoder(a), decoder(b)), torch.cdist(a, b))
    encoder = Orthogonal(hidden=(7, 6), slope=1.0)(9, 4)
    rows = encoder(torch.eye(9)).mT
    torch.testing.assert_close(rows @ rows.mT, torch.eye(4), atol=1e-5, rtol=0)


def test_networks_are_bias_free_and_gradients_reach_every_parameter() -> None:
    network = Orthogonal(hidden=(5, 4))(6, 2)
    assert not network(torch.zeros(1, 6)).any()
    network(torch.randn(50, 6)).pow(3).sum().backward()
    assert [tuple(p.shape) for p in network.parameters()] == [(6, 5), (5, 4), (4, 2)]
    assert all(p.grad is not None and float(p.grad.abs().amax()) > 0 for p in network.parameters())


def test_a_trained_autoencoder_is_still_orthonormal_and_equals_its_seed_alone() -> None:
    x = np.random.default_rng(0).normal(size=(200, 8))
    plan = Training(steps=30, batch_size=50, learning_rate=0.1)
    settings = {"encoder": Orthogonal((6,), 0.5), "decoder": Orthogonal((6,), 0.5), "training": plan}
    both = Autoencoder(2, n_models=2, random_state=3, **settings).fit(x)
    alone = Autoencoder(2, random_state=4, **settings).fit(x)
    layer = both.models_[1].decoder[2]
    assert away_from_orthonormal(layer.weight) < 1e-5
    torch.testing.assert_close(layer.weight, alone.models_[0].decoder[2].weight, atol=1e-4, rtol=1e-3)


def test_layers_are_linear_layers_to_the_rest_of_the_house() -> None:
    assert isinstance(Orthogonal(hidden=())(3, 2)[0], nn.Linear)
    assert repr(OrthogonalLinear(3, 2)) == "OrthogonalLinear(in_features=3, out_features=2, bias=False)"
