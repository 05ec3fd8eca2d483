"""Levels: one line per number, with its interval, what chance gets, what is the most, and what was published."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from noumena.charts import canvas
from noumena.charts.canvas import ACCENT, INK, PAPER, SOFT, shorten, styled, told
from noumena.checks import require

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_WIDE, _TALL = 440.0, 36.0


@dataclass(frozen=True)
class LevelRow:
    """A line of ``levels``: a dot at ``value``, and around it whatever else is known."""

    name: str
    value: float
    interval: tuple[float, float] | None = None
    """A bar through the value."""
    chance: float | None = None
    """A hollow ring."""
    ceiling: float | None = None
    """An upright stroke."""
    published: float | None = None
    """A hollow ring in ink, joined to the value."""
    published_interval: tuple[float, float] | None = None
    """A shade behind that ring."""
    repeats: float = 0.0
    """Two small rings, so far to either side of the value."""
    note: str | None = None
    """At the end of the line; the value to three decimals by default."""
    color: str = ACCENT
    sentence: str = ""
    """What a pointer resting on the line's marks reads."""


@styled
def levels(
    rows: Sequence[LevelRow],
    *,
    x_label: str = "",
    limits: tuple[float, float] | None = None,
    chance: float | None = None,
    ax: Axes | None = None,
) -> Axes:
    """One line per number, its name above and its value at the end.

    Parameters
    ----------
    rows : sequence of LevelRow
        The numbers, from top to bottom; one that is not finite has its name and note alone.
    x_label : str
        Name of the axis.
    limits : (float, float), optional
        Ends of the axis; by default those of all that is drawn. What lies beyond is drawn at the end.
    chance : float, optional
        Where a dashed line stands for all rows.
    ax : matplotlib Axes, optional
        Where to draw; a new figure by default.

    Returns
    -------
    Axes

    Examples
    --------
    >>> ax = levels([LevelRow("MCC", 0.9, chance=0.1, ceiling=1.0), LevelRow("R²", 0.8)])
    >>> sorted(line.get_gid() for line in ax.lines)
    ['ceiling', 'chance', 'value', 'value']
    >>> [text.get_text() for text in ax.texts]
    ['MCC', '0.900', 'R²', '0.800']
    """
    require(len(rows) > 0, "levels need at least one row.", "none")
    ax = canvas.axes(ax, _WIDE, _TALL * len(rows) + 30 + 18 * bool(x_label))
    low, high = limits if limits is not None else _limits(rows, chance)
    canvas.numbered(ax, "x")
    ax.set_xlim(low, high)
    ax.set_ylim(len(rows) - 0.6, -0.6)
    ax.set_yticks([])
    ax.set_xlabel(canvas.clean(shorten(x_label, 60)))
    if chance is not None:
        told(ax.axvline(chance, color=SOFT, linewidth=1, linestyle=(0, (4, 4)), zorder=1), "chance")
    for k, row in enumerate(rows):
        _words(ax, k, row)
        if np.isfinite(row.value):
            _level(ax, k + 0.18, row, (low, high))
    return ax


def _limits(rows: Sequence[LevelRow], chance: float | None) -> tuple[float, float]:
    """The ends of all that is drawn, with a little room."""
    ends: list[Any] = [chance]
    for row in rows:
        ends += [row.value, row.chance, row.ceiling, row.published, *(row.interval or ())]
        ends += [*(row.published_interval or ()), row.value - row.repeats, row.value + row.repeats]
    known = np.array([end for end in ends if end is not None and np.isfinite(end)] or [0.0, 1.0], dtype=float)
    room = 0.05 * float(np.ptp(known)) or 0.1 * float(np.abs(known).max()) or 1.0
    return float(known.min()) - room, float(known.max()) + room


def _words(ax: Axes, k: int, row: LevelRow) -> None:
    """The row's name at the left of its line, its note at the right."""
    note = row.note if row.note is not None else f"{row.value:.3f}".replace("-", "−")
    room = _WIDE - 40 - canvas.extent(note, 12)
    look: dict[str, Any] = {"xycoords": ax.get_yaxis_transform(), "textcoords": "offset points", "va": "bottom"}
    ax.annotate(canvas.clean(canvas.fitting(row.name, room)), (0, k), (0, 3), color=INK, **look)
    color = INK if row.color == ACCENT and row.note is None else row.color
    ax.annotate(canvas.clean(note), (1, k), (0, 3), color=color, ha="right", fontweight=700, **look)


