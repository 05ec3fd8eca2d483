"""Deconfounding: does a label generalise to batches never seen, from base features, PCA, ICA or random rotations?"""

from noumena.deconfounding.experiment import deconfound
from noumena.deconfounding.result import Deconfounding

__all__ = ["Deconfounding", "deconfound"]
