"""Training curves of many models."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from noumena import charts
from noumena.checks import one_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@dataclass
class History:
    """Training curves: at each look, every term for every model."""

    steps: list[int] = field(default_factory=list)
    values: dict[str, list[np.ndarray]] = field(default_factory=dict)

    def add(self, step: int, terms: dict[str, np.ndarray]) -> None:
        """Append one look."""
        self.steps.append(step)
        for name, value in terms.items():
            self.values.setdefault(name, []).append(value)

    def with_models(self, which: Sequence[int] | np.ndarray, other: History) -> History:
        """The same curves, those of some models taken from another history, which was looked at as often or is left.

        >>> one, two = History(), History()
        >>> one.add(5, {"objective": np.array([1.0, np.nan])})
        >>> two.add(5, {"objective": np.array([3.0])})
        >>> one.with_models([1], two).values
        {'objective': [array([1., 3.])]}
        """
        if len(other.steps) < len(self.steps):
            return self
        values = {name: [row.copy() for row in rows] for name, rows in self.values.items()}
        for name, rows in values.items():
            padded = rows + [np.full_like(rows[-1], np.nan) for _ in other.steps[len(rows) :]]
            for row, new in zip(padded, other.values[name], strict=True):
                row[which] = new
            values[name] = padded
        return History(list(other.steps), values)

    def frame(self) -> pd.DataFrame:
        """A tidy table: step, model, term, value."""
        pieces = [
            pd.DataFrame({"step": step, "model": np.arange(len(row)), "term": name, "value": row})
            for name, rows in self.values.items()
            for step, row in zip(self.steps, rows, strict=True)
        ]
        return (
            pd.concat(pieces, ignore_index=True)
            if pieces
            else pd.DataFrame({"step": [], "model": [], "term": [], "value": []})
        )

    def plot(self, term: str = "objective", *, best: int | None = None, ax: Axes | None = None) -> Axes:
        """One line per model over training.

        Parameters
        ----------
        term : str
            What is drawn, such as "objective".
        best : int, optional
            The model whose line is bold, such as ``model.best_``.
        ax : matplotlib Axes, optional
            Where to draw; a new figure by default.

        Returns
        -------
        Axes

        Examples
        --------
        >>> history = History([0, 100], {"objective": [np.array([4.0, 3.0]), np.array([2.0, 1.0])]})
        >>> ax = history.plot(best=1)
        >>> ax.get_xlabel(), ax.get_title(loc="left"), len(ax.lines)
        ('step', 'held-out objective', 2)
        """
        values = np.array(self.values[one_of(term, "term", tuple(self.values))])
        label = f"held-out {term}" if term == "objective" else term
        return charts.history(self.steps, values, best=best, y_label=label, ax=ax)
