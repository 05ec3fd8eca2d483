"""Block R²: which block of true latents each learned latent, or each learned block, is a function of.

Latents that always move together cannot be told apart, but their block can be told from the others: every learned
latent should be explained by one block and by no other. With ``learned_blocks`` every true block is predicted from
every learned block, blocks are matched one to one, and each true block should be explained by its partner alone.

References
----------
Xu et al. (2026), "Identifiability of Potentially Degenerate Gaussian Mixture Models With Piecewise
Affine Mixing", section E.5; von Kügelgen et al. (2021), "Self-Supervised Learning with Data Augmentations Provably
Isolates Content from Style", for a target block from a learned block.

Deviations: scored on held-out rows; the best other block is reported beside.
"""

from __future__ import annotations

from collections import namedtuple
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from jaxtyping import Float, Int

from noumena import checks, seeds
from noumena.ambiguity import Ambiguity
from noumena.deprecated import renamed
from noumena.metrics import factors
from noumena.metrics.correlation import TIED, affordable
from noumena.metrics.preprocessing import in_range, slices, split_rows
from noumena.metrics.record import MetricRecord, ScoreClaim, evaluate
from noumena.metrics.regression import CHANCE_DRAWS, REGRESSORS, explained, work

Sizes = tuple[int, ...]


BlockParts = namedtuple("BlockParts", "score leakage")


@dataclass(frozen=True, kw_only=True)
class BlockRegression(MetricRecord):
    """Result of ``block_r2``.

    Attributes
    ----------
    score : float
        Mean over learned latents of the best block's R²; with learned blocks, over true blocks of the partner's.
    leakage : float
        The same mean of the best other block's R²; 0 where there is no other.
    matrix : array of shape (n_learned, n_blocks)
        R² of every learned latent, or block, with every true block.
    partner : array of shape (n_learned,)
        The true block of every learned latent, or block; −1: none.
    rows, shuffles : int
        Rows scored on, and shuffles behind the chance level.
    held_out, learned_blocks, method
        How the regressions were fitted and scored.
    """

    PARTS: ClassVar[Any] = BlockParts

    score: float
    leakage: float
    matrix: np.ndarray
    partner: np.ndarray
    rows: int
    held_out: bool
    learned_blocks: Sizes | None
    method: str
    shuffles: int = 0

    @property
    def claims(self) -> tuple[ScoreClaim, ...]:
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
            ScoreClaim("score", "Block R²", (-np.inf, 1.0), self.forgives, known),
            ScoreClaim("leakage", "Block R², other blocks", (-np.inf, 1.0), self.forgives, spilt, best=0.0),
        )


@renamed(seed="random_state", bootstrap="subsamples")
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
    subsamples: int = 0,
    random_state: Any = 0,
) -> BlockRegression:
    """R² of every learned latent regressed on every block of true latents, or of every true on every learned block.

    A learned latent that is constant on the held-out rows counts 0, a constant true latent explains nothing, and a true
    block without a partner scores 0.

    Parameters
    ----------
    z, z_hat : array of shape (n_samples, n_latents)
        True and learned latents of the same rows.
    blocks : int or sequence of int
        Number of equal blocks of true latents, or their sizes.
    learned_blocks : int or sequence of int, optional
        The same for learned latents; by default every learned latent is regressed by itself.
    regressor : {"linear", "kernel"}
        Least squares, or kernel ridge regression.
    held_out : bool
        Score on a fifth of the rows that the regression was not fitted on.
    shuffles, subsamples : int
        Row shuffles for the chance level and half-samples for the standard error; 0: not measured.
    ceiling : bool
        Also score ``z`` in place of ``z_hat``.
    random_state : int, Generator or None
        Seed of splits, shuffles and subsamples.

    Returns
    -------
    BlockRegression

    Examples
    --------
    >>> z = np.random.default_rng(0).normal(size=(400, 3))
    >>> block_r2(z, np.column_stack([z[:, 2], z[:, 0] - z[:, 1]]), (2, 1)).partner.tolist()
    [1, 0]
    >>> block_r2(z, z[:, [2, 0, 1]], (2, 1), learned_blocks=(1, 2)).matrix.round(1).tolist()
    [[-0.0, 1.0], [1.0, -0.0]]
    """
    seed = seeds.seed_of(random_state)
    checks.one_of(regressor, "regressor", REGRESSORS)
    z, z_hat = map(in_range, factors.pair(z, z_hat))
    true = checks.slots(blocks, z.shape[1])
    learned = None if learned_blocks is None else checks.slots(learned_blocks, z_hat.shape[1])
    shuffles = affordable(shuffles, work(z, z_hat, regressor))

    def measure(a: np.ndarray, b: np.ndarray, learned: Sizes | None = learned) -> BlockRegression:
        """The score of latents in the place of the learned ones."""
        rows = split_rows(seeds.numpy_generator(seed, "rows of block r2").permutation(len(a)), held_out)
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

    record = evaluate(measure, z, z_hat, subsamples=subsamples, seed=seed)
    return replace(record, ceiling=measure(z, z, None if learned is None else true).value) if ceiling else record


def _forgiven(true: Sizes, regressor: str) -> Ambiguity:
    """Maps within blocks for the kernel; of those the linear regression forgives only affine ones, and among the named
    groups it contains permutation with scaling."""
    if regressor == "linear":
        return Ambiguity("permutation+scaling")
    return Ambiguity("block-wise", tuple(tuple(range(p.start, p.stop)) for p in slices(true)))


def _matrices(
    z: np.ndarray, z_hat: np.ndarray, sizes: tuple[Sizes, Sizes | None], rows: Any, settings: dict[str, Any]
) -> tuple[Float[np.ndarray, "copy learned true"], str]:
    """R² of (learned latent or block, true block), then that of copies with shuffled rows; and how it was fitted."""
    true, learned = sizes
    if learned is None:
        fits = [explained(z[:, part], z_hat, rows, **settings) for part in slices(true)]
        return np.stack([copies for copies, _ in fits], axis=2), fits[0][1]
    fits = [explained(z_hat[:, part], z, rows, **settings) for part in slices(learned)]
    means = [np.stack([copies[:, part].mean(axis=1) for part in slices(true)], axis=1) for copies, _ in fits]
    return np.stack(means, axis=1), fits[0][1]


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
