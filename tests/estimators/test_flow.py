"""A flow obeys the estimators' contract, knows its density, and its penalty acts on latents of unit spread."""

import pickle
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
import torch
from scipy.stats import multivariate_normal
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.utils.estimator_checks import estimator_checks_generator

import noumena as nm
from noumena.derivatives import jacobian
from noumena.estimators.flow import Flow, normal_log_density
from noumena.nets.couplings import Coupling, VolumePreserving

QUICK = nm.Training(steps=3, batch_size=16)
TINY = VolumePreserving(blocks=2, hidden=(4,))
MODELS = [
    Flow(coupling=TINY, training=QUICK, random_state=0),
    Flow(2, coupling=Coupling(blocks=2, hidden=(4,)), penalty=0.1 * nm.DependencySparsity(), n_models=2,
         training=QUICK, random_state=0),
]  # fmt: skip
OUTSIDE = "check_do_not_raise_errors_in_init_or_set_params"  # types are checked at run time here: run apart
SMALL = Coupling(blocks=4, hidden=(16,))


def data(n=60, d=4, seed=0):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, 2)) @ rng.normal(size=(2, d)) + 0.1 * rng.normal(size=(n, d))


def bent(n=2000, seed=0):
    """Two observations with a curved dependence, far from centred and of unlike spreads."""
    z = np.random.default_rng(seed).normal(size=(n, 2))
    return np.c_[5 + 3 * z[:, 0], 0.2 * (z[:, 1] + np.abs(z[:, 0]))]


def checks():
    for estimator, check in estimator_checks_generator(MODELS[0]):
        name = getattr(check, "func", check).__name__
        if name != OUTSIDE:
            yield pytest.param(estimator, check, id=name)


@pytest.mark.parametrize(("estimator", "check"), list(checks()))
def test_scikit_learns_own_check_passes(estimator, check):
    check(estimator)  # raises an AssertionError when the contract is broken


def test_odd_parameters_are_stored_and_only_refused_by_fit():
    code = f"""
from noumena.estimators.flow import Flow
from sklearn.utils.estimator_checks import {OUTSIDE} as check
check("Flow", Flow())
print("checked")
"""
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "checked\n"


@pytest.mark.parametrize("model", MODELS, ids=["square", "fewer latents"])
class TestEveryFlow:
    def test_init_only_stores_and_transform_before_fit_is_refused(self, model):
        assert not any(name.endswith("_") for name in vars(clone(model)))
        for verb in ("transform", "log_prob"):
            with pytest.raises(NotFittedError):
                getattr(clone(model), verb)(data())
        with pytest.raises(NotFittedError):
            clone(model).sample(3)

    def test_fit_leaves_the_parameters_as_given(self, model):
        fitted = clone(model).fit(data())
        assert fitted.get_params()["n_latents"] == model.n_latents
        assert repr(fitted) == repr(model)

    def test_shapes_and_dtypes_follow_the_input(self, model):
        x = data()
        fitted = clone(model).fit(x)
        z = fitted.transform(x)
        assert z.shape == (60, model.n_latents or 4)
        assert fitted.points_.shape == (model.n_models, 54, model.n_latents or 4)
        assert fitted.inverse_transform(z).shape == x.shape
        assert fitted.log_prob(x).shape == (60,)
        single = fitted.log_prob(torch.as_tensor(x, dtype=torch.float32))
        assert isinstance(single, torch.Tensor)
        assert np.allclose(single.numpy(), fitted.log_prob(x), atol=1e-3)
        assert fitted.transform(x.astype(np.float32)).dtype == np.float32

    def test_the_same_seed_gives_the_same_model_and_another_seed_another(self, model):
        x = data()
        a, b = clone(model).fit(x), clone(model).fit(x)
        other = clone(model).set_params(random_state=9).fit(x)
        assert np.array_equal(a.transform(x), b.transform(x))
        assert not np.allclose(a.transform(x), other.transform(x))

    def test_a_fitted_model_survives_pickling(self, model):
        x = data()
        fitted = clone(model).fit(x)
        again = pickle.loads(pickle.dumps(fitted))
        assert np.array_equal(fitted.transform(x), again.transform(x))
        assert np.array_equal(
            fitted.inverse_transform(fitted.transform(x)), again.inverse_transform(again.transform(x))
        )

    def test_weights_are_listed_once_and_bring_the_model_back(self, model):
        fitted = clone(model).fit(data())
        state = fitted.models_[0].state_dict()
        assert not any(name.startswith("decoder") for name in state)
        fresh = fitted._model(7, 4, torch.zeros(4), torch.ones(4))
        fresh.load_state_dict(state)
        z = torch.as_tensor(fitted.points_[0]).float()
        assert torch.equal(fresh.decode(z), fitted.models_[0].decode(z))

    def test_gradients_reach_every_parameter(self, model):
        fresh = clone(model).fit(data())._model(5, 4, torch.zeros(4), torch.ones(4))
        draws = fresh.draws(20, torch.Generator().manual_seed(0))
        loss, _ = fresh(torch.as_tensor(data()[:20], dtype=torch.float32), draws, 1.0)
        loss.backward()
        assert all(p.grad is not None and bool((p.grad != 0).any()) for p in fresh.parameters())


