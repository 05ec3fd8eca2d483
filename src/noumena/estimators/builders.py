"""Networks that users' builders make: copied, tried on two rows, and refused in one sentence where they cannot work.

A builder is called with the numbers of inputs and outputs. What it returns is copied, so that a module of the user's
own is neither trained nor shared by several models; weights with ``requires_grad=False`` stay as they are.
"""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from copy import deepcopy
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.dropout import _DropoutNd

from noumena import checks, seeds
from noumena.estimators.fit_data import FitData
from noumena.estimators.loop import Objective, Training, _Fit
from noumena.estimators.written import verbs
from noumena.nets import MLP

Builder = Callable[[int, int], nn.Module]
TRIED = ("encoder", "decoder", "prior")
"""Roles of networks that take rows and give rows, one by one."""
OURS = ("torch.", "noumena.", "builtins")
"""Where layers come from that are known by their names."""
STEP = 8
"""Rows of the one step that is tried."""


@contextmanager
def as_usual() -> Iterator[None]:
    """Torch as it is when it is imported, with gradients, float32 and the processor, whatever the caller has set.

    >>> with torch.no_grad(), as_usual():
    ...     torch.is_grad_enabled()
    True
    """
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float32)
    try:
        usual = torch.empty(0).device.type == "cpu"  # torch 2.6 cannot say where a default was set and taken back
        here = nullcontext() if usual else torch.device("cpu")  # which slows calls
        with torch.inference_mode(False), torch.enable_grad(), here:
            yield
    finally:
        torch.set_default_dtype(before)


def network(builder: Any, role: str, inputs: int, outputs: int) -> nn.Module:
    """A copy of the network that a builder makes, or the default MLP."""
    made = _built(MLP() if builder is None else builder, role, inputs, outputs)
    checks.require(isinstance(made, nn.Module), f"The {role} builder must return a torch module.", repr(made))
    scripted = isinstance(made, torch.jit.ScriptModule)
    checks.require(not scripted, f"The {role} must be a plain torch module.", "a scripted one; give what it is made of")
    lazy = any(nn.parameter.is_lazy(entry) for entry in (*made.parameters(), *made.buffers()))
    must = f"The {role} must have all of its weights; make it of the numbers that the builder is called with."
    checks.require(not lazy, must, "lazy layers")
    mixed = [type(layer).__name__ for layer in made.modules() if isinstance(layer, _BatchNorm) and layer.training]
    must = f"Layers of the {role} must treat rows one by one; use a LayerNorm or GroupNorm."
    checks.require(not mixed, must, "".join(mixed[:1]))
    net = said(lambda: deepcopy(made), f"The {role} must be a module that can be copied.")
    if role in TRIED and not any(weight.is_meta for weight in net.parameters()):
        _try(net, role, inputs, outputs)
    return net


def _built(builder: Any, role: str, inputs: int, outputs: int) -> Any:
    must = (
        f"{role} must be a builder, called with the numbers of inputs and outputs, such as "
        "lambda inputs, outputs: nn.Linear(inputs, outputs)."
    )
    able = callable(builder) and not isinstance(builder, nn.Module)
    checks.require(able, must, f"a {type(builder).__name__}")
    try:
        inspect.signature(builder).bind(inputs, outputs)
    except TypeError as error:
        raise checks.InputError(f"{must} Got one that takes other arguments.") from error
    except ValueError:  # of some builtins nothing is known
        pass
    return builder(inputs, outputs)


