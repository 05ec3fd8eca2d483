"""A Lightning callback that adds a penalty on the decoder to someone else's training.

Lightning has no hook that may change a loss: the return value of ``on_before_backward`` is dropped. The callback
therefore wraps the module's ``training_step`` while ``fit`` runs and restores it after, also after an error; several
callbacks share one wrapper and can be removed in any order, and those of one name log their sum. The penalty is thus
part of the step itself: gradient accumulation divides it, mixed precision scales its gradient, and distributed data
parallel synchronises it, as with any loss.

Both packages are supported, ``lightning`` and ``pytorch_lightning``; neither is imported with this file.

Deviations: the penalty sees the decoder in evaluation mode, as ``certify`` does, and outside of autocast, in the
precision of its weights. Limits: automatic optimisation only; no sharded weights (FSDP, DeepSpeed). A penalty that
needs latents of a fixed scale, such as ``DependencySparsity``, gets them in units of their spread over the batch.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from functools import cache, wraps
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import torch
from torch import Tensor, nn

from noumena import checks
from noumena.adopt.modules import evaluation_mode, module_of, require_tensor, unit_layer
from noumena.checks import InputError
from noumena.derivatives.tangents import obstacle
from noumena.penalties import Penalty

PACKAGES = ("lightning.pytorch", "pytorch_lightning")


class PenaltyCallback:
    """Adds a penalty to the loss: ``Trainer(callbacks=[PenaltyCallback(0.05 * nm.DependencySparsity())])``.

    Parameters
    ----------
    penalty : Penalty
        The penalty.
    decoder : str
        Name of the decoder in the LightningModule, such as ``"model.decoder"``; a method needs ``latents``.
    latents : str or callable, optional
        Points of the penalty: the output of a layer, or a function ``(module, batch) ↦ z``; by default the first input
        that
        the training step gives the decoder.
    steps : int, optional
        Steps over which the penalty is annealed; the trainer's own number by default.
    name : str or None
        Under which its value is logged; None: not logged.
    """

    def __new__(cls, *args: Any, **settings: Any) -> PenaltyCallback:
        """An instance that also is a callback of the packages in use."""
        return object.__new__(_joined(cls, _callbacks()))

    def __init__(
        self,
        penalty: Any,
        decoder: Any = "decoder",
        latents: Any = None,
        *,
        steps: int | None = None,
        name: str | None = "penalty",
    ):
        must = "penalty must be a Penalty such as 0.05 * DependencySparsity()."
        checks.require(isinstance(penalty, Penalty), must, repr(penalty))
        checks.require(isinstance(decoder, str), "decoder must be the name of the module's decoder.", repr(decoder))
        must = "latents must be None, the name of a layer or a function (module, batch) ↦ z."
        checks.require(latents is None or isinstance(latents, str) or callable(latents), must, repr(latents))
        self.penalty, self.decoder, self.latents, self.name = penalty, decoder, latents, name
        self.steps = steps if steps is None else checks.count(steps, "steps")
        self._undo: Callable[[], None] | None = None

    def __reduce__(self) -> Any:
        plain = type(self)._plain  # pyright: ignore[reportAttributeAccessIssue]
        settings = {"steps": self.steps, "name": self.name}
        return _again, (plain, (self.penalty, self.decoder, self.latents), settings)

    # ---- Lightning's hooks -------------------------------------------------------------------------------

    def on_train_start(self, trainer: Any, pl_module: Any) -> None:
        """Wrap the training step."""
        must = "PenaltyCallback must come with automatic optimisation; add penalty(decoder, z) to a loss of your own."
        checks.require(pl_module.automatic_optimization, must, "automatic_optimization=False")
        steps = trainer.estimated_stepping_batches if self.steps is None else self.steps
        checks.require(math.isfinite(steps), "steps must be given where the trainer has no last one.", steps)
        self._parts(pl_module)
        self._restore()
        self._undo = _joining(pl_module, _Part(self, trainer, float(steps)))

    def on_train_end(self, trainer: Any, pl_module: Any) -> None:
        """Put the plain training step back."""
        self._restore()

    def on_exception(self, trainer: Any, pl_module: Any, exception: BaseException) -> None:
        """Put the plain training step back."""
        self._restore()

    # ---- inside ------------------------------------------------------------------------------------------

    def _restore(self) -> None:
        if self._undo is not None:
            self._undo()
        self._undo = None

    def _parts(self, module: Any) -> tuple[Any, nn.Module | None]:
        """The decoder, and the layer whose calls are recorded."""
        decoder = _named(module, self.decoder, "decoder")
        if isinstance(self.latents, str):
            layer = _named(module, self.latents, "latents")
            checks.require(isinstance(layer, nn.Module), "latents must name a layer.", f"{self.latents!r}")
            return decoder, layer
        must = "latents must be given where the decoder is no torch module."
        checks.require(callable(self.latents) or isinstance(decoder, nn.Module), must, f"a {type(decoder).__name__}")
        return decoder, None if callable(self.latents) else decoder

    def _recording(self, module: Any) -> AbstractContextManager[list[Any]]:
        """Record latents while a step runs."""
        return _recording(self._parts(module)[1], inputs=self.latents is None)

    def _value(self, module: Any, recorded: list[Any], arguments: Any, progress: float) -> Tensor:
        """The penalty of a step, from its arguments and the recorded latents."""
        if callable(self.latents):
            args, named = arguments
            z = self.latents(module, args[0] if args else named["batch"])
        else:
            checks.require(bool(recorded), "The training step must call the layer that latents come from.", "no call")
            z = recorded[0]
        return penalised(self.penalty, self._parts(module)[0], z, progress)


# ---- the step ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class _Part:
    """A callback's part in a step: its penalty, annealed over so many steps of a trainer."""

    callback: PenaltyCallback
    trainer: Any
    steps: float

    @property
    def progress(self) -> float:
        """How far the training has come."""
        return min(1.0, self.trainer.global_step / max(1.0, self.steps))


