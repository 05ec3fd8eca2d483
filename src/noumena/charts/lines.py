"""Curves: values over a condition with their deviations, ours and published ones, and training curves of many models.

Ours are filled and solid, published ones hollow and dashed, baselines that learn nothing grey; curves of one name share
their colour and the shape of their markers, so that no meaning rests on colour alone. A condition is a number or words;
numbers whose ratios are more even than their differences stand on a logarithmic axis. Curves stand a little beside each
other, so that their bars do not cover each other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, isfinite
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float, Shaped
from numpy.typing import ArrayLike

from noumena.charts import canvas
from noumena.charts.canvas import extent, fitting, legend_height, styled, tick_label, told
from noumena.checks import require

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Point = tuple[float | int | str, float | int, float | int | None]
"""The condition, the mean, and the standard deviation where it is known."""

EMPTY = "There are no values to draw yet."
MANY = 12
"""Points of a curve over numbers beyond which its deviations are a band and only some points are marked, and conditions
beyond which ticks are round numbers."""
_WIDE, _TALL, _LONGEST, _LARGEST = 440.0, 290.0, 22, 1e150
_ROOM = 370.0
"""Points of the figure's width that are left between its axes."""


@dataclass(frozen=True)
class Curve:
    """A line of a chart; a published one is drawn hollow and dashed, a baseline that learns nothing in grey."""

    name: str
    points: tuple[Point, ...]
    published: bool = False
    baseline: bool = False

    @property
    def label(self) -> str:
        """The name, with what the curve is unless the name says so.

        >>> Curve("VAE", (), published=True).label, Curve("VAE, published", (), published=True).label
        ('VAE (published)', 'VAE, published')
        """
        kinds = {"published": self.published, "baseline": self.baseline}
        said = [kind for kind, holds in kinds.items() if holds and kind not in self.name.lower()]
        return self.name + (f" ({' '.join(said)})" if said else "")

    @property
    def subject(self) -> str:
        """Whom a curve is about: its name without the word published."""
        return " ".join(self.name.lower().replace("published", " ").translate(str.maketrans("(),:", "    ")).split())

    @property
    def drawable(self) -> list[Point]:
        """The points with a place; a deviation that is no positive number is none."""
        return [
            (condition, mean, sd if sd is not None and _finite(sd) and sd > 0 else None)
            for condition, mean, sd in self.points
            if (isinstance(condition, str) or _finite(condition)) and _finite(mean)
        ]


