"""Tangents carried with activations: the structured pass through a sequence of layers, without vmap or dual numbers.

The values go through the layers once; each layer leaves a ``Link``, its linear part at these points. Tangents
``(probe, rows, …)`` are then pushed through the links, or cotangents pulled back when there are fewer observations than
latents. Until the first point-wise layer all rows share a tangent, the first layer's weight itself, and ``rows`` is 1.
Layers are taken as in evaluation mode. A link holds tensors and no layers, so it stays right when parameters are
swapped under it (``functional_call``).

Memory: autograd keeps the input of every link whose matrix or slope wants a gradient. Beyond a budget the probes go in
chunks, and each chunk is computed again in the backward pass instead of kept (``torch.utils.checkpoint``); inside
``torch.func`` transforms chunks bound only what is not kept for the backward pass.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch._C._functorch import peek_interpreter_stack
from torch.func import vjp
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

from noumena import checks
from noumena.derivatives.slopes import SLOPES, kind, slope

Change = Callable[[Tensor], Tensor]

PAGED = 2**25
"""Bytes from which the C library takes fresh pages for every tensor, which costs more than the arithmetic."""

CONVOLUTIONS = {
    nn.Conv1d: (F.conv1d, F.conv_transpose1d),
    nn.Conv2d: (F.conv2d, F.conv_transpose2d),
    nn.ConvTranspose1d: (F.conv_transpose1d, F.conv1d),
    nn.ConvTranspose2d: (F.conv_transpose2d, F.conv2d),
}
NORMALISATIONS = (nn.BatchNorm1d, nn.BatchNorm2d)
RESAMPLINGS = (nn.AvgPool1d, nn.AvgPool2d, nn.Upsample, nn.UpsamplingNearest2d, nn.UpsamplingBilinear2d)
DROPOUTS = (nn.Dropout, nn.Dropout1d, nn.Dropout2d, nn.AlphaDropout)


@dataclass(frozen=True)
class Link:
    """The linear part of one layer at given points: how it carries tangents forward and cotangents back."""

    push: Change
    pull: Change
    keeps: bool
    """Whether autograd keeps the link's input for the backward pass."""
    sizes: tuple[int, int]
    """Entries of one row before and after."""
    matrix: Tensor | None = None
    """The matrix ``(output, input)`` of a linear layer of rows."""


@dataclass(frozen=True)
class Linearised:
    """A map's values at given points, and the links that carry its derivatives there."""

    x: Tensor
    links: tuple[Link, ...]


# ---- which maps ----------------------------------------------------------------------------------------------


def obstacle(f: Any) -> str | None:
    """The first layer that the structured pass cannot take, in words; ``None`` when it can take them all.

    >>> obstacle(nn.Sequential(nn.Linear(2, 3), nn.Tanh())), obstacle(nn.Sequential(nn.Linear(2, 3), nn.LayerNorm(3)))
    (None, 'LayerNorm')
    """
    if not isinstance(f, nn.Module):
        return "a callable that is no module"
    for layer in _layers(f):
        if layer._forward_hooks or layer._forward_pre_hooks:
            return f"{kind(layer).__name__} with a hook"
        if "forward" in layer.__dict__:
            return f"{kind(layer).__name__} with a replaced forward"
        if not _supported(layer):
            return kind(layer).__name__
    return None


def _layers(f: nn.Module) -> Iterator[nn.Module]:
    """The layers in their order, nested sequences opened up; a sequence with a hook is left closed."""
    if type(f) is nn.Sequential and not (f._forward_hooks or f._forward_pre_hooks):
        for layer in f:
            yield from _layers(layer)
    else:
        yield f


def _supported(layer: Any) -> bool:
    of = kind(layer)
    if of in CONVOLUTIONS:
        return layer.padding_mode == "zeros" and not isinstance(layer.padding, str)
    if of is nn.Flatten:
        return (layer.start_dim, layer.end_dim) == (1, -1)
    if of is nn.Unflatten:
        return isinstance(layer.dim, int)
    return of in SLOPES or of in (nn.Linear, nn.Identity, *NORMALISATIONS, *DROPOUTS, *RESAMPLINGS)


# ---- from layers to links --------------------------------------------------------------------------------------


