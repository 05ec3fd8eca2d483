"""MCC agrees with a slow loop over scipy, forgives what it says it forgives, and is defined at the edges."""

from __future__ import annotations

from itertools import permutations
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import pearsonr, spearmanr

from noumena.ambiguity import Ambiguity
from noumena.checks import InputError
from noumena.metrics import mcc

modest = settings(max_examples=40, deadline=None)
KINDS = ("pearson", "spearman")


@st.composite
def tables(draw: st.DrawFn, *, ties: bool = False) -> tuple[np.ndarray, np.ndarray]:
    """True and learned latents, related in part; with ties on request."""
    rng = np.random.default_rng(draw(st.integers(0, 10_000)))
    n, d, d_hat = draw(st.integers(5, 40)), draw(st.integers(1, 4)), draw(st.integers(1, 4))
    z = rng.normal(size=(n, d))
    z_hat = z @ rng.normal(size=(d, d_hat)) + rng.normal(size=(n, d_hat))
    return (z.round(), z_hat.round()) if ties else (z, z_hat)


def slow_matrix(z: np.ndarray, z_hat: np.ndarray, kind: str) -> np.ndarray:
    correlate = {"pearson": pearsonr, "spearman": spearmanr}[kind]

    def one(a: np.ndarray, b: np.ndarray) -> float:
        return 0.0 if np.ptp(a) == 0 or np.ptp(b) == 0 else abs(float(correlate(a, b).statistic))

    return np.array([[one(a, b) for b in z_hat.T] for a in z.T])


def slow_score(matrix: np.ndarray) -> float:
    d, d_hat = matrix.shape
    if d <= d_hat:
        return max(np.mean([matrix[j, k] for j, k in enumerate(p)]) for p in permutations(range(d_hat), d))
    return max(sum(matrix[j, k] for k, j in enumerate(p)) / d for p in permutations(range(d), d_hat))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("ties", [False, True])
@modest
@given(data=st.data())
def test_the_score_is_that_of_a_slow_loop(kind: str, ties: bool, data: st.DataObject) -> None:
    z, z_hat = data.draw(tables(ties=ties))
    found = mcc(z, z_hat, correlation=kind)
    expected = slow_matrix(z, z_hat, kind)
    np.testing.assert_allclose(found.matrix, expected, atol=1e-9)
    assert found.score == pytest.approx(slow_score(expected))
    assert 0 <= found.score <= 1
    assert found.score == pytest.approx(found.per_latent.mean())
    matched = [(j, k) for j, k in enumerate(found.permutation) if k >= 0]
    assert len({k for _, k in matched}) == len(matched) == min(expected.shape)
    for j, k in enumerate(found.permutation):
        assert found.per_latent[j] == pytest.approx(expected[j, k] if k >= 0 else 0, abs=1e-9)


@pytest.mark.parametrize("kind", KINDS)
@modest
@given(pair=tables(), seed=st.integers(0, 1000))
def test_permutations_signs_scales_and_shifts_are_forgiven(kind: str, pair: Any, seed: int) -> None:
    z, z_hat = pair
    rng = np.random.default_rng(seed)
    d_hat = z_hat.shape[1]
    scale = rng.uniform(0.1, 10, d_hat) * rng.choice([-1, 1], d_hat)
    moved = (z_hat * scale + rng.normal(size=d_hat))[:, rng.permutation(d_hat)]
    assert mcc(z, moved, correlation=kind).score == pytest.approx(mcc(z, z_hat, correlation=kind).score)


@modest
@given(pair=tables())
def test_only_spearman_forgives_monotone_maps(pair: Any) -> None:
    z, z_hat = pair
    bent = np.exp(3 * z_hat / np.abs(z_hat).max())
    assert mcc(z, bent, correlation="spearman").score == pytest.approx(mcc(z, z_hat, correlation="spearman").score)


def test_what_a_score_forgives_is_declared_and_true() -> None:
    z = np.random.default_rng(0).normal(size=(300, 2))
    pearson, spearman = mcc(z, np.exp(3 * z)), mcc(z, np.exp(3 * z), correlation="spearman")
    assert pearson.score < 0.7
    assert spearman.score == pytest.approx(1)
    assert pearson.forgives == Ambiguity("permutation+scaling")
    assert spearman.forgives == Ambiguity("element-wise")


