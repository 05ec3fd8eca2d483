"""SparseComponents: exact recovery where the theory promises it, offsets, noise, rank, and honest refusal."""

import pickle
import warnings

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.base import clone
from sklearn.decomposition import PCA, FastICA
from sklearn.exceptions import NotFittedError
from sklearn.utils.estimator_checks import estimator_checks_generator

from noumena.checks import InputError
from noumena.estimators.sparse.components import SparseComponents, _agreement, _snapped
from noumena.metrics import mcc


def latents(n=5, rows=3000, active=0.5, at=0.0, seed=0):
    rng = np.random.default_rng(seed)
    z = rng.normal(size=(rows, n)) @ (np.eye(n) + 0.3 * np.triu(rng.normal(size=(n, n)), 1))  # dependent
    return np.where(rng.random((rows, n)) < active, z, at * z.std(axis=0))


def mixed(z, columns=None, seed=1):
    return z @ np.random.default_rng(seed).normal(size=(z.shape[1], columns or z.shape[1]))


@pytest.mark.parametrize("at", [0.0, 1.0, 2.0, 3.0], ids=lambda at: f"inactive at {at:g} deviations")
def test_latents_are_found_exactly_wherever_they_sit_while_inactive(at):
    z = latents(at=at)
    model = SparseComponents().fit(mixed(z) + 7)
    found = model.transform(mixed(z) + 7)
    score = mcc(z, found)
    assert score.score > 1 - 1e-9
    assert model.exact_.all()
    np.testing.assert_array_equal(found[:, score.permutation] == 0, z == at * z.max(axis=0) if at == 0 else _frozen(z))


def _frozen(z):
    """Where each latent sits at its most frequent value."""
    values = [pd.Series(column).mode()[0] for column in z.T]
    return np.isclose(z, values, rtol=1e-12, atol=0)


def test_neither_pca_nor_the_data_nor_independent_components_are_as_good():
    z = latents(at=2.0)
    x = mixed(z)
    trivial = (x, PCA().fit_transform(x), FastICA(random_state=0, max_iter=1000).fit_transform(x))
    assert 1 - mcc(z, SparseComponents().fit_transform(x)).score < 1e-9
    assert min(1 - mcc(z, code).score for code in trivial) > 1e-3


def test_observations_come_back_from_latents():
    x = mixed(latents(), columns=8) + 3
    model = SparseComponents().fit(x)
    np.testing.assert_allclose(model.inverse_transform(model.transform(x)), x, atol=1e-5)
    assert model.n_components_ == 5
    assert model.components_.shape == (5, 8)
    np.testing.assert_allclose(model.transform(x).std(axis=0), 1, atol=0.05)


def test_the_rank_is_found_above_a_flat_floor_of_noise_and_by_number_when_asked():
    z = latents()
    x = mixed(z, columns=9)
    noisy = x + 0.02 * np.random.default_rng(2).normal(size=x.shape)
    model = SparseComponents().fit(noisy)
    assert model.n_components_ == 5
    assert mcc(z, model.transform(noisy)).score > 0.99
    assert not model.exact_.any()
    assert SparseComponents(n_latents=4).fit(noisy).n_components_ == 4


def test_small_latents_are_not_taken_for_noise():
    z = latents()
    turn = np.linalg.qr(np.random.default_rng(3).normal(size=(5, 5)))[0]
    x = z * [9.0, 6, 4, 0.05, 0.1] @ turn  # two small eigenvalues, far below the others
    model = SparseComponents().fit(x)
    assert model.n_components_ == 5
    assert mcc(z, model.transform(x)).score > 1 - 1e-9


def test_a_fit_is_deterministic_and_restarts_agree_on_easy_data():
    x = mixed(latents())
    a, b = SparseComponents(random_state=3).fit(x), SparseComponents(random_state=3).fit(x)
    np.testing.assert_array_equal(a.components_, b.components_)
    assert a.agreement_.min() > 0.999
    assert len(a.restart_objectives_) == 2
    assert a.objective_ == a.restart_objectives_.max()
    other = SparseComponents(random_state=4, n_restarts=1).fit(x)
    assert mcc(a.transform(x), other.transform(x)).score > 1 - 1e-9
    assert (other.agreement_ == 1).all()