@pytest.mark.parametrize("builder", [TINY, Coupling(2, (4,)), Coupling(2, (4,), transform="spline", bins=3)])
@pytest.mark.parametrize("n_latents", [2, 4])
def test_the_gradient_of_the_penalty_alone_reaches_every_parameter(builder, n_latents):
    model = Flow(n_latents, coupling=builder, penalty=nm.DependencySparsity(), training=QUICK)
    fresh = model._model(5, 4, torch.zeros(4), torch.ones(4))
    draws = fresh.draws(20, torch.Generator().manual_seed(0))
    _, terms = fresh(torch.as_tensor(data()[:20], dtype=torch.float32), draws, 1.0)
    terms["penalty"].backward()
    assert all(p.grad is not None and bool((p.grad != 0).any()) for p in fresh.parameters())


@pytest.mark.parametrize("n_latents", [None, 2])
def test_three_models_in_one_program_equal_three_fits(n_latents):
    training = nm.Training(steps=5, batch_size=32, dtype="float64")
    settings = {"coupling": VolumePreserving(2, (6,)), "penalty": 0.1 * nm.DependencySparsity(), "training": training}
    x = data()
    together = Flow(n_latents, n_models=3, random_state=4, **settings).fit(x)
    for k in range(3):
        alone = Flow(n_latents, random_state=4 + k, **settings).fit(x)
        assert np.allclose(together.objectives_[k], alone.objectives_[0], rtol=1e-9)
        assert np.allclose(together.transform_all(x)[k], alone.transform(x), atol=1e-8)
    assert len({round(float(o), 6) for o in together.objectives_}) == 3


# ---- the density -----------------------------------------------------------------------------------------


@pytest.fixture(scope="module", params=[VolumePreserving(4, (16,)), SMALL], ids=["volume-preserving", "affine"])
def fitted(request):
    training = nm.Training(steps=150, batch_size=128)
    return Flow(coupling=request.param, training=training, random_state=0).fit(bent())


def test_the_density_integrates_to_one_in_the_units_of_the_data(fitted):
    first, second = np.linspace(-20, 30, 251), np.linspace(-3, 4, 281)
    grid = np.stack(np.meshgrid(first, second, indexing="ij"), axis=-1).reshape(-1, 2)
    cell = (first[1] - first[0]) * (second[1] - second[0])
    assert np.exp(fitted.log_prob(grid)).sum() * cell == pytest.approx(1, abs=0.01)


def test_the_inverse_transform_is_exact(fitted):
    x = bent(50, seed=3)
    assert np.allclose(fitted.inverse_transform(fitted.transform(x)), x, rtol=0, atol=1e-9)


def test_latents_have_unit_spread_and_the_spread_of_the_prior_is_learned(fitted):
    z = fitted.transform(bent(5000, seed=5))
    assert np.allclose(z.mean(axis=0), 0, atol=0.15)
    assert np.allclose(z.std(axis=0), 1, atol=0.1)
    assert float(fitted.models_[0].encoder.log_spread.abs().max()) > 0.02


def test_the_log_density_is_that_of_the_latents_and_the_decoder(fitted):
    x = bent(20, seed=4)
    z = torch.as_tensor(fitted.transform(x))
    decoder = fitted.decoder_.double()
    change = torch.linalg.slogdet(jacobian(decoder, z)).logabsdet
    assert np.allclose(fitted.log_prob(x), (normal_log_density(z) - change).numpy(), atol=1e-8)


