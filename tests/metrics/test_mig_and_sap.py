"""MIG and SAP agree with slow loops over scikit-learn, give the known answers, and are defined at the edges."""

import json
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.feature_selection import mutual_info_classif, mutual_info_regression
from sklearn.linear_model import LinearRegression
from sklearn.metrics import mutual_info_score
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC

from noumena.ambiguity import Ambiguity
from noumena.metrics.factors import factors_of
from noumena.metrics.gaps import binned, mig, sample, sap, shared_information

METRICS = [
    pytest.param(lambda *a, **s: mig(*a, **s), id="mig"),
    pytest.param(lambda *a, **s: mig(*a, estimator="bins", **s), id="mig by bins"),
    pytest.param(lambda *a, **s: sap(*a, **s), id="sap"),
]
KINDS = pytest.mark.parametrize("discrete", [True, False], ids=["discrete", "continuous"])
every = pytest.mark.parametrize("metric", METRICS)


def noise(*shape: int, seed: int = 1) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape)


def truth(discrete: bool, n: int = 600, seed: int = 0) -> np.ndarray:
    """Three factors: with 2, 2 and 3 values, or with numbers."""
    rng = np.random.default_rng(seed)
    return np.stack([rng.integers(0, k, n) for k in (2, 2, 3)], axis=1) * 1.0 if discrete else rng.normal(size=(n, 3))


