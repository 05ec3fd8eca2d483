"""Nets: builders of networks. A builder is called with the numbers of inputs and outputs."""

from noumena.nets.additive import Additive
from noumena.nets.conv import ConvDecoder, ConvEncoder
from noumena.nets.couplings import Coupling, VolumePreserving
from noumena.nets.generator import StyleDiscriminator, StyleGenerator
from noumena.nets.mlp import MLP
from noumena.nets.orthogonal import Orthogonal
from noumena.nets.pooled import PlaceDecoder, PlaceEncoder, PooledDecoder, PooledEncoder
from noumena.nets.residual import ResidualEncoder
from noumena.nets.unet import UNet
from noumena.nets.vector_quantised import VectorQuantised

__all__ = [
    "MLP",
    "Additive",
    "ConvDecoder",
    "ConvEncoder",
    "Coupling",
    "Orthogonal",
    "PlaceDecoder",
    "PlaceEncoder",
    "PooledDecoder",
    "PooledEncoder",
    "ResidualEncoder",
    "StyleDiscriminator",
    "StyleGenerator",
    "UNet",
    "VectorQuantised",
    "VolumePreserving",
]
