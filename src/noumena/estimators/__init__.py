"""Estimators: ``fit(x)``, ``transform(x)`` = ẑ, ``inverse_transform(ẑ)``; one training loop for all."""

from noumena.estimators.autoencoder import Autoencoder
from noumena.estimators.base import Estimator
from noumena.estimators.bio import BioAE
from noumena.estimators.conditional import iVAE
from noumena.estimators.facets import MFCVAE
from noumena.estimators.factor_vae import FactorVAE
from noumena.estimators.flow import Flow
from noumena.estimators.ica.ica import ICA
from noumena.estimators.images import QLAE, DisCo, EncDiff
from noumena.estimators.loop import Training
from noumena.estimators.mixture_vae import VaDE
from noumena.estimators.penalised import Penalised, fit_penalised
from noumena.estimators.save import load, save
from noumena.estimators.slots import SlotAutoencoder
from noumena.estimators.sparse.components import SparseComponents
from noumena.estimators.sparse.degenerate import DegenerateMixture
from noumena.estimators.sparse.flow import SparseFlow
from noumena.estimators.sparse.gaussians import DegenerateGaussians, MaskMixture, mixture_of_masks
from noumena.estimators.sparse.lagrangian import ConstrainedComponents
from noumena.estimators.sparse.stages import published_stage1
from noumena.estimators.tcvae import BetaTCVAE
from noumena.estimators.vae import VAE, BetaVAE

__all__ = [
    "ICA",
    "MFCVAE",
    "QLAE",
    "VAE",
    "Autoencoder",
    "BetaTCVAE",
    "BetaVAE",
    "BioAE",
    "ConstrainedComponents",
    "DegenerateGaussians",
    "DegenerateMixture",
    "DisCo",
    "EncDiff",
    "Estimator",
    "FactorVAE",
    "Flow",
    "MaskMixture",
    "Penalised",
    "SlotAutoencoder",
    "SparseComponents",
    "SparseFlow",
    "Training",
    "VaDE",
    "fit_penalised",
    "iVAE",
    "load",
    "mixture_of_masks",
    "published_stage1",
    "save",
]
