"""Guests: decoders that somebody brought, made maps of tables, and looked at without being changed.

A module is copied and its copy is called, so that running statistics, spectral norms and modes stay what they were; a
module that cannot be copied is called as a function. Points are always handed over as a copy. Pictures are flattened.
A decoder is taken in the precision that is asked for; one that is of another precision inside stays in its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from copy import deepcopy
from types import MethodType
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils.parametrizations import _SpectralNorm
from torch.nn.utils.spectral_norm import SpectralNorm

from noumena import checks
from noumena.derivatives import tangents
from noumena.derivatives.jacobians import Map, batched

COMPANY = 16
"""Rows that are compared with the same rows in other company."""
TORCHS = ("_modules", "_parameters", "_buffers")


class Guest(nn.Module):
    """A decoder that is called with copies of points, perhaps in a precision of its own, and answers with tables."""

    def __init__(self, decoder: Callable, own: torch.dtype | None = None):
        super().__init__()
        self.decoder, self.own = decoder, own

    def forward(self, z: Tensor) -> Tensor:
        """The observations, one row per point, in the precision of the points where the decoder has its own."""
        x = table(self.decoder(z.clone().to(self.own or z.dtype)), z)
        return x if self.own is None else x.to(z.dtype)


def received(decoder: Callable, z: Tensor, *, precise: bool = False) -> tuple[Map, Tensor]:
    """The decoder as a map of tables, and a copy of the points that it takes; with ``precise`` both in double
    precision.

    >>> received(nn.Linear(2, 3).half(), torch.ones(4, 2))[1].dtype
    torch.float32
    """
    decoder = unwrapped(decoder)
    owner = holder(decoder)
    like = _like(owner)
    z = z.detach().to(z.device if like is None else like.device, copy=True)
    own = z.dtype if like is None else like.dtype
    wanted = torch.float64 if precise else torch.float32 if own.itemsize < 4 and owner is not None else own
    with _same_chance(z):
        if (precise or wanted is not own) and (found := _cast(decoder, z[:2].to(wanted))) is not None:
            return found, z.to(wanted)
        called = _twin(decoder)
        tried = (own, *[d for d in (z.dtype, torch.float32, torch.float64, torch.float16) if d is not own])
        taken = next((d for d in tried if _answer(called, z[:2].to(d)) is not None), own)
        found = _careful(called, z[:2].to(taken), ours=called is not decoder)
    return (Guest(found, taken), z.double()) if precise else (found, z.to(taken))


def _like(owner: nn.Module | None) -> Tensor | None:
    """The first floating parameter, or buffer, of a module."""
    held = () if owner is None else (*owner.parameters(), *owner.buffers())
    return next((p for p in held if p.is_floating_point() and not p.is_meta), None)


def _cast(decoder: Callable, z: Tensor) -> Map | None:
    """The decoder in the precision of these points, unless it cannot be had in it."""
    called = _twin(decoder)
    owner = holder(called)
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
    return table(x, z)


def _careful(called: Any, z: Tensor, *, ours: bool) -> Map:
    """A layered module of ours as it is, but for layers that work in place; anything else by copies of points."""
    if not ours or tangents.obstacle(called) is not None:
        return Guest(called)
    for layer in called.modules():
        if getattr(layer, "inplace", False):
            layer.inplace = False
    with torch.no_grad():
        try:
            flat = called(z).ndim == 2
        except Exception:  # whatever a stranger's decoder raises is told when it is called in earnest
            return Guest(called)
    return called if flat else nn.Sequential(called, nn.Flatten())


# ---- copies --------------------------------------------------------------------------------------------------


def unwrapped(decoder: Any) -> Any:
    """What was compiled, in place of what ``torch.compile`` made of it."""
    for name in ("_orig_mod", "_torchdynamo_orig_callable"):
        decoder = getattr(decoder, name, decoder)
    return decoder


def holder(decoder: Any) -> nn.Module | None:
    """The module that a decoder is, or is a method of."""
    owner = decoder if isinstance(decoder, nn.Module) else getattr(decoder, "__self__", None)
    return owner if isinstance(owner, nn.Module) else None


def _twin(decoder: Any) -> Any:
    """A decoder of a copied module; the same where it is none, or where it cannot be copied."""
    owner = holder(decoder)
    twin = None if owner is None else copied(owner)
    if twin is None or not (decoder is owner or hasattr(decoder, "__func__")):
        return decoder
    return twin if decoder is owner else MethodType(decoder.__func__, twin)


def copied(module: nn.Module) -> nn.Module | None:
    """A copy of a module, without gradients and with spectral norms at rest; what cannot be copied in it is shared, and
    ``None`` where that does not help."""
    memo = {id(value): value.detach().clone() for value in _held(module) if isinstance(value, Tensor)}
    twin = _deepcopy(module, memo)
    if twin is None:
        kept = {id(value): value for value in _held(module) if _deepcopy(value, {}) is None}
        twin = _deepcopy(module, kept | memo)
    if twin is None:
        return None
    for layer in twin.modules():
        hooks = getattr(layer, "_forward_pre_hooks", {}).values()
        if isinstance(layer, _SpectralNorm) or any(isinstance(hook, SpectralNorm) for hook in hooks):
            layer.training = False
    for parameter in twin.parameters():
        parameter.requires_grad_(False)
    return twin


def _held(module: nn.Module) -> Iterator[Any]:
    """What the layers of a module hold beside layers, parameters and buffers; of tensors those that autograd made."""
    for layer in module.modules():
        for name, value in vars(layer).items():
            if name not in TORCHS and not (isinstance(value, Tensor) and value.is_leaf):
                yield value


def _deepcopy(value: Any, memo: dict[int, Any]) -> Any:
    """A copy, or ``None`` where there is none."""
    try:
        with torch.no_grad():
            return deepcopy(value, dict(memo))
    except Exception:  # what cannot be copied raises whatever its class wants to
        return None


# ---- what must hold ------------------------------------------------------------------------------------------


def table(x: Any, z: Tensor) -> Tensor:
    """A decoder's answer as (batch, observed): pictures flattened, anything but real numbers refused.

    >>> table(torch.ones(2, 1, 4, 4), torch.ones(2, 3)).shape
    torch.Size([2, 16])
    """
    one = (
        "A decoder must be a differentiable torch function that answers with one tensor; pick it, as by decoder(z)[0]."
    )
    checks.require(isinstance(x, Tensor), one, f"a {type(x).__name__}")
    real = "A decoder must answer with real numbers; use torch.view_as_real(x).flatten(1)."
    checks.require(not x.is_complex(), real, f"{x.dtype}")
    checks.require(x.is_floating_point(), "A decoder must be differentiable, and answer with floats.", f"{x.dtype}")
    return x.flatten(1) if x.ndim > 2 and len(x) == len(z) else x


def require_rows(decoder: Map, z: Tensor) -> Tensor:
    """A decoder's answer at points, unless it answers otherwise at another call, or at rows in other company."""
    n = len(z)
    some = torch.linspace(n - 1, 0, min(COMPANY, max(2, n // 2)), device=z.device).long()
    some = torch.cat([some, some[:1]])
    with torch.no_grad(), _same_chance(z):
        together = batched(decoder(z.clone()), z)
        apart, again = decoder(z[some]), decoder(z[some])
    scale = together.abs().amax(dim=0)
    near = torch.finfo(together.dtype).eps ** 0.5 * scale.clamp_min(0.01 * float(scale.max()))
    finite = bool(torch.isfinite(together).all())
    same = not finite or bool(((apart - again).abs() <= near).all())
    calls = "A decoder must give the same answer at every call; call its eval(), and use no dropout or noise."
    checks.require(same, calls, "two answers at the same points")
    alone = not finite or bool(((apart - together[some]).abs() <= near).all())
    wanted = (
        "A decoder must treat rows one by one; call its eval(), give a recurrent layer batch_first=True, and take no "
        "mean over the batch."
    )
    checks.require(alone, wanted, "a row whose observations change with the rows beside it")
    return together


def _same_chance(z: Tensor) -> Any:
    """Random numbers for a block, as if none had been drawn after it."""
    return torch.random.fork_rng(devices=[z.device] if z.device.type == "cuda" else [])
