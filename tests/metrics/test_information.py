"""InfoMEC: information by nearest neighbours as scikit-learn and slow loops have it; known answers."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from infomec_samples import factors, noise, triple
from scipy.special import digamma
from sklearn.feature_selection import mutual_info_classif, mutual_info_regression
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss, mutual_info_score
from sklearn.preprocessing import StandardScaler

from noumena.metrics.information import infomec
from noumena.metrics.neighbours import entropy, mutual_information


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
