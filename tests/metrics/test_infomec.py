"""InfoMEC: information as scikit-learn and slow loops have it, known answers, edges, and what it says of itself."""

import json
from itertools import pairwise

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import digamma
from sklearn.feature_selection import mutual_info_classif, mutual_info_regression
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.metrics import log_loss, mutual_info_score
from sklearn.preprocessing import StandardScaler

from noumena.checks import InputError
from noumena.metrics.information import SETTINGS, InfoMEC, exclusiveness, infomec
from noumena.metrics.neighbours import entropy, mutual_information

SIZES = (3, 4, 6)


def factors(n: int = 1200, sizes: tuple[int, ...] = SIZES, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return np.stack([rng.integers(0, size, n) for size in sizes], axis=1)


def noise(*shape: int, seed: int = 1) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape)


def triple(found: InfoMEC) -> np.ndarray:
    return np.array([found.modularity, found.explicitness, found.compactness])


def slow_information(latent: np.ndarray, source: np.ndarray, k: int) -> float:
    """The estimator row by row: closed balls to the k-th of a row's class, everyone in them counted."""
    alone = np.array([np.sum(source == s) == 1 for s in source])
    latent, source = latent[~alone], source[~alone]
    terms = []
    for i in range(len(latent)):
        distance = np.abs(latent - latent[i])
        own = np.sort(distance[source == source[i]])
        radius = own[min(k, len(own) - 1)]
        in_class, everyone = np.sum(own <= radius) - 1, np.sum(distance <= radius) - 1
        terms.append(digamma(in_class) - digamma(len(own)) - digamma(everyone))
    return max(0.0, digamma(len(latent)) + np.mean(terms))


# ---- mutual information ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("k", [1, 3, 10])
def test_information_with_classes_is_scikit_learns_where_nothing_ties(k: int) -> None:
    z = factors(500, (2, 5, 12))
    latents = np.c_[z + noise(500, 3), noise(500, 1, seed=2), 1e3 * z[:, 1] + noise(500, seed=3)]
    z[0, 0] = 7  # alone in its class
    for j in range(3):
        theirs = mutual_info_classif(latents, z[:, j], discrete_features=False, n_neighbors=k, random_state=0)
        ours = [mutual_information(latent, z[:, j], neighbours=k) for latent in latents.T]
        np.testing.assert_allclose(ours, theirs, atol=1e-9)
        assert max(ours) > 0.02


def test_small_classes_are_counted_as_a_slow_loop_counts_them() -> None:
    source = factors(300, (40,))[:, 0]  # where scikit-learn changes to distances with rounding errors
    for latent in (source + noise(300), noise(300)):
        assert mutual_information(latent, source) == pytest.approx(slow_information(latent, source, 10), abs=1e-12)


def test_information_with_numbers_is_scikit_learns_where_nothing_ties() -> None:
    source = noise(400)
    latents = np.c_[source + noise(400, seed=2), source**3, noise(400, seed=3), 1e4 + source * noise(400, seed=4)]
    theirs = mutual_info_regression(latents, source, discrete_features=False, n_neighbors=5, random_state=0)
    ours = [mutual_information(latent, source, discrete=False, neighbours=5) for latent in latents.T]
    np.testing.assert_allclose(ours, theirs, atol=1e-9)
    assert ours[1] > 2 > ours[0] > 0.1


@settings(max_examples=60, deadline=None)
@given(
    latent=st.lists(st.integers(-4, 4), min_size=12, max_size=12),
    source=st.lists(st.integers(0, 3), min_size=12, max_size=12),
    k=st.integers(1, 6),
)
def test_ties_are_counted_as_a_slow_loop_counts_them(latent: list[int], source: list[int], k: int) -> None:
    values, labels = np.array(latent, dtype=float), np.array(source)
    assert mutual_information(values, labels, neighbours=k) == pytest.approx(slow_information(values, labels, k))


def test_a_latent_with_few_levels_has_the_information_of_their_frequencies() -> None:
    z = factors(3000, (4, 6))
    mixed = np.where(np.random.default_rng(5).random(3000) < 0.5, z[:, 0], z[:, 1] % 3)
    for latent in (z[:, 0], mixed, z[:, 0] % 2, np.zeros(3000)):
        by_frequency = mutual_info_score(z[:, 0], latent)
        assert mutual_information(latent, z[:, 0]) == pytest.approx(by_frequency, abs=0.006)
        assert mutual_information(latent, z[:, 0], discrete=False) == pytest.approx(by_frequency, abs=0.006)


