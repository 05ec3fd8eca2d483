"""Trees are those of the published settings, the same every time; AUROC agrees with its definition."""

import numpy as np
import pytest
from batches import QUICK, batches
from sklearn.metrics import roc_auc_score

from noumena.checks import InputError
from noumena.deconfounding.boosting import PUBLISHED, auroc, boosted, linear, settings_of, within_batches
from noumena.deconfounding.conditions import rotation, whitening

MADE = batches()
Y = (MADE.label == "treated").astype(int)
SOURCES = MADE.sources


def grown(x=SOURCES, y=Y, seed=0, **changes):
    return boosted(x[:200], y[:200], x[200:], settings=settings_of({**QUICK, **changes}), seed=seed)


def test_the_published_settings_are_those_of_the_paper():
    assert PUBLISHED == {
        "is_unbalance": True,
        "learning_rate": 0.05,
        "num_leaves": 31,
        "feature_fraction": 0.6,
        "reg_alpha": 5.0,
        "reg_lambda": 1.0,
        "min_gain_to_split": 0.8,
        "min_data_in_leaf": 30,
    }
    assert settings_of(None) == {**PUBLISHED, "rounds": 100}
    assert settings_of({"rounds": 7})["rounds"] == 7
    with pytest.raises(InputError, match=r"boosting must change only is_unbalance, .* Got min_leaf\."):
        settings_of({"min_leaf": 3})
    with pytest.raises(InputError, match="settings that LightGBM takes"):
        grown(num_leaves=-4)


def test_trees_split_on_the_feature_that_tells_the_label():
    found = grown()
    assert found.order[0] == 0
    assert found.splits[0] > found.splits[1:].max()
    assert auroc(Y[200:], found.scores) > 0.95


def test_the_same_seed_gives_the_same_trees_and_another_seed_others():
    np.testing.assert_array_equal(grown(MADE.x).scores, grown(MADE.x).scores)
    assert (grown(MADE.x).scores != grown(MADE.x, seed=1).scores).any()


def test_too_few_rows_for_two_leaves_split_nothing_and_score_one_half():
    found = grown(min_data_in_leaf=150)
    assert not found.splits.any()
    assert np.ptp(found.scores) == 0
    assert auroc(Y[200:], found.scores) == 0.5


def test_features_used_equally_often_are_ordered_by_gain():
    from noumena.deconfounding.boosting import Trees

    assert Trees(np.zeros(1), np.array([2, 5, 5, 0]), np.array([9.0, 1, 2, 0])).order.tolist() == [2, 1, 0, 3]


def test_auroc_agrees_with_scikit_learn_with_and_without_ties():
    draw = np.random.default_rng(0)
    for digits in (8, 1):
        scores = draw.normal(size=80).round(digits)
        y = (scores + draw.normal(size=80) > 0).astype(int)
        assert auroc(y, scores) == pytest.approx(roc_auc_score(y, scores), abs=1e-12)
        assert auroc(y, np.exp(scores)) == pytest.approx(auroc(y, scores))
        assert auroc(1 - y, scores) == pytest.approx(1 - auroc(y, scores))


def test_scores_that_tell_only_batches_are_worth_nothing_within_them():
    y, batch = np.array([1, 1, 1, 0, 0, 0, 0, 1]), np.repeat([0, 1], 4)
    scores = 1.0 - batch
    assert auroc(y, scores) > 0.7
    assert within_batches(y, scores, batch) == 0.5


def test_batches_with_one_class_cannot_be_scored():
    y, batch = np.array([1, 1, 0, 1]), np.array([0, 0, 1, 1])
    assert within_batches(y, np.array([0.0, 0.0, 0.0, 1.0]), batch) == 1.0
    assert np.isnan(within_batches(y[:2], np.zeros(2), batch[:2]))


def test_logistic_regression_cannot_see_a_rotation_of_white_components():
    white = whitening(MADE.x[:200], n_components="all")(MADE.x)
    y = (MADE.sources[:, 1] > 0).astype(int)
    turned = white @ rotation(5, 0)
    one, other = (linear(t[:200], y[:200], t[200:]) for t in (white, turned))
    np.testing.assert_allclose(one, other, atol=2e-2)
    assert auroc(y[200:], one) > 0.95
    assert auroc(Y[200:], linear(white[:200], Y[:200], white[200:])) < 0.65
