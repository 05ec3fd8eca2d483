"""Old names: what was renamed or moved keeps its old name for one release, with a warning that says the new one."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from functools import wraps
from importlib import import_module
from typing import Any, TypeVar, cast

F = TypeVar("F", bound=Callable[..., Any])


def moved(module: str, homes: Mapping[str, str], calls: Mapping[str, str] | None = None) -> Callable[[str], Any]:
    """The ``__getattr__`` of a module whose old names now live elsewhere, such as ``noumena.data.read_table``; of those
    that are now called otherwise, ``calls`` says how.

    >>> old = moved("old", {"sin": "math.sin"})
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     old("sin")(0.0), str(caught[0].message)
    (0.0, 'old.sin is now math.sin; the old name will go with the next release.')
    """

    def attribute(name: str) -> Any:
        """What an old name stands for."""
        if name not in homes:
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        now = (calls or {}).get(name, homes[name])
        told = f"{module}.{name} is now {now}; the old name will go with the next release."
        warnings.warn(told, DeprecationWarning, stacklevel=2)
        home, _, new = homes[name].rpartition(".")
        return getattr(import_module(home), new)

    return attribute


def renamed(**names: str) -> Callable[[F], F]:
    """A function that still takes a parameter by its old name, with a warning: ``@renamed(seed="random_state")``.

    >>> @renamed(seed="random_state")
    ... def draw(*, random_state=0):
    ...     return random_state
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     draw(seed=3), str(caught[0].message)
    (3, 'draw(seed=…) is now draw(random_state=…); the old name will go with the next release.')
    """

    def decorate(function: F) -> F:
        """The function under both names of its parameters."""

        @wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            """The function, told by the new names."""
            for old in names.keys() & kwargs.keys():
                name, new = function.__name__, names[old]
                told = f"{name}({old}=…) is now {name}({new}=…); the old name will go with the next release."
                warnings.warn(told, DeprecationWarning, stacklevel=2)
                kwargs[new] = kwargs.pop(old)
            return function(*args, **kwargs)

        return cast(F, call)

    return decorate
