"""DisCo: directions in the style space of a generator, and the representation of images that tells them apart.

*First* a generator ``G`` of images is trained on the data (see ``generator``) and fixed. *Then* orthonormal directions
``A`` in its style space (the navigator) and an encoder ``E`` of images (the contrastor) are trained together: a shift
along direction ``d`` changes the representation by ``v = |E(G(w + ε·A_d)) − E(G(w))|``, scaled to unit length, and
changes along one direction should be alike, those along different ones not. Objective (minimised): ``contrast +
entropy·H + penalty``, of which the first two are in ``variations``.

What is what: ``transform(x)`` is the representation ``E(x)``, which is what is scored; ``inverse_transform(a)`` is the
image ``G(w̄ + s·A a)``, ``a`` the coordinates along the directions from the mean style ``w̄`` in units of the styles'
spread ``s``. As there are as many of one as of the other, both have ``n_latents`` columns, but they are *not inverse to
each other*: latent ``j`` of ``E`` need not be direction ``j``. A penalty on the decoder (dependencies, OroJaR, Hessian)
acts on ``a ↦ G(w̄ + s·A a)`` at the coordinates of generated styles; where it attaches is lost in the paper, and this
is the library's choice. ``LatentSparsity`` acts on the representation ``E(x)`` of the batch, centred and divided by its
root mean square over batch and latents, for the objective does not fix the scale of ``E``. ``structure_`` is that of
the directions.

A row of the batch stands for a query, a positive and two negatives, each a generated image and its shift; rows come in
groups of ``queries``, and all queries and positives of a group share a direction. Published are batches of 32 rows, one
group; of a longer batch, as at a look at held-out rows, eight groups count. The images of the batch themselves are seen
by ``LatentSparsity`` only.

Reference: Ren et al. (2021), *Learning disentangled representation by exploiting pretrained generative models: a
contrastive learning view*. **Deviations**: the generator is the library's own; shifts are in units of the styles'
spread, 6·N(0, 1) of them and at least ±0.5 (the published code has the lower bound for positive shifts only); the
directions are a product of reflections rather than a matrix exponential; the contrastor has no first convolution at
full size. As there, negatives train neither network.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import isqrt
from typing import Any

import torch
from sklearn.utils.validation import check_is_fitted
from torch import Tensor, nn

from noumena import checks, seeds
from noumena.deprecated import renamed
from noumena.estimators.base import Builder, Codec, Estimator, network
from noumena.estimators.fit_data import FitData
from noumena.estimators.images.style_gan import StyleGAN, sampled
from noumena.estimators.images.style_networks import StyleDiscriminator, StyleGenerator, StyleNetwork
from noumena.estimators.images.variations import SAME, chosen, contrast, entropy, shifts, variation
from noumena.estimators.loop import Training, train
from noumena.estimators.parameters import TINY, count, instance, must_be, number
from noumena.nets.conv import ConvEncoder
from noumena.nets.orthogonal import OrthogonalLinear
from noumena.nets.residual import fitting
from noumena.penalties import LatentSparsity, Penalty
from noumena.penalties.penalty import PenaltySum

ROLES = 4
"""Pairs of images that a row stands for: a query, a positive, two negatives."""
MOST_GROUPS = 8
"""Groups of a batch that are looked at: held-out rows may be many, and each stands for eight images."""
STYLES = 4096
"""Styles whose mean and spread are those of all."""
POINTS = 32
"""Generated styles at whose coordinates the structure is read off."""
DRAWS = ("noise", "shift", "choice")
CONTRASTOR: dict[str, Any] = {"widths": (64, 128, 256, 256), "hidden": 256, "slope": 0.01}
WIDTHS = (256, 256, 128, 64, 32, 16)
"""Of generators where nothing else is said: channels of images of side 4, 8, 16, …"""
GENERATOR: dict[str, Any] = {
    "steps": 30_000, "batch_size": 64, "learning_rate": 2e-3, "average": 0.999, "schedule": "constant",
}  # fmt: skip
"""How generators are trained where nothing else is said."""


def split(penalty: Penalty | None) -> tuple[PenaltySum, PenaltySum]:
    """The terms of a penalty that act on latents, and those that act on the decoder.

    >>> from noumena.penalties import OroJaR
    >>> split(0.1 * LatentSparsity() + OroJaR())
    (0.1 * LatentSparsity(), 1 * OroJaR(probes=2, step=0.1, reduction='max'))
    """
    terms = () if penalty is None else penalty.terms if isinstance(penalty, PenaltySum) else ((1.0, penalty),)
    latent = tuple(term for term in terms if isinstance(term[1], LatentSparsity))
    return PenaltySum(latent), PenaltySum(tuple(term for term in terms if not isinstance(term[1], LatentSparsity)))


# ---- the objective ---------------------------------------------------------------------------------------------


class StyleDirections(nn.Module):
    """Coordinates along orthonormal directions of the style space to images, by a generator that is fixed."""

    centre: Tensor
    spread: Tensor

    def __init__(self, generator: StyleNetwork, n_latents: int):
        super().__init__()
        self.generator = generator
        self.navigator = OrthogonalLinear(n_latents, generator.style)
        self.register_buffer("centre", torch.zeros(generator.style))
        self.register_buffer("spread", torch.ones(()))

    def forward(self, a: Tensor) -> Tensor:
        """Images of coordinates."""
        return self.generator.synthesis(self.centre + self.shift(a))

    def shift(self, a: Tensor) -> Tensor:
        """What coordinates add to a style, in full precision."""
        with torch.autocast(self.centre.device.type, enabled=False):
            return a.to(self.centre.dtype) @ self.navigator.weight.mT * self.spread

    def coordinates(self, w: Tensor) -> Tensor:
        """Coordinates of styles; what lies outside the directions' span is left out."""
        with torch.autocast(self.centre.device.type, enabled=False):
            return (w - self.centre) @ self.navigator.weight / self.spread

    def fix(self, seed: int) -> None:
        """After the generator's training: learn where its styles lie, and train it no more."""
        self.generator.requires_grad_(False)
        z = torch.randn(STYLES, self.generator.noise, generator=seeds.generator(seed, "styles"))
        with torch.no_grad():
            w = self.generator.mapping(z.to(self.centre))
            self.centre.copy_(w.mean(dim=0))
            self.spread.copy_(w.var(dim=0, correction=0).mean().sqrt().clamp_min(1e-8))


