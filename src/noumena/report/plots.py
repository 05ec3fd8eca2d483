"""Plots: arrays in, inline SVG out. Nothing is imported from a plotting library and nothing is fetched.

Each function is pure. Colours follow the theme of the page; no meaning rests on colour alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import ceil

import numpy as np
from numpy.typing import ArrayLike

from noumena.checks import one_of, require
from noumena.report import svg
from noumena.report.heatmaps import correlation_matrix, named_support, structure_heatmap
from noumena.report.svg import Scale, element, text

__all__ = ["bipartite", "correlation_matrix", "curves", "dots", "scatter_pairs", "structure_heatmap"]

VERDICTS = {"identified": svg.GOOD, "not identified": svg.BAD, "open": svg.OPEN}
"""The three kinds of verdict and their colours."""

_SIDE = 120


# ---- graphs ------------------------------------------------------------------------------------------------

HOVER = (
    "<style>.nm-edge{transition:stroke-opacity .15s}.nm-latents:hover .nm-edge{stroke-opacity:.12}"
    ".nm-latents .nm-latent:hover .nm-edge{stroke-opacity:1;stroke-width:2.4}</style>"
)


def bipartite(
    support: ArrayLike,
    *,
    observed: Sequence[str],
    latent: Sequence[str],
    verdicts: Sequence[str] | None = None,
) -> str:
    """Latents above, observations below, an edge for every entry of the support (observed, latent).

    A latent's colour and sign give its verdict; resting on a latent brings its edges forward.

    >>> bipartite([[1, 1], [0, 1]], observed=["x1", "x2"], latent=["z1", "z2"]).count('class="nm-edge"')
    3
    """
    support = named_support(support, "support", observed, latent)
    kinds = list(verdicts) if verdicts is not None else [None] * len(latent)
    require(len(kinds) == len(latent), "There must be one verdict per latent.", f"{len(kinds)}")
    named = {one_of(kind, "verdict", tuple(VERDICTS)) for kind in kinds if kind is not None}
    width = min(820.0, max(420.0, 30.0 * max(support.shape) + 40))
    upper, lower = _Row(latent, width), _Row(observed, width)
    top = upper.depth + 26
    bottom = top + (150 if width < 600 else 190)
    ends = np.stack([lower.x, np.full(len(observed), bottom)], axis=1)
    faint = min(0.5, max(0.15, 3.2 / max(int(support.sum()), 1) ** 0.5))
    edges = [_edges((x, top), ends[support[:, j]], kinds[j], faint) for j, x in enumerate(upper.x)]
    latents = [element("g", edges[j] + _latent_node(upper, j, top, k), class_="nm-latent") for j, k in enumerate(kinds)]
    squares = [_observed_node(lower, i, bottom) for i in range(len(observed))]
    below = bottom + lower.depth + 24
    words, height = svg.legend([(sign(k, 7), k) for k in VERDICTS if k in named], 10, below, width - 20)
    title = f"Which of {len(observed)} observations depend on which of {len(latent)} latents"
    content = HOVER + element("g", "".join(latents), class_="nm-latents") + "".join(squares) + words
    return svg.document(width, below + height * bool(named), title, content)


@dataclass(frozen=True)
class _Row:
    """Names spread evenly over a width; their labels are turned upright where they would touch."""

    names: Sequence[str]
    width: float

    @property
    def room(self) -> float:
        return self.width / len(self.names)

    @property
    def x(self) -> np.ndarray:
        return self.room * (np.arange(len(self.names)) + 0.5)

    @property
    def size(self) -> float:
        return min(12.5, max(7.5, 0.8 * self.room))

    @property
    def flat(self) -> bool:
        return svg.labels_fit(self.names, self.room, self.size)

    @property
    def depth(self) -> float:
        return 16.0 if self.flat else svg.label_room(self.names, self.size)

    def label(self, k: int, y: float, *, below: bool, fill: str) -> str:
        """The k-th name with its nearer end at ``y``; nothing where the row is too dense for it."""
        if k % ceil(1.05 * self.size / self.room) and not self.flat:
            return ""
        x, name = self.x[k], svg.shorten(self.names[k])
        look = {"size": self.size, "fill": fill}
        if self.flat:
            return text(x, y + 0.8 * self.size * below, name, text_anchor="middle", **look)
        return text(x + 0.35 * self.size, y, name, text_anchor="end" if below else "start", turn=-90, **look)


def _latent_node(row: _Row, j: int, y: float, kind: str | None) -> str:
    told = svg.hint(row.names[j] if kind is None else f"{row.names[j]}: {kind}")
    radius = min(12.0, 0.42 * row.room)
    place = f"translate({svg.number(row.x[j])} {svg.number(y)})"
    disc = element("g", told + sign(kind, radius), transform=place)
    return disc + row.label(j, y - radius - 7, below=False, fill=svg.INK)


def _observed_node(row: _Row, i: int, y: float) -> str:
    side = min(13.0, 0.6 * row.room)
    box = {"x": row.x[i] - side / 2, "y": y - side / 2, "width": side, "height": side, "rx": 2}
    return element("rect", svg.hint(row.names[i]), **box, fill=svg.INK) + row.label(
        i, y + side / 2 + 7, below=True, fill=svg.SOFT
    )


def _edges(start: tuple[float, float], ends: np.ndarray, kind: str | None, faint: float) -> str:
    color = VERDICTS.get(kind or "", svg.ACCENT)
    pen = {"class_": "nm-edge", "stroke": color, "stroke_width": 1.3, "stroke_opacity": faint, "fill": "none"}
    drawn = []
    for end in ends:
        bend = 0.52 * (end[1] - start[1])
        x, y, leave, a, b, arrive = map(svg.number, (*start, start[1] + bend, *end, end[1] - bend))
        drawn.append(element("path", d=f"M{x} {y}C{x} {leave} {a} {arrive} {a} {b}", **pen))
    return "".join(drawn)


def sign(kind: str | None, radius: float) -> str:
    """A verdict's disc with its sign, around the origin."""
    disc = element("circle", r=radius, fill=VERDICTS.get(kind or "", svg.ACCENT))
    pen = {"stroke": svg.PAPER, "stroke_width": 2, "stroke_linecap": "round", "fill": "none"}
    scale = f"scale({svg.number(radius / 10)})"
    if kind == "open":
        size = 1.4 * radius
        return disc + text(0, 0.36 * size, "?", size=size, fill=svg.PAPER, text_anchor="middle", font_weight="700")
    drawn = {"identified": svg.CHECK, "not identified": svg.CROSS}.get(kind or "")
    return disc + (element("path", d=drawn, transform=scale, **pen) if drawn else "")