def _try(net: nn.Module, role: str, inputs: int, outputs: int) -> None:
    """Two rows through a copy: in its own mode twice, then in evaluation mode together and alone."""
    trial = deepcopy(net)
    rows = torch.linspace(0, 1, 2 * inputs).view(2, inputs)
    rows = next((rows.to(p) for p in trial.parameters() if p.is_floating_point()), rows)
    with torch.no_grad(), torch.random.fork_rng(devices=[]):
        first = said(lambda: trial(rows), f"The {role} must take rows of {inputs} numbers.")
        checks.require(isinstance(first, Tensor), f"The {role} must give one tensor.", f"a {type(first).__name__}")
        flat = first.ndim == 2 and len(first) == 2
        must = f"The {role} must give flat rows; end it with nn.Flatten()."
        checks.require(flat, must, f"shape {tuple(first.shape)} for two rows")
        checks.require(first.shape[1] == outputs, f"The {role} must give {outputs} columns.", f"{first.shape[1]}")
        random = [type(layer).__name__ for layer in trial.modules() if isinstance(layer, _DropoutNd)]
        must = f"The {role} must give the same for the same rows; leave randomness such as Dropout out."
        alike = torch.equal(first.nan_to_num(), trial(rows).nan_to_num())
        checks.require(alike, must, " ".join(["other numbers at the second call", *(f"of a {r}" for r in random[:1])]))
        trial.eval()
        together = trial(rows)[:1]
        alone = said(lambda: trial(rows[:1]), f"The {role} must take a single row.")
        least = 1e-4 * float(together.abs().max())
        close = torch.allclose(alone, together, rtol=1e-3, atol=least, equal_nan=True)
        checks.require(close, f"The {role} must treat rows one by one.", "a row's output that changes with its batch")


def freeze(model: Objective) -> None:
    """Weights that are built with ``requires_grad=False`` are not trained."""
    frozen = tuple(name for name, weight in model.named_parameters() if not weight.requires_grad)
    model.fixed = (*model.fixed, *frozen)
    free = any(weight.requires_grad for weight in model.parameters())
    checks.require(free, "Networks must have weights to train.", "none with requires_grad=True")


def description(model: nn.Module) -> str:
    """What a checkpoint must agree with: layers and what strangers' do, names and shapes of numbers, frozen weights."""
    shapes = [(name, tuple(value.shape)) for name, value in model.state_dict().items()]
    frozen = hashlib.sha256()
    for weight in model.parameters():
        if not weight.requires_grad:
            frozen.update(weight.detach().cpu().double().numpy().tobytes())
    kinds = {kind for module in model.modules() for kind in type(module).__mro__}
    strange = [kind for kind in kinds if not kind.__module__.startswith(OURS)]
    done = sorted(verb for kind in strange for verb in verbs(kind))
    return f"{model} {shapes} {frozen.hexdigest()} {done}"


def fits_batched(models: list[Any], model_seeds: list[int], rows: FitData, training: Training) -> bool:
    """Whether a step of all models as one program works; where it works only side by side, the models say so."""
    few = FitData(rows.train[:STEP], rows.held_out[:STEP], "")
    plan = training.changed(checkpoint=None, capture=False)
    try:
        _step(models, model_seeds, few, plan)
    except RuntimeError:
        for model in models:
            model.batched = False
        must = "Networks and the penalty must run with weights that are handed to them, one model after the other."
        said(lambda: _step(models, model_seeds, few, plan), must)
        return False
    return True


def _step(models: list[Any], model_seeds: list[int], rows: FitData, plan: Training) -> None:
    fit = _Fit(models, model_seeds, rows, plan)
    few = len(rows.train)
    draws = [models[0].draws(few, seeds.generator(seed, "trial")) for seed in model_seeds]
    drawn = {k: torch.stack([d[k] for d in draws]).to(fit.device, fit.dtype) for k in draws[0]}
    losses, _ = fit._losses(fit.parameters, rows.train.expand(len(models), *rows.train.shape), drawn, 0.5)
    losses.sum().backward()


def said(call: Callable[[], Any], must: str) -> Any:
    """What a call to a user's module gives; its complaints become one sentence."""
    try:
        return call()
    except checks.InputError:
        raise
    except (RuntimeError, TypeError, ValueError, AttributeError, LookupError, NotImplementedError) as error:
        words = (str(error).strip() or type(error).__name__).splitlines()[0].rstrip(".")
        raise checks.InputError(f"{must} Got the error: {words}.") from error
