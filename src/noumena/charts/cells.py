"""Heat maps: numbers in their cells, and a structure coloured by what is known of its latents."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import ceil
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Bool, Float
from numpy.typing import ArrayLike

from noumena.charts import canvas
from noumena.charts.canvas import ACCENT, ANSWERS, HEAT, INK, PAPER, TILE, extent, shorten, styled, told
from noumena.checks import one_of, require

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@styled
def heatmap(
    values: ArrayLike,
    *,
    rows: Sequence[str],
    columns: Sequence[str],
    shares: ArrayLike | None = None,
    bold: ArrayLike | None = None,
    dots: ArrayLike | None = None,
    written: Callable[[float], str] | None = None,
    sentence: Callable[[int, int], str] | None = None,
    side: float | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Values in cells that are the darker the larger their share is; what is not finite has a quiet cell and a dash.

    Parameters
    ----------
    values : array (row, column)
        The numbers.
    rows, columns : sequences of str
        Names of the rows and of the columns.
    shares : array (row, column), optional
        How dark each cell is, from 0 to 1; the values themselves by default.
    bold, dots : arrays of bool (row, column), optional
        Cells whose number is bold, and cells with a dot.
    written : callable, optional
        A value in words, ``"0.97"`` by default; numbers are left out where cells are too small for them.
    sentence : callable, optional
        What a pointer resting on the cell of a row and a column reads.
    side : float, optional
        Width of a cell in points.
    ax : matplotlib Axes, optional
        Where to draw; a new figure by default.

    Returns
    -------
    Axes

    Examples
    --------
    >>> ax = heatmap([[0.97, 0.1]], rows=["z1"], columns=["ẑ1", "ẑ2"])
    >>> [text.get_text() for text in ax.texts], len(ax.patches)
    (['0.97', '0.10'], 2)
    """
    values = matrix(values, "values", rows, columns)
    shade = np.clip(values if shares is None else matrix(shares, "shares", rows, columns), 0, 1)
    side = min(52.0, max(13.0, (420 if max(values.shape) <= 12 else 560) / max(values.shape))) if side is None else side
    ax = _grid(ax, rows, columns, side, min(side, 44.0))
    heavy = _mask(bold, "bold", rows, columns)
    marked = _mask(dots, "dots", rows, columns)
    for i, j in np.ndindex(*values.shape):
        value, name = float(values[i, j]), f"{rows[i]} with {columns[j]}"
        known = bool(np.isfinite(value))
        words = f"{name}: {value:.3f}" if known else f"{name}: unknown"
        color = (HEAT, 0.06 + 0.94 * float(shade[i, j])) if known else TILE
        _cell(ax, i, j, color, words if sentence is None else sentence(i, j))
        if marked[i, j]:
            told(ax.plot(j, i, "o", color=INK, markersize=min(6, side / 2), markeredgewidth=0)[0], "dot")
        number = (f"{value:.2f}" if written is None else written(value)) if known else "–"
        size = min(13.0, 0.4 * side)
        if side >= 18 and size * 0.62 * len(number) <= side:
            look: dict[str, Any] = {"fontweight": 700 if heavy[i, j] else 400, "fontsize": size, "color": INK}
            ax.text(j, i, number, ha="center", va="center_baseline", **look)
    return ax


def correlations(values: ArrayLike, *, rows: Sequence[str], columns: Sequence[str], ax: Axes | None = None) -> Axes:
    """Values in [0, 1] in their cells, the largest of each row bold; NaN shows a dash.

    Parameters
    ----------
    values : array (row, column)
        Correlations in absolute value, or shares.
    rows, columns : sequences of str
        Names of the rows and of the columns.
    ax : matplotlib Axes, optional
        Where to draw; a new figure by default.

    Returns
    -------
    Axes

    Examples
    --------
    >>> ax = correlations([[0.97, 0.1]], rows=["z1"], columns=["ẑ1", "ẑ2"])
    >>> [(text.get_text(), text.get_fontweight()) for text in ax.texts]
    [('0.97', 700), ('0.10', 400)]
    """
    values = matrix(values, "values", rows, columns)
    known = values[np.isfinite(values)]
    inside = bool(((known >= -1e-6) & (known <= 1 + 1e-6)).all())
    require(inside, "Correlations must lie in [0, 1].", f"{known.min(initial=0):g} to {known.max(initial=0):g}")
    largest = values == np.nan_to_num(values, nan=-1).max(axis=1, keepdims=True)
    return heatmap(values.clip(0, 1), rows=rows, columns=columns, bold=largest, ax=ax)


