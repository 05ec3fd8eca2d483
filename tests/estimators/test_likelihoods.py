"""Likelihoods: squared errors or the cross-entropy of pixels, in every autoencoder that takes images."""

from __future__ import annotations

from math import log
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.base import clone
from torch import Tensor

import noumena as nm
from noumena import seeds
from noumena.checks import InputError
from noumena.derivatives import jacobian
from noumena.estimators.likelihoods import check_range, emitting, misfit, output
from noumena.estimators.loop import Training
from noumena.estimators.sources import source_of
from noumena.estimators.vae import VAEObjective
from noumena.nets.conv import ConvDecoder, ConvEncoder

SHAPE = {"channels": 1, "size": 8, "widths": (3, 4), "hidden": 6}
NETS = {"encoder": ConvEncoder(**SHAPE), "decoder": ConvDecoder(**SHAPE)}
QUICK = Training(steps=3, batch_size=16)
IMAGES: dict[str, Any] = {**NETS, "likelihood": "bernoulli", "standardise": False, "training": QUICK, "random_state": 0}
MODELS = [nm.VAE(2, **IMAGES), nm.BetaVAE(2, **IMAGES), nm.BetaTCVAE(2, **IMAGES), nm.BioAE(2, **IMAGES),
          nm.QLAE(2, learn_values=False, **IMAGES)]  # fmt: skip
PENALTIES = [0.1 * nm.LatentSparsity(), 0.1 * nm.DependencySparsity(points=4), 0.1 * nm.DependencySparsity(rows=8),
             0.1 * nm.OroJaR(), 0.1 * nm.HessianPenalty()]  # fmt: skip

every = pytest.mark.parametrize("model", MODELS, ids=lambda m: type(m).__name__)


def pictures(rows: int = 40, side: int = 8) -> np.ndarray:
    """A soft spot that moves, as bytes; the first pixel is always off."""
    place = np.random.default_rng(0).uniform(1, side - 2, size=(rows, 2, 1))
    across, down = np.exp(-0.5 * (np.arange(side) - place) ** 2).swapaxes(0, 1)
    found = (255 * across[:, :, None] * down[:, None]).round().astype(np.uint8).reshape(rows, -1)
    found[:, 0] = 0
    return found


def built(model: Any, pixels: int = 64) -> Any:
    with seeds.global_torch(0, "init"):
        return model._build(pixels, torch.zeros(pixels), torch.full((pixels,), 255.0))


def rows() -> Tensor:
    return torch.as_tensor(pictures(20) / 255.0, dtype=torch.float32)


# ---- the formula -----------------------------------------------------------------------------------------


def test_the_bernoulli_misfit_is_the_one_worked_out_by_hand() -> None:
    x = torch.tensor([[1.0, 0.0, 0.5], [0.0, 1.0, 0.25]])
    logits = torch.tensor([[log(3.0), log(3.0), 0.0], [0.0, -log(4.0), log(1 / 3)]])  # means ¾ ¾ ½ and ½ ⅕ ¼
    by_hand = [-log(3 / 4) - log(1 / 4) - log(1 / 2), -log(1 / 2) - log(1 / 5) - (log(1 / 4) + 3 * log(3 / 4)) / 4]
    torch.testing.assert_close(misfit(logits, x, "bernoulli"), torch.tensor(by_hand))


def test_the_normal_misfit_is_the_one_worked_out_by_hand() -> None:
    found = misfit(torch.tensor([[1.0, -2.0], [0.5, 0.0]]), torch.tensor([[4.0, 2.0], [0.0, 0.5]]), "gaussian")
    torch.testing.assert_close(found, torch.tensor([9.0 + 16.0, 0.25 + 0.25]))


