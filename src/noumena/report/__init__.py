"""Report: one self-contained HTML page, composed by the caller from verdicts, tables and inline figures."""

from noumena.report import plots
from noumena.report.page import Chapter, Figure, Page, Table, Verdict, render, write

__all__ = ["Chapter", "Figure", "Page", "Table", "Verdict", "plots", "render", "write"]
