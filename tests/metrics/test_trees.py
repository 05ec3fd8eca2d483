"""The reference trees are scikit-learn's, the fast ones find the same, and both are defined at the edges."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.ensemble import GradientBoostingClassifier, GradientBoostingRegressor

from noumena.metrics import trees
from noumena.metrics.disentanglement import informed
from noumena.metrics.trees import RowSplit, bins, clearest_changes, end_begins, fit_trees, newton_steps, probabilities

modest = settings(max_examples=30, deadline=None)
KINDS = pytest.mark.parametrize("kind", ["numbers", "two classes", "four classes"])


def example(kind: str, n: int = 600, d: int = 4) -> tuple[np.ndarray, np.ndarray, RowSplit]:
    """Latents that tell of a factor in part, the factor, and rows to fit and to judge on."""
    rng = np.random.default_rng(0)
    latents = rng.normal(size=(n, d))
    signal = latents[:, :1] + 0.5 * latents[:, 1:2] ** 2 + 0.3 * rng.normal(size=(n, 1))
    levels = {"numbers": None, "two classes": [0.5], "four classes": [0.25, 0.5, 0.75]}[kind]
    factor = signal if levels is None else 10.0 + np.digitize(signal, np.quantile(signal, levels))
    order = rng.permutation(n)
    return latents, factor, RowSplit(order[n // 5 :], order[: n // 5])


def scikit_learn(latents: np.ndarray, factor: np.ndarray, rows: RowSplit, discrete: bool, state: int) -> Any:
    kind = GradientBoostingClassifier if discrete else GradientBoostingRegressor
    return kind(random_state=state).fit(latents[rows.fit], factor[rows.fit, 0])


@KINDS
def test_reference_trees_are_those_of_scikit_learn(kind: str) -> None:
    latents, factor, rows = example(kind, n=200)
    found = fit_trees(latents, factor, (kind != "numbers",), rows, trees="reference", seed=3)
    model = scikit_learn(latents, factor, rows, kind != "numbers", 3)
    np.testing.assert_allclose(found.importance[:, 0], model.feature_importances_, atol=1e-9)
    np.testing.assert_allclose(found.predicted[:, 0], model.predict(latents[rows.judge]))


@KINDS
def test_fast_trees_find_the_importances_and_predictions_of_scikit_learn(kind: str) -> None:
    latents, factor, rows = example(kind)
    model = scikit_learn(latents, factor, rows, kind != "numbers", 0)
    found = fit_trees(latents, factor, (kind != "numbers",), rows)
    np.testing.assert_allclose(found.importance[:, 0], model.feature_importances_, atol=0.01)
    assert found.importance.sum() == pytest.approx(1)
    truth = factor[rows.judge, 0]
    slow, fast = (
        informed(truth, p, discrete=kind != "numbers")
        for p in (model.predict(latents[rows.judge]), found.predicted[:, 0])
    )
    assert fast == pytest.approx(slow, abs=0.03)
    assert slow > 0.6


@KINDS
def test_with_few_values_fast_trees_are_those_of_scikit_learn_to_rounding(kind: str) -> None:
    latents, factor, rows = example(kind, n=400)
    latents = np.round(latents + np.array([0.0, 0.1, 0.2, 0.3]), 1)  # every value its own bin
    model = scikit_learn(latents, factor, rows, kind != "numbers", 0)
    found = fit_trees(latents, factor, (kind != "numbers",), rows)
    np.testing.assert_allclose(found.importance[:, 0], model.feature_importances_, atol=0.004)


def test_all_rounds_are_taken_at_the_rate_and_depth_of_the_reference() -> None:
    step = np.repeat([0.0, 1.0], 100)[:, None]
    rows = RowSplit(np.arange(200), np.arange(200))
    found = fit_trees(step, step, (False,), rows)
    left = 0.5 * 0.9**100  # each round takes a tenth of what is left of the distance to the mean
    np.testing.assert_allclose(found.predicted, np.where(step > 0, 1 - left, left), atol=1e-6)
    assert (trees.ROUNDS, trees.DEPTH, trees.RATE) == (100, 3, 0.1)
    parity = np.array([[a, b, c] for a in (0, 1) for b in (0, 1) for c in (0, 1)] * 40, dtype=float)
    parity = np.vstack([parity, [[0, 0, 0]] * 7, [[0, 1, 0]] * 3])  # uneven, so that the first split gains
    odd = parity.sum(axis=1, keepdims=True) % 2
    rows = RowSplit(np.arange(330), np.arange(330))
    np.testing.assert_array_equal(fit_trees(parity, odd, (True,), rows).predicted, odd)  # needs three splits in a row


@pytest.mark.parametrize("kind", ["numbers", "four classes"])
def test_latents_that_tie_share_the_importance(kind: str) -> None:
    latents, factor, rows = example(kind)
    latents = np.c_[latents[:, 2], factor, factor]
    found = fit_trees(latents, factor, (kind != "numbers",), rows).importance[:, 0]
    np.testing.assert_allclose(found[1:], 0.5, atol=0.1)
    noisy = factor[:, 0] + 0.2 * np.random.default_rng(1).uniform(-1, 1, len(factor))
    if kind == "four classes":  # separates the classes as well, though no bin of equally many rows does
        found = fit_trees(np.c_[noisy, factor], factor, (True,), rows).importance[:, 0]
        np.testing.assert_allclose(found, 0.5, atol=0.1)


@KINDS
def test_increasing_maps_of_latents_change_nothing(kind: str) -> None:
    latents, factor, rows = example(kind, n=400)
    bent = np.stack([np.exp(latents[:, 0]), latents[:, 1] ** 3, 1e-40 * latents[:, 2], 1e250 * latents[:, 3]], axis=1)
    one, two = (fit_trees(table, factor, (kind != "numbers",), rows) for table in (latents, bent))
    np.testing.assert_array_equal(one.importance, two.importance)
    np.testing.assert_array_equal(one.predicted, two.predicted)


@pytest.mark.parametrize("which", trees.TREES)
def test_any_unit_of_measurement_is_taken(which: str) -> None:
    latents, factor, rows = example("numbers", n=100)
    one = fit_trees(latents, factor, (False,), rows, trees=which)
    two = fit_trees(latents * [1e250, 1e-250, 1, 1], 2.0**500 * factor, (False,), rows, trees=which)
    np.testing.assert_allclose(one.importance, two.importance, atol=1e-9)
    np.testing.assert_allclose(one.predicted, two.predicted / 2.0**500, atol=1e-9)


@pytest.mark.parametrize("which", trees.TREES)
def test_dead_latents_and_constant_factors_leave_the_best_blind_guess(which: str) -> None:
    latents, factor, rows = example("four classes", n=60)
    rare = np.r_[np.zeros(20), np.ones(40)][:, None]
    dead = fit_trees(0 * latents + 0.1, np.c_[rare, factor], (True, False), rows, trees=which)
    assert not dead.importance.any()
    assert set(dead.predicted[:, 0]) == {1.0}
    np.testing.assert_allclose(dead.predicted[:, 1], factor[rows.fit].mean())
    once = np.zeros((60, 1))
    once[rows.judge[0]] = 1  # a class that no fitted row has
    constant = fit_trees(latents, once, (True,), rows, trees=which)
    assert not constant.importance.any()
    assert not constant.predicted.any()
    half = fit_trees(np.c_[np.zeros(60), latents[:, 0]], factor, (True,), rows, trees=which)
    assert half.importance[:, 0].tolist() == [0, 1]


@pytest.mark.parametrize("which", trees.TREES)
def test_the_same_seed_gives_the_same_trees(which: str) -> None:
    latents, factor, rows = example("two classes", n=80)
    copied = np.c_[latents, latents]
    one, two, other = (fit_trees(copied, factor, (True,), rows, trees=which, seed=s).importance for s in (0, 0, 1))
    np.testing.assert_array_equal(one, two)
    assert (one != other).any()


@modest
@given(seed=st.integers(0, 1000), k=st.integers(1, 4))
def test_steps_are_those_of_a_loop_over_leaves(seed: int, k: int) -> None:
    rng = np.random.default_rng(seed)
    leaves, residual, curvature = rng.integers(0, 8, (20, k)), rng.normal(size=(20, k)), rng.uniform(size=(20, k))
    curvature[leaves == 3] = 0
    found = newton_steps(leaves + 8 * np.arange(k), residual, curvature)
    for leaf in range(8):
        for tree in range(k):
            here = leaves[:, tree] == leaf
            expected = residual[here, tree].sum() / curvature[here, tree].sum() if here.any() and leaf != 3 else 0
            assert found[8 * tree + leaf] == pytest.approx(expected)


def test_chances_of_any_scores_add_up_to_one() -> None:
    scores = np.array([[1000.0, -1000, 0], [1, 2, 3]])
    np.testing.assert_allclose(probabilities(scores).sum(axis=1), 1)
    two = np.array([[3.0], [-2000]])
    np.testing.assert_allclose(probabilities(two)[:, 0], probabilities(np.c_[0 * two, two])[:, 1])


@modest
@given(seed=st.integers(0, 1000), n=st.integers(2, 2000), levels=st.integers(1, 2000), labelled=st.booleans())
def test_bins_keep_the_order_and_are_no_more_than_a_byte_holds(seed: int, n: int, levels: int, labelled: bool) -> None:
    rng = np.random.default_rng(seed)
    rank = rng.integers(0, levels, n)
    fit = rng.permutation(n)[: max(1, n // 2)]
    found = bins(rank, fit, rng.integers(0, 3, len(fit)) if labelled else None)
    order = np.argsort(rank, kind="stable")
    assert (np.diff(found[order]) >= 0).all()
    values = len(np.unique(rank[fit]))
    assert len(np.unique(found[fit])) == min(values, 254)
    same = rank[order][1:] == rank[order][:-1]
    assert not np.diff(found[order])[same].any()


def test_bins_separate_single_rows_at_the_ends_and_classes_where_they_change() -> None:
    labels = np.repeat(np.arange(7), [501, 499, 1003, 997, 1234, 766, 1000])
    rank, fit = np.arange(6000), np.arange(6000)
    found = bins(rank, fit, labels)
    assert all(len(set(labels[found == b])) == 1 for b in np.unique(found))
    sizes = np.bincount(found)
    assert sizes[:5].tolist() == sizes[-5:].tolist() == [1] * 5
    assert sizes.max() <= 65
    assert end_begins(6000).tolist() == (6000 - end_begins(6000)[::-1]).tolist()


def test_the_clearest_changes_are_those_between_the_purest_neighbours() -> None:
    rng = np.random.default_rng(0)
    noise = rng.integers(0, 3, 1000)
    labels = np.r_[noise, np.full(50, 1), np.full(50, 2), noise]
    found = clearest_changes(labels, np.arange(1, len(labels)))
    assert found[0] == 1050
    assert len(found) == trees.CHANGES
    assert (labels[found] != labels[found - 1]).all()
    assert clearest_changes(np.zeros(10, int), np.arange(1, 10)).size == 0
