"""A structure with a positive gap, generic entries for it, and a linear decoder of them."""

import numpy as np
import torch

GOOD = np.array([[1, 0]] * 3 + [[1, 1]] * 2 + [[0, 1]] * 3, dtype=bool)


class Linear(torch.nn.Module):
    def __init__(self, matrix):
        super().__init__()
        self.matrix = torch.nn.Parameter(torch.as_tensor(matrix, dtype=torch.float32))

    def forward(self, z):
        return z @ self.matrix.T


def entries(support, seed=0):
    rng = np.random.default_rng(seed)
    return support * rng.uniform(0.5, 1.5, size=support.shape)
