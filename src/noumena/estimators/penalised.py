"""Your own encoder and decoder, trained with a penalty by the loop that trains every other model.

Objective (minimised): ``loss + penalty(decoder, z)`` at the latents ``z`` of a batch, where the loss is the squared
error summed over observations, or your own. Weights are copied: your module is changed only on ``in_place=True``, at
the end and at once. Weights that you froze (``requires_grad=False``) stay as they are.

A penalty that needs latents of a fixed scale sees them in units of their mean and spread over the batch, and the
decoder behind that change of units; the encoder cannot escape by rescaling, and your module stays a pair by itself.
It sees the module in evaluation mode: a penalty is of one function, which dropout is not.

Models run side by side and not as one batched program, so that a module may do what it likes in ``forward``. Its random
numbers, such as dropout or a posterior's noise, are addressed by seed and step on a processor, not on a GPU.
**Deviations**: none from a paper. Buffers that change in a forward pass (batch normalisation in training mode) are
refused, for the loop keeps the best weights and not the statistics that belonged to them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass, field
from math import prod
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call

from noumena import checks, seeds
from noumena.adopt.modules import call_or_refuse, evaluation_mode, require_rowwise, unit_layer
from noumena.adopt.networks import EncoderDecoder, adopt_pair, reset_weights
from noumena.estimators.autoencoder import spread_of
from noumena.estimators.base import Codec, Estimator
from noumena.estimators.fit_data import FitData
from noumena.estimators.loop import Objective, Training
from noumena.penalties import Penalty

Loss = Callable[[Any, Tensor], Tensor]
STREAM = "own stream"
TRIED = 8
"""Rows on which a module is tried before it is trained."""


class OwnObjective(Codec):
    """A user's loss, or the squared error, plus the penalty on the decoder."""

    batched = False

    def __init__(self, own: EncoderDecoder, mean: Tensor, scale: Tensor, *, shape: tuple[int, ...] | None):
        Objective.__init__(self)
        self.own, self.shape = own, shape
        self.loss: Loss | str | None = None
        self.penalty: Penalty | None = None
        self.n_latents = 0  # set, with the two above, by the estimator
        self.register_buffer("mean", mean)
        self.register_buffer("scale", scale)

    def code(self, x: Tensor) -> Tensor:
        """Latents of standardised observations."""
        return self.own.encode(x if self.shape is None else x.unflatten(1, self.shape))

    def emit(self, z: Tensor) -> Tensor:
        """Standardised observations of latents, as flat rows."""
        return self.own.decode(z).flatten(1)

    def decode(self, z: Tensor) -> Tensor:
        """Observations, in their own units, of latents."""
        return self.emit(z) * self.scale + self.mean

    def draws(self, rows: int, generator: torch.Generator) -> dict[str, Tensor]:
        """A number that the module's own randomness is seeded by, and the penalty's own draws."""
        stream = {STREAM: torch.rand(rows, 1, generator=generator)}
        return stream | ({} if self.penalty is None else self.penalty.draws(rows, self.n_latents, generator))

    def forward(self, x: Tensor, draws: dict[str, Tensor], progress: float) -> tuple[Tensor, dict[str, Tensor]]:
        """Loss and terms on a batch of standardised observations; in evaluation mode where nothing is learned."""
        with seeds.global_torch(int(draws[STREAM][0, 0] * 2**24), STREAM):
            with evaluation_mode(self.own, wanted=not torch.is_grad_enabled()):
                terms = self._misfit(x)
            (loss,) = terms.values()
            if self.penalty is None:
                return loss, terms
            with evaluation_mode(self.own):
                terms["penalty"] = self._penalised(x, {k: v for k, v in draws.items() if k != STREAM}, progress)
        return loss + terms["penalty"], terms

    def _misfit(self, x: Tensor) -> dict[str, Tensor]:
        if self.loss is None:
            return {"reconstruction": (self.emit(self.code(x)) - x).square().sum(dim=-1).mean()}
        x = x if self.shape is None else x.unflatten(1, self.shape)
        module = self.own.module
        return {"loss": getattr(module, self.loss)(x) if isinstance(self.loss, str) else self.loss(module, x)}

    def _penalised(self, x: Tensor, draws: dict[str, Tensor], progress: float) -> Tensor:
        assert self.penalty is not None
        z, decoder = self.code(x), self.own.part(1)
        layers = [decoder, nn.Flatten()] if isinstance(decoder, nn.Module) else []
        if not self.penalty.needs_scale:
            return self.penalty(nn.Sequential(*layers) if layers else self.emit, z, progress, draws)
        centre, spread = z.mean(dim=0), spread_of(z)
        behind = (
            nn.Sequential(unit_layer(centre, spread), *layers) if layers else lambda v: self.emit(v * spread + centre)
        )
        return self.penalty(behind, (z - centre) / spread, progress, draws)


