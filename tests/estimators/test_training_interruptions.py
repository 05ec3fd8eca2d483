"""The one training loop survives divergence, interruption and kills, and resumes to the same result."""

import numpy as np
import pytest
import torch
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from small_fits import BIAS, Dies, data, walk

import noumena as nm
from noumena.estimators import loop
from noumena.estimators.loop import FitData, Objective, train


def test_a_resumed_fit_remembers_the_best_look_before_it_was_killed(tmp_path, monkeypatch):
    save = loop._Fit._save

    def save_then_die(fit):
        save(fit)
        if fit.step == 500:
            raise Dies

    monkeypatch.setattr(loop._Fit, "_save", save_then_die)
    settings = {"checkpoint": tmp_path / "state", "checkpoint_seconds": 0}
    with pytest.raises(Dies):
        walk(**settings)
    monkeypatch.setattr(loop._Fit, "_save", save)
    assert float(walk(**settings).models[0].w) == float(walk().models[0].w)


def test_divergence_of_all_models_is_an_error_that_says_what_to_try(tmp_path):
    checkpoint = tmp_path / "state.safetensors"
    training = nm.Training(steps=60, learning_rate=1e18, checkpoint=checkpoint)
    with pytest.raises(nm.DivergenceError, match="lower learning_rate"):
        nm.VAE(2, training=training, random_state=0).fit(data())
    from safetensors.torch import load_file

    kept = load_file(checkpoint)
    assert all(bool(v.isfinite().all()) for k, v in kept.items() if k.startswith("now."))


class Cliff(Objective):
    """Falls for a while, then leaves the finite numbers."""

    def __init__(self):
        super().__init__()
        self.w = torch.nn.Parameter(torch.ones(1))

    def forward(self, x, draws, progress):
        loss = (self.w * x).square().mean() / (0.0 if 0.5 < progress < 1 else 1.0)
        return loss, {}


def test_all_models_diverging_late_is_still_an_error():
    rows = FitData(torch.ones(8, 1), torch.ones(8, 1), "")
    with pytest.raises(nm.DivergenceError, match="by step 6"):
        train([Cliff()], [0], rows, nm.Training(steps=120, learning_rate=0.01))


def test_a_model_that_stopped_before_is_not_called_diverged():
    rows = FitData(torch.ones(8, 1), torch.ones(8, 1), "")

    class Still(Cliff):
        def forward(self, x, draws, progress):
            loss, terms = super().forward(x, draws, progress)
            return loss + 0 * x.mean() if progress > 0.5 else 0 * loss, terms

    trained = train([Still()], [0], rows, nm.Training(steps=120, patience=2))
    assert trained.stopped_at[0] < 60
    assert not trained.diverged[0]


class Fragile(Objective):
    """Diverges when built with a bad start."""

    def __init__(self, bad):
        super().__init__()
        self.w = torch.nn.Parameter(torch.tensor([torch.inf if bad else 1.0]))

    def forward(self, x, draws, progress):
        loss = (self.w * x).square().mean()
        return loss, {}


def test_one_diverging_model_does_not_harm_the_others():
    rows = FitData(torch.ones(8, 1), torch.ones(8, 1), "")
    with pytest.warns(ConvergenceWarning, match="1 of 2 models"):
        trained = train([Fragile(True), Fragile(False)], [0, 1], rows, nm.Training(steps=200, learning_rate=0.1))
    assert trained.diverged.tolist() == [True, False]
    assert trained.objectives[1] < 0.01


class Interrupts(Objective):
    """Raises Ctrl-C in the middle of a fit."""

    calls = 0

    def __init__(self):
        super().__init__()
        self.w = torch.nn.Parameter(torch.ones(1))

    def forward(self, x, draws, progress):
        Interrupts.calls += 1
        if Interrupts.calls == 150:
            raise KeyboardInterrupt
        loss = (self.w * x).square().mean()
        return loss, {}


def test_ctrl_c_keeps_the_best_models_so_far():
    Interrupts.calls = 0
    rows = FitData(torch.ones(8, 1), torch.ones(8, 1), "")
    with pytest.warns(ConvergenceWarning, match="Stopped by hand"):
        trained = train([Interrupts()], [0], rows, nm.Training(steps=1000, learning_rate=0.05))
    assert trained.interrupted
    assert 100 < trained.stopped_at[0] < 150
    assert trained.objectives[0] < 0.9


@pytest.mark.parametrize("when", [1, 37, 95])
def test_a_killed_fit_resumes_to_exactly_the_same_result(when, tmp_path, monkeypatch):
    settings = {"steps": 120, "batch_size": 64, "checkpoint_seconds": 0}
    model = nm.VAE(2, penalty=BIAS, n_models=2, random_state=3)
    whole = clone(model).set_params(training=nm.Training(**settings)).fit(data())

    save = loop._Fit._save

    def save_then_die(fit):
        save(fit)
        if fit.step == when:
            raise Dies

    training = nm.Training(**settings, checkpoint=tmp_path / "state.safetensors")
    monkeypatch.setattr(loop._Fit, "_save", save_then_die)
    with pytest.raises(Dies):
        clone(model).set_params(training=training).fit(data())
    monkeypatch.setattr(loop._Fit, "_save", save)
    resumed = clone(model).set_params(training=training).fit(data())
    assert np.array_equal(whole.objectives_, resumed.objectives_)
    assert np.array_equal(whole.transform(data()), resumed.transform(data()))
    assert whole.history_.steps == resumed.history_.steps


def test_a_checkpoint_of_another_fit_is_refused(tmp_path):
    training = nm.Training(steps=10, checkpoint=tmp_path / "state.safetensors")
    nm.VAE(2, training=training, random_state=0).fit(data())
    for other in (nm.VAE(2, training=training, random_state=1), nm.VAE(2, beta=0.5, training=training, random_state=0)):
        with pytest.raises(nm.InputError, match="same settings and data"):
            other.fit(data())
    with pytest.raises(nm.InputError, match="same settings and data"):
        nm.VAE(2, training=training, random_state=0).fit(data(seed=1))


def test_a_damaged_checkpoint_is_one_sentence(tmp_path):
    path = tmp_path / "state.safetensors"
    path.write_bytes(b"half a file")
    with pytest.raises(nm.InputError, match="complete safetensors file"):
        nm.VAE(2, training=nm.Training(steps=5, checkpoint=path)).fit(data())
