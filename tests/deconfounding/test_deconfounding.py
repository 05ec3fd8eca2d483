"""Scores on held-out batches: known where the data are made so, honest about what cannot be told, and repeatable."""

import json

import numpy as np
import pandas as pd
import pytest
from batches import QUICK, batches

from noumena.checks import InputError
from noumena.deconfounding import Deconfounding, deconfound
from noumena.deconfounding.result import estimate

PLAIN = {"boosting": QUICK, "rotations": 2, "top": (1,), "n_components": "all"}


def ran(made=None, **settings):
    made = made or batches()
    return deconfound(made.x, made.batch, made.label, **{**PLAIN, **settings})


@pytest.fixture(scope="module")
def found():
    return ran(batches(shift=3.0), remove_batch=True)


@pytest.fixture(scope="module")
def noise():
    return ran(batches(signal=False))


# ---- known answers ---------------------------------------------------------------------------------------------------


def test_where_one_source_tells_the_label_the_axes_of_ica_help_and_it_is_told(found):
    assert found.score("ica").auroc.mean > 0.95
    assert found.score("random").auroc.mean < 0.85
    over = {d.over: d.auroc for d in found.differences if d.condition == "ica"}
    assert over["random"].significant
    assert over["random"].mean > 0.1
    assert "over random rotations (significant)" in found.headline


def test_where_one_source_tells_the_label_ica_is_sparse_and_its_first_feature_has_it_all(found):
    sparsity = {score.condition: score.hoyer.mean for score in found.scores}
    assert sparsity["ica"] > 2 * sparsity["random"]
    assert found.score("ica").concentration[1] > 0.5 > found.score("random").concentration[1]


def test_a_linear_model_sees_nothing_of_a_label_that_is_symmetric(found):
    assert found.score("pca").linear is not None
    assert found.score("pca").linear < 0.65
    assert found.score("ica").linear is None


def test_where_the_label_is_noise_no_condition_is_told_from_chance(noise):
    assert all(score.auroc.low < 0.5 < score.auroc.high for score in noise.scores)
    assert "No condition differs significantly from chance (0.5) on held-out batches" in noise.notes
    assert "not significant" in noise.headline


def test_the_component_that_moves_with_the_batch_is_found_and_its_removal_costs_nothing(found):
    ica = next(c for c in found.carriers if c.condition == "ica")
    assert len(ica.of_batch) == 1
    assert ica.batch_within_label[ica.of_batch[0]] > 0.8
    assert found.score("ica").removed == 1
    assert abs(found.score("ica").gain.mean) < 0.02
    assert ica.label_within_batch[ica.of_batch[0]] < ica.threshold[1]


def test_removal_takes_the_signal_where_batch_and_label_share_a_component():
    made = batches()
    moved = made.sources.copy()
    moved[:, 0] += 0.2 * np.unique(made.batch, return_inverse=True)[1]
    after = deconfound(moved, made.batch, made.label, conditions=("base",), remove_batch=0.03, **PLAIN).score("base")
    assert after.removed == 1
    assert after.auroc.mean > 0.8
    assert after.without.mean < 0.6
    assert after.gain.mean == pytest.approx(after.without.mean - after.auroc.mean)
    assert after.gain.high < 0


def test_every_component_carrying_batch_leaves_nothing_to_score():
    made = batches(n_batches=4)
    moved = made.x + 50.0 * np.unique(made.batch, return_inverse=True)[1][:, None]
    after = deconfound(moved, made.batch, made.label, conditions=("base",), remove_batch=0.1, **PLAIN)
    assert any("every component carries batch and nothing is left to score" in note for note in after.notes)
    assert np.isnan(after.score("base").without.mean)
    assert after.to_dict()["scores"][0]["without"]["mean"] is None


def test_the_gain_of_removal_compares_each_fit_with_itself_where_some_have_nothing_left():
    rng = np.random.default_rng(1)
    batch, label = np.repeat(np.arange(6), 60), np.tile([0, 1], 180)
    x = rng.laplace(size=(360, 3)) + 1.0 * label[:, None] * [1, 0, 0]
    x[:, 1:] += rng.normal(size=(6, 2))[batch] * [2, 1]
    settings = {**PLAIN, "rotations": 8, "conditions": ("random",), "remove_batch": 0.1}
    after = deconfound(x, batch, label, **settings)
    gains = [[] for _ in after.held_out]
    for row in after.rows:
        if row["auroc without"] is not None:
            gains[row["fold"]].append(row["auroc without"] - row["auroc"])
    assert 0 < sum(map(len, gains)) < len(after.rows)
    expected = np.mean([np.mean(fold) for fold in gains if fold])
    assert after.score("random").gain.mean == pytest.approx(expected, abs=1e-9)


def test_centring_undoes_a_shift_between_batches():
    moved = {c: ran(batches(shift=6.0), conditions=("base",), rotations=1, centre=c) for c in (False, True)}
    still = ran(batches(shift=0.0), conditions=("base",), rotations=1, centre=True)
    np.testing.assert_allclose(moved[True].score("base").auroc.mean, still.score("base").auroc.mean, atol=1e-6)
    assert moved[False].score("base").auroc.mean != moved[True].score("base").auroc.mean


