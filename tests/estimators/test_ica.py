"""ICA: the known answers, scikit-learn's FastICA as a reference, stages, batches, devices, and honest endings."""

import pickle
import warnings

import numpy as np
import pandas as pd
import pytest
import torch
from scipy.integrate import quad
from sklearn.base import clone
from sklearn.decomposition import FastICA
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.utils.estimator_checks import estimator_checks_generator

from noumena.checks import InputError
from noumena.estimators.ica.contrasts import NAMES, contrast_called
from noumena.estimators.ica.ica import ICA
from noumena.estimators.ica.moments import RowMoments, TableMoments
from noumena.estimators.ica.rotation import change, polar, rotate, stages
from noumena.metrics.mixings import amari_distance


def mixed(rows=4000, d=5, kind="laplace", seed=0, columns=None):
    """Observations and the mixing (columns, d) of independent sources of unit variance."""
    rng = np.random.default_rng(seed)
    s = rng.laplace(size=(rows, d)) / np.sqrt(2)
    uniform = {"laplace": slice(0, 0), "uniform": slice(None), "both": slice(None, None, 2)}[kind]
    s[:, uniform] = rng.uniform(-np.sqrt(3), np.sqrt(3), size=s[:, uniform].shape)
    A = rng.normal(size=(columns or d, d))
    return s @ A.T + 7, A


def same(a, b, atol):
    """Two unmixings of one whitening agree up to order and sign."""
    size = np.abs(a @ np.linalg.pinv(b))
    return np.abs(np.sort(size, axis=1)[:, -1] - 1).max() < atol and np.sort(size, axis=1)[:, :-1].max() < atol


# ---- known answers ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("contrast", NAMES)
@pytest.mark.parametrize("kind", ["laplace", "uniform", "both"])
def test_sources_are_found_up_to_order_and_sign(contrast, kind):
    x, A = mixed(kind=kind)
    model = ICA(contrast=contrast).fit(x)
    assert amari_distance(model.components_, A).score < 0.03
    assert model.converged_


@pytest.mark.parametrize("contrast", NAMES)
def test_the_rest_is_that_of_scikit_learns_fast_ica(contrast):
    x, _ = mixed(kind="both", seed=3)
    peer = FastICA(fun=contrast, whiten="unit-variance", tol=1e-8, max_iter=1000, random_state=0).fit(x)
    ours = ICA(contrast=contrast, tol=1e-8, dtype="float64").fit(x)
    assert same(ours.components_, peer.components_, atol=1e-4)


def test_components_have_unit_variance_no_correlation_and_come_back():
    x, _ = mixed(columns=8)
    model = ICA().fit(x)
    s = model.transform(x)
    np.testing.assert_allclose(np.cov(s, rowvar=False, ddof=0), np.eye(5), atol=1e-5)
    np.testing.assert_allclose(s, (x - model.mean_) @ model.components_.T, atol=1e-9)
    np.testing.assert_allclose(model.inverse_transform(s), x, atol=1e-5)


def test_components_are_ordered_by_how_far_they_are_from_gaussian_and_signs_are_fixed():
    rng = np.random.default_rng(0)
    s = np.stack([rng.normal(size=6000), rng.laplace(size=6000) ** 3, rng.uniform(-1, 1, 6000)], axis=1)
    model = ICA().fit(s @ rng.normal(size=(3, 3)))
    assert (np.diff(model.non_gaussianity_) <= 0).all()
    assert model.non_gaussianity_[2] < 0.01
    assert (model.mixing_[np.abs(model.mixing_).argmax(axis=0), range(3)] > 0).all()


@pytest.mark.parametrize("name", NAMES)
def test_a_contrast_knows_its_derivatives_and_its_mean_over_a_gaussian(name):
    contrast = contrast_called(name)
    y = torch.linspace(-3, 3, 41, dtype=torch.float64)[:, None].requires_grad_()
    g = torch.autograd.grad(contrast.value(y).sum(), y, create_graph=True)[0]
    slope = torch.autograd.grad(g.sum(), y)[0].sum(dim=0)
    found, found_slope = contrast.parts(y.detach().clone())
    torch.testing.assert_close(found, g.detach())
    torch.testing.assert_close(found_slope, slope)

    def density(t):
        return float(contrast.value(torch.tensor(t, dtype=torch.float64))) * np.exp(-t * t / 2) / np.sqrt(2 * np.pi)

    assert contrast.gaussian == pytest.approx(quad(density, -12, 12)[0], abs=1e-7)


