"""What estimators with an encoder, a decoder and a likelihood of the observations share."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from torch import nn

from noumena import checks
from noumena.estimators.base import Builder, Estimator, network
from noumena.estimators.likelihoods import check_likelihood, check_range
from noumena.estimators.parameters import must_be
from noumena.estimators.sources import Source


@dataclass(eq=False, repr=False, kw_only=True)
class EncoderDecoderModel(Estimator):
    """An estimator whose encoder and decoder are networks of their own, which builders make.

    Parameters
    ----------
    encoder, decoder : builder, optional
        Called with the numbers of inputs and outputs, such as ``MLP((64,))``.
    n_latents, penalty, standardise, n_models, training, random_state : see ``Estimator``
        As in every ``Estimator``.
    """

    encoder: Builder | None = None
    decoder: Builder | None = None

    def _networks(self, n_observed: int, *, posterior: bool = False) -> tuple[nn.Module, nn.Module]:
        """Encoder and decoder; an encoder of a posterior gives two numbers per latent, mean and log-variance."""
        encoder = network(self.encoder, "encoder", n_observed, (1 + posterior) * self.n_latents)
        return encoder, network(self.decoder, "decoder", self.n_latents, n_observed)


@dataclass(eq=False, repr=False, kw_only=True)
class LikelihoodModel(EncoderDecoderModel):
    """An encoder and a decoder with a Gaussian or a Bernoulli likelihood of the observations.

    Parameters
    ----------
    likelihood : {"gaussian", "bernoulli"}
        Squared error, or cross-entropy of rows in [0, 1] with ``standardise=False`` and logits from the decoder.
    n_latents, encoder, decoder, penalty, standardise, n_models, training, random_state : see ``EncoderDecoderModel``
        As in every ``EncoderDecoderModel``.
    """

    likelihood: str = field(default="gaussian", metadata=must_be(check_likelihood))

    def _check(self) -> None:
        super()._check()
        must = "A Bernoulli likelihood must see the observations as they are, standardise=False."
        checks.require(self.likelihood != "bernoulli" or not self.standardise, must, f"standardise={self.standardise}")

    def _source(self, x: Any) -> Source:
        source = super()._source(x)
        check_range(source, self.likelihood)
        return source
