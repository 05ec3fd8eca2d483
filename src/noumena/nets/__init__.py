"""Nets: builders of networks. A builder is called with the numbers of inputs and outputs."""

from noumena.nets.additive import Additive
from noumena.nets.couplings import Coupling, VolumePreserving
from noumena.nets.mlp import MLP

__all__ = ["MLP", "Additive", "Coupling", "VolumePreserving"]
