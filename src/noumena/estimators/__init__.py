"""Estimators: ``fit(x)``, ``transform(x)`` = ẑ, ``inverse_transform(ẑ)``; one training loop for all."""

from noumena.estimators.autoencoder import Autoencoder
from noumena.estimators.estimator import Estimator
from noumena.estimators.flow import Flow
from noumena.estimators.runs import load, save
from noumena.estimators.slots import SlotAutoencoder
from noumena.estimators.training import Training
from noumena.estimators.vae import VAE, BetaVAE

__all__ = ["VAE", "Autoencoder", "BetaVAE", "Estimator", "Flow", "SlotAutoencoder", "Training", "load", "save"]