def test_a_latent_that_is_the_source_knows_its_entropy() -> None:
    source = np.repeat([0, 1, 2], [10, 20, 70])
    exact = digamma(100) - np.mean(digamma(np.repeat([10, 20, 70], [10, 20, 70])))
    assert mutual_information(source, source, neighbours=3) == pytest.approx(exact)
    assert mutual_information(source, source, neighbours=3) == pytest.approx(entropy(source), rel=0.03)


def test_units_and_rounding_of_a_latent_change_nothing() -> None:
    source = factors(300)[:, 2]
    for latent in (np.round(source + noise(300)), source + noise(300)):
        plain = mutual_information(latent, source)
        for moved in (latent / 3 + 0.1, -0.7 * latent, 1e-9 * latent, 1e6 + 0.3 * latent):
            assert mutual_information(moved, source) == pytest.approx(plain, abs=1e-12)


def test_small_classes_and_few_rows_use_the_neighbours_there_are() -> None:
    latent, source = np.array([0.0, 1, 10, 11, 30]), np.array([0, 0, 1, 1, 2])
    assert mutual_information(latent, source, neighbours=10) == pytest.approx(1 / 2 + 1 / 3)
    assert mutual_information(np.array([0.0, 1]), np.array([5, 5])) == 0
    line = np.array([0.0, 1, 2])
    within = np.array([2, 2, 2])  # closer than the second neighbour; the one in the middle has both on its rim
    expected = digamma(3) + digamma(2) - 2 * np.mean(digamma(within))
    assert mutual_information(line, line, discrete=False) == pytest.approx(expected)


def test_a_shuffled_column_knows_nothing() -> None:
    z = factors(3000)
    shuffled = np.random.default_rng(0).permutation(z[:, 1] + 0.1 * noise(3000))
    assert mutual_information(shuffled, z[:, 1]) < 0.02 * np.log(4)


# ---- known answers -----------------------------------------------------------------------------------------------


def test_the_truth_scores_one_and_noise_explains_nothing() -> None:
    z = factors()
    exact = infomec(z, z)
    np.testing.assert_allclose(triple(exact), 1, atol=0.03)
    np.testing.assert_allclose(exact.matrix.diagonal(), 1, atol=0.01)
    assert triple(infomec(z, z + 0.01 * noise(*z.shape), shuffles=0)) == pytest.approx(1, abs=0.03)
    nothing = infomec(z, noise(len(z), 3))
    assert nothing.explicitness < 0.01
    assert nothing.matrix.max() < 0.05
    assert nothing.chance is not None
    assert nothing.chance.explicitness < 0.01
    assert 0.1 < nothing.chance.modularity < 0.95  # some source is always known best
    assert exact.chance is not None
    assert exact.chance.modularity < 0.95


def test_a_rotation_loses_modularity_and_compactness_but_no_explicitness() -> None:
    z = factors()
    centred = z / z.std(axis=0)
    turn = np.linalg.qr(noise(3, 3))[0]
    turned = infomec(z, centred @ turn, shuffles=0)
    assert turned.modularity < 0.6
    assert turned.compactness < 0.6
    assert turned.explicitness == pytest.approx(1, abs=0.01)
    pair = centred.copy()
    pair[:, :2] = centred[:, :2] @ np.array([[1, 1], [-1, 1]]) / np.sqrt(2)
    paired = infomec(z, pair, shuffles=0)
    np.testing.assert_array_less(paired.per_latent[:2], 0.75)
    assert paired.per_latent[2] > 0.95
    np.testing.assert_array_less(paired.per_source_compactness[:2], 0.8)
    assert paired.per_source_compactness[2] > 0.95


def test_permutation_sign_and_scale_are_forgiven() -> None:
    z = factors(600)
    z_hat = z @ noise(3, 3) + 0.3 * noise(600, 3, seed=2)
    z_hat = z_hat / np.ptp(z_hat, axis=0)
    plain = infomec(z, z_hat, shuffles=0)
    order = [2, 0, 1]
    moved = infomec(z, z_hat[:, order] * [-1, 3, -0.4] + [5, 0, -100], shuffles=0)
    np.testing.assert_allclose(triple(moved), triple(plain), atol=1e-6)
    np.testing.assert_allclose(moved.matrix, plain.matrix[:, order], atol=1e-12)
    np.testing.assert_allclose(moved.per_latent, plain.per_latent[order], atol=1e-12)
    assert str(moved.forgives) == "permutation+scaling"
    bent = infomec(z, np.exp(3 * z_hat), shuffles=0, prune=np.inf)
    assert bent.modularity == pytest.approx(plain.modularity, abs=0.1)
    renamed = infomec(10.5 - 2.5 * z, z_hat, discrete=True, shuffles=0)
    np.testing.assert_allclose(triple(renamed), triple(plain), atol=1e-6)


