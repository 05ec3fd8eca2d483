"""The generative adversarial network: two players in one loss, each moved by its own part of it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.func import functional_call, stack_module_state, vmap
from torch.nn.functional import softplus

from noumena import seeds
from noumena.checks import InputError
from noumena.estimators.fit_data import FitData
from noumena.estimators.images.style_gan import StyleGAN, squared_slope
from noumena.estimators.images.style_networks import StyleDiscriminator, StyleGenerator
from noumena.estimators.loop import train
from noumena.estimators.training import Training

GENERATOR = StyleGenerator(1, 8, widths=(6, 4), style=5, depth=2)


def game(seed: int = 0, *, compares: bool = True, r1: float = 1.0) -> StyleGAN:
    with seeds.global_torch(seed, "a game"):
        judge = StyleDiscriminator(1, 8, widths=(4, 6), compares=compares)(64, 1)
        return StyleGAN(GENERATOR(4, 64), judge, noise=4, r1=r1)


def bars(rows: int = 64) -> Tensor:
    """Dark images with one bright column, which differs from row to row."""
    x = torch.zeros(rows, 8, 8)
    x[torch.arange(rows), :, torch.arange(rows) % 8] = 1.0
    return x.flatten(1)


def trained(seeds_: list[int], *, steps: int = 3, **settings: Any) -> list[Any]:
    rows = FitData(bars(), bars(16), "bars")
    plan = Training(**{"steps": steps, "batch_size": 16, "learning_rate": 2e-3, "schedule": "constant", **settings})
    return list(train([game(s) for s in seeds_], seeds_, rows, plan).models)


def inputs(model: StyleGAN, rows: int = 8) -> tuple[Tensor, dict[str, Tensor]]:
    return bars(rows), model.draws(rows, torch.Generator().manual_seed(1))


def test_the_gradient_penalty_and_its_gradient_are_those_of_autograd() -> None:
    judge: Any = game().discriminator.double()
    x = bars(4).double().requires_grad_()
    (slope,) = torch.autograd.grad(judge(x).sum(), x, create_graph=True)
    slow = slope.square().sum(dim=1).mean()
    slow_moves = torch.autograd.grad(slow, list(judge.parameters()), allow_unused=True)
    found = squared_slope(judge, x.detach())
    moves = torch.autograd.grad(found, list(judge.parameters()), allow_unused=True)
    torch.testing.assert_close(found, slow)
    reached = [(a, b) for a, b in zip(moves, slow_moves, strict=True) if b is not None]
    assert len(reached) > 8
    for a, b in reached:
        torch.testing.assert_close(a, b)


def test_losses_are_those_of_logistic_players() -> None:
    model = game(r1=3.0)
    x, draws = inputs(model)
    loss, terms = model(x, draws, 0.5)
    made = model.generator(draws["noise"])
    fake, real = model.discriminator(made), model.discriminator(x)
    slope = squared_slope(model.discriminator, x[:2])
    torch.testing.assert_close(terms["generator"], softplus(-fake).mean())
    torch.testing.assert_close(terms["slope"], slope)
    torch.testing.assert_close(terms["adversary"], softplus(fake).mean() + softplus(-real).mean() + 1.5 * slope)
    torch.testing.assert_close(loss, terms["generator"] + terms["adversary"])
    assert float(slope.detach()) > 0


def test_each_player_is_moved_by_its_own_loss_only() -> None:
    model = game()
    x, draws = inputs(model)
    moved_by = {"generator": "generator.", "adversary": "discriminator.", "slope": "discriminator."}
    for term, own in moved_by.items():
        model.zero_grad()
        model(x, draws, 0.5)[1][term].backward()
        moved = {n for n, p in model.named_parameters() if p.grad is not None and bool((p.grad != 0).any())}
        assert moved
        assert all(name.startswith(own) for name in moved)
        if term != "slope":  # a bias of the last layer has no slope
            assert moved == {name for name, _ in model.named_parameters() if name.startswith(own)}


def test_two_games_as_one_program_have_the_losses_and_gradients_of_each() -> None:
    models = [game(k).double() for k in range(2)]
    x, draws = inputs(models[0])
    x, draws = x.double(), {k: v.double() for k, v in draws.items()}
    parameters, buffers = stack_module_state(models)  # type: ignore[arg-type]
    loss, _ = vmap(lambda p, b: functional_call(models[0], (p, b), (x, draws, 0.5)))(parameters, buffers)
    loss.sum().backward()
    for k, model in enumerate(models):
        alone, _ = model(x, draws, 0.5)
        alone.backward()
        torch.testing.assert_close(loss[k], alone)
        for name, p in model.named_parameters():
            torch.testing.assert_close(parameters[name].grad[k], p.grad)


def test_a_seed_trained_beside_another_is_the_seed_trained_alone() -> None:
    both, alone, again = trained([3, 4]), trained([4]), trained([4])
    noise = torch.randn(3, 4, generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(both[1].generator(noise), alone[0].generator(noise), atol=1e-4, rtol=1e-4)
    assert torch.equal(alone[0].generator(noise), again[0].generator(noise))
    assert not torch.allclose(both[0].generator(noise), both[1].generator(noise))


def test_the_mapping_moves_a_hundredth_as_fast_and_nobody_remembers_directions() -> None:
    before, (after,) = game(0), trained([0], steps=1)
    moved = {
        name: float((p.detach() - q).abs().max())
        for (name, p), q in zip(before.named_parameters(), after.parameters(), strict=True)
    }
    for name, distance in moved.items():  # Adam's first step is the rate itself
        pace = 0.01 if "mapping" in name else 1.0
        assert distance == pytest.approx(2e-3 * pace, rel=0.05), name
    assert {pace.betas for pace in StyleGAN.paces.values()} == {(0.0, 0.99)}


def test_the_last_weights_are_kept_and_not_those_of_the_best_look() -> None:
    rows, models = FitData(bars(), bars(16), "bars"), [game(0)]
    plan = Training(steps=6, batch_size=16, learning_rate=2e-2, schedule="constant")
    seen = train(models, [0], rows, plan)  # type: ignore[arg-type]
    last = [np.array(seen.history.values[name])[-1] for name in ("objective", "adversary")]
    np.testing.assert_allclose([seen.objectives, seen.terms["adversary"]], last, rtol=1e-6)
    objectives = np.array(seen.history.values["objective"])
    assert objectives.argmin() != len(objectives) - 1
    np.testing.assert_allclose(seen.objectives, seen.terms["generator"], rtol=1e-5)  # without the opponent's loss
    averaged = trained([0], steps=6, average=0.5)[0].sample(4)
    assert not torch.allclose(averaged, models[0].sample(4))


def test_samples_are_told_by_their_seed() -> None:
    model = game()
    assert model.sample(3).shape == (3, 64)
    assert torch.equal(model.sample(3, random_state=1), model.sample(3, random_state=1))
    assert not torch.allclose(model.sample(3, random_state=1), model.sample(3, random_state=2))
    with pytest.raises(InputError, match="n must be a whole number of at least 1"):
        model.sample(0)


def test_training_brings_samples_to_the_data_and_to_all_kinds_of_it() -> None:
    ends = torch.zeros(2, 4, 4)
    ends[0, :, 0] = ends[1, :, 2] = 1.0  # a bright bar at one of two places
    ends = ends.flatten(1)
    with seeds.global_torch(0, "a small game"):
        small = StyleGenerator(1, 4, widths=(8,), style=4, depth=1)(2, 16)
        model = StyleGAN(small, StyleDiscriminator(1, 4, widths=(8,))(16, 1), noise=2, r1=0.2)
    before = torch.cdist(model.sample(64), ends).amin(dim=1).mean()
    plan = Training(steps=100, batch_size=32, learning_rate=2e-2, schedule="constant")
    train([model], [0], FitData(ends.repeat(32, 1), ends.repeat(8, 1), "ends"), plan)
    after, nearest = torch.cdist(model.sample(64), ends).min(dim=1)
    assert float(after.mean()) < 0.4 * float(before)
    assert 0.1 < float(nearest.float().mean()) < 0.9
