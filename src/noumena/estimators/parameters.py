"""Parameters of an estimator: a dataclass field says its default and what a value must be, ``fit`` checks them all.

>>> from dataclasses import dataclass
>>> @dataclass(kw_only=True)
... class Ridge:
...     beta: float = number(0.1, minimum=0)
>>> check_parameters(Ridge(beta=-1))
Traceback (most recent call last):
    ...
noumena.checks.InputError: beta must be a finite number in [0, inf]. Got -1.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field, fields
from functools import partial
from math import inf
from typing import Any

from noumena import checks

TINY = 1e-12
"""The smallest number that counts as positive."""


def count(default: int | None, *, minimum: int = 1) -> Any:
    """A whole number of at least ``minimum``."""
    return field(default=default, metadata=must_be(checks.count, minimum=minimum))


def number(default: float | None, *, minimum: float = -inf, maximum: float = inf) -> Any:
    """A finite number in a closed range."""
    return field(default=default, metadata=must_be(checks.number, minimum=minimum, maximum=maximum))


def one_of(default: str, options: tuple[str, ...]) -> Any:
    """One of a few names."""
    return field(default=default, metadata=must_be(checks.one_of, options=options))


def switch(default: bool) -> Any:
    """``True`` or ``False``."""
    return field(default=default, metadata=must_be(checks.switch))


def instance(kind: type, must: str) -> Mapping[str, Any]:
    """A field's metadata: an object of a kind, in the words of ``must``."""
    return must_be(_instance, kind=kind, must=must)


def must_be(check: Callable[..., Any], **bounds: Any) -> Mapping[str, Any]:
    """A field's metadata: ``check(value, name, **bounds)`` refuses what cannot work."""
    return {"check": partial(check, **bounds)}


def _instance(value: Any, name: str, *, kind: type, must: str) -> None:
    checks.require(isinstance(value, kind), f"{name} must be {must}.", repr(value))


def check_parameters(estimator: Any) -> None:
    """Refuse values that their fields do not allow; ``None`` is allowed where it is the default."""
    for declared in fields(estimator):
        value = getattr(estimator, declared.name, None)
        if "check" in declared.metadata and not (value is None and declared.default is None):
            declared.metadata["check"](value, declared.name)
