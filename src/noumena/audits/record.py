"""Audit: the record of how near several runs' representations are, up to what, and which axes they share."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import nan
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float

from noumena import charts, checks
from noumena.ambiguity import Ambiguity
from noumena.audits import words
from noumena.audits.axes import Axes
from noumena.audits.pairs import KINDS, Pair, plain_number
from noumena.audits.rule import AMBIGUITIES, LADDER, NONE
from noumena.audits.trivial import Trivial
from noumena.guarantees.agreement import RIGID

if TYPE_CHECKING:
    from matplotlib.axes import Axes as Drawing

Matrix = Float[np.ndarray, "target source"]
DIGITS = 9
"""Errors that differ beyond these digits differ by rounding."""


@dataclass(frozen=True, eq=False)
class Overlay:
    """One pair's measured rows in the target's two principal directions, the source rigidly moved onto it."""

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
    """How near representations of the same rows are, in every pair and both directions.

    Matrices have the target in their rows and the source in their columns: ``errors["affine"][0, 1]`` is the error of
    the second run mapped onto the first, in the first's space and over its diameter. Their diagonals are NaN.
    """

    names: tuple[str, ...]
    shapes: tuple[tuple[int, int], ...]
    held_out: bool
    folds: int
    pairs: tuple[Pair, ...]
    axes: Axes | None
    trivial: Trivial | None
    notes: tuple[str, ...]
    """What was left out or done differently, and why."""
    overlays: tuple[Overlay, ...] = ()
    """The nearest and the farthest pair, for drawing."""

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
        found = np.full((len(self.names),) * 2, nan)
        for pair, value in zip(self.pairs, values, strict=True):
            found[self.names.index(pair.target), self.names.index(pair.source)] = value
        return found

    def pair(self, target: str | int, source: str | int) -> Pair:
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
        """What can be said, in words."""
        return " ".join(words.sentences(self))

    @cached_property
    def warnings(self) -> tuple[str, ...]:
        """What the numbers do not show; always that consistency is not correctness."""
        return words.warnings(self)

    def __str__(self) -> str:
        rows, how = self.shapes[0][0], f"held out over {self.folds} folds" if self.held_out else "in-sample"
        widths = sorted({width for _, width in self.shapes})
        head = f"Audit of {len(self.names)} representations: {rows} rows, {words.either(widths)} columns, {how}"
        lines = [head, "", self.verdict, "", "Errors over the diameter, mean over pairs"]
        for kind in self.kinds:
            low, high = np.nanmin(self.errors[kind]), np.nanmax(self.errors[kind])
            lines.append(
                f"  {kind:<19} {words.mean(self.errors[kind]):.4f}  ({low:.4f} to {high:.4f}; over folds ± "
                f"{words.mean(self.spread[kind]):.4f}; chance {words.mean(self.chance[kind]):.4f}; R² "
                f"{words.mean(self.r2[kind]):.3f})"
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
            **{name: {kind: _plain(m) for kind, m in by_kind.items()} for name, by_kind in tables.items()},
            "efficiency": _plain(self.efficiency),
            "axes": self.axes and self.axes.to_dict(),
            "trivial": self.trivial and self.trivial.to_dict(),
            "pairs": [pair.to_dict() for pair in self.pairs],
        }

    @property
    def nearest(self) -> Pair:
        """The pair with the smallest error up to a rigid map with one scale."""
        return min(self.pairs, key=lambda pair: round(pair.errors[RIGID], DIGITS))

    @property
    def farthest(self) -> Pair:
        """The pair with the largest such error."""
        return max(self.pairs, key=lambda pair: round(pair.errors[RIGID], DIGITS))


def _plain(matrix: Matrix) -> list[list[float | None]]:
    return [[plain_number(value) for value in row] for row in matrix]
