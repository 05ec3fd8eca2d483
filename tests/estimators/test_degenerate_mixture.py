"""Degenerate mixtures in two stages: the first is used only where it pays, and nothing sees the truth."""

import dataclasses
import pickle
import re
import warnings

import numpy as np
import pandas as pd
import pytest
import torch
from scipy.stats import norm
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.decomposition import PCA, FastICA
from sklearn.exceptions import NotFittedError
from sklearn.utils.estimator_checks import estimator_checks_generator

import noumena as nm
from noumena.checks import DivergenceError, InputError
from noumena.estimators.autoencoder import Autoencoder
from noumena.estimators.degenerate import DegenerateMixture
from noumena.estimators.lagrangian import ConstrainedComponents
from noumena.estimators.stages import (
    Criteria,
    Identity,
    active,
    choose,
    code_density,
    fit_seeds,
    normality,
    published_stage1,
)
from noumena.metrics import mcc

ICA = FastICA(whiten="unit-variance", random_state=0, max_iter=1000, tol=1e-6)
SHORT = Autoencoder(3, normalise=True, training=nm.Training(steps=30, batch_size=64))


def sparse_latents(n=3, rows=3000, seed=0):
    """Gaussian latents of which one is silenced in every row, with unequal spreads."""
    random = np.random.default_rng(seed)
    silent = np.arange(n) == random.integers(n, size=rows)[:, None]
    return random.normal(size=(rows, n)) * (1 + np.arange(n)) * ~silent


def affine_world(seed=0, **settings):
    z = sparse_latents(seed=seed, **settings)
    n = z.shape[1]
    return z, z @ np.random.default_rng(seed + 1).normal(size=(n, n)).T + 3


def bent_world():
    z, h = affine_world(n=3)
    h = h - 3
    return z, np.where(h > 0, h, 0.3 * h)


class Unbent(TransformerMixin, BaseEstimator):
    """A stage 1 that knows the mixing ``x = max(h, 0.3 h)``, ``h = A z``; ``wrong`` shifts what it rebuilds."""

    def __init__(self, wrong=0.0):
        self.wrong = wrong

    def fit(self, x, y=None):
        self.rows_ = len(x)
        return self

    def transform(self, x):
        return np.where(x > 0, x, x / 0.3)

    def inverse_transform(self, z):
        return np.where(z > 0, z, 0.3 * z) + self.wrong


# ---- what can be said of a code without the truth --------------------------------------------------------


def density(z):
    return float(code_density(torch.as_tensor(z)))


def test_density_is_blind_to_order_and_scale_and_rises_with_mixing_offsets_and_copies():
    z = sparse_latents()
    plain = density(z)
    assert density(z[:, ::-1] * [-2, 0.1, 30]) == pytest.approx(plain)
    angle = np.deg2rad(20)
    turn = np.array([[np.cos(angle), -np.sin(angle), 0], [np.sin(angle), np.cos(angle), 0], [0, 0, 1]])
    assert density(z / z.std(axis=0) @ turn) > plain + 0.05
    assert density(z + z.std(axis=0)) > plain + 0.05
    assert density(z[:, [0, 1, 1]]) > plain + 0.5


def test_density_is_near_the_share_of_active_entries_and_higher_for_a_dense_code():
    random = np.random.default_rng(0)
    assert density(random.normal(size=(5000, 3)) * (random.random((5000, 3)) < 0.2)) == pytest.approx(0.2, abs=0.05)
    assert density(random.normal(size=(5000, 3))) == pytest.approx(0.8, abs=0.05)


def test_a_dead_latent_costs_as_a_copy_does():
    z = sparse_latents()
    assert density(z * [1, 1, 0]) > density(z) + 0.5


def test_active_entries_are_beyond_a_share_of_their_latents_size():
    z = sparse_latents()
    assert np.array_equal(active(z, 1e-6), z != 0)
    assert active(z * [1, 1e-3, 1e3], 0.1).mean() == pytest.approx(active(z, 0.1).mean())
    assert active(z, 0.5).mean() < active(z, 0.1).mean()


