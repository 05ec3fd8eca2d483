"""Normalising flows: maximum likelihood with an inverse, exact with as many latents as observations.

Model: ``u = T(x)`` by a coupling network; ``ẑ_j = u_j / σ_j`` independent standard normals. Objective (minimised):
``−log p(x) + penalty(ĝ, ẑ)``, in nats per standardised row, ``ĝ(ẑ) = T⁻¹(σ·ẑ)`` the decoder.

**Why latents are in units of their prior spread.** A penalty on ``∂ĝ/∂ẑ`` is vacuous where the latents may grow for
free. A volume-preserving ``T`` with learned variances is such a place: stretching ``u_1``, squeezing ``u_2`` and
letting ``σ`` follow changes no likelihood but every entry of ``∂x/∂u``. Divided by ``σ`` the latents do not notice,
and the likelihood itself asks for unit variance: ``½·E ẑ² + log σ`` is least at ``E ẑ² = 1``.

**Fewer latents than observations.** The first ``n_latents`` coordinates are the latents, the others noise with
learned variances, set to zero by the decoder. Likelihood alone cannot say which coordinates are noise (any linear
map of independent normals onto others is as likely), nor is it bounded if ``x`` fills no volume. So normal noise of
spread ``noise`` (in standardised units) is added to the rows while training, and ``‖x − ĝ(ẑ)‖² / (2·noise²)`` to
the objective: the row's distance from the decoder's image, under that noise.

**Pictures** are flat rows like others; bytes are seen in [0, 1]. They fill no volume: a density over all their pixels
grows without bound wherever pixels follow from others or take few values, and spreads fall for as long as one trains.
So pictures in bytes need fewer latents than pixels; the noise is then also what makes whole numbers continuous (0.1 is
25 steps of a byte; no further dequantisation). A picture's sub-networks are MLPs of half its pixels each. The other way
is a flow of features: ``make_pipeline(PCA(8), Flow())``, or of another estimator's latents.

Reference: Sorrenson et al. (2020), *Disentanglement by nonlinear ICA with general incompressible-flow networks (GIN)*;
the penalty is that of Zheng et al. (2026). Deviations: GIN has one normal law per label, and labels are what identifies
its latents; there are none here, so likelihood alone identifies nothing and the penalty has to choose. A penalty's
weight is in nats per row: the VAE's loss is its negative log-likelihood times β, so its 0.05 is 0.05 / β nats here.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import log, pi
from typing import Any

import torch
from jaxtyping import Float
from sklearn.utils.validation import check_is_fitted
from torch import Tensor, nn

from noumena import checks, seeds
from noumena.deprecated import renamed
from noumena.estimators.base import Builder, Codec, Estimator, network
from noumena.estimators.parameters import number
from noumena.estimators.sources import Source
from noumena.nets.couplings import VolumePreserving
from noumena.penalties import Penalty


def normal_log_density(z: Float[Tensor, "batch dim"]) -> Float[Tensor, " batch"]:
    """``log N(z; 0, 1)`` summed over dimensions; largest at 0, blind to rotations.

    >>> normal_log_density(torch.tensor([[2.0, 0.0]])).round(decimals=3)
    tensor([-3.8380])
    """
    return -0.5 * (z.square() + log(2 * pi)).sum(dim=-1)


class NormalFlow(nn.Module):
    """A coupling network with independent normals behind it: ``x = T⁻¹(σ·(ẑ, e))``, ``ẑ`` latents and ``e`` noise."""

    def __init__(self, coupling: nn.Module, dim: int, n_latents: int):
        super().__init__()
        self.coupling, self.n_latents = coupling, n_latents
        self.log_spread = nn.Parameter(torch.zeros(dim))

    def units(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Latents and noise in units of their spread, and every row's log-density."""
        u, logdet = self.coupling(x)
        w = u * (-self.log_spread).exp()
        return w, normal_log_density(w) - self.log_spread.sum() + logdet

    def forward(self, x: Tensor) -> Tensor:
        """Latents of standardised observations."""
        return self.units(x)[0][..., : self.n_latents]

    def inverse(self, w: Tensor) -> Tensor:
        """Standardised observations of latents and noise, or of latents alone, with the noise at zero."""
        missing = w.new_zeros(*w.shape[:-1], len(self.log_spread) - w.shape[-1])
        return self.coupling.inverse(torch.cat([w, missing], dim=-1) * self.log_spread.exp())  # type: ignore[operator]


class InverseFlow(nn.Module):
    """``z ↦ x`` by a flow that lives elsewhere: its weights are listed once, there."""

    def __init__(self, flow: NormalFlow):
        super().__init__()
        self.borrowed = (flow,)

    def forward(self, z: Tensor) -> Tensor:
        """Standardised observations of latents."""
        return self.borrowed[0].inverse(z)