@dataclass(frozen=True)
class CurveChart:
    """A chart like those of the papers: what is across, what is up, and the curves."""

    title: str
    across: str
    up: str
    curves: tuple[Curve, ...]

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw the chart."""
        return curves(self.curves, across=self.across, up=self.up, ax=ax)


@styled
def curves(curves: Sequence[Curve], *, across: str = "", up: str = "", ax: Axes | None = None) -> Axes:
    """Curves with their deviations and a legend; a sentence where there is nothing to draw.

    Parameters
    ----------
    curves : sequence of Curve
        What is drawn, baselines undermost and ours on top.
    across, up : str
        Names of the axes.
    ax : matplotlib Axes, optional
        Where to draw; a new figure by default.

    Returns
    -------
    Axes

    Examples
    --------
    >>> ax = curves([Curve("VAE", ((3, 0.9, 0.02), (4, 0.8, None)))], across="latents", up="MCC")
    >>> ax.get_xlabel(), ax.get_title(loc="left"), [tick.get_text() for tick in ax.get_xticklabels()]
    ('latents', 'MCC', ['3', '4'])
    """
    shown = [curve for curve in curves if curve.drawable]
    own = ax is None
    if not shown:
        return _empty(canvas.axes(ax, _WIDE, 60), EMPTY)
    x = _Across.of([condition for curve in shown for condition, _, _ in curve.drawable])
    names = [fitting(curve.label, _WIDE - 60) for curve in shown]
    ax = canvas.axes(ax, _WIDE, _TALL + x.depth + legend_height(names, _WIDE))
    looks = _looks(shown)
    _upright(ax, [point for curve in shown for point in curve.drawable])
    up += " (log)" * (ax.get_yscale() == "log")
    x.draw(ax, fitting(across, _WIDE - 80))
    ax.set_title(canvas.clean(fitting(up, _WIDE - 80)), loc="left", fontsize=12, fontweight=400, color=canvas.SOFT)
    for k, (curve, look) in enumerate(zip(shown, looks, strict=True)):
        _curve(ax, curve, look, x, x.beside(k, len(shown)))
    handles = [_sample(look) for look in looks]
    canvas.legend(ax, handles, names, wide=_WIDE, below=own)
    return ax


@styled
def history(
    steps: ArrayLike,
    values: ArrayLike,
    *,
    best: int | None = None,
    x_label: str = "step",
    y_label: str = "",
    ax: Axes | None = None,
) -> Axes:
    """One line per model through its values over training; the one that is used is bold.

    The vertical axis is logarithmic when every value is positive and they span more than 1.5 decades. What is not
    finite leaves a gap. At most 500 evenly spaced steps are drawn.

    Parameters
    ----------
    steps : array (time,)
        When the values were taken.
    values : array (time, model)
        A column per model.
    best : int, optional
        The model that is used.
    x_label, y_label : str
        Names of the axes.
    ax : matplotlib Axes, optional
        Where to draw; a new figure by default.

    Returns
    -------
    Axes

    Examples
    --------
    >>> ax = history([0, 1, 2], [[3, 4], [2, 3], [1, 2]], best=0)
    >>> [line.get_linewidth() for line in ax.lines]
    [1.2, 2.6]
    """
    steps, values = np.asarray(steps, dtype=float), np.asarray(values, dtype=float)
    fits = values.ndim == 2 and steps.shape == values.shape[:1] and values.size > 0
    require(fits, "history needs steps (time,) and values (time, model).", f"shapes {steps.shape} and {values.shape}")
    last = values.shape[1] - 1
    require(best is None or 0 <= best <= last, f"best must be below {last + 1}.", best)
    kept = np.unique(np.linspace(0, len(steps) - 1, min(len(steps), 500)).round().astype(int))
    steps, values = steps[kept], np.where(np.abs(values[kept]) < _LARGEST, values[kept], np.nan)
    ax = canvas.axes(ax, 420, 280)
    seen = values[np.isfinite(values) & np.isfinite(steps)[:, None]]
    if not seen.size:
        return _empty(ax, "no finite values")
    log = bool((seen > 0).all()) and bool(seen.max() > 10**1.5 * seen.min())
    canvas.numbered(ax, "x")
    ax.grid(visible=False, axis="x")
    canvas.numbered(ax, "y", log=log)
    for k in sorted(range(last + 1), key=lambda k: k == best):
        _line(ax, steps, values[:, k], bold=k == best)
    ax.set_xlabel(canvas.clean(x_label))
    look: dict[str, Any] = {"fontsize": 12, "fontweight": 400, "color": canvas.SOFT}
    ax.set_title(canvas.clean(canvas.shorten(y_label, 40)) + " (log)" * log, loc="left", **look)
    if best is not None and last:
        ax.set_title(f"bold: used, of {last + 1}", loc="right", **look)
    return ax


def _line(ax: Axes, steps: Float[np.ndarray, " time"], values: Float[np.ndarray, " time"], *, bold: bool) -> None:
    """A model's line; a value between two gaps is a dot."""
    finite = np.pad(np.isfinite(values) & np.isfinite(steps), 1)
    lone = np.flatnonzero(finite[1:-1] & ~finite[:-2] & ~finite[2:]).tolist()
    look: dict[str, Any] = {"color": canvas.ACCENT, "linewidth": 2.6} if bold else {"color": canvas.SOFT, "alpha": 0.55}
    look = {"linewidth": 1.2, "marker": "o", "markevery": lone, "markeredgewidth": 0} | look
    (line,) = ax.plot(steps, values, markersize=look["linewidth"], **look)
    told(line, "curve")


def _empty(ax: Axes, sentence: str) -> Axes:
    ax.set_axis_off()
    ax.text(0.03, 0.5, sentence, transform=ax.transAxes, va="center")
    return ax


def _finite(value: float) -> bool:
    return isfinite(value) and abs(value) < _LARGEST


