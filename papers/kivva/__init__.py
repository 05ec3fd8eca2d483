"""Mixture priors without auxiliary information: a unique minimiser, and latents that runs agree on.

Bohdan Kivva, Goutham Rajendran, Pradeep Ravikumar and Bryon Aragam, *Identifiability of deep generative models without
auxiliary information*, Advances in Neural Information Processing Systems (NeurIPS), 2022,
https://arxiv.org/abs/2206.10044
"""
