"""Degenerate mixtures: the seeds of stage 1, the way back through both stages, and the contract of estimators."""

import pickle

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.decomposition import PCA, FastICA
from sklearn.exceptions import NotFittedError
from sklearn.utils.estimator_checks import estimator_checks_generator
from sparse_rows import ICA, Unbent, affine_world, sparse_latents

import noumena as nm
from noumena.checks import DivergenceError, InputError
from noumena.estimators.autoencoder import Autoencoder
from noumena.estimators.sparse.degenerate import DegenerateMixture
from noumena.estimators.sparse.lagrangian import ConstrainedComponents
from noumena.estimators.sparse.stages import (
    fit_seeds,
    published_stage1,
)
from noumena.metrics import mcc

SHORT = Autoencoder(3, normalise=True, training=nm.Training(steps=30, batch_size=64))


# ---- stage 1 ---------------------------------------------------------------------------------------------


def test_the_published_stage_has_the_published_settings():
    model = published_stage1(4)
    assert model.encoder.hidden == model.decoder.hidden == (200, 400, 400, 200)
    assert model.encoder.slope == 0.02
    assert model.normalise
    assert not model.standardise
    training = model.training
    assert (training.steps, training.batch_size, training.learning_rate) == (5000, 6144, 1e-4)


def test_the_standardised_code_makes_the_published_norm_a_constant():
    _, x = affine_world(rows=500)
    small = published_stage1(3).set_params(training=nm.Training(steps=3))
    z = small.fit(x).transform(x)
    assert 0.5 * (z**2).sum(axis=1).mean() == pytest.approx(1.5, abs=0.15)


def test_the_seed_with_the_lowest_density_is_used_throughout():
    _, x = affine_world(rows=600)
    model = DegenerateMixture(stage1=SHORT, solver=PCA(), n_models=3, random_state=5).fit(x)
    assert model.densities_.shape == (3,)
    assert len(np.unique(model.densities_)) == 3
    assert model.stage1_.best_ == model.densities_.argmin()
    assert model.criteria_.density == model.densities_.min()
    assert model.stage1_.seeds_ == [5, 6, 7]
    code = model.stage1_.transform_all(x)[model.densities_.argmin()]
    assert np.allclose(model.transform(x), model.stage2_.transform(code), atol=1e-5)


def test_stages_without_n_models_are_fitted_seed_by_seed_and_those_without_a_seed_once():
    _, x = affine_world(rows=100)
    several = fit_seeds(FastICA(max_iter=1, tol=1e9, whiten="unit-variance"), x, 3, 4)
    assert [stage.random_state for stage in several] == [4, 5, 6]
    assert len(fit_seeds(Unbent(), x, 3, 4)) == 1


def test_seeds_that_diverged_are_left_out_and_if_all_have_it_is_said(monkeypatch):
    _, x = affine_world(rows=300)

    def fit(self, x, y=None):
        fitted = plain(self, x)
        fitted.diverged_ = lost
        return fitted

    plain = Autoencoder.fit
    monkeypatch.setattr(Autoencoder, "fit", fit)
    lost = np.array([True, False])
    assert [stage.best_ for stage in fit_seeds(SHORT, x, 2, 0)] == [1]
    lost = np.array([True, True])
    with pytest.raises(DivergenceError, match="Every seed of stage 1"):
        DegenerateMixture(stage1=SHORT, solver=PCA(), n_models=2).fit(x)


def test_a_stage_stopped_by_hand_stops_the_fit(monkeypatch):
    def fit(self, x, y=None):
        self.interrupted_ = True
        return self

    monkeypatch.setattr(Autoencoder, "fit", fit)
    with pytest.raises(KeyboardInterrupt):
        DegenerateMixture(stage1=SHORT, solver=PCA()).fit(affine_world()[1])


def test_the_estimators_handed_in_are_cloned():
    _, x = affine_world(rows=300)
    stage1, solver = Unbent(), PCA()
    DegenerateMixture(stage1=stage1, solver=solver).fit(x)
    assert not hasattr(stage1, "rows_")
    assert not hasattr(solver, "components_")


# ---- the chain and the contract --------------------------------------------------------------------------


@pytest.mark.parametrize("stage1", ["identity", SHORT], ids=["identity", "autoencoder"])
def test_the_decoder_is_the_way_back_and_has_derivatives(stage1):
    _, x = affine_world(rows=400)
    model = DegenerateMixture(stage1=stage1, solver=PCA()).fit(x)
    z = torch.as_tensor(model.transform(x[:5]), dtype=torch.float32, device="cpu").requires_grad_()
    back = model.decoder_(z)
    assert np.allclose(back.detach().numpy(), model.inverse_transform(z.detach().numpy()), atol=1e-3)
    back.sum().backward()
    assert bool((z.grad != 0).all())


def test_a_stage_without_a_way_back_still_transforms_and_says_what_is_missing():
    class OneWay(TransformerMixin, BaseEstimator):
        def fit(self, x, y=None):
            return self

        def transform(self, x):
            return x

    _, x = affine_world()
    model = DegenerateMixture(stage1=OneWay(), solver=ICA).fit(x)
    assert np.isnan(model.criteria_.explained)
    with pytest.raises(InputError, match=r"stage1 must have inverse_transform .* Got a OneWay"):
        model.inverse_transform(model.transform(x))
    with pytest.raises(InputError, match="stage1 must have decoder_"):
        _ = model.decoder_


