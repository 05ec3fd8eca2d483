"""Figures of studies: curves over a condition, ours and the published ones, with their spread.

Ours are filled and solid, published ones hollow and dashed, baselines that learn nothing grey; curves of one name share
their colour and the shape of their markers, so that no meaning rests on colour alone. A condition is a number or words;
numbers whose ratios are more even than their differences stand on a logarithmic axis. Curves stand a little beside each
other, so that their bars do not cover each other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, cos, isfinite, pi, sin

import numpy as np

from noumena.report import svg
from noumena.report.svg import Scale, element, text

Point = tuple[float | int | str, float | int, float | int | None]
"""The condition, the mean, and the standard deviation where it is known."""

EMPTY = "There are no values to draw yet."
HUES = tuple(
    f"var(--hue-{k},{color})"
    for k, color in enumerate(
        ("#1f5a94", "#c2500a", "#217346", "#8a3aa8", "#0d7f8c", "#a8326e", "#7a5c12", "#4b4fc4"), start=1
    )
)
"""Colours of curves; each has a lighter one in a dark theme."""
MANY = 12
"""Points of a curve over numbers beyond which its deviations are a band and only some points are marked, and conditions
beyond which ticks are round numbers."""
_WIDE, _LEFT, _TOP, _TALL, _RADIUS = 440.0, 52.0, 30.0, 220.0, 4.2
_LONGEST = 22
_LARGEST = 1e150


@dataclass(frozen=True)
class Curve:
    """A line of a figure; a published one is drawn hollow and dashed, a baseline that learns nothing in grey."""

    name: str
    points: tuple[Point, ...]
    published: bool = False
    baseline: bool = False


@dataclass(frozen=True)
class Figure:
    """A figure like those of the papers: what is across, what is up, and the curves."""

    title: str
    across: str
    up: str
    curves: tuple[Curve, ...]


def curves_svg(figure: Figure) -> str:
    """The figure as inline SVG: axes, curves with their deviations, and a legend below; a sentence if it is empty.

    >>> ours = Curve("VAE", ((3, 0.9, 0.02), (4, 0.8, None)))
    >>> curves_svg(Figure("Recovery", "latents", "MCC", (ours,))).count('class="marker"')
    2
    """
    title = figure.title or "Curves"
    seen = [point for curve in figure.curves for point in _drawable(curve)]
    if not seen:
        sentence, height = svg.paragraph(EMPTY, 12, 12, _WIDE - 24)
        return svg.document(_WIDE, height + 24, title, sentence)
    x, y = _across([condition for condition, _, _ in seen]), _up(seen)
    shown = [curve for curve in figure.curves if _drawable(curve)]
    looks = _looks(shown)
    order = sorted(range(len(shown)), key=lambda k: (not shown[k].baseline, not shown[k].published))
    lines = [_curve(shown[k], looks[k], x, y, x.beside(k, len(shown))) for k in order]
    bottom = y.start + x.depth + 24
    label = text((_LEFT + _WIDE - 16) / 2, bottom, fitting(figure.across, _WIDE - 80), text_anchor="middle")
    named = [(looks[k].sample, fitting(legend_words(curve), _WIDE - 60)) for k, curve in enumerate(shown)]
    legend, height = svg.legend(named, 12, bottom + 14, _WIDE - 24)
    up = text(12, 16, fitting(figure.up, _WIDE - 80) + " (log)" * y.log)
    content = _rules(y) + x.labels(y.start) + up + "".join(lines) + label + legend
    return svg.document(_WIDE, bottom + 14 + height + 4, title, content)


def legend_words(curve: Curve) -> str:
    """A curve's name, with what it is unless the name says so.

    >>> legend_words(Curve("VAE", (), published=True)), legend_words(Curve("VAE, published", (), published=True))
    ('VAE (published)', 'VAE, published')
    """
    kinds = {"published": curve.published, "baseline": curve.baseline}
    said = [kind for kind, holds in kinds.items() if holds and kind not in curve.name.lower()]
    return curve.name + (f" ({' '.join(said)})" if said else "")


def fitting(words: str, room: float, size: float = 12) -> str:
    """Words shortened until they fit into ``room``.

    >>> fitting("dependency sparsity", 80), fitting("dependency", 80)
    ('dependenc…', 'dependency')
    """
    lengths = range(len(words), 0, -1)
    return next((s for n in lengths if svg.extent(s := svg.shorten(words, n), size) <= room), "")


# ---- axes ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Across:
    """Where each condition stands, and which ticks are written below."""

    places: dict[float | int | str, float]
    ticks: dict[str, float]
    words: bool

    @property
    def gap(self) -> float:
        """The least distance of two conditions."""
        places = sorted(self.places.values())
        return min(np.diff(places).tolist(), default=_WIDE - _LEFT)

    @property
    def lines(self) -> dict[str, list[str]]:
        """Every tick, broken between words where it is wider than its room."""
        return {name: _broken(name, self.gap - 6) if self.words else [name] for name in self.ticks}

    @property
    def flat(self) -> bool:
        """Whether every tick fits beside its neighbours."""
        widest = max(svg.extent(line, 12) for lines in self.lines.values() for line in lines)
        return not self.words or widest <= self.gap - 6

    @property
    def depth(self) -> float:
        """The room that ticks take."""
        if self.flat:
            return 6.0 + 14 * max(map(len, self.lines.values()))
        return max(svg.extent(name, 12) for name in self.ticks) + 12

    def beside(self, k: int, n: int) -> float:
        """How far the k-th of n curves is moved aside."""
        step = min(12.0 if self.words else 3.0, 0.6 * self.gap / n)
        return step * (k - (n - 1) / 2)

    def labels(self, top: float) -> str:
        """The ticks below an axis, upright where they do not fit."""
        if self.flat:
            lines = [(self.ticks[name], k, line) for name, lines in self.lines.items() for k, line in enumerate(lines)]
            return "".join(text(x, top + 18 + 14 * k, line, text_anchor="middle") for x, k, line in lines)
        every = ceil(13 / self.gap)
        upright = list(self.ticks.items())[::every]
        return "".join(text(x + 4, top + 10, name, turn=-90, text_anchor="end") for name, x in upright)


def _across(conditions: Sequence[float | int | str]) -> _Across:
    """Words in the order in which they come first, numbers in their own."""
    left, right = _LEFT, _WIDE - 16
    if any(isinstance(condition, str) for condition in conditions):
        distinct = list(dict.fromkeys(conditions))
        room = (right - left) / len(distinct)
        places = {condition: left + room * (k + 0.5) for k, condition in enumerate(distinct)}
        names = [svg.shorten(c, _LONGEST) if isinstance(c, str) else svg.tick_label(c) for c in distinct]
        return _Across(places, _distinct(names, list(places.values())), words=True)
    numbers = np.unique(np.array(conditions, dtype=float))
    scale = svg.around(numbers, left + 8, right - 8, log=_ratios_are_even(numbers))
    written = scale.ticks() if len(numbers) > MANY and not scale.log else numbers.tolist()
    ticks: dict[str, float] = {}
    end = -np.inf
    for value in written:
        half = svg.extent(svg.tick_label(value), 12) / 2 + 3
        if scale(value) - half > end:
            ticks[svg.tick_label(value)] = float(scale(value))
            end = scale(value) + half
    return _Across({value: float(scale(value)) for value in numbers.tolist()}, ticks, words=False)


def _broken(name: str, room: float) -> list[str]:
    """A name in lines, each as long as fits into ``room``."""
    lines = [""]
    for word in name.split():
        longer = f"{lines[-1]} {word}".strip()
        lines[-1:] = [longer] if not lines[-1] or svg.extent(longer, 12) <= room else [lines[-1], word]
    return lines


def _distinct(names: Sequence[str], places: Sequence[float]) -> dict[str, float]:
    """Names that were cut to the same are told apart by a number."""
    found: dict[str, float] = {}
    for k, (name, place) in enumerate(zip(names, places, strict=True), start=1):
        found[f"{name} {k}" if name in found else name] = place
    return found


def _ratios_are_even(numbers: np.ndarray) -> bool:
    """Whether positive numbers over a decade or more are spaced more evenly by ratio than by difference."""
    if len(numbers) < 3 or numbers[0] <= 0 or numbers[-1] < 10 * numbers[0]:
        return False
    plain, logs = np.diff(numbers), np.diff(np.log(numbers))
    return bool(plain.max() * logs.min() > logs.max() * plain.min())


def _up(points: Sequence[Point]) -> Scale:
    """The scale that holds means and deviations; logarithmic for large positive values over 1.5 decades."""
    means = np.array([mean for _, mean, _ in points], dtype=float)
    log = bool(means.min() > 0 and means.max() > max(10.0, 10**1.5 * means.min()))
    ends = np.array([mean + side * (sd or 0.0) for _, mean, sd in points for side in (-1, 1)])
    held = np.concatenate([means, ends[ends > means.min() / 3] if log else ends])
    return svg.around(held, _TOP + _TALL, _TOP, log=log)


def _rules(y: Scale) -> str:
    drawn = []
    for tick in y.ticks():
        at = float(y(tick))
        drawn.append(element("line", x1=_LEFT, x2=_WIDE - 16, y1=at, y2=at, stroke=svg.LINE))
        drawn.append(text(_LEFT - 8, at + 4, svg.tick_label(tick), text_anchor="end"))
    return "".join(drawn)


# ---- curves --------------------------------------------------------------------------------------------------------


def _drawable(curve: Curve) -> list[Point]:
    """The points with a place; a deviation that is no positive number is none."""
    found: list[Point] = []
    for condition, mean, sd in curve.points:
        placed = isinstance(condition, str) or _finite(condition)
        if placed and _finite(mean):
            found.append((condition, mean, sd if sd is not None and _finite(sd) and sd > 0 else None))
    return found


def _finite(value: float) -> bool:
    return isfinite(value) and abs(value) < _LARGEST


@dataclass(frozen=True)
class _Look:
    """How a curve is drawn."""

    hue: str
    shape: str
    published: bool
    thin: bool

    @property
    def pen(self) -> dict[str, str | float]:
        """The attributes of its line."""
        dashes: dict[str, str | float] = {"stroke_dasharray": "5 4"} if self.published else {}
        width = 1.2 if self.thin else 1.8
        return {"fill": "none", "stroke": self.hue, "stroke_width": width, "stroke_linejoin": "round"} | dashes

    def marker(self, x: float, y: float, told: str = "") -> str:
        """Its marker at a place."""
        place = f"translate({svg.number(x)} {svg.number(y)})"
        fill = svg.PAPER if self.published else self.hue
        look = {"d": self.shape, "transform": place, "fill": fill, "stroke": self.hue, "stroke_width": 1.6}
        return element("path", svg.hint(told) if told else "", class_="marker", **look)

    @property
    def sample(self) -> str:
        """A piece of its line with a marker, around the origin, for the legend."""
        return element("path", d="M-8 0h16", **self.pen) + self.marker(0, 0).replace(' class="marker"', "")


def _looks(curves: Sequence[Curve]) -> list[_Look]:
    """Curves of one name share colour and shape, whoever drew them."""
    subjects = list(dict.fromkeys(_subject(curve) for curve in curves if not curve.baseline))
    quiet = list(dict.fromkeys(_subject(curve) for curve in curves if curve.baseline))
    found = []
    for curve in curves:
        k = (quiet if curve.baseline else subjects).index(_subject(curve))
        hue = svg.SOFT if curve.baseline else HUES[k % len(HUES)]
        shape = SHAPES[(k + k // len(HUES)) % len(SHAPES)]
        found.append(_Look(hue, shape, curve.published, thin=curve.baseline))
    return found


def _subject(curve: Curve) -> str:
    """Whom a curve is about: its name without the word published."""
    return " ".join(curve.name.lower().replace("published", " ").translate(str.maketrans("(),:", "    ")).split())


def _curve(curve: Curve, look: _Look, x: _Across, y: Scale, aside: float) -> str:
    points = sorted(_drawable(curve), key=lambda point: x.places[point[0]])
    across = np.array([x.places[condition] + aside for condition, _, _ in points])
    means = np.array([mean for _, mean, _ in points], dtype=float)
    deviations = np.array([sd or 0.0 for _, _, sd in points])
    low = np.maximum(means - deviations, y.lo)
    spread = (_bars if x.words or len(points) <= MANY else _band)(across, y(low), y(means + deviations), look)
    quiet = {"stroke_opacity": 0.45} if x.words else {}
    line = element("path", class_="line", d=_path(curve, x, y, aside), **look.pen, **quiet)
    every = ceil(len(points) / MANY) if not x.words else 1
    markers = [look.marker(across[k], y(means[k]), _told(curve, points[k])) for k in range(0, len(points), every)]
    return spread + line + "".join(markers)


def _path(curve: Curve, x: _Across, y: Scale, aside: float) -> str:
    """Path data through a curve's means; where a mean is missing the line has a gap."""
    placed = sorted(
        (x.places[c] + aside, mean if _finite(mean) else np.nan) for c, mean, _ in curve.points if c in x.places
    )
    return svg.polyline(np.array([at for at, _ in placed]), y(np.array([mean for _, mean in placed])))


