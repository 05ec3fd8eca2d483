"""Estimators of images, EncDiff, DisCo and QLAE, and the networks that only they use."""

from noumena.estimators.images.disco import DisCo
from noumena.estimators.images.enc_diff import EncDiff
from noumena.estimators.images.qlae import QLAE
from noumena.estimators.images.style_networks import StyleDiscriminator, StyleGenerator
from noumena.estimators.images.unet import UNet
from noumena.estimators.images.vector_quantised import VectorQuantised

__all__ = ["QLAE", "DisCo", "EncDiff", "StyleDiscriminator", "StyleGenerator", "UNet", "VectorQuantised"]