def test_samples_have_the_moments_of_the_data(fitted):
    x, new = bent(20_000, seed=9), fitted.sample(20_000, random_state=1)
    assert np.allclose(new.mean(axis=0), x.mean(axis=0), rtol=0, atol=0.1 * x.std(axis=0))
    assert np.allclose(new.std(axis=0), x.std(axis=0), rtol=0.1)
    assert np.array_equal(new, fitted.sample(20_000, random_state=1))
    assert not np.allclose(new, fitted.sample(20_000, random_state=2))
    with pytest.raises(nm.InputError, match="n must be"):
        fitted.sample(0)
    with pytest.raises(nm.InputError, match="random_state must be"):
        fitted.sample(1, random_state=-1)


def test_the_density_of_gaussian_data_approaches_the_truth():
    A = np.array([[2.0, 0.0], [1.0, 0.5]])
    x = 3 + np.random.default_rng(0).normal(size=(4000, 2)) @ A.T
    model = Flow(coupling=VolumePreserving(3, (8,)), training=nm.Training(steps=200), random_state=0).fit(x)
    fresh = 3 + np.random.default_rng(1).normal(size=(4000, 2)) @ A.T
    truth = multivariate_normal([3, 3], A @ A.T)
    assert model.log_prob(fresh).mean() == pytest.approx(-truth.entropy(), abs=0.05)
    assert np.corrcoef(model.log_prob(fresh), truth.logpdf(fresh))[0, 1] > 0.97


def test_standardisation_changes_no_units_of_the_density():
    x = bent()
    model = Flow(coupling=TINY, training=QUICK, standardise=False, random_state=0).fit(x)
    assert torch.equal(model.models_[0].scale, torch.ones(2))
    z = torch.as_tensor(model.transform(x[:9]))
    change = torch.linalg.slogdet(jacobian(model.decoder_.double(), z)).logabsdet
    assert np.allclose(model.log_prob(x[:9]), (normal_log_density(z) - change).numpy(), atol=1e-8)


# ---- the terms of the objective --------------------------------------------------------------------------


def test_the_objective_is_the_sum_of_its_terms_and_nll_is_minus_the_log_density():
    x = data()
    penalty = 0.3 * nm.DependencySparsity("l1")
    model = Flow(coupling=TINY, penalty=penalty, training=QUICK, random_state=0).fit(x)
    assert set(model.terms_) == {"nll", "reconstruction", "penalty"}
    assert (model.terms_["reconstruction"] == 0).all()
    assert np.allclose(model.objectives_, model.terms_["nll"] + model.terms_["penalty"])
    codec, rows = model.models_[0], torch.as_tensor(x).float()
    standard = (rows - codec.mean) / codec.scale
    with torch.no_grad():
        loss, terms = codec(standard, codec.draws(60, torch.Generator()), 1.0)
        J = jacobian(codec.decoder, codec.code(standard))
    assert float(terms["nll"]) == pytest.approx(-model.log_prob(x).mean() - float(codec.scale.log().sum()), abs=1e-4)
    assert float(terms["penalty"]) == pytest.approx(0.3 * float(J.abs().sum(dim=(1, 2)).mean()), rel=1e-4)
    assert model.score(x) == pytest.approx(-float(loss), abs=1e-5)


def test_stretching_coordinates_behind_the_prior_changes_nothing():
    fresh = MODELS[0]._model(0, 4, torch.zeros(4), torch.ones(4))
    x = torch.as_tensor(data(), dtype=torch.float32)
    before = fresh.encoder.units(x), fresh.decoder(fresh.code(x))
    stretch = torch.tensor([1.0, -1.0, 2.0, -2.0])
    coupling = fresh.encoder.coupling
    fresh.encoder.coupling = Stretched(coupling, stretch)
    with torch.no_grad():
        fresh.encoder.log_spread += stretch
    after = fresh.encoder.units(x), fresh.decoder(fresh.code(x))
    torch.testing.assert_close(before, after)


class Stretched(torch.nn.Module):
    def __init__(self, net, stretch):
        super().__init__()
        self.net, self.stretch = net, stretch

    def forward(self, x):
        u, logdet = self.net(x)
        return u * self.stretch.exp(), logdet + self.stretch.sum()

    def inverse(self, u):
        return self.net.inverse(u * (-self.stretch).exp())


