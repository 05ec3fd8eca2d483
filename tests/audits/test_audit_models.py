"""Models stand for their representations: estimators, scikit-learn's transformers, torch modules, functions."""

import numpy as np
import pytest
import torch
from sklearn.decomposition import PCA
from torch import nn

import noumena as nm
from noumena.audits import audit
from noumena.audits.tables import tables_of
from noumena.checks import InputError

X = np.random.default_rng(0).normal(size=(200, 4)) * [1, 2, 3, 4]
QUICK = {"ica": False, "shuffles": 1, "folds": 3}


@pytest.fixture(scope="module")
def model():
    training = nm.Training(steps=3, batch_size=64)
    return nm.Autoencoder(2, n_models=3, training=training, random_state=0).fit(X)


def test_transformers_functions_and_arrays_may_be_mixed():
    pca = PCA(2).fit(X)
    found = audit({"pca": pca, "function": lambda x: -pca.transform(x), "array": pca.transform(X)}, data=X, **QUICK)
    assert found.group == "signed permutation"
    assert "(nearly) linear images of the input" in found.verdict


def test_a_module_is_read_in_evaluation_mode_and_left_as_it_was():
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(4, 3), nn.Dropout(0.5)).train()
    tables = tables_of([net, net], data=X).tables
    assert (tables[0] == tables[1]).all()
    assert tables[0] == pytest.approx(net[0](torch.as_tensor(X).float()).detach().numpy(), rel=1e-5)
    assert net.training
    assert tables[0].shape == (200, 3)


def test_images_go_through_a_module_and_explain_nothing():
    net = nn.Sequential(nn.Flatten(), nn.Linear(12, 3))
    images = torch.randn(60, 3, 2, 2, generator=torch.Generator().manual_seed(0))
    found = audit([net, net], data=images, **QUICK)
    assert found.trivial is None
    assert found.group == "signed permutation"


def test_one_estimator_stands_for_its_runs(model):
    found = audit(model, data=X, **QUICK)
    assert found.names == ("seed 0", "seed 1", "seed 2")
    assert found.shapes == ((200, 2),) * 3
    assert audit([model], data=X, **QUICK).to_dict() == found.to_dict()
    assert (tables_of(model, X).tables[1] == model.transform_all(X)[1]).all()
    assert found.trivial is not None


def test_two_estimators_stand_for_their_best_runs(model):
    assert (tables_of([model, model], X).tables[0] == model.transform(X)).all()


def test_diverged_runs_are_left_out(model, monkeypatch):
    monkeypatch.setattr(model, "diverged_", np.array([False, True, False]))
    found = tables_of(model, X)
    assert found.names == ("seed 0", "seed 2")
    assert found.notes == ("1 of 3 runs diverged and is left out.",)


@pytest.mark.parametrize(
    ("models", "data", "sentence"),
    [
        ([PCA(2), PCA(2)], None, "Models must come with the rows they see, data=x"),
        (nm.Autoencoder(2, n_models=2), X, "must be fitted before it is audited. Got Autoencoder"),
        (nm.Autoencoder(2, n_models=2), None, "Models must come with the rows"),
        ([3, 4], X, "run 1 must be an array, have .transform, or be a function of the data. Got a int"),
    ],
)
def test_bad_models_are_one_sentence(models, data, sentence):
    with pytest.raises(InputError, match=sentence):
        tables_of(models, data)


def test_one_run_alone_is_refused(model, monkeypatch):
    monkeypatch.setattr(model, "diverged_", np.array([False, True, True]))
    with pytest.raises(InputError, match=r"must have two runs or more \(n_models\). Got 1"):
        tables_of(model, X)
