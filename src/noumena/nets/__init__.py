"""Nets: builders of networks. A builder is called with the numbers of inputs and outputs."""

from noumena.deprecated import moved
from noumena.nets.additive import Additive
from noumena.nets.conv import ConvDecoder, ConvEncoder
from noumena.nets.couplings import Coupling, VolumePreserving
from noumena.nets.mlp import MLP
from noumena.nets.orthogonal import Orthogonal
from noumena.nets.pooled import PooledDecoder, PooledEncoder, SpatialSoftmaxDecoder, SpatialSoftmaxEncoder
from noumena.nets.residual import ResidualEncoder

__all__ = [
    "MLP",
    "Additive",
    "ConvDecoder",
    "ConvEncoder",
    "Coupling",
    "Orthogonal",
    "PooledDecoder",
    "PooledEncoder",
    "ResidualEncoder",
    "SpatialSoftmaxDecoder",
    "SpatialSoftmaxEncoder",
    "VolumePreserving",
]

_IN_IMAGES = ("StyleDiscriminator", "StyleGenerator", "UNet", "VectorQuantised")
_RENAMED = {"PlaceEncoder": "SpatialSoftmaxEncoder", "PlaceDecoder": "SpatialSoftmaxDecoder"}
__getattr__ = moved(
    "noumena.nets",
    {name: f"noumena.estimators.images.{name}" for name in _IN_IMAGES}
    | {old: f"noumena.nets.{new}" for old, new in _RENAMED.items()},
)
