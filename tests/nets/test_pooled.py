"""Pooling networks: the layers of Table 12, and codes that are affine in where things are."""

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from noumena import seeds
from noumena.nets.conv import kaiming_normal
from noumena.nets.pooled import (
    GaussianMaps,
    PooledDecoder,
    PooledEncoder,
    SpatialSoftmax,
    SpatialSoftmaxDecoder,
    SpatialSoftmaxEncoder,
)

SMALL: dict[str, Any] = {"channels": 2, "size": 12, "widths": (3, 4)}
PIXELS = 2 * 12 * 12
BUILDERS = {
    "pooled": (PooledEncoder(**SMALL), PooledDecoder(**SMALL)),
    "places": (SpatialSoftmaxEncoder(**SMALL, maps=5), SpatialSoftmaxDecoder(**SMALL, maps=5)),
}


def rows(columns: int, n: int = 6, seed: int = 1) -> Tensor:
    return torch.randn(n, columns, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def networks(kind: str, seed: int = 0) -> tuple[nn.Sequential, nn.Sequential]:
    encoder, decoder = BUILDERS[kind]
    with seeds.global_torch(seed, "init"):
        return encoder(PIXELS, 4).double(), decoder(4, PIXELS).double()


def test_the_defaults_are_the_layers_of_table_12() -> None:
    encoder, decoder = PooledEncoder()(3 * 64 * 64, 128), PooledDecoder()(128, 3 * 64 * 64)
    shapes, h = [], torch.rand(1, 3 * 64 * 64)
    for layer in (*encoder, *decoder):
        h = layer(h)
        if isinstance(layer, nn.MaxPool2d | nn.ConvTranspose2d):
            shapes.append(tuple(h.shape[1:]))
    assert shapes[:5] == [(32, 32, 32), (64, 16, 16), (64, 8, 8), (128, 4, 4), (128, 1, 1)]
    assert shapes[5:] == [(128, 2, 2), (64, 4, 4), (64, 8, 8), (32, 16, 16), (3, 64, 64)]
    weights = [tuple(p.shape) for p in encoder.parameters() if p.ndim == 4]
    assert weights == [(32, 3, 3, 3), (64, 32, 3, 3), (64, 64, 3, 3), (128, 64, 3, 3), (128, 128, 3, 3)]
    assert [layer.kernel_size for layer in decoder if isinstance(layer, nn.ConvTranspose2d)] == [(2, 2)] * 4 + [(4, 4)]


def test_the_pooled_encoder_is_that_written_by_hand() -> None:
    encoder, _ = networks("pooled")
    x = rows(PIXELS)
    w1, b1, w2, b2, w3, b3 = encoder.parameters()
    h = F.max_pool2d(F.relu(F.conv2d(x.reshape(-1, 2, 12, 12), w1, b1, padding=1)), 2)
    h = F.max_pool2d(F.relu(F.conv2d(h, w2, b2, padding=1)), 2)
    h = F.relu(F.conv2d(h, w3, b3, padding=1))
    assert h.shape == (6, 4, 3, 3)
    torch.testing.assert_close(encoder(x), h.amax(dim=(2, 3)))


def test_the_pooled_decoder_is_that_written_by_hand_with_a_linear_end() -> None:
    _, decoder = networks("pooled")
    z = rows(4)
    w1, b1, w2, b2, w3, b3 = decoder.parameters()
    h = F.relu(F.conv_transpose2d(z[:, :, None, None], w1, b1, stride=2))
    h = F.relu(F.conv_transpose2d(h, w2, b2, stride=2))
    h = F.conv_transpose2d(h, w3, b3, stride=3)
    torch.testing.assert_close(decoder(z), h.reshape(6, -1))
    assert (decoder(z) < 0).any()


def test_expected_places_are_means_of_pixel_centres_under_the_softmax() -> None:
    maps = rows(2 * 25, 3).reshape(3, 2, 5, 5)
    found = SpatialSoftmax(5).double()(maps)
    for batch, channel in ((0, 0), (2, 1)):
        weights = maps[batch, channel].exp() / maps[batch, channel].exp().sum()
        x = sum(float(weights[i, j]) * (2 * (j + 0.5) / 5 - 1) for i in range(5) for j in range(5))
        y = sum(float(weights[i, j]) * (2 * (i + 0.5) / 5 - 1) for i in range(5) for j in range(5))
        assert abs(float(found[batch, channel]) - x) < 1e-6
        assert abs(float(found[batch, 2 + channel]) - y) < 1e-6


def test_bumps_stand_at_their_places_and_are_as_wide_as_they_are_sharp() -> None:
    bumps = GaussianMaps(2, 5).double()
    with torch.no_grad():
        bumps.sharpness.copy_(torch.tensor([1.0, 5.0]))
        found = bumps(torch.tensor([[0.4, -0.8, -0.4, 0.8]], dtype=torch.float64))[0]
    assert [divmod(int(m.argmax()), 5) for m in found] == [(1, 3), (4, 0)]
    expected = torch.exp(torch.tensor(-(0.4**2 + 0.4**2) / 2, dtype=torch.float64))
    torch.testing.assert_close(found[0, 2, 2], expected, atol=1e-6, rtol=0)
    assert found[1].sum() < found[0].sum()


def test_a_place_code_moves_in_a_line_as_a_thing_moves() -> None:
    with seeds.global_torch(0, "init"):
        encoder = SpatialSoftmaxEncoder(1, 24, widths=(4,), maps=3, halvings=1)(576, 2).double()
    pictures = torch.zeros(7, 1, 24, 24, dtype=torch.float64)
    for k in range(7):
        pictures[k, 0, 8:12, 6 + 2 * k - 2 : 8 + 2 * k] = 30.0
    code = encoder(pictures.flatten(1))
    steps = (code[2:6] - code[1:5]).detach()
    torch.testing.assert_close(steps, steps[:1].expand_as(steps), atol=1e-8, rtol=1e-6)
    assert steps.abs().min() > 1e-4


def test_layers_start_at_a_size_that_keeps_that_of_what_they_pass() -> None:
    with torch.no_grad(), seeds.global_torch(0, "init"):
        encoder = PooledEncoder(2, 12, widths=(32, 32))(PIXELS, 32).double()
        decoder = PooledDecoder(2, 12, widths=(32, 32))(32, PIXELS).double()
        h = encoder(rows(PIXELS, 64))
        assert 0.5 < h.square().mean().sqrt() < 5
        assert 0.5 < (decoder(h).std() / h.square().mean().sqrt()) < 2
        for layer, inputs in (
            (nn.Linear(400, 300), 400),
            (nn.Conv2d(40, 30, 3), 360),
            (nn.ConvTranspose2d(90, 99, 2, 2), 90),
        ):
            assert abs(kaiming_normal(layer).weight.std() * inputs**0.5 - 1) < 0.02
            assert (layer.bias == 0).all()


def test_the_same_seed_builds_the_same_network_and_places_are_scattered() -> None:
    (_, one), (_, two), (_, other) = networks("places"), networks("places"), networks("places", 1)
    assert all(torch.equal(a, b) for a, b in zip(one.parameters(), two.parameters(), strict=True))
    assert not torch.equal(next(one.parameters()), next(other.parameters()))
    assert float(dict(one.named_parameters())["0.bias"].detach().std()) > 0.1
