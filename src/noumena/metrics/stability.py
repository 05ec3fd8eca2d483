"""Stability: do several models find the same latents? Consistency, not correctness."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np

from noumena import checks
from noumena.ambiguity import Ambiguity
from noumena.metrics.correlation import mcc


@dataclass(frozen=True)
class Agreement:
    """The mean MCC over all pairs of models, in [0, 1], and the matrix of pairs."""

    score: float
    matrix: np.ndarray
    forgives: Ambiguity


def agreement(latents: Any) -> Agreement:
    """Agreement of several models' latents of the same rows, (model, batch, latent); alone, a model agrees with itself.

    >>> z = np.array([[0.0, 3], [1, 1], [2, 4], [3, 1], [4, 5]])
    >>> round(agreement([z, -z, z[:, ::-1]]).score, 6)
    1.0
    """
    latents = [checks.table(z, "Each model's latents", min_rows=3) for z in latents]
    checks.require(len(latents) > 0, "There must be a model to compare.", "none")
    matrix = np.eye(len(latents))
    for a, b in combinations(range(len(latents)), 2):
        matrix[a, b] = matrix[b, a] = mcc(latents[a], latents[b]).score
    pairs = matrix[np.triu_indices(len(latents), k=1)]
    return Agreement(float(pairs.mean()) if pairs.size else 1.0, matrix, Ambiguity("permutation+scaling"))
