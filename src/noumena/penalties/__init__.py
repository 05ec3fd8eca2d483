"""Penalties: biases that make data choose one model. Each is a function of a decoder and latent points."""

from noumena.penalties.penalty import Penalty, PenaltySum
from noumena.penalties.sparsity import DependencySparsity, LatentSparsity

__all__ = ["DependencySparsity", "LatentSparsity", "Penalty", "PenaltySum"]