def test_normality_is_judged_within_components_and_only_where_latents_are_active():
    z = np.zeros((400, 2))
    grid = norm.ppf((np.arange(200) + 0.5) / 200)
    z[:200, 0], z[200:, 1] = 5 + grid, 7 * grid
    assert normality(z, z != 0) == pytest.approx(1)
    assert normality(z, np.ones_like(z, dtype=bool)) < 0.9  # one component with everything in it is not Gaussian
    z[:200, 0] = np.exp(2 * grid)
    by_hand = np.corrcoef(np.sort(z[:200, 0]), grid)[0, 1] ** 2
    assert normality(z, z != 0) == pytest.approx((by_hand + 1) / 2)


def test_small_components_are_not_judged():
    z = sparse_latents(rows=20)
    assert np.isnan(normality(z, np.ones_like(z, dtype=bool)))


# ---- the choice ------------------------------------------------------------------------------------------

GOOD, SPARSER = Criteria(1.0, 0.6, 0.7, 0.9), Criteria(0.96, 0.5, 0.5, 0.95)


def test_the_nonlinear_stage_is_chosen_when_it_rebuilds_and_is_sparser():
    choice = choose(GOOD, SPARSER, margin=0.02)
    assert choice.chosen == "nonlinear"
    assert (choice.identity, choice.nonlinear) == (GOOD, SPARSER)
    for number in ("0.500", "0.02", "0.600", "0.960", "1.000"):
        assert number in choice.reason


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"explained": 0.94}, "must explain at least 0.95 .* explains 0.940"),
        ({"explained": float("nan")}, "must explain"),
        ({"density": 0.59}, "density 0.580 or less, 0.02 below .* gives 0.590"),
        ({"density": 0.6}, "gives 0.600"),
        ({"density": float("nan")}, "density"),
    ],
)
def test_otherwise_and_in_ties_the_identity_is(changes, words):
    choice = choose(GOOD, dataclasses.replace(SPARSER, **changes), margin=0.02)
    assert choice.chosen == "identity"
    assert re.search(words, choice.reason)


def test_what_must_be_explained_is_relative_to_the_identity():
    assert choose(dataclasses.replace(GOOD, explained=0.9), SPARSER, margin=0.02).chosen == "nonlinear"
    poor = dataclasses.replace(SPARSER, explained=0.86)
    assert choose(dataclasses.replace(GOOD, explained=0.9), poor, margin=0.02).chosen == "nonlinear"


def test_in_an_affine_world_the_identity_is_chosen_and_the_latents_found():
    z, x = affine_world()
    model = DegenerateMixture(solver=ICA, nonlinear=Unbent()).fit(x)
    assert model.choice_.chosen == "identity"
    assert isinstance(model.stage1_, Identity)
    assert mcc(z, model.transform(x)).score > 0.98
    assert model.choice_.identity.explained == pytest.approx(1)
    assert model.choice_.identity == model.criteria_
    assert model.choice_.nonlinear.density > model.criteria_.density


def test_a_nonlinear_stage_that_undoes_the_mixing_is_chosen():
    z, x = bent_world()
    model = DegenerateMixture(solver=ICA, nonlinear=Unbent()).fit(x)
    assert model.choice_.chosen == "nonlinear"
    assert model.criteria_ == model.choice_.nonlinear
    assert mcc(z, model.transform(x)).score > 0.98
    assert model.criteria_.normality > model.choice_.identity.normality
    assert model.criteria_.active < model.choice_.identity.active
    assert np.allclose(model.inverse_transform(model.transform(x)), x)


def test_a_nonlinear_stage_that_cannot_rebuild_or_is_not_sparser_by_the_margin_is_not():
    _, x = bent_world()
    far = DegenerateMixture(solver=ICA, nonlinear=Unbent(wrong=1e3)).fit(x)
    assert far.choice_.chosen == "identity"
    assert "explain" in far.choice_.reason
    strict = DegenerateMixture(solver=ICA, nonlinear=Unbent(), margin=0.9).fit(x)
    assert strict.choice_.chosen == "identity"
    assert "0.9 below" in strict.choice_.reason


class Picky(PCA):
    """A stage 2 that refuses codes whose mean is positive or negative, and warns of the others."""

    def __init__(self, n_components=None, sign=1):
        super().__init__(n_components)
        self.sign = sign

    def fit(self, x, y=None):
        if self.sign * x.mean() > 0:
            raise InputError("x must be sparse. Got nothing of the kind.")
        warnings.warn(f"Seen {np.sign(x.mean()):g}.", stacklevel=2)
        return super().fit(x)