def test_a_latent_held_twice_keeps_modularity_and_loses_compactness() -> None:
    z = factors()
    twice = infomec(z, np.c_[z, z[:, 0]], shuffles=0)
    assert twice.modularity == pytest.approx(1, abs=0.03)
    # half of what is known of the first source lies in either copy: (1/2 − 1/4) / (1 − 1/4)
    np.testing.assert_allclose(twice.per_source_compactness, [1 / 3, 1, 1], atol=0.03)
    assert twice.compactness == pytest.approx(7 / 9, abs=0.03)


def test_scores_follow_from_the_matrix() -> None:
    z = factors(400)
    found = infomec(z, z @ noise(3, 5) + noise(400, 5, seed=3), prune=np.inf, shuffles=0)
    share = found.matrix.max(axis=0) / found.matrix.sum(axis=0)
    assert found.modularity == pytest.approx(np.mean((share - 1 / 3) / (1 - 1 / 3)))
    share = found.matrix.max(axis=1) / found.matrix.sum(axis=1)
    assert found.compactness == pytest.approx(np.mean((share - 1 / 5) / (1 - 1 / 5)))
    assert found.explicitness == pytest.approx(found.per_source.mean())
    for j in range(3):
        for i in range(5):
            z_hat = z @ noise(3, 5) + noise(400, 5, seed=3)
            expected = mutual_information(z_hat[:, i], z[:, j]) / entropy(z[:, j])
            assert found.matrix[j, i] == pytest.approx(expected)
    other = infomec(z, z @ noise(3, 5) + noise(400, 5, seed=3), neighbours=3, prune=8, shuffles=0)
    assert np.abs(other.matrix - found.matrix).max() > 0.005


def test_the_published_form_is_that_of_the_public_protocol() -> None:
    z = factors(700)
    z[z[:, 0] == 2, 0] = np.random.default_rng(0).integers(1, 3, (z[:, 0] == 2).sum())  # unequal classes
    z_hat = np.c_[z + 0.8 * noise(700, 3), 0.01 * noise(700)]
    found = infomec(z, z_hat, published=True, shuffles=0)
    latents = StandardScaler().fit_transform(z_hat)
    settings = {"C": np.inf, "class_weight": "balanced", "max_iter": 100}
    read = []
    for source in z.T:
        losses = []
        for inputs in (latents, np.zeros_like(latents)):
            model = LogisticRegression(**settings).fit(inputs, source)
            losses.append(log_loss(source, model.predict_proba(inputs)))
        read.append(1 - losses[0] / losses[1])
    np.testing.assert_allclose(found.per_source, read, atol=2e-3)
    nmi = np.array([mutual_info_classif(latents[:, :3], s, n_neighbors=10, random_state=0) / entropy(s) for s in z.T])
    np.testing.assert_allclose(found.matrix[:, :3], nmi, atol=1e-9)
    assert found.active.tolist() == [0, 1, 2]
    assert not found.held_out
    assert infomec(z, z_hat, held_out=False, shuffles=0).per_source[0] > found.per_source[0] + 0.005


def test_explicitness_in_sample_is_the_log_loss_against_the_entropy() -> None:
    z = factors(500)
    z[:60, 0] = 0
    z_hat = z + noise(500, 3)
    found = infomec(z, z_hat, held_out=False, shuffles=0)
    for j in range(3):
        model = LogisticRegression(C=np.inf, max_iter=2000, tol=1e-8).fit(z_hat, z[:, j])
        loss = log_loss(z[:, j], model.predict_proba(z_hat))
        assert found.per_source[j] == pytest.approx(1 - loss / entropy(z[:, j]), abs=1e-4)
    held_out = infomec(z, z_hat, shuffles=0)
    assert 0 < held_out.explicitness != found.explicitness


