"""An album: what an image model has learned, as a chapter of a page and as picture files.

Everything is decoded from latents of training rows, which a run keeps (``points_``); no data is read. Pictures of a
page are halved until they fit a budget; those of the files keep their size.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float, UInt8

from noumena import charts, checks
from noumena.report import pictures, png, svg
from noumena.report.page import Chapter, PageFigure, PageTable, Slider, Sliders
from noumena.report.pictures import Shape, Swaps, Traversals, coloured, sheet, shrunk

if TYPE_CHECKING:
    from matplotlib.axes import Axes

FRAMES = 11
"""Pictures of a strip."""
PAIRS = 8
"""Sources and targets."""
LINES = 4
"""Interpolations."""
SWAPPED = 10
"""Latents that are swapped, those that move the picture most."""
PROBED = 32
"""Points at which derivatives are taken."""
BUDGET = 2_400_000
"""Characters of all pictures of a page together."""
SMALLEST = 16
"""Sides that are not halved any more."""
BROAD = 92
"""Width of a map in units of the page."""
ACROSS = 8
"""Maps in a row."""

DECODED = "Decoded from latents of training rows, no data is read."


@dataclass(frozen=True)
class Album:
    """Pictures of one model's latents."""

    shape: Shape
    strips: Traversals
    swaps: Swaps
    lines: UInt8[np.ndarray, "pair step channel height width"]
    maps: Float[np.ndarray, "latent height width"]
    """Light that a pixel gains or loses as a latent moves by its standard deviation, as a share of full light; in the
    order of the strips."""

    @property
    def shown(self) -> int:
        """Latents with pictures of their own: those that move the picture, or the first one if none does."""
        return max(1, self.strips.alive)

    def to_dict(self) -> dict[str, Any]:
        """How much every latent moves the picture."""
        moves = dict(zip(self.strips.names, map(float, self.strips.moves), strict=True))
        return {"shape": list(self.shape), "moves": moves, "dead": list(self.strips.dead)}