def linearise(f: nn.Module, z: Tensor) -> Linearised:
    """The values of a supported map and the links of its layers; one plain pass.

    >>> found = linearise(nn.Sequential(nn.Linear(2, 3), nn.ReLU()), torch.zeros(4, 2))
    >>> len(found.links), found.x.shape
    (2, torch.Size([4, 3]))
    """
    h, links = z, []
    for layer in _layers(f):
        y, link = _link(layer, h)
        links += [] if link is None else [link]
        h = y
    return Linearised(h, tuple(links))


def _link(layer: Any, h: Tensor) -> tuple[Tensor, Link | None]:
    """A layer's values, and its link unless it changes nothing."""
    of = kind(layer)
    if of is nn.Identity or of in DROPOUTS:
        return h, None
    if of is nn.Linear:
        return _linear(layer, h)
    if of in SLOPES:
        y = layer(h.clone() if getattr(layer, "inplace", False) else h)
        return y, _scaled(slope(layer, h, y), h, y)
    if of in CONVOLUTIONS:
        return _convolution(layer, h)
    if of in NORMALISATIONS:
        return _normalisation(layer, h)
    y = layer(h)
    return y, _reshaped(h, y) if of in (nn.Flatten, nn.Unflatten) else _resampled(layer, h, y)


def _linear(layer: nn.Linear, h: Tensor) -> tuple[Tensor, Link]:
    W = layer.weight
    y = F.linear(h, W, layer.bias)
    flat = h.ndim == 2

    def through(T: Tensor, M: Tensor) -> Tensor:
        return F.linear(T.flatten(0, -2), M).unflatten(0, T.shape[:-1])

    link = Link(lambda T: through(T, W), lambda A: through(A, W.mT), W.requires_grad, _sizes(h, y), W if flat else None)
    return y, link


def _scaled(factor: Tensor, h: Tensor, y: Tensor) -> Link:
    return Link(lambda T: T * factor, lambda A: A * factor, factor.requires_grad, _sizes(h, y))


def _normalisation(layer: Any, h: Tensor) -> tuple[Tensor, Link]:
    shape = (-1, *[1] * (h.ndim - 2))
    scale = (layer.running_var + layer.eps).rsqrt().reshape(shape)
    scale = scale if layer.weight is None else scale * layer.weight.reshape(shape)
    y = layer(h)
    return y, _scaled(scale, h, y)


def _reshaped(h: Tensor, y: Tensor) -> Link:
    before, after = h.shape[1:], y.shape[1:]
    return Link(
        lambda T: T.reshape(*T.shape[:2], *after), lambda A: A.reshape(*A.shape[:2], *before), False, _sizes(h, y)
    )


def _resampled(layer: Any, h: Tensor, y: Tensor) -> Link:
    """A linear layer without parameters; its transpose is its pull-back at any point."""
    before = h.shape[1:]

    def pull(A: Tensor) -> Tensor:
        zeros = A.new_zeros(A.shape[0] * A.shape[1], *before)
        return vjp(layer, zeros)[1](A.flatten(0, 1))[0].unflatten(0, A.shape[:2])

    return Link(lambda T: layer(T.flatten(0, 1)).unflatten(0, T.shape[:2]), pull, False, _sizes(h, y))


def _convolution(layer: Any, h: Tensor) -> tuple[Tensor, Link]:
    of, W = kind(layer), layer.weight
    axes = W.ndim - 2
    checks.require(
        h.ndim == W.ndim,
        f"{of.__name__} must be given (batch, channel, …) with {axes} more axes.",
        f"shape {tuple(h.shape)}",
    )
    forward, back = CONVOLUTIONS[of]
    options = {name: getattr(layer, name) for name in ("stride", "padding", "dilation", "groups")}
    if of in (nn.ConvTranspose1d, nn.ConvTranspose2d):
        there, again = options | {"output_padding": layer.output_padding}, options
    else:
        there, again = options, options | {"output_padding": _lost(layer, h.shape[2:])}
    y = forward(h, W, layer.bias, **there)

    def push(T: Tensor) -> Tensor:
        return forward(T.flatten(0, 1), W, **there).unflatten(0, T.shape[:2])

    def pull(A: Tensor) -> Tensor:
        return back(A.flatten(0, 1), W, **again).unflatten(0, A.shape[:2])

    return y, Link(push, pull, W.requires_grad, _sizes(h, y))


