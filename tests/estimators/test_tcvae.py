"""β-TCVAE: the KL term falls into three parts, and the total correlation has a weight of its own."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.stats import multivariate_normal, norm
from sklearn.base import clone
from torch import Tensor

from noumena import seeds
from noumena.checks import InputError
from noumena.estimators.loop import Training
from noumena.estimators.tcvae import AT_ONCE, BetaTCVAE, decomposed_kl, log_normal
from noumena.estimators.vae import VAE
from noumena.nets import MLP
from noumena.nets.conv import ConvDecoder, ConvEncoder
from noumena.penalties import LatentSparsity

NET = MLP(hidden=(8,))


def posteriors(rows: int, latents: int, seed: int = 0) -> tuple[Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    mean, log_variance, noise = torch.randn(3, rows, latents, generator=generator, dtype=torch.float64).unbind()
    return mean + noise * (log_variance / 2).exp(), mean, log_variance


def data(rows: int = 60) -> np.ndarray:
    rng = np.random.default_rng(0)
    return rng.normal(size=(rows, 2)) @ rng.normal(size=(2, 4)) + 0.1 * rng.normal(size=(rows, 4))


def test_every_part_is_that_of_a_slow_loop_with_scipy() -> None:
    z, mean, log_variance = posteriors(6, 3)
    found = decomposed_kl(z, mean, log_variance)
    spread = (log_variance / 2).exp().numpy()
    for i, point in enumerate(z.numpy()):
        each = norm.pdf(point[None], mean.numpy(), spread)
        joint, alone = np.log(each.prod(axis=1).mean()), np.log(each.mean(axis=0)).sum()
        own = multivariate_normal(mean[i].numpy(), np.diag(spread[i] ** 2)).logpdf(point)
        prior = multivariate_normal(np.zeros(3), np.eye(3)).logpdf(point)
        assert float(found.mutual_information[i]) == pytest.approx(own - joint)
        assert float(found.total_correlation[i]) == pytest.approx(joint - alone)
        assert float(found.dimension_wise[i]) == pytest.approx(alone - prior)


def test_independent_corners_have_no_total_correlation_and_copies_have_a_bit_for_each_latent_more() -> None:
    corners = 99 * torch.tensor([[a, b] for a in (0.0, 1.0) for b in (0.0, 1.0)])
    none = decomposed_kl(corners, corners, torch.zeros(4, 2))
    torch.testing.assert_close(none.total_correlation, torch.zeros(4), atol=1e-5, rtol=0)
    torch.testing.assert_close(none.mutual_information, torch.full((4,), np.log(4.0), dtype=torch.float32))
    copies = 99 * torch.tensor([[0.0], [1.0]]).repeat(1, 4)
    found = decomposed_kl(copies, copies, torch.zeros(2, 4)).total_correlation
    torch.testing.assert_close(found, torch.full((2,), 3 * np.log(2.0), dtype=torch.float32))


def test_the_total_correlation_of_a_gaussian_is_minus_half_the_log_determinant_of_its_correlation() -> None:
    generator = torch.Generator().manual_seed(0)
    mean = torch.randn(512, 2, generator=generator, dtype=torch.float64)
    mean = torch.stack([mean[:, 0], 0.9 * mean[:, 0] + (1 - 0.81) ** 0.5 * mean[:, 1]], dim=1)
    z = mean + 0.5 * torch.randn(512, 2, generator=generator, dtype=torch.float64)
    found = decomposed_kl(z, mean, torch.full_like(z, np.log(0.25))).total_correlation.mean()
    assert float(found) == pytest.approx(-0.5 * np.log(1 - (0.9 / 1.25) ** 2), abs=0.08)


def test_the_total_correlation_keeps_under_scaling_shifting_and_exchanging_latents() -> None:
    z, mean, log_variance = posteriors(20, 3)
    scale = torch.tensor([2.0, -0.5, 7.0], dtype=torch.float64)
    moved = [(t * scale + 3)[:, [2, 0, 1]] for t in (z, mean)]
    wider = (log_variance + 2 * scale.abs().log())[:, [2, 0, 1]]
    torch.testing.assert_close(
        decomposed_kl(*moved, wider).total_correlation, decomposed_kl(z, mean, log_variance).total_correlation
    )


def test_a_long_batch_is_taken_in_parts() -> None:
    z, mean, log_variance = posteriors(AT_ONCE + 40, 2)
    found = decomposed_kl(z, mean, log_variance).total_correlation
    for part in (slice(0, AT_ONCE), slice(AT_ONCE, None)):
        expected = decomposed_kl(z[part], mean[part], log_variance[part]).total_correlation
        torch.testing.assert_close(found[part], expected)


def test_the_log_density_is_that_of_scipy() -> None:
    z, mean, log_variance = posteriors(5, 2)
    expected = norm.logpdf(z.numpy(), mean.numpy(), (log_variance / 2).exp().numpy())
    np.testing.assert_allclose(log_normal(z, mean, log_variance).numpy(), expected)


def loss_and_terms(model: VAE, x: np.ndarray) -> tuple[Tensor, dict[str, Tensor]]:
    with seeds.global_torch(0, "init"):
        objective = model._build(x.shape[1], torch.zeros(x.shape[1]), torch.ones(x.shape[1]))
    draws = objective.draws(len(x), torch.Generator().manual_seed(0))
    with torch.no_grad():
        return objective(torch.as_tensor(x, dtype=torch.float32), draws, 1.0)


def test_the_loss_weighs_the_total_correlation_by_beta_and_the_rest_by_kl() -> None:
    x = data()
    loss, terms = loss_and_terms(BetaTCVAE(3, beta=2.0, kl=0.3, encoder=NET, decoder=NET), x)
    rest = terms["kl"] - terms["total correlation"]
    expected = terms["reconstruction"] + 0.3 * rest + 2.0 * terms["total correlation"]
    torch.testing.assert_close(loss, expected)
    sampled = sum(terms[name] for name in ("mutual information", "total correlation", "dimension-wise kl"))
    assert float(sampled) == pytest.approx(float(terms["kl"]), abs=0.5)
    assert float(terms["total correlation"]) != 0


def test_equal_weights_are_the_vae() -> None:
    x = data()
    ours, plain = BetaTCVAE(2, beta=0.2, kl=0.2, encoder=NET, decoder=NET), VAE(2, beta=0.2, encoder=NET, decoder=NET)
    torch.testing.assert_close(loss_and_terms(ours, x)[0], loss_and_terms(plain, x)[0])
    plan = Training(steps=20, batch_size=16)
    found = [clone(m).set_params(training=plan, random_state=0).fit(x).transform(x) for m in (ours, plain)]
    np.testing.assert_allclose(*found, rtol=1e-4, atol=1e-5)


def test_a_penalty_is_added_to_the_loss() -> None:
    x = data()
    with_it, terms = loss_and_terms(BetaTCVAE(2, penalty=0.5 * LatentSparsity(), encoder=NET, decoder=NET), x)
    without, _ = loss_and_terms(BetaTCVAE(2, encoder=NET, decoder=NET), x)
    torch.testing.assert_close(with_it, without + terms["penalty"])
    assert float(terms["penalty"]) > 0


def test_gradients_of_the_total_correlation_alone_reach_the_whole_encoder() -> None:
    x = data()
    with seeds.global_torch(0, "init"):
        objective = BetaTCVAE(2, encoder=NET, decoder=NET)._build(4, torch.zeros(4), torch.ones(4))
    draws = objective.draws(len(x), torch.Generator().manual_seed(0))
    _, terms = objective(torch.as_tensor(x, dtype=torch.float32), draws, 1.0)
    terms["total correlation"].backward()
    assert all(p.grad is not None and bool((p.grad != 0).any()) for p in objective.encoder.parameters())


def test_a_heavier_beta_leaves_less_total_correlation() -> None:
    x = data(400)
    plan = Training(steps=80, batch_size=64)
    found = [
        BetaTCVAE(2, beta=beta, kl=0.05, encoder=NET, decoder=NET, training=plan, random_state=0, n_models=2)
        .fit(x)
        .terms_
        for beta in (0.05, 3.0)
    ]
    assert (found[1]["total correlation"] < 0.5 * found[0]["total correlation"]).all()
    assert (found[1]["mutual information"] > 0.3).all()


def test_images_are_fitted_by_convolutions_several_seeds_at_once() -> None:
    x = np.random.default_rng(0).random((40, 64)).astype(np.float32)
    x[:, 5] = 0.0  # a constant pixel, as in the margin of an image
    shape = {"channels": 1, "size": 8, "widths": (3, 4), "hidden": 6}
    model = BetaTCVAE(
        2, encoder=ConvEncoder(**shape), decoder=ConvDecoder(**shape), standardise=False, n_models=2,
        training=Training(steps=3, batch_size=16), random_state=0,
    ).fit(x)  # fmt: skip
    assert model.transform_all(x).shape == (2, 40, 2)
    assert model.decoder_(torch.zeros(1, 2)).shape == (1, 64)


def test_a_negative_weight_is_refused() -> None:
    for name in ("kl", "beta"):
        with pytest.raises(InputError, match=rf"{name} must be a finite number in \[0, inf\]\. Got -1\."):
            BetaTCVAE(**{name: -1}).fit(data())