# ---- honesty ---------------------------------------------------------------------------------------------------------


def test_held_out_rows_do_not_move_what_others_score():
    """Components, trees and removal rest on training batches: a fold's rows change only through its own batch."""
    made = batches()
    ruined = made.x.copy()
    ruined[made.batch == "B2"] *= -7.0
    kept = [ran(made._replace(x=x), remove_batch=True, folds="each", rotations=1) for x in (made.x, ruined)]
    fold = kept[0].held_out.index(("B2",))
    mine, theirs = ([row for row in f.rows if row["fold"] == fold] for f in kept)
    for a, b in zip(mine, theirs, strict=True):
        assert {k: a[k] for k in ("splits", "hoyer", "removed")} == {k: b[k] for k in ("splits", "hoyer", "removed")}
    open_ = [ran(made._replace(x=x), folds="each", rotations=1, transductive=True) for x in (made.x, ruined)]
    hoyers = [[row["hoyer"] for row in f.rows if row["fold"] == fold and row["condition"] == "pca"] for f in open_]
    assert hoyers[0] != hoyers[1]


def test_labels_of_held_out_rows_do_not_move_the_trees():
    made = batches()
    flipped = np.where(made.batch == "B2", made.label[::-1], made.label)
    kept = [deconfound(made.x, made.batch, y, folds="each", **PLAIN) for y in (made.label, flipped)]
    fold = kept[0].held_out.index(("B2",))
    for a, b in zip(*([row for row in f.rows if row["fold"] == fold] for f in kept), strict=True):
        assert (a["splits"], a["hoyer"]) == (b["splits"], b["hoyer"])
    assert kept[0].rows != kept[1].rows


def test_settings_that_allow_no_split_are_said_in_words():
    after = ran(conditions=("pca", "ica"), boosting={"min_data_in_leaf": 200}, rotations=1)
    assert [score.auroc.mean for score in after.scores] == [0.5, 0.5]
    assert any(note.startswith("In 10 of 10 fits the trees could not split at all") for note in after.notes)
    assert after.score("ica").concentration == {}
    assert np.isnan(after.score("ica").hoyer.mean)


def test_a_label_that_is_too_easy_is_said_to_tell_nothing_apart():
    made = batches()
    easy = np.where(made.sources[:, 0] > 0, "up", "down")
    x = np.c_[made.x, 9.0 * made.sources[:, 0]]
    after = deconfound(x, made.batch, easy, conditions="base", **PLAIN)
    assert "Every condition is at the ceiling (at least 0.99): this label cannot tell them apart" in after.notes


def test_the_interval_is_students_and_wider_where_folds_share_training_rows():
    from scipy import stats

    values = [0.6, 0.65, 0.8, 0.7]
    low, high = stats.t.interval(0.95, 3, np.mean(values), stats.sem(values))
    plain = estimate(values)
    assert (plain.low, plain.high) == pytest.approx((low, high))
    assert plain.se == pytest.approx(stats.sem(values))
    wide = estimate(values, overlap=1 / 4)
    assert wide.high - wide.mean == pytest.approx(np.sqrt(2) * (high - np.mean(values)))
    assert estimate([0.7, None, float("nan"), 0.7]).mean == pytest.approx(0.7)
    assert np.isinf(estimate([0.7]).high)
    assert np.isnan(estimate([]).mean)


# ---- designs ---------------------------------------------------------------------------------------------------------


def test_more_than_two_labels_are_each_asked_about_in_the_mean():
    made = batches()
    three = np.where(made.sources[:, 1] > 0.8, "third", made.label)
    together = deconfound(made.x, made.batch, three, conditions=("ica",), rotations=1, boosting=QUICK, top=())
    assert together.question.startswith("Each of 3 labels against the others in the mean, 300 rows in 5 batches")
    alone = [
        deconfound(made.x, made.batch, three, positive=name, conditions=("ica",), rotations=1, boosting=QUICK, top=())
        for name in ("control", "third", "treated")
    ]
    mean = np.mean([a.score("ica").auroc.mean for a in alone])
    assert together.score("ica").auroc.mean == pytest.approx(mean, abs=0.02)


def test_rows_of_other_labels_help_to_find_the_components_and_are_never_scored():
    made = batches()
    some = made.label.astype(object)
    some[::3] = None
    after = deconfound(made.x, made.batch, some, conditions=("pca",), **PLAIN)
    assert after.question == "treated against control, 200 rows in 5 batches"
    assert any(note.startswith("100 rows have no label") for note in after.notes)
    fewer = deconfound(made.x[1::3], made.batch[1::3], made.label[1::3], conditions=("pca",), **PLAIN)
    assert fewer.design.used.sum() == 100


def test_training_on_one_batch_scores_all_others():
    after = ran(scheme="one", conditions=("base",), rotations=1)
    assert [len(names) for names in after.held_out] == [4] * 5
    assert after.settings["overlap"] == 0


