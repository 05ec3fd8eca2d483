"""Old names: what was renamed or moved keeps its old name for one release, with a warning that says the new one."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def moved(module: str, homes: Mapping[str, str]) -> Callable[[str], Any]:
    """The ``__getattr__`` of a module whose old names now live elsewhere, such as ``noumena.data.read_table``.

    >>> old = moved("old", {"sin": "math.sin"})
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     old("sin")(0.0), str(caught[0].message)
    (0.0, 'old.sin is now math.sin; the old name will go with the next release.')
    """

    def attribute(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        told = f"{module}.{name} is now {homes[name]}; the old name will go with the next release."
        warnings.warn(told, DeprecationWarning, stacklevel=2)
        home, _, new = homes[name].rpartition(".")
        return getattr(import_module(home), new)

    return attribute
