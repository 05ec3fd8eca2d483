"""Attention: maps that look at one another, and at tokens that each stand for one concept.

The products are written out, ``softmax(q kᵀ / √d) v``, for the fused kernels have neither forward-mode derivatives nor
second ones, and a penalty on a Jacobian needs both. All of it runs inside ``torch.func.vmap``.

References: Rombach et al. (2022), *High-resolution image synthesis with latent diffusion models* (its spatial
transformer); Yang et al. (2024), *Diffusion model with cross attention as an inductive bias for disentanglement* (its
concept tokens). **Deviations**: self-attention is optional, feed-forward layers are twice as wide as the maps and not
gated.
"""

from __future__ import annotations

from itertools import pairwise

import torch
from jaxtyping import Float
from torch import Tensor, nn

from noumena import checks

WIDER = 2
"""The hidden width of a feed-forward layer, in widths of the maps."""
HIDDEN = 64, 128
"""Hidden widths of the small network that makes a token of a scalar."""


def attended(
    q: Float[Tensor, "*batch query dim"], k: Float[Tensor, "*batch token dim"], v: Float[Tensor, "*batch token value"]
) -> Float[Tensor, "*batch query value"]:
    """``softmax(q kᵀ / √d) v``: means of the values; blind to the order of tokens, the value itself where all agree.

    >>> attended(torch.zeros(1, 1), torch.ones(2, 1), torch.tensor([[1.0], [3.0]]))
    tensor([[2.]])
    """
    return (q @ k.mT * q.shape[-1] ** -0.5).softmax(dim=-1) @ v


class Attention(nn.Module):
    """Attention with several heads, of positions (batch, position, channel) to a context (batch, token, width)."""

    def __init__(self, channels: int, context: int, heads: int):
        super().__init__()
        self.heads = heads
        self.query = nn.Linear(channels, channels, bias=False)
        self.key = nn.Linear(context, channels, bias=False)
        self.value = nn.Linear(context, channels, bias=False)
        self.out = nn.Linear(channels, channels)

    def forward(
        self, h: Float[Tensor, "batch position channel"], context: Float[Tensor, "batch token width"]
    ) -> Float[Tensor, "batch position channel"]:
        """What every position takes from the context."""
        q, k, v = (self._heads(part) for part in (self.query(h), self.key(context), self.value(context)))
        return self.out(attended(q, k, v).transpose(1, 2).flatten(2))

    def _heads(self, h: Tensor) -> Tensor:
        return h.unflatten(-1, (self.heads, -1)).transpose(1, 2)


class Looking(nn.Module):
    """Maps that look at themselves (``near``), look at tokens, and think; each adds to what was there."""

    def __init__(self, channels: int, context: int, heads: int, *, near: bool):
        super().__init__()
        self.near = nn.ModuleList([nn.LayerNorm(channels), Attention(channels, channels, heads)] if near else [])
        self.norm = nn.LayerNorm(channels)
        self.cross = Attention(channels, context, heads)
        inner = WIDER * channels
        self.think = nn.Sequential(
            nn.LayerNorm(channels), nn.Linear(channels, inner), nn.SiLU(), nn.Linear(inner, channels)
        )

    def forward(
        self, h: Float[Tensor, "batch channel height width"], context: Float[Tensor, "batch token context"]
    ) -> Float[Tensor, "batch channel height width"]:
        """The changed maps."""
        rows = h.flatten(2).transpose(1, 2)
        if len(self.near):
            norm, attention = self.near
            seen = norm(rows)
            rows = rows + attention(seen, seen)
        rows = rows + self.cross(self.norm(rows), context)
        rows = rows + self.think(rows)
        return rows.transpose(1, 2).unflatten(2, h.shape[2:])


class Concepts(nn.Module):
    """A token for each scalar, by a small network of its own: token ``j`` depends on scalar ``j`` alone.

    >>> Concepts(3, 16)(torch.zeros(5, 3)).shape
    torch.Size([5, 3, 16])
    """

    def __init__(self, n_latents: int, width: int, hidden: tuple[int, ...] = HIDDEN):
        super().__init__()
        checks.count(n_latents, "n_latents")
        sizes = list(pairwise((1, *hidden, checks.count(width, "The width of a token"))))
        self.weights = nn.ParameterList(_uniform(a, n_latents, a, b) for a, b in sizes)
        self.biases = nn.ParameterList(_uniform(a, n_latents, b) for a, b in sizes)

    def forward(self, z: Float[Tensor, "batch latent"]) -> Float[Tensor, "batch latent width"]:
        """The tokens of scalars."""
        h, last = z[..., None], len(self.weights) - 1
        for k, (W, b) in enumerate(zip(self.weights, self.biases, strict=True)):
            h = torch.einsum("bli,lio->blo", h, W) + b
            h = h if k == last else nn.functional.elu(h)
        return h


def _uniform(inputs: int, *shape: int) -> nn.Parameter:
    """Numbers drawn as torch draws those of a linear layer with so many inputs."""
    return nn.Parameter(torch.empty(shape).uniform_(-(inputs**-0.5), inputs**-0.5))