def _lost(layer: Any, sides: torch.Size) -> tuple[int, ...]:
    """Entries at the end of each side that a strided convolution never sees."""
    settings = zip(sides, layer.padding, layer.dilation, layer.kernel_size, layer.stride, strict=True)
    return tuple((side + 2 * pad - dilation * (k - 1) - 1) % stride for side, pad, dilation, k, stride in settings)


def _sizes(h: Tensor, y: Tensor) -> tuple[int, int]:
    return h.shape[1:].numel(), y.shape[1:].numel()


# ---- from links to Jacobians -----------------------------------------------------------------------------------


def whole(at: Linearised, z: Tensor, memory: int) -> Tensor:
    """Every row's Jacobian, ``(batch, observed, latent)``, from the side that has fewer directions."""
    latents, observed = z.shape[1], at.x.shape[1]
    if latents <= observed:
        start, links = _start(at.links, latents, z, back=False)
        return _carried(start, links, z, memory, back=False).expand(-1, len(z), -1).movedim(0, -1).to(at.x.dtype)
    start, links = _start(at.links, observed, at.x, back=True)
    return _carried(start, links, z, memory, back=True).expand(-1, len(z), -1).movedim(0, 1).to(at.x.dtype)


def _start(links: tuple[Link, ...], n: int, like: Tensor, *, back: bool) -> tuple[Tensor, tuple[Link, ...]]:
    """All unit directions, shared by the rows, already through the outermost link when that is a matrix."""
    end, rest = (links[-1:], links[:-1]) if back else (links[:1], links[1:])
    matrix = end[0].matrix if end else None
    if matrix is None:
        return torch.eye(n, dtype=like.dtype, device=like.device)[:, None], links
    return (matrix if back else matrix.mT.contiguous())[:, None], rest


def along(at: Linearised, z: Tensor, v: Tensor, memory: int) -> Tensor:
    """Derivatives along probes ``v`` (probe, batch, latent), as (probe, batch, observed)."""
    return _carried(v, at.links, z, memory, back=False).expand(-1, len(z), -1).to(at.x.dtype)


def against(at: Linearised, z: Tensor, a: Tensor, memory: int) -> Tensor:
    """Cotangents ``a`` (probe, batch, observed) pulled back to the latents, as (probe, batch, latent)."""
    return _carried(a, at.links, z, memory, back=True).expand(-1, len(z), -1).to(at.x.dtype)


def _carried(T: Tensor, links: tuple[Link, ...], z: Tensor, memory: int, *, back: bool) -> Tensor:
    """Tangents through all links, or cotangents back through them, as many probes at once as the budget allows."""

    def through(T: Tensor) -> Tensor:
        for link in reversed(links) if back else links:
            T = link.pull(T) if back else link.push(T)
        return T

    within = max(1, memory // max(1, live(links, len(z)) * z.element_size()))
    recompute = within < len(T) and torch.is_grad_enabled() and not _transformed()
    again = partial(checkpoint, through, use_reentrant=False, preserve_rng_state=False)
    parts = T.split(min(within, _fitting(links, z)))
    found = [again(part) if recompute else through(part) for part in parts]
    return found[0] if len(found) == 1 else torch.cat(found)  # pyright: ignore[reportReturnType, reportArgumentType]


def live(links: tuple[Link, ...], rows: int) -> int:
    """Numbers alive at once for one probe: what autograd keeps, and three tensors of the largest size at work."""
    kept = sum([link.sizes[0] for link in links if link.keeps]) if torch.is_grad_enabled() else 0
    return rows * (kept + 3 * _widest(links))


def _widest(links: tuple[Link, ...]) -> int:
    return max([1, *[max(link.sizes) for link in links]])


def _fitting(links: tuple[Link, ...], z: Tensor) -> int:
    """Probes whose tensors the CPU's allocator uses again instead of asking for fresh pages; elsewhere any number."""
    return max(1, PAGED // max(1, len(z) * _widest(links) * z.element_size())) if z.device.type == "cpu" else 2**30


def _transformed() -> bool:
    """Inside ``torch.func`` transforms and compiled code nothing can be computed again in the backward pass."""
    return torch.compiler.is_compiling() or peek_interpreter_stack() is not None
