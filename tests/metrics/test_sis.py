"""SIS is 1 for the truth up to slot-wise maps, low where slots mix, 0 for noise, and defined at the edges."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.kernel_ridge import KernelRidge
from sklearn.metrics import r2_score
from sklearn.preprocessing import StandardScaler

from noumena import seeds
from noumena.metrics.slots import sis


def latents(n: int = 1200, d: int = 6, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(n, d))


def test_the_truth_scores_one() -> None:
    found = sis(latents(), latents(), slots=2)
    assert found.score > 0.96
    np.testing.assert_array_equal(found.matching, [0, 1])
    assert found.matrix.diagonal().min() > 0.96
    assert found.matrix[[0, 1], [1, 0]].max() < 0.02


def test_slot_wise_invertible_maps_and_a_change_of_slots_are_forgiven() -> None:
    z = latents()
    rng = np.random.default_rng(1)
    bent = [
        np.tanh(z[:, s] @ np.linalg.qr(rng.normal(size=(3, 3)))[0]) + 0.5 * z[:, s] for s in (slice(3), slice(3, 6))
    ]
    found = sis(z, np.concatenate(bent[::-1], axis=1), slots=2)
    assert found.score > 0.93
    np.testing.assert_array_equal(found.matching, [1, 0])
    assert found.forgives.blocks == ((0, 1, 2), (3, 4, 5))


def test_latents_in_the_wrong_slot_are_punished() -> None:
    z = latents()
    swapped = sis(z, z[:, [0, 1, 3, 2, 4, 5]], slots=2)
    assert swapped.score == pytest.approx(1 / 3, abs=0.05)
    rotation = np.linalg.qr(np.random.default_rng(0).normal(size=(6, 6)))[0]
    assert sis(z, z @ rotation, slots=2).score < 0.4


def test_noise_scores_zero_and_so_does_a_slot_that_knows_everything() -> None:
    z = latents()
    assert sis(z, latents(seed=1), slots=2).score == pytest.approx(0, abs=0.05)
    assert sis(z, np.concatenate([z, z], axis=1), slots=2, learned_slots=2).score == pytest.approx(0, abs=0.05)


def test_the_matrix_is_scikit_learns_on_rows_held_out() -> None:
    z, z_hat = latents(200, 4), latents(200, 4) + latents(200, 4, seed=1)
    found = sis(z, z_hat, slots=(1, 3), learned_slots=(3, 1), random_state=4)
    order = seeds.numpy_generator(4, "rows of sis").permutation(200)
    judge, fit = order[:40], order[40:]
    assert (found.rows, found.held_out) == (40, True)
    for i, part in enumerate((slice(0, 3), slice(3, 4))):
        for j, whole in enumerate((slice(0, 1), slice(1, 4))):
            inputs, outputs = StandardScaler().fit(z_hat[fit, part]), StandardScaler().fit(z[fit, whole])
            ridge = KernelRidge(alpha=1.0, kernel="rbf", gamma=1 / (part.stop - part.start))
            ridge.fit(inputs.transform(z_hat[fit, part]), outputs.transform(z[fit, whole]))
            predicted = outputs.inverse_transform(ridge.predict(inputs.transform(z_hat[judge, part])))
            assert found.matrix[i, j] == pytest.approx(max(0, r2_score(z[judge, whole], predicted)))
    partner = found.matrix[found.matching]
    expected = [partner[0, 0] - partner[0, 1], partner[1, 1] - partner[1, 0]]
    np.testing.assert_allclose(found.per_slot, expected)
    assert found.score == pytest.approx(np.mean(expected))


def test_the_matching_is_the_best_as_a_whole_and_the_rival_is_the_strongest_other() -> None:
    z = latents(1000, 3)
    mixed = np.c_[z[:, 0] + z[:, 1], z[:, 1] + 0.3 * z[:, 0], z[:, 2] + 0.5 * z[:, 0] + 0.8 * z[:, 1]]
    found = sis(z, mixed, slots=3)
    best = max(
        (found.matrix[list(p), range(3)].sum(), p) for p in [(0, 1, 2), (0, 2, 1), (1, 0, 2), (1, 2, 0), (2, 0, 1)]
    )
    assert tuple(found.matching) == best[1]
    for j, i in enumerate(found.matching):
        others = [found.matrix[i, k] for k in range(3) if k != j]
        assert found.per_slot[j] == pytest.approx(found.matrix[i, j] - max(others))


def test_more_or_fewer_learned_slots_are_defined() -> None:
    z = latents(600, 4)
    more = sis(z, np.c_[latents(600, 2, seed=1), z], slots=2, learned_slots=3)
    assert more.score > 0.93
    np.testing.assert_array_equal(more.matching, [1, 2])
    fewer = sis(z, z[:, 2:], slots=2, learned_slots=1)
    np.testing.assert_array_equal(fewer.matching, [-1, 0])
    assert fewer.per_slot[0] == 0
    assert fewer.score == pytest.approx(0.5, abs=0.05)
    assert sis(z, z, slots=1).score > 0.93


def test_constant_latents_count_for_nothing() -> None:
    z = latents(200, 4)
    stuck = np.c_[z[:, :2], np.ones((200, 2))]
    assert sis(stuck, z, slots=2).matrix[:, 1].tolist() == [0, 0]
    assert sis(z, np.ones((200, 4)), slots=2).score == pytest.approx(0, abs=0.1)


def test_rows_are_capped_seeded_and_in_sample_on_request() -> None:
    z, z_hat = latents(300, 2), latents(300, 2) + latents(300, 2, seed=1)
    assert sis(z, z_hat, slots=2, max_rows=100).rows == 20
    assert sis(z, z_hat, slots=2, held_out=False).rows == 300
    assert sis(z, z_hat, slots=2, held_out=False).score > sis(z, z_hat, slots=2).score
    assert sis(z, z_hat, slots=2, random_state=1).score == sis(z, z_hat, slots=2, random_state=1).score
    assert sis(z, z_hat, slots=2, random_state=1).score != sis(z, z_hat, slots=2, random_state=2).score
    assert sis(torch.as_tensor(z), torch.as_tensor(z_hat), slots=2).score == sis(z, z_hat, slots=2).score


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 10_000))
def test_rotations_and_scales_within_slots_and_their_order_are_forgiven(seed: int) -> None:
    """Kernel distances see standardised columns: one scale and a rotation of a slot of unit covariance stay unseen."""
    rng = np.random.default_rng(seed)
    z = latents(80, 4)
    white = [
        np.linalg.qr(part - part.mean(axis=0))[0] for part in np.split(z + 0.5 * latents(80, 4, seed=1), 2, axis=1)
    ]
    turns = [np.linalg.qr(rng.normal(size=(2, 2)))[0] for _ in white]
    plain = sis(z, np.concatenate(white, axis=1), slots=2, held_out=False, shuffles=0)
    moved = [rng.uniform(0.1, 9) * part @ turn + rng.normal() for part, turn in zip(white, turns, strict=True)]
    found = sis(z, np.concatenate(moved[::-1], axis=1), slots=2, held_out=False, shuffles=0)
    assert found.score == pytest.approx(plain.score, abs=1e-9)
    np.testing.assert_array_equal(found.matching, 1 - plain.matching)
    (claim,) = found.claims
    assert claim.range[0] <= found.score <= claim.range[1]