def _level(ax: Axes, y: float, row: LevelRow, limits: tuple[float, float]) -> None:
    """A row's marks: from the hindmost to the value itself."""

    def line(kind: str, ends: Sequence[float], **look: Any) -> None:
        style = "none" if len(ends) == 1 else "solid"
        (drawn,) = ax.plot(np.clip(np.array(ends, dtype=float), *limits), [y] * len(ends), linestyle=style, **look)
        told(drawn, kind, row.sentence)

    ring: dict[str, Any] = {"marker": "o", "markersize": 8, "markerfacecolor": "none"}
    if row.published is not None:
        line("between", (row.published, row.value), color=SOFT, linewidth=1.2)
    if row.published_interval is not None:
        line("spread", row.published_interval, color=SOFT, linewidth=6, alpha=0.25, solid_capstyle="butt")
    if row.interval is not None:
        line("interval", row.interval, color=row.color, linewidth=3, alpha=0.5)
    if row.chance is not None:
        line("chance", (row.chance,), **ring | {"markeredgecolor": SOFT})
    if row.ceiling is not None:
        line("ceiling", (row.ceiling,), marker="|", markersize=14, markeredgewidth=2, color=INK)
    if row.published is not None:
        look = {"markersize": 11, "markerfacecolor": PAPER, "markeredgecolor": INK, "markeredgewidth": 1.6}
        line("published", (row.published,), **ring | look)
    for side in (-1, 1) if row.repeats > 0 else ():
        line("repeats", (row.value + side * row.repeats,), **ring | {"markersize": 6, "markeredgecolor": row.color})
    line("value", (row.value,), marker="o", markersize=9, color=row.color, markeredgewidth=0)


@styled
def strips(
    groups: Mapping[str, Sequence[float]],
    *,
    lo: float = 0.0,
    hi: float = 1.0,
    x_label: str = "",
    marked: Mapping[str, float] | None = None,
    ax: Axes | None = None,
) -> Axes:
    """One row per group and one dot per value.

    Parameters
    ----------
    groups : mapping of names to values
        From top to bottom; values that are not finite are left out.
    lo, hi : float
        Ends of the axis; values beyond are hollow dots at the end.
    x_label : str
        Name of the axis.
    marked : mapping of names to values, optional
        A value of a group that is bold and printed.
    ax : matplotlib Axes, optional
        Where to draw; a new figure by default.

    Returns
    -------
    Axes

    Examples
    --------
    >>> ax = strips({"PCA": [0.2, 0.4]}, marked={"PCA": 0.4})
    >>> [line.get_gid() for line in ax.lines], ax.texts[0].get_text()
    (['dot: 0.2', 'dot: 0.4', 'mark: 0.4'], '0.400')
    """
    require(len(groups) > 0, "strips need at least one group.", "none")
    require(lo < hi, "lo must be below hi.", f"{lo} and {hi}")
    marked = dict(marked or {})
    strangers = [name for name in marked if name not in groups]
    require(not strangers, "Every marked name must be a group.", ", ".join(strangers))
    ax = canvas.axes(ax, 420, 32 * len(groups) + 46)
    canvas.numbered(ax, "x")
    room = 0.02 * (hi - lo)
    ax.set_xlim(lo - room, hi + room)
    ax.set_ylim(len(groups) - 0.5, -0.5)
    ax.set_xlabel(canvas.clean(x_label))
    canvas.named(ax, "y", range(len(groups)), [shorten(name, 24) for name in groups], fontsize=13, color=INK)
    for k, (name, values) in enumerate(groups.items()):
        row = np.asarray(values, dtype=float).ravel()
        for value in row[np.isfinite(row)].tolist():
            _dot(ax, k, value, (lo, hi), "dot")
        mark = marked.get(name)
        if mark is not None and np.isfinite(mark):
            _dot(ax, k, float(mark), (lo, hi), "mark")
            look: dict[str, Any] = {"xycoords": ax.get_yaxis_transform(), "textcoords": "offset points", "va": "center"}
            shown = f"{mark:.3f}".replace("-", "−")
            ax.annotate(shown, (1, k), (6, 0), color=INK, fontsize=13, fontweight=700, **look)
    return ax


def _dot(ax: Axes, k: int, value: float, ends: tuple[float, float], kind: str) -> None:
    inside, bold = ends[0] <= value <= ends[1], kind == "mark"
    (dot,) = ax.plot(
        np.clip(value, *ends),
        k,
        marker="o",
        linestyle="none",
        markersize=14 if bold else 10,
        markerfacecolor=(ACCENT, 1 if bold else 0.35) if inside else PAPER,
        markeredgecolor=PAPER if bold and inside else ACCENT,
        markeredgewidth=1.5 if bold else 1,
        clip_on=False,
    )
    told(dot, kind, f"{value:.4g}")
