"""A small network, its rows and its hidden layer by hand, and a module that gives what it is told to."""

import numpy as np
import pytest
import torch
from torch import nn


@pytest.fixture
def net():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Dropout(0.5), nn.Linear(6, 3))


@pytest.fixture
def x():
    return np.random.default_rng(0).normal(size=(10, 4))


def hidden(net, x):
    """The same by hand."""
    return torch.tanh(net[0](torch.as_tensor(x).float())).detach().numpy()


class Forked(nn.Module):
    """Gives what it is told to, whatever the rows."""

    def __init__(self, give):
        super().__init__()
        self.give = give
        self.inner = nn.Identity()

    def forward(self, x, attention_mask=None):
        return self.give(self.inner(x))