def _joining(module: Any, part: _Part) -> Callable[[], None]:
    """Add a callback's part to the module's training step; returns a function that removes it again, in any order."""
    parts: list[_Part] | None = getattr(module.__dict__.get("training_step"), "_parts", None)
    if not parts:
        parts = []
        _wrap(module, parts)
    parts.append(part)

    def undo() -> None:
        """The step without this part, and as it was where it was the last."""
        parts.remove(part)
        step = module.__dict__.get("training_step")
        if parts or getattr(step, "_self", None) is not step:  # others have a part, or have wrapped it themselves
            return
        del module.training_step
        if step._own is not None:
            module.training_step = step._own

    return undo


def _wrap(module: Any, parts: list[_Part]) -> None:
    """Replace the module's training step by one with the penalties of these parts."""
    own, plain = module.__dict__.get("training_step"), module.training_step

    @wraps(plain)
    def training_step(*args: Any, **named: Any) -> Any:
        """The module's own step, and what every part adds to its loss."""
        with ExitStack() as stack:
            recorded = [stack.enter_context(part.callback._recording(module)) for part in parts]
            output = plain(*args, **named)
        loss = output.get("loss") if isinstance(output, Mapping) else output
        if loss is None:
            return output
        logged: dict[str, Tensor] = {}
        for part, latents in zip(parts, recorded, strict=True):
            value, name = part.callback._value(module, latents, (args, named), part.progress), part.callback.name
            loss = loss + value
            if name is not None:
                logged[name] = value.detach() + logged.get(name, 0)
        for name, value in logged.items():
            module.log(name, value)
        return {**output, "loss": loss} if isinstance(output, Mapping) else loss

    vars(training_step).update(_self=training_step, _own=own, _parts=parts)
    module.training_step = training_step


# ---- the penalty -------------------------------------------------------------------------------------------------


