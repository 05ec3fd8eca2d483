"""Block R² agrees with separate regressions and names the block of every learned latent."""

import numpy as np
import pytest
from sklearn.linear_model import LinearRegression

from noumena import seeds
from noumena.ambiguity import Ambiguity
from noumena.metrics import block_r2, r2

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


# ---- target blocks from learned blocks -----------------------------------------------------------------------


@pytest.mark.parametrize("regressor", ["linear", "kernel"])
def test_a_true_block_from_a_learned_block_is_the_mean_r2_of_its_latents(regressor):
    z, z_hat = world(120)
    found = block_r2(z, z_hat, SIZES, learned_blocks=(3, 1), regressor=regressor, held_out=False)
    whole = [r2(z, part, regressor=regressor, held_out=False).per_target for part in (z_hat[:, :3], z_hat[:, 3:])]
    expected = [[per[:2].mean(), per[2], per[3:].mean()] for per in whole]
    np.testing.assert_allclose(found.matrix, expected, atol=1e-9)
    assert found.learned_blocks == (3, 1)
    assert found.method == {"linear": "least squares", "kernel": "exact"}[regressor]


def test_kernel_regressions_of_latents_on_blocks_are_those_of_r2():
    z, z_hat = world(120)
    found = block_r2(z, z_hat, SIZES, regressor="kernel", held_out=False)
    expected = [
        r2(z[:, part], z_hat, regressor="kernel", direction="true to learned", held_out=False).per_target
        for part in (slice(0, 2), slice(2, 3), slice(3, 6))
    ]
    np.testing.assert_allclose(found.matrix, np.transpose(expected), atol=1e-9)


def test_blocks_are_matched_one_to_one_and_the_unmatched_score_zero():
    z = np.random.default_rng(0).normal(size=(1000, 6))
    swapped = block_r2(z, np.exp(0.3 * z[:, [3, 5, 4, 2, 0, 1]]), SIZES, learned_blocks=(3, 1, 2))
    assert swapped.partner.tolist() == [2, 1, 0]
    assert swapped.score > 0.9
    assert abs(swapped.leakage) < 0.05
    twice = block_r2(z, z[:, [0, 1, 0, 1]], SIZES, learned_blocks=2)
    assert twice.partner.tolist().count(0) == 1
    assert twice.score == pytest.approx(1 / 3, abs=0.02)
    assert twice.leakage == pytest.approx(1 / 3, abs=0.02)  # the copy
    extra = block_r2(z, np.hstack([z, z[:, :1] ** 2]), SIZES, learned_blocks=(*SIZES, 1))
    assert extra.partner.tolist() == [0, 1, 2, -1]
    alone = block_r2(z, z, 1, learned_blocks=1)
    assert (alone.score, alone.leakage) == (pytest.approx(1), 0)


def test_leakage_is_the_best_other_learned_block_even_below_zero():
    rng = np.random.default_rng(1)
    z = rng.normal(size=(40, 4))
    found = block_r2(z, np.hstack([z, rng.normal(size=(40, 2))]), 2, learned_blocks=3)
    assert found.partner.tolist() == [0, 1, -1]
    others = [max(found.matrix[i, j] for i in range(3) if i != j) for j in range(2)]
    assert found.leakage == pytest.approx(np.mean(others))
    assert found.leakage < 0


def test_only_the_kernel_reads_a_bent_block():
    z = np.random.default_rng(0).normal(size=(800, 4))
    bent = np.c_[z[:, 0] + z[:, 1] ** 2, z[:, 1], z[:, 2:]]
    linear, kernel = (block_r2(z, bent, 2, learned_blocks=2, regressor=kind) for kind in ("linear", "kernel"))
    assert linear.score < 0.9 < 0.95 < kernel.score
    assert kernel.forgives == Ambiguity("block-wise", ((0, 1), (2, 3)))
    assert linear.forgives == Ambiguity("permutation+scaling")


# ---- what stands beside --------------------------------------------------------------------------------------


@pytest.mark.parametrize("learned", [None, (1, 3)])
def test_chance_is_that_of_shuffled_rows(learned):
    z, z_hat = world(60)
    found = block_r2(z, z_hat, SIZES, learned_blocks=learned, shuffles=3, random_state=2)
    rng = seeds.numpy_generator(2, "shuffled targets")
    orders = [rng.permutation(60) for _ in range(3)]
    pairs = [(z, z_hat[p]) if learned is None else (z[p], z_hat) for p in orders]
    levels = [block_r2(a, b, SIZES, learned_blocks=learned, shuffles=0, random_state=2).value for a, b in pairs]
    np.testing.assert_allclose(found.chance, np.mean(levels, axis=0))
    assert found.chance.score < found.score - 0.1
    assert (found.shuffles, block_r2(z, z_hat, SIZES, shuffles=0).chance) == (3, None)


@pytest.mark.parametrize(("learned", "word"), [(None, "Each learned latent"), ((1, 3), "Each true block")])
def test_the_record_says_what_its_numbers_support(learned, word):
    found = block_r2(*world(), SIZES, learned_blocks=learned)
    score, leakage = found.claims
    assert score.supports.startswith(word)
    assert (score.best, leakage.best) == (1, 0)
    assert [number.claim.title for number in found.numbers] == ["Block R²", "Block R², other blocks"]
    assert found.numbers[1].chance == found.chance.leakage
    assert found.to_dict()["forgives"] == "permutation+scaling"