# ---- numbers -----------------------------------------------------------------------------------------------


def curves(
    steps: ArrayLike,
    values: ArrayLike,
    *,
    best: int,
    title: str = "",
    y_label: str = "",
    x_label: str = "step",
) -> str:
    """One line per model through ``values`` (time, model) at ``steps`` (time,); the one used, ``best``, is bold.

    The vertical axis is logarithmic when every value is positive and they span more than 1.5 decades. What is
    not finite leaves a gap. At most 500 evenly spaced steps are drawn.

    >>> curves([0, 1, 2], [[3, 4], [2, 3], [1, 2]], best=0, title="loss").count('class="curve"')
    2
    """
    steps, values = np.asarray(steps, dtype=float), np.asarray(values, dtype=float)
    fits = values.ndim == 2 and steps.shape == values.shape[:1] and values.size > 0
    require(
        fits,
        "curves need steps (time,) and values (time, model).",
        f"shapes {steps.shape} and {values.shape}",
    )
    require(0 <= best < values.shape[1], f"best must be below {values.shape[1]}.", best)
    kept = np.unique(np.linspace(0, len(steps) - 1, min(len(steps), 500)).round().astype(int))
    steps, values = steps[kept], np.where(np.abs(values[kept]) < 1e150, values[kept], np.nan)
    heading = text(12, 20, svg.shorten(title, 60), size=13, fill=svg.INK, font_weight="600")
    height = 280
    if not (np.isfinite(values) & np.isfinite(steps)[:, None]).any():
        return svg.document(420, height, title or "Curves", heading + text(60, 140, "no finite values"))
    drawn = heading + _curve_area(steps, values, best, (y_label, x_label), height)
    return svg.document(420, height, title or "Curves", drawn)