def penalised(penalty: Penalty, decoder: Any, z: Any, progress: float = 1.0) -> Tensor:
    """The penalty on a decoder in training: in evaluation mode, on flat rows, at latents of a fixed scale if it needs
    one.

    >>> from noumena.penalties import DependencySparsity
    >>> double = nn.Linear(1, 1, bias=False)
    >>> _ = nn.init.constant_(double.weight, 2.0)
    >>> penalised(DependencySparsity("l1"), double, torch.tensor([[-3.0], [3.0]])).item()
    6.0
    """
    table = isinstance(z, Tensor) and z.ndim == 2 and len(z) > 1
    shown = f"shape {tuple(z.shape)}" if isinstance(z, Tensor) else f"a {type(z).__name__}"
    checks.require(table, "Latents must be a table, (batch, latent), of two rows or more.", shown)
    owner = module_of(decoder)
    weights = () if owner is None else owner.parameters()
    with evaluation_mode(owner), torch.autocast(z.device.type, enabled=False):
        z = z.to(next((weight.dtype for weight in weights if weight.is_floating_point()), z.dtype))
        if not penalty.needs_scale:
            return penalty(_rows(decoder), z, progress)
        centre, spread = z.mean(dim=0), (z.var(dim=0, correction=0) + 1e-8).sqrt()
        return penalty(_rows(decoder, unit_layer(centre, spread)), (z - centre) / spread, progress)


def _rows(decoder: Any, *first: nn.Module) -> nn.Sequential:
    """The decoder after a change of units, flattened; as layers, so that structured derivatives apply."""
    layered = isinstance(decoder, nn.Module) and obstacle(decoder) is None
    return nn.Sequential(*first, decoder if layered else _Called(decoder), nn.Flatten())


class _Called(nn.Module):
    """A function as a layer, whose answer must be a tensor."""

    def __init__(self, function: Callable[[Tensor], Tensor]):
        super().__init__()
        self.function = function

    def forward(self, z: Tensor) -> Tensor:
        """What the function gives."""
        return require_tensor(self.function(z))


@contextmanager
def _recording(layer: nn.Module | None, *, inputs: bool) -> Iterator[list[Any]]:
    """Record inputs, or outputs, of a layer while the block runs."""
    recorded: list[Any] = []

    def before(_layer: Any, args: tuple[Any, ...], named: dict[str, Any]) -> None:
        alone = len(args) + len(named) == 1
        must = "The decoder must be called with latents alone; name them by latents otherwise."
        checks.require(alone, must, f"{len(args) + len(named)} arguments")
        recorded.append(next(iter((*args, *named.values()))))

    def after(_layer: Any, _args: Any, output: Any) -> None:
        recorded.append(output[0] if isinstance(output, tuple | list) else output)

    if layer is None:
        yield recorded
        return
    hook = layer.register_forward_pre_hook(before, with_kwargs=True) if inputs else layer.register_forward_hook(after)
    try:
        yield recorded
    finally:
        hook.remove()


def _named(module: Any, name: str, role: str) -> Any:
    """The part of a module of this dotted name."""
    part = module
    for word in name.split("."):
        part = getattr(part, word, None)
    checks.require(callable(part), f"{role} must be the name of a part of {type(module).__name__}.", repr(name))
    return part


# ---- which Lightning ---------------------------------------------------------------------------------------------


def _callbacks() -> tuple[type, ...]:
    """The Callback classes of the packages that are imported already, or else of one that is installed."""
    used = [name for name in PACKAGES if name in sys.modules]
    here = used or [name for name in PACKAGES if find_spec(name.split(".")[0]) is not None][:1]
    if not here:
        raise InputError("PenaltyCallback must have Lightning; pip install lightning. Got no such package.")
    return tuple(import_module(name).Callback for name in here)


@cache
def _joined(plain: type, callbacks: tuple[type, ...]) -> type:
    """The class that is also a callback of these packages."""
    return type(plain.__name__, (plain, *callbacks), {"__module__": plain.__module__, "_plain": plain})


def _again(plain: type, args: tuple[Any, ...], settings: dict[str, Any]) -> PenaltyCallback:
    """A copy of a callback, for another process."""
    return plain(*args, **settings)
