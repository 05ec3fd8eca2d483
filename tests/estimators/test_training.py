"""The one training loop: batched seeds, early stop, opponents, paces and averages."""

import numpy as np
import pytest
import torch
from sklearn.base import clone
from small_fits import BIAS, Dies, Valley, data, walk

import noumena as nm
from noumena.estimators import loop
from noumena.estimators.descent import clip_each
from noumena.estimators.loop import FitData, Objective, train


def parameters(model):
    return torch.cat([p.flatten() for p in model.parameters()])


@pytest.mark.parametrize(
    "model",
    [
        nm.VAE(2, penalty=BIAS),
        nm.VAE(2),
        nm.Autoencoder(2, penalty=BIAS, normalise=True),
        nm.VAE(2, penalty=BIAS, training=nm.Training(steps=60, batch_size=32, clip=0.5, patience=2)),
    ],
    ids=["vae with penalty", "vae", "autoencoder", "clipped with patience"],
)
def test_k_seeds_in_one_program_equal_k_separate_fits(model):
    training = clone(model.training or nm.Training(steps=60, batch_size=32)).set_params(dtype="float64", refit=False)
    together = clone(model).set_params(n_models=3, random_state=7, training=training).fit(data())
    for k, seed in enumerate(together.seeds_):
        alone = clone(model).set_params(n_models=1, random_state=seed, training=training).fit(data())
        assert torch.allclose(parameters(alone.models_[0]), parameters(together.models_[k]), atol=1e-9)
        assert alone.objectives_[0] == pytest.approx(together.objectives_[k], rel=1e-9)
        assert alone.stopped_at_[0] == together.stopped_at_[k]


def test_in_single_precision_batched_and_separate_fits_differ_by_rounding_only():
    model = nm.VAE(2, penalty=BIAS, training=nm.Training(steps=60, batch_size=32, refit=False))
    together = clone(model).set_params(n_models=3, random_state=7).fit(data())
    alone = clone(model).set_params(random_state=together.seeds_[1]).fit(data())
    assert alone.models_[0].mean.dtype == torch.float32
    assert torch.allclose(parameters(alone.models_[0]), parameters(together.models_[1]), atol=2e-3)
    assert alone.objectives_[0] == pytest.approx(together.objectives_[1], rel=1e-3)


def test_seeds_differ_from_each_other():
    model = nm.VAE(2, n_models=2, random_state=0, training=nm.Training(steps=5)).fit(data())
    assert not torch.allclose(parameters(model.models_[0]), parameters(model.models_[1]), atol=1e-2)


def test_the_model_with_the_lowest_held_out_objective_is_used():
    model = nm.VAE(2, n_models=4, random_state=0, training=nm.Training(steps=40)).fit(data())
    assert model.best_ == int(np.argmin(model.objectives_))
    x = torch.as_tensor(data())
    assert np.allclose(model.transform(data()), model.transform_all(data())[model.best_])
    assert model.transform(x).dtype == torch.float64


def test_training_reduces_the_objective_and_records_every_term():
    plan = nm.Training(steps=300, refit=False)
    model = nm.VAE(2, penalty=BIAS, n_models=2, random_state=0, training=plan).fit(data())
    curve = np.array(model.history_.values["objective"])
    assert curve[-1].max() < 0.7 * curve[0].min()
    assert set(model.terms_) == {"reconstruction", "kl", "penalty", "active"}
    assert model.terms_["active"].tolist() == [2, 2]
    total = model.terms_["reconstruction"] + model.beta * model.terms_["kl"] + model.terms_["penalty"]
    assert np.allclose(total, model.objectives_, rtol=1e-4)
    frame = model.history_.frame()
    assert len(frame) == len(model.history_.steps) * 2 * len(model.history_.values)


def test_the_best_held_out_look_is_kept_even_when_training_goes_past_it():
    trained = walk()
    assert float(trained.models[0].w) == pytest.approx(0.5, abs=0.15)
    assert trained.stopped_at[0] == 600


