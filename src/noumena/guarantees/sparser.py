"""A sparser equivalent: observations in place of latents, one after the other, while that removes dependencies.

Putting ``x_i`` in place of ``z_t`` leaves row ``i`` with one dependency and adds ``I_i`` to the other rows of ``t``.
Done for several pairs it is one change of latents, ``ẑ_Q = x_R``, as long as the block ``∂x_R/∂z_Q`` stays invertible.
A negative exchange at every point need not come from one change of latents for all points; where none is found, none
is returned.
"""

from __future__ import annotations

import numpy as np
import torch

from noumena.derivatives import jacobian
from noumena.guarantees import changes
from noumena.guarantees.competitors import Competitor
from noumena.guarantees.witness import Model, Witness
from noumena.structure import Structure

LEAST_PIVOT = 1e-2
"""The determinant of the exchanged block must keep its sign, and this share of its typical size, at every point."""
PROBES = 256


def sparser(model: Model) -> Witness | None:
    """An equivalent model with fewer dependencies that verifies, or ``None`` when no substitutions lead to one."""
    J = jacobian(model.decoder, model.known[:PROBES]).detach()
    support, Q, R = model.structure.dense.copy(), [], []
    while True:
        best = min(_moves(support, J, Q, R), default=None)
        if best is None or best[0] >= 0:
            break
        _, i, t = best
        Q, R, support = [*Q, t], [*R, i], substituted(support, i, t)
    for n in range(len(Q), 0, -1):
        witness = _witness(model, Q[:n], R[:n])
        if witness.verify().holds:
            return witness
    return None


def _witness(model: Model, Q: list[int], R: list[int]) -> Witness:
    support = model.structure.dense
    for i, t in zip(R, Q, strict=True):
        support = substituted(support, i, t)
    change = changes.substitution(model.decoder, Q, R, model.known)
    return Witness(_competitor(model.structure, support, Q, R), model, change)


def substituted(support: np.ndarray, i: int, t: int) -> np.ndarray:
    """The support once observation ``i`` stands in the place of latent ``t``.

    >>> substituted(np.array([[1, 1], [1, 0], [0, 1]], dtype=bool), 0, 0).astype(int)
    array([[1, 0],
           [1, 1],
           [0, 1]])
    """
    after = support | (support[:, [t]] & support[i])
    after[i] = False
    after[i, t] = True
    return after


def _unfolded(J: torch.Tensor, rows: list[int], latents: list[int]) -> bool:
    """Whether ``∂x_R/∂z_Q`` keeps the sign of its determinant, and a share of its size, at all points."""
    det = torch.linalg.det(J[:, rows][:, :, latents])
    return bool((det.sign() == det[0].sign()).all() and det.abs().min() > LEAST_PIVOT * det.abs().mean())


def _moves(support: np.ndarray, J: torch.Tensor, Q: list[int], R: list[int]) -> list[tuple[int, int, int]]:
    """Every substitution that removes dependencies and can be undone: change, observation, latent."""
    found = []
    for i, t in np.argwhere(support).tolist():
        if i in R or t in Q:
            continue
        change = int(substituted(support, i, t).sum() - support.sum())
        if change < 0 and _unfolded(J, [*R, i], [*Q, t]):
            found.append((change, i, t))
    return found


def _competitor(S: Structure, support: np.ndarray, Q: list[int], R: list[int]) -> Competitor:
    pairs = ", ".join(f"{S.observed[i]} in place of {S.latent[t]}" for i, t in zip(R, Q, strict=True))
    change = int(support.sum()) - len(S)
    sentence = f"{pairs}: the same data with {int(support.sum())} dependencies instead of {len(S)}"
    carried = tuple(sorted(set(S.of(R[0])) - {Q[0]}))
    rests = "these observations are invertible in these latents"
    return Competitor("substitution", Q[0], carried, change, sentence, rests, tuple(R), tuple(Q))
