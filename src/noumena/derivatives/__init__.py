"""Derivatives of batched maps ``z ↦ x``: whole Jacobians, parts of them, mixed partial derivatives."""

from noumena.derivatives.jacobians import Differentiated, Map, differentiate, jacobian, way_of
from noumena.derivatives.mixed import derivative, mixed_derivatives, mixed_differences
from noumena.derivatives.sampling import columns, directional, rows

__all__ = [
    "Differentiated",
    "Map",
    "columns",
    "derivative",
    "differentiate",
    "directional",
    "jacobian",
    "mixed_derivatives",
    "mixed_differences",
    "rows",
    "way_of",
]
