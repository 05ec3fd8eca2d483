"""Jacobians of batched maps ``z ↦ x``: one call that takes the cheapest exact way and says which.

A batched map sends ``(batch, latent)`` to ``(batch, observed)``, row by row; its Jacobian has one matrix per row.

*structured*: sequences of linear, convolution, normalisation (eval) and point-wise layers carry tangents along with
their activations, at the cost of one pass per latent or per observation, whichever are fewer. *forward*: any other map,
one forward-mode pass per latent. *reverse*: the same maps when they have fewer observations than latents, one
reverse-mode pass per observation. Every way gives the same numbers, is differentiable, and works inside
``torch.func.vmap``; directions go in chunks that respect a memory budget (counted per model inside ``vmap``). Where a
map's kernels do not allow the way, another is taken (``noumena.derivatives.fallbacks``), *autograd* as the last.

Batch normalisation in training mode mixes the rows, so no row has a Jacobian of its own, and dropout in training mode
is another map at every call: modules that hold either are refused.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.func import jvp, vjp, vmap
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.dropout import _DropoutNd

from noumena import checks
from noumena.derivatives import tangents
from noumena.derivatives.fallbacks import SAME, by_autograd, first, stepwise

Map = Callable[[Tensor], Tensor]

WAYS = ("auto", "structured", "forward", "reverse")
LIVE = 8
"""Tensors of the output's size that one direction keeps alive in a map whose layers cannot be seen (an estimate)."""
NARROW = 64
"""Entries of a row that such a map is taken to have at least."""


@dataclass(frozen=True)
class Differentiated:
    """A batched map's values, its Jacobians, and the way they were computed."""

    x: Float[Tensor, "batch observed"]
    J: Float[Tensor, "batch observed latent"]
    way: str


def jacobian(
    f: Map, z: Float[Tensor, "batch latent"], *, way: str = "auto", memory: int = 2**30
) -> Float[Tensor, "batch observed latent"]:
    """Every row's Jacobian ``J[b, i, j] = ∂f_i/∂z_j (z_b)``; zero exactly where ``f_i`` ignores ``z_j``.

    >>> f = lambda z: torch.stack([z[:, 0] * z[:, 1], z[:, 1]], dim=1)
    >>> jacobian(f, torch.tensor([[2.0, 3.0]]))
    tensor([[[3., 2.],
             [0., 1.]]])
    """
    return differentiate(f, z, way=way, memory=memory).J


def differentiate(
    f: Map, z: Float[Tensor, "batch latent"], *, way: str = "auto", memory: int = 2**30
) -> Differentiated:
    """Values and Jacobians together, the values for free, and which way was taken.

    >>> found = differentiate(lambda z: z**2, torch.tensor([[2.0, 3.0]]))
    >>> found.x, found.way
    (tensor([[4., 9.]]), 'forward')
    """
    checks.one_of(way, "way", WAYS)
    checks.count(memory, "memory")
    chosen = way_of(f, z) if way == "auto" else way
    if chosen == "structured":
        at = linearised(f, z)
        return Differentiated(at.x, tangents.whole(at, z, memory), chosen)
    by_row(f, z)
    backward = partial(_by, "reverse", f, z, memory)
    if chosen == "reverse":
        ways = (backward,)
    else:
        ways = (partial(_by, "forward", f, z, memory), *([backward] if way == "auto" else []))
    return first(*ways, *([partial(_by, "autograd", f, z, memory)] if way == "auto" else []))


def _by(way: str, f: Map, z: Tensor, memory: int) -> Differentiated:
    if way == "autograd":
        return Differentiated(*by_autograd(lambda y: batched(f(y), y), z), way)
    return Differentiated(*(_reverse if way == "reverse" else _forward)(f, z, memory), way)


def way_of(f: Map, z: Float[Tensor, "batch latent"]) -> str:
    """The way ``differentiate`` takes: ``"structured"``, ``"forward"`` or ``"reverse"``.

    A map that cannot be taken layer by layer is evaluated once, without gradients, to count its observations.

    >>> way_of(nn.Linear(3, 1), torch.ones(1, 3)), way_of(lambda z: z.sum(1, keepdim=True), torch.ones(1, 3))
    ('structured', 'reverse')
    """
    by_row(f, z)
    if tangents.obstacle(f) is None:
        return "structured"
    if z.shape[1] < 2:
        return "forward"
    with torch.no_grad():
        x = batched(f(z.clone()), z)
    return "reverse" if x.shape[1] < z.shape[1] else "forward"


