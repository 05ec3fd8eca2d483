"""EncDiff: scalars become tokens, tokens steer a latent diffusion model, and its loss trains the encoder."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from small_diffusion import TINY, batch, built, drawn, pictures
from torch import Tensor
from torch.func import functional_call, stack_module_state, vmap

from noumena.checks import InputError
from noumena.estimators.images import enc_diff as diffusion
from noumena.estimators.images.enc_diff import STEPS, DiffusionObjective, EncDiff, ddim, levels, trailing
from noumena.penalties import DependencySparsity, HessianPenalty, Interaction, LatentSparsity, OroJaR

# ---- noise -------------------------------------------------------------------------------------------------------


def test_the_levels_of_noise_are_those_of_a_slow_loop() -> None:
    alpha, sigma = levels(STEPS)
    signal = 1.0
    for t in range(STEPS):
        root = 0.0015**0.5 + (0.0155**0.5 - 0.0015**0.5) * t / (STEPS - 1)
        signal *= 1 - root**2
        if t in (0, 1, 500, STEPS - 1):
            assert float(alpha[t]) == pytest.approx(signal**0.5, rel=1e-5)
            assert float(sigma[t]) == pytest.approx((1 - signal) ** 0.5, rel=1e-5)


def test_noise_added_step_by_step_has_the_share_that_the_levels_say() -> None:
    alpha, sigma = (v.double() for v in levels(STEPS))
    ratio = (alpha[1:] / alpha[:-1]).square()  # 1 − β of every later step
    variance = sigma[0].square()
    for kept in ratio:
        variance = kept * variance + (1 - kept)
    assert float(variance) == pytest.approx(float(sigma[-1].square()), rel=1e-5)


def test_sampling_with_the_true_noise_recovers_the_maps_exactly() -> None:
    alpha, sigma = (v.double() for v in levels(STEPS))
    h, noise = torch.randn(2, 4, 6, dtype=torch.float64, generator=torch.Generator().manual_seed(0)).unbind()
    seen = []

    def predict(noisy: Tensor, t: int) -> Tensor:
        torch.testing.assert_close(noisy, alpha[t] * h + sigma[t] * noise)  # it stays on the way of the true noise
        seen.append(t)
        return noise

    for steps in (1, 7):
        times = trailing(steps, STEPS)
        start = alpha[times[0]] * h + sigma[times[0]] * noise
        torch.testing.assert_close(ddim(predict, start, times, alpha, sigma), h)
    assert seen == [999, *trailing(7, STEPS)]


def test_times_fall_evenly_from_the_noisiest() -> None:
    assert trailing(STEPS, STEPS) == list(range(STEPS))[::-1]
    gaps = np.diff(trailing(7, STEPS))
    assert set(gaps) <= {-143, -142}


def test_the_decoder_gives_what_the_predicted_noise_leaves() -> None:
    objective = built()
    decoder, target = objective.decoder, torch.randn(5, 32, generator=torch.Generator().manual_seed(1))

    class Knowing(torch.nn.Module):
        def forward(self, h: Tensor, t: Tensor, tokens: Tensor) -> Tensor:
            at = t.long()[:, None]
            return (h - decoder.alpha[at] * target) / decoder.sigma[at]

    decoder.unet = Knowing()
    decoder.level.fill_(0.5)
    decoder.unit.fill_(2.0)
    objective.scale.fill_(3.0)
    objective.mean.fill_(7.0)
    expected = 3 * decoder.autoencoder.decode(2 * target + 0.5) + 7
    torch.testing.assert_close(objective.decode(torch.zeros(5, 3)), expected, rtol=1e-3, atol=1e-3)


def test_sampled_maps_stay_between_the_ends_of_the_training_maps() -> None:
    objective, x = built(), batch()
    decoder = objective.decoder
    decoder.settle(x)
    decoder.unet.out[-1].weight.data.mul_(1e4)  # pyright: ignore[reportIndexIssue]
    seen: list[Tensor] = []
    plain = decoder.autoencoder.decode
    decoder.autoencoder.decode = lambda h: (seen.append(h), plain(h))[1]  # type: ignore[method-assign]
    objective.decode(torch.randn(5, 3, generator=torch.Generator().manual_seed(0)))
    maps = decoder.autoencoder.encode(x).unflatten(1, (2, -1)).movedim(1, 0).flatten(1)
    found = seen[0].unflatten(1, (2, -1)).movedim(1, 0).flatten(1)
    torch.testing.assert_close(found.amin(dim=1), maps.amin(dim=1))
    torch.testing.assert_close(found.amax(dim=1), maps.amax(dim=1))


def test_a_hardly_trained_model_decodes_to_values_that_can_be_shown() -> None:
    x = (255 * pictures()).astype(np.uint8)
    for seed in range(3):
        model = EncDiff(3, **{**TINY, "random_state": seed}).fit(x)
        assert np.abs(model.inverse_transform(model.transform(x))).max() < 4 * 255


# ---- the objective -----------------------------------------------------------------------------------------------


def by_hand(objective: DiffusionObjective, x: Tensor, draws: dict[str, Tensor], z: Tensor) -> Tensor:
    """The loss, row by row, from single calls."""
    decoder, found = objective.decoder, []
    for i in range(len(x)):
        t = int(draws["time"][i] * STEPS)
        h = (decoder.autoencoder.encode(x[i : i + 1]) - decoder.level) / decoder.unit
        noised = decoder.alpha[t] * h + decoder.sigma[t] * draws["noise"][i]
        tokens = decoder.concepts(z[i : i + 1])
        predicted = decoder.unet(noised, torch.tensor([float(t)]), tokens)
        found.append((predicted - draws["noise"][i]).abs().sum())
    return torch.stack(found).mean()


def test_the_loss_is_that_of_a_slow_loop() -> None:
    objective, x = built(), batch()
    objective.decoder.settle(x)
    draws = drawn(objective, 6)
    h = objective.encoder(x)
    z = (h - h.mean(dim=0)) / h.std(dim=0, correction=0)
    loss, terms = objective(x, draws, 1.0)
    torch.testing.assert_close(loss, by_hand(objective, x, draws, z), rtol=1e-4, atol=1e-4)
    assert torch.equal(terms["noise error"], loss)
    objective.normalise = False
    torch.testing.assert_close(objective(x, draws, 1.0)[0], by_hand(objective, x, draws, h), rtol=1e-4, atol=1e-4)


def test_times_reach_every_level_and_no_other() -> None:
    objective, x = built(), batch(2)
    for u, t in ((0.0, 0), (1.0, STEPS - 1)):
        draws = {"noise": torch.ones(2, 32), "time": torch.full((2,), u)}
        seen = []
        objective.decoder.predicted = lambda h, at, z, seen=seen: (seen.append(at.tolist()), h)[1]  # type: ignore[method-assign]
        objective(x, draws, 1.0)
        assert seen == [[t, t]]


def test_gradients_reach_every_trained_parameter_and_none_that_is_fixed() -> None:
    objective = built()
    loss, _ = objective(batch(), drawn(objective, 6), 1.0)
    loss.backward()
    for name, p in objective.named_parameters():
        fixed = name.startswith("decoder.autoencoder.")
        assert p.requires_grad != fixed, name
        assert (p.grad is None) if fixed else bool((p.grad != 0).any()), name


def test_several_models_in_one_program_equal_each_alone() -> None:
    models = [built(EncDiff(3, **(TINY | {"penalty": 0.1 * DependencySparsity(points=2)})), k) for k in range(2)]
    x, draws = batch(), drawn(models[0], 6)
    parameters, buffers = stack_module_state(models)  # type: ignore[arg-type]
    found, terms = vmap(lambda p, b: functional_call(models[0], (p, b), (x, draws, 1.0)))(parameters, buffers)
    for k, model in enumerate(models):
        loss, own = model(x, draws, 1.0)
        torch.testing.assert_close(found[k], loss, rtol=1e-5, atol=1e-5)
        torch.testing.assert_close(terms["penalty"][k], own["penalty"], rtol=1e-4, atol=1e-6)


def test_maps_have_mean_zero_and_variance_one_in_every_channel() -> None:
    objective, x = built(), batch(20)
    objective.decoder.settle(x)
    maps = objective.decoder.maps(x).unflatten(1, (2, 4, 4))
    torch.testing.assert_close(maps.mean(dim=(0, 2, 3)), torch.zeros(2), atol=1e-4, rtol=0)
    torch.testing.assert_close(maps.std(dim=(0, 2, 3), correction=0), torch.ones(2), atol=1e-3, rtol=0)


# ---- the penalty -------------------------------------------------------------------------------------------------


def test_the_penalty_sees_the_jacobian_of_what_one_step_of_denoising_says() -> None:
    objective, x = built(), batch().double()
    objective.double().decoder.settle(x)
    objective.penalty = DependencySparsity("l1", points=2)
    draws = {k: v.double() for k, v in drawn(objective, 6).items()}
    _, terms = objective(x, draws, 1.0)
    h = objective.encoder(x)
    z = (h - h.mean(dim=0)) / h.std(dim=0, correction=0)
    decoder, step, total = objective.decoder, 1e-5, 0.0
    for i in range(2):
        t = int(draws["time"][i] * STEPS)
        noised = decoder.alpha[t] * decoder.maps(x)[i] + decoder.sigma[t] * draws["noise"][i]

        def clean(y: Tensor, t: int = t, noised: Tensor = noised) -> Tensor:
            tokens = decoder.concepts(y[None])
            predicted = decoder.unet(noised[None], torch.tensor([float(t)], dtype=torch.float64), tokens)[0]
            return (noised - decoder.sigma[t] * predicted) / decoder.alpha[t]

        for j in range(3):
            move = step * torch.eye(3, dtype=torch.float64)[j]
            with torch.no_grad():
                total += float(((clean(z[i] + move) - clean(z[i] - move)) / (2 * step)).abs().sum())
    assert float(terms["penalty"].detach()) == pytest.approx(total / 2, rel=1e-4)


@pytest.mark.parametrize("penalty", [OroJaR(probes=3), Interaction(3, step=0.1, pairs=2, points=2)], ids=repr)
def test_points_beside_one_another_are_denoised_at_the_place_of_their_row(penalty: Any) -> None:
    objective, x = built(), batch()
    objective.penalty = penalty
    seen: list[tuple[Tensor, Tensor]] = []
    plain = objective.decoder.denoised
    objective.decoder.denoised = lambda h, t, z: (seen.append((h, z)), plain(h, t, z))[1]  # type: ignore[method-assign]
    objective(x, drawn(objective, 6), 1.0)
    h, z = max(seen, key=lambda found: len(found[0]))
    rows = diffusion.points(penalty, 6)
    each = len(z) // rows
    assert each > 1
    for i in range(rows):
        block = slice(i * each, (i + 1) * each)
        assert bool((h[block] == h[block][0]).all())
        assert float((z[block] - z[block][0]).detach().abs().max()) < 0.31  # moves of a step about one point
    assert len(h.unique(dim=0)) == rows


def test_every_term_of_a_sum_is_denoised_at_the_places_of_its_own_rows() -> None:
    few, all_rows = Interaction(3, step=0.1, pairs=2, points=2), DependencySparsity("l1")
    objective, x = built(), batch()
    objective.penalty = 0.5 * few + 2 * all_rows
    draws = drawn(objective, 6)
    own = {name.removeprefix("0."): value for name, value in draws.items() if name.startswith("0.")}
    assert own
    together = float(objective(x, draws, 1.0)[1]["penalty"].detach())
    alone = []
    for term in (few, all_rows):
        objective.penalty = term
        alone.append(float(objective(x, draws | own, 1.0)[1]["penalty"].detach()))
    assert together == pytest.approx(0.5 * alone[0] + 2 * alone[1], rel=1e-5)


@pytest.mark.parametrize(
    "penalty",
    [LatentSparsity(), DependencySparsity(points=2), OroJaR(), HessianPenalty()],
    ids=lambda p: type(p).__name__,
)
def test_every_penalty_is_trained_with(penalty: Any) -> None:
    model = EncDiff(3, penalty=0.1 * penalty, n_models=2, **TINY).fit(pictures())
    torch.testing.assert_close(model.objectives_, model.terms_["noise error"] + model.terms_["penalty"])
    assert (model.terms_["penalty"] > 0).all()


def test_a_penalty_needs_scalars_of_a_fixed_scale() -> None:
    with pytest.raises(InputError, match="vacuous; set normalise=True"):
        EncDiff(3, penalty=LatentSparsity(), normalise=False, **TINY).fit(pictures())
