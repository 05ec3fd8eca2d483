"""EncDiff: scalars as concept tokens that a latent diffusion model attends to; the encoder is trained by its loss.

Two stages. *First* an autoencoder by way of codes (``vector_autoencoder``) makes small maps ``h`` of pictures; then it
is fixed. *Second* an encoder makes ``n_latents`` scalars ``z`` of a picture, a small network of its own makes a token
of each, and a U-Net that attends to the tokens predicts the noise in ``h_t = α_t h + σ_t ε``. Objective (minimised),
``t`` uniform: ``‖ε − ε̂(h_t, t, z)‖₁ + penalty``, the error summed over the entries of ``h``.

``decode`` is the deterministic sampler (DDIM) from one fixed noise, then the first stage's decoder: a map ``z ↦ x``
like that of any other estimator. What it takes for clean is kept, channel by channel, between the least and the largest
entry of the training maps: at the noisiest times a small error of ``ε̂`` is a 38 times larger one of the map. **The
penalty** acts on ``z ↦ ĥ = (h_t − σ_t ε̂(h_t, t, z)) / α_t``, what one step of denoising says of the picture, at the
``h_t`` and ``t`` of the row itself; its Jacobian has a row for every entry of ``h`` and a column for every scalar.

References: Yang et al. (2024), *Diffusion model with cross attention as an inductive bias for disentanglement*
(EncDiff); Rombach et al. (2022), *High-resolution image synthesis with latent diffusion models*, whose "linear"
schedule is linear in ``√β``; Song et al. (2021), *Denoising diffusion implicit models*. Zheng et al. (2026), who
combine it with dependency sparsity, do not say where the penalty attaches. **Deviations**: scalars have mean 0 and
variance 1 over a batch (``normalise``), for a penalty on derivatives is vacuous where scalars may grow; the error is
summed and not averaged, so that the weight of a penalty means what it means elsewhere; maps are centred and scaled by
channel; the first stage's decoder sees sampled maps as they are, for after a replacement by codes no derivative would
be left; smaller networks, a shorter fit, and one cycle of the learning rate in place of a constant one after 10 000
steps of warm-up.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from math import inf, isqrt
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from noumena import checks, seeds
from noumena.derivatives import Map
from noumena.estimators.autoencoder import AutoencoderObjective, spread_of
from noumena.estimators.base import Builder, Codec, Estimator, need_scale, network
from noumena.estimators.fit_data import FitData
from noumena.estimators.images.attention import Concepts
from noumena.estimators.images.unet import UNet
from noumena.estimators.images.vector_autoencoder import VectorObjective
from noumena.estimators.images.vector_quantised import QuantisedAutoencoder, VectorQuantised
from noumena.estimators.loop import Training, train
from noumena.estimators.parameters import count, instance
from noumena.nets.residual import ResidualEncoder, fitting
from noumena.penalties import Penalty
from noumena.penalties.penalty import PenaltySum
from noumena.structure import Structure

STEPS, FIRST_BETA, LAST_BETA = 1000, 0.0015, 0.0155
"""The noise: how many levels, and the variance that the first and the last one add."""
TOKEN = 16
"""Numbers in a token, where the U-Net's builder does not say."""
SETTLED, AT_ONCE = 4096, 256
"""Rows that fix units after a stage, and how many of them pass a network at a time."""
STRUCTURE_POINTS = 16
"""Latent points at which dependencies are read off: every one costs a whole sampling for each scalar."""


def published(device: str = "cpu") -> Training:
    """What a fit takes where nothing is given: AdamW at 2.56e-4, batches of 128, averaged weights.

    >>> published().learning_rate
    0.000256
    """
    return Training(
        steps=30_000, batch_size=128, learning_rate=2.56e-4, weight_decay=0.01, average=0.999, device=device
    )


def first_stage() -> Training:
    """What the first stage takes where nothing is given.

    >>> first_stage().steps
    5000
    """
    return Training(steps=5000, batch_size=128, learning_rate=1e-3)


# ---- noise -----------------------------------------------------------------------------------------------------


def levels(steps: int) -> tuple[Float[Tensor, " step"], Float[Tensor, " step"]]:
    """``α_t`` and ``σ_t``, the shares of signal and noise, ``α² + σ² = 1``; ``√β`` is linear in ``t``.

    >>> alpha, sigma = levels(1000)
    >>> [round(float(v), 3) for v in (alpha[0], sigma[0], alpha[-1])]
    [0.999, 0.039, 0.026]
    """
    beta = torch.linspace(FIRST_BETA**0.5, LAST_BETA**0.5, steps, dtype=torch.float64).square()
    signal = (1 - beta).cumprod(dim=0)
    return signal.sqrt().float(), (1 - signal).sqrt().float()


