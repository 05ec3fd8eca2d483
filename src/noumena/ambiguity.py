"""Ambiguity: the group of maps up to which latents are identified, and alignment by its members.

A certificate concludes with an ``Ambiguity``; ``align(z, z_hat, up_to=ambiguity)`` removes it; a metric measures the
rest. Two chains order the groups::

    permutation ⊂ signed permutation ⊂ permutation+scaling ⊂ element-wise ⊂ block-wise ⊂ any
                  signed permutation ⊂ rigid ⊂ similarity ⊂ affine ⊂ affine within components ⊂ any

``permutation+scaling`` includes a shift per latent, ``rigid`` and above a translation.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from noumena import checks

GROUPS = (
    "permutation",
    "signed permutation",
    "permutation+scaling",
    "element-wise",
    "block-wise",
    "rigid",
    "similarity",
    "affine",
    "affine within components",
    "any",
)
_JUST_ABOVE = {
    "permutation": ("signed permutation",),
    "signed permutation": ("permutation+scaling", "rigid"),
    "permutation+scaling": ("element-wise", "affine"),
    "element-wise": ("block-wise",),
    "block-wise": ("any",),
    "rigid": ("similarity",),
    "similarity": ("affine",),
    "affine": ("affine within components",),
    "affine within components": ("any",),
    "any": (),
}

Blocks = tuple[tuple[int, ...], ...]


def _above(group: str) -> set[str]:
    """Every group that strictly contains this one."""
    return {above for g in _JUST_ABOVE[group] for above in {g} | _above(g)}


@dataclass(frozen=True)
class Ambiguity:
    """A group of maps between latent spaces; ``a <= b`` when every map of ``a`` is one of ``b``.

    Parameters
    ----------
    group : str
        One of ``noumena.ambiguity.GROUPS``.
    blocks : tuple of tuple of int
        Of ``"block-wise"``: the blocks of latents.

    Examples
    --------
    >>> Ambiguity("rigid") <= Ambiguity("affine"), Ambiguity("affine") <= Ambiguity("rigid")
    (True, False)
    """

    group: str
    blocks: Blocks = ()

    def __post_init__(self) -> None:
        checks.one_of(self.group, "An ambiguity's group", GROUPS)

    def __le__(self, other: Ambiguity) -> bool:
        if self.group == other.group:
            return self._finer(other)
        return other.group in _above(self.group)

    def _finer(self, other: Ambiguity) -> bool:
        if not other.blocks:  # no blocks named: one block of everything
            return True
        return bool(self.blocks) and all(any(set(b) <= set(c) for c in other.blocks) for b in self.blocks)

    def __str__(self) -> str:
        return self.named(())

    def named(self, latents: Sequence[str]) -> str:
        """The group in words, its blocks by the names of latents; those without one are z1, z2, …

        >>> Ambiguity("block-wise", ((0, 2), (1,))).named(("age", "mood", "dose"))
        'block-wise {age dose | mood}'
        """
        if not self.blocks:
            return self.group
        most = max(i for block in self.blocks for i in block)
        names = [_quoted(name) for name in latents] + [f"z{i + 1}" for i in range(len(latents), most + 1)]
        return "block-wise {" + " | ".join(" ".join(names[i] for i in block) for block in self.blocks) + "}"


def _quoted(name: str) -> str:
    """A name that would not read as one, in quotation marks."""
    return f"'{name}'" if any(sign.isspace() or sign in "|{}'" for sign in name) else name


@dataclass(frozen=True)
class Alignment:
    """Learned latents after the best map of a group, and what is left.

    Attributes
    ----------
    aligned : array of shape (n_samples, n_latents)
        The mapped latents.
    error : float
        Root mean square distance to the true latents over their root mean square spread.
    score : float
        ``1 − error²``, the share of variance explained: 1 is perfect, below 0 worse than the mean.
    permutation : array of shape (n_latents,) or None
        The learned latent of every true one, where the group matches them.
    up_to : Ambiguity
        The group.
    transform : callable
        Maps further learned latents by the same member of the group.
    """

    aligned: np.ndarray
    error: float
    score: float
    permutation: np.ndarray | None
    up_to: Ambiguity
    transform: Callable[[Any], np.ndarray]


def align(z: Any, z_hat: Any, *, up_to: str | Ambiguity = "permutation+scaling") -> Alignment:
    """Map ``z_hat`` onto ``z`` by the best member of a group.

    Parameters
    ----------
    z, z_hat : array of shape (n_samples, n_latents)
        True and learned latents of the same rows.
    up_to : str or Ambiguity
        The group.

    Returns
    -------
    Alignment

    Examples
    --------
    >>> z = np.array([[0.0, 1], [2, 0], [1, 5]])
    >>> align(z, -z[:, ::-1], up_to="signed permutation").error
    0.0
    """
    z, z_hat = checks.table(z, "z", min_rows=2), checks.table(z_hat, "z_hat", min_rows=2)
    z, z_hat = z.astype(np.float64), z_hat.astype(np.float64)
    checks.same_batch(z, z_hat)
    up_to = up_to if isinstance(up_to, Ambiguity) else Ambiguity(up_to)
    checks.require(up_to.group != "any", "align must have something left to measure.", "the group of any maps")
    checks.require(
        up_to.group != "affine within components",
        "align must be given the rows of one component at a time, up to 'affine'.",
        f"{up_to.group!r} for all rows",
    )
    if up_to.group in ("permutation", "signed permutation", "rigid", "similarity"):
        checks.require(
            z.shape[1] == z_hat.shape[1],
            f"z and z_hat must have equally many columns to align up to {up_to}.",
            f"{z.shape[1]} and {z_hat.shape[1]}",
        )
    transform, permutation = _FITS[up_to.group](z, z_hat, up_to)
    aligned = transform(z_hat)
    varies = bool(np.ptp(z, axis=0).any())
    spread = np.sqrt(((z - z.mean(axis=0)) ** 2).sum(axis=1).mean())
    residual = np.sqrt(((z - aligned) ** 2).sum(axis=1).mean())
    error = float(residual / spread) if varies else float(residual > 0)
    return Alignment(aligned, error, 1 - error**2, permutation, up_to, transform)


Fit = tuple[Callable[[Any], np.ndarray], np.ndarray | None]


def _assigned(cost: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Rows and columns of the cheapest assignment; scipy's solver is imported when something is aligned."""
    from scipy.optimize import linear_sum_assignment

    return linear_sum_assignment(cost)


