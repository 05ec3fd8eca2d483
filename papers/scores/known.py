"""Known answers: what every score says of latents that are the truth, moved by a known map, copied, lost or noise.

Cases that are maps have a group; a score that declares to forgive the group must say what it says of the truth itself
(``=``); one that does not may say less (``<``). What a copied, dead, lost or added latent must do to a score
is in ``expected``, with the reasons in ``REASONS``; noise must score as shuffled rows do (``~``). Factors are
independent: four uniform ones, or four discrete ones with three, four, five and six values.
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
from noumena.studies.claims import StudyClaim
from noumena.studies.rows import Row

ROWS = 4000
SEEDS, NOISES = range(3), range(20)
"""Noise is drawn more often: some scores of it vary much."""
SHUFFLES = 10
KINDS = ("continuous", "discrete")
LEVELS = (3, 4, 5, 6)
ALIKE, NEAR_CHANCE = 0.03, 0.1
"""Scores closer than this are the same as the truth's, and as chance, which is measured on few shuffles."""
PUBLISHED = None
"""No paper says what scores must do; the expectations are ours."""
BUDGET = 9.0
"""CPU-minutes of all cells on one core."""
TOLERANCE = 0.0
"""Of the share of kinds of factors in which an expectation holds: it holds in all."""
NO_SCORE = "the score cannot be had in this case"
ANYTHING = "=<~>"
"""The relations there are: where all are allowed nothing is expected."""
HADAMARD = np.array([[1, 1, 1, 1], [1, -1, 1, -1], [1, 1, -1, -1], [1, -1, -1, 1]]) / 2

Rng = np.random.Generator
MAPS: dict[str, tuple[str, Callable[[np.ndarray, Rng], np.ndarray]]] = {
    "identity": ("permutation", lambda z, _: z),
    "order, sign": ("signed permutation", lambda z, _: -z[:, ::-1]),
    "scale": ("permutation+scaling", lambda z, _: z * np.array([3.0, -2, 1, 0.5]) + 1),
    "monotone": ("element-wise", lambda z, _: np.exp(1.8 * z)),
    "rotation": ("rigid", lambda z, _: z @ HADAMARD),
    "bent, mixed": ("any", lambda z, _: np.sinh(2 * z @ HADAMARD)),
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
    "copied": "every factor is in two latents: what asks for one latent per factor falls",
    "dead": "two constant latents more: only what is averaged over all learned latents falls",
    "fewer": "two of four factors are lost: what is averaged over factors falls, what is averaged over latents may not",
    "more": "four latents of noise more: what is averaged over learned latents falls, for noise belongs to no factor",
    "noise": "the latents know nothing: every score is at its level of chance, which is 0 for few of them",
}
OF_LEARNED = ("R² (linear, true to learned)", "Block R²", "InfoM", "Modularity")
"""Scores that are averaged over learned latents."""
OF_ACTIVE = ("InfoM", "Modularity")
"""Those of them that leave dead latents out."""
ONE_LATENT = ("DCI completeness", "InfoC", "MIG", "SAP")
"""Scores that ask for one latent per factor."""
LEAK = "Block R², other blocks"
SOURCES_LOST = "InfoC"
"""Of a factor that nobody knows, traces of information by accident often lie in one latent: it may score high."""


def cells() -> list[Row]:
    """One cell per kind of factors, case and seed."""
    seeds_of = dict.fromkeys((*MAPS, *OTHERS), SEEDS) | {"noise": NOISES}
    return [{"kind": kind, "case": case, "seed": k} for kind in KINDS for case in seeds_of for k in seeds_of[case]]