def test_agreement_is_with_the_other_restarts():
    turn = torch.tensor([[0.6, 0.8], [-0.8, 0.6]]).double()
    bases = torch.stack([torch.eye(2).double(), turn])
    np.testing.assert_allclose(_agreement(bases[0], bases, 0), 0.8)
    np.testing.assert_allclose(_agreement(bases[0], torch.stack([turn, torch.eye(2).double()]), 0), 1.0)


@pytest.mark.parametrize("view", ["rows", "differences"])
def test_either_view_alone_finds_latents_that_rest_at_zero_and_says_which_it_was(view):
    z = latents()
    model = SparseComponents(view=view).fit(mixed(z))
    assert mcc(z, model.transform(mixed(z))).score > 1 - 1e-9
    assert model.chosen_.startswith(view)


@pytest.mark.parametrize(("on_the_line", "exact"), [(500, True), (300, False)])
def test_a_component_is_snapped_onto_a_hyperplane_only_if_it_holds_nearly_all_inactive_rows(on_the_line, exact):
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(2, 1000))
    x[:500] = 0.004 * rng.normal(size=500)
    x[:on_the_line] = 0.004 * y[:on_the_line]
    rows, W = torch.as_tensor(np.column_stack([x, y])), torch.eye(2).double()
    refined, snapped, _ = _snapped(rows, W)
    assert snapped.tolist() == [exact, False]
    slope = refined[0, 1] / refined[0, 0]
    assert slope.item() == pytest.approx(-0.004 if exact else 0.0, abs=1e-9)


def test_the_active_share_and_the_active_entries_are_those_of_the_world():
    z = latents(active=0.3)
    x = mixed(z)
    model = SparseComponents().fit(x)
    order = mcc(z, model.transform(x)).permutation
    np.testing.assert_allclose(model.active_share_[order], (z != 0).mean(axis=0), atol=0.01)
    assert (model.active(x)[:, order] == (z != 0)).mean() > 0.995
    assert model.confidence_.min() > 0.98


def test_confidence_falls_with_noise():
    z = latents()
    x = mixed(z)
    levels = [SparseComponents().fit(x + s * np.random.default_rng(0).normal(size=x.shape)) for s in (0.01, 0.1)]
    assert levels[0].confidence_.mean() > levels[1].confidence_.mean() + 0.05


def test_components_that_are_not_sparse_have_no_confidence_and_are_named():
    z = latents()
    z[:, 0] = np.random.default_rng(5).normal(size=len(z))
    with pytest.warns(UserWarning, match=r"1 of 5 components are not sparse and have confidence 0: numbers 4"):
        model = SparseComponents().fit(mixed(z))
    assert model.confidence_[4] == 0
    assert model.confidence_[:4].min() > 0.9


def test_the_score_of_held_out_rows_prefers_the_sparse_basis_to_a_turned_one():
    x = mixed(latents())
    model = SparseComponents().fit(x[:2000])
    turned = clone(model).fit(x[:2000])
    turned.components_ = np.linalg.qr(np.random.default_rng(0).normal(size=(5, 5)))[0] @ turned.components_
    turned.intercept_ = -turned.mean_ @ turned.components_.T
    assert model.score(x[2000:]) > turned.score(x[2000:]) + 1


def test_the_score_of_rows_in_a_plane_is_that_of_their_coordinates_in_it():
    rng = np.random.default_rng(0)
    z = rng.normal(size=(3000, 2)) * (rng.random((3000, 2)) < 0.5)
    x = z @ [[1.0, 0.3, 80], [0.5, 1, -60]]  # columns of unlike scales: the unmixing does not lie in the plane
    model = SparseComponents(2).fit(x)
    axes = np.linalg.svd(x, full_matrices=False)[2][:2]
    assert model.score(x) == pytest.approx(SparseComponents().fit(x @ axes.T).score(x @ axes.T), abs=1e-6)