# ---- fewer latents than observations ---------------------------------------------------------------------


def test_with_fewer_latents_the_noise_is_left_out_and_the_signal_kept():
    rng = np.random.default_rng(0)
    s = rng.normal(size=(3000, 1))
    clean = np.c_[s, np.abs(s), -2 * s]
    x = clean + 0.1 * clean.std(axis=0) * rng.normal(size=clean.shape)
    training = nm.Training(steps=150, batch_size=128)
    model = Flow(1, coupling=VolumePreserving(4, (16,)), training=training, random_state=0).fit(x)
    z = model.transform(x)
    assert set(model.terms_) == {"nll", "reconstruction"}
    assert np.allclose(model.objectives_, model.terms_["nll"] + model.terms_["reconstruction"] / (2 * 0.1**2))
    assert nm.metrics.mcc(s, z, correlation="spearman").score > 0.95
    share = ((model.inverse_transform(z) - clean) ** 2).mean(axis=0) / clean.var(axis=0)
    assert (share < 0.05).all()
    new = model.sample(5000)
    assert np.allclose(np.cov(new.T), np.cov(x.T), atol=0.15 * np.abs(np.cov(x.T)).max())
    assert np.allclose(z.std(axis=0), 1, atol=0.15)


def test_rows_without_volume_are_fitted_all_the_same():
    z = np.random.default_rng(0).normal(size=(500, 1))
    model = Flow(1, coupling=TINY, training=nm.Training(steps=60), random_state=0).fit(np.c_[z, 2 * z])
    assert np.isfinite(model.objectives_).all()
    assert np.abs(np.corrcoef(model.transform(np.c_[z, 2 * z])[:, 0], z[:, 0])[0, 1]) > 0.98


# ---- recovery --------------------------------------------------------------------------------------------


def test_the_penalty_finds_sparse_sources_that_likelihood_alone_leaves_mixed():
    z = np.random.default_rng(0).normal(size=(4000, 2))
    x = np.c_[z[:, 0], z[:, 0] + 0.8 * z[:, 1] + 0.3 * np.abs(z[:, 0])]
    training = nm.Training(steps=150, batch_size=64)
    settings = {"coupling": VolumePreserving(2, (16,)), "n_models": 3, "training": training, "random_state": 0}
    plain = Flow(**settings).fit(x)
    sparse = Flow(penalty=0.2 * nm.DependencySparsity(), **settings).fit(x)
    worst = min(nm.metrics.mcc(z, one).score for one in plain.transform_all(x))
    assert worst < 0.9
    assert nm.metrics.mcc(z, sparse.transform(x)).score > 0.97
    assert len(sparse.structure_) == 3
    assert sparse.terms_["nll"].min() < plain.terms_["nll"].min() + 0.1


# ---- what is refused -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("model", "x", "sentence"),
    [
        (Flow(5, coupling=TINY), data(), "at most as many latents as x has columns, 4. Got 5"),
        (Flow(0), data(), "n_latents must be a whole number"),
        (Flow(2, noise=0.0), data(), "noise must be"),
        (Flow(noise=0.0), data(), "noise must be"),
        (Flow(n_models=0), data(), "n_models must be"),
        (Flow().set_params(penalty=3), data(), "penalty must be a Penalty"),
        (Flow(), data()[:, :1], "two dimensions or more. Got 1"),
        (Flow(), data(n=3), "at least as many rows as latents. Got 3 rows and 4 latents"),
        (Flow(coupling=lambda i, o: "net"), data(), "must return a torch module"),
        (Flow(coupling=nm.MLP()), data(), "module with an inverse. Got Sequential"),
    ],
)
def test_bad_input_is_one_sentence(model, x, sentence):
    with pytest.raises(nm.InputError, match=sentence) as caught:
        model.fit(x)
    assert "\n" not in str(caught.value)


def test_names_of_columns_reach_the_structure_and_the_output():
    frame = pd.DataFrame(data(), columns=["a", "b", "c", "d"])
    model = clone(MODELS[0]).fit(frame)
    assert model.structure_.observed == ("a", "b", "c", "d")
    assert list(model.get_feature_names_out()) == ["flow0", "flow1", "flow2", "flow3"]
