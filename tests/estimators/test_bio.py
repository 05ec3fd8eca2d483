"""BioAE: non-negative latents that cost energy, and weights that cost."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from sklearn.base import clone
from torch import Tensor, nn
from torch.func import functional_call, stack_module_state, vmap

import noumena as nm
from noumena import seeds
from noumena.checks import InputError
from noumena.estimators.bio import BioAE, activity, negativity, squared_weights
from noumena.estimators.loop import Training
from noumena.metrics import mcc
from noumena.nets import MLP

NET = MLP(hidden=(8,))
NAMES = ("energy", "weight", "negativity")


def data(rows: int = 60) -> np.ndarray:
    rng = np.random.default_rng(0)
    return rng.normal(size=(rows, 2)) @ rng.normal(size=(2, 4)) + 0.1 * rng.normal(size=(rows, 4))


def objective(seed: int = 0, **settings: Any) -> Any:
    with seeds.global_torch(seed, "init"):
        return BioAE(3, encoder=NET, decoder=NET, **settings)._build(4, torch.zeros(4), torch.ones(4))


def test_activity_keeps_under_rotation_and_negativity_under_permutation_only() -> None:
    z = torch.randn(9, 3, generator=torch.Generator().manual_seed(0))
    turn = torch.linalg.qr(torch.randn(3, 3, generator=torch.Generator().manual_seed(1))).Q
    torch.testing.assert_close(activity(z @ turn), activity(z))
    torch.testing.assert_close(negativity(z[:, [2, 0, 1]]), negativity(z))
    assert not torch.allclose(negativity(z @ turn), negativity(z))
    assert bool((negativity(z.abs()) == 0).all())
    assert bool((negativity(-z.abs()) > 0).all())


def test_squared_weights_are_those_of_all_networks_without_biases() -> None:
    nets = MLP(hidden=(5,))(3, 2), nn.Conv2d(2, 3, 4)
    for net in nets:
        net.requires_grad_(False)
    expected = sum(float(p.square().sum()) for net in nets for n, p in net.named_parameters() if n.endswith("weight"))
    assert float(squared_weights(*nets)) == pytest.approx(expected)
    for net in nets:
        for name, p in net.named_parameters():
            if name.endswith("bias"):
                p.add_(9.0)
    assert float(squared_weights(*nets)) == pytest.approx(expected)


@pytest.mark.parametrize("name", NAMES)
def test_the_loss_is_the_reconstruction_and_every_term_at_its_price(name: str) -> None:
    x = torch.as_tensor(data(), dtype=torch.float32)
    model = objective(**{**dict.fromkeys(NAMES, 0.0), name: 0.7}).requires_grad_(False)
    loss, terms = model(x, {}, 1.0)
    z = model.encoder(x)
    torch.testing.assert_close(terms["reconstruction"], (model.decoder(z) - x).square().sum(dim=1).mean())
    own = {
        "energy": z.square().sum() / len(x),
        "weight": squared_weights(model.encoder, model.decoder),
        "negativity": -z[z < 0].sum() / len(x),
    }
    torch.testing.assert_close(loss, terms["reconstruction"] + 0.7 * own[name])
    assert float(own[name]) > 0


@pytest.mark.parametrize(("name", "reached"), [("energy", "encoder"), ("negativity", "encoder"), ("weight", "both")])
def test_gradients_of_a_price_reach_what_it_is_paid_for(name: str, reached: str) -> None:
    model = objective()
    _, terms = model(torch.as_tensor(data(), dtype=torch.float32), {}, 1.0)
    terms[name].backward()
    for part, weights in (("encoder", model.encoder), ("decoder", model.decoder)):
        moved = [p.grad is not None and bool((p.grad != 0).any()) for p in weights.parameters() if p.ndim > 1]
        assert set(moved) == {reached in (part, "both")}


def test_every_models_weights_are_its_own_when_several_run_at_once() -> None:
    models = [objective(seed) for seed in range(3)]
    parameters, buffers = stack_module_state(models)
    x = torch.as_tensor(data(), dtype=torch.float32)
    skeleton = objective().to("meta")

    def one(p: dict[str, Tensor], b: dict[str, Tensor]) -> tuple[Tensor, dict[str, Tensor]]:
        return functional_call(skeleton, (p, b), (x, {}, 1.0))

    loss, terms = vmap(one)(parameters, buffers)
    for k, model in enumerate(models):
        alone, own = model(x, {}, 1.0)
        torch.testing.assert_close(loss[k], alone)
        torch.testing.assert_close(terms["weight"][k], own["weight"])
    assert len({round(float(w), 4) for w in terms["weight"].detach()}) == 3


def test_prices_shrink_what_they_are_on() -> None:
    x = data(300)
    model = BioAE(
        2, energy=0.0, weight=0.0, negativity=0.0, encoder=NET, decoder=NET,
        training=Training(steps=60, batch_size=64, learning_rate=3e-2), random_state=0,
    )  # fmt: skip
    free = clone(model).fit(x).terms_
    for name, price in (("energy", 1.0), ("weight", 0.3), ("negativity", 3.0)):
        priced = clone(model).set_params(**{name: price}).fit(x)
        assert float(priced.terms_[name][0]) < 0.5 * float(free[name][0])


def test_independent_factors_get_latents_of_their_own_although_their_mixing_is_a_rotation() -> None:
    """Two uniform factors turned by a third of a right angle: the cheapest non-negative linear code is the factors."""
    z = np.random.default_rng(0).uniform(size=(600, 2))
    x = (z @ np.array([[np.cos(0.5), np.sin(0.5)], [-np.sin(0.5), np.cos(0.5)]])).astype(np.float32)
    line = MLP(hidden=())
    found = [
        BioAE(
            2, energy=energy, weight=0.01, negativity=negative, encoder=line, decoder=line, standardise=False,
            training=Training(steps=250, batch_size=64, learning_rate=3e-2), random_state=0,
        ).fit(x)
        for energy, negative in ((0.02, 1.0), (0.0, 0.0))
    ]  # fmt: skip
    scores = [mcc(z, model.transform(x)).score for model in found]
    assert scores[0] > 0.975
    assert scores[1] < 0.95
    assert float(found[0].transform(x).min()) > -0.05


PENALTIES = [nm.LatentSparsity(), nm.DependencySparsity("l1", points=8), nm.OroJaR(), nm.HessianPenalty()]


@pytest.mark.parametrize("penalty", PENALTIES, ids=lambda p: type(p).__name__)
def test_a_penalty_is_taken_at_the_latents_and_is_added_to_the_loss(penalty: nm.Penalty) -> None:
    x = torch.as_tensor(data(), dtype=torch.float32)
    model = objective(penalty=0.5 * penalty).requires_grad_(False)
    draws = model.draws(len(x), torch.Generator().manual_seed(0))
    loss, terms = model(x, draws, 1.0)
    own = {name.removeprefix("0."): value for name, value in draws.items()}
    torch.testing.assert_close(terms["penalty"], 0.5 * penalty(model.decoder, model.encoder(x), 1.0, own))
    assert float(terms["penalty"]) > 0
    model.penalty = None
    torch.testing.assert_close(loss, model(x, draws, 1.0)[0] + terms["penalty"])


def test_the_gradient_of_a_penalty_reaches_the_decoder() -> None:
    model = objective(penalty=nm.DependencySparsity())
    _, terms = model(torch.as_tensor(data(), dtype=torch.float32), {}, 1.0)
    terms["penalty"].backward()
    assert all(bool((p.grad != 0).any()) for p in model.decoder.parameters() if p.ndim > 1)


def test_energy_keeps_a_penalty_from_being_escaped_by_growing_latents() -> None:
    """Without a price on energy the same penalty is lowered by latents that grow; the check is passed by hand."""
    x = torch.as_tensor(data(200), dtype=torch.float32)
    spreads = []
    for energy in (1.0, 0.0):
        model = objective(energy=energy, weight=0.0, penalty=0.5 * nm.DependencySparsity("l1"))
        adam = torch.optim.Adam(model.parameters(), lr=3e-2)
        for _ in range(60):
            adam.zero_grad()
            model(x, {}, 1.0)[0].backward()
            adam.step()
        spreads.append(float(model.code(x).detach().std(dim=0).max()))
    assert spreads[1] > 2 * spreads[0]


@pytest.mark.parametrize("price", ["energy", "weight"])
def test_a_penalty_that_needs_a_scale_is_refused_where_rescaling_is_free(price: str) -> None:
    quick = Training(steps=2, batch_size=16)
    with pytest.raises(InputError, match=r"vacuous; give both energy and weight a price above 0\."):
        BioAE(penalty=nm.DependencySparsity(), training=quick, **{price: 0.0}).fit(data())
    free = BioAE(penalty=nm.IMAContrast(), encoder=NET, decoder=NET, training=quick, random_state=0, **{price: 0.0})
    assert np.isfinite(free.fit(data()).terms_["penalty"]).all()


def test_a_negative_price_is_refused() -> None:
    for name in NAMES:
        with pytest.raises(InputError, match=rf"{name} must be a finite number in \[0, inf\]\. Got -1\."):
            BioAE(**{name: -1}).fit(data())