class FlowObjective(Codec):
    """``−log p(x) + penalty``, and the distance from the decoder's image where there are fewer latents."""

    encoder: NormalFlow

    def __init__(self, flow: NormalFlow, mean: Tensor, scale: Tensor, *, penalty: Penalty | None, noise: float):
        super().__init__(flow, InverseFlow(flow), mean, scale)
        self.penalty, self.noise = penalty, noise
        self.square = flow.n_latents == len(mean)

    def log_prob(self, x: Tensor) -> Tensor:
        """Log-density of observations in their own units."""
        return self.encoder.units((x - self.mean) / self.scale)[1] - self.scale.log().sum()

    def emit(self, w: Tensor) -> Tensor:
        """Observations, in their own units, of latents and noise."""
        return self.encoder.inverse(w) * self.scale + self.mean

    def draws(self, rows: int, generator: torch.Generator) -> dict[str, Tensor]:
        """Noise for the rows, where there are fewer latents than observations, and the penalty's own draws."""
        blur = {} if self.square else {"blur": torch.randn(rows, len(self.mean), generator=generator)}
        return blur | ({} if self.penalty is None else self.penalty.draws(rows, self.encoder.n_latents, generator))

    def forward(self, x: Tensor, draws: dict[str, Tensor], progress: float) -> tuple[Tensor, dict[str, Tensor]]:
        """Loss and terms on a batch of standardised observations."""
        w, log_density = self.encoder.units(x if self.square else x + self.noise * draws["blur"])
        z = w[..., : self.encoder.n_latents]
        terms = {"nll": -log_density.mean()}
        lost = torch.zeros_like(x) if self.square else self.decoder(z) - x  # a square flow loses nothing
        terms["reconstruction"] = lost.square().sum(dim=-1).mean()
        loss = terms["nll"] + terms["reconstruction"] / (2 * self.noise**2)
        if self.penalty is not None:
            terms["penalty"] = self.penalty(self.decoder, z, progress, draws)
            loss = loss + terms["penalty"]
        return loss, terms


@dataclass(eq=False, repr=False, kw_only=True)
class Flow(Estimator):
    """A normalising flow fitted by maximum likelihood; with ``0.05 * DependencySparsity()`` one of few dependencies.

    Parameters
    ----------
    n_latents : int, optional
        Number of latents; as many as observations where it is not given (images need fewer).
    coupling : builder, optional
        Invertible network such as ``VolumePreserving()``, the default, or ``Coupling()``.
    noise : float, default 0.1
        Spread taken for noise, in standardised units, where there are fewer latents than observations.
    penalty, standardise, n_models, training, random_state : see ``Estimator``
        As in every ``Estimator``.

    Attributes
    ----------
    terms_ : dict of arrays
        ``nll`` of standardised rows, ``reconstruction`` (zero with as many latents as observations) and ``penalty``.
    models_, best_, objectives_, explained_, structure_, decoder_, history_ : see ``Estimator``
        As in every ``Estimator``.

    References
    ----------
    Sorrenson, Rother and Köthe (2020), *Disentanglement by nonlinear ICA with general incompressible-flow networks
    (GIN)*, https://arxiv.org/abs/2001.04872.

    Examples
    --------
    >>> import noumena as nm
    >>> import numpy as np
    >>> x = np.random.default_rng(0).normal(size=(60, 3))
    >>> model = nm.Flow(training=nm.Training(steps=3), random_state=0).fit(x)
    >>> model.transform(x).shape, model.log_prob(x).shape
    ((60, 3), (60,))
    """

    n_latents: int | None = field(default=None, kw_only=False)  # pyright: ignore[reportIncompatibleVariableOverride]
    coupling: Builder | None = None
    noise: float = number(0.1, minimum=1e-6)

    def log_prob(self, x: Any) -> Any:
        """The best model's log-density of every row, in the units of the data; a torch tensor in gives one out."""
        check_is_fitted(self)
        source, rows, model = self._read(x, self.best_)
        assert isinstance(model, FlowObjective)
        with torch.no_grad():
            return source.as_given(model.log_prob(rows))

    @renamed(seed="random_state")
    def sample(self, n: int, random_state: Any = 0) -> Any:
        """``n`` new rows from the best model, noise included, as an array in the units of the data."""
        seed = seeds.seed_of(random_state)
        check_is_fitted(self)
        model = self.models_[self.best_]
        assert isinstance(model, FlowObjective)
        checks.count(n, "n")
        generator = seeds.generator(checks.count(seed, "seed", minimum=0), "rows")
        w = torch.randn(n, len(model.mean), generator=generator, dtype=torch.float32)
        with torch.no_grad():
            return model.emit(w.to(model.mean)).cpu().numpy()

    def _size(self, n_observed: int) -> Any:
        return n_observed if self.n_latents is None else self.n_latents

    def _source(self, x: Any) -> Source:
        source = super()._source(x)
        if source.dtype is None and not self.standardise:
            n_latents = checks.count(self._size(source.width), "n_latents")
            must = f"A flow of pictures must have fewer latents than their {source.width} pixels, which fill no volume."
            checks.require(n_latents < source.width, must, n_latents)
        return source

    def _build(self, n_observed: int, mean: Tensor, scale: Tensor) -> Codec:
        n_latents = self._size(n_observed)
        checks.require(
            n_latents <= n_observed, f"A flow must have at most as many latents as x has columns, {n_observed}.",
            f"{n_latents}",
        )  # fmt: skip
        builder = VolumePreserving() if self.coupling is None else self.coupling
        coupling = network(builder, "coupling", n_observed, n_observed)
        checks.require(
            callable(getattr(coupling, "inverse", None)), "The coupling builder must return a module with an inverse.",
            type(coupling).__name__,
        )  # fmt: skip
        flow = NormalFlow(coupling, n_observed, n_latents)
        return FlowObjective(flow, mean, scale, penalty=self.penalty, noise=self.noise)
