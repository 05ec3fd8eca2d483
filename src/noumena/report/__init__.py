"""Report: one self-contained HTML page, composed by the caller from callouts, tables and figures."""

from noumena.deprecated import moved
from noumena.report import plots
from noumena.report.page import Callout, Chapter, Page, PageFigure, PageTable, render, write

__all__ = ["Callout", "Chapter", "Page", "PageFigure", "PageTable", "plots", "render", "write"]
__getattr__ = moved(
    "noumena.report",
    {
        "Figure": "noumena.report.page.PageFigure",
        "Table": "noumena.report.page.PageTable",
        "Verdict": "noumena.report.page.Callout",
    },
)
