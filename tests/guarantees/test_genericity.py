"""Assumption 3.4 on degenerate mixtures is decided exactly, on every group of components that meets."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np
import pytest

from noumena.guarantees import Certificate, degenerate
from noumena.guarantees.degenerate import COMMON_BASIS, COMMON_POINT, GENERIC, INVERTIBLE, degenerate_ladder
from noumena.mixtures import Mixture


def masked(*masks: tuple[int, ...], n: int = 3, means: Any = None, seed: int = 0) -> Mixture:
    """One component for each set of active latents, with random covariances, and random means where they move."""
    rng = np.random.default_rng(seed)
    k = len(masks)
    active = np.array([[i in mask for i in range(n)] for mask in masks])
    factors = [rng.normal(size=(n, n)) * row[:, None] for row in active]
    centres = rng.normal(size=(k, n)) * active if means is None else means
    return Mixture(np.ones(k) / k, centres, np.stack([F @ F.T for F in factors]))


def lines(directions: Any, means: Any) -> Mixture:
    directions = np.asarray(directions, dtype=float)
    k = len(directions)
    return Mixture(np.ones(k) / k, means, directions[:, :, None] * directions[:, None, :])


def evidence(reading: Certificate, name: str) -> str:
    return next(h.evidence for h in reading.hypotheses if h.name == name)


def answer(reading: Certificate, name: str) -> str:
    return next(h.answer for h in reading.hypotheses if h.name == name)


def test_crossing_lines_fail_3_4_exactly_at_equal_distances() -> None:
    """Example E.2 and B.13: two axes of the plane are told apart unless |μ_1|/σ_1 = |μ_2|/σ_2."""
    for a, s, b, t in [(1, 1, 1, 1), (2, 1, -4, 2), (0, 1, 0, 5), (1, 1, 2, 1), (0, 1, 1e-3, 1), (3, 2, 3, 2.01)]:
        cross = Mixture([0.5, 0.5], [[a, 0], [0, b]], [np.diag([s**2, 0]), np.diag([0, t**2])])
        equal = np.isclose(abs(a) / s, abs(b) / t, atol=1e-12)
        reading = degenerate_ladder(cross, exact=True)
        assert (GENERIC in reading.broken) == equal, (a, s, b, t)
    assert "components 0, 1 of rank 1 have equal distances" in evidence(
        degenerate_ladder(lines(np.eye(2), np.eye(2)), exact=True), GENERIC
    )


def test_zero_means_fail_3_4_and_other_means_do_not() -> None:
    """Masked latents with mean zero all meet in 0, at distance 0 from every component."""
    rng = np.random.default_rng(0)
    for seed in range(10):
        n = int(rng.integers(3, 7))
        masks = [m for m in combinations(range(n), n // 2) if rng.random() < 0.7] + [(0,), (1,)]
        zero = degenerate_ladder(masked(*masks, n=n, means=np.zeros((len(masks), n)), seed=seed), exact=True)
        assert GENERIC in zero.broken
        assert answer(degenerate_ladder(masked(*masks, n=n, seed=seed), exact=True), GENERIC) == "holds"


def test_components_of_different_rank_may_agree_anywhere() -> None:
    mixture = masked((0, 1, 2), (0, 1), (2,), means=np.zeros((3, 3)))
    assert GENERIC not in degenerate_ladder(mixture, exact=True).broken


def test_components_on_one_support_are_told_apart_by_any_difference() -> None:
    for second in ([[0.5, 0], [0, 1]], [[1, 1e-3], [1e-3, 1]]):
        mixture = Mixture([0.5, 0.5], np.zeros((2, 2)), [np.eye(2), second])
        assert GENERIC not in degenerate_ladder(mixture, exact=True).broken


def test_a_pair_may_be_told_apart_where_a_larger_group_meets_no_more() -> None:
    """Three planes through one line are told apart along it, until a fourth meets that line in one bad point."""
    directions = np.array([[0.0, 1, 0], [0, 0, 1], [0, 1, 1]])
    axis = np.outer([1, 0, 0], [1, 0, 0])
    planes = [axis * v + np.outer(u, u) for v, u in zip((1.0, 2, 3), directions, strict=True)]
    pencil = Mixture(np.ones(3) / 3, np.zeros((3, 3)), planes)
    assert GENERIC not in degenerate_ladder(pencil, exact=True).broken
    crossing = np.diag([0.0, 1, 1])
    blocked = Mixture(np.ones(4) / 4, np.zeros((4, 3)), [*planes, crossing])
    assert GENERIC in degenerate_ladder(blocked, exact=True).broken
    moved = Mixture(np.ones(4) / 4, [*np.zeros((3, 3)), [0.5, 0, 0]], [*planes, crossing])  # now it meets elsewhere
    assert GENERIC not in degenerate_ladder(moved, exact=True).broken


def distances_by_sampling(mixture: Mixture, seed: int) -> bool:
    """The slow reference for 3.4 on supports through 0: every group of equal rank, a random point of its meeting."""
    rng, bases = np.random.default_rng(seed), [s.basis for s in mixture.supports()]
    for size in range(2, len(bases) + 1):
        for group in combinations(range(len(bases)), size):
            if len({bases[j].shape[1] for j in group}) > 1:
                continue
            outside = np.vstack([np.eye(mixture.n_latents) - bases[j] @ bases[j].T for j in group])
            _, values, right = np.linalg.svd(outside)
            point = right[values < 1e-9].T @ rng.normal(size=int((values < 1e-9).sum()))
            gaps = [point - mixture.means[j] for j in group]
            found = [
                g @ np.linalg.pinv(mixture.covariances[j], rcond=1e-9) @ g for g, j in zip(gaps, group, strict=True)
            ]
            if min(abs(a - b) for a, b in combinations(found, 2)) < 1e-9:
                return False
    return True


def whole_directions(rng: np.random.Generator, n: int, rank: int) -> np.ndarray:
    """Orthonormal columns that span vectors of −1, 0 and 1, so that spans often meet."""
    while True:
        columns = rng.integers(-1, 2, size=(n, rank))
        if np.linalg.matrix_rank(columns) == rank:
            return np.linalg.qr(columns)[0]


def test_3_4_agrees_with_distances_at_random_points_of_every_intersection() -> None:
    rng, answers = np.random.default_rng(1), []
    for seed in range(120):
        n, k = int(rng.integers(2, 4)), int(rng.integers(2, 5))
        ranks = rng.integers(1, n + 1, size=k)
        factors = [whole_directions(rng, n, int(r)) for r in ranks]
        scales = [F * rng.choice([1.0, 1.0, 2.0], size=F.shape[1]) for F in factors]
        means = np.stack([F @ rng.integers(-1, 2, size=F.shape[1]) * rng.integers(0, 2) for F in factors])
        mixture = Mixture(np.ones(k) / k, means, np.stack([F @ F.T for F in scales])).reduced(tolerance=1e-7)
        found = GENERIC not in degenerate_ladder(mixture, exact=True, tolerance=1e-7).broken
        assert found == distances_by_sampling(mixture, seed)
        answers.append(found)
    assert 20 < sum(answers) < 100


def test_repeated_components_are_merged_and_numbers_stay_those_given() -> None:
    base = lines([[1, 0], [1, 0], [0, 1]], [[1, 0], [1, 0], [0, 1]])
    reading = degenerate_ladder(base, exact=True)
    assert "components 0, 2 of rank 1" in evidence(reading, GENERIC)


def test_affine_maps_do_not_change_3_4_and_3_6() -> None:
    rng = np.random.default_rng(2)
    for seed in range(10):
        mixture = masked((0, 1), (1, 2), (0,), (2,), means=None if seed % 2 else np.zeros((4, 3)), seed=seed)
        pushed = mixture.pushed(rng.normal(size=(3, 3)) @ np.diag([1, 10, 0.1]), rng.normal(size=3))
        here, there = (degenerate_ladder(m, exact=True, tolerance=1e-7) for m in (mixture, pushed))
        for name in (GENERIC, COMMON_POINT, COMMON_BASIS, INVERTIBLE):
            assert answer(here, name) == answer(there, name)


def test_too_many_groups_are_not_enumerated(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(3)
    scattered = lines(rng.normal(size=(8, 2)), rng.normal(size=(8, 2)))
    assert answer(degenerate_ladder(scattered, exact=True), GENERIC) == "holds"
    monkeypatch.setattr(degenerate, "MOST_GROUPS", 10)
    assert answer(degenerate_ladder(scattered, exact=True), GENERIC) == "unknown"
