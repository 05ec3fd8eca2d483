"""Inline: a chart of matplotlib as SVG inside the page, in the page's colours, light and dark.

Charts are drawn in ``charts.PALETTE``; each of its colours becomes the variable of that name in the style sheet. Text
stays text, in the page's font. The file is the same for the same chart. What matplotlib writes for files of their own
goes: metadata, ids, clip paths and style sheets, which would reach over the whole page.
"""

from __future__ import annotations

import io
import re
import warnings
from base64 import b64decode
from itertools import groupby
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree

import numpy as np

from noumena.charts import PALETTE, canvas, clouds
from noumena.report import png, svg
from noumena.report.svg import element, number

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

SALT: dict[Any, Any] = {"svg.fonttype": "none", "svg.hashsalt": "noumena", "svg.image_inline": True}
_RANKS = [k / (clouds.SHADES - 1) for k in range(clouds.SHADES)]
INKS = {canvas.shade(share): svg.ramp(share) for share in _RANKS} | {
    color: f"var(--{name},{color})" for name, color in reversed(PALETTE.items())
}
"""What stands on a page for every colour of a chart."""
SMOOTH = 32
"""Images wider than this are shown without the edges of their pixels."""
_CIRCLE = re.compile(r"M 0 (-?[\d.]+)\s+(?:C[\d.\s-]+){8}z\s*")
_USED = ("fill", "fill-opacity", "stroke", "stroke-opacity", "stroke-width", "stroke-dasharray", "stroke-linecap",
         "opacity", "text-anchor", "font-size", "font-weight")  # fmt: skip
Look = tuple[tuple[str, str], ...]


def inline(chart: Axes | Figure, title: str) -> str:
    """A chart as inline SVG with a title.

    >>> from noumena.charts import LevelRow, levels
    >>> drawn = inline(levels([LevelRow("<b>", 0.5)]), "One score")
    >>> "&lt;b&gt;</text>" in drawn, "var(--ink,#1d2430)" in drawn, "url(" in drawn
    (True, True, False)
    """
    figure: Any = getattr(chart, "figure", None) or chart
    root = ElementTree.fromstring(_written(figure))
    width, height = (float(part) for part in root.get("viewBox", "").split()[2:])
    shapes = {node.get("id", ""): node for node in root.iter() if _tag(node) == "path" and node.get("id")}
    content = "".join(_drawn(node, shapes) for node in root)
    return svg.document(width, height, title, element("g", content, stroke_linejoin="round", fill=svg.INK))


def _written(figure: Figure) -> bytes:
    from matplotlib import rc_context

    file = io.BytesIO()
    with rc_context(SALT | canvas.STYLE), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing from")  # the page's font draws them
        figure.savefig(file, format="svg", metadata=dict.fromkeys(("Date", "Creator", "Format", "Type")))
    return file.getvalue()


def _tag(node: ElementTree.Element) -> str:
    return node.tag.rpartition("}")[2]


def _drawn(node: ElementTree.Element, shapes: dict[str, ElementTree.Element]) -> str:
    """An element of matplotlib's as one of the page's."""
    tag = _tag(node)
    if tag in ("defs", "metadata"):
        return ""
    if tag == "g":
        kind, _, sentence = node.get("id", "").partition(": ")
        content = _group(list(node), shapes)
        own = content and re.fullmatch(r"[a-z-]+", kind)
        return element("g", (svg.hint(sentence) if sentence else "") + content, class_=kind) if own else content
    if tag == "text":
        moved = dict(re.findall(r"(\w+)\((.*?)\)", node.get("transform", "")))
        x, y = (float(part) for part in moved.get("translate", f"{node.get('x')} {node.get('y')}").split())
        turn = float(moved.get("rotate", "0").split()[0])
        look = {name.replace("-", "_"): value for name, value in _look(node)}
        size = float(str(look.pop("font_size", "12px")).removesuffix("px"))
        return svg.text(x, y, node.text or "", size=size, turn=turn, **{"fill": svg.INK} | look)
    if tag == "image":
        return _image(node)
    look = _look(node)
    unseen = dict(look).get("fill") == "none" and "stroke" not in dict(look)
    paper = dict(look).get("fill") == INKS[canvas.PAPER] and "stroke" not in dict(look)
    return "" if unseen or paper else _path(_short(node.get("d", "")), look)


