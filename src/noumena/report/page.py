"""Page: a report in one HTML file, composed from chapters of verdicts, figures and tables.

The file needs no network: style and figures are inline. What runs is one script that the browser is told by its digest:
it saves tables as CSV and, where a page has them, moves ``Sliders`` and answers in an ``Explorer``; a page without any
of these has no script. Every string is escaped; only the ``svg`` of a ``PageFigure`` is taken as markup, and
comes from ``noumena.report.plots`` or from a chart.
"""

from __future__ import annotations

import hashlib
import json
import math
import numbers
import os
import re
from base64 import b64encode
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from importlib.resources import files
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined, Template
from markupsafe import Markup

from noumena.checks import one_of, require
from noumena.report.inline import inline

Cell = str | float | int | numbers.Real
"""What a table holds: words or a number."""

_DASHES = frozenset({"", "-", "–", "—"})
_WIDE = 560


@dataclass(frozen=True)
class PageFigure:
    """A drawing and the sentence under it; ``title`` is what is read aloud in its place, the caption by default.

    A drawing is a chart, matplotlib axes or a figure, or the markup of one from ``plots``.
    """

    drawing: Any
    caption: str
    title: str = ""

    @cached_property
    def svg(self) -> str:
        """The drawing as inline SVG."""
        return self.drawing if isinstance(self.drawing, str) else inline(self.drawing, self.title or self.caption)

    @property
    def markup(self) -> Markup:
        """The drawing as trusted markup."""
        return Markup(self.svg)

    @property
    def wide(self) -> bool:
        """Whether the drawing needs the whole width of the page."""
        box = re.search(r'viewBox="0 0 ([0-9.]+)', self.svg)
        return box is not None and float(box.group(1)) > _WIDE


@dataclass(frozen=True)
class Slider:
    """One strip of frames side by side, a picture's address, and the value each frame stands for."""

    name: str
    strip: str
    values: tuple[str, ...]
    size: tuple[int, int]
    """Width and height of a frame, in pixels."""
    first: int = 0
    """The frame that is shown first."""
    note: str = ""

    def __post_init__(self) -> None:
        require(self.strip.startswith("data:image/"), "A strip must be a picture inside its address.", self.strip[:20])
        n = len(self.values)
        require(n > 1, "A slider must have two frames or more.", n)
        require(0 <= self.first < n, f"The first frame shown must be one of {n}.", self.first)


@dataclass(frozen=True)
class Sliders:
    """Strips of frames, each with a slider that picks one; without scripts the strips alone are shown."""

    sliders: tuple[Slider, ...]
    caption: str
    wide = True


@dataclass(frozen=True)
class Explorer:
    """A structure to point at and to ask: what it says, as plain lists, numbers and words, or why it is left out."""

    facts: Mapping[str, Any] | None
    caption: str
    examples: tuple[str, ...] = ()
    """Queries that can be tried."""

    @property
    def data(self) -> Markup:
        """The facts as JSON that no name can leave: nothing in it can open or close an element.

        >>> Explorer({"latent": ["</script>"]}, "").data
        Markup('{"latent":["\\\\u003c/script\\\\u003e"]}')
        """
        text = json.dumps(self.facts, separators=(",", ":"), allow_nan=False)
        return Markup(text.translate({ord(sign): f"\\u{ord(sign):04x}" for sign in "<>&"}))


@dataclass(frozen=True)
class PageTable:
    """A captioned table; numbers are set to three decimals and right-aligned, ``strong`` rows stand out."""

    caption: str
    header: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    note: str = ""
    strong: frozenset[int] = frozenset()

    def __post_init__(self) -> None:
        for k, row in enumerate(self.rows):
            fits = len(row) == len(self.header)
            require(fits, f"Every row must have {len(self.header)} cells.", f"{len(row)} in row {k}")
        stray = sorted(k for k in self.strong if not 0 <= k < len(self.rows))
        require(not stray, f"Strong rows must be below {len(self.rows)}.", stray)

    @property
    def numeric(self) -> tuple[bool, ...]:
        """For each column, whether it holds numbers, or dashes in their place."""
        return tuple(_is_numeric([row[j] for row in self.rows]) for j in range(len(self.header)))

    @property
    def text_rows(self) -> tuple[tuple[str, ...], ...]:
        """The rows as they are printed."""
        return tuple(tuple(printed(cell) for cell in row) for row in self.rows)

    @property
    def exact_rows(self) -> tuple[tuple[str, ...], ...]:
        """The rows as they are saved, with every digit; nothing where a number is missing."""
        numeric = self.numeric
        return tuple(tuple(_exact(cell, numeric[j]) for j, cell in enumerate(row)) for row in self.rows)

    @property
    def file_name(self) -> str:
        """The name of the file that the table is saved to.

        >>> PageTable("What is pinned down?", (), ()).file_name
        'what-is-pinned-down.csv'
        """
        words = re.findall(r"[a-z0-9]+", self.caption.lower())
        return ("-".join(words)[:60].strip("-") or "table") + ".csv"


