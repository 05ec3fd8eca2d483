"""Plots: structures as inline SVG, to point at: a graph of latents and observations, supports entry by entry.

Each function is pure. Ordinary charts are those of ``noumena.charts``. Colours follow the theme of the page; no meaning
rests on colour alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil

import numpy as np
from numpy.typing import ArrayLike

from noumena.checks import one_of, require
from noumena.deprecated import moved
from noumena.report import svg
from noumena.report.heatmaps import named_support, structure_heatmap
from noumena.report.svg import element, text

__all__ = ["bipartite", "structure_heatmap"]
__getattr__ = moved(
    "noumena.report.plots",
    {
        "correlation_matrix": "noumena.charts.correlations",
        "curves": "noumena.charts.history",
        "dots": "noumena.charts.strips",
        "scatter_pairs": "noumena.charts.pairs",
    },
)

VERDICTS = {"identified": svg.GOOD, "not identified": svg.BAD, "open": svg.OPEN}
"""The three kinds of verdict and their colours."""


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
