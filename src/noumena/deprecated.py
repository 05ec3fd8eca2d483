"""Old names: what was renamed or moved keeps its old name for one release, with a warning that says the new one."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from functools import wraps
from importlib import import_module
from typing import Any, TypeVar, cast

F = TypeVar("F", bound=Callable[..., Any])
Kind = TypeVar("Kind", bound=type)


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


def renamed_parameters(**names: str) -> Callable[[Kind], Kind]:
    """An estimator whose parameters are still taken and set by their old names, with a warning, and read by them.

    >>> from sklearn.base import BaseEstimator
    >>> @renamed_parameters(size="n_latents")
    ... class Model(BaseEstimator):
    ...     def __init__(self, n_latents=2):
    ...         self.n_latents = n_latents
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     Model(size=3).set_params(size=4).size, str(caught[0].message)
    (4, 'Model(size=…) is now Model(n_latents=…); the old name will go with the next release.')
    """

    def decorate(kind: Kind) -> Kind:
        for verb in ("__init__", "set_params"):
            setattr(kind, verb, _taking(getattr(kind, verb), kind.__name__, names))
        for old, new in names.items():
            setattr(kind, old, _alias(new))
        return kind

    return decorate


def _taking(verb: Callable[..., Any], kind: str, names: Mapping[str, str]) -> Callable[..., Any]:
    """A method that still takes old names of parameters."""

    @wraps(verb)
    def call(*args: Any, **kwargs: Any) -> Any:
        for old in names.keys() & kwargs.keys():
            _tell(kind, old, f"{names[old]}=…")
            kwargs[names[old]] = kwargs.pop(old)
        return verb(*args, **kwargs)

    return call


def _alias(new: str) -> property:
    """An attribute by its old name, without a warning: scikit-learn's own checks read and set ``n_components``."""
    return property(lambda self: getattr(self, new), lambda self, value: setattr(self, new, value))


def _tell(kind: str, old: str, new: str) -> None:
    told = f"{kind}({old}=…) is now {kind}({new}); the old name will go with the next release."
    warnings.warn(told, DeprecationWarning, stacklevel=3)


def moved_device(usual: Callable[[], Any]) -> Callable[[Kind], Kind]:
    """An estimator that still takes ``device=`` beside ``training=``, where it now belongs; ``usual`` makes the
    ``Training`` that stands for none.

    >>> from noumena.estimators import SparseFlow
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     SparseFlow(device="cuda").training.device, str(caught[0].message)[:57]
    ('cuda', 'SparseFlow(device=…) is now SparseFlow(training=Training(')
    """

    def decorate(kind: Kind) -> Kind:
        init = kind.__init__

        @wraps(init)
        def initialise(self: Any, *args: Any, device: Any = None, **kwargs: Any) -> None:
            if device is not None:
                _tell(kind.__name__, "device", f"training=Training(device={device!r})")
                kwargs["training"] = (kwargs.get("training") or usual()).changed(device=device)
            init(self, *args, **kwargs)

        kind.__init__ = initialise
        return kind

    return decorate