# ---- axes ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Across:
    """Where each condition stands, and which ticks are written below."""

    places: dict[float | int | str, float]
    ticks: tuple[tuple[float, str], ...]
    words: bool
    log: bool = False

    @classmethod
    def of(cls, conditions: Sequence[float | int | str]) -> _Across:
        """Words in the order in which they come first, numbers in their own."""
        if any(isinstance(condition, str) for condition in conditions):
            distinct = list(dict.fromkeys(conditions))
            names = [canvas.shorten(c, _LONGEST) if isinstance(c, str) else tick_label(c) for c in distinct]
            ticks = tuple((float(k), name) for k, name in enumerate(names))
            return cls({condition: float(k) for k, condition in enumerate(distinct)}, ticks, words=True)
        numbers = np.unique(np.array(conditions, dtype=float))
        found = cls({value: value for value in numbers.tolist()}, (), words=False, log=_ratios_are_even(numbers))
        written, end = [], -np.inf
        for value, at in zip(numbers.tolist(), found.across(numbers), strict=True):
            half = extent(tick_label(value), 12) / 2 + 3
            if at - half > end:
                written.append((value, tick_label(value)))
                end = at + half
        rounded = len(numbers) > MANY and not found.log
        return cls(found.places, () if rounded else tuple(written), words=False, log=found.log)

    def across(self, places: Float[np.ndarray, " n"]) -> Float[np.ndarray, " n"]:
        """Where some places stand in the figure, in points."""
        places = np.log(places) if self.log else places
        return _ROOM * (places - places.min()) / (np.ptp(places) or 1.0)

    @property
    def gap(self) -> float:
        """The least distance of two conditions, in points."""
        if self.words:
            return _ROOM / len(self.places)
        return min(np.diff(self.across(np.array(sorted(self.places.values())))).tolist(), default=_ROOM)

    @property
    def lines(self) -> list[str]:
        """Every tick, broken between words where it is wider than its room."""
        return [_broken(name, self.gap - 6) if self.words else name for _, name in self.ticks]

    @property
    def flat(self) -> bool:
        """Whether every tick fits beside its neighbours."""
        widest = max((extent(line, 12) for name in self.lines for line in name.split("\n")), default=0)
        return not self.words or widest <= self.gap - 6

    @property
    def depth(self) -> float:
        """The room that ticks take beyond one line."""
        if self.flat:
            return 14.0 * max((name.count("\n") for name in self.lines), default=0)
        return max(extent(name, 12) for _, name in self.ticks)

    def beside(self, k: int, n: int) -> float:
        """How far the k-th of n curves is moved aside, in points."""
        step = min(12.0 if self.words else 3.0, 0.6 * self.gap / n)
        return step * (k - (n - 1) / 2)

    def draw(self, ax: Axes, name: str) -> None:
        """The axis below: its ticks, upright where they do not fit, and its name."""
        canvas.numbered(ax, "x", log=self.log)
        ax.grid(visible=False, axis="x")
        places = np.array(list(self.places.values()))
        if self.words:
            ax.set_xlim(-0.5, len(places) - 0.5)
        elif self.log:
            ax.set_xlim(places.min() / 1.15, places.max() * 1.15)
        else:
            room = 0.05 * np.ptp(places) or 0.1 * abs(places[0]) or 1.0
            ax.set_xlim(places.min() - room, places.max() + room)
        if self.ticks:
            names = self.lines if self.flat else [name for _, name in self.ticks]
            every = 1 if self.flat else ceil(13 / self.gap)
            canvas.named(ax, "x", [at for at, _ in self.ticks][::every], names[::every])
            ax.tick_params(axis="x", labelrotation=0 if self.flat else 90)
        ax.set_xlabel(canvas.clean(name))


def _broken(name: str, room: float) -> str:
    """A name in lines, each as long as fits into ``room``."""
    lines = [""]
    for word in name.split():
        longer = f"{lines[-1]} {word}".strip()
        lines[-1:] = [longer] if not lines[-1] or extent(longer, 12) <= room else [lines[-1], word]
    return "\n".join(lines)


def _ratios_are_even(numbers: Float[np.ndarray, " n"]) -> bool:
    """Whether positive numbers over a decade or more are spaced more evenly by ratio than by difference."""
    if len(numbers) < 3 or numbers[0] <= 0 or numbers[-1] < 10 * numbers[0]:
        return False
    plain, logs = np.diff(numbers), np.diff(np.log(numbers))
    return bool(plain.max() * logs.min() > logs.max() * plain.min())


def _upright(ax: Axes, points: Sequence[Point]) -> None:
    """An axis that holds means and deviations; logarithmic for large positive values over 1.5 decades."""
    means = np.array([mean for _, mean, _ in points], dtype=float)
    log = bool(means.min() > 0 and means.max() > max(10.0, 10**1.5 * means.min()))
    ends = np.array([mean + side * (sd or 0.0) for _, mean, sd in points for side in (-1, 1)])
    held = np.concatenate([means, ends[ends > means.min() / 3] if log else ends])
    canvas.numbered(ax, "y", log=log)
    lo, hi = float(held.min()), float(held.max())
    size = max(abs(lo), abs(hi))
    room = 0.05 * (hi - lo) if hi - lo > 1e-4 * size else 0.1 * size or 1.0
    ax.set_ylim(*((lo / 1.15, hi * 1.15) if log else (lo - room, hi + room)))


