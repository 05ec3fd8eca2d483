"""Stability: do several models find the same latents? Consistency, not correctness.

The mean MCC over all pairs of models, each averaged over the latents of the wider model. Chance is the mean of the
pairs' chances (shuffled rows); the ceiling is 1.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np

from noumena import checks, seeds
from noumena.ambiguity import Ambiguity
from noumena.deprecated import renamed
from noumena.metrics.correlation import mcc
from noumena.metrics.record import Claim, Record, surrounded

SHUFFLES = 20


@dataclass(frozen=True, kw_only=True)
class Agreement(Record):
    """The mean MCC over all pairs of models, in [0, 1], and the matrix of pairs."""

    score: float
    matrix: np.ndarray

    @property
    def claims(self) -> tuple[Claim, ...]:
        """The mean over pairs."""
        supports = (
            "Another run finds the same latents up to order, sign and scale; all runs may still be wrong together."
        )
        return (Claim("score", "Agreement of models", (0.0, 1.0), self.forgives, supports),)


@renamed(seed="random_state")
def agreement(latents: Any, *, shuffles: int = SHUFFLES, bootstrap: int = 0, random_state: Any = 0) -> Agreement:
    """Agreement of several models' latents of the same rows, (model, batch, latent); alone, a model agrees with itself.

    Models may differ in the number of latents: a pair is averaged over those of the wider model, so that a latent
    without a partner counts 0, as does a constant one, and the order of models does not matter.

    >>> z = np.array([[0.0, 3], [1, 1], [2, 4], [3, 1], [4, 5]])
    >>> round(agreement([z, -z, z[:, ::-1]]).score, 6)
    1.0
    >>> round(agreement([z[:, :1], z]).score, 6)
    0.5
    """
    seed = seeds.seed_of(random_state)
    tables = [checks.table(z, "Each model's latents", min_rows=3) for z in latents]
    checks.require(len(tables) > 0, "There must be a model to compare.", "none")
    for other in tables[1:]:
        checks.same_batch(tables[0], other, ("The first model", "every other"))
    ends = np.cumsum([z.shape[1] for z in tables])[:-1]
    together = np.concatenate(tables, axis=1).astype(np.float64)

    def measure(rows: np.ndarray, _: np.ndarray) -> Agreement:
        whole = len(rows) == len(together)  # chance is that of all rows
        return _measured(np.split(rows, ends, axis=1), shuffles=shuffles if whole else 0, seed=seed)

    return surrounded(measure, together, together, bootstrap=bootstrap, seed=seed)


def _measured(tables: list[np.ndarray], *, shuffles: int, seed: int) -> Agreement:
    matrix, levels = np.eye(len(tables)), []
    for a, b in combinations(range(len(tables)), 2):
        first, second = sorted((tables[a], tables[b]), key=lambda z: -z.shape[1])  # MCC averages over the first
        pair = mcc(first, second, shuffles=shuffles, random_state=seed)
        matrix[a, b] = matrix[b, a] = pair.score
        levels.append(pair.chance)
    pairs = matrix[np.triu_indices(len(tables), k=1)]
    return Agreement(
        score=float(pairs.mean()) if pairs.size else 1.0,
        matrix=matrix,
        forgives=Ambiguity("permutation+scaling"),
        chance=float(np.mean(levels)) if levels and shuffles else None,
        ceiling=1.0,
    )