def test_confounded_designs_are_refused_by_name():
    made = batches()
    tied = np.where(np.isin(made.batch, ("B0", "B1")), "wild", "resistant")
    with pytest.raises(InputError, match=r"must not be confounded: .* Got resistant only in B2, B3, B4; wild only"):
        deconfound(made.x, made.batch, tied)


# ---- input -----------------------------------------------------------------------------------------------------------


def test_rows_that_are_not_finite_are_named():
    made = batches()
    x = made.x.copy()
    x[[3, 17], [0, 2]] = np.nan, np.inf
    with pytest.raises(InputError, match=r"X must be finite in every row\. Got NaN or inf in rows 3, 17\."):
        ran(made._replace(x=x))


def test_tensors_and_columns_of_pandas_are_taken_as_they_are():
    import torch

    made = batches(n_batches=3, per=20)
    label = pd.Series(made.label, dtype="string")
    label[4] = pd.NA
    after = deconfound(torch.tensor(made.x), pd.Series(made.batch, dtype="category"), label, conditions="base", **PLAIN)
    assert after.design.used.sum() == 59
    plain = np.array(made.label, dtype=object)
    plain[4] = None
    assert after.rows == deconfound(made.x, made.batch, plain, conditions="base", **PLAIN).rows


def test_constant_features_are_left_out_and_named():
    made = batches()
    frame = pd.DataFrame(np.c_[made.x, np.ones(300)], columns=[*"abcde", "empty"])
    after = ran(made._replace(x=frame), conditions=("base",), rotations=1)
    assert "Constant features are left out: empty" in after.notes
    assert after.score("base").features == 5
    with pytest.raises(InputError, match="X must vary in some feature"):
        ran(made._replace(x=np.ones((300, 2))))


def test_more_features_than_rows_are_said():
    made = batches(n_batches=4, per=16)
    wide = np.c_[made.x, np.random.default_rng(0).normal(size=(64, 80))]
    after = ran(made._replace(x=wide), conditions=("base", "pca"), rotations=1, n_components=None)
    assert "There are more features (85) than rows (64): PCA can keep no more than the rank" in after.notes
    assert any("one for 5 rows" in note for note in after.notes)
    assert any("Sparsity is of 85 base features and of 9 components" in note for note in after.notes)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"conditions": ("umap",)}, "Each condition must be one of base, pca, ica, random. Got 'umap'"),
        ({"conditions": ()}, "conditions must name some of"),
        ({"rotations": 0}, "rotations must be a whole number of at least 1"),
        ({"n_components": 0}, "must be a whole number of at least 1. Got 0"),
        ({"n_components": 1.5}, "n_components as a share must be a finite number"),
        ({"n_components": "most"}, "n_components, unless it is \"all\" or a share, must be a whole number"),
        ({"remove_batch": 2.0}, "remove_batch must be a finite number in"),
        ({"remove_batch": True, "scheme": "one"}, "remove_batch must have several training batches"),
        ({"top": (0,)}, "top must be a whole number"),
        ({"boosting": {"depth": 3}}, "boosting must change only"),
        ({"jobs": 0}, "jobs must be a whole number"),
    ],
)  # fmt: skip
def test_settings_that_cannot_be_used_are_refused(settings, words):
    with pytest.raises(InputError) as error:
        ran(**settings)
    assert words in str(error.value)


def test_the_number_of_components_is_the_one_asked_for():
    after = ran(conditions=("pca",), n_components=3, rotations=1)
    assert after.score("pca").features == 3
    assert any("3 of standardised features (as asked)" in note for note in after.notes)


# ---- form ------------------------------------------------------------------------------------------------------------


def small(**settings):
    return ran(batches(n_batches=3, per=30), conditions=("ica", "random"), **settings).to_dict()


def test_the_same_seed_gives_the_same_result_and_another_seed_another():
    assert small() == small()
    assert small()["rows"] != small(random_state=1)["rows"]


@pytest.mark.slow
def test_the_result_is_the_same_whatever_the_number_of_processes():
    assert small() == small(jobs=2)


def test_the_result_speaks_in_words_and_in_json(found):
    assert isinstance(found, Deconfounding)
    text = str(found)
    assert text.startswith("treated against control, 300 rows in 5 batches, 5 folds of whole batches held out.")
    assert found.headline in text
    assert all(note in text for note in found.notes)
    plain = json.loads(json.dumps(found.to_dict(), allow_nan=False))
    assert [score["condition"] for score in plain["scores"]] == ["base", "pca", "ica", "random"]
    assert plain["design"]["treated"]["B0"] + plain["design"]["control"]["B0"] == 60
    assert len(plain["rows"]) == 5 * 4 * 2


def test_without_ica_the_headline_names_the_best_condition(noise):
    alone = ran(batches(n_batches=3, per=30), conditions=("base",), rotations=1)
    assert alone.headline.startswith("The highest AUROC on held-out batches is ")
    assert alone.differences == ()
    assert alone.carriers == ()