class Negated(TransformerMixin, BaseEstimator):
    """A stage 1 that turns the sign; it comes back in ``part``."""

    def __init__(self, part=1.0):
        self.part = part

    def fit(self, x, y=None):
        return self

    def transform(self, x):
        return -x

    def inverse_transform(self, z):
        return -self.part * z


@pytest.mark.parametrize(("sign", "chosen"), [(1, "nonlinear"), (-1, "identity")])
def test_a_code_that_stage_two_refuses_loses_and_only_warnings_of_the_other_are_heard(sign, chosen):
    _, x = affine_world(rows=300)
    with pytest.warns(UserWarning, match=f"Seen {-sign}") as heard:
        model = DegenerateMixture(solver=Picky(sign=sign), nonlinear=Negated()).fit(np.abs(x))
    assert len(heard) == 1
    assert model.choice_.chosen == chosen
    assert "stage 2 said: x must be sparse. Got nothing of the kind." in model.choice_.reason
    assert (model.choice_.identity is None) == (chosen == "nonlinear")


def test_if_stage_two_refuses_all_codes_or_the_other_cannot_rebuild_its_sentence_is_raised():
    _, x = affine_world(rows=300)
    with pytest.raises(InputError, match="Got nothing of the kind"):
        DegenerateMixture(stage1="identity", solver=Picky()).fit(np.abs(x))
    with pytest.raises(InputError, match="Got nothing of the kind"):
        DegenerateMixture(solver=Picky(), nonlinear=Negated(part=0.0)).fit(np.abs(x))


def test_explained_is_one_minus_the_share_of_variance_lost():
    _, x = affine_world()
    x = (x - x.mean(axis=0)) / x.std(axis=0)
    flat = DegenerateMixture(stage1="identity", solver=PCA(1)).fit(x)
    share = PCA(1).fit(x).explained_variance_ratio_[0]
    assert flat.criteria_.explained == pytest.approx(share, abs=0.03)


def test_rows_that_judge_are_seen_by_neither_stage():
    seen = []

    class Spy(PCA):
        def fit(self, x, y=None):
            seen.append(np.array(x))
            return super().fit(x)

    _, x = affine_world(rows=200)
    x = x * [1, 10, 100]
    model = DegenerateMixture(stage1="identity", solver=Spy(2), held_out=0.25).fit(x)
    kept = seen[0]
    unseen = x[[not (kept == row).all(axis=1).any() for row in x]]
    assert (len(kept), len(unseen)) == (150, 50)
    z = model.transform(unseen)
    assert model.criteria_.density == pytest.approx(density(z))
    assert model.criteria_.active == pytest.approx(active(z, 0.1).mean())
    lost = ((unseen - model.inverse_transform(z)) / kept.std(axis=0)) ** 2
    assert model.criteria_.explained == pytest.approx(1 - lost.mean())


def test_a_stage_that_was_asked_for_is_used_and_said_to_be():
    _, x = affine_world()
    identity = DegenerateMixture(stage1="identity", solver=ICA).fit(x)
    assert identity.choice_.reason == "The identity: it was asked for."
    assert identity.choice_.nonlinear is None
    given = DegenerateMixture(stage1=Unbent(), solver=ICA).fit(x)
    assert given.choice_.reason == "The nonlinear stage 1: it was asked for."
    assert given.choice_.identity is None
    assert isinstance(given.stage1_, Unbent)


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
    reading = nm.degenerate_ladder(model.mixture_, explained=model.criteria_.explained)
    answers = {h.name: h.answer for t in reading.theorems for h in t.hypotheses}
    assert answers["3.8a every support is spanned by axes"] != "no"
    assert answers["3.8b supports vary sufficiently"] != "no"


@pytest.mark.parametrize("solver", ["sparse", "paper"])
def test_solvers_are_known_by_name(solver):
    chosen = DegenerateMixture(2, solver=solver, device="cpu")._solver(7)
    assert type(chosen).__name__ == {"sparse": "SparseComponents", "paper": "ConstrainedComponents"}[solver]
    assert (chosen.n_components, chosen.random_state) == (2, 7)


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
