"""Heat maps: supports compared entry by entry."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike

from noumena.charts.cells import matrix
from noumena.checks import require
from noumena.report import svg
from noumena.report.svg import Grid, element, text

_GAP = 28


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
    learned = named_support(learned, "learned", observed, latent)
    true = learned if truth is None else named_support(truth, "truth", observed, latent)
    missing, extra = true & ~learned, learned & ~true
    least = 240 if truth is None else 376
    grid = _place(observed, latent, panels=1 if truth is None else 2, least=least)
    last = grid if truth is None else replace(grid, left=grid.right + _GAP)
    panels = [] if truth is None else [_panel(grid, "true", true, 0.75 * true)]
    panels += [_panel(last, "learned", learned, _shade(learned, strength), extra)]
    panels += [_missing(last, i, j) for i, j in np.argwhere(missing).tolist()]
    panels += [_extra(last, i, j) for i, j in np.argwhere(extra).tolist()]
    width, counts = max(last.right + 10, least), (int(missing.sum()), int(extra.sum()))
    items = _structure_legend(None if truth is None else counts, shaded=strength is not None)
    words, height = svg.legend(items, 8, last.bottom + 14, width - 16)
    title = f"Support of {len(observed)} observations on {len(latent)} latents"
    title += "" if truth is None else f": {counts[0]} entries missing, {counts[1]} extra"
    content = grid.row_labels() + "".join(panels) + words
    return svg.document(width, last.bottom + 14 + height, title, content)


def _place(rows: Sequence[str], columns: Sequence[str], *, panels: int, least: float) -> Grid:
    """The first of some panels, all centred together in a figure at least so wide."""
    wide = min(30.0, max(4.0, (210 if len(columns) <= 12 else 330) / len(columns)))
    tall = min(28.0, max(1.5, (350 if len(rows) <= 32 else 720) / len(rows)))
    flat = svg.labels_fit(columns, wide, min(12, max(7.5, 0.7 * wide)))
    top = 50 if flat else svg.label_room(columns, 11) + 32
    left = svg.label_room(rows, min(12, max(7.5, 0.7 * tall)))
    taken = left + panels * wide * len(columns) + (panels - 1) * _GAP + 10
    return Grid(rows, columns, left + max(0, least - taken) / 2, top, wide, tall)


def _panel(grid: Grid, name: str, support: np.ndarray, shade: np.ndarray, extra: np.ndarray | None = None) -> str:
    odd = np.zeros_like(support) if extra is None else extra
    heading = text(grid.left, 16, name, size=13, fill=svg.INK, font_weight="600")
    cells = []
    for i, j in np.argwhere(support).tolist():
        told = svg.hint(f"{grid.rows[i]} depends on {grid.columns[j]}")
        fill, opacity = (svg.OPEN, 0.55 * shade[i, j]) if odd[i, j] else (svg.ACCENT, shade[i, j])
        cells.append(element("rect", told, **grid.cell(i, j), fill=fill, fill_opacity=opacity))
    return heading + grid.column_labels() + grid.tiles(~support) + "".join(cells)


def _missing(grid: Grid, i: int, j: int) -> str:
    told = svg.hint(f"missing: {grid.rows[i]} depends on {grid.columns[j]}")
    frame = {"fill": svg.PAPER, "stroke": svg.BAD, "stroke_width": min(2, 0.15 * min(grid.wide, grid.tall))}
    return element("rect", told, class_="missing", **grid.cell(i, j, 2), **frame)


def _extra(grid: Grid, i: int, j: int) -> str:
    x, y = grid.center(i, j)
    scale = svg.number(min(1.2, min(grid.wide, grid.tall) / 13))
    place = f"translate({svg.number(x)} {svg.number(y)}) scale({scale})"
    pen = {"stroke": svg.INK, "stroke_width": 1.8, "stroke_linecap": "round", "fill": "none"}
    told = svg.hint(f"extra: {grid.rows[i]} depends on {grid.columns[j]}")
    return element("path", told, class_="extra", d=svg.CROSS, transform=place, **pen)


def _structure_legend(counts: tuple[int, int] | None, *, shaded: bool) -> list[tuple[str, str]]:
    box = {"x": -6, "y": -6, "width": 12, "height": 12, "rx": 2}
    depends = "depends (solid: strong)" if shaded else "depends"
    items = [(element("rect", **box, fill=svg.ACCENT, fill_opacity=0.8), depends)]
    if counts is not None:
        frame = element("rect", **box, fill="none", stroke=svg.BAD, stroke_width=2)
        cross = element("path", d=svg.CROSS, stroke=svg.INK, stroke_width=1.8, stroke_linecap="round")
        crossed = element("rect", **box, fill=svg.OPEN, fill_opacity=0.45) + cross
        items += [(frame, f"missing: {counts[0]}"), (crossed, f"extra: {counts[1]}")]
    return items


def _shade(learned: np.ndarray, strength: ArrayLike | None) -> np.ndarray:
    if strength is None:
        return learned * 0.75
    strength = np.asarray(strength, dtype=float)
    require(strength.shape == learned.shape, "strength must have the shape of learned.", f"{strength.shape}")
    require(bool(np.isfinite(strength).all()), "strength must be finite.", "NaN or inf")
    top = np.abs(strength)[learned].max(initial=0) or 1.0
    return 0.25 + 0.75 * np.clip(np.abs(strength) / top, 0, 1)


def named_support(support: ArrayLike, name: str, observed: Sequence[str], latent: Sequence[str]) -> np.ndarray:
    """A boolean array (observed, latent) that agrees with its names."""
    array = matrix(support, name, observed, latent)
    require(bool(np.isin(array, (0, 1)).all()), f"{name} must hold only 0 and 1.", "other values")
    return array.astype(bool)
