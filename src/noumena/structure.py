"""Structure: which observation depends on which latent, and the set algebra of that support.

``S[i, j]`` is true when observation ``i`` depends on latent ``j`` somewhere: the support of the decoder's Jacobian.
``col(j)`` is the set of observations of latent ``j``; ``I_i`` the latents of observation ``i``.

References
----------
Zheng et al. (2026), "Diverse Dictionary Learning", Definitions 1–3. Renamed: ``I_K`` is ``S.of(*K)``.

Deviations: the closure ``cl(t) = {r : col(t) ⊆ col(r)}`` is an order on latents; what it guarantees is decided in
``guarantees``.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from noumena import checks
from noumena.checks import InputError

_ENTRIES = {"0": False, "0.0": False, "false": False, "1": True, "1.0": True, "true": True}
_CORNER = ("", "observed", "observation", "observations", "name", "names", "index", "unnamed: 0")

BELOW_PER_BORDERLINE = 6
"""Of so many entries below the threshold one may be near it, on either side."""
EXACT = 1e-9
"""Strengths below this are zeros."""
LARGEST_DISTANCE = 700.0
"""Upper bound of distances on a log scale, so that their exponentials are finite."""


@dataclass(frozen=True)
class LatentSet:
    """A set of latents by name; ``&``, ``|``, ``-``, ``^`` and ``~`` compose.

    Attributes
    ----------
    indices : frozenset of int
        The latents.
    universe : tuple of str
        Names of all latents.

    Examples
    --------
    >>> S = Structure([[1, 1, 0], [0, 1, 1]])
    >>> S.of("x1") & S.of("x2"), ~S.of("x1")
    (LatentSet(z2), LatentSet(z3))
    """

    indices: frozenset[int]
    universe: tuple[str, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """The latents' names, in order."""
        return tuple(self.universe[i] for i in sorted(self.indices))

    def _with(self, other: LatentSet, indices: Iterable[int]) -> LatentSet:
        must = "Sets of latents must come from one structure."
        checks.require(self.universe == other.universe, must, f"{self} and {other}")
        return LatentSet(frozenset(indices), self.universe)

    def __and__(self, other: LatentSet) -> LatentSet:
        return self._with(other, self.indices & other.indices)

    def __or__(self, other: LatentSet) -> LatentSet:
        return self._with(other, self.indices | other.indices)

    def __sub__(self, other: LatentSet) -> LatentSet:
        return self._with(other, self.indices - other.indices)

    def __xor__(self, other: LatentSet) -> LatentSet:
        return self._with(other, self.indices ^ other.indices)

    def __invert__(self) -> LatentSet:
        return LatentSet(frozenset(range(len(self.universe))) - self.indices, self.universe)

    def __iter__(self) -> Iterator[int]:
        return iter(sorted(self.indices))

    def __len__(self) -> int:
        return len(self.indices)

    def __contains__(self, latent: int | str) -> bool:
        return latent in (self.names if isinstance(latent, str) else self.indices)

    def __repr__(self) -> str:
        return f"LatentSet({', '.join(self.names)})"


@dataclass(frozen=True)
class Evidence:
    """Why an estimated structure looks as it does.

    Attributes
    ----------
    strength : array of shape (n_observed, n_latents)
        Strength of every dependency.
    threshold : float
        Above it an entry is a dependency.
    """

    strength: np.ndarray
    threshold: float

    @property
    def margin(self) -> float:
        """Distance of the nearest entry from the threshold, as a factor ≥ 1; near 1 means fragile."""
        return float(np.exp(self._distance.min()))

    @property
    def below(self) -> int:
        """How many entries count as no dependency."""
        return int((self.strength <= self.threshold).sum())

    @property
    def parts(self) -> bool:
        """Whether the threshold separates strong entries from weak ones: fewer are near it than are exactly zero, or
        than one in ``BELOW_PER_BORDERLINE`` of those below it. Strengths of a dense decoder fill any gap.

        >>> Evidence(np.array([[1.0, 0.9, 0.8, 0.01, 0.001]]), 0.1).parts
        True
        >>> Evidence(np.arange(1, 100)[None] / 100, 0.1).parts
        False
        """
        borderline = len(self.borderline())
        return BELOW_PER_BORDERLINE * borderline < self.below or borderline <= int((self.strength < EXACT).sum())

    def borderline(self, factor: float = 1.5) -> list[tuple[int, int]]:
        """Entries within ``factor`` of the threshold, either side: those that could flip."""
        return [(int(i), int(j)) for i, j in np.argwhere(self._distance < np.log(factor))]

    @property
    def _distance(self) -> np.ndarray:
        """Distance of every entry from the threshold, on a log scale; an exact zero is far from any threshold."""
        tiny = np.finfo(float).tiny
        distance = np.abs(np.log(np.maximum(self.strength, tiny)) - np.log(max(self.threshold, tiny)))
        return np.where(self.strength == 0, LARGEST_DISTANCE, np.minimum(distance, LARGEST_DISTANCE))


