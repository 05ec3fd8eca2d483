"""Known answers: what every score says of latents that are the truth, moved by a known map, copied, lost or noise.

Cases that are maps have a group; a score that declares to forgive the group must say what it says of the truth itself
(``=``), and one that does not must say less (``<``). What a lost, copied or added latent does is written down for every
score in ``EXPECTED``, with the reason in ``REASONS``. Factors are independent: four uniform ones, or four discrete ones
with three, four, five and six values.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from noumena import seeds
from noumena.ambiguity import Ambiguity
from noumena.metrics.factors import factors_of
from noumena.metrics.scorecard import METRICS, score
from noumena.studies import rows as tables
from noumena.studies.rows import Row

ROWS = 4000
SEEDS = (0, 1, 2)
KINDS = ("continuous", "discrete")
LEVELS = (3, 4, 5, 6)
ALIKE = 0.03
"""Scores closer than this are the same."""
HADAMARD = np.array([[1, 1, 1, 1], [1, -1, 1, -1], [1, 1, -1, -1], [1, -1, -1, 1]]) / 2

Rng = np.random.Generator
MAPS: dict[str, tuple[str, Callable[[np.ndarray, Rng], np.ndarray]]] = {
    "identity": ("permutation", lambda z, _: z),
    "order, sign": ("signed permutation", lambda z, _: -z[:, ::-1]),
    "scale": ("permutation+scaling", lambda z, _: z * np.array([3.0, -2, 1, 0.5]) + 1),
    "monotone": ("element-wise", lambda z, _: np.sign(z) * np.abs(z) ** 3),
    "rotation": ("rigid", lambda z, _: z @ HADAMARD),
    "bent, mixed": ("any", lambda z, _: (np.arcsinh(3 * z @ HADAMARD)) @ HADAMARD.T),
}
"""Cases that are invertible maps, with the smallest group each belongs to."""
OTHERS: dict[str, Callable[[np.ndarray, Rng], np.ndarray]] = {
    "copied": lambda z, _: np.column_stack([z, z]),
    "dead": lambda z, _: np.column_stack([z, np.ones((len(z), 2))]),
    "fewer": lambda z, _: z[:, :2],
    "more": lambda z, rng: np.column_stack([z, rng.normal(size=z.shape)]),
    "noise": lambda z, rng: rng.normal(size=z.shape),
}
"""Cases that are none."""
REASONS = {
    "copied": "Every factor is in two latents: what asks for one latent per factor falls, the rest stays.",
    "dead": "Two constant latents more: they know nothing and change nothing.",
    "fewer": "Two of four factors are lost: what is averaged over factors falls, over latents may stay.",
    "more": "Four latents of noise more: what is averaged over latents may fall, for noise belongs to no factor.",
    "noise": "Latents know nothing: every score is at its level of chance.",
}


def cells() -> list[Row]:
    """One cell per kind of factors, case and seed."""
    cases = (*MAPS, *OTHERS)
    return [{"kind": kind, "case": case, "seed": seed} for kind in KINDS for case in cases for seed in SEEDS]


def cell(*, kind: str, case: str, seed: int, rows: int = ROWS, metrics: Any = METRICS) -> list[Row]:
    """All scores of one case; a score that cannot be had has no row."""
    z, z_hat = drawn(kind, case, seed, rows)
    ask = partial(score, factors_of(z, kind == "discrete"), z_hat, ceiling=case == "identity", seed=seed)
    card = ask() if tuple(metrics) == METRICS else ask(metrics=metrics)
    return [
        {
            "metric": name,
            "title": number.claim.title,
            "value": number.value,
            "chance": number.chance,
            "ceiling": number.ceiling,
            "best": number.claim.best,
            "forgives": str(number.claim.forgives),
        }
        for name, record in card.records.items()
        for number in record.numbers
    ]


def drawn(kind: str, case: str, seed: int, rows: int = ROWS) -> tuple[np.ndarray, np.ndarray]:
    """True and learned latents of one case, centred."""
    rng = seeds.numpy_generator(seed, "known answers")
    if kind == "continuous":
        z = rng.uniform(-1, 1, size=(rows, len(LEVELS)))
    else:
        z = np.column_stack([rng.integers(levels, size=rows) for levels in LEVELS]).astype(np.float64)
    centred = z - (z.max(axis=0) + z.min(axis=0)) / 2
    case_map = MAPS[case][1] if case in MAPS else OTHERS[case]
    return z, case_map(centred / np.abs(centred).max(axis=0), rng)


def relation(value: float, truth: float, chance: float | None) -> str:
    """How a value stands to that of the truth and to chance.

    >>> relation(0.99, 1.0, 0.1), relation(0.7, 1.0, 0.1), relation(0.12, 1.0, 0.1)
    ('=', '<', '~')
    """
    if abs(value - truth) <= ALIKE:
        return "="
    return "~" if chance is not None and abs(value - chance) <= ALIKE else "<"


def forgiven(case: str, forgives: str) -> bool | None:
    """Whether a score that forgives this group must not see the case; None for cases that are no maps."""
    if case not in MAPS:
        return None
    group = forgives.split(" {")[0]
    return Ambiguity(MAPS[case][0]) <= Ambiguity(group)


def compare(rows: list[Row]) -> str:
    """Score by case, in the mean over seeds, each with its relation to the truth and to chance."""
    cases = (*MAPS, *OTHERS)
    parts = []
    for kind in KINDS:
        here = tables.matching(rows, kind=kind)
        titles = list(dict.fromkeys(row["title"] for row in here))
        lines = [[title, *(_shown(tables.matching(here, title=title), case) for case in cases)] for title in titles]
        forgives = {row["title"]: row["forgives"] for row in here}
        lines = [[*line, forgives[line[0]]] for line in lines]
        parts += [f"{kind} factors:", tables.text_table([kind, *cases, "forgives"], lines), ""]
    legend = "= as the truth itself; < less; ~ at the level of chance. Mean over 3 seeds, 4000 rows."
    return "\n".join([*parts, legend, *(f"{case}: {reason}" for case, reason in REASONS.items())])


def _shown(rows: list[Row], case: str) -> str:
    here, truth = tables.matching(rows, case=case), tables.matching(rows, case="identity")
    if not here or not truth:
        return "–"
    value, level = (float(np.mean([row["value"] for row in group])) for group in (here, truth))
    chances = [row["chance"] for row in here if row["chance"] is not None]
    return f"{value:.2f} {relation(value, level, float(np.mean(chances)) if chances else None)}"
