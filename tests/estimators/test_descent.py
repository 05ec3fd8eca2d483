"""Descent under a bound: the least penalty that the data allow, without a weight; and collapse said early."""

import sys
import warnings

import numpy as np
import pytest
import torch
from sklearn.exceptions import ConvergenceWarning

import noumena as nm
from noumena.checks import InputError
from noumena.estimators import loop
from noumena.estimators.descent import BoundedDescent
from noumena.estimators.loop import FitData, Objective, train

BIAS = 0.05 * nm.DependencySparsity(points=32)


class Tug(Objective):
    """Fidelity ``(w − 2)² + 1`` pulls to 2, the penalty ``|w|`` to 0; the plain sum rests at 1.5."""

    def __init__(self, start=3.0):
        super().__init__()
        self.w = torch.nn.Parameter(torch.tensor([start]))

    def forward(self, x, draws, progress):
        penalty = self.w.abs().sum()
        return (self.w - 2).square().sum() + 1 + penalty + 0 * x.sum(), {"penalty": penalty}


def rest(bound, starts=(3.0, 2.5), steps=500, **settings):
    rows = FitData(torch.zeros(8, 1), torch.zeros(8, 1), "tug")
    plan = nm.Training(steps=steps, batch_size=8, learning_rate=0.1, **settings)
    found = train([Tug(s) for s in starts], list(range(len(starts))), rows, plan, bound=bound)
    return np.array([float(m.w) for m in found.models]), found


def test_the_penalty_falls_until_the_bound_is_met():
    w, found = rest(bound=2.0)
    assert np.allclose(w, 1.0, atol=0.05)  # (w − 2)² + 1 = 2
    assert np.allclose(found.objectives, 1.0, atol=0.1)


def test_without_a_bound_the_weighted_sum_decides():
    w, _ = rest(bound=None)
    assert np.allclose(w, 1.5, atol=0.05)


def test_a_bound_that_does_not_bind_leaves_the_least_penalty():
    w, _ = rest(bound=50.0)
    assert np.allclose(w, 0.0, atol=0.05)


def test_weight_decay_shrinks_weights_by_a_share_of_the_rate_whatever_the_gradient():
    class Still(Tug):
        def forward(self, x, draws, progress):
            return 0 * self.w.sum() + 0 * x.sum(), {}

    rows = FitData(torch.zeros(8, 1), torch.zeros(8, 1), "still")
    plan = nm.Training(steps=1, batch_size=8, learning_rate=0.1, weight_decay=0.5)
    shrunk = train([Still(3.0)], [0], rows, plan).models[0].w
    assert float(shrunk) == pytest.approx(3 * (1 - 0.1 * loop.one_cycle(0.0) * 0.5))


def test_a_weight_decay_below_zero_is_refused():
    with pytest.raises(InputError, match="weight_decay must be a finite number"):
        nm.Training(weight_decay=-1).check()


def test_pixels_that_never_change_are_allowed_when_nothing_is_divided_by_their_spread():
    x = np.hstack([np.random.default_rng(0).normal(size=(40, 3)), np.zeros((40, 1))])
    plan = nm.Training(steps=2, batch_size=8)
    assert nm.Autoencoder(2, standardise=False, training=plan, random_state=0).fit(x).transform(x).shape == (40, 2)
    with pytest.raises(InputError, match="x must vary in every column"):
        nm.Autoencoder(2, training=plan).fit(x)


def test_models_are_judged_by_penalty_and_then_by_excess():
    descent = BoundedDescent({"w": torch.zeros(3, requires_grad=True)}, learning_rate=0.1, clip=None, bound=2.0)
    penalty = torch.tensor([1.0, 2.0, 1.0])
    fidelity = torch.tensor([2.0, 1.0, 4.0])
    assert torch.allclose(descent.judge(fidelity + penalty, {"penalty": penalty}), torch.tensor([1.0, 2.0, 4.0]))


def test_a_killed_fit_under_a_bound_resumes_to_the_same_result(tmp_path, monkeypatch):
    whole, _ = rest(bound=2.0, steps=200)
    save, saves = loop._Fit._save, []

    def save_then_die(fit):
        save(fit)
        saves.append(fit.step)
        if len(saves) == 90:
            raise MemoryError

    monkeypatch.setattr(loop._Fit, "_save", save_then_die)
    file = {"checkpoint": tmp_path / "fit.safetensors", "checkpoint_seconds": 0.0}
    with pytest.raises(MemoryError):
        rest(bound=2.0, steps=200, **file)
    monkeypatch.setattr(loop._Fit, "_save", save)
    assert np.array_equal(rest(bound=2.0, steps=200, **file)[0], whole)