@dataclass(frozen=True)
class Contrasting:
    """The settings of the contrast: ``queries`` of a group, ``shift`` and ``least`` of a shift's size, the weight of
    ``entropy``, the ``temperature``."""

    queries: int
    shift: float
    least: float
    entropy: float
    temperature: float


class DisCoObjective(Codec):
    """``contrast + entropy·H + penalty``; the encoder is the contrastor, the decoder the directions."""

    fixed = ("decoder.generator.",)
    batched = False
    decoder: StyleDirections
    settings: Contrasting

    def __init__(self, encoder: nn.Module, decoder: StyleDirections, mean: Tensor, scale: Tensor, *, n_latents: int):
        super().__init__(encoder, decoder, mean, scale)
        self.n_latents = n_latents
        self.on_latents, self.on_decoder = split(None)

    def draws(self, rows: int, generator: torch.Generator) -> dict[str, Tensor]:
        """Noise of every pair, how far each is shifted and along what, and the penalty's own draws."""
        own = {
            "noise": torch.randn(rows, ROLES, self.decoder.generator.noise, generator=generator),
            "shift": torch.randn(rows, ROLES, generator=generator),
            "choice": torch.rand(rows, ROLES, generator=generator),
        }
        return own | self.on_decoder.draws(rows, self.n_latents, generator)

    def forward(self, x: Tensor, draws: dict[str, Tensor], progress: float) -> tuple[Tensor, dict[str, Tensor]]:
        """Loss and terms of a batch of draws."""
        size = min(self.settings.queries, len(x))
        groups = min(len(x) // size, MOST_GROUPS)
        noise, shift, choice = (draws[k][: groups * size].unflatten(0, (groups, size)) for k in DRAWS)
        w = self.decoder.generator.mapping(noise)
        far = shifts(shift, self.settings.shift, self.settings.least)
        step = self.decoder.shift(far[..., None] * chosen(choice, self.n_latents))
        queries, positives = self.changes(w[..., :2, :], step[..., :2, :]).unbind(dim=-2)
        with torch.no_grad():
            negatives = self.changes(w[..., 2:, :], step[..., 2:, :]).flatten(1, 2)
        with torch.autocast(x.device.type, enabled=False):  # cosines near 0.95 need their digits
            terms = {
                "contrast": contrast(queries, positives, negatives, temperature=self.settings.temperature),
                "entropy": entropy(queries),
                "flipped": (queries @ negatives.mT > SAME).to(x).mean(),
            }
        loss = terms["contrast"] + self.settings.entropy * terms["entropy"]
        if not (self.on_latents.terms or self.on_decoder.terms):
            return loss, terms
        terms["penalty"] = self.penalty(x, w[..., 0, :].flatten(0, 1), progress, draws)
        return loss + terms["penalty"], terms

    def changes(self, w: Tensor, step: Tensor) -> Tensor:
        """How shifts of styles, (group, query, role, style), change the representation of their images."""
        places = (s.flatten(0, 2) for s in (w, w + step))
        still, moved = (self.encoder(self.decoder.generator.synthesis(place)).to(step.dtype) for place in places)
        return variation(still, moved).unflatten(0, w.shape[:3])

    def penalty(self, x: Tensor, w: Tensor, progress: float, draws: dict[str, Tensor]) -> Tensor:
        """The penalty on the representation of images and on the decoder at the coordinates of styles."""
        found = []
        if self.on_latents.terms:
            h = self.encoder(x).to(x.dtype)
            h = h - h.mean(dim=0)
            found.append(self.on_latents(self.decoder, h * (h.square().mean() + 1e-8).rsqrt(), progress, {}))
        if self.on_decoder.terms:
            own = {k: v[: len(w)] for k, v in draws.items() if k not in DRAWS}
            found.append(self.on_decoder(self.decoder, self.decoder.coordinates(w), progress, own))
        return torch.stack(found).sum()


# ---- the estimator ---------------------------------------------------------------------------------------------


@dataclass(eq=False, repr=False, kw_only=True)
class DisCo(Estimator):
    """Directions of a generator's styles, told apart by a representation of images; for images only.

    Parameters
    ----------
    n_latents : int, default 64
        Directions, and columns of the representation.
    generator, discriminator : StyleGenerator, builder, optional
        Networks of the first stage; by default for square images of one or three channels.
    encoder : builder, optional
        The contrastor, a ``ConvEncoder`` by default.
    noise : int, default 64
        Numbers that an image is made of.
    r1 : float, default 1.0
        Weight of the discriminator's gradient penalty.
    queries : int, default 32
        Queries of a group.
    shift, least : float
        Spread and least size of a shift, in units of the styles' spread.
    entropy, temperature : float
        Weight of the entropy, and temperature of the cosines.
    generator_training : Training, optional
        The first stage's loop; one with a checkpoint of its own keeps the generators for further fits.
    penalty, standardise, n_models, training, random_state : see ``Estimator``
        As in every ``Estimator``.
        Where the penalty acts is said in this module; published are 70 000 steps of 32 rows at 1e-4.

    Attributes
    ----------
    generator_steps_, generator_losses_, discriminator_losses_ : lists
        The first stage's held-out curves, (look, model).
    models_, best_, objectives_, terms_, explained_, structure_, decoder_, history_ : see ``Estimator``
        As in every ``Estimator``.

    References
    ----------
    Ren, Yang, Wang and Zeng (2021), *Learning disentangled representation by exploiting pretrained generative models:
    a contrastive learning view*, https://arxiv.org/abs/2102.10543.

    Examples
    --------
    >>> DisCo(8, queries=16)
    DisCo(n_latents=8, queries=16)
    """

    n_latents: int = field(default=64, kw_only=False, metadata=must_be(checks.count, minimum=2))
    generator: StyleGenerator | None = field(default=None, metadata=instance(StyleGenerator, "a StyleGenerator"))
    discriminator: Builder | None = None
    encoder: Builder | None = None
    noise: int = count(64)
    r1: float = number(1.0, minimum=0)
    queries: int = count(32)
    shift: float = number(6.0, minimum=0)
    least: float = number(0.5, minimum=0)
    entropy: float = number(1.0, minimum=0)
    temperature: float = number(1.0, minimum=TINY)
    standardise: bool = False
    generator_training: Training | None = field(default=None, metadata=instance(Training, "a Training"))

    def _check(self) -> None:
        super()._check()
        if self.generator_training is not None:
            self.generator_training.check()
        polish = 0 if self.training is None else self.training.polish
        checks.require(polish == 0, "polish must be 0, for its moves mix latents with directions.", repr(polish))

    def _build(self, n_observed: int, mean: Tensor, scale: Tensor) -> Codec:
        builder = styled(StyleGenerator, n_observed) if self.generator is None else self.generator
        fits = builder.style >= self.n_latents
        given = f"{builder.style} and {self.n_latents} latents"
        checks.require(fits, "The generator's styles must be at least as many as the latents.", given)
        generator = builder(self.noise, n_observed)  # first, so that no other setting moves its weights
        how: dict[str, Any] = CONTRASTOR | {"widths": fitting(CONTRASTOR["widths"], builder.size)}
        encoder = ConvEncoder(builder.channels, builder.size, **how) if self.encoder is None else self.encoder
        decoder = StyleDirections(generator, self.n_latents)
        objective = DisCoObjective(
            network(encoder, "encoder", n_observed, self.n_latents), decoder, mean, scale, n_latents=self.n_latents
        )
        objective.settings = Contrasting(self.queries, self.shift, self.least, self.entropy, self.temperature)
        objective.on_latents, objective.on_decoder = split(self.penalty)
        return objective

    def _first(self, training: Training) -> Training:
        """How generators are trained: on the same rows and device, with a checkpoint of their own."""
        plan = self.generator_training
        if plan is None:
            plan = Training(**GENERATOR, precision=training.precision, capture=training.capture)
        kept = training.changed(suffix="generator").checkpoint if plan.checkpoint is None else plan.checkpoint
        names = ("device", "dtype", "held_out", "checkpoint_seconds", "verbose")
        return plan.changed(checkpoint=kept, **{name: getattr(training, name) for name in names})

    def _adopt(self, models: list[Codec], rows: FitData, training: Training, bound: float | None) -> None:
        self._begin(models, rows, self._first(training))
        super()._adopt(models, rows, training, bound)

    def _begin(self, models: list[Any], rows: Any, training: Training) -> None:
        """The first stage: generators, trained against discriminators that are of no use after."""
        games = [self._game(model, seed) for model, seed in zip(models, self.seeds_, strict=True)]
        parts = [getattr(self, name) for name in ("generator", "noise", "r1", "standardise")] + [str(games[0])]
        fitted = train(games, self.seeds_, rows.marked(*parts, self.seeds_, training.consequential()), training)
        if fitted.interrupted:
            raise KeyboardInterrupt
        for model, seed in zip(models, self.seeds_, strict=True):
            model.decoder.fix(seed)
        curves = fitted.history
        self.generator_steps_ = [int(step) for step in curves.steps]
        self.generator_losses_, self.discriminator_losses_ = (
            [[float(v) for v in look] for look in curves.values[name]] for name in ("generator", "adversary")
        )

    def _game(self, model: Any, seed: int) -> Any:
        n_observed = len(model.mean)
        builder = self.discriminator or styled(StyleDiscriminator, n_observed)
        with seeds.global_torch(seed, "discriminator"):
            judge = network(builder, "discriminator", n_observed, 1)
        return StyleGAN(model.decoder.generator, judge.to(model.mean), noise=self.noise, r1=self.r1)

    def points_of(self, k: int) -> Tensor:
        """Coordinates, along the k-th model's directions, of styles of fresh noise: where its structure is read off."""
        check_is_fitted(self)
        directions: Any = self.models_[k].decoder
        z = torch.randn(POINTS, self.noise, generator=seeds.generator(0, "points"), dtype=torch.float32)
        with torch.no_grad():
            return directions.coordinates(directions.generator.mapping(z.to(directions.centre)))

    @renamed(seed="random_state")
    def sample(self, n: int, *, random_state: Any = 0) -> Any:
        """Images that the best model's generator makes of fresh noise, (batch, observed), in the units of the data."""
        seed = seeds.seed_of(random_state)
        check_is_fitted(self)
        model: Any = self.models_[self.best_]
        made = sampled(model.decoder.generator, self.noise, n, seed)
        return (made * model.scale + model.mean).cpu().numpy()


def styled(kind: Any, n_observed: int) -> Any:
    """The default ``StyleGenerator`` or ``StyleDiscriminator`` of square images of so many numbers.

    >>> styled(StyleDiscriminator, 192).widths, styled(StyleGenerator, 64).channels
    ((256, 256), 1)
    """
    channels = 3 if n_observed % 3 == 0 else 1
    size = isqrt(n_observed // channels)
    sizes = [4 * 2**k for k in range(len(WIDTHS))]
    fits = channels * size**2 == n_observed and size in sizes
    must = (
        f"Without builders, images must be square, of one or three channels and a side among {checks.listed(sizes, 9)}."
    )
    checks.require(fits, must, f"{n_observed} numbers")
    widths = WIDTHS[: sizes.index(size) + 1]
    return kind(channels, size, widths[::-1] if kind is StyleDiscriminator else widths)
