"""Variations: how a shift along a direction changes a representation, and how changes are told apart.

A negative is a change along another direction. Where its cosine with a query exceeds 0.95 it is taken for the same
factor after all, and its label is its cosine (hard-negative flipping). The entropy of a change asks that it is one of
few latents (a representation that all directions change alike is dominated by one factor).

Reference: Ren et al. (2021), *Learning disentangled representation by exploiting pretrained generative models: a
contrastive learning view*. **Deviations**: the entropy is exact, without an added constant in its logarithm; the lower
bound of a shift holds on both sides of zero, where the published code has it on the positive side only.
"""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import normalize, softplus

SAME = 0.95
"""The cosine above which a negative is taken for the same factor."""


def variation(still: Float[Tensor, "*batch latent"], moved: Float[Tensor, "*batch latent"]) -> Tensor:
    """How a shift changes a representation, ``|moved − still|`` at unit length; unchanged when all of it is moved or
    scaled, zero only where nothing changes.

    >>> variation(torch.tensor([[1.0, 1.0]]), torch.tensor([[4.0, -3.0]]))
    tensor([[0.6000, 0.8000]])
    """
    return normalize((moved - still).abs(), dim=-1)


def contrast(
    queries: Float[Tensor, "*group query latent"],
    positives: Float[Tensor, "*group positive latent"],
    negatives: Float[Tensor, "*group negative latent"],
    *,
    temperature: float = 1.0,
) -> Float[Tensor, ""]:
    """The mean binary cross-entropy of all cosines of unit vectors, divided by a temperature, as logits: positives
    have label 1, negatives 0, or their cosine where it exceeds 0.95; positive always, unchanged by rotations.

    With cosines 1 and 0 it is the mean of ``log(1 + 1/e)`` and ``log 2``; with 1 twice, of ``log(1 + 1/e)`` alone:

    >>> e = torch.eye(2)
    >>> contrast(e[:1], e[:1], e[1:]), contrast(e[:1], e[:1], e[:1])
    (tensor(0.5032), tensor(0.3133))
    """
    same, other = queries @ positives.mT, queries @ negatives.mT
    label = torch.where(other > SAME, other, torch.zeros_like(other)).detach()
    logits = torch.cat([same, other], dim=-1) / temperature
    labels = torch.cat([torch.ones_like(same), label], dim=-1)
    return (softplus(logits) - labels * logits).mean()


def entropy(v: Float[Tensor, "*batch latent"]) -> Float[Tensor, ""]:
    """The mean entropy of ``softmax(v)``; largest, ``log latent``, iff all latents change alike, ignores their order.

    >>> entropy(torch.ones(1, 4)), entropy(torch.tensor([[999.0, 0.0]]))
    (tensor(1.3863), tensor(0.))
    """
    logs = v.log_softmax(dim=-1)
    return (logs.exp() * -logs).sum(dim=-1).mean()


def shifts(normal: Tensor, size: float, least: float) -> Tensor:
    """``size`` times standard normal numbers, but none nearer to zero than ``least``.

    >>> shifts(torch.tensor([1.0, 0.05, -0.05]), 6.0, 0.5)
    tensor([ 6.0000,  0.5000, -0.5000])
    """
    side = torch.where(normal < 0, -torch.ones_like(normal), torch.ones_like(normal))
    return side * (size * normal.abs()).clamp_min(least)


def chosen(uniform: Float[Tensor, "group query role"], n: int) -> Float[Tensor, "group query role direction"]:
    """Which of ``n`` directions is every pair's, as 0 and 1: the group's own (told by its first number) for the first
    two roles, queries and positives, any other for the rest, negatives.

    >>> chosen(torch.tensor([[[0.5, 0.0, 0.0, 0.99], [0.9, 0.9, 0.4, 0.7]]]), 4).argmax(dim=-1)
    tensor([[[2, 2, 3, 1],
             [2, 2, 0, 1]]])
    """
    target = (uniform[:, :1, :1] * n).long().clamp(max=n - 1).expand_as(uniform[..., :2])
    other = (uniform[..., 2:] * (n - 1)).long().clamp(max=max(n - 2, 0))
    which = torch.cat([target, (target[..., :1] + 1 + other) % n], dim=-1)
    return (which[..., None] == torch.arange(n, device=uniform.device)).to(uniform.dtype)
