"""Describe: a text that tells a setting or a network from another and is the same in every process.

Functions are told by what they do and what they hold, not by where they lie in memory, so that a fit that was killed is
resumed with the same settings and no others.
"""

from __future__ import annotations

import hashlib
from functools import partial
from types import CodeType, FunctionType, MethodType
from typing import Any

import numpy as np
from torch import Tensor, nn

DEPTH = 6
"""How deep holders of holders are followed."""
KNOWN = ("torch.", "noumena.", "builtins")
"""Where layers come from that are known by their names."""


def describe(value: Any, depth: int = DEPTH) -> str:
    """A function by its name, its code and what it holds; a container by its entries; numbers by their digits; an
    object without a description of its own by its class and what it holds; anything else by how it describes itself.

    >>> describe(lambda x: x + 1) == describe(lambda x: x + 1), describe(lambda x: x + 1) == describe(lambda x: x + 2)
    (True, False)
    >>> describe(partial(max, 3)) == describe(partial(max, 3)), describe({2, 1})
    (True, "set ['1', '2']")
    """
    if isinstance(value, type) or depth == 0:
        return getattr(value, "__qualname__", type(value).__qualname__)
    if isinstance(value, Tensor | np.ndarray):
        numbers = value.detach().cpu().numpy() if isinstance(value, Tensor) else value
        return f"{numbers.dtype} {numbers.shape} {hashlib.sha256(numbers.tobytes()).hexdigest()[:16]}"
    if isinstance(value, nn.Module):
        return type(value).__qualname__  # a network is described as one
    if isinstance(value, set | frozenset):
        return f"set {sorted(_entries(value, depth))}"
    if isinstance(value, dict):
        return f"dict {sorted(zip(_entries(value, depth), _entries(value.values(), depth), strict=True))}"
    if isinstance(value, list | tuple):
        return f"{type(value).__name__} {_entries(value, depth)}"
    return _callable(value, depth)


def describe_network(model: nn.Module) -> str:
    """What a checkpoint must agree with: layers and what those of users do, names and shapes of numbers, frozen
    weights."""
    shapes = [(name, tuple(value.shape)) for name, value in model.state_dict().items()]
    frozen = hashlib.sha256()
    for weight in model.parameters():
        if not weight.requires_grad:
            frozen.update(weight.detach().cpu().double().numpy().tobytes())
    kinds = {kind for module in model.modules() for kind in type(module).__mro__}
    own = [kind for kind in kinds if not kind.__module__.startswith(KNOWN)]
    done = sorted(method for kind in own for method in _methods(kind))
    return f"{model} {shapes} {frozen.hexdigest()} {done}"


def _callable(value: Any, depth: int) -> str:
    """What can be called, and objects."""
    if isinstance(value, FunctionType):
        held = [cell.cell_contents for cell in value.__closure__ or () if cell != type(cell)()]
        defaults = [value.__defaults__, value.__kwdefaults__, getattr(value, "__wrapped__", None)]
        return f"{value.__qualname__} {_digest(value.__code__)} {_entries([*held, *defaults], depth)}"
    if isinstance(value, MethodType):
        return f"{describe(value.__func__, depth)} of {describe(value.__self__, depth - 1)}"
    if isinstance(value, partial):
        return f"partial {_entries([value.func, value.args, value.keywords], depth)}"
    if type(value).__repr__ is not object.__repr__:
        return getattr(value, "__qualname__", repr(value))
    code = [method for method in vars(type(value)).values() if isinstance(method, FunctionType)]
    return f"{type(value).__qualname__} {_entries([*code, getattr(value, '__dict__', None)], depth)}"


def _entries(values: Any, depth: int) -> list[str]:
    return [describe(value, depth - 1) for value in values]


def _digest(code: CodeType) -> str:
    """Of what code does, wherever it stands."""
    constants = [_digest(c) if isinstance(c, CodeType) else describe(c) for c in code.co_consts]
    return hashlib.sha256(repr((code.co_code, code.co_names, constants)).encode()).hexdigest()[:16]


def _methods(kind: type) -> list[str]:
    """What the methods of a class do, decorated ones, static ones and properties too."""
    methods = [getattr(method, "__func__", getattr(method, "fget", method)) for method in vars(kind).values()]
    return [describe(method) for method in methods if isinstance(method, FunctionType)]
