"""The estimators obey scikit-learn's contract."""

import pickle
import re
from dataclasses import dataclass

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import estimator_checks_generator

import noumena as nm

QUICK = nm.Training(steps=4, batch_size=16)
MODELS = [
    nm.Autoencoder(training=QUICK, random_state=0),
    nm.VAE(training=QUICK, random_state=0),
    nm.BetaVAE(training=QUICK, random_state=0, n_models=2),
    nm.SlotAutoencoder(2, 1, training=QUICK, random_state=0),
    nm.VaDE(2, 2, pretraining=3, training=QUICK, random_state=0),
    nm.MFCVAE(((1, 2), (1, 3)), pretraining=2, training=QUICK, random_state=0),
    nm.BetaTCVAE(training=QUICK, random_state=0),
    nm.FactorVAE(discriminator=nm.MLP((16,)), training=QUICK, random_state=0),
    nm.BioAE(training=QUICK, random_state=0),
    nm.QLAE(training=QUICK, random_state=0),
]


def data(n=60, d=4, seed=0):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, 2)) @ rng.normal(size=(2, d)) + 0.1 * rng.normal(size=(n, d))


def checks():
    for model in MODELS:
        for estimator, check in estimator_checks_generator(model):
            name = getattr(check, "func", check).__name__
            yield pytest.param(estimator, check, id=f"{type(model).__name__}-{name}")


@pytest.mark.parametrize(("estimator", "check"), list(checks()))
def test_scikit_learns_own_check_passes(estimator, check):
    check(estimator)  # raises an AssertionError when the contract is broken


NAMED = [getattr(nm.estimators, name) for name in nm.estimators.__all__ if name != "ConstrainedComponents"]
KINDS = [kind for kind in NAMED if hasattr(kind, "fit")]


@pytest.mark.parametrize("kind", [*KINDS, nm.Training], ids=lambda kind: kind.__name__)
class TestEveryClass:
    def test_parameters_are_stored_and_not_touched(self, kind):
        names = kind._get_param_names()
        odd = {name: object() for name in names}
        model = kind(**odd)
        assert all(getattr(model, name) is value for name, value in odd.items())
        assert vars(model) == odd

    def test_a_subclass_may_add_a_field_or_have_an_init_of_its_own(self, kind):
        needed = {"module": torch.nn.Linear(2, 2)} if kind is nm.estimators.Penalised else {}

        @dataclass(eq=False, repr=False, kw_only=True)
        class Declared(kind):
            mine: int = 3

        class Written(kind):
            def __init__(self, *, mine=3, **given):
                super().__init__(**given)
                self.mine = mine

        class Plain(kind):
            pass

        assert Declared(mine=5, **needed).get_params(deep=False).keys() - {"mine"} == set(kind._get_param_names())
        assert clone(Declared(mine=5, **needed)).mine == 5
        assert Written(mine=5, **needed).mine == 5
        assert repr(Plain(**needed)) == repr(kind(**needed)).replace(kind.__name__, "Plain", 1)

    def test_what_is_known_by_its_own_help(self, kind):
        documented = kind.__doc__ or ""
        assert "Parameters\n    ----------\n" in documented
        missing = [name for name in kind._get_param_names() if not re.search(rf"\b{name}\b", documented)]
        assert not missing, missing


def test_old_names_warn_and_do_the_same():
    for model in (nm.VAE(2), nm.VaDE(2, 2, pretraining=2), nm.BioAE(2), nm.QLAE(2)):
        new = clone(model).set_params(training=QUICK, random_state=0)
        old = clone(new).set_params(likelihood="normal")
        with pytest.warns(DeprecationWarning, match='likelihood="normal" is now likelihood="gaussian"'):
            old.fit(data())
        assert np.array_equal(old.transform(data()), new.fit(data()).transform(data()))
    with pytest.warns(DeprecationWarning, match=r"is now SparseFlow\(training=Training\(device='meta'\)\)"):
        flow = nm.SparseFlow(3, device="meta", training=nm.Training(steps=7))
    assert (flow.training.device, flow.training.steps, flow.n_latents) == ("meta", 7, 3)
    assert clone(flow).training.device == "meta"


