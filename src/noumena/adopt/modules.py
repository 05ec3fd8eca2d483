"""A user's decoder or other module: called as a map of tables, in its own precision, and never changed.

Certificates call a copy (``adopt_decoder``), so that running statistics, spectral norms and modes stay what they were;
what cannot be copied is called as a function. A penalty is part of a training and takes the decoder itself, with points
as part of the graph (``check_decoder``): kinds and shapes are looked at, which costs no pass. Images are flattened for
certificates and refused by penalties, whose derivatives are of rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from copy import deepcopy
from types import MethodType
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.utils.parametrizations import _SpectralNorm
from torch.nn.utils.spectral_norm import SpectralNorm

from noumena import checks
from noumena.checks import InputError
from noumena.derivatives import Map, tangents
from noumena.derivatives.jacobians import batched, by_row

COMPANY = 16
"""Rows that are compared with the same rows in other company."""
BATCH = 4096
"""Rows that go through a module at once."""
REGISTERED = ("_modules", "_parameters", "_buffers")
MISFITS = ("cannot be multiplied", "same dtype", "size mismatch", "expected scalar type")
"""What torch says of points that a layer does not take."""


# ---- what a module is ------------------------------------------------------------------------------------------


def module_of(function: Any) -> nn.Module | None:
    """The module that a function is, or is a method of.

    >>> layer = nn.Linear(2, 3)
    >>> module_of(layer.forward) is layer, module_of(len) is None
    (True, True)
    """
    owner = function if isinstance(function, nn.Module) else getattr(function, "__self__", None)
    return owner if isinstance(owner, nn.Module) else None


def uncompiled(function: Any) -> Any:
    """What was compiled, in place of what ``torch.compile`` made of it."""
    for name in ("_orig_mod", "_torchdynamo_orig_callable"):
        function = getattr(function, name, function)
    return function


def first_weight(module: nn.Module | None) -> Tensor | None:
    """The first floating parameter, or else buffer, of a module, whose precision and device are its own."""
    tensors = () if module is None else (*module.parameters(), *module.buffers())
    return next((value for value in tensors if value.is_floating_point() and not value.is_meta), None)


@contextmanager
def evaluation_mode(module: Any, *, wanted: bool = True) -> Iterator[None]:
    """Evaluation mode for a block, where it is wanted; every layer's own mode comes back after.

    >>> layer = nn.Dropout()
    >>> with evaluation_mode(layer):
    ...     print(layer.training)
    False
    >>> layer.training
    True
    """
    modes = [(layer, layer.training) for layer in module.modules()] if wanted and isinstance(module, nn.Module) else []
    for layer, _ in modes:
        layer.training = False
    try:
        yield
    finally:
        for layer, mode in modes:
            layer.training = mode


def run_module(module: nn.Module, rows: Any) -> np.ndarray:
    """The outputs of a module in evaluation mode, batch by batch, on its device and in its precision."""
    rows = rows if isinstance(rows, Tensor) else torch.as_tensor(np.asarray(rows))
    weight = first_weight(module)
    place = {} if weight is None else {"device": weight.device}
    place |= {"dtype": weight.dtype} if weight is not None and rows.is_floating_point() else {}
    with evaluation_mode(module), torch.no_grad():
        return torch.cat([module(part.to(**place)).detach().cpu() for part in rows.split(BATCH)]).numpy()


def call_or_refuse(call: Callable[[], Any], must: str) -> Any:
    """What a call to a user's module gives; its complaints become one sentence."""
    try:
        return call()
    except InputError:
        raise
    except (RuntimeError, TypeError, ValueError, AttributeError, LookupError, NotImplementedError) as error:
        words = (str(error).strip() or type(error).__name__).splitlines()[0].rstrip(".")
        raise InputError(f"{must} Got the error: {words}.") from error


