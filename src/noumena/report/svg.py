"""Drawing: SVG elements, scales, ticks, label grids and legends, as strings.

Colours are CSS variables with a fallback, so that a figure follows the theme of the page it stands in and
still reads on its own. Every string from outside passes through ``clean``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from math import ceil, floor, log10
from typing import Any

import numpy as np

INK = "var(--ink,#1d2430)"
SOFT = "var(--soft,#5c6575)"
LINE = "var(--line,#dfe2e8)"
TILE = "var(--tile,#eef0f3)"
PAPER = "var(--paper,#ffffff)"
ACCENT = "var(--accent,#1f5a94)"
HEAT = "var(--heat,#6ea2d6)"
GOOD = "var(--good,#217346)"
BAD = "var(--bad,#b3342b)"
OPEN = "var(--open,#8a5a00)"
RAMP = ("var(--low,#2a55b5)", "var(--middle,#b8327a)", "var(--high,#c96a00)")
"""From small to large."""

_NARROW, _BROAD = frozenset("fijlrtI1.,:;'|()[] "), frozenset("mwMW…→=+<>")

CHECK = "M-4.5 .5L-1.5 3.5L4.5 -3.5"
CROSS = "M-3.5 -3.5L3.5 3.5M3.5 -3.5L-3.5 3.5"


def clean(text: str) -> str:
    """Text made safe for an element or an attribute; control characters become spaces.

    >>> clean('a<b & "c"')
    'a&lt;b &amp; &quot;c&quot;'
    """
    return escape("".join(c if c.isprintable() else " " for c in str(text)), quote=True)


def shorten(text: str, most: int = 14) -> str:
    """Text of at most ``most`` characters, an ellipsis where it was cut.

    >>> shorten("temperature of the sea", 12)
    'temperature…'
    """
    return text if len(text) <= most else text[: most - 1].rstrip() + "…"


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


def listed(names: Sequence[str], most: int = 12) -> str:
    """Names with commas; of more than ``most`` the number of the others.

    >>> listed(["a", "b", "c"], 2)
    'a, b and 1 more'
    """
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def counted(n: int, noun: str) -> str:
    """A number of things.

    >>> counted(1, "latent"), counted(2, "latent")
    ('1 latent', '2 latents')
    """
    return f"{n} {noun}{'s' * (n != 1)}"


def extent(text: str, size: float) -> float:
    """Roughly how wide a text is set at a font size.

    >>> extent("ill", 10) < extent("abc", 10) < extent("www", 10)
    True
    """
    broad = sum(c in _BROAD or ord(c) > 0x2E7F for c in text)
    narrow = sum(c in _NARROW for c in text)
    return size * (0.62 * (len(text) - broad - narrow) + 0.95 * broad + 0.4 * narrow)


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


def polyline(x: np.ndarray, y: np.ndarray) -> str:
    """Path data through the finite points ``x, y`` (n,); the others leave gaps, a lone point becomes a dot.

    >>> polyline(np.array([0, 1, 2, 3]), np.array([5, 6, np.nan, 7]))
    'M0 5L1 6M3 7h0'
    """
    finite = np.isfinite(x) & np.isfinite(y)
    runs = np.split(np.arange(len(x)), np.flatnonzero(~finite))
    parts = []
    for run in runs:
        points = [f"{number(x[i])} {number(y[i])}" for i in run if finite[i]]
        if points:
            parts.append("M" + "L".join(points) + ("h0" if len(points) == 1 else ""))
    return "".join(parts)


def specks(x: np.ndarray, y: np.ndarray) -> str:
    """Path data of one dot per point ``x, y`` (n,), drawn by a round line cap."""
    return "".join(f"M{number(a)} {number(b)}h0" for a, b in zip(x, y, strict=True))


@dataclass(frozen=True)
class Scale:
    """An affine map from values ``lo … hi`` to positions ``start … end``, of logarithms when ``log``.

    >>> Scale(0, 10, 100, 200)(5), float(Scale(1, 100, 0, 1, log=True)(10))
    (150.0, 0.5)
    """

    lo: float
    hi: float
    start: float
    end: float
    log: bool = False

    def __call__(self, value: Any) -> Any:
        """The position of a value or of an array of values; what has no logarithm has no position."""
        lo, hi = (log10(self.lo), log10(self.hi)) if self.log else (self.lo, self.hi)
        if self.log:
            value = np.log10(np.where(np.asarray(value) > 0, value, np.nan))
        return self.start + (value - lo) / (hi - lo) * (self.end - self.start)

    def ticks(self, most: int = 5) -> list[float]:
        """Round values inside the range, at most about ``most``."""
        return log_ticks(self.lo, self.hi, most) if self.log else linear_ticks(self.lo, self.hi, most)


def around(values: np.ndarray, start: float, end: float, *, log: bool = False) -> Scale:
    """The scale that holds some finite values with a little room; constant values get room too."""
    lo, hi = float(values.min()), float(values.max())
    if log:
        return Scale(lo / 1.15, hi * 1.15, start, end, log=True)
    size = max(abs(lo), abs(hi))
    room = 0.05 * (hi - lo) if hi - lo > 1e-4 * size else 0.1 * size or 1.0
    return Scale(lo - room, hi + room, start, end)


def linear_ticks(lo: float, hi: float, most: int = 5) -> list[float]:
    """Multiples of 1, 2 or 5 times a power of ten.

    >>> linear_ticks(0, 1)
    [0.0, 0.2, 0.4, 0.6, 0.8, 1.0]
    """
    power = 10.0 ** floor(log10((hi - lo) / most))
    step = next(m * power for m in (1, 2, 5, 10) if m * power * most >= (hi - lo) * (1 - 1e-9))
    first, last = ceil(lo / step - 1e-9), floor(hi / step + 1e-9)
    return [round(k * step, 12 - floor(log10(step))) for k in range(first, last + 1)]


def log_ticks(lo: float, hi: float, most: int = 5) -> list[float]:
    """Powers of ten, every so many.

    >>> log_ticks(0.02, 300)
    [0.1, 1.0, 10.0, 100.0]
    """
    first, last = ceil(log10(lo)), floor(log10(hi))
    stride = max(1, ceil((last - first + 1) / most))
    return [float(f"1e{k}") for k in range(first, last + 1, stride)]


def tick_label(value: float) -> str:
    """A short number for an axis.

    >>> tick_label(0.2), tick_label(20000), tick_label(-3), tick_label(1e-5)
    ('0.2', '20k', '−3', '1e−5')
    """
    if abs(value) >= 1e6 or 0 < abs(value) < 1e-3:
        mantissa, exponent = f"{value:.2e}".split("e")
        short = f"{float(mantissa):g}e{int(exponent)}"
    elif abs(value) >= 1e4:
        short = f"{value / 1000:g}k"
    else:
        short = f"{value:g}"
    return short.replace("-", "−")


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