def _told(curve: Curve, point: Point) -> str:
    condition, mean, sd = point
    return f"{legend_words(curve)}, {condition}: {mean:.4g}{'' if sd is None else f' ± {sd:.2g}'}"


def _bars(x: np.ndarray, low: np.ndarray, high: np.ndarray, look: _Look) -> str:
    """An upright bar from low to high at every place where they differ, with short ends."""
    data = "".join(
        f"M{svg.number(a - 3)} {svg.number(b)}h6m-3 0V{svg.number(c)}m-3 0h6"
        for a, b, c in zip(x, low, high, strict=True)
        if b != c
    )
    return element("path", class_="deviation", d=data, **look.pen | {"stroke_width": 1}) if data else ""


def _band(x: np.ndarray, low: np.ndarray, high: np.ndarray, look: _Look) -> str:
    """The area between low and high."""
    there, back = zip(x, high, strict=True), zip(x[::-1], low[::-1], strict=True)
    corners = [f"{svg.number(a)} {svg.number(b)}" for a, b in (*there, *back)]
    return element("path", class_="deviation", d=f"M{'L'.join(corners)}z", fill=look.hue, fill_opacity=0.14)


def _polygon(corners: int, turn: float, radius: float) -> str:
    """Path data of a regular polygon around the origin, a corner at ``turn`` of the way round from the right."""
    angles = [2 * pi * (turn + k / corners) for k in range(corners)]
    return "M" + "L".join(f"{svg.number(radius * cos(a))} {svg.number(radius * sin(a))}" for a in angles) + "z"


SHAPES = (
    f"M-{_RADIUS} 0a{_RADIUS} {_RADIUS} 0 1 0 {2 * _RADIUS} 0a{_RADIUS} {_RADIUS} 0 1 0 -{2 * _RADIUS} 0z",
    _polygon(4, 1 / 8, 1.3 * _RADIUS),
    _polygon(3, 3 / 4, 1.4 * _RADIUS),
    _polygon(4, 0, 1.35 * _RADIUS),
    _polygon(3, 1 / 4, 1.4 * _RADIUS),
    _polygon(6, 0, 1.15 * _RADIUS),
    _polygon(3, 0, 1.4 * _RADIUS),
    _polygon(3, 1 / 2, 1.4 * _RADIUS),
)
"""Outlines of markers; hollow or filled they can be told apart."""
