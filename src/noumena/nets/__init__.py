"""Nets: builders of networks. A builder is called with the numbers of inputs and outputs."""

from noumena.nets.additive import Additive
from noumena.nets.conv import ConvDecoder, ConvEncoder
from noumena.nets.couplings import Coupling, VolumePreserving
from noumena.nets.mlp import MLP
from noumena.nets.orthogonal import Orthogonal

__all__ = ["MLP", "Additive", "ConvDecoder", "ConvEncoder", "Coupling", "Orthogonal", "VolumePreserving"]