@dataclass(frozen=True)
class Matching:
    """The columns of one structure matched to another's.

    Attributes
    ----------
    permutation : array of shape (n_latents,)
        For each latent here, the matched latent there; −1: none.
    missing, extra : int
        Dependencies that are missing there, and that are only there.
    f1 : float
        F1 of the dependencies.
    """

    permutation: np.ndarray
    missing: int
    extra: int
    f1: float

    @property
    def hamming(self) -> int:
        """Entries that differ after matching."""
        return self.missing + self.extra


def widest_gap(strength: np.ndarray, *, lowest: float = 0.03, highest: float = 0.2) -> float:
    """Threshold through the widest gap, on a log scale, of the sorted strengths between two bounds.

    Examples
    --------
    >>> round(widest_gap(np.array([0.9, 0.8, 0.5, 0.02, 0.001])), 2)
    0.08
    """
    inside = np.sort(strength[(strength > lowest) & (strength < highest)])
    edges = np.concatenate([[lowest], inside, [highest]])
    widest = int(np.argmax(np.diff(np.log(edges))))
    return float(np.sqrt(edges[widest] * edges[widest + 1]))


class Structure:
    """A support matrix with names; see also ``Structure.from_csv`` and ``Structure.from_decoder``.

    Parameters
    ----------
    support : array, scipy sparse matrix or DataFrame of shape (n_observed, n_latents)
        Entries 0 and 1; names of a frame are kept.
    observed, latent : iterable of str, optional
        Names; x1, x2, … and z1, z2, … by default.
    evidence : Evidence, optional
        Of an estimated structure.

    Examples
    --------

    >>> S = Structure([[1, 0], [1, 1]], observed=["pulse", "voice"], latent=["age", "mood"])
    >>> S
    Structure(2 observed × 2 latents, 3 dependencies)
    >>> S.of("voice") - S.of("pulse")
    LatentSet(mood)
    """

    def __init__(
        self,
        support: Any,
        *,
        observed: Iterable[str] | None = None,
        latent: Iterable[str] | None = None,
        evidence: Evidence | None = None,
    ):
        cells, index, header = _framed(support)
        self.support: Any = _boolean(cells)  # a csr_array, whose stubs do not know its shape
        rows, columns = self.support.shape
        self.observed = _names(index if observed is None else observed, "x", rows, "observed")
        self.latent = _names(header if latent is None else latent, "z", columns, "latent")
        self.evidence = evidence
        unused = [" ".join(self.latent[j].split()) or "''" for j in np.flatnonzero(self.weights == 0)]
        must = "Every latent must touch at least one observation."
        checks.require(not unused, must, f"none for {checks.listed(unused)}")

    @property
    def in_use(self) -> np.ndarray:
        """The latents that observations depend on: of an estimated structure those with an entry above its threshold,
        where that parts strong entries from weak ones, and else all."""
        if self.evidence is None or not self.evidence.parts:
            return np.arange(self.n_latents)
        return np.flatnonzero(self.evidence.strength.max(axis=0) > self.evidence.threshold)

    def with_latents(self, kept: np.ndarray) -> Structure:
        """The structure of some of its latents.

        >>> Structure([[1, 0, 0], [1, 1, 1]]).with_latents(np.array([0, 2])).latent
        ('z1', 'z3')
        """
        evidence = None if self.evidence is None else replace(self.evidence, strength=self.evidence.strength[:, kept])
        latent = [self.latent[j] for j in kept]
        return Structure(self.dense[:, kept], observed=self.observed, latent=latent, evidence=evidence)

    # ---- constructors and files --------------------------------------------------------------------------

    @classmethod
    def from_csv(cls, path: str | Path) -> Structure:
        """Read a table of 0 and 1: first row the latents' names, first column the observations'."""
        rows = checks.csv_rows(path, "structure")
        checks.require(len(rows) >= 2, "A structure file needs a header and one row.", f"{len(rows)} rows in {path}")
        header, *body = rows
        if header[0].strip().lower() not in _CORNER:
            named = not _only_entries(row[0] for row in body)
            must = f"{path} must begin with a column of names of observations."
            checks.require(named, must, f"only 0 and 1 under {header[0]!r:.40}")
            named = not _only_entries(header[1:]) or len(header) < 2
            checks.require(named, f"{path} must begin with a line of names of latents.", f"{','.join(header)!r:.60}")
        entries = [[_ENTRIES.get(cell.strip().lower()) for cell in row[1:]] for row in body]
        for line, (row, values) in enumerate(zip(body, entries, strict=True), 2):
            checks.require(
                len(row) == len(header) and None not in values,
                f"Every row of {path} must have a name and {len(header) - 1} entries 0 or 1.",
                f"line {line}: {' '.join(','.join(row).split())[:60]}",
            )
        return cls(entries, observed=[row[0].strip() for row in body], latent=[name.strip() for name in header[1:]])

    @classmethod
    def from_decoder(
        cls, decoder: Callable, z: Any, *, threshold: float | None = None, observed: Iterable[str] | None = None
    ) -> Structure:
        """Estimate the support of a decoder's Jacobian.

        An entry's strength is ``mean |∂x_i/∂z_j| · sd(z_j) / sd(x_i)``. A latent without a dependency keeps its
        strongest entry; the evidence shows how weak it is.

        Parameters
        ----------
        decoder : callable
            From tensors (batch, latent) to observations, row by row.
        z : array of shape (n_points, n_latents)
            The points.
        threshold : float, optional
            Strength above which an entry is a dependency; by default in the widest gap of the strengths.
        observed : iterable of str, optional
            Names of the observations.
        """
        strength = _strength(decoder, z)
        line = widest_gap(strength) if threshold is None else checks.number(threshold, "threshold", minimum=0)
        support = strength > line
        silent = np.flatnonzero(~support.any(axis=0))
        support[strength[:, silent].argmax(axis=0), silent] = True
        return cls(support, observed=observed, evidence=Evidence(strength, line))

    def to_csv(self, path: str | Path) -> None:
        """Write what ``from_csv`` reads."""
        with Path(path).open("w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(["", *self.latent])
            for name, row in zip(self.observed, self.dense.astype(int), strict=True):
                writer.writerow([name, *row])

    # ---- sizes -------------------------------------------------------------------------------------------

    @property
    def n_observed(self) -> int:
        """Number of observations, d_x."""
        return self.support.shape[0]

    @property
    def n_latents(self) -> int:
        """Number of latents, d_z."""
        return self.support.shape[1]

    @cached_property
    def dense(self) -> np.ndarray:
        """The support as a boolean array."""
        return self.support.toarray()

    @cached_property
    def weights(self) -> np.ndarray:
        """``|col(j)|``: how many observations each latent touches."""
        return np.bincount(self.support.indices, minlength=self.n_latents)

    def __len__(self) -> int:
        return int(self.support.nnz)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Structure):
            return NotImplemented
        named = self.observed == other.observed and self.latent == other.latent
        return named and (self.support != other.support).nnz == 0

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"Structure({self.n_observed} observed × {self.n_latents} latents, {len(self)} dependencies)"

    # ---- set algebra -------------------------------------------------------------------------------------

    def of(self, *observed: str | int) -> LatentSet:
        """The latents of a group of observations, ``I_K``, by name or index."""
        return LatentSet(frozenset(j for o in observed for j in self.latents_of(self._row(o))), self.latent)

    def latents(self, *latent: str | int) -> LatentSet:
        """A set of latents given by name or index."""
        return LatentSet(frozenset(self.index(t) for t in latent), self.latent)

    def index(self, latent: Any) -> int:
        """The index of a latent given by name or index."""
        return position(latent, self.latent, "A latent")

    def observations_of(self, latent: str | int) -> frozenset[int]:
        """``col(j)``: the rows that depend on a latent."""
        return frozenset(self.rows_of(self.index(latent)).tolist())

    def rows_of(self, t: int) -> np.ndarray:
        """``col(t)`` of a latent by its index, in order."""
        start, stop = self._columns.indptr[t : t + 2]
        return self._columns.indices[start:stop]

    def latents_of(self, i: int) -> list[int]:
        """``I_i`` of an observation by its index, in order."""
        return self.support.indices[self.support.indptr[i] : self.support.indptr[i + 1]].tolist()

    @cached_property
    def kinds(self) -> tuple[tuple[int, ...], ...]:
        """Groups of observations with equal rows, which no set query tells apart.

        >>> Structure([[1, 1], [0, 1], [1, 1]]).kinds
        ((0, 2), (1,))
        """
        return tuple(tuple(rows) for rows in _alike(self.support))

    def genus(self, *groups: Iterable[str | int]) -> LatentSet:
        """What groups of observations share, ``∩ I_K``.

        >>> Structure([[1, 1, 0], [0, 1, 1]]).genus(["x1"], ["x2"])
        LatentSet(z2)
        """
        checks.require(len(groups) > 0, "A genus must be of one group of observations or more.", "none")
        shared = self._of_group(groups[0])
        for group in groups[1:]:
            shared = shared & self._of_group(group)
        return shared

    def differentia(self, group: Iterable[str | int], *others: Iterable[str | int]) -> LatentSet:
        """What sets a group of observations apart, ``I_K`` without every other group's latents.

        >>> Structure([[1, 1, 0], [0, 1, 1]]).differentia(["x1"], ["x2"])
        LatentSet(z1)
        """
        own = self._of_group(group)
        for other in others:
            own = own - self._of_group(other)
        return own

    @cached_property
    def shared(self) -> sparse.csr_array:
        """``|col(t) ∩ col(r)|`` for every pair of latents that share an observation, sparse."""
        counts = self.support.astype(np.int32)
        return sparse.csr_array(counts.T @ counts)

    @cached_property
    def order(self) -> sparse.csr_array:
        """The preorder ``order[t, r]``: ``col(t) ⊆ col(r)``, as a sparse boolean matrix.

        >>> Structure([[1, 1], [0, 1]]).order.toarray().astype(int)
        array([[1, 1],
               [0, 1]])
        """
        shared = self.shared
        t = np.repeat(np.arange(self.n_latents), np.diff(shared.indptr))
        contained = shared.data == self.weights[t]
        coordinates = (t[contained], shared.indices[contained])
        return sparse.csr_array((np.ones(contained.sum(), dtype=bool), coordinates), shape=shared.shape)

    def closure(self, latent: str | int) -> LatentSet:
        """``cl(t) = {r : col(t) ⊆ col(r)}``: the latents that act wherever ``t`` acts.

        >>> Structure([[1, 1], [0, 1]]).closure("z1")
        LatentSet(z1, z2)
        """
        t = self.index(latent)
        row = self.order.indices[self.order.indptr[t] : self.order.indptr[t + 1]]
        return LatentSet(frozenset(int(r) for r in row), self.latent)

    @cached_property
    def atoms(self) -> tuple[LatentSet, ...]:
        """Latents no set query can tell apart: groups with equal columns.

        >>> Structure([[1, 1, 0], [1, 1, 1]]).atoms
        (LatentSet(z1, z2), LatentSet(z3))
        """
        return tuple(LatentSet(frozenset(g), self.latent) for g in _alike(self._columns))

    # ---- comparison --------------------------------------------------------------------------------------

    def match(self, other: Structure) -> Matching:
        """Match the columns of ``other`` to ours by overlap and count what differs; we are the truth.

        >>> Structure([[1, 0], [1, 1]]).match(Structure([[0, 1], [1, 1]])).f1
        1.0
        """
        from scipy.optimize import linear_sum_assignment

        must, sizes = "Structures must have the same observations.", f"{self.n_observed} and {other.n_observed} rows"
        checks.require(self.n_observed == other.n_observed, must, sizes)
        ours, theirs = self.support.astype(np.int32), other.support.astype(np.int32)
        overlap = (ours.T @ theirs).toarray()
        rows, columns = linear_sum_assignment(-overlap)
        permutation = np.full(self.n_latents, -1)
        permutation[rows] = columns
        hits = int(overlap[rows, columns].sum())
        missing, extra = len(self) - hits, len(other) - hits
        return Matching(permutation, missing, extra, f1=2 * hits / (len(self) + len(other)))

    # ---- inside ------------------------------------------------------------------------------------------

    @cached_property
    def _columns(self) -> sparse.csc_array:
        columns = sparse.csc_array(self.support)
        columns.sort_indices()
        return columns

    def _of_group(self, group: Iterable[str | int]) -> LatentSet:
        must = "A group of observations must be a list of names or indices."
        checks.require(not isinstance(group, str), must, f"the name {group!r}")
        return self.of(*group)

    def _row(self, observed: str | int) -> int:
        return position(observed, self.observed, "An observation")


