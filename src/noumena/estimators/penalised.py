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

import functools
import hashlib
import inspect
from collections.abc import Callable
from copy import deepcopy
from math import prod
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call

from noumena import checks, seeds
from noumena.derivatives.modes import settled
from noumena.estimators.autoencoder import spread_of
from noumena.estimators.base import Codec, Estimator
from noumena.estimators.builders import said
from noumena.estimators.fit_data import FitData
from noumena.estimators.loop import Objective, Training
from noumena.penalties import Penalty

Loss = Callable[[Any, Tensor], Tensor]
STREAM = "own stream"
TRIED = 8
"""Rows on which a module is tried before it is trained."""


class Pair(nn.Module):
    """An encoder and a decoder as one module: ``owners`` have the weights, ``ways`` say how each of the two is called.

    A way is the place of an owner and the name of its attribute (none: the owner itself), or a function of no weights.
    """

    def __init__(self, owners: list[nn.Module], ways: list[Any], *, single: bool):
        super().__init__()
        self.owners, self.ways, self.single = nn.ModuleList(owners), ways, single

    @property
    def whole(self) -> nn.Module:
        """What a loss is handed: the one module that was given, or the pair."""
        return self.owners[0] if self.single else self

    def encode(self, x: Tensor) -> Tensor:
        """Latents of observations; of a tuple, such as a posterior's mean and variance, the first entry."""
        found: Any = self.way(0)(x)
        return _tensor(found[0] if isinstance(found, tuple | list) and found else found, "The encoder")

    def decode(self, z: Tensor) -> Tensor:
        """Observations of latents."""
        return _tensor(self.way(1)(z), "The decoder")

    def way(self, k: int) -> Callable[..., Any]:
        """The encoder (0) or the decoder (1) itself."""
        way = self.ways[k]
        if not isinstance(way, tuple):
            return way
        place, name = way
        return self.owners[place] if name is None else getattr(self.owners[place], name)


def _tensor(found: Any, role: str) -> Tensor:
    checks.require(isinstance(found, Tensor), f"{role} must give a tensor.", f"a {type(found).__name__}")
    return found


def paired(module: Any) -> Pair:
    """Whatever a user calls an encoder and a decoder, as a pair that shares its weights.

    >>> paired((nn.Linear(2, 1), lambda z: z.repeat(1, 2))).decode(torch.ones(1, 1))
    tensor([[1., 1.]])
    """
    if isinstance(module, Pair):
        return module
    if isinstance(module, nn.Module):
        both = [("encode", "decode"), ("encoder", "decoder")]
        names = next((two for two in both if all(callable(getattr(module, name, None)) for name in two)), None)
        must = "A module must have encode and decode, or encoder and decoder; give a pair (encoder, decoder) otherwise."
        checks.require(names is not None, must, f"a {type(module).__name__}")
        return _with_weights(Pair([module], [(0, name) for name in names or ()], single=True))
    two = isinstance(module, tuple | list) and len(module) == 2 and all(callable(part) for part in module)
    checks.require(two, "module must be a torch module or a pair (encoder, decoder).", f"a {type(module).__name__}")
    owners: list[nn.Module] = []
    return _with_weights(Pair(owners, [_way(part, owners) for part in module], single=False))


def _way(part: Any, owners: list[nn.Module]) -> Any:
    """How a part of a pair is called; the module that has its weights joins the owners."""
    owner = part if isinstance(part, nn.Module) else getattr(part, "__self__", None)
    if isinstance(owner, nn.Module):
        if not any(owner is known for known in owners):
            owners.append(owner)
        place = next(k for k, known in enumerate(owners) if known is owner)
        return place, None if owner is part else part.__name__
    hidden = _modules(part)
    must = "An encoder or decoder with weights must be a module or its method, so that they can be trained."
    checks.require(not hidden, must, f"a function that uses a {type(hidden[0]).__name__}" if hidden else None)
    return part


def _modules(part: Any, depth: int = 4) -> list[nn.Module]:
    """Modules that a callable, or what it holds, uses: in partials, methods, objects, closures and containers."""
    if isinstance(part, nn.Module):
        return [part]
    held: list[Any] = []
    if isinstance(part, functools.partial):
        held = [part.func, *part.args, *part.keywords.values()]
    elif inspect.ismethod(part):
        held = [part.__self__, part.__func__]
    elif inspect.isfunction(part):
        seen = inspect.getclosurevars(part)
        held = [*seen.nonlocals.values(), *seen.globals.values(), *(part.__defaults__ or ())]
        held += [*(part.__kwdefaults__ or {}).values()]
    elif isinstance(part, tuple | list | set | frozenset | dict):
        held = [*part.values()] if isinstance(part, dict) else [*part]
    elif not inspect.ismodule(part) and not inspect.isclass(part):
        held = [*getattr(part, "__dict__", {}).values()]
    return [found for value in held for found in _modules(value, depth - 1)] if depth else []