class Noisy(Objective):
    """Has a draw per row."""

    def __init__(self):
        super().__init__()
        self.w = torch.nn.Parameter(torch.ones(1))

    def draws(self, rows, generator):
        return {"noise": torch.randn(rows, 1, generator=generator)}

    def forward(self, x, draws, progress):
        return (self.w * x + draws["noise"]).square().mean(), {}


def test_every_epoch_sees_every_row_once_in_a_new_order_with_new_draws():
    rows = FitData(torch.arange(40.0)[:, None], torch.ones(4, 1), "")
    fit = loop._Fit([Noisy(), Noisy()], [0, 1], rows, nm.Training(steps=80, batch_size=4))
    seen, noise = [], []
    for x, draws in fit._batches():
        seen.append(x[..., 0])
        noise.append(draws["noise"])
        fit.step += 1
    epochs = torch.stack(seen).reshape(8, 10, 2, 4).permute(0, 2, 1, 3).reshape(8, 2, 40)
    assert bool((epochs.sort(dim=-1).values == torch.arange(40.0)).all())
    assert len({tuple(order.tolist()) for order in epochs.reshape(16, 40)}) == 16
    assert torch.stack(noise).unique().numel() == 80 * 2 * 4


def test_patience_stops_a_model_early():
    trained = walk(patience=2)
    assert trained.stopped_at[0] < 400
    assert trained.history.steps[-1] == trained.stopped_at[0]


def test_clipping_bounds_each_models_gradient_alone():
    state = {"w": torch.zeros(2, 3, requires_grad=True)}
    state["w"].grad = torch.tensor([[30.0, 40.0, 0.0], [0.3, 0.4, 0.0]])
    clip_each(state, 5.0)
    assert torch.allclose(state["w"].grad, torch.tensor([[3.0, 4.0, 0.0], [0.3, 0.4, 0.0]]))


def test_sparsity_recovers_a_tiny_world_that_the_plain_model_does_not():
    support = np.array([[1, 0]] * 3 + [[1, 1]] * 2 + [[0, 1]] * 3, dtype=bool)
    world = nm.worlds.structured(nm.Structure(support), law="unit gaussian", random_state=1)
    sample = world.sample(2000)
    training = nm.Training(steps=800, batch_size=128)
    fits = {
        name: nm.VAE(2, penalty=penalty, n_models=3, training=training, random_state=0).fit(sample.x)
        for name, penalty in {"with": BIAS, "without": None}.items()
    }
    scores = {
        name: np.array([nm.metrics.mcc(sample.z, z_hat).score for z_hat in fit.transform_all(sample.x)])
        for name, fit in fits.items()
    }
    assert scores["with"].min() > 0.97
    assert scores["without"].mean() < 0.95
    assert nm.metrics.structure_distance(world.structure, fits["with"].structure_).score == 1.0
    assert nm.certify(fits["with"]).answer == "identified"


class Duel(Objective):
    """Two numbers: ``w`` follows the rows, its opponent's loss is far larger; the first one is never trained."""

    fixed = ("still",)

    def __init__(self):
        super().__init__()
        self.still = torch.nn.Parameter(torch.ones(1))
        self.w = torch.nn.Parameter(torch.zeros(1))
        self.opponent = torch.nn.Parameter(torch.full((1,), 30.0))

    def forward(self, x, draws, progress):
        own = (self.w * self.still - x).square().mean()
        theirs = self.opponent.square().mean()
        return own + theirs, {"own": own, "adversary": theirs}


def duel(objective=None, **settings):
    rows = FitData(torch.ones(8, 1), torch.ones(8, 1), "")
    return train([objective or Duel()], [0], rows, nm.Training(**{"steps": 90, "learning_rate": 0.05} | settings))


def test_the_opponents_loss_trains_it_but_does_not_judge_the_model():
    trained = duel()
    assert float(trained.models[0].opponent) < 29.9
    assert trained.objectives[0] == pytest.approx(trained.terms["own"][0], abs=1e-3)


def test_what_is_fixed_is_not_trained_and_stays_in_the_model():
    trained = duel()
    assert float(trained.models[0].still) == 1.0
    assert float(trained.models[0].w) > 0.5