@pytest.mark.parametrize(
    ("x", "sentence"),
    [
        (np.zeros((50, 3)), "x must vary. Got columns that are all constant."),
        (np.random.default_rng(0).normal(size=(4000, 4)), r"no sparse direction found \(the best gains"),
        (np.random.default_rng(0).uniform(size=(4000, 4)), r"no sparse direction found \(the best gains"),
        (mixed(latents(rows=5)), "x must have more rows, and at least as many independent columns, as components"),
        ([[np.nan, 1.0], [1, 2]], "x must be finite"),
    ],
    ids=["constant", "gaussian", "uniform", "few rows", "not finite"],
)
def test_data_without_an_answer_are_refused_in_one_sentence(x, sentence):
    with pytest.raises(InputError, match=sentence):
        SparseComponents().fit(x)


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"n_latents": 6}, "Got 3000 rows of rank 5 for 6 components"),
        ({"n_latents": 0}, "n_latents must be a whole number of at least 1"),
        ({"n_restarts": 0}, "n_restarts must be"),
        ({"max_iter": 0}, "max_iter must be"),
        ({"view": "afar"}, "view must be one of both, rows, differences"),
        ({"device": "moon"}, "device must be auto or a torch device"),
    ],
)
def test_settings_without_sense_are_refused_in_one_sentence(settings, sentence):
    with pytest.raises(InputError, match=sentence):
        SparseComponents(**settings).fit(mixed(latents()))


def test_constant_columns_carry_nothing_and_do_no_harm():
    z = latents()
    x = np.column_stack([mixed(z), np.full(len(z), 2.0)])
    model = SparseComponents().fit(x)
    assert model.n_components_ == 5
    assert (model.components_[:, 5] == 0).all()
    np.testing.assert_allclose(model.inverse_transform(model.transform(x))[:, 5], 2.0)


def test_columns_of_very_different_units_are_no_obstacle():
    z = latents()
    x = mixed(z) * [1e-6, 1, 1e6, 1, 1e3]
    assert mcc(z, SparseComponents().fit_transform(x)).score > 1 - 1e-6


def test_without_offset_inactive_latents_sit_at_the_origin_of_the_data():
    z = latents(active=0.4)
    model = SparseComponents(offset=False).fit(mixed(z))
    assert (model.intercept_ == 0).all()
    assert mcc(z, model.transform(mixed(z))).score > 1 - 1e-9


def test_it_is_a_transformer_among_others():
    x = pd.DataFrame(mixed(latents()), columns=list("abcde"))
    model = SparseComponents().fit(x)
    assert pickle.loads(pickle.dumps(model)).score(x) == model.score(x)
    assert list(model.get_feature_names_out()) == [f"sparsecomponents{i}" for i in range(5)]
    with pytest.raises(ValueError, match="feature names"):
        model.transform(x.rename(columns={"a": "z"}))
    with pytest.raises(NotFittedError):
        clone(model).transform(x)
    with pytest.raises(InputError, match=r"z must have 5 columns\. Got 2"):
        model.inverse_transform(np.ones((3, 2)))


def test_scikit_learns_own_checks_pass_or_meet_data_that_are_not_sparse():
    passed, refused = [], []
    for estimator, check in estimator_checks_generator(SparseComponents(max_iter=5)):
        name = getattr(check, "func", check).__name__
        if name != "check_do_not_raise_errors_in_init_or_set_params":
            (passed if _passes(check, estimator) else refused).append(name)
    assert len(passed) > len(refused) > 0


def _passes(check, estimator):
    """Whether a check passes; any other failure than the refusal of its data is raised."""
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message=".*components .* and have confidence 0")
            check(estimator)
    except (InputError, AssertionError) as error:
        cause = error if isinstance(error, InputError) else error.__cause__
        if "no sparse direction found" not in str(cause):
            raise
        return False
    return True


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no accelerator on this machine")
def test_an_accelerator_finds_the_same():
    x = mixed(latents())
    there, here = SparseComponents(device="cuda").fit(x), SparseComponents().fit(x)
    assert mcc(here.transform(x), there.transform(x)).score > 1 - 1e-6
