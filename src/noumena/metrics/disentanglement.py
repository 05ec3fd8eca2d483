"""DCI: is a latent about one factor, is a factor held by one latent, and can the factors be read off at all?

Boosted trees predict every factor from all latents; the shares of importance R (latent, factor) say which latents they
look at. A latent is disentangled when its row has one entry, a factor complete when its column has one, and the
latents are informative when the predictions are right.

Reference: Eastwood and Williams (2018), "A framework for the quantitative evaluation of disentangled representations";
the settings and weights are those of the public code of Locatello et al. (2019), "Challenging common assumptions in
the unsupervised learning of disentangled representations".

**Deviations**. There all factors are classes and informativeness is the share of right answers; continuous factors
have R² in its place, counted 0 where it is below, and their trees are regressions. Latents weigh as their share of
all importance and factors as theirs, which is the same for all factors with any importance, as published. The public
code adds 1e-11 to R instead of counting ``0·log 0`` as 0, takes as important for everything what is important for
nothing, and divides by ``log 1`` for one factor or one latent; here what knows nothing scores 0, and one factor, or
one latent, leaves nothing to confuse and scores 1. Constant factors are left out. A class that occurs on held-out
rows only is answered wrongly. The public code draws training and test rows anew; here a fifth of the rows is held out.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, NamedTuple

import numpy as np
from jaxtyping import Float

from noumena import checks, seeds
from noumena.ambiguity import Ambiguity
from noumena.deprecated import renamed
from noumena.metrics.factors import factors_of, pair
from noumena.metrics.record import Claim, Record, surrounded
from noumena.metrics.trees import TREES, Rows, grow

HELD_OUT = 0.2


class Parts(NamedTuple):
    """Disentanglement, completeness and informativeness."""

    disentanglement: Any
    completeness: Any
    informativeness: Any


@dataclass(frozen=True, kw_only=True)
class DCI(Record):
    """Three scores in [0, 1] and what they are made of.

    ``importance`` is R (latent, factor), all of either; ``varying`` are the factors that vary, the others were left
    out. ``per_latent`` is the disentanglement of every latent and ``weights`` its share of all importance;
    ``per_factor`` is the completeness and ``per_factor_informativeness`` the informativeness of every varying factor.
    ``error`` is 1 − informativeness.
    """

    PARTS: ClassVar[Any] = Parts

    disentanglement: float
    completeness: float
    informativeness: float
    error: float
    importance: np.ndarray
    varying: np.ndarray
    per_latent: np.ndarray
    weights: np.ndarray
    per_factor: np.ndarray
    per_factor_informativeness: np.ndarray
    kinds: str
    trees: str
    rows: int
    held_out: bool

    @property
    def claims(self) -> tuple[Claim, ...]:
        """What each of the three numbers is."""
        alone, unit = Ambiguity("element-wise"), (0.0, 1.0)
        return (
            Claim("disentanglement", "DCI disentanglement", unit, alone, _ONE_FACTOR),
            Claim("completeness", "DCI completeness", unit, alone, _ONE_LATENT),
            Claim("informativeness", "DCI informativeness", unit, Ambiguity("any"), _READABLE),
        )


_ONE_FACTOR = (
    "Each latent the trees look at tells of one factor; "
    "whether a factor sits in one latent, or can be read off well, is not tested."
)
_ONE_LATENT = (
    "The trees read each factor off one latent; "
    "whether this latent tells of nothing else, or tells the factor well, is not tested."
)
_READABLE = (
    "All latents together predict the factors on the rows judged; "
    "whether any latent stands for one factor is not tested, since entangled latents predict as well."
)


@renamed(seed="random_state")
def dci(
    z: Any,
    z_hat: Any,
    *,
    discrete: Any = None,
    trees: str = "fast",
    held_out: bool = True,
    shuffles: int = 1,
    ceiling: bool = False,
    bootstrap: int = 0,
    random_state: Any = 0,
) -> DCI:
    """Disentanglement, completeness and informativeness of learned latents ``z_hat`` for the factors ``z``.

    Both are (batch, latent). ``discrete`` says which factors are classes (None: by their values); ``trees`` is "fast"
    or "reference", see ``noumena.metrics.trees``. Each of ``shuffles`` and ``bootstrap`` takes as long as the score.
    A constant factor is left out.

    >>> z = np.random.default_rng(0).normal(size=(400, 2))
    >>> print(dci(z, -z[:, ::-1], shuffles=0))
    DCI disentanglement 1.00, DCI completeness 1.00, DCI informativeness 1.00; forgives element-wise
    """
    seed = seeds.seed_of(random_state)
    checks.one_of(trees, "trees", TREES)
    factors = factors_of(z, discrete)
    values, z_hat = pair(factors, z_hat)
    kept = factors.varying
    measure = partial(
        _measured,
        varying=kept,
        discrete=tuple(factors.discrete[j] for j in kept),
        kinds=factors.told,
        trees=trees,
        held_out=held_out,
        seed=seed,
    )
    return surrounded(measure, values, z_hat, shuffles=shuffles, ceiling=ceiling, bootstrap=bootstrap, seed=seed)


def _measured(
    z: np.ndarray,
    z_hat: np.ndarray,
    *,
    varying: np.ndarray,
    discrete: tuple[bool, ...],
    kinds: str,
    trees: str,
    held_out: bool,
    seed: int,
) -> DCI:
    """The three scores; kinds and the factors that vary were found on all rows."""
    order = seeds.numpy_generator(seed, "rows of dci").permutation(len(z))
    n = max(2, round(HELD_OUT * len(z)))
    rows = Rows(order[n:], order[:n]) if held_out else Rows(order, order)
    z, importance = z[:, varying], np.zeros((z_hat.shape[1], z.shape[1]))
    grown = grow(z_hat, z, discrete, rows, trees=trees, seed=seed)
    importance[:, varying] = grown.importance
    known = np.array(
        [informed(z[rows.judge, j], grown.predicted[:, j], discrete=kind) for j, kind in enumerate(discrete)]
    )
    informativeness = float(known.mean()) if len(known) else 0.0
    return DCI(
        forgives=Ambiguity("element-wise"),
        disentanglement=disentanglement(grown.importance),
        completeness=completeness(grown.importance),
        informativeness=informativeness,
        error=1 - informativeness,
        importance=importance,
        varying=varying,
        per_latent=purity(grown.importance),
        weights=importance.sum(axis=1) / (importance.sum() or 1),
        per_factor=purity(grown.importance.T),
        per_factor_informativeness=known,
        kinds=kinds,
        trees=trees,
        rows=len(rows.judge),
        held_out=held_out,
    )


def purity(R: Float[np.ndarray, "row column"]) -> Float[np.ndarray, " row"]:
    """1 − H(row)/log(columns) of every row, normalised: 1 for one entry, 0 for equal entries or none; scale-free.

    A row of one column has nothing to confuse: 1 if it is positive.

    >>> purity(np.array([[2.0, 0], [3, 3], [0, 0]])).tolist()
    [1.0, 0.0, 0.0]
    >>> purity(np.array([[0.5], [0]])).tolist()
    [1.0, 0.0]
    """
    total = R.sum(axis=1, keepdims=True)
    share = np.divide(R, total, out=np.zeros(R.shape), where=total > 0)
    entropy = -(share * np.log(np.where(share > 0, share, 1))).sum(axis=1)
    pure = 1 - entropy / np.log(max(R.shape[1], 2))
    return np.where(total[:, 0] > 0, pure.clip(0, 1), 0.0)


def disentanglement(R: Float[np.ndarray, "latent factor"]) -> float:
    """Σ ρᵢ·(1 − H(row i)/log K), ρᵢ the share of latent i in all importance; 0 where nothing is important.

    Forgives permutations of latents and of factors, and latents split in two that keep the shape of their row.

    >>> disentanglement(np.array([[1.0, 0], [0, 1]])), disentanglement(np.array([[1.0, 1], [1, 1]]))
    (1.0, 0.0)
    >>> disentanglement(np.array([[0.5, 0], [0.5, 0], [0, 1]]))
    1.0
    """
    return _weighted(R)


def completeness(R: Float[np.ndarray, "latent factor"]) -> float:
    """Σ ρⱼ·(1 − H(column j)/log d), ρⱼ the share of factor j in all importance; 0 where nothing is important.

    Forgives permutations of latents and of factors, and latents that serve several factors.

    >>> completeness(np.array([[1.0, 1], [0, 0]])), completeness(np.array([[1.0, 1], [1, 1]]))
    (1.0, 0.0)
    >>> completeness(np.array([[1.0, 2], [1, 0]])) == 0.5
    True
    """
    return _weighted(R.T)


def _weighted(R: np.ndarray) -> float:
    total = R.sum()
    return float(purity(R) @ R.sum(axis=1) / total) if total > 0 else 0.0


def informed(values: Float[np.ndarray, " batch"], predicted: Float[np.ndarray, " batch"], *, discrete: bool) -> float:
    """Share of right answers for classes, R² for numbers: 1 is perfect, and below 0 counts 0.

    >>> informed(np.array([0.0, 1, 2, 1]), np.array([0.0, 1, 1, 1]), discrete=True)
    0.75
    >>> informed(np.array([0.0, 1, 2, 1]), np.array([0.0, 1, 1, 1]), discrete=False)
    0.5
    """
    if discrete:
        return float(np.mean(values == predicted))
    largest = np.abs(values).max() or 1.0
    values, predicted = values / largest, predicted / largest
    spread = values.var() if np.ptp(values) > 0 else 0.0
    return max(0.0, float(1 - ((values - predicted) ** 2).mean() / spread)) if spread > 0 else 0.0
