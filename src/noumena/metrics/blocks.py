"""Block R²: which block of true latents each learned latent is a function of, or which learned block knows it.

Latents that always move together cannot be told apart, but their block can be told from the others: every learned
latent should then be explained by one block and by no other. With ``learned_blocks``, the other way round: every true
block is predicted from every learned block, blocks are matched one to one, and each true block should be explained by
its partner and by no other.

Reference: Xu et al. (2026), section E.5; von Kügelgen et al. (2021), "Self-Supervised Learning with Data Augmentations
Provably Isolates Content from Style" for a target block from a learned block.
Deviations: judged on held-out rows; the best other block is reported beside.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple

import numpy as np
from jaxtyping import Float, Int

from noumena import checks, seeds
from noumena.ambiguity import Ambiguity
from noumena.deprecated import renamed
from noumena.metrics import factors
from noumena.metrics.correlation import TIED, affordable
from noumena.metrics.record import Claim, Record, surrounded
from noumena.metrics.regression import CHANCE_DRAWS, REGRESSORS, explained, split, work

Sizes = tuple[int, ...]


class BlockParts(NamedTuple):
    """The two numbers of a block R²."""

    score: Any
    leakage: Any


@dataclass(frozen=True, kw_only=True)
class BlockRegression(Record):
    """R² per learned latent or block (rows) and true block (columns), the true block of each row (−1: none), rows
    scored on, how the regressions were fitted, and shuffles behind the chance."""

    PARTS: ClassVar[Any] = BlockParts

    score: float
    """Mean over learned latents of the best block's R²; with learned blocks, mean over true blocks of the partner's."""
    leakage: float
    """The same mean of the best other block's R²; 0 when there is no other."""
    matrix: np.ndarray
    partner: np.ndarray
    rows: int
    held_out: bool
    learned_blocks: Sizes | None
    method: str
    shuffles: int = 0

    @property
    def claims(self) -> tuple[Claim, ...]:
        """What the score and the leakage are."""
        known, spilt = (
            (
                "Each learned latent is a function of one true block; whether every block has a learned latent, and "
                "what happens inside a block, is not tested.",
                "Low: no other true block explains a learned latent; dependent true blocks raise it without any fault.",
            )
            if self.learned_blocks is None
            else (
                "Each true block can be read from a learned block of its own, in whatever form inside; what else that "
                "learned block holds is not tested.",
                "Low: no other learned block knows a true block; dependent true blocks raise it without any fault.",
            )
        )
        return (
            Claim("score", "Block R²", (-np.inf, 1.0), self.forgives, known),
            Claim("leakage", "Block R², other blocks", (-np.inf, 1.0), self.forgives, spilt, best=0.0),
        )


