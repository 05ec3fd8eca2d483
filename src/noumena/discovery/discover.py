"""Discovery: from a table to latents, with what can be trusted about each.

1. Rows are put aside that no fit sees; equal rows stay together.
2. The number of latents and the penalty are chosen by prediction across columns (``choice``).
3. One fit of all other rows, and one of each half of them with other seeds.
4. Certificates of the three, and the answers to what is asked of every latent (``trust``).
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from sklearn.exceptions import ConvergenceWarning

from noumena import checks, seeds
from noumena.checks import DivergenceError, InputError
from noumena.discovery import trust
from noumena.discovery.choice import choose
from noumena.discovery.record import Discovery
from noumena.discovery.trust import LatentTrust
from noumena.estimators import VAE, Training
from noumena.estimators.across_columns import ColumnPrediction, ColumnTask
from noumena.guarantees import Certificate, certify
from noumena.penalties import DependencySparsity

ASIDE, MOST_ASIDE = 0.15, 1000
"""Share of the rows that no fit sees, and how many at most."""
FEWEST_ROWS = 100
"""Rows below which there are no halves to speak of."""
FEWEST_COLUMNS = 3
SEEDS, HALF_SEEDS = 3, 2
FAR = 1000
"""Distance of the seeds of halves."""
POINTS = 64


def discover(
    x: Any,
    *,
    latents: int | Sequence[int] | str = "auto",
    weight: float | str = "auto",
    n_models: int = SEEDS,
    training: Training | None = None,
    random_state: Any = 0,
    say: Callable[[str], None] | None = None,
) -> Discovery:
    """Latents of a table, and of each whether it is in use, found again on other rows, and pinned down.

    Parameters
    ----------
    x : array or DataFrame of shape (n_rows, n_columns)
        A table of numbers.
    latents : int, sequence of int or "auto"
        Their number, or those to choose from.
    weight : float or "auto"
        Weight of ``DependencySparsity``.
    n_models : int
        Seeds of the fit of all rows.
    training : Training, optional
        How the three fits are trained.
    random_state : int, numpy generator or None
        Seed of all that is drawn.
    say : callable, optional
        Is told, in sentences, what is being done.

    Returns
    -------
    Discovery

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> found = discover(rng.normal(size=(400, 6)), training=Training(steps=20))
    >>> print(found.headline)
    The columns share nothing that could be told from noise: no latents are claimed.
    """
    table, names = _checked(x)
    tell = say or (lambda sentence: None)
    seed = seeds.seed_of(random_state)
    rest, halves, aside = parts_of(table, seed)
    nothing = _nothing_shared(table[rest], table[aside])
    if nothing is not None:
        return Discovery(names, len(table), None, nothing, None, None, ())
    wanted = None if latents == "auto" else latents
    own = None if weight == "auto" else checks.number(weight, "weight", minimum=0)
    cut = max(1, len(rest) // 6)
    tell("Choosing the number of latents and the penalty.")
    choice = choose(table[rest[cut:]], table[rest[:cut]], latents=wanted, weight=own, random_state=seed, say=tell)  # type: ignore[arg-type]
    tell(choice.sentence)

    plan = Training() if training is None else training

    def fitted(rows: np.ndarray, models: int, start: int, part: str = "") -> VAE:
        """The fit of some rows, with a checkpoint of its own."""
        penalty = choice.weight * DependencySparsity(points=POINTS)
        own = plan.changed(suffix=part)
        model = VAE(choice.latents, penalty=penalty, n_models=models, training=own, random_state=start)
        model.fit(_framed(table[rows], names))
        if model.interrupted_:
            raise KeyboardInterrupt
        return model

    tell(f"Fitting all {len(rest)} rows.")
    model = fitted(rest, n_models, seed)
    refits = []
    for k, half in enumerate(halves):
        tell(f"Fitting half {k + 1}, {len(half)} rows.")
        refits.append(_quietly(lambda half=half, k=k: fitted(half, HALF_SEEDS, seed + FAR * (k + 1), f"half{k + 1}")))
    tell("Certifying.")
    certificate = certify(model)
    others = [(refit, certify(refit)) for refit in refits if refit is not None]
    prediction = _prediction(model, table[rest], table[aside])
    return Discovery(
        names, len(table), choice, prediction, model, certificate,
        _trusted(model, certificate, others, table[rest], table[aside], seed),
    )  # fmt: skip


def parts_of(table: np.ndarray, seed: int) -> tuple[np.ndarray, list[np.ndarray], np.ndarray]:
    """Rows to learn from, their two halves, and rows put aside; equal rows are in the same part.

    >>> rest, (first, second), aside = parts_of(np.repeat(np.arange(150.0)[:, None], 2, axis=0), 0)
    >>> len(rest), len(first) + len(second), len(aside), set(first // 2) & set(second // 2)
    (254, 254, 46, set())
    """
    _, group = np.unique(table, axis=0, return_inverse=True)
    group = group.reshape(-1)
    order = seeds.numpy_generator(seed, "parts of rows", len(table)).permutation(group.max() + 1)
    place = order[group]
    rows = np.argsort(place, kind="stable")
    n_aside = min(MOST_ASIDE, round(ASIDE * len(table)))
    kinds = place[rows]
    cut = int(np.searchsorted(kinds, kinds[max(n_aside - 1, 0)], side="right"))
    rest = rows[cut:]
    middle = int(np.searchsorted(place[rest], place[rest[len(rest) // 2]], side="left"))
    mixed = seeds.numpy_generator(seed, "order of rows", len(rest)).permutation(rest)
    return mixed, [rest[:middle], rest[middle:]], rows[:cut]


def _checked(x: Any) -> tuple[np.ndarray, tuple[str, ...]]:
    names = tuple(str(name) for name in x.columns) if hasattr(x, "columns") else ()
    table = checks.table(x, "x", min_rows=2).astype(np.float64)
    checks.require(table.shape[1] >= FEWEST_COLUMNS, f"x must have {FEWEST_COLUMNS} columns or more.", table.shape[1])
    must = f"x must have {FEWEST_ROWS} rows or more, for two halves and rows that neither sees; VAE fits fewer."
    checks.require(len(table) >= FEWEST_ROWS, must, len(table))
    different = len(np.unique(table, axis=0))
    must = f"x must have {FEWEST_ROWS} rows or more that differ, for halves that share none."
    checks.require(different >= FEWEST_ROWS, must, f"{different} of {len(table)}")
    return table, names or tuple(f"x{i + 1}" for i in range(table.shape[1]))


def _framed(rows: np.ndarray, names: tuple[str, ...]) -> Any:
    import pandas as pd

    return pd.DataFrame(rows, columns=pd.Index(names))


def _nothing_shared(seen: np.ndarray, new: np.ndarray) -> ColumnPrediction | None:
    """How little peers predict, where that is nothing."""
    mean, scale = seen.mean(axis=0), seen.std(axis=0)
    scale = np.where(scale > 0, scale, 1.0)
    task = ColumnTask.of(*(torch.as_tensor((rows - mean) / scale) for rows in (seen, new)))
    if task is None:
        raise InputError("x must have columns that vary, and rows to put aside. Got too few.")
    found = task.compared_with(task.plain)
    return None if found.shares_any else found


def _prediction(model: VAE, seen: np.ndarray, new: np.ndarray) -> ColumnPrediction | None:
    """Prediction across columns of the rows put aside."""
    codec = model.models_[model.best_]
    mean, scale = (getattr(codec, name).double().cpu() for name in ("mean", "scale"))
    task = ColumnTask.of(*((torch.as_tensor(rows) - mean) / scale for rows in (seen, new)))
    return None if task is None else task.asked(codec)[0]


def _quietly(fit: Callable[[], VAE]) -> VAE | None:
    """A refit, whose warnings are those of the fit; ``None`` where it diverged."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        try:
            return fit()
        except DivergenceError:
            return None


def _trusted(
    model: VAE,
    certificate: Certificate,
    others: list[tuple[VAE, Certificate]],
    rest: np.ndarray,
    aside: np.ndarray,
    seed: int,
) -> tuple[LatentTrust, ...]:
    """What is known of every latent in use."""
    S = model.structure_
    used = S.in_use
    frame = [_framed(rows, S.observed) for rows in (rest, aside)]
    z = np.asarray(model.transform(frame[1]))[:, used]
    found = [np.asarray(refit.transform(frame[1]))[:, refit.structure_.in_use] for refit, _ in others]
    places = [trust.matched(z, one) for one in found]
    points = torch.as_tensor(np.asarray(model.transform(frame[0][:MOST_ASIDE])))
    decode = model.models_[model.best_].in_precision(points.dtype).decode
    share, columns = trust.shares(decode, points, seed=seed), trust.moved(decode, points, list(S.observed))
    by_chance = trust.chance(z, seed=seed) if others else None
    answers = []
    for t, j in enumerate(used):
        verdict = certificate.verdict(t)
        same = [verdict.answer]
        scores = []
        for (_, other), (place, score) in zip(others, places, strict=True):
            scores.append(float(score[t]))
            same.append(other.verdict(int(place[t])).answer if place[t] >= 0 else "no such latent")
        if len(found) > 1 and min(place[t] for place, _ in places) >= 0:
            pair = [one[:, [place[t]]] for one, (place, _) in zip(found, places, strict=True)]
            scores.append(float(trust.rank_correlations(*pair)[0, 0]))
        answers.append(
            LatentTrust(
                S.latent[j],
                float(share[j]),
                columns[j],
                min(scores, default=None),
                by_chance,
                verdict.answer,
                same.count(verdict.answer),
                len(same),
                verdict.reason,
            )
        )
    return tuple(sorted(answers, key=lambda one: -one.share))