def _strength(decoder: Callable, z: Any) -> np.ndarray:
    """``relative_strength`` of a user's decoder, which is not changed and must treat rows one by one."""
    from noumena.adopt.modules import adopt_decoder, require_rowwise  # torch is imported when a decoder is there
    from noumena.derivatives.jacobians import by_row
    from noumena.derivatives.strength import points_of, relative_strength

    points = points_of(z)
    by_row(decoder, points)
    decoder, points = adopt_decoder(decoder, points)
    require_rowwise(decoder, points)
    return relative_strength(decoder, points)


def _framed(support: Any) -> tuple[Any, list[str] | None, list[str] | None]:
    """Cells of a frame and its names of observations and latents, None for default integer names.

    Without an index, as in polars, names of observations may be in the first column, as in a file.
    """
    if not all(hasattr(support, part) for part in ("shape", "columns", "dtypes")):
        return support, None, None
    cells, header = np.asarray(support), _beyond_counts(support.columns)
    index = _beyond_counts(getattr(support, "index", range(len(cells))))
    if index is None and cells.shape[1] > 0:
        first = list(getattr(support, "iloc", support)[:, 0])
        words = all(isinstance(cell, str) for cell in first) and not _only_entries(first)
        if words or str(support.columns[0]).strip().lower() in _CORNER:
            index, cells, header = [str(cell) for cell in first], cells[:, 1:], header and header[1:]
    return cells.tolist() if cells.dtype == object else cells, index, header


