"""Mixture priors without auxiliary information: a unique minimiser, and latents that runs agree on."""
