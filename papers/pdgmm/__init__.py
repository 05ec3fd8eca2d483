"""Degenerate mixtures: tables of synthetic worlds and of balls, and what they leave out.

Danru Xu, Sébastien Lachapelle and Sara Magliacane, *Identifiability of Potentially Degenerate Gaussian Mixture Models
With Piecewise Affine Mixing*, International Conference on Artificial Intelligence and Statistics (AISTATS), 2026,
https://arxiv.org/abs/2604.13218
"""
