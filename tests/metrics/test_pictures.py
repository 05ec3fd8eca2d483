"""Image SIS is 1 for the objects in any order, 0 for slots that know all or nothing, and defined at the edges."""

import sys
from itertools import permutations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import balanced_accuracy_score, pairwise, r2_score

from noumena.metrics.image_sis import image_sis

pictures = sys.modules["noumena.metrics.image_sis"]

N = 250


def scene(n: int = N, k: int = 2, seed: int = 0) -> np.ndarray:
    """Objects with a place on two axes and one of three shapes."""
    rng = np.random.default_rng(seed)
    return np.concatenate([rng.normal(size=(n, k, 2)), rng.integers(0, 3, size=(n, k, 1))], axis=2)


def reordered(slots: np.ndarray, seed: int = 0) -> np.ndarray:
    """Another order of slots in every image."""
    order = np.random.default_rng(seed).random(slots.shape[:2]).argsort(axis=1)
    return np.take_along_axis(slots, order[:, :, None], axis=1)


# ---- known answers -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("k", [1, 2, 3])
def test_the_objects_themselves_score_one_in_any_order(k: int) -> None:
    z = scene(k=k)
    found = image_sis(z, reordered(z))
    assert found.score > 0.95
    assert found.own.min() > 0.7
    assert found.chance < 0.15
    assert found.ceiling == 1
    assert found.raw / found.raw_ceiling == pytest.approx(found.score, abs=0.06)
    wanted = np.random.default_rng(0).random((N, k)).argsort(axis=1).argsort(axis=1)
    assert (found.matching == wanted).mean() > 0.99
    assert found.kinds == "Factors (detected by their values): discrete z3; continuous z1, z2"


def test_bent_slots_with_a_background_score_one() -> None:
    z = scene()
    turn = np.linalg.qr(np.random.default_rng(1).normal(size=(3, 3)))[0]
    bent = np.concatenate([np.tanh(z @ turn), 0.3 * z @ turn], axis=2)
    background = np.random.default_rng(2).normal(size=(N, 1, 6))
    assert image_sis(z, reordered(bent), shuffles=0).score > 0.93
    found = image_sis(z, reordered(np.concatenate([bent, background], axis=1)), shuffles=0)
    assert found.score > 0.85
    assert found.own.min() > 0.85


def test_slots_that_know_every_object_score_zero() -> None:
    z = scene(k=3)
    turned = np.stack([np.roll(z, -i, axis=1).reshape(N, -1) for i in range(3)], axis=1)
    found = image_sis(z, reordered(turned), shuffles=0)
    assert found.score == pytest.approx(0, abs=0.05)
    assert min(found.own.min(), found.other.min()) > 0.8
    alike = image_sis(z, np.repeat(z.reshape(N, 1, -1), 3, axis=1), shuffles=0)
    assert alike.score == pytest.approx(0, abs=0.02)
    assert 0.1 < alike.own.mean() < 0.5


def test_slots_that_hold_half_of_both_objects_score_low() -> None:
    z = scene()
    mixed = np.stack([z.mean(axis=1), z.mean(axis=1)], axis=1)
    assert image_sis(z, mixed, shuffles=0).score == pytest.approx(0, abs=0.05)
    shapes_swapped = np.concatenate([z[:, :, :2], z[:, ::-1, 2:]], axis=2)
    found = image_sis(z, reordered(shapes_swapped), shuffles=0)
    assert found.score == pytest.approx(1 / 3, abs=0.1)
    assert found.own[:2].min() > 0.8 > 0.3 > found.own[2]
    assert found.other[2] > 0.8


@pytest.mark.parametrize("k", [2, 3])
def test_noise_scores_about_chance_and_constant_slots_nothing(k: int) -> None:
    z = scene(k=k)
    found = image_sis(z, np.random.default_rng(1).normal(size=(N, k, 3)), shuffles=2)
    assert abs(found.score) < 0.15
    assert abs(found.score - found.chance) < 0.15
    dead = image_sis(z, np.ones((N, k, 2)), shuffles=0)
    assert (dead.score, dead.chance) == (0, None)
    assert dead.own.tolist() == dead.other.tolist() == [0, 0, 0]


