"""Likelihoods: how far a decoder's output is from the rows, as minus a log-density up to a constant and a scale.

``"gaussian"`` is the squared error; the output is the row itself. ``"bernoulli"`` is the cross-entropy of rows in [0,
1], such as pixels, with the output as logits; what a model decodes is then the sigmoid of them. Both are summed over
observations.

**Deviations**: grey pixels are taken as Bernoulli means, as is usual for images, though a Bernoulli variable is never
grey: the cross-entropy of a row that is met exactly is then its entropy, not zero. Derivatives of a decoder (penalties,
structure) are those of the pixels, after the sigmoid, as the units of the data are what a dependency is read in; where
pixels are saturated they vanish although those of the logits do not.
"""

from __future__ import annotations

import warnings
from typing import Any

from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits

from noumena import checks
from noumena.estimators.sources import Source

LIKELIHOODS = ("gaussian", "bernoulli")


def misfit(
    output: Float[Tensor, "batch observed"], x: Float[Tensor, "batch observed"], likelihood: str
) -> Float[Tensor, " batch"]:
    """How far every row is from the output, summed over observations; least, at ``output = x`` or ``sigmoid(output) =
    x``, by zero or the row's entropy, and unchanged by permutations of observations.

    >>> import torch
    >>> misfit(torch.tensor([[1.0, 0.0]]), torch.tensor([[3.0, 1.0]]), "gaussian")
    tensor([5.])
    >>> misfit(torch.tensor([[0.0, 0.0]]), torch.tensor([[1.0, 0.5]]), "bernoulli")  # two bits
    tensor([1.3863])
    """
    if likelihood == "bernoulli":
        return binary_cross_entropy_with_logits(output.to(x.dtype), x, reduction="none").sum(dim=-1)
    return (output - x).square().sum(dim=-1)


def emitting(decoder: nn.Module, likelihood: str) -> nn.Module:
    """The decoder as a map to rows: itself, or followed by a sigmoid."""
    return nn.Sequential(decoder, nn.Sigmoid()) if likelihood == "bernoulli" else decoder


def output(emitter: Any, z: Tensor, likelihood: str) -> Tensor:
    """What ``misfit`` compares with the rows: the output of the decoder inside ``emitting``."""
    return (emitter[0] if likelihood == "bernoulli" else emitter)(z)


def check_likelihood(likelihood: Any, name: str = "likelihood") -> None:
    """Refuse unknown likelihoods; ``"normal"`` is still taken for ``"gaussian"``, with a warning.

    >>> check_likelihood("poisson")
    Traceback (most recent call last):
        ...
    noumena.checks.InputError: likelihood must be one of gaussian, bernoulli. Got 'poisson'.
    """
    if likelihood == "normal":
        told = f'{name}="normal" is now {name}="gaussian"; the old name will go with the next release.'
        warnings.warn(told, DeprecationWarning, stacklevel=8)
        return
    checks.one_of(likelihood, name, LIKELIHOODS)


def check_range(source: Source, likelihood: str) -> None:
    """Refuse rows outside [0, 1] under a Bernoulli likelihood; bytes, in units of 255, are inside."""
    if likelihood != "bernoulli":
        return
    low, high = source.limits()
    must = "A Bernoulli likelihood must see x in [0, 1]."
    checks.require(low >= 0 and high <= 1, must, f"values from {low:g} to {high:g}")
