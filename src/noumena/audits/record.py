"""The result of an audit: errors of every pair of runs up to each group of maps, the verdict and its caveats."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from math import isnan, nan
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float

from noumena import charts, checks
from noumena.ambiguity import Ambiguity
from noumena.audits.axes import Axes
from noumena.audits.pairs import KINDS, SAME_ROWS, PairComparison
from noumena.audits.rule import AMBIGUITIES, LADDER, NONE, equally_good, reference
from noumena.audits.trivial import Trivial
from noumena.guarantees.agreement import AFFINE, BETTER_THAN_CHANCE, ICA, PERMUTATION, RIGID, efficiency
from noumena.guarantees.unmixing import SAME
from noumena.metrics.record import plain

if TYPE_CHECKING:
    from matplotlib.axes import Axes as Drawing

Matrix = Float[np.ndarray, "target source"]
DIGITS = 9
"""Errors that differ beyond these digits differ by rounding."""


@dataclass(frozen=True, eq=False)
class Overlay:
    """One pair's held-out rows in the target's two principal directions, for drawing.

    Attributes
    ----------
    target, source : str
        Names of the two runs.
    error : float
        Error of the pair up to a rigid map with one scale.
    points, moved : array of shape (n_points, 2)
        Rows of the target, and of the source mapped onto it.
    """

    target: str
    source: str
    error: float
    points: Float[np.ndarray, "row 2"]
    moved: Float[np.ndarray, "row 2"]

    def plot(self, ax: Drawing | None = None) -> Drawing:
        """The two runs' rows, joined row by row, on ``ax`` or a new figure; returns the axes."""
        return charts.overlay(self.points, self.moved, target=self.target, source=self.source, ax=ax)


