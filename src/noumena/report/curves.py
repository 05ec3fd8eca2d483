"""Curves of studies under their old names; they are ``noumena.charts`` now."""

from noumena.charts import Curve, Point
from noumena.charts import CurveChart as Figure

__all__ = ["Curve", "Figure", "Point"]
