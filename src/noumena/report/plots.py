"""Plots: arrays in, inline SVG out. Nothing is imported from a plotting library and nothing is fetched.

Each function is pure. Colours follow the theme of the page; no meaning rests on colour alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import ceil

import numpy as np
from numpy.typing import ArrayLike

from noumena.checks import one_of, require
from noumena.report import svg
from noumena.report.svg import Grid, Scale, element, text

VERDICTS = {"identified": svg.GOOD, "not identified": svg.BAD, "open": svg.OPEN}
"""The three kinds of verdict and their colours."""

DARK_CELL = 0.55
"""Cells at least this strong carry their number in the paper's colour."""


# ---- matrices ----------------------------------------------------------------------------------------------


def structure_heatmap(
    truth: ArrayLike | None,
    learned: ArrayLike,
    *,
    observed: Sequence[str],
    latent: Sequence[str],
    strength: ArrayLike | None = None,
) -> str:
    """True and learned supports (observed, latent) side by side; alone when ``truth`` is None.

    Columns are already matched. The shade of a learned entry follows its ``strength`` (observed, latent); an
    entry the truth has and we lack is a hollow red frame, one we have and the truth lacks an amber cross.

    >>> figure = structure_heatmap([[1, 0]], [[1, 1]], observed=["x1"], latent=["z1", "z2"])
    >>> figure.count('class="extra"'), figure.count('class="missing"')
    (1, 0)
    """
    learned = _support(learned, "learned", observed, latent)
    shade = _shade(learned, strength)
    grid = _place(observed, latent, widest=210, tallest=400)
    panels = []
    if truth is not None:
        truth = _support(truth, "truth", observed, latent)
        panels.append(_panel(grid, "true", truth, truth * 0.75))
    second = grid if truth is None else _beside(grid)
    panels.append(_panel(second, "learned", learned, shade, truth))
    words, height = svg.legend(
        _structure_legend(learned, truth, strength is not None),
        8,
        second.bottom + 14,
        max(second.right, 350) - 8,
    )
    title = f"Support of {len(observed)} observations on {len(latent)} latents" + _differences(learned, truth)
    content = grid.row_labels() + "".join(panels) + words
    return svg.document(max(second.right + 10, 360), second.bottom + 14 + height, title, content)


def correlation_matrix(values: ArrayLike, *, rows: Sequence[str], columns: Sequence[str]) -> str:
    """A heat map of values in [0, 1], shape (rows, columns), with the numbers in the cells; NaN shows a dash.

    >>> ">0.97</text>" in correlation_matrix([[0.97, 0.1]], rows=["z1"], columns=["ẑ1", "ẑ2"])
    True
    """
    values = _matrix(values, "values", rows, columns)
    known = values[np.isfinite(values)]
    inside = bool(((known >= -1e-6) & (known <= 1 + 1e-6)).all())
    require(inside, "Correlations must lie in [0, 1].", f"values down to {min(known, default=0)}")
    side = min(46.0, max(13.0, 400 / max(values.shape)))
    top = svg.label_room(columns) if not svg.labels_fit(columns, side, 12) else 24
    grid = Grid(rows, columns, svg.label_room(rows), top + 4, side, min(side, 38))
    cells = "".join(_correlation_cell(grid, i, j, values[i, j]) for i, j in np.ndindex(*values.shape))
    title = f"Correlations of {len(rows)} rows with {len(columns)} columns"
    content = grid.row_labels() + grid.column_labels() + cells
    width = max(grid.right + 10, 260)
    return svg.document(width, grid.bottom + 8, title, content)