def test_the_mixture_of_the_code_can_be_certified():
    _, x = affine_world(n=4)
    model = DegenerateMixture(stage1="identity", solver="sparse", threshold=0.02).fit(x)
    assert sorted(model.masks_.sum(axis=1)) == [3, 3, 3, 3]
    reading = nm.certify(model.mixture_, by="degenerate", explained=model.criteria_.explained)
    answers = {h.name: h.answer for t in reading.theorems for h in t.hypotheses}
    assert answers["3.8a every support is spanned by axes"] != "no"
    assert answers["3.8b supports vary sufficiently"] != "no"


@pytest.mark.parametrize("solver", ["sparse", "paper"])
def test_solvers_are_known_by_name(solver):
    chosen = DegenerateMixture(2, solver=solver, device="cpu")._solver(7)
    assert type(chosen).__name__ == {"sparse": "SparseComponents", "paper": "ConstrainedComponents"}[solver]
    size = {"sparse": "n_latents", "paper": "n_components"}[solver]
    assert chosen.get_params() | {size: 2, "random_state": 7} == chosen.get_params()


def test_the_papers_solver_works_in_the_chain():
    z = sparse_latents()
    x = z / z.std(axis=0) @ np.linalg.qr(np.random.default_rng(1).normal(size=(3, 3)))[0]
    solver = ConstrainedComponents(steps=300, learning_rate=0.02, dual_learning_rate=1e-3, layers=(4,))
    model = DegenerateMixture(stage1="identity", solver=solver).fit(x)
    assert mcc(z, model.transform(x)).score > 0.95


def test_sparse_latents_with_an_offset_are_found_by_default():
    z, x = affine_world()
    model = DegenerateMixture(nonlinear=SHORT).fit(x)
    assert model.choice_.chosen == "identity"
    assert mcc(z, model.transform(x)).score > 0.99


def test_kind_precision_and_names_follow_the_input():
    _, x = affine_world(rows=300)
    frame = pd.DataFrame(x, columns=["a", "b", "c"])
    named = DegenerateMixture(stage1="identity", solver=PCA()).fit(frame)
    assert list(named.feature_names_in_) == ["a", "b", "c"]
    assert named.get_feature_names_out()[0] == "degeneratemixture0"
    assert list(named.set_output(transform="pandas").transform(frame).columns) == list(named.get_feature_names_out())
    model = DegenerateMixture(stage1=SHORT, solver=PCA()).fit(x)
    tensor = model.transform(torch.as_tensor(x, dtype=torch.float32))
    assert isinstance(tensor, torch.Tensor)
    assert tensor.dtype == torch.float32
    assert np.allclose(tensor.numpy(), model.transform(x), atol=1e-4)
    assert isinstance(model.inverse_transform(tensor), torch.Tensor)


def test_the_same_seed_gives_the_same_model_another_seed_another_and_pickling_changes_nothing():
    _, x = affine_world(rows=300)
    fit = [DegenerateMixture(stage1=SHORT, solver=PCA(), random_state=s).fit(x) for s in (0, 0, 1)]
    codes = [model.transform(x) for model in fit]
    assert np.array_equal(codes[0], codes[1])
    assert not np.allclose(codes[0], codes[2])
    assert np.array_equal(pickle.loads(pickle.dumps(fit[0])).transform(x), codes[0])


def test_parameters_of_the_stages_can_be_set_and_cloned():
    model = clone(DegenerateMixture(stage1=SHORT, solver=PCA()))
    model.set_params(stage1__training__steps=7, solver__n_components=2)
    assert (model.stage1.training.steps, model.solver.n_components) == (7, 2)
    assert SHORT.training.steps == 30


def test_transform_before_fit_is_refused():
    with pytest.raises(NotFittedError):
        DegenerateMixture().transform(affine_world()[1])


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"n_latents": 0}, "n_latents must be a whole number"),
        ({"n_models": 0}, "n_models must be"),
        ({"margin": -1}, "margin must be"),
        ({"threshold": 2}, "threshold must be"),
        ({"held_out": 0}, "held_out must be"),
        ({"stage1": "bend"}, "stage1 must be one of auto, identity, flow, autoencoder"),
        ({"stage1": 3}, "stage1 must be one of auto, identity, flow, autoencoder or an estimator with fit, transform"),
        ({"stage1": "auto", "nonlinear": 3}, "nonlinear must be an estimator with fit, transform, inverse_transform"),
        ({"solver": "newton"}, "solver must be one of sparse, paper"),
        ({"solver": 3}, "solver must be one of sparse, paper or an estimator"),
    ],
)
def test_bad_settings_are_one_sentence(settings, sentence):
    with pytest.raises(InputError, match=sentence) as caught:
        DegenerateMixture(stage1="identity", solver=PCA()).set_params(**settings).fit(affine_world()[1])
    assert "\n" not in str(caught.value)


def test_bad_rows_are_one_sentence():
    _, x = affine_world(rows=100)
    model = DegenerateMixture(stage1="identity", solver=PCA())
    with pytest.raises(InputError, match="vary in every column"):
        model.fit(np.c_[x, np.ones(100)])
    with pytest.raises(InputError, match="at least 4 rows"):
        model.fit(x[:3])
    with pytest.raises(InputError, match="z must have 3 columns"):
        model.fit(x).inverse_transform(x[:, :2])


OUTSIDE = "check_do_not_raise_errors_in_init_or_set_params"  # types are checked at run time here
EXAMPLE = DegenerateMixture(stage1="identity", solver=PCA())
CHECKS = [(e, c) for e, c in estimator_checks_generator(EXAMPLE) if getattr(c, "func", c).__name__ != OUTSIDE]


@pytest.mark.parametrize(("estimator", "check"), CHECKS, ids=lambda v: getattr(getattr(v, "func", v), "__name__", ""))
def test_scikit_learns_own_check_passes(estimator, check):
    check(estimator)  # raises an AssertionError when the contract is broken
