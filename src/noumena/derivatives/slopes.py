"""Slopes: closed-form derivatives of point-wise layers, themselves differentiable as often as the layer is.

A slope is a function of the layer, its input ``h`` and its output ``y``. That of a piecewise linear layer is a constant
on every piece and carries no gradient. At kinks the slope is the one autograd takes.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

Slope = Callable[[Any, Tensor, Tensor], Tensor]

SELU_SCALE = 1.0507009873554804934193349852946
SELU_SCALE_ALPHA = SELU_SCALE * 1.6732632423543772848170429916717
GELU_CUBE = 0.044715


def slope(layer: nn.Module, h: Tensor, y: Tensor) -> Tensor:
    """The derivative of a point-wise layer at every entry of its input.

    >>> h = torch.tensor([-1.0, 2.0])
    >>> slope(nn.LeakyReLU(0.5), h, h)
    tensor([0.5000, 1.0000])
    """
    return SLOPES[kind(layer)](layer, h, y)


def kind(layer: nn.Module) -> type:
    """The class of a layer, seen through parametrised weights.

    >>> kind(nn.utils.parametrizations.weight_norm(nn.Linear(1, 1))).__name__
    'Linear'
    """
    return type(layer).__mro__[1] if "parametrizations" in layer._modules else type(layer)


def _pieces(right: Tensor, h: Tensor, above: float, below: float) -> Tensor:
    """One constant where ``right`` holds, another elsewhere."""
    return torch.where(right, h.new_full((), above), h.new_full((), below))


def _inside(h: Tensor, low: float, high: float) -> Tensor:
    return ((h > low) & (h < high)).to(h.dtype)


def _prelu(layer: Any, h: Tensor, y: Tensor) -> Tensor:
    channels = layer.weight.reshape(-1, *[1] * (h.ndim - 2))
    return torch.where(h > 0, h.new_ones(()), channels)


def _gelu(layer: Any, h: Tensor, y: Tensor) -> Tensor:
    if layer.approximate == "tanh":
        c = math.sqrt(2 / math.pi)
        t = torch.tanh(c * (h + GELU_CUBE * h * h * h))
        return 0.5 * (1 + t) + 0.5 * c * h * (1 - t * t) * (1 + 3 * GELU_CUBE * h * h)
    return 0.5 * (1 + torch.erf(h / math.sqrt(2))) + h * torch.exp(-0.5 * h * h) / math.sqrt(2 * math.pi)


def _silu(layer: Any, h: Tensor, y: Tensor) -> Tensor:
    s = torch.sigmoid(h)
    return s + y * (1 - s)


def _mish(layer: Any, h: Tensor, y: Tensor) -> Tensor:
    t = torch.tanh(nn.functional.softplus(h))
    return t + h * (1 - t * t) * torch.sigmoid(h)


def _softplus(layer: Any, h: Tensor, y: Tensor) -> Tensor:
    steep = layer.beta * h
    return torch.where(steep > layer.threshold, h.new_ones(()), torch.sigmoid(steep))


def _elu(layer: Any, h: Tensor, y: Tensor) -> Tensor:
    return torch.where(h > 0, h.new_ones(()), y + layer.alpha)


def _selu(layer: Any, h: Tensor, y: Tensor) -> Tensor:
    return torch.where(h > 0, h.new_full((), SELU_SCALE), y + SELU_SCALE_ALPHA)


def _celu(layer: Any, h: Tensor, y: Tensor) -> Tensor:
    return torch.where(h > 0, h.new_ones(()), y / layer.alpha + 1)


SLOPES: dict[type, Slope] = {
    nn.ReLU: lambda layer, h, y: (h > 0).to(h.dtype),
    nn.LeakyReLU: lambda layer, h, y: _pieces(h > 0, h, 1.0, layer.negative_slope),
    nn.PReLU: _prelu,
    nn.ReLU6: lambda layer, h, y: _inside(h, 0, 6),
    nn.Hardtanh: lambda layer, h, y: _inside(h, layer.min_val, layer.max_val),
    nn.ELU: _elu,
    nn.SELU: _selu,
    nn.CELU: _celu,
    nn.GELU: _gelu,
    nn.SiLU: _silu,
    nn.Mish: _mish,
    nn.Softplus: _softplus,
    nn.Softsign: lambda layer, h, y: (1 + h.abs()).pow(-2),
    nn.Tanh: lambda layer, h, y: 1 - y * y,
    nn.Sigmoid: lambda layer, h, y: y * (1 - y),
    nn.LogSigmoid: lambda layer, h, y: torch.sigmoid(-h),
}
