"""Clouds: what a competitor does to the latents and not to the data, and scores against the Occam gap."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt

import numpy as np
from numpy.typing import ArrayLike

from noumena.checks import require, same_batch, table
from noumena.report import svg
from noumena.report.svg import Scale, element, text

__all__ = ["prediction", "witness_clouds"]

_MOST, _SHADES = 400, 12
_GOLDEN = (sqrt(5) - 1) / 2
_END = 3
_MARKS = (
    (svg.ACCENT, "M-4 0a4 4 0 1 0 8 0a4 4 0 1 0 -8 0z"),
    (svg.RAMP[2], "M-3.6 -3.6h7.2v7.2h-7.2z"),
    (svg.RAMP[1], "M0 -4.8L4.4 3.4h-8.8z"),
    (svg.SOFT, "M0 -5L5 0L0 5L-5 0z"),
)


# ---- a competitor ------------------------------------------------------------------------------------------


def witness_clouds(
    z: ArrayLike,
    z_hat: ArrayLike,
    x: ArrayLike,
    *,
    names: Sequence[str],
    x_names: Sequence[str] = ("x", "x"),
) -> str:
    """Two latents ``z`` (batch, 2) of one model, an equivalent one's ``z_hat`` (batch, 2), and what both observe.

    ``x`` (batch, 2) are two observations, the same from either model. A point keeps its colour and size in all three
    clouds, those of its rank in the first latent. One model's points are rings, the other's dots; among the data each
    ring holds its dot. At most 400 evenly spaced rows are drawn.

    >>> z = np.random.default_rng(0).normal(size=(50, 2))
    >>> figure = witness_clouds(z, z[:, ::-1], z, names=["z1", "z2"])
    >>> figure.count('class="rings"'), figure.count('class="dots"')
    (2, 2)
    """
    z, z_hat, x = _plane(z, "z"), _plane(z_hat, "z_hat"), _plane(x, "x")
    same_batch(z, z_hat)
    same_batch(z, x, ("z", "x"))
    require(len(names) == 2, "There must be two names of latents.", len(names))
    require(len(x_names) == 2, "There must be two names of observations.", len(x_names))
    kept = np.unique(np.linspace(0, len(z) - 1, min(len(z), _MOST)).round().astype(int))
    shade = _shades(z[:, 0])[kept]
    one, other, data = _Panel(28, 30, 180, 180), _Panel(236, 30, 180, 180), _Panel(28, 280, 388, 180)
    drawn = [
        one.frame("latents of one model", names) + _points("rings", one, z[kept], shade),
        other.frame("latents of the other", [f"in place of {svg.shorten(name, 12)}" for name in names])
        + _points("dots", other, z_hat[kept], shade),
        data.frame("the same data", x_names, middle=True),
        _points("rings", data, x[kept], shade) + _points("dots", data, x[kept], shade),
        _arrow(118, 240) + _arrow(326, 240),
    ]
    words, height = svg.legend(_cloud_legend(names[0]), 28, 490, 400)
    title = f"Two models with different latents {names[0]}, {names[1]} and the same data"
    return svg.document(430, 494 + height, title, "".join(drawn) + words)


def _plane(values: ArrayLike, name: str) -> np.ndarray:
    points = table(values, name)
    require(points.shape[1] == 2, f"{name} must have two columns, to be drawn in the plane.", f"shape {points.shape}")
    return points.astype(np.float64)


def _shades(values: np.ndarray) -> np.ndarray:
    """Which of the equal parts of the ranks each value lies in; equal values share one."""
    ordered = np.sort(values)
    rank = np.searchsorted(ordered, values, "left") + np.searchsorted(ordered, values, "right") - 1
    return (_SHADES * rank // (2 * len(values))).astype(int)


@dataclass(frozen=True)
class _Panel:
    """A frame with a heading and two named axes, for points in the plane."""

    left: float
    top: float
    wide: float
    tall: float

    def frame(self, heading: str, axes: Sequence[str], *, middle: bool = False) -> str:
        """The box with its heading and the names of its axes."""
        box = {"x": self.left, "y": self.top, "width": self.wide, "height": self.tall, "rx": 3}
        place = {"x": self.left + self.wide / 2, "text_anchor": "middle"} if middle else {"x": self.left}
        bold = {"size": 13, "fill": svg.INK, "font_weight": "600"}
        across, up = (f"{svg.shorten(name, 24)} →" for name in axes)
        return (
            element("rect", class_="panel", **box, fill=svg.TILE, fill_opacity=0.6)
            + text(y=self.top - 9, string=heading, **place, **bold)
            + text(self.left, self.top + self.tall + 16, across)
            + text(self.left - 8, self.top + self.tall, up, turn=-90)
        )

    def places(self, points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Where some points (n, 2) are drawn."""
        x = svg.around(points[:, 0], self.left + 7, self.left + self.wide - 7)
        y = svg.around(points[:, 1], self.top + self.tall - 7, self.top + 7)
        return x(points[:, 0]), y(points[:, 1])


