"""Decoders of the plane and laws on it that satisfy the theorems on nearness, or break one hypothesis of them."""

from math import pi, sqrt

import numpy as np
import torch

import noumena as nm
from noumena.worlds import Law, World, law


def linear(matrix):
    matrix = torch.as_tensor(matrix, dtype=torch.float64)
    return lambda z: z @ matrix.T


def points(n, d, seed=0):
    return torch.as_tensor(np.random.default_rng(seed).uniform(-1, 1, size=(n, d)))


def curved(z):
    return torch.stack([z[:, 0] + 0.3 * z[:, 1].sin(), 1.5 * z[:, 1], (z[:, 0] * z[:, 1]).tanh()], dim=1)


def cylinder(radius):
    """An isometric immersion that wraps its first latent around."""
    return lambda z: torch.stack([radius * (z[:, 0] / radius).cos(), radius * (z[:, 0] / radius).sin(), z[:, 1]], dim=1)


EDGE = sqrt(3)
FRAME = torch.tensor([[np.cos(k * pi / 6), np.sin(k * pi / 6)] for k in range(6)]) / sqrt(3)  # orthonormal columns


def flat(z):
    """Nearly an isometry of the plane into six dimensions."""
    return 2 * (z + 0.05 * z.sin()) @ FRAME.to(z).T


def stretched(z):
    return z @ torch.diag(torch.tensor([1.0, 2.5])).to(z) @ FRAME.to(z).T


def wrapped(z, radius=0.45):
    """An isometry that goes around once and a bit."""
    angle = z[:, 0] / radius
    return torch.stack([radius * angle.cos(), radius * angle.sin(), z[:, 1]], dim=1)


def uniform(n, g):
    return EDGE * (2 * torch.rand(n, 2, generator=g, dtype=torch.float64) - 1)


def two_intervals(n, g):
    """The first latent avoids the middle; both are white and independent."""
    z = torch.rand(n, 2, generator=g, dtype=torch.float64)
    sign = torch.sign(torch.rand(n, generator=g, dtype=torch.float64) - 0.5)
    return torch.stack([sign * (0.8 + z[:, 0]) / 1.3317, EDGE * (2 * z[:, 1] - 1)], dim=1)


def large_together(n, g):
    """Uniform marginals on a square, uncorrelated, but latents are large or small together."""
    z = uniform(8 * n, g)
    size = 2 * z.abs() / EDGE - 1
    kept = 2 * torch.rand(8 * n, generator=g, dtype=torch.float64) < 1 + 0.9 * size[:, 0] * size[:, 1]
    return z[kept][:n]


def disc(n, g):
    z = torch.randn(n, 2, generator=g, dtype=torch.float64)
    return 2 * z / z.norm(dim=1, keepdim=True) * torch.rand(n, 1, generator=g, dtype=torch.float64).sqrt()


def drawn(draw, n=10_000, seed=0):
    return draw(n, torch.Generator().manual_seed(seed))


def on_a_line(n, g):
    return uniform(n, g)[:, [0, 0]]


def world(decoder=flat, chosen=None, noise=0.0):
    observed = decoder(torch.zeros(1, 2, dtype=torch.float64)).shape[1]
    chosen = law("uniform", 2) if chosen is None else chosen
    return World(nm.Structure(np.ones((observed, 2), dtype=bool)), chosen, decoder, noise=noise)


def own(draw, independent=True):
    return Law("own", 2, independent, draw)


SQUARE = drawn(uniform, 4000)
RUN = SQUARE.numpy()
TURN = np.array([[0.6, 0.8], [-0.8, 0.6]])
