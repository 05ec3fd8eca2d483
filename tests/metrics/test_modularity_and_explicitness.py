"""Modularity and explicitness agree with slow loops over scikit-learn and are defined at the edges."""

import json
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.feature_selection import mutual_info_classif, mutual_info_regression
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.metrics import mutual_info_score, roc_auc_score
from sklearn.preprocessing import StandardScaler

from noumena.metrics.explicitness import modularity, one_factor
from noumena.metrics.factors import factors_of
from noumena.metrics.gaps import sample

KINDS = pytest.mark.parametrize("discrete", [True, False], ids=["discrete", "continuous"])


def noise(*shape: int, seed: int = 1) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape)


def truth(discrete: bool, n: int = 600, seed: int = 0) -> np.ndarray:
    """Three factors: with 2, 4 and 6 values, or with numbers."""
    rng = np.random.default_rng(seed)
    return np.stack([rng.integers(0, k, n) for k in (2, 4, 6)], axis=1) * 1.0 if discrete else rng.normal(size=(n, 3))


def mixed(n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Two discrete factors and a continuous one, and four latents that know some of them."""
    rng = np.random.default_rng(seed)
    z = np.c_[rng.integers(0, 2, n), rng.integers(0, 4, n), rng.normal(size=n)]
    return z, z @ rng.normal(size=(3, 4)) + rng.normal(size=(n, 4))


def slow_modularity(matrix: np.ndarray) -> list[float]:
    """The definition, latent by latent, from information (factor, latent)."""
    scores = []
    for column in matrix.T.tolist():
        top = column.index(max(column))
        rest = sum(m**2 for j, m in enumerate(column) if j != top)
        scores.append(1 - rest / (max(column) ** 2 * (len(column) - 1)) if max(column) > 0 else 0.0)
    return scores


# ---- independent references --------------------------------------------------------------------------------------


def test_modularity_by_bins_is_the_public_form() -> None:
    z, z_hat = mixed(300, 0)
    z = z[:, :2]
    found = modularity(z, z_hat, estimator="bins", shuffles=0)
    bins = [np.digitize(x, np.histogram(x, 20)[1][:-1]) for x in z_hat.T]
    expected = np.array([[mutual_info_score(source, x) for x in bins] for source in z.T])
    np.testing.assert_allclose(found.matrix, expected, atol=1e-12)
    np.testing.assert_allclose(found.per_latent, slow_modularity(expected), atol=1e-9)
    assert found.modularity == pytest.approx(np.mean(slow_modularity(expected)))
    assert found.best.tolist() == expected.argmax(axis=0).tolist()


@pytest.mark.parametrize("neighbours", [3, 10])
def test_modularity_by_neighbours_has_the_information_of_scikit_learn(neighbours: int) -> None:
    z, z_hat = mixed(400, 1)
    found = modularity(z, z_hat, neighbours=neighbours, shuffles=0)
    settings: dict[str, Any] = {"n_neighbors": neighbours, "random_state": 0}
    theirs = [mutual_info_classif(z_hat, z[:, j], **settings) for j in (0, 1)]
    theirs.append(mutual_info_regression(z_hat, z[:, 2], **settings))
    np.testing.assert_allclose(found.matrix, theirs, atol=1e-9)
    np.testing.assert_allclose(found.per_latent, slow_modularity(np.array(theirs)), atol=1e-6)
    assert found.modularity == pytest.approx(found.per_latent.mean())


@pytest.mark.parametrize("regression", ["multinomial", "one-vs-rest"])
def test_explicitness_is_the_area_under_the_curve_by_scikit_learn(regression: str) -> None:
    z, z_hat = mixed(500, 2)
    z_hat = z_hat[:, :1] + np.c_[np.zeros(500), noise(500, 2, seed=9)] @ np.diag([0, 1, 1])  # correlated
    found = modularity(z, z_hat, regression=regression, held_out=False, shuffles=0)
    for j in (0, 1):
        values = np.unique(z[:, j])
        penalty: dict[str, Any] = {"C": 1e6, "max_iter": 3000}  # areas forget the strength of a weak penalty
        if regression == "multinomial":
            chances = LogisticRegression(**penalty).fit(z_hat, z[:, j]).predict_proba(z_hat)
        else:
            models = [LogisticRegression(**penalty).fit(z_hat, z[:, j] == value) for value in values]
            chances = np.stack([model.predict_proba(z_hat)[:, 1] for model in models], axis=1)
        each = [roc_auc_score(z[:, j] == value, chances[:, k]) for k, value in enumerate(values)]
        assert found.per_factor[j] == pytest.approx(2 * np.mean(each) - 1, abs=0.003)
    fitted = LinearRegression().fit(z_hat, z[:, 2]).score(z_hat, z[:, 2])
    assert found.per_factor[2] == pytest.approx(fitted)
    assert found.explicitness == pytest.approx(found.per_factor.mean())
    assert 0.2 < found.explicitness < 0.9


def test_explicitness_is_judged_on_the_fifth_of_the_rows_held_out() -> None:
    z, z_hat = mixed(500, 2)
    found = modularity(z, z_hat, shuffles=0)
    shown = sample(z, z_hat, discrete=None, max_rows=500, seed=0)
    z, z_hat = shown[0].values, shown[1]  # in the order drawn, the first hundred are held out
    units = StandardScaler().fit(z_hat[100:])
    inputs, unseen = units.transform(z_hat[100:]), units.transform(z_hat[:100])
    for j in (0, 1):
        model = LogisticRegression(max_iter=1000).fit(inputs, z[100:, j])
        chances = model.predict_proba(unseen)
        area = roc_auc_score(z[:100, j, None] == model.classes_, chances)
        assert found.per_factor[j] == pytest.approx(2 * area - 1, abs=0.01)  # penalised along other directions
    line = LinearRegression().fit(inputs, z[100:, 2])
    assert found.per_factor[2] == pytest.approx(line.score(unseen, z[:100, 2]))
    assert found.held_out
    few, many = truth(True, 100), noise(100, 60)
    assert modularity(few, many, held_out=False, shuffles=0).explicitness > 0.9
    assert modularity(few, many, shuffles=0).explicitness < 0.4


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 10_000), k=st.integers(2, 6))
def test_one_factor_is_the_definition_and_forgives_units_and_order(seed: int, k: int) -> None:
    rng = np.random.default_rng(seed)
    known = rng.exponential(size=(5, k)) * (rng.random((5, k)) < 0.7)
    found = one_factor(known)
    np.testing.assert_allclose(found, slow_modularity(known.T), atol=1e-12)
    np.testing.assert_allclose(one_factor(1e-200 * known[:, rng.permutation(k)]), found, atol=1e-12)
    assert ((found >= 0) & (found <= 1)).all()


# ---- known answers -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("estimator", ["neighbours", "bins"])
@KINDS
def test_the_truth_scores_one_in_any_order_and_unit(estimator: str, discrete: bool) -> None:
    z = truth(discrete)
    found = modularity(z, -2 * z[:, ::-1] + 3, estimator=estimator, shuffles=0)
    np.testing.assert_allclose(found.value, 1, atol=0.01)
    assert found.best.tolist() == [2, 1, 0]


@KINDS
def test_noise_scores_chance(discrete: bool) -> None:
    z = truth(discrete)
    nothing = modularity(z, noise(600, 3, seed=5), shuffles=3)
    assert nothing.explicitness < 0.1
    assert nothing.chance is not None
    assert nothing.explicitness == pytest.approx(nothing.chance.explicitness, abs=0.06)
    assert 0.05 < nothing.chance.modularity < 0.99  # some factor is always the best known
    assert nothing.matrix.max() < 0.1


@KINDS
def test_a_rotation_loses_modularity_but_no_explicitness(discrete: bool) -> None:
    z = truth(discrete)
    turn = np.array([[1, -1, 0], [1, 1, 0], [0, 0, np.sqrt(2)]]) / np.sqrt(2)
    turned = modularity(z, z / z.std(axis=0) @ turn, shuffles=0)
    np.testing.assert_array_less(turned.per_latent[:2], 0.9 if discrete else 0.6)  # two alike, one unknown: 1/2
    assert turned.per_latent[2] > 0.99
    assert turned.explicitness == pytest.approx(1, abs=0.02)


def test_a_latent_that_knows_two_factors_alike_has_modularity_one_half() -> None:
    z = np.stack(np.divmod(np.arange(800) % 16, 4), axis=1) * 1.0
    z = np.c_[z, np.random.default_rng(0).integers(0, 2, 800)]
    both = modularity(z, (4 * z[:, 0] + z[:, 1])[:, None], estimator="bins", shuffles=0)
    assert both.per_latent[0] == pytest.approx(1 / 2, abs=0.001)


@KINDS
def test_latents_held_twice_change_nothing(discrete: bool) -> None:
    z = truth(discrete)
    z_hat = z + 0.5 * noise(600, 3)
    plain, twice = modularity(z, z_hat, shuffles=0), modularity(z, np.c_[z_hat, z_hat], shuffles=0)
    np.testing.assert_allclose(twice.value, plain.value, atol=1e-6)


def test_monotone_maps_keep_modularity_and_lose_explicitness() -> None:
    z = truth(False)
    z_hat = z @ np.array([[1, 0.5, 0], [0, 1, 0.5], [0, 0, 1]])
    plain, bent = modularity(z, z_hat, shuffles=0), modularity(z, np.exp(2 * z_hat), shuffles=0)
    assert bent.modularity == pytest.approx(plain.modularity, abs=0.03)
    assert bent.explicitness < 0.8 < 0.99 < plain.explicitness


@pytest.mark.parametrize("regression", ["multinomial", "one-vs-rest"])
@KINDS
def test_explicitness_forgives_affine_maps(regression: str, discrete: bool) -> None:
    z = truth(discrete, 300)
    z_hat = z + noise(300, 3)
    mixing = np.array([[1.0, 2, 1], [2, 0.1, -5], [2, -2, 5]])
    plain = modularity(z, z_hat, regression=regression, shuffles=0)
    moved = modularity(z, 7 + z_hat @ mixing, regression=regression, shuffles=0)
    np.testing.assert_allclose(moved.per_factor, plain.per_factor, atol=2e-3)
    assert moved.modularity < plain.modularity - 0.03


def test_one_regression_for_each_value_misses_the_middle_of_an_ordered_factor() -> None:
    z = np.random.default_rng(0).integers(0, 12, (1200, 1)) * 1.0
    together, each = (modularity(z, z, regression=r, shuffles=0) for r in ("multinomial", "one-vs-rest"))
    assert together.explicitness > 0.99
    assert each.explicitness == pytest.approx(0.5, abs=0.1)


@KINDS
def test_missing_latents_cost_explicitness_and_noise_costs_modularity_only(discrete: bool) -> None:
    z = truth(discrete)
    fewer = modularity(z, z[:, :2], shuffles=0)
    assert fewer.modularity == pytest.approx(1, abs=0.01)
    np.testing.assert_allclose(fewer.per_factor, [1, 1, 0], atol=0.1)
    more = modularity(z, np.c_[z, noise(600, 3)], shuffles=0)
    assert more.explicitness == pytest.approx(1, abs=0.02)
    np.testing.assert_allclose(more.per_latent[:3], 1, atol=0.01)
    assert more.matrix.shape == (3, 6)


# ---- edges -------------------------------------------------------------------------------------------------------


@KINDS
def test_constant_latents_are_left_out(discrete: bool) -> None:
    z = truth(discrete)
    z_hat = z + 0.3 * noise(600, 3)
    plain, dead = modularity(z, z_hat), modularity(z, np.c_[np.full(600, 0.1), z_hat, np.zeros(600)])
    assert dead.modularity == plain.modularity
    assert dead.explicitness == pytest.approx(plain.explicitness, abs=1e-6)
    assert dead.active.tolist() == [1, 2, 3]
    assert dead.best.tolist() == plain.best.tolist()
    none = modularity(z, np.ones((600, 2)))
    assert none.value == none.chance == (0, 0)
    assert none.per_latent.size == none.active.size == 0
    assert none.per_factor.tolist() == [0, 0, 0]


def test_a_latent_that_knows_nothing_counts_zero() -> None:
    z = np.arange(100)[:, None] % 2 * 1.0
    z = np.c_[z, z]
    blank = (np.arange(100) // 2 % 2)[:, None] * 1.0  # independent of both, exactly
    found = modularity(z, np.c_[z[:, :1], blank], estimator="bins", shuffles=0)
    assert found.per_latent.tolist() == [0, 0]  # the first knows both factors alike
    assert found.best.tolist() == [0, -1]


def test_one_factor_alone_leaves_nothing_to_confuse() -> None:
    z = truth(True)
    found = modularity(z[:, :1], z, estimator="bins", shuffles=0)
    assert found.per_latent.tolist() == [1, 1, 1]
    assert one_factor(np.array([[0.3], [0.0]])).tolist() == [1, 0]


def test_constant_factors_are_left_out_and_said() -> None:
    z = truth(True)
    z_hat = z + noise(600, 3)
    plain, dead = modularity(z, z_hat), modularity(np.c_[np.full(600, 7.0), z], z_hat)
    assert (dead.value, dead.chance) == (plain.value, plain.chance)
    assert dead.factors.tolist() == [1, 2, 3]
    assert dead.best.tolist() == (plain.best + 1).tolist()
    assert dead.kinds.endswith("constant and left out z1")


def test_values_met_on_one_side_only_have_no_area() -> None:
    z = np.zeros((50, 1))
    z[:, 0] = np.arange(50) % 2
    z[3], z[20] = 2, 2  # for some seed both lie on one side
    scores = [
        modularity(z, z + 0.1 * noise(50, 1), random_state=s, discrete=True, shuffles=0).explicitness for s in range(6)
    ]
    np.testing.assert_allclose(scores, 1, atol=0.1)
    alone = np.zeros((20, 1))
    alone[4] = 1
    scores = [modularity(alone, alone, random_state=s, discrete=True, shuffles=0).explicitness for s in range(6)]
    assert set(scores) == {0.0}  # in the fitted rows or in the judged ones it is missing


@pytest.mark.parametrize("estimator", ["neighbours", "bins"])
def test_ten_rows_and_classes_met_once_are_defined(estimator: str) -> None:
    z = np.array([[0, 1, 2, 3, 4, 5, 6, 7, 8, 8], [0, 0, 0, 0, 0, 0, 0, 0, 0, 1]]).T * 1.0
    for z_hat in (noise(10, 2), np.ones((10, 2)), noise(10, 1)):
        found = modularity(z, z_hat, discrete=True, estimator=estimator, subsamples=10, ceiling=True)
        assert np.isfinite([*found.value, *found.chance, *found.ceiling]).all()  # type: ignore[misc]
        assert all(0 <= number.value <= 1 for number in found.numbers)


# ---- records -----------------------------------------------------------------------------------------------------


def test_tensors_names_and_factors_with_their_kinds_score_alike() -> None:
    z, z_hat = mixed(300, 4)
    plain = modularity(z, z_hat)
    assert modularity(torch.as_tensor(z), torch.as_tensor(z_hat)).numbers == plain.numbers
    assert modularity(factors_of(z), z_hat).numbers == plain.numbers
    named = z.astype(object)
    named[:, 0] = np.array(["ball", "cube"])[z[:, 0].astype(int)]
    assert modularity(named, z_hat).numbers == plain.numbers
    told = modularity(z, z_hat, discrete=False, shuffles=0)
    assert told.per_factor[1] == pytest.approx(plain.per_factor[1], abs=0.3)
    assert told.per_factor[1] != plain.per_factor[1]
    assert told.kinds == "Factors (declared): continuous z1, z2, z3"


def test_the_result_speaks_and_becomes_plain_data() -> None:
    z, z_hat = mixed(300, 4)
    z_hat[:, 1] = 3
    found = modularity(z, z_hat)
    assert found.chance is not None
    assert str(found) == (
        f"Modularity {found.modularity:.2f} (chance {found.chance.modularity:.2f}), "
        f"Explicitness {found.explicitness:.2f} (chance {found.chance.explicitness:.2f}); "
        "forgives permutation+scaling; 3 of 4 latents and 3 of 3 factors vary, 300 rows, explicitness held-out. "
        "Factors (detected by their values): discrete z1, z2; continuous z3"
    )
    plain = json.loads(json.dumps(found.to_dict()))
    assert plain["matrix"] == found.matrix.tolist()
    assert plain["active"] == [0, 2, 3]
    assert plain["chance"] == found.chance._asdict()
    assert plain["range"] == {"Modularity": [0, 1], "Explicitness": [0, 1]}
    assert "explicitness in-sample" in str(modularity(z, z_hat, held_out=False))
