"""Connected slices: pieces that a sample shows are seen, and connected samples are not said to lie in any."""

from __future__ import annotations

import numpy as np
import pytest

from noumena.guarantees.spread import _pieces, connected_slices

MARGIN = 1.15
"""Pieces of the tests are beyond the threshold by this factor, so that no other machine decides otherwise."""


def stripes(n: int, d: int, rng: np.random.Generator) -> np.ndarray:
    """Diagonal stripes over all of the square: every latent, and every window of one, has values without a gap."""
    z = rng.uniform(-2, 2, (12 * n, d))
    return z[(z[:, :2].sum(axis=1) / 0.8) % 1 < 0.6][:n]


def strips(n: int, d: int, rng: np.random.Generator) -> np.ndarray:
    across, along = rng.uniform(0.6, 1.6, n) * rng.choice([-1, 1], n), rng.uniform(-4, 4, n)
    return np.stack([(along + across) / 2, (along - across) / 2], axis=1)


def shell(n: int, d: int, rng: np.random.Generator) -> np.ndarray:
    """A ball inside a shell."""
    z = rng.normal(size=(n, d))
    inner, outer = rng.uniform(0, 1, n) ** (1 / d), rng.uniform(1.6**d, 2.2**d, n) ** (1 / d)
    return z / np.linalg.norm(z, axis=1, keepdims=True) * np.where(rng.random(n) < 0.3, inner, outer)[:, None]


def rare(n: int, d: int, rng: np.random.Generator) -> np.ndarray:
    """Nineteen points far from all others, fewer than a spacing of one latent is judged by."""
    z = rng.normal(size=(n, d))
    z[:19, 1] += 12
    return z


def slanted(n: int, d: int, rng: np.random.Generator) -> np.ndarray:
    """Three clusters along the diagonal of all latents but one."""
    return rng.normal(size=(n, d)) + 10 / np.sqrt(d - 1) * np.r_[0, np.ones(d - 1)] * rng.integers(3, size=(n, 1))


SEEN = [
    (stripes, 2, 4000), (strips, 2, 400), (strips, 2, 1000), (shell, 2, 1000), (shell, 2, 3000), (shell, 3, 3000),
    (rare, 2, 400), (rare, 2, 4000), (rare, 3, 1000), (rare, 4, 400), (slanted, 3, 512), (slanted, 4, 512),
]  # fmt: skip


@pytest.mark.parametrize(("draw", "d", "n"), SEEN)
@pytest.mark.parametrize("seed", [0, 1])
def test_pieces_that_no_single_latent_shows_are_seen(draw, d, n, seed):
    z = draw(n, d, np.random.default_rng(seed))
    assert connected_slices(z).answer == "fails"
    assert _pieces(z) > MARGIN


def student(n: int, d: int, rng: np.random.Generator) -> np.ndarray:
    return rng.standard_t(1.5, (n, d))


def banana(n: int, d: int, rng: np.random.Generator) -> np.ndarray:
    z = rng.normal(size=(n, d))
    return np.column_stack([z[:, 0], z[:, 0] ** 2 + 0.3 * z[:, 1], z[:, 2:]])


def correlated(n: int, d: int, rng: np.random.Generator) -> np.ndarray:
    return np.sqrt(0.05) * rng.normal(size=(n, d)) + np.sqrt(0.95) * rng.normal(size=(n, 1))


def mixture(n: int, d: int, rng: np.random.Generator) -> np.ndarray:
    """Two Gaussians that overlap."""
    return rng.normal(size=(n, d)) + 2 / np.sqrt(d) * rng.integers(2, size=(n, 1))


def outlier(n: int, d: int, rng: np.random.Generator) -> np.ndarray:
    """One point far from all others, which is no piece."""
    z = rng.normal(size=(n, d))
    z[n // 2] += 50
    return z


CONNECTED_DRAWS = {
    "Gaussian": lambda n, d, rng: rng.normal(size=(n, d)),
    "uniform": lambda n, d, rng: rng.uniform(size=(n, d)),
    "exponential": lambda n, d, rng: rng.exponential(size=(n, d)),
    "cubes": lambda n, d, rng: rng.normal(size=(n, d)) ** 3,
    "cubes of correlated": lambda n, d, rng: correlated(n, d, rng) ** 3,
    "lognormal": lambda n, d, rng: np.exp(rng.normal(size=(n, d))),
    "single precision": lambda n, d, rng: rng.normal(size=(n, d)).astype(np.float32),
    "Student": student, "correlated": correlated, "mixture": mixture, "outlier": outlier,
}  # fmt: skip


@pytest.mark.parametrize("name", CONNECTED_DRAWS)
@pytest.mark.parametrize(("d", "n"), [(2, 200), (2, 2000), (3, 500), (5, 1000)])
def test_connected_samples_are_not_said_to_lie_in_pieces(name, d, n):
    z = CONNECTED_DRAWS[name](n, d, np.random.default_rng(n))
    assert connected_slices(z).answer == "supported"
    assert _pieces(z) < 1


@pytest.mark.parametrize("n", [200, 1000, 4000])
def test_a_bent_sample_is_one_piece_though_its_slices_are_two(n):
    z = banana(n, 2, np.random.default_rng(n))
    assert _pieces(z) < 1


@pytest.mark.parametrize("d", [1, 3])
def test_few_points_show_nothing(d):
    found = connected_slices(np.random.default_rng(0).normal(size=(20, d)))
    assert found.answer == "unknown"
    assert found.evidence.startswith("20 points are too few to tell (wanted ")
