"""A style-based generator and its discriminator: modulation is that of explicit weights, and models run together."""

from itertools import pairwise
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from noumena.derivatives import jacobian
from noumena.estimators.images.style_networks import (
    StyleDiscriminator,
    StyleGenerator,
    enlarged,
    modulated,
    spread_of_groups,
)

GENERATOR = StyleGenerator(2, 8, widths=(6, 5, 4), style=7, depth=2)
JUDGE = StyleDiscriminator(2, 8, widths=(4, 5, 6))
PIXELS = 128


def normal(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def built(builder: Any, *ends: int, seed: int = 0) -> nn.Module:
    torch.manual_seed(seed)
    return builder(*ends).double()


@pytest.mark.parametrize("demodulate", [True, False])
def test_modulation_is_a_convolution_by_every_rows_own_weights(demodulate: bool) -> None:
    h, weight, s = normal(3, 4, 5, 5), normal(6, 4, 3, 3, seed=1), normal(3, 4, seed=2)
    found = modulated(h, weight, s, demodulate=demodulate)
    for row in range(3):
        own = weight * s[row][None, :, None, None]
        if demodulate:
            own = own / own.flatten(1).norm(dim=1)[:, None, None, None]
        torch.testing.assert_close(found[row], F.conv2d(h[row : row + 1], own, padding=1)[0], atol=1e-7, rtol=1e-6)


def test_demodulation_ignores_the_size_of_the_modulation() -> None:
    h, weight, s = normal(3, 4, 5, 5), normal(6, 4, 3, 3, seed=1), normal(3, 4, seed=2)
    torch.testing.assert_close(modulated(h, weight, s), modulated(h, weight, 9 * s), atol=1e-7, rtol=1e-6)


def test_images_are_enlarged_as_torch_does_it_bilinearly() -> None:
    h = normal(2, 3, 4, 4)
    torch.testing.assert_close(enlarged(h), F.interpolate(h, scale_factor=2.0, mode="bilinear", align_corners=False))


def test_the_spread_of_groups_is_that_of_a_slow_loop() -> None:
    for rows, group in ((8, 4), (6, 2), (5, 1)):
        h = normal(rows, 3, 2, 2)
        found = spread_of_groups(h)
        for start in range(0, rows, group):
            slow = h[start : start + group].numpy().std(axis=0).mean()
            torch.testing.assert_close(
                found[start : start + group], torch.full((group, 1, 2, 2), slow, dtype=torch.float64), atol=2e-4, rtol=0
            )


def test_the_generator_is_that_of_a_slow_loop_over_levels() -> None:
    net: Any = built(GENERATOR, 3, PIXELS)
    w = net.mapping(normal(4, 3))
    h, image = net.synthesis.constant.expand(4, -1, -1, -1), torch.zeros(4, 2, 2, 2, dtype=torch.float64)

    def convolved(layer: Any, h: Tensor) -> Tensor:
        fan = layer.weight[0].numel()
        s = w @ (layer.affine.weight / 7**0.5).T + layer.affine.bias
        own = s[:, None, :, None, None] * layer.weight / fan**0.5
        if layer.demodulate:
            own = own / own.square().sum(dim=(2, 3, 4), keepdim=True).add(1e-8).sqrt()
        rows = [F.conv2d(h[k : k + 1], own[k], padding=layer.weight.shape[-1] // 2) for k in range(len(h))]
        return torch.cat(rows) + layer.bias[:, None, None]

    for k, level in enumerate(net.synthesis.levels):
        if k > 0:
            h, image = (F.interpolate(t, scale_factor=2.0, mode="bilinear", align_corners=False) for t in (h, image))
        for layer in level.convolutions:
            h = F.leaky_relu(convolved(layer, h), 0.2) * 2**0.5
        image = image + convolved(level.pixels, h)
    torch.testing.assert_close(net.synthesis(w), image.flatten(1) / 2 + 0.5)
    sizes = [[tuple(c.weight.shape[:2]) for c in level.convolutions] for level in net.synthesis.levels]
    assert sizes == [[(6, 6)], [(5, 6), (5, 5)], [(4, 5), (4, 4)]]


def test_the_discriminator_sees_pixels_between_minus_one_and_one_and_halves_them() -> None:
    net: Any = built(JUDGE, PIXELS, 1)
    x = normal(4, PIXELS)

    def convolved(layer: Any, h: Tensor) -> Tensor:
        kernel = layer.weight.shape[-1]
        return F.conv2d(h, layer.weight / layer.weight[0].numel() ** 0.5, layer.bias, padding=kernel // 2)

    def bent(h: Tensor) -> Tensor:
        return F.leaky_relu(h, 0.2) * 2**0.5

    h = bent(convolved(net.first, 2 * x.reshape(4, 2, 8, 8) - 1))
    for part in net.reductions:
        main = F.avg_pool2d(bent(convolved(part.second, bent(convolved(part.first, h)))), 2)
        h = (main + convolved(part.shortcut, F.avg_pool2d(h, 2))) / 2**0.5
    h = bent(convolved(net.last, torch.cat([h, spread_of_groups(h)], dim=1))).flatten(1)
    for layer, last in ((net.hidden, False), (net.logit, True)):
        h = h @ layer.weight.T / layer.in_features**0.5 + layer.bias
        h = h if last else bent(h)
    torch.testing.assert_close(net(x), h)
    assert [tuple(p.second.weight.shape[:2]) for p in net.reductions] == [(b, a) for a, b in pairwise((4, 5, 6))]


def test_rows_are_judged_alone_unless_they_are_compared() -> None:
    x = normal(4, PIXELS)
    alone = built(StyleDiscriminator(2, 8, widths=(4, 5), compares=False), PIXELS, 1)
    torch.testing.assert_close(alone(x)[:1], alone(x[:1]))
    beside = built(JUDGE, PIXELS, 1)
    assert not torch.allclose(beside(x)[:1], beside(x[:1]))


def test_the_length_of_the_noise_is_of_no_consequence() -> None:
    net, z = built(GENERATOR, 3, PIXELS), normal(4, 3)
    torch.testing.assert_close(net(z), net(5 * z), atol=1e-6, rtol=1e-6)
    assert not torch.allclose(net(z), net(-z), atol=1e-2)


def test_images_begin_at_a_size_that_the_widths_do_not_matter_to() -> None:
    for width in (4, 64):
        net = built(StyleGenerator(1, 8, widths=(width, width), style=16), 16, 64)
        assert 0.2 < float(net(normal(64, 16)).detach().std()) < 2


def test_the_jacobian_of_images_by_styles_is_that_of_finite_differences() -> None:
    net: Any = built(GENERATOR, 3, PIXELS)
    w, step = net.mapping(normal(2, 3)).detach(), 1e-6
    J = jacobian(net.synthesis, w)
    for j, axis in enumerate(torch.eye(7, dtype=torch.float64)):
        slope = (net.synthesis(w + step * axis) - net.synthesis(w - step * axis)) / (2 * step)
        torch.testing.assert_close(J[..., j], slope, atol=1e-6, rtol=1e-5)
