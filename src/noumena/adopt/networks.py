"""A user's networks that are to be trained: what builders make, and encoders with decoders of one's own.

A builder is called with the numbers of inputs and outputs. What it returns is copied, so that a module of the user's
own is neither trained nor shared by several models; weights with ``requires_grad=False`` stay as they are.
"""

from __future__ import annotations

import functools
import inspect
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from copy import deepcopy
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.dropout import _DropoutNd

from noumena import checks
from noumena.adopt.modules import call_or_refuse, first_weight, module_of, require_rowwise, require_tensor

Builder = Callable[[int, int], nn.Module]
ROW_BY_ROW = ("encoder", "decoder", "prior")
"""Roles of networks that take rows and give rows, one by one."""


@contextmanager
def default_torch_state() -> Iterator[None]:
    """Torch as it is when it is imported, with gradients, float32 and the processor, whatever the caller has set.

    >>> with torch.no_grad(), default_torch_state():
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


# ---- builders --------------------------------------------------------------------------------------------------


def build_network(builder: Any, role: str, inputs: int, outputs: int) -> nn.Module:
    """A copy of the network that a builder makes, tried on two rows."""
    made = _built(builder, role, inputs, outputs)
    checks.require(isinstance(made, nn.Module), f"The {role} builder must return a torch module.", repr(made))
    scripted = isinstance(made, torch.jit.ScriptModule)
    checks.require(not scripted, f"The {role} must be a plain torch module.", "a scripted one; give what it is made of")
    must = f"The {role} must have all of its weights; make it of the numbers that the builder is called with."
    checks.require(not _lazy(made), must, "lazy layers")
    mixing = [type(layer).__name__ for layer in made.modules() if isinstance(layer, _BatchNorm) and layer.training]
    must = f"Layers of the {role} must treat rows one by one; use a LayerNorm or GroupNorm."
    checks.require(not mixing, must, "".join(mixing[:1]))
    network = call_or_refuse(lambda: deepcopy(made), f"The {role} must be a module that can be copied.")
    if role in ROW_BY_ROW and not any(weight.is_meta for weight in network.parameters()):
        _require_rows(deepcopy(network), role, inputs, outputs)
    return network


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


def _lazy(module: nn.Module) -> bool:
    return any(nn.parameter.is_lazy(entry) for entry in (*module.parameters(), *module.buffers()))


def _require_rows(network: nn.Module, role: str, inputs: int, outputs: int) -> None:
    """Two rows through a network: in its own mode twice, then in evaluation mode together and alone."""
    rows, weight = torch.linspace(0, 1, 2 * inputs).view(2, inputs), first_weight(network)
    rows = rows if weight is None else rows.to(weight)
    with torch.no_grad(), torch.random.fork_rng(devices=[]):
        first = call_or_refuse(lambda: network(rows), f"The {role} must take rows of {inputs} numbers.")
        first = require_tensor(first, role)
        must = f"The {role} must give flat rows; end it with nn.Flatten()."
        checks.require(first.ndim == 2 and len(first) == 2, must, f"shape {tuple(first.shape)} for two rows")
        checks.require(first.shape[1] == outputs, f"The {role} must give {outputs} columns.", f"{first.shape[1]}")
        random = [type(layer).__name__ for layer in network.modules() if isinstance(layer, _DropoutNd)]
        must = f"The {role} must give the same for the same rows; leave randomness such as Dropout out."
        alike = torch.equal(first.nan_to_num(), network(rows).nan_to_num())
        checks.require(alike, must, " ".join(["other numbers at the second call", *(f"of a {r}" for r in random[:1])]))
        network.eval()
        call_or_refuse(lambda: network(rows[:1]), f"The {role} must take a single row.")
        require_rowwise(network, rows, role)


# ---- encoders with decoders ------------------------------------------------------------------------------------


class EncoderDecoder(nn.Module):
    """An encoder and a decoder as one module: ``owners`` have the weights, ``calls`` say how each of the two is called.

    A call is the place of an owner and the name of its attribute (none: the owner itself), or a function of no weights.
    """

    def __init__(self, owners: list[nn.Module], calls: list[Any], *, single: bool):
        super().__init__()
        self.owners, self.calls, self.single = nn.ModuleList(owners), calls, single

    @property
    def module(self) -> nn.Module:
        """What a loss is handed: the one module that was given, or the two together."""
        return self.owners[0] if self.single else self

    @property
    def whole(self) -> nn.Module:
        """The old name of ``module``."""
        told = "EncoderDecoder.whole is now EncoderDecoder.module; the old name will go with the next release."
        warnings.warn(told, DeprecationWarning, stacklevel=2)
        return self.module

    def encode(self, x: Tensor) -> Tensor:
        """Latents of observations; of a tuple, such as a posterior's mean and variance, the first entry."""
        z: Any = self.part(0)(x)
        return require_tensor(z[0] if isinstance(z, tuple | list) and z else z, "encoder")

    def decode(self, z: Tensor) -> Tensor:
        """Observations of latents."""
        return require_tensor(self.part(1)(z))

    def part(self, k: int) -> Callable[..., Any]:
        """The encoder (0) or the decoder (1) itself."""
        call = self.calls[k]
        if not isinstance(call, tuple):
            return call
        place, name = call
        return self.owners[place] if name is None else getattr(self.owners[place], name)