def data(n=600, seed=0):
    rng = np.random.default_rng(seed)
    z = rng.normal(size=(n, 2))
    return np.c_[z[:, 0], z.sum(axis=1), np.tanh(z[:, 1]), z[:, 1]] + 0.05 * rng.normal(size=(n, 4))


def test_a_fit_within_a_tolerance_keeps_it_and_spends_it_on_sparsity():
    def fit(penalty, within=None):
        training = nm.Training(steps=200, batch_size=128, within=within, refit=False)
        return nm.VAE(2, penalty=penalty, random_state=0, training=training).fit(data())

    plain = fit(None).objectives_[0]
    tight, wide = fit(BIAS, 0.3), fit(BIAS, 2.0)
    fidelity = {m: float(m.terms_["reconstruction"][0] + m.beta * m.terms_["kl"][0]) for m in (tight, wide)}
    assert 0.8 * plain < fidelity[tight] < 1.15 * 1.3 * plain
    assert 1.3 * plain < fidelity[wide] < 1.15 * 3.0 * plain
    assert wide.terms_["penalty"][0] < 0.97 * tight.terms_["penalty"][0]


def test_a_tolerance_without_a_penalty_is_refused():
    with pytest.raises(InputError, match=r"within must come with a penalty to minimise\. Got none\."):
        nm.VAE(2, training=nm.Training(steps=2, within=0.1)).fit(data())


@pytest.mark.parametrize("settings", [{"within": -0.1}, {"polish": -1}])
def test_tolerances_and_rounds_below_zero_are_refused(settings):
    with pytest.raises(InputError, match=rf"{next(iter(settings))} must be .* Got -"):
        nm.VAE(2, penalty=BIAS, training=nm.Training(steps=2, **settings)).fit(data())


def test_without_the_package_one_sentence_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "cooper", None)
    with pytest.raises(InputError, match=r"cooper-optim\. Got none; pip install 'noumena\[constrained\]'\."):
        rest(bound=2.0, steps=2)


# ---- early diagnosis of collapse -----------------------------------------------------------------------------


def test_a_fit_that_loses_its_latents_says_so_before_its_end():
    with pytest.warns(ConvergenceWarning, match=r"By step \d\d of 90 every model has lost latents: 0 in use at most\."):
        model = nm.VAE(2, beta=30.0, random_state=0, training=nm.Training(steps=90, batch_size=128)).fit(data())
    assert model.terms_["active"].tolist() == [0]


class Counts(Objective):
    """A loss of no interest and a count of latents that falls in the models told to lose some."""

    def __init__(self, falls):
        super().__init__()
        self.w = torch.nn.Parameter(torch.ones(1))
        self.register_buffer("falls", torch.tensor(falls))

    def forward(self, x, draws, progress):
        return self.w.square().sum() + 0 * x.sum(), {"active": 4 + self.falls * self.w.detach().sum().round()}


@pytest.mark.parametrize(("falls", "warned"), [((1.0, 1.0), True), ((1.0, 0.0), False)])
def test_lost_latents_are_a_warning_only_when_no_model_keeps_them(falls, warned):
    rows = FitData(torch.zeros(8, 1), torch.zeros(8, 1), "counts")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        train([Counts(f) for f in falls], [0, 1], rows, nm.Training(steps=60, batch_size=8, learning_rate=0.1))
    assert [w for w in caught if "lost latents: 4 in use" in str(w.message)] != [] if warned else not caught
    assert len(caught) == warned


def test_stopping_the_fit_without_a_penalty_stops_the_whole_fit(monkeypatch):
    def stop(fit, *batch):
        raise KeyboardInterrupt

    monkeypatch.setattr(loop._Fit, "_update", stop)
    model = nm.VAE(2, penalty=BIAS, training=nm.Training(steps=9, within=0.1), random_state=0)
    with pytest.warns(ConvergenceWarning, match="Stopped by hand at step 0"), pytest.raises(KeyboardInterrupt):
        model.fit(data())