def _group(nodes: list[ElementTree.Element], shapes: dict[str, ElementTree.Element]) -> str:
    """Children in their order; markers of one shape and look are drawn together."""

    def alike(node: ElementTree.Element) -> tuple[str, Look]:
        return _shape_of(node), _look(node)

    parts = []
    for used, run in groupby(nodes, key=lambda node: _tag(node) == "use"):
        if used:
            parts += [_markers(shapes[shape], look, list(same)) for (shape, look), same in groupby(run, key=alike)]
        else:
            parts += [_drawn(node, shapes) for node in run]
    return "".join(parts)


def _shape_of(node: ElementTree.Element) -> str:
    return next(value for name, value in node.items() if name.endswith("href")).removeprefix("#")


def _markers(shape: ElementTree.Element, look: Look, nodes: list[ElementTree.Element]) -> str:
    """The same marker at several places: circles as circles, many of them as one path."""
    places = [(float(node.get("x", 0)), float(node.get("y", 0))) for node in nodes]
    data = shape.get("d", "")
    circle = _CIRCLE.fullmatch(data)
    look = tuple((dict(_look(shape)) | dict(look)).items())
    attributes = {name.replace("-", "_"): value for name, value in look}
    if circle is None:
        return _path("".join(_short(_moved(data, *place)) for place in places), look)
    radius = abs(float(circle.group(1)))
    if len(places) == 1:
        return element("circle", cx=places[0][0], cy=places[0][1], r=radius, **attributes)
    if attributes.get("stroke", "none") == "none":
        attributes = {name.replace("fill", "stroke"): value for name, value in attributes.items() if "fill" in name}
        dots = svg.specks(*np.array(places).T)
        return element("path", d=dots, fill="none", stroke_width=2 * radius, stroke_linecap="round", **attributes)
    r, two = number(radius), number(2 * radius)
    rings = (f"M{number(x - radius)} {number(y)}a{r} {r} 0 1 0 {two} 0a{r} {r} 0 1 0 -{two} 0" for x, y in places)
    return element("path", d="".join(rings), **attributes)


def _moved(data: str, x: float, y: float) -> str:
    """Path data elsewhere.

    >>> _moved("M 0 1 L 2 -3 z", 10, 20)
    'M 10.0 21.0 L 12.0 17.0 z'
    """
    return re.sub(
        r"(-?[\d.]+(?:e-?\d+)?)\s+(-?[\d.]+(?:e-?\d+)?)",
        lambda pair: f"{float(pair[1]) + x} {float(pair[2]) + y}",
        data,
    )


def _path(data: str, look: Look) -> str:
    return element("path", d=data, **{name.replace("-", "_"): value for name, value in look})


def _short(data: str) -> str:
    """Path data with two decimals and no spaces that are not needed.

    >>> _short("M 0.001 290 \\nL 440.126 290 \\nz\\n")
    'M0 290L440.13 290z'
    """
    rounded = re.sub(r"-?\d[\d.]*(?:e-?\d+)?", lambda found: number(found.group()), data)
    return re.sub(r"\s*([A-Za-z])\s*", r"\1", rounded).strip()


def _look(node: ElementTree.Element) -> Look:
    """What is said of a look, in the page's colours; what goes without saying is left out."""
    pairs = (part.split(":", 1) for part in node.get("style", "").split(";") if ":" in part)
    found = {name.strip(): value.strip() for name, value in pairs}
    used = {name: INKS.get(found[name], found[name]) for name in _USED if name in found}
    lengths = ("stroke-width", "stroke-dasharray", "fill-opacity", "stroke-opacity", "opacity")
    for name in lengths:
        if name in used:
            used[name] = " ".join(number(part) for part in re.split(r"[ ,]+", used[name]))
    return tuple(used.items())


def _image(node: ElementTree.Element) -> str:
    """An image in its place, written as small as it can be."""
    from PIL import Image

    address = next(value for name, value in node.items() if name.endswith("href"))
    pixels = np.asarray(Image.open(io.BytesIO(b64decode(address.partition(",")[2]))).convert("RGB"))
    if (pixels == pixels[:, :, :1]).all():
        pixels = pixels[:, :, 0]
    height, width = pixels.shape[:2]
    scale = re.findall(r"-?[\d.]+(?:e-?\d+)?", node.get("transform", ""))
    across, _, _, down, x, y = map(float, scale or (1, 0, 0, 1, node.get("x", 0), node.get("y", 0)))
    place = {"x": x, "y": y + min(0.0, down * height), "width": across * width, "height": abs(down) * height}
    look = {} if width > SMOOTH else {"image_rendering": "pixelated"}
    return element("image", href=png.data_uri(pixels), preserveAspectRatio="none", **place, **look)
