"""Every estimator comes back from a folder as it was, those of users too, and nothing else does."""

import json
import sys
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch
from latents import LABELS, MODELS, QUICK, TABLE
from sklearn.decomposition import PCA

import noumena as nm
from noumena.checks import InputError


def told(model: Any, x: np.ndarray) -> np.ndarray:
    """What a model says of rows."""
    return np.asarray(model.transform(x) if hasattr(model, "transform") else model.predict_proba(x))


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning", "ignore::UserWarning")
def test_a_model_comes_back_as_it_was(name: str, tmp_path: Path) -> None:
    make, x = MODELS[name]
    model = make().fit(x, LABELS) if name == "iVAE" else make().fit(x)
    nm.save(model, tmp_path)
    again = nm.load(tmp_path)
    assert type(again) is type(model)
    assert repr(again) == repr(model)
    assert vars(again).keys() == vars(model).keys()
    assert np.array_equal(told(again, x), told(model, x))


def test_every_public_estimator_is_in_the_list() -> None:
    public = [getattr(nm.estimators, name) for name in nm.estimators.__all__]
    kinds = {kind for kind in public if isinstance(kind, type) and hasattr(kind, "fit")}
    kinds -= {nm.estimators.Estimator, nm.estimators.Penalised}  # the base, and what needs a module
    assert kinds == {type(make()) for make, _ in MODELS.values()}


def test_estimators_within_estimators_come_back_too(tmp_path: Path) -> None:
    first = nm.Autoencoder(2, normalise=True, training=QUICK)
    model = nm.DegenerateMixture(2, stage1=first, solver=nm.ICA(max_iter=3000), random_state=0).fit(TABLE)
    nm.save(model, tmp_path)
    again: Any = nm.load(tmp_path)
    assert np.array_equal(again.transform(TABLE), model.transform(TABLE))
    assert np.array_equal(again.inverse_transform(again.points_), model.inverse_transform(model.points_))
    assert again.get_params()["stage1__training__steps"] == QUICK.steps
    assert again.stage1_.history_.steps == model.stage1_.history_.steps


# ---- of users ----------------------------------------------------------------------------------------------------


@dataclass(eq=False, repr=False, kw_only=True)
class Halved(nm.VAE):
    """A VAE with a parameter and an attribute of its own."""

    share: float = 0.5

    def fit(self, X: Any, y: Any = None):
        super().fit(X, y)
        self.halves_ = {"sums": np.asarray(X).sum(axis=0), "names": ["a", "b"]}
        return self


class Turned(nm.ICA):
    """An ICA whose ``__init__`` is its own."""

    def __init__(self, n_latents: int | None = None, *, angle: float = 0.0):
        super().__init__(n_latents, max_iter=3000)
        self.angle = angle


def saved(kind: Any, folder: Path, **given: Any) -> Any:
    """A small fit of a kind, saved."""
    model = (
        kind(2, **given).set_params(random_state=0).fit(TABLE) if kind is not Turned else kind(2, **given).fit(TABLE)
    )
    nm.save(model, folder)
    return model


def test_estimators_of_users_are_found_by_their_module(tmp_path: Path) -> None:
    one, two = saved(Halved, tmp_path / "1", share=0.25, training=QUICK), saved(Turned, tmp_path / "2", angle=3.0)
    here, there = nm.load(tmp_path / "1"), nm.load(tmp_path / "2")
    assert (type(here), here.share, type(there), there.angle) == (Halved, 0.25, Turned, 3.0)
    assert np.array_equal(here.halves_["sums"], one.halves_["sums"])
    assert here.halves_["names"] == ["a", "b"]
    assert np.array_equal(here.transform(TABLE), one.transform(TABLE))
    assert np.array_equal(there.transform(TABLE), two.transform(TABLE))


def test_a_class_that_cannot_be_imported_must_be_given(tmp_path: Path) -> None:
    class Local(nm.VAE):
        pass

    model = saved(Local, tmp_path, training=QUICK)
    must = r"must be of a class that can be imported, or is given as load\(folder, kinds=\[Local\]\)\. Got .*Local\.$"
    with pytest.raises(InputError, match=must):
        nm.load(tmp_path)
    again = nm.load(tmp_path, kinds=[Local])
    assert type(again) is Local
    assert np.array_equal(again.transform(TABLE), model.transform(TABLE))


@pytest.mark.parametrize(
    "name", ["subprocess:Popen", "idlelib.idle:main", "os:system", "no.such:Thing", "numpy:ndarray"]
)
def test_nothing_but_estimators_is_made_of_a_name(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "idlelib.idle", raising=False)
    saved(Halved, tmp_path, training=QUICK)
    config = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps({**config, "estimator": name}))
    with pytest.raises(InputError, match=r"must be of a class that can be imported"):
        nm.load(tmp_path)
    assert "idlelib.idle" not in sys.modules


def test_a_module_that_fails_while_it_is_imported_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "breaks_at_once.py").write_text("raise SyntaxError('no')")
    monkeypatch.syspath_prepend(tmp_path)
    saved(Halved, tmp_path / "run", training=QUICK)
    config = json.loads((tmp_path / "run" / "config.json").read_text())
    (tmp_path / "run" / "config.json").write_text(json.dumps({**config, "estimator": "breaks_at_once:Mine"}))
    with pytest.raises(InputError, match=r"kinds=\[Mine\]"):
        nm.load(tmp_path / "run")


def test_what_cannot_be_stored_is_named(tmp_path: Path) -> None:
    model = saved(Halved, tmp_path / "first", training=QUICK)
    model.module_ = ModuleType("mine")
    with pytest.raises(InputError, match=r"must hold numbers, .* Got module_, a module; joblib\.dump keeps it\."):
        nm.save(model, tmp_path / "second")
    assert not (tmp_path / "second").exists()
    for given in (PCA(1).fit(TABLE), 3, torch.nn.Linear(1, 1)):
        with pytest.raises(
            InputError, match=r"A model to save must be one of Autoencoder, VAE, .* or of a class derived"
        ):
            nm.save(given, tmp_path / "third")


def test_a_run_that_says_normal_is_read_as_gaussian(tmp_path: Path) -> None:
    saved(Halved, tmp_path, training=QUICK)
    text = (tmp_path / "config.json").read_text()
    (tmp_path / "config.json").write_text(text.replace('"likelihood": "gaussian"', '"likelihood": "normal"'))
    assert nm.load(tmp_path).likelihood == "gaussian"