@dataclass(eq=False, repr=False, kw_only=True)
class Penalised(Estimator):
    """An estimator around your own module; what ``fit_penalised`` returns, and what ``load`` needs ``module=`` for.

    Parameters
    ----------
    module : nn.Module or pair
        Module with ``encode`` and ``decode`` (or ``encoder``, ``decoder``), or a pair of modules, methods or functions.
    loss : function or str, optional
        ``(module, x) ↦ scalar``, or a method ``x ↦ scalar`` of the module; the squared error by default.
    shape : tuple of int, optional
        Shape of a row as the module sees it, such as ``(1, 28, 28)``; rows go in and come out flat.
    standardise : bool, default False
        Whether columns get mean 0 and deviation 1; by default your module sees your units.
    n_models : int, default 1
        Models, of which the first begins with your weights and the others with new ones, by ``reset_parameters``.
    penalty, training, random_state : see ``Estimator``
        As in every ``Estimator``.

    Attributes
    ----------
    models_, best_, objectives_, terms_, explained_, structure_, decoder_, history_ : see ``Estimator``
        As in every ``Estimator``.
    """

    module: Any = field(kw_only=False)
    loss: Loss | str | None = None
    shape: tuple[int, ...] | None = None
    standardise: bool = False

    def _check(self) -> None:
        super()._check()
        module = adopt_pair(self.module).module
        method = isinstance(self.loss, str) and callable(getattr(module, self.loss, None))
        named = self.loss is None or method or (callable(self.loss) and not isinstance(self.loss, str))
        must = "loss must be a function (module, x) ↦ scalar or the name of a method of the module."
        checks.require(named, must, repr(self.loss))
        polished = 0 if self.training is None else self.training.polish
        checks.require(polished == 0, "polish must be 0 for your own module.", polished)

    def _flat(self, x: Any) -> Any:
        """Rows laid flat, where they come in the module's shape."""
        if self.shape is None or getattr(x, "ndim", 2) == 2:
            return x
        same = tuple(x.shape[1:]) == tuple(self.shape)
        checks.require(same, f"Rows must be flat or of shape {tuple(self.shape)}.", f"{tuple(x.shape[1:])}")
        return x.reshape(len(x), -1)

    def _size(self, n_observed: int) -> int:
        """How many latents the encoder gives, asked with two rows of zeros."""
        own = deepcopy(adopt_pair(self.module))
        shape = (n_observed,) if self.shape is None else tuple(self.shape)
        checks.require(prod(shape) == n_observed, f"shape must have the {n_observed} numbers of a row.", f"{shape}")
        zeros = torch.zeros(2, *shape).to(next(own.parameters()))
        with torch.no_grad(), evaluation_mode(own):
            z = call_or_refuse(lambda: own.encode(zeros), f"The encoder must take rows of shape {shape}.")
        fits = z.ndim == 2 and len(z) == 2 and z.shape[1] > 0
        checks.require(fits, "The encoder must give a table of latents, (batch, latent).", f"shape {tuple(z.shape)}")
        return z.shape[1]

    def _build(self, n_observed: int, mean: Tensor, scale: Tensor) -> Codec:
        shape = None if self.shape is None else tuple(self.shape)
        objective = OwnObjective(deepcopy(adopt_pair(self.module)), mean, scale, shape=shape)
        objective.loss, objective.penalty, objective.n_latents = self.loss, self.penalty, self._size(n_observed)
        return objective

    def _model(self, seed: int, n_observed: int, mean: Tensor, scale: Tensor) -> Codec:
        model = super()._model(seed, n_observed, mean, scale)
        if seed != self.seeds_[0]:
            with seeds.global_torch(seed, "initial weights"):
                reset_weights(model.own)  # pyright: ignore[reportArgumentType]
        return model

    def _fingerprint(self, data: str, training: Training, networks: str) -> str:
        sha = hashlib.sha256(super()._fingerprint(data, training, networks).encode())
        for name, weight in adopt_pair(self.module).state_dict().items():
            sha.update(name.encode() + weight.detach().cpu().double().numpy().tobytes())
        return sha.hexdigest()

    def _adopt(self, models: list[Codec], rows: FitData, training: Training, bound: float | None) -> None:
        _require_trainable(models[0], rows.train[:TRIED])  # pyright: ignore[reportArgumentType]
        super()._adopt(models, rows, training.changed(capture=False), bound)


