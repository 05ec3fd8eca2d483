"""Beside: learned latents next to columns that no fit saw, such as a cell's type or a dose.

A column of numbers is told by the largest rank correlation of a latent with it; one of names by the largest area under
the ROC curve of a latent and one name against all others, either way round. Beside it stands what latents in another
order of rows reach, 95 times of 100: a latent is chosen among several, and that must be paid for.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from scipy.stats import rankdata

from noumena import checks, seeds
from noumena.discovery.trust import rank_correlations

SHUFFLES, LEVEL = 100, 0.95
FEWEST = 5
"""Rows of a name below which it is left out."""
MOST_NUMBERS = 12
"""Whole numbers of so many values or fewer are names."""


@dataclass(frozen=True)
class LabelBeside:
    """A label, the latent that tells most of it, and how much."""

    label: str
    latent: str
    measure: str
    """``|r|``, Spearman's, or ``AUROC``."""
    score: float
    chance: float
    """What the best latent reaches 95 times of 100 where rows are shuffled."""
    value: str = ""
    """Of names, the one that is told from the others."""

    def __str__(self) -> str:
        told = f"{self.label} = {self.value}" if self.value else self.label
        return f"{told}: {self.latent}, {self.measure} {self.score:.2f} (chance {self.chance:.2f})"


def beside(
    z: Float[np.ndarray, "batch latent"], latents: Sequence[str], label: str, values: Sequence | np.ndarray
) -> LabelBeside:
    """The latent that tells most of a label.

    >>> z = np.c_[np.arange(200.0), np.tile([0.0, 1.0], 100)]
    >>> str(beside(z, ["z1", "z2"], "dose", np.arange(200.0) ** 3)).split(" (")[0]
    'dose: z1, |r| 1.00'
    >>> str(beside(z, ["z1", "z2"], "type", np.tile(["T", "B"], 100))).split(" (")[0]
    'type = B: z2, AUROC 1.00'
    """
    column = np.asarray(values)
    must = f"{label} must have a value for every row."
    checks.require(len(column) == len(z), must, f"{len(column)} values for {len(z)} rows")
    rng = seeds.numpy_generator(0, "shuffled labels")
    numbers = _numbers(column)
    if numbers is not None:
        known = np.isfinite(numbers)
        z, numbers = z[known], numbers[known]
        found = rank_correlations(z, numbers[:, None])[:, 0]
        by_chance = [rank_correlations(z, rng.permutation(numbers)[:, None]).max() for _ in range(SHUFFLES)]
        best = int(found.argmax())
        return LabelBeside(label, latents[best], "|r|", float(found[best]), float(np.quantile(by_chance, LEVEL)))
    names = column.astype(str)
    kinds, counts = np.unique(names, return_counts=True)
    kinds = [kind for kind, count in zip(kinds, counts, strict=True) if FEWEST <= count <= len(names) - FEWEST]
    checks.require(
        bool(kinds), f"{label} must have two values or more of {FEWEST} rows or more.", f"{len(counts)} values"
    )
    ranks = rankdata(z, axis=0)
    member = np.stack([names == kind for kind in kinds], axis=1)
    found = _auroc(ranks, member)
    by_chance = [_auroc(ranks, member[rng.permutation(len(member))]).max() for _ in range(SHUFFLES)]
    j, k = divmod(int(found.argmax()), len(kinds))
    chance = float(np.quantile(by_chance, LEVEL))
    return LabelBeside(label, latents[j], "AUROC", float(found[j, k]), chance, str(kinds[k]))


def _numbers(column: np.ndarray) -> np.ndarray | None:
    """The column as numbers; ``None`` where it holds names, as few whole numbers are."""
    try:
        values = column.astype(np.float64)
    except (TypeError, ValueError):
        return None
    known = values[np.isfinite(values)]
    few = len(np.unique(known)) <= MOST_NUMBERS and bool((known == np.round(known)).all())
    return None if few else values


def _auroc(ranks: Float[np.ndarray, "batch latent"], member: np.ndarray) -> Float[np.ndarray, "latent kind"]:
    """Area under the ROC curve of every latent and kind, either way round."""
    inside = member.sum(axis=0)
    outside = len(member) - inside
    area = (ranks.T @ member - inside * (inside + 1) / 2) / (inside * outside)
    return np.maximum(area, 1 - area)
