"""FactorVAE score: fix one factor, see which latent varies least, and ask whether that latent tells the factor.

Reference: Kim and Mnih (2018), *Disentangling by factorising*, and its public code. A vote fixes one factor in a batch
of 64 rows; the latent with the smallest variance there, relative to its variance in all rows, gets the vote. Training
votes give each latent the factor that it was voted for most often; the score is the accuracy of these names on test
votes. Latents of standard deviation below .05 are pruned, as latents of variational autoencoders without information
collapse to a constant; this depends on the unit of the latents, so rescale those of other models or set ``prune``.

**Deviations.** Rows come from a labelled sample (module ``fixed``). Variances of the representation are those of all
rows; the public code draws 10 000, which alone moves the score by some hundredths where two latents are equally still.
Constant latents are always dead: at the public default threshold of 0 they divide 0 by 0 and win every vote. A latent
without a training vote names nothing; publicly it names the first factor. The number of active latents counts the
active ones; publicly all. Votes for training and for the test share the groups of rows: in small groups the same latent
is still by luck in both, and the level of chance lies above 1/K.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from noumena import checks, seeds
from noumena.ambiguity import Ambiguity
from noumena.deprecated import renamed
from noumena.metrics.factors import factors_of, pair
from noumena.metrics.fixed import MIN_GROUP, FixedFactors, fixed_factors
from noumena.metrics.record import Claim, Record, surrounded

CHUNK = 2**17
"""Numbers that are looked at together; they fit a processor's cache."""
SUPPORTS = (
    "Each factor has a latent that it moves more than the other factors do; it does not "
    "support that the latent holds this factor alone or all of it, as some mixing and noise go unnoticed, "
    "and latents scaled below the threshold of pruning are not asked."
)


@dataclass(frozen=True, kw_only=True, eq=False)
class FactorVAEScore(Record):
    """The share of test votes whose latent names the fixed factor, and the training votes behind it.

    ``votes`` counts training votes (active latent, factor in use); ``active`` and ``factors`` say which columns of
    ``z_hat`` and ``z`` these are; ``named`` is the column of ``z`` that each active latent names (−1: none).
    """

    score: float
    train_accuracy: float
    votes: Int[np.ndarray, "active factor"]
    active: Int[np.ndarray, " active"]
    factors: Int[np.ndarray, " factor"]
    named: Int[np.ndarray, " active"]
    kinds: str
    notes: tuple[str, ...]
    rows: int

    @property
    def claims(self) -> tuple[Claim, ...]:
        """What the score is."""
        return (Claim("score", "FactorVAE score", (0.0, 1.0), self.forgives, SUPPORTS),)


@renamed(seed="random_state")
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
    bootstrap: int = 0,
    random_state: Any = 0,
) -> FactorVAEScore:
    """FactorVAE score of learned latents ``z_hat`` (batch, latent) for the factors ``z`` (batch, factor).

    ``votes`` are the numbers for training and for the test. Continuous factors are cut into ``bins`` quantile bins;
    values in fewer than ``min_group`` rows are never fixed. The ceiling is the score of the true factors, none of them
    pruned. With one factor the score is 1 whatever is learned, and so is the level of chance. A constant factor is
    left out.

    >>> z = np.stack(np.meshgrid(range(4), range(4), range(4)), axis=-1).reshape(64, 3)
    >>> found = factor_vae_score(z, -2.0 * z[:, [2, 0, 1]], votes=(300, 100))
    >>> found.score, found.named.tolist()
    (1.0, [2, 0, 1])
    """
    seed = seeds.seed_of(random_state)
    factors = factors_of(z, discrete)
    truth, latents = pair(factors, z_hat)
    protocol = _Protocol.of(votes, batch_size, seed)
    prune = checks.number(prune, "prune", minimum=0)
    fixed = fixed_factors(factors, bins=bins, min_group=min_group)
    groups = fixed.groups.astype(np.float64)

    def measure(groups: np.ndarray, latents: np.ndarray, prune: float = prune) -> FactorVAEScore:
        return _score(replace(fixed, groups=groups.astype(np.int64)), latents, prune, protocol)

    found = surrounded(measure, groups, latents, shuffles=shuffles, bootstrap=bootstrap, seed=seed)
    top = measure(groups, truth, 0.0).score if ceiling else None
    return replace(found, ceiling=top, kinds=str(factors))


