"""Evidence for a structure: how strong every dependency of a decoder is, and where the line was drawn."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from noumena import checks
from noumena.derivatives import jacobian

LARGEST = 700.0
"""Distances on a log scale end here, so that their exponentials are finite."""


@dataclass(frozen=True)
class Evidence:
    """Why an estimated structure looks as it does: the strength of every entry and the line drawn."""

    strength: np.ndarray
    threshold: float

    @property
    def margin(self) -> float:
        """How far the nearest entry is from the threshold, as a factor ≥ 1; near 1 means fragile."""
        return float(np.exp(self._distance.min()))

    def borderline(self, factor: float = 1.5) -> list[tuple[int, int]]:
        """Entries within ``factor`` of the threshold, either side: those that could flip."""
        return [(int(i), int(j)) for i, j in np.argwhere(self._distance < np.log(factor))]

    @property
    def _distance(self) -> np.ndarray:
        """Distance of every entry from the threshold, on a log scale; an exact zero is far from any threshold."""
        tiny = np.finfo(float).tiny
        distance = np.abs(np.log(np.maximum(self.strength, tiny)) - np.log(max(self.threshold, tiny)))
        return np.where(self.strength == 0, LARGEST, np.minimum(distance, LARGEST))


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


def widest_gap(strength: np.ndarray, *, lowest: float = 0.03, highest: float = 0.2) -> float:
    """The line through the widest gap, on a log scale, of the sorted strengths between two bounds.

    >>> round(widest_gap(np.array([0.9, 0.8, 0.5, 0.02, 0.001])), 2)
    0.08
    """
    inside = np.sort(strength[(strength > lowest) & (strength < highest)])
    edges = np.concatenate([[lowest], inside, [highest]])
    widest = int(np.argmax(np.diff(np.log(edges))))
    return float(np.sqrt(edges[widest] * edges[widest + 1]))