def linearised(f: Map, z: Tensor) -> tangents.Linearised:
    """Values and links of a map that can be taken layer by layer; any other is refused by its first obstacle."""
    by_row(f, z)
    must = 'way="structured" needs a torch.nn.Sequential of linear, convolution, normalisation and point-wise layers.'
    found = tangents.obstacle(f)
    checks.require(found is None, must, found)
    at = tangents.linearise(f, z)  # pyright: ignore[reportArgumentType]
    batched(at.x, z)
    return at


# ---- forward and reverse mode ----------------------------------------------------------------------------------


def _forward(f: Map, z: Tensor, memory: int) -> tuple[Tensor, Tensor]:
    """One forward-mode pass per latent."""
    directions = torch.eye(z.shape[1], dtype=z.dtype, device=z.device)[:, None].expand(-1, *z.shape)
    x, columns = pushed(f, z, directions, memory)
    return x, columns.movedim(0, -1)


def pushed(f: Map, z: Tensor, v: Tensor, memory: int) -> tuple[Tensor, Tensor]:
    """Values and derivatives along probes ``v`` (probe, batch, latent), as (probe, batch, observed)."""

    def along(direction: Tensor) -> tuple[Tensor, Tensor]:
        value, tangent = jvp(stepwise(f), (z,), (direction,))  # pyright: ignore[reportAssignmentType]
        return batched(value, z), tangent

    parts = [vmap(along)(part) for part in v.split(_at_once(z, memory))]
    return parts[0][0][0], _joined([tangent for _, tangent in parts])


def _reverse(f: Map, z: Tensor, memory: int) -> tuple[Tensor, Tensor]:
    """One reverse-mode pass per observation."""
    x, pull = pulling(f, z, memory)
    cotangents = torch.eye(x.shape[1], dtype=x.dtype, device=x.device)[:, None].expand(-1, *x.shape)
    return x, pull(cotangents).movedim(0, 1)


def pulling(f: Map, z: Tensor, memory: int) -> tuple[Tensor, Callable[[Tensor], Tensor]]:
    """Values, and what pulls cotangents (probe, batch, observed) back to the latents."""
    with sdpa_kernel(SDPBackend.MATH):  # whose derivatives have derivatives
        x, back = vjp(lambda y: f(y.clone()), z)  # pyright: ignore[reportAssignmentType]
    batched(x, z)
    return x, lambda a: _joined([vmap(back)(part)[0] for part in a.split(_at_once(z, memory))])


def _at_once(z: Tensor, memory: int) -> int:
    return max(1, memory // (max(1, len(z)) * max(z.shape[1], NARROW) * z.element_size() * LIVE))


def _joined(parts: list[Tensor]) -> Tensor:
    return parts[0] if len(parts) == 1 else torch.cat(parts)


# ---- what must hold --------------------------------------------------------------------------------------------


def by_row(f: Map, z: Tensor) -> None:
    """Refuse points that are no table of latents, and maps that are known to mix their rows."""
    checks.require(z.ndim == 2, "z must have two axes, (batch, latent).", f"shape {tuple(z.shape)}")
    checks.require(z.shape[1] > 0, "z must have latents.", f"shape {tuple(z.shape)}")
    unsettled = [m for m in f.modules() if _unsettled(m)] if isinstance(f, nn.Module) else []
    checks.require(not unsettled, SAME, f"{type(unsettled[0]).__name__} in training mode" if unsettled else None)


def _unsettled(layer: nn.Module) -> bool:
    if isinstance(layer, _BatchNorm):
        return layer.training or layer.running_mean is None
    if isinstance(layer, nn.RNNBase | nn.MultiheadAttention):
        return layer.training and layer.dropout > 0
    return layer.training and (isinstance(layer, nn.RReLU) or (isinstance(layer, _DropoutNd) and layer.p > 0))


def batched(x: Any, z: Tensor) -> Tensor:
    """The values, unless they are not one row of real numbers per point."""
    must = "The map must send (batch, latent) to (batch, observed)."
    one = "The map must be a differentiable torch function that answers with one tensor."
    checks.require(isinstance(x, Tensor), one, f"a {type(x).__name__}")
    picture = x.ndim > 2 and x.shape[0] == z.shape[0]
    given = f"shapes {tuple(z.shape)} → {tuple(x.shape)}" + (". Append nn.Flatten()" if picture else "")
    checks.require(x.ndim == 2 and x.shape[0] == z.shape[0], must, given)
    return x