@pytest.mark.parametrize("model", MODELS, ids=lambda m: type(m).__name__)
class TestEveryEstimator:
    def test_init_only_stores(self, model):
        assert clone(model).get_params(deep=False).keys() == model.get_params(deep=False).keys()
        assert not any(name.endswith("_") for name in vars(clone(model)))

    def test_transform_before_fit_is_refused(self, model):
        with pytest.raises(NotFittedError):
            clone(model).transform(data())

    def test_shapes_and_dtypes_follow_the_input(self, model):
        x = data()
        fitted = clone(model).fit(x)
        z = fitted.transform(x)
        assert z.shape == (60, 2)
        assert fitted.inverse_transform(z).shape == x.shape
        assert fitted.transform(x.astype(np.float32)).dtype == np.float32
        tensor = fitted.transform(torch.as_tensor(x, dtype=torch.float32))
        assert isinstance(tensor, torch.Tensor)
        assert np.allclose(tensor.numpy(), z, atol=1e-5)

    def test_the_same_seed_gives_the_same_model_and_another_seed_another(self, model):
        x = data()
        a, b = clone(model).fit(x), clone(model).fit(x)
        other = clone(model).set_params(random_state=9).fit(x)
        assert np.array_equal(a.transform(x), b.transform(x))
        assert not np.allclose(a.transform(x), other.transform(x))

    def test_the_callers_random_streams_are_left_alone(self, model):
        torch.manual_seed(1)
        np.random.seed(1)  # noqa: NPY002
        before = torch.get_rng_state(), np.random.get_state()[1].copy()  # noqa: NPY002
        clone(model).fit(data())
        assert torch.equal(before[0], torch.get_rng_state())
        assert np.array_equal(before[1], np.random.get_state()[1])  # noqa: NPY002

    def test_a_fitted_model_survives_pickling(self, model):
        x = data()
        fitted = clone(model).fit(x)
        again = pickle.loads(pickle.dumps(fitted))
        assert np.array_equal(fitted.transform(x), again.transform(x))

    def test_save_and_load_round_trip(self, model, tmp_path):
        x = data()
        fitted = clone(model).fit(x)
        nm.save(fitted, tmp_path / "run")
        again = nm.load(tmp_path / "run")
        assert type(again) is type(fitted)
        assert np.array_equal(fitted.transform(x), again.transform(x))
        assert np.array_equal(fitted.points_, again.points_)
        assert again.best_ == fitted.best_
        assert again.structure_ == fitted.structure_
        assert again.history_.steps == fitted.history_.steps
        assert np.allclose(again.history_.values["objective"], fitted.history_.values["objective"])
        assert again.get_params(deep=False).keys() == fitted.get_params(deep=False).keys()

    def test_gradients_reach_every_parameter(self, model):
        x = data()
        fitted = clone(model).fit(x)
        fresh = fitted._model(5, 4, torch.zeros(4), torch.ones(4))
        draws = fresh.draws(20, torch.Generator().manual_seed(0))
        loss, _ = fresh(torch.as_tensor(x[:20], dtype=torch.float32), draws, 1.0)
        loss.backward()
        assert all(p.grad is not None and bool((p.grad != 0).any()) for p in fresh.parameters())


def test_names_of_columns_reach_the_structure_and_the_output():
    frame = pd.DataFrame(data(), columns=["a", "b", "c", "d"])
    model = nm.VAE(training=QUICK, random_state=0).fit(frame)
    assert model.structure_.observed == ("a", "b", "c", "d")
    assert list(model.get_feature_names_out()) == ["vae0", "vae1"]
    assert list(model.set_output(transform="pandas").transform(frame).columns) == ["vae0", "vae1"]


def test_a_fit_in_double_precision_is_saved_and_loaded_as_such(tmp_path):
    model = nm.VAE(training=nm.Training(steps=4, dtype="float64"), random_state=0).fit(data())
    nm.save(model, tmp_path)
    again = nm.load(tmp_path)
    assert again.models_[0].mean.dtype == torch.float64
    assert np.array_equal(model.transform(data()), again.transform(data()))


def test_pipelines_and_grid_search_work():
    grid = GridSearchCV(nm.VAE(training=nm.Training(steps=2), random_state=0), {"training__steps": [1, 3]}, cv=2)
    grid.fit(data())
    assert grid.best_params_["training__steps"] in (1, 3)
    assert make_pipeline(StandardScaler(), nm.VAE(training=QUICK)).fit_transform(data()).shape == (60, 2)


def test_score_falls_when_the_data_are_not_like_those_fitted():
    x = data(300)
    model = nm.VAE(training=nm.Training(steps=200, batch_size=64), random_state=0).fit(x)
    assert model.score(x) > model.score(np.random.default_rng(1).normal(size=x.shape) * x.std(axis=0))