def _points(kind: str, panel: _Panel, points: np.ndarray, shade: np.ndarray) -> str:
    """Points (n, 2) as ``rings`` or ``dots``, one path for each shade; without colour mixing all are alike."""
    x, y = panel.places(points)
    paths = []
    for k in np.unique(shade):
        share = int(k) / (_SHADES - 1)
        radius = 2.1 + 1.6 * share
        if kind == "rings":
            look = {"d": _circles(x[shade == k], y[shade == k], radius), "stroke_width": 1.1}
        else:
            look = {"d": svg.specks(x[shade == k], y[shade == k]), "stroke_width": radius + 0.4}
        paths.append(element("path", stroke=svg.ramp(share), **look))
    return element("g", "".join(paths), class_=kind, fill="none", stroke=svg.RAMP[1], stroke_linecap="round")


def _circles(x: np.ndarray, y: np.ndarray, radius: float) -> str:
    """Path data of a circle around each point."""
    r, across = svg.number(radius), svg.number(2 * radius)
    turn = f"a{r} {r} 0 1 0 {across} 0a{r} {r} 0 1 0 -{across} 0"
    return "".join(f"M{svg.number(a - radius)} {svg.number(b)}{turn}" for a, b in zip(x, y, strict=True))


def _arrow(x: float, y: float) -> str:
    pen = {"stroke": svg.SOFT, "stroke_width": 1.4, "stroke_linecap": "round", "fill": "none"}
    return element("path", d=f"M{svg.number(x)} {svg.number(y)}v30m-5 -6l5 6l5 -6", **pen)


def _cloud_legend(name: str) -> list[tuple[str, str]]:
    ring = element("circle", r=4.5, fill="none", stroke=svg.INK, stroke_width=1.2)
    dot = element("circle", r=2, fill=svg.INK)
    shades = "".join(element("circle", cx=6 * k - 6, r=2 + k / 2, fill=svg.RAMP[k]) for k in range(3))
    return [(ring, "one model"), (dot, "the other"), (shades, f"small to large {svg.shorten(name)}")]


# ---- the gap -----------------------------------------------------------------------------------------------


def prediction(
    gap: ArrayLike,
    score: ArrayLike,
    *,
    y_label: str,
    groups: Sequence[str] | None = None,
) -> str:
    """Scores in [0, 1] against whole Occam gaps, both (n,), with a line through the median at each gap.

    Gaps beyond −3 and 3 are counted there. With ``groups``, one name per point and at most four names, each group has
    its own mark and line. Points at one gap are set beside each other in the order of their scores.

    >>> prediction([-1, 1, 1], [0.6, 0.9, 1.0], y_label="MCC").count('class="point"')
    3
    """
    gap, score = np.asarray(gap, dtype=float), np.asarray(score, dtype=float)
    fits = gap.ndim == 1 and gap.shape == score.shape and gap.size > 0
    require(fits, "gap and score must share one shape (n,).", f"shapes {gap.shape} and {score.shape}")
    odd = gap[~np.isfinite(gap) | (gap != np.rint(gap))]
    require(odd.size == 0, "Every gap must be a whole number.", f"{odd[:1].sum():g}")
    require(bool(((score >= 0) & (score <= 1)).all()), "Scores must lie in [0, 1].", _range(score))
    labels = [""] * len(gap) if groups is None else [str(name) for name in groups]
    require(len(labels) == len(gap), f"There must be {len(gap)} groups, one per point.", len(labels))
    named = list(dict.fromkeys(labels))
    require(len(named) <= len(_MARKS), f"There must be at most {len(_MARKS)} groups to tell apart.", len(named))
    x, y = Scale(-_END - 0.5, _END + 0.5, 52, 408), Scale(0, 1, 232, 44)
    chosen = [np.array([label == name for label in labels]) for name in named]
    lanes = [_Lane(k, len(named), name) for k, name in enumerate(named)]
    points = [lane.draw(gap[own], score[own], (x, y), y_label) for lane, own in zip(lanes, chosen, strict=True)]
    words, height = svg.legend([lane.key for lane in lanes] if groups is not None else [], 52, 276, 356)
    heading = text(12, 20, svg.shorten(y_label, 50), size=13, fill=svg.INK, font_weight="600")
    content = _gap_axes(x, y, gap) + heading + "".join(points) + words
    return svg.document(420, 276 + height * (groups is not None), f"{y_label} against the Occam gap", content)


