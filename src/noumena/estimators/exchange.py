"""Exchange moves: leave a local minimum of dependency sparsity by a linear change of two latents.

At points of a fitted model with Jacobians ``J`` (ẑ of unit spread), replacing two columns by combinations of theirs
changes the count of dependencies by an exchange cost: the quantity whose minimum is the Occam gap. A fit by gradient
cannot cross from one sparse basis to another, for combinations in between are dense; here they are jumped over. Moves
tried for a pair ``(r, t)``: rotations, which keep a Gaussian prior, and shears both ways, which a dependent law may
need. A move is made in the networks themselves: the decoder's first linear layer takes ``B``, the encoder's last one
``B⁻¹``; a short training after it mends what a linear move cannot.
"""

from __future__ import annotations

from itertools import combinations
from math import log1p, pi

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn

ANGLES = tuple(pi / 2 * k / 12 for k in range(1, 12))
"""Angles of rotations, and of shears by their tangent; right angles exchange two latents and change nothing."""
SCALE = 0.03
"""Entries are counted by ``log(1 + |J|/ε) / log(1 + 1/ε)``, as the penalty counts them at the end of a fit."""
LEAST_GAIN = 0.02
"""A move must save this share of a dependency at least."""


def count(columns: Float[Tensor, "... batch observed"]) -> Tensor:
    """The smoothed number of dependencies of a column, averaged over points; 1 for each entry of size 1.

    >>> round(float(count(torch.tensor([[1.0, 0.0, -1.0]]))), 4)
    2.0
    """
    return (columns.abs() / SCALE).log1p().sum(dim=-1).mean(dim=-1) / log1p(1 / SCALE)


def pair_moves() -> Float[Tensor, "move new old"]:
    """Candidate changes of a pair of columns, each row a new column in terms of the two old ones.

    Rotations, then shears ``(r + a·t, √(1 + a²)·t)`` and the reverse: the factor keeps the latents' spread.
    """
    c, s = np.cos(ANGLES), np.sin(ANGLES)
    rotations = np.stack([np.stack([c, s], -1), np.stack([-s, c], -1)], axis=1)
    a = np.tan(np.concatenate([ANGLES, [-t for t in ANGLES]]))
    a = a[np.abs(a) < 2]
    one, zero, length = np.ones_like(a), np.zeros_like(a), np.sqrt(1 + a**2)
    shears = np.stack([np.stack([one, a], -1), np.stack([zero, length], -1)], axis=1)
    moves = np.concatenate([rotations, shears, shears[:, ::-1, ::-1]])
    return torch.as_tensor(moves, dtype=torch.float64)


def exchanges(J: Float[Tensor, "batch observed latent"]) -> list[tuple[float, int, int, Tensor]]:
    """For every pair of latents its cheapest change: (cost in dependencies, r, t, the 2 × 2 move), cheapest first.

    A column and its sum with another: undoing the sum saves a dependency.

    >>> J = torch.tensor([[[1.0, 1.0], [1.0, 1.0], [1.0, 1.0], [0.0, 1.0]]])
    >>> cost, r, t, move = exchanges(J)[0]
    >>> cost < -1
    True
    """
    moves = pair_moves().to(J)
    columns = J.movedim(-1, 0)  # (latent, batch, observed)
    own = count(columns)
    moved = []
    for r, t in combinations(range(len(columns)), 2):
        new = torch.einsum("mno,obx->mnbx", moves, columns[[r, t]])
        costs = count(new).sum(dim=1) - own[r] - own[t]
        best = int(costs.argmin())
        moved.append((float(costs[best]), r, t, moves[best]))
    return sorted(moved, key=lambda move: move[0])


def change(J: Float[Tensor, "batch observed latent"], skip: int = 0) -> Float[Tensor, "latent latent"] | None:
    """The linear change ``B`` of the latents' columns that pair moves lead to, ``J @ B`` sparser than ``J``.

    Moves that save dependencies are made one after the other, cheapest first. Where none does, the ``skip``-th
    cheapest is made all the same, as a way out of a minimum; ``None`` when there is no pair to move.
    """
    d = J.shape[-1]
    B = torch.eye(d, dtype=J.dtype, device=J.device)
    for _ in range(2 * d):
        moves = exchanges(J @ B)
        if not moves or moves[0][0] > -LEAST_GAIN:
            break
        B = _made(B, moves[0])
    else:
        return B
    if not torch.equal(B, torch.eye(d, dtype=J.dtype, device=J.device)):
        return B
    return _made(B, moves[skip % len(moves)]) if moves else None


def _made(B: Tensor, move: tuple[float, int, int, Tensor]) -> Tensor:
    _, r, t, mix = move
    B = B.clone()
    B[:, [r, t]] = B[:, [r, t]] @ mix.T
    return B


def remix(encoder: nn.Module, decoder: nn.Module, B: Tensor) -> bool:
    """Change the latents of a pair of networks to ``B⁻¹ ẑ``, in place; ``False`` (and no change) where they do not
    end and begin with a linear layer.

    An encoder with a second half of outputs, log-variances, mixes them by the squares of ``B⁻¹``.
    """
    last, first = _linear(encoder, -1), _linear(decoder, 0)
    if last is None or first is None:
        return False
    d = len(B)
    inverse = torch.linalg.inv(B.double()).to(last.weight)
    with torch.no_grad():
        first.weight.copy_(first.weight @ B.to(first.weight))
        last.weight[:d] = inverse @ last.weight[:d]
        last.bias[:d] = inverse @ last.bias[:d]
        if len(last.weight) == 2 * d:
            squares = inverse.square()
            total = squares.sum(dim=1, keepdim=True)
            last.weight[d:] = squares / total @ last.weight[d:]
            last.bias[d:] = squares / total @ last.bias[d:] + total[:, 0].log()
    return True


def _linear(net: nn.Module, end: int) -> nn.Linear | None:
    """The first (0) or last (−1) layer of a sequential network, if it is linear with a bias."""
    layers = [m for m in net.modules() if not list(m.children())]
    plain = isinstance(net, nn.Sequential | nn.Linear) and bool(layers)
    layer = layers[end] if plain else None
    return layer if isinstance(layer, nn.Linear) and layer.bias is not None else None