def test_an_object_without_a_slot_is_told_by_the_mean() -> None:
    z = scene()
    found = image_sis(z, reordered(z)[:, :1], shuffles=0)
    assert found.score == pytest.approx(0.5, abs=0.1)
    assert ((found.matching == -1).sum(axis=1) == 1).all()


def test_constant_latents_count_for_nothing_and_a_constant_truth_scores_zero() -> None:
    z = scene()
    z[:, :, 0] = 0.1
    found = image_sis(z, reordered(z), shuffles=0)
    assert found.own[0] == found.other[0] == 0
    assert found.score > 0.95
    assert found.raw_ceiling < 0.7
    nothing = image_sis(np.ones((N, 2, 1)), scene(), shuffles=0)
    assert (nothing.score, nothing.raw_ceiling, nothing.ceiling) == (0, 0, 0)


def test_absent_objects_are_left_out_whatever_their_values() -> None:
    z = scene(k=3)
    present = np.random.default_rng(3).random((N, 3)) < 0.7
    z_hat = reordered(np.where(present[:, :, None], z, 0))
    found = image_sis(np.where(present[:, :, None], z, np.nan), z_hat, present=present, shuffles=0)
    assert found.score > 0.9
    assert (found.matching[~present[found.images]] == -1).all()
    assert (found.matching[present[found.images]] >= 0).all()
    torn = image_sis(
        np.where(present[:, :, None], z, 99), torch.tensor(z_hat), present=torch.tensor(present), shuffles=0
    )
    assert torn.score == found.score


# ---- independent references --------------------------------------------------------------------------------


def test_what_own_slots_tell_is_scikit_learns_with_all_rows_as_landmarks() -> None:
    """Fixed slots and one object, so that nothing is matched: kernel ridge, R² and balanced accuracy by the book."""
    z = scene(60, 1)
    z_hat = z[:, :, :2] + 0.5 * np.random.default_rng(1).normal(size=(60, 1, 2))
    found = image_sis(z, z_hat, held_out=False, shuffles=0)
    x, y = z_hat[:, 0], np.concatenate([z[:, 0, :2], np.eye(3)[z[:, 0, 2].astype(int)]], axis=1)
    kernel = pairwise.rbf_kernel((x - x.mean(axis=0)) / x.std(axis=0), gamma=1 / 2)
    guess = y.mean(axis=0) + kernel @ np.linalg.solve(kernel + np.eye(60), y - y.mean(axis=0))
    expected = [r2_score(y[:, j], guess[:, j]) for j in range(2)]
    classes = (guess[:, 2:] / y[:, 2:].mean(axis=0)).argmax(axis=1)
    expected.append(balanced_accuracy_score(z[:, 0, 2], classes, adjusted=True))
    np.testing.assert_allclose(found.own, expected, atol=1e-6)
    assert found.raw == pytest.approx(np.mean(expected))
    assert (found.rows, found.held_out) == (60, False)


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 1000), st.integers(1, 4), st.integers(1, 4))
def test_the_matching_is_the_cheapest_of_all(seed: int, n_slots: int, n_objects: int) -> None:
    rng = np.random.default_rng(seed)
    guesses, targets = rng.normal(size=(3, n_slots, 2)), rng.normal(size=(3, n_objects, 2))
    errors = pictures._errors(guesses, targets)
    found = pictures._matched(errors, np.ones(errors.shape, dtype=bool))
    for image in range(3):
        slow = ((guesses[image, :, None] - targets[image]) ** 2).sum(axis=2)
        np.testing.assert_allclose(errors[image], slow, atol=1e-9)
        if n_slots >= n_objects:
            best = min(slow[list(p), range(n_objects)].sum() for p in permutations(range(n_slots), n_objects))
        else:
            best = min(slow[range(n_slots), list(p)].sum() for p in permutations(range(n_objects), n_slots))
        pairs = [(s, j) for j, s in enumerate(found[image]) if s >= 0]
        assert len(pairs) == min(n_slots, n_objects)
        assert sum(slow[pair] for pair in pairs) == pytest.approx(best)