@dataclass(frozen=True, eq=False)
class Audit:
    """Result of ``audit``: how near representations of the same rows are, in every pair and both directions.

    Matrices have the target in their rows and the source in their columns: ``errors["affine"][0, 1]`` is the error of
    the second run mapped onto the first, in the first's space and over its diameter. Their diagonals are NaN.

    Attributes
    ----------
    names : tuple of str
        Names of the runs.
    shapes : tuple of (int, int)
        Rows and columns of every run.
    held_out, folds
        Whether errors are measured on held-out rows, and in how many folds.
    pairs : tuple of PairComparison
        Every ordered pair of runs.
    axes : Axes or None
        ICA components that are found again in other runs.
    trivial : Trivial or None
        What a linear map of the input explains.
    notes : tuple of str
        What was left out or done differently, and why.
    overlays : tuple of Overlay
        The nearest and the farthest pair, for drawing.
    """

    names: tuple[str, ...]
    shapes: tuple[tuple[int, int], ...]
    held_out: bool
    folds: int
    pairs: tuple[PairComparison, ...]
    axes: Axes | None
    trivial: Trivial | None
    notes: tuple[str, ...]
    overlays: tuple[Overlay, ...] = ()

    # ---- numbers -------------------------------------------------------------------------------------------------

    @cached_property
    def kinds(self) -> tuple[str, ...]:
        """The groups, from small to large, then ICA where it was judged."""
        return tuple(kind for kind in KINDS if any(np.isfinite(p.errors.get(kind, nan)) for p in self.pairs))

    @cached_property
    def errors(self) -> dict[str, Matrix]:
        """Mean errors by group."""
        return self._matrices("errors")

    @cached_property
    def spread(self) -> dict[str, Matrix]:
        """Standard deviation of ``errors`` over the folds."""
        return self._matrices("spread")

    @cached_property
    def largest(self) -> dict[str, Matrix]:
        """Errors of the worst rows."""
        return self._matrices("largest")

    @cached_property
    def chance(self) -> dict[str, Matrix]:
        """Errors when one side's rows are shuffled."""
        return self._matrices("chance")

    @cached_property
    def r2(self) -> dict[str, Matrix]:
        """Shares of variance explained."""
        return self._matrices("r2")

    @cached_property
    def efficiency(self) -> Matrix:
        """ICA's share of what a rigid map gains over a signed permutation; NaN where that gains nothing."""
        return self._matrix([pair.efficiency for pair in self.pairs])

    def _matrices(self, name: str) -> dict[str, Matrix]:
        return {kind: self._matrix([getattr(pair, name).get(kind, nan) for pair in self.pairs]) for kind in self.kinds}

    def _matrix(self, values: list[float]) -> Matrix:
        matrix = np.full((len(self.names),) * 2, nan)
        for pair, value in zip(self.pairs, values, strict=True):
            matrix[self.names.index(pair.target), self.names.index(pair.source)] = value
        return matrix

    def pair(self, target: str | int, source: str | int) -> PairComparison:
        """``source`` mapped onto ``target``, both by name or number."""
        wanted = tuple(self._name(run) for run in (target, source))
        checks.require(wanted[0] != wanted[1], "A pair must be of two runs.", f"{wanted[0]} twice")
        return next(pair for pair in self.pairs if (pair.target, pair.source) == wanted)

    def _name(self, run: str | int) -> str:
        if isinstance(run, str):
            return checks.one_of(run, "A run", self.names)
        checks.require(0 <= run < len(self.names), f"A run's number must be below {len(self.names)}.", run)
        return self.names[run]

    def plot(self, kind: str = RIGID, *, ax: Drawing | None = None) -> Drawing:
        """Errors of every pair, the darker the nearer to chance: the column's run mapped onto the row's.

        Parameters
        ----------
        kind : str
            One of ``kinds``: up to which maps.
        ax : matplotlib Axes, optional
            Where to draw; a new figure by default.

        Returns
        -------
        Axes

        Examples
        --------
        >>> from noumena.audits import audit
        >>> z = np.random.default_rng(0).normal(size=(60, 2))
        >>> ax = audit({"a": z, "b": 2 * z}, ica=False).plot()
        >>> [text.get_text() for text in ax.texts]
        ['–', '.000', '.000', '–']
        """
        errors, chance = (of[checks.one_of(kind, "kind", self.kinds)] for of in (self.errors, self.chance))

        def sentence(i: int, j: int) -> str:
            if i == j:
                return ""
            return f"{self.names[j]} onto {self.names[i]}: {errors[i, j]:.4f}, chance {chance[i, j]:.4f}"

        return charts.heatmap(
            errors,
            rows=self.names,
            columns=self.names,
            shares=np.divide(errors, chance, out=np.zeros_like(errors), where=chance > 0),
            written=lambda error: f"{error:.3f}".removeprefix("0"),
            sentence=sentence,
            ax=ax,
        )

    # ---- conclusions ---------------------------------------------------------------------------------------------

    @cached_property
    def group(self) -> str:
        """The smallest group up to which every pair agrees."""
        order = (*LADDER, NONE)
        return max((pair.group for pair in self.pairs), key=order.index)

    @property
    def up_to(self) -> Ambiguity:
        """The same as an ambiguity, for ``align``; any map where some pair does not agree."""
        return AMBIGUITIES[self.group]

    @cached_property
    def verdict(self) -> str:
        """The conclusion, in sentences."""
        return " ".join(sentences(self))

    @cached_property
    def warnings(self) -> tuple[str, ...]:
        """Caveats, always with: consistency is not correctness."""
        return caveats(self)

    def __str__(self) -> str:
        rows, how = self.shapes[0][0], f"held out over {self.folds} folds" if self.held_out else "in-sample"
        widths = sorted({width for _, width in self.shapes})
        head = f"Audit of {len(self.names)} representations: {rows} rows, {number_range(widths)} columns, {how}"
        lines = [head, "", self.verdict, "", "Errors over the diameter, mean over pairs"]
        for kind in self.kinds:
            low, high = np.nanmin(self.errors[kind]), np.nanmax(self.errors[kind])
            lines.append(
                f"  {kind:<19} {pair_mean(self.errors[kind]):.4f}  ({low:.4f} to {high:.4f}; over folds ± "
                f"{pair_mean(self.spread[kind]):.4f}; chance {pair_mean(self.chance[kind]):.4f}; R² "
                f"{pair_mean(self.r2[kind]):.3f})"
            )
        if len(self.pairs) <= 6:
            lines += ["", "Pairs", *(f"  {pair}" for pair in self.pairs)]
        lines += ["", "Beware", *(f"  {warning}" for warning in self.warnings)]
        lines += ["", "Notes", *(f"  {note}" for note in self.notes)] if self.notes else []
        return "\n".join(lines)

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain lists, numbers and strings, ready for JSON; what is not finite is ``None``."""
        tables = {"errors": self.errors, "spread": self.spread, "largest": self.largest, "chance": self.chance}
        tables["r2"] = self.r2
        return {
            "names": list(self.names),
            "shapes": [list(shape) for shape in self.shapes],
            "held_out": self.held_out,
            "folds": self.folds,
            "up_to": self.group,
            "verdict": self.verdict,
            "warnings": list(self.warnings),
            "notes": list(self.notes),
            **plain(tables),
            "efficiency": plain(self.efficiency),
            "axes": self.axes and self.axes.to_dict(),
            "trivial": self.trivial and self.trivial.to_dict(),
            "pairs": [pair.to_dict() for pair in self.pairs],
        }

    @property
    def nearest(self) -> PairComparison:
        """The pair with the smallest error up to a rigid map with one scale."""
        return min(self.pairs, key=lambda pair: round(pair.errors[RIGID], DIGITS))

    @property
    def farthest(self) -> PairComparison:
        """The pair with the largest such error."""
        return max(self.pairs, key=lambda pair: round(pair.errors[RIGID], DIGITS))


# ---- sentences -----------------------------------------------------------------------------------------------------


CONSISTENCY = (
    "Consistency across runs is not correctness: this measures statistical, not structural identifiability, and runs "
    "that agree may all be wrong in the same way."
)
PLURAL = {PERMUTATION: "signed permutations", RIGID: "rigid motions with one scale", AFFINE: "affine maps"}
LITTLE = 0.1
"""Of what a rigid map gains: ICA that gains less does next to nothing."""


def pair_mean(matrix: np.ndarray) -> float:
    """The mean over all pairs."""
    return float(np.nanmean(matrix))


def number_range(numbers: Sequence[int]) -> str:
    """A number, or the range of several.

    >>> number_range([3]), number_range([2, 5, 9])
    ('3', '2 to 9')
    """
    return str(numbers[0]) if len(numbers) == 1 else f"{numbers[0]} to {numbers[-1]}"


def sentences(audit: Audit) -> list[str]:
    """The verdict: up to what the runs agree, what ICA does, and whether the input explains it."""
    return [*_agreement(audit), *_ica(audit), *_input(audit)]


def _agreement(audit: Audit) -> list[str]:
    errors, how = {kind: pair_mean(audit.errors[kind]) for kind in LADDER}, "held-out " * audit.held_out
    chance = float(np.mean([reference(pair.chance) for pair in audit.pairs]))
    if audit.group == NONE:
        agreeing = sum(pair.group != NONE for pair in audit.pairs)
        sentence = (
            f"Not stable up to any affine map: {how}affine error {errors[AFFINE]:.3f} of the diameter (chance "
            f"{chance:.3f}), rigid {errors[RIGID]:.3f}."
        )
        return [sentence, f"{agreeing} of {len(audit.pairs)} directed pairs agree."] if agreeing else [sentence]
    others = ", ".join(f"{kind} {errors[kind]:.3f}" for kind in LADDER if kind != audit.group)
    sentence = (
        f"Stable up to {PLURAL[audit.group]}: {how}error {errors[audit.group]:.3f} of the diameter (chance "
        f"{chance:.3f}), {others}."
    )
    smaller = sum(pair.group != audit.group for pair in audit.pairs)
    more = [f"{smaller} of {len(audit.pairs)} directed pairs agree up to a smaller group."] if smaller else []
    if len(audit.names) > 2:
        worst = max(audit.pairs, key=lambda pair: pair.errors[audit.group])
        more.append(f"Worst: {worst.source} onto {worst.target}, {worst.errors[audit.group]:.3f}.")
    return [sentence, *more]


def overall_efficiency(audit: Audit, kind: str = ICA) -> float:
    """ICA's share of the rigid map's gain, from errors averaged over pairs; NaN where there is no gain or no ICA."""
    if kind not in audit.errors:
        return float("nan")
    both = np.isfinite(audit.errors[kind])
    return efficiency(*(pair_mean(audit.errors[name][both]) for name in (PERMUTATION, RIGID, kind)))


def _ica(audit: Audit) -> list[str]:
    if ICA not in audit.errors or audit.group == NONE:
        return []
    share, same = overall_efficiency(audit), overall_efficiency(audit, SAME_ROWS)
    sentences = []
    if isnan(share):
        sentences.append("A rigid map gains nothing over a signed permutation, so that ICA has nothing to find.")
    else:
        shared = f" ({same:.0%} where both runs' ICA see the same rows)" if not isnan(same) else ""
        little = ", worse than a signed permutation" if share < 0 else ", next to nothing" if share < LITTLE else ""
        sentences.append(f"ICA does {share:.0%} of what the best rigid map does{shared}{little}.")
    if audit.axes is not None:
        rows = ", by ICA on other rows" * audit.held_out
        sentences.append(f"{audit.axes.found} of {audit.axes.components[0]} axes are found again in every run{rows}.")
    return sentences


def _input(audit: Audit) -> list[str]:
    """Whether the runs predict one another better than the input predicts them."""
    if audit.trivial is None:
        return []
    between, r2 = pair_mean(audit.errors[AFFINE]), pair_mean(audit.r2[AFFINE])
    numbers = (
        f"error {pair_mean(audit.trivial.errors):.3f}, R² {pair_mean(audit.trivial.r2):.3f}; "
        f"from run to run {between:.3f}, {r2:.3f}"
    )
    stable = audit.group != NONE
    if linear_images(audit):
        same = "The agreement between runs is no better than what the input explains linearly"
        verb = f"{same} ({numbers}): they are" if stable else f"Without agreeing ({numbers}), the runs are"
        return [f"{verb} (nearly) linear images of the input."]
    if stable:
        return [f"A linear map of the input explains less than the runs do of each other ({numbers})."]
    return [f"A linear map of the input does not explain the runs either ({numbers})."]


def linear_images(audit: Audit) -> bool:
    """Whether the input predicts every run, far better than chance and as well as other runs do."""
    if audit.trivial is None:
        return False
    for name, errors in zip(audit.names, audit.trivial.by_fold, strict=True):
        own = [pair for pair in audit.pairs if pair.target == name]
        c = float(np.mean([reference(pair.chance) for pair in own]))
        lost = errors - np.mean([pair.by_fold[AFFINE] for pair in own], axis=0)
        if errors.mean() >= BETTER_THAN_CHANCE * c or not equally_good(lost, c):
            return False
    return True


def caveats(audit: Audit) -> tuple[str, ...]:
    """Caveats of an audit."""
    sentences = [CONSISTENCY]
    if not audit.held_out:
        sentences.append("Errors are in-sample: maps were measured on the rows they were fitted on.")
    axes = audit.axes
    if axes is None:
        return tuple(sentences)
    gaussian, of = max(zip(axes.gaussian, axes.components, strict=True), key=lambda pair: pair[0] / pair[1])
    if gaussian > 1:
        sentences.append(
            f"{gaussian} of {of} components of a run cannot be told from Gaussian ones, between which ICA has no axes "
            "to find."
        )
    if min(axes.restarts) < SAME:
        sentences.append(
            f"Other starts of ICA end in other components (correlation {min(axes.restarts):.2f}): some of its axes are "
            "a matter of the start."
        )
    if not axes.converged:
        sentences.append("ICA did not converge in every fit.")
    return tuple(sentences)
