"""Pooling: the output of a layer, with any number of axes, as one row per row of the data.

Three axes are tokens, ``(batch, token, dim)``; four and more are feature maps, ``(batch, channel, height, width, …)``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from noumena import checks

Mask = Bool[Tensor, "batch token"] | None
Tokens = Float[Tensor, "batch token dim"]
Pooled = Float[Tensor, "batch dim"]
Pooling = str | Callable[[Tensor, Any], Tensor]
FLAT = ("none", "flatten")


def mean_token(h: Tokens, mask: Mask = None) -> Pooled:
    """Mean of the tokens that the mask keeps; the others, even NaN, are ignored.

    >>> h = torch.tensor([[[1.0], [3.0], [9.0]]])
    >>> mean_token(h, torch.tensor([[True, True, False]]))
    tensor([[2.]])
    """
    if mask is None:
        return h.mean(dim=1)
    tokens = torch.where(mask[..., None], h, torch.zeros_like(h))
    return tokens.sum(dim=1) / mask.sum(dim=1, keepdim=True)


def first_token(h: Tokens, mask: Mask = None) -> Pooled:
    """The first token that the mask keeps.

    >>> first_token(torch.tensor([[[1.0], [3.0], [9.0]]]), torch.tensor([[False, True, True]]))
    tensor([[3.]])
    """
    place = torch.zeros(len(h), dtype=torch.long, device=h.device) if mask is None else mask.int().argmax(dim=1)
    return h[torch.arange(len(h), device=h.device), place]


def last_token(h: Tokens, mask: Mask = None) -> Pooled:
    """The last token that the mask keeps.

    >>> last_token(torch.tensor([[[1.0], [3.0], [9.0]]]), torch.tensor([[True, True, False]]))
    tensor([[3.]])
    """
    return first_token(h.flip(1), None if mask is None else mask.flip(1))


OF_TOKENS = {"mean": mean_token, "first": first_token, "last": last_token}


def check_pooling(pooling: Any) -> None:
    """Refuse what is neither a name nor a function."""
    if not callable(pooling):
        checks.one_of(pooling, "pooling", (*OF_TOKENS, *FLAT))


def pooled(h: Tensor, pooling: Pooling, mask: Tensor | None = None) -> Pooled:
    """One row per row: tokens pooled where the mask keeps them, feature maps averaged over space, or all flattened.

    >>> pooled(torch.arange(8.0).reshape(1, 2, 2, 2), "mean")
    tensor([[1.5000, 5.5000]])
    """
    h = h if h.dtype in (torch.float32, torch.float64) else h.float()
    if callable(pooling):
        row = pooling(h, mask)
        fits = isinstance(row, Tensor) and row.ndim == 2 and len(row) == len(h)
        checks.require(fits, f"pooling must return {len(h)} rows, (batch, dim).", _shape(row))
        return row.float() if row.dtype not in (torch.float32, torch.float64) else row
    if h.ndim <= 2 or pooling in FLAT:
        return h.reshape(len(h), -1)
    if h.ndim == 3:
        _check_mask(mask, h)
        return OF_TOKENS[pooling](h, mask)
    checks.require(pooling == "mean", "A map must be pooled by mean, flatten or a function.", repr(pooling))
    return h.flatten(2).mean(dim=2)


def _check_mask(mask: Tensor | None, h: Tensor) -> None:
    if mask is None:
        return
    must = "attention_mask must have the layer's tokens; pool by a function of (h, mask) otherwise."
    checks.require(mask.shape == h.shape[:2], must, f"{tuple(mask.shape)} for {tuple(h.shape)}")
    empty = (~mask.any(dim=1)).nonzero().flatten().tolist()
    checks.require(not empty, "attention_mask must keep a token of every row.", f"none in row {empty[:1]} of a batch")


def _shape(row: Any) -> str:
    return f"shape {tuple(row.shape)}" if isinstance(row, Tensor) else f"a {type(row).__name__}"