def test_parameters_move_at_their_own_pace():
    class Slow(Duel):
        paces = {"opponent": loop.Pace(rate=0.1, betas=(0.0, 0.9))}  # noqa: RUF012

    slow, fast = 30 - float(duel(Slow()).models[0].opponent), 30 - float(duel().models[0].opponent)
    assert slow == pytest.approx(fast / 10, rel=0.05)
    fit = loop._Fit([Slow()], [0], FitData(torch.ones(8, 1), torch.ones(8, 1), ""), nm.Training())
    assert [g["betas"] for g in fit.descent.optimizer.param_groups] == [(0.9, 0.999), (0.0, 0.9)]


def test_an_unjudged_model_is_kept_as_it_is_last():
    class Unjudged(Valley):
        judged = False

    rows = FitData(torch.ones(8, 1), torch.full((8, 1), 0.5), "")
    options = nm.Training(steps=600, learning_rate=0.03, batch_size=8, patience=2)
    trained = train([Unjudged()], [0], rows, options)
    assert float(trained.models[0].w) == pytest.approx(1.0, abs=0.01)
    assert trained.stopped_at[0] == 600


def test_a_young_average_forgets_faster():
    quick = {"steps": 8, "learning_rate": 0.01, "schedule": "constant"}
    now, lagging = (float(duel(average=a, **quick).models[0].w) for a in (None, 0.95))
    assert now > lagging > 0.4 * now > 0


def test_an_average_of_the_weights_lags_behind_them_and_survives_a_kill(tmp_path, monkeypatch):
    quick = {"steps": 100, "learning_rate": 0.01, "schedule": "constant"}
    now, lagging = (float(duel(average=a, **quick).models[0].w) for a in (None, 0.95))
    assert 0.1 < lagging < now - 0.05
    save = loop._Fit._save

    def save_then_die(fit):
        save(fit)
        if fit.step == 50:
            raise Dies

    monkeypatch.setattr(loop._Fit, "_save", save_then_die)
    kept = {"checkpoint": tmp_path / "state", "checkpoint_seconds": 0, **quick}
    with pytest.raises(Dies):
        duel(average=0.95, **kept)
    monkeypatch.setattr(loop._Fit, "_save", save)
    assert float(duel(average=0.95, **kept).models[0].w) == lagging


def test_a_constant_schedule_has_no_cycle():
    assert float(duel(steps=1, schedule="constant").models[0].w) == pytest.approx(0.05, rel=1e-3)
    assert float(duel(steps=1).models[0].w) == pytest.approx(0.05 / 25, rel=1e-3)


def test_mixed_precision_is_left_to_gpus():
    x = data()
    full, mixed = (
        nm.VAE(2, random_state=0, training=nm.Training(steps=4, precision=p)).fit(x) for p in ("full", "bfloat16")
    )
    assert mixed.models_[0].encoder[0].weight.dtype == torch.float32
    assert np.array_equal(full.transform(x), mixed.transform(x))


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"precision": "half"}, "precision must be one of full, bfloat16"),
        ({"precision": "bfloat16", "dtype": "float64"}, "precision must be full in double precision"),
        ({"average": 1.0}, "average must be"),
        ({"schedule": "cosine"}, "schedule must be one of cycle, constant"),
    ],
)
def test_settings_for_images_that_cannot_be_used_are_refused(settings, sentence):
    with pytest.raises(nm.InputError, match=sentence):
        nm.VAE(2, training=nm.Training(**settings), random_state=0).fit(data())


def test_models_side_by_side_train_as_models_batched():
    class Apart(Noisy):
        batched = False

    rows = FitData(torch.arange(40.0)[:, None], torch.ones(4, 1), "")
    plan = nm.Training(steps=40, batch_size=4, learning_rate=0.05)
    as_one, apart = (train([kind(), kind()], [0, 1], rows, plan) for kind in (Noisy, Apart))
    assert np.allclose(as_one.objectives, apart.objectives, rtol=1e-6)
    assert [float(m.w) for m in as_one.models] == pytest.approx([float(m.w) for m in apart.models], rel=1e-6)
    assert float(apart.models[0].w) != float(apart.models[1].w)