def test_the_gradient_of_the_bernoulli_misfit_is_the_mean_minus_the_pixel_and_vanishes_at_the_pixel() -> None:
    x = torch.tensor([[0.2, 0.9, 0.0]])
    logits = torch.tensor([[0.3, -1.0, 2.0]], requires_grad=True)
    (found,) = torch.autograd.grad(misfit(logits, x, "bernoulli").sum(), logits)
    torch.testing.assert_close(found, logits.detach().sigmoid() - x)
    at = torch.tensor([[0.2, 0.9]]).logit().requires_grad_()
    least = misfit(at, x[:, :2], "bernoulli")
    torch.testing.assert_close(torch.autograd.grad(least.sum(), at)[0], torch.zeros(1, 2))
    entropy = -sum(p * log(p) + (1 - p) * log(1 - p) for p in (0.2, 0.9))
    assert float(least.detach()) == pytest.approx(entropy, rel=1e-5)


def test_certain_logits_stay_finite() -> None:
    found = misfit(torch.tensor([[200.0, -200.0, 200.0]]), torch.tensor([[1.0, 0.0, 0.0]]), "bernoulli")
    assert float(found) == pytest.approx(200.0)


def test_the_order_of_observations_does_not_matter_and_rows_are_apart() -> None:
    generator = torch.Generator().manual_seed(0)
    out, x = torch.randn(5, 7, generator=generator), torch.rand(5, 7, generator=generator)
    order = torch.randperm(7, generator=generator)
    for likelihood in ("gaussian", "bernoulli"):
        whole = misfit(out, x, likelihood)
        torch.testing.assert_close(misfit(out[:, order], x[:, order], likelihood), whole)
        torch.testing.assert_close(misfit(out[2:3], x[2:3], likelihood), whole[2:3])


def test_half_precision_outputs_are_compared_in_the_precision_of_the_rows() -> None:
    out, x = torch.full((1, 4000), 0.1).bfloat16(), torch.zeros(1, 4000)
    for likelihood, each in (("gaussian", 0.1**2), ("bernoulli", log(1 + np.exp(0.1)))):
        found = misfit(out, x, likelihood)
        assert found.dtype == torch.float32
        assert float(found) == pytest.approx(4000 * each, rel=1e-2)


def test_a_decoder_emits_its_output_or_the_sigmoid_of_it() -> None:
    net = torch.nn.Linear(2, 3)
    z = torch.ones(1, 2)
    assert emitting(net, "gaussian") is net
    torch.testing.assert_close(emitting(net, "bernoulli")(z), net(z).sigmoid())
    for likelihood in ("gaussian", "bernoulli"):
        torch.testing.assert_close(output(emitting(net, likelihood), z, likelihood), net(z))


# ---- in the models ---------------------------------------------------------------------------------------


@every
def test_the_reconstruction_is_the_cross_entropy_of_the_logits_and_what_is_decoded_is_their_sigmoid(model: Any) -> None:
    codec = built(model).requires_grad_(False)
    x, seen = rows(), []
    codec.decoder[0].register_forward_hook(lambda net, given, logits: seen.append((given[0], logits)))
    _, terms = codec(x, codec.draws(20, torch.Generator().manual_seed(0)), 1.0)
    z, logits = seen[0]
    p = logits.double().sigmoid()
    expected = -(x * p.log() + (1 - x) * (1 - p).log()).sum(dim=1).mean()
    assert float(terms["reconstruction"]) == pytest.approx(float(expected), rel=1e-5)
    torch.testing.assert_close(codec.decode(z), 255 * p.float())


@every
def test_a_penalty_is_that_of_the_pixels(model: Any) -> None:
    codec = built(clone(model).set_params(penalty=2.0 * nm.DependencySparsity("l1"))).requires_grad_(False)
    x, seen = rows(), []
    codec.decoder[0].register_forward_hook(lambda net, given, logits: seen.append((given[0], logits)))
    draws = codec.draws(20, torch.Generator().manual_seed(0))
    loss, terms = codec(x, draws, 1.0)
    z, logits = seen[0]
    p = logits.sigmoid()
    J = (p * (1 - p))[:, :, None] * jacobian(codec.decoder[0], z)
    torch.testing.assert_close(terms["penalty"], 2 * J.abs().sum(dim=(1, 2)).mean())
    codec.penalty = None
    torch.testing.assert_close(codec(x, draws, 1.0)[0] + terms["penalty"], loss)