def test_forbidden_pairs_stay_unmatched() -> None:
    allowed = np.array([[[False, True], [True, False]], [[False, False], [True, True]]])
    assert pictures._matched(np.zeros((2, 2, 2)), allowed).tolist()[0] == [1, 0]
    assert sorted(pictures._matched(np.zeros((2, 2, 2)), allowed).tolist()[1]) == [-1, 1]


def test_the_first_matching_undoes_the_shrinkage_of_a_mean_object() -> None:
    rng = np.random.default_rng(0)
    z = rng.normal(size=(400, 3, 1))
    slots = np.concatenate([z, 0.3 * rng.normal(size=(400, 2, 1))], axis=1)
    found = pictures._uniform(slots, z, np.ones((400, 5, 3), dtype=bool))
    assert (found == np.arange(3)).mean() > 0.95


def test_the_truth_is_given_as_many_slots_as_were_learned() -> None:
    z = scene(120, 3)
    alone, wide = (image_sis(z, np.concatenate([z, np.zeros((120, m, 3))], axis=1), shuffles=0) for m in (0, 3))
    assert wide.raw_ceiling < alone.raw_ceiling - 0.05
    assert pictures._true_slots(z, 5, 0).shape == (120, 5, 3)
    assert pictures._true_slots(z, 2, 0).shape == (120, 3, 3)


# ---- invariances, chance, uncertainty ----------------------------------------------------------------------


@settings(max_examples=6, deadline=None)
@given(st.integers(0, 1000), st.floats(0.01, 100), st.floats(-50, 50))
def test_order_of_slots_and_units_are_forgiven(seed: int, scale: float, shift: float) -> None:
    z = scene(120)
    z_hat = z + 0.3 * np.random.default_rng(5).normal(size=z.shape)
    plain = image_sis(z, z_hat, shuffles=0)
    moved = image_sis(z, scale * reordered(z_hat, seed) - shift, shuffles=0)
    assert moved.score == pytest.approx(plain.score, abs=0.08)
    assert -1 <= moved.score <= 1


def test_a_seed_fixes_every_number_and_tensors_score_like_arrays() -> None:
    z, z_hat = scene(100), reordered(scene(100))
    first, again = (image_sis(z, z_hat, random_state=1) for _ in range(2))
    assert (first.score, first.chance) == (again.score, again.chance)
    assert image_sis(z, z_hat, random_state=2).raw != first.raw
    assert image_sis(torch.tensor(z), torch.tensor(z_hat), random_state=1).score == first.score


def test_images_are_capped_and_uncertainty_comes_on_request() -> None:
    z = scene(150)
    z_hat = reordered(z + 0.5 * np.random.default_rng(1).normal(size=z.shape))
    found = image_sis(z, z_hat, max_rows=60, subsamples=10, shuffles=0)
    assert found.rows == 12
    assert found.matching.shape == (60, 2)
    assert (np.diff(found.images) > 0).all()
    assert 0 < found.uncertainty.error < 0.5
    assert found.uncertainty.low < found.score < found.uncertainty.high <= 1


def test_the_claim_names_slots_and_range() -> None:
    found = image_sis(scene(60), scene(60), discrete=[False, False, True], shuffles=0)
    (claim,) = found.claims
    assert claim.range == (-1, 1)
    assert found.forgives.blocks == ((0, 1, 2), (3, 4, 5))
    assert "declared" in found.kinds
    assert "inside a slot is not judged" in found.to_dict()["supports"]["Image SIS"]
