"""Charts: arrays in, matplotlib axes out, in the colours of the pages.

Every chart draws on ``ax`` or on a new figure, and returns the axes; those of several panels return the figure.
matplotlib is imported when something is drawn.
"""

from noumena.charts.canvas import PALETTE
from noumena.charts.cells import correlations, heatmap, structure
from noumena.charts.clouds import competitor, over_gaps, overlay, pairs
from noumena.charts.dots import LevelRow, levels, strips
from noumena.charts.grids import images
from noumena.charts.lines import Curve, CurveChart, Point, curves, history

__all__ = [
    "PALETTE",
    "Curve",
    "CurveChart",
    "LevelRow",
    "Point",
    "competitor",
    "correlations",
    "curves",
    "heatmap",
    "history",
    "images",
    "levels",
    "over_gaps",
    "overlay",
    "pairs",
    "strips",
    "structure",
]