def test_values_far_out_do_not_overflow():
    assert float(contrast_called("logcosh").value(torch.tensor(-500.0))) == pytest.approx(500 - np.log(2))


# ---- the rotation ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("condition", [1.0, 1e2, 1e12])
def test_the_polar_factor_is_the_nearest_rotation_however_ill_conditioned(condition):
    rng = np.random.default_rng(0)
    U, V = (np.linalg.qr(rng.normal(size=(20, 20)))[0] for _ in range(2))
    M = torch.as_tensor((U * np.geomspace(1, condition, 20)) @ V)[None]
    Q = polar(M)
    torch.testing.assert_close(Q[0], torch.as_tensor(U @ V), atol=1e-5 if condition > 1e4 else 1e-9, rtol=0)


def test_a_stage_of_few_rows_needs_the_correction_for_not_being_white():
    """Without it the first-order error of a part's covariance outweighs the step, and nothing is found."""
    x, A = mixed(rows=24_000, d=40, seed=1)
    data = TableMoments(torch.as_tensor(x)[None], dtype=torch.float32, seed=0)
    mean, covariance = data.mean_and_covariance()
    value, vector = torch.linalg.eigh(covariance)
    forth = (vector / value.sqrt()[:, None]).mT
    data.prepare(mean, forth)
    start = torch.linalg.qr(torch.randn(1, 40, 40, generator=torch.Generator().manual_seed(0))).Q
    part = TableMoments(torch.as_tensor(x)[None], dtype=torch.float32, seed=0)
    part.mean_and_covariance()
    part.prepare(mean, forth)
    part.white = data._part(2560)
    part.n_rows = 2560
    naive = rotate(part, start, contrast_called("logcosh"), tol=1e-3, max_iter=30)  # 64 rows each: one stage
    staged = rotate(data, start, contrast_called("logcosh"), tol=1e-4, max_iter=100)
    assert stages(24_000, 40) == [2560, None]
    assert amari_distance((naive.W[0].double() @ forth[0]).numpy(), A).score > 0.1
    assert amari_distance((staged.W[0].double() @ forth[0]).numpy(), A).score < 0.02
    assert staged.passes < 6  # of which few are steps over all rows


def test_stages_do_not_change_where_the_iteration_rests(monkeypatch):
    x, _ = mixed(rows=24_000, d=10)
    staged = ICA(tol=1e-7).fit(x)
    monkeypatch.setattr("noumena.estimators.ica.rotation.stages", lambda rows, components: [None])
    whole = ICA(tol=1e-7).fit(x)
    assert staged.passes_ < whole.passes_ == whole.n_iter_
    assert same(staged.components_, whole.components_, atol=1e-3)


def test_a_part_of_the_rows_is_spread_over_all_of_them():
    data = TableMoments(torch.arange(10_000.0)[None, :, None], dtype=torch.float32, seed=0)
    mean, _ = data.mean_and_covariance()
    data.prepare(mean, torch.ones(1, 1, 1, dtype=torch.float64))
    part = data._part(1000)[0, :, 0] + float(mean)
    assert len(part.unique()) == 1000
    assert float(part.mean()) == pytest.approx(5000, rel=0.05)
    assert float(part.std()) == pytest.approx(10_000 / 12**0.5, rel=0.05)


# ---- precision, rank, batches ----------------------------------------------------------------------------------


def test_whitening_in_double_precision_survives_an_ill_conditioned_mixing():
    x, A = mixed(d=4)
    squeeze = np.diag([1.0, 1e-2, 1e-4, 1e-5]) @ np.linalg.qr(np.random.default_rng(0).normal(size=(4, 4)))[0]
    model = ICA().fit((x - 7) @ squeeze.T + 100)
    assert amari_distance(model.components_, squeeze @ A).score < 0.03


def test_columns_in_wildly_different_units_are_no_lack_of_rank():
    x, A = mixed()
    units = np.array([1e-9, 1.0, 1e9, 1e3, 1e-3])
    model = ICA().fit(x * units)
    assert model.rank_ == 5
    assert amari_distance(model.components_, units[:, None] * A).score < 0.03


