"""Jacobians of batched maps ``z ↦ x``: exact, by forward mode over latent directions.

A batched map sends ``(batch, latent)`` to ``(batch, observed)``, row by row. One forward-mode pass per
latent direction gives one column of every row's Jacobian; all directions run as one batched pass, in
chunks that respect a memory budget. Works inside ``torch.func.vmap`` and is differentiable.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from jaxtyping import Float
from torch import Tensor
from torch.func import jvp, vmap

from noumena import checks

Map = Callable[[Tensor], Tensor]

_LIVE_COPIES = 8
"""Tensors of the output's size that one direction keeps alive in a typical network (an estimate)."""


def jacobian(
    f: Map, z: Float[Tensor, "batch latent"], *, memory: int = 2**30
) -> Float[Tensor, "batch observed latent"]:
    """Every row's Jacobian ``J[b, i, j] = ∂f_i/∂z_j (z_b)``; zero exactly where ``f_i`` ignores ``z_j``.

    >>> f = lambda z: torch.stack([z[:, 0] * z[:, 1], z[:, 1]], dim=1)
    >>> jacobian(f, torch.tensor([[2.0, 3.0]]))
    tensor([[[3., 2.],
             [0., 1.]]])
    """
    checks.require(z.ndim == 2, "z must have two axes, (batch, latent).", f"shape {tuple(z.shape)}")
    directions = torch.eye(z.shape[-1], dtype=z.dtype, device=z.device)

    def along(direction: Tensor) -> Tensor:
        """Every row's derivative in one latent direction."""
        value, tangent = jvp(f, (z,), (direction.expand_as(z),))  # pyright: ignore[reportAssignmentType]
        checks.require(
            value.ndim == 2 and value.shape[0] == z.shape[0],
            "The map must send (batch, latent) to (batch, observed).",
            f"shapes {tuple(z.shape)} → {tuple(value.shape)}",
        )
        return tangent

    return vmap(along, chunk_size=_chunk(z, memory))(directions).movedim(0, -1)


def _chunk(z: Tensor, memory: int) -> int | None:
    rows, latents = z.shape
    per_direction = max(1, rows) * max(latents, 64) * z.element_size() * _LIVE_COPIES
    chunk = max(1, memory // per_direction)
    return None if chunk >= latents else chunk
