"""Convolutional builders turn flat images into latents and back."""

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from noumena import seeds
from noumena.derivatives import differentiate
from noumena.nets.conv import ConvDecoder, ConvEncoder

SMALL = {"channels": 2, "size": 8, "widths": (3, 4), "hidden": 5}
PIXELS = 2 * 8 * 8


def networks(seed: int = 0, slope: float = 0.1) -> tuple[nn.Sequential, nn.Sequential]:
    with seeds.global_torch(seed, "init"):
        return ConvEncoder(**SMALL, slope=slope)(PIXELS, 6).double(), ConvDecoder(**SMALL, slope=slope)(
            6, PIXELS
        ).double()


def rows(columns: int, n: int = 7, seed: int = 1) -> Tensor:
    return torch.randn(n, columns, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


@pytest.mark.parametrize(("channels", "size"), [(1, 64), (3, 32), (5, 16)])
def test_images_of_any_channels_and_size_go_to_latents_and_back(channels: int, size: int) -> None:
    pixels = channels * size**2
    encoder = ConvEncoder(channels, size, widths=(4, 4, 6, 6), hidden=8)(pixels, 7)
    decoder = ConvDecoder(channels, size, widths=(4, 4, 6, 6), hidden=8)(7, pixels)
    x = torch.randn(3, pixels)
    assert encoder(x).shape == (3, 7)
    assert decoder(encoder(x)).shape == x.shape


def test_the_encoder_is_that_written_by_hand() -> None:
    encoder, _ = networks(slope=0.1)
    x = rows(PIXELS)
    w1, b1, w2, b2, w3, b3, w4, b4 = encoder.parameters()
    h = F.leaky_relu(F.conv2d(x.reshape(-1, 2, 8, 8), w1, b1, stride=2, padding=1), 0.1)
    h = F.leaky_relu(F.conv2d(h, w2, b2, stride=2, padding=1), 0.1)
    assert h.shape == (7, 4, 2, 2)
    h = F.leaky_relu(h.reshape(7, -1) @ w3.T + b3, 0.1)
    torch.testing.assert_close(encoder(x), h @ w4.T + b4)


def test_the_decoder_is_that_written_by_hand_with_a_linear_end() -> None:
    _, decoder = networks(slope=0.1)
    z = rows(6)
    w1, b1, w2, b2, w3, b3, w4, b4 = decoder.parameters()
    h = F.leaky_relu(F.leaky_relu(z @ w1.T + b1, 0.1) @ w2.T + b2, 0.1).reshape(-1, 4, 2, 2)
    h = F.leaky_relu(F.conv_transpose2d(h, w3, b3, stride=2, padding=1), 0.1)
    h = F.conv_transpose2d(h, w4, b4, stride=2, padding=1)
    torch.testing.assert_close(decoder(z), h.reshape(7, -1))
    assert (decoder(z) < 0).any()


def test_the_decoder_mirrors_the_encoder() -> None:
    encoder, decoder = networks()
    shapes = [
        [tuple(p.shape) for p in net.parameters() if p.ndim > 1]
        for net in (encoder, decoder)
    ]  # fmt: skip
    mirrored = [(s[1], s[0]) if len(s) == 2 else s for s in shapes[1][::-1]]
    assert shapes[0] == mirrored


def test_moving_an_image_by_whole_strides_moves_its_features() -> None:
    encoder, _ = networks()
    image = torch.zeros(1, 2, 8, 8, dtype=torch.float64)
    image[..., 3, 3] = 1.0
    image[..., 4, 3] = -2.0
    here, there = (encoder[:2](picture.reshape(1, -1)) for picture in (image, image.roll(2, dims=3)))
    torch.testing.assert_close(here[..., :3], there[..., 1:])
    assert not torch.allclose(here, there)


@pytest.mark.parametrize("slope", [0.0, 0.3])
def test_fresh_networks_keep_the_size_of_what_they_pass(slope: float) -> None:
    shape = {"channels": 2, "size": 64, "widths": (48, 48, 48), "hidden": 300, "slope": slope}
    with seeds.global_torch(0, "init"):
        encoder, decoder = ConvEncoder(**shape)(2 * 64**2, 200), ConvDecoder(**shape)(200, 2 * 64**2)
    generator = torch.Generator().manual_seed(0)
    for net, columns in ((encoder, 2 * 64**2), (decoder, 200)):
        out = net(torch.randn(20, columns, generator=generator)).detach()
        assert 0.4 < float(out.square().mean()) < 1.6
        assert all(float(p.detach().abs().max()) == 0 for name, p in net.named_parameters() if name.endswith("bias"))


def test_the_decoder_has_structured_derivatives() -> None:
    _, decoder = networks()
    found, plain = (differentiate(decoder, rows(6), way=way) for way in ("auto", "forward"))
    assert found.way == "structured"
    torch.testing.assert_close(found.J, plain.J)