def _permutation(z: np.ndarray, z_hat: np.ndarray, up_to: Ambiguity) -> Fit:
    plus = ((z[:, :, None] - z_hat[:, None, :]) ** 2).sum(axis=0)
    minus = ((z[:, :, None] + z_hat[:, None, :]) ** 2).sum(axis=0)
    cost = np.minimum(plus, minus) if up_to.group == "signed permutation" else plus
    _, permutation = _assigned(cost)
    chosen = (np.arange(z.shape[1]), permutation)
    signs = np.where((minus < plus)[chosen] & (up_to.group == "signed permutation"), -1.0, 1.0)
    return (lambda new: np.asarray(new)[:, permutation] * signs), permutation


def _scaling(z: np.ndarray, z_hat: np.ndarray, up_to: Ambiguity) -> tuple[Callable[[Any], np.ndarray], np.ndarray]:
    centred, centred_hat = z - z.mean(axis=0), z_hat - z_hat.mean(axis=0)
    cross = centred.T @ centred_hat
    power = (centred_hat**2).sum(axis=0)
    safe = np.where(power > 0, power, 1)
    explained = cross**2 / safe  # squared error removed by the best scale of each pair
    rows, columns = _assigned(-explained)
    permutation = np.full(z.shape[1], -1)
    permutation[rows] = columns
    slope = np.zeros(z.shape[1])
    slope[rows] = cross[rows, columns] / safe[columns]
    shift = z.mean(axis=0) - slope * z_hat.mean(axis=0)[permutation]
    return (lambda new: np.asarray(new)[:, permutation] * slope + shift), permutation


def _rigid(z: np.ndarray, z_hat: np.ndarray, up_to: Ambiguity) -> Fit:
    from scipy.linalg import orthogonal_procrustes

    mean, mean_hat = z.mean(axis=0), z_hat.mean(axis=0)
    rotation, shared = orthogonal_procrustes(z_hat - mean_hat, z - mean)
    power = float(((z_hat - mean_hat) ** 2).sum())
    scale = shared / power if up_to.group == "similarity" and power > 0 else 1.0
    return (lambda new: scale * (np.asarray(new) - mean_hat) @ rotation + mean), None


def _affine(z: np.ndarray, z_hat: np.ndarray, up_to: Ambiguity) -> Fit:
    matrix, mean, mean_hat = _least_squares(z, z_hat)
    return (lambda new: (np.asarray(new) - mean_hat) @ matrix + mean), None