def album(model: Any, shape: Shape, *, top: float | None = None) -> Album:
    """The album of a fitted model's best model, from its ``points_``."""
    shape = pictures.checked_shape(shape)
    points = checks.table(model.points_[model.best_], "points_", min_rows=2)
    light = pictures.top_of(model) if top is None else top
    decoding = pictures.Latents(model)
    strips = pictures.traversals(decoding, points, shape, steps=FRAMES, top=light)
    pairs = min(PAIRS, len(points) // 2)
    source, target = points[:pairs], points[pairs : 2 * pairs]
    swapped = strips.latents[: min(SWAPPED, max(1, strips.alive))]
    maps = pictures.jacobian_maps(model, points[:PROBED], shape)[list(strips.latents)]
    typical = points.std(axis=0)[list(strips.latents), None, None] / light
    return Album(
        shape,
        strips,
        pictures.swaps(decoding, source, target, shape, swapped, top=light),
        pictures.interpolations(decoding, source[:LINES], target[:LINES], shape, FRAMES, top=light),
        maps * typical,
    )


def save_album(album: Album, folder: Path) -> tuple[Path, Path]:
    """Write ``traversals.png``, a strip per latent that moves the picture, and ``swaps.png``; returns their paths."""
    strips = sheet(album.strips.images[: album.shown], album.shape, FRAMES)
    grid = sheet(album.swaps.images, album.shape, album.swaps.images.shape[1])
    return png.save(strips, folder / "traversals.png"), png.save(grid, folder / "swaps.png")


# ---- the chapter ---------------------------------------------------------------------------------------------------


def album_chapter(album: Album) -> Chapter:
    """Sliders, swaps, interpolations and maps, small enough together for one page."""
    channels, height, width = album.shape
    block = 1
    figures = _figures(album, block)
    while sum(map(_size, figures)) > BUDGET and min(height, width) // (2 * block) >= SMALLEST:
        block *= 2
        figures = _figures(album, block)
    smaller = f" They are shown at {height // block} × {width // block}." * (block > 1)
    n, dead = len(album.strips.latents), album.strips.dead
    lead = (
        f"Pictures of {height} × {width} pixels in {'colour' if channels == 3 else 'grey'}, as the decoder draws them."
        f"{smaller} {_dead(n, dead)}"
    )
    return Chapter("What the latents do to the picture", lead, figures=figures, tables=(moves_table(album),))


def moves_table(album: Album) -> PageTable:
    """How much every latent moves the picture, and where most."""
    strips = album.strips
    rows = tuple(
        (name, float(moved), float(peak), float(low), float(high))
        for name, moved, peak, low, high in zip(
            strips.names,
            strips.moves,
            album.maps.max(axis=(1, 2)),
            strips.values[:, 0],
            strips.values[:, -1],
            strict=True,
        )
    )
    return PageTable(
        "How much the latents move the picture",
        ("latent", "moves", "at the most sensitive pixel", "from", "to"),
        rows,
        note="moves: spread of a pixel along the latent's strip, root mean square over pixels and a few rows. At the "
        "most sensitive pixel: the change of light for one standard deviation of the latent. Both as shares of full "
        "light. from, to: the range of the strip.",
    )


def _dead(n: int, dead: tuple[str, ...]) -> str:
    if not dead:
        return f"All {n} latents move it." if n > 1 else "The one latent moves it."
    if len(dead) == n:
        return "No latent moves it by as much as one level of a byte."
    verb = "is dead: it moves" if len(dead) == 1 else "are dead: they move"
    gone = svg.listed(dead, most=20)
    return f"{n - len(dead)} of {n} latents move it; {gone} {verb} it by less than one level of a byte."


def _figures(album: Album, block: int) -> tuple[PageFigure | Sliders, ...]:
    return (_sliders(album, block), _swaps(album, block), _lines(album, block), _maps(album, block))


def _size(figure: PageFigure | Sliders) -> int:
    return len(figure.svg) if isinstance(figure, PageFigure) else sum(len(one.strip) for one in figure.sliders)


def _sliders(album: Album, block: int) -> Sliders:
    strips = album.strips
    all_of_them = []
    for k in range(album.shown):
        frames = shrunk(strips.images[k], block)
        channels, height, width = frames.shape[1:]
        strip = png.data_uri(sheet(frames, (channels, height, width), len(frames)))
        values = tuple(f"{value:.2f}".replace("-", "−") for value in strips.values[k])
        note = f"moves the picture by {100 * strips.moves[k]:.1f} %"
        first = int(np.abs(strips.values[k] - strips.start[strips.latents[k]]).argmin())
        all_of_them.append(Slider(strips.names[k], strip, values, (width, height), first, note))
    return Sliders(
        tuple(all_of_them),
        "Move a slider to move one latent from the 1 % to the 99 % quantile of its values, the others kept as they are "
        "in one training row, near which all sliders begin. Those that move the picture most come first. "
        f"{DECODED} A strip shows what the decoder does with a latent there, elsewhere it may do something else; that "
        "a latent is a factor of the world is not claimed.",
    )


def _swaps(album: Album, block: int) -> PageFigure:
    found = album.swaps
    names = [name if k < 2 else f"{name} of target" for k, name in enumerate(found.names)]
    left_out = album.shown - len(found.latents)
    more = f" {svg.counted(left_out, 'latent')} that move the picture less are left out." if left_out > 0 else ""
    return PageFigure(
        _table_of(found.images, block, names),
        f"Each column: a source, a target, and below them the source with one latent taken from the target. Where "
        f"latents are separate, one thing changes to that of the target and all else stays.{more} {DECODED}",
        title="Swaps of one latent",
    )


def _lines(album: Album, block: int) -> PageFigure:
    names = [f"pair {k + 1}" for k in range(len(album.lines))]
    return PageFigure(
        _table_of(album.lines, block, names),
        f"Straight lines in latent space, from a source to its target in {FRAMES} steps. Smooth and plausible pictures "
        f"between show that the decoder fills the space between rows; they do not show that latents are right. "
        f"{DECODED}",
        title="Interpolations",
    )


def _maps(album: Album, block: int) -> PageFigure:
    shown = coloured(album.maps[: album.shown])
    peaks = album.maps.max(axis=(1, 2))
    labels = [f"{name}: {100 * peak:.1f} %" for name, peak in zip(album.strips.names, peaks, strict=True)]
    return PageFigure(
        charts.images(shrunk(shown, block), ACROSS, under=labels[: len(shown)], wide=BROAD),
        f"Where a latent acts: the derivative of every pixel by it, in size, over {PROBED} training rows or fewer in "
        "the mean, colours by their Euclidean norm. White is nothing; the darkest pixel of each map changes by the "
        "percentage under it, of full light, as the latent moves by its standard deviation. Dependence on a latent is "
        "not yet a verdict on whether the latent is identified.",
        title="Where latents act",
    )


def _table_of(images: UInt8[np.ndarray, "row column channel height width"], block: int, rows: list[str]) -> Axes:
    """Pictures in rows with names."""
    return charts.images(shrunk(images.reshape(-1, *images.shape[2:]), block), images.shape[1], rows=rows)
