"""Metrics: what is left between learned and true latents once an ambiguity is forgiven."""

from noumena.metrics.blocks import BlockRegression, block_r2
from noumena.metrics.canonical import CanonicalCorrelation, weak_mcc
from noumena.metrics.causal import causal_graph, cpdag, graph_distance
from noumena.metrics.correlation import Correlation, mcc
from noumena.metrics.graphs import StructureDistance, structure_distance
from noumena.metrics.importance import concentration, hoyer
from noumena.metrics.information import InfoMEC, infomec, mutual_information
from noumena.metrics.mixings import amari_distance
from noumena.metrics.mixtures import AffineDistance, affine_distance
from noumena.metrics.regression import Regression, r2
from noumena.metrics.slots import SlotIdentifiability, sis
from noumena.metrics.stability import Agreement, agreement

__all__ = [
    "AffineDistance",
    "Agreement",
    "BlockRegression",
    "CanonicalCorrelation",
    "Correlation",
    "InfoMEC",
    "Regression",
    "SlotIdentifiability",
    "StructureDistance",
    "affine_distance",
    "agreement",
    "amari_distance",
    "block_r2",
    "causal_graph",
    "concentration",
    "cpdag",
    "graph_distance",
    "hoyer",
    "infomec",
    "mcc",
    "mutual_information",
    "r2",
    "sis",
    "structure_distance",
    "weak_mcc",
]