def test_explicitness_is_judged_on_rows_held_out() -> None:
    z = factors(100, (4, 4))
    many = noise(100, 40)
    assert infomec(z, many, held_out=False, shuffles=0).explicitness > 0.9
    assert infomec(z, many, shuffles=0).explicitness == 0


# ---- the record --------------------------------------------------------------------------------------------------


def test_both_public_settings_have_a_name_and_can_be_overridden() -> None:
    z = factors(400)
    z_hat = np.c_[z / np.ptp(z, axis=0) + 0.1 * noise(400, 3), 0.03 * noise(400, seed=2)]
    assert {name: tuple(found) for name, found in SETTINGS.items()} == {"standalone": (10, 20), "training": (3, 8)}
    default = infomec(z, z_hat, shuffles=0)
    standalone, training = (infomec(z, z_hat, setting=name, shuffles=0) for name in ("standalone", "training"))
    told = {"standalone": (10, 20), "training": (3, 8)}
    for name, found, active in (("standalone", standalone, 4), ("training", training, 3)):
        k, share = told[name]
        same = infomec(z, z_hat, neighbours=k, prune=share, shuffles=0)
        np.testing.assert_array_equal(found.matrix, same.matrix)
        assert (found.neighbours, found.prune, len(found.active)) == (k, share, active)
    assert triple(default).tolist() == triple(standalone).tolist() != triple(training).tolist()
    fewer = infomec(z, z_hat, setting="training", prune=20, shuffles=0)
    assert (fewer.neighbours, fewer.prune, len(fewer.active)) == (3, 20, 4)
    more = infomec(z, z_hat, setting="training", neighbours=10, shuffles=0)
    assert (more.neighbours, more.prune, len(more.active)) == (10, 8, 3)


def test_the_ceiling_is_the_score_of_the_truth_in_units_of_its_ranges() -> None:
    z = factors(600) * [1.0, 100.0, 0.01]  # ranges that would prune each other
    rough = infomec(z, noise(600, 3), ceiling=True, shuffles=0)
    assert rough.ceiling is not None
    np.testing.assert_allclose(rough.ceiling, 1, atol=0.05)
    assert rough.ceiling == infomec(z, z / np.ptp(z, axis=0), shuffles=0).value
    dependent = np.c_[z[:, 0], np.where(noise(600) > 0, z[:, 0], z[:, 1] / 100)]
    shared = infomec(dependent, noise(600, 2), ceiling=True, shuffles=0).ceiling
    assert 0.3 < shared.modularity < 0.95  # dependent sources know each other
    assert infomec(z, z).ceiling is None


