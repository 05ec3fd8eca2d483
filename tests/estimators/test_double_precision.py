"""Rows in double precision are seen by a copy of the model in it, which is made once for every state of the model."""

import pickle
from copy import deepcopy
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.base import clone

import noumena as nm
from noumena.estimators import codec

X = np.random.default_rng(0).normal(size=(60, 3))
SINGLE = X.astype(np.float32)
QUICK = nm.Training(steps=3, batch_size=16)


@pytest.fixture
def copies(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    made: list[Any] = []

    def copied(model: Any) -> Any:
        made.append(model)
        return deepcopy(model)

    monkeypatch.setattr(codec, "deepcopy", copied)
    return made


def fitted() -> nm.VAE:
    return nm.VAE(2, n_models=2, training=QUICK, random_state=0).fit(X)


def test_a_model_is_copied_once_however_often_it_is_asked(copies: list[Any]) -> None:
    model = fitted()
    z = model.transform(X)
    for _ in range(3):
        assert np.array_equal(model.transform(X), z)
        model.inverse_transform(z)
        model.score(X)
    assert [id(copy) for copy in copies] == [id(model.models_[model.best_])]
    model.transform_all(X)
    model.transform_all(X)
    assert len(copies) == 2


def test_single_precision_and_bytes_need_no_copy(copies: list[Any]) -> None:
    model = fitted()
    model.transform(SINGLE)
    model.inverse_transform(model.transform(SINGLE))
    double = nm.VAE(2, training=nm.Training(steps=3, dtype="float64"), random_state=0).fit(X)
    double.transform(X)
    assert copies == []


def test_weights_that_change_are_seen(copies: list[Any]) -> None:
    model = fitted()
    before, best = model.transform(X), model.models_[model.best_]
    with torch.no_grad():
        best.mean += 1.0
    assert not np.allclose(model.transform(X), before)
    best.load_state_dict({"mean": best.mean - 1.0}, strict=False)
    assert np.allclose(model.transform(X), before, atol=1e-6)
    model.models_[model.best_] = deepcopy(best)
    model.transform(X)
    assert np.array_equal(model.fit(X).transform(X), before)
    assert len(copies) == 5


def test_the_copy_is_neither_kept_in_files_nor_copied(copies: list[Any], tmp_path: Any) -> None:
    model = fitted()
    plain = pickle.dumps(model)
    z = model.transform(X)
    assert len(pickle.dumps(model)) == len(plain)
    for other in (pickle.loads(plain), deepcopy(model)):
        assert all(codec._in_double is None for codec in other.models_)
        assert np.array_equal(other.transform(X), z)
    nm.save(model, tmp_path / "run")
    assert np.array_equal(nm.load(tmp_path / "run").transform(X), z)
    assert not hasattr(clone(model), "models_")
    assert np.array_equal(model.set_params(beta=2.0).transform(X), z)


def test_a_copy_that_is_made_without_gradients_is_an_ordinary_one() -> None:
    model = fitted()
    with torch.inference_mode():
        z = model.transform(X)
    assert np.array_equal(model.transform(X), z)
    assert not any(
        weight.is_inference() for weight in model.models_[model.best_].in_precision(torch.float64).parameters()
    )