def _with_weights(own: Pair) -> Pair:
    """The pair, unless there is nothing to train in it."""
    weights = list(own.parameters())
    unmade = any(nn.parameter.is_lazy(weight) or weight.is_meta for weight in weights)
    checks.require(not unmade, "A module must have all of its weights.", "some that are lazy or on the device meta")
    free = any(weight.requires_grad for weight in weights)
    checks.require(free, "A module must have weights to train.", "none with requires_grad=True")
    return own


class OwnObjective(Codec):
    """A user's loss, or the squared error, plus the penalty on the decoder."""

    batched = False

    def __init__(self, own: Pair, mean: Tensor, scale: Tensor, *, shape: tuple[int, ...] | None):
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
            with settled(self.own, wanted=not torch.is_grad_enabled()):
                terms = self._misfit(x)
            (loss,) = terms.values()
            if self.penalty is None:
                return loss, terms
            with settled(self.own):
                terms["penalty"] = self._penalised(x, {k: v for k, v in draws.items() if k != STREAM}, progress)
        return loss + terms["penalty"], terms

    def _misfit(self, x: Tensor) -> dict[str, Tensor]:
        if self.loss is None:
            return {"reconstruction": (self.emit(self.code(x)) - x).square().sum(dim=-1).mean()}
        seen = x if self.shape is None else x.unflatten(1, self.shape)
        whole = self.own.whole
        return {"loss": getattr(whole, self.loss)(seen) if isinstance(self.loss, str) else self.loss(whole, seen)}

    def _penalised(self, x: Tensor, draws: dict[str, Tensor], progress: float) -> Tensor:
        assert self.penalty is not None
        z, decoder = self.code(x), self.own.way(1)
        layers = [decoder, nn.Flatten()] if isinstance(decoder, nn.Module) else []
        if not self.penalty.needs_scale:
            return self.penalty(nn.Sequential(*layers) if layers else self.emit, z, progress, draws)
        centre, spread = z.mean(dim=0), spread_of(z)
        behind = nn.Sequential(_units(centre, spread), *layers) if layers else lambda v: self.emit(v * spread + centre)
        return self.penalty(behind, (z - centre) / spread, progress, draws)


def _units(centre: Tensor, spread: Tensor) -> nn.Linear:
    """The change of units ``v ↦ v · spread + centre`` as a layer, so that derivatives of layers stay cheap."""
    layer = nn.Linear.__new__(nn.Linear)  # without weights of its own, whose making would draw random numbers
    nn.Module.__init__(layer)
    layer.weight, layer.bias = torch.diag(spread), centre  # pyright: ignore[reportAttributeAccessIssue]
    return layer