# ---- curves --------------------------------------------------------------------------------------------------------


def _looks(curves: Sequence[Curve]) -> list[dict[str, Any]]:
    """Curves of one name share colour and marker, whoever drew them."""
    subjects = list(dict.fromkeys(curve.subject for curve in curves if not curve.baseline))
    quiet = list(dict.fromkeys(curve.subject for curve in curves if curve.baseline))
    found = []
    for curve in curves:
        k = (quiet if curve.baseline else subjects).index(curve.subject)
        hue = canvas.SOFT if curve.baseline else canvas.HUES[k % len(canvas.HUES)]
        found.append(
            {
                "color": hue,
                "marker": canvas.MARKERS[(k + k // len(canvas.HUES)) % len(canvas.MARKERS)],
                "markersize": 8,
                "markeredgewidth": 1.6,
                "markerfacecolor": canvas.PAPER if curve.published else hue,
                "linestyle": (0, (5 / 1.8, 4 / 1.8)) if curve.published else "solid",
                "linewidth": 1.2 if curve.baseline else 1.8,
                "zorder": 2 + 2 * (not curve.baseline) + 2 * (not curve.baseline and not curve.published),
            }
        )
    return found


def _curve(ax: Axes, curve: Curve, look: dict[str, Any], x: _Across, aside: float) -> None:
    from matplotlib.transforms import ScaledTranslation

    moved = ax.transData + ScaledTranslation(aside / 72, 0, ax.figure.dpi_scale_trans)
    points = sorted(curve.drawable, key=lambda point: x.places[point[0]])
    at = np.array([x.places[condition] for condition, _, _ in points])
    means = np.array([mean for _, mean, _ in points], dtype=float)
    deviations = np.array([sd or 0.0 for _, _, sd in points])
    low = np.maximum(means - deviations, ax.get_ylim()[0])
    if deviations.any():
        _spread(ax, at, low, means + deviations, look, moved, bars=x.words or len(points) <= MANY)
    line: dict[str, Any] = {name: look[name] for name in ("color", "linestyle", "linewidth", "zorder")}
    line |= {"alpha": 0.45} if x.words else {}
    told(ax.plot(*_gapped(curve, x), transform=moved, **line)[0], "line")
    every = ceil(len(points) / MANY) if not x.words else 1
    for k in range(0, len(points), every):
        dot = look | {"linestyle": "none", "zorder": look["zorder"] + 1}
        (marker,) = ax.plot(at[k], means[k], transform=moved, **dot)
        told(marker, "marker", _sentence(curve, points[k]))


def _gapped(curve: Curve, x: _Across) -> tuple[Float[np.ndarray, " n"], Float[np.ndarray, " n"]]:
    """Places and means in their order; where a mean is missing the line has a gap."""
    placed = sorted((x.places[c], mean if _finite(mean) else np.nan) for c, mean, _ in curve.points if c in x.places)
    at, means = np.array(placed, dtype=float).T
    return at, means


def _sentence(curve: Curve, point: Point) -> str:
    condition, mean, sd = point
    return f"{curve.label}, {condition}: {mean:.4g}{'' if sd is None else f' ± {sd:.2g}'}"


def _spread(
    ax: Axes,
    at: Float[np.ndarray, " n"],
    low: Float[np.ndarray, " n"],
    high: Float[np.ndarray, " n"],
    look: dict[str, Any],
    moved: Any,
    *,
    bars: bool,
) -> None:
    """Upright bars from low to high where they differ, with short ends, or a band."""
    if not bars:
        band = ax.fill_between(at, low, high, color=look["color"], alpha=0.14, linewidth=0, transform=moved, zorder=1.5)
        told(band, "deviation")
        return
    known = high > low
    nothing = np.full(int(known.sum()), np.nan)
    upright: Shaped[np.ndarray, " m"] = np.stack([low[known], high[known], nothing], axis=1).ravel()
    pen: dict[str, Any] = {name: look[name] for name in ("color", "linestyle", "zorder")} | {"linewidth": 1}
    (drawn,) = ax.plot(np.repeat(at[known], 3), upright, marker="_", markersize=6, transform=moved, **pen)
    told(drawn, "deviation")


def _sample(look: dict[str, Any]) -> Any:
    """A piece of a curve with its marker, for the legend."""
    from matplotlib.lines import Line2D

    return Line2D([], [], **look)