def unit_layer(centre: Tensor, spread: Tensor) -> nn.Linear:
    """The change of units ``v ↦ v · spread + centre`` as a layer whose weights are tensors of the graph, so that
    derivatives of the layers behind it stay cheap."""
    layer = nn.Linear.__new__(nn.Linear)  # without weights of its own, whose making would draw random numbers
    nn.Module.__init__(layer)
    layer.weight, layer.bias = torch.diag(spread), centre  # pyright: ignore[reportAttributeAccessIssue]
    return layer


# ---- copies ----------------------------------------------------------------------------------------------------


def copy_module(module: nn.Module) -> nn.Module | None:
    """A copy of a module, without gradients and with spectral norms at rest; what cannot be copied in it is shared, and
    ``None`` where that does not help."""
    memo = {id(value): value.detach().clone() for value in _unregistered(module) if isinstance(value, Tensor)}
    twin = _deepcopy(module, memo)
    if twin is None:
        shared = {id(value): value for value in _unregistered(module) if _deepcopy(value, {}) is None}
        twin = _deepcopy(module, shared | memo)
    if twin is None:
        return None
    for layer in twin.modules():
        hooks = getattr(layer, "_forward_pre_hooks", {}).values()
        if isinstance(layer, _SpectralNorm) or any(isinstance(hook, SpectralNorm) for hook in hooks):
            layer.training = False
    for parameter in twin.parameters():
        parameter.requires_grad_(False)
    return twin


def _unregistered(module: nn.Module) -> Iterator[Any]:
    """What the layers of a module hold beside layers, parameters and buffers; of tensors those that autograd made."""
    for layer in module.modules():
        for name, value in vars(layer).items():
            if name not in REGISTERED and not (isinstance(value, Tensor) and value.is_leaf):
                yield value


def _deepcopy(value: Any, memo: dict[int, Any]) -> Any:
    """A copy, or ``None`` where there is none."""
    try:
        with torch.no_grad():
            return deepcopy(value, dict(memo))
    except Exception:  # what cannot be copied raises whatever its class wants to
        return None


def _copy(decoder: Any) -> Any:
    """A decoder of a copied module; the same where it is none, or where it cannot be copied."""
    owner = module_of(decoder)
    twin = None if owner is None else copy_module(owner)
    if twin is None or not (decoder is owner or hasattr(decoder, "__func__")):
        return decoder
    return twin if decoder is owner else MethodType(decoder.__func__, twin)


# ---- decoders of certificates ----------------------------------------------------------------------------------


class AdoptedDecoder(nn.Module):
    """A decoder that is called with copies of points, perhaps in a precision of its own, and answers with tables."""

    def __init__(self, decoder: Callable, own: torch.dtype | None = None):
        super().__init__()
        self.decoder, self.own = decoder, own

    def forward(self, z: Tensor) -> Tensor:
        """The observations, one row per point, in the precision of the points where the decoder has its own."""
        x = as_table(self.decoder(z.clone().to(self.own or z.dtype)), z)
        return x if self.own is None else x.to(z.dtype)


def adopt_decoder(decoder: Callable, z: Tensor, *, precise: bool = False) -> tuple[Map, Tensor]:
    """A copy of the decoder as a map of tables, and a copy of the points in the precision that it takes; with
    ``precise`` both in double precision, where a decoder of another precision inside stays in its own.

    >>> adopt_decoder(nn.Linear(2, 3).half(), torch.ones(4, 2))[1].dtype
    torch.float32
    """
    decoder = uncompiled(decoder)
    owner = module_of(decoder)
    weight = first_weight(owner)
    z = z.detach().to(z.device if weight is None else weight.device, copy=True)
    own = z.dtype if weight is None else weight.dtype
    wanted = torch.float64 if precise else torch.float32 if own.itemsize < 4 and owner is not None else own
    with _same_chance(z):
        if (precise or wanted is not own) and (converted := _converted(decoder, z[:2].to(wanted))) is not None:
            return converted, z.to(wanted)
        called = _copy(decoder)
        others = (dtype for dtype in (z.dtype, torch.float32, torch.float64, torch.float16) if dtype is not own)
        takes = next((dtype for dtype in (own, *others) if _answer(called, z[:2].to(dtype)) is not None), own)
        adopted = _careful(called, z[:2].to(takes), ours=called is not decoder)
    return (AdoptedDecoder(adopted, takes), z.double()) if precise else (adopted, z.to(takes))