def test_directions_without_variance_are_left_out():
    x, A = mixed(columns=7)
    model = ICA().fit(np.hstack([x, np.full((len(x), 1), 3.0)]))
    assert model.rank_ == 5
    assert model.components_.shape == (5, 8)
    assert (model.components_[:, 7] == 0).all()
    assert amari_distance(model.components_[:, :7], A).score < 0.03


def test_fewer_components_are_those_of_the_leading_principal_subspace():
    rng = np.random.default_rng(0)
    s = rng.laplace(size=(5000, 4)) * [10.0, 8, 0.1, 0.1]
    turn = np.linalg.qr(rng.normal(size=(4, 4)))[0]
    model = ICA(2).fit(s @ turn.T)
    assert amari_distance(model.components_ @ turn[:, :2], np.eye(2)).score < 0.05


def test_without_whitening_the_result_is_a_rotation_of_the_centred_rows():
    rng = np.random.default_rng(0)
    s = rng.laplace(size=(5000, 3)) * [3.0, 3.3, 2.7]
    turn = np.linalg.qr(rng.normal(size=(3, 3)))[0]
    model = ICA(whiten=False).fit(s @ turn.T + 5)
    shape = model.components_ @ model.components_.T
    np.testing.assert_allclose(shape, shape[0, 0] * np.eye(3), atol=1e-5)
    assert (s**2).mean() * shape[0, 0] == pytest.approx(1, rel=0.01)  # one scale for all
    assert amari_distance(model.components_, turn).score < 0.1


def test_restarts_run_as_one_batch_and_the_largest_contrast_is_kept():
    x, _ = mixed(kind="both")
    alone, many = ICA(random_state=0).fit(x), ICA(n_restarts=4, random_state=0).fit(x)
    assert many.restart_objectives_.shape == (4,)
    assert many.objective_ == many.restart_objectives_.max()
    assert many.restart_objectives_[0] == pytest.approx(alone.objective_, rel=1e-4)
    assert many.restart_agreement_ > 0.99


def test_the_objective_is_the_sum_of_squares_of_what_the_components_differ_from_a_gaussian_by():
    x, _ = mixed(kind="both")
    model = ICA(n_restarts=2, random_state=0).fit(x)
    assert model.objective_ == pytest.approx((model.non_gaussianity_**2).sum(), rel=1e-5)


def test_restarts_of_gaussian_rows_disagree_and_that_is_said():
    tables = (np.random.default_rng(seed).normal(size=(3000, 6)) for seed in range(12))
    agreements = [ICA(n_restarts=4, tol=1e-2).fit(x).restart_agreement_ for x in tables]
    assert sum(agreement < 0.9 for agreement in agreements) >= 7  # now and then four restarts do meet


def test_tables_fitted_as_one_batch_are_fitted_as_if_alone():
    tables = [mixed(rows=3000, d=6, seed=seed)[0] for seed in range(3)]
    for x, model in zip(tables, ICA(n_restarts=2).fit_many(tables), strict=True):
        alone = ICA(n_restarts=2).fit(x)
        assert same(model.components_, alone.components_, atol=5e-3)
        np.testing.assert_array_equal(model.transform(x).shape, x.shape)
        assert model.objective_ == pytest.approx(alone.objective_, rel=1e-3)


def test_the_same_seed_gives_the_same_bits():
    x, _ = mixed(rows=20_000)
    np.testing.assert_array_equal(ICA(random_state=5).fit(x).components_, ICA(random_state=5).fit(x).components_)


# ---- honest endings --------------------------------------------------------------------------------------------


def test_a_fit_that_has_not_come_to_rest_says_so():
    x, _ = mixed()
    with pytest.warns(ConvergenceWarning, match=r"not come to rest in 2 steps: a component still turns by"):
        model = ICA(max_iter=2).fit(x)
    assert not model.converged_
    assert model.change_ > model.tol
    assert model.n_iter_ == 2


