"""Mixed partial derivatives of batched maps: exact, by nested forward mode, and by alternating differences.

Only the index tuples that are asked for are computed, so the cross derivatives between two blocks of latents cost what
those pairs cost. Exact derivatives of a piecewise linear map are zero from the second order on; differences over a step
also see its kinks.
"""

from __future__ import annotations

from itertools import product

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.func import jvp, vmap

from noumena import checks
from noumena.derivatives import tangents
from noumena.derivatives.fallbacks import first, stepwise
from noumena.derivatives.jacobians import LIVE, NARROW, Map, batched, by_row, jacobian

Index = tuple[int, ...]


def mixed_derivatives(
    f: Map, z: Float[Tensor, "batch latent"], indices: Int[Tensor, "m order"], *, memory: int = 2**30
) -> Float[Tensor, "batch observed m"]:
    """The exact derivatives ``∂ⁿf/∂z_i₁…∂z_iₙ``, one for each row of ``indices``; zero where ``f`` does not mix them.

    >>> f = lambda z: z[:, :1] * z[:, 1:] ** 2
    >>> mixed_derivatives(f, torch.tensor([[2.0, 3.0]]), torch.tensor([[0, 1], [1, 1]]))
    tensor([[[6., 4.]]])
    """
    by_row(f, z)
    wanted = _tuples(indices, z.shape[1])
    structured = tangents.obstacle(f) is None

    def one(directions: Tensor) -> Tensor:
        g = _layered(f, directions[0], memory) if structured else _dual(stepwise(f), directions[0])
        for direction in directions[1:]:
            g = _dual(g, direction)
        return batched(g(z), z)

    directions = torch.eye(z.shape[1], dtype=z.dtype, device=z.device)[torch.tensor(wanted, device=z.device)]
    chunk = _at_once(z, memory, 2 ** len(wanted[0]))
    return first(lambda: vmap(one, chunk_size=chunk)(directions)).movedim(0, -1)


def _dual(g: Map, direction: Tensor) -> Map:
    """The derivative of a map in one latent direction, by forward mode."""
    return lambda y: jvp(g, (y,), (direction.expand_as(y),))[1]  # pyright: ignore[reportReturnType]


def _layered(f: Map, direction: Tensor, memory: int) -> Map:
    """The same by the structured pass."""

    def derived(y: Tensor) -> Tensor:
        at = tangents.linearise(f, y)  # pyright: ignore[reportArgumentType]
        return tangents.along(at, y, direction.expand(1, 1, -1), memory)[0]

    return derived


def mixed_differences(
    f: Map,
    z: Float[Tensor, "batch latent"],
    indices: Int[Tensor, "m order"],
    *,
    step: float = 0.1,
    memory: int = 2**30,
) -> Float[Tensor, "batch observed m"]:
    """The same by alternating forward differences, ``Σ_S (−1)^{n−|S|} f(z + step·Σ_S e_i) / stepⁿ`` over subsets ``S``.

    Every displaced point is visited once, however many tuples share it.

    >>> f = lambda z: z[:, :1] * z[:, 1:]
    >>> mixed_differences(f, torch.zeros(1, 2), torch.tensor([[0, 1]]), step=0.5)
    tensor([[[1.]]])
    """
    by_row(f, z)
    step = checks.number(step, "step", minimum=1e-12)
    wanted = _tuples(indices, z.shape[1])
    order, place = len(wanted[0]), {}
    subsets = list(product((False, True), repeat=order))
    visits = [[place.setdefault(_moved(index, taken), len(place)) for index in wanted] for taken in subsets]
    counts = [[moves.count(j) for j in range(z.shape[1])] for moves in place]
    points = z + step * torch.tensor(counts, dtype=z.dtype, device=z.device)[:, None]
    chunk = _at_once(z, memory, 1)

    def one(y: Tensor) -> Tensor:
        return batched(f(y.clone()), y)

    x = first(lambda: vmap(one, chunk_size=chunk)(points), lambda: torch.stack([one(y) for y in points]))
    total = torch.zeros_like(x[:1])
    for taken, visited in zip(subsets, visits, strict=True):
        total = total + (-1) ** (order - sum(taken)) * x[torch.tensor(visited, device=x.device)]
    return (total / step**order).movedim(0, -1)


def _moved(index: Index, taken: tuple[bool, ...]) -> Index:
    """The latents that a subset of a tuple moves, in their order."""
    return tuple(sorted(j for j, used in zip(index, taken, strict=True) if used))


def derivative(f: Map, z: Float[Tensor, "batch latent"], order: int) -> Tensor:
    """Every partial derivative of one order, ``(batch, observed, latent, …, latent)``, by nested forward mode.

    >>> derivative(lambda z: z[:, :1] * z[:, 1:], torch.ones(1, 2), 2)
    tensor([[[[0., 1.],
              [1., 0.]]]])
    """
    if order == 1:
        return jacobian(f, z)
    found = jacobian(lambda y: derivative(f, y, order - 1).flatten(1), z, way="forward")
    return found.reshape(len(z), -1, *[z.shape[1]] * order)


def _tuples(indices: Tensor, latents: int) -> list[Index]:
    """The index tuples as numbers, none of them beyond the latents."""
    must = "indices must have axes (m, order), both at least 1, and hold whole numbers."
    fits = indices.ndim == 2 and min(indices.shape) > 0 and not indices.is_floating_point()
    checks.require(fits, must, f"shape {tuple(indices.shape)} of {indices.dtype}")
    found = [tuple(int(j) for j in index) for index in indices.tolist()]
    beyond = next((j for index in found for j in index if not 0 <= j < latents), None)
    checks.require(beyond is None, f"indices must lie between 0 and {latents - 1}.", beyond)
    return found


def _at_once(z: Tensor, memory: int, copies: int) -> int:
    return max(1, memory // (max(1, len(z)) * max(z.shape[1], NARROW) * z.element_size() * LIVE * copies))
