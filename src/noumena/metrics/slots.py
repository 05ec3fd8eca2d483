"""SIS, the slot identifiability score: does each learned slot know its own true slot, and no other?

``R²[i, j]`` is how much of true slot ``j`` kernel ridge regression on learned slot ``i`` explains, on held-out rows
(below 0 counts 0). Slots are matched (Hungarian), and a true slot scores what its learned partner knows of it minus
the
most that partner knows of any other: ``mean_j (R²[π(j), j] − max_{k≠j} R²[π(j), k])``.

The regression smooths, so the truth itself scores a little below 1 (.98 to .99 for three latents and 2000 rows), and
less where true slots are dependent: see ``ceiling``. The chance level takes shuffled rows of the truth as further
targets of the same regressions.

References
----------
Matthes et al. (2026), "Mechanistic Independence: A Principle for Identifiable Disentangled Representations",
experiments; Brady et al. (2023), "Provably Learning Object-Centric Representations".

Deviations: standardised by the fitted rows and scored on others, drawn at random; a learned slot loses by what it
knows
of another true slot (in public code a true slot loses by what another learned slot knows of it); slots may differ in
number and size, and a true slot without a partner scores 0.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from noumena import checks, seeds
from noumena.ambiguity import Ambiguity, kernel_map
from noumena.deprecated import renamed
from noumena.metrics import factors
from noumena.metrics.correlation import TIED
from noumena.metrics.preprocessing import HELD_OUT, in_range, slices, variance_explained
from noumena.metrics.record import MetricRecord, evaluate

MOST_ROWS = 2000
SHUFFLES = 10

Sizes = tuple[int, ...]


@dataclass(frozen=True, kw_only=True)
class SlotIdentifiability(MetricRecord):
    """Result of ``sis``.

    Attributes
    ----------
    score : float
        Mean over the true slots, in [−1, 1].
    matrix : array of shape (n_learned_slots, n_slots)
        R² of every true slot from every learned one.
    matching : array of shape (n_slots,)
        The learned slot of every true one; −1: none.
    per_slot : array of shape (n_slots,)
        Score of every true slot.
    rows, held_out
        Rows scored on, and whether the regressions were fitted on others.
    """

    TITLE: ClassVar[str] = "SIS"
    RANGE: ClassVar[tuple[float, float]] = (-1.0, 1.0)
    SUPPORTS: ClassVar[str] = (
        "Each learned slot tells one true slot and no other; what happens inside a slot is "
        "not judged, and true slots that depend on one another lower the value of the truth itself."
    )

    score: float
    matrix: np.ndarray
    matching: np.ndarray
    per_slot: np.ndarray
    rows: int
    held_out: bool


@renamed(seed="random_state", bootstrap="subsamples", most_rows="max_rows")
def sis(
    z: Any,
    z_hat: Any,
    *,
    slots: int | Sizes,
    learned_slots: int | Sizes | None = None,
    held_out: bool = True,
    max_rows: int = MOST_ROWS,
    shuffles: int = SHUFFLES,
    ceiling: bool = False,
    subsamples: int = 0,
    random_state: Any = 0,
) -> SlotIdentifiability:
    """Slot identifiability score of learned latents ``z_hat`` against true latents ``z``.

    A constant true latent counts 0 in the mean of its slot, for the truth as well.

    Parameters
    ----------
    z, z_hat : array of shape (n_samples, n_latents)
        True and learned latents of the same rows.
    slots : int or tuple of int
        Number of equal true slots, or their sizes.
    learned_slots : int or tuple of int, optional
        The same for learned slots; as many by default.
    held_out : bool
        Score on a fifth of the rows that the regressions were not fitted on.
    max_rows : int
        Larger tables are subsampled to so many rows.
    shuffles, subsamples : int
        Row shuffles for the chance level and half-samples for the standard error; 0: not measured.
    ceiling : bool
        Also score ``z`` in place of ``z_hat``.
    random_state : int, Generator or None
        Seed of splits, shuffles and subsamples.

    Returns
    -------
    SlotIdentifiability

    Examples
    --------
    >>> z = np.random.default_rng(0).normal(size=(300, 2))
    >>> sis(z, z[:, ::-1] ** 3, slots=2).matching
    array([1, 0])
    """
    seed = seeds.seed_of(random_state)
    z, z_hat = map(in_range, factors.pair(z, z_hat))
    true = checks.slots(slots, z.shape[1])
    learned = checks.slots(slots if learned_slots is None else learned_slots, z_hat.shape[1])
    max_rows = checks.count(max_rows, "max_rows", minimum=10)
    shuffles = checks.count(shuffles, "shuffles", minimum=0)

    def measure(a: np.ndarray, b: np.ndarray, sizes: Sizes = learned) -> SlotIdentifiability:
        order = seeds.numpy_generator(seed, "rows of sis").permutation(len(a))[:max_rows]
        held = max(2, round(HELD_OUT * len(order))) if held_out else 0
        draws = shuffles if b is z_hat else 0  # chance is that of all rows
        return _measured(a[order], b[order], (true, sizes), held=held, shuffles=draws, seed=seed)

    record = evaluate(measure, z, z_hat, subsamples=subsamples, seed=seed)
    return replace(record, ceiling=measure(z, z, true).score) if ceiling else record


def _measured(
    z: np.ndarray, z_hat: np.ndarray, sizes: tuple[Sizes, Sizes], *, held: int, shuffles: int, seed: int
) -> SlotIdentifiability:
    """The score on the first ``held`` rows of a fit on the others; in sample, on all, where ``held`` is 0."""
    true, learned = sizes
    rng = seeds.numpy_generator(seed, "chance of sis")
    copies = np.concatenate([z, *(z[rng.permutation(len(z))] for _ in range(shuffles))], axis=1)
    known = np.stack([_explained(copies, z_hat[:, part], held) for part in slices(learned)])
    tables = known.reshape(len(known), 1 + shuffles, z.shape[1])
    matrices = np.stack([tables[:, :, part].mean(axis=2).clip(min=0) for part in slices(true)], axis=2)
    (matching, per_slot), *shuffled = (_judged(matrices[:, k]) for k in range(1 + shuffles))
    return SlotIdentifiability(
        score=float(per_slot.mean()),
        matrix=matrices[:, 0],
        matching=matching,
        per_slot=per_slot,
        rows=held or len(z),
        held_out=held > 0,
        forgives=Ambiguity("block-wise", tuple(tuple(range(p.start, p.stop)) for p in slices(true))),
        chance=float(np.mean([scores.mean() for _, scores in shuffled])) if shuffles else None,
    )


def _explained(z: np.ndarray, source: np.ndarray, held: int) -> np.ndarray:
    """R² of every latent from one learned slot, on the first ``held`` rows; constant latents count 0."""
    function = kernel_map(source[held:], z[held:])
    judge = slice(held or None)
    return variance_explained(z[judge], function(source[judge]))


def _judged(matrix: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The learned slot of every true slot, and every true slot's score."""
    from scipy.optimize import linear_sum_assignment

    learned, true = linear_sum_assignment(-matrix.round(TIED))
    matching, per_slot = np.full(matrix.shape[1], -1), np.zeros(matrix.shape[1])
    for i, j in zip(learned, true, strict=True):
        matching[j] = i
        per_slot[j] = matrix[i, j] - np.delete(matrix[i], j).max(initial=0.0)
    return matching, per_slot
