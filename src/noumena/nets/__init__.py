"""Nets: builders of networks. A builder is called with the numbers of inputs and outputs."""

from noumena.nets.mlp import MLP

__all__ = ["MLP"]
