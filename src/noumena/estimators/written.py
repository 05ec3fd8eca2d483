"""What is written in a setting: a text that tells it from another and is the same in every process.

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


def written(value: Any, depth: int = DEPTH) -> str:
    """A function by its name, its code and what it holds; a container by its entries; numbers by their digits; an
    object without a word of its own by its class and what it holds; anything else by how it describes itself.

    >>> written(lambda x: x + 1) == written(lambda x: x + 1), written(lambda x: x + 1) == written(lambda x: x + 2)
    (True, False)
    >>> written(partial(max, 3)) == written(partial(max, 3)), written({2, 1})
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
        return f"set {sorted(_each(value, depth))}"
    if isinstance(value, dict):
        return f"dict {sorted(zip(_each(value, depth), _each(value.values(), depth), strict=True))}"
    if isinstance(value, list | tuple):
        return f"{type(value).__name__} {_each(value, depth)}"
    return _verb(value, depth)


def _verb(value: Any, depth: int) -> str:
    """What can be called, and objects."""
    if isinstance(value, FunctionType):
        held = [cell.cell_contents for cell in value.__closure__ or () if cell != type(cell)()]
        given = [value.__defaults__, value.__kwdefaults__, getattr(value, "__wrapped__", None)]
        return f"{value.__qualname__} {_digest(value.__code__)} {_each([*held, *given], depth)}"
    if isinstance(value, MethodType):
        return f"{written(value.__func__, depth)} of {written(value.__self__, depth - 1)}"
    if isinstance(value, partial):
        return f"partial {_each([value.func, value.args, value.keywords], depth)}"
    if type(value).__repr__ is not object.__repr__:
        return getattr(value, "__qualname__", repr(value))
    code = [verb for verb in vars(type(value)).values() if isinstance(verb, FunctionType)]
    return f"{type(value).__qualname__} {_each([*code, getattr(value, '__dict__', None)], depth)}"


def _each(values: Any, depth: int) -> list[str]:
    return [written(value, depth - 1) for value in values]


def _digest(code: CodeType) -> str:
    """Of what code does, wherever it stands."""
    constants = [_digest(c) if isinstance(c, CodeType) else written(c) for c in code.co_consts]
    return hashlib.sha256(repr((code.co_code, code.co_names, constants)).encode()).hexdigest()[:16]


def verbs(kind: type) -> list[str]:
    """What the methods of a class do, decorated ones, static ones and properties too."""
    found = [getattr(verb, "__func__", getattr(verb, "fget", verb)) for verb in vars(kind).values()]
    return [written(verb) for verb in found if isinstance(verb, FunctionType)]
