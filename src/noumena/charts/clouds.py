"""Clouds: learned latents against true ones, runs moved onto each other, what a competitor does, scores over gaps."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil, sqrt
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from jaxtyping import Float, Int
from numpy.typing import ArrayLike

from noumena.charts import canvas
from noumena.charts.canvas import ACCENT, INK, PALETTE, SOFT, TILE, shorten, styled, told
from noumena.checks import require, same_batch, table

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MOST, SHADES = 400, 12
"""Rows that are drawn, and colours by which ranks are told apart."""
GAPS = 3
"""Gaps beyond are counted there."""
_GOLDEN = (sqrt(5) - 1) / 2
_MARKS = ((ACCENT, "o"), (PALETTE["high"], "s"), (PALETTE["middle"], "^"), (SOFT, "D"))


# ---- learned against true ------------------------------------------------------------------------------------------


@styled
def pairs(z: ArrayLike, z_hat: ArrayLike, *, names: Sequence[str], most: int = MOST) -> Figure:
    """One small panel per latent, the true one across and the learned one up, with the correlation of all rows.

    Parameters
    ----------
    z, z_hat : arrays (batch, latent)
        True latents, and the learned ones that stand for them.
    names : sequence of str
        Names of the latents.
    most : int
        So many evenly spaced rows are drawn at most.

    Returns
    -------
    Figure

    Examples
    --------
    >>> z = np.linspace(0, 1, 9)[:, None]
    >>> figure = pairs(z, -z, names=["age"])
    >>> figure.axes[0].get_title(loc="left"), figure.axes[0].get_title(loc="right")
    ('age', 'r = −1.00')
    """
    from matplotlib.figure import Figure

    z, z_hat = np.asarray(z, dtype=float), np.asarray(z_hat, dtype=float)
    same = z.ndim == 2 and z.shape == z_hat.shape and z.size > 0
    require(same, "z and z_hat must share one shape (batch, latent).", f"shapes {z.shape} and {z_hat.shape}")
    require(len(names) == z.shape[1], f"There must be {z.shape[1]} names.", len(names))
    require(most >= 1, "most must be at least 1.", most)
    across = min(len(names), 4 if len(names) % 4 == 0 or len(names) > 9 else 3)
    down = ceil(len(names) / across)
    size = (max(across * 142 + 24, 170) / 72, (down * 160 + 20) / 72)
    figure = Figure(figsize=size, layout="constrained")
    cast(Any, figure.get_layout_engine()).set(wspace=0.1, hspace=0.06)
    for j, name in enumerate(names):
        ax = figure.add_subplot(down, across, j + 1)
        _framed(ax)
        ax.set_title(canvas.clean(shorten(name)), loc="left", fontsize=12.5)
        finite = np.isfinite(z[:, j]) & np.isfinite(z_hat[:, j])
        one, other = z[finite, j], z_hat[finite, j]
        ax.set_title(f"r = {_pearson(one, other)}", loc="right", fontsize=12, fontweight=400, color=SOFT)
        kept = _kept(len(one), most)
        _specks(ax, "pair", one[kept], other[kept], ACCENT, 3, alpha=0.6)
    figure.axes[across * (down - 1)].set_xlabel("true →", loc="left")
    figure.axes[across * (down - 1)].set_ylabel("learned →", loc="bottom")
    return figure


def _pearson(a: Float[np.ndarray, " n"], b: Float[np.ndarray, " n"]) -> str:
    if a.size == 0 or np.ptp(a) == 0 or np.ptp(b) == 0:
        return "–"
    return f"{np.corrcoef(a, b)[0, 1]:.2f}".replace("-", "−")


def _kept(n: int, most: int) -> Int[np.ndarray, " kept"]:
    """Evenly spaced rows of n."""
    return np.unique(np.linspace(0, max(n - 1, 0), min(n, most)).round().astype(int))


def _framed(ax: Axes) -> None:
    """A quiet ground without ticks."""
    ax.set_facecolor((TILE, 0.6))
    ax.set_xticks([])
    ax.set_yticks([])


def _specks(ax: Axes, kind: str, x: Any, y: Any, color: str, size: float, **look: Any) -> None:
    told(ax.plot(x, y, "o", color=color, markersize=size, markeredgewidth=0, **look)[0], kind)


def _rings(ax: Axes, kind: str, x: Any, y: Any, color: str, size: float, **look: Any) -> None:
    told(ax.plot(x, y, "o", color=color, markersize=size, markerfacecolor="none", **look)[0], kind)


# ---- runs and models -----------------------------------------------------------------------------------------------


@styled
def overlay(points: ArrayLike, moved: ArrayLike, *, target: str, source: str, ax: Axes | None = None) -> Axes:
    """A target's rows as dots, the source's, moved onto them, as smaller ones, with a line from row to row.

    Parameters
    ----------
    points, moved : arrays (batch, 2)
        Rows of the target, and the images of the source's rows.
    target, source : str
        Names of the two runs.
    ax : matplotlib Axes, optional
        Where to draw; a new figure by default.

    Returns
    -------
    Axes

    Examples
    --------
    >>> plane = np.array([[0.0, 0], [1, 0], [0, 1]])
    >>> ax = overlay(plane, plane + 0.1, target="a", source="b")
    >>> [line.get_gid() for line in ax.lines], ax.get_aspect()
    (['gap', 'target', 'source'], 1.0)
    """
    one, other = np.asarray(points, dtype=float), np.asarray(moved, dtype=float)
    fits = one.ndim == 2 and one.shape == other.shape and one.shape[1] == 2 and one.size > 0
    require(fits, "points and moved must share one shape (batch, 2).", f"shapes {one.shape} and {other.shape}")
    both = np.vstack([one, other])
    require(bool(np.isfinite(both).all()), "Points must be finite to be drawn.", "NaN or inf")
    own = ax is None
    names = [shorten(target, 24), f"{shorten(source, 24)}, moved"]
    ax = canvas.axes(ax, 360, 356 + canvas.legend_height(names, 360))
    _framed(ax)
    middle, reach = (both.max(axis=0) + both.min(axis=0)) / 2, 0.54 * float(np.ptp(both, axis=0).max()) or 1.0
    ax.set_xlim(middle[0] - reach, middle[0] + reach)
    ax.set_ylim(middle[1] - reach, middle[1] + reach)
    ax.set_aspect("equal")
    joined = np.stack([one, other, np.full_like(one, np.nan)], axis=1).reshape(-1, 2)
    told(ax.plot(joined[:, 0], joined[:, 1], color=SOFT, linewidth=0.8)[0], "gap")
    _specks(ax, "target", one[:, 0], one[:, 1], ACCENT, 4.6)
    _specks(ax, "source", other[:, 0], other[:, 1], PALETTE["high"], 2.6)
    ax.set_xlabel("first principal direction →", loc="left")
    ax.set_ylabel("second →", loc="bottom")
    canvas.legend(ax, ax.lines[1:3], names, wide=360, below=own)
    return ax


@styled
def competitor(
    z: ArrayLike,
    z_hat: ArrayLike,
    x: ArrayLike,
    *,
    names: Sequence[str],
    x_names: Sequence[str] = ("x", "x"),
) -> Figure:
    """Two latents of one model, those of an equivalent one, and the data that both observe.

    A point keeps its colour and size in all three clouds, those of its rank in the first latent. One model's points are
    rings, the other's dots; among the data each ring holds its dot. At most 400 evenly spaced rows are drawn.

    Parameters
    ----------
    z, z_hat : arrays (batch, 2)
        Latents of the two models.
    x : array (batch, 2)
        Two observations, the same from either model.
    names, x_names : pairs of str
        Names of the latents and of the observations.

    Returns
    -------
    Figure

    Examples
    --------
    >>> z = np.random.default_rng(0).normal(size=(50, 2))
    >>> [ax.get_ylabel() for ax in competitor(z, z[:, ::-1], z, names=["z1", "z2"]).axes]
    ['z2 →', 'in place of z2 →', 'x →']
    """
    from matplotlib.figure import Figure

    z, z_hat, x = _plane(z, "z"), _plane(z_hat, "z_hat"), _plane(x, "x")
    same_batch(z, z_hat)
    same_batch(z, x, ("z", "x"))
    require(len(names) == 2, "There must be two names of latents.", len(names))
    require(len(x_names) == 2, "There must be two names of observations.", len(x_names))
    kept = _kept(len(z), MOST)
    rank = _ranks(z[:, 0])[kept]
    figure = Figure(figsize=(430 / 72, 540 / 72), layout="constrained")
    panels = figure.subplot_mosaic([["one", "other"], ["data", "data"]])
    replaced = [f"in place of {shorten(name, 12)}" for name in names]
    _panel(panels["one"], "latents of one model", names, z[kept], rank, ("rings",))
    _panel(panels["other"], "latents of the other", replaced, z_hat[kept], rank, ("dots",))
    _panel(panels["data"], "the same data", x_names, x[kept], rank, ("rings", "dots"))
    cast(Any, figure.get_layout_engine()).set(hspace=0.16)
    for name in ("one", "other"):
        arrow = {"arrowstyle": "->", "color": SOFT, "linewidth": 1.4}
        ends = ((0.5, -0.4), (0.5, -0.2))
        panels[name].annotate("", *ends, "axes fraction", "axes fraction", arrowprops=arrow).set_in_layout(False)
    words = ["one model", "the other", f"small {shorten(names[0])}", f"large {shorten(names[0])}"]
    canvas.legend(panels["one"], _keys(), words, wide=430)
    return figure


def _plane(values: ArrayLike, name: str) -> Float[np.ndarray, "batch 2"]:
    points = table(values, name)
    require(points.shape[1] == 2, f"{name} must have two columns, to be drawn in the plane.", f"shape {points.shape}")
    return points.astype(np.float64)


def _ranks(values: Float[np.ndarray, " batch"]) -> Int[np.ndarray, " batch"]:
    """Which of the equal parts of the ranks each value lies in; equal values share one."""
    ordered = np.sort(values)
    rank = np.searchsorted(ordered, values, "left") + np.searchsorted(ordered, values, "right") - 1
    return (SHADES * rank // (2 * len(values))).astype(int)


def _panel(
    ax: Axes,
    heading: str,
    names: Sequence[str],
    points: Float[np.ndarray, "batch 2"],
    rank: Int[np.ndarray, " batch"],
    kinds: Sequence[str],
) -> None:
    """Points as rings, as dots, or both, a line of them for every rank."""
    _framed(ax)
    ax.margins(0.06)
    ax.set_title(heading, loc="left" if len(kinds) == 1 else "center")
    ax.set_xlabel(f"{canvas.clean(shorten(names[0], 24))} →", loc="left")
    ax.set_ylabel(f"{canvas.clean(shorten(names[1], 24))} →", loc="bottom")
    for kind in kinds:
        for k in np.unique(rank).tolist():
            share, (x, y) = k / (SHADES - 1), points[rank == k].T
            color, size = canvas.shade(share), 2 * (2.1 + 1.6 * share)
            if kind == "rings":
                _rings(ax, kind, x, y, color, size, markeredgewidth=1.1)
            else:
                _specks(ax, kind, x, y, color, size / 2 + 0.4)


def _keys() -> list[Any]:
    """A ring, a dot, and a small and a large one in the colours of their ranks."""
    from matplotlib.lines import Line2D

    look: dict[str, Any] = {"linestyle": "none", "marker": "o"}
    return [
        Line2D([], [], **look, color=INK, markerfacecolor="none", markersize=9),
        Line2D([], [], **look, color=INK, markersize=4),
        *(Line2D([], [], **look, color=canvas.shade(k), markersize=4.2 + 3.2 * k) for k in (0, 1)),
    ]


# ---- the gap -------------------------------------------------------------------------------------------------------


@styled
def over_gaps(
    gap: ArrayLike, score: ArrayLike, *, y_label: str, groups: Sequence[str] | None = None, ax: Axes | None = None
) -> Axes:
    """Scores against whole Occam gaps, with a line through the median at each gap.

    Points at one gap are set beside each other in the order of their scores; gaps beyond −3 and 3 are counted there.

    Parameters
    ----------
    gap : array (n,)
        Whole numbers.
    score : array (n,)
        From 0 to 1.
    y_label : str
        What the score is.
    groups : sequence of str, optional
        The group of every point; at most four, each with a mark and a line of its own.
    ax : matplotlib Axes, optional
        Where to draw; a new figure by default.

    Returns
    -------
    Axes

    Examples
    --------
    >>> ax = over_gaps([-1, 1, 1], [0.6, 0.9, 1.0], y_label="MCC")
    >>> [line.get_ydata().tolist() for line in ax.lines if line.get_gid() == "median"]
    [[0.6, 0.95]]
    """
    gap, score = np.asarray(gap, dtype=float), np.asarray(score, dtype=float)
    fits = gap.ndim == 1 and gap.shape == score.shape and gap.size > 0
    require(fits, "gap and score must share one shape (n,).", f"shapes {gap.shape} and {score.shape}")
    odd = gap[~np.isfinite(gap) | (gap != np.rint(gap))]
    require(odd.size == 0, "Every gap must be a whole number.", f"{odd[:1].sum():g}")
    found = "NaN" if np.isnan(score).any() else f"{score.min():g} to {score.max():g}"
    require(bool(((score >= 0) & (score <= 1)).all()), "Scores must lie in [0, 1].", found)
    labels = [""] * len(gap) if groups is None else [str(name) for name in groups]
    require(len(labels) == len(gap), f"There must be {len(gap)} groups, one per point.", len(labels))
    series = list(dict.fromkeys(labels))
    require(len(series) <= len(_MARKS), f"There must be at most {len(_MARKS)} groups to tell apart.", len(series))
    own = ax is None
    ax = canvas.axes(ax, 420, 276 + 20 * (groups is not None))
    _gap_axes(ax, gap, y_label)
    for k, name in enumerate(series):
        chosen = np.array([label == name for label in labels])
        _lane(ax, gap[chosen], score[chosen], k, len(series), (name, y_label))
    if groups is not None:
        lines = [line for line in ax.lines if line.get_gid() == "median"]
        canvas.legend(ax, lines, [shorten(name, 24) for name in series], wide=420, below=own)
    return ax


def _gap_axes(ax: Axes, gap: Float[np.ndarray, " n"], y_label: str) -> None:
    """Grid, ticks and the part where the gap is positive, shaded."""
    canvas.numbered(ax, "y")
    ax.set_xlim(-GAPS - 0.5, GAPS + 0.5)
    ax.set_ylim(-0.02, 1.02)
    told(ax.axvspan(0.5, GAPS + 0.5, color=TILE, linewidth=0, zorder=0), "positive")
    beyond = {-GAPS: "≤ " * bool(gap.min() < -GAPS), GAPS: "≥ " * bool(gap.max() > GAPS)}
    names = [beyond.get(value, "") + canvas.tick_label(value) for value in range(-GAPS, GAPS + 1)]
    canvas.named(ax, "x", range(-GAPS, GAPS + 1), names)
    ax.set_xlabel("Occam gap")
    ax.set_title(canvas.clean(shorten(y_label, 40)), loc="left")
    ax.set_title("gap positive: identified", loc="right", fontsize=11, fontweight=400, color=SOFT)


def _lane(
    ax: Axes,
    gap: Float[np.ndarray, " n"],
    score: Float[np.ndarray, " n"],
    index: int,
    of: int,
    names: tuple[str, str],
) -> None:
    """The points of one of several groups, in its own part of the room each gap has."""
    room = 0.84 / of
    middle = room * (index - (of - 1) / 2)
    held = np.clip(gap, -GAPS, GAPS)
    color, shape = _MARKS[index]
    line = []
    for value in np.unique(held).tolist():
        own = np.flatnonzero(held == value)
        line.append((value + middle, np.median(score[own])))
        for k, i in enumerate(own[np.argsort(score[own], kind="stable")]):
            at = value + middle + 0.8 * room * ((0.5 + k * _GOLDEN) % 1 - 0.5)
            look: dict[str, Any] = {"markerfacecolor": (color, 0.45), "markeredgecolor": (color, 0.8), "markersize": 8}
            whose = f"{names[0]}, " if names[0] else ""
            words = f"{whose}gap {canvas.tick_label(float(gap[i]))}: {names[1]} {score[i]:.3f}"
            told(ax.plot(at, score[i], shape, clip_on=False, **look)[0], "point", words)
    told(ax.plot(*np.array(line).T, color=color, linewidth=2.4, marker=shape, markersize=4)[0], "median")
