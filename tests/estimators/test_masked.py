"""Exactly sparse decoders: zeros by construction, whatever the network."""

import numpy as np
import pytest
import torch
from torch import nn

from noumena.derivatives import jacobian
from noumena.estimators.refit.masked import MaskedDecoder, masked, plain, row_errors

NETWORKS = {
    "leaky": lambda: nn.Sequential(nn.Linear(3, 8), nn.LeakyReLU(0.2), nn.Linear(8, 5)),
    "tanh": lambda: nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 8), nn.Tanh(), nn.Linear(8, 5)),
    "normed": lambda: nn.Sequential(nn.Linear(3, 8), nn.LayerNorm(8), nn.GELU(), nn.Linear(8, 5)),
}
SUPPORT = np.array([[1, 0, 0], [1, 1, 0], [1, 0, 0], [0, 1, 1], [1, 1, 1]], dtype=bool)


@pytest.mark.parametrize("name", NETWORKS)
def test_what_the_support_leaves_out_has_a_derivative_of_exactly_zero(name):
    decoder, z = MaskedDecoder(NETWORKS[name](), SUPPORT), torch.randn(50, 3)
    J = jacobian(decoder, z).abs().amax(dim=0)
    assert (J[torch.as_tensor(~SUPPORT)] == 0).all()
    assert (J[torch.as_tensor(SUPPORT)] > 0).all()


@pytest.mark.parametrize("name", NETWORKS)
def test_each_output_is_that_of_the_network_which_sees_its_own_latents(name):
    network, z = NETWORKS[name](), torch.randn(7, 3)
    rows = torch.as_tensor(SUPPORT, dtype=torch.float32)
    slow = torch.stack([network(z * rows[i])[:, i] for i in range(5)], dim=1)
    torch.testing.assert_close(MaskedDecoder(network, SUPPORT)(z), slow)
    torch.testing.assert_close(MaskedDecoder(network, np.ones((5, 3), dtype=bool))(z), network(z))


def test_room_for_more_kinds_of_rows_changes_nothing():
    network, z = NETWORKS["tanh"](), torch.randn(7, 3)
    roomy = MaskedDecoder(network, SUPPORT, kinds=9)
    assert roomy.rows.shape == (9, 3)
    torch.testing.assert_close(roomy(z), MaskedDecoder(network, SUPPORT)(z))
    np.testing.assert_array_equal(roomy.support, SUPPORT)


class Pair(nn.Module):
    """An encoder and a decoder of standardised rows."""

    def __init__(self):
        super().__init__()
        self.encoder, self.decoder, self.penalty = nn.Linear(5, 3), NETWORKS["tanh"](), "some"
        self.register_buffer("mean", torch.zeros(5))

    def code(self, x):
        return self.encoder(x)


def test_masking_copies_drops_the_penalty_and_is_undone_by_plain():
    pair = Pair()
    first, second = masked([pair, pair], [SUPPORT, ~SUPPORT])
    assert pair.penalty == "some"
    assert not isinstance(pair.decoder, MaskedDecoder)
    assert first.penalty is None
    assert first.decoder.rows.shape == second.decoder.rows.shape
    again = masked([first], [~SUPPORT])[0]
    np.testing.assert_array_equal(again.decoder.support, ~SUPPORT)
    z = torch.randn(4, 3)
    torch.testing.assert_close(plain(first).decoder(z), pair.decoder(z))


def test_errors_of_rows_are_summed_over_observations():
    pair, x = Pair(), torch.randn(6, 5)
    with torch.no_grad():
        missed = pair.decoder(pair.encoder(x)) - x
    np.testing.assert_allclose(row_errors(pair, x), missed.square().sum(dim=1).numpy(), rtol=1e-5)
