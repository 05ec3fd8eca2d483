"""FactorVAE score: fix one factor, vote for the latent that varies least, and ask whether that latent tells the factor.

A vote fixes one factor in a batch of 64 rows; the latent with the smallest variance there, relative to its variance in
all rows, gets the vote. Training votes assign to each latent the factor it was voted for most often; the score is the
accuracy of this majority vote on test votes. Latents of standard deviation below .05 are pruned, as variational
autoencoders collapse latents without information; this depends on the unit of the latents: rescale those of other
models or set ``prune``.

References
----------
Kim and Mnih (2018), "Disentangling by factorising", and its public code.

Deviations: rows come from a labelled sample (``noumena.metrics.fixed``). Variances of the representation are those of
all rows; the public code draws 10 000, which alone moves the score by some hundredths where two latents vary equally
little. Constant latents are always pruned: at the public default threshold of 0 they divide 0 by 0 and win every vote.
A latent without a training vote names no factor; publicly the first. The number of active latents counts the active
ones; publicly all. Votes for training and test share the groups of rows, so that in small groups the chance level lies
above 1/K.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from jaxtyping import Float, Int

from noumena import checks, seeds
from noumena.ambiguity import Ambiguity
from noumena.deprecated import renamed
from noumena.metrics.factors import factors_of, pair
from noumena.metrics.fixed import MIN_GROUP, FixedFactors, fixed_factors
from noumena.metrics.record import MetricRecord, evaluate

CHUNK = 2**17
"""Numbers processed together, so that they fit a processor's cache."""


@dataclass(frozen=True, kw_only=True, eq=False)
class FactorVAEScore(MetricRecord):
    """Result of ``factor_vae_score``.

    Attributes
    ----------
    score, train_accuracy : float
        Accuracy of the majority vote on test and on training votes.
    votes : array of shape (n_active, n_used)
        Training votes of every active latent for every factor in use.
    active, factors : array of int
        The columns of ``z_hat`` and ``z`` that these are.
    named : array of shape (n_active,)
        The column of ``z`` that each active latent stands for; −1: none.
    kinds, notes, rows
        Which factors were discrete, what was left out, and the number of rows.
    """

    TITLE: ClassVar[str] = "FactorVAE score"
    SUPPORTS: ClassVar[str] = (
        "Each factor has a latent that it moves more than the other factors do; it does not "
        "support that the latent holds this factor alone or all of it, as some mixing and noise go unnoticed, "
        "and latents scaled below the threshold of pruning are not asked."
    )

    score: float
    train_accuracy: float
    votes: Int[np.ndarray, "active factor"]
    active: Int[np.ndarray, " active"]
    factors: Int[np.ndarray, " factor"]
    named: Int[np.ndarray, " active"]
    kinds: str
    notes: tuple[str, ...]
    rows: int


@renamed(seed="random_state", bootstrap="subsamples")
def factor_vae_score(
    z: Any,
    z_hat: Any,
    *,
    discrete: Any = None,
    votes: Any = (10_000, 5_000),
    batch_size: int = 64,
    prune: float = 0.05,
    bins: int | None = None,
    min_group: int = MIN_GROUP,
    shuffles: int = 5,
    ceiling: bool = False,
    subsamples: int = 0,
    random_state: Any = 0,
) -> FactorVAEScore:
    """FactorVAE score of learned latents ``z_hat`` for the factors ``z``.

    With one factor the score is 1 whatever is learned, and so is the chance level.

    Parameters
    ----------
    z : array, DataFrame or FactorTable of shape (n_samples, n_factors)
        True factors; constant ones are left out.
    z_hat : array of shape (n_samples, n_latents)
        Learned latents of the same rows.
    discrete : bool, list of bool, list of int or list of str, optional
        Which factors are discrete; detected by default.
    votes : tuple of two int
        Numbers of votes for training and for the test.
    batch_size : int
        Rows of a vote.
    prune : float
        Latents of a smaller standard deviation do not take part.
    bins : int, optional
        Quantile bins of continuous factors; by default as many as hold 64 rows each, from 2 to 20.
    min_group : int
        Values in fewer rows are never fixed.
    shuffles, subsamples : int
        Row shuffles for the chance level and half-samples for the standard error; 0: not measured.
    ceiling : bool
        Also score the true factors, none of them pruned.
    random_state : int, Generator or None
        Seed of votes, shuffles and subsamples.

    Returns
    -------
    FactorVAEScore

    Examples
    --------
    >>> z = np.stack(np.meshgrid(range(4), range(4), range(4)), axis=-1).reshape(64, 3)
    >>> found = factor_vae_score(z, -2.0 * z[:, [2, 0, 1]], votes=(300, 100))
    >>> found.score, found.named.tolist()
    (1.0, [2, 0, 1])
    """
    seed = seeds.seed_of(random_state)
    factors = factors_of(z, discrete)
    truth, latents = pair(factors, z_hat)
    two = isinstance(votes, tuple | list) and len(votes) == 2
    checks.require(two, "votes must be two numbers, for training and for the test.", repr(votes))
    votes = tuple(checks.count(number, "The number of votes") for number in votes)
    batch_size = checks.count(batch_size, "batch_size", minimum=2)
    prune = checks.number(prune, "prune", minimum=0)
    fixed = fixed_factors(factors, bins=bins, min_group=min_group)
    groups = fixed.groups.astype(np.float64)

    def measure(groups: np.ndarray, latents: np.ndarray, prune: float = prune) -> FactorVAEScore:
        return _score(replace(fixed, groups=groups.astype(np.int64)), latents, prune, (votes, batch_size, seed))

    record = evaluate(measure, groups, latents, shuffles=shuffles, subsamples=subsamples, seed=seed)
    top = measure(groups, truth, 0.0).score if ceiling else None
    return replace(record, ceiling=top, kinds=str(factors))


