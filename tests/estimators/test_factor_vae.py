"""FactorVAE: the discriminator sees dependence, the autoencoder pays for it, neither trains the other by mistake."""

import numpy as np
import pytest
import torch
from torch.func import functional_call

import noumena as nm
from noumena.estimators.factor_vae import FactorVAEObjective, mistaken, permuted
from noumena.nets import ConvDecoder, ConvEncoder

SMALL = nm.MLP((16, 16))
PENALTIES = [nm.LatentSparsity(), nm.DependencySparsity(points=4), nm.OroJaR(), nm.HessianPenalty()]


def correlated(n=400, seed=0):
    rng = np.random.default_rng(seed)
    z = rng.normal(size=(n, 2)) @ np.array([[1.0, 0.9], [0.0, 0.3]])
    return np.concatenate([z, z**2], axis=1)


def model(**settings):
    how = {"discriminator": SMALL, "training": nm.Training(steps=5, batch_size=32), "random_state": 0} | settings
    return nm.FactorVAE(2, **how)


def fresh(**settings) -> FactorVAEObjective:
    return model(**settings)._model(3, 4, torch.zeros(4), torch.ones(4))


def parts_of(objective, x):
    draws = objective.draws(len(x), torch.Generator().manual_seed(0))
    return objective(x, draws, 1.0)


def test_permuting_keeps_every_column_and_breaks_the_rows():
    z = torch.arange(40.0).reshape(20, 2)
    mixed = permuted(z, torch.rand(20, 2, generator=torch.Generator().manual_seed(0)))
    assert torch.equal(mixed.sort(dim=0).values, z)
    assert not torch.equal(mixed[:, 1] - mixed[:, 0], torch.ones(20))


def test_the_discriminators_loss_is_the_cross_entropy():
    together, apart = torch.randn(7), torch.randn(7)
    logits = torch.cat([torch.stack([together, torch.zeros(7)], 1), torch.stack([apart, torch.zeros(7)], 1)])
    labels = torch.cat([torch.zeros(7), torch.ones(7)]).long()
    assert torch.allclose(mistaken(together, apart), torch.nn.functional.cross_entropy(logits, labels))


def test_neither_network_is_trained_by_the_others_loss():
    objective = fresh(gamma=50.0)
    _, terms = parts_of(objective, torch.randn(32, 4))
    own = [*objective.discriminator.parameters()]
    coder = [*objective.encoder.parameters(), *objective.decoder.parameters()]
    through = torch.autograd.grad(terms["total correlation"], own + coder, retain_graph=True, allow_unused=True)
    assert all(g is None or not g.any() for g in through[: len(own)])
    assert any(g is not None and g.any() for g in through[len(own) :])
    back = torch.autograd.grad(terms["adversary"], own + coder, allow_unused=True)
    assert all(g is not None and g.any() for g in back[: len(own)])
    assert all(g is None or not g.any() for g in back[len(own) :])


def test_the_loss_adds_up_and_the_opponents_part_is_not_in_the_held_out_objective():
    fitted = model(gamma=7.0, beta=0.5).fit(correlated())
    terms = {name: value[0] for name, value in fitted.terms_.items()}
    expected = terms["reconstruction"] + 0.5 * terms["kl"] + 7.0 * terms["total correlation"]
    assert fitted.objectives_[0] == pytest.approx(expected, rel=1e-5)


def test_the_total_correlation_is_that_of_the_log_odds_on_the_first_half():
    objective, x = fresh(), torch.randn(20, 4)
    draws = objective.draws(20, torch.Generator().manual_seed(0))
    _, terms = objective(x, draws, 1.0)
    mean, log_variance = objective.encoder(x[:10]).chunk(2, dim=1)
    z = mean + draws["noise"][:10] * (log_variance / 2).exp()
    logits = objective.discriminator(z)
    assert torch.allclose(terms["total correlation"], (logits[:, 0] - logits[:, 1]).mean(), atol=1e-6)


def test_the_second_half_of_a_batch_is_for_the_discriminator_alone():
    objective, x = fresh(), torch.randn(20, 4)
    other = torch.cat([x[:10], torch.randn(10, 4)])
    draws = objective.draws(20, torch.Generator().manual_seed(0))
    (_, a), (_, b) = objective(x, draws, 1.0), objective(other, draws, 1.0)
    assert not torch.allclose(a["adversary"], b["adversary"])
    assert all(torch.allclose(a[name], b[name]) for name in ("reconstruction", "kl", "total correlation"))


def test_the_discriminator_tells_dependent_latents_after_training():
    x = correlated(2000)
    lenient = model(gamma=0.0, beta=1e-3, training=nm.Training(steps=400, batch_size=256, learning_rate=3e-3)).fit(x)
    assert lenient.terms_["adversary"][0] < np.log(2) - 0.02
    assert lenient.terms_["total correlation"][0] > 0.05


def test_a_high_price_lowers_the_correlation_that_the_autoencoder_leaves():
    x = correlated(2000)
    how = nm.Training(steps=500, batch_size=256, learning_rate=3e-3)
    free, dear = (model(gamma=gamma, beta=1e-2, training=how).fit(x).terms_["total correlation"][0] for gamma in (0, 5))
    assert dear < free / 2


@pytest.mark.parametrize("penalty", PENALTIES, ids=lambda p: type(p).__name__)
def test_images_in_bytes_with_every_penalty(penalty):
    x = np.random.default_rng(0).integers(0, 256, size=(40, 64), dtype=np.uint8)
    shape = {"channels": 1, "size": 8, "widths": (4, 4), "hidden": 8}
    fitted = model(
        penalty=0.01 * penalty, encoder=ConvEncoder(**shape), decoder=ConvDecoder(**shape), likelihood="bernoulli",
        standardise=False, training=nm.Training(steps=2, batch_size=8),
    ).fit(x)  # fmt: skip
    assert fitted.terms_["penalty"][0] > 0
    again = fitted.inverse_transform(fitted.transform(x))
    assert again.shape == x.shape
    assert again.min() >= 0
    assert 50 < again.mean() < 205  # in the units of the bytes


def test_two_seeds_in_one_program_equal_two_fits():
    x = correlated()
    both = model(n_models=2).fit(x).transform_all(x)
    second = model(random_state=1).fit(x).transform(x)
    assert np.allclose(both[1], second, atol=1e-4)


def test_a_single_row_is_its_own_second_half():
    objective = fresh()
    loss, _ = parts_of(objective, torch.randn(1, 4))
    assert bool(loss.isfinite())


def test_the_discriminator_moves_at_its_own_pace():
    objective = fresh()
    assert objective.paces["discriminator."].betas == (0.5, 0.9)
    assert any(name.startswith("discriminator.") for name, _ in objective.named_parameters())
    state = dict(objective.named_parameters())
    x = torch.randn(8, 4)
    draws = objective.draws(8, torch.Generator().manual_seed(1))
    swapped = functional_call(objective, {k: v * 2 for k, v in state.items()}, (x, draws, 1.0))[0]
    assert not torch.allclose(swapped, objective(x, draws, 1.0)[0])


def test_a_bound_on_a_loss_that_an_opponent_estimates_is_refused():
    with pytest.raises(nm.InputError, match="within must be None where an opponent"):
        model(penalty=nm.DependencySparsity(), training=nm.Training(within=0.1)).fit(correlated())


@pytest.mark.parametrize("gamma", [-1.0, np.nan, np.inf])
def test_an_impossible_price_is_refused(gamma):
    with pytest.raises(nm.InputError, match="gamma must be"):
        model(gamma=gamma).fit(correlated())
