"""Residual encoders, attention, concept tokens and the U-Net that predicts noise."""

from copy import deepcopy

import pytest
import torch
from torch import Tensor, nn
from torch.func import functional_call, stack_module_state, vmap
from torch.nn import functional as F

from noumena import seeds
from noumena.derivatives import jacobian
from noumena.estimators.images.attention import Attention, Concepts, Looking, attended
from noumena.estimators.images.unet import TimedBlock, UNet, UNetwork, waves
from noumena.nets.residual import ResidualBlock, ResidualEncoder

SMALL = UNet(2, 8, widths=(4, 8), heads=2, context=3, near=1)
DIM = 2 * 8 * 8


def numbers(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def network(seed: int = 0, plan: UNet = SMALL) -> UNetwork:
    dim = plan.channels * plan.size**2
    with seeds.global_torch(seed, "init"):
        return plan(dim, dim).double()


def inputs(batch: int = 3, tokens: int = 5) -> tuple[Tensor, Tensor, Tensor]:
    return numbers(batch, DIM), torch.arange(batch, dtype=torch.float64) * 300, numbers(batch, tokens, 3, seed=2)


# ---- attention ---------------------------------------------------------------------------------------------------


def test_attention_is_that_of_torch_and_of_a_slow_loop() -> None:
    q, k, v = numbers(2, 3, 4), numbers(2, 5, 4, seed=1), numbers(2, 5, 6, seed=2)
    found = attended(q, k, v)
    torch.testing.assert_close(found, F.scaled_dot_product_attention(q, k, v))
    shares = torch.tensor([float(q[1, 2] @ k[1, j]) / 2 for j in range(5)], dtype=torch.float64).exp()
    torch.testing.assert_close(found[1, 2], (shares[:, None] * v[1]).sum(dim=0) / shares.sum())


def test_attention_with_heads_is_that_of_torch() -> None:
    ours = Attention(6, 6, heads=2).double()
    theirs = nn.MultiheadAttention(6, 2, bias=True, batch_first=True).double()
    with torch.no_grad():
        theirs.in_proj_weight.copy_(torch.cat([ours.query.weight, ours.key.weight, ours.value.weight]))
        theirs.in_proj_bias.zero_()
        theirs.out_proj.weight.copy_(ours.out.weight)
        theirs.out_proj.bias.copy_(ours.out.bias)
    h, context = numbers(2, 4, 6), numbers(2, 3, 6, seed=1)
    torch.testing.assert_close(ours(h, context), theirs(h, context, context)[0])


def test_maps_that_look_only_at_tokens_do_not_look_at_one_another() -> None:
    h, context = numbers(1, 4, 2, 3), numbers(1, 2, 3, seed=1)
    moved = h.clone()
    moved[0, 0, 1, 2] += 1.0
    for near, others_change in ((False, False), (True, True)):
        look = Looking(4, 3, 2, near=near).double()
        change = (look(moved, context) - look(h, context)).detach().abs().sum(dim=1)[0]
        assert float(change[1, 2]) > 0.1
        change[1, 2] = 0
        assert bool((change > 1e-9).any()) == others_change


def test_every_token_depends_on_its_own_scalar_alone() -> None:
    concepts = Concepts(4, 3).double()
    z = numbers(2, 4)
    J = jacobian(lambda y: concepts(y).flatten(1), z).detach().unflatten(1, (4, 3)).abs().sum(dim=2)
    for j in range(4):
        assert float(J[:, j, j].min()) > 0
        J[:, j, j] = 0
    assert float(J.max()) == 0
    assert [tuple(w.shape) for w in concepts.weights] == [(4, 1, 64), (4, 64, 128), (4, 128, 3)]
    same = concepts(torch.full((1, 4), 0.7, dtype=torch.float64))[0].detach()
    assert float((same[0] - same[1]).abs().min()) > 1e-6  # equal scalars are still told apart


def test_a_token_is_that_of_a_small_network_of_its_scalar() -> None:
    concepts = Concepts(2, 3, hidden=(5,)).double()
    z = numbers(4, 2)
    W, b = concepts.weights, concepts.biases
    expected = F.elu(z[:, 1:] * W[0][1] + b[0][1]) @ W[1][1] + b[1][1]
    torch.testing.assert_close(concepts(z)[:, 1], expected)


# ---- the network -------------------------------------------------------------------------------------------------


def test_time_is_told_in_waves_from_one_radian_a_step_to_a_ten_thousandth() -> None:
    t = torch.tensor([3.0, 500.0], dtype=torch.float64)
    found = waves(t, 6)
    for k, rate in enumerate((1.0, 1e-2, 1e-4)):
        torch.testing.assert_close(found[:, k], (t * rate).cos())
        torch.testing.assert_close(found[:, 3 + k], (t * rate).sin())


@pytest.mark.parametrize(
    "plan", [SMALL, UNet(1, 4, widths=(4,), heads=1, blocks=2, near=0), UNet(3, 8, (2, 4, 6), 2, 2)]
)
def test_noise_has_the_shape_of_what_it_is_in(plan: UNet) -> None:
    dim = plan.channels * plan.size**2
    h, t, context = numbers(3, dim), torch.zeros(3, dtype=torch.float64), numbers(3, 4, plan.context)
    assert network(plan=plan)(h, t, context).shape == (3, dim)


def test_the_prediction_depends_on_the_input_the_time_and_the_tokens_but_not_on_the_order_of_tokens() -> None:
    net, (h, t, context) = network(), inputs()
    with torch.no_grad():
        found = net(h, t, context)
        for changed in ((h + 1, t, context), (h, t + 100, context), (h, t, context + 1)):
            assert float((net(*changed) - found).abs().amax(dim=1).min()) > 1e-5
        torch.testing.assert_close(net(h, t, context.flip(1)), found)


def test_rows_are_seen_one_by_one() -> None:
    net, (h, t, context) = network(), inputs()
    with torch.no_grad():
        alone = torch.cat([net(h[i : i + 1], t[i : i + 1], context[i : i + 1]) for i in range(3)])
        torch.testing.assert_close(net(h, t, context), alone)


def test_a_block_scales_and_shifts_by_the_time() -> None:
    block = TimedBlock(3, 4, 5).double()
    h, time = numbers(2, 3, 4, 4), numbers(2, 5, seed=1)
    inner = F.group_norm(block.first(h), 1, block.norm.weight, block.norm.bias)
    scale, shift = block.time(time)[:, :4, None, None], block.time(time)[:, 4:, None, None]
    torch.testing.assert_close(block(h, time), block.skip(h) + block.last(inner * (1 + scale) + shift))


def test_several_networks_in_one_program_equal_each_alone_with_their_jacobians() -> None:
    nets, (h, t, z) = [network(k) for k in range(2)], inputs()
    parameters, buffers = stack_module_state(nets)  # type: ignore[arg-type]
    skeleton = deepcopy(nets[0]).to("meta")

    def of_tokens(net):  # type: ignore[no-untyped-def]
        return lambda y: net(h, t, y.unflatten(1, (-1, 3)))

    def one(p, b):  # type: ignore[no-untyped-def]
        f = of_tokens(lambda *given: functional_call(skeleton, (p, b), given))
        return f(z.flatten(1)), jacobian(f, z.flatten(1))

    found = vmap(one)(parameters, buffers)
    for k, net in enumerate(nets):
        torch.testing.assert_close(found[0][k], net(h, t, z))
        torch.testing.assert_close(found[1][k], jacobian(of_tokens(net), z.flatten(1)))


@pytest.mark.parametrize("number", [1, 2])
def test_maps_may_shrink_to_a_single_pixel_in_one_network_or_several(number: int) -> None:
    plan = UNet(2, 4, widths=(4, 8, 8), heads=2, context=3)
    nets = [network(seed, plan).float() for seed in range(number)]
    h, t, tokens = (v.float() for v in (numbers(3, 32), numbers(3).abs(), numbers(3, 5, 3, seed=2)))
    skeleton = deepcopy(nets[0]).to("meta")
    state = stack_module_state(nets)  # type: ignore[arg-type]
    found = vmap(lambda p, b: functional_call(skeleton, (p, b), (h, t, tokens)))(*state)
    for net, each in zip(nets, found, strict=True):
        torch.testing.assert_close(each, net(h, t, tokens))
        norm = net.out[0]
        maps = numbers(3, 4, 2, 2).float()
        expected = F.group_norm(maps, norm.num_groups, norm.weight, norm.bias)
        torch.testing.assert_close(norm(maps), expected)


def test_the_jacobian_with_respect_to_tokens_is_that_of_finite_differences_and_can_be_trained() -> None:
    net, (h, t, context) = network(), inputs()
    f = lambda y: net(h, t, y.unflatten(1, (-1, 3)))  # noqa: E731
    z, step = context.flatten(1), 1e-5
    J = jacobian(f, z)
    direction = numbers(*z.shape, seed=9)
    with torch.no_grad():
        slope = (f(z + step * direction) - f(z - step * direction)) / (2 * step)
    torch.testing.assert_close(torch.einsum("boi,bi->bo", J, direction), slope, rtol=1e-4, atol=1e-8)
    J.square().sum().backward()
    assert bool((net.down[0][0].look.cross.value.weight.grad != 0).any())  # type: ignore[index, union-attr]


def test_the_published_settings_can_be_asked_for() -> None:
    with torch.device("meta"):
        published = UNet(widths=(64, 128, 256, 256), blocks=2, heads=8, near=4)(768, 768)
        default = UNet()(768, 768)
    sizes = [sum(p.numel() for p in net.parameters()) for net in (default, published)]
    assert 5e6 < sizes[0] < 12e6 < 2 * sizes[0] < sizes[1]


# ---- the residual encoder ----------------------------------------------------------------------------------------


def test_a_residual_block_adds_to_what_was_there() -> None:
    block, h = ResidualBlock(3).double(), numbers(2, 3, 4, 4)
    added = F.conv2d(F.conv2d(h.relu(), block.inner.weight, padding=1).relu(), block.outer.weight)
    torch.testing.assert_close(block(h), h + added)
    assert 0 < float(added.detach().std()) < 0.5 * float(h.std())


def test_images_go_to_as_many_scalars_as_are_asked_for() -> None:
    net = ResidualEncoder(2, 8, widths=(3, 4), blocks=2)(128, 5)
    assert net(torch.randn(3, 128)).shape == (3, 5)
    assert sum(isinstance(layer, ResidualBlock) for layer in net) == 2
