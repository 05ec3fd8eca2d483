"""Strength: by how much a typical move of a latent moves an observation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from noumena import checks
from noumena.derivatives import jacobian


def relative_strength(decoder: Callable, z: Any) -> np.ndarray:
    """``mean_b |∂x_i/∂z_j| · sd(z_j) / sd(x_i)`` of a decoder at points, as an ``(observed, latent)`` array."""
    points = z if isinstance(z, torch.Tensor) else torch.as_tensor(checks.table(z, "z", min_rows=2))
    if isinstance(decoder, torch.nn.Module):
        points = next((points.to(p) for p in decoder.parameters()), points)
    checks.require(len(points) >= 2, "A structure is read off at two points or more.", f"{len(points)}")
    points = points.detach()
    J = jacobian(decoder, points).detach()
    with torch.no_grad():
        x = decoder(points)
    return shares(J, points, x).double().cpu().numpy()


def shares(
    J: Float[Tensor, "batch observed latent"], z: Float[Tensor, "batch latent"], x: Float[Tensor, "batch observed"]
) -> Float[Tensor, "observed latent"]:
    """``mean_b |J_ij| · sd(z_j) / sd(x_i)``: the share of an observation's spread that a latent's typical move makes.

    Zero exactly where no point has a dependency; free of the units of ``z`` and ``x``.

    >>> z = torch.tensor([[0.0], [1.0]])
    >>> shares(torch.full((2, 1, 1), 3.0), z, 3 * z)
    tensor([[1.]])
    """
    spread = x.std(dim=0).clamp_min(torch.finfo(x.dtype).tiny)
    return J.abs().mean(dim=0) * z.std(dim=0)[None, :] / spread[:, None]
