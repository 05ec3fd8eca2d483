"""Extraction: what any torch module computes at a layer, as a table with one row per row of the data."""

from noumena.extraction.extraction import representations

__all__ = ["representations"]
