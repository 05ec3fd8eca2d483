"""Coupling networks are invertible, and say by how much they change volume."""

import sys
from copy import deepcopy

import numpy as np
import pytest
import torch
from scipy.stats import special_ortho_group
from torch import nn
from torch.func import functional_call, stack_module_state, vmap

from noumena import seeds
from noumena.checks import InputError
from noumena.derivatives import jacobian
from noumena.nets.couplings import Affine, Coupling, VolumePreserving, centred, soft_clamp

BUILDERS = [
    VolumePreserving(blocks=5, hidden=(8,)),
    Coupling(blocks=4, hidden=(8,)),
    Coupling(blocks=4, hidden=(8,), transform="spline", bins=5, bound=3.0),
]
NAMES = ["volume-preserving", "affine", "spline"]
every_builder = pytest.mark.parametrize("builder", BUILDERS, ids=NAMES)
DIMENSIONS = [2, 3, 6]


def network(builder, dim, seed=0, size=4.0):
    """A network far from a permutation."""
    with seeds.global_torch(seed, "init"):
        net = builder(dim, dim).double()
    with torch.no_grad():
        for parameter in net.parameters():
            parameter.mul_(size)
    return net


def rows(dim, n=40, seed=0):
    return torch.as_tensor(2 * np.random.default_rng(seed).normal(size=(n, dim)))


@every_builder
@pytest.mark.parametrize("dim", DIMENSIONS)
class TestEveryNetwork:
    def test_the_inverse_is_exact_both_ways(self, builder, dim):
        net, x = network(builder, dim), rows(dim)
        u, _ = net(x)
        assert not torch.allclose(u.sort().values, x.sort().values, atol=0.1)
        torch.testing.assert_close(net.inverse(u), x, rtol=0, atol=1e-9)
        torch.testing.assert_close(net(net.inverse(x))[0], x, rtol=0, atol=1e-9)

    def test_the_log_determinant_is_that_of_the_jacobian(self, builder, dim):
        net, x = network(builder, dim), rows(dim)
        _, logdet = net(x)
        J = jacobian(lambda v: net(v)[0], x)
        torch.testing.assert_close(logdet, torch.linalg.slogdet(J).logabsdet, rtol=0, atol=1e-9)
        assert (logdet.std() > 0.01) == isinstance(builder, Coupling)

    def test_every_output_depends_on_every_input(self, builder, dim):
        net, x = network(builder, dim), rows(dim)
        assert (jacobian(lambda v: net(v)[0], x).abs().amax(dim=0) > 1e-6).all()

    def test_gradients_reach_every_parameter_in_both_directions(self, builder, dim):
        net, x = network(builder, dim, size=1.0), rows(dim)
        u, logdet = net(x)
        forward = torch.autograd.grad(u.pow(2).sum() + logdet.sum(), list(net.parameters()))
        inverse = torch.autograd.grad(net.inverse(x).pow(2).sum(), list(net.parameters()))
        assert all(bool((g != 0).any()) for g in (*forward, *inverse))

    def test_several_networks_run_as_one_program(self, builder, dim):
        nets, x = [network(builder, dim, seed) for seed in range(3)], rows(dim)
        parameters, buffers = stack_module_state(nets)  # type: ignore[arg-type]
        skeleton = deepcopy(nets[0]).to("meta")

        def there_and_back(p, b):
            u, logdet = functional_call(skeleton, (p, b), (x,))
            return u, logdet, jacobian(lambda v: functional_call(Inverse(skeleton), named(p, b), (v,)), u)

        def named(*states):
            return {f"net.{k}": v for state in states for k, v in state.items()}

        u, logdet, J = vmap(there_and_back)(parameters, buffers)
        for k, net in enumerate(nets):
            torch.testing.assert_close((u[k], logdet[k]), net(x))
            torch.testing.assert_close(J[k], jacobian(net.inverse, u[k]))

    def test_single_precision_stays_single(self, builder, dim):
        net, x = network(builder, dim, size=1.0).float(), rows(dim).float()
        u, logdet = net(x)
        assert u.dtype == logdet.dtype == net.inverse(u).dtype == torch.float32
        torch.testing.assert_close(net.inverse(u), x, rtol=0, atol=1e-4)


class Inverse(nn.Module):
    def __init__(self, net):
        super().__init__()
        self.net = net

    def forward(self, u):
        return self.net.inverse(u)


@pytest.mark.parametrize("dim", DIMENSIONS)
def test_a_volume_preserving_network_has_determinant_one_everywhere(dim):
    net, x = network(BUILDERS[0], dim), rows(dim)
    assert float(net(x)[1].detach().abs().max()) < 1e-12
    J = jacobian(lambda v: net(v)[0], x)
    torch.testing.assert_close(torch.linalg.det(J).abs(), torch.ones(len(x), dtype=torch.float64))
    if dim > 2:  # it stretches some directions at the cost of others
        assert float(torch.linalg.svdvals(J.detach())[:, 0].amax()) > 1.5


def test_log_scales_stay_within_the_clamp():
    s = torch.linspace(-1e6, 1e6, 101)
    assert float(soft_clamp(s, 0.7).abs().max()) <= 0.7
    assert float(soft_clamp(s, 0.7)[-1]) > 0.69
    assert float(soft_clamp(torch.tensor(1e-4), 0.7)) == pytest.approx(2 / np.pi * 1e-4, rel=1e-3)
    assert float(centred(torch.randn(5, 3)).sum(dim=-1).abs().max()) < 1e-5


@pytest.mark.parametrize(("balanced", "largest"), [(True, 1.0), (False, 0.5)])
def test_an_affine_change_scales_by_no_more_than_the_clamp_allows(balanced, largest):
    change = Affine(2, 3, hidden=(8,), clamp=0.5, balanced=balanced)
    with torch.no_grad():
        for parameter in change.parameters():
            parameter.mul_(100)
    given = torch.randn(200, 2)
    slopes = (change(torch.ones(200, 3), given)[0] - change(torch.zeros(200, 3), given)[0]).log()
    assert 0.5 * largest < float(slopes.detach().abs().max()) <= largest + 1e-3


def test_every_network_shuffles_in_its_own_way():
    nets = [network(BUILDERS[1], 6, seed) for seed in (0, 1)]
    assert not torch.equal(nets[0].order, nets[1].order)
    assert torch.equal(nets[0].order.sort().values, torch.arange(6).expand(2, -1))


def test_a_network_starts_near_a_permutation():
    x = torch.as_tensor(special_ortho_group.rvs(6, random_state=0)).float()
    for builder in BUILDERS:
        u, _ = builder(6, 6)(x)
        torch.testing.assert_close(u.sort().values, x.sort().values, rtol=0, atol=0.35)


def test_a_spline_is_the_identity_far_out_and_bends_within():
    net = network(BUILDERS[2], 2)
    far = torch.tensor([[50.0, -60.0]], dtype=torch.float64)
    assert torch.equal(net(far)[0].sort().values, far.sort().values)
    assert float(net(far)[1].detach()) == 0
    assert not torch.allclose(net(far / 50)[0].sort().values, (far / 50).sort().values, atol=1e-3)


def test_a_missing_package_is_said_in_one_sentence(monkeypatch):
    monkeypatch.setitem(sys.modules, "zuko.transforms", None)
    with pytest.raises(InputError, match=r"install noumena\[flows\]") as caught:
        Coupling(transform="spline")(3, 3)
    assert "\n" not in str(caught.value)
    assert Coupling(transform="affine")(3, 3)(torch.ones(1, 3))[0].shape == (1, 3)