def _beyond_counts(names: Iterable[Any]) -> list[str] | None:
    listed = list(names)
    return None if listed == list(range(len(listed))) else [str(name) for name in listed]


def _only_entries(cells: Iterable[str]) -> bool:
    return all(cell.strip().lower() in _ENTRIES for cell in cells)


def _boolean(support: Any) -> Any:
    if not sparse.issparse(support):
        try:
            support = np.asarray(support)
        except ValueError as error:
            raise InputError("A structure must be a rectangular matrix. Got rows of unequal length.") from error
        checks.require(support.ndim == 2, "A structure must be a matrix (observed, latent).", f"shape {support.shape}")
    checks.require(support.dtype.kind in "biuf", "A structure must be a matrix of 0 and 1.", f"dtype {support.dtype}")
    values = support.data if sparse.issparse(support) else support
    checks.require(bool(np.isin(values, (0, 1)).all()), "A structure must hold only 0 and 1.", "other values")
    checks.require(min(support.shape) > 0, "A structure must not be empty.", f"shape {support.shape}")
    matrix: Any = sparse.csr_array(support).astype(bool)
    matrix.eliminate_zeros()
    matrix.sort_indices()
    return matrix


def _alike(matrix: Any) -> list[list[int]]:
    """Groups of equal rows of a csr matrix, or columns of a csc one."""
    groups: dict[bytes, list[int]] = {}
    for k, (start, stop) in enumerate(pairwise(matrix.indptr.tolist())):
        groups.setdefault(matrix.indices[start:stop].tobytes(), []).append(k)
    return list(groups.values())


def _names(names: Iterable[str] | None, letter: str, n: int, kind: str) -> tuple[str, ...]:
    chosen = tuple(f"{letter}{i + 1}" for i in range(n)) if names is None else tuple(str(s) for s in names)
    checks.require(len(chosen) == n, f"There must be {n} names of {kind} variables.", f"{len(chosen)}")
    twice = sorted({s for s in chosen if chosen.count(s) > 1}) if len(set(chosen)) < n else []
    checks.require(not twice, f"Names of {kind} variables must differ.", f"{', '.join(twice[:3])} twice")
    return chosen


def position(key: Any, names: tuple[str, ...], kind: str) -> int:
    """The index of what is given by name or index.

    >>> position("b", ("a", "b"), "A letter"), position(0, ("a", "b"), "A letter")
    (1, 0)
    """
    if isinstance(key, str):
        checks.require(key in names, f"{kind} must be one of the structure's names.", f"{key!r}")
        return names.index(key)
    valid = hasattr(key, "__index__") and not isinstance(key, bool) and 0 <= int(key) < len(names)
    checks.require(valid, f"{kind} index must be below {len(names)}.", f"{key}")
    return int(key)
