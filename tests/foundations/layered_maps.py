"""Layered maps of every kind, their points, and their Jacobians row by row."""

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn.utils import parametrizations

D_Z, ROWS = 4, 3


def points(n: int = ROWS) -> Tensor:
    g = torch.Generator().manual_seed(1)
    return torch.randn(n, D_Z, generator=g, dtype=torch.float64)


def row_by_row(f: Callable[[Tensor], Tensor], z: Tensor) -> Tensor:
    """The slow reference: reverse mode, one row at a time."""
    found = [torch.autograd.functional.jacobian(lambda one: f(one[None])[0], row) for row in z]
    return torch.stack([row if isinstance(row, Tensor) else row[0] for row in found])


def trained_normalisation(layer: nn.BatchNorm1d | nn.BatchNorm2d) -> nn.Module:
    torch.manual_seed(5)
    for tensor in (layer.running_mean, layer.running_var, layer.weight, layer.bias):
        if tensor is not None:
            tensor.data = torch.rand_like(tensor) + 0.5
    return layer.eval()


def around(layer: nn.Module) -> nn.Sequential:
    """A point-wise layer between linear ones, so that tangents differ from row to row."""
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(D_Z, 6), layer, nn.Linear(6, 5)).double()


def layered(name: str) -> nn.Sequential:
    torch.manual_seed(0)
    start = [nn.Linear(D_Z, 24), nn.Tanh(), nn.Unflatten(1, (2, 12))]
    plane = [nn.Linear(D_Z, 32), nn.Tanh(), nn.Unflatten(-1, (2, 4, 4))]
    layers: dict[str, list[nn.Module]] = {
        "one linear layer": [nn.Linear(D_Z, 6)],
        "no linear layer": [nn.Tanh()],
        "a normalisation first": [trained_normalisation(nn.BatchNorm1d(D_Z)), nn.Linear(D_Z, 6)],
        "no bias": [nn.Linear(D_Z, 6, bias=False), nn.Tanh(), nn.Linear(6, 5, bias=False)],
        "nested": [nn.Sequential(nn.Linear(D_Z, 6), nn.Sequential(nn.Tanh())), nn.Identity(), nn.Linear(6, 5)],
        "dropout in eval": [nn.Linear(D_Z, 6), nn.Dropout().eval(), nn.Tanh(), nn.Linear(6, 5)],
        "narrow": [nn.Linear(D_Z, 6), nn.Tanh(), nn.Linear(6, 2)],
        "narrow, point-wise last": [nn.Linear(D_Z, 6), nn.Tanh(), nn.Linear(6, 2), nn.Sigmoid()],
        "Conv1d": [*start, nn.Conv1d(2, 3, 4, stride=3, padding=1), nn.Tanh(), nn.Flatten()],
        "Conv1d, dilated, grouped": [*start, nn.Conv1d(2, 4, 3, dilation=2, groups=2), nn.Tanh(), nn.Flatten()],
        "ConvTranspose1d": [*start, nn.ConvTranspose1d(2, 3, 4, stride=2, output_padding=1), nn.Tanh(), nn.Flatten()],
        "Conv2d": [*plane, nn.Conv2d(2, 3, 3, stride=2), nn.Tanh(), nn.Flatten()],
        "ConvTranspose2d": [*plane, nn.ConvTranspose2d(2, 3, 4, stride=2, padding=1), nn.ELU(), nn.Flatten()],
        "shared through a convolution": [
            nn.Linear(D_Z, 24),
            nn.Unflatten(1, (2, 12)),
            nn.Conv1d(2, 3, 3),
            nn.Flatten(),
        ],
        "BatchNorm1d": [nn.Linear(D_Z, 6), trained_normalisation(nn.BatchNorm1d(6)), nn.Tanh(), nn.Linear(6, 5)],
        "BatchNorm1d of sequences": [*start, trained_normalisation(nn.BatchNorm1d(2)), nn.Tanh(), nn.Flatten()],
        "BatchNorm2d": [*plane, trained_normalisation(nn.BatchNorm2d(2, affine=False)), nn.Tanh(), nn.Flatten()],
        "linear over an inner axis": [*start, nn.Linear(12, 5), nn.Tanh(), nn.Flatten()],
        "AvgPool2d": [*plane, nn.AvgPool2d(2), nn.Tanh(), nn.Flatten()],
        "Upsample": [*plane, nn.Upsample(scale_factor=2, mode="bilinear"), nn.Tanh(), nn.Flatten()],
        "weight norm": [parametrizations.weight_norm(nn.Linear(D_Z, 6)), nn.Tanh(), nn.Linear(6, 5)],
    }
    return nn.Sequential(*layers[name]).double()