KINDS = {
    "identified": ("✓", "good"),
    "not identified": ("✕", "bad"),
    "open": ("?", "open"),
    "stable, right or wrong": ("≈", "open"),
    "not stable": ("✕", "bad"),
    "found": ("✓", "good"),
    "not found": ("✕", "bad"),
}
"""A sign that tells the kinds of verdict apart without colour, and the name of each in the style sheet."""


@dataclass(frozen=True)
class Callout:
    """What can be said: its kind, one headline and the sentences that support it."""

    kind: str
    headline: str
    sentences: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        one_of(self.kind, "kind", tuple(KINDS))

    @property
    def sign(self) -> str:
        """A sign that tells the kinds apart without colour."""
        return KINDS[self.kind][0]

    @property
    def style(self) -> str:
        """The name of the kind in the style sheet."""
        return KINDS[self.kind][1]


@dataclass(frozen=True)
class Chapter:
    """One section of the page; ``details`` is plain text kept folded."""

    title: str
    lead: str
    verdict: Callout | None = None
    figures: tuple[PageFigure | Sliders, ...] = ()
    tables: tuple[PageTable, ...] = ()
    details: str = ""
    explorer: Explorer | None = None


@dataclass(frozen=True)
class Page:
    """The whole report."""

    title: str
    lead: str
    summary: PageTable | None = None
    chapters: tuple[Chapter, ...] = ()
    footer: str = ""

    @property
    def script(self) -> Markup:
        """What saves the tables, moves the sliders and answers in the explorers; nothing on a page without any."""
        figures = [figure for chapter in self.chapters for figure in chapter.figures]
        needed = {
            "tables.js": self.summary is not None or any(chapter.tables for chapter in self.chapters),
            "sliders.js": any(isinstance(figure, Sliders) for figure in figures),
            "explorer.js": any(chapter.explorer and chapter.explorer.facts for chapter in self.chapters),
        }
        return Markup("".join(_script(name) for name, wanted in needed.items() if wanted))

    @property
    def script_digest(self) -> str:
        """The script as a browser's content policy names it."""
        return "sha256-" + b64encode(hashlib.sha256(self.script.encode()).digest()).decode("ascii")


def printed(cell: Cell) -> str:
    """A cell as text: counts in full, other numbers to three decimals, tiny or huge ones in powers of ten.

    >>> [printed(cell) for cell in (0.99123, 20000, -0.5, 0.00012, float("nan"), "PCA")]
    ['0.991', '20,000', '−0.500', '1.20e−4', '–', 'PCA']
    """
    if not _is_number(cell):
        return str(cell)
    if isinstance(cell, numbers.Integral):
        return f"{int(cell):,}".replace("-", "−")
    value = float(cell)
    if math.isnan(value):
        return "–"
    if math.isinf(value):
        return "∞" if value > 0 else "−∞"
    if value != 0 and not 5e-4 <= abs(value) < 1e6:
        mantissa, exponent = f"{value:.2e}".split("e")
        return f"{mantissa}e{int(exponent)}".replace("-", "−")
    digits = 3 if abs(value) < 1000 else 0
    return f"{value:,.{digits}f}".replace("-", "−")


def render(page: Page) -> str:
    """The page as HTML.

    >>> "<h1>Two worlds</h1>" in render(Page("Two worlds", "One recovered, one not."))
    True
    """
    return _template().render(page=page)


def write(page: Page, path: Path) -> Path:
    """Render the page to a temporary name beside ``path``, then rename; returns the path."""
    path = Path(path)
    content = render(page)
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        temporary.write_text(content, encoding="utf-8")
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
    return path


@cache
def _script(name: str) -> str:
    return files("noumena.report").joinpath("templates", name).read_text(encoding="utf-8")


@cache
def _template() -> Template:
    loader = PackageLoader("noumena.report", "templates")
    environment = Environment(
        loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    return environment.get_template("page.html")


def _exact(cell: Cell, numeric: bool) -> str:
    if not _is_number(cell):
        return "" if numeric else str(cell)
    return str(int(cell)) if isinstance(cell, numbers.Integral) else repr(float(cell))


def _is_number(cell: object) -> bool:
    return isinstance(cell, numbers.Real) and not isinstance(cell, bool)


def _is_numeric(column: list[Cell]) -> bool:
    return any(map(_is_number, column)) and all(_is_number(cell) or cell in _DASHES for cell in column)
