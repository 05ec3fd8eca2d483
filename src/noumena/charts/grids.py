"""Images: many small ones in rows, with names beside the rows or words under each image."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import UInt8

from noumena.charts import canvas
from noumena.charts.canvas import extent, styled
from noumena.checks import require

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MARGIN = 0.04
"""Between images, as a share of their width."""


@styled
def images(
    images: UInt8[np.ndarray, "image channel height width"],
    across: int,
    *,
    rows: Sequence[str] = (),
    under: Sequence[str] = (),
    wide: float = 64.0,
    ax: Axes | None = None,
) -> Axes:
    """Images in bytes, grey or in colour, so many in a row.

    Parameters
    ----------
    images : array of bytes (image, channel, height, width)
        One or three channels.
    across : int
        Images in a row.
    rows : sequence of str
        Names left of the rows.
    under : sequence of str
        Words under each image.
    wide : float
        Width of an image in points.
    ax : matplotlib Axes, optional
        Where to draw; a new figure by default.

    Returns
    -------
    Axes

    Examples
    --------
    >>> ax = images(np.zeros((3, 1, 2, 2), dtype=np.uint8), 2, rows=["first", "second"])
    >>> len(ax.images), [tick.get_text() for tick in ax.get_yticklabels()]
    (3, ['first', 'second'])
    """
    n, channels, height, width = images.shape
    fits = images.size > 0 and channels in (1, 3) and across > 0
    require(fits, "Images must have one or three channels, and one or more a row.", f"{images.shape}, {across} a row")
    across, tall = min(across, n), height / width
    down, step = -(-n // across), tall + (20 / wide if under else MARGIN)
    left = max(extent(name, 12) for name in rows) + 8 if rows else 4.0
    ax = canvas.axes(ax, left + across * wide * (1 + MARGIN) + 4, down * step * wide + 8)
    ax.set_xlim(0, across * (1 + MARGIN))
    ax.set_ylim(down * step, 0)
    ax.set_xticks([])
    canvas.named(ax, "y", [k * step + tall / 2 for k in range(len(rows))], list(rows))
    for k, image in enumerate(images):
        row, column = divmod(k, across)
        x, y = column * (1 + MARGIN), row * step
        shown = np.moveaxis(np.broadcast_to(image, (3, height, width)), 0, -1)
        ax.imshow(shown, extent=(x, x + 1, y + tall, y), interpolation="none", aspect="auto")
        if k < len(under):
            ax.annotate(
                canvas.clean(under[k]), (x + 0.5, y + tall), (0, -3), "data", "offset points",
                ha="center", va="top", fontsize=11,
            )  # fmt: skip
    ax.set_xlim(0, across * (1 + MARGIN))
    ax.set_ylim(down * step, 0)
    return ax
