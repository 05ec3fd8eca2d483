"""Seeds that diverge are stopped when it happens, tried again at a third of the rate, and counted; and what a fit says
meanwhile where there is no terminal."""

import numpy as np
import pytest
import torch
from sklearn.exceptions import ConvergenceWarning
from torch import nn

import noumena as nm
from noumena.checks import DivergenceError
from noumena.estimators import progress
from noumena.estimators.fit_data import FitData
from noumena.estimators.loop import Objective, train

CLIFF = 0.5


class Cliff(Objective):
    """``(w − 1)²``, whose loss is lost beyond a cliff: a large rate falls off it, a small one does not get there."""

    def __init__(self, beyond: float, falls: bool = True):
        super().__init__()
        self.w = nn.Parameter(torch.zeros(1))
        self.register_buffer("beyond", torch.tensor(beyond))
        self.register_buffer("falls", torch.tensor(falls))

    def forward(self, x, draws, progress):
        loss = (self.w - 1).square().sum() + 0 * x.sum()
        return torch.where(self.falls & (self.w.abs().sum() > CLIFF), self.beyond, loss), {"loss": loss}


def rows():
    return FitData(torch.zeros(40, 2), torch.zeros(10, 2), "rows")


def trained(*models, steps=60, rate=0.02, **settings):
    plan = nm.Training(steps=steps, learning_rate=rate, schedule="constant", **settings)
    return train(list(models), list(range(len(models))), rows(), plan)


@pytest.mark.parametrize("beyond", [float("nan"), float("inf"), 1e9])
def test_a_seed_that_falls_off_is_trained_again_from_its_start_at_a_third_of_the_rate(beyond):
    both = trained(Cliff(beyond), Cliff(beyond, falls=False))
    assert both.diverged.tolist() == [False, False]
    alone = trained(Cliff(beyond), rate=0.02 / 3)
    torch.testing.assert_close(both.models[0].w, alone.models[0].w)
    assert float(both.models[0].w) < CLIFF < float(both.models[1].w)
    assert np.isfinite(both.objectives).all()
    assert np.isfinite(np.array(both.history.values["objective"])).all()


def test_the_other_seeds_are_as_if_none_had_diverged():
    both = trained(Cliff(float("nan")), Cliff(float("nan"), falls=False))
    torch.testing.assert_close(both.models[1].w, trained(Cliff(float("nan"), falls=False)).models[0].w)


def test_a_seed_that_diverges_twice_is_counted_and_told():
    with pytest.warns(ConvergenceWarning, match="in 1 of 2 models, tried again at a third of the rate"):
        both = trained(Cliff(float("nan")), Cliff(float("nan"), falls=False), rate=0.2)
    assert both.diverged.tolist() == [True, False]
    assert both.stopped_at[0] < 60


def test_it_is_stopped_when_it_happens_and_not_at_the_next_look():
    with pytest.raises(DivergenceError, match=r"by step \d,"):
        trained(Cliff(float("nan")), rate=0.2, steps=60_000)


def test_a_fit_with_fewer_than_half_of_its_seeds_alive_is_an_error(monkeypatch):
    from noumena.estimators import base

    whole = base.train

    def lossy(models, *rest, **options):
        fitted = whole(models, *rest, **options)
        fitted.diverged[:2] = True
        return fitted

    monkeypatch.setattr(base, "train", lossy)
    x = np.random.default_rng(0).normal(size=(60, 4))
    with pytest.raises(DivergenceError, match=r"At least half of the seeds must stay finite\. Got 2 of 3"):
        nm.VAE(2, n_models=3, training=nm.Training(steps=3)).fit(x)
    nm.VAE(2, n_models=4, training=nm.Training(steps=3)).fit(x)


def test_a_wide_table_with_outliers_is_fitted_by_the_defaults():
    rng = np.random.default_rng(1)
    x = np.exp(2 * rng.normal(size=(120, 4)) @ rng.normal(size=(4, 300)) / 2 + rng.normal(size=(120, 300)))
    model = nm.VAE(4, n_models=2, training=nm.Training(steps=60)).fit(x)
    assert not model.diverged_.any()
    assert np.isfinite(model.transform(x)).all()


def test_settings_that_are_given_are_taken_whatever_the_width():
    given = nm.Training(steps=7, learning_rate=0.5).for_columns(10_000)
    assert (given.steps, given.learning_rate) == (7, 0.5)


def test_where_there_is_no_terminal_a_long_fit_says_a_line_now_and_then(monkeypatch, capsys):
    monkeypatch.setattr(progress, "EVERY", 0.0)
    x = np.random.default_rng(0).normal(size=(60, 4))
    nm.VAE(2, training=nm.Training(steps=3, verbose=True)).fit(x)
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 3
    assert lines[-1].startswith("training: step 3 of 3, 0 s, 1 seeds, best objective")
