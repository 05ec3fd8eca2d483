"""QLAE: every latent takes the nearest of its own few values, and values and encoder follow each other."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from sklearn.base import clone
from torch import Tensor

import noumena as nm
from noumena import seeds
from noumena.checks import InputError
from noumena.estimators.images.qlae import QLAE, nearest, quantised, straight_through
from noumena.estimators.loop import Training
from noumena.nets import MLP
from noumena.nets.conv import ConvDecoder, ConvEncoder

NET = MLP(hidden=(8,))
QUICK = Training(steps=4, batch_size=16)


def data(rows: int = 60) -> np.ndarray:
    rng = np.random.default_rng(0)
    return rng.normal(size=(rows, 2)) @ rng.normal(size=(2, 4)) + 0.1 * rng.normal(size=(rows, 4))


def built(seed: int = 0, **settings: Any) -> Any:
    with seeds.global_torch(seed, "init"):
        return QLAE(3, encoder=NET, decoder=NET, **settings)._build(4, torch.zeros(4), torch.ones(4))


def rows() -> Tensor:
    return torch.as_tensor(data(), dtype=torch.float32)


def moved(module: Any) -> set[bool]:
    return {p.grad is not None and bool((p.grad != 0).any()) for p in module.parameters()}


# ---- the codebook ----------------------------------------------------------------------------------------


def test_every_latent_gets_the_nearest_of_its_own_values_as_a_slow_loop_finds_it() -> None:
    generator = torch.Generator().manual_seed(0)
    h, values = 2 * torch.randn(50, 3, generator=generator), torch.randn(3, 4, generator=generator)
    index, found = nearest(h, values), quantised(h, values)
    for b in range(50):
        for j in range(3):
            best = min(range(4), key=lambda v: abs(float(h[b, j]) - float(values[j, v])))
            assert int(index[b, j]) == best
            assert float(found[b, j]) == float(values[j, best])
    assert len(index.unique()) == 4


def test_values_are_kept_by_quantising_twice_and_ties_go_to_the_first() -> None:
    values = torch.tensor([[-1.0, 1.0], [0.0, 3.0]])
    once = quantised(torch.tensor([[0.0, 1.4], [0.1, 1.6]]), values)
    assert once.tolist() == [[-1.0, 0.0], [1.0, 3.0]]
    assert torch.equal(quantised(once, values), once)


def test_moving_and_stretching_latents_and_values_together_changes_no_index() -> None:
    generator = torch.Generator().manual_seed(1)
    h, values = torch.randn(40, 2, generator=generator), torch.randn(2, 5, generator=generator)
    scale, shift = torch.tensor([3.0, 0.2]), torch.tensor([-1.0, 7.0])
    other = nearest(scale * h + shift, scale[:, None] * values + shift[:, None])
    assert torch.equal(other, nearest(h, values))


def test_gradients_pass_straight_through_and_a_value_gets_those_of_its_own_rows() -> None:
    h = torch.tensor([[0.1], [0.2], [0.9]], requires_grad=True)
    values = torch.tensor([[0.0, 1.0, 5.0]], requires_grad=True)
    z = straight_through(h, quantised(h, values))
    assert z.detach().tolist() == [[0.0], [0.0], [1.0]]
    weights = torch.tensor([[2.0], [3.0], [5.0]])
    (weights * z).sum().backward()
    assert h.grad is not None
    assert torch.equal(h.grad, weights)
    assert values.grad is None
    (own,) = torch.autograd.grad((weights * quantised(h, values)).sum(), values)
    assert own.tolist() == [[5.0, 5.0, 0.0]]


def test_the_values_start_on_a_grid_from_minus_a_half_to_a_half_the_same_for_all() -> None:
    model = built(n_values=5)
    assert model.values.tolist() == [[-0.5, -0.25, 0.0, 0.25, 0.5]] * 3
    assert built().values.shape == (3, 10)


# ---- the objective ---------------------------------------------------------------------------------------


def test_the_loss_is_the_published_one_times_the_number_of_observations() -> None:
    model, x = built(quantise=0.3, commit=0.7).requires_grad_(False), 3 * rows()
    loss, terms = model(x, {}, 1.0)
    h = model.encoder(x)
    z = model.code(x)
    mean_error = (model.decoder(z) - x).square().mean()
    apart = (h - z).square().mean()
    assert float(apart) > 1e-4
    torch.testing.assert_close(loss, 4 * (mean_error + 0.3 * apart + 0.7 * apart))
    torch.testing.assert_close(terms["quantise"], apart)
    torch.testing.assert_close(terms["commit"], apart)


@pytest.mark.parametrize(
    ("term", "reached"),
    [("reconstruction", (True, True, False)), ("quantise", (False, False, True)), ("commit", (True, False, False))],
)
def test_a_terms_gradient_reaches_encoder_decoder_and_values_as_it_should(term: str, reached: Any) -> None:
    model = built()
    _, terms = model(rows(), {}, 1.0)
    terms[term].backward()
    values = model.shift.grad is not None and bool((model.shift.grad != 0).any())
    assert (moved(model.encoder), moved(model.decoder), values) == ({reached[0]}, {reached[1]}, reached[2])


def test_beyond_its_last_value_a_latent_is_brought_back_by_commitment_alone() -> None:
    model = built()
    with torch.no_grad():
        model.encoder[-1].bias.copy_(torch.tensor([9.0, -9.0, 9.0]))
    for term, reached in (("reconstruction", False), ("commit", True)):
        model.zero_grad()
        _, terms = model(rows(), {}, 1.0)
        terms[term].backward()
        assert moved(model.encoder) == {reached}
    assert (torch.sign(model.encoder[-1].bias.grad) == torch.tensor([1.0, -1.0, 1.0])).all()


def test_latents_in_use_are_those_that_take_several_values() -> None:
    model = built().requires_grad_(False)
    model.encoder[-1].weight[1] = 0.0
    assert float(model(rows(), {}, 1.0)[1]["active"]) == 2


def test_a_fixed_grid_has_no_parameter_and_learned_values_move() -> None:
    plan = Training(steps=30, batch_size=32)
    settings = {"encoder": NET, "decoder": NET, "training": plan, "random_state": 0}
    fixed, learned = (QLAE(2, learn_values=learn, **settings).fit(data()).models_[0] for learn in (False, True))
    assert torch.equal(fixed.values, fixed.grid)
    assert "shift" not in fixed.state_dict()
    assert float((learned.values - learned.grid).abs().max()) > 1e-3


def test_weight_decay_draws_values_back_to_the_grid_and_not_to_zero() -> None:
    """With nothing to follow, values stay where they began, however heavy the decay."""
    plan = Training(steps=30, batch_size=32, weight_decay=5.0, learning_rate=1e-2)
    model = QLAE(2, quantise=0.0, encoder=NET, decoder=NET, training=plan, random_state=0).fit(data()).models_[0]
    torch.testing.assert_close(model.values, model.grid)


# ---- the estimator ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("learn", [True, False])
def test_a_fit_reconstructs_and_transform_gives_values_of_the_codebook(learn: bool) -> None:
    x = data(500)
    plan = Training(steps=150, batch_size=64, learning_rate=1e-2)
    model = QLAE(2, learn_values=learn, encoder=MLP((16,)), decoder=MLP((16,)), training=plan, random_state=0).fit(x)
    z = torch.as_tensor(model.transform(x.astype(np.float32)))
    values = model.models_[0].values.detach()
    assert bool((z[..., None] == values).any(dim=-1).all())
    assert len(z[:, 0].unique()) > 5
    assert model.terms_["reconstruction"][0] < 0.8  # of 4, the variance of the standardised observations
    assert model.terms_["commit"][0] < 0.03  # the encoder has not run off


def test_two_seeds_in_one_program_equal_two_fits() -> None:
    plan = Training(steps=5, batch_size=32, dtype="float64")
    settings = {"encoder": NET, "decoder": NET, "training": plan}
    together = QLAE(3, n_models=2, random_state=4, **settings).fit(data())
    for k in range(2):
        alone = QLAE(3, random_state=4 + k, **settings).fit(data())
        np.testing.assert_allclose(together.objectives_[k], alone.objectives_[0], rtol=1e-9)
        np.testing.assert_allclose(together.transform_all(data())[k], alone.transform(data()), atol=1e-9)
    assert together.objectives_[0] != together.objectives_[1]


def test_images_are_fitted_by_convolutions_and_come_back_from_a_file(tmp_path: Any) -> None:
    x = np.random.default_rng(0).integers(0, 256, size=(40, 64)).astype(np.uint8)
    shape = {"channels": 1, "size": 8, "widths": (3, 4), "hidden": 6}
    model = QLAE(
        3, n_values=4, likelihood="bernoulli", encoder=ConvEncoder(**shape), decoder=ConvDecoder(**shape),
        standardise=False, n_models=2, training=Training(steps=3, batch_size=16, weight_decay=0.1), random_state=0,
    ).fit(x)  # fmt: skip
    assert model.transform_all(x).shape == (2, 40, 3)
    assert (
        0
        <= model.inverse_transform(model.transform(x)).min()
        < model.inverse_transform(model.transform(x)).max()
        <= 255
    )
    nm.save(model, tmp_path)
    again = nm.load(tmp_path)
    assert np.array_equal(again.transform(x), model.transform(x))
    assert torch.equal(again.models_[1].values, model.models_[1].values)
    assert again.get_params()["n_values"] == 4


def test_a_penalty_is_taken_at_the_quantised_latents_and_is_added_to_the_loss() -> None:
    seen = []

    class Watching(nm.LatentSparsity):
        def __call__(self, decoder: Any, z: Tensor, progress: float = 1.0, draws: Any = None) -> Tensor:
            seen.append((decoder, z))
            return super().__call__(decoder, z, progress, draws)

    model = built(learn_values=False, penalty=0.5 * Watching()).requires_grad_(False)
    loss, terms = model(rows(), {}, 1.0)
    (decoder, z), expected = seen[0], model.code(rows())
    assert decoder is model.decoder
    torch.testing.assert_close(z, expected)
    torch.testing.assert_close(terms["penalty"], 0.5 * expected.abs().mean())
    model.penalty = None
    torch.testing.assert_close(loss, model(rows(), {}, 1.0)[0] + terms["penalty"])


def test_a_penalty_that_needs_a_scale_asks_for_a_fixed_grid_and_one_that_does_not_is_free() -> None:
    with pytest.raises(InputError, match=r"vacuous; set learn_values=False, or use VAE\."):
        QLAE(penalty=nm.DependencySparsity(), training=QUICK).fit(data())
    for settings in ({"penalty": nm.DependencySparsity(), "learn_values": False}, {"penalty": nm.IMAContrast()}):
        assert np.isfinite(QLAE(training=QUICK, random_state=0, **settings).fit(data()).terms_["penalty"]).all()


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"n_values": 1}, r"n_values must be a whole number of at least 2\. Got 1\."),
        ({"quantise": -1}, r"quantise must be a finite number in \[0, inf\]\. Got -1\."),
        ({"commit": -1}, r"commit must be a finite number in \[0, inf\]\. Got -1\."),
        ({"training": Training(polish=1)}, r"polish must be 0, for its moves take latents off their values\. Got 1\."),
    ],
)
def test_bad_input_is_one_sentence(settings: Any, sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        clone(QLAE(training=QUICK)).set_params(**settings).fit(data())