@styled
def structure(
    support: ArrayLike,
    *,
    observed: Sequence[str],
    latent: Sequence[str],
    answers: Sequence[str] | None = None,
    strength: ArrayLike | None = None,
    relation: str = "depends on",
    ax: Axes | None = None,
) -> Axes:
    """Which observation depends on which latent, each latent in the colour of its answer.

    Parameters
    ----------
    support : array of bool (observed, latent)
        The structure.
    observed, latent : sequences of str
        Names.
    answers : sequence of str, optional
        For each latent "identified", "not identified" or "open".
    strength : array (observed, latent), optional
        How strong each dependency is; the strongest is the darkest.
    relation : str
        What an entry says of its observation and its latent.
    ax : matplotlib Axes, optional
        Where to draw; a new figure by default.

    Returns
    -------
    Axes

    Examples
    --------
    >>> ax = structure([[1, 1], [0, 1]], observed=["x1", "x2"], latent=["z1", "z2"], answers=["identified", "open"])
    >>> [patch.get_gid() for patch in ax.patches]
    ['identified: x1 depends on z1', 'open: x1 depends on z2', 'empty', 'open: x2 depends on z2']
    """
    entries = matrix(support, "support", observed, latent)
    require(bool(np.isin(entries, (0, 1)).all()), "support must hold only 0 and 1.", "other values")
    kinds = [None] * len(latent) if answers is None else [one_of(kind, "answer", tuple(ANSWERS)) for kind in answers]
    require(len(kinds) == len(latent), "There must be one answer per latent.", len(kinds))
    size = np.abs(matrix(entries if strength is None else strength, "strength", observed, latent)) * entries
    shade = 0.25 + 0.6 * size / (size.max() or 1.0)
    side = min(30.0, max(4.0, (300 if len(latent) <= 12 else 400) / len(latent)))
    own = ax is None
    named = [kind for kind in ANSWERS if kind in kinds]
    tall = min(28.0, max(2.0, 700 / len(observed)))
    wide = max(180.0, side * len(latent) + 60)
    ax = _grid(ax, observed, latent, side, tall, below=canvas.legend_height(named, wide), least=wide)
    for i, j in np.ndindex(*entries.shape):
        color = ANSWERS.get(kinds[j] or "", ACCENT)
        if entries[i, j]:
            _cell(ax, i, j, (color, float(shade[i, j])), f"{observed[i]} {relation} {latent[j]}", kinds[j] or "cell")
        else:
            _cell(ax, i, j, TILE, "", "empty")
    if named:
        from matplotlib.patches import Patch

        canvas.legend(ax, [Patch(color=ANSWERS[kind], alpha=0.85) for kind in named], named, wide=wide, below=own)
    return ax


def matrix(
    values: ArrayLike, name: str, rows: Sequence[str], columns: Sequence[str]
) -> Float[np.ndarray, "row column"]:
    """An array of numbers that agrees with the names of its rows and columns."""
    array = np.asarray(values, dtype=float)
    fits = array.shape == (len(rows), len(columns)) and array.size > 0
    require(fits, f"{name} must have shape ({len(rows)}, {len(columns)}), as named.", f"shape {array.shape}")
    return array


def _mask(
    chosen: ArrayLike | None, name: str, rows: Sequence[str], columns: Sequence[str]
) -> Bool[np.ndarray, "row column"]:
    nothing = np.zeros((len(rows), len(columns)))
    return matrix(nothing if chosen is None else chosen, name, rows, columns).astype(bool)


def _grid(
    ax: Axes | None,
    rows: Sequence[str],
    columns: Sequence[str],
    wide: float,
    tall: float,
    *,
    below: float = 0,
    least: float = 0,
) -> Axes:
    """Axes for cells, the columns' names above, upright where they do not fit; every so many where they would touch."""
    across, down = [[shorten(name) for name in names] for names in (columns, rows)]
    flat = all(extent(name, 12) <= wide for name in across)
    above = 24.0 if flat else max(extent(name, 12) for name in across) + 12
    left = max(extent(name, 12) for name in down) + 12
    ax = canvas.axes(ax, max(least, left + wide * len(columns) + 14), above + tall * len(rows) + 10 + below)
    ax.set_xlim(-0.5, len(columns) - 0.5)
    ax.set_ylim(len(rows) - 0.5, -0.5)
    ax.xaxis.tick_top()
    sizes = [min(12.0, max(7.5, 0.7 * room)) for room in (wide, tall)]
    steps = [ceil(1.05 * size / room) for size, room in zip(sizes, (wide, tall), strict=True)]
    step = 1 if flat else steps[0]
    canvas.named(ax, "x", range(0, len(columns), step), across[::step], fontsize=sizes[0], rotation=0 if flat else 90)
    canvas.named(ax, "y", range(0, len(rows), steps[1]), down[:: steps[1]], fontsize=sizes[1])
    return ax


def _cell(ax: Axes, i: int, j: int, color: Any, sentence: str, kind: str = "cell") -> None:
    from matplotlib.patches import Rectangle

    cell = Rectangle((j - 0.5, i - 0.5), 1, 1, facecolor=color, edgecolor=PAPER, linewidth=1.5)
    told(ax.add_patch(cell), kind, sentence)
