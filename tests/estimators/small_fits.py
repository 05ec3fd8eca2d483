"""Rows to fit, an objective that is a valley, and an end by force."""

import numpy as np
import torch

import noumena as nm
from noumena.estimators.loop import FitData, Objective, train

BIAS = 0.05 * nm.DependencySparsity()


def data(n=400, seed=0):
    rng = np.random.default_rng(seed)
    z = rng.normal(size=(n, 2))
    return np.c_[z[:, 0], z.sum(axis=1), np.tanh(z[:, 1]), z[:, 1]] + 0.05 * rng.normal(size=(n, 4))


class Dies(Exception):
    pass


class Valley(Objective):
    """A loss whose held-out value falls, then rises: ``w`` walks from 0 to the training optimum 1 past 0.5."""

    def __init__(self, start=0.0):
        super().__init__()
        self.w = torch.nn.Parameter(torch.tensor([start]))

    def forward(self, x, draws, progress):
        loss = (self.w - x).square().mean()
        return loss, {"distance": loss}


def walk(**settings):
    rows = FitData(torch.ones(8, 1), torch.full((8, 1), 0.5), "")
    options = {"steps": 600, "learning_rate": 0.03, "batch_size": 8} | settings
    return train([Valley()], [0], rows, nm.Training(**options))