@every
def test_the_normal_likelihood_is_the_squared_error_and_the_default(model: Any) -> None:
    codec = built(clone(model).set_params(likelihood="gaussian")).requires_grad_(False)
    x, seen = rows(), []
    codec.decoder.register_forward_hook(lambda net, given, out: seen.append(out))
    _, terms = codec(x, codec.draws(20, torch.Generator().manual_seed(0)), 1.0)
    torch.testing.assert_close(terms["reconstruction"], (seen[0] - x).square().sum(dim=1).mean())
    assert type(model)().likelihood == "gaussian"


@every
def test_gradients_reach_every_parameter(model: Any) -> None:
    codec = built(model)
    loss, _ = codec(rows(), codec.draws(20, torch.Generator().manual_seed(0)), 1.0)
    loss.backward()
    assert all(p.grad is not None and bool((p.grad != 0).any()) for p in codec.parameters())


@every
def test_bytes_are_fitted_like_their_shares_of_255_and_come_back_as_bytes_are(model: Any, tmp_path: Any) -> None:
    x = pictures()
    of_bytes = clone(model).fit(x)
    of_shares = clone(model).fit((x / 255.0).astype(np.float32))
    z = of_bytes.transform(x)
    np.testing.assert_allclose(z, of_shares.transform((x / 255.0).astype(np.float32)), atol=1e-5)
    decoded = of_bytes.inverse_transform(z)
    assert decoded.min() >= 0
    assert 1 < decoded.max() <= 255
    np.testing.assert_allclose(decoded / 255, of_shares.inverse_transform(z), atol=1e-5)
    nm.save(of_bytes, tmp_path)
    again = nm.load(tmp_path)
    assert again.likelihood == "bernoulli"
    assert np.array_equal(again.inverse_transform(again.transform(x)), decoded)


@every
def test_two_seeds_in_one_program_equal_two_fits(model: Any) -> None:
    x = pictures()
    plan = Training(steps=3, batch_size=16, dtype="float64")
    settings = {"penalty": 0.1 * nm.DependencySparsity(points=4), "training": plan}
    together = clone(model).set_params(n_models=2, random_state=4, **settings).fit(x)
    for k in range(2):
        alone = clone(model).set_params(random_state=4 + k, **settings).fit(x)
        np.testing.assert_allclose(together.objectives_[k], alone.objectives_[0], rtol=1e-9)
        np.testing.assert_allclose(together.transform_all(x)[k], alone.transform(x), atol=1e-8)
    assert together.objectives_[0] != together.objectives_[1]


@pytest.mark.parametrize("penalty", PENALTIES, ids=lambda p: repr(p)[6:40])
@every
def test_every_penalty_acts_on_images(model: Any, penalty: Any) -> None:
    fitted = (
        clone(model).set_params(penalty=penalty, n_models=2, training=Training(steps=2, batch_size=8)).fit(pictures())
    )
    assert (fitted.terms_["penalty"] >= 0).all()
    assert np.isfinite(fitted.objectives_).all()


class Spots:
    """Pictures that are made when they are asked for."""

    shape = (1, 8, 8)

    def __len__(self) -> int:
        return 40

    def pictures(self, index: np.ndarray) -> np.ndarray:
        return pictures()[index]


def test_pictures_on_demand_are_fitted_like_their_bytes() -> None:
    lazy, stored = clone(MODELS[0]).fit(Spots()), clone(MODELS[0]).fit(pictures())
    np.testing.assert_allclose(lazy.transform(Spots()), stored.transform(pictures()), atol=1e-6)


def test_training_brings_the_cross_entropy_near_the_entropy_of_the_pixels() -> None:
    x = pictures(300)
    plan = Training(steps=150, batch_size=64)
    mlp = {"encoder": nm.MLP((32,)), "decoder": nm.MLP((32,))}
    model = nm.VAE(4, beta=0.1, likelihood="bernoulli", standardise=False, training=plan, random_state=0, **mlp).fit(x)
    p = (x / 255.0).clip(1e-9, 1 - 1e-9)
    entropy = float(-(p * np.log(p) + (1 - p) * np.log(1 - p)).sum(axis=1).mean())
    marginal = p.mean(axis=0)
    blind = float(-(marginal * np.log(marginal) + (1 - marginal) * np.log(1 - marginal)).sum())
    assert entropy < model.terms_["reconstruction"][0] < entropy + 0.4 * (blind - entropy)


