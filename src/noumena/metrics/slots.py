"""SIS, the slot identifiability score: does each learned slot know its own true slot, and no other?

``R²[i, j]`` is how much of true slot ``j`` a smooth function of learned slot ``i`` explains, on rows it was not fitted
on (kernel ridge; below 0 counts 0). Slots are matched (Hungarian), and a true slot scores what its learned partner
knows of it minus the most that partner knows of any other: ``mean_j (R²[π(j), j] − max_{k≠j} R²[π(j), k])``.

Reference: mechanistic independence (paper 002), experiments. Deviations: judged on held-out rows; slots may differ in
number and size, and a true slot without a partner scores 0. The regression smooths, so the truth itself scores a little
below 1 (.98 to .99 for three latents and 2000 rows), and less where true slots are dependent: report it beside.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from noumena import checks, seeds
from noumena.ambiguity import Ambiguity, kernel_map

HELD_OUT = 0.2
MOST_ROWS = 2000


@dataclass(frozen=True)
class SlotIdentifiability:
    """The score in [−1, 1]; ``matrix`` R² of (learned slot, true slot); ``matching`` the learned slot of every true
    one (−1: none); ``per_slot`` the score of every true slot; ``rows`` scored on; what it forgives."""

    score: float
    matrix: np.ndarray
    matching: np.ndarray
    per_slot: np.ndarray
    rows: int
    held_out: bool
    forgives: Ambiguity


def sis(
    z: Any,
    z_hat: Any,
    *,
    slots: int | tuple[int, ...],
    learned_slots: int | tuple[int, ...] | None = None,
    held_out: bool = True,
    most_rows: int = MOST_ROWS,
    seed: int = 0,
) -> SlotIdentifiability:
    """The slot identifiability score of learned latents ``z_hat`` against true latents ``z``, both (batch, latent).

    ``slots`` are the true slots (a number of equal ones, or sizes), ``learned_slots`` the learned ones (as many by
    default); at most ``most_rows`` rows are looked at.

    >>> z = np.random.default_rng(0).normal(size=(300, 2))
    >>> sis(z, z[:, ::-1] ** 3, slots=2).matching
    array([1, 0])
    """
    z, z_hat = checks.table(z, "z", min_rows=10), checks.table(z_hat, "z_hat", min_rows=10)
    checks.same_batch(z, z_hat)
    true = checks.slots(slots, z.shape[1])
    learned = checks.slots(slots if learned_slots is None else learned_slots, z_hat.shape[1])
    order = seeds.numpy_generator(seed, "rows of sis").permutation(len(z))[
        : checks.count(most_rows, "most_rows", minimum=10)
    ]
    n = max(2, round(HELD_OUT * len(order)))
    fit, judge = (order[n:], order[:n]) if held_out else (order, order)
    matrix = np.stack([_explained(z, z_hat[:, part], fit, judge, true) for part in _parts(learned)])
    matching, per_slot = _judged(matrix)
    forgives = Ambiguity("block-wise", tuple(tuple(range(p.start, p.stop)) for p in _parts(true)))
    return SlotIdentifiability(float(per_slot.mean()), matrix, matching, per_slot, len(judge), held_out, forgives)


def _parts(sizes: tuple[int, ...]) -> list[slice]:
    ends = np.cumsum(sizes).tolist()
    return [slice(end - size, end) for end, size in zip(ends, sizes, strict=True)]


def _explained(
    z: np.ndarray, source: np.ndarray, fit: np.ndarray, judge: np.ndarray, true: tuple[int, ...]
) -> np.ndarray:
    """R² of every true slot, averaged over its latents, from one learned slot; constant latents count 0."""
    function = kernel_map(source[fit], z[fit])
    residual = ((z[judge] - function(source[judge])) ** 2).mean(axis=0)
    varies = np.ptp(z[judge], axis=0) > 0
    r2 = np.where(varies, 1 - residual / np.where(varies, z[judge].var(axis=0), 1), 0.0)
    return np.array([max(0.0, r2[part].mean()) for part in _parts(true)])


def _judged(matrix: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The learned slot of every true slot, and every true slot's score."""
    from scipy.optimize import linear_sum_assignment

    learned, true = linear_sum_assignment(-matrix)
    matching, per_slot = np.full(matrix.shape[1], -1), np.zeros(matrix.shape[1])
    for i, j in zip(learned, true, strict=True):
        matching[j] = i
        per_slot[j] = matrix[i, j] - np.delete(matrix[i], j).max(initial=0.0)
    return matching, per_slot