@renamed(seed="random_state")
def block_r2(
    z: Any,
    z_hat: Any,
    blocks: Any,
    *,
    learned_blocks: Any = None,
    regressor: str = "linear",
    held_out: bool = True,
    shuffles: int = CHANCE_DRAWS,
    ceiling: bool = False,
    bootstrap: int = 0,
    random_state: Any = 0,
) -> BlockRegression:
    """R² of the regression of every learned latent on every block of true latents.

    ``blocks`` are sizes of consecutive blocks, or the number of equal ones. A learned latent that is constant on the
    rows judged counts 0 in the mean, and a constant true latent explains nothing.
    ``learned_blocks``, given likewise, turns it round: every true block from every learned block, averaged over the
    latents of the true block, of which a constant one counts 0; partners are one to one, and a true block without one
    scores 0.

    >>> z = np.random.default_rng(0).normal(size=(400, 3))
    >>> block_r2(z, np.column_stack([z[:, 2], z[:, 0] - z[:, 1]]), (2, 1)).partner.tolist()
    [1, 0]
    >>> block_r2(z, z[:, [2, 0, 1]], (2, 1), learned_blocks=(1, 2)).matrix.round(1).tolist()
    [[-0.0, 1.0], [1.0, -0.0]]
    """
    seed = seeds.seed_of(random_state)
    checks.one_of(regressor, "regressor", REGRESSORS)
    z, z_hat = map(factors.in_range, factors.pair(z, z_hat))
    true = checks.slots(blocks, z.shape[1])
    learned = None if learned_blocks is None else checks.slots(learned_blocks, z_hat.shape[1])
    shuffles = affordable(shuffles, work(z, z_hat, regressor))

    def measure(a: np.ndarray, b: np.ndarray, learned: Sizes | None = learned) -> BlockRegression:
        """The score of latents in the place of the learned ones."""
        rows = split(len(a), held_out, seed, "rows of block r2")
        drawn = shuffles if b is z_hat else 0  # chance is that of all rows, not of their halves
        settings = {"regressor": regressor, "shuffles": drawn, "seed": seed}
        copies, method = _matrices(a, b, (true, learned), rows, settings)
        levels = [_judged(matrix, learned is not None) for matrix in copies]
        (score, leakage), partner = levels[0]
        chance = BlockParts(*np.mean([parts for parts, _ in levels[1:]], axis=0).tolist()) if drawn else None
        return BlockRegression(
            score=score,
            leakage=leakage,
            matrix=copies[0],
            partner=partner,
            rows=len(rows[1]),
            held_out=held_out,
            learned_blocks=learned,
            method=method,
            shuffles=drawn,
            chance=chance,
            forgives=_forgiven(true, regressor),
        )

    found = surrounded(measure, z, z_hat, bootstrap=bootstrap, seed=seed)
    return replace(found, ceiling=measure(z, z, None if learned is None else true).value) if ceiling else found


def _forgiven(true: Sizes, regressor: str) -> Ambiguity:
    """Maps within blocks for the kernel; of those the linear regression forgives only affine ones, and among the named
    groups it contains permutation with scaling."""
    if regressor == "linear":
        return Ambiguity("permutation+scaling")
    return Ambiguity("block-wise", tuple(tuple(range(p.start, p.stop)) for p in _parts(true)))


def _matrices(
    z: np.ndarray, z_hat: np.ndarray, sizes: tuple[Sizes, Sizes | None], rows: Any, settings: dict[str, Any]
) -> tuple[Float[np.ndarray, "copy learned true"], str]:
    """R² of (learned latent or block, true block), then that of copies with shuffled rows; and how it was fitted."""
    true, learned = sizes
    if learned is None:
        fits = [explained(z[:, part], z_hat, rows, **settings) for part in _parts(true)]
        return np.stack([copies for copies, _ in fits], axis=2), fits[0][1]
    fits = [explained(z_hat[:, part], z, rows, **settings) for part in _parts(learned)]
    means = [np.stack([copies[:, part].mean(axis=1) for part in _parts(true)], axis=1) for copies, _ in fits]
    return np.stack(means, axis=1), fits[0][1]


def _parts(sizes: Sizes) -> list[slice]:
    ends = np.cumsum(sizes).tolist()
    return [slice(end - size, end) for end, size in zip(ends, sizes, strict=True)]


def _judged(
    matrix: Float[np.ndarray, "learned true"], one_to_one: bool
) -> tuple[tuple[float, float], Int[np.ndarray, " learned"]]:
    """Score and leakage, and the true block of every row."""
    if not one_to_one:
        ranked = np.sort(matrix, axis=1)
        leakage = float(ranked[:, -2].mean()) if matrix.shape[1] > 1 else 0.0
        return (float(ranked[:, -1].mean()), leakage), matrix.argmax(axis=1)
    from scipy.optimize import linear_sum_assignment

    learned, true = linear_sum_assignment(matrix.round(TIED), maximize=True)
    partner, others = np.full(len(matrix), -1), matrix.copy()
    partner[learned], others[learned, true] = true, -np.inf
    best = others.max(axis=0)
    score = float(matrix[learned, true].sum() / matrix.shape[1])
    return (score, float(np.where(np.isfinite(best), best, 0).mean())), partner