def _converted(decoder: Callable, z: Tensor) -> Map | None:
    """The decoder in the precision of these points, unless it cannot be had in it."""
    called = _copy(decoder)
    owner = module_of(called)
    if owner is not None:
        if called is decoder:
            return None
        owner.to(z.dtype)
    x = _answer(called, z)
    return None if x is None or x.dtype != z.dtype else _careful(called, z, ours=called is not decoder)


def _answer(called: Callable, z: Tensor) -> Tensor | None:
    """What a decoder answers at points, as a table; ``None`` where it raises."""
    try:
        with torch.no_grad():
            x = called(z.clone())
    except Exception:  # whatever it is, it is told when the decoder is called in earnest
        return None
    return as_table(x, z)


def _careful(called: Any, z: Tensor, *, ours: bool) -> Map:
    """A layered module of ours as it is, but for layers that work in place; anything else by copies of points."""
    if not ours or tangents.obstacle(called) is not None:
        return AdoptedDecoder(called)
    for layer in called.modules():
        if getattr(layer, "inplace", False):
            layer.inplace = False
    with torch.no_grad():
        try:
            flat = called(z).ndim == 2
        except Exception:  # whatever a decoder raises is told when it is called in earnest
            return AdoptedDecoder(called)
    return called if flat else nn.Sequential(called, nn.Flatten())


# ---- decoders of penalties -------------------------------------------------------------------------------------


def check_decoder(decoder: Any, z: Any) -> tuple[Map, Tensor]:
    """The decoder and the points as a penalty works with them: a decoder that goes layer by layer as it is, for its
    derivatives are cheap, and any other with its answers looked at; what cannot work is refused before it is called.

    >>> check_decoder(nn.Linear(3, 2), torch.ones(4, 2))
    Traceback (most recent call last):
        ...
    noumena.checks.InputError: z must have the 3 latents of the decoder. Got shape (4, 2).
    """
    if not callable(decoder):
        raise InputError(f"decoder must be a function z ↦ x. Got {decoder!r:.40}.")
    z = check_points(z)
    by_row(decoder, z)  # pyright: ignore[reportArgumentType]
    if not isinstance(decoder, nn.Module):
        return _with_answers_checked(decoder), z
    wide = _latents(decoder)
    if wide not in (None, z.shape[1]):
        raise InputError(f"z must have the {wide} latents of the decoder. Got shape {tuple(z.shape)}.")
    z = _in_precision_of(decoder, z)
    return (decoder if tangents.obstacle(decoder) is None else _with_answers_checked(decoder)), z


def check_points(z: Any) -> Tensor:
    """Points, unless they are no floating point tensor with rows."""
    checks.require(isinstance(z, Tensor), "z must be a torch tensor, (batch, latent).", f"a {type(z).__name__}")
    checks.require(z.is_floating_point(), "z must hold floating point numbers.", z.dtype)
    checks.require(z.ndim == 0 or len(z) > 0, "z must have rows.", f"shape {tuple(z.shape)}")
    return z


def check_answer(x: Any, z: Tensor) -> Tensor:
    """A decoder's answer at points, unless it is not one row of numbers per point."""
    return batched(require_tensor(x), z)


def _with_answers_checked(decoder: Callable[[Tensor], Any]) -> Map:
    """The decoder, whose answers are looked at."""

    def checked(z: Tensor) -> Tensor:
        """What the decoder gives, or one sentence on why it gives nothing."""
        try:
            x = decoder(z)
        except RuntimeError as error:
            if not any(words in str(error) for words in MISFITS):
                raise
            given = f"shape {tuple(z.shape)} of {z.dtype}, of which torch says: {error}"
            raise InputError(f"The decoder must take these points. Got {given}.") from error
        return check_answer(x, z)

    return checked