class Penalised(Estimator):
    """An estimator around your own module; what ``fit_penalised`` returns, and what ``load`` needs ``module=`` for.

    Parameters: ``module``, an nn.Module with ``encode`` and ``decode`` (or ``encoder`` and ``decoder``), or a pair of
    modules, methods of modules or functions; of a tuple that ``encode`` gives, the first entry are the latents.
    ``loss``, a function ``(module, x) ↦ scalar`` or the name of a method ``x ↦ scalar`` of the module; by default the
    squared error. ``shape`` of a row as the module sees it, such as ``(1, 28, 28)``; observations go in and come out as
    flat rows. ``standardise`` the observations, off by default: your module sees your units. Of ``n_models`` the first
    begins with your weights and the others with new ones, by each layer's ``reset_parameters``. ``training``;
    ``random_state``.
    """

    def __init__(
        self,
        module: Any,
        *,
        penalty: Penalty | None = None,
        loss: Loss | str | None = None,
        shape: tuple[int, ...] | None = None,
        standardise: bool = False,
        n_models: int = 1,
        training: Training | None = None,
        random_state: Any = None,
    ):
        self.module, self.penalty, self.loss, self.shape = module, penalty, loss, shape
        self.standardise, self.n_models = standardise, n_models
        self.training, self.random_state = training, random_state

    def _check(self) -> None:
        super()._check()
        whole = paired(self.module).whole
        method = isinstance(self.loss, str) and callable(getattr(whole, self.loss, None))
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
        own = deepcopy(paired(self.module))
        shape = (n_observed,) if self.shape is None else tuple(self.shape)
        checks.require(prod(shape) == n_observed, f"shape must have the {n_observed} numbers of a row.", f"{shape}")
        zeros = torch.zeros(2, *shape).to(next(own.parameters()))
        with torch.no_grad(), settled(own):
            z = said(lambda: own.encode(zeros), f"The encoder must take rows of shape {shape}.")
        fits = z.ndim == 2 and len(z) == 2 and z.shape[1] > 0
        checks.require(fits, "The encoder must give a table of latents, (batch, latent).", f"shape {tuple(z.shape)}")
        return z.shape[1]

    def _build(self, n_observed: int, mean: Tensor, scale: Tensor) -> Codec:
        shape = None if self.shape is None else tuple(self.shape)
        objective = OwnObjective(deepcopy(paired(self.module)), mean, scale, shape=shape)
        objective.loss, objective.penalty, objective.n_latents = self.loss, self.penalty, self._size(n_observed)
        return objective

    def _model(self, seed: int, n_observed: int, mean: Tensor, scale: Tensor) -> Codec:
        model = super()._model(seed, n_observed, mean, scale)
        if seed != self.seeds_[0]:
            with seeds.global_torch(seed, "initial weights"):
                _begin_anew(model.own)  # pyright: ignore[reportArgumentType]
        return model

    def _fingerprint(self, data: str, training: Training, networks: str) -> str:
        found = hashlib.sha256(super()._fingerprint(data, training, networks).encode())
        for name, weight in paired(self.module).state_dict().items():
            found.update(name.encode() + weight.detach().cpu().double().numpy().tobytes())
        return found.hexdigest()

    def _adopt(self, models: list[Codec], rows: FitData, training: Training, bound: float | None) -> None:
        _try(models[0], rows.train[:TRIED])  # pyright: ignore[reportArgumentType]
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

    The parameters are those of ``Penalised``; ``loss`` may also be a bound method of the module. ``data`` with more
    than two axes give the ``shape`` themselves. A copy is trained and your module left as it is, unless
    ``in_place=True``: then the best model's weights are written into it at the end.

    >>> pair = (nn.Linear(3, 1), nn.Linear(1, 3))
    >>> rows = torch.randn(20, 3, generator=torch.Generator().manual_seed(0))
    >>> model = fit_penalised(pair, rows, penalty=None, training=Training(steps=3), random_state=0)
    >>> model.transform(rows).shape, pair[0].weight is model.models_[0].own.whole.owners[0].weight
    (torch.Size([20, 1]), False)
    """
    own, axes, made = paired(module), getattr(data, "ndim", 2), type(data).__name__
    checks.require(not hasattr(data, "dataset"), "data must be an array of rows; join its batches first.", f"a {made}")
    model = Penalised(
        own,
        penalty=penalty,
        loss=loss.__name__ if getattr(loss, "__self__", None) is own.whole else loss,
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


def _begin_anew(own: Pair) -> None:
    """New weights for every layer that has some to train, by its own ``reset_parameters``."""
    for layer in own.modules():
        if any(weight.requires_grad for weight in layer.parameters(recurse=False)):
            can = callable(getattr(layer, "reset_parameters", None))
            must = "n_models must be 1 unless every layer with weights has reset_parameters()."
            checks.require(can, must, f"a {type(layer).__name__} without it")
            layer.reset_parameters()  # pyright: ignore[reportCallIssue]


def _try(model: OwnObjective, x: Tensor) -> None:
    """Refuse, in one sentence, a module that the training loop cannot take."""
    with torch.no_grad(), settled(model.own):
        z = said(lambda: model.code(x), "The encoder must take the rows of the data.")
        alike = torch.allclose(model.code(x), z, equal_nan=True)
        must = "encode must give the same latents at every call; let it give a mean, and sample in the loss."
        checks.require(alike, must, "other latents at the second call")
        alone = said(lambda: model.code(x[:1]), "The encoder must take a single row.")
        together = torch.allclose(alone, z[:1], rtol=1e-3, atol=1e-4 * float(z.abs().max()), equal_nan=True)
        checks.require(together, "encode must treat rows one by one.", "a row's latents that change with its batch")
        x_hat = said(lambda: model.emit(z), f"The decoder must take latents of shape {tuple(z.shape)}.")
    must = "The decoder must give observations of the shape of the data."
    checks.require(x_hat.shape == x.shape, must, f"{tuple(x_hat.shape)} flat, for {tuple(x.shape)}")
    _try_step(model, x)


def _try_step(model: OwnObjective, x: Tensor) -> None:
    """One step as the loop does it, on weights that are not those of the module."""
    weights = {name: weight.detach().clone().requires_grad_() for name, weight in model.named_parameters()}
    buffers = {name: buffer.detach().clone() for name, buffer in model.named_buffers()}
    draws = {k: v.to(x) for k, v in model.draws(len(x), seeds.generator(0, "held-out draws")).items()}
    skeleton = deepcopy(model).to("meta")
    called = "x ↦ scalar" if isinstance(model.loss, str) else "(module, x) ↦ scalar"
    parts = "A module" if model.loss is None else f"A module, its loss, called as {called},"
    must = f"{parts} and the penalty must run with weights that are handed to them."
    _, terms = said(lambda: functional_call(skeleton, (weights, buffers), (x, draws, 1.0)), must)
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