def _curve_area(steps: np.ndarray, values: np.ndarray, best: int, names: tuple[str, str], height: float) -> str:
    seen = values[np.isfinite(values)]
    log = bool((seen > 0).all()) and bool(seen.max() > 10**1.5 * seen.min())
    finite = steps[np.isfinite(steps)]
    x = Scale(finite.min(), max(finite.max(), finite.min() + 1e-9 + 1e-9 * abs(finite.min())), 58, 400)
    y = svg.around(seen, height - 48, 54, log=log)
    order = [k for k in range(values.shape[1]) if k != best] + [best]
    lines = [_curve(x(steps), y(values[:, k]), bold=k == best) for k in order]
    words = text(400, 42, f"bold: used, of {len(order)}", text_anchor="end", size=12) if len(order) > 1 else ""
    vertical = svg.shorten(names[0], 40) + (" (log)" if log else "")
    labels = text(12, 42, vertical, size=12) + text(233, height - 8, names[1], size=12, text_anchor="middle")
    return _axes(x, y) + "".join(lines) + words + labels


def _curve(x: np.ndarray, y: np.ndarray, *, bold: bool) -> str:
    pen = {"stroke": svg.ACCENT if bold else svg.SOFT, "stroke_width": 2.6 if bold else 1.2}
    quiet = {"stroke_opacity": 1 if bold else 0.55, "stroke_linejoin": "round", "stroke_linecap": "round"}
    return element("path", class_="curve", d=svg.polyline(x, y), fill="none", **pen, **quiet)


def _axes(x: Scale, y: Scale) -> str:
    drawn = []
    for tick in y.ticks():
        at = float(y(tick))
        drawn.append(element("line", x1=x.start, x2=x.end, y1=at, y2=at, stroke=svg.LINE))
        drawn.append(text(x.start - 8, at + 4, svg.tick_label(tick), size=12, text_anchor="end"))
    for tick in x.ticks():
        drawn.append(text(float(x(tick)), y.start + 18, svg.tick_label(tick), size=12, text_anchor="middle"))
    return "".join(drawn)


def dots(
    groups: Mapping[str, Sequence[float]],
    *,
    lo: float = 0.0,
    hi: float = 1.0,
    x_label: str = "",
    marked: Mapping[str, float] | None = None,
) -> str:
    """One row per group and one dot per value; the ``marked`` value of a group is bold and printed.

    Values outside ``lo … hi`` are hollow dots at the edge; what is not finite is not drawn.

    >>> dots({"PCA": [0.2, 0.4]}, marked={"PCA": 0.4}).count('class="dot"')
    2
    """
    require(len(groups) > 0, "dots need at least one group.", "none")
    require(lo < hi, "lo must be below hi.", f"{lo} and {hi}")
    marked = dict(marked or {})
    strangers = [name for name in marked if name not in groups]
    require(not strangers, "Every marked name must be a group.", ", ".join(strangers))
    left = max(svg.extent(svg.shorten(name, 24), 13) for name in groups) + 22
    x, bottom = Scale(lo, hi, left, 366), 16.0 + 32 * len(groups)
    rows = [
        _strip(x, 32.0 + 32 * k, name, np.asarray(values, dtype=float).ravel(), marked.get(name))
        for k, (name, values) in enumerate(groups.items())
    ]
    grid = [element("line", x1=x(t), x2=x(t), y1=14, y2=bottom, stroke=svg.LINE) for t in x.ticks()]
    ticks = [text(x(t), bottom + 18, svg.tick_label(t), size=12, text_anchor="middle") for t in x.ticks()]
    label = text((left + 366) / 2, bottom + 36, x_label, size=12, text_anchor="middle")
    title = f"{x_label or 'Values'} of {len(groups)} groups"
    return svg.document(420, bottom + 46, title, "".join(grid + ticks + rows) + label)


