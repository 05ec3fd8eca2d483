"""Jacobians of random numbers and of shared pixels, and the gap by a search over every flat."""

from __future__ import annotations

from itertools import combinations

import numpy as np

from noumena.ambiguity import Blocks


def scalar(n: int) -> Blocks:
    return tuple((j,) for j in range(n))


def random_jacobian(rng: np.random.Generator, d_x: int, d_z: int, *, whole: bool) -> np.ndarray:
    """Full column rank; small whole numbers cancel by accident, normal ones do not."""
    while True:
        numbers = rng.integers(1, 3, size=(d_x, d_z)) if whole else rng.normal(size=(d_x, d_z))
        J = np.where(rng.random((d_x, d_z)) < rng.uniform(0.3, 0.9), numbers, 0).astype(float)
        if np.linalg.matrix_rank(J) == d_z:
            return J


def random_blocks(rng: np.random.Generator, n: int) -> Blocks:
    while True:
        label = rng.integers(0, n, size=n)
        if len(set(label.tolist())) > 1:
            return tuple(tuple(np.flatnonzero(label == k).tolist()) for k in sorted(set(label.tolist())))


def flats(J: np.ndarray, columns: tuple[int, ...], rng: np.random.Generator) -> list[np.ndarray]:
    """For every set of rows sent to zero by directions on some columns, as many generic directions as the columns."""
    n, found = J.shape[1], []
    for size in range(len(columns)):
        for R in combinations(range(len(J)), size):
            _, singular, right = np.linalg.svd(J[list(R)][:, columns].reshape(size, len(columns)))
            kernel = right[int((singular > 1e-9).sum()) :]
            for _ in range(len(kernel)):
                v = np.zeros(n)
                v[list(columns)] = rng.normal(size=len(kernel)) @ kernel
                found.append(v / np.abs(v).max())
    return found


def weight(J: np.ndarray, v: np.ndarray) -> int:
    return int((np.abs(J @ v) > 1e-8).sum())


def greedy(J: np.ndarray, directions: list[np.ndarray], first: tuple[np.ndarray, ...] = ()) -> int:
    """The lightest set of directions, with ``first`` forced, that spans what all of them span."""
    chosen = list(first)
    for v in sorted(directions, key=lambda v: weight(J, v)):
        if np.linalg.matrix_rank(np.array([*chosen, v]), tol=1e-7) > len(chosen):
            chosen.append(v)
    return sum(weight(J, v) for v in chosen)


def crosses(v: np.ndarray, blocks: Blocks) -> bool:
    return sum(np.abs(v[list(block)]).max() > 1e-9 for block in blocks) > 1


def reference(J: np.ndarray, blocks: Blocks, rng: np.random.Generator) -> tuple[int, int]:
    """ρ⁺ and ρ⁻ by definition, over generic directions of every flat, elementary or not."""
    rho_plus = sum(greedy(J, flats(J, block, rng)) for block in blocks)
    everything = flats(J, tuple(range(J.shape[1])), rng)
    lightest: dict[tuple[int, tuple[int, ...]], np.ndarray] = {}
    for v in everything:
        if crosses(v, blocks):
            lightest[weight(J, v), tuple(np.flatnonzero(np.abs(v) > 1e-9).tolist())] = v
    return rho_plus, min(greedy(J, everything, (v,)) for v in lightest.values())


def pixels(p: int, q: int, rng: np.random.Generator | None = None) -> np.ndarray:
    """Two latents with ``p`` pixels each, ``q`` shared, alike or generic."""
    support = np.array([[1, 0]] * (p - q) + [[1, 1]] * q + [[0, 1]] * (p - q))
    return support.astype(float) if rng is None else np.where(support, rng.normal(size=support.shape), 0)
