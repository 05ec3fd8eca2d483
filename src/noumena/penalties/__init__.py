"""Penalties: biases that make data choose one model. Each is a function of a decoder and latent points."""

from noumena.penalties.compositionality import CompositionalContrast
from noumena.penalties.curvature import HessianPenalty, Interaction
from noumena.penalties.orthogonality import IMAContrast, OroJaR
from noumena.penalties.penalty import Penalty, PenaltySum
from noumena.penalties.sparsity import DependencySparsity, GroupSparsity, LatentSparsity

__all__ = [
    "CompositionalContrast",
    "DependencySparsity",
    "GroupSparsity",
    "HessianPenalty",
    "IMAContrast",
    "Interaction",
    "LatentSparsity",
    "OroJaR",
    "Penalty",
    "PenaltySum",
]