def _strip(x: Scale, y: float, name: str, values: np.ndarray, mark: float | None) -> str:
    label = text(x.start - 14, y + 4.5, svg.shorten(name, 24), size=13, fill=svg.INK, text_anchor="end")
    drawn = [_dot(x, y, float(value), "dot") for value in values[np.isfinite(values)]]
    if mark is not None and np.isfinite(mark):
        shown = f"{mark:.3f}".replace("-", "−")
        bold = {"size": 13, "fill": svg.INK, "font_weight": "600", "text_anchor": "end"}
        drawn += [_dot(x, y, float(mark), "mark"), text(416, y + 4.5, shown, **bold)]
    return label + "".join(drawn)


def _dot(x: Scale, y: float, value: float, kind: str) -> str:
    inside = x.lo <= value <= x.hi
    at = x(min(max(value, x.lo), x.hi))
    bold = kind == "mark"
    look = {
        "fill": svg.ACCENT if inside else svg.PAPER,
        "fill_opacity": 1 if bold or not inside else 0.35,
        "stroke": svg.PAPER if bold and inside else svg.ACCENT,
        "stroke_width": 1.5 if bold else 1,
    }
    return element("circle", svg.hint(f"{value:.4g}"), class_=kind, cx=at, cy=y, r=7 if bold else 5, **look)


def scatter_pairs(z: ArrayLike, z_hat: ArrayLike, *, names: Sequence[str], most: int = 400) -> str:
    """One small panel per latent: true ``z`` (batch, latent) across, matched ``z_hat`` (batch, latent) up.

    At most ``most`` evenly spaced rows are drawn; the correlation is of all of them.

    >>> z = np.linspace(0, 1, 9)[:, None]
    >>> "r = −1.00" in scatter_pairs(z, -z, names=["age"])
    True
    """
    z, z_hat = np.asarray(z, dtype=float), np.asarray(z_hat, dtype=float)
    same = z.ndim == 2 and z.shape == z_hat.shape and z.size > 0
    require(same, "z and z_hat must share one shape (batch, latent).", f"shapes {z.shape} and {z_hat.shape}")
    require(len(names) == z.shape[1], f"There must be {z.shape[1]} names.", len(names))
    require(most >= 1, "most must be at least 1.", most)
    across = min(len(names), 4 if len(names) % 4 == 0 or len(names) > 9 else 3)
    down = ceil(len(names) / across)
    panels = [
        _pair(z[:, j], z_hat[:, j], name, (24 + j % across * 132, 26 + j // across * 172), most)
        for j, name in enumerate(names)
    ]
    bottom = 26 + (down - 1) * 172 + _SIDE
    axes = text(24, bottom + 17, "true →") + text(14, bottom, "learned →", turn=-90)
    title = f"True against learned for {len(names)} latents"
    return svg.document(max(across * 132 + 20, 290), bottom + 26, title, "".join(panels) + axes)


def _pair(z: np.ndarray, z_hat: np.ndarray, name: str, at: tuple[float, float], most: int) -> str:
    left, top = at
    finite = np.isfinite(z) & np.isfinite(z_hat)
    z, z_hat = z[finite], z_hat[finite]
    frame = element("rect", x=left, y=top, width=_SIDE, height=_SIDE, rx=3, fill=svg.TILE, fill_opacity=0.6)
    heading = text(left, top - 8, svg.shorten(name), size=12.5, fill=svg.INK, font_weight="600")
    around = frame + heading + text(left + _SIDE, top + _SIDE + 17, f"r = {_pearson(z, z_hat)}", text_anchor="end")
    if z.size == 0:
        return around
    kept = np.unique(np.linspace(0, len(z) - 1, min(len(z), most)).round().astype(int))
    x, y = svg.around(z, left + 5, left + _SIDE - 5), svg.around(z_hat, top + _SIDE - 5, top + 5)
    pen = {"stroke": svg.ACCENT, "stroke_width": 3, "stroke_linecap": "round", "stroke_opacity": 0.6}
    return around + element("path", d=svg.specks(x(z[kept]), y(z_hat[kept])), fill="none", **pen)


def _pearson(a: np.ndarray, b: np.ndarray) -> str:
    if a.size == 0 or np.ptp(a) == 0 or np.ptp(b) == 0:
        return "–"
    a, b = a - a.mean(), b - b.mean()
    return f"{(a * b).sum() / np.sqrt((a**2).sum() * (b**2).sum()):.2f}".replace("-", "−")