def _count_votes(
    fixed: FixedFactors, latents: np.ndarray, votes: tuple[int, ...], batch_size: int, seed: int
) -> list[np.ndarray]:
    """Training and test votes, counted (latent, factor)."""
    shape, tables = (latents.shape[1], len(fixed.used)), []
    for purpose, number in zip(("training votes", "test votes"), votes, strict=True):
        factor, rows = fixed.draw(number, batch_size, seeds.numpy_generator(seed, purpose))
        cells = np.ravel_multi_index((least_variable(latents, rows), factor), shape)
        tables.append(np.bincount(cells, minlength=shape[0] * shape[1]).reshape(shape))
    return tables


def least_variable(
    latents: Float[np.ndarray, "batch latent"], rows: Int[np.ndarray, "votes rows"]
) -> Int[np.ndarray, " votes"]:
    """The latent of smallest variance among the rows of each vote, the first of equals; invariant to shifts.

    Examples
    --------
    >>> least_variable(np.array([[0.0, 0], [4, 1], [4, 2]]), np.array([[0, 1, 2], [1, 2, 2]])).tolist()
    [1, 0]
    """
    size, latent = rows.shape[1], np.empty(len(rows), dtype=np.int64)
    step, ones = max(1, CHUNK // (size * latents.shape[1])), np.ones(size)
    for begin in range(0, len(rows), step):
        batch = np.take(latents, rows[begin : begin + step], axis=0)
        batch -= batch[:, :1].copy()  # equal values have variance 0 without rounding
        total = ones @ batch
        batch *= batch
        latent[begin : begin + step] = np.argmin(ones @ batch - total**2 / size, axis=1)
    return latent


def accuracy(votes: Int[np.ndarray, "latent factor"], named: Int[np.ndarray, " latent"]) -> float:
    """The share of votes for the factor that their latent names (−1: none); 0 without latents.

    >>> accuracy(np.array([[3, 1], [2, 2]]), np.array([0, -1]))
    0.375
    """
    names = named >= 0
    return float(votes[names, named[names]].sum() / max(votes.sum(), 1))


def _score(fixed: FixedFactors, latents: np.ndarray, prune: float, voting: tuple[Any, int, int]) -> FactorVAEScore:
    largest = np.abs(latents).max(axis=0)
    unit = latents / np.where(largest > 0, largest, 1)  # any unit of measurement: squares stay in range
    spread = np.where(np.ptp(unit, axis=0) > 0, unit.std(axis=0, ddof=1), 0)
    pruned = (spread > 0) & (spread * largest < prune)
    active = np.flatnonzero((spread > 0) & ~pruned)
    nobody = np.zeros((0, len(fixed.used)), dtype=np.int64)
    training, test = _count_votes(fixed, unit[:, active] / spread[active], *voting) if len(active) else (nobody, nobody)
    named = np.where(training.sum(axis=1) > 0, training.argmax(axis=1), -1)
    used = np.array(fixed.used)
    return FactorVAEScore(
        score=accuracy(test, named),
        train_accuracy=accuracy(training, named),
        votes=training,
        active=active,
        factors=used,
        named=np.where(named < 0, -1, used[named]),
        kinds="",
        notes=fixed.notes + _notes(fixed, voting[1], active, np.flatnonzero(pruned), prune),
        rows=len(latents),
        forgives=Ambiguity("permutation+scaling"),
    )


def _notes(fixed: FixedFactors, batch_size: int, active: np.ndarray, pruned: np.ndarray, prune: float) -> tuple:
    """Sentences on rows that repeat, pruned latents, and scores that are what they are by definition."""
    small, n = fixed.smallest < batch_size, fixed.smallest
    notes = {
        f"Groups of {n} rows or more give batches of {batch_size}: rows repeat, votes are noisier.": small,
        f"Pruned, as their standard deviation is below {prune:g} in their own unit: "
        f"latents {checks.listed(pruned + 1)}.": len(pruned) > 0,
        "No latent is active: the score is 0 by definition.": len(active) == 0,
        "Only one factor can be fixed: every vote is right, and the score is 1 by definition.": len(fixed.used) == 1
        and len(active) > 0,
    }
    return tuple(sentence for sentence, holds in notes.items() if holds)
