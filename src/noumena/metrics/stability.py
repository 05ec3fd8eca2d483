"""Stability: do several models find the same latents? Consistency, not correctness.

The mean MCC over all pairs of models, each averaged over the latents of the wider model. The chance level is the mean
of the pairs' chance levels (shuffled rows); the ceiling is 1.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from typing import Any, ClassVar

import numpy as np

from noumena import checks, seeds
from noumena.ambiguity import Ambiguity
from noumena.deprecated import renamed
from noumena.metrics.correlation import mcc
from noumena.metrics.record import MetricRecord, evaluate

SHUFFLES = 20


@dataclass(frozen=True, kw_only=True)
class ModelAgreement(MetricRecord):
    """Result of ``agreement``.

    Attributes
    ----------
    score : float
        Mean MCC over all pairs of models, in [0, 1].
    matrix : array of shape (n_models, n_models)
        MCC of every pair.
    """

    TITLE: ClassVar[str] = "Agreement of models"
    SUPPORTS: ClassVar[str] = (
        "Another run finds the same latents up to order, sign and scale; all runs may still be wrong together."
    )

    score: float
    matrix: np.ndarray


@renamed(seed="random_state", bootstrap="subsamples")
def agreement(latents: Any, *, shuffles: int = SHUFFLES, subsamples: int = 0, random_state: Any = 0) -> ModelAgreement:
    """Mean MCC over all pairs of several models' latents of the same rows; a single model agrees with itself.

    A pair is averaged over the latents of the wider model: a latent that is constant or without a partner counts 0,
    and
    the order of models does not matter.

    Parameters
    ----------
    latents : sequence of arrays of shape (n_samples, n_latents)
        One table for each model; they may differ in their number of columns.
    shuffles, subsamples : int
        Row shuffles for the chance level and half-samples for the standard error; 0: not measured.
    random_state : int, Generator or None
        Seed of shuffles and subsamples.

    Returns
    -------
    ModelAgreement

    Examples
    --------
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

    def measure(rows: np.ndarray, _: np.ndarray) -> ModelAgreement:
        all_rows = len(rows) == len(together)  # chance is that of all rows
        return _measured(np.split(rows, ends, axis=1), shuffles=shuffles if all_rows else 0, seed=seed)

    return evaluate(measure, together, together, subsamples=subsamples, seed=seed)


def _measured(tables: list[np.ndarray], *, shuffles: int, seed: int) -> ModelAgreement:
    matrix, levels = np.eye(len(tables)), []
    for a, b in combinations(range(len(tables)), 2):
        first, second = sorted((tables[a], tables[b]), key=lambda z: -z.shape[1])  # MCC averages over the first
        pair = mcc(first, second, shuffles=shuffles, random_state=seed)
        matrix[a, b] = matrix[b, a] = pair.score
        levels.append(pair.chance)
    pairs = matrix[np.triu_indices(len(tables), k=1)]
    return ModelAgreement(
        score=float(pairs.mean()) if pairs.size else 1.0,
        matrix=matrix,
        forgives=Ambiguity("permutation+scaling"),
        chance=float(np.mean(levels)) if levels and shuffles else None,
        ceiling=1.0,
    )