def adopt_pair(module: Any) -> EncoderDecoder:
    """Whatever a user calls an encoder and a decoder, as one module that shares its weights.

    >>> adopt_pair((nn.Linear(2, 1), lambda z: z.repeat(1, 2))).decode(torch.ones(1, 1))
    tensor([[1., 1.]])
    """
    if isinstance(module, EncoderDecoder):
        return module
    if isinstance(module, nn.Module):
        both = [("encode", "decode"), ("encoder", "decoder")]
        names = next((two for two in both if all(callable(getattr(module, name, None)) for name in two)), None)
        must = "A module must have encode and decode, or encoder and decoder; give a pair (encoder, decoder) otherwise."
        checks.require(names is not None, must, f"a {type(module).__name__}")
        return _with_weights(EncoderDecoder([module], [(0, name) for name in names or ()], single=True))
    two = isinstance(module, tuple | list) and len(module) == 2 and all(callable(part) for part in module)
    checks.require(two, "module must be a torch module or a pair (encoder, decoder).", f"a {type(module).__name__}")
    owners: list[nn.Module] = []
    return _with_weights(EncoderDecoder(owners, [_call(part, owners) for part in module], single=False))


def _call(part: Any, owners: list[nn.Module]) -> Any:
    """How a part of a pair is called; the module that has its weights joins the owners."""
    owner = module_of(part)
    if owner is not None:
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
    return [module for value in held for module in _modules(value, depth - 1)] if depth else []


def _with_weights(pair: EncoderDecoder) -> EncoderDecoder:
    """The pair, unless there is nothing to train in it."""
    unmade = _lazy(pair) or any(weight.is_meta for weight in pair.parameters())
    checks.require(not unmade, "A module must have all of its weights.", "some that are lazy or on the device meta")
    free = any(weight.requires_grad for weight in pair.parameters())
    checks.require(free, "A module must have weights to train.", "none with requires_grad=True")
    return pair


def reset_weights(module: nn.Module) -> None:
    """New weights for every layer that has some to train, by its own ``reset_parameters``."""
    for layer in module.modules():
        if any(weight.requires_grad for weight in layer.parameters(recurse=False)):
            can = callable(getattr(layer, "reset_parameters", None))
            must = "n_models must be 1 unless every layer with weights has reset_parameters()."
            checks.require(can, must, f"a {type(layer).__name__} without it")
            layer.reset_parameters()  # pyright: ignore[reportCallIssue]