def test_exchange_moves_find_the_linear_layers_behind_the_sigmoid() -> None:
    plan = Training(steps=6, batch_size=16, polish=1)
    line = {"encoder": nm.MLP((8,)), "decoder": nm.MLP((8,))}
    settings = {"penalty": 0.1 * nm.DependencySparsity(points=4), "training": plan, "random_state": 0}
    model = nm.VAE(2, likelihood="bernoulli", standardise=False, **line, **settings).fit(pictures())
    assert model.history_.steps[-1] > 6
    assert np.isfinite(model.objectives_).all()


class Doubled(VAEObjective):
    """A subclass that adds a term of its own."""

    def parts(self, x: Tensor, z: Tensor, posterior: Any, draws: dict[str, Tensor]) -> dict[str, Tensor]:
        return super().parts(x, z, posterior, draws) | {"extra": z.sum() + posterior[0].sum() + draws["noise"].sum()}

    def weigh(self, terms: dict[str, Tensor]) -> Tensor:
        return super().weigh(terms) + 2 * terms["extra"]


def test_a_subclass_adds_a_term_to_the_loss_beside_the_penalty() -> None:
    plain = built(clone(MODELS[0]).set_params(penalty=0.1 * nm.LatentSparsity())).requires_grad_(False)
    more = Doubled(plain.encoder, plain.decoder[0], plain.mean, plain.scale, beta=plain.beta, likelihood="bernoulli")
    more.penalty, more.n_latents = plain.penalty, plain.n_latents
    x, draws = rows(), plain.draws(20, torch.Generator().manual_seed(0))
    (before, _), (after, terms) = plain(x, draws, 1.0), more(x, draws, 1.0)
    mean, log_variance = plain.posterior(x)
    z = plain.draw(mean, log_variance, draws["noise"])
    torch.testing.assert_close(z, mean + (log_variance / 2).exp() * draws["noise"])
    torch.testing.assert_close(terms["extra"], z.sum() + mean.sum() + draws["noise"].sum())
    torch.testing.assert_close(after, before + 2 * terms["extra"])


# ---- what is refused -------------------------------------------------------------------------------------


@every
def test_bad_input_is_one_sentence(model: Any) -> None:
    x = (pictures() / 255.0).astype(np.float32)
    cases = [
        ({"likelihood": "poisson"}, x, r"likelihood must be one of gaussian, bernoulli\. Got 'poisson'\."),
        (
            {"standardise": True},
            x,
            r"must see the observations as they are, standardise=False\. Got standardise=True\.",
        ),
        ({}, x + 0.5, r"A Bernoulli likelihood must see x in \[0, 1\]\. Got values from 0\.5 to 1\.\d+\."),
        ({}, x - 0.25, r"must see x in \[0, 1\]\. Got values from -0\.25 to 0\.\d+\."),
        ({}, pictures().astype(np.int64), r"must see x in \[0, 1\]\. Got values from 0 to 2\d\d\."),
    ]
    for settings, given, sentence in cases:
        with pytest.raises(InputError, match=sentence) as caught:
            clone(model).set_params(**settings).fit(given)
        assert "\n" not in str(caught.value)


def test_bytes_and_the_normal_likelihood_are_free_of_the_range() -> None:
    check_range(source_of(pictures()), "bernoulli")
    check_range(source_of(Spots()), "bernoulli")
    check_range(source_of(np.array([[-3.0]])), "gaussian")


@pytest.mark.parametrize("moved", [3.0, -1.0])
def test_rows_outside_the_range_of_pixels_have_no_bernoulli_score(moved: float) -> None:
    x = np.random.default_rng(0).random((60, 5))
    training = Training(steps=5, batch_size=32)
    model = nm.VAE(2, likelihood="bernoulli", standardise=False, training=training, random_state=0).fit(x)
    assert model.score(x) < 0
    with pytest.raises(InputError, match=r"A Bernoulli likelihood must see x in \[0, 1\]"):
        model.score(moved * x)