def _correlation_cell(grid: Grid, i: int, j: int, value: float) -> str:
    name = f"{grid.rows[i]} with {grid.columns[j]}: "
    if not np.isfinite(value):
        shape = element("rect", svg.hint(name + "unknown"), **grid.cell(i, j), fill=svg.TILE)
        return shape + _centered(grid, i, j, "–", svg.SOFT)
    value = float(np.clip(value, 0, 1))
    shape = element(
        "rect",
        svg.hint(f"{name}{value:.3f}"),
        **grid.cell(i, j),
        fill=svg.ACCENT,
        fill_opacity=0.05 + 0.95 * value,
    )
    written = f"{value:.2f}" if grid.wide >= 26 else f"{value:.2f}".lstrip("0")
    printed = _centered(grid, i, j, written, svg.PAPER if value >= DARK_CELL else svg.INK)
    return shape + (printed if grid.wide >= 18 else "")


def _centered(grid: Grid, i: int, j: int, string: str, fill: str) -> str:
    x, y = grid.center(i, j)
    size = min(12, 0.42 * grid.wide)
    where = {"text_anchor": "middle", "pointer_events": "none"}
    return text(x, y + 0.35 * size, string, size=size, fill=fill, **where)


def _place(rows: Sequence[str], columns: Sequence[str], *, widest: float, tallest: float) -> Grid:
    wide = min(34.0, max(11.0, widest / len(columns)))
    tall = min(30.0, max(1.5, 9.0 if 44 < len(rows) <= 70 else tallest / len(rows)))
    flat = svg.labels_fit(columns, wide, min(12, max(7.5, 0.7 * wide)))
    top = 50 if flat else svg.label_room(columns, 11) + 32
    return Grid(rows, columns, svg.label_room(rows, min(12, max(7.5, 0.7 * tall))), top, wide, tall)


def _beside(grid: Grid) -> Grid:
    return Grid(grid.rows, grid.columns, grid.right + 28, grid.top, grid.wide, grid.tall)


def _panel(
    grid: Grid, name: str, support: np.ndarray, shade: np.ndarray, truth: np.ndarray | None = None
) -> str:
    compared = support if truth is None else truth
    heading = text(grid.left, 16, name, size=13, fill=svg.INK, font_weight="600")
    cells = [
        element(
            "rect",
            svg.hint(f"{grid.rows[i]} depends on {grid.columns[j]}"),
            **grid.cell(i, j),
            fill=svg.ACCENT if compared[i, j] else svg.OPEN,
            fill_opacity=shade[i, j],
        )
        for i, j in np.argwhere(support)
    ]
    missing = [_missing(grid, i, j) for i, j in np.argwhere(compared & ~support)]
    extra = [_extra(grid, i, j) for i, j in np.argwhere(support & ~compared)]
    return heading + grid.column_labels() + grid.tiles(~support) + "".join(cells + missing + extra)


def _missing(grid: Grid, i: int, j: int) -> str:
    told = svg.hint(f"missing: {grid.rows[i]} depends on {grid.columns[j]}")
    frame = {"fill": svg.PAPER, "stroke": svg.BAD, "stroke_width": min(2, 0.15 * min(grid.wide, grid.tall))}
    return element("rect", told, class_="missing", **grid.cell(i, j, 2), **frame)


def _extra(grid: Grid, i: int, j: int) -> str:
    x, y = grid.center(i, j)
    scale = svg.number(min(1.2, min(grid.wide, grid.tall) / 13))
    place = f"translate({svg.number(x)} {svg.number(y)}) scale({scale})"
    pen = {"stroke": svg.INK, "stroke_width": 1.8, "stroke_linecap": "round", "fill": "none"}
    told = svg.hint(f"extra: {grid.rows[i]} on {grid.columns[j]}")
    return element("path", told, class_="extra", d=svg.CROSS, transform=place, **pen)