def test_steps_are_halved_where_whole_ones_run_in_circles():
    class Circling(RowMoments):
        """A rotation whose whole step overshoots by far."""

        n_rows, n_features = 100, 2

        def moments(self, W, contrast, rows):
            angle = torch.atan2(W[:, 1, 0], W[:, 0, 0])
            back = angle - 1.2 * torch.tanh(3.2 * angle)
            turned = torch.stack([back.cos(), -back.sin(), back.sin(), back.cos()], dim=-1).reshape(-1, 2, 2)
            return turned, W.new_zeros(len(W), 2)

    start = torch.tensor([[[np.cos(0.3), -np.sin(0.3)], [np.sin(0.3), np.cos(0.3)]]], dtype=torch.float64)
    found = rotate(Circling(), start, contrast_called("cube"), tol=1e-8, max_iter=400)
    assert bool(found.converged[0])
    assert int(found.steps[0]) > 30  # the patience that whole steps were given
    torch.testing.assert_close(found.W[0].abs(), torch.eye(2, dtype=torch.float64), atol=1e-3, rtol=0)
    whole = Circling().moments(found.W, None, None)[0]
    assert float(change(whole, found.W)) < 1e-8  # rest is judged by whole steps, however short they have become


REFUSED = {
    "constant": (ICA(), np.ones((20, 3)), "x must vary. Got columns that are all constant"),
    "more columns than rows": (ICA(), np.random.default_rng(0).normal(size=(20, 30)), "more rows than components"),
    "too many components": (ICA(4), mixed(d=3)[0], "at most the rank of x, 3. Got 4"),
    "not a number": (ICA(), np.where(np.eye(9)[:, :3] > 0, np.nan, 1.0), "x must be finite. Got 3 NaN"),
    "contrast": (ICA(contrast="tanh"), mixed()[0], "contrast must be one of logcosh, exp, cube. Got 'tanh'"),
    "tolerance": (ICA(tol=-1), mixed()[0], "tol must be a finite number"),
    "no whitening": (ICA(2, whiten=False), mixed()[0], "n_latents must be left out without whitening"),
    "device": (ICA(device="abacus"), mixed()[0], "device must be auto or a torch device"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_unmixed_is_refused_in_a_sentence(case):
    model, x, sentence = REFUSED[case]
    with pytest.raises(InputError, match=sentence):
        model.fit(x)


def test_tables_of_different_shapes_or_ranks_are_no_batch():
    x, _ = mixed(rows=100)
    with pytest.raises(InputError, match=r"must share their shape. Got shapes \[\(90, 5\), \(100, 5\)\]"):
        ICA().fit_many([x, x[:90]])
    flat = x.copy()
    flat[:, 0] = flat[:, 1]
    with pytest.raises(InputError, match=r"must have one rank. Got ranks \[5, 4\]"):
        ICA().fit_many([x, flat])
    with pytest.raises(InputError, match="There must be a table to unmix"):
        ICA().fit_many([])


# ---- the contract ----------------------------------------------------------------------------------------------


def contract():
    for estimator, check in estimator_checks_generator(ICA()):
        name = getattr(check, "func", check).__name__
        if name != "check_do_not_raise_errors_in_init_or_set_params":
            yield pytest.param(estimator, check, id=name)


@pytest.mark.parametrize(("estimator", "check"), list(contract()))
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")  # a few rows of noise never rest
def test_scikit_learns_own_check_passes_for_ica(estimator, check):
    check(estimator)


def test_kinds_and_names_follow_the_input():
    x, _ = mixed(rows=500)
    frame = pd.DataFrame(x, columns=list("abcde"))
    model = ICA().fit(frame)
    assert model.get_feature_names_out().tolist() == [f"ica{k}" for k in range(5)]
    assert model.transform(frame.astype(np.float32)).dtype == np.float32
    with pytest.raises(ValueError, match="feature names"):
        model.transform(frame[list("edcba")])
    tensor = torch.as_tensor(x)
    assert isinstance(ICA().fit(tensor).transform(tensor), torch.Tensor)
    with pytest.raises(InputError, match=r"s must have 5 columns. Got 4"):
        model.inverse_transform(np.ones((2, 4)))


def test_a_clone_knows_nothing_and_a_copy_everything():
    x, _ = mixed(rows=500)
    model = ICA().fit(x)
    with pytest.raises(NotFittedError):
        clone(model).transform(x)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(model)).transform(x), model.transform(x))


def test_no_warning_is_raised_by_a_plain_fit():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert ICA().fit(mixed()[0]).converged_
