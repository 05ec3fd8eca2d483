"""Structure distance: which dependencies were found, once the latents are matched.

Columns are matched by overlap (Hungarian), then entries are counted: missing, extra, and F1. F1 is 1 iff the
structures
are equal up to the order of latents. The chance level is the F1 of the learned structure with shuffled observations;
the ceiling is 1.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from noumena import checks, seeds
from noumena.ambiguity import Ambiguity
from noumena.deprecated import renamed
from noumena.metrics.record import MetricRecord
from noumena.structure import Structure

SHUFFLES = 5


@dataclass(frozen=True, kw_only=True)
class StructureDistance(MetricRecord):
    """Result of ``structure_distance``.

    Attributes
    ----------
    score : float
        F1 of the learned dependencies, in [0, 1].
    missing, extra : int
        Dependencies of the truth that were not learned, and learned ones that are not true.
    permutation : array of shape (n_latents,)
        The learned latent matched to every true one; −1: none.
    """

    TITLE: ClassVar[str] = "Structure F1"
    SUPPORTS: ClassVar[str] = (
        "Each latent has the right observations, whatever the order of latents; "
        "it says nothing about the latents' values."
    )

    score: float
    missing: int
    extra: int
    permutation: np.ndarray

    @property
    def hamming(self) -> int:
        """Entries that differ."""
        return self.missing + self.extra


@renamed(seed="random_state")
def structure_distance(
    truth: Any, learned: Any, *, shuffles: int = SHUFFLES, random_state: Any = 0
) -> StructureDistance:
    """Match the learned columns to the true ones by overlap, then count missing and extra dependencies.

    Observations of the same names are compared by name, whatever their order; where one of the two has no names of its
    own, but x1, x2, …, by position; other names are refused.

    Parameters
    ----------
    truth, learned : Structure or array of shape (n_observed, n_latents)
        The two structures; arrays of 0 and 1.
    shuffles : int
        Copies of the learned structure with shuffled observations for the chance level; 0: not measured.
    random_state : int, Generator or None
        Seed of the shuffles.

    Returns
    -------
    StructureDistance

    Examples
    --------
    >>> structure_distance([[1, 0], [1, 1]], [[1, 1], [1, 1]]).extra
    1
    >>> truth = Structure([[1, 0], [1, 1]], observed=["pulse", "voice"])
    >>> structure_distance(truth, Structure([[1, 1], [1, 0]], observed=["voice", "pulse"])).score
    1.0
    """
    seed = seeds.seed_of(random_state)
    truth, learned = (s if isinstance(s, Structure) else Structure(s) for s in (truth, learned))
    learned = _in_order(learned, truth)
    m = truth.match(learned)
    shuffles = checks.count(shuffles, "shuffles", minimum=0)
    rng = seeds.numpy_generator(seed, "shuffled observations")
    orders = [rng.permutation(learned.n_observed) for _ in range(shuffles)]
    levels = [truth.match(Structure(learned.support[order])).f1 for order in orders]
    return StructureDistance(
        score=m.f1,
        missing=m.missing,
        extra=m.extra,
        permutation=m.permutation,
        forgives=Ambiguity("permutation"),
        chance=float(np.mean(levels)) if levels else None,
        ceiling=1.0,
    )


def _in_order(learned: Structure, truth: Structure) -> Structure:
    """The learned structure with its observations in the order of the true ones, where both have the same names."""
    if learned.n_observed != truth.n_observed or learned.observed == truth.observed:  # numbers are judged by match
        return learned
    only, other = (sorted(set(a.observed) - set(b.observed)) for a, b in ((truth, learned), (learned, truth)))
    if not only:
        place = {name: i for i, name in enumerate(learned.observed)}
        return Structure(learned.support[[place[name] for name in truth.observed]])
    unnamed = tuple(f"x{i + 1}" for i in range(truth.n_observed))
    shown = [checks.listed([" ".join(name.split()) or "''" for name in names]) for names in (only, other)]
    differing = f"{shown[0]} only in truth and {shown[1]} only in learned"
    checks.require(
        unnamed in (truth.observed, learned.observed), "truth and learned must name the same observations.", differing
    )
    return learned