@dataclass(frozen=True)
class _Protocol:
    """How many votes of how many rows, and from which seed."""

    votes: tuple[int, int]
    batch_size: int
    seed: int

    @classmethod
    def of(cls, votes: Any, batch_size: Any, seed: Any) -> _Protocol:
        two = isinstance(votes, tuple | list) and len(votes) == 2
        checks.require(two, "votes must be two numbers, for training and for the test.", repr(votes))
        training, test = (checks.count(number, "The number of votes") for number in votes)
        size = checks.count(batch_size, "batch_size", minimum=2)
        return cls((training, test), size, checks.count(seed, "seed", minimum=0))

    def tables(self, fixed: FixedFactors, latents: np.ndarray) -> list[np.ndarray]:
        """Training and test votes, counted (latent, factor)."""
        shape, found = (latents.shape[1], len(fixed.used)), []
        for purpose, number in zip(("training votes", "test votes"), self.votes, strict=True):
            factor, rows = fixed.draw(number, self.batch_size, seeds.numpy_generator(self.seed, purpose))
            cells = np.ravel_multi_index((stillest(latents, rows), factor), shape)
            found.append(np.bincount(cells, minlength=shape[0] * shape[1]).reshape(shape))
        return found


def stillest(
    latents: Float[np.ndarray, "batch latent"], rows: Int[np.ndarray, "votes rows"]
) -> Int[np.ndarray, " votes"]:
    """The latent of smallest variance among the rows of each vote, the first of equals; invariant to shifts.

    >>> stillest(np.array([[0.0, 0], [4, 1], [4, 2]]), np.array([[0, 1, 2], [1, 2, 2]])).tolist()
    [1, 0]
    """
    size, found = rows.shape[1], np.empty(len(rows), dtype=np.int64)
    step, ones = max(1, CHUNK // (size * latents.shape[1])), np.ones(size)
    for begin in range(0, len(rows), step):
        batch = np.take(latents, rows[begin : begin + step], axis=0)
        batch -= batch[:, :1].copy()  # equal values have variance 0 without rounding
        total = ones @ batch
        batch *= batch
        found[begin : begin + step] = np.argmin(ones @ batch - total**2 / size, axis=1)
    return found


def accuracy(votes: Int[np.ndarray, "latent factor"], named: Int[np.ndarray, " latent"]) -> float:
    """The share of votes for the factor that their latent names (−1: none); 0 without latents.

    >>> accuracy(np.array([[3, 1], [2, 2]]), np.array([0, -1]))
    0.375
    """
    names = named >= 0
    return float(votes[names, named[names]].sum() / max(votes.sum(), 1))


def _score(fixed: FixedFactors, latents: np.ndarray, prune: float, protocol: _Protocol) -> FactorVAEScore:
    largest = np.abs(latents).max(axis=0)
    unit = latents / np.where(largest > 0, largest, 1)  # any unit of measurement: squares stay in range
    spread = np.where(np.ptp(unit, axis=0) > 0, unit.std(axis=0, ddof=1), 0)
    pruned = (spread > 0) & (spread * largest < prune)
    active = np.flatnonzero((spread > 0) & ~pruned)
    training, test = protocol.tables(fixed, unit[:, active] / spread[active]) if len(active) else 2 * [_nothing(fixed)]
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
        notes=fixed.notes + _notes(fixed, protocol.batch_size, active, np.flatnonzero(pruned), prune),
        rows=len(latents),
        forgives=Ambiguity("permutation+scaling"),
    )


def _nothing(fixed: FixedFactors) -> np.ndarray:
    return np.zeros((0, len(fixed.used)), dtype=np.int64)


def _notes(fixed: FixedFactors, batch_size: int, active: np.ndarray, pruned: np.ndarray, prune: float) -> tuple:
    """Sentences on rows that repeat, pruned latents, and scores that are what they are by definition."""
    few = fixed.smallest < batch_size
    said = {
        f"Groups of {fixed.smallest} rows or more give batches of {batch_size}: rows repeat, votes are noisier.": few,
        f"Pruned, as their standard deviation is below {prune:g} in their own unit: "
        f"latents {checks.few(pruned + 1)}.": len(pruned) > 0,
        "No latent is active: the score is 0 by definition.": len(active) == 0,
        "Only one factor can be fixed: every vote is right, and the score is 1 by definition.": len(fixed.used) == 1
        and len(active) > 0,
    }
    return tuple(sentence for sentence, holds in said.items() if holds)
