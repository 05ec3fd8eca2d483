"""Fits: certified by their exactly sparse refit, and only with a twin that is no better and a second seed."""

from copy import copy
from dataclasses import replace

import numpy as np
import pytest

import noumena as nm
from noumena.guarantees.fits import AGREE, BEATS_TWIN, LACKS_NONE, UNRESOLVED, resolution
from noumena.guarantees.hypotheses import NOISE, SHARED

BIAS = 0.05 * nm.DependencySparsity()
SUPPORT = np.array([[1, 0]] * 3 + [[1, 1]] * 2 + [[0, 1]] * 3, dtype=bool)


def answers(certificate):
    return {h.name: h.answer for h in certificate.hypotheses}


def fit_of(x, n_models=2, **settings):
    plan = nm.Training(steps=400, batch_size=128, **settings)
    return nm.VAE(2, penalty=BIAS, n_models=n_models, training=plan, random_state=0).fit(x)


@pytest.fixture(scope="module")
def right():
    sample = nm.worlds.structured(nm.Structure(SUPPORT), law="unit gaussian", random_state=1).sample(1500)
    return sample, fit_of(sample.x)


def test_a_right_fit_is_identified_and_its_latents_are_the_true_ones(right):
    sample, model = right
    certificate = nm.certify(model)
    assert certificate.answer == "identified", str(certificate)
    assert answers(certificate)[BEATS_TWIN] == "supported"
    assert len(certificate.structure) == SUPPORT.sum()
    assert nm.metrics.mcc(sample.z, model.transform(sample.x)).score > 0.99


def test_one_seed_certifies_nothing(right):
    _, model = right
    alone = copy(model)
    alone.models_, alone.points_, alone.seeds_ = model.models_[:1], model.points_[:1], model.seeds_[:1]
    alone.objectives_, alone.diverged_, alone.best_ = model.objectives_[:1], model.diverged_[:1], 0
    alone.terms_ = {name: values[:1] for name, values in model.terms_.items()}
    certificate = nm.certify(alone)
    assert answers(certificate)[AGREE] == "unknown"
    assert certificate.answer == "open"


def test_a_refit_that_is_worse_than_its_twin_certifies_nothing(right):
    _, model = right
    worse = copy(model)
    worse.refit_ = replace(model.refit_, error=2.0, twin=1.0, excess=1.0, standard_error=0.1)
    assert answers(nm.certify(worse))[BEATS_TWIN] == "fails"
    assert nm.certify(worse).answer == "open"
    for excess in (-0.1, 0.0, 0.1):
        few = replace(model.refit_, excess=excess, standard_error=9.0)
        assert not few.beats_twin, "too few rows to tell are no evidence"


def test_a_refit_that_lacks_a_dependency_certifies_nothing(right):
    """A world of the power study had five in wrong places, beat its twin and had a positive gap."""
    _, model = right
    assert answers(nm.certify(model))[LACKS_NONE] == "supported"
    lacking = copy(model)
    for changes, answer in [
        ({"gain": -0.5, "gain_error": 0.1}, "fails"),
        ({"gain": None, "gain_error": None}, "unknown"),
    ]:
        lacking.refit_ = replace(model.refit_, **changes)
        assert answers(nm.certify(lacking))[LACKS_NONE] == answer
        assert nm.certify(lacking).answer == "open"


def test_what_the_columns_share_is_measured_kept_and_asked(right, tmp_path):
    _, model = right
    nm.save(model, tmp_path / "run")
    assert nm.load(tmp_path / "run").column_prediction_ == model.column_prediction_
    found = answers(nm.certify(model))
    assert (found[SHARED], found[NOISE]) == ("supported", "supported")
    short = copy(model)
    for name, changes in {
        SHARED: {"shortfall": 0.2, "standard_error": 0.01},
        NOISE: {"excess": 0.2, "clear": True},
    }.items():
        short.column_prediction_ = replace(model.column_prediction_, **changes)
        assert answers(nm.certify(short))[name] == "fails"
        assert nm.certify(short).answer == "open"


def test_a_latent_too_many_is_idle_and_left_out_of_the_certificate(right):
    sample, _ = right
    plan = nm.Training(steps=400, batch_size=128)
    model = nm.VAE(3, penalty=BIAS, n_models=2, training=plan, random_state=0).fit(sample.x)
    used = model.structure_.in_use
    assert len(used) == 2
    assert (model.terms_["active"] == 2).all()
    certificate = nm.certify(model)
    assert certificate.latents == tuple(model.structure_.latent[j] for j in used)
    assert certificate.answer != "not identified"
    assert nm.metrics.mcc(sample.z, model.transform(sample.x)[:, used]).score > 0.99


def test_the_plain_fit_is_open_for_its_zeros_are_none(right):
    sample, _ = right
    certificate = nm.certify(fit_of(sample.x, refit=False))
    assert answers(certificate)[BEATS_TWIN] == "unknown"
    assert certificate.answer == "open"


def test_a_mixture_measured_twice_is_not_identified():
    """``(a, b)``, ``(H, b)`` and ``(a, H)`` with ``H = a + 1.2b`` are equally sparse."""
    rng = np.random.default_rng(3)
    a, b = rng.normal(size=(2, 2000))
    H = a + 1.2 * b
    columns = [H, H + 0.2 * np.tanh(H), b, b + 0.3 * np.tanh(b), a, a + 0.2 * np.sin(a)]
    certificate = nm.certify(fit_of(np.stack(columns, axis=1)))
    assert certificate.answer != "identified", str(certificate)
    assert certificate.gap <= 0


def test_noise_is_not_certified():
    x = np.random.default_rng(0).normal(size=(1000, 8))
    certificate = nm.certify(fit_of(x))
    assert certificate.answer != "identified"
    assert "what the columns share is explained" in certificate.broken_premises


def test_what_seeds_disagree_on_is_not_resolved(right):
    _, model = right
    used = np.arange(model.n_latents)
    found = resolution(model, used)
    assert UNRESOLVED <= found < 0.5
    apart = copy(model)
    rng = np.random.default_rng(0)
    apart.points_ = model.points_.copy()
    apart.points_[1 - model.best_] += 0.5 * rng.normal(size=apart.points_[0].shape)
    assert resolution(apart, used) > found