def test_a_users_own_builder_must_be_handed_to_load(tmp_path):
    def linear(inputs, outputs):
        return torch.nn.Linear(inputs, outputs)

    x = data()
    fitted = nm.VAE(decoder=linear, training=QUICK, random_state=0).fit(x)
    nm.save(fitted, tmp_path)
    with pytest.raises(nm.InputError, match="decoder= again"):
        nm.load(tmp_path)
    assert np.array_equal(nm.load(tmp_path, decoder=linear).transform(x), fitted.transform(x))


@pytest.mark.parametrize(
    ("model", "x", "sentence"),
    [
        (nm.VAE(0), data(), "n_latents must be a whole number"),
        (nm.VAE().set_params(n_latents=2.5), data(), "n_latents must be a whole number"),
        (nm.VAE(n_models=0), data(), "n_models must be"),
        (nm.VAE(beta=-1), data(), "beta must be"),
        (nm.VAE().set_params(penalty=3), data(), "penalty must be a Penalty"),
        (nm.VAE(5), data(n=4), "at least as many rows as latents"),
        (nm.VAE(), np.c_[data(), np.ones(60)], "vary in every column"),
        (nm.VAE(), np.full((9, 2), np.nan), "must be finite"),
        (nm.VAE(training=nm.Training(steps=0)), data(), "steps must be"),
        (nm.VAE(training=nm.Training(device="abacus")), data(), "device must be"),
        (nm.VAE(training=nm.Training(dtype="float8")), data(), "dtype must be"),
        (nm.VAE(decoder=lambda i, o: "net"), data(), "must return a torch module"),
        (nm.Autoencoder(penalty=nm.DependencySparsity()), data(), "vacuous"),
        (nm.Autoencoder(penalty=0.1 * nm.DependencySparsity()), data(), "vacuous"),
    ],
)
def test_bad_input_is_one_sentence(model, x, sentence):
    with pytest.raises(nm.InputError, match=sentence) as caught:
        model.fit(x)
    assert "\n" not in str(caught.value)


def test_a_normalised_autoencoder_takes_the_penalty_and_keeps_unit_latents():
    x = data(400)
    training = nm.Training(steps=100, batch_size=64)
    model = nm.Autoencoder(penalty=0.01 * nm.DependencySparsity(), normalise=True, training=training, random_state=0)
    z = model.fit(x).transform(x)
    assert np.allclose(z.mean(axis=0), 0, atol=0.2)
    assert np.allclose(z.std(axis=0), 1, atol=0.2)


PENALTIES = [
    nm.DependencySparsity("l0", rows=2),
    nm.GroupSparsity(1),
    nm.OroJaR(),
    nm.HessianPenalty(reduction="mean"),
    nm.IMAContrast(),
    nm.Interaction((1, 1), order=2, step=0.1),
    0.1 * nm.CompositionalContrast(2) + nm.LatentSparsity(),
]


@pytest.mark.parametrize("penalty", PENALTIES, ids=repr)
def test_every_penalty_trains_and_comes_back_from_a_file(penalty, tmp_path):
    model = nm.VAE(2, penalty=penalty, n_models=2, training=QUICK, random_state=0).fit(data())
    assert np.isfinite(model.terms_["penalty"]).all()
    nm.save(model, tmp_path)
    assert nm.load(tmp_path).penalty == penalty


@pytest.mark.parametrize(
    "model",
    [
        nm.Flow(penalty=0.1 * nm.DependencySparsity(), coupling=nm.nets.Coupling(blocks=2, transform="spline")),
        nm.Flow(2, coupling=nm.nets.VolumePreserving(blocks=3)),
        nm.SlotAutoencoder(2, 1, first=None),
        nm.VAE(2, decoder=nm.nets.Additive(2, hidden=(8,))),
    ],
    ids=repr,
)
def test_further_estimators_and_nets_come_back_from_a_file(model, tmp_path):
    fitted = clone(model).set_params(training=QUICK, random_state=0).fit(data())
    nm.save(fitted, tmp_path)
    again = nm.load(tmp_path)
    assert np.array_equal(fitted.transform(data()), again.transform(data()))
    assert repr(again.set_params(training=None, random_state=None)) == repr(model)


def test_a_stored_part_that_is_no_part_is_refused_in_a_sentence(tmp_path):
    nm.save(nm.VAE(2, training=QUICK, random_state=0).fit(data()), tmp_path)
    config = tmp_path / "config.json"
    config.write_text(config.read_text().replace('"penalty": null', '"penalty": {"Penalty": {}}'))
    with pytest.raises(nm.InputError, match="The stored penalty must be one of"):
        nm.load(tmp_path)
