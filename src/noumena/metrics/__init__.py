"""Metrics: what is left between learned and true latents once an ambiguity is forgiven."""

from noumena.metrics.correlation import Correlation, mcc
from noumena.metrics.graphs import StructureDistance, structure_distance
from noumena.metrics.regression import Regression, r2
from noumena.metrics.slots import SlotIdentifiability, sis
from noumena.metrics.stability import Agreement, agreement

__all__ = [
    "Agreement",
    "Correlation",
    "Regression",
    "SlotIdentifiability",
    "StructureDistance",
    "agreement",
    "mcc",
    "r2",
    "sis",
    "structure_distance",
]