def _range(score: np.ndarray) -> str:
    return "NaN" if np.isnan(score).any() else f"{score.min():g} to {score.max():g}"


@dataclass(frozen=True)
class _Lane:
    """The points of one of several groups, in its own part of the room each gap has."""

    index: int
    of: int
    name: str

    @property
    def look(self) -> tuple[str, str]:
        return _MARKS[self.index]

    @property
    def key(self) -> tuple[str, str]:
        color, shape = self.look
        return element("path", d=shape, fill=color), svg.shorten(self.name, 24)

    def draw(self, gap: np.ndarray, score: np.ndarray, scales: tuple[Scale, Scale], y_label: str) -> str:
        """The points of one series beside those of the others."""
        x, y = scales
        room = 0.84 / self.of
        middle = room * (self.index - (self.of - 1) / 2)
        held = np.clip(gap, -_END, _END)
        color, shape = self.look
        drawn, line = [], []
        for value in np.unique(held):
            own = np.flatnonzero(held == value)
            line.append((value + middle, np.median(score[own])))
            for k, i in enumerate(own[np.argsort(score[own], kind="stable")]):
                at = x(value + middle + 0.8 * room * ((0.5 + k * _GOLDEN) % 1 - 0.5))
                place = f"translate({svg.number(at)} {svg.number(y(score[i]))})"
                told = svg.hint(self._told(int(gap[i]), float(score[i]), y_label))
                look = {"fill": color, "fill_opacity": 0.45, "stroke": color, "stroke_opacity": 0.8}
                drawn.append(element("path", told, class_="point", d=shape, transform=place, **look))
        across, up = np.array(line).T
        pen = {"stroke": color, "stroke_width": 2.4, "stroke_linejoin": "round", "stroke_linecap": "round"}
        return "".join(drawn) + element("path", class_="median", d=svg.polyline(x(across), y(up)), fill="none", **pen)

    def _told(self, gap: int, score: float, y_label: str) -> str:
        whose = f"{self.name}, " if self.name else ""
        return f"{whose}gap {svg.tick_label(gap)}: {y_label} {score:.3f}"


def _gap_axes(x: Scale, y: Scale, gap: np.ndarray) -> str:
    """Grid, ticks and the part where the gap is positive, shaded."""
    box = {"x": x(0.5), "y": y.end, "width": x.end - x(0.5), "height": y.start - y.end}
    drawn = [
        element("rect", class_="positive", **box, fill=svg.TILE),
        text(x.end, y.end - 10, "gap positive: identified", size=11, text_anchor="end"),
        text((x.start + x.end) / 2, y.start + 36, "Occam gap", text_anchor="middle"),
    ]
    for tick in y.ticks():
        drawn.append(element("line", x1=x.start, x2=x.end, y1=y(tick), y2=y(tick), stroke=svg.LINE))
        drawn.append(text(x.start - 8, y(tick) + 4, svg.tick_label(tick), text_anchor="end"))
    for value in range(-_END, _END + 1):
        beyond = "≤ " * bool(value == -_END and gap.min() < -_END) + "≥ " * bool(value == _END and gap.max() > _END)
        drawn.append(text(x(value), y.start + 18, beyond + svg.tick_label(value), text_anchor="middle"))
    return "".join(drawn)