@pytest.mark.parametrize("kind", KINDS)
def test_identity_scores_one(kind: str) -> None:
    z = np.random.default_rng(0).normal(size=(50, 4))
    found = mcc(z, z, correlation=kind)
    assert found.score == pytest.approx(1)
    assert found.permutation.tolist() == [0, 1, 2, 3]
    np.testing.assert_allclose(found.per_latent, 1)


@pytest.mark.parametrize("kind", KINDS)
def test_noise_scores_about_chance_and_chance_falls_with_the_rows(kind: str) -> None:
    rng = np.random.default_rng(0)
    few, many = (mcc(rng.normal(size=(n, 3)), rng.normal(size=(n, 3)), correlation=kind) for n in (20, 20_000))
    assert few.score == pytest.approx(few.chance, abs=0.15)
    assert few.chance > 0.15
    assert many.score < 0.03
    assert many.chance < 0.03


def test_chance_is_the_mean_score_of_shuffled_rows() -> None:
    rng = np.random.default_rng(1)
    z = rng.normal(size=(30, 3))
    z_hat = z @ rng.normal(size=(3, 3))
    scores = [mcc(z, z_hat[rng.permutation(30)]).score for _ in range(400)]
    spread = np.std(scores) / np.sqrt(20)
    assert mcc(z, z_hat).chance == pytest.approx(np.mean(scores), abs=4 * spread)
    assert mcc(z, z_hat, seed=3).chance == mcc(z, z_hat, seed=3).chance
    assert mcc(z, z_hat, seed=3).chance != mcc(z, z_hat, seed=4).chance
    assert mcc(z, z_hat, seed=3).score == mcc(z, z_hat, seed=4).score


def test_missing_latents_count_zero_and_further_ones_go_unused() -> None:
    z = np.random.default_rng(0).normal(size=(100, 4))
    fewer = mcc(z, z[:, [3, 1]])
    assert fewer.score == pytest.approx(0.5)
    assert fewer.permutation.tolist() == [-1, 1, -1, 0]
    np.testing.assert_allclose(fewer.per_latent, [0, 1, 0, 1])
    assert mcc(z[:, [3, 1]], z).score == pytest.approx(1)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("constant", [0.0, 0.1, 1e9 / 3])
def test_a_constant_column_correlates_with_nothing(kind: str, constant: float) -> None:
    z = np.random.default_rng(0).normal(size=(37, 2))
    stuck = np.c_[z[:, 0], np.full(37, constant)]
    assert mcc(z, stuck, correlation=kind).score == pytest.approx(0.5)
    assert mcc(stuck, z, correlation=kind).score == pytest.approx(0.5)
    both = mcc(stuck[:, 1:], stuck[:, 1:], correlation=kind)
    assert (both.score, both.chance) == (0, 0)


def test_three_rows_are_enough_and_two_are_not() -> None:
    z = np.array([[0.0], [1], [3]])
    assert mcc(z, z).score == pytest.approx(1)
    with pytest.raises(InputError, match="z must have at least 3 rows"):
        mcc(z[:2], z[:2])


@pytest.mark.parametrize("kind", KINDS)
def test_tensors_and_single_precision_score_alike(kind: str) -> None:
    rng = np.random.default_rng(0)
    z, z_hat = rng.normal(size=(60, 3)).astype(np.float32), rng.normal(size=(60, 2)).astype(np.float32)
    wide = mcc(z.astype(np.float64), z_hat.astype(np.float64), correlation=kind)
    narrow = mcc(torch.as_tensor(z), torch.as_tensor(z_hat), correlation=kind)
    assert narrow.score == pytest.approx(wide.score)
    assert narrow.matrix.dtype == np.float64


def test_bad_input_is_refused() -> None:
    z = np.random.default_rng(0).normal(size=(10, 2))
    with pytest.raises(InputError, match=r"correlation must be one of pearson, spearman\. Got 'kendall'\."):
        mcc(z, z, correlation="kendall")
    with pytest.raises(InputError, match=r"share their batch axis\. Got shapes \(10, 2\) and \(9, 2\)\."):
        mcc(z, z[1:])
    with pytest.raises(InputError, match="z_hat must be finite"):
        mcc(z, np.where(z > 1, np.nan, z))
    with pytest.raises(InputError, match="z must have two axes"):
        mcc(z[:, 0], z)