def _structure_legend(learned: np.ndarray, truth: np.ndarray | None, shaded: bool) -> list[tuple[str, str]]:
    box = {"x": -6, "y": -6, "width": 12, "height": 12, "rx": 2}
    depends = "depends (darker: stronger)" if shaded else "depends"
    items = [(element("rect", **box, fill=svg.ACCENT, fill_opacity=0.8), depends)]
    if truth is not None:
        frame = element("rect", **box, fill="none", stroke=svg.BAD, stroke_width=2)
        cross = element("path", d=svg.CROSS, stroke=svg.INK, stroke_width=1.8, stroke_linecap="round")
        items.append((frame, f"missing: {int((truth & ~learned).sum())}"))
        crossed = element("rect", **box, fill=svg.OPEN, fill_opacity=0.6) + cross
        items.append((crossed, f"extra: {int((learned & ~truth).sum())}"))
    return items


def _differences(learned: np.ndarray, truth: np.ndarray | None) -> str:
    if truth is None:
        return ""
    return f": {int((truth & ~learned).sum())} entries missing, {int((learned & ~truth).sum())} extra"


def _shade(learned: np.ndarray, strength: ArrayLike | None) -> np.ndarray:
    if strength is None:
        return learned * 0.75
    strength = np.asarray(strength, dtype=float)
    require(strength.shape == learned.shape, "strength must have the shape of learned.", f"{strength.shape}")
    require(bool(np.isfinite(strength).all()), "strength must be finite.", "NaN or inf")
    top = np.abs(strength)[learned].max(initial=0) or 1.0
    return 0.25 + 0.75 * np.clip(np.abs(strength) / top, 0, 1)


# ---- graphs ------------------------------------------------------------------------------------------------

