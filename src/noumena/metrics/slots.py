"""SIS, the slot identifiability score: does each learned slot know its own true slot, and no other?

``R²[i, j]`` is how much of true slot ``j`` a smooth function of learned slot ``i`` explains, on rows it was not fitted
on (kernel ridge; below 0 counts 0). Slots are matched (Hungarian), and a true slot scores what its learned partner
knows of it minus the most that partner knows of any other: ``mean_j (R²[π(j), j] − max_{k≠j} R²[π(j), k])``.

The regression smooths, so the truth itself scores a little below 1 (.98 to .99 for three latents and 2000 rows), and
less where true slots are dependent: ``ceiling=True`` reports it beside. Chance takes shuffled rows of the truth as
further targets of the same regressions, one factorisation of the kernel per learned slot for all.

Reference: Matthes et al. (2026), experiments; Brady et al. (2023), "Provably Learning Object-Centric Representations".
Deviations: standardised by the rows of the fit and judged on others, drawn at random; a learned slot loses by what it
knows of another true slot (public code has it the other way round: a true slot loses by what another learned slot knows
of it); slots may differ in number and size, and a true slot without a partner scores 0.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from noumena import checks, seeds
from noumena.ambiguity import Ambiguity, kernel_map
from noumena.deprecated import renamed
from noumena.metrics import factors
from noumena.metrics.correlation import TIED
from noumena.metrics.record import Claim, Record, surrounded

HELD_OUT = 0.2
MOST_ROWS = 2000
SHUFFLES = 10

Sizes = tuple[int, ...]


@dataclass(frozen=True, kw_only=True)
class SlotIdentifiability(Record):
    """The score in [−1, 1]; ``matrix`` R² of (learned slot, true slot); ``matching`` the learned slot of every true
    one (−1: none); ``per_slot`` the score of every true slot; ``rows`` scored on."""

    score: float
    matrix: np.ndarray
    matching: np.ndarray
    per_slot: np.ndarray
    rows: int
    held_out: bool

    @property
    def claims(self) -> tuple[Claim, ...]:
        """What a slot knows of its own minus what it knows of another."""
        supports = (
            "Each learned slot tells one true slot and no other; what happens inside a slot is "
            "not judged, and true slots that depend on one another lower the value of the truth itself."
        )
        return (Claim("score", "SIS", (-1.0, 1.0), self.forgives, supports),)


@renamed(seed="random_state")
def sis(
    z: Any,
    z_hat: Any,
    *,
    slots: int | Sizes,
    learned_slots: int | Sizes | None = None,
    held_out: bool = True,
    most_rows: int = MOST_ROWS,
    shuffles: int = SHUFFLES,
    ceiling: bool = False,
    bootstrap: int = 0,
    random_state: Any = 0,
) -> SlotIdentifiability:
    """The slot identifiability score of learned latents ``z_hat`` against true latents ``z``, both (batch, latent).

    ``slots`` are the true slots (a number of equal ones, or sizes), ``learned_slots`` the learned ones (as many by
    default); at most ``most_rows`` rows are looked at. ``ceiling`` is what the truth scores in place of ``z_hat``.
    A constant true latent counts 0 in the mean of its slot, for the truth as well.

    >>> z = np.random.default_rng(0).normal(size=(300, 2))
    >>> sis(z, z[:, ::-1] ** 3, slots=2).matching
    array([1, 0])
    """
    seed = seeds.seed_of(random_state)
    z, z_hat = map(factors.in_range, factors.pair(z, z_hat))
    true = checks.slots(slots, z.shape[1])
    learned = checks.slots(slots if learned_slots is None else learned_slots, z_hat.shape[1])
    most_rows = checks.count(most_rows, "most_rows", minimum=10)
    shuffles = checks.count(shuffles, "shuffles", minimum=0)

    def measure(a: np.ndarray, b: np.ndarray, sizes: Sizes = learned) -> SlotIdentifiability:
        order = seeds.numpy_generator(seed, "rows of sis").permutation(len(a))[:most_rows]
        held = max(2, round(HELD_OUT * len(order))) if held_out else 0
        draws = shuffles if b is z_hat else 0  # chance is that of all rows
        return _measured(a[order], b[order], (true, sizes), held=held, shuffles=draws, seed=seed)

    found = surrounded(measure, z, z_hat, bootstrap=bootstrap, seed=seed)
    return replace(found, ceiling=measure(z, z, true).score) if ceiling else found


def _measured(
    z: np.ndarray, z_hat: np.ndarray, sizes: tuple[Sizes, Sizes], *, held: int, shuffles: int, seed: int
) -> SlotIdentifiability:
    """The score on the first ``held`` rows of a fit on the others; in sample, on all, where ``held`` is 0."""
    true, learned = sizes
    rng = seeds.numpy_generator(seed, "chance of sis")
    copies = np.concatenate([z, *(z[rng.permutation(len(z))] for _ in range(shuffles))], axis=1)
    known = np.stack([_explained(copies, z_hat[:, part], held) for part in _parts(learned)])
    tables = known.reshape(len(known), 1 + shuffles, z.shape[1])
    matrices = np.stack([tables[:, :, part].mean(axis=2).clip(min=0) for part in _parts(true)], axis=2)
    (matching, per_slot), *shuffled = (_judged(matrices[:, k]) for k in range(1 + shuffles))
    return SlotIdentifiability(
        score=float(per_slot.mean()),
        matrix=matrices[:, 0],
        matching=matching,
        per_slot=per_slot,
        rows=held or len(z),
        held_out=held > 0,
        forgives=Ambiguity("block-wise", tuple(tuple(range(p.start, p.stop)) for p in _parts(true))),
        chance=float(np.mean([scores.mean() for _, scores in shuffled])) if shuffles else None,
    )


def _parts(sizes: Sizes) -> list[slice]:
    ends = np.cumsum(sizes).tolist()
    return [slice(end - size, end) for end, size in zip(ends, sizes, strict=True)]


def _explained(z: np.ndarray, source: np.ndarray, held: int) -> np.ndarray:
    """R² of every latent from one learned slot, on the first ``held`` rows; constant latents count 0."""
    function = kernel_map(source[held:], z[held:])
    judge = slice(held or None)
    residual = ((z[judge] - function(source[judge])) ** 2).mean(axis=0)
    varies = np.ptp(z[judge], axis=0) > 0
    return np.where(varies, 1 - residual / np.where(varies, z[judge].var(axis=0), 1), 0.0)


def _judged(matrix: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The learned slot of every true slot, and every true slot's score."""
    from scipy.optimize import linear_sum_assignment

    learned, true = linear_sum_assignment(-matrix.round(TIED))
    matching, per_slot = np.full(matrix.shape[1], -1), np.zeros(matrix.shape[1])
    for i, j in zip(learned, true, strict=True):
        matching[j] = i
        per_slot[j] = matrix[i, j] - np.delete(matrix[i], j).max(initial=0.0)
    return matching, per_slot
