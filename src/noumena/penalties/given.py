"""What a penalty is given: a decoder and points, looked at by kinds and shapes alone, which costs no pass.

Points are taken in the precision of a module's weights, as part of the graph. A decoder that goes layer by layer is
handed on as it is, for its derivatives are cheap; of any other one every answer is looked at as it comes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from noumena import checks
from noumena.checks import InputError
from noumena.derivatives import Map
from noumena.derivatives.jacobians import batched, by_row
from noumena.derivatives.tangents import obstacle

MISFITS = ("cannot be multiplied", "same dtype", "size mismatch", "expected scalar type")
"""What torch says of points that a layer does not take."""


def taken(decoder: Any, z: Any) -> tuple[Map, Tensor]:
    """The decoder and the points as a penalty works with them; what cannot work is refused before it is called.

    >>> taken(nn.Linear(3, 2), torch.ones(4, 2))
    Traceback (most recent call last):
        ...
    noumena.checks.InputError: z must have the 3 latents of the decoder. Got shape (4, 2).
    """
    if not callable(decoder):
        raise InputError(f"decoder must be a function z ↦ x. Got {decoder!r:.40}.")
    z = points(z)
    by_row(decoder, z)  # pyright: ignore[reportArgumentType]
    if not isinstance(decoder, nn.Module):
        return _looked_at(decoder), z
    wide = _latents(decoder)
    if wide not in (None, z.shape[1]):
        raise InputError(f"z must have the {wide} latents of the decoder. Got shape {tuple(z.shape)}.")
    z = _in_precision_of(decoder, z)
    return (decoder if obstacle(decoder) is None else _looked_at(decoder)), z


def points(z: Any) -> Tensor:
    """Points, unless they are no floating point tensor with rows."""
    checks.require(isinstance(z, Tensor), "z must be a torch tensor, (batch, latent).", f"a {type(z).__name__}")
    checks.require(z.is_floating_point(), "z must hold floating point numbers.", z.dtype)
    checks.require(z.ndim == 0 or len(z) > 0, "z must have rows.", f"shape {tuple(z.shape)}")
    return z


def answered(x: Any, z: Tensor) -> Tensor:
    """A decoder's answer at points, unless it is not one row of numbers per point."""
    return batched(numbers(x), z)


def numbers(x: Any) -> Tensor:
    """A decoder's answer of any shape, unless it is no tensor of floating point numbers."""
    must = "The decoder must return one floating point tensor."
    checks.require(isinstance(x, Tensor), must, f"a {type(x).__name__}")
    checks.require(x.is_floating_point(), must, x.dtype)
    return x


def _looked_at(decoder: Callable[[Tensor], Any]) -> Map:
    """The decoder, whose answers are looked at."""

    def looked_at(z: Tensor) -> Tensor:
        """What the decoder gives, or one sentence on why it gives nothing."""
        try:
            x = decoder(z)
        except RuntimeError as error:
            if not any(words in str(error) for words in MISFITS):
                raise
            given = f"shape {tuple(z.shape)} of {z.dtype}, of which torch says: {error}"
            raise InputError(f"The decoder must take these points. Got {given}.") from error
        return answered(x, z)

    return looked_at


def _latents(decoder: nn.Module) -> int | None:
    """How many latents a decoder takes, where its first layer says so."""
    first = decoder
    while type(first) is nn.Sequential and len(first) > 0:
        first = first[0]
    return getattr(first, "in_features", None) if type(first) is nn.Linear else None


def _in_precision_of(decoder: nn.Module, z: Tensor) -> Tensor:
    """The points in the precision of the decoder's weights; autocast sees to its own, but for double precision."""
    kind = next((weight.dtype for weight in decoder.parameters() if weight.is_floating_point()), z.dtype)
    if z.dtype == kind or (torch.is_autocast_enabled(z.device.type) and z.dtype != torch.float64):
        return z
    return z.to(kind)
