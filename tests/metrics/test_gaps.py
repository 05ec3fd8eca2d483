"""MIG and SAP agree with slow loops over scikit-learn and give the known answers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from gap_samples import KINDS, every, mixed, noise, truth
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.feature_selection import mutual_info_classif, mutual_info_regression
from sklearn.linear_model import LinearRegression
from sklearn.metrics import mutual_info_score
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC

from noumena.ambiguity import Ambiguity
from noumena.metrics.gaps import mig, sample, sap, shared_information

modest = settings(max_examples=25, deadline=None)


def slow_gap(matrix: np.ndarray) -> list[float]:
    return [max(row) - sorted(row)[-2] for row in matrix.tolist()]


# ---- independent references --------------------------------------------------------------------------------------


@modest
@given(seed=st.integers(0, 10_000), n=st.integers(20, 200), bins=st.integers(2, 25), whole=st.booleans())
def test_mig_by_bins_is_the_public_form(seed: int, n: int, bins: int, whole: bool) -> None:
    z, z_hat = mixed(n, seed)
    z_hat = np.round(4 * z_hat) if whole else z_hat  # numbers on the edges of bins
    found = mig(z, z_hat, discrete=[0, 1], estimator="bins", bins=bins, shuffles=0)

    def digitised(column: np.ndarray) -> np.ndarray:
        return np.digitize(column, np.histogram(column, bins)[1][:-1])

    labels = [z[:, 0], z[:, 1], digitised(z[:, 2])]
    expected = [
        [mutual_info_score(label, digitised(x)) / mutual_info_score(label, label) for x in z_hat.T] for label in labels
    ]
    np.testing.assert_allclose(found.matrix, expected, atol=1e-12)
    np.testing.assert_allclose(found.per_factor, slow_gap(np.array(expected)), atol=1e-12)
    assert found.score == pytest.approx(np.mean(slow_gap(np.array(expected))))


@pytest.mark.parametrize("neighbours", [3, 10])
def test_mig_by_neighbours_has_the_information_of_scikit_learn(neighbours: int) -> None:
    z, z_hat = mixed(400, 3)
    found = mig(z, z_hat, discrete=(True, True, False), neighbours=neighbours, shuffles=0)
    settings: dict[str, Any] = {"n_neighbors": neighbours, "random_state": 0}
    for j in (0, 1):
        theirs = mutual_info_classif(z_hat, z[:, j], **settings) / mutual_info_score(z[:, j], z[:, j])
        np.testing.assert_allclose(found.matrix[j], theirs, atol=1e-9)
    continuous = 1 - np.exp(-2 * mutual_info_regression(z_hat, z[:, 2], **settings))
    np.testing.assert_allclose(found.matrix[2], continuous, atol=1e-9)
    np.testing.assert_allclose(found.per_factor, slow_gap(found.matrix))
    assert found.score == pytest.approx(np.mean(slow_gap(found.matrix)))
    assert found.score > 0.01
    assert np.abs(found.matrix - mig(z, z_hat, neighbours=20, shuffles=0).matrix).max() > 0.005


@pytest.mark.parametrize("seed", range(3))
def test_sap_in_sample_is_that_of_a_slow_loop(seed: int) -> None:
    z, z_hat = mixed(300, seed)
    found = sap(z, 5 + 100 * z_hat, held_out=False, shuffles=0)
    units = StandardScaler().fit_transform(z_hat)
    for i in range(4):
        for j in (0, 1):
            dual: Any = True  # another way to the same optimum
            machine = LinearSVC(C=0.01, class_weight="balanced", dual=dual, tol=1e-8, random_state=0, max_iter=100_000)
            machine.fit(units[:, [i]], z[:, j])
            assert found.matrix[j, i] == pytest.approx(machine.score(units[:, [i]], z[:, j]), abs=0.004)
        line = LinearRegression().fit(z_hat[:, [i]], z[:, 2]).score(z_hat[:, [i]], z[:, 2])
        assert found.matrix[2, i] == pytest.approx(line)
    np.testing.assert_allclose(found.per_factor, slow_gap(found.matrix))
    assert found.score == pytest.approx(np.mean(slow_gap(found.matrix)))


def test_sap_is_judged_on_the_fifth_of_the_rows_held_out() -> None:
    z, z_hat = mixed(500, 0)
    found = sap(z, z_hat, shuffles=0)
    shown = sample(z, z_hat, discrete=None, max_rows=500, seed=0)
    z, z_hat = shown[0].values, shown[1]  # in the order drawn, the first hundred are held out
    for i, x in enumerate(np.split(z_hat, 4, axis=1)):
        line = LinearRegression().fit(x[100:], z[100:, 2])
        assert found.matrix[2, i] == pytest.approx(max(0, line.score(x[:100], z[:100, 2])))
        units = StandardScaler().fit(x[100:])
        for j in (0, 1):
            machine = LinearSVC(C=0.01, class_weight="balanced", dual="auto").fit(units.transform(x[100:]), z[100:, j])
            assert found.matrix[j, i] == pytest.approx(machine.score(units.transform(x[:100]), z[:100, j]))
    few, many = truth(False, 40), noise(40, 300)
    in_sample, held_out = sap(few, many, held_out=False, shuffles=0), sap(few, many, shuffles=0)
    assert in_sample.matrix.mean() == pytest.approx(1 / 39, abs=0.01)  # what one number fits of noise
    assert held_out.matrix.mean() < in_sample.matrix.mean()


def test_the_published_sap_leaves_latents_in_their_units() -> None:
    z, z_hat = mixed(400, 5)
    found = sap(z, z_hat, published=True, held_out=False, shuffles=0)
    for i in range(4):
        for j in (0, 1):
            machine = LinearSVC(C=0.01, class_weight="balanced", dual="auto").fit(z_hat[:, [i]], z[:, j])
            assert found.matrix[j, i] == pytest.approx(machine.score(z_hat[:, [i]], z[:, j]))
        assert found.matrix[2, i] == pytest.approx(np.corrcoef(z_hat[:, i], z[:, 2])[0, 1] ** 2)
    np.testing.assert_allclose(sap(z, z_hat, published=True, shuffles=0).matrix[2], found.matrix[2])  # all rows
    moved = sap(z, 0.01 * z_hat + 3, published=True, held_out=False, shuffles=0)
    assert np.abs(moved.matrix[:2] - found.matrix[:2]).max() > 0.02
    flipped = sap(z, -z_hat[:, ::-1], published=True, held_out=False, shuffles=0)
    np.testing.assert_allclose(flipped.matrix[:, ::-1], found.matrix, atol=0.003)
    assert found.forgives == Ambiguity("signed permutation")
    assert sap(z[:, 2:], z_hat, published=True, shuffles=0).forgives == Ambiguity("permutation+scaling")


def test_frequencies_share_the_information_of_scikit_learn() -> None:
    rng = np.random.default_rng(0)
    for _ in range(20):
        a, b = rng.integers(0, 4, 50), rng.integers(0, 7, 50)
        assert shared_information(a, b) == pytest.approx(mutual_info_score(a, b), abs=1e-12)
    assert shared_information(a, np.zeros(50, dtype=int)) == 0


# ---- known answers -----------------------------------------------------------------------------------------------


@every
@KINDS
def test_the_truth_scores_high_in_any_order_and_unit_and_noise_scores_chance(metric: Any, discrete: bool) -> None:
    z = truth(discrete)
    moved = metric(z, -2 * z[:, ::-1] + 3)
    best = {"MIG": 1.0, "SAP": 1 - np.mean([1 / 2, 1 / 2, 1 / 3]) if discrete else 1.0}[moved.claims[0].title]
    assert moved.score == pytest.approx(best, abs=0.09)
    assert moved.best[:, 0].tolist() == [2, 1, 0]
    nothing = metric(z, noise(600, 3, seed=5), shuffles=3)
    assert nothing.score < 0.08
    assert nothing.score == pytest.approx(nothing.chance, abs=0.06)
    assert nothing.chance > 0


@every
@KINDS
def test_a_factor_held_by_two_latents_has_no_gap(metric: Any, discrete: bool) -> None:
    z = truth(discrete)
    found = metric(z, np.c_[z, -z[:, 1]], shuffles=0)
    assert found.per_factor[1] == pytest.approx(0, abs=1e-9)
    assert found.best[1].tolist() == [1, 3]
    assert found.per_factor[[0, 2]].min() > 0.3
    assert metric(z, np.c_[z, z], shuffles=0).score == 0


@every
@KINDS
def test_a_rotation_narrows_the_gaps(metric: Any, discrete: bool) -> None:
    z = truth(discrete)
    turn = np.array([[1, -1, 0], [1, 1, 0], [0, 0, np.sqrt(2)]]) / np.sqrt(2)
    plain, turned = metric(z, z, shuffles=0), metric(z, z @ turn, shuffles=0)
    np.testing.assert_array_less(turned.per_factor[:2], 0.25)
    assert turned.per_factor[2] == pytest.approx(plain.per_factor[2], abs=0.05)
    assert turned.score < plain.score - 0.2


def test_only_information_by_neighbours_forgives_monotone_maps() -> None:
    z = truth(False)
    bent = np.exp(2 * z)
    assert mig(z, bent).score == pytest.approx(mig(z, z).score, abs=0.02)
    assert mig(z, bent, estimator="bins").score < 0.5 * mig(z, z, estimator="bins").score
    assert sap(z, bent).score < 0.7 < 0.98 < sap(z, z).score
    forgiven = [mig(z, z).forgives, mig(z, z, estimator="bins").forgives, sap(z, z).forgives]
    assert [str(f) for f in forgiven] == ["element-wise", "permutation+scaling", "permutation+scaling"]


@every
@KINDS
def test_missing_latents_cost_and_further_ones_do_not(metric: Any, discrete: bool) -> None:
    z = truth(discrete)
    plain, fewer = metric(z, z, shuffles=0), metric(z, z[:, :2], shuffles=0)
    assert fewer.per_factor[2] < 0.08
    assert fewer.per_factor[:2] == pytest.approx(plain.per_factor[:2], abs=0.08)
    more = metric(z, np.c_[z, noise(600, 3)], shuffles=0)
    assert more.score == pytest.approx(plain.score, abs=0.06)
    assert more.matrix.shape == (3, 6)