def cell(*, kind: str, case: str, seed: int, rows: int = ROWS, metrics: Any = METRICS) -> list[Row]:
    """All scores of one case; a score that cannot be had has no row."""
    z, z_hat = drawn(kind, case, seed, rows)
    told = {"ceiling": case == "identity", "random_state": seed} | ({"shuffles": SHUFFLES} if case == "noise" else {})
    ask = partial(score, factors_of(z, kind == "discrete"), z_hat, **told)
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

    >>> [relation(value, 0.9, 0.1) for value in (0.89, 0.7, 0.13, 1.0)]
    ['=', '<', '~', '>']
    """
    if abs(value - truth) <= ALIKE:
        return "="
    if chance is not None and abs(value - chance) <= NEAR_CHANCE:
        return "~"
    return "<" if value < truth else ">"


def expected(title: str, case: str, forgives: str) -> str:
    """The relations that a score may have in a case.

    >>> expected("MIG", "copied", "element-wise"), expected("MCC (Pearson)", "scale", "permutation+scaling")
    ('<~', '=')
    """
    if case in MAPS:
        forgiven = Ambiguity(MAPS[case][0]) <= Ambiguity(forgives.split(" {")[0])
        return "=" if forgiven else ANYTHING
    if title == LEAK:
        return "="
    falls = {
        "copied": title in ONE_LATENT,
        "dead": title in OF_LEARNED and title not in OF_ACTIVE,
        "fewer": title not in OF_LEARNED,
        "more": title in OF_LEARNED,
    }
    if case == "fewer" and title == SOURCES_LOST:
        return ANYTHING
    return "~" if case == "noise" else ("<~" if falls[case] else "=")


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
    legend = (
        "= as the truth itself; < less; > more; ~ at the level of chance. 4000 rows, mean over 3 seeds, of noise 20."
    )
    maps = [f"{case}: a map of the group {group}" for case, (group, _) in MAPS.items()]
    return "\n".join([*parts, legend, *maps, *(f"{case}: {reason}" for case, reason in REASONS.items())])


def _shown(rows: list[Row], case: str) -> str:
    value, how = judged(rows, case)
    return "–" if how is None else f"{value:.2f} {how}"


def judged(rows: list[Row], case: str) -> tuple[float, str | None]:
    """A score's mean over seeds in a case, and its relation to the truth; None where it cannot be had."""
    here, truth = tables.matching(rows, case=case), tables.matching(rows, case="identity")
    if not here or not truth:
        return float("nan"), None
    value, level = (float(np.mean([row["value"] for row in group])) for group in (here, truth))
    chances = [row["chance"] for row in here if row["chance"] is not None]
    return value, relation(value, level, float(np.mean(chances)) if chances else None)


def claims(rows: list[Row]) -> list[StudyClaim]:
    """Whether every score does in every case what is expected of it, for either kind of factors; no paper says it.

    Scores are those that there are rows of; a case in which anything may happen makes no claim.
    """
    sound = tables.matching(rows)
    forgives, run = {row["title"]: row["forgives"] for row in sound}, {row["case"] for row in sound}
    found = []
    for title in forgives:
        there = tables.matching(sound, title=title)
        for case in (*MAPS, *OTHERS):
            allowed = expected(title, case, forgives[title])
            if allowed != ANYTHING:
                held = tuple(held_by_kind(there, case, allowed))
                refused = NO_SCORE if case in run and not held else None
                name, metric = f"Expected of {title}: {case}", f"is {' or '.join(allowed)}"
                found.append(StudyClaim(name, metric, 1.0, held, TOLERANCE, not_comparable=refused))
    return found


def held_by_kind(rows: list[Row], case: str, allowed: str) -> list[float]:
    """1 or 0 for each kind of factors that a score has rows of: whether its relation in a case is an allowed one."""
    relations = [judged(tables.matching(rows, kind=kind), case)[1] for kind in KINDS]
    return [float(how in allowed) for how in relations if how is not None]


def tiny() -> list[Row]:
    """One score of the truth, of a copy and of noise, on few rows."""
    return [
        {"kind": "continuous", "case": case, "seed": 0, "rows": 300, "metrics": "mig"}
        for case in ("identity", "copied", "noise")
    ]
