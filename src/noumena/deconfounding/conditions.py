"""Conditions: base features, whitened principal components, and two rotations of those, by ICA and at random.

ICA and the random rotations have exactly the span and the covariance of the whitened components, so that a difference
between them is one of axes alone. Nothing here sees a label.

References
----------
Nelson et al. (2026), "Statistical and structural identifiability in representation learning", section 4.4.

Deviations: components are found on the training batches alone (the paper: on all rows, ``transductive``); features are
standardised first (the paper: not); and no more components are kept than explain 99 % of the variance or than a fifth
of the rows (the paper: all).
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

from noumena import checks, seeds

CONDITIONS = ("base", "pca", "ica", "random")
EXPLAINED, ROWS_PER_COMPONENT = 0.99, 5
_ROUNDING = 1e-6


@dataclass(frozen=True)
class Whitening:
    """An affine map to uncorrelated components of variance one, and why there are so many of them."""

    kept: np.ndarray
    mean: np.ndarray
    matrix: np.ndarray
    reason: str

    def __call__(self, x: np.ndarray) -> np.ndarray:
        """The components (rows, component) of a table."""
        return (x[:, self.kept] - self.mean) @ self.matrix


def whitening(
    x: Float[np.ndarray, "row feature"], *, n_components: int | float | str | None = None, standardise: bool = True
) -> Whitening:
    """Principal components of some rows, made white; constant features are left out.

    ``n_components`` is a number, a share of the variance to explain, ``"all"`` (to the rank), or ``None``: 99 % of
    the variance, at most one component for five rows.

    >>> found = whitening(np.array([[1.0, 5, 2], [2, 5, 1], [3, 5, 4], [4, 5, 3]]), n_components="all")
    >>> np.round(np.cov(found(np.array([[1.0, 5, 2], [2, 5, 1], [3, 5, 4], [4, 5, 3]])).T), 6).tolist()
    [[1.0, 0.0], [0.0, 1.0]]
    """
    varying = np.flatnonzero(np.ptp(x, axis=0) > 0)
    checks.require(varying.size > 0, "X must vary in some feature.", "constant features only")
    wide = x[:, varying].astype(np.float64)
    mean = wide.mean(axis=0)
    scale = wide.std(axis=0, ddof=1) if standardise else np.ones(varying.size)
    values, directions = np.linalg.svd((wide - mean) / scale, full_matrices=False)[1:]
    variances = values**2 / (len(x) - 1)
    rank = int(np.count_nonzero(values > _ROUNDING * values[0]))
    number, reason = components_kept(variances[:rank], len(x), n_components)
    matrix = directions[:number].T / scale[:, None] / np.sqrt(variances[:number])
    return Whitening(varying, mean, matrix, reason)


def components_kept(
    variances: Float[np.ndarray, " component"], rows: int, n_components: int | float | str | None
) -> tuple[int, str]:
    """How many components of falling variances to keep, and by which rule; no label takes part.

    >>> components_kept(np.array([98.0, 1.5, 0.5]), 100, None)
    (2, '99 % of the variance')
    """
    rank = len(variances)
    if n_components == "all":
        return rank, "all, to the rank"
    if isinstance(n_components, int | np.integer) and not isinstance(n_components, bool):
        asked = checks.count(n_components, "n_components")
        return (asked, "as asked") if asked <= rank else (rank, f"the rank; {asked} were asked for")
    share = EXPLAINED if n_components is None else checks.number(n_components, "n_components", minimum=0, maximum=1)
    explained = np.cumsum(variances) / variances.sum()
    number = min(int(np.searchsorted(explained, share - 1e-12)) + 1, rank)
    most = max(1, rows // ROWS_PER_COMPONENT)
    if n_components is None and number > most:
        return most, f"one for {ROWS_PER_COMPONENT} rows, {explained[most - 1]:.0%} of the variance"
    return number, f"{share:.0%}".replace("%", " %") + " of the variance"


def rotation(size: int, seed: int, *purpose: str | int) -> Float[np.ndarray, "component component"]:
    """An orthogonal matrix, uniform over all of them."""
    draw = seeds.numpy_generator(seed, "rotation", *purpose).normal(size=(size, size))
    q, r = np.linalg.qr(draw)
    return q * np.where(np.diag(r) < 0, -1.0, 1.0)


def unmixed(
    white: Float[np.ndarray, "row component"], fitted: Int[np.ndarray, " fit"], seed: int
) -> tuple[Float[np.ndarray, "row component"], bool]:
    """White components rotated by ICA, found on the rows ``fitted``; and whether it converged."""
    from sklearn.exceptions import ConvergenceWarning

    from noumena.estimators.ica.ica import ICA

    if white.shape[1] == 1:
        return white, True
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # told among the notes
        ica = ICA(whiten=False, random_state=seed).fit(white[fitted])
    return np.asarray(ica.transform(white), dtype=np.float64), bool(ica.converged_)


def centred(x: Float[np.ndarray, "row feature"], batch: Int[np.ndarray, " row"]) -> Float[np.ndarray, "row feature"]:
    """Every batch moved to mean zero; zero where a feature is constant within batches.

    >>> centred(np.array([[1.0], [3.0], [10.0]]), np.array([0, 0, 1])).tolist()
    [[-1.0], [1.0], [0.0]]
    """
    sums = np.zeros((int(batch.max()) + 1, x.shape[1]))
    np.add.at(sums, batch, x)
    return x - (sums / np.maximum(np.bincount(batch), 1)[:, None])[batch]
