"""Block R² agrees with separate regressions and names the block of every learned latent."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.linear_model import LinearRegression

from noumena.checks import InputError
from noumena.metrics import block_r2

SIZES = (2, 1, 3)


def world(rows: int = 500, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    z = rng.normal(size=(rows, 6))
    z_hat = np.column_stack([z[:, 3:] @ rng.normal(size=3), z[:, 2], z[:, 0] + 2 * z[:, 1], z[:, 0] + z[:, 5]])
    return z, z_hat + 0.3 * rng.normal(size=z_hat.shape)


def test_the_matrix_is_that_of_one_regression_after_another():
    z, z_hat = world()
    found = block_r2(z, z_hat, SIZES, held_out=False)
    blocks = np.split(z, [2, 3], axis=1)
    slow = [[LinearRegression().fit(b, t).score(b, t) for b in blocks] for t in z_hat.T]
    np.testing.assert_allclose(found.matrix, slow, atol=1e-10)
    assert found.matrix.shape == (4, 3)
    ranked = np.sort(slow, axis=1)
    assert found.score == pytest.approx(ranked[:, 2].mean())
    assert found.leakage == pytest.approx(ranked[:, 1].mean())


def test_each_learned_latent_finds_its_block_and_rows_it_was_not_fitted_on_judge():
    z, z_hat = world()
    found = block_r2(z, z_hat, SIZES)
    assert found.partner[:3].tolist() == [2, 1, 0]
    assert found.rows == 100
    assert found.matrix[0, 2] > 0.8
    assert found.matrix[0, :2].max() < 0.1
    noise = block_r2(z[:40], np.random.default_rng(5).normal(size=(40, 50)), SIZES)
    assert noise.matrix.mean() < 0  # in-sample it would be positive


def test_units_and_mixing_within_a_block_change_nothing():
    z, z_hat = world()
    A = np.random.default_rng(1).normal(size=(3, 3)) + 3 * np.eye(3)
    mixed = np.hstack([1e6 * z[:, :3] + 4, z[:, 3:] @ A])
    plain = block_r2(z, z_hat, SIZES)
    np.testing.assert_allclose(block_r2(mixed, 100 * z_hat - 3, SIZES).matrix, plain.matrix, atol=1e-8)


def test_one_block_constants_and_equal_blocks_are_defined():
    z, z_hat = world()
    alone = block_r2(z, np.hstack([z_hat, np.ones((500, 1))]), 1)
    assert alone.leakage == 0
    assert alone.matrix[4, 0] == 0
    assert alone.matrix[0, 0] > 0.9
    assert block_r2(z, z_hat, 3).matrix.shape == (4, 3)


def test_sizes_that_do_not_add_up_and_unequal_rows_are_refused():
    z, z_hat = world()
    with pytest.raises(InputError, match="sizes of the slots must add up to 6"):
        block_r2(z, z_hat, (2, 2))
    with pytest.raises(InputError, match="share their batch axis"):
        block_r2(z[:20], z_hat, 2)
    with pytest.raises(InputError, match="z must have at least 10 rows"):
        block_r2(z[:5], z_hat[:5], 2)
