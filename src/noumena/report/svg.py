"""Drawing: SVG elements, label grids and legends, as strings.

Colours are CSS variables with a fallback, so that a figure follows the theme of the page it stands in and
still reads on its own. Every string from outside passes through ``clean``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from html import escape
from math import ceil
from typing import Any

import numpy as np

from noumena import checks
from noumena.charts import PALETTE
from noumena.charts.canvas import extent, shorten

INK, SOFT, LINE, TILE, PAPER, ACCENT, HEAT, GOOD, BAD, OPEN, *_RAMP = (
    f"var(--{name},{color})" for name, color in list(PALETTE.items())[:13]
)
RAMP = tuple(_RAMP)
"""From small to large."""

CHECK = "M-4.5 .5L-1.5 3.5L4.5 -3.5"
CROSS = "M-3.5 -3.5L3.5 3.5M3.5 -3.5L-3.5 3.5"
listed = partial(checks.listed, most=12)


def clean(text: str) -> str:
    """Text made safe for an element or an attribute; control characters become spaces.

    >>> clean('a<b & "c"')
    'a&lt;b &amp; &quot;c&quot;'
    """
    return escape("".join(c if c.isprintable() else " " for c in str(text)), quote=True)


def short_names(names: Sequence[str], most: int = 14) -> str:
    """Some names in at most ``most`` characters, with the number of those left out.

    >>> short_names(["z1", "z2", "z3"]), short_names(["z1", "z2", "z3"], 8), short_names(["wind", "sea"], 6)
    ('z1, z2, z3', 'z1 +2', 'wi… +1')
    """
    rest = ""
    for k in range(min(len(names), most), 0, -1):
        rest = f" +{len(names) - k}" if k < len(names) else ""
        label = ", ".join(names[:k]) + rest
        if len(label) <= most:
            return label
    return shorten(names[0], most - len(rest)) + rest


def counted(n: int, noun: str) -> str:
    """A number of things.

    >>> counted(1, "latent"), counted(2, "latent")
    ('1 latent', '2 latents')
    """
    return f"{n} {noun}{'s' * (n != 1)}"


def ramp(share: float) -> str:
    """The colour of a share in [0, 1], between those of ``RAMP``.

    >>> ramp(0.25)
    'color-mix(in srgb,var(--low,#2a55b5) 50%,var(--middle,#b8327a))'
    """
    low, high = RAMP[:2] if share < 0.5 else RAMP[1:]
    part = 2 * share if share < 0.5 else 2 * share - 1
    return f"color-mix(in srgb,{low} {number(100 * (1 - part))}%,{high})"


def number(value: Any) -> str:
    """A coordinate with at most two decimals.

    >>> number(3.0), number(1 / 3)
    ('3', '0.33')
    """
    return f"{float(value):.2f}".rstrip("0").rstrip(".")


def element(tag: str, content: str = "", /, **attributes: Any) -> str:
    """One element around trusted content; ``stroke_width`` is written ``stroke-width``.

    >>> element("line", x1=0, x2=2.5, stroke_width=1)
    '<line x1="0" x2="2.5" stroke-width="1"/>'
    """
    written = "".join(
        f' {name.rstrip("_").replace("_", "-")}="{clean(value) if isinstance(value, str) else number(value)}"'
        for name, value in attributes.items()
    )
    return f"<{tag}{written}>{content}</{tag}>" if content else f"<{tag}{written}/>"


def text(
    x: float,
    y: float,
    string: str,
    *,
    size: float = 12,
    fill: str = SOFT,
    turn: float = 0,
    **attributes: Any,
) -> str:
    """A line of escaped text on the baseline ``(x, y)``; ``turn`` degrees rotate it about that point.

    >>> text(1, 2, "a<b", fill="red")
    '<text x="1" y="2" font-size="12" fill="red">a&lt;b</text>'
    """
    if turn:
        attributes["transform"] = f"rotate({number(turn)} {number(x)} {number(y)})"
    return element("text", clean(string), x=x, y=y, font_size=size, fill=fill, **attributes)


def paragraph(string: str, left: float, top: float, width: float) -> tuple[str, float]:
    """A text broken into lines no wider than ``width`` where its words allow; and the height taken.

    >>> paragraph("two words", 0, 0, 40)[1] == 2 * paragraph("two", 0, 0, 40)[1]
    True
    """
    lines = [""]
    for word in string.split():
        longer = f"{lines[-1]} {word}".strip()
        if lines[-1] and extent(longer, 12) > width:
            lines.append(word)
        else:
            lines[-1] = longer
    return "".join(text(left, top + 12 + 17 * k, line) for k, line in enumerate(lines)), 17.0 * len(lines)


def hint(string: str) -> str:
    """The title of an element: what a pointer resting on it reads."""
    return f"<title>{clean(string)}</title>"


def document(width: float, height: float, title: str, content: str) -> str:
    """A whole figure that scales with its container, between readable bounds.

    >>> document(10, 5, "Nothing", "")[:69]
    '<svg xmlns="http://www.w3.org/2000/svg" class="plot" role="img" viewB'
    """
    bounds = f"width:100%;height:auto;min-width:{number(0.72 * width)}px;max-width:{number(1.1 * width)}px"
    return element(
        "svg",
        hint(title) + content,
        xmlns="http://www.w3.org/2000/svg",
        class_="plot",
        role="img",
        viewBox=f"0 0 {number(width)} {number(height)}",
        style=bounds,
        font_family="inherit",
    )


def specks(x: np.ndarray, y: np.ndarray) -> str:
    """Path data of one dot per point ``x, y`` (n,), drawn by a round line cap."""
    return "".join(f"M{number(a)} {number(b)}h0" for a, b in zip(x, y, strict=True))


@dataclass(frozen=True)
class Grid:
    """Cells with named rows and columns, at a place, each ``wide`` by ``tall``."""

    rows: Sequence[str]
    columns: Sequence[str]
    left: float
    top: float
    wide: float
    tall: float

    @property
    def right(self) -> float:
        """Where the last column ends."""
        return self.left + self.wide * len(self.columns)

    @property
    def bottom(self) -> float:
        """Where the last row ends."""
        return self.top + self.tall * len(self.rows)

    def cell(self, i: int, j: int, inset: float = 1.0) -> dict[str, float]:
        """The rectangle of a cell, ``inset`` from its borders."""
        inset = min(inset, 0.12 * min(self.wide, self.tall))
        x, y = self.left + j * self.wide + inset, self.top + i * self.tall + inset
        sides = (self.wide - 2 * inset, self.tall - 2 * inset)
        return {"x": x, "y": y, "width": sides[0], "height": sides[1], "rx": min(2.5, min(sides) / 4)}

    def center(self, i: int, j: int) -> tuple[float, float]:
        """The middle of a cell."""
        return self.left + (j + 0.5) * self.wide, self.top + (i + 0.5) * self.tall

    def tiles(self, chosen: np.ndarray) -> str:
        """The chosen (rows, columns) cells as one quiet shape."""
        data = ""
        for i, j in np.argwhere(chosen).tolist():
            x, y, wide, tall, _ = (number(side) for side in self.cell(i, j).values())
            data += f"M{x} {y}h{wide}v{tall}h-{wide}z"
        return element("path", d=data, fill=TILE) if data else ""

    def row_labels(self) -> str:
        """The rows' names, right-aligned before the first column; every so many where they would touch."""
        size = min(12, max(7.5, 0.7 * self.tall))
        every = ceil(1.05 * size / self.tall)
        return "".join(
            text(self.left - 6, self.center(i, 0)[1] + 0.35 * size, shorten(name), size=size, text_anchor="end")
            for i, name in enumerate(self.rows)
            if i % every == 0
        )

    def column_labels(self) -> str:
        """The columns' names above the first row, upright when they do not fit."""
        size = min(12, max(7.5, 0.7 * self.wide))
        every = ceil(1.05 * size / self.wide)
        flat = labels_fit(self.columns, self.wide, size)
        place: dict[str, Any] = {"text_anchor": "middle"} if flat else {"turn": -90}
        shift = 0 if flat else 0.35 * size
        return "".join(
            text(self.center(0, j)[0] + shift, self.top - 6, shorten(name), size=size, **place)
            for j, name in enumerate(self.columns)
            if flat or j % every == 0
        )


def labels_fit(names: Sequence[str], room: float, size: float) -> bool:
    """Whether every name, shortened, fits side by side into ``room``."""
    return all(extent(shorten(name), size) <= room for name in names)


def label_room(names: Sequence[str], size: float = 12) -> float:
    """The room the longest name needs, shortened."""
    return max(extent(shorten(name), size) for name in names) + 8


def legend(items: Sequence[tuple[str, str]], left: float, top: float, width: float) -> tuple[str, float]:
    """Symbols, drawn around the origin, with their words, wrapped into ``width``; and the height taken."""
    drawn, x, y = [], left, top
    for symbol, words in items:
        room = 18 + extent(words, 12) + 10
        if x > left and x + room > left + width:
            x, y = left, y + 20
        drawn.append(element("g", symbol, transform=f"translate({number(x + 6)} {number(y + 6)})"))
        drawn.append(text(x + 18, y + 10, words))
        x += room
    return "".join(drawn), y + 20 - top
