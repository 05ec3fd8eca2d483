"""Maximum likelihood: is the truth the only minimiser of the expected negative log-likelihood?

Random mixtures of two and three Gaussians through a random ReLU layer; along every single parameter the exact expected
negative log-likelihood is followed and its global minimiser compared with the truth.

Reference: Kivva et al. (2022), section 4, "Maximum likelihood", and Figure 1: 50 of 50. **Deviations**: see
``relu_mixture``; lines through the truth, one parameter at a time, not the whole space of parameters.
"""

from __future__ import annotations

from kivva.relu_mixture import experiment
from noumena.studies import rows as tables
from noumena.studies.claims import StudyClaim
from noumena.studies.rows import Row

MODELS = 50
PUBLISHED = (50, 50)
"""Models whose truth was the unique minimiser, and models in all."""
BUDGET = 0.5
"""CPU-minutes of the one cell on one core."""
TOLERANCE = 0.01
"""Of the share of models: half a model in fifty, so that a single failure is seen."""


def cells() -> list[Row]:
    """All models in one cell: the experiment draws one after the other."""
    return [{"models": MODELS, "seed": 0}]


def cell(models: int, seed: int) -> list[Row]:
    """One row per model; ``margin`` is the least excess in nats one step of the grid away from the truth, or more."""
    return [
        {
            "model": found.model,
            "J": found.components,
            "hidden": found.hidden,
            "parameters": len(found.minima),
            "unique": found.unique,
            "margin": found.margin,
            "distance": found.error,
            "local minima": sum(line.minima - 1 for line in found.minima),
        }
        for found in experiment(models, random_state=seed)
    ]


def compare(rows: list[Row]) -> str:
    """How many models have a unique minimiser, by their components and in all."""
    sound = tables.matching(rows)
    groups = {f"{J}": tables.matching(sound, J=J) for J in sorted({row["J"] for row in sound})} | {"all": sound}
    lines = [_line(name, group) for name, group in groups.items() if group]
    header = ["J", "published", "unique", "parameters", "least margin", "farthest minimiser", "local minima beside"]
    return tables.text_table(header, lines)


def _line(name: str, group: list[Row]) -> list[str]:
    unique = sum(bool(row["unique"]) for row in group)
    return [
        name,
        f"{PUBLISHED[0]} of {PUBLISHED[1]}" if name == "all" else "–",
        f"{unique} of {len(group)}",
        f"{sum(row['parameters'] for row in group)}",
        f"{min(row['margin'] for row in group):.1e}",
        f"{max(row['distance'] for row in group):.1e}",
        f"{sum(row['local minima'] for row in group)}",
    ]


def claims(rows: list[Row]) -> list[StudyClaim]:
    """The share of models whose truth is the only minimiser."""
    unique = tables.values(tables.matching(rows), "unique")
    share = PUBLISHED[0] / PUBLISHED[1]
    return [
        StudyClaim(
            "Section 4 and Figure 1: the truth is the only minimiser", "share of models", share, unique, TOLERANCE
        )
    ]


def tiny() -> list[Row]:
    """Two models from each of two seeds."""
    return [{"models": 2, "seed": seed} for seed in (0, 1)]