def ddim(
    predict: Callable[[Tensor, int], Tensor],
    h: Float[Tensor, "batch dim"],
    times: list[int],
    alpha: Float[Tensor, " step"],
    sigma: Float[Tensor, " step"],
    ends: tuple[Tensor, Tensor] | None = None,
) -> Float[Tensor, "batch dim"]:
    """What is left of ``h`` when the predicted noise is taken out, time by time; exact where the prediction is. At
    every time it is kept between two ends, where they are given.

    >>> alpha, sigma = levels(4)
    >>> h = alpha[3] * 5 + sigma[3] * torch.ones(1, 2)  # five, and a noise of one
    >>> ddim(lambda h, t: torch.ones_like(h), h, [3, 1], alpha, sigma).round(decimals=4)
    tensor([[5., 5.]])
    """

    def cleaned(h: Tensor, noise: Tensor, t: int) -> Tensor:
        found = (h - sigma[t] * noise) / alpha[t]
        return found if ends is None else found.clamp(*ends)

    noise = predict(h, times[0])
    clean = cleaned(h, noise, times[0])
    for t in times[1:]:
        h = alpha[t] * clean + sigma[t] * noise
        noise = predict(h, t)
        clean = cleaned(h, noise, t)
    return clean


def trailing(steps: int, of: int) -> list[int]:
    """``steps`` evenly spaced times out of ``of``, the noisiest first.

    >>> trailing(4, 1000)
    [999, 749, 499, 249]
    """
    return [of * (steps - k) // steps - 1 for k in range(steps)]


# ---- the networks together -------------------------------------------------------------------------------------


class Denoiser(nn.Module):
    """The decoder of scalars: tokens, U-Net and sampler, and the fixed first stage on both sides of them."""

    alpha: Tensor
    sigma: Tensor
    noise: Tensor
    level: Tensor
    unit: Tensor
    low: Tensor
    high: Tensor

    def __init__(self, concepts: Concepts, unet: nn.Module, autoencoder: QuantisedAutoencoder, sampling: int):
        super().__init__()
        self.concepts, self.unet = concepts, unet
        self.autoencoder = autoencoder.requires_grad_(False)
        self.times = trailing(sampling, STEPS)
        channels, side, _ = autoencoder.shape
        alpha, sigma = levels(STEPS)
        noise = torch.randn(channels * side**2, generator=seeds.generator(0, "sampled from"))
        kept = {"alpha": alpha, "sigma": sigma, "noise": noise, "level": torch.zeros_like(noise)}
        ends = {"low": torch.full_like(noise, -inf), "high": torch.full_like(noise, inf)}
        for name, value in {**kept, "unit": torch.ones_like(noise), **ends}.items():
            self.register_buffer(name, value)

    def maps(self, x: Tensor) -> Tensor:
        """The first stage's maps of pictures, at mean 0 and variance 1 in every channel."""
        return (self.autoencoder.encode(x).to(x.dtype) - self.level) / self.unit

    def predicted(self, h: Tensor, t: Tensor, z: Tensor) -> Tensor:
        """The noise in maps at times ``t``, given scalars."""
        return self.unet(h, t.to(h.dtype), self.concepts(z)).to(h.dtype)

    def denoised(self, h: Tensor, t: Tensor, z: Tensor) -> Tensor:
        """Clean maps, as one step of denoising sees them."""
        return (h - self.sigma[t, None] * self.predicted(h, t, z)) / self.alpha[t, None]

    def forward(self, z: Float[Tensor, "batch latent"]) -> Float[Tensor, "batch observed"]:
        """Standardised observations of scalars, sampled from the fixed noise."""

        def predict(h: Tensor, t: int) -> Tensor:
            return self.predicted(h, h.new_full((len(z),), t), z)

        start = self.noise.expand(len(z), -1)
        h = ddim(predict, start, self.times, self.alpha, self.sigma, (self.low, self.high))
        return self.autoencoder.decode(h * self.unit + self.level)

    def settle(self, x: Tensor) -> None:
        """Fix unit and ends of the maps, channel by channel, after the first stage."""
        with torch.no_grad():
            h = torch.cat([self.autoencoder.encode(part) for part in x[:SETTLED].split(AT_ONCE)])
            each = h.unflatten(1, self.autoencoder.shape)
            over: Any = {"dim": (0, 2, 3), "keepdim": True}
            spread, mean = torch.var_mean(each, correction=0, **over)
            unit = spread.clamp_min(1e-12).sqrt()
            low, high = ((end - mean) / unit for end in (each.amin(**over), each.amax(**over)))
            for kept, value in ((self.level, mean), (self.unit, unit), (self.low, low), (self.high, high)):
                kept.copy_(value.expand(1, *each.shape[1:]).flatten())


class DiffusionObjective(AutoencoderObjective):
    """``‖ε − ε̂(h_t, t, z)‖₁`` plus the penalty; scalars are standardised over the batch on request."""

    decoder: Denoiser
    fixed = ("decoder.autoencoder.",)

    def settle(self, x: Tensor) -> None:
        """Fix the scalars' mean and spread over training rows."""
        if self.normalise:
            h = torch.cat([self.encoder(part) for part in x[:SETTLED].split(AT_ONCE)])
            self.centre.copy_(h.mean(dim=0))
            self.spread.copy_(spread_of(h))

    def draws(self, rows: int, generator: torch.Generator) -> dict[str, Tensor]:
        """Noise for the maps, uniform numbers for the time, and the penalty's own draws."""
        noise = torch.randn(rows, len(self.decoder.noise), generator=generator)
        found = {"noise": noise, "time": torch.rand(rows, generator=generator)}
        return found | ({} if self.penalty is None else self.penalty.draws(rows, len(self.centre), generator))

    def forward(self, x: Tensor, draws: dict[str, Tensor], progress: float) -> tuple[Tensor, dict[str, Tensor]]:
        """Loss and terms on a batch of standardised observations."""
        z = self.encoder(x).to(x.dtype)
        z = (z - z.mean(dim=0)) / spread_of(z) if self.normalise else z
        t = (draws["time"] * STEPS).long().clamp(max=STEPS - 1)
        h = self.decoder.alpha[t, None] * self.decoder.maps(x) + self.decoder.sigma[t, None] * draws["noise"]
        error = (self.decoder.predicted(h, t, z) - draws["noise"]).abs().sum(dim=-1).mean()
        if self.penalty is None:
            return error, {"noise error": error}
        penalty = self.penalised(self.penalty, h, t, z, progress, draws)
        return error + penalty, {"noise error": error, "penalty": penalty}

    def penalised(self, penalty: Penalty, h: Tensor, t: Tensor, z: Tensor, progress: float, draws: Any) -> Tensor:
        """The penalty's terms, each of a map at the places of its own rows and no more."""
        found = []
        for k, (weight, term) in enumerate((1.0 * penalty).terms):
            prefix = f"{k}." if isinstance(penalty, PenaltySum) else ""
            own = {name.removeprefix(prefix): value for name, value in draws.items() if name.startswith(prefix)}
            some = points(term, len(z))
            found.append(weight * term(self.denoising(h[:some], t[:some]), z[:some], progress, own))
        return torch.stack(found).sum()

    def denoising(self, h: Tensor, t: Tensor) -> Map:
        """The map from scalars to denoised maps at these places; several scalars in a row may share a place."""

        def denoised(z: Tensor) -> Tensor:
            each = max(1, len(z) // len(h))
            places = h[:, None].expand(-1, each, -1).flatten(0, 1)[: len(z)]
            return self.decoder.denoised(places, t[:, None].expand(-1, each).flatten()[: len(z)], z)

        return denoised


def points(term: Penalty, rows: int) -> int:
    """How many of the rows a term of a penalty looks at.

    >>> from noumena.penalties import DependencySparsity, LatentSparsity
    >>> points(DependencySparsity(points=4), 32), points(LatentSparsity(), 32)
    (4, 32)
    """
    return min(getattr(term, "points", None) or rows, rows)


# ---- the estimator ---------------------------------------------------------------------------------------------


@dataclass(eq=False, repr=False, kw_only=True)
class EncDiff(Estimator):
    """An encoder whose scalars are the concepts that a latent diffusion model is told; scores are read on the scalars.

    The first stage does not depend on the penalty: fits that name the same file in ``first=Training(checkpoint=…)``
    and agree in data, seeds and first stage train it once.

    Parameters
    ----------
    n_latents : int, default 20
        Number of scalars.
    normalise : bool, default True
        Whether scalars keep mean 0 and variance 1; published is ``False``, which most penalties refuse.
    autoencoder : VectorQuantised, optional
        Builder of the first stage; by default for square images of three channels or one.
    encoder, unet : builder, optional
        ``ResidualEncoder`` and, for the network that predicts noise, ``UNet`` by default.
    first : Training, optional
        The first stage's loop, 5000 steps by default, on the device and in the precision of ``training``.
    sampling : int, default 10
        Steps of the sampler that decodes.
    penalty, standardise, n_models, training, random_state : see ``Estimator``
        As in every ``Estimator``.
        The penalty acts on the map from scalars to denoised maps; ``training=None`` is ``published()``.

    Attributes
    ----------
    first_objectives_ : list of float
        The first stage's held-out objectives.
    models_, best_, objectives_, terms_, explained_, structure_, decoder_, history_ : see ``Estimator``
        As in every ``Estimator``.

    References
    ----------
    Yang, Lan, Lu and Zheng (2024), *Diffusion model with cross attention as an inductive bias for disentanglement*,
    https://arxiv.org/abs/2402.09712.

    Examples
    --------
    >>> EncDiff(8, sampling=5)
    EncDiff(n_latents=8, sampling=5)
    """

    n_latents: int = field(default=20, kw_only=False)
    normalise: bool = True
    autoencoder: VectorQuantised | None = field(
        default=None, metadata=instance(VectorQuantised, "a VectorQuantised builder")
    )
    encoder: Builder | None = None
    unet: Builder | None = None
    first: Training | None = field(default=None, metadata=instance(Training, "a Training"))
    sampling: int = count(10)
    standardise: bool = False

    def _check(self) -> None:
        super()._check()
        need_scale(self.penalty, self.normalise, "set normalise=True")
        checks.require(self.sampling <= STEPS, f"sampling must be {STEPS} steps at most.", self.sampling)
        self._first(Training()).check()
        polish = 0 if self.training is None else self.training.polish
        checks.require(polish == 0, "polish must be 0, for every token has a scalar of its own.", repr(polish))

    def _pictures(self, n_observed: int) -> VectorQuantised:
        """The first stage's builder: as given, or for square pictures of so many numbers."""
        if self.autoencoder is not None:
            return self.autoencoder
        shapes = [(channels, isqrt(n_observed // channels)) for channels in (3, 1)]
        fold = 2 ** len(VectorQuantised.widths)
        fits = [(c, side) for c, side in shapes if c * side**2 == n_observed and side % fold == 0]
        allowed = f"square pictures of three channels or one, of sides that {fold} divides"
        checks.require(bool(fits), f"x must be {allowed}, or come with an autoencoder.", f"rows of {n_observed}")
        return VectorQuantised(*fits[0])

    def _build(self, n_observed: int, mean: Tensor, scale: Tensor) -> Codec:
        pictures = self._pictures(n_observed)
        channels, size, side, depth = pictures.channels, pictures.size, pictures.side, pictures.depth
        autoencoder = pictures(n_observed, n_observed)
        fits = ResidualEncoder(channels, size, fitting(ResidualEncoder.widths, size))
        encoder = network(self.encoder or fits, "encoder", n_observed, self.n_latents)
        builder = self.unet or UNet(depth, side, (UNet.widths[0], *fitting(UNet.widths[1:], side)))
        unet = network(builder, "unet", depth * side**2, depth * side**2)
        concepts = Concepts(self.n_latents, getattr(builder, "context", TOKEN))
        decoder = Denoiser(concepts, unet, autoencoder, self.sampling)
        objective = DiffusionObjective(encoder, decoder, mean, scale, n_latents=self.n_latents)
        objective.penalty, objective.normalise = self.penalty, self.normalise
        return objective

    def _adopt(self, models: list[Codec], rows: FitData, training: Training, bound: float | None) -> None:
        self._begin(models, rows, self._first(training))
        super()._adopt(models, rows, published() if self.training is None else training, bound)

    def _first(self, training: Training) -> Training:
        """How the first stage is trained: where and in which precision the second is, with a checkpoint of its own."""
        first = first_stage() if self.first is None else self.first
        shared = {k: getattr(training, k) for k in ("device", "dtype", "held_out", "checkpoint_seconds", "verbose")}
        aside = training.changed(suffix="first").checkpoint
        return first.changed(checkpoint=first.checkpoint or aside, polish=0, within=None, **shared)

    def _begin(self, models: list[Any], rows: FitData, training: Training) -> None:
        """The first stage: autoencoders, and the units of their maps."""
        decoders = [model.decoder for model in models]
        for decoder, seed in zip(decoders, self.seeds_, strict=True):
            decoder.autoencoder.settle_codes(rows.train[:AT_ONCE], seeds.generator(seed, "codes"))
        stages: list[Any] = [VectorObjective(decoder.autoencoder) for decoder in decoders]
        own = rows.marked(self.autoencoder, self.standardise, self.seeds_, training.consequential())
        fitted = train(stages, self.seeds_, own, training)
        if fitted.interrupted:
            raise KeyboardInterrupt
        self.first_objectives_ = fitted.objectives.tolist()
        for decoder in decoders:
            decoder.settle(rows.train_at_once)

    def structure_of(self, k: int, *, threshold: float | None = None) -> Structure:
        """The structure of the k-th model, read off at a few of its points; every one costs a sampling per scalar."""
        names = getattr(self, "feature_names_in_", None)
        some = self.points_of(k)[:STRUCTURE_POINTS]
        return Structure.from_decoder(self.models_[k].decode, some, threshold=threshold, observed=names)