_HOVER = (
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
    support = _support(support, "support", observed, latent)
    kinds = (
        [None] * len(latent)
        if verdicts is None
        else [one_of(v, "verdict", tuple(VERDICTS)) for v in verdicts]
    )
    require(len(kinds) == len(latent), "There must be one verdict per latent.", f"{len(kinds)}")
    width = min(820.0, max(380.0, 30.0 * max(support.shape) + 40))
    upper, lower = _spread(len(latent), width), _spread(len(observed), width)
    flat = svg.labels_fit(latent, width / len(latent), 13)
    y = 42.0 if flat else svg.label_room(latent, 11) + 24
    latents = [
        _latent_node(
            latent[j], kinds[j], (upper[j], y), [(lower[i], y + 150) for i in np.flatnonzero(support[:, j])]
        )
        for j in range(len(latent))
    ]
    names, bottom = _observed_nodes(observed, lower, y + 150)
    present = [kind for kind in VERDICTS if kind in kinds]
    words, height = svg.legend([(_sign(k, 7), k) for k in present], 10, bottom + 8, width - 20)
    title = f"Which of {len(observed)} observations depend on which of {len(latent)} latents"
    content = _HOVER + element("g", "".join(latents), class_="nm-latents") + names + words
    return svg.document(width, bottom + 8 + height * bool(present), title, content)


def _spread(n: int, width: float) -> np.ndarray:
    return width * (np.arange(n) + 0.5) / n


def _latent_node(
    name: str, kind: str | None, at: tuple[float, float], ends: list[tuple[float, float]]
) -> str:
    x, y = at
    color = VERDICTS.get(kind or "", svg.ACCENT)
    pen = {"stroke": color, "stroke_width": 1.3, "stroke_opacity": 0.45, "fill": "none", "class_": "nm-edge"}
    n = svg.number
    edges = [
        element("path", d=f"M{n(x)} {n(y)}C{n(x)} {n(y + 80)} {n(a)} {n(b - 80)} {n(a)} {n(b)}", **pen)
        for a, b in ends
    ]
    return element("g", "".join(edges) + _latent_mark(name, kind, at), class_="nm-latent")


def _latent_mark(name: str, kind: str | None, at: tuple[float, float]) -> str:
    told = svg.hint(name if kind is None else f"{name}: {kind}")
    sign = element(
        "g", told + _sign(kind, 12), transform=f"translate({svg.number(at[0])} {svg.number(at[1])})"
    )
    label = text(at[0], at[1] - 20, svg.shorten(name), size=13, fill=svg.INK, text_anchor="middle")
    return sign + label


def _sign(kind: str | None, radius: float) -> str:
    disc = element("circle", r=radius, fill=VERDICTS.get(kind or "", svg.ACCENT))
    pen = {"stroke": svg.PAPER, "stroke_width": 2, "stroke_linecap": "round", "fill": "none"}
    scale = f"scale({svg.number(radius / 10)})"
    if kind == "open":
        size = 1.4 * radius
        return disc + text(
            0, 0.36 * size, "?", size=size, fill=svg.PAPER, text_anchor="middle", font_weight="700"
        )
    drawn = {"identified": svg.CHECK, "not identified": svg.CROSS}.get(kind or "")
    return disc + (element("path", d=drawn, transform=scale, **pen) if drawn else "")


def _observed_nodes(names: Sequence[str], places: np.ndarray, y: float) -> tuple[str, float]:
    room = 2 * places[0]
    side = min(13.0, 0.6 * room)
    size = min(12.0, max(7.5, 0.8 * room))
    flat, every = svg.labels_fit(names, room, size), ceil(1.05 * size / room)
    drawn = []
    for k, (name, x) in enumerate(zip(names, places, strict=True)):
        drawn.append(
            element(
                "rect",
                svg.hint(name),
                x=x - side / 2,
                y=y - side / 2,
                width=side,
                height=side,
                rx=2,
                fill=svg.INK,
            )
        )
        if flat:
            drawn.append(text(x, y + 24, svg.shorten(name), size=size, text_anchor="middle"))
        elif k % every == 0:
            drawn.append(
                text(x + 0.35 * size, y + 12, svg.shorten(name), size=size, text_anchor="end", turn=-90)
            )
    return "".join(drawn), y + (32 if flat else 16 + svg.label_room(names, size))


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
    """One line per model through ``values`` (time, model) at ``steps`` (time,); the best one is bold.

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
        return svg.document(460, height, title or "Curves", heading + text(60, 140, "no finite values"))
    drawn = heading + _curve_area(steps, values, best, (y_label, x_label), height)
    return svg.document(460, height, title or "Curves", drawn)


def _curve_area(
    steps: np.ndarray, values: np.ndarray, best: int, names: tuple[str, str], height: float
) -> str:
    seen = values[np.isfinite(values)]
    log = bool((seen > 0).all()) and bool(seen.max() > 10**1.5 * seen.min())
    finite = steps[np.isfinite(steps)]
    x = Scale(finite.min(), max(finite.max(), finite.min() + 1e-9 + 1e-9 * abs(finite.min())), 58, 446)
    y = svg.around(seen, height - 48, 54, log=log)
    order = [k for k in range(values.shape[1]) if k != best] + [best]
    lines = [_curve(x(steps), y(values[:, k]), bold=k == best) for k in order]
    words = text(446, 42, f"bold: best of {len(order)}", text_anchor="end", size=11) if len(order) > 1 else ""
    vertical = svg.shorten(names[0], 40) + (" (log)" if log else "")
    labels = text(12, 42, vertical, size=11) + text(446, height - 8, names[1], size=11, text_anchor="end")
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
        drawn.append(text(x.start - 8, at + 4, svg.tick_label(tick), size=11, text_anchor="end"))
    for tick in x.ticks():
        drawn.append(text(float(x(tick)), y.start + 18, svg.tick_label(tick), size=11, text_anchor="middle"))
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
    x, bottom = Scale(lo, hi, left, 404), 16.0 + 32 * len(groups)
    rows = [
        _strip(x, 32.0 + 32 * k, name, np.asarray(values, dtype=float).ravel(), marked.get(name))
        for k, (name, values) in enumerate(groups.items())
    ]
    grid = [element("line", x1=x(t), x2=x(t), y1=14, y2=bottom, stroke=svg.LINE) for t in x.ticks()]
    ticks = [text(x(t), bottom + 18, svg.tick_label(t), size=11, text_anchor="middle") for t in x.ticks()]
    label = text((left + 404) / 2, bottom + 36, x_label, size=11, text_anchor="middle")
    title = f"{x_label or 'Values'} of {len(groups)} groups"
    return svg.document(460, bottom + 46, title, "".join(grid + ticks + rows) + label)


def _strip(x: Scale, y: float, name: str, values: np.ndarray, mark: float | None) -> str:
    label = text(x.start - 14, y + 4.5, svg.shorten(name, 24), size=13, fill=svg.INK, text_anchor="end")
    drawn = [_dot(x, y, float(value), "dot") for value in values[np.isfinite(values)]]
    if mark is not None and np.isfinite(mark):
        printed = svg.text(
            456, y + 4.5, f"{mark:.3f}".replace("-", "−"), size=13, fill=svg.INK, font_weight="600"
        )
        drawn += [_dot(x, y, float(mark), "mark"), printed.replace("<text", '<text text-anchor="end"', 1)]
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
    side, width = 128, max(across * 142 + 20, 300)
    panels = [
        _pair(z[:, j], z_hat[:, j], name, (22 + j % across * 142, 26 + j // across * 164), side, most)
        for j, name in enumerate(names)
    ]
    bottom = ceil(len(names) / across) * 164
    axes = text(22, bottom + 6, "true →", size=11) + text(14, bottom - 10, "learned →", size=11, turn=-90)
    return svg.document(
        width, bottom + 14, f"True against learned for {len(names)} latents", "".join(panels) + axes
    )


def _pair(
    z: np.ndarray, z_hat: np.ndarray, name: str, at: tuple[float, float], side: float, most: int
) -> str:
    left, top = at
    finite = np.isfinite(z) & np.isfinite(z_hat)
    z, z_hat = z[finite], z_hat[finite]
    frame = element("rect", x=left, y=top, width=side, height=side, rx=3, fill=svg.TILE, fill_opacity=0.6)
    heading = text(left, top - 8, svg.shorten(name), size=12, fill=svg.INK, font_weight="600")
    r = text(left + side, top - 8, f"r = {_pearson(z, z_hat)}", size=12, text_anchor="end")
    if z.size == 0:
        return frame + heading + r
    kept = np.unique(np.linspace(0, len(z) - 1, min(len(z), most)).round().astype(int))
    x, y = svg.around(z, left + 5, left + side - 5), svg.around(z_hat, top + side - 5, top + 5)
    pen = {"stroke": svg.ACCENT, "stroke_width": 3, "stroke_linecap": "round", "stroke_opacity": 0.55}
    return frame + heading + r + element("path", d=svg.specks(x(z[kept]), y(z_hat[kept])), fill="none", **pen)


def _pearson(a: np.ndarray, b: np.ndarray) -> str:
    a, b = a - a.mean() if a.size else a, b - b.mean() if b.size else b
    norm = np.sqrt((a**2).sum() * (b**2).sum())
    return f"{(a * b).sum() / norm:.2f}".replace("-", "−") if norm > 0 else "–"


# ---- shapes ------------------------------------------------------------------------------------------------


def _matrix(values: ArrayLike, name: str, rows: Sequence[str], columns: Sequence[str]) -> np.ndarray:
    array = np.asarray(values, dtype=float)
    fits = array.shape == (len(rows), len(columns)) and array.size > 0
    require(fits, f"{name} must have shape ({len(rows)}, {len(columns)}), as named.", f"shape {array.shape}")
    return array


def _support(support: ArrayLike, name: str, observed: Sequence[str], latent: Sequence[str]) -> np.ndarray:
    array = _matrix(support, name, observed, latent)
    require(bool(np.isin(array, (0, 1)).all()), f"{name} must hold only 0 and 1.", "other values")
    return array.astype(bool)
