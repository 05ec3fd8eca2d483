"""The first stage of latent diffusion: an autoencoder of images by way of a book of codes.

Objective (minimised): ``mean|x − x̂| + mean‖sg(h) − q‖² + ¼ mean‖h − sg(q)‖²``, with ``h`` the encoder's maps, ``q`` the
nearest codes, ``sg`` what gradients do not pass, and means over pixels or entries of the maps.

References: van den Oord et al. (2017), *Neural discrete representation learning* (VQ-VAE); Rombach et al. (2022),
*High-resolution image synthesis with latent diffusion models*. **Deviations** from the latter: no perceptual loss and
no discriminator, for images here are small and clean.
"""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from noumena.estimators.images.vector_quantised import QuantisedAutoencoder, straight_through
from noumena.estimators.loop import Objective

COMMITMENT = 0.25
"""How much the maps are drawn to their codes, against the codes to the maps."""


def perplexity(usage: Float[Tensor, " code"]) -> Float[Tensor, ""]:
    """``exp`` of the entropy of shares: how many codes are in use; 1 iff one is, at most their number.

    >>> perplexity(torch.tensor([0.5, 0.5, 0.0]))
    tensor(2.)
    """
    return torch.special.entr(usage).sum().exp()


class VectorObjective(Objective):
    """Reconstruction, and vectors and codes that are drawn to one another."""

    def __init__(self, autoencoder: QuantisedAutoencoder):
        super().__init__()
        self.autoencoder = autoencoder

    def forward(self, x: Tensor, draws: dict[str, Tensor], progress: float) -> tuple[Tensor, dict[str, Tensor]]:
        """Loss and terms on a batch of standardised observations."""
        h = self.autoencoder.encode(x)
        q, usage = self.autoencoder.quantise(h)
        rebuilt = self.autoencoder.decode(straight_through(h, q))
        codebook, commitment = (q - h.detach()).square().mean(), (h - q.detach()).square().mean()
        terms = {
            "reconstruction": (rebuilt - x).abs().mean(),
            "distance to codes": codebook,
            "codes in use": perplexity(usage),
        }
        return terms["reconstruction"] + codebook + COMMITMENT * commitment, terms