def _latents(decoder: nn.Module) -> int | None:
    """How many latents a decoder takes, where its first layer says so."""
    first = decoder
    while type(first) is nn.Sequential and len(first) > 0:
        first = first[0]
    return getattr(first, "in_features", None) if type(first) is nn.Linear else None


def _in_precision_of(decoder: nn.Module, z: Tensor) -> Tensor:
    """The points in the precision of the decoder's weights; autocast sees to its own, but for double precision."""
    weight = first_weight(decoder)
    own = z.dtype if weight is None else weight.dtype
    if z.dtype == own or (torch.is_autocast_enabled(z.device.type) and z.dtype != torch.float64):
        return z
    return z.to(own)


# ---- what must hold --------------------------------------------------------------------------------------------


def require_tensor(x: Any, role: str = "decoder") -> Tensor:
    """What a user's function gave, unless it is anything but one tensor of real floating point numbers.

    >>> require_tensor((torch.ones(2),))
    Traceback (most recent call last):
        ...
    noumena.checks.InputError: The decoder must return one tensor; pick it, as by decoder(z)[0]. Got a tuple.
    """
    must = f"The {role} must be differentiable and return a tensor."
    checks.require(not isinstance(x, np.ndarray), must, "a numpy array")
    picked = "; pick it, as by decoder(z)[0]" if role == "decoder" else ""
    checks.require(isinstance(x, Tensor), f"The {role} must return one tensor{picked}.", f"a {type(x).__name__}")
    must = f"The {role} must return real numbers; use torch.view_as_real(x).flatten(1)."
    checks.require(not x.is_complex(), must, x.dtype)
    must = f"The {role} must be differentiable and return floating point numbers."
    checks.require(x.is_floating_point(), must, x.dtype)
    return x


def as_table(x: Any, z: Tensor) -> Tensor:
    """A decoder's answer as (batch, observed), with images flattened.

    >>> as_table(torch.ones(2, 1, 4, 4), torch.ones(2, 3)).shape
    torch.Size([2, 16])
    """
    x = require_tensor(x)
    return x.flatten(1) if x.ndim > 2 and len(x) == len(z) else x


def require_rowwise(
    function: Map, rows: Tensor, role: str = "decoder", repeat: str = "call its eval(), and use no dropout or noise"
) -> Tensor:
    """What a function answers at rows, unless it answers otherwise at another call, or at rows in other company."""
    n = len(rows)
    chosen = torch.linspace(n - 1, 0, min(COMPANY, max(2, n // 2)), device=rows.device).long()
    chosen = torch.cat([chosen, chosen[:1]])
    with torch.no_grad(), _same_chance(rows):
        together = batched(function(rows.clone()), rows)
        apart, again = function(rows[chosen]), function(rows[chosen])
    scale = together.abs().amax(dim=0)
    close = torch.finfo(together.dtype).eps ** 0.5 * scale.clamp_min(0.01 * float(scale.max()))
    finite = bool(torch.isfinite(together).all())
    same = not finite or bool(((apart - again).abs() <= close).all())
    calls = f"The {role} must give the same answer at every call; {repeat}."
    checks.require(same, calls, "two answers at the same rows")
    alone = not finite or bool(((apart - together[chosen]).abs() <= close).all())
    must = (
        f"The {role} must treat rows one by one; call its eval(), give a recurrent layer batch_first=True, and take no "
        "mean over the batch."
    )
    checks.require(alone, must, "a row whose answer changes with the rows beside it")
    return together


def _same_chance(rows: Tensor) -> Any:
    """Random numbers for a block, as if none had been drawn after it."""
    return torch.random.fork_rng(devices=[rows.device] if rows.device.type == "cuda" else [])