def test_uncertainty_covers_another_draw_of_the_rows_and_shrinks_with_them() -> None:
    def rows(n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
        z = factors(n, seed=seed)
        return z, z + 1.5 * noise(n, 3, seed=seed + 50)

    few, many = (infomec(*rows(n, 0), shuffles=0, subsamples=12).uncertainty for n in (200, 1600))
    again = infomec(*rows(200, 0), shuffles=0, subsamples=12).uncertainty
    assert few == again
    assert few.explicitness.draws == 12
    fresh = np.std([infomec(*rows(200, s), shuffles=0).explicitness for s in range(1, 13)])
    assert fresh / 3 < few.explicitness.error < 3 * fresh
    assert many.explicitness.error < 0.7 * few.explicitness.error
    assert 0 <= few.modularity.low < few.modularity.high <= 1
    with pytest.raises(InputError, match="subsamples must be 0 or at least 10"):
        infomec(*rows(100, 0), subsamples=3)


def test_kinds_are_decided_once_and_said() -> None:
    z = np.c_[np.repeat(np.arange(20), 2), noise(40), np.ones(40)]  # a half of the rows meets most values once
    found = infomec(z, z[:, :2], subsamples=10)
    assert found.kinds == "Factors (detected by their values): discrete z1, z3; continuous z2; constant and left out z3"
    assert np.isfinite([part.error for part in found.uncertainty]).all()
    told = infomec(z, z[:, :2], discrete=[0], shuffles=0)
    assert told.kinds == "Factors (declared): discrete z1; continuous z2, z3; constant and left out z3"
    assert told.sources.tolist() == [0, 1]
    once = np.r_[np.zeros(38), 1, 2][:, None]
    rare = infomec(once, noise(40, 2), subsamples=12, shuffles=0)  # constant in a quarter of the halves
    assert all(0 <= part.low <= part.high <= 1 for part in rare.uncertainty)
    many = infomec(
        np.arange(60)[:, None] // 2, noise(60, 1), max_rows=10, random_state=1, shuffles=0
    )  # values met once only
    assert np.isfinite(many.matrix).all()


def test_names_as_factors_are_classes() -> None:
    z = factors(300)
    words = np.array(["ball", "cube", "cone"])[z[:, :1]]
    named = infomec(np.c_[words, z[:, 1:].astype(str)], z, shuffles=0)
    np.testing.assert_allclose(triple(named), triple(infomec(z, z, shuffles=0)), atol=1e-6)


def test_bent_latents_keep_modularity_and_compactness_and_lose_explicitness() -> None:
    z = noise(1500, 3, seed=4)
    bent = np.c_[np.sign(z[:, 0]) * z[:, 0] ** 2, np.exp(z[:, 1]), z[:, 2] ** 3]
    plain, found = infomec(z, z, shuffles=0), infomec(z, bent, shuffles=0)
    assert found.modularity == pytest.approx(plain.modularity, abs=0.05)
    assert found.compactness == pytest.approx(plain.compactness, abs=0.05)
    assert found.explicitness < 0.85 < 0.999 < plain.explicitness


# ---- edges -------------------------------------------------------------------------------------------------------


def test_latents_of_small_range_are_pruned() -> None:
    z = factors(400)
    z_hat = np.c_[z / np.ptp(z, axis=0), noise(400)]
    z_hat[:, 3] *= 0.1 / np.ptp(z_hat[:, 3])
    assert infomec(z, z_hat, shuffles=0).active.tolist() == [0, 1, 2, 3]
    assert infomec(z, z_hat, prune=8, shuffles=0).active.tolist() == [0, 1, 2]
    z_hat[:, 3] *= 0.4
    pruned = infomec(z, z_hat, shuffles=0)
    assert pruned.active.tolist() == [0, 1, 2]
    assert pruned.compactness == pytest.approx(1, abs=0.05)
    assert pruned.matrix.shape == (3, 4)
    assert infomec(z, z_hat, prune=np.inf, shuffles=0).active.tolist() == [0, 1, 2, 3]
    # pruned latents still take part in what a linear predictor reads
    small = infomec(z, np.c_[100.0 * z[:, :1], z[:, 1:]], prune=20, shuffles=0)
    assert small.active.tolist() == [0]
    assert small.explicitness == pytest.approx(1, abs=0.03)


def test_constant_latents_are_inactive_and_know_nothing() -> None:
    z = factors(300)
    found = infomec(z, np.c_[z, np.full(300, 7.0)], prune=np.inf)
    assert found.active.tolist() == [0, 1, 2]
    assert found.matrix[:, 3].tolist() == [0, 0, 0]
    none = infomec(z, np.ones((300, 2)))
    assert (triple(none) == 0).all()
    assert none.active.size == none.per_latent.size == 0
    assert none.chance == (0, 0, 0)
    assert infomec(z, np.ones((300, 2)), published=True).explicitness == pytest.approx(0, abs=0.01)


def test_one_source_or_one_latent_leaves_nothing_to_confuse() -> None:
    z = factors(400)
    one = infomec(z[:, :1], z, shuffles=0)
    assert one.modularity == pytest.approx(np.mean(one.matrix[0] > 0))
    assert one.per_latent[0] == 1
    alone = infomec(z, z[:, 2:], shuffles=0)
    assert alone.per_source_compactness[2] == 1
    assert alone.per_latent == pytest.approx(1, abs=0.05)
    assert exclusiveness(np.array([[0.3], [0.0]])).tolist() == [1, 0]


def test_more_sources_than_latents_count_against_explicitness() -> None:
    z = factors()
    found = infomec(z, z[:, :2], shuffles=0)
    assert found.matrix.shape == (3, 2)
    assert found.modularity == pytest.approx(1, abs=0.03)
    np.testing.assert_allclose(found.per_source, [1, 1, 0], atol=0.02)


def test_constant_sources_are_left_out() -> None:
    z = factors(400)
    plain, dead = infomec(z, z, shuffles=0), infomec(np.c_[z, np.ones(400)], z, shuffles=0)
    np.testing.assert_allclose(triple(dead), triple(plain))
    assert dead.sources.tolist() == [0, 1, 2]
    assert dead.matrix[3].tolist() == [0, 0, 0]


def test_continuous_sources_get_shares_of_variance() -> None:
    z = noise(600, 3, seed=4)
    exact = infomec(z, z @ np.diag([1, -2, 3]), shuffles=0)
    np.testing.assert_allclose(triple(exact), [1, 1, 1], atol=0.1)
    np.testing.assert_allclose(exact.matrix.diagonal(), 1, atol=0.01)
    z_hat = z + noise(600, 3, seed=5)
    noisy = infomec(z, z_hat, held_out=False, shuffles=0)
    np.testing.assert_allclose(noisy.matrix.diagonal(), 0.5, atol=0.1)  # their squared correlation
    fitted = [LinearRegression().fit(z_hat, source).score(z_hat, source) for source in z.T]
    np.testing.assert_allclose(noisy.per_source, fitted)
    assert infomec(z, noise(600, 3, seed=6), shuffles=0).explicitness == pytest.approx(0, abs=0.02)


def test_kinds_of_sources_are_guessed_or_told() -> None:
    z = np.c_[factors(300)[:, 0], noise(300)]
    z_hat = z + 0.3 * noise(300, 2, seed=2)
    guessed = infomec(z, z_hat, shuffles=0)
    told = infomec(z, z_hat, discrete=(True, False), shuffles=0)
    np.testing.assert_array_equal(guessed.matrix, told.matrix)
    both = infomec(z, z_hat, discrete=np.array([False, False]), shuffles=0)
    assert both.per_source[0] != told.per_source[0]
    np.testing.assert_array_equal(both.matrix[1], told.matrix[1])
    whole = infomec(np.arange(40.0)[:, None] // 2, noise(40, 1), shuffles=0).matrix  # two rows a value: classes
    np.testing.assert_array_equal(whole, infomec(np.arange(40.0)[:, None] // 2, noise(40, 1), discrete=True).matrix)
    far = infomec(np.arange(40.0)[:, None], noise(40, 1), shuffles=0).matrix
    np.testing.assert_array_equal(far, infomec(np.arange(40.0)[:, None], noise(40, 1), discrete=False).matrix)


def test_ten_rows_and_classes_met_once_are_defined() -> None:
    z = np.array([[0, 0, 0, 1, 1, 1, 2, 2, 3, 4], [0, 1, 0, 1, 0, 1, 0, 1, 0, 1]]).T
    found = infomec(z, z + 0.01 * noise(10, 2))
    assert np.isfinite(triple(found)).all()
    assert np.isfinite(found.matrix).all()
    almost = np.zeros((10, 1), dtype=int)
    almost[3] = 1  # for some split one class only is met
    scores = [infomec(almost, noise(10, 1), random_state=s, shuffles=0).explicitness for s in range(12)]
    assert 0 in scores
    assert np.isfinite(scores).all()


def test_rows_are_capped_and_seeded() -> None:
    z = factors(400)
    z_hat = z + noise(400, 3)
    assert infomec(z, z_hat, max_rows=100, shuffles=0).rows == 100
    first, again, other = (infomec(z, z_hat, max_rows=100, random_state=s) for s in (1, 1, 2))
    assert triple(first).tolist() == triple(again).tolist()
    assert first.chance == again.chance
    assert triple(first).tolist() != triple(other).tolist()
    same = infomec(torch.as_tensor(z), torch.as_tensor(z_hat), shuffles=0)
    np.testing.assert_array_equal(triple(same), triple(infomec(z, z_hat, shuffles=0)))
    assert infomec(z, z_hat, shuffles=0).chance is None
    levels = [infomec(z, z_hat, shuffles=s).chance for s in (1, 2, 3)]
    assert all(a != b for a, b in pairwise(levels))


def test_the_result_speaks_and_becomes_plain_data() -> None:
    z = factors(300)
    found = infomec(z, np.c_[z, np.ones(300)])
    assert found.chance is not None
    assert str(found).startswith(f"InfoM {found.modularity:.2f} (chance {found.chance.modularity:.2f}), InfoE ")
    assert "3 of 4 latents active, 3 sources, 300 rows, InfoE held-out; forgives permutation+scaling" in str(found)
    plain = json.loads(json.dumps(found.to_dict()))
    assert plain["matrix"] == found.matrix.tolist()
    assert plain["active"] == [0, 1, 2]
    assert plain["chance"]["compactness"] == found.chance.compactness
    quiet = infomec(z, z, held_out=False, shuffles=0)
    assert "chance" not in str(quiet)
    assert "in-sample" in str(quiet)
    assert quiet.to_dict()["chance"] is None
