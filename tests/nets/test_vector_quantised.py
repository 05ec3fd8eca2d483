"""An autoencoder of images by way of a book of codes."""

import pytest
import torch
from torch import Tensor

from noumena import seeds
from noumena.estimators.images.vector_quantised import QuantisedAutoencoder, VectorQuantised, quantised

SMALL = VectorQuantised(2, 8, widths=(3, 4), blocks=1, depth=2, codes=6)


def rows(n: int = 5, columns: int = 128, seed: int = 0) -> Tensor:
    return torch.randn(n, columns, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def network(seed: int = 0) -> QuantisedAutoencoder:
    with seeds.global_torch(seed, "init"):
        return SMALL(128, 128).double()


def test_the_nearest_code_is_that_of_a_slow_loop() -> None:
    h, codes = rows(40, 3), rows(7, 3, seed=1)
    found = quantised(h, codes)
    nearest = [min(range(7), key=lambda j: float((row - codes[j]).norm())) for row in h]
    torch.testing.assert_close(found.code, codes[nearest])
    torch.testing.assert_close(found.usage, torch.bincount(torch.tensor(nearest), minlength=7).double() / 40)


def test_every_vector_across_the_channels_becomes_a_code() -> None:
    net = network()
    h = net.encode(rows())
    q, usage = net.quantise(h)
    assert q.shape == h.shape == (5, 2 * 2 * 2)
    pixel = q.unflatten(1, (2, 2, 2))[3, :, 1, 0]
    vector = h.unflatten(1, (2, 2, 2))[3, :, 1, 0]
    torch.testing.assert_close(pixel, quantised(vector[None], net.codes).code[0])
    assert float(usage.sum()) == pytest.approx(1)


def test_gradients_pass_the_codes_straight_through_to_the_encoder() -> None:
    net, x = network(), rows()
    h = net.encode(x)
    q, _ = net.quantise(h)
    at = q.detach().requires_grad_()
    (expected,) = torch.autograd.grad(net.decode(at).square().sum(), at)
    h.retain_grad()
    net.decode(h + (q - h).detach()).square().sum().backward()
    torch.testing.assert_close(h.grad, expected)
    torch.testing.assert_close(net(x), net.decode(q))


def test_codes_are_put_where_vectors_are() -> None:
    net, x = network(), rows(30)
    net.settle_codes(x, torch.Generator().manual_seed(0))
    vectors = net.encode(x).unflatten(1, (2, 4)).mT.flatten(0, 1)
    assert float(torch.cdist(net.codes, vectors).min(dim=1).values.detach().max()) < 1e-6
    assert len(net.codes.detach().unique(dim=0)) > 3


def test_the_default_makes_sixteen_by_sixteen_by_three_of_a_picture() -> None:
    with torch.device("meta"):
        net = VectorQuantised()(12288, 12288)
        x = torch.zeros(2, 12288)
    assert net.encode(x).shape == (2, 3 * 16 * 16)
    assert net.decode(net.encode(x)).shape == x.shape


def test_codes_are_chosen_in_full_precision_under_autocast() -> None:
    codes = torch.tensor([[100.0, 0.0], [100.1, 0.0]])
    h = torch.tensor([[100.02, 0.0], [100.08, 0.0]])
    with torch.autocast("cpu", torch.bfloat16):
        assert torch.equal(quantised(h, codes).code, codes)