def _least_squares(z: np.ndarray, z_hat: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    mean, mean_hat = z.mean(axis=0), z_hat.mean(axis=0)
    matrix, *_ = np.linalg.lstsq(z_hat - mean_hat, z - mean, rcond=None)
    return matrix, mean, mean_hat


MOST_ROWS = 2000
"""Most rows of a kernel regression."""


def kernel_map(source: np.ndarray, target: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
    """Kernel ridge regression from ``source`` to ``target``: RBF, α = 1, γ = 1/d, standardised, ``MOST_ROWS`` rows."""
    from sklearn.kernel_ridge import KernelRidge
    from sklearn.preprocessing import StandardScaler

    inputs, outputs = StandardScaler().fit(source), StandardScaler().fit(target)
    ridge = KernelRidge(alpha=1, kernel="rbf", gamma=1.0 / source.shape[1])
    rows = np.linspace(0, len(source) - 1, min(len(source), MOST_ROWS)).astype(int)
    ridge.fit(inputs.transform(source[rows]), outputs.transform(target[rows]))
    return lambda new: outputs.inverse_transform(ridge.predict(inputs.transform(new)))


def _smooth_map(source: np.ndarray, target: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
    """Of every target the best of three: an affine map, a kernel map, and a kernel map of normal scores.

    A ridge shrinks affine maps, and a kernel of one width underfits long tails. The kernel is not fitted to affine
    residuals, which would extrapolate without bound.
    """
    matrix, mean, mean_source = _least_squares(target, source)
    scores = _normal_scores(source)
    kernel, of_scores = kernel_map(source, target), kernel_map(scores(source), target)
    maps = (lambda new: (new - mean_source) @ matrix + mean, kernel, lambda new: of_scores(scores(new)))
    best = np.argmin([((target - function(source)) ** 2).sum(axis=0) for function in maps], axis=0)

    def transform(new: np.ndarray) -> np.ndarray:
        mapped = np.empty((len(new), len(best)))
        for k in np.unique(best):
            mapped[:, best == k] = maps[k](new)[:, best == k]
        return mapped

    return transform


def _normal_scores(columns: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
    """Gaussian quantiles of every value's mean rank, interpolated linearly and constant outside."""
    from scipy.special import ndtri

    tables = []
    for column in columns.T:
        values, counts = np.unique(column, return_counts=True)
        tables.append((values, ndtri((np.cumsum(counts) - counts / 2) / len(column))))
    return lambda new: np.stack([np.interp(c, *table) for c, table in zip(new.T, tables, strict=True)], axis=1)


Partners = tuple[tuple[tuple[int, ...], tuple[int, ...]], ...]
"""Blocks of latents, each with its columns of learned ones."""


def _blockwise(z: np.ndarray, z_hat: np.ndarray, up_to: Ambiguity) -> Fit:
    """Match columns by correlation of ranks, then map each block by one smooth function of its partners.

    Functions of single latents, matched by ranks or by lines, belong to the group as well and are taken where they
    leave less.
    """
    d = z.shape[1]
    single = tuple((j,) for j in range(d))
    blocks = up_to.blocks or (single if up_to.group == "element-wise" else (tuple(range(d)),))
    covered = sorted(j for b in blocks for j in b)
    checks.require(covered == list(range(d)), f"Blocks must partition the {d} latents.", f"{blocks}")
    strength = _strength(z, z_hat)
    matchings = ((blocks, _matched(strength, blocks)), (single, _matched(strength, single)))
    matchings += ((single, _scaling(z, z_hat, up_to)[1]),)
    candidates = {_partners(b, columns): columns for b, columns in matchings}
    fitted = cache(lambda block, learned: _smooth_map(z_hat[:, list(learned)], z[:, list(block)]))  # many are shared
    fits = [(_mapped(z.mean(axis=0), fitted, partners), columns) for partners, columns in candidates.items()]
    transform, columns = min(fits, key=lambda fit: ((z - fit[0](z_hat)) ** 2).sum())
    permutation = np.full(d, -1)
    for block, partners in _partners(blocks, columns):
        permutation[list(block)[: len(partners)]] = partners
    return transform, permutation


def _strength(z: np.ndarray, z_hat: np.ndarray) -> np.ndarray:
    """Absolute correlations of ranks, (true, learned)."""
    from scipy.stats import rankdata

    d = z.shape[1]
    with np.errstate(invalid="ignore", divide="ignore"):  # a constant column correlates with nothing
        ranks = np.corrcoef(rankdata(z, axis=0), rankdata(z_hat, axis=0), rowvar=False)[:d, d:]
    return np.nan_to_num(np.abs(ranks))


def _matched(strength: np.ndarray, blocks: Blocks) -> np.ndarray:
    """The learned column of every latent, by the largest strength within its block; −1: none."""
    latents = np.array([j for b in blocks for j in b])
    rows, columns = _assigned(-np.stack([strength[list(b)].max(axis=0) for b in blocks for _ in b]))
    partners = np.full(len(strength), -1)
    partners[latents[rows]] = columns
    return partners


def _partners(blocks: Blocks, columns: np.ndarray) -> Partners:
    return tuple((tuple(b), tuple(sorted(int(c) for c in columns[list(b)] if c >= 0))) for b in blocks)


def _mapped(mean: np.ndarray, fitted: Callable[..., Any], partners: Partners) -> Callable[[Any], np.ndarray]:
    """Every block by a smooth function of its partners, and by its mean where it has none."""
    maps = [(list(b), list(c), fitted(b, c)) for b, c in partners if c]

    def transform(new: Any) -> np.ndarray:
        aligned = np.tile(mean, (len(new), 1))
        for block, columns, function in maps:
            aligned[:, block] = function(np.asarray(new)[:, columns])
        return aligned

    return transform


_FITS: dict[str, Callable[[np.ndarray, np.ndarray, Ambiguity], Fit]] = {
    "permutation": _permutation,
    "signed permutation": _permutation,
    "permutation+scaling": _scaling,
    "element-wise": _blockwise,
    "block-wise": _blockwise,
    "rigid": _rigid,
    "similarity": _rigid,
    "affine": _affine,
}