def fit_penalised(
    module: Any,
    data: Any,
    *,
    penalty: Penalty | None,
    loss: Any = None,
    shape: tuple[int, ...] | None = None,
    standardise: bool = False,
    n_models: int = 1,
    in_place: bool = False,
    training: Training | None = None,
    random_state: Any = None,
) -> Penalised:
    """Train your own encoder and decoder with a penalty on the decoder; a fitted estimator comes back.

    Parameters
    ----------
    module : nn.Module or pair
        As in ``Penalised``; a copy is trained, and yours is left as it is.
    data : array
        Rows; with more than two axes they give the ``shape`` themselves.
    in_place : bool, default False
        Whether the best model's weights are written into your module at the end.
    loss : function, str or bound method, optional
        As in ``Penalised``.
    penalty, shape, standardise, n_models, training, random_state : see ``Penalised``
        As in ``Penalised``.

    Returns
    -------
    Penalised
        The fitted estimator.

    Examples
    --------
    >>> pair = (nn.Linear(3, 1), nn.Linear(1, 3))
    >>> rows = torch.randn(20, 3, generator=torch.Generator().manual_seed(0))
    >>> model = fit_penalised(pair, rows, penalty=None, training=Training(steps=3), random_state=0)
    >>> model.transform(rows).shape, pair[0].weight is model.models_[0].own.module.owners[0].weight
    (torch.Size([20, 1]), False)
    """
    own, axes, made = adopt_pair(module), getattr(data, "ndim", 2), type(data).__name__
    checks.require(not hasattr(data, "dataset"), "data must be an array of rows; join its batches first.", f"a {made}")
    model = Penalised(
        own,
        penalty=penalty,
        loss=loss.__name__ if getattr(loss, "__self__", None) is own.module else loss,
        shape=tuple(data.shape[1:]) if shape is None and axes > 2 else shape,
        standardise=standardise,
        n_models=n_models,
        training=training,
        random_state=random_state,
    ).fit(data)
    if in_place:
        for yours, trained in zip(own.owners, model.models_[model.best_].own.owners, strict=True):  # pyright: ignore
            yours.load_state_dict(trained.state_dict())
    return model


def _require_trainable(model: OwnObjective, x: Tensor) -> None:
    """Refuse, in one sentence, a module that the training loop cannot take."""
    with torch.no_grad(), evaluation_mode(model.own):
        z = call_or_refuse(lambda: model.code(x), "The encoder must take the rows of the data.")
        call_or_refuse(lambda: model.code(x[:1]), "The encoder must take a single row.")
        require_rowwise(model.code, x, "encoder", repeat="let it give a mean, and sample in the loss")
        x_hat = call_or_refuse(lambda: model.emit(z), f"The decoder must take latents of shape {tuple(z.shape)}.")
    must = "The decoder must give observations of the shape of the data."
    checks.require(x_hat.shape == x.shape, must, f"{tuple(x_hat.shape)} flat, for {tuple(x.shape)}")
    _require_step(model, x)


def _require_step(model: OwnObjective, x: Tensor) -> None:
    """One step as the loop does it, on weights that are not those of the module."""
    weights = {name: weight.detach().clone().requires_grad_() for name, weight in model.named_parameters()}
    buffers = {name: buffer.detach().clone() for name, buffer in model.named_buffers()}
    draws = {k: v.to(x) for k, v in model.draws(len(x), seeds.generator(0, "held-out draws")).items()}
    skeleton = deepcopy(model).to("meta")
    called = "x ↦ scalar" if isinstance(model.loss, str) else "(module, x) ↦ scalar"
    parts = "A module" if model.loss is None else f"A module, its loss, called as {called},"
    must = f"{parts} and the penalty must run with weights that are handed to them."
    _, terms = call_or_refuse(lambda: functional_call(skeleton, (weights, buffers), (x, draws, 1.0)), must)
    changed = [name for name, buffer in model.named_buffers() if not torch.equal(buffer, buffers[name])]
    must = "Buffers must not change in a forward pass; call eval() on that layer, or use a LayerNorm."
    checks.require(not changed, must, ", ".join(name.removeprefix("own.owners.") for name in changed[:1]))
    loss = next(iter(terms.values()))
    scalar = isinstance(loss, Tensor) and loss.ndim == 0 and loss.is_floating_point()
    checks.require(scalar, "loss must give a scalar.", f"shape {tuple(loss.shape)}" if hasattr(loss, "shape") else loss)
    free = [weight for name, weight in weights.items() if not model.stays(name)]
    moved = torch.autograd.grad(loss, free, allow_unused=True) if free and loss.requires_grad else ()
    must = "loss must depend on weights, which may be trained, of the module that it is handed."
    checks.require(any(slope is not None for slope in moved), must, "one that depends on none")