def mixed(n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Two discrete factors and a continuous one, and four latents that know some of them."""
    rng = np.random.default_rng(seed)
    z = np.c_[rng.integers(0, 3, n), rng.integers(0, 5, n), rng.normal(size=n)]
    return z, z @ rng.normal(size=(3, 4)) + rng.normal(size=(n, 4))


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


# ---- edges -------------------------------------------------------------------------------------------------------


@every
@KINDS
def test_constant_latents_take_no_part(metric: Any, discrete: bool) -> None:
    z = truth(discrete)
    z_hat = z + 0.3 * noise(600, 3)
    plain, dead = metric(z, z_hat), metric(z, np.c_[np.full(600, 0.1), z_hat, np.zeros(600)])
    assert (dead.score, dead.chance) == (plain.score, plain.chance)
    np.testing.assert_array_equal(dead.best, plain.best + 1)
    assert dead.active.tolist() == [1, 2, 3]
    none = metric(z, np.ones((600, 2)))
    assert (none.score, none.chance) == (0, 0)
    assert none.best.tolist() == [[-1, -1]] * 3
    assert none.active.size == 0


@every
def test_one_latent_alone_is_held_against_knowing_nothing(metric: Any) -> None:
    z = truth(True)
    alone = metric(z, z[:, 2:], shuffles=0)
    assert alone.best.tolist()[2] == [0, -1]
    assert metric(z, np.c_[z[:, 2:], np.ones(600)], shuffles=0).score == alone.score
    nothing = 0 if alone.claims[0].title == "MIG" else 1 / 3
    assert alone.per_factor[2] == pytest.approx(alone.matrix[2, 0] - nothing, abs=0.06)
    assert alone.per_factor[:2].max() < 0.06


def test_sap_of_rare_classes_is_held_against_the_most_frequent_one() -> None:
    z = (np.arange(200) % 10 == 0)[:, None] * 1.0
    found = sap(z, z, held_out=False, shuffles=0)
    assert found.matrix.tolist() == [[1.0]]
    assert found.score == pytest.approx(0.1)
    assert sap(z, np.ones((200, 3)), held_out=False).matrix.tolist() == [[0.9] * 3]


@every
def test_constant_factors_are_left_out_and_said(metric: Any) -> None:
    z = truth(True)
    plain, dead = metric(z, z), metric(np.c_[np.full(600, 7.0), z], z)
    assert (dead.score, dead.chance) == (plain.score, plain.chance)
    assert dead.factors.tolist() == [1, 2, 3]
    np.testing.assert_array_equal(dead.per_factor, plain.per_factor)
    np.testing.assert_array_equal(dead.best, plain.best)
    assert dead.kinds.endswith("constant and left out z1")
    assert "left out" not in plain.kinds


@every
def test_ten_rows_and_classes_met_once_are_defined(metric: Any) -> None:
    z = np.array([[0, 1, 2, 3, 4, 5, 6, 7, 8, 8], [0, 0, 0, 0, 0, 0, 0, 0, 0, 1]]).T * 1.0
    for z_hat in (noise(10, 2), np.ones((10, 2)), noise(10, 1)):
        for seed in range(3):
            found = metric(z, z_hat, discrete=True, subsamples=10, ceiling=True, random_state=seed)
            interval = found.uncertainty
            assert np.isfinite([found.score, found.chance, found.ceiling, interval.low, interval.high]).all()
            assert 0 <= found.score <= 1


def test_bins_end_where_numbers_do() -> None:
    assert binned(np.array([2.0, 2, 2]), 20).tolist() == [0, 0, 0]
    near = 1 + np.array([0, 1, 2, 1]) * np.finfo(float).eps
    assert binned(near, 20).tolist() == [0, 1, 2, 1]
    assert binned(np.array([-1.0, 1]), 20).tolist() == [0, 19]


def test_values_of_a_discrete_factor_are_its_bins() -> None:
    z, z_hat = mixed(300, 4)
    few = [mig(z, z_hat, discrete=kinds, estimator="bins", bins=3, shuffles=0) for kinds in (None, False)]
    np.testing.assert_array_equal(few[0].matrix[[0, 2]], few[1].matrix[[0, 2]])
    assert np.abs(few[0].matrix[1] - few[1].matrix[1]).max() > 0.01  # five values in three bins


def test_information_above_the_entropy_counts_as_all_of_it() -> None:
    z = np.repeat([0.0, 1, 2], [3, 3, 6])[:, None]
    assert mig(z, z, discrete=True, neighbours=1, shuffles=0).matrix.tolist() == [[1.0]]


# ---- records -----------------------------------------------------------------------------------------------------


@every
def test_tensors_names_and_factors_with_their_kinds_score_alike(metric: Any) -> None:
    z, z_hat = mixed(300, 4)
    plain = metric(z, z_hat)
    tensors = metric(torch.as_tensor(z), torch.as_tensor(z_hat))
    assert tensors.numbers == plain.numbers
    assert metric(factors_of(z), z_hat).numbers == plain.numbers
    named = z.astype(object)
    named[:, 0] = np.array(["ball", "cone", "cube"])[z[:, 0].astype(int)]
    assert metric(named, z_hat).numbers == plain.numbers
    told = metric(z, z_hat, discrete=False, shuffles=0)
    assert told.score != plain.score or getattr(told, "estimator", "") == "bins"  # each value has a bin of its own
    assert told.kinds == "Factors (declared): continuous z1, z2, z3"
    assert plain.kinds == "Factors (detected by their values): discrete z1, z2; continuous z3"


@every
def test_the_kinds_of_factors_are_those_of_all_rows(metric: Any) -> None:
    z = (np.arange(100) // 2)[:, None] % 40 * 1.0  # in half of the rows, values no longer repeat twice on average
    full = metric(z, z + noise(100, 2), subsamples=10)
    assert full.kinds == "Factors (detected by their values): discrete z1"
    declared = metric(z, z + noise(100, 2), subsamples=10, discrete=True)
    assert full.uncertainty == declared.uncertainty


def test_the_results_speak_and_become_plain_data() -> None:
    z, z_hat = mixed(300, 4)
    z_hat[:, 1] = 3
    found = mig(z, z_hat, ceiling=True)
    assert str(found) == (
        f"MIG {found.score:.2f} (chance {found.chance:.2f}, ceiling {found.ceiling:.2f}); forgives element-wise; "
        "3 of 4 latents and 3 of 3 factors vary, 300 rows. "
        "Factors (detected by their values): discrete z1, z2; continuous z3"
    )
    plain = json.loads(json.dumps(found.to_dict()))
    assert plain["matrix"] == found.matrix.tolist()
    assert plain["active"] == [0, 2, 3]
    assert plain["estimator"] == "neighbours"
    assert plain["range"] == {"MIG": [0, 1]}
    separated = sap(z, z_hat)
    assert str(separated).startswith(f"SAP {separated.score:.2f} (chance {separated.chance:.2f}); forgives perm")
    assert json.loads(json.dumps(separated.to_dict()))["held_out"] is True
    assert not sap(z, z_hat, held_out=False).held_out
